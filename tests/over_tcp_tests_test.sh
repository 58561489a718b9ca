#!/bin/bash
# over_tcp_tests_test.sh - whole communicators whose data goes over TCP: forms, messages, failures, forks; with checksums, and encrypted.
#
# The same programs as over shared memory, with TUTTI_TRANSPORT=tcp. Left out are those that count on what only shared
# memory has: that who is through with a call leaves nothing on its way.
# ctest: label=notsan label=once timeout=300 first
set -uo pipefail
# shellcheck source=tests/over.sh
source "${TUTTI_ROOT:?}/tests/over.sh"
export TUTTI_TRANSPORT=tcp
export TUTTI_SECRET=only-the-ranks-of-this-test-know-it
TUTTI_ENCRYPTION=on run_tests tcp_reset
# Sanitizers go through what the release does not, and the other way round; what fails between ranks, over_hosts_test.sh has over TCP, too.
if is_sanitized || [[ ${TUTTI_LONG:-} == 1 ]]; then run_tests forms messages; fi
if ! is_sanitized || [[ ${TUTTI_LONG:-} == 1 ]]; then
    run_tests lists varying fork
    TUTTI_INTEGRITY=network run_tests tcp_reset
    TUTTI_ENCRYPTION=on run_tests forms messages fork
fi
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    run_beside messages_failure recover
    TUTTI_INTEGRITY=network run_tests forms
    TUTTI_ENCRYPTION=on run_tests lists
fi
exit $failed
