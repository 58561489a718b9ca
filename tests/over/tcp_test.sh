#!/bin/bash
# tcp_test.sh - every operation over TCP, in every form; also encrypted. What tests find there is tcp_tests_test.sh's.
# ctest: label=nosan label=once timeout=300
set -uo pipefail
# shellcheck source=tests/over/over.sh
source "${TUTTI_ROOT:?}/tests/over/over.sh"
export TUTTI_TRANSPORT=tcp
for op in $operations; do
    for ranks in 2 3; do
        run "$bin/tutti-perf" "$op" --ranks $ranks --sizes 8,1000,70000,3M -n 3 -w 1 -c 1
    done
done
run "$bin/tutti-perf" allreduce --ranks 2 --threads 2 --sizes 8,100K -n 3 -c 1
for form in started prepared grouped; do
    run "$bin/tutti-perf" alltoall --ranks 2 --form $form --sizes 8,200K -n 3 -c 1
done
export TUTTI_SECRET=only-the-ranks-of-this-test-know-it
for op in allreduce broadcast allgather alltoall sendrecv; do
    TUTTI_ENCRYPTION=on run "$bin/tutti-perf" "$op" --ranks 3 --sizes 8,1000,70000,3M -n 3 -w 1 -c 1
done
# Those who do not agree are told so.
output=$(timeout 60 "$bin/tutti-run" -n 2 --no-prefix bash -c \
    'if [ "$TUTTI_RANK" = 1 ]; then export TUTTI_TRANSPORT=auto; fi; exec "$0"' "$bin/hello" 2>&1)
if [[ $output != *"TUTTI_TRANSPORT=tcp holds for rank 0, and not for rank 1"* ]]; then
    printf 'ranks that do not agree:\n%s\n' "$output"
    failed=1
fi
exit $failed
