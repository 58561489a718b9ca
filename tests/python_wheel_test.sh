#!/bin/bash
# `pip wheel` makes a package that brings its own library and programs, and whose types check.
# ctest: label=long label=nosan timeout=600
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
root=${TUTTI_ROOT:?}

python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [[ -z $python ]]; then
    echo "no python3 (3.9 or later) that can make virtual environments is here (Debian: python3-venv)"
    exit 77
fi
unset PYTHONPATH PYTHONHOME TUTTI_LIBRARY
"$python" -m venv venv
export PATH=$work/venv/bin:$PATH
pip=(pip --disable-pip-version-check --retries 1 --timeout 20)
if ! "${pip[@]}" install -q 'scikit-build-core>=0.10' numpy mypy >log 2>&1; then
    echo "what the wheel is built with cannot be had from PyPI: $(grep -m 1 ERROR log || tail -n 1 log)"
    exit 77
fi

"${pip[@]}" wheel -q --no-deps --no-build-isolation -w wheels "$root" >log 2>&1 || { cat log; exit 1; }
"${pip[@]}" install -q --no-deps wheels/tutti_comm-*.whl >log 2>&1 || { cat log; exit 1; }

# Programs of the wheel, not of the machine. What is built without hwloc and jansson lacks two of them.
version=$(sed -n 's/^#define TUTTI_VERSION_[A-Z]* \([0-9][0-9]*\)$/\1/p' "$root/include/tutti/tutti.h" | paste -sd.)
programs=(tutti-run tutti-perf tutti-plan tutti-schedule)
if [[ -e $work/venv/bin/tutti-topo ]] || ldconfig -p | grep 'libhwloc\.so$' >/dev/null; then programs+=(tutti-topo tutti-trace tutti-tune tutti-synth); fi
for program in "${programs[@]}"; do
    said=$("$work/venv/bin/$program" --version 2>&1) || { echo "$program does not start: $said"; exit 1; }
    [[ $said == "$program $version" ]] || { echo "$program --version says: $said"; exit 1; }
done
# What most people use needs no library that a machine may lack.
for file in "$work"/venv/bin/tutti-run "$work"/venv/bin/tutti-plan "$work"/venv/lib/python3*/site-packages/tutti/libtutti.so; do
    ldd "$file" >needs
    if grep -E 'hwloc|jansson|expat' needs; then echo "$file needs that"; exit 1; fi
done

cat >user.py <<'END_OF_PROGRAM'
import numpy as np
import numpy.typing as npt
import tutti


def average(comm: tutti.Communicator, send: npt.NDArray[np.float32]) -> None:
    request = comm.allreduce_start(send, out=send, op=tutti.AVG, timeout=10.0)
    request.wait()
    message: tutti.Message
    counts: npt.NDArray[np.float32] = comm.allgatherv(send[:1], [1] * comm.size, algorithm="direct")
    print(tutti.library_path(), tutti.__version__, send[0], counts.size)


with tutti.init() as comm:
    average(comm, np.full(3, comm.rank, np.float32))
END_OF_PROGRAM
library=$(python -c 'import os, tutti; print(os.path.join(os.path.dirname(tutti.__file__), "libtutti.so"))')
[[ $library == "$work"/* ]] || { echo "the package is not the one that was installed: $library"; exit 1; }
tutti-run -n 2 --no-prefix python user.py >said || { cat said; exit 1; }
for _ in 1 2; do printf '%s\n' "$library $version 0.5 2"; done >expected
diff expected said

mypy --strict --no-error-summary user.py
# What is wrong has to be found, or the package would be one without types.
sed 's/op=tutti.AVG/op=3.5/; s/timeout=10.0/timeout="soon"/' user.py >wrong.py
if mypy --strict wrong.py >log; then echo "mypy finds nothing wrong in wrong.py"; exit 1; fi
if ! grep -q '"op"' log || ! grep -q '"timeout"' log; then cat log; exit 1; fi
mypy --strict --no-error-summary --cache-dir "$work/cache" "$root/bindings/python/src/tutti"
