#include "comm/derive.h"

#include "health/deaths.h"
#include "health/failure.h"
#include "health/lock.h"
#include "health/network.h"
#include "health/remote_rank.h"
#include "health/withdrawn.h"

#include <stdlib.h>
#include <string.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "call/own_call.h"
#include "comm/create.h"
#include "comm/derived_list.h"
#include "connect/bars.h"
#include "health/agree.h"
#include "health/known.h"
#include "os/clock.h"
#include "team/options.h"

/* A communicator to be: which of the parent's ranks it has, in the order of their new numbers. */
struct roster {
    struct tutti_comm *parent;
    const char *function;
    const int *ranks;
    int size, rank;     /* rank: the new number of this one */
    bool are_survivors; /* of a parent that may have failed */
    uint64_t begin_ns;  /* of the meeting */
    uint64_t meeting;   /* which one, see health/withdrawn.h */
    uint64_t attempt;   /* of a meeting that may be tried again under the same key */
    bool is_known;      /* others know why this rank fails */
    bool has_come;      /* other ranks may be through, and leave the parent */
    uint64_t left_ns; /* when this one first knew that a member had left the parent; 0: none has */
};

/* A member that this rank does not hear comes in a moment, or not at all: all survivors meet as soon as they have
 * agreed, and who left the parent has come before. */
static const uint64_t REACHED_NS = 10000000000u;

/* ---------------------------------------------------------------------------------- the meeting */

static bool is_member(const struct roster *roster, int parent_rank)
{
    for (int i = 0; i < roster->size; i++)
        if (roster->ranks[i] == parent_rank) return true;
    return false;
}

static enum tutti_status gone(const struct roster *roster, int rank, const char *how)
{
    char who[128];
    health_name_rank(&roster->parent->health, rank, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED, "%s %s", who, how);
}

/* Whether the members of a process that ended are among the ranks that are waited for. No process
 * ends normally before all have met. */
static enum tutti_status look_for_the_dead(const struct roster *roster)
{
    struct tutti_comm *parent = roster->parent;
    if (!health_look_at_processes(&parent->health)) return TUTTI_OK;
    for (int at = 0, first; (first = health_next_ended(&parent->health, &at)) >= 0;) {
        for (int r = first; r < parent->team.size; r++)
            if (health_share_process(&parent->health, r, first) && is_member(roster, r))
                return gone(roster, r, "died");
    }
    return TUTTI_OK;
}

/* How this rank knows that a member on another host does not come; NULL: it may. A rank that
 * survivors agreed on although this one takes it for dead has some time. */
static const char *why_gone(const struct roster *roster, int rank, uint64_t now_ns)
{
    const struct tutti_comm *parent = roster->parent;
    if (!remote_is_dead(&parent->health, rank)) return NULL;
    if (remote_has_ended(&parent->health, rank)) return "died";
    if (remote_is_missed(&parent->health, rank)) return "vanished";
    return now_ns > roster->begin_ns + REACHED_NS ? "is out of reach, and has not come" : NULL;
}

/* A member that gave this meeting up; the parent's domain is held. */
static enum tutti_status look_for_the_withdrawn(struct roster *roster)
{
    for (int i = 0; i < roster->size; i++) {
        const enum tutti_status status =
            withdrawn_status(&roster->parent->health, roster->ranks[i], roster->meeting);
        if (status == TUTTI_OK) continue;
        char who[128];
        roster->is_known = true;
        health_name_rank(&roster->parent->health, roster->ranks[i], who, sizeof who);
        return error_set(status, "%s could not join: %s", who, tutti_status_name(status));
    }
    return TUTTI_OK;
}

/* Whether a member gave this meeting up, or one on another host does not come, of which the
 * parent's connections tell: the new ones may never have been begun. Connections that were cut are
 * made again here: another rank may still wait for what this one sent in the parent's last call,
 * and not come before. */
static enum tutti_status look_at_parent(struct roster *roster)
{
    struct tutti_comm *parent = roster->parent;
    const uint64_t now_ns = clock_now_ns();
    const char *why = NULL;
    int i = 0;
    if (!domain_try_lock(&parent->team.domain)) return TUTTI_OK; /* it looks again */
    (void)network_progress(&parent->health);
    remote_look_at_all(&parent->health, now_ns);
    while (i < roster->size && (why = why_gone(roster, roster->ranks[i], now_ns)) == NULL) i++;
    const enum tutti_status status = look_for_the_withdrawn(roster);
    health_unlock(&parent->health);
    TRY(status);
    return why == NULL ? TUTTI_OK : gone(roster, roster->ranks[i], why);
}

