#!/bin/bash
# toy_test.sh - whole communicators over the smallest links there can be (toy_links.h), beside control over TCP: calls, messages, and
# ranks that die.
# ctest: label=nosan label=once timeout=300 waits
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
export TUTTI_TRANSPORT=tcp TUTTI_TEST_REMOTE=toy
run_tests calls/forms calls/messages calls/messages_failure
# Ranks of a host share memory, and two hosts have the toy between them.
unset TUTTI_TRANSPORT
export TUTTI_TEST_HOSTS=2
run_tests calls/lists
# Control between hosts goes over TCP here as in hosts_test.sh, which runs this in the quick tier.
if [[ ${TUTTI_LONG:-} == 1 ]]; then run_tests faults/failure; fi
exit $failed
