# torch.sh - what tests of the PyTorch backend share: the environment of tests/bindings/wheel.sh, with the base's PyTorch, and `forked`,
# which runs programs that have it from their start. Those that the test names in `torch_modules` they have, too.
# shellcheck shell=bash
# shellcheck source=tests/bindings/wheel.sh
source "${TUTTI_ROOT:?}/tests/bindings/wheel.sh"

# Optimizers import torch._dynamo, which takes as long as all the rest.
import_once "$python" torch.distributed torch._dynamo "${torch_modules[@]}"
"${forked[@]}" -W ignore -c 'import sys, torch.distributed as d; sys.exit(not d.is_available())' 2>/dev/null ||
    wheel_skip "no python3 with torch, numpy, pytest and venv is here (a large download: ./check --torch installs it)"

# Whether there are all of these modules.
torch_has() {
    "${forked[@]}" -W ignore -c "import $(IFS=, && echo "$*")" 2>/dev/null
}

# Sets `ways`, those in which PyTorch can reach Tutti here, as TUTTI_TORCH_BACKEND names them, and `why_not_cpp`.
# The first test compiles from the wheel, as its home was empty.
torch_find_ways() {
    ways=(python)
    why_not_cpp=$("${forked[@]}" -W ignore -c '
import os, shutil, sysconfig
import torch
from tutti_torch import _native

if not _native.is_new_enough():
    print(f"the backend in C++ is for PyTorch 2.13 and later, and this is {torch.__version__}")
elif not shutil.which("c++"):
    print("no C++ compiler is here (Debian: g++)")
elif not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("Python.h is not here (Debian: python3-dev)")
')
    if [[ -z $why_not_cpp ]]; then
        "${forked[@]}" -W ignore -m tutti_torch
        compgen -G "$HOME/.cache/tutti/torch/*.so" >/dev/null || { echo "nothing was compiled into $HOME"; exit 1; }
        ways=(cpp python)
    fi
}
