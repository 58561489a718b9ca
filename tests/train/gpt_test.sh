#!/bin/bash
# examples/gpt learns, says the same each time, shows no progress in a pipe, and refuses what makes no sense.
# ctest: label=longsan label=notsan timeout=300
set -uo pipefail

gpt=${TUTTI_BIN:?}/gpt
# shellcheck source=tests/train/gpt.sh
source "${TUTTI_ROOT:?}/tests/train/gpt.sh"

write_text 3000
small=(--text text --vocabulary 300 --context 32 --width 32 --layers 2 --heads 2 --write 30)

# A file of its own says how it goes: lines now and then, and what was learnt is better than counting.
exits 0 "${small[@]}" --steps 200 --report 70
[[ $(grep -c '^step .* of ' out) == 3 ]] || fail "not three lines: $(cat out)"
if grep -q $'\r' out; then fail "progress for terminals in a file"; fi
awk '/^loss to beat/ { beat = $4 + 0 } /^held out/ { loss = $4 + 0 } END { exit !(loss > 0 && loss < 0.7 * beat) }' out ||
    fail "it learns nothing: $(cat out)"

# The tokenizer is kept, and used again. The same seed says the same, another one something else.
exits 0 "${small[@]}" --steps 60 --warm-up 10 --tokenizer words
[[ $(head -n 1 words) == 'byte pairs 1' ]] || fail "no tokenizer is in its file"
cp words before
grep -aA5 '^it writes' out >first
exits 0 "${small[@]}" --steps 60 --warm-up 10 --tokenizer words
cmp -s words before || fail "the tokenizer was written again"
grep -aA5 '^it writes' out | cmp -s - first || fail "the same seed writes something else: $(cat out)"
exits 0 "${small[@]}" --steps 60 --warm-up 10 --seed 2
if grep -aA5 '^it writes' out | cmp -s - first; then fail "another seed writes the same"; fi
echo "byte pairs 1" >words
exits 1 "${small[@]}" --tokenizer words
grep -q 'words: it says no sensible number' err || fail "a bad tokenizer: $(cat err)"

# The ways to compute the same that save memory.
exits 0 "${small[@]}" --steps 10 --micro-batch 2 --recompute --untied --dropout 0.1
exits 0 "${small[@]}" --steps 1 --temperature 0 --write 100

tool=${TUTTI_BIN}/gpt_double
exits 0 "${small[@]}" --check-gradients --batch 1 --dropout 0.1
grep -q '^largest relative error' out || fail "no result: $(cat out)"
tool=${TUTTI_BIN}/gpt

exits 0 --help
exits 2 --check-gradients
exits 2 --width 30
exits 2 --micro-batch 3
exits 2 --steps 0
exits 2 --steps many
exits 2 --nonsense
exits 2 something
exits 1 --text nowhere
exits 1 --text first
exit $((failures > 0))
