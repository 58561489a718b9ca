#!/bin/bash
# mptcp_paths_test.sh - two hosts, network namespaces, that are joined by two pairs of network cards on different subnets. With
# TUTTI_SOCKET_PROTOCOL=mptcp each connection has a path by each pair, and so
#
#     both     large data goes over both
#     lost     a job goes on when the first path is lost, by which everything began; no connection is
#     reset    it goes on when every path of every connection is reset, of which the kernel tells nobody
#     dead     when both paths are lost the hosts name each other
#
#     TUTTI_BIN=build/bin tests/mptcp_paths_test.sh [both lost reset dead]
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=long timeout=300 serial
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
program=$(realpath "$bin/../tests")/tests_tcp_reset_test
space=tq$$

# shellcheck source=tests/namespaces.sh
source "${BASH_SOURCE[0]%/*}/namespaces.sh"

need_namespaces
[ -x "$program" ] || skip "$program is not built"
[ -e /proc/sys/net/mptcp/enabled ] || skip "this kernel has no MPTCP"
[ $# -gt 0 ] || set -- both lost reset dead

work=$(mktemp -d) || exit 1
pids=()
clean_up() { # the script's process, namespaces, folder
    for host in a b; do
        for pid in $(ip netns pids "$1-$host" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
        ip netns del "$1-$host" 2>/dev/null
    done
    rm -rf "$2"
}
export -f clean_up
finish_all() {
    clean_up "$space" "$work"
}
leave_nothing finish_all clean_up "$space" "$work"
for host in a b; do ip netns add "$space-$host" || exit 1; done
cd "$work" || exit 1

on() { # host, command...
    ip netns exec "$space-$1" "${@:2}"
}

prepare() {
    local card host
    for card in 0 1; do
        on a ip link add eth$card type veth peer name eth$card netns "$space-b" || return 1
        on a ip addr add 10.78.$card.1/24 dev eth$card && on b ip addr add 10.78.$card.2/24 dev eth$card || return 1
    done
    for host in a b; do
        for card in lo eth0 eth1; do on $host ip link set $card up || return 1; done
        for card in 0 1; do on $host tc qdisc replace dev eth$card root tbf rate 300mbit burst 131072 limit 1048576 || return 1; done
        on $host sysctl -qw net.mptcp.enabled=1 && on $host ip mptcp limits set subflows 2 add_addr_accepted 2 || return 1
    done
    wait_for_links && on a ip mptcp endpoint add 10.78.1.1 dev eth1 subflow signal &&
        on b ip mptcp endpoint add 10.78.1.2 dev eth1 subflow signal
}

wait_for_links() {
    local host card tenths=50
    for host in a b; do
        for card in eth0 eth1; do
            until [ "$(on $host cat /sys/class/net/$card/operstate)" = up ]; do
                ((tenths-- > 0)) || return 1
                sleep 0.1
            done
        done
    done
}

prepare >made 2>&1 || skip "no hosts with two paths can be made here: $(tail -1 made)"

fail() { # with what the ranks said
    echo "FAILED  $*"
    tail -n 8 rank0 rank1
    failed=1
}

start() { # variables...
    local rank hosts=(a b)
    rm -f stop rank0 rank1
    pids=()
    for rank in 0 1; do
        on ${hosts[rank]} unshare --uts sh -c 'hostname "$0" && exec "$@"' "host-${hosts[rank]}" \
            env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.78.0.1 MASTER_PORT=29512 \
            TUTTI_LOG=info TUTTI_SECRET=two-hosts-and-two-paths TUTTI_TIMEOUT=60s TUTTI_INIT_TIMEOUT=20s \
            TUTTI_SOCKET_PROTOCOL=mptcp "$@" "$program" "$work/stop" 8 >rank$rank 2>&1 </dev/null &
        pids+=($!)
    done
    rounds_reach 3 || fail "it does not start"
    grep -q 'data to rank 1 goes over MPTCP' rank0 || fail "the log does not say that it is MPTCP"
}

rounds() {
    grep -c '^round' rank0
}

rounds_reach() { # number; within 60 s
    local tenths=600
    until [ "$(rounds)" -ge "$1" ]; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] && kill -0 "${pids[@]}" 2>/dev/null || return 1
        sleep 0.1
    done
}

finish() { # what it was
    local pid code=0
    touch stop
    for pid in "${pids[@]}"; do wait "$pid" || code=1; done
    [ $code = 0 ] && [ "$(cat rank0 rank1 | grep -c ': all right$')" = 2 ] || fail "$1: not all ranks were right"
}

sent() { # card
    on a cat "/sys/class/net/$1/statistics/tx_bytes"
}

share=
measure() { # rounds: the second path's share of what they sent, in %
    local first second
    first=$(sent eth0) second=$(sent eth1)
    rounds_reach $(($(rounds) + $1)) || return 1
    first=$(($(sent eth0) - first)) second=$(($(sent eth1) - second))
    share=$((100 * second / (first + second + 1)))
}

both() {
    start
    measure 5 || fail "both: does not go on"
    finish both
    [ "${share:-0}" -ge 5 ] && [ "$share" -le 95 ] || fail "both: the second path carried $share %"
    echo "        the second of two equal paths carried $share %"
}

lost() {
    start
    measure 3
    on b ip link set eth0 down
    local began=$SECONDS
    rounds_reach $(($(rounds) + 5)) || fail "lost: does not go on"
    echo "        5 rounds after the loss took $((SECONDS - began)) s"
    finish lost
    ! grep -q 'is lost' rank0 rank1 || fail "lost: a connection is, too"
    on b ip link set eth0 up
    wait_for_links || fail "lost: the card does not come back"
}

reset() {
    command -v ss >/dev/null || { echo "        ss (of iproute2) is not here: nothing is reset"; return; }
    start
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
    start
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

all_failed=0
for scene in "$@"; do
    failed=0
    $scene
    [ $failed = 0 ] && echo "ok      $scene"
    all_failed=$((all_failed | failed))
done
exit $all_failed
