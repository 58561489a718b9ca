#!/bin/bash
# mptcp_paths_test.sh - two hosts, network namespaces, that are joined by two pairs of network cards on different subnets. With
# TUTTI_SOCKET_PROTOCOL=mptcp each connection has a path by each pair, and so
#
#     both     large data goes over both
#     lost     a job goes on when the first path is lost, by which everything began; no connection is
#     reset    it goes on when every path of every connection is reset, of which the kernel tells nobody
#     dead     when both paths are lost the hosts name each other
#
#     TUTTI_BIN=build/bin tests/hosts/mptcp_paths_test.sh [both lost reset dead]
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=long timeout=300 serial
set -uo pipefail

# shellcheck source=tests/hosts/two_hosts.sh
source "${BASH_SOURCE[0]%/*}/two_hosts.sh"

need_namespaces
[ -e /proc/sys/net/mptcp/enabled ] || skip "this kernel has no MPTCP"
[ $# -gt 0 ] || set -- both lost reset dead

make_hosts tq
make_paths() {
    local host
    join_hosts && shape eth0 300mbit && shape eth1 300mbit || return 1
    for host in a b; do
        on $host sysctl -qw net.mptcp.enabled=1 && on $host ip mptcp limits set subflows 2 add_addr_accepted 2 || return 1
    done
    on a ip mptcp endpoint add 10.78.1.1 dev eth1 subflow signal && on b ip mptcp endpoint add 10.78.1.2 dev eth1 subflow signal
}
make_paths >made 2>&1 || skip "no hosts with two paths can be made here: $(tail -1 made)"

begin() {
    start 8 29512 TUTTI_SOCKET_PROTOCOL=mptcp
    rounds_reach 3 || fail "it does not start"
    grep -q 'data to rank 1 goes over MPTCP' rank0 || fail "the log does not say that it is MPTCP"
}

both() {
    begin
    measure 5 || fail "both: does not go on"
    finish both
    [ "${share:-0}" -ge 5 ] && [ "$share" -le 95 ] || fail "both: the second path carried $share %"
    echo "        the second of two equal paths carried $share %"
}

lost() {
    begin
    measure 3
    on b ip link set eth0 down
    local began=$SECONDS
    rounds_reach $(($(rounds) + 5)) || fail "lost: does not go on"
    echo "        5 rounds after the loss took $((SECONDS - began)) s"
    finish lost
    # At the end one rank may close before the other says that it is through.
    ! grep 'is lost' rank0 rank1 | grep -qv 'closed by the peer' || fail "lost: a connection is, too"
    on b ip link set eth0 up
    wait_for_links || fail "lost: the card does not come back"
}

reset() {
    command -v ss >/dev/null || { echo "        ss (of iproute2) is not here: nothing is reset"; return; }
    begin
    for ((i = 0; i < 5; i++)); do
        on a ss -KHtn state established '( dport = :29512 or sport = :29512 or dst 10.78.0.0/16 )' >>cut 2>/dev/null
        rounds_reach $(($(rounds) + 1)) || break
    done
    rounds_reach $(($(rounds) + 2)) || fail "reset: does not go on"
    finish reset
    [ -s cut ] || fail "reset: nothing was"
    grep -hq 'is lost' rank0 rank1 || fail "reset: nobody noticed"
}

dead() {
    begin
    on b ip link set eth0 down
    on b ip link set eth1 down
    local pid began=$SECONDS
    for pid in "${pids[@]}"; do wait "$pid" && fail "dead: somebody does not fail"; done
    ((SECONDS - began < 30)) || fail "dead: it took $((SECONDS - began)) s"
    grep -q 'PROC_FAILED.*rank 1' rank0 || fail "dead: rank 0 does not name rank 1"
    echo "        both had ended after $((SECONDS - began)) s"
    for card in 0 1; do on b ip link set eth$card up; done
    wait_for_links || fail "dead: the cards do not come back"
}

play "$@"
