"""Runs the unittests of a folder in this process. Quiet when green."""

import io
import unittest


def run(folder, names):
    """All tests there, or those whose id contains one of the names. Prints what failed, and `N passed, N failed` last.
    Returns the exit status."""
    loader = unittest.TestLoader()
    loader.testNamePatterns = ["*%s*" % name for name in names] or None
    suite = loader.discover(folder, top_level_dir=folder)
    log = io.StringIO()
    result = unittest.TextTestRunner(log).run(suite)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    for name, trace in result.failures + result.errors:
        print("FAILED %s\n%s" % (name, trace))
    for name in result.unexpectedSuccesses:
        print("FAILED %s: it was expected to fail" % name)
    for name, why in result.skipped:
        print("skipped %s: %s" % (name, why))
    passed = max(0, result.testsRun - len(result.skipped) - bad)
    print("%d passed, %d failed" % (passed, bad))
    return 0 if result.testsRun and not bad else 1
