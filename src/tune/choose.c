#include "tune/choose.h"

#include <assert.h>

#include "base/status.h"

const char *choice_reason_text(enum choice_reason reason)
{
    static const char *const texts[CHOICE_REASONS] = {
#define X(enumerator, text) text,
        CHOICE_REASON_LIST(X)
#undef X
    };
    return (unsigned)reason < CHOICE_REASONS ? texts[reason] : "?";
}

static bool supports(const struct choose_call *call, const struct algorithm *algorithm)
{
    const struct tune_site *site = call->site;
    return site->levels != NULL ? algo_supports_levels(algorithm, site->rank_count)
                                : algo_supports(algorithm, site->rank_count);
}

static bool reduces_alike(const struct choose_call *call)
{
    return call->deterministic && collective_reduces(call->question.collective);
}

const char *choose_why_not_encoded(const struct choose_call *call, const struct algorithm *algorithm)
{
    if (!call->is_encoded) return NULL;
    if (algorithm->plan != NULL)
        return "is not of the list of algorithms, whose plans are proven for encoded links";
    if (!algorithm->has_owners)
        return "would give ranks different bits on encoded links: several ranks complete a result";
    if (call->goes_in_units && collective_reduces(algorithm->collective) &&
        !algorithm->sends_to_owners)
        return "would encode sums several times on a level, in units of several elements";
    if (call->ends_within_units && !algorithm->keeps_units)
        return "would put two blocks into one unit of several elements";
    return NULL;
}

const char *choose_why_not(const struct choose_call *call, const struct algorithm *algorithm)
{
    if (algorithm->needs_levels && call->site->levels == NULL) return "needs several hosts";
    if (!supports(call, algorithm)) return "cannot do that number of ranks";
    if (algorithm->plan != NULL && collective_is_rooted(algorithm->collective) &&
        algorithm->plan->shape.root != call->root)
        return "is a plan for another root";
    if (call->in_rank_order && algorithm->needs_commutative) return "needs a commutative operation";
    if (call->counts_are_local && !algorithm->is_direct)
        return "passes blocks through ranks that do not know their counts";
    if (reduces_alike(call) && !algorithm->deterministic) return "is not deterministic";
    return choose_why_not_encoded(call, algorithm);
}

/* Chooses what was asked for, or says why that is not possible. */
static enum tutti_status insist(const struct choose_call *call, const struct algorithm *algorithm)
{
    const char *const collective = collective_name(call->question.collective);
    const char *const why = choose_why_not(call, algorithm);
    if (why == NULL) return TUTTI_OK;
    if (!algorithm->needs_levels && !supports(call, algorithm))
        return error_set(TUTTI_INVALID_ALGORITHM, "%s of %s cannot do %d ranks", algorithm->name,
                         collective, call->site->rank_count);
    return error_set(TUTTI_INVALID_ALGORITHM, "%s of %s %s", algorithm->name, collective, why);
}

/* Sizes may get different algorithms. So a call that promises the same bits for all sizes takes
 * only algorithms that add in the order of ranks. */
const char *choose_why_not_unasked(const struct choose_call *call, const struct algorithm *algorithm)
{
    const char *const why = choose_why_not(call, algorithm);
    if (why != NULL) return why;
    if (rules_forbids(call->rules, call->question.collective, call->question.bytes, algorithm->name))
        return "the rules forbid it";
    return reduces_alike(call) && !algorithm->adds_in_rank_order
               ? "would give other bits for other sizes"
               : NULL;
}

bool choose_may_take(const struct choose_call *call, const struct algorithm *algorithm)
{
    return choose_why_not_unasked(call, algorithm) == NULL;
}

static struct tune_question assumed_question(const struct choose_call *call)
{
    struct tune_question question = call->question;
    if (call->counts_are_local) question.bytes = CHOOSE_ASSUMED_BLOCK_BYTES;
    return question;
}

/* Whether there is a measurement, and the call can use its algorithm. */
static bool look_up(const struct choose_call *call, struct choice *choice)
{
    const struct tune_question assumed = assumed_question(call), *question = &assumed;
    if (call->site->table == NULL || call->site->table->count == 0) return false;
    const struct tune_key key = {.collective = question->collective,
                                 .dtypes = calibration_class_of(question->dtype),
                                 .is_mapped = question->is_mapped,
                                 .shape = call->site->shape};
    assert(key.shape.rank_count == call->site->rank_count);
    const struct tune_entry *entry = tune_table_find(call->site->table, &key, question->bytes);
    if (entry == NULL || !choose_may_take(call, entry->algorithm)) return false;
    *choice = (struct choice){
        .algorithm = entry->algorithm, .only_hosts = entry->only_hosts, .reason = CHOICE_TABLE};
    return true;
}

enum tutti_status choose_ranking(const struct choose_call *call, struct ranking *ranking)
{
    const struct tune_question question = assumed_question(call);
    return ranking_find(call->site, &question, ranking);
}

struct wish {
    const struct choose_call *call;
    const struct choice *but; /* this one; NULL: whatever the call may take */
};

static bool is_wished(const struct ranked *ranked, void *context)
{
    const struct wish *wish = context;
    if (wish->but != NULL && ranked->algorithm == wish->but->algorithm &&
        ranked->only_hosts == wish->but->only_hosts)
        return false;
    return choose_may_take(wish->call, ranked->algorithm);
}

/* Finds the cheapest algorithm, and the next one as far as it is known then; no algorithm: there is
 * none. */
static enum tutti_status find_cheapest(struct wish wish, struct ranked *found, struct ranked *next)
{
    const struct tune_question question = assumed_question(wish.call);
    struct ranking ranking;
    *found = *next = (struct ranked){.algorithm = NULL};
    TRY(ranking_find_first(wish.call->site, &question, is_wished, &wish, &ranking));
    for (int i = 0; i < ranking.count && next->algorithm == NULL; i++)
        if (is_wished(&ranking.ranked[i], &wish))
            *(found->algorithm == NULL ? found : next) = ranking.ranked[i];
    return TUTTI_OK;
}

enum tutti_status choose_algorithm(const struct choose_call *call, struct choice *choice)
{
    const struct tune_question *question = &call->question;
    *choice =
        (struct choice){.algorithm = call->algorithm, .radix = call->radix, .reason = CHOICE_ASKED};
    if (call->algorithm != NULL) return insist(call, call->algorithm);
    choice->reason = CHOICE_RULES;
    if (rules_wanted(call->rules, question->collective, question->bytes, &choice->algorithm,
                     &choice->radix))
        return insist(call, choice->algorithm);

    struct ranked cheapest, next;
    if (look_up(call, choice)) return TUTTI_OK;
    TRY(find_cheapest((struct wish){call, NULL}, &cheapest, &next));
    *choice = (struct choice){.algorithm = cheapest.algorithm,
                              .radix = call->radix,
                              .only_hosts = cheapest.only_hosts,
                              .reason = CHOICE_MODEL,
                              .next = next,
                              .time_ps = cheapest.time_ps};
    if (choice->algorithm != NULL) return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM, "the rules leave no algorithm for %s on %d ranks",
                     collective_name(call->question.collective), call->site->rank_count);
}

enum tutti_status choose_next(const struct choose_call *call, const struct choice *choice,
                              struct ranked *next)
{
    struct ranked third;
    *next = (struct ranked){.algorithm = NULL};
    if (choice->reason != CHOICE_MODEL) return TUTTI_OK;
    return find_cheapest((struct wish){call, choice}, next, &third);
}
