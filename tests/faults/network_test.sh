#!/bin/bash
# network_test.sh - what ranks find out when the network between their hosts breaks, on an emulated cluster
# (bench/peers/cluster: a network namespace a host):
#
#     one host's link goes down          it is suspected at once, and gone for all others within 5 s; it finds itself in a minority
#     two hosts' links at once           all others name the same one
#     a cut between 3 and 5 hosts        the larger side goes on, the smaller one is a MINORITY
#     a cut between 2 and 2 hosts        the side with rank 0 goes on
#     a cut of 0.7 s, and of 1.5 s       nothing fails, and results are right
#     a process is killed, or stopped    on another host, too, the others know it; one that goes on makes nothing fail
#
#     TUTTI_BIN=build/bin TUTTI_ROOT=. tests/faults/network_test.sh [CASE...]
#
# Most of a case is waiting. Without a CASE, four cases run at a time, each on its own cluster; cases that are named run one after another.
#
# Everything it makes, namespaces and processes, is gone at the end, also when it fails or is stopped. Needs root; exit
# code 77 means skipped. Limits are ten times what is promised; what was measured is printed.
# ctest: label=nosan label=once timeout=240 serial
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
rank_program=$(realpath "$bin/../tests")/tests_faults_process_test
cluster=$(realpath "${TUTTI_ROOT:?}/bench/peers/cluster")
export CLUSTER_PREFIX=tf$$
limit_s=50

# shellcheck source=tests/hosts/namespaces.sh
source "${BASH_SOURCE[0]%/*}/../hosts/namespaces.sh"
# shellcheck source=tests/kit/scenes.sh
source "${BASH_SOURCE[0]%/*}/../kit/scenes.sh"

need_namespaces
[ -x "$rank_program" ] || skip "$rank_program is not built"

