#!/usr/bin/env bash
# trace_test.sh - tutti-trace from outside: verdicts over real jobs of each sort, tables, queries, and files that are wrong.
#
#     TUTTI_BUILD=build TUTTI_BIN=build/bin tests/tools/trace_test.sh
#
# Exit code 77 means skipped.
# ctest: label=nosan label=once timeout=120 waits
set -u
shared=$(realpath "${BASH_SOURCE[0]%/*}/../kit/tool.sh")

trace=${TUTTI_BIN:-}/tutti-trace
player=${TUTTI_BUILD:-}/tests/tests_faults_tracing_test
gates=${TUTTI_BUILD:-}/tests/tests_calls_gates_test
plan=${TUTTI_BIN:-}/tutti-plan
if [ ! -x "$trace" ] || [ ! -x "$player" ] || [ ! -x "$gates" ] || [ ! -x "$plan" ]; then
    echo "TUTTI_BIN names no tutti-trace and tutti-plan, or TUTTI_BUILD no tests_faults_tracing_test and tests_calls_gates_test: skipped"
    exit 77
fi
trace=$(realpath "$trace")
player=$(realpath "$player")
gates=$(realpath "$gates")
plan=$(realpath "$plan")

work=$(mktemp -d) || exit 1
children=()
# shellcheck disable=SC2317
clean_up() {
    if ((${#children[@]} > 0)); then kill -9 "${children[@]}" 2>/dev/null; fi
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work" || exit 1
unset TUTTI_TRACE_DIR TUTTI_TRACE_SIGNAL TUTTI_METRICS_DIR TUTTI_PLANS TUTTI_ALGORITHMS
export TUTTI_LOG=off
tool=$trace
# shellcheck source=tests/kit/tool.sh
source "$shared"

says() { # file, extended regular expression
    grep -qE -- "$2" "$1" || fail "no '$2' in: $(head -c 1000 "$1")"
}

# start_ranks N SCENE: as a job of its own; their processes are ${children[@]}.
jobs=0
start_ranks() {
    local rank
    jobs=$((jobs + 1))
    children=()
    for ((rank = 0; rank < $1; rank++)); do
        RANK=$rank WORLD_SIZE=$1 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$((20000 + $$ % 20000 + jobs)) "$player" scene "$2" >"$rank.out" 2>&1 &
        children+=($!)
    done
}

wait_for_ranks() {
    local child
    for child in "${children[@]}"; do wait "$child" 2>/dev/null; done
    children=()
}

# verdict_of SCENE: of three ranks that played it; in ./out.
verdict_of() {
    local code=$1 scene=$2
    export TUTTI_TRACE_DIR=$work/$scene
    start_ranks 3 "$scene"
    wait_for_ranks
    unset TUTTI_TRACE_DIR
    exits "$code" verdict "$work/$scene"
    [ "$(wc -l <out)" = 1 ] || fail "a verdict is one line: $(cat out)"
}

echo "wrong command lines are refused with 2"
for words in "" "frob" "verdict" "verdict a b" "show" "show a b" "query x" "query --why x" "query --what" "query 0" "query -1" "query 1x" "--unknown" "-x"; do
    # shellcheck disable=SC2086 # words are words
    exits 2 $words
    [ -s err ] || fail "'$words' is refused without a word"
    [ -s out ] && fail "'$words' is refused and prints"
done

echo "help and version"
exits 0 --help
says out "tutti-trace verdict DIR"
exits 0 --version
says out "^tutti-trace [0-9]"

echo "files that are wrong"
exits 2 verdict nowhere
says err "No such file"
mkdir empty wrong
exits 2 verdict empty
says err "there are no dumps"
echo '{"tutti_trace": 1}' >wrong/tutti-ab-rank0.json
exits 2 verdict wrong
says err "communicator"
exits 2 show wrong/tutti-ab-rank0.json
head -c 5000000 /dev/zero >wrong/tutti-ab-rank0.json
exits 2 verdict wrong
echo "$((1 << 4))" >wrong/notes.txt # nobody looks at it
rm wrong/tutti-ab-rank0.json
exits 2 verdict wrong

echo "verdicts"
export TUTTI_TIMEOUT=1
verdict_of 0 fine
says out '^nothing is wrong: nothing failed, and no rank waits$'
[ "$(find fine -name '*.json' | wc -l)" = 3 ] || fail "three ranks leave $(ls fine)"
[ "$(find fine -type f | wc -l)" = 3 ] || fail "something else lies there: $(ls fine)"
verdict_of 1 late
says out '^rank 1 \(host .*, pid [0-9]+\) is late: rank [02] waits in allreduce\(count 4, float32, sum\) #4, which it has not called'
tracing=$player player=$gates
verdict_of 1 gate
says out '^rank 1 \(host .*, pid [0-9]+\) is late: it has called allreduce\(count 1, int32, sum\) #1, which waits for its gate there for '
player=$tracing
export TUTTI_TRACE_DIR=$work/stopped TUTTI_TIMEOUT=2
start_ranks 3 stopped
wait "${children[0]}" "${children[2]}"
kill -9 "${children[1]}"
wait_for_ranks
unset TUTTI_TRACE_DIR
exits 1 verdict stopped
says out '^rank 1 \(host .*, pid [0-9]+\) is stalled: rank [02] waits for it in allreduce\(count 4, float32, sum\) #4, and found that its process does not run .*; it left no trace$'
exits 0 show stopped/*-rank0.json
says out '^failed: TIMEOUT: .*rank 1 \(host .*\) has not called it, and does not run \(stopped by a signal or a debugger\); deadline of 2 s'
says out ' (TIMEOUT|running) .*#4, waited for rank 1 .*, which did not run'
exits 0 report stopped -o stopped.html
says stopped.html 'Rank 1 is stalled'
says stopped.html '; its process did not run'
export TUTTI_TIMEOUT=20
verdict_of 1 die
says out '^rank 1 \(host .*, pid [0-9]+\) is dead or gone: .*died.*; it left no trace$'
verdict_of 1 mismatch
says out '^rank [0-9] \(.*\) mismatched: it called allreduce\(count [48], float32, sum\) #4, where rank [0-9].* called allreduce\(count [48],'
verdict_of 1 desync
# Who is late to it finds the communicator failed and calls nothing: then it is one against one, and either may be named.
says out '^rank (1 \(.*\) is desynchronised: it called barrier\(\) #4, where rank [02]( and others)? called allreduce|[02] \(.*\) is desynchronised: it called allreduce\(count 4, float32, sum\) #4, where rank 1 called barrier)'
verdict_of 1 abort
says out '^rank 1 \(.*\) failed: ABORTED: .*the loss is NaN'

echo "a table"
exits 0 show fine/*-rank0.json
says out '^rank 0 \(host .*, pid [0-9]+\) of 3, communicator [0-9a-f]{16}: 3 calls$'
says out '^ +[0-9.]+ [mu]?s +(< 2|[0-9.]+) [num]s +[0-9.]+ [nu]s  done +[a-z_]+ +allreduce\(count 4, float32, sum\) #3'
says out '^algorithms:$'
says out '^    allreduce of 4 float32, 16 bytes: [a-z_]+, about [0-9.]+ [nu]s, because the model takes it to be the fastest; next best [a-z_]+, [0-9.]+ [nu]s; 3 recent calls'
sed '/^ "choices": /,/],$/d; s/, "expected_ns": [0-9]*//' fine/*-rank0.json >without.json
exits 0 show without.json # as older versions wrote them
says out ' done .* allreduce\(count 4, float32, sum\) #3'
grep -q '^algorithms' out && fail "there are no choices, and: $(cat out)"
exits 0 show late/*-rank0.json
says out '^failed: TIMEOUT: '
says out ' (TIMEOUT|running) .*#4, waited for rank 1 ' # who writes it may be the monitor, while the call still is on its way out

exits 0 show gate/*-rank1.json
says out ' (TIMEOUT|running) .*allreduce\(count 1, int32, sum\) #1, wait(ed|s) for its gate'
exits 0 show gate/*-rank0.json
says out '^failed: TIMEOUT: .*has called it, and waits for its gate'
says out ' (TIMEOUT|running) .*#1, waited for rank [12] '

echo "queries"
# Plans of the user, more than are kept: some are slower, and their paths are too long to be shown whole; some are for more ranks.
plans=$work/plans$(printf '/a-long-name-%.0s' {1..9})
mkdir -p "$plans"
"$plan" show allreduce ring --ranks 2 >"$plans/two.plan"
"$plan" show allreduce ring --ranks 3 >"$plans/three.plan"
for i in 1 2 3 4 5; do cp "$plans/two.plan" "$plans/two$i.plan"; done
for i in 1 2 3 4 5 6 7 8 9; do cp "$plans/three.plan" "$plans/three$i.plan"; done
echo 'plan allreduce ranks 2 parts 1' >"$plans/cut.plan"
cp "$plans/two.plan" "$plans/writable.plan"
chmod 666 "$plans/writable.plan"
export TUTTI_TIMEOUT=60 TUTTI_TRACE_DIR=$work/signalled TUTTI_TRACE_SIGNAL=USR2
TUTTI_PLANS=$plans start_ranks 2 stop
for ((i = 0; i < 100; i++)); do # until it has waited for long enough to say for whom
    "$trace" query "${children[@]}" >out 2>err && grep -q "waits for" out && break
    sleep 0.1
done
exits 0 query "${children[@]}"
says out "^pid ${children[0]}  [0-9a-f]{8}  rank 0 of 2: allreduce\(count 4, float32, sum\) #4 for [0-9.]+ m?s, waits for rank 1 \(host .*, pid ${children[1]}\) for "
says out "^pid ${children[1]}  [0-9a-f]{8}  rank 1 of 2: in no call for [0-9.]+ m?s, after allreduce\(count 4, float32, sum\) #3"
[ "$(wc -l <out)" = 2 ] || fail "two ranks, and: $(cat out)"
exits 0 query --why "${children[1]}"
says out "^pid ${children[1]} "
says out '^    allreduce of 4 float32, 16 bytes: [a-z_]+, about [0-9.]+ [nu]s, because the model takes it to be the fastest; next best [a-z_]+, [0-9.]+ [nu]s; 3 recent calls'
says out '^        \.\.\.[a-z/-]+/two\.plan is not used: about [0-9.]+ [nu]s$'
says out '^    \.\.\.[a-z/-]+/three\.plan is not used: it is for 3 ranks, and there are 2$'
says out '^    \.\.\.[a-z/-]+/cut\.plan is not used: line 2: the text ends before rank 0$'
says out '^    \.\.\.[a-z/-]+/writable\.plan is not used: other users can write it \(mode 0666\)'
says out '^        2 more plans are not used$'
says out '^    4 more plans are not used: with TUTTI_LOG=info, the log of rank 0 says which, and why$'
[ "$(wc -l <out)" = 16 ] || fail "one rank, one choice with four plans and some more, eight plans and some more, and: $(cat out)"
"$trace" query >out 2>err # processes of other tests may be stopped
says out "^pid ${children[1]} "
exits 1 query "${children[0]}" $$
says err "process $$ has no communicator"

echo "a query that names no process leaves out those that end meanwhile, and those of other users"
if command -v python3 >/dev/null; then # it has the name still, or already, and answers nobody
    python3 -c 'import os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(b"\0tutti-monitor/%d" % os.getpid())
print("bound", flush=True)
time.sleep(60)' >mute.out &
    mute=$!
    children+=($mute)
    for ((i = 0; i < 100; i++)); do grep -q bound mute.out && break; sleep 0.1; done
    "$trace" query >out 2>err # processes of other tests may be stopped
    says out "^pid ${children[0]} "
    grep -q $mute err && fail "it complains: $(cat err)"
    exits 1 query $mute
    says err "process $mute has no communicator"
    kill -9 $mute
    wait $mute 2>/dev/null
    unset 'children[-1]'
fi
if ((EUID == 0)) && setpriv --reuid 65534 --regid 65534 --clear-groups "$trace" --version >/dev/null 2>&1; then
    printf '#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups "%s" "$@"\n' "$trace" >other
    chmod +x other
    tool=./other
    exits 1 query
    [ -s out ] && fail "another user's ranks answer: $(cat out)"
    says err "no process of this user has a communicator on this host"
    [ "$(wc -l <err)" = 1 ] || fail "one line, and: $(cat err)"
    exits 1 query "${children[0]}"
    says err "process ${children[0]} belongs to another user"
    tool=$trace
fi

echo "dumps on a signal"
sleep 2.2 # who waits for less is not kept waiting
kill -USR2 "${children[@]}"
for ((i = 0; i < 100; i++)); do
    [ "$(find signalled -name 'tutti-*.json' 2>/dev/null | wc -l)" = 2 ] && break
    sleep 0.1
done
exits 1 verdict signalled
says out '^rank 1 .* is late: rank 0 waits in '

echo "a stopped process does not hold up a query"
kill -STOP "${children[1]}"
exits 1 query "${children[@]}"
says out "^pid ${children[0]} "
says err "does not answer"
kill -9 "${children[@]}"
wait_for_ranks
exits 1 query $$

[ $failures = 0 ] || echo "$failures failures"
[ $failures = 0 ]
