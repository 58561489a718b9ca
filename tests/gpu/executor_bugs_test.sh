#!/bin/bash
# Games with the executor of a device (tests/gpu/gpu_game.h) find every one of these bugs, and say at which seed.
# ctest: label=long label=nosan label=once timeout=300
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
orders=src/gpu/orders.c executor=src/gpu/executor.c twins=tests/gpu/twins.c
seeds=600 clean_seeds=100
begin_planting gpu_game_main "$orders" "$executor" "$twins"

# A bug of the worker's, which is in a header.
worker_bug() {
    local name=$1 header
    header=$(cat src/gpu/worker_run.h)
    if [[ $header != *"$2"* ]]; then
        echo "$name: what it edits is not in src/gpu/worker_run.h"
        missed=$((missed + 1))
        return
    fi
    bug "$name" "$twins" '#include "gpu/worker_run.h"' "${header/"$2"/"$3"}"
}

bug 'results are not copied out' "$orders" \
    'if (copies_out && !group->is_dropped)' \
    'if (copies_out && group->is_dropped)'
bug 'only the first destination is copied out' "$orders" \
    '        if (to->is_copied)
            kernel_copy(to->address' \
    '        if (to->is_copied && d == 0)
            kernel_copy(to->address'
bug 'room in the arena is given back when the first part is done' "$orders" \
    '            if (--orders->orders[index].parts_left == 0) finish_order(orders, index, true);' \
    '            if (orders->orders[index].has_mark) gpu_arena_give_back(&orders->arena, orders->orders[index].mark);
            orders->orders[index].has_mark = false;
            if (--orders->orders[index].parts_left == 0) finish_order(orders, index, true);'
bug 'an order is done when its first part is' "$orders" \
    '    order->parts_left = parts;' \
    '    order->parts_left = 1;' \
    '        tell(orders, teams[p], &told, index);' \
    '        tell(orders, teams[p], &told, index), order->parts_left = 1;' \
    'if (--orders->orders[index].parts_left == 0) finish_order' \
    'if (orders->orders[index].parts_left != 0 && --orders->orders[index].parts_left == 0) finish_order'
bug 'a group is finished when its first job is' "$orders" \
    '    if (group->jobs_left > 0) return false;' \
    '    if (group->jobs_left > 1) return false;'
bug 'nobody tells the worker to leave' "$executor" \
    '    gpu_worker_end(run->worker);
' \
    ''
bug 'the end of an earlier worker is an end of the next' "$orders" \
    '    __atomic_store_n(&worker->control->end, 0, __ATOMIC_RELAXED);' \
    ''
worker_bug 'an order is done before it is' \
    '        gpu_reduce_run(' \
    '        worker_say(&place, WORKER_PRESENT, number);
        gpu_reduce_run('
worker_bug 'the end is not seen' \
    'may_stay = word == 0;' \
    'may_stay = true;'
worker_bug 'an order is taken before all of it is there' \
    'is_there = false;' \
    'is_there = w > 0;'

end_planting