/* A member that has left the parent does not come, unless it was through before: then it has said all that this rank
 * waits for, but by another connection than that of the parent. */
static enum tutti_status look_for_the_left(struct roster *roster)
{
    const struct health *const health = &roster->parent->health;
    const uint64_t now_ns = clock_now_ns();
    int i = 0;
    while (i < roster->size && known_state(health, roster->ranks[i]) != RANK_LEFT) i++;
    if (i == roster->size) return TUTTI_OK;
    if (roster->left_ns == 0) roster->left_ns = now_ns;
    if (roster->has_come && now_ns < roster->left_ns + REACHED_NS) return TUTTI_OK;
    return gone(roster, roster->ranks[i], "left the communicator without joining");
}

/* Survivors alone; not where a rank has given the meeting up. */
static enum tutti_status look_for_the_sick(const struct roster *roster)
{
    struct health *const health = &roster->parent->health;
    const uint64_t now_ns = clock_now_ns();
    if (!roster->are_survivors) return TUTTI_OK;
    const int ahead = agree_gone_ahead(health, now_ns);
    if (ahead >= 0) return gone(roster, ahead, "could not meet the others");
    const int sick = agree_sick_at_meeting(health, roster->ranks, roster->size, now_ns);
    return sick < 0 ? TUTTI_OK : gone(roster, sick, "does not run, or does not answer");
}

static enum tutti_status look_for_the_gone(struct roster *roster)
{
    TRY(look_for_the_sick(roster));
    TRY(look_for_the_dead(roster));
    TRY(look_at_parent(roster));
    return look_for_the_left(roster);
}

/* The word that a rank left may have come with the word why: what failed before counts. */
static enum tutti_status look(void *context)
{
    struct roster *roster = context;
    if (!roster->are_survivors) TRY(health_check(&roster->parent->health));
    const enum tutti_status status = look_for_the_gone(roster);
    if (status != TUTTI_OK && !roster->are_survivors) TRY(health_check(&roster->parent->health));
    return status;
}

enum tutti_status derive_look_at_survivors(struct tutti_comm *comm, const int *ranks,
                                           int rank_count, uint64_t begin_ns)
{
    struct roster roster = {.parent = comm,
                            .ranks = ranks,
                            .size = rank_count,
                            .are_survivors = true,
                            .begin_ns = begin_ns};
    return look_for_the_gone(&roster);
}

enum tutti_status derive_options(const struct tutti_comm *comm,
                                 const struct tutti_comm_options *user,
                                 struct tutti_comm_options *options)
{
    const struct settings *const settings = &comm->team.settings;
    struct tutti_comm_options own = TUTTI_COMM_OPTIONS_INIT;
    own.timeout_ns = settings->timeout_ns;
    own.init_timeout_ns = settings->init_timeout_ns;
    own.deterministic = settings->deterministic;
    own.algorithms = settings->algorithms;
    own.encodings = settings->encodings_text;
    own.integrity = settings->integrity;
    own.encryption = settings->is_encrypted ? TUTTI_ENCRYPTION_ON : TUTTI_ENCRYPTION_OFF;
    return options_for_derived(user, &own, options);
}

enum tutti_status derive_check_decided(const struct tutti_comm *comm, const char *function)
{
    TRY(health_check_excluded(&comm->health, function, false));
    if (!comm->derivations.is_undecided) return TUTTI_OK;
    return error_set(TUTTI_MINORITY,
                     "tutti_%s: rank %d did not hear how the last growth ended, and the others may "
                     "have gone on without it",
                     function, comm->team.rank);
}

/* An error of the meeting names ranks by their new numbers: adds which ranks of the parent these
 * are. */
static enum tutti_status explain(const struct roster *roster, enum tutti_status status)
{
    char why[400];
    struct rank_list who = RANK_LIST_EMPTY;
    error_copy(why, sizeof why);
    for (int i = 0; i < roster->size; i++) rank_list_add(&who, roster->ranks[i]);
    return error_set(status, "tutti_%s: %s (the new communicator's ranks are ranks %s)",
                     roster->function, why, who.text);
}

