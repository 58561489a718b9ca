#!/bin/bash
# libtutti_jax.so has all names that MPItrampoline looks up, does what XLA asks of it, and refuses the rest by name. Needs no JAX.
# ctest: label=notsan timeout=240
set -euo pipefail

calls=("${TUTTI_BUILD:?}/tests/jax_calls" "$TUTTI_BUILD/lib/libtutti_jax.so")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run=("${TUTTI_BIN:?}/tutti-run" --no-prefix)

"${calls[@]}" names 2>"$work/log" || { cat "$work/log"; exit 1; }
[[ $(grep -c 'tutti_jax: MPI_Win_create: not provided' "$work/log") == 1 ]] || { echo "the log does not say it once:"; cat "$work/log"; exit 1; }
for ranks in 2 3; do "${run[@]}" -n $ranks "${calls[@]}" operations 2>"$work/log" || { cat "$work/log"; exit 1; }; done
mkdir "$work/store"
"${run[@]}" -n 2 "${calls[@]}" devices "$work/store"

# A rank dies, and tutti-run would end the others: they are started by hand.
for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 "${calls[@]}" victim 2>"$work/log$rank" &
    pids[rank]=$!
done
wait "${pids[2]}" && { echo "the victim lives"; exit 1; }
for rank in 0 1; do wait "${pids[rank]}" || { echo "rank $rank:"; cat "$work/log$rank"; exit 1; }; done

# Nothing but these names is shown, so that nothing of it gets into other libraries' way.
if nm -D --defined-only "${calls[1]}" | awk '{ print $3 }' | grep -vE '^(MPIX?ABI_[A-Za-z0-9_]+|mpiabi_version_(major|minor|patch)|mpiwrapper_[a-z_]+|tutti_jax_[a-z_]+)$'; then
    echo "above: what libtutti_jax.so exports too much"
    exit 1
fi
