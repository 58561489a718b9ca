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
# Without deaths nobody fails, and the log of ranks that leave as planned is empty: seed 7 has a worker that leaves first.
program=$TUTTI_BUILD/tests/tests_train_server_backup_test
plan=$("$program" --plan 7)
[[ $plan == *'"kills": {}'* && $plan == *'"leaver": 3'* ]] || { echo "seed 7 is another run: $plan"; exit 1; }
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ranks=()
for rank in 0 1 2 3 4; do
    RANK=$rank WORLD_SIZE=5 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TUTTI_SECRET=only-the-ranks-of-this-test-know-it TUTTI_LOG=warn \
        timeout 120 "$program" --rank 7 >/dev/null 2>"$work/log-$rank" &
    ranks+=($!)
done
bad=false
for rank in "${ranks[@]}"; do wait "$rank" || bad=true; done
if $bad || grep -H -e PROC_FAILED -e ABORTED -e "is gone" "$work"/log-*; then exit 1; fi
said=$("$python" "$TUTTI_ROOT/bench/server_faults.py" --read "$work/runs")
echo "$said"
[[ $said == *"2 runs, "*"; 0 runs were not good"* ]]
