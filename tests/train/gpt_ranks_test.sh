#!/bin/bash
# examples/gpt on many ranks computes what one process does: however the samples, matrices, rows and layers are shared, whatever is
# sharded, with everything that might make a difference (dropout, a tied embedding or not, recomputing).
# In double: within 1e-9 of each tensor's length.
# ctest: label=nosan label=once timeout=300
set -uo pipefail

gpt=${TUTTI_BIN:?}/gpt_double
tool=$TUTTI_BIN/tutti-run
# shellcheck source=tests/train/gpt.sh
source "${TUTTI_ROOT:?}/tests/train/gpt.sh"

write_text 1500
small=(--text text --tokenizer words --vocabulary 270 --context 12 --width 16 --layers 4 --heads 4 --hidden 22 --batch 8 --warm-up 3 --write 0)

# N MESH WORDS...: N ranks on that mesh.
same() {
    local n=$1 mesh=$2
    shift 2
    exits 0 -n "$n" "$gpt" "${small[@]}" --steps "$steps" --mesh "$mesh" --check-single "$@"
    grep -q 'one process  *differs by' out || fail "$mesh $*: nothing was compared: $(cat out err)"
}

steps=6
if [[ -n ${TUTTI_LONG:-} ]]; then steps=50; fi

same 2 dp=2 --zero 3 --micro-batch 2 --dropout 0.1
same 2 tp=2 --dropout 0.1
same 2 pp=2 --micro-batch 2 --zero 0
same 4 dp=2,tp=2 --zero 2 --split-rows --micro-batch 2 --untied
same 4 pp=2,tp=2 --split-rows --micro-batch 2 --recompute
same 2 pp=2 --schedule interleaved --micro-batch 2 --dropout 0.1
if [[ -n ${TUTTI_LONG:-} ]]; then
    for zero in 0 1 2 3; do
        same 2 dp=2 --zero $zero --micro-batch 2
        same 4 dp=4 --zero $zero --micro-batch 1 --ahead 0 --untied
        same 4 dp=2,tp=2 --zero $zero --micro-batch 2 --dropout 0.1
        same 4 pp=2,dp=2 --zero $zero --micro-batch 1 --dropout 0.1
        same 8 pp=2,dp=2,tp=2 --zero $zero --micro-batch 2 --split-rows
    done
    same 1 dp=1 --zero 3 --micro-batch 4
    same 3 tp=3 --split-rows
    same 4 dp=2,tp=2 --split-rows --gather-again --micro-batch 2 --dropout 0.1
    same 2 dp=2 --zero 3 --reduce-late --micro-batch 2
    same 4 tp=4 --split-rows --untied --dropout 0.1
    same 3 pp=3 --micro-batch 1 --schedule gpipe --untied
    same 4 pp=4 --micro-batch 2
    same 6 pp=3,dp=2 --zero 3 --micro-batch 2 --recompute --untied
    same 4 pp=2,dp=2 --zero 3 --micro-batch 1 --schedule interleaved --untied
    same 4 pp=4 --layers 8 --micro-batch 1 --schedule interleaved --dropout 0.1
    same 8 pp=2,dp=2,tp=2 --layers 7 --zero 2 --micro-batch 1 --schedule interleaved --chunks 3 --split-rows
fi

# Float learns, too, and tells how: once, from rank 0.
exits 0 -n 2 "$TUTTI_BIN/gpt" "${small[@]}" --steps 60 --zero 2 --write 20
[[ $(grep -c 'held out ' out) == 1 ]] || fail "not told once: $(cat out)"
awk '/held out /  { for (i = 1; i < NF; i++) if ($i == "loss") loss = $(i + 1) + 0 } END { exit !(loss > 0 && loss < 0.8 * log(270)) }' out ||
    fail "it learns nothing: $(cat out)"

# So it does in bfloat16, and as well: within 1 % of the losses of one process in float.
learns() {
    exits 0 -n 2 "$TUTTI_BIN/gpt" "${small[@]}" --steps 60 --dtype bf16 --check-single "$@"
    grep -q 'one process  *differs by' out || fail "$*: nothing was compared: $(cat out err)"
}
learns --mesh dp=2 --zero 3 --loss-scale 1024
if [[ -n ${TUTTI_LONG:-} ]]; then
    for zero in 0 1 2; do learns --mesh dp=2 --zero $zero --wide-gradients; done
    learns --mesh tp=2 --split-rows
    learns --mesh pp=2 --micro-batch 2 --schedule interleaved --loss-scale 1
fi

# Steps that are skipped are told: this rate makes weights of which no step gets a gradient that is finite.
exits 0 -n 2 "$TUTTI_BIN/gpt" "${small[@]}" --steps 12 --lr 1000 --weight-decay 1000 --zero 1 --dtype bf16 --loss-scale 1024 --report 4
grep -q ' [1-4] skipped$' out || fail "no word of skipped steps: $(cat out)"
grep -q 'to the byte what the formulas say' out || fail "skipped steps are not as the formulas say: $(cat out)"
grep -q '[1-9]* of 12 steps were skipped' out || fail "not told how many were skipped: $(cat out)"

# What does not fit is said once, by all ranks together.
refused() { # WORDS OF THE MESSAGE, options
    local message=$1
    shift
    exits 2 -n 2 "$gpt" "${small[@]}" "$@"
    grep -q -- "$message" err || fail "$*: $(cat err)"
    [[ $(grep -c 'gpt[_a-z]*: ' err) == 1 && $(grep -vc '^tutti-run' err) -le 2 ]] || fail "$*: not said once: $(cat err)"
}
refused 'as many ranks as there are; it has 2 ranks, a mesh of pp=1,dp=3,tp=1' --mesh dp=3
refused 'for --schedule interleaved' --mesh pp=2 --chunks 2
refused 'are for a pipeline' --mesh dp=2 --schedule interleaved
refused 'has to have a layer' --mesh pp=2 --schedule interleaved --chunks 3
refused 'multiple of the stages' --mesh pp=2 --schedule interleaved --micro-batch 8
refused 'for gpt, which computes in float' --mesh dp=2 --dtype bf16
refused 'wide anyway' --mesh dp=2 --wide-gradients
refused 'multiple of the replicas' --mesh dp=2 --micro-batch 8
refused 'makes no sense: --mesh xp=2' --mesh xp=2
refused 'makes no sense: --mesh dp=' --mesh dp=
refused 'makes no sense: --mesh dp=2,dp=1' --mesh dp=2,dp=1
refused 'makes no sense: --zero 4' --zero 4
refused 'this is no option: dp=2' dp=2
refused 'unrecognized option' --ranks 2
refused 'multiple of twice the heads' --width 18
refused 'in one process' --check-gradients
exits 1 -n 2 "$gpt" --text nowhere
[[ $(grep -v '^tutti-run' err) == *'gpt: nowhere: No such file or directory' && $(grep -c 'gpt: ' err) == 1 ]] || fail "no text: $(cat err)"
exits 1 -n 2 "$gpt" "${small[@]}" --profile no/where
[[ $(grep -v '^tutti-run' err) == *'gpt: no/where: No such file or directory' ]] || fail "no folder for the profile: $(cat err)"
exits 2 -n 5 "$gpt" "${small[@]}" --mesh tp=5
grep -q 'has to have a head' err || fail "five slices of four heads: $(cat err)"
exits 2 -n 5 "$gpt" "${small[@]}" --mesh pp=5
grep -q 'has to have a layer' err || fail "five stages of four layers: $(cat err)"
exit $((failures > 0))
