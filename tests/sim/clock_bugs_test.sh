#!/bin/bash
# The simulation of workers' clocks finds every one of these bugs, and says at which seed.
# ctest: label=nosan label=once timeout=300
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
clock=src/membership/worker_clock.c
seeds=100000 # a worker that comes back when all others have left is rare
begin_planting clock_sim_main "$clock"

bug 'a worker may be one clock too far ahead' "$clock" \
    'number - lowest < staleness' \
    'number - lowest <= staleness'
bug 'a worker may be one clock less ahead' "$clock" \
    'number - lowest < staleness' \
    'number - lowest + 1 < staleness'
bug 'a step does not wait for the slowest worker' "$clock" \
    'number < lowest ||' \
    'number <= lowest ||'
bug 'a worker that waits holds up the others' "$clock" \
    'return worker->clock + (worker->state == WORKER_WAITS);' \
    'return worker->clock;'
bug 'those who are gone are waited for' "$clock" \
    'if (is_left(worker) && reached(worker) < lowest)' \
    'if (reached(worker) < lowest)'
bug 'a worker that has not come is waited for' "$clock" \
    'return worker->state != WORKER_GONE && worker->state != WORKER_AWAITED;' \
    'return worker->state != WORKER_GONE;'
bug 'a place counts as a worker from the beginning' "$clock" \
    '.left_count = first_count' \
    '.left_count = worker_count'
bug 'an update that is said twice counts twice' "$clock" \
    'if (number < reached(own)) return WORKER_CLOCK_KNOWN;' \
    ''\
    'if (number > own->clock || own->state == WORKER_WAITS) return WORKER_CLOCK_REFUSED;' \
    'if (own->state == WORKER_WAITS) return WORKER_CLOCK_REFUSED;'
bug 'a step has updates of several clocks' "$clock" \
    'if (number != UINT64_MAX && worker->clock != number) continue;' \
    ''
bug 'a quorum has one update too few' "$clock" \
    'waiting >= needed' \
    'waiting + 1 >= needed'
bug 'a quorum waits for one update more' "$clock" \
    'waiting >= needed' \
    'waiting > needed'
bug 'a quorum counts those who are gone' "$clock" \
    'clock->rule.quorum < able ? clock->rule.quorum : able' \
    'clock->rule.quorum'
bug 'a quorum waits for workers that ask for another rule' "$clock" \
    'clock->left_count - count_of(clock, WORKER_WISHES)' \
    'clock->left_count'
bug 'the rule changes before the last worker has asked' "$clock" \
    'count_of(clock, WORKER_WISHES) < clock->left_count' \
    'count_of(clock, WORKER_WISHES) + 1 < clock->left_count'
bug 'the rule stays, and all are told that it changed' "$clock" \
    'clock->rule = clock->workers[first].wish;' \
    ''
bug 'a wish that is said again asks once more' "$clock" \
    'if (round < clock->changes) return WORKER_CLOCK_KNOWN;' \
    ''\
    'if (round > clock->changes || own->state == WORKER_WAITS)' \
    'if (own->state == WORKER_WAITS)'
bug 'a worker comes back in the clock in which it left' "$clock" \
    'first > own->clock ? first : own->clock' \
    'own->clock'
bug 'a worker that joins is not counted' "$clock" \
    'clock->left_count++;' \
    ''
bug 'the first worker that comes back begins in its old clock' "$clock" \
    'clock->left_count > 0 ? worker_clock_lowest(clock) : highest_ever(clock)' \
    'clock->left_count > 0 ? worker_clock_lowest(clock) : own->clock'
bug 'an update that was dropped is applied' "$clock" \
    'own->state = WORKER_GONE;' \
    'if (own->state != WORKER_WAITS) own->state = WORKER_GONE;'

end_planting
