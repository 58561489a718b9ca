# torch.sh - what tests of the PyTorch backend share: a Python that has PyTorch, and the packages of the source tree in it.
# shellcheck shell=bash
set -euo pipefail

torch_skip() {
    echo "$1"
    exit 77
}

# Sets `python`: $TUTTI_TORCH_PYTHON, or the first of those on the way that can import torch.
torch_find_python() {
    local candidate
    for candidate in ${TUTTI_TORCH_PYTHON:+"$TUTTI_TORCH_PYTHON"} python3 /usr/bin/python3; do
        if "$candidate" -c 'import sys, numpy, torch.distributed as d; sys.exit(not d.is_available())' 2>/dev/null; then
            python=$candidate
            return
        fi
    done
    torch_skip "no python3 with torch and numpy is here (Debian: python3-torch, a large download: ./check --torch installs it)"
}

# Whether that Python's PyTorch has all of these modules.
torch_has() {
    local module
    for module in "$@"; do
        "$python" -W ignore -c "import $module" 2>/dev/null || return 1
    done
}

# Sets `ways`, those in which PyTorch can reach Tutti here, as TUTTI_TORCH_BACKEND names them, and `why_not_cpp`.
# What is compiled stays in the build folder, and is compiled again when its sources change.
torch_find_ways() {
    ways=(python)
    why_not_cpp=$("$python" -W ignore - <<'END_OF_PROGRAM'
import os, shutil, sysconfig
import torch
from tutti_torch import _native

if not _native.is_new_enough():
    print(f"the backend in C++ is for PyTorch 2.13 and later, and this is {torch.__version__}")
elif not shutil.which("c++"):
    print("no C++ compiler is here (Debian: g++)")
elif not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("Python.h is not here (Debian: python3-dev)")
END_OF_PROGRAM
    )
    if [[ -z $why_not_cpp ]]; then
        "$python" -W ignore -m tutti_torch
        ways=(cpp python)
    fi
}

torch_find_python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
export PYTHONPATH=${TUTTI_ROOT:?}/bindings/torch/src:$TUTTI_ROOT/bindings/python/src${PYTHONPATH:+:$PYTHONPATH}
export TUTTI_LIBRARY=${TUTTI_BUILD:?}/lib/libtutti.so
export XDG_CACHE_HOME=$TUTTI_BUILD/cache
unset TUTTI_TORCH_BACKEND
