#!/bin/bash
# mptcp_test.sh - TUTTI_SOCKET_PROTOCOL on one host: every operation over MPTCP; ranks of which only some want it; a rank that dies; a
# kernel without MPTCP, in a network namespace; a wrong value.
# ctest: label=nosan label=once timeout=180
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
# shellcheck source=tests/hosts/namespaces.sh
source "${TUTTI_ROOT:?}/tests/hosts/namespaces.sh"

if [ "$(cat /proc/sys/net/mptcp/enabled 2>/dev/null)" != 1 ]; then skip "net.mptcp.enabled is not 1"; fi
space=tm$$
work=$(mktemp -d) || exit 1
clean_up() { # namespace, folder
    ip netns del "$1" 2>/dev/null
    rm -rf "$2"
}
export -f clean_up
leave_nothing "clean_up $space $work" clean_up $space "$work"
export TUTTI_TRANSPORT=tcp TUTTI_TIMEOUT=60s TUTTI_SOCKET_PROTOCOL=mptcp

for op in $operations; do
    run "$bin/tutti-perf" "$op" --ranks 3 --sizes 8,200K -n 1 -w 1 -c 1
done

said() { # what it was, how often, in every rank's log
    local count
    count=$(grep -c "$3" <<<"$output")
    [ "$count" = "$2" ] || fail "$1: '$3' comes $count times, not $2: $output"
}

hello() { # COMMAND...: that starts 3 ranks
    output=$(TUTTI_LOG=info timeout 100 "$@" "$bin/tutti-run" -n 3 --no-prefix bash -c "${rank_does:-true}"' && exec "$0"' "$bin/hello" 2>&1) ||
        fail "hello: $output"
    said hello 3 'and got 7 14 21'
}

hello env
said mptcp 0 'goes over TCP'
[[ $output == *'data to rank 0 goes over MPTCP'* ]] || fail "mptcp: nobody says that it is: $output"

# Two of three want it.
rank_does='[ $TUTTI_RANK != 1 ] || unset TUTTI_SOCKET_PROTOCOL' hello env
[[ $output != *'data to rank 1 goes over MPTCP'* ]] || fail "one without it: $output"

# A rank that is killed is the culprit for all others.
killed() { # hosts
    local rank tenths=600 pids=()
    rm -f "$work"/*
    for rank in 0 1 2; do
        env RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$((rank / $1)) LOCAL_WORLD_SIZE=$((3 / $1)) MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$((20000 + $$ % 10000)) TUTTI_HOSTID=$((rank % $1)) TUTTI_SECRET=of-this-test-alone TUTTI_LOG=info \
            "$tests/tests_hosts_tcp_reset_test" "$work/stop" 1 >"$work/rank$rank" 2>&1 </dev/null &
        pids+=($!)
    done
    until grep -qs '^round 3' "$work/rank0" || ((tenths-- == 0)); do sleep 0.1; done
    grep -q 'data to rank 1 goes over MPTCP' "$work/rank0" || fail "$1 hosts: no MPTCP: $(tail -5 "$work/rank0")"
    kill -KILL "${pids[1]}"
    wait "${pids[1]}" 2>/dev/null
    for rank in 0 2; do
        wait "${pids[rank]}" && fail "$1 hosts: rank $rank does not fail"
        grep -q ': rank 1 (host .*) \(died\|is gone\)' "$work/rank$rank" || fail "$1 hosts: rank $rank does not name rank 1: $(tail -5 "$work/rank$rank")"
    done
}
killed 1
killed 3

# Without it data goes over TCP, and each process says so once.
if [ -z "$(namespaces_missing)" ] && ip netns add $space; then
    ip netns exec $space ip link set lo up
    ip netns exec $space sysctl -qw net.mptcp.enabled=0
    hello ip netns exec $space
    said 'a kernel without MPTCP' 3 'TUTTI_SOCKET_PROTOCOL: this system makes no MPTCP sockets'
    ip netns del $space
fi

output=$(TUTTI_SOCKET_PROTOCOL=udp timeout 60 "$bin/tutti-run" -n 2 "$bin/hello" 2>&1) && fail "udp is no protocol: $output"
[[ $output == *'TUTTI_SOCKET_PROTOCOL=udp: tcp, mptcp or smc is needed'* ]] || fail "udp: $output"
exit $failed
