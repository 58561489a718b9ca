#!/bin/bash
# topo_probe_test.sh - tutti-topo --probe: what it prints can be read again, on ranks that take each other to be on several
# hosts; and on an emulated cluster (bench/peers/cluster) it finds the racks that are there, and none where there are none. So does
# a communicator as it is made, which also measures what cards and uplinks carry, and keeps that for the next one.
#
#     TUTTI_BUILD=build TUTTI_BIN=build/bin TUTTI_ROOT=. tests/choosing/topo_probe_test.sh
#
# Namespaces and processes are gone at the end. The cluster needs root and is left out without. Exit code 77 means skipped.
# ctest: label=nosan label=once timeout=200 serial
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
cluster=$(realpath "${TUTTI_ROOT:?}/bench/peers/cluster")
player=$(realpath -m "${TUTTI_BUILD:-}/tests/tests_faults_tracing_test") # leaves dumps
export CLUSTER_PREFIX=tp$$

# shellcheck source=tests/hosts/namespaces.sh
source "${BASH_SOURCE[0]%/*}/../hosts/namespaces.sh"

for program in tutti-topo tutti-run; do
    [ -x "$bin/$program" ] || skip "$program is not built"
done
work=$(mktemp -d) || exit 1
finish() {
    trap '' INT TERM HUP
    clean_up_cluster "$cluster" "$work"
}
leave_nothing finish clean_up_cluster "$cluster" "$work"
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE TUTTI_HOSTID TUTTI_TOPO_FILE

# Five ranks on three hosts that are none, rank r on host r modulo 3.
pretend() { # arguments of tutti-topo
    local rank pids=() code=0
    export WORLD_SIZE=5 MASTER_ADDR=127.0.0.1 TUTTI_SECRET=probe
    MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export MASTER_PORT
    for ((rank = 0; rank < WORLD_SIZE; rank++)); do
        RANK=$rank LOCAL_RANK=$((rank / 3)) LOCAL_WORLD_SIZE=$(((WORLD_SIZE + 2 - rank % 3) / 3)) TUTTI_HOSTID=$((rank % 3)) \
            timeout 60 "$bin/tutti-topo" --probe "$@" >>out 2>>err </dev/null &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
    unset WORLD_SIZE MASTER_ADDR MASTER_PORT TUTTI_SECRET
    return $code
}
: >out
pretend || fail "matrix: $(cat err)"
[ "$(grep -c '^ *[0-2] [^ ]' out)" = 6 ] || fail "no two matrices of three hosts: $(cat out)"
awk '/^ *[0-2] [^ ]/ { for (i = 3; i <= NF; i++) if ($i != "-" && $i + 0 <= 0) exit 1 }' out || fail "what was measured is not above 0: $(cat out)"
: >out
pretend --format json || fail "json: $(cat err)"
cp out probed.json
"$bin/tutti-topo" probed.json --format racks >racks 2>err || fail "its JSON cannot be read: $(cat err out)"
"$bin/tutti-topo" probed.json --levels >levels 2>err || fail "its JSON has no levels: $(cat err)"
grep -q '^all: 0-4$' levels || fail "its JSON has not five ranks: $(cat levels)"
[ "$(cut -d: -f2 racks | wc -w)" = 3 ] || fail "its JSON has not three machines: $(cat racks)"
: >out
pretend --format racks || fail "racks: $(cat err)"
"$bin/tutti-topo" out --format racks >again 2>err || fail "its racks cannot be read: $(cat err)"
cmp -s out again || fail "its racks are read as others: $(cat out again)"
[ $failed = 0 ] && echo "ok      what is printed can be read again"
if "$bin/tutti-run" -n 2 "$bin/tutti-topo" --probe >out 2>&1; then fail "measures between the ranks of one host"; fi
grep -q 'nothing to measure' out || fail "does not say that there is one host: $(cat out)"
# As for the library, one that is set to nothing is none.
TUTTI_HOSTID='' "$bin/tutti-run" -n 2 "$bin/tutti-topo" --probe >out 2>&1
grep -qF "on host $(uname -n): nothing to measure" out || fail "an empty TUTTI_HOSTID is a part of the name: $(cat out)"

stop_here() {
    echo "        $*: no cluster"
    exit $failed
}
why=$(namespaces_missing)
[ -z "$why" ] || stop_here "$why"

