#!/bin/bash
# over_tcp_test.sh - whole communicators whose data goes over TCP: every operation and form, messages, threads, forks.
#
# The same programs as over shared memory, with TUTTI_TRANSPORT=tcp. Left out are those that count on what only shared
# memory has: that who is through with a call leaves nothing on its way.
# ctest: label=notsan label=once timeout=300
set -uo pipefail
bin=${TUTTI_BIN:?}
export TUTTI_TRANSPORT=tcp
failed=0
run() {
    if ! output=$(timeout 120 "$@" 2>&1); then
        printf '%s failed:\n%s\n' "$*" "$output"
        failed=1
    fi
}
for op in allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier sendrecv gatherv scatterv \
    allgatherv reduce_scatterv alltoallv; do
    for ranks in 2 3; do
        run "$bin/tutti-perf" "$op" --ranks $ranks --sizes 8,1000,70000,3M -n 3 -w 1 -c 1
    done
done
run "$bin/tutti-perf" allreduce --ranks 2 --threads 2 --sizes 8,100K -n 3 -c 1
for form in started prepared grouped; do
    run "$bin/tutti-perf" alltoall --ranks 2 --form $form --sizes 8,200K -n 3 -c 1
done
tests=$bin/../tests
for name in forms messages messages_failure lists varying fork; do
    if [[ -x $tests/tests_${name}_test ]]; then run "$tests/tests_${name}_test"; fi
done
# Those who do not agree are told so.
output=$(timeout 60 "$bin/tutti-run" -n 2 --no-prefix bash -c \
    'if [ "$TUTTI_RANK" = 1 ]; then export TUTTI_TRANSPORT=auto; fi; exec "$0"' "$bin/hello" 2>&1)
if [[ $output != *"TUTTI_TRANSPORT=tcp holds for rank 0, and not for rank 1"* ]]; then
    printf 'ranks that do not agree:\n%s\n' "$output"
    failed=1
fi
exit $failed
