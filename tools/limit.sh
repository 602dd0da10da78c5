#!/usr/bin/env bash
# limit.sh PROGRAM ARGUMENT...: runs a program of tests and ends it after 15 minutes, so that a test that hangs fails by name:
# the harness has printed "test NAME has been running for over 60 seconds" by then.
limit_s=${BYWAY_TEST_LIMIT_S:-900}
# Programs that tests start have no limit of their own: tests that look for this variable would start them by this script too.
for name in ${!CARGO_TARGET_@}; do
    case $name in *_RUNNER) unset "$name" ;; esac
done
# In the foreground: tests of Ctrl-C and of terminals see the process group that they would see without it.
timeout --foreground --kill-after=10 "$limit_s" "$@"
code=$?
# 137: it did not end when it was asked to.
if [ "$code" = 124 ] || [ "$code" = 137 ]; then
    echo "error: $1 did not end within $limit_s s; the tests that it names as running for over 60 seconds hang" >&2
fi
exit "$code"
