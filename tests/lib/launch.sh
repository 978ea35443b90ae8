#!/bin/sh
# Runs a unit test, under the program that LQ_LAUNCHER names with its options, if it does: so one build is tested twice.
# Under valgrind each process of a test case looks for leaks at its end. The tests named here clean up so well that
# all their cases run in one process, in half the time.
if [ -n "${LQ_LAUNCHER:-}" ]; then
    case ${1##*/} in
    test_engine* | test_replica* | test_home* | test_links* | test_admin* | test_members* | test_snapshot*)
        export CK_FORK=no
        ;;
    esac
fi
# shellcheck disable=SC2086 # words
exec ${LQ_LAUNCHER:-} "$@"
