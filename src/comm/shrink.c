/* shrink.c - going on after a failure: agreeing, revoking, and a communicator of those who are left
 * (ULFM's meaning), or of those who are left and not excluded (exclude.c). */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "comm/create.h"
#include "comm/derive.h"
#include "comm/round.h"
#include "comm/shrink.h"
#include "health/agree.h"
#include "health/failure.h"
#include "membership/rank_set.h"
#include "team/options.h"

enum { SECRET_WORDS = 2 };

enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word)
{
    TRY(communicator_check_handle(comm, "comm_agree"));
    if (word == NULL) return error_set(TUTTI_INVALID_BUFFER, "tutti_comm_agree: word is NULL");
    if (comm->team.size == 1) return TUTTI_OK;
    TRY(health_check_excluded(&comm->health, "comm_agree", false));
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

static enum tutti_status agree_once(struct tutti_comm *comm, const struct shrink_wish *wish,
                                    uint64_t word, struct agreed *agreed)
{
    if (wish->excluded == NULL) return agree(&comm->health, wish->function, word, agreed);
    const struct agree_without without = {.ranks = wish->excluded, .about = wish->about};
    return agree_without(&comm->health, wish->function, word, &without, agreed);
}

/* The lowest of the ranks makes up a number, and the others agree on it, 64 bits at a time; the
 * excluded ranks hear nothing of that. *are_all: none of the ranks has gone meanwhile. */
static enum tutti_status share_secret(struct tutti_comm *comm, const struct shrink_wish *wish,
                                      const struct derive_survivors *survivors,
                                      uint64_t secret[SECRET_WORDS], bool *are_all)
{
    const struct agree_without without = {
        .ranks = wish->excluded, .about = wish->about, .is_secret = true};
    uint64_t words[SECRET_WORDS] = {UINT64_MAX, UINT64_MAX};
    *are_all = true;
    if (survivors->ranks[0] == comm->team.rank &&
        getrandom(words, sizeof words, 0) != (ssize_t)sizeof words)
        return error_system("getrandom");
    for (int i = 0; i < SECRET_WORDS; i++) {
        struct agreed agreed;
        TRY(agree_without(&comm->health, wish->function, words[i], &without, &agreed));
        secret[i] = agreed.word;
        *are_all &= round_are_all_in(agreed.set, survivors->ranks, survivors->rank_count);
    }
    return TUTTI_OK;
}

/* The survivors meet. *is_over: there is no meeting, nor anything after it. */
static enum tutti_status meet(struct tutti_comm *comm, const struct shrink_wish *wish,
                              struct derive_survivors *survivors, bool *is_over,
                              struct tutti_comm **created)
{
    uint64_t secret[SECRET_WORDS];
    bool are_all = true;
    *is_over = false;
    if (wish->excluded != NULL) {
        const enum tutti_status status = share_secret(comm, wish, survivors, secret, &are_all);
        *is_over = status != TUTTI_OK;
        if (*is_over) return status;
        survivors->secret = secret;
    }
    const enum tutti_status status =
        are_all ? derive_survivors(comm, survivors, wish->options, created)
                : error_set(TUTTI_PROC_FAILED, "tutti_%s: a rank failed meanwhile", wish->function);
    survivors->secret = NULL;
    explicit_bzero(secret, sizeof secret);
    return status;
}

/* One round: *is_over when all are through with it, and made the communicator or failed. */
static enum tutti_status shrink_once(struct tutti_comm *comm, const struct shrink_wish *wish,
                                     bool *is_over, struct tutti_comm **created)
{
    struct agreed agreed;
    struct derive_survivors survivors = {.function = wish->function};
    *is_over = true;
    TRY(agree_once(comm, wish, UINT64_MAX, &agreed));
    if (!rank_set_has(agreed.set, comm->team.rank))
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_%s: the others take rank %d for dead and went on without it",
                         wish->function, comm->team.rank);
    survivors.epoch = agreed.epoch;
    int *const ranks = round_list_ranks(agreed.set, comm->team.size, &survivors.rank_count);
    survivors.ranks = ranks;
    enum tutti_status status =
        ranks != NULL ? meet(comm, wish, &survivors, is_over, created)
                      : error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", wish->function);
    if (ranks != NULL && *is_over) {
        free(ranks);
        return status;
    }
    *is_over = true;
    char why[400];
    error_copy(why, sizeof why);
    const enum tutti_status ended = agree_once(comm, wish, round_word_of(status), &agreed);
    const uint64_t word = ended == TUTTI_OK ? agreed.word : 0;
    const bool all_have =
        word == UINT64_MAX && round_are_all_in(agreed.set, ranks, survivors.rank_count);
    for (int i = 0; all_have && wish->left != NULL && i < survivors.rank_count; i++)
        rank_set_add(wish->left, ranks[i]);
    free(ranks);
    if (all_have) return TUTTI_OK;
    if (*created != NULL) comm_discard(*created);
    *created = NULL;
    if (ended != TUTTI_OK) return ended;
    const enum tutti_status shortage = round_shortage_in(word);
    *is_over = shortage != TUTTI_OK;
    if (*is_over && status != shortage)
        return error_set(shortage, "tutti_%s: a rank could not meet the others: %s", wish->function,
                         tutti_status_text(shortage));
    if (status == TUTTI_OK)
        return error_set(TUTTI_PROC_FAILED, "tutti_%s: a rank failed while the survivors met",
                         wish->function);
    return error_set(status, "%s", why);
}

enum tutti_status shrink(struct tutti_comm *comm, const struct shrink_wish *wish,
                         struct tutti_comm **created)
{
    enum tutti_status status = TUTTI_OK;
    bool is_over = false;
    for (int round = 0; round < ROUNDS_MAX && !is_over; round++)
        status = shrink_once(comm, wish, &is_over, created);
    return status;
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
    const struct shrink_wish wish = {.function = "comm_shrink", .options = options};
    if (comm->team.size > 1) return shrink(comm, &wish, created);
    const struct derive_survivors alone = {
        .function = wish.function, .ranks = &(int){0}, .rank_count = 1};
    return derive_survivors(comm, &alone, options, created);
}
