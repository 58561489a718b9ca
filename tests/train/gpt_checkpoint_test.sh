#!/bin/bash
# examples/gpt goes on from a checkpoint: with the same bits on the same mesh, and as one process would on another one. Ranks are killed at any
# moment, and the run that is started again ends with the numbers of one that was never killed. A full disk ends no training and no checkpoint
# that was there.
# ctest: label=nosan label=once timeout=300
set -uo pipefail

gpt=${TUTTI_BIN:?}/gpt_double
tool=$TUTTI_BIN/tutti-run
# shellcheck source=tests/train/gpt.sh
source "${TUTTI_ROOT:?}/tests/train/gpt.sh"
RANDOM=${TUTTI_TEST_SEED:-$$}
echo "seed ${TUTTI_TEST_SEED:-$$}"

write_text 400
small=(--text text --tokenizer words --vocabulary 270 --context 12 --width 16 --layers 2 --heads 4 --hidden 22 --batch 8 --warm-up 3 --write 0)

# The step of the newest checkpoint that is complete; 0: none.
newest() { # FOLDER
    local manifest step=0
    for manifest in "$1"/step-*/manifest; do
        if [[ -e $manifest ]]; then
            step=${manifest%/manifest}
            step=$((10#${step##*-}))
        fi
    done
    echo "$step"
}

# ------------------------------------------------------------------------------------------------ going on

# N MESH WORDS...: another mesh goes on from `whole`, and gets what one process gets.
goes_on_elsewhere() {
    local n=$1 mesh=$2
    shift 2
    rm -rf part
    mkdir part
    cp -r "$(step_folder whole 3)" part
    exits 0 -n "$n" "$gpt" "${small[@]}" --steps 6 --mesh "$mesh" --checkpoint part --resume --check-single "$@"
    grep -q 'one process  *differs by' out || fail "$mesh $*: nothing was compared: $(cat out err)"
}

goes_on 2 dp=2 --zero 3 --micro-batch 2 --dropout 0.1
goes_on_elsewhere 2 pp=2 --micro-batch 2 --dropout 0.1
if [[ -n ${TUTTI_LONG:-} ]]; then
    goes_on 1 dp=1
    goes_on_elsewhere 4 dp=2,tp=2 --zero 2 --split-rows
    for zero in 0 1 2; do goes_on 2 dp=2 --zero $zero --micro-batch 2; done
    goes_on 2 tp=2 --dropout 0.1
    goes_on 2 pp=2 --micro-batch 2 --untied
    goes_on_elsewhere 3 dp=1,tp=3 --untied
    goes_on_elsewhere 1 dp=1 --untied
    goes_on 4 dp=2,tp=2 --zero 2 --split-rows
    goes_on_elsewhere 2 dp=2 --zero 3
    goes_on 8 pp=2,dp=2,tp=2 --zero 3 --split-rows --micro-batch 2
    goes_on_elsewhere 4 dp=4 --zero 1
    goes_on 2 dp=2 --zero 3 --micro-batch 2 --dropout 0.1
fi

# ------------------------------------------------------------------------------------------------ mistakes

refused() { # WORDS OF THE MESSAGE, options
    local message=$1
    shift
    exits 1 -n 2 "$gpt" "${small[@]}" --steps 6 "$@"
    grep -q "$message" err || fail "$*: $(cat err)"
    [[ $(grep -c 'gpt: ' err) == 1 ]] || fail "$*: not one line: $(cat err)"
}
exec 9<part
flock 9 # as another run would
refused 'opening checkpoints: rank 0: .*/part: another run writes checkpoints there' --checkpoint part --resume
exec 9<&-
if [[ -n ${TUTTI_LONG:-} ]]; then
    refused 'there are checkpoints: add --resume' --checkpoint whole
    refused 'is of another run: samples seen differ' --checkpoint whole --resume --batch 4
    refused 'is of another run: seed differ' --checkpoint whole --resume --seed 2
    refused "tensor 'layer 0 attention norm, parameters' is float64 .1 x 16. there, and float64 .1 x 32. here" --checkpoint whole --resume --width 32
    refused 'making the folder no/where: No such file' --checkpoint no/where
    tool=$gpt exits 2 --resume
    cp -r whole damaged
    truncate -s -1 "$(step_folder damaged 6)/shard-00001"
    refused 'shard-00001: it has [0-9]* bytes, of [0-9]*' --checkpoint damaged --resume
fi

# --------------------------------------------------------------------------------------------------- kills

children() { # PID
    cat "/proc/$1/task/$1/children" 2>/dev/null
}

# The launcher's ranks are the children of the child of `timeout`.
kill_one() { # PID OF THE TIMEOUT
    local launcher ranks
    read -r launcher <<<"$(children "$1")"
    read -ra ranks <<<"$(children "$launcher")"
    [[ ${#ranks[@]} -gt 0 ]] && kill -9 "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null
}

# N MESH KILLS STEPS WORDS...: as often a rank is killed, each time some checkpoints further.
survives() {
    local n=$1 mesh=$2 kills=$3 steps=$4 name="$2 ${*:5}" done=0 tries=5 launcher target
    shift 4
    local command=("$TUTTI_BIN/tutti-run" -n "$n" "$gpt" "${small[@]}" --steps "$steps" --mesh "$mesh" --checkpoint-every 4 "$@")
    rm -rf calm killed
    timeout 60 "${command[@]}" --checkpoint calm >calm.out 2>err </dev/null || fail "$name: it fails without kills: $(cat err)"
    while [[ $done -lt $kills ]]; do
        target=$(($(newest killed) + 2 + RANDOM % 6))
        timeout 60 "${command[@]}" --checkpoint killed --resume >killed.out 2>err </dev/null &
        launcher=$!
        while kill -0 $launcher 2>/dev/null && [[ $(newest killed) -lt $target ]]; do sleep 0.01; done
        if ! kill_one $launcher; then # it was too fast for this machine: once more from the beginning
            if ! wait $launcher || [[ $((--tries)) == 0 ]]; then
                fail "$name: it ended before kill $((done + 1)) of $kills: $(tail -n 2 err)"
                return
            fi
            rm -rf killed
            done=0
            continue
        fi
        if wait $launcher; then fail "$name: nobody minds that a rank was killed"; fi
        done=$((done + 1))
    done
    timeout 60 "${command[@]}" --checkpoint killed --resume >killed.out 2>err </dev/null || fail "$name: it does not go on: $(cat err)"
    grep -q 'goes on  *after step' killed.out || fail "$name: it began anew: $(cat killed.out)"
    diff <(grep 'held out ' calm.out) <(grep 'held out ' killed.out) || fail "$name: another result after $kills kills"
    expect_same "$name" "$(step_folder calm "$steps")" "$(step_folder killed "$steps")"
}

survives 2 dp=2 2 120 --zero 1
if [[ -n ${TUTTI_LONG:-} ]]; then
    survives 2 dp=2 20 600 --zero 3
    survives 4 pp=2,dp=2 20 600 --zero 2 --micro-batch 2
    survives 4 dp=2,tp=2 20 600 --split-rows
fi

# --------------------------------------------------------------------------------------------- a full disk

# The first checkpoint fits on it, and not the next one.
fill_disk() {
    # shellcheck disable=SC2016
    unshare -rm bash -c '
        mkdir disk && mount -t tmpfs -o size=512k none disk || exit 99
        "$@" --checkpoint disk/run --checkpoint-every 3 --steps 6 >out 2>err </dev/null
        echo $? >code
        cp -r disk/run .' _ "$TUTTI_BIN/tutti-run" -n 2 "$gpt" "${small[@]}" --mesh dp=2 --layers 4 || return 1
    [[ $(cat code) == 1 ]] || fail "a full disk: exit $(cat code): $(cat err)"
    [[ $(grep -c 'shard-0000[01]: No space left on device' err) == 1 ]] || fail "a full disk is not told once: $(cat err)"
    grep -q 'held out ' out || fail "a full disk ends the training: $(cat out)"
    [[ $(newest run) == 3 ]] || fail "a full disk takes the checkpoint that was there"
    [[ ! -e $(step_folder run 6) ]] || fail "half a checkpoint is left"
    exits 0 -n 2 "$gpt" "${small[@]}" --mesh dp=2 --layers 4 --checkpoint run --resume --steps 6
    [[ $(newest run) == 6 ]] || fail "it does not go on behind a full disk"
}
if [[ -n ${TUTTI_LONG:-} ]]; then
    if unshare -rm true 2>/dev/null; then
        fill_disk || fail "there can be no small disk"
    else
        echo "no mount namespaces can be made here: no disk is full"
    fi
fi
exit $((failures > 0))
