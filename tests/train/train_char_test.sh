#!/bin/bash
# examples/train_char learns, with gradients as they are and with each method of compression, and refuses what makes no sense.
# ctest: label=longsan label=notsan timeout=120
set -uo pipefail
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT

run=${TUTTI_BIN:?}/tutti-run
program=$TUTTI_BIN/train_char
# Words in any order: their letters can be learnt, and more of a word says more of it.
for i in $(seq 400); do
    echo "collective communication of ranks $((i % 7)) rings and trees of gradients $((i % 11)) move by themselves"
done >text

fail() {
    echo "$1"
    exit 1
}

# loss [-n RANKS] OPTION...: of what was held out, after some steps on two ranks.
loss() {
    local ranks=2
    if [[ ${1-} == -n ]]; then
        ranks=$2
        shift 2
    fi
    "$run" -n "$ranks" --no-prefix "$program" --text text --steps 60 --batch 64 --hidden 32 "$@" >out 2>err || fail "$*: $(cat out err)"
    sed -n 's/^final loss .*, \([0-9.]*\) on what.*/\1/p' out
}

plain=$(loss)
beat=$(sed -n 's/^loss to beat *\([0-9.]*\),.*/\1/p' out)
for how in powersgd:2 top:0.1 int8 mxfp4 bfloat16; do
    with=$(loss --compress "$how")
    grep -q '^compression    gradients went in 1/' out || fail "$how: nothing says that it compresses: $(cat out)"
    awk "BEGIN { exit !($with < 0.9 * $beat && $with < 1.5 * $plain) }" || fail "$how: loss $with, without $plain, to beat $beat"
done
for how in sgd:5 'diloco:5 --outer-lr 0.1' streaming:5; do
    # shellcheck disable=SC2086 # options
    with=$(loss --local $how)
    grep -q '^compression    parameters, now and then, went in 1/5' out || fail "$how: nothing says that it synchronises: $(cat out)"
    awk "BEGIN { exit !($with < 0.95 * $beat) }" || fail "$how: loss $with, to beat $beat"
done
# On a server the synchronous run computes what ranks compute that average gradients; the other modes learn.
with=$(loss -n 3 --server synchronous)
awk "BEGIN { exit !($with < $plain + 0.002 && $with > $plain - 0.002) }" || fail "synchronous server: loss $with, without $plain"
for how in bounded:2 asynchronous quorum:1 quorum:2; do
    with=$(loss -n 3 --server "$how")
    awk "BEGIN { exit !($with < 0.95 * $beat) }" || fail "$how: loss $with, to beat $beat"
done
# Gradients that are dropped are missed; those that wait are not.
with=$(loss --compress top:0.01) without=$(loss --compress top:0.01 --no-feedback)
awk "BEGIN { exit !($with < $without) }" || fail "top:0.01: loss $with with feedback, $without without"

for how in sgd sgd:1 adam:5 none; do
    "$program" --text text --local "$how" >out 2>err
    [[ $? == 2 ]] || fail "--local $how is not refused: $(cat out err)"
done
for how in bounded quorum:x eager synchronous:1; do
    "$program" --text text --server "$how" >out 2>err
    [[ $? == 2 ]] || fail "--server $how is not refused: $(cat out err)"
done
for how in powersgd powersgd:0 powersgd:65 top:2 none zip; do
    "$program" --text text --compress "$how" >out 2>err
    [[ $? == 2 ]] || fail "--compress $how is not refused: $(cat out err)"
    grep -q "this makes no sense: $how" err || fail "--compress $how: $(cat err)"
done
