#!/bin/bash
# The types of the Python package check, in it and in programs that use it, which find its wheel.
# ctest: label=long label=nosan label=once timeout=300 needs=wheel
# shellcheck source=tests/bindings/wheel.sh
source "${TUTTI_ROOT:?}/tests/bindings/wheel.sh"

"$python" -m venv tools
if ! tools/bin/pip --disable-pip-version-check --retries 1 --timeout 20 install -q numpy mypy >log 2>&1; then
    wheel_skip "mypy cannot be had from PyPI: $(grep -m 1 ERROR log || tail -n 1 log)"
fi
mypy() { tools/bin/mypy --strict --no-error-summary --cache-dir "$work/cache" "$@"; }
# The checker looks among its own packages.
ln -s "$("$python" -c 'import os, tutti; print(os.path.dirname(tutti.__file__))')" tools/lib/python3*/site-packages/

cat >user.py <<'END_OF_PROGRAM'
import numpy as np
import numpy.typing as npt
import tutti


def average(comm: tutti.Communicator, send: npt.NDArray[np.float32]) -> None:
    request = comm.allreduce_start(send, out=send, op=tutti.AVG, timeout=10.0)
    request.wait()
    message: tutti.Message
    counts: npt.NDArray[np.float32] = comm.allgatherv(send[:1], [1] * comm.size, algorithm="direct")
    print(send[0], counts.size)


with tutti.init() as comm:
    average(comm, np.full(3, comm.rank, np.float32))
END_OF_PROGRAM
said=$(tutti-run -n 2 --no-prefix "$python" user.py)
[[ $said == $'0.5 2\n0.5 2' ]] || { echo "the program says: $said"; exit 1; }

mypy user.py
# What is wrong has to be found, or the package would be one without types.
sed 's/op=tutti.AVG/op=3.5/; s/timeout=10.0/timeout="soon"/' user.py >wrong.py
if mypy wrong.py >log; then echo "mypy finds nothing wrong in wrong.py"; exit 1; fi
if ! grep -q '"op"' log || ! grep -q '"timeout"' log; then cat log; exit 1; fi
mypy --exclude '/horovod/(torch|tensorflow|shim)/' "$TUTTI_ROOT/bindings/python/src/tutti" # PyTorch and TensorFlow are not among its packages
