#!/bin/bash
# rails_test.sh - two hosts, network namespaces, that are joined by two pairs of network cards on different subnets, which libfabric's
# provider tcp;ofi_rxm uses as if they were RDMA cards: where TUTTI_FABRIC names two, large data goes over both, and more over the faster
# one; a host with fewer cards sets the number; where it names one, or the provider alone, the second carries nothing; a card whose link goes
# down fails the job, as the only card would, and the error names a rank.
#
#     TUTTI_BIN=build/bin tests/fabric/rails_test.sh [one both unequal fewer lost]      (both lost; with TUTTI_LONG all)
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=once timeout=180 serial
set -uo pipefail

# shellcheck source=tests/hosts/two_hosts.sh
source "${BASH_SOURCE[0]%/*}/../hosts/two_hosts.sh"

need_namespaces
"${TUTTI_BIN:?}/tutti-topo" --check-fabric | grep -F 'provider tcp;ofi_rxm: it works' >/dev/null ||
    skip "libfabric (Debian: libfabric1) or its provider tcp;ofi_rxm is not here"

make_hosts fr
# So fast that the cards, and not the two processes, are what everything waits for.
(join_hosts && shape eth0 300mbit && shape eth1 300mbit) >made 2>&1 || skip "no cards can be made here: $(tail -1 made)"

begin() { # variables...
    start 16 29531 TUTTI_TIMEOUT=60s "$@"
}

# Prints the rate at which both hosts reduce.
timed_measure() { # rounds
    local begun
    begun=$(date +%s%N)
    measure "$1" || return 1
    echo "        $((16 * $1 * 8388608 / (($(date +%s%N) - begun) / 1000))) Mbit/s reduced, $share % of it over the second card"
}

one() {
    local fabric
    for fabric in 'tcp;ofi_rxm:eth0' 'tcp;ofi_rxm'; do
        begin TUTTI_FABRIC="$fabric" TUTTI_RAILS=2
        rounds_reach 1 && timed_measure 4 || fail "one: does not start"
        finish one
        [ "$share" = 0 ] || fail "one: the second card carried $share %"
        grep -q 'fabric: tcp;ofi_rxm, card eth0 (' rank0 || fail "one: the log does not say which card is used"
    done
}

both() {
    begin TUTTI_FABRIC='tcp;ofi_rxm:eth0,eth1'
    rounds_reach 2 && timed_measure 6 || fail "both: does not start"
    finish both
    [ "$share" -ge 25 ] && [ "$share" -le 75 ] || fail "both: the second card carried $share %"
    grep -q 'fabric: tcp;ofi_rxm, cards eth0, eth1 (TUTTI_FABRIC names them)' rank0 ||
        fail "both: the log does not say which cards are used"
}

unequal() {
    shape eth1 75mbit
    begin TUTTI_FABRIC='tcp;ofi_rxm:eth0,eth1'
    rounds_reach 2 && timed_measure 4 || fail "unequal: does not start"
    finish unequal
    shape eth1 300mbit
    [ "$share" -ge 8 ] && [ "$share" -le 45 ] || fail "unequal: the card with a quarter of the rate carried $share %"
}

# Rank 1 has one card.
fewer() {
    begin 'TUTTI_FABRIC=tcp;ofi_rxm:eth0,eth1' bash -c '[ $RANK = 0 ] || export TUTTI_FABRIC="tcp;ofi_rxm:eth0"; exec "$@"' _
    rounds_reach 1 && timed_measure 4 || fail "fewer: does not start"
    finish fewer
    [ "$share" = 0 ] || fail "fewer: the second card carried $share %"
}

# Nothing is said to either process. The ranks hear each other over the first card; only that nothing moves on the second shows it.
lost() {
    begin TUTTI_FABRIC='tcp;ofi_rxm:eth0,eth1'
    rounds_reach 3 || fail "lost: does not start"
    on b ip link set eth1 down
    for pid in "${pids[@]}"; do wait "$pid" && fail "lost: a rank takes it for right"; done
    on b ip link set eth1 up
    wait_for_links || fail "lost: the card does not come back"
    grep -hq 'PROC_FAILED: .*rank [01] (host host-[ab].*its network card: tcp;ofi_rxm eth1 failed: what it was given does not leave' \
        rank0 rank1 || fail "lost: the error does not name a rank and the card"
}

scenes=("$@")
[ $# -gt 0 ] || scenes=(both lost)
[ $# -gt 0 ] || [[ ${TUTTI_LONG:-} != 1 ]] || scenes=(one both unequal fewer lost)
play "${scenes[@]}"
