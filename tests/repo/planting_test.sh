#!/bin/bash
# Every bug that a long test plants can still be planted: the lines that it edits are there, and what it makes of them compiles.
# ctest: label=once label=nosan waits
set -uo pipefail
cd "${TUTTI_ROOT:?}" || exit 1

failed=0 scripts=0
for script in tests/*/*bugs_test.sh; do
    scripts=$((scripts + 1))
    if ! output=$(TUTTI_TEST_PLANTING=only bash "$script" 2>&1); then
        printf '%s:\n%s\n' "$script" "$output"
        failed=1
    fi
done
echo "$scripts tests that plant bugs"
((scripts > 0 && failed == 0))
