/* shrink.c - going on after a failure: agreeing, revoking, and a communicator of those who are left
 * (ULFM's meaning). */
#include <stdlib.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "comm/create.h"
#include "comm/derive.h"
#include "comm/round.h"
#include "health/agree.h"
#include "health/failure.h"
#include "membership/rank_set.h"
#include "team/options.h"

enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word)
{
    TRY(communicator_check_handle(comm, "comm_agree"));
    if (word == NULL) return error_set(TUTTI_INVALID_BUFFER, "tutti_comm_agree: word is NULL");
    if (comm->team.size == 1) return TUTTI_OK;
    struct agreed agreed;
    TRY(agree(&comm->health, "comm_agree", *word, &agreed));
    *word = agreed.word;
    char who[128];
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int r = 0; r < comm->team.size; r++)
        if (!rank_set_has(agreed.set, r)) rank_list_add(&missing, r);
    if (missing.count == 0) return TUTTI_OK;
    health_name_rank(&comm->health, missing.first, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED,
                     "tutti_comm_agree: agreed without %s (all that are missing: %s)", who,
                     missing.text);
}

static enum tutti_status revoke(struct tutti_comm *comm, const char *function, const char *reason)
{
    TRY(communicator_check_handle(comm, function));
    health_fail(&comm->health, NULL, TUTTI_REVOKED, comm->team.rank,
                "rank %d revoked the communicator%s%s", comm->team.rank, reason != NULL ? ": " : "",
                reason != NULL ? reason : "");
    return TUTTI_OK;
}

enum tutti_status tutti_comm_revoke(struct tutti_comm *comm)
{
    return revoke(comm, "comm_revoke", NULL);
}

enum tutti_status tutti_comm_revoke_because(struct tutti_comm *comm, const char *reason)
{
    return revoke(comm, "comm_revoke_because", reason);
}

/* One round: *is_over when all are through with it, and made the communicator or failed. */
static enum tutti_status shrink_once(struct tutti_comm *comm,
                                     const struct tutti_comm_options *options, bool *is_over,
                                     struct tutti_comm **created)
{
    struct agreed agreed;
    int count = 0;
    *is_over = true;
    TRY(agree(&comm->health, "comm_shrink", UINT64_MAX, &agreed));
    const uint64_t *set = agreed.set;
    if (!rank_set_has(set, comm->team.rank))
        return error_set(
            TUTTI_PROC_FAILED,
            "tutti_comm_shrink: the others take rank %d for dead and went on without it",
            comm->team.rank);
    int *const ranks = round_list_ranks(set, comm->team.size, &count);
    enum tutti_status status =
        ranks != NULL ? derive_survivors(comm, ranks, count, agreed.epoch, options, created)
                      : error_set(TUTTI_NO_MEMORY, "tutti_comm_shrink: out of memory");
    char why[400];
    error_copy(why, sizeof why);
    const enum tutti_status ended =
        agree(&comm->health, "comm_shrink", round_word_of(status), &agreed);
    const uint64_t word = ended == TUTTI_OK ? agreed.word : 0;
    const bool all_have = word == UINT64_MAX && round_are_all_in(agreed.set, ranks, count);
    free(ranks);
    if (all_have) return TUTTI_OK;
    if (*created != NULL) comm_discard(*created);
    *created = NULL;
    if (ended != TUTTI_OK) return ended;
    const enum tutti_status shortage = round_shortage_in(word);
    *is_over = shortage != TUTTI_OK;
    if (*is_over && status != shortage)
        return error_set(shortage, "tutti_comm_shrink: a rank could not meet the others: %s",
                         tutti_status_text(shortage));
    if (status == TUTTI_OK)
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_comm_shrink: a rank failed while the survivors met");
    return error_set(status, "%s", why);
}

enum tutti_status tutti_comm_shrink(struct tutti_comm *comm,
                                    const struct tutti_comm_options *options,
                                    struct tutti_comm **created)
{
    if (created != NULL) *created = NULL;
    TRY(communicator_check_handle(comm, "comm_shrink"));
    if (created == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_comm_shrink: created must be the address of a pointer, is NULL");
    TRY(options_check_comm(options));
    TRY(derive_check_decided(comm, "comm_shrink"));
    if (comm->team.size == 1) return derive_survivors(comm, &(int){0}, 1, 0, options, created);
    enum tutti_status status = TUTTI_OK;
    bool is_over = false;
    for (int round = 0; round < ROUNDS_MAX && !is_over; round++)
        status = shrink_once(comm, options, &is_over, created);
    return status;
}
