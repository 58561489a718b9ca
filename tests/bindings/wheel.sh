# wheel.sh - what tests of the bindings share: the environment into which tests/bindings/wheel_test.sh has installed the wheel. They see no
# package, library, program or header of the source tree or of the build.
# shellcheck shell=bash
set -euo pipefail

wheel=${TUTTI_BUILD:?}/wheel # a link to a folder outside of the tree

wheel_skip() {
    echo "$1"
    exit 77
}

if [[ ! -x $wheel/venv/bin/tutti-run ]]; then wheel_skip "no wheel is installed; tests/bindings/wheel says why"; fi
wheel=$(realpath "$wheel")
python=$wheel/venv/bin/python
unset PYTHONPATH PYTHONHOME TUTTI_LIBRARY TUTTI_TORCH_BACKEND XDG_CACHE_HOME
export HOME=$wheel/home PATH=$wheel/venv/bin:$PATH TUTTI_BIN=$wheel/venv/bin
# Ranks are forked from pytest: threads that NumPy never needs here would be in the way.
export PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# import_once PYTHON MODULE...: sets `forked`, which runs a program in place of this Python, in a process that has these modules from its
# start (tests/bindings/import_once.py). To import PyTorch or TensorFlow takes seconds of CPU, and tests start many ranks. One start of
# each kind stays as users have it.
import_once() {
    local script=$TUTTI_ROOT/tests/bindings/import_once.py socket
    socket=$(mktemp -u -p "$work" imported.XXXX)
    "$1" -W ignore "$script" serve "$socket" "${@:2}" &
    local server=$!
    until [[ -S $socket ]]; do
        if ! kill -0 "$server" 2>/dev/null; then # it says why
            forked=("$1")
            return
        fi
        sleep 0.05
    done
    forked=("$1" -I -S "$script" run "$socket")
}
