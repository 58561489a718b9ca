#!/bin/bash
# The simulation of growth finds every one of these bugs, and says at which seed.
# ctest: label=nosan label=once timeout=300
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
growth=src/membership/growth.c agreement=src/membership/agreement.c
begin_planting growth_sim_main "$growth" "$agreement"

bug 'joiners vote' "$growth" \
    'places[number] = rank++;' \
    'rank_set_add(voters, rank);
        places[number] = rank++;'
bug 'most ranks make a team' "$growth" \
    'return rank_set_count(decided, size) == size;' \
    'return 2 * rank_set_count(decided, size) > size;'
bug 'as many ranks as there are survivors make a team' "$growth" \
    'return rank_set_count(decided, size) == size;' \
    'return rank_set_count(decided, size) >= survivor_count(team);'
bug 'a rank goes on to the meeting though another one has gone' "$growth" \
    'if (!event->has_all) return GROWTH_SURVIVORS;' \
    ''
bug 'a rank that gave the meeting up brings its word' "$growth" \
    'return event->is_decided ? GROWTH_TEAM : GROWTH_SURVIVORS;' \
    'return GROWTH_TEAM;'
bug 'a rank that was left out goes on' "$growth" \
    'if (!event->has_self) return GROWTH_LEFT_OUT;' \
    ''
bug 'a team is there whatever was decided' "$growth" \
    'return event->has_all ? GROWTH_MADE : GROWTH_SURVIVORS;' \
    'return GROWTH_MADE;'
bug 'a team is there once a rank has met the others' "$growth" \
    'return event->is_decided ? GROWTH_TEAM : GROWTH_SURVIVORS;' \
    'return event->is_decided ? GROWTH_MADE : GROWTH_SURVIVORS;'
bug 'a joiner gets a rank that a survivor keeps' "$growth" \
    'rank = next_free(team, rank);' \
    ''
bug 'a rank without a vote is counted' "$agreement" \
    'count += __builtin_popcountll(set[i] & a->voters[i]);' \
    'count += __builtin_popcountll(set[i]);' \
    'count += __builtin_popcountll(~(one[i] | other[i]) & a->voters[i]);' \
    'count += __builtin_popcountll(~(one[i] | other[i]) & rank_set_mask(a->size, i));'
bug 'suspicion is taken for death' "$agreement" \
    'rank_set_add(a->suspected, rank);' \
    'rank_set_add(a->dead, rank);'

end_planting
