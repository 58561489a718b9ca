#!/bin/bash
# Random programs find every one of these bugs of arguments, kernels and messages, and say at which seed.
# ctest: label=long label=nosan label=once timeout=600
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/planted_bugs.sh
. tests/planted_bugs.sh
# shellcheck disable=SC2034 # read there
seeds=200 clean_seeds=9 libraries=(-lssl -lcrypto)
blocks=src/api/blocks.c kernel=src/kernel/kernel.c user=src/kernel/kernel_user.c match=src/p2p/match.c
begin_planting program_main "$blocks" "$kernel" "$user" "$match"

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

end_planting
