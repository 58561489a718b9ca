#!/bin/bash
# over_hosts_test.sh - whole communicators whose ranks take themselves to be on several hosts: shared memory within
# each, TCP between them, and between hosts nothing else.
#
#   over_hosts_test.sh [PROGRAM...]    tests of communicators, without tests_ and _test
#
# The same programs as on one host; what counts on one host there is skipped by the programs. What needs real hosts is
# cluster_test.sh's; the slower programs are over_hosts_long_test.sh's.
# ctest: label=nosan label=once timeout=300 waits first
set -uo pipefail
# shellcheck source=tests/over.sh
source "${TUTTI_ROOT:?}/tests/over.sh"
export TUTTI_TEST_HOSTS
TUTTI_TEST_HOSTS=2
if (($# > 0)); then
    run_tests "$@"
    exit $failed
fi
run_tests messages lists fork tracing
run_beside failure messages_failure recover
TUTTI_TEST_HOSTS=3
run_tests forms varying
TUTTI_INTEGRITY=on run_tests forms
if [[ ${TUTTI_LONG:-} == 1 ]]; then TUTTI_INTEGRITY=network run_tests forms; fi
exit $failed
