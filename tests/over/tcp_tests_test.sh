#!/bin/bash
# tcp_tests_test.sh - whole communicators whose data goes over TCP: forms, messages, lists, forks; with checksums, and encrypted. With
# TUTTI_LONG failures, too.
#
# The same programs as over shared memory, with TUTTI_TRANSPORT=tcp. Left out are those that count on what only shared
# memory has: that who is through with a call leaves nothing on its way.
# ctest: label=notsan label=once timeout=300 first
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
export TUTTI_TRANSPORT=tcp
is_long=${TUTTI_LONG:-}
# The release and sanitizers share the programs. Failures of ranks are hosts_test.sh's, in the quick tier.
if [[ $is_long ]] || is_sanitized; then run_tests calls/forms calls/messages; fi
run_tests calls/encoded_messages
if [[ $is_long ]] || ! is_sanitized; then run_tests calls/lists calls/varying system/fork; fi
if [[ $is_long ]]; then
    run_beside calls/messages_failure faults/recover
    TUTTI_INTEGRITY=network run_tests calls/forms
fi
if [[ $is_long ]] || ! is_sanitized; then TUTTI_INTEGRITY=network run_tests hosts/tcp_reset; fi
export TUTTI_SECRET=only-the-ranks-of-this-test-know-it
TUTTI_ENCRYPTION=on run_tests hosts/tcp_reset
if [[ $is_long ]] || ! is_sanitized; then TUTTI_ENCRYPTION=on run_tests calls/forms calls/messages system/fork; fi
if [[ $is_long ]]; then TUTTI_ENCRYPTION=on run_tests calls/lists; fi
exit $failed
