/* shrink.c - going on after a failure: agreeing, revoking, and a communicator of those who are left
 * (ULFM's meaning). */
#include <stdlib.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "comm/create.h"
#include "comm/derive.h"
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

/* The ranks of the set, in order; NULL: no memory. */
static int *list_ranks(const struct tutti_comm *comm, const uint64_t *set, int *count)
{
    int *ranks = calloc((size_t)comm->team.size, sizeof *ranks);
    *count = 0;
    for (int r = 0; ranks != NULL && r < comm->team.size; r++)
        if (rank_set_has(set, r)) ranks[(*count)++] = r;
    return ranks;
}

static bool are_all_in(const uint64_t *set, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (!rank_set_has(set, ranks[i])) return false;
    return true;
}

/* The word by which a rank says how it met the others: all bits but the bit of its failure. */
static uint64_t word_of(enum tutti_status status)
{
    static_assert(STATUS_COUNT <= 64, "a bit for each");
    return status == TUTTI_OK ? UINT64_MAX : ~(UINT64_C(1) << status);
}

/* The status of a rank that lacks something, or has it wrong, as it will in the next round, too;
 * else OK. */
static enum tutti_status shortage_in(uint64_t word)
{
    static const enum tutti_status shortages[] = {TUTTI_NO_MEMORY,         TUTTI_NO_SPACE,
                                                  TUTTI_NO_DESCRIPTORS,    TUTTI_INVALID_OPTIONS,
                                                  TUTTI_INVALID_ALGORITHM, TUTTI_UNSUPPORTED};
    for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
        if ((word & word_of(shortages[i])) == word) return shortages[i];
    return TUTTI_OK;
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
    int *const ranks = list_ranks(comm, set, &count);
    enum tutti_status status =
        ranks != NULL ? derive_survivors(comm, ranks, count, agreed.epoch, options, created)
                      : error_set(TUTTI_NO_MEMORY, "tutti_comm_shrink: out of memory");
    char why[400];
    error_copy(why, sizeof why);
    const enum tutti_status ended = agree(&comm->health, "comm_shrink", word_of(status), &agreed);
    const uint64_t word = ended == TUTTI_OK ? agreed.word : 0;
    const bool all_have = word == UINT64_MAX && are_all_in(agreed.set, ranks, count);
    free(ranks);
    if (all_have) return TUTTI_OK;
    if (*created != NULL) comm_discard(*created);
    *created = NULL;
    if (ended != TUTTI_OK) return ended;
    const enum tutti_status shortage = shortage_in(word);
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
    enum { ROUNDS_MAX = 16 };
    if (created != NULL) *created = NULL;
    TRY(communicator_check_handle(comm, "comm_shrink"));
    if (created == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_comm_shrink: created must be the address of a pointer, is NULL");
    TRY(options_check_comm(options));
    if (comm->team.size == 1) return derive_survivors(comm, &(int){0}, 1, 0, options, created);
    enum tutti_status status = TUTTI_OK;
    bool is_over = false;
    for (int round = 0; round < ROUNDS_MAX && !is_over; round++)
        status = shrink_once(comm, options, &is_over, created);
    return status;
}