/* Finds the hosts of the members; nothing if all are on one host. */
static enum tutti_status find_hosts(const struct roster *roster, struct creation *creation)
{
    const struct tutti_comm *parent = roster->parent;
    struct team_hosts *hosts;
    TRY(team_hosts_of_some(parent->team.members.hosts, roster->ranks, roster->rank, roster->size,
                           &hosts));
    if (hosts->host_count == 1) {
        team_hosts_free(hosts);
        return TUTTI_OK;
    }
    struct host_levels *levels = calloc(1, sizeof *levels);
    const enum tutti_status status =
        levels != NULL
            ? host_levels_select(levels, parent->team.members.levels, roster->ranks, roster->size)
            : error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    if (status != TUTTI_OK) {
        team_hosts_free(hosts);
        free(levels);
        return status;
    }
    creation->hosts = hosts;
    creation->host_levels = levels;
    return TUTTI_OK;
}

/* Whether this rank lacks something, so that it never got as far as to wait for others. */
static bool is_own_fault(enum tutti_status status)
{
    return status == TUTTI_NO_DESCRIPTORS || status == TUTTI_NO_MEMORY ||
           status == TUTTI_NO_SPACE || status == TUTTI_SYSTEM;
}

static enum tutti_status out_of_memory(const struct roster *roster)
{
    return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", roster->function);
}

/* `what` tells this derivation from every other one of the parent's. */
static enum tutti_status create(struct roster *roster, const struct tutti_comm_options *user,
                                const void *what, size_t what_bytes, struct tutti_comm **created)
{
    const struct tutti_comm *parent = roster->parent;
    struct tutti_comm_options options;
    struct bars *bars = NULL;
    TRY(derive_options(parent, user, &options));
    struct creation creation = {.origin = roster->function,
                                .rank = roster->rank,
                                .size = roster->size,
                                .options = &options,
                                .deadline_ns = clock_now_ns() + options.init_timeout_ns,
                                .knowledge = parent->team.members.knowledge,
                                .table = parent->team.members.table,
                                .look = look,
                                .look_context = roster,
                                .is_known = &roster->is_known,
                                .has_come = &roster->has_come};
    if (team_spans_hosts(&parent->team)) TRY(find_hosts(roster, &creation));
    rendezvous_key_derive(&parent->team.identity, what, what_bytes, &creation.key);
    memcpy(&roster->meeting, creation.key.bytes, sizeof roster->meeting);
    roster->meeting += roster->attempt;
    roster->begin_ns = clock_now_ns();
    if (parent->bars != NULL) bars = bars_copy(parent->bars);
    if (parent->bars != NULL && bars == NULL) creation.trouble = out_of_memory(roster);
    const enum tutti_status status = comm_create(&creation, created);
    if (status == TUTTI_OK)
        (*created)->bars = bars;
    else
        free(bars);
    if (status == TUTTI_OK || board_has_failed(parent->health.board)) return status;
    const enum tutti_status explained = explain(roster, status);
    if (!roster->is_known && is_own_fault(status))
        withdrawn_tell(&roster->parent->health, roster->ranks, roster->size, roster->meeting,
                       status);
    return explained;
}

/* ---------------------------------------------------------------------------------------- split */

/* The wish that each rank tells all others. */
struct derived_choice {
    int32_t derivation;
    int32_t signature;
    int32_t color, key;
};

enum { CHOICE_WORDS = sizeof(struct derived_choice) / sizeof(int32_t) };

struct candidate {
    int rank, key;
};

static int by_key_and_rank(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return left->rank < right->rank ? -1 : 1;
}

/* By the word of a choice: purposes count from 0 in it. */
static const char *derivation_name(int32_t derivation)
{
    switch (derivation) {
    case CALL_FOR_SPLIT - CALL_FOR_SPLIT: return "tutti_comm_split";
    case CALL_FOR_DUP - CALL_FOR_SPLIT: return "tutti_comm_dup";
    case CALL_FOR_MESH - CALL_FOR_SPLIT: return "tutti_mesh_create";
    default: return "something else";
    }
}

/* All ranks see the same choices, so all find the same culprit. */
static enum tutti_status check_agreement(struct tutti_comm *comm,
                                         const struct derived_choice *choices)
{
    for (int r = 1; r < comm->team.size; r++) {
        const struct derived_choice *first = &choices[0], *other = &choices[r];
        if (other->derivation != first->derivation)
            health_fail(&comm->health, NULL, TUTTI_DESYNC, r,
                        "rank %d called %s while rank 0 called %s", r,
                        derivation_name(other->derivation), derivation_name(first->derivation));
        else if (other->signature != first->signature)
            health_fail(&comm->health, NULL, TUTTI_MISMATCH, r,
                        "ranks 0 and %d called %s with different axes", r,
                        derivation_name(first->derivation));
    }
    return health_check(&comm->health);
}

