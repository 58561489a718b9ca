/* missing.c - an agreement that goes on without ranks that do not come, and says whether they are sick
 * (membership/muster.h). */
#include <stdlib.h>
#include <string.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "call/communicator.h"
#include "health/agree.h"
#include "health/failure.h"
#include "membership/rank_set.h"
#include "tutti/exclude.h"

enum { ROUNDS = 3 };

/* A call that has reached its deadline has waited for a rank that did not come, or whose data arrives changed. */
static uint64_t patience_ns(const struct tutti_comm *comm)
{
    struct tutti_failure failure;
    const enum tutti_status status = board_failure(comm->health.board, &failure);
    return status == TUTTI_TIMEOUT || status == TUTTI_CORRUPT ? 0 : comm->team.settings.timeout_ns;
}

static enum tutti_status fail_missing(const struct tutti_comm *comm, const uint64_t *set,
                                      enum tutti_status status, const char *why)
{
    struct rank_list missing = RANK_LIST_EMPTY;
    char who[128];
    for (int r = 0; r < comm->team.size; r++)
        if (!rank_set_has(set, r)) rank_list_add(&missing, r);
    health_name_rank(&comm->health, missing.first, who, sizeof who);
    return error_set(status, "tutti_comm_muster: %s %s (all that are missing: %s)", who, why,
                     missing.text);
}

/* For the caller. */
struct outcome {
    uint64_t word;
    int *sick, sick_count;
    enum tutti_cause cause;
};

/* Some ranks are missing from the set. *is_unsure: most ranks do not find that they are sick. */
static enum tutti_status judge(struct tutti_comm *comm, const uint64_t *set,
                               struct outcome *outcome, bool *is_unsure)
{
    enum muster_opinion opinion = MUSTER_UNSURE;
    bool has_stalled = false;
    TRY(agree_on_missing(&comm->health, "comm_muster", set, &opinion, &has_stalled));
    if (opinion == MUSTER_ALL_LOST) return fail_missing(comm, set, TUTTI_PROC_FAILED, "is missing");
    *is_unsure = opinion == MUSTER_UNSURE;
    if (*is_unsure)
        return fail_missing(comm, set, TUTTI_TIMEOUT,
                            "has not come, and most ranks do not find that it is sick");
    if (!rank_set_has(set, comm->team.rank))
        return error_set(TUTTI_EXCLUDED,
                         "tutti_comm_muster: rank %d came too late: the others found it sick",
                         comm->team.rank);
    for (int r = 0; r < comm->team.size; r++)
        if (!rank_set_has(set, r)) outcome->sick[outcome->sick_count++] = r;
    outcome->cause = has_stalled ? TUTTI_CAUSE_STALLED : TUTTI_CAUSE_LATE;
    return fail_missing(comm, set, TUTTI_TIMEOUT,
                        has_stalled ? "does not run, or does not answer" : "has not come");
}

static enum tutti_status muster_once(struct tutti_comm *comm, uint64_t *set,
                                     struct outcome *outcome, bool *is_unsure)
{
    struct agreed agreed;
    *is_unsure = false;
    TRY(agree_without_sick(&comm->health, "comm_muster", outcome->word, patience_ns(comm), &agreed));
    memcpy(set, agreed.set, rank_set_words(comm->team.size) * sizeof *set);
    outcome->word = agreed.word;
    if (rank_set_count(set, comm->team.size) == comm->team.size) return TUTTI_OK;
    return judge(comm, set, outcome, is_unsure);
}

/* A rank that was stopped may go on when the others are about to go on without it. It has its part in the vote, so all
 * know alike that there is another round. */
static enum tutti_status muster(struct tutti_comm *comm, uint64_t *set, struct outcome *outcome)
{
    const uint64_t word = outcome->word;
    enum tutti_status status = TUTTI_OK;
    bool is_unsure = true;
    for (int round = 0; round < ROUNDS && is_unsure; round++) {
        outcome->word = word;
        status = muster_once(comm, set, outcome, &is_unsure);
    }
    return status;
}

enum tutti_status tutti_comm_muster(struct tutti_comm *comm, uint64_t *word, int *sick,
                                    int *sick_count, enum tutti_cause *cause)
{
    TRY(communicator_check_handle(comm, "comm_muster"));
    if (word == NULL || sick == NULL || sick_count == NULL || cause == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_comm_muster: an argument is NULL");
    *sick_count = 0;
    *cause = TUTTI_CAUSE_NONE;
    if (comm->team.size == 1) return TUTTI_OK;
    TRY(health_check_excluded(&comm->health, "comm_muster", false));
    uint64_t *const set = calloc(rank_set_words(comm->team.size), sizeof *set);
    if (set == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_comm_muster: out of memory");
    enum tutti_status status = agree_enter(&comm->health, "comm_muster");
    if (status == TUTTI_OK) {
        struct outcome outcome = {.word = *word, .sick = sick, .cause = TUTTI_CAUSE_NONE};
        status = muster(comm, set, &outcome);
        agree_exit(&comm->health);
        *word = outcome.word;
        *sick_count = outcome.sick_count;
        *cause = outcome.cause;
    }
    free(set);
    return status;
}
