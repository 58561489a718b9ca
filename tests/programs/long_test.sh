#!/bin/bash
# Random programs of seeds that nobody has used before, for some minutes: docs/develop/simulated-faults.md.
# ctest: label=long timeout=900
set -euo pipefail
job=()
if [ "${TUTTI_TEST_RANKS:-}" = threads ]; then job=(--job threads); fi
exec "${TUTTI_BIN:?}/../tests/tests_programs_random_test" --minutes "${TUTTI_PROGRAM_MINUTES:-5}" --minimise "${job[@]}"
