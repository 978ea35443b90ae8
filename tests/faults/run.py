#!/usr/bin/python3
"""Runs the tests of the fault layer.

    LQ_FAULTS_LIB=path/to/liblqfaults.so tests/faults/run.py [NAME...]

NAME picks the tests whose id contains it. Quiet when green. The last line is `N passed, N failed`.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]

import faultcase  # noqa: E402
import quiet  # noqa: E402

if __name__ == "__main__":
    if not os.path.exists(os.environ.get("LQ_FAULTS_LIB", "")):
        sys.exit("LQ_FAULTS_LIB does not name the library")
    print("LOQUET_TEST_SEED=%d" % faultcase.SEED)
    sys.exit(quiet.run(HERE, sys.argv[1:]))
