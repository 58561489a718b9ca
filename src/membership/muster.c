#include "membership/muster.h"

#include "membership/rank_set.h"
#include "membership/standing.h"

enum muster_verdict muster_judge(const struct muster_sign *sign, const struct muster_time *time)
{
    if (sign->is_lost) return MUSTER_LOST;
    if (time->waited_ns < time->patience_ns) return sign->has_come ? MUSTER_HERE : MUSTER_OPEN;
    /* Also a rank that has come can be stopped since. */
    if (sign->stopped_ns >= MUSTER_STOPPED_NS) return MUSTER_STOPPED;
    if (sign->silent_ns >= MUSTER_SILENT_NS) return MUSTER_SILENT;
    if (sign->has_come) return MUSTER_HERE;
    if (sign->is_in_call) return MUSTER_OPEN;
    return time->waited_ns - time->patience_ns >= time->absent_ns ? MUSTER_ABSENT : MUSTER_OPEN;
}

bool muster_is_sick(enum muster_verdict verdict)
{
    return verdict == MUSTER_STOPPED || verdict == MUSTER_SILENT || verdict == MUSTER_ABSENT;
}

bool muster_may_close(const enum muster_verdict *verdicts, int size)
{
    int here = 0, sick = 0;
    for (int r = 0; r < size; r++) {
        if (verdicts[r] == MUSTER_OPEN) return false;
        here += verdicts[r] == MUSTER_HERE;
        sick += muster_is_sick(verdicts[r]);
    }
    return sick > 0 && standing_is_majority(here, verdicts[0] == MUSTER_HERE, size);
}

enum muster_opinion muster_opinion(const enum muster_verdict *verdicts, const uint64_t *set,
                                   int size)
{
    int sick = 0;
    for (int r = 0; r < size; r++) {
        if (rank_set_has(set, r) || verdicts[r] == MUSTER_LOST) continue;
        if (!muster_is_sick(verdicts[r])) return MUSTER_UNSURE;
        sick++;
    }
    return sick > 0 ? MUSTER_ALL_SICK : MUSTER_ALL_LOST;
}

#define BIT_LOST (UINT64_C(1) << MUSTER_VOTERS_MAX)

uint64_t muster_word(const uint64_t *set, int rank, enum muster_opinion opinion)
{
    int place = 0;
    if (!rank_set_has(set, rank) || opinion == MUSTER_ALL_LOST) return UINT64_MAX;
    for (int r = 0; r < rank; r++) place += rank_set_has(set, r);
    const bool votes = opinion == MUSTER_ALL_SICK && place < MUSTER_VOTERS_MAX;
    return ~(BIT_LOST | (votes ? UINT64_C(1) << place : 0));
}

enum muster_opinion muster_outcome(const uint64_t *set, int size, uint64_t word)
{
    const int here = rank_set_count(set, size);
    const int voters = here < MUSTER_VOTERS_MAX ? here : MUSTER_VOTERS_MAX;
    const int yes = __builtin_popcountll(~word & ((UINT64_C(1) << voters) - 1));
    if ((word & BIT_LOST) != 0) return MUSTER_ALL_LOST;
    if (!standing_is_majority(here, rank_set_has(set, 0), size)) return MUSTER_UNSURE;
    return 2 * yes > voters ? MUSTER_ALL_SICK : MUSTER_UNSURE;
}
