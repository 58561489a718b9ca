#!/bin/bash
# FSDP2 within replicas (HSDP): on a mesh of 2 x 2 ranks the losses of gloo; and in a loop whose ranks die, with new processes in their
# places, the losses of a run without faults, to the last digit. With nobody in their places the replica that is left goes on, until a late
# process makes the other one whole.
#
# Some versions of torchrun --standalone have a port of their own, and a second one would take the store of the first.
# ctest: label=nosan label=once timeout=900 lock=torchrun needs=wheel
# shellcheck disable=SC2034 # it is for torch.sh
torch_modules=(torch.distributed.fsdp torch.distributed.tensor)
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"

torch_has torch.distributed.fsdp torch.distributed.device_mesh || wheel_skip "this PyTorch has no FSDP2"
"${forked[@]}" -c 'from torch.distributed.fsdp import fully_shard' 2>/dev/null || wheel_skip "this PyTorch has no FSDP2"

"${forked[@]}" -W ignore "$TUTTI_ROOT/bindings/torch/tests/hybrid_test.py"

losses() {
    timeout -k 1 250 "${forked[@]}" -W ignore -m torch.distributed.run --standalone --nproc_per_node 4 --no_python "${forked[@]}" -W ignore \
        "$TUTTI_ROOT/bindings/torch/tests/run_scripts.py" "$1" "$TUTTI_ROOT/examples/torch/fully_shard.py:--replicas 2" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; return 1; }
    grep -o 'step [0-9]* loss.*' "$work/log"
}
losses gloo >"$work/gloo"
TUTTI_TORCH_BACKEND=python losses tutti >"$work/tutti"
[[ $(wc -l <"$work/gloo") == 8 ]] || { echo "gloo has no losses"; exit 1; }
paste -d ' ' "$work/gloo" "$work/tutti" | awk '$2 != $6 || ($4 - $8) ^ 2 > (1e-4 * $4) ^ 2 { print "differs:", $0; failed = 1 } END { exit failed }'

run() {
    timeout -k 1 250 tutti-run -n "${ranks:-4}" --no-prefix --elastic 2 "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    grep '^step' "$work/log"
}
has() { grep -q "$1" "$work/log" || { echo "no line '$1'"; cat "$work/log"; exit 1; }; }
example=("${forked[@]}" -W ignore "$TUTTI_ROOT/examples/torch/hybrid.py")
wanted=$(run "${example[@]}")
[[ $(wc -l <<<"$wanted") == 4 ]] || { echo "no losses: $wanted"; exit 1; }
found=$(run --spares 2 --restarts 0 "${example[@]}" --fault 5:1 --fault 23:2)
has '^ranks died: 2, processes joined: 2'
[[ $found == "$wanted" ]] || { diff <(echo "$wanted") <(echo "$found"); exit 1; }

# A rank dies, and the other rank of its replica rests until the process comes that is started again.
timeout -k 1 250 tutti-run -n 4 --no-prefix --elastic 2 --restarts 1 "${forked[@]}" -W ignore "$TUTTI_ROOT/bindings/torch/tests/hybrid_late.py" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
has '^both replicas are whole and alike$'

# Three ranks are one replica, and a rank that rests until the end.
found=$(ranks=3 run "${example[@]}" --steps 10)
[[ $found == *'step 10 '*' 2 ranks' && $(grep -c '^goodput' "$work/log") == 1 ]] || { cat "$work/log"; exit 1; }
