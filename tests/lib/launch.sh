#!/bin/sh
# Runs a unit test, under the program that LQ_LAUNCHER names with its options, if it does: so one build is tested twice.
# shellcheck disable=SC2086 # words
exec $LQ_LAUNCHER "$@"
