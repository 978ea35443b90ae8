#!/usr/bin/python3
"""Runs the tests of the fault layer.

    LQ_FAULTS_LIB=path/to/liblqfaults.so tests/faults/run.py [NAME...]

NAME picks the tests whose id contains it. Quiet when green. The last line is `N passed, N failed`.
"""

import io
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import faultcase  # noqa: E402


def main():
    if not os.path.exists(os.environ.get("LQ_FAULTS_LIB", "")):
        print("LQ_FAULTS_LIB does not name the library")
        return 1
    print("LOQUET_TEST_SEED=%d" % faultcase.SEED)
    loader = unittest.TestLoader()
    loader.testNamePatterns = ["*%s*" % name for name in sys.argv[1:]] or None
    suite = loader.discover(HERE, top_level_dir=HERE)
    log = io.StringIO()
    result = unittest.TextTestRunner(log, verbosity=2).run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    if bad:
        print(log.getvalue())
    print("%d passed, %d failed" % (result.testsRun - bad - len(result.skipped), bad))
    return 0 if result.testsRun and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
