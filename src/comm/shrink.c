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

/* missing: the ranks that had no part in it. */
static enum tutti_status agree_on_word(struct tutti_comm *comm, uint64_t *word,
                                       struct rank_list *missing)
{
    struct agreed agreed;
    TRY(agree(&comm->health, "comm_agree", *word, &agreed));
    *word = agreed.word;
    for (int r = 0; r < comm->team.size; r++)
        if (!rank_set_has(agreed.set, r)) rank_list_add(missing, r);
    return TUTTI_OK;
}

enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word)
{
    TRY(communicator_check_handle(comm, "comm_agree"));
    if (word == NULL) return error_set(TUTTI_INVALID_BUFFER, "tutti_comm_agree: word is NULL");
    if (comm->team.size == 1) return TUTTI_OK;
    TRY(health_check_excluded(&comm->health, "comm_agree", false));
    struct rank_list missing = RANK_LIST_EMPTY;
    TRY(agree_enter(&comm->health, "comm_agree"));
    const enum tutti_status status = agree_on_word(comm, word, &missing);
    agree_exit(&comm->health);
    if (status != TUTTI_OK || missing.count == 0) return status;
    char who[128];
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

/* A round, after its first agreement. */
struct meeting {
    struct derive_survivors survivors;
    uint64_t *set; /* of them */
};

static enum tutti_status agree_once(struct tutti_comm *comm, const struct shrink_wish *wish,
                                    uint64_t word, const uint64_t *among, bool is_secret,
                                    struct agreed *agreed)
{
    const struct agree_without without = {
        .ranks = wish->excluded, .about = wish->about, .is_secret = is_secret};
    return agree_among(&comm->health, wish->function, word, among,
                       wish->excluded != NULL ? &without : NULL, agreed);
}

/* The lowest of the ranks makes up a number, and the others agree on it, 64 bits at a time; the
 * excluded ranks hear nothing of that. Ranks whose meeting has failed already, with *own, take part,
 * too. *are_all: none of the ranks has gone meanwhile. */
static enum tutti_status share_secret(struct tutti_comm *comm, const struct shrink_wish *wish,
                                      const struct meeting *meeting, uint64_t secret[SECRET_WORDS],
                                      enum tutti_status *own, bool *are_all)
{
    const struct derive_survivors *const survivors = &meeting->survivors;
    uint64_t words[SECRET_WORDS] = {UINT64_MAX, UINT64_MAX};
    *are_all = true;
    if (*own == TUTTI_OK && survivors->ranks[0] == comm->team.rank &&
        getrandom(words, sizeof words, 0) != (ssize_t)sizeof words)
        *own = error_system("getrandom");
    for (int i = 0; i < SECRET_WORDS; i++) {
        struct agreed agreed;
        TRY(agree_once(comm, wish, words[i], meeting->set, true, &agreed));
        secret[i] = agreed.word;
        *are_all &= *own != TUTTI_OK ||
                    round_are_all_in(agreed.set, survivors->ranks, survivors->rank_count);
    }
    explicit_bzero(words, sizeof words);
    return TUTTI_OK;
}

/* The survivors meet, unless this rank cannot: own. *is_over: there is no meeting, nor anything after
 * it. */
static enum tutti_status meet(struct tutti_comm *comm, const struct shrink_wish *wish,
                              struct meeting *meeting, enum tutti_status own, bool *is_over,
                              struct tutti_comm **created)
{
    uint64_t secret[SECRET_WORDS];
    bool are_all = true;
    *is_over = false;
    if (wish->excluded != NULL) {
        const enum tutti_status status = share_secret(comm, wish, meeting, secret, &own, &are_all);
        *is_over = status != TUTTI_OK;
        if (*is_over) return status;
        meeting->survivors.secret = secret;
    }
    if (own == TUTTI_OK)
        own = are_all ? derive_survivors(comm, &meeting->survivors, wish->options, created)
                      : error_set(TUTTI_PROC_FAILED, "tutti_%s: a rank failed meanwhile",
                                  wish->function);
    meeting->survivors.secret = NULL;
    explicit_bzero(secret, sizeof secret);
    return own;
}

/* For shrink_once: all of a meeting's ranks, or NO_MEMORY. */
static enum tutti_status note_survivors(const struct tutti_comm *comm,
                                        const struct shrink_wish *wish, const struct agreed *agreed,
                                        struct meeting *meeting)
{
    const size_t words = rank_set_words(comm->team.size);
    meeting->survivors =
        (struct derive_survivors){.function = wish->function, .epoch = agreed->epoch};
    meeting->set = calloc(words, sizeof *meeting->set);
    meeting->survivors.ranks =
        round_list_ranks(agreed->set, comm->team.size, &meeting->survivors.rank_count);
    if (meeting->set == NULL || meeting->survivors.ranks == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", wish->function);
    memcpy(meeting->set, agreed->set, words * sizeof *meeting->set);
    return TUTTI_OK;
}

static void forget_survivors(struct meeting *meeting)
{
    free(meeting->set);
    free((void *)(uintptr_t)meeting->survivors.ranks);
}

/* How a round ended that did not make the communicator. `status`: how the meeting did here, with this
 * rank's error; word: of all. */
static enum tutti_status judge_round(const struct shrink_wish *wish, enum tutti_status status,
                                     const char *why, uint64_t word, bool *is_over)
{
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

/* The second half of a round; `status`: whether this rank can take part. */
static enum tutti_status meet_and_agree(struct tutti_comm *comm, const struct shrink_wish *wish,
                                        struct meeting *meeting, enum tutti_status status,
                                        bool *is_over, struct tutti_comm **created)
{
    struct agreed agreed;
    char why[400];
    status = meet(comm, wish, meeting, status, is_over, created);
    if (*is_over) return status;
    *is_over = true;
    error_copy(why, sizeof why);
    const enum tutti_status ended =
        agree_once(comm, wish, round_word_of(status), meeting->set, false, &agreed);
    const uint64_t word = ended == TUTTI_OK ? agreed.word : 0;
    const bool all_have =
        word == UINT64_MAX &&
        round_are_all_in(agreed.set, meeting->survivors.ranks, meeting->survivors.rank_count);
    if (all_have && wish->left != NULL)
        memcpy(wish->left, meeting->set, rank_set_words(comm->team.size) * sizeof *wish->left);
    if (all_have) return TUTTI_OK;
    if (*created != NULL) comm_discard(*created);
    *created = NULL;
    return ended != TUTTI_OK ? ended : judge_round(wish, status, why, word, is_over);
}

/* One round: *is_over when all are through with it, and made the communicator or failed. */
static enum tutti_status shrink_once(struct tutti_comm *comm, const struct shrink_wish *wish,
                                     bool *is_over, struct tutti_comm **created)
{
    struct agreed agreed;
    struct meeting meeting;
    *is_over = true;
    TRY(agree_once(comm, wish, UINT64_MAX, NULL, false, &agreed));
    if (!rank_set_has(agreed.set, comm->team.rank))
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_%s: the others take rank %d for dead and went on without it",
                         wish->function, comm->team.rank);
    const enum tutti_status noted = note_survivors(comm, wish, &agreed, &meeting);
    const enum tutti_status status = meet_and_agree(comm, wish, &meeting, noted, is_over, created);
    forget_survivors(&meeting);
    return status;
}

enum tutti_status shrink(struct tutti_comm *comm, const struct shrink_wish *wish,
                         struct tutti_comm **created)
{
    enum tutti_status status = TUTTI_OK;
    bool is_over = false;
    TRY(agree_enter(&comm->health, wish->function));
    for (int round = 0; round < ROUNDS_MAX && !is_over; round++)
        status = shrink_once(comm, wish, &is_over, created);
    agree_exit(&comm->health);
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
