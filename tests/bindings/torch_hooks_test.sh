#!/bin/bash
# Futures of the PyTorch backend, leftovers of groups, local training, PyTorch's communication hooks beside gloo, and training with a parameter server.
# ctest: label=nosan label=once timeout=400 needs=wheel
# shellcheck source=tests/bindings/torch.sh
source "${TUTTI_ROOT:?}/tests/bindings/torch.sh"

tests=$TUTTI_ROOT/bindings/torch/tests
"${TUTTI_BIN:?}/tutti-run" -n 2 "${forked[@]}" "$tests/futures_test.py"
"${forked[@]}" "$tests/rounds_test.py"
"$TUTTI_BIN/tutti-run" -n 2 "${forked[@]}" -W ignore "$tests/hooks_test.py"
"$TUTTI_BIN/tutti-run" -n 2 "${forked[@]}" -W ignore "$tests/local_test.py"
"$TUTTI_BIN/tutti-run" -n 3 "$python" -W ignore "$tests/server_test.py" # it sets what PyTorch reads when it is imported
