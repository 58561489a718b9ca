#!/bin/bash
# The simulation of exclusion finds every one of these bugs, and says at which seed.
# ctest: label=nosan label=once timeout=300
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
standing=src/membership/standing.c agreement=src/membership/agreement.c vote=src/membership/vote.c
seeds=60000
begin_planting exclusion_sim_main "$standing" "$agreement" "$vote"

bug 'ranks with different wishes share an agreement' "$standing" \
    'return (uint64_t)about << 32 | standing_number(number);' \
    '(void)about;
    return standing_number(number);'
bug 'all lists of ranks look the same' "$standing" \
    'return number != 0 ? number : 1;' \
    'return 1;'
bug 'a list of ranks looks like a shrink' "$standing" \
    'return number != 0 ? number : 1;' \
    'return 0;'
bug 'ranks that could win give up' "$standing" \
    'return 2 * count > size || (2 * count == size && has_first);' \
    'return (void)has_first, count == size;'
bug 'a rank that has gone on is taken for dead' "$standing" \
    'return self->is_accused || has_opposed || decided >= lacking;' \
    'return (void)decided, (void)lacking, self->is_accused || has_opposed;'
bug 'a rank that has just decided is taken for dead' "$standing" \
    'return self->is_accused || has_opposed || decided >= lacking;' \
    'return self->is_accused || has_opposed || decided > lacking;'
bug 'what a rank missed is forgotten' "$standing" \
    'self->missed = self->number;' \
    'self->missed = 0;'
bug 'the last missed agreement counts, not the first' "$standing" \
    'if (!takes_part && self->missed == 0) self->missed = self->number;' \
    'if (!takes_part) self->missed = self->number;'
bug 'a rank that others want to put out takes itself for put out' "$vote" \
    'if (may_win(size, VOTE_UNKNOWN, of, context)) return true;' \
    'return true;'
bug 'a vote that is not known counts for nothing' "$vote" \
    'if (vote != about && vote != VOTE_UNKNOWN) continue;' \
    'if (vote != about || vote == VOTE_UNKNOWN) continue;'
bug 'a later vote of a rank counts in place of the present one' "$vote" \
    'return kept == 0 || standing_number(kept) < number ? heard : kept;' \
    'return heard;'
bug 'a set that is no majority is proposed' "$agreement" \
    '    return agreement_may_decide(a);
}

/* Makes' \
    '    return true;
}

/* Makes'
bug 'suspicion is taken for death' "$agreement" \
    'rank_set_add(a->suspected, rank);' \
    'rank_set_add(a->dead, rank);'
bug 'half of the ranks are a majority' "$agreement" \
    'return 2 * count > size || (2 * count == size && has_lowest);' \
    'return (void)has_lowest, 2 * count >= size;'
end_planting
