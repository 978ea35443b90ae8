"""Finds and runs lq_bench for the scripts of this folder."""

import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class BenchTrouble(Exception):
    """lq_bench is missing, or a run of it failed; the message says why."""


def find_bench():
    """The program named by the environment variable LQ_BENCH, else the one of the release build."""
    program = os.environ.get("LQ_BENCH", os.path.join(ROOT, "build", "release", "tests", "bench", "lq_bench"))
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        raise BenchTrouble(
            "no lq_bench at %s: set LQ_BENCH to its path, or build it with"
            " cmake --preset release -DLOQUET_BENCH=ON && cmake --build --preset release" % program
        )
    return os.path.abspath(program)


def run(*options, timeout=600):
    """One run with --json; the report as a dict. A run that saw errors raises BenchTrouble."""
    command = [find_bench(), "--json"] + [str(o) for o in options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise BenchTrouble("%s: exit status %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return json.loads(done.stdout)
