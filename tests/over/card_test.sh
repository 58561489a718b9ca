#!/bin/bash
# card_test.sh - whole communicators whose data goes over simulated network cards, beside control over TCP: forms, messages, failures.
#
# All data of a host, or what goes between two. The same programs as over TCP; what takes connections for granted is left out.
# ctest: label=nosan label=once timeout=300 waits first
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
export TUTTI_TRANSPORT=tcp TUTTI_TEST_REMOTE=card
# One case after the other (tests/kit/cases.h), for that reason:
export TUTTI_TEST_FILTER='*'
# A rank that dies right after a call may take what others still wait for with it: the kernel has nothing of it, as it has over TCP. So
# what dies soon after a call (recover) needs ranks that are not late, and runs alone.
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    run_tests calls/forms calls/lists calls/varying faults/recover
    # Ranks of two hosts, which a card joins: whoever dies is named.
    (unset TUTTI_TRANSPORT && TUTTI_TEST_HOSTS=2 run_tests faults/failure && exit $failed) || failed=1
fi
run_tests calls/messages calls/messages_failure
exit $failed
