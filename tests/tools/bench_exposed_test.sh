#!/bin/bash
# bench/exposed runs every way of sharing once, beside the same without communication, and prints a row for each.
# ctest: label=long label=nosan label=once timeout=300
set -uo pipefail

if [[ ! -x ${TUTTI_BIN:?}/gpt ]]; then
    echo "there is no gpt here: it needs OpenBLAS"
    exit 77
fi
command -v python3 >/dev/null || { echo "python3 is not here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

"${TUTTI_ROOT:?}/bench/exposed" --layouts shared --models narrow --rounds 1 --steps 3 --no-torch >"$work/out" 2>"$work/err" ||
    { echo "exit status $?: $(cat "$work/out" "$work/err")"; failures=1; }
for way in copies copies-late zero1 zero2 zero2-late zero3 zero3-unprefetched zero3-neither slices slices-rows slices-again stages; do
    grep -qE "^\| narrow \| $way \| [0-9.]+ \| [0-9.]+ \| -?[0-9.]+ \| -?[0-9]+% \| [0-9.]* \| [0-9]+ \|$" "$work/out" ||
        { echo "no row of $way: $(cat "$work/out")"; failures=1; }
done
if "$TUTTI_ROOT/bench/exposed" --ways nothing >"$work/out" 2>&1 || ! grep -q 'there is no nothing' "$work/out"; then
    echo "a way that is none: $(cat "$work/out")"
    failures=1
fi
exit $failures
