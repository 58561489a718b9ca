#!/bin/bash
# bench/server_pairs.py measures, and finds the values that it expects: Tutti beside Tutti over TCP, the fewest pairs.
# ctest: label=nosan label=once timeout=300
set -euo pipefail
python=$(command -v python3) || { echo "python3 is not here"; exit 77; }
"$python" -c 'import numpy' 2>/dev/null || { echo "NumPy is not here"; exit 77; }
export TUTTI_LIBRARY=${TUTTI_BUILD:?}/lib/libtutti.so PYTHONPATH=${TUTTI_ROOT:?}/bindings/python/src PYTHONDONTWRITEBYTECODE=1
said=$("$python" "$TUTTI_ROOT/bench/server_pairs.py" --servers 1 --modes sync --sides tutti,tutti-tcp --sizes 4K,rows --pairs 6)
echo "$said"
[[ $said == *"geometric mean "*": tutti-tcp / tutti"* ]]