if [ $# = 0 ]; then
    # The longest begin first.
    scenes_run 4 scenes_again one_host stopped three_and_five killed two_hosts two_and_two longer_cut short_cut
    exit
fi

pids=()
work=$(mktemp -d) || exit 1
finish() {
    trap '' INT TERM HUP
    ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null
    clean_up_cluster "$cluster" "$work"
}
leave_nothing finish clean_up_cluster "$cluster" "$work"
cd "$work" || exit 1

now() {
    cut -d' ' -f1 /proc/uptime
}

# Ranks go around the hosts: rank r is on host r mod hosts.
start() { # hosts, ranks on each
    local rank size=$(($1 * $2))
    rm -f stop rank*
    pids=()
    for ((rank = size - 1; rank >= 0; rank--)); do
        RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$((rank / $1)) LOCAL_WORLD_SIZE=$2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
            TUTTI_SECRET=a-secret-of-this-test-alone TUTTI_TIMEOUT=100s TUTTI_INIT_TIMEOUT=60s TUTTI_LOG=warn \
            "$cluster" exec $((rank % $1)) "$rank_program" "$work/stop" >rank$rank 2>&1 </dev/null &
        pids+=($!)
    done
    local tenths=600
    until grep -qs '^round 10$' rank0; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || { fail "$1 hosts do not start: $(tail -n 3 rank*)"; return 1; }
        sleep 0.1
    done
    sleep 1 # until all beat
}

# Until all ranks have ended; whoever has not is killed.
await() {
    local tenths=$((limit_s * 10 + 100)) pid
    for pid in "${pids[@]}"; do
        while kill -0 "$pid" 2>/dev/null && ((tenths-- > 0)); do sleep 0.1; done
    done
    ((tenths > 0)) || { kill -KILL "${pids[@]}" 2>/dev/null; fail "somebody does not end: $(tail -n 3 rank*)"; }
    wait "${pids[@]}" 2>/dev/null
    pids=()
}

slowest=0
# Within the limit that rank ended like this.
expect() { # rank, status, culprit, time of the fault
    local took
    grep -q "^rank $1: $2 culprit $3 wrong 0 " "rank$1" || fail "rank $1, not $2 of rank $3: $(tail -n 3 "rank$1")"
    took=$(sed -n 's/.* at \([0-9.]*\): .*/\1/p' "rank$1" | awk -v from="$4" '{print $1 - from}')
    awk -v took="${took:-1000}" -v limit=$limit_s 'BEGIN {exit !(took < limit)}' || fail "rank $1 took $took s"
    slowest=$(awk -v a="$slowest" -v b="${took:-0}" 'BEGIN {print (a > b ? a : b)}')
}

expect_suspicion() { # whose log, of rank
    grep -q "SUSPECT: nothing was heard of rank $2 " "rank$1" || fail "rank $1 does not suspect rank $2: $(tail -n 3 "rank$1")"
}

report() { # row of bench/faults, words
    [ $failed = 0 ] && echo "ok      ${*:2}, slowest after $slowest s"
    [ $failed = 0 ] && echo "fault-time: $1 $slowest"
    slowest=0
}

links_down() { # hosts
    local host
    for host; do ip netns exec "$CLUSTER_PREFIX-fabric" ip link set "p$host" down; done
}

# These hosts hear each other, and nobody else does.
cut_off() { # hosts
    local fabric="ip netns exec $CLUSTER_PREFIX-fabric" host
    $fabric ip link add cut type bridge
    $fabric ip link set cut up
    for host; do $fabric ip link set "p$host" master cut; done
}

heal() { # the same hosts
    local host
    for host; do ip netns exec "$CLUSTER_PREFIX-fabric" ip link set "p$host" master r0; done
}

one_host() {
    local rank since
    start 4 2 || return
    since=$(now)
    links_down 2
    await
    for rank in 0 1 3 4 5 7; do expect $rank PROC_FAILED 2 "$since"; done
    for rank in 2 6; do expect $rank MINORITY 0 "$since"; done
    for rank in 0 1 3; do expect_suspicion $rank 2; done
    report vanished "one of 4 hosts, 2 ranks each, is cut off"
}

two_hosts() {
    local rank since
    start 5 1 || return
    since=$(now)
    links_down 3 1
    await
    for rank in 0 2 4; do
        expect $rank PROC_FAILED 1 "$since"
        expect_suspicion $rank 1
        expect_suspicion $rank 3
    done
    for rank in 1 3; do expect $rank MINORITY 0 "$since"; done
    report vanished_two "two of 5 hosts are cut off at once"
}

three_and_five() {
    local rank since
    start 8 1 || return
    since=$(now)
    cut_off 0 1 2
    await
    for rank in 0 1 2; do expect $rank MINORITY 3 "$since"; done
    for rank in 3 4 5 6 7; do expect $rank PROC_FAILED 0 "$since"; done
    report cut "a cut between 3 and 5 hosts"
}

two_and_two() {
    local rank since
    start 4 1 || return
    since=$(now)
    cut_off 2 3
    await
    for rank in 0 1; do expect $rank PROC_FAILED 2 "$since"; done
    for rank in 2 3; do expect $rank MINORITY 0 "$since"; done
    report cut "a cut between 2 and 2 hosts"
}

forgotten_cut() { # seconds
    local rank
    start 4 1 || return
    cut_off 2 3
    sleep "$1"
    heal 2 3
    sleep 4
    touch stop
    await
    for rank in 0 1 2 3; do
        grep -q "^rank $rank: all right$" "rank$rank" || fail "rank $rank after a cut of $1 s: $(tail -n 3 "rank$rank")"
    done
    [ $failed = 0 ] && echo "ok      a cut of $1 s is forgotten"
}

short_cut() {
    forgotten_cut 0.7
}

# Long enough to be suspected.
longer_cut() {
    forgotten_cut 1.5
    grep -q SUSPECT rank0 && grep -q 'rank 2 .* heard again' rank0 || fail "who was cut off for 1.5 s was not suspected, and heard again: $(tail -n 3 rank0)"
}

# Those that start() started, in its order.
signal() { # signal, rank, of how many
    kill "-$1" "${pids[$3 - 1 - $2]}"
}

killed() {
    local rank since
    start 3 2 || return
    since=$(now)
    signal KILL 4 6
    await 2>/dev/null
    for rank in 0 1 2 3 5; do expect $rank PROC_FAILED 4 "$since"; done
    report killed_network "a process is killed, of 2 on one of 3 hosts"
}

stopped() {
    local rank
    start 3 1 || return
    signal STOP 1 3
    sleep 6 # twice what it takes for a verdict
    signal CONT 1 3
    sleep 1
    touch stop
    await
    for rank in 0 1 2; do
        grep -q "^rank $rank: all right$" "rank$rank" || fail "rank $rank after a stop: $(tail -n 3 "rank$rank")"
    done
    for rank in 0 2; do
        grep -q "STALLED: rank 1 " rank$rank || fail "rank $rank does not say who is stopped: $(tail -n 3 rank$rank)"
    done
    ! grep -h SUSPECT rank* || fail "who is stopped was suspected"
    [ $failed = 0 ] && echo "ok      a host's only process is stopped for 6 s"
}

up() { # hosts
    "$cluster" up --hosts "$1" >up 2>&1 || skip "no cluster can be made here: $(tail -1 up)"
}

for one; do
    case $one in
    one_host) up 4 && one_host ;;
    two_hosts) up 5 && two_hosts ;;
    two_and_two) up 4 && two_and_two ;;
    short_cut) up 4 && short_cut ;;
    longer_cut) up 4 && longer_cut ;;
    three_and_five) up 8 && three_and_five ;;
    killed) up 3 && killed ;;
    stopped) up 3 && stopped ;;
    esac
    ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null
    "$cluster" down >/dev/null 2>&1
done
exit $failed
