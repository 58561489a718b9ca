#!/usr/bin/env bash
# synth_test.sh - tutti-synth from outside: the shelf of topologies has its bounds, plans are proven by tutti-plan, mistakes are named.
#
#     TUTTI_ROOT=. TUTTI_BIN=build/bin tests/tools/synth_test.sh
#
# Exit code 77 means skipped. The thread sanitizer takes the locks of libz3, which was built without it, for wrong ones.
# ctest: label=nosan
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

echo "a greedy search plans every collective"
dgx1=$shelf/dgx1-v100.json
is_proven() { # file
    "$bin/tutti-plan" verify "$1" >proof 2>&1 || fail "$1: $(head -c 500 proof)"
    "$bin/tutti-plan" verify "$1" --in-place >proof 2>&1 || fail "$1: $(head -c 500 proof)"
}
for collective in allgather reduce_scatter allreduce broadcast reduce gather scatter alltoall; do
    expect 0 "; the bound of " $collective --topo "$dgx1" --greedy --size 8m -o made.plan
    is_proven made.plan
    # predicted P us for N bytes; the bound ..., is B us
    sed -n 's/^predicted \([^ ]*\) us.* is \([^ ]*\) us$/\1 \2/p' out |
        awk '{ seen = 1; if ($1 < $2 * 0.999999) exit 1 } END { if (!seen) exit 1 }' ||
        fail "$collective is predicted to be faster than its bound: $(cat out)"
done
expect 0 "the bound of all links" allgather --topo "$shelf/dgx-h100-2.json" --greedy --attempts 1 -o made.plan
is_proven made.plan
expect 0 "attempts 3 at most, seed 7" broadcast --topo "$dgx1" --greedy --attempts 3 --seed 7 --root 5 -o first.plan
expect 0 "attempts 3 at most, seed 7" broadcast --topo "$dgx1" --greedy --attempts 3 --seed 7 --root 5 -o second.plan
cmp first.plan second.plan || fail "the same seed gives another plan"
expect 1 "--chunks 9 is no multiple of the 8 ranks" alltoall --topo "$dgx1" --greedy --chunks 9

echo "cuts refute without a solver, and its absence is told"
asks() { # C S R, further arguments
    echo --topo "$dgx1" --chunks "$1" --steps "$2" --rounds "$3"
}
mkdir none
: >none/libz3.so.4
# shellcheck disable=SC2046 # words
LD_LIBRARY_PATH=$work/none expect 1 "exact synthesis needs Z3 (Debian: libz3-4)" allgather $(asks 2 2 3)
# shellcheck disable=SC2046
LD_LIBRARY_PATH=$work/none expect 3 "infeasible: a checked cut" allgather $(asks 8 3 9) -o none.plan
# shellcheck disable=SC2046
LD_LIBRARY_PATH=$work/none expect 0 "feasible" gather $(asks 6 7 7) --root 1 -o made.plan # a flow
is_proven made.plan
[ ! -e none.plan ] || fail "a plan that does not exist was written"
expect 1 "--greedy and trees" allgather --topo "$shelf/dgx-h100-2.json" --chunks 1 --steps 2 --rounds 2
expect 1 "in more than 4096 ways" allgather --topo "$dgx1" --chunks 1 --steps 10 --rounds 60

echo "exact plans"
# shellcheck disable=SC2046
"$bin/tutti-synth" allgather $(asks 2 2 3) >out 2>&1
if grep -q "needs Z3" out; then
    echo "there is no Z3: no exact plans"
