#!/usr/bin/python3
"""Runs the black-box tests of the command line.

    LOQUET=path/to/loquet LOQUETD=path/to/loquetd tests/cli/run.py [NAME...]

NAME picks the tests whose id (file.Class.test) contains it; without names all run. Each test runs in a process of its
own, several at a time (LOQUET_TEST_JOBS, 4), since most of them wait. LOQUET_TEST_TIMES=1 shows the slowest ones. Quiet
when green. The last line is always `N passed, N failed`; exit status 0 if some passed and none failed.
"""

import concurrent.futures
import os
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = int(os.environ.get("LOQUET_TEST_JOBS") or 4)
SECONDS = 90  # the longest that one test may take


def all_ids():
    """The ids of all tests; a module that does not import counts as a test that fails."""
    pending, ids = [unittest.defaultTestLoader.discover(HERE, top_level_dir=HERE)], []
    while pending:
        item = pending.pop()
        if isinstance(item, unittest.TestSuite):
            pending.extend(item)
        elif item.id().startswith("unittest."):
            ids.append(item.id().rpartition(".")[2])
        else:
            ids.append(item.id())
    return sorted(ids)


def run_one(name):
    """Runs one test in a session of its own, which is ended whole. Returns (name, seconds, what went wrong or None)."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "unittest", "-q", name], cwd=HERE, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out = process.communicate()[0] + "\nran longer than %d s" % SECONDS
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return name, time.monotonic() - began, None if process.returncode == 0 else out


def main():
    for variable in ("LOQUET", "LOQUETD"):
        path = os.environ.get(variable, "")
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            print("%s=%s does not name a program" % (variable, path))
            return 1
        os.environ[variable] = os.path.abspath(path)
    ids = [name for name in all_ids() if not sys.argv[1:] or any(wanted in name for wanted in sys.argv[1:])]
    failed, times = 0, []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, seconds, trouble in pool.map(run_one, ids):
            times.append((seconds, name))
            if trouble is not None:
                failed += 1
                print("FAILED %s\n%s" % (name, "".join("    %s\n" % line for line in trouble.splitlines())))
    if os.environ.get("LOQUET_TEST_TIMES"):
        for seconds, name in sorted(times, reverse=True)[:15]:
            print("%6.2f s  %s" % (seconds, name))
    print("%d passed, %d failed" % (len(ids) - failed, failed))
    return 0 if ids and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
