#!/bin/bash
# checked_test.sh - whole communicators that compare all that goes through shared memory: every operation and form,
# messages, threads, forks.
#
# The same programs as without checksums, with TUTTI_INTEGRITY=on. (What changes on its way is integrity_memory_test's.)
# ctest: label=nosan label=once timeout=300
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
export TUTTI_INTEGRITY=on
for op in $operations; do
    run "$bin/tutti-perf" "$op" --ranks 3 --sizes 8,1000,70000,3M -n 2 -w 1 -c 1
done
run "$bin/tutti-perf" allreduce --ranks 3 --mapped -d float64,bfloat16,int8 --sizes 8,1000,70000,3M -n 3 -w 1 -c 1
run "$bin/tutti-perf" alltoall --ranks 2 --threads 2 --sizes 8,100K -n 3 -c 1
for form in started prepared grouped; do
    run "$bin/tutti-perf" allgather --ranks 3 --form $form --sizes 8,200K -n 3 -c 1
done
run_tests calls/forms calls/messages system/fork
if [[ ${TUTTI_LONG:-} == 1 ]]; then run_tests calls/lists calls/varying; fi
exit $failed
