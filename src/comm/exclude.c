/* exclude.c - putting living ranks out of a communicator, without their consent.
 *
 *     accuse: tell the listed ranks, and end all calls ──► shrink.h without them ──► tell them that it is decided
 *
 * Why neither side can be fooled
 *   1. The ranks that exclude a list agree among themselves, in agreements that no rank takes part in
 *      which calls anything else (health/agree.h). These need a majority of all ranks, listed ranks
 *      included. So of two lists, or of a list and a shrink, at most one comes true.
 *   2. A listed rank is never taken for dead. So few ranks cannot outlast it: what it votes for stays
 *      possible until a majority has decided otherwise.
 *   3. A rank that is told that somebody wants to put it out takes nobody for dead who leaves the
 *      communicator. So it cannot go on alone as the last that is left.
 */
#include <stdlib.h>

#include "base/rank_list.h"
#include "base/sized.h"
#include "base/status.h"
#include "bootstrap/host_id.h"
#include "call/communicator.h"
#include "comm/derive.h"
#include "comm/shrink.h"
#include "connect/bars.h"
#include "health/deaths.h"
#include "health/exclusion_tell.h"
#include "health/failure.h"
#include "membership/rank_set.h"
#include "membership/standing.h"
#include "team/options.h"
#include "tutti/exclude.h"

struct excluding {
    struct tutti_comm *comm;
    struct bars *bars; /* of the new communicator */
    struct tutti_exclude_options options;
    uint64_t *set; /* of ranks that are to go */
};

static enum tutti_status read_ranks(struct excluding *excluding, const int *ranks, int rank_count)
{
    const int size = excluding->comm->team.size, own = excluding->comm->team.rank;
    if (ranks == NULL || rank_count < 1 || rank_count >= size)
        return error_set(TUTTI_INVALID_RANK,
                         "tutti_comm_exclude: ranks must be a list of 1 to %d ranks, has %d",
                         size - 1, ranks != NULL ? rank_count : 0);
    for (int i = 0; i < rank_count; i++) {
        if (ranks[i] < 0 || ranks[i] >= size)
            return error_set(TUTTI_INVALID_RANK,
                             "tutti_comm_exclude: ranks[%d] must be a rank, 0 to %d, is %d", i,
                             size - 1, ranks[i]);
        if (rank_set_has(excluding->set, ranks[i]))
            return error_set(TUTTI_INVALID_RANK, "tutti_comm_exclude: rank %d is in the list twice",
                             ranks[i]);
        if (ranks[i] == own)
            return error_set(TUTTI_INVALID_RANK,
                             "tutti_comm_exclude: rank %d is in its own list; the other ranks call",
                             own);
        rank_set_add(excluding->set, ranks[i]);
    }
    const int left = size - rank_count;
    if (standing_is_majority(left, !rank_set_has(excluding->set, 0), size)) return TUTTI_OK;
    return error_set(TUTTI_INVALID_RANK,
                     "tutti_comm_exclude: %d of %d ranks would be left: more than half are needed, "
                     "or half with rank 0",
                     left, size);
}

static enum tutti_status read_options(struct excluding *excluding,
                                      const struct tutti_exclude_options *user)
{
    struct tutti_exclude_options *const own = &excluding->options;
    *own = (struct tutti_exclude_options)TUTTI_EXCLUDE_OPTIONS_INIT;
    if (user != NULL)
        TRY(SIZED_READ("tutti_comm_exclude: options", tutti_exclude_options, user, own));
    if ((int)own->cause < TUTTI_CAUSE_NONE || own->cause > TUTTI_CAUSE_DEVICE ||
        (own->whole_host != 0 && own->whole_host != 1))
        return error_set(
            TUTTI_INVALID_OPTIONS,
            "tutti_comm_exclude: options.cause must be a value of enum tutti_cause, and "
            "whole_host 0 or 1, are %d and %d",
            (int)own->cause, own->whole_host);
    return options_check_comm(own->comm_options);
}

static void tell(const struct excluding *excluding, int rank, bool is_decided, bool tells_far)
{
    const struct exclusion exclusion = {.is_decided = is_decided,
                                        .by = excluding->comm->team.rank,
                                        .cause = excluding->options.cause};
    exclusion_tell(&excluding->comm->health, rank, &exclusion, tells_far);
}

