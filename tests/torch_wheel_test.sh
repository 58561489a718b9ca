#!/bin/bash
# The wheel in an empty environment beside PyTorch: a program says init_process_group("tutti") and nothing else.
# ctest: label=long label=nosan label=once timeout=900
# shellcheck source=tests/torch.sh
source "${TUTTI_ROOT:?}/tests/torch.sh"
unset PYTHONPATH TUTTI_LIBRARY
cd "$work"
"$python" -c 'import ensurepip, venv' 2>/dev/null || torch_skip "$python cannot make virtual environments (Debian: python3-venv)"
"$python" -m venv builder
pip=(builder/bin/pip --disable-pip-version-check --retries 1 --timeout 20)
if ! "${pip[@]}" install -q 'scikit-build-core>=0.10' >log 2>&1; then
    torch_skip "what the wheel is built with cannot be had from PyPI: $(grep -m 1 ERROR log || tail -n 1 log)"
fi
"${pip[@]}" wheel -q --no-deps --no-build-isolation -w wheels "$TUTTI_ROOT" >log 2>&1 || { cat log; exit 1; }

"$python" -m venv beside
"$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' \
    >"$(echo beside/lib/python3*/site-packages)/place_of_torch.pth"
beside/bin/pip --disable-pip-version-check install -q --no-deps wheels/tutti_comm-*.whl >log 2>&1 || { cat log; exit 1; }

# What is compiled for PyTorch on first use comes along, and is enough for that.
native=$(cd beside/lib/python3*/site-packages/tutti_torch/native && ls -1 ./* ./tutti/*)
for file in backend.cpp direct.h held.h range.h work.h tutti/tutti.h; do
    grep -qx "./$file" <<<"$native" || { echo "the wheel lacks native/$file"; exit 1; }
done
way=$(beside/bin/python -W ignore -c 'from tutti_torch import _native; print("cpp" if _native.is_new_enough() else "python")')
if ! command -v c++ >/dev/null; then way=python; fi
if [[ $way == cpp ]]; then beside/bin/python -W ignore -m tutti_torch; fi

cat >program.py <<'END_OF_PROGRAM'
import torch
import torch.distributed as dist

dist.init_process_group("tutti")
tensor = torch.ones(3)
dist.all_reduce(tensor)
print(dist.get_backend(), tensor.tolist())
dist.destroy_process_group()
END_OF_PROGRAM
for _ in 1 2; do echo 'tutti [2.0, 2.0, 2.0]'; done >expected
# Through its entry point, where PyTorch has that, and without.
for autoload in 1 0; do
    TUTTI_TORCH_BACKEND=$way TORCH_DEVICE_BACKEND_AUTOLOAD=$autoload beside/bin/tutti-run -n 2 --no-prefix beside/bin/python -W ignore program.py \
        >said 2>log || { cat said log; exit 1; }
    diff expected said
done
# What is not imported costs nothing: PyTorch is not loaded for programs without it.
beside/bin/python -c 'import sys; sys.exit("torch" in sys.modules or "tutti" in sys.modules)'
