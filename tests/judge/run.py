#!/usr/bin/python3
"""Runs the tests of the judge, its driver and its fenced store.

    LOQUETD=path/to/loquetd tests/judge/run.py [NAME...]

NAME picks the tests whose id contains it. Quiet when green. The last line is `N passed, N failed`.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "integration"), os.path.join(TESTS, "lib")]

import quiet  # noqa: E402
import test_generated  # noqa: E402

if __name__ == "__main__":
    print("LOQUET_TEST_SEED=%d" % test_generated.SEED)
    sys.exit(quiet.run(HERE, sys.argv[1:]))
