#!/bin/bash
# hosts_test.sh - whole communicators whose ranks take themselves to be on several hosts: shared memory within
# each, TCP between them, and between hosts nothing else.
#
#   hosts_test.sh [ROOM/NAME...]    tests of communicators
#
# The same programs as on one host; what counts on one host there is skipped by the programs. What needs real hosts is
# cluster_test.sh's; the slower programs are hosts_long_test.sh's.
# ctest: label=nosan label=once timeout=300 waits first
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
export TUTTI_TEST_HOSTS
TUTTI_TEST_HOSTS=2
if (($# > 0)); then
    run_tests "$@"
    exit $failed
fi
run_tests calls/messages calls/encoded_messages calls/lists system/fork faults/tracing
run_beside faults/failure calls/messages_failure faults/recover
TUTTI_TEST_HOSTS=3
run_tests calls/forms calls/varying
TUTTI_INTEGRITY=on run_tests calls/forms
if [[ ${TUTTI_LONG:-} == 1 ]]; then TUTTI_INTEGRITY=network run_tests calls/forms; fi
exit $failed
