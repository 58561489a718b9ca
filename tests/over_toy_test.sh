#!/bin/bash
# over_toy_test.sh - whole communicators over the smallest links there can be (toy_links.h), beside control over TCP: calls, messages, and
# ranks that die.
# ctest: label=nosan label=once timeout=300 waits
set -uo pipefail
# shellcheck source=tests/over.sh
source "${TUTTI_ROOT:?}/tests/over.sh"
export TUTTI_TRANSPORT=tcp TUTTI_TEST_REMOTE=toy
run_tests forms messages messages_failure
# Ranks of a host share memory, and two hosts have the toy between them.
unset TUTTI_TRANSPORT
export TUTTI_TEST_HOSTS=2
run_tests lists failure
exit $failed