/* A collective on the parent; a blocking one also between tutti_group_begin and tutti_group_end. */
static enum tutti_status exchange(struct tutti_comm *comm, const struct derive_wish *wish,
                                  uint64_t timeout_ns, struct derived_choice *choices)
{
    choices[comm->team.rank] =
        (struct derived_choice){(int32_t)(wish->purpose - CALL_FOR_SPLIT), (int32_t)wish->signature,
                                wish->color, wish->key};
    TRY(own_allgather(comm, wish->purpose, choices, CHOICE_WORDS, TUTTI_INT32, timeout_ns));
    return check_agreement(comm, choices);
}

/* Creates the communicator of the ranks that have this rank's color. */
static enum tutti_status create_for_color(struct tutti_comm *comm, const char *function,
                                          const struct derive_wish *wish,
                                          const struct derived_choice *choices,
                                          struct tutti_comm **created)
{
    struct roster roster = {.parent = comm, .function = function, .rank = -1};
    struct candidate *const candidates = calloc((size_t)comm->team.size, sizeof *candidates);
    int *const ranks = calloc((size_t)comm->team.size, sizeof *ranks);
    enum tutti_status status;
    if (candidates == NULL || ranks == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", function);
        goto free_lists;
    }
    for (int r = 0; r < comm->team.size; r++)
        if (choices[r].color == wish->color)
            candidates[roster.size++] = (struct candidate){r, choices[r].key};
    qsort(candidates, (size_t)roster.size, sizeof *candidates, by_key_and_rank);
    for (int i = 0; i < roster.size; i++) {
        ranks[i] = candidates[i].rank;
        if (ranks[i] == comm->team.rank) roster.rank = i;
    }
    roster.ranks = ranks;
    const uint64_t what[2] = {comm->derivations.count, (uint64_t)wish->color};
    status = create(&roster, wish->options, what, sizeof what, created);
free_lists:
    free(candidates);
    free(ranks);
    return status;
}

enum tutti_status derive_split(struct tutti_comm *comm, const char *function,
                               const struct derive_wish *wish, struct tutti_comm **created)
{
    uint64_t timeout_ns = comm->team.settings.init_timeout_ns;
    if (wish->options != NULL && wish->options->init_timeout_ns != 0)
        timeout_ns = wish->options->init_timeout_ns;
    struct derived_choice *const choices = calloc((size_t)comm->team.size, sizeof *choices);
    if (choices == NULL) {
        /* The other ranks wait for this call: it cannot fail here alone. */
        health_fail(&comm->health, NULL, TUTTI_NO_MEMORY, comm->team.rank,
                    "tutti_%s: out of memory", function);
        return health_check(&comm->health);
    }
    enum tutti_status status = exchange(comm, wish, timeout_ns, choices);
    if (status == TUTTI_OK) {
        comm->derivations.count++;
        if (wish->color != TUTTI_NO_COLOR)
            status = create_for_color(comm, function, wish, choices, created);
    }
    free(choices);
    return status;
}

/* Checks a call before anything is sent; *created is NULL afterwards. */
static enum tutti_status check_call(struct tutti_comm *comm, const char *function,
                                    const struct tutti_comm_options *options,
                                    struct tutti_comm **created)
{
    if (created != NULL) *created = NULL;
    TRY(communicator_check_handle(comm, function));
    if (created == NULL)
        return error_set(TUTTI_INVALID_COMM,
                         "tutti_%s: created must be the address of a pointer, is NULL", function);
    return options_check_comm(options);
}

enum tutti_status tutti_comm_split(struct tutti_comm *comm, int color, int key,
                                   const struct tutti_comm_options *options,
                                   struct tutti_comm **created)
{
    TRY(check_call(comm, "comm_split", options, created));
    if (color < 0 && color != TUTTI_NO_COLOR)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_comm_split: color must be 0 or more, or TUTTI_NO_COLOR, is %d",
                         color);
    return derive_split(comm, "comm_split",
                        &(struct derive_wish){CALL_FOR_SPLIT, 0, color, key, options}, created);
}

