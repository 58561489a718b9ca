#!/bin/bash
# PyTorch's compiler, profiler and tensors without data see Tutti's calls as they see the calls of gloo.
# ctest: label=nosan label=once timeout=900 needs=wheel
# shellcheck disable=SC2034 # it is for torch.sh
torch_modules=(torch.distributed.fsdp torch.distributed.tensor torch._functorch.aot_autograd)
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"
torch_find_ways
if [[ $why_not_cpp ]]; then wheel_skip "$why_not_cpp"; fi

TUTTI_TORCH_BACKEND=cpp "${TUTTI_BIN:?}/tutti-run" -n 2 --no-prefix "${forked[@]}" -W ignore \
    "$TUTTI_ROOT/bindings/torch/tests/dispatch_test.py"

# PyTorch's own checks of calls, which wrap the backend. It looks for the variable when it is imported.
cat >"$work/program.py" <<'END_OF_PROGRAM'
import torch
import torch.distributed as dist
import tutti_torch

tutti_torch.register()
dist.init_process_group("tutti")
tensor = torch.ones(3)
dist.all_reduce(tensor)
dist.all_reduce(tensor, async_op=True).wait()
print(tensor.tolist(), tutti_torch.communicator().size)
dist.destroy_process_group()
END_OF_PROGRAM
said=$(TORCH_DISTRIBUTED_DEBUG=DETAIL TUTTI_TORCH_BACKEND=cpp "$TUTTI_BIN/tutti-run" -n 2 --no-prefix "$python" -W ignore \
    "$work/program.py")
[[ $said == $'[4.0, 4.0, 4.0] 2\n[4.0, 4.0, 4.0] 2' ]] || { echo "with TORCH_DISTRIBUTED_DEBUG=DETAIL: $said"; exit 1; }
