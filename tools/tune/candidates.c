#include "candidates.h"

#include "base/status.h"

static struct candidate candidate_of(const struct ranked *ranked)
{
    return (struct candidate){ranked->algorithm, ranked->only_hosts};
}

bool candidate_is_loaded(const struct candidate *candidate)
{
    return candidate->algorithm->plan_fingerprint != 0;
}

enum tutti_status candidates_find(const struct tune_site *site, const struct tune_question *question,
                                  double margin, struct candidates *candidates)
{
    struct ranking ranking;
    candidates->count = 0;
    TRY(ranking_find(site, question, &ranking));
    int i = 0;
    for (; i < ranking.count && candidates->count < CANDIDATES_BY_MODEL_MAX; i++) {
        const struct candidate candidate = candidate_of(&ranking.ranked[i]);
        const double limit_ps = (1 + margin) * (double)ranking.ranked[0].time_ps;
        if (candidates->count >= CANDIDATES_MIN && (double)ranking.ranked[i].time_ps > limit_ps)
            break;
        if (!candidate.only_hosts || i == 0) candidates->of[candidates->count++] = candidate;
    }
    for (; i < ranking.count && candidates->count < CANDIDATES_MAX; i++) {
        const struct candidate candidate = candidate_of(&ranking.ranked[i]);
        if (candidate_is_loaded(&candidate) && !candidate.only_hosts)
            candidates->of[candidates->count++] = candidate;
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

/* An algorithm's number among those that are built in and, after them, those of the folder, which
 * all ranks have in one order. */
static int32_t number_of(const struct tune_site *site, const struct algorithm *algorithm)
{
    for (int i = 0; i < site->loaded_count; i++)
        if (site->loaded[i] == algorithm) return algo_count + i;
    return (int32_t)(algorithm - algo_list);
}

static const struct algorithm *algorithm_of(const struct tune_site *site, int32_t number)
{
    if (number < 0 || number >= algo_count + site->loaded_count) return NULL;
    return number < algo_count ? &algo_list[number] : site->loaded[number - algo_count];
}

enum tutti_status candidates_share(struct candidates *candidates, const struct tune_site *site,
                                   struct tutti_comm *comm)
{
    int32_t words[1 + 2 * CANDIDATES_MAX] = {candidates->count};
    for (int i = 0; i < candidates->count; i++) {
        words[1 + 2 * i] = number_of(site, candidates->of[i].algorithm);
        words[2 + 2 * i] = candidates->of[i].only_hosts;
    }
    TRY(tutti_broadcast(words, words, sizeof words / sizeof *words, TUTTI_INT32, 0, comm));
    bool is_fine = words[0] >= 0 && words[0] <= CANDIDATES_MAX;
    for (int i = 0; is_fine && i < words[0]; i++) {
        candidates->of[i] =
            (struct candidate){algorithm_of(site, words[1 + 2 * i]), words[2 + 2 * i] != 0};
        is_fine = candidates->of[i].algorithm != NULL;
    }
    if (!is_fine) return error_set(TUTTI_INTERNAL, "rank 0 names an algorithm that is not known");
    candidates->count = words[0];
    return TUTTI_OK;
}
