#include "tutti-tune_candidates.h"

#include "base/status.h"

enum tutti_status candidates_find(const struct tune_site *site, const struct tune_question *question,
                                  double margin, struct candidates *candidates)
{
    struct ranking ranking;
    candidates->count = 0;
    TRY(ranking_find(site, question, &ranking));
    for (int i = 0; i < ranking.count && candidates->count < CANDIDATES_MAX; i++) {
        const struct ranked *ranked = &ranking.ranked[i];
        const double limit_ps = (1 + margin) * (double)ranking.ranked[0].time_ps;
        if (candidates->count >= CANDIDATES_MIN && (double)ranked->time_ps > limit_ps) break;
        if (ranked->only_hosts && i > 0) continue;
        candidates->of[candidates->count++] =
            (struct candidate){ranked->algorithm, ranked->only_hosts};
    }
    return TUTTI_OK;
}

static bool is_same(const struct candidate *one, const struct candidate *other)
{
    return one->algorithm == other->algorithm && one->only_hosts == other->only_hosts;
}

enum tutti_status candidates_least_bytes(const struct tune_site *site,
                                         const struct tune_question *question,
                                         const struct candidate *model,
                                         const struct candidate *winner, uint64_t *bytes)
{
    struct tune_question smaller = *question;
    struct candidates there;
    *bytes = question->bytes;
    if (question->bytes == 0) return TUTTI_OK;
    smaller.bytes /= 2;
    TRY(candidates_find(site, &smaller, 0, &there));
    if (there.count > 0 && (is_same(&there.of[0], model) || is_same(&there.of[0], winner)))
        *bytes = smaller.bytes;
    return TUTTI_OK;
}

enum tutti_status candidates_share(struct candidates *candidates, struct tutti_comm *comm)
{
    int32_t words[1 + 2 * CANDIDATES_MAX] = {candidates->count};
    for (int i = 0; i < candidates->count; i++) {
        words[1 + 2 * i] = (int32_t)(candidates->of[i].algorithm - algo_list);
        words[2 + 2 * i] = candidates->of[i].only_hosts;
    }
    TRY(tutti_broadcast(words, words, sizeof words / sizeof *words, TUTTI_INT32, 0, comm));
    bool is_fine = words[0] >= 0 && words[0] <= CANDIDATES_MAX;
    for (int i = 0; is_fine && i < words[0]; i++) {
        is_fine = words[1 + 2 * i] >= 0 && words[1 + 2 * i] < algo_count;
        if (is_fine)
            candidates->of[i] =
                (struct candidate){&algo_list[words[1 + 2 * i]], words[2 + 2 * i] != 0};
    }
    if (!is_fine) return error_set(TUTTI_INTERNAL, "rank 0 names an algorithm that is not known");
    candidates->count = words[0];
    return TUTTI_OK;
}
