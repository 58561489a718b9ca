#!/bin/bash
# The collectives with stand-ins (tests/engine/engine_dummies.h) find every one of these bugs of the engine, and say at which seed.
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
run=src/engine/run.c computing=src/engine/computing.c send=src/engine/send.c deliver=src/engine/deliver.c outgoing=src/engine/outgoing.c
start=src/engine/start.c bind_paths=src/engine/bind_paths.c paths=src/path/path.c
libraries=(-lcmocka)
seeds=12000
begin_planting engine_dummies_main "$run" "$computing" "$send" "$deliver" "$outgoing" "$start" "$bind_paths" "$paths"

# ------------------------------------------------------------------------------------- kernels that finish late
end_of_start='                                       !is_placed && piece->path == PATH_SHARED_SLOT;'
deliver_late='    deliver_computed(operation, lane, step, piece);'

# A piece for which CONDITION holds is sent by EARLY as soon as its kernels are started; only the rest is done when they are finished.
sent_early() {
    local name=$1 condition=$2 early=$3
    bug "$name" "$computing" \
        "$end_of_start" \
        "$end_of_start
    if ($condition) {
        $early
        if (piece->path == PATH_SHARED_SLOT) operation->shared_slot_is_taken = false;
    }" \
        "$deliver_late" \
        "    if ($condition)
        deliver_back(operation, step, piece, piece->path == PATH_FORWARD && lane->state != LANE_PLACES, piece->bytes);
    else deliver_computed(operation, lane, step, piece);"
}

bug 'what a kernel reads is consumed before it has finished' "$computing" \
    "$end_of_start" \
    "$end_of_start
    deliver_back(operation, step, piece, deliver_sends(lane, step) && piece->path == PATH_FORWARD, piece->bytes);" \
    "$deliver_late" \
    '    struct program_step rest = *step;
    rest.source_count = 0;
    deliver_computed(operation, lane, &rest, piece);'
sent_early 'a place is sent before its kernels have finished' \
    'deliver_sends(lane, step) && path_is_place(piece->path)' \
    'const bool is_full = lane->filled + piece->bytes == piece->whole;
    for (uint32_t i = 0; is_full && i < step->tx_count; i++)
        step_link(operation, step, i)->ops->commit(step_link(operation, step, i), piece->whole);
    lane->filled = is_full ? 0 : lane->filled + piece->bytes;'
sent_early 'a shared slot is sent before its kernels have finished' \
    'deliver_sends(lane, step) && piece->path == PATH_SHARED_SLOT' \
    'deliver_to_links(operation, lane, step, piece);'
sent_early 'a message is forwarded before the kernels that change it have finished' \
    'deliver_sends(lane, step) && piece->path == PATH_FORWARD' \
    'deliver_to_links(operation, lane, step, piece);'
sent_early 'memory counts as stored before the kernels that store it have finished' \
    'deliver_sends(lane, step) && piece->path == PATH_STAGE' \
    'deliver_to_links(operation, lane, step, piece);'
sent_early 'a result is announced where it is expected before its kernels have finished' \
    'lane->state == LANE_PLACES' \
    'if (lane->done + piece->bytes == step->bytes) deliver_placed(operation, step);'
bug 'another lane takes the shared slot that one computes in' "$send" \
    'operation->shared_slot_is_taken || ' \
    ''
bug 'a step is over while it computes' "$run" \
    'if (computing_has_begun(operation, lane)) return RUN_MOVED;' \
    'if (computing_has_begun(operation, lane)) return advance(lane, step, computing_deliver(operation, lane, step));'
bug 'what is given up is taken to compute no more' "$run" \
    'return operation->program->has_executor && computing_any(operation);' \
    'return false;'
bug 'what is copied into a place is sent before its kernels have finished' "$send" \
    '    return send->group == 0;' \
    '    send->group = 0;
    return true;'
seeds=40000
bug 'another lane takes the shared slot that a message is copied into' "$send" \
    '    else
        operation->shared_slot_is_taken = true;
' \
    ''
seeds=12000
bug 'a message that is given up is taken not to be copied any more' "$computing" \
    '        any |= !start_is_copied(operation, &operation->sends[t]);' \
    '        (void)t;'

# ------------------------------------------------------------------------------------------- kinds of memory
bug 'what comes on links is taken to lie in memory of the host' "$computing" \
    'operation->rx[sources[i].rx]->memory}' \
    'NULL}'
