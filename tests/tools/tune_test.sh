#!/usr/bin/env bash
# tune_test.sh - tutti-tune from outside: two ranks measure, and what they write can be shown, merged and exported. Who is faster is not
# asked.
#
#     TUTTI_BIN=build/bin tests/tools/tune_test.sh
#
# Exit code 77 means skipped.
# ctest: label=longsan label=notsan
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

bin=${TUTTI_BIN:-}
if [ ! -x "$bin/tutti-tune" ]; then
    echo "TUTTI_BIN names no folder with tutti-tune: skipped"
    exit 77
fi
bin=$(realpath "$bin")
tool=$bin/tutti-tune

work=$(mktemp -d) || exit 1
finish() {
    rest
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
cd "$work" || exit 1
# shellcheck source=tests/kit/tool.sh
source "$shared"

# tunes RANKS ARGUMENTS...: output is in ./out and ./err
tunes() {
    local ranks=$1
    shift
    timeout 100 "$bin/tutti-run" --no-prefix -n "$ranks" "$tool" "$@" >out 2>err </dev/null ||
        fail "$ranks ranks, $*: exit $?: $(cat err)"
}

echo "wrong command lines are refused with 2"
for words in "a" "--show" "--show a b" "--merge a" "--export nccl" "--export xml a" "--show --merge a b" "--show a -o b" "--show a --mapped" \
    "--collectives all" "--collectives allreduce," "--sizes 0" "--sizes 3" "--sizes 8-4" "--sizes 8-" "--sizes 8x" "--sizes 99999999999999999999" \
    "--sizes 2-8" "--datatype int" "--margin -1" "--margin 1001" "--margin x" "--time 0" "--time nan" "--unknown" "-o"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 $words
    [ -s err ] || fail "'$words' is refused without a word"
    [ -s out ] && fail "'$words' is refused and prints"
done

echo "help and version"
exits 0 --help
says out "tutti-tune --show FILE"
exits 0 --version
says out "tutti-tune "

echo "alone, it says how to start it"
for variable in $(compgen -e | grep -E '^(TUTTI_(RANK|SIZE|PODS)|(MV2_|OMPI_|PMIX?_|PET_|SLURM_|FLUX_|LOCAL_|GROUP_|MASTER_|TORCHELASTIC_|JOB_COMP).*|RANK|WORLD_SIZE)$'); do
    unset "$variable"
done
exits 1 --sizes 8
says err "no launcher is recognised"
says err "tutti-run -n 2 tutti-tune"
grep -q "id in the options" err && fail "it has no such options: $(cat err)"

echo "two ranks measure two sizes"
tunes 2 --collectives allreduce --sizes 1k-4k --time 0.02 --margin 50% -o table.json
says err "tutti-tune: measured: 2; entries: "
says err "; table.json is written"
[ -s out ] && fail "it prints: $(cat out)"
grep -q $'\r\|\x1b' err && fail "progress goes to a pipe: $(cat -v err)"
says table.json '"tutti_table": 1'
exits 0 --show table.json
grep -qE '^(no entries|2 ranks on 1 host in 1 rack$)' out || fail "--show: $(cat out)"
! command -v python3 >/dev/null || python3 -m json.tool table.json >/dev/null 2>err || fail "this is no JSON: $(cat err)"

echo "every collective can be measured"
tunes 3 --sizes 8 --time 0.001 --mapped
says err "tutti-tune: measured: 9; "
says out '"tutti_table": 1'

echo "plans of a folder are measured, too"
mkdir plans
"$bin/tutti-plan" show allgather ring --ranks 3 >plans/ring.plan 2>err || fail "no plan: $(cat err)"
TUTTI_PLANS=$work/plans tunes 3 --collectives allgather --sizes 64k --time 0.02 -o table.json
says err "tutti-tune: measured: 1; entries: "
# Who wins is chance; a plan of the folder stands in no table.
grep -q "ring.plan" table.json && fail "a table names a plan of a folder: $(cat table.json)"
if grep -q "plans of the folder" err; then
    rules=$(sed -n "s/.*TUTTI_ALGORITHMS='\(.*\)'$/\1/p" err)
    TUTTI_ALGORITHMS=$rules timeout 60 "$bin/tutti-run" --no-prefix -n 3 "$bin/tutti-perf" allgather --sizes 64k -n 2 >out 2>&1 ||
        fail "the printed rule does not run: $rules: $(cat out)"
fi

echo "a table that is measured while others use the machine says so"
spin $(($(nproc) / 5 + 1))
tunes 2 --collectives allreduce,allgather,alltoall --sizes 1m-4m --time 0.5 -o loaded.json
rest
grep -qE '^tutti-tune: host .+ is loaded, and the table says so: others used [0-9]+ % of all its processors, and a hypervisor took [0-9]+ %$' err ||
    fail "others use the machine, and it says: $(cat err)"
says loaded.json '"loaded": true'
exits 0 --show loaded.json
says out "others used the machines while they were measured"
TUTTI_TABLE=loaded.json TUTTI_LOG=warn timeout 60 "$bin/tutti-run" --no-prefix -n 2 "$bin/tutti-perf" allreduce --sizes 64k -n 2 >out 2>&1 ||
    fail "a loaded table cannot be used: $(cat out)"
says out "loaded.json was measured while others used the machines: tutti-tune measures again"

echo "one rank has nothing to choose"
timeout 60 "$bin/tutti-run" --no-prefix -n 1 "$tool" >out 2>err </dev/null
[ $? = 1 ] || fail "one rank: $(cat err)"
says err "one rank has nothing to choose"

echo "tables are merged"
entry() { # collective, from, to, algorithm
    printf '{"ranks": 2, "collective": "%s", "from_bytes": %s, "to_bytes": %s, "algorithm": "%s", "time_ns": 1500, "faster_permille": 250}' "$@"
}
table() { # file, entries
    local file=$1 IFS=,
    shift
    printf '{"tutti_table": 1, "entries": [%s]}' "$*" >"$file"
}
table one.json "$(entry allreduce 8 4096 ring)" "$(entry alltoall 8 64 pairwise)"
table other.json "$(entry allreduce 1024 65536 tree)"
exits 0 --merge one.json other.json -o both.json
exits 0 --show both.json
grep -qE '^  allreduce  +plain  +private  +8-1k  +1.50 us  +\+25.0 %  ring$' out || fail "no ring up to 1k: $(cat out)"
grep -qE '^  allreduce  +plain  +private  +1k-64k .*  tree$' out || fail "no tree from 1k on: $(cat out)"
grep -qE '^  alltoall  +all  +private  +8-64 .*  pairwise$' out || fail "no alltoall: $(cat out)"
exits 0 --merge other.json one.json
cp out again.json
exits 0 --show again.json
grep -qE ' 8-4k .*  ring$' out || fail "the later file does not win: $(cat out)"
exits 0 --merge both.json loaded.json
says out '"loaded": true'
exits 0 --merge table.json both.json
says out '"tutti_table": 1'

echo "NCCL gets what it knows"
exits 0 --export nccl both.json -o nccl.csv
grep -qxF 'allreduce,8,1023,ring,simple,-1,1,2,-1,0' nccl.csv || fail "no ring: $(cat nccl.csv)"
grep -qxF 'allreduce,1024,65535,tree,simple,-1,1,2,-1,0' nccl.csv || fail "no tree: $(cat nccl.csv)"
says err "1 of 3 entries have no counterpart in NCCL and are left out"

echo "wrong files are told with name and line"
exits 1 --show nowhere.json
says err "nowhere.json: No such file"
table wrong.json "$(entry allreduce 8 64 best)"
exits 1 --show wrong.json
says err 'wrong.json: line 1: "algorithm": "best" is not known'
exits 1 --merge both.json wrong.json -o merged.json
[ -e merged.json ] && fail "a table is made of a wrong one"
chmod 666 both.json
exits 1 --show both.json
says err "both.json: other users can write it"
exits 1 --merge one.json other.json -o /dev/null/nowhere.json

if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all fine"
