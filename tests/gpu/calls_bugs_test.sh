#!/bin/bash
# Calls in memory of devices (tests/gpu/device_sweep.h) find every one of these bugs, and say at which seed.
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
orders=src/gpu/orders.c executor=src/gpu/executor.c twins=tests/gpu/twins.c computing=src/engine/computing.c send=src/engine/send.c
begin=src/call/begin.c on_device=src/call/on_device.c sending=src/transport/local/sending.c
libraries=(-lssl -lcrypto -lhwloc -ljansson -lexpat -ldl)
seeds=10 clean_seeds=1
export TUTTI_CUDA_DRIVER=${TUTTI_BUILD:?}/lib/libcuda_standin.so
begin_planting device_sweep_main "$executor"

standin=()
for source in tests/gpu/cuda_standin*.c; do
    if [[ $source != *_@(test|use).c ]]; then standin+=("$source"); fi
done

# A bug of the worker's: the stand-in runs it.
worker_bug() {
    local name=$1 header kernels result
    header=$(cat src/gpu/worker_run.h)
    kernels=$(cat "$twins")
    if [[ $header != *"$2"* ]]; then
        echo "$name: what it edits is not in src/gpu/worker_run.h"
        missed=$((missed + 1))
        return
    fi
    if only_plants; then
        found=$((found + 1))
        return
    fi
    printf '%s\n' "${kernels/'#include "gpu/worker_run.h"'/"${header/"$2"/"$3"}"}" >"$work/twins.c"
    compile -fPIC -shared "${standin[@]}" "$work/twins.c" -Wl,-soname,libcuda.so.1 -Wl,-z,defs -lpthread -lm -ldl \
        -o "$work/standin.so"
    if result=$(TUTTI_CUDA_DRIVER=$work/standin.so "$work/good" --seeds "$seeds" 2>&1); then
        echo "$name: NOT FOUND in $seeds schedules"
        missed=$((missed + 1))
    else
        echo "$name: $result"
        found=$((found + 1))
    fi
}

# ------------------------------------------------------------------------------------------------- streams
bug 'a gate is taken as open at once' "$executor" \
    'return are_taken;' \
    'return true;'
bug 'a call is not in the order of its stream' "$executor" \
    'has_stream ? stream : run->stream' \
    'run->stream'
bug 'a stream goes on when the operation begins' "$executor" \
    '    unsigned turn;
' \
    '    unsigned turn;
    bool goes_on;
' \
    'static bool is_open(struct operation_gate *gate)
{
    struct gpu_run *const run = run_of(gate);
' \
    'static struct gpu_worker *find_worker(struct gpu_run *run);
static bool is_open(struct operation_gate *gate)
{
    struct gpu_run *const run = run_of(gate);
    if (gpu_orders_are_taken(&run->orders) && !run->goes_on) {
        gpu_worker_end(run->worker);
        gpu_orders_end(&run->orders);
        run->worker = find_worker(run);
        gpu_worker_prepare(run->worker, run->team_count);
        run->device->driver->start_worker(run->device, run->stream, run->team_count * run->team_size, run->worker->home);
        run->worker->is_out = run->goes_on = true;
        gpu_orders_begin(&run->orders, run->worker);
    }
' \
    '    worker->is_out = true;' \
    '    worker->is_out = true;
    run->goes_on = false;'

# ------------------------------------------------------------------------------------------------- waiting
bug 'an operation is done while kernels run' "$computing" \
    '    if (!start_is_finished(operation, flight->group)) return false;' \
    '    start_is_finished(operation, flight->group);'
bug 'results in the arena are copied out too early' "$orders" \
    'if (copies_out && !group->is_dropped)' \
    'if (copies_out && group->is_dropped)' \
    '    orders->turn = (orders->turn + parts) % orders->present_count;' \
    '    orders->turn = (orders->turn + parts) % orders->present_count;
    copy_out(job, order);'
bug 'a rank alone does not wait for its copies' "$on_device" \
    'while (!executor->ops->is_finished(executor, group)) {' \
    'while (false) {'
worker_bug 'teams share an order out by how many members each has' \
    'part = (shared.order.reduce.share & 0xf) + share * place.member;' \
    'part = (shared.order.reduce.share & 0xf) * members + place.member;'

# -------------------------------------------------------------------------------------------------- memory
bug 'what is posted is copied by this CPU' "$send" \
    'if (!program->moves_by_kernels &&' \
    'if (true || !program->moves_by_kernels &&'
bug 'a rank alone copies on its CPU' "$begin" \
    'if (call_is_on_device(call) && (call->extra->on_device[0] || call->extra->on_device[1]))' \
    'if (false)'
bug 'the output is taken to lie in memory of the host' "$on_device" \
    'options->kinds[PLAN_OUTPUT] = receives ? kind : NULL;' \
    'options->kinds[PLAN_OUTPUT] = NULL;'
bug 'threads read what lies on a device as if it were in memory of the host' "$sending" \
    'other != NULL ? MESSAGE_OTHER : kind_of(tx, address, bytes, &where);' \
    'kind_of(tx, address, bytes, &where);'
bug 'only the first tensor of a list is looked for' "$on_device" \
    '    for (size_t s = 0; s < buffer.segment_count; s++) {' \
    '    for (size_t s = 1; s < buffer.segment_count; s++) {'

end_planting
