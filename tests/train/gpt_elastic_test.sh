#!/bin/bash
# examples/gpt --elastic: a run in which ranks are killed ends with the bits of one without faults, also when a checkpoint has to serve; one rank
# alone and several compute what one process does; what does not fit is refused.
# ctest: label=nosan label=once timeout=300
set -uo pipefail

gpt=${TUTTI_BIN:?}/gpt
tool=$TUTTI_BIN/tutti-run
# shellcheck source=tests/train/gpt.sh
source "${TUTTI_ROOT:?}/tests/train/gpt.sh"

write_text 600
small=(--text text --tokenizer words --vocabulary 270 --context 12 --width 16 --layers 2 --heads 4 --hidden 22 --batch 6 --dropout 0.1 --write 30)

result() { # FILE: what the trained model says
    sed -n '/held out /,$p' "$1" | sed 's/^\[[0-9]*\] //'
}

# ------------------------------------------------------------------------------------------------ without faults

exits 0 -n 1 "$gpt" "${small[@]}" --steps 12 --micro-batch 6
alone=$(result out)
for n in 1 2 3; do
    exits 0 -n "$n" --elastic 1 "$gpt" "${small[@]}" --steps 12 --elastic
    [[ $(result out | head -1) == "$(head -1 <<<"$alone")" ]] || fail "$n ranks learn something else than one process: $(cat out err)"
    grep -q 'ETTR' out || fail "no accounts at the end: $(cat out)"
done

# ------------------------------------------------------------------------------------------------ killed ranks

# RANK, words of tutti-run: kills the first process of this rank when the run has taken steps. Repeats a run that was over before that.
killed_run() {
    local rank=$1 pid victim
    shift
    for ((;;)); do
        "$tool" "$@" "$gpt" "${small[@]}" --steps "$steps" --report 5 --elastic >out 2>err &
        local job=$!
        until grep -q 'step  *[0-9]* of' out 2>/dev/null || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
        victim=
        for pid in $(pgrep -P "$job,$(pgrep -d , -P $job)"); do
            if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "TUTTI_RANK=$rank"; then victim=$pid; fi
        done
        if [[ $victim ]]; then kill -KILL "$victim" 2>/dev/null; fi
        wait $job
        code=$?
        if grep -q 'ranks died: 1' out; then return; fi
        if ((steps > 20000)) || ((code != 0)); then
            fail "rank $rank was killed, which nobody noticed (exit code $code): $(tail -20 out err)"
            return
        fi
        steps=$((2 * steps)) # it was over too early
    done
}

steps=300
for rank in 1 0; do
    killed_run "$rank" -n 3 --elastic 1
    grep -q 'processes joined: 1' out || fail "nobody came for rank $rank: $(tail -20 out err)"
    cp out faulty
    exits 0 -n 3 --elastic 1 "$gpt" "${small[@]}" --steps "$steps" --report 100 --elastic
    [[ $(result out) && $(result out) == "$(result faulty)" ]] ||
        fail "a run in which rank $rank was killed learns something else: $(tail -8 faulty) and without a fault: $(tail -8 out)"
done

# ------------------------------------------------------------------------------------------------ checkpoints

exits 0 -n 2 --elastic 1 "$gpt" "${small[@]}" --steps 10 --elastic --checkpoint kept
compgen -G 'kept/step-*' >/dev/null || fail "there is no checkpoint: $(ls -R kept)"
exits 0 -n 2 --elastic 1 "$gpt" "${small[@]}" --steps 20 --elastic --checkpoint kept --report 1
if grep -q 'step  *1 of' out; then fail "it began anew: $(cat out)"; fi
grep -q 'step  *20 of' out || fail "it did not go on: $(cat out)"

# ------------------------------------------------------------------------------------------------ mistakes

for words in '--zero 1' '--mesh dp=2' '--compress int8' '--check-single' '--checkpoint-every 5' '--profile file'; do
    # shellcheck disable=SC2086
    exits 2 -n 2 "$gpt" "${small[@]}" --elastic $words
    grep -q -- "--elastic is for replicas of the whole model, without ${words%% *}" err || fail "$words: $(cat err)"
done
exit $((failures > 0))
