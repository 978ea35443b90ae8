#!/usr/bin/python3
"""Runs the black-box tests of loquetd over TCP.

    LOQUETD=path/to/loquetd tests/integration/run.py [--in FOLDER] [NAME...]

FOLDER holds other tests of the same kind (tests/cluster). NAME picks the tests whose id (file.Class.test) contains it;
without names all run. Each unit (a class, or a single test of a class marked `spread`) runs in a process of its own, several at a time, since most of them wait. With
LOQUET_ADDRESS=HOST:PORT[,HOST:PORT...] only the tests that hold for any node run, against the servers there; what is
left out is counted and named. LOQUET_TEST_SEED repeats the random choices of an earlier run, LOQUET_TEST_JOBS sets how
many units run at a time (6), LOQUET_TEST_TIMES=1 shows the slowest ones. Quiet when green. The last line is always
`N passed, N failed`; exit status 0 if none failed.
"""

import concurrent.futures
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.abspath(os.environ.get("LOQUET_TEST_FOLDER") or HERE)
sys.path[:0] = [FOLDER, HERE]

import lqcase  # noqa: E402
import lqserver  # noqa: E402

JOBS = int(os.environ.get("LOQUET_TEST_JOBS") or 6)


def all_tests():
    suite = unittest.defaultTestLoader.discover(FOLDER, pattern="test_*.py", top_level_dir=FOLDER)
    pending, tests = [suite], []
    while pending:
        item = pending.pop()
        if isinstance(item, unittest.TestSuite):
            pending.extend(item)
        else:
            tests.append(item)  # a module that does not import is here too, as a test that fails
    return sorted(tests, key=lambda t: t.id())


def runs_here(test):
    """Whether a test may run against LOQUET_ADDRESS."""
    if not isinstance(test, lqcase.LoquetCase):
        return True
    return test.any_node and not hasattr(getattr(test, test._testMethodName), "simple_mode_only")


class Unit:
    """What one worker process runs: the tests of one class, or one test of a class that is spread."""

    def __init__(self, name, tests):
        self.name = name
        self.ids = [t.id() for t in tests]
        self.alone = getattr(tests[0], "alone", False)
        self.seconds = getattr(tests[0], "seconds", 120)


def units_of(tests):
    groups = {}
    for t in tests:
        name = t.id() if getattr(t, "spread", False) else t.id().rpartition(".")[0]
        groups.setdefault(name, []).append(t)
    return [Unit(name, group) for name, group in groups.items()]


# The worker side.


