#!/bin/bash
# Trainings of which workers and the server are killed end near those without kills, with and without workers that come in place of those that
# died: a small version of bench/server_kills.py.
# ctest: label=nosan label=once timeout=300 waits
set -euo pipefail
python=$(command -v python3) || { echo "python3 is not here"; exit 77; }
"$python" -c 'import numpy' 2>/dev/null || { echo "NumPy is not here"; exit 77; }
export TUTTI_LIBRARY=${TUTTI_BUILD:?}/lib/libtutti.so PYTHONPATH=${TUTTI_ROOT:?}/bindings/python/src PYTHONDONTWRITEBYTECODE=1
said=$("$python" "$TUTTI_ROOT/bench/server_kills.py" --runs 2 --at-once 2 --steps 60 --workers 3)
echo "$said"
[[ $said == *"killed: 4 workers, 2 servers"* ]]
# Both have learnt: guessing loses ln 4.
have_learnt() { awk -F'|' '/^\| with/ { if ($3 > 1.2) bad = 1; seen++ } END { exit bad || seen != 2 }' <<<"$1"; }
have_learnt "$said"
# On a busy machine all workers may have left before another one has started: then the trainings are made longer.
for steps in 200 800 3200; do
    said=$("$python" "$TUTTI_ROOT/bench/server_kills.py" --runs 2 --at-once 2 --steps $steps --workers 3 --replace)
    echo "$said"
    [[ $said == *"killed: 4 workers, 2 servers; "[0-4]" workers came"* ]]
    have_learnt "$said"
    [[ $said == *"; 0 workers came"* ]] || break
done
[[ $said != *"; 0 workers came"* ]]
