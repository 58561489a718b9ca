#!/bin/bash
# The Python package does what its tests say, with the library and the programs of this build.
# ctest: label=nosan label=once timeout=180 waits
set -euo pipefail
cd "${TUTTI_ROOT:?}"

python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, numpy, pytest; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [[ -z $python ]]; then
    echo "no python3 (3.9 or later) with numpy and pytest is here (Debian: python3-numpy python3-pytest)"
    exit 77
fi

export PYTHONPATH=$PWD/bindings/python/src PYTHONDONTWRITEBYTECODE=1
export TUTTI_LIBRARY=${TUTTI_BUILD:?}/lib/libtutti.so
# Ranks are forked from pytest: threads that NumPy never needs here would be in the way.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
exec "$python" -m pytest -q -p no:cacheprovider -r s bindings/python/tests
