#!/bin/bash
# PyTorch's own tests of backends: none may fail that passes with gloo, and none may be skipped that gloo runs.
# ctest: label=long label=nosan label=once timeout=3000 needs=wheel
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"
torch_has expecttest torch.testing._internal.distributed.fake_pg ||
    wheel_skip "PyTorch's tests do not run here: they need PyTorch 2.5 or later with NumPy, and the package expecttest"

suite=("$python" "$TUTTI_ROOT/bindings/torch/tests/distributed_suite.py")
for backend in tutti gloo; do
    "${suite[@]}" --backend "$backend" --results "$work/$backend.json" >"$work/log" 2>&1 || true # they are compared
    tail -n 1 "$work/log"
done
"${suite[@]}" --compare "$work/tutti.json" "$work/gloo.json"
