#!/bin/bash
# over_hosts_test.sh - whole communicators whose ranks take themselves to be on several hosts: shared memory within
# each, TCP between them, and between hosts nothing else.
#
# The same programs as on one host. What needs real hosts is tests/cluster_test.sh's.
# ctest: label=notsan label=once timeout=300
set -uo pipefail
bin=${TUTTI_BIN:?}
tests=$bin/../tests
failed=0
run() {
    if ! output=$(timeout 200 "$@" 2>&1); then
        printf '%s (TUTTI_TEST_HOSTS=%s) failed:\n%s\n' "$*" "$TUTTI_TEST_HOSTS" "$output"
        failed=1
    fi
}
export TUTTI_TEST_HOSTS
for TUTTI_TEST_HOSTS in 2 3; do
    for name in collectives forms messages lists varying; do
        if [[ -x $tests/tests_${name}_test ]]; then run "$tests/tests_${name}_test"; fi
    done
done
TUTTI_TEST_HOSTS=2
for name in failure messages_failure communicators bits fork; do
    if [[ -x $tests/tests_${name}_test ]]; then run "$tests/tests_${name}_test"; fi
done
exit $failed
