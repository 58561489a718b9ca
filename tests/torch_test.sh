#!/bin/bash
# The PyTorch backend does what its tests say, and the examples have the losses that they have with gloo.
#
# Some versions of torchrun --standalone have a port of their own, and a second one would take the store of the first.
# ctest: label=nosan label=once timeout=900 lock=torchrun first
# shellcheck source=tests/torch.sh
source "${TUTTI_ROOT:?}/tests/torch.sh"

torch_find_ways
"$python" -W ignore "$TUTTI_ROOT/bindings/torch/tests/build_test.py"
group_test=("$python" "$TUTTI_ROOT/bindings/torch/tests/group_test.py")
for way in "${ways[@]}"; do
    TUTTI_TORCH_BACKEND=$way "${TUTTI_BIN:?}/tutti-run" -n 3 "${group_test[@]}"
done
if [[ ${#ways[@]} == 2 ]]; then
    # Ranks of both ways in one job.
    # shellcheck disable=SC2016 # the ranks' shells are to know their numbers
    "$TUTTI_BIN/tutti-run" -n 3 bash -c 'if [[ $RANK == 1 ]]; then way=python; else way=cpp; fi
        TUTTI_TORCH_BACKEND=$way exec "$@"' bash "${group_test[@]}"
fi

scripts=(ddp zero uneven_all_to_all)
# PyTorch 1.13 with Python 3.11, as in Debian 12, does not understand numbers for where output goes that are its own defaults.
output=(--redirects 9:1 --tee 9:1)
if torch_has torch.distributed.fsdp torch.distributed.pipelining torch.distributed.tensor.parallel; then
    scripts+=(fully_shard tensor_parallel pipelining)
    output=()
fi
scripts=("${scripts[@]/#/$TUTTI_ROOT/examples/torch/}")
scripts=("${scripts[@]/%/.py}")

# Lines "script step N loss X" of a backend, in the order of the scripts.
losses() {
    "$python" -W ignore -m torch.distributed.run "${output[@]}" --standalone --nproc_per_node 2 \
        "$TUTTI_ROOT/bindings/torch/tests/run_scripts.py" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    grep -o '[a-z_]*\.py: step.*' "$work/log"
}
losses gloo "${scripts[@]}" >"$work/gloo"
grep '^ddp' "$work/gloo" >"$work/ddp"
cat "$work/gloo" "$work/ddp" "$work/ddp" >"$work/expected"
# Scripts see no difference between the ways: the quick tier takes the last one alone.
if [[ ${TUTTI_LONG:-} != 1 ]]; then ways=("${ways[-1]}"); fi
for way in "${ways[@]}"; do
    export TUTTI_TORCH_BACKEND=$way
    # At last gradients of 16 bits, whose losses are others, but near.
    losses tutti "${scripts[@]}" "${scripts[0]}:--hook fp16" "${scripts[0]}:--hook bf16" >"$work/tutti"
    paste -d ' ' "$work/expected" "$work/tutti" | awk -v exact=$((8 * ${#scripts[@]})) '
        { relative = NR <= exact ? 1e-4 : 3e-2 }
        $1 != $6 || $3 != $8 || ($5 - $10) ^ 2 > (relative * $5) ^ 2 { print "differs:", $0; failed = 1 }
        END { exit failed || NR != exact + 16 }'
done
