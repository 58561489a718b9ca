#!/bin/bash
# examples/gpt --compress: replicas have the same bits, exact averages train as one process does, and approximate ones nearly so; a run goes on
# from a checkpoint with the bits of one that never stopped; what does not fit is refused.
# ctest: label=nosan timeout=300
set -uo pipefail

gpt=${TUTTI_BIN:?}/gpt
tool=$TUTTI_BIN/tutti-run
# shellcheck source=tests/train/gpt.sh
source "${TUTTI_ROOT:?}/tests/train/gpt.sh"

write_text 600
small=(--text text --tokenizer words --vocabulary 270 --context 12 --width 16 --layers 2 --heads 4 --hidden 22 --batch 8 --warm-up 3 --write 0
    --zero 0)
methods=(int4 powersgd:4 top:0.05)

# ------------------------------------------------------------------------------------------------ what it computes

# METHOD CODE WORDS...: 24 steps of two replicas and two micro-batches, and the same in one process. The program itself gives up if replicas differ.
compares() {
    local method=$1 code=$2
    shift 2
    exits "$code" -n 2 "$gpt" "${small[@]}" --steps 24 --mesh dp=2 --micro-batch 2 --check-single --compress "$method" "$@"
    grep -q 'one process  *differs by' out || fail "$method $*: nothing was compared: $(cat out err)"
    grep -q 'compression  *gradients went in 1/' out || fail "$method $*: no word of bytes: $(cat out)"
    grep -q 'to the byte what the formulas say' out || fail "$method $*: other bytes are not as the formulas say: $(cat out)"
}
compares none 0
if grep -q 'compressed nothing' out; then fail "exact averages are compared loosely: $(cat out)"; fi
compares int4 0
grep -q 'compressed nothing; the mean loss of the last quarter here is' out || fail "not told what was compared: $(cat out)"
told=$(grep 'held out ' out)
compares int4 0 --reduce-late
[[ $told && $(grep 'held out ' out) == "$told" ]] || fail "reducing late gives something else: $(cat out)"
compares powersgd:4 0
compares top:0.001 1 # a share with which this model learns too little
grep -q 'the mean loss of the last quarter here is +[1-9][0-9]' out || fail "not told by how much it is worse: $(cat out)"
compares int8 0 --dtype bf16 --wide-gradients

# This rate makes gradients that are not finite: their steps are skipped, on all replicas.
for method in int8 powersgd:4; do
    exits 0 -n 2 "$gpt" "${small[@]}" --steps 12 --lr 1000 --weight-decay 1000 --report 4 --compress "$method"
    grep -q '[1-9]* of 12 steps were skipped' out || fail "$method: no step is skipped: $(cat out err)"
done

# ---------------------------------------------------------------------------------------------------- checkpoints

for method in "${methods[@]}"; do
    goes_on 2 dp=2 --micro-batch 2 --compress "$method"
    # Twice as many replicas have the same sums of residuals.
    exits 0 -n 4 "$gpt" "${small[@]}" --steps 9 --mesh dp=4 --checkpoint part --resume --compress "$method"
    grep -q 'goes on  *after step 6' out || fail "$method: four replicas begin anew: $(cat out)"
done
exits 1 -n 2 "$gpt" "${small[@]}" --steps 6 --checkpoint whole --resume --compress int4
grep -q 'going on with compressed gradients: .*the state of top k with feedback, this compressor is of int4' err ||
    fail "another method goes on: $(cat err)"
[[ $(grep -c 'gpt: ' err) == 1 ]] || fail "not told once: $(cat err)"

# ------------------------------------------------------------------------------------------------------ mistakes

refused() { # WORDS OF THE MESSAGE, options
    local message=$1
    shift
    exits 2 -n 2 "$gpt" "${small[@]}" "$@"
    grep -q -- "$message" err || fail "$*: $(cat err)"
    [[ $(grep -c 'gpt: ' err) == 1 ]] || fail "$*: not said once: $(cat err)"
}
refused 'it goes with --zero 0; it has' --compress int4 --zero 1
refused 'for replicas alone: a mesh of dp' --compress int4 --mesh tp=2
refused 'for replicas alone: a mesh of dp' --compress int4 --mesh pp=2
refused 'add --wide-gradients' --compress int4 --dtype bf16
refused 'without --loss-scale' --compress int4 --loss-scale 8
refused 'nothing to compress' --compress int4 --without-communication
refused 'is for --compress' --no-feedback
for method in powersgd powersgd:0 powersgd:1.5 powersgd:65 top:0 top:2 top: nothing int4:; do
    refused "makes no sense: --compress $method" --compress "$method"
done
gpt=$TUTTI_BIN/gpt_double refused 'which computes in float' --compress int4
exit $((failures > 0))
