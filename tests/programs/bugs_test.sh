#!/bin/bash
# Random programs find every one of these bugs of arguments, kernels, messages, children, shortages, plans from files and encodings, and say at which seed.
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
# shellcheck disable=SC2034 # read there
seeds=200 clean_seeds=9 libraries=(-lssl -lcrypto)
blocks=src/api/blocks.c kernel=src/kernel/kernel.c user=src/kernel/kernel_user.c match=src/p2p/match.c
process=src/os/process.c derive=src/comm/derive.c stored=src/comm/stored_plan.c rounding=src/plan/rounding.c payload=src/p2p/payload.c
begin_planting program_main "$blocks" "$kernel" "$user" "$match" "$process" "$derive" "$stored" "$rounding" "$payload"

bug 'the last of many blocks lies one element before its displacement' "$blocks" \
    'side->displs[r] * element_bytes,' \
    '(side->displs[r] - (r > 1 && side->displs[r] > 0)) * element_bytes,'
bug 'a copy writes one byte too far' "$kernel" \
    '    if (bytes != 0) memcpy(destination, source, bytes);' \
    '    if (bytes != 0) memcpy(destination, source, bytes + (bytes > 64 && bytes % 8 == 3));'
bug 'float16 is reduced as if it were bfloat16' "$kernel" \
    'levels[level].table->sets[dtype][op];' \
    'levels[level].table->sets[dtype == TUTTI_FLOAT16 ? TUTTI_BFLOAT16 : dtype][op];'
bug 'operands of the user come in another order' "$user" \
    'operation->combine(left, (const unsigned char *)call->sources[s] + offset, result, count,' \
    'operation->combine((const unsigned char *)call->sources[s] + offset, left, result, count,'
bug 'a receive of any rank comes after those of one' "$match" \
    'next[1]->id < next[0]->id' \
    'false'
bug 'a receive takes the newest message of a rank' "$match" \
    'for (arrival = matcher->sources[source].arrivals.oldest; arrival != NULL;
         arrival = arrival->newer_of_source)' \
    'for (arrival = matcher->sources[source].arrivals.newest; arrival != NULL;
         arrival = arrival->older_of_source)'
bug 'messages that nobody received are freed twice' "$match" \
    '    free_all(matcher->arrivals.oldest);' \
    '    free_all(matcher->arrivals.oldest), free_all(matcher->arrivals.oldest);'
bug 'a child of fork() takes what it inherited for its own' "$process" \
    '    process_generation_now++;' \
    '    process_generation_now += 0;'
bug 'a rank without descriptors does not say that it cannot come' "$derive" \
    'if (!roster->is_known && is_own_fault(status))' \
    'if (false)'
bug 'plans of one folder are taken for the same' "$stored" \
    'strcmp(entry->path, path) != 0' \
    'strncmp(entry->path, path, 20) != 0'
bug 'the owner of a sum keeps it as it was before it was encoded' "$rounding" \
    'return at->final && rank_plan->shape.collective == COLLECTIVE_ALLREDUCE;' \
    'return false;'
bug 'a large message that is encoded lies one element too far' "$payload" \
    'payload_get(level, receive->encoding, receive->dtype, view->data, *bytes, destination);' \
    'payload_get(level, receive->encoding, receive->dtype, view->data, *bytes - (*bytes > 4), destination + 4 * (*bytes > 4));'

end_planting
