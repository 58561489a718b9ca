#!/bin/bash
# over_hosts_test.sh - whole communicators whose ranks take themselves to be on several hosts: shared memory within
# each, TCP between them, and between hosts nothing else.
#
#   over_hosts_test.sh [PROGRAM...]    tests of communicators, without tests_ and _test
#
# The same programs as on one host; what counts on one host there is skipped by the programs. What needs real hosts is
# cluster_test.sh's; the slower programs are over_hosts_long_test.sh's.
# ctest: label=nosan label=once timeout=300
set -uo pipefail
bin=${TUTTI_BIN:?}
tests=$bin/../tests
failed=0
export TUTTI_TEST_HOSTS
run() {
    local program=$tests/tests_$1_test
    if [[ -x $program ]] && ! output=$(timeout 200 "$program" 2>&1); then
        printf '%s (TUTTI_TEST_HOSTS=%s) failed:\n%s\n' "$1" "$TUTTI_TEST_HOSTS" "$output"
        failed=1
    fi
}
TUTTI_TEST_HOSTS=2
if (($# > 0)); then
    for name in "$@"; do run "$name"; done
    exit $failed
fi
for name in messages lists failure messages_failure fork; do run $name; done
TUTTI_TEST_HOSTS=3
for name in forms varying; do run $name; done
exit $failed
