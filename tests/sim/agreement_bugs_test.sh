#!/bin/bash
# The simulation of the agreement finds every one of these classic bugs, and says at which seed.
# (One more, that a ballot by all goes on without those who die during it, needs so many things at once that
# src/membership/agreement_test.c plays it move by move.)
# ctest: label=nosan label=once timeout=300
set -euo pipefail
cd "${TUTTI_ROOT:?}"

# shellcheck source=tests/kit/planted_bugs.sh
. tests/kit/planted_bugs.sh
source=src/membership/agreement.c
begin_planting agreement_sim_main "$source"

bug 'a lost vote' "$source" \
    'copy_value(a, &a->accepted, &a->inbox);' \
    ''
bug 'a stale epoch is accepted' "$source" \
    'if (epoch != a->epoch) return false;' \
    ''
bug 'a decision is used again for the next epoch' "$source" \
    'if (epoch != a->epoch) return false;' \
    'if (epoch != a->epoch && a->state != AGREEMENT_DECIDED) return false;
    ((struct agreement *)a)->epoch = epoch;'
bug 'a leader that dies after half of its messages is trusted' "$source" \
    'send_to(a, from, &answer, NULL);' \
    'send_to(a, from, &answer, NULL);
    decide(a, &a->inbox);'
bug 'a value is chosen without asking what was accepted' "$source" \
    'if (a->latest.ballot != 0)
        copy_value' \
    'if (false)
        copy_value'
bug 'a promise is forgotten' "$source" \
    'if (m->ballot < a->promised) {
        send_refusal(a, m->ballot);
        return;
    }
    if (!take_into_inbox' \
    'if (!take_into_inbox'
bug 'quorums that do not intersect' "$source" \
    'return 2 * count > size || (2 * count == size && has_lowest);' \
    'return 2 * count >= size;'
bug 'suspicion is taken for death' "$source" \
    'rank_set_add(a->suspected, rank);' \
    'rank_set_add(a->dead, rank);'
bug 'the word is that of all who came, not of those in the set' "$source" \
    'if (rank_set_has(value->set, rank)) value->word' \
    'if (rank_set_has(a->promised_by, rank)) value->word'
bug 'a leader does not wait for those it has no reason to doubt' "$source" \
    'if (settled != rank_set_mask(a->size, i)) return false;' \
    ''
bug 'who has decided says nothing to those who ask' "$source" \
    'if (a->state == AGREEMENT_DECIDED) hear_decided(a, from, &m);' \
    ''
bug 'nobody tells a leader who is dead' "$source" \
    'if (any != 0) send_slice(a, to, &message, a->dead, slice);' \
    ''
bug 'of accepted values the first that comes is taken' "$source" \
    'if (m->other == 0 || m->other < a->latest.ballot) return;' \
    'if (m->other == 0 || (a->latest.ballot != 0 && m->other != a->latest.ballot)) return;'
bug 'the dead are listened to' "$source" \
    'if (rank_set_has(a->dead, from)) return;' \
    ''

bug 'a rank without a vote is counted' "$source" \
    'count += __builtin_popcountll(set[i] & a->voters[i]);' \
    'count += __builtin_popcountll(set[i]);'
bug 'a ballot by all goes without ranks that have no vote' "$source" \
    'if ((set[i] | a->ballot_dead[i]) != rank_set_mask(a->size, i)) return false;' \
    'if (((set[i] | a->ballot_dead[i]) & a->voters[i]) != a->voters[i]) return false;' \
    'if ((a->suspected[i] & ~a->dead[i]) != 0) return false;' \
    'if ((a->suspected[i] & ~a->dead[i] & a->voters[i]) != 0) return false;'

end_planting