enum tutti_status tutti_comm_dup(struct tutti_comm *comm, const struct tutti_comm_options *options,
                                 struct tutti_comm **created)
{
    TRY(check_call(comm, "comm_dup", options, created));
    return derive_split(comm, "comm_dup",
                        &(struct derive_wish){CALL_FOR_DUP, 0, 0, comm->team.rank, options},
                        created);
}

/* ---------------------------------------------------------------------------------------- group */

static enum tutti_status check_ranks(const struct tutti_comm *comm, const int *ranks,
                                     int rank_count, int *own)
{
    if (rank_count < 1 || rank_count > comm->team.size)
        return error_set(TUTTI_INVALID_RANK, "tutti_comm_group: rank_count must be 1 to %d, is %d",
                         comm->team.size, rank_count);
    if (ranks == NULL)
        return error_set(TUTTI_INVALID_RANK,
                         "tutti_comm_group: ranks must be a list of %d ranks, is NULL", rank_count);
    *own = -1;
    for (int i = 0; i < rank_count; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->team.size)
            return error_set(TUTTI_INVALID_RANK,
                             "tutti_comm_group: ranks[%d] must be a rank, 0 to %d, is %d", i,
                             comm->team.size - 1, ranks[i]);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return error_set(TUTTI_INVALID_RANK,
                                 "tutti_comm_group: ranks[%d] and ranks[%d] are both %d", j, i,
                                 ranks[i]);
        if (ranks[i] == comm->team.rank) *own = i;
    }
    if (*own < 0)
        return error_set(TUTTI_INVALID_RANK,
                         "tutti_comm_group: rank %d is not in its own list; only the listed ranks "
                         "call",
                         comm->team.rank);
    return TUTTI_OK;
}

enum list_kind { LIST_GROUP = 1, LIST_SURVIVORS, LIST_SECRET }; /* a split's last word is 0 */
enum { SECRET_WORDS = 4 };

/* The key: of the list of ranks, its number, a secret (two words of 64 bits, or NULL), and what it is;
 * so many words that no split has. */
static enum tutti_status create_of_list(struct roster *roster,
                                        const struct tutti_comm_options *options, uint64_t number,
                                        const uint64_t *secret, enum list_kind kind,
                                        struct tutti_comm **created)
{
    const size_t words = (size_t)roster->size + 3 + (secret != NULL ? SECRET_WORDS : 0);
    int32_t *const what = calloc(words, sizeof *what);
    if (what == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_%s: out of memory", roster->function);
    memcpy(what, roster->ranks, sizeof *what * (size_t)roster->size);
    memcpy(what + roster->size, &number, sizeof number);
    if (secret != NULL) memcpy(what + roster->size + 2, secret, SECRET_WORDS * sizeof *what);
    what[words - 1] = (int32_t)kind;
    const enum tutti_status status = create(roster, options, what, sizeof *what * words, created);
    free(what);
    return status;
}

enum tutti_status derive_survivors(struct tutti_comm *comm, const struct derive_survivors *survivors,
                                   const struct tutti_comm_options *options,
                                   struct tutti_comm **created)
{
    struct roster roster = {.parent = comm,
                            .function = survivors->function,
                            .ranks = survivors->ranks,
                            .size = survivors->rank_count,
                            .are_survivors = true};
    while (survivors->ranks[roster.rank] != comm->team.rank) roster.rank++;
    return create_of_list(&roster, options, survivors->epoch, survivors->secret,
                          survivors->secret != NULL ? LIST_SECRET : LIST_SURVIVORS, created);
}

enum tutti_status tutti_comm_group(struct tutti_comm *comm, const int *ranks, int rank_count,
                                   const struct tutti_comm_options *options,
                                   struct tutti_comm **created)
{
    TRY(check_call(comm, "comm_group", options, created));
    struct roster roster = {
        .parent = comm, .function = "comm_group", .ranks = ranks, .size = rank_count};
    TRY(check_ranks(comm, ranks, rank_count, &roster.rank));
    TRY(health_check(&comm->health));
    struct derived_list *const list = derived_list_find(comm, ranks, rank_count);
    if (list == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_comm_group: out of memory");
    roster.attempt = list->attempts++;
    const enum tutti_status status =
        create_of_list(&roster, options, list->count, NULL, LIST_GROUP, created);
    if (status == TUTTI_OK) list->count++;
    return status;
}