# Slow links and small bursts: what is measured is the links, not the cores that play the hosts.
# A frame of 1514 bytes carries 1448: 23.9 MB/s. A link has the best of its rounds, of which one may be lucky: whoever waits for
# a core finds tokens of the emulated link saved up meanwhile.
believable() { # hosts
    python3 -c "import json; rates = [l['bytes_per_second'] for l in json.load(open('probed.json'))['links']]
rates = sorted(rates)[-$1:]; assert rates[$1 // 2 - 1] < 24e6, rates" 2>err
}
# The numbers that the start has measured, of links of 23.9 MB/s, in the file `out`: within a factor of two.
near() { # what
    sed -n "s|.*measured between hosts: $1 carries \([0-9.]*\) MB/s.*|\1|p" out | head -n 1 |
        awk '{ found = $1 > 12 && $1 < 48 } END { exit !found }'
}
start() {
    TUTTI_LOG=info "$bin/tutti-run" --rsh "$cluster rsh" --timeout 60 --hosts hosts "$bin/tutti-perf" allreduce \
        --sizes 64K --iters 5 >out 2>&1 </dev/null || fail "a start: $(tail -20 out)"
}
# What two starts have found alike is not measured again, unless two rounds show something else: cards that were said to have 10 Gbit/s.
# So slow are the links that two cores play the two hosts beside whatever else they do.
keeps() {
    local attempt holds='measured between these 2 hosts still holds'
    "$cluster" down >/dev/null 2>&1
    "$cluster" up --hosts 2 --host-rate 100mbit --burst 32768 --queue 262144 >up 2>&1 || stop_here "$(tail -1 up)"
    "$cluster" hostfile | sed 's/$/ slots=1/' >hosts
    for attempt in 1 2 3 4 5; do
        start
        grep -q "$holds" out && break
        echo "        2 hosts, kept, attempt $attempt: $(cat cache/tutti/network-*.txt | tr '\n' ' ')"
    done
    grep -q "$holds" out || fail "nothing is kept: $(tail -20 out)"
    sed -i 's/^card_byte_fs [0-9]*/card_byte_fs 800000/' cache/tutti/network-*.txt
    start
    ! grep -q "$holds" out || fail "what is wrong is kept: $(cat cache/tutti/network-*.txt)"
    [ $failed = 0 ] && echo "ok      what two starts have found holds for others, until it does not"
}
finds() { # hosts, racks, word for hostfile, expected lines, and racks of the ranks' hosts
    local attempt too_fast
    "$cluster" down >/dev/null 2>&1
    "$cluster" up --hosts "$1" --racks "$2" --host-rate 200mbit --uplink-rate 200mbit --burst 32768 --queue 262144 >up 2>&1 ||
        stop_here "$(tail -1 up)"
    # shellcheck disable=SC2086 # no word, or one
    "$cluster" hostfile $3 | sed 's/$/ slots=1/' >hosts
    # Who shares the cores with something else at that moment measures that; three times in a row nobody should.
    for attempt in 1 2 3; do
        "$bin/tutti-run" --rsh "$cluster rsh" --timeout 60 --hosts hosts "$bin/tutti-topo" --probe --format json \
            -o "$work/probed.json" >out 2>&1 </dev/null || fail "$1 hosts: $(tail -20 out)"
        "$bin/tutti-topo" probed.json --format racks >racks 2>err || fail "its JSON cannot be read: $(cat err)"
        sed "s/$CLUSTER_PREFIX-//g" racks >found
        too_fast=
        believable "$1" || too_fast=", links are faster than they are: $(tail -1 err)"
        [ "$(cat found)$too_fast" = "$4" ] && break
        echo "        $1 hosts, $2 racks ${3:-in order}, attempt $attempt: $(tr '\n' ' ' <found)$too_fast"
    done
    [ "$(cat found)$too_fast" = "$4" ] || fail "$1 hosts, $2 racks, ${3:-in order}$too_fast: $(cat probed.json)"
    TUTTI_TOPO_FILE=$work/racks "$bin/tutti-run" --rsh "$cluster rsh" --timeout 60 --hosts hosts "$bin/tutti-perf" allreduce \
        --sizes 64K --iters 5 >out 2>&1 </dev/null || fail "the library does not take the racks: $(tail -20 out)"
    if (($2 > 1)) && [ -x "$player" ] && [ -x "$bin/tutti-trace" ]; then # dumps have them, too
        rm -rf dumps
        mkdir dumps
        TUTTI_TRACE_DIR=$work/dumps TUTTI_TOPO_FILE=$work/racks "$bin/tutti-run" --rsh "$cluster rsh" --timeout 60 --hosts hosts \
            "$player" scene fine >out 2>&1 </dev/null || fail "a job that leaves dumps: $(tail -20 out)"
        "$bin/tutti-trace" compare dumps >out 2>&1 || fail "compare: $(cat out)"
        grep -q "^communicator [0-9a-f]*: $1 ranks on $1 hosts in $2 racks, " out || fail "dumps do not say the racks: $(cat out)"
    fi
    for attempt in 1 2 3 4 5; do # what the library finds by itself, as it starts
        start
        # tutti-perf makes two communicators
        sed -n 's/.*hosts measured, racks of theirs: //p' out | head -n 1 >found
        near 'a network card' || echo 'no card' >>found
        if [ "$2" != 1 ]; then near 'an uplink' || echo 'no uplink' >>found; fi
        [ "$(cat found)" = "$5" ] && break
        echo "        $1 hosts, $2 racks ${3:-in order}, at the start, attempt $attempt: $(tr '\n' ' ' <found)"
    done
    [ "$(cat found)" = "$5" ] || fail "$1 hosts, $2 racks, ${3:-in order}, at the start: $(tail -20 out)"
    [ $failed = 0 ] && echo "ok      $1 hosts in $2 racks ${3:-in order}"
}
if [ "${TUTTI_LONG:-}" ]; then
    finds 4 2 "" $'rack0: h0 h1\nrack1: h2 h3' '0 0 1 1'
    finds 4 1 "" 'rack0: h0 h1 h2 h3' '0 0 0 0'
fi
keeps
finds 6 2 interleaved $'rack0: h0 h1 h2\nrack1: h3 h4 h5' '0 1 0 1 0 1'
exit $failed
