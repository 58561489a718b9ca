#!/bin/bash
# The simulation of whole jobs finds every one of these bugs of links, of the engine and of heartbeats, and says at which seed.
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
link=src/transport/tcp/link.c heartbeat=src/membership/heartbeat.c
run=src/engine/run.c send=src/engine/send.c way=src/engine/outgoing.c bind=src/engine/bind.c
begin_planting engine_sim_main "$link" "$run" "$send" "$way" "$bind" "$heartbeat"
seeds=3000

bug 'a credit counts twice' "$link" \
    'for (; tx->consumed < consumed; tx->consumed++)' \
    'if (consumed > tx->consumed && consumed < tx->sent) consumed++;
    for (; tx->consumed < consumed; tx->consumed++)'
bug 'a place is free before its piece is consumed' "$link" \
    'tx->place_free_at[piece->place] = tx->sent;' \
    'tx->place_free_at[piece->place] = tx->sent - 1;'
bug 'memory of the sender is free before its piece is consumed' "$link" \
    'tx->slot_free_at[tx->slot_reserved] = tx->sequence;' \
    'tx->slot_free_at[tx->slot_reserved] = tx->sequence - 1;'
bug 'a piece that has come is sent again after a reset' "$link" \
    '&& !has_come)' \
    ')'
bug 'what was lost with a connection is not sent again' "$link" \
    'tx->again |= bit_of(s);' \
    ';'
bug 'half a piece counts as coming after its connection is lost' "$link" \
    'rx->coming &= ~bit_of(sequence);' \
    ''
bug 'the place of half a piece is lost with its connection' "$link" \
    'if (place < rx->shape.place_count) rx->places_used &= ~bit_of(place);' \
    ''
bug 'a dependency is ignored' "$run" \
    'if (lane->done == 0 && step->after_count > 0 && !afters_completed(operation, step))' \
    'if (false)'
bug 'the last look before a sleep has patience' "$send" \
    'return operation->must_not_spin || looks' \
    'return looks'
bug 'an operation is over before its memory was read' "$run" \
    'if (operation->any_referenced && !references_consumed(operation)) return result;' \
    ''
bug 'a message overtakes an earlier one that waits for room' "$way" \
    'bool waits = lane->done == 0 && send_is_under_way(operation, step);' \
    'bool waits = false;'
bug 'a step that only passes on gets no memory' "$bind" \
    'if (step_has(step, STEP_STAGES) &&' \
    'if (step_has(step, STEP_STAGES) ||'
bug 'hosts are counted, not their ranks' "$heartbeat" \
    '        all += heartbeat->rank_counts[h];
        if (heartbeat->hosts[h].is_heard && !is_suspected(heartbeat, h))
            own += heartbeat->rank_counts[h];' \
    '        all++;
        if (heartbeat->hosts[h].is_heard && !is_suspected(heartbeat, h)) own++;'
bug 'a suspicion is not taken back' "$heartbeat" \
    'host->number_ns = host->life_ns = now_ns;' \
    'host->number_ns = now_ns;
    if (!is_suspected(heartbeat, (int)(host - heartbeat->hosts))) host->life_ns = now_ns;'
bug 'who is stopped is taken for gone' "$heartbeat" \
    'if (at_ns > of->life_ns) of->life_ns = at_ns;' \
    ''
bug 'what a host misses while it is stopped is silence of the others' "$heartbeat" \
    'if (since_ns > periods(heartbeat, PAUSE)) forgive_pause(heartbeat, since_ns);' \
    ''

end_planting
