#!/bin/bash
# bench/elastic_faults.py measures: a rank of two is killed, and the other goes on.
# ctest: label=nosan label=once timeout=300 waits
set -euo pipefail
python=$(command -v python3) || { echo "python3 is not here"; exit 77; }
"$python" -c 'import numpy' 2>/dev/null || { echo "NumPy is not here"; exit 77; }
export TUTTI_LIBRARY=${TUTTI_BUILD:?}/lib/libtutti.so PYTHONDONTWRITEBYTECODE=1
said=$("$python" "${TUTTI_ROOT:?}/bench/elastic_faults.py" --case killed --way shrink --place host --runs 1 --ranks 3 --mb 1)
echo "$said"
[[ $said == *shrink* ]]
