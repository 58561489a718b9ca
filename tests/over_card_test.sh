#!/bin/bash
# over_card_test.sh - whole communicators whose data and control messages go over simulated network cards: forms, messages, failures.
#
# The same programs as over TCP; what takes connections for granted is left out.
# ctest: label=notsan label=once timeout=300
set -uo pipefail
# shellcheck source=tests/over.sh
source "${TUTTI_ROOT:?}/tests/over.sh"
export TUTTI_TRANSPORT=tcp TUTTI_TEST_REMOTE=card
run_tests forms messages lists varying
run_beside messages_failure recover
exit $failed
