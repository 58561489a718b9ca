#!/bin/bash
# over_hosts_test.sh - whole communicators whose ranks take themselves to be on several hosts: shared memory within
# each, TCP between them, and between hosts nothing else.
#
# The same programs as on one host; what counts on one host there is skipped by the programs. What needs real hosts is
# cluster_test.sh's.
# ctest: label=notsan label=once timeout=400
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
for TUTTI_TEST_HOSTS in 2 3; do
    for name in forms messages lists varying; do run $name; done
done
TUTTI_TEST_HOSTS=2
for name in collectives failure messages_failure communicators bits fork; do run $name; done
exit $failed
