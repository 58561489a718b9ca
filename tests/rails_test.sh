#!/bin/bash
# rails_test.sh - two hosts, network namespaces, that are joined by two pairs of network cards on different subnets: with
# TUTTI_RAILS=2 large data goes over both, more over the faster one; a card whose link goes down in the middle of an
# allreduce, or that never reached anybody, costs no result; without the setting the second card carries nothing.
#
#     TUTTI_BIN=build/bin tests/rails_test.sh [one both unequal lost unreached]
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped.
# ctest: label=nosan label=once timeout=120 serial
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
program=$(realpath "$bin/../tests")/tests_tcp_reset_test
space=tr$$

# shellcheck source=tests/namespaces.sh
source "${BASH_SOURCE[0]%/*}/namespaces.sh"

need_namespaces
[ -x "$program" ] || skip "$program is not built"

# Two that mostly wait run beside each other, each on hosts of its own.
others=()
if [ $# = 0 ]; then
    for scene in lost unreached; do
        bash "$(realpath "$0")" $scene &
        others+=($!)
    done
    set -- one both unequal
fi

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
    [ ${#others[@]} = 0 ] || kill "${others[@]}" 2>/dev/null
    clean_up "$space" "$work"
}
leave_nothing finish_all clean_up "$space" "$work"
for host in a b; do ip netns add "$space-$host" || exit 1; done
cd "$work" || exit 1

on() { # host, command...
    ip netns exec "$space-$1" "${@:2}"
}

shape() { # card, rate: in both directions
    for host in a b; do
        on $host tc qdisc replace dev "$1" root tbf rate "$2" burst 131072 limit 1048576 || return 1
    done
}

# So fast that the cards, and not the two processes, are what everything waits for.
prepare() {
    local card
    for card in 0 1; do
        on a ip link add eth$card type veth peer name eth$card netns "$space-b" || return 1
    done
    on a ip addr add 10.78.0.1/24 dev eth0 && on b ip addr add 10.78.0.2/24 dev eth0 || return 1
    on a ip addr add 10.78.1.1/24 dev eth1 && on b ip addr add 10.78.1.2/24 dev eth1 || return 1
    for host in a b; do
        for card in lo eth0 eth1; do on $host ip link set $card up || return 1; done
    done
    shape eth0 500mbit && shape eth1 500mbit && wait_for_links
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

prepare >made 2>&1 || skip "no cards can be made here: $(tail -1 made)"

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
            env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.78.0.1 MASTER_PORT=29511 \
            TUTTI_LOG=info TUTTI_SECRET=two-hosts-two-cards-each TUTTI_TIMEOUT=40s TUTTI_INIT_TIMEOUT=20s "$@" \
            "$program" "$work/stop" 16 >rank$rank 2>&1 </dev/null &
        pids+=($!)
    done
}

rounds() {
    grep -c '^round' rank0
}

rounds_reach() { # number; within 30 s
    local tenths=300
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
measure() { # rounds: the second card's share of what they sent, in %
    local first second
    first=$(sent eth0) second=$(sent eth1)
    rounds_reach $(($(rounds) + $1)) || return 1
    first=$(($(sent eth0) - first)) second=$(($(sent eth1) - second))
    share=$((100 * second / (first + second + 1)))
}

one() {
    start
    rounds_reach 1 && measure 2 || fail "one: does not start"
    finish one
    [ "$share" = 0 ] || fail "one: the second card carried $share %"
    ! grep -qi 'rail' rank0 rank1 || fail "one: the log speaks of rails"
}

both() {
    start TUTTI_RAILS=2
    rounds_reach 2 && measure 4 || fail "both: does not start"
    finish both
    [ "$share" -ge 25 ] && [ "$share" -le 75 ] || fail "both: the second card carried $share %"
    grep -q 'rails: eth0 10.78.0.1, eth1 10.78.1.1 (2 wanted)' rank0 || fail "both: the log does not say which rails there are"
    echo "        the second of two equal cards carried $share %"
}

unequal() {
    shape eth1 125mbit
    start TUTTI_RAILS=2
    rounds_reach 2 && measure 4 || fail "unequal: does not start"
    finish unequal
    shape eth1 500mbit
    [ "$share" -ge 8 ] && [ "$share" -le 45 ] || fail "unequal: the card with a fifth of the rate carried $share %"
    echo "        the card with a fifth of the rate carried $share %"
}

# Nothing is said to either process; only that nothing is answered any more shows it.
lost() {
    start TUTTI_RAILS=2
    rounds_reach 3 || fail "lost: does not start"
    measure 2
    [ "$share" -ge 25 ] || fail "lost: the second card carried $share % when it was there"
    on b ip link set eth1 down
    rounds_reach $(($(rounds) + 4)) || fail "lost: does not go on"
    finish lost
    on b ip link set eth1 up
    wait_for_links || fail "lost: the card does not come back"
    grep -hq 'connection 2 is lost' rank0 rank1 || fail "lost: the log does not say that it was"
    [ $failed = 0 ] && echo "        goes on without a card: $(rounds) allreduces of 16 MiB"
}

unreached() {
    on b ip addr del 10.78.1.2/24 dev eth1
    on b ip addr add 10.79.9.2/24 dev eth1
    start TUTTI_RAILS=2 TUTTI_LOG=warn
    rounds_reach 4 || fail "unreached: does not start"
    local tenths=100
    until grep -q 'rank 0 (host host-a.*no connection by rail 1 from 10.79.9.2 to 10.78.1.1:' rank1 || ((tenths-- == 0)); do
        sleep 0.1
    done
    [ $tenths -ge 0 ] || fail "unreached: the log does not warn of it"
    finish unreached
    on b ip addr del 10.79.9.2/24 dev eth1
    on b ip addr add 10.78.1.2/24 dev eth1
    [ "$(grep -c 'no connection by rail' rank1)" = 1 ] || fail "unreached: the log warns more than once"
}

all_failed=0
for scene in "${others[@]}"; do wait "$scene" || all_failed=1; done
others=()
for scene in "$@"; do
    failed=0
    $scene
    [ $failed = 0 ] && echo "ok      $scene"
    all_failed=$((all_failed | failed))
done
exit $all_failed
