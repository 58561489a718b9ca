#!/bin/bash
# valgrind_test.sh - ranks under Valgrind: its address space is small, it lacks some system calls (pidfd_open), and it reports memory that
# the library used before writing it, or after freeing it.
# ctest: label=nosan label=once timeout=240
set -uo pipefail
bin=$(realpath "${TUTTI_BIN:?}")
command -v valgrind >/dev/null || { echo "valgrind is not here: skipped"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "FAILED  $*"
    failed=1
}

# What Valgrind finds ends a rank with 99.
under_valgrind() {
    timeout 100 "$bin/tutti-run" -n 2 valgrind --quiet --error-exitcode=99 "$@" >"$work/out" 2>&1
}

under_valgrind "$bin/hello" || fail "hello: $(tail -n 20 "$work/out")"
for rank in "rank 0 of 2 gave 2 4 6" "rank 1 of 2 gave 1 2 3"; do
    grep -q "$rank and got 3 6 9" "$work/out" || fail "hello: $(cat "$work/out")"
done
for memory in "" --mapped; do
    under_valgrind "$bin/tutti-perf" allreduce $memory --sizes 8,64K,1M -n 2 || fail "allreduce $memory: $(tail -n 20 "$work/out")"
    grep -q 'Wrong elements *: 0 OK' "$work/out" || fail "allreduce $memory: $(cat "$work/out")"
done
[ $failed = 0 ] && echo "ok"
exit $failed