else
    feasible() { # collective, C S R, further arguments
        local collective=$1 question
        question=$(asks "$2" "$3" "$4")
        shift 4
        # shellcheck disable=SC2086
        expect 0 "feasible" "$collective" $question -o made.plan "$@"
        is_proven made.plan
    }
    feasible allgather 2 2 3
    grep -qF "costs 2 alpha + 3/2 n beta" out || fail "no cost: $(cat out)"
    grep -qF "no less than 7/6 n beta" out || fail "no bound: $(cat out)"
    feasible reduce_scatter 2 2 3
    feasible allreduce 8 4 4
    feasible allreduce 1 2 2 --direct
    feasible broadcast 2 2 2 --root 3
    feasible reduce 2 2 2 --root 3
    feasible scatter 6 7 7
    feasible alltoall 8 2 3
    # shellcheck disable=SC2046
    expect 4 "undecided: no reduce_scatter followed by an allgather" allreduce $(asks 1 2 2)
    # shellcheck disable=SC2046
    expect 3 "infeasible" allreduce $(asks 1 1 1) --direct -o none.plan
    # shellcheck disable=SC2046
    expect 3 "infeasible" broadcast $(asks 1 1 1) -o none.plan
    # shellcheck disable=SC2046
    expect 4 "undecided: the time is over" allgather $(asks 7 4 9) --time 0.1 -o none.plan
    expect 0 "no better plan up to chunks 2, steps 3, rounds 6" allgather --topo "$dgx1" --front --chunks 2 --steps 3 --rounds 6 -o front
    grep -qF "chunks 2, steps 2, rounds 3: costs 2 alpha + 3/2 n beta, in front-2-2-3.plan" out || fail "no front: $(cat out)"
    is_proven front-2-2-3.plan
    expect 3 "no plan up to chunks 2, steps 1, rounds 2" broadcast --topo "$dgx1" --front --chunks 2 --steps 1 --rounds 2
    expect 4 "" allgather --topo "$dgx1" --front --chunks 8 --time 0.001 # the bound is not known, or not all is decided
    [ ! -e none.plan ] || fail "a plan that does not exist was written"
    # shellcheck disable=SC2046
    "$bin/tutti-synth" allgather $(asks 2 2 3) 2>told >/dev/null
    [ ! -s told ] || fail "progress in a file: $(cat told)"
fi

echo "time may end at any moment"
for seconds in 0.001 0.02; do
    for words in "allgather --chunks 8 --steps 4 --rounds 10" "allreduce --chunks 16 --steps 6 --rounds 12" "alltoall --chunks 16 --steps 3 --rounds 8" \
        "allgather --front --chunks 6" "allgather --pieces 64" "allgather --greedy --chunks 64 --attempts 1000"; do
        # shellcheck disable=SC2086
        "$bin/tutti-synth" $words --topo "$dgx1" --time "$seconds" -o late.plan >out 2>&1
        case $? in 0 | 4) ;; *) grep -q "needs Z3" out || fail "$words within $seconds s: $(cat out)" ;; esac
    done
done
rm -f late*.plan
expect 4 "the time is over" allgather --topo "$shelf/dgx-h100-2.json" --pieces 1024 --time 0.05 -o late.plan
[ ! -e late.plan ] || fail "a plan was written after the time"
expect 0 "attempts 1000000 at most" broadcast --topo "$dgx1" --greedy --attempts 1000000 --time 0.5 -o made.plan
is_proven made.plan

echo "files are replaced as a whole"
cp "$dgx1" own.json
expect 1 "own.json: the plan would overwrite it" allgather --topo own.json -o own.json
cmp -s "$dgx1" own.json || fail "the topology was overwritten"
"$bin/tutti-synth" allgather --topo "$dgx1" -o /dev/stdout 2>/dev/null | grep "^plan allgather ranks 8" >/dev/null || fail "no plan in a pipe"
expect 0 "jobs take plans of at most" allgather --topo "$shelf/dgx-a100-2.json" --pieces 128 -o large.plan

echo "few trees are above the bound"
expect 0 "bound 7/6, attained 3/2" allgather --topo "$shelf/dgx1-v100.json" --k 1

echo "sockets that only their machine joins are joined"
cat >sockets.xml <<'XML'
<system version="1">
  <cpu numaid="0"><pci busid="0000:03:00.0" class="0x038000" link_speed="16 GT/s" link_width="16"><gpu dev="0" gcn="908" rank="0"/></pci></cpu>
  <cpu numaid="1"><pci busid="0000:43:00.0" class="0x038000" link_speed="16 GT/s" link_width="16"><gpu dev="1" gcn="908" rank="1"/></pci></cpu>
</system>
XML
expect 0 "no link joins 2 parts to the rest of their machine" allreduce --topo sockets.xml -o made.plan
grep -qF "bound 1/1, attained 1/1" out || fail "two sockets: $(cat out)"
is_proven made.plan
sed 's/numaid="0"/& host_hash="0xa"/; s/numaid="1"/& host_hash="0xb"/' sockets.xml >machines.xml
expect 1 "machines.xml: nothing joins rank 1 to rank 0: add the links" allgather --topo machines.xml
expect 1 "nothing joins rank 1 to rank 0" alltoall --topo machines.xml --greedy

