#!/usr/bin/python3
"""Runs the tests of the judge, its driver and its fenced store.

    LOQUETD=path/to/loquetd tests/judge/run.py [NAME...]

NAME picks the tests whose id contains it. Quiet when green. The last line is `N passed, N failed`.
"""

import io
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "integration")]

import test_generated  # noqa: E402


def main():
    print("LOQUET_TEST_SEED=%d" % test_generated.SEED)
    loader = unittest.TestLoader()
    loader.testNamePatterns = ["*%s*" % name for name in sys.argv[1:]] or None
    suite = loader.discover(HERE, top_level_dir=HERE)
    log = io.StringIO()
    result = unittest.TextTestRunner(log, verbosity=2).run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    if bad:
        print(log.getvalue())
    passed = max(0, result.testsRun - len(result.skipped) - bad)
    print("%d passed, %d failed" % (passed, bad))
    return 0 if result.testsRun and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