bug 'buffers are taken to lie in memory of the host' "$computing" \
    '{NULL, program->kinds[sources[i].buffer]}' \
    '{NULL, NULL}'
bug 'places of links are taken to lie where shared slots do' "$computing" \
    'if (!is_placed && piece->path == PATH_SHARED_SLOT) return' \
    'if (!is_placed) return'
bug 'shared slots are taken to lie where places of links do' "$computing" \
    '    if (!is_placed && piece->path == PATH_SHARED_SLOT) return operation->transport->shared_memory;
' \
    ''
bug 'what is expected is taken to lie in memory of its sender' "$computing" \
    'if (is_placed || piece->path != PATH_FORWARD) return step_link(operation, step, i)->memory;' \
    'if (is_placed) return operation->program->kinds[PLAN_OUTPUT];
    if (piece->path != PATH_FORWARD) return step_link(operation, step, i)->memory;'
bug 'other memory is sent by reference over links that do not reach it' "$bind_paths" \
    'if (is_reference && !takes_kind(' \
    'if (false && !takes_kind('
bug 'links store in other memory that they do not reach' "$bind_paths" \
    'return takes_memory(binder, memory) && takes_kind(binder, bound->destination_buffer, memory);' \
    'return takes_memory(binder, memory);'
bug 'links copy to other memory that they do not reach' "$bind_paths" \
    '    step_set(bound, STEP_FETCHES, fetches(binder, bound));
' \
    ''
bug 'scratch is memory of the host' "$run" \
    'const struct memory_kind *kind = program->kinds[PLAN_SCRATCH];' \
    'const struct memory_kind *kind = NULL;'
bug 'what is posted is copied by this CPU' "$send" \
    'if (!program->moves_by_kernels &&' \
    'if (operation->executor == NULL && program->encoding == NULL &&'
bug 'small messages are copied by this CPU' "$run" \
    '(special && program_computes(operation->program, step)) ||' \
    ''

# ----------------------------------------------------------------------------------------------- encodings
bug 'as much is given back as lies in memory' "$deliver" \
    'program_rx_bytes(program, (uint32_t)sources[i].rx, piece->bytes)' \
    'piece->bytes'
bug 'pieces come as far apart on links as in memory' "$computing" \
    'program_rx_bytes(program, (uint32_t)sources[i].rx, done)' \
    'done'
bug 'runs go as far apart to links as in memory' "$computing" \
    'wire_bytes(operation->place_formats[i].encoding,' \
    'wire_bytes(NULL,'
bug 'what is posted goes as far apart as in memory' "$start" \
    'wire_bytes(encoding, program->element_bytes, done)' \
    'done'
bug 'what is encoded is read where it lies' "$paths" \
    'if (message->is_encoded && ' \
    'if (false && '
bug 'places are as large as in memory' "$outgoing" \
    'program_tx_bytes(operation->program, t, bytes)' \
    'bytes'

# ---------------------------------------------------------------------------------------------------- gates
bug 'a gate is taken to be open' "$run" \
    'if (!operation->gate->ops->is_open(operation->gate)) return false;' \
    'operation->gate->ops->is_open(operation->gate);'
bug 'what waits for its gate shows what it expects' "$run" \
    '    operation->gated_signature = signature;' \
    '    operation->gated_signature = signature;
    operation_open(operation, signature);' \
    '    operation_open(operation, operation->gated_signature);' \
    ''
bug 'a gate is told of the end while messages are still read' "$run" \
    '    if (operation->any_referenced && !references_consumed(operation)) return result;' \
    '    if (special) end_gate(operation, true);
    if (operation->any_referenced && !references_consumed(operation)) return result;' \
    'static ALWAYS_INLINE enum run_result run_all(' \
    'static void end_gate(struct operation *operation, bool is_done);
static ALWAYS_INLINE enum run_result run_all('
bug 'a gate is never told of the end' "$run" \
    'if (result == RUN_DONE) end_gate(operation, true);' \
    ''
bug 'a gate is told twice' "$run" \
    '    operation->gate = NULL;
    operation->is_gated = false;
    if (gate' \
    '    operation->is_gated = false;
    if (gate'
bug 'a gate is told that what was given up is done' "$run" \
    'end_gate(operation, false);' \
    'end_gate(operation, true);'

end_planting