echo "a plan with too many steps for MSCCL fits with as many pieces as the refusal says"
expect 0 "16 trees" allgather --topo "$dgx1" --pieces 64 -o long.plan
"$bin/tutti-plan" export long.plan --format msccl >none.xml 2>out && fail "more than 256 steps are exported"
percent=$(sed -n 's/.* has [0-9]* steps, and msccl takes at most 256; it fits with \([0-9]*\) % of its pieces (tutti-synth --pieces: [0-9]* in the place of 16)$/\1/p' out)
[ -n "$percent" ] || fail "no cure in: $(cat out)"
expect 0 "16 trees" allgather --topo "$dgx1" --pieces $((64 * ${percent:-1} / 100)) -o short.plan
"$bin/tutti-plan" export short.plan --format msccl >short.xml 2>out || fail "$percent % of the pieces do not fit: $(cat out)"

echo "mistakes are named"
printf '{"tutti_topology": 1, "root": {"kind": "machine", "children": [{"kind": "accelerator", "id": "a", "name": "left", "ranks": [0]},
 {"kind": "accelerator", "id": "b", "name": "right", "ranks": [%s]}]}, "links": [{"ends": ["a", "b"] %s}]}' 1 '' >silent.json
expect 1 "link 1, from accelerator left to accelerator right, needs bytes_per_second above 0" allgather --topo silent.json
sed 's/\[1\]/[2]/; s/"b"\] /&, "bytes_per_second": 1e9/' silent.json >numbers.json
expect 1 "rank 2 of 2" allgather --topo numbers.json
sed 's/"b"\] /&, "bytes_per_second": 1e9/' silent.json >pair.json
expect 0 "bound 1/1, attained 1/1" allgather --topo pair.json
expect 4 "the time is over" allgather --topo "$shelf/dgx-a100-2.json" --time 0.001 --pieces 64 -o late.plan
[ ! -e late.plan ] || fail "a plan that came too late was written"
expect 1 "no/where" allgather --topo pair.json -o no/where
expect 1 "absent.json" allgather --topo absent.json
echo "r0: node0 node1" >racks.txt
expect 1 "racks.txt: neither JSON nor XML" allgather --topo racks.txt
expect 1 "there is no root 7 of 2 ranks" broadcast --topo pair.json --root 7
expect 2 "there is no collective 'gathering'" gathering --topo pair.json
expect 2 "a barrier has no data" barrier --topo pair.json --greedy
expect 2 "one of them" allgather --topo pair.json --greedy --front
expect 2 "--pieces is for trees, not for --greedy" allgather --topo pair.json --greedy --pieces 2
expect 2 "--k is for trees, not for an exact plan" allgather --topo pair.json --chunks 1 --steps 1 --rounds 1 --k 1
expect 2 "--size is for --greedy, not for trees" allgather --topo pair.json --size 1M
expect 2 "--steps is for exact plans, not for --greedy" allgather --topo pair.json --greedy --steps 2
expect 2 "takes all of --chunks, --steps and --rounds" allgather --topo pair.json --chunks 2
expect 2 "--rounds 1 is below --steps 2" allgather --topo pair.json --chunks 2 --steps 2 --rounds 1
expect 2 "--rounds 3 is no multiple of --steps 2" allreduce --topo pair.json --direct --chunks 2 --steps 2 --rounds 3
expect 2 "--direct is for an allreduce, not for allgather" allgather --topo pair.json --direct
expect 2 "--front is not for allreduce" allreduce --topo pair.json --front
expect 2 "--front looks at up to 64" allgather --topo pair.json --front --chunks 65
expect 2 "allgather has no --root" allgather --topo pair.json --root 0
expect 2 "--size must be" allgather --topo pair.json --greedy --size 1T
expect 2 "--size must be" allgather --topo pair.json --greedy --size 1025G
expect 2 "--attempts must be" allgather --topo pair.json --greedy --attempts 0
expect 2 "alltoall does not go over trees" alltoall --topo pair.json
expect 2 "--topo FILE is missing" allgather
expect 2 "--k must be" allgather --topo pair.json --k 0
expect 2 "--pieces must be" allgather --topo pair.json --pieces x
expect 2 "--time must be" allgather --topo pair.json --time nan
expect 0 "tutti-synth" --version
exit $bad
