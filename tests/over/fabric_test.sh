#!/bin/bash
# fabric_test.sh - whole communicators whose data goes over network cards through libfabric: its providers that run anywhere.
#
# Messages over tcp;ofi_rxm, as over TCP, and their failures. With TUTTI_LONG all forms, sizes and recoveries, what
# holds over other providers (docs/how-to/fabric.md), and faults at random.
# ctest: label=nosan label=once timeout=300 first
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"

# has PROVIDER: whether it is used when it is asked for.
has() {
    local said
    said=$(TUTTI_FABRIC=$1 TUTTI_TRANSPORT=tcp TUTTI_LOG=info timeout 60 "$bin/tutti-run" -n 2 \
        "$bin/tutti-perf" allreduce -b 8 -e 8 -n 5 2>&1)
    grep -F "fabric: $1" <<<"$said" >/dev/null && ! grep -F 'fabric: not used' <<<"$said" >/dev/null
}

if ! has 'tcp;ofi_rxm'; then
    echo "skipped: libfabric (Debian: libfabric1) or its provider tcp;ofi_rxm is not here"
    exit 77
fi
export TUTTI_TRANSPORT=tcp TUTTI_FABRIC='tcp;ofi_rxm'
export TUTTI_TEST_FILTER='*' # one case after the other (tests/kit/cases.h): who dies soon after a call takes data along
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    run_tests calls/lists calls/forms calls/varying calls/collectives faults/recover
    # Ranks of two hosts, which a card joins: whoever dies is named.
    (unset TUTTI_TRANSPORT && TUTTI_TEST_HOSTS=2 run_tests faults/failure && exit $failed) || failed=1
    if has sockets; then TUTTI_FABRIC=sockets run_tests calls/messages calls/lists calls/forms calls/varying; fi
    if has 'udp;ofi_rxd'; then TUTTI_FABRIC='udp;ofi_rxd' run_tests calls/messages calls/lists calls/forms calls/varying faults/recover; fi
    run "$tests/tests_faults_random_test" --fabric "$TUTTI_FABRIC" --faults 20
    # One survivor takes another for dead that the others reach: they go on with both.
    run "$tests/tests_faults_random_test" --fabric "$TUTTI_FABRIC" --seed 5001 --runs 1
fi
run_tests calls/messages
run_tests calls/messages_failure
# Asked to protect data, a card is not used.
for protected in TUTTI_INTEGRITY=network TUTTI_INTEGRITY=on; do
    said=$(env "$protected" TUTTI_LOG=info timeout 60 "$bin/tutti-run" -n 2 "$bin/tutti-perf" allreduce -b 8 -e 8 -n 5 2>&1)
    if ! grep -F "fabric: not used, because data on it cannot be protected" <<<"$said" >/dev/null; then
        printf '%s does not keep data from the card:\n%s\n' "$protected" "$said"
        failed=1
    fi
done
# A card that one rank lacks: the message names the rank and its host.
host=$(uname -n)
# shellcheck disable=SC2016 # the ranks' variables
lacks() { # words that are expected, TUTTI_FABRIC of rank 1
    said=$(TUTTI_LOG=info timeout 60 "$bin/tutti-run" -n 2 bash -c 'if ((TUTTI_RANK)); then TUTTI_FABRIC=$1; fi; exec "$2" allreduce -b 8 -e 8 -n 5' _ "$2" "$bin/tutti-perf" 2>&1)
    grep -F -- "$1" <<<"$said" >/dev/null && return
    printf 'no "%s" where rank 1 has TUTTI_FABRIC=%s:\n%s\n' "$1" "$2" "$said"
    failed=1
}
lacks "fabric: not used, because rank 1 (host $host) has none of the same kind" off
lacks "UNSUPPORTED: rank 1 (host $host, pid " nonsense
lacks ") could not join: TUTTI_FABRIC=nonsense: " nonsense
# A card that a rank cannot open: here because it has too few descriptors, however many it has inherited. Whatever libfabric says of that, it is
# reported as a shortage, on both ranks. Takes seconds, of each number.
if [[ ${TUTTI_LONG:-} == 1 ]]; then
    seen=0
    for ((most = 10; most < 40; most++)); do
        # shellcheck disable=SC2016 # the ranks' variables
        said=$(timeout 60 "$bin/tutti-run" -n 2 bash -c 'if ((TUTTI_RANK)); then ulimit -n "$1"; fi; exec "$2" allreduce -b 8 -e 8 -n 5 --timeout 30' _ $most "$bin/tutti-perf" 2>&1)
        if ! grep -F 'of libfabric: ' <<<"$said" >/dev/null; then continue; fi
        seen=1
        for rank in 0 1; do
            if grep -F "[$rank] tutti-perf: " <<<"$said" | grep "NO_DESCRIPTORS: rank 1 (host $host, pid [0-9]*): provider tcp;ofi_rxm of libfabric: " >/dev/null; then continue; fi
            printf 'that rank 1 has too few descriptors for its card, at most %d, is not reported by rank %d:\n%s\n' $most $rank "$said"
            failed=1
        done
    done
    if ((!seen)); then
        echo 'no card could not be opened'
        failed=1
    fi
fi
exit $failed
