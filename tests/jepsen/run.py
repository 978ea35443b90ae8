#!/usr/bin/python3
"""Runs the tests of what the failover runs are made of: the network, clocks, picture, schedule.

    LOQUETD=path/to/loquetd tests/jepsen/run.py [NAME...]

NAME picks the tests whose id contains it. Quiet when green. The last line is `N passed, N failed`.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE] + [os.path.join(TESTS, name) for name in ("lib", "judge", "integration", "faults", "cluster")]

import inside  # noqa: E402
import quiet  # noqa: E402

if __name__ == "__main__":
    if not inside.is_inside():
        inside.enter(sys.argv[1:])
    if inside.is_inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    sys.exit(quiet.run(HERE, sys.argv[1:]))
