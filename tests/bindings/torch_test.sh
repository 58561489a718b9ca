#!/bin/bash
# The PyTorch backend does what its tests say, and the examples have the losses that they have with gloo.
#
# Some versions of torchrun --standalone have a port of their own, and a second one would take the store of the first.
# ctest: label=nosan label=once timeout=900 lock=torchrun first needs=wheel
# shellcheck disable=SC2034 # it is for torch.sh
torch_modules=(torch.distributed.fsdp torch.distributed.tensor)
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"

torch_find_ways
"${forked[@]}" -W ignore "$TUTTI_ROOT/bindings/torch/tests/build_test.py"

# A program says init_process_group("tutti") and nothing else, also where PyTorch looks for no entry points.
cat >program.py <<'END_OF_PROGRAM'
import torch
import torch.distributed as dist

dist.init_process_group("tutti")
tensor = torch.ones(3)
dist.all_reduce(tensor)
print(dist.get_backend(), tensor.tolist())
dist.destroy_process_group()
END_OF_PROGRAM
# shellcheck disable=SC2016 # the ranks' shells are to know their numbers
said=$(TUTTI_TORCH_BACKEND=${ways[0]} tutti-run -n 2 --no-prefix \
    bash -c 'TORCH_DEVICE_BACKEND_AUTOLOAD=$RANK exec "$@"' bash "$python" -W ignore program.py)
[[ $said == $'tutti [2.0, 2.0, 2.0]\ntutti [2.0, 2.0, 2.0]' ]] || { echo "the program says: $said"; exit 1; }

group_test=("${forked[@]}" "$TUTTI_ROOT/bindings/torch/tests/group_test.py")
if [[ ${#ways[@]} == 2 ]]; then
    # Ranks of both ways in one job.
    # shellcheck disable=SC2016 # the ranks' shells are to know their numbers
    tutti-run -n 3 bash -c 'if [[ $RANK == 1 ]]; then way=python; else way=cpp; fi
        TUTTI_TORCH_BACKEND=$way exec "$@"' bash "${group_test[@]}"
fi
if [[ ${#ways[@]} == 1 || ${TUTTI_LONG:-} == 1 ]]; then
    for way in "${ways[@]}"; do TUTTI_TORCH_BACKEND=$way tutti-run -n 3 "${group_test[@]}"; done
fi
# Debian's PyTorch beside a newer one: the same wheel serves both.
version='import torch; print(torch.__version__)'
if older=$(/usr/bin/python3 -W ignore -c "import numpy; $version" 2>/dev/null) && [[ $older != "$("${forked[@]}" -W ignore -c "$version")" ]]; then
    PYTHONPATH=$(echo "$wheel"/venv/lib/python3*/site-packages) tutti-run -n 3 /usr/bin/python3 "${group_test[@]: -1}"
fi

TUTTI_TORCH_BACKEND=${ways[0]} tutti-run -n 2 "${forked[@]}" "$TUTTI_ROOT/bindings/torch/tests/encodings_test.py"

scripts=(ddp zero uneven_all_to_all)
# PyTorch 1.13 with Python 3.11, as in Debian 12, does not understand numbers for where output goes that are its own defaults.
output=(--redirects 9:1 --tee 9:1)
if torch_has torch.distributed.fsdp torch.distributed.pipelining torch.distributed.tensor.parallel; then
    scripts+=(fully_shard tensor_parallel pipelining)
    output=()
    # Each costs 15 seconds of CPU.
    if [[ ${TUTTI_LONG:-} != 1 ]]; then scripts=(ddp fully_shard); fi
fi
scripts=("${scripts[@]/#/$TUTTI_ROOT/examples/torch/}")
scripts=("${scripts[@]/%/.py}")

# Lines "script step N loss X" of a backend, in the order of the scripts.
losses() {
    "${forked[@]}" -W ignore -m torch.distributed.run "${output[@]}" --standalone --nproc_per_node 2 --no_python "${forked[@]}" -W ignore \
        "$TUTTI_ROOT/bindings/torch/tests/run_scripts.py" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    grep -o '[a-z_]*\.py: step.*' "$work/log"
}
losses gloo "${scripts[@]}" >"$work/gloo"
grep '^ddp' "$work/gloo" >"$work/ddp"
cat "$work/gloo" "$work/ddp" "$work/ddp" >"$work/expected"
# Scripts see no difference between the ways: the quick tier takes the first one alone.
if [[ ${TUTTI_LONG:-} != 1 ]]; then ways=("${ways[0]}"); fi
for way in "${ways[@]}"; do
    export TUTTI_TORCH_BACKEND=$way
    # At last gradients of 16 bits, whose losses are others, but near.
    losses tutti "${scripts[@]}" "${scripts[0]}:--hook fp16" "${scripts[0]}:--hook bf16" >"$work/tutti"
    paste -d ' ' "$work/expected" "$work/tutti" | awk -v exact=$((8 * ${#scripts[@]})) '
        { relative = NR <= exact ? 1e-4 : 3e-2 }
        $1 != $6 || $3 != $8 || ($5 - $10) ^ 2 > (relative * $5) ^ 2 { print "differs:", $0; failed = 1 }
        END { exit failed || NR != exact + 16 }'
done
