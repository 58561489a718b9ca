#!/usr/bin/env bash
# tutti_synth_test.sh - tutti-synth from outside: the shelf of topologies has its bounds, plans are proven by tutti-plan, mistakes are named.
#
#     TUTTI_ROOT=. TUTTI_BIN=build/bin tests/tutti_synth_test.sh
#
# Exit code 77 means skipped.
set -u
bin=${TUTTI_BIN:-}
if [ ! -x "$bin/tutti-synth" ]; then
    echo "TUTTI_BIN names no folder with tutti-synth: skipped"
    exit 77
fi
bin=$(realpath "$bin")
shelf=$(realpath "${TUTTI_ROOT:?}")/share/tutti/topologies
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0

fail() {
    echo "$1"
    bad=1
}

expect() { # exit status, text in the output, arguments
    local status=$1 text=$2
    shift 2
    timeout 100 "$bin/tutti-synth" "$@" >out 2>&1 </dev/null
    local got=$?
    [ $got = "$status" ] || fail "tutti-synth $*: exit $got instead of $status: $(head -c 500 out)"
    grep -qF -- "$text" out || fail "tutti-synth $*: no '$text' in: $(head -c 500 out)"
}

proves() { # collective, topology, arguments
    local collective=$1 topology=$2
    shift 2
    expect 0 "which is the bound" "$collective" --topo "$shelf/$topology.json" -o made.plan "$@"
    "$bin/tutti-plan" verify made.plan >out 2>&1 || fail "$collective on $topology: $(head -c 500 out)"
    "$bin/tutti-plan" verify made.plan --in-place >out 2>&1 || fail "$collective on $topology: $(head -c 500 out)"
}

echo "every topology of the shelf has its bound, and trees that attain it"
while read -r topology bound gigabytes; do
    expect 0 "bound $bound, attained $bound, which is the bound" allgather --topo "$shelf/$topology.json"
    grep -qF "algorithm bandwidth of the trees $gigabytes GB/s, at infinite size" out || fail "$topology: no $gigabytes in: $(cat out)"
done <<'TABLE'
chiplets-8 7/2 36.5714
dgx-a100 7/1 342.857
dgx-a100-2 15/13 346.667
dgx-h100-2 3/2 533.333
dgx1-v100 7/6 171.429
fat-tree-3 15/1 13.3333
hccs-8 1/1 224
mi250 6/5 333.333
ndv2-2 8/1 25
torus-4x4 15/4 213.333
two-racks-ethernet 7/1 1.42857
TABLE
[ "$(find "$shelf" -name '*.json' | wc -l)" = 11 ] || fail "the shelf has other topologies than this test"

echo "plans are proven by others"
for collective in allgather reduce_scatter allreduce broadcast reduce; do
    proves $collective dgx1-v100
    proves $collective two-racks-ethernet --pieces 1
done
proves allgather dgx-h100-2 --pieces 1
proves broadcast mi250 --root 5

echo "few trees are above the bound"
expect 0 "bound 7/6, attained 3/2" allgather --topo "$shelf/dgx1-v100.json" --k 1

echo "mistakes are named"
printf '{"tutti_topology": 1, "root": {"kind": "machine", "children": [{"kind": "accelerator", "id": "a", "name": "left", "ranks": [0]},
 {"kind": "accelerator", "id": "b", "name": "right", "ranks": [%s]}]}, "links": [{"ends": ["a", "b"] %s}]}' 1 '' >silent.json
expect 1 "the link from accelerator left to accelerator right has no bytes_per_second" allgather --topo silent.json
sed 's/\[1\]/[2]/; s/"b"\] /&, "bytes_per_second": 1e9/' silent.json >numbers.json
expect 1 "rank 2 of 2" allgather --topo numbers.json
sed 's/"b"\] /&, "bytes_per_second": 1e9/' silent.json >pair.json
expect 0 "bound 1/1, attained 1/1" allgather --topo pair.json
expect 4 "the time is over" allgather --topo "$shelf/dgx-a100-2.json" --time 0.001 --pieces 64 -o late.plan
[ ! -e late.plan ] || fail "a plan that came too late was written"
expect 1 "no/where" allgather --topo pair.json -o no/where
expect 1 "absent.json" allgather --topo absent.json
expect 1 "root 7 of 2 ranks" broadcast --topo pair.json --root 7
expect 2 "there is no collective 'gathering'" gathering --topo pair.json
expect 2 "alltoall does not go over trees" alltoall --topo pair.json
expect 2 "--topo FILE is missing" allgather
expect 2 "--k must be" allgather --topo pair.json --k 0
expect 2 "--pieces must be" allgather --topo pair.json --pieces x
expect 2 "--time must be" allgather --topo pair.json --time nan
expect 0 "tutti-synth" --version
exit $bad
