#!/bin/bash
# PyTorch's compiler, profiler and tensors without data see calls of Tutti as they see those of gloo.
# ctest: label=nosan label=once timeout=900
# shellcheck source=tests/torch.sh
source "${TUTTI_ROOT:?}/tests/torch.sh"
torch_find_ways
if [[ $why_not_cpp ]]; then torch_skip "$why_not_cpp"; fi

TUTTI_TORCH_BACKEND=cpp "${TUTTI_BIN:?}/tutti-run" -n 2 --no-prefix "$python" -W ignore \
    "$TUTTI_ROOT/bindings/torch/tests/dispatch_test.py"
