#!/bin/bash
# unreachable_test.sh - if ranks cannot connect to each other, the message at the deadline gives the address and the system's error. The
# test runs in a network namespace of its own, in which loopback is down.
#
# Needs root; exit code 77 means skipped. The namespace is gone when the processes in it have ended.
# ctest: label=nosan label=once waits
set -uo pipefail
TUTTI_BIN=$(realpath "${TUTTI_BIN:?}")
export TUTTI_BIN
here=$(realpath "${BASH_SOURCE[0]}")

# shellcheck source=tests/hosts/namespaces.sh
source "${here%/*}/../hosts/namespaces.sh"

expect() { # case, file, text
    grep -qE "$3" "$2" || fail "$1: '$3' is not in: $(cat "$2")"
}

# start NAME RANK VARIABLE=VALUE...: a rank of two that takes itself for the only one of its host.
start() {
    env RANK="$2" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 TUTTI_HOSTID="host-$2" TUTTI_SECRET=a-secret-of-this-test-alone \
        TUTTI_JOB_ID="$1" "${@:3}" timeout 60 "$TUTTI_BIN/hello" >"$1.$2" 2>&1 </dev/null &
}

in_namespace() {
    ip link set lo down
    export TUTTI_INIT_TIMEOUT=3s TUTTI_TIMEOUT=3s TUTTI_LOG=off
    local rank unreachable='connecting to [0-9.]+:[0-9]+: Network is unreachable'
    TUTTI_TRANSPORT=tcp timeout 60 "$TUTTI_BIN/tutti-run" -n 2 "$TUTTI_BIN/hello" >one_host 2>&1 </dev/null &
    for rank in 0 1; do start start "$rank" MASTER_ADDR=127.0.0.1 MASTER_PORT=29500; done
    wait
    expect 'an operation of one host over TCP' one_host "TIMEOUT: allreduce.*; $unreachable"
    expect 'rank 1 that does not get to rank 0' start.1 "INIT_TIMEOUT: .*; $unreachable"
    expect 'rank 0 to which nobody gets' start.0 "INIT_TIMEOUT: .*rank 1; nor does rank 0 reach its own port: $unreachable"
    # A card's address can be told to others; but what goes there from this very host goes over loopback, and is lost.
    ip link add card type veth peer name cable && ip address add 10.79.0.1/24 dev card || exit 1
    ip link set card up && ip link set cable up && mkdir folder || exit 1
    # The kernel notices some time later that the cable is in.
    for ((tries = 0; tries < 400; tries++)); do [[ $(ip link show card) != *LOWER_UP* ]] || break; sleep 0.05; done
    for rank in 0 1; do start joining "$rank" TUTTI_RENDEZVOUS_DIR="$PWD/folder" TUTTI_SOCKET_IFNAME=card; done
    wait
    for rank in 0 1; do
        expect "rank $rank that joins" joining.$rank 'INIT_TIMEOUT: .*; connecting to 10.79.0.1:[0-9]+: no answer'
    done
    ip link set lo up
    start refused 1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29600
    wait
    expect 'rank 1 without a rank 0' refused.1 'INIT_TIMEOUT: .*; connecting to 127.0.0.1:29600: Connection refused'
    exit $failed
}

if [ "${1:-}" = in_namespace ]; then in_namespace; fi

need_namespaces
work=$(mktemp -d) || exit 1
leave_nothing "rm -rf '$work'" rm -rf "$work"
cd "$work" || exit 1
# Whatever is left over in there ends with the first process of a PID namespace.
timeout -k 5 100 unshare --net --pid --fork --kill-child --mount-proc bash "$here" in_namespace