class Result(unittest.TestResult):
    """Keeps whole texts of failures, by test; a failed set-up or tear-down counts as a test of its own."""

    def __init__(self):
        super().__init__()
        self.texts = {}
        self.seen = set()

    def startTest(self, test):
        super().startTest(test)
        self.seen.add(test.id())

    def _add(self, test, err):
        self.texts.setdefault(test.id(), []).append(self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self._add(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._add(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.texts.setdefault(test.id(), []).append(
                "%s\n%s" % (subtest._subDescription(), self._exc_info_to_string(err, test))
            )

    def addSkip(self, test, reason):
        self.texts.setdefault(test.id(), []).append("skipped, and nothing may be skipped: " + reason)

    def addUnexpectedSuccess(self, test):
        self.texts.setdefault(test.id(), []).append("unexpected success")


def work(ids, seconds):
    """Runs the tests with these ids; prints one line of JSON."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    result = Result()
    if any(name.startswith("unittest.") for name in ids):  # a module that does not import
        tests = unittest.TestSuite(t for t in all_tests() if t.id() in ids)
    else:
        tests = unittest.defaultTestLoader.loadTestsFromNames(ids)
    tests.run(result)
    faulthandler.cancel_dump_traceback_later()
    passed = sorted(result.seen - set(result.texts))
    print(json.dumps({"passed": passed, "failed": result.texts, "notes": lqcase.notes}))


# The side that starts workers.


class Runner:
    def __init__(self):
        self.workers = set()
        self.stopping = False
        self.slowest = []

    def run(self, unit):
        """Runs a unit in a process group of its own, which is ended whole whatever happens."""
        if self.stopping:
            return {"passed": [], "failed": {}, "notes": []}
        environment = dict(os.environ, LOQUET_TEST_SEED=str(lqcase.SEED), LOQUET_TEST_FOLDER=FOLDER)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", str(unit.seconds)] + unit.ids,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, start_new_session=True,
        )  # fmt: skip
        self.workers.add(process)
        try:
            out, err = process.communicate(timeout=unit.seconds + 10)
        except subprocess.TimeoutExpired:
            self.end(process)
            out, err = process.communicate()
        self.end(process)
        self.workers.discard(process)
        self.slowest.append((time.monotonic() - started, unit.name))
        try:
            outcome = json.loads(out.decode().splitlines()[-1])
        except (ValueError, IndexError):
            told = ["the worker ended with status %s without a result" % process.returncode, repr(out)]
            outcome = {"passed": [], "failed": {name: told for name in unit.ids}, "notes": []}
        if err.strip():
            outcome["notes"].append("stderr of %s:\n%s" % (unit.name, err.decode(errors="replace")))
        return outcome

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the group that start_new_session made
        except ProcessLookupError:
            pass

    def end_all(self):
        self.stopping = True
        for process in list(self.workers):
            self.end(process)


def show(outcome):
    for text in outcome["notes"]:
        print("note: %s" % text)
    for name, texts in sorted(outcome["failed"].items()):
        print("FAILED %s" % name)
        for text in texts:
            print("".join("    %s\n" % line for line in text.splitlines()))


def run_all(units):
    """Runs the units, most at the same time, then those that need the machine for themselves; (passed, failed)."""
    runner = Runner()
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    passed = failed = 0
    try:
        for at_a_time, part in (
            (JOBS, [u for u in units if not u.alone]),
            (1, [u for u in units if u.alone]),
        ):
            with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
                try:
                    for outcome in pool.map(runner.run, part):
                        show(outcome)
                        passed += len(outcome["passed"])
                        failed += len(outcome["failed"])
                except BaseException:
                    runner.end_all()
                    raise
    finally:
        runner.end_all()
    if os.environ.get("LOQUET_TEST_TIMES"):
        for seconds, name in sorted(runner.slowest, reverse=True)[:25]:
            print("%6.2f s  %s" % (seconds, name))
    return passed, failed


def main(names):
    sys.stdout.reconfigure(line_buffering=True)
    tests = [t for t in all_tests() if not names or any(n in t.id() for n in names)]
    print("seed %d (LOQUET_TEST_SEED=%d repeats it)" % (lqcase.SEED, lqcase.SEED))
    left_out = []
    if lqcase.ADDRESSES:
        left_out = [t for t in tests if not runs_here(t)]
        tests = [t for t in tests if runs_here(t)]
    else:
        try:
            lqserver.find_program()
        except lqserver.ServerTrouble as e:
            print(e)
            print("0 passed, %d failed" % max(1, len(tests)))
            return 1
    if left_out:
        classes = sorted({t.id().rpartition(".")[0] if not t.any_node else t.id() for t in left_out})
        print("left out with LOQUET_ADDRESS (a server of their own, or simple mode only): %d tests" % len(left_out))
        for name in classes:
            print("  %s" % name)
    if not tests:
        print("no test fits %s" % " ".join(names))
        print("0 passed, 1 failed")
        return 1
    passed, failed = run_all(units_of(tests))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[3:], float(sys.argv[2]))
    elif sys.argv[1:2] == ["--in"]:
        os.environ["LOQUET_TEST_FOLDER"] = sys.argv[2]
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__)] + sys.argv[3:])
    elif "-h" in sys.argv[1:] or "--help" in sys.argv[1:]:
        print(__doc__.strip())
    else:
        sys.exit(main(sys.argv[1:]))
