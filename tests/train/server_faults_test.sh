#!/bin/bash
# Parameter servers of which ranks are killed at random keep each acknowledged push: a small run of bench/server_faults.py, and its summary.
# ctest: label=nosan label=once timeout=300 waits
set -euo pipefail
python=$(command -v python3) || { echo "python3 is not here"; exit 77; }
[ -x "${TUTTI_BUILD:?}/tests/tests_train_server_backup_test" ] || { echo "tests_train_server_backup_test is not built"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Seed 2 ends a server and the server with its backup, seed 4 the first server.
"$python" "${TUTTI_ROOT:?}/bench/server_faults.py" --runs 1 --seed 2 --keep "$work/runs" --verbose
"$python" "$TUTTI_ROOT/bench/server_faults.py" --runs 1 --seed 4 --keep "$work/runs" --verbose
said=$("$python" "$TUTTI_ROOT/bench/server_faults.py" --read "$work/runs")
echo "$said"
[[ $said == *"2 runs, "*"; 0 runs were not good"* ]]