static void accuse(const struct excluding *excluding)
{
    struct health *const health = &excluding->comm->health;
    struct rank_list who = RANK_LIST_EMPTY;
    char by[128];
    const char *const reason = excluding->options.reason;
    for (int r = 0; r < excluding->comm->team.size; r++) {
        if (!rank_set_has(excluding->set, r)) continue;
        rank_list_add(&who, r);
        tell(excluding, r, false, true);
    }
    health_name_rank(health, excluding->comm->team.rank, by, sizeof by);
    health_fail(health, NULL, TUTTI_EXCLUDED, who.first, "%s excludes rank%s %.40s: %s%s%.100s", by,
                who.count > 1 ? "s" : "", who.text, exclusion_cause_text(excluding->options.cause),
                reason != NULL ? ": " : "", reason != NULL ? reason : "");
}

/* Ranks that are not in the new communicator: those that were to go, and others that were lost or
 * called something else. All tell ranks of their host, and the first two tell the others, in case that
 * one dies meanwhile. The new ranks have the old order. */
static void tell_decided(const struct excluding *excluding, const uint64_t *left,
                         const struct tutti_comm *created)
{
    for (int r = 0; r < excluding->comm->team.size; r++)
        if (!rank_set_has(left, r)) tell(excluding, r, true, created->team.rank < 2);
}

/* Adds the listed ranks, or their hosts, to those that are let in no more. All ranks of the new
 * communicator do the same, as they agree on the list. */
static enum tutti_status bar(struct excluding *excluding)
{
    const struct tutti_comm *const comm = excluding->comm;
    uint64_t host;
    TRY(host_id_read(&host));
    for (int r = 0; r < comm->team.size; r++) {
        if (!rank_set_has(excluding->set, r)) continue;
        struct bar bar = {.host = host, .pid = health_pid_of(&comm->health, r)};
        (void)team_read_process(&comm->team, r, &bar.host, &bar.pid);
        if (excluding->options.whole_host) bar.pid = BAR_ANY_PID;
        bar.cause = (int32_t)excluding->options.cause;
        if (bar.pid > 0 || excluding->options.whole_host) bars_add(excluding->bars, &bar);
    }
    return TUTTI_OK;
}

/* Ranks that want different things must not take part in the same agreement. */
static uint32_t about(const struct excluding *excluding)
{
    const uint32_t set = standing_about_set(excluding->set, excluding->comm->team.size);
    const uint32_t whole = set ^ 0x686f7374; /* "host" */
    return excluding->options.whole_host && whole != 0 ? whole : set;
}

static enum tutti_status exclude(struct excluding *excluding, const int *ranks, int rank_count,
                                 struct tutti_comm **created)
{
    struct tutti_comm *const comm = excluding->comm;
    uint64_t *const left = excluding->set + rank_set_words(comm->team.size);
    TRY(read_ranks(excluding, ranks, rank_count));
    TRY(derive_check_decided(comm, "comm_exclude"));
    TRY(bar(excluding));
    const struct shrink_wish wish = {.function = "comm_exclude",
                                     .excluded = excluding->set,
                                     .about = about(excluding),
                                     .options = excluding->options.comm_options,
                                     .left = left};
    accuse(excluding);
    TRY(shrink(comm, &wish, created));
    tell_decided(excluding, left, *created);
    free((*created)->bars);
    (*created)->bars = excluding->bars;
    excluding->bars = NULL;
    return TUTTI_OK;
}

enum tutti_status tutti_comm_exclude(struct tutti_comm *comm, const int *ranks, int rank_count,
                                     const struct tutti_exclude_options *options,
                                     struct tutti_comm **created)
{
    struct excluding excluding = {.comm = comm};
    if (created != NULL) *created = NULL;
    TRY(communicator_check_handle(comm, "comm_exclude"));
    if (created == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_comm_exclude: created must be the address of a pointer, is NULL");
    TRY(read_options(&excluding, options));
    excluding.set = calloc(2 * rank_set_words(comm->team.size), sizeof *excluding.set);
    excluding.bars = bars_copy(comm->bars);
    const enum tutti_status status =
        excluding.set != NULL && excluding.bars != NULL
            ? exclude(&excluding, ranks, rank_count, created)
            : error_set(TUTTI_NO_MEMORY, "tutti_comm_exclude: out of memory");
    free(excluding.set);
    free(excluding.bars);
    return status;
}
