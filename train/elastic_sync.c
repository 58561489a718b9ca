#include "elastic_sync.h"

#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/hash.h"
#include "base/log.h"
#include "elastic_move.h"
#include "elastic_save.h"
#include "elastic_shard.h"
#include "elastic_sick.h"
#include "os/clock.h"

enum { RANKS_MAX = 1 << 16 };

/* A rank's word to the others, all in 64 bits. */
struct announcement {
    uint64_t holds, is_new;
    uint64_t layout_rank, layout_size; /* whether it holds the state or not */
    uint64_t size_wanted, rotation;
    uint64_t arguments; /* a fingerprint of them */
    uint64_t mends;     /* the team lost ranks, and does not only grow */
    uint64_t outage_ns; /* since the notice of the failure that is not yet made good */
    struct elastic_progress progress;
};
enum { ANNOUNCEMENT_NUMBERS = sizeof(struct announcement) / sizeof(uint64_t) };

enum way { WAY_FIRST, WAY_RANKS, WAY_CHECKPOINT };

struct team {
    struct announcement *all; /* by rank */
    int *holders;             /* ranks that hold the state, ascending */
    int holder_count;
    int *by_layout; /* of a rank of the layout: its rank here; -1: it is not here */
    int layout_size;
    struct elastic_progress progress; /* with the state that there will be */
    uint64_t heard_ns;
    bool is_first; /* no rank holds the state */
    enum way way;
};

static void release(struct team *team)
{
    free(team->all);
    free(team->holders);
    free(team->by_layout);
}

/* ---------------------------------------------------------------------------- whether all agree */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) hash = hash_take(hash, (unsigned char)*text);
    return hash;
}

static const char *kind_name(enum tutti_elastic_kind kind)
{
    return kind == TUTTI_ELASTIC_REPLICATED ? "replicated"
           : kind == TUTTI_ELASTIC_SHARDED  ? "sharded"
                                            : "in blocks";
}

static void describe(const void *context, FILE *lines)
{
    const struct tutti_elastic *const e = context;
    const struct tutti_elastic_options *const o = &e->options;
    fprintf(lines, "options.update %d\n", (int)o->update);
    fprintf(lines, "options.partner %d\n", o->partner != 0);
    fprintf(lines, "options.partner_distance %d\n", o->partner_distance);
    fprintf(lines, "options.size_min %d\n", o->size_min);
    fprintf(lines, "options.replace_wait_ns %llu\n", (unsigned long long)o->replace_wait_ns);
    fprintf(lines, "options.grow_every_ns %llu\n", (unsigned long long)o->grow_every_ns);
    fprintf(lines, "options.grow_wait_ns %llu\n", (unsigned long long)o->grow_wait_ns);
    fprintf(lines, "options.step_count %llu\n", (unsigned long long)o->step_count);
    fprintf(lines, "options.batch %llu\n", (unsigned long long)o->batch);
    fprintf(lines, "options.sample_count %llu\n", (unsigned long long)o->sample_count);
    fprintf(lines, "options.seed %llu\n", (unsigned long long)o->seed);
    fprintf(lines, "options.attempt_max %d\n", o->attempt_max);
    fprintf(lines, "options.exclude_policy %s\n", e->sick != NULL ? "given" : "NULL");
    fprintf(lines, "a store %s\n", e->store.set != NULL ? "given" : "not given");
    fprintf(lines, "options.checkpoint_folder %s\n",
            e->checkpoint_folder != NULL ? "given" : "NULL");
    for (size_t i = 0; i < e->array_count; i++)
        fprintf(lines, "array '%s' %s %s %zu\n", e->arrays[i].name, kind_name(e->arrays[i].kind),
                tutti_dtype_name(e->arrays[i].dtype), e->arrays[i].count);
}

/* A number of 62 bits for all that ranks have to give alike. */
static enum tutti_status take_fingerprint(struct tutti_elastic *e)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const lines = open_memstream(&text, &bytes);
    bool is_written = false;
    if (lines != NULL) {
        describe(e, lines);
        is_written = fclose(lines) == 0;
    }
    if (is_written) e->fingerprint = hash_text(1, text) >> 2;
    free(text);
    return is_written
               ? TUTTI_OK
               : error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: no memory to compare arguments");
}

/* Of the first ranks, which all fail alike. */
static enum tutti_status agree_on_arguments(struct tutti_elastic *e)
{
    const struct agreement agreement = {.function = "tutti_elastic_open",
                                        .fingerprint = (int64_t)e->fingerprint,
                                        .describe = describe,
                                        .context = e};
    return agree_on_making(e->comm, TUTTI_OK, &agreement, NULL);
}

/* ------------------------------------------------------------------------------ who has which state */

static struct announcement announce(struct tutti_elastic *e)
{
    struct announcement own = {.holds = e->holds,
                               .is_new = e->is_new,
                               .layout_rank = (uint64_t)e->layout.rank,
                               .layout_size = (uint64_t)e->layout.size,
                               .size_wanted = (uint64_t)e->size_wanted,
                               .rotation = e->rotation,
                               .arguments = e->fingerprint,
                               .mends = e->mends,
                               .progress = e->progress};
    const uint64_t now_ns = clock_now_ns();
    own.progress.elapsed_ns += now_ns - e->counted_from_ns;
    if (e->failed_at_ns > 0) own.outage_ns = now_ns - e->failed_at_ns;
    return own;
}

/* Of the rank that is furthest, the lowest. */
static const struct announcement *furthest(const struct team *team, int size, bool holds)
{
    const struct announcement *found = NULL;
    for (int r = 0; r < size; r++) {
        const struct announcement *const a = &team->all[r];
        if (holds && a->holds == 0) continue;
        if (found == NULL || a->progress.step > found->progress.step ||
            (a->progress.step == found->progress.step &&
             a->progress.elapsed_ns > found->progress.elapsed_ns && !holds))
            found = a;
    }
    return found;
}

static enum tutti_status place_holders(struct tutti_elastic *e, struct team *team,
                                       const struct announcement *source)
{
    if (source->layout_size < 1 || source->layout_size > RANKS_MAX)
        return error_set(TUTTI_INTERNAL, "tutti_elastic_begin: a layout of %llu ranks",
                         (unsigned long long)source->layout_size);
    team->layout_size = (int)source->layout_size;
    team->by_layout = malloc(source->layout_size * sizeof *team->by_layout);
    if (team->by_layout == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks",
                         team->layout_size);
    for (int o = 0; o < team->layout_size; o++) team->by_layout[o] = -1;
    for (int r = 0; r < e->place.size; r++) {
        const struct announcement *const a = &team->all[r];
        if (a->holds == 0 || a->progress.step != source->progress.step) continue;
        if (a->layout_size != source->layout_size || a->layout_rank >= a->layout_size ||
            team->by_layout[a->layout_rank] >= 0)
            return error_set(TUTTI_INTERNAL,
                             "tutti_elastic_begin: rank %d says it was rank %llu of %llu", r,
                             (unsigned long long)a->layout_rank, (unsigned long long)a->layout_size);
        team->by_layout[a->layout_rank] = r;
        team->holders[team->holder_count++] = r;
    }
    return TUTTI_OK;
}

/* The rank that has the shard of a rank of the layout; -1: none. *is_partner: it is the copy that its
 * partner has. */
static int source_of(const struct tutti_elastic *e, const struct team *team, int layout_rank,
                     bool *is_partner)
{
    *is_partner = false;
    if (team->by_layout[layout_rank] >= 0) return team->by_layout[layout_rank];
    if (e->options.partner == 0) return -1;
    *is_partner = true;
    const struct elastic_place place = {layout_rank, team->layout_size};
    return team->by_layout[elastic_partner_of(e, place)];
}

static bool is_sharded(const struct tutti_elastic *e)
{
    bool found = false;
    for (size_t i = 0; i < e->array_count; i++)
        found = found || e->arrays[i].kind != TUTTI_ELASTIC_REPLICATED;
    return found;
}

static bool is_complete(const struct tutti_elastic *e, const struct team *team)
{
    bool is_partner, all = true;
    if (!is_sharded(e)) return true;
    for (int o = 0; o < team->layout_size; o++)
        all = all && source_of(e, team, o, &is_partner) >= 0;
    return all;
}

static void count_joiners(struct tutti_elastic *e, struct team *team)
{
    uint64_t count = 0;
    bool mends = false;
    for (int r = 0; r < e->place.size; r++) {
        count += team->all[r].is_new != 0;
        mends = mends || team->all[r].mends != 0;
        if (team->all[r].size_wanted <= RANKS_MAX && (int)team->all[r].size_wanted > e->size_wanted)
            e->size_wanted = (int)team->all[r].size_wanted;
    }
    e->is_new = false; /* all have heard it */
    if (count > 0) elastic_sick_forget(e);
    team->progress.replaced += count;
    team->progress.teams++;
    if (mends) team->progress.failures += count;
    if (!e->holds) return;
    e->progress.replaced += count;
    if (mends) e->progress.failures += count;
}

/* A process that joins with other arguments must go, and the others try without it. */
static enum tutti_status compare_arguments(const struct tutti_elastic *e, const struct team *team,
                                           const struct announcement *source)
{
    const int source_rank = (int)(source - team->all);
    if (e->fingerprint != source->arguments)
        return error_set(TUTTI_MISMATCH,
                         "tutti_elastic_begin: rank %d, which joins, has other arrays or options "
                         "than rank %d",
                         e->place.rank, source_rank);
    for (int r = 0; r < e->place.size; r++)
        if (team->all[r].arguments != source->arguments)
            return error_set(TUTTI_PROC_FAILED,
                             "tutti_elastic_begin: rank %d, which joined, has other arrays or "
                             "options than rank %d",
                             r, source_rank);
    return TUTTI_OK;
}

/* Afterwards all ranks know the same. */
static enum tutti_status learn(struct tutti_elastic *e, struct team *team)
{
    TRY(take_fingerprint(e));
    const struct announcement own = announce(e);
    team->all = calloc((size_t)e->place.size, sizeof *team->all);
    team->holders = calloc((size_t)e->place.size, sizeof *team->holders);
    if (team->all == NULL || team->holders == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks",
                         e->place.size);
    TRY(tutti_allgather(&own, team->all, ANNOUNCEMENT_NUMBERS, TUTTI_UINT64, e->comm));
    team->heard_ns = clock_now_ns();
    const struct announcement *const source = furthest(team, e->place.size, true);
    if (source != NULL) {
        TRY(compare_arguments(e, team, source));
        TRY(place_holders(e, team, source));
        team->progress = source->progress;
        if (e->failed_at_ns == 0 && source->outage_ns > 0)
            e->failed_at_ns = team->heard_ns - source->outage_ns;
        e->rotation = source->rotation;
    } else {
        team->is_first = true;
        TRY(agree_on_arguments(e));
        team->progress = furthest(team, e->place.size, false)->progress;
    }
    count_joiners(e, team);
    team->way = source != NULL && is_complete(e, team) ? WAY_RANKS : WAY_CHECKPOINT;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------- by ranks */

static void add_replicated(struct tutti_elastic *e, const struct team *team,
                           struct elastic_array *array, struct elastic_moves *moves,
                           uint64_t *number)
{
    const size_t bytes = array->count * array->element_bytes;
    char *const base = elastic_base(e, array);
    for (int to = 0, next = 0; to < e->place.size; to++) {
        if (next < team->holder_count && team->holders[next] == to) {
            next++;
            continue;
        }
        for (size_t at = 0; at < bytes; at += ELASTIC_PIECE_BYTES) {
            const uint64_t slice = (*number)++ + e->rotation;
            const int from = team->holders[slice % (uint64_t)team->holder_count];
            const size_t left = bytes - at;
            elastic_moves_add(moves, e->place.rank, from, to, base + at, base + at,
                              left < ELASTIC_PIECE_BYTES ? left : ELASTIC_PIECE_BYTES);
        }
    }
}

/* The part of an old shard that lies in a new one. */
static void add_overlap(struct tutti_elastic *e, const struct team *team,
                        struct elastic_array *array, struct elastic_moves *moves, int to, int old)
{
    bool is_partner;
    const int from = source_of(e, team, old, &is_partner), rank = e->place.rank;
    const size_t size = array->element_bytes;
    const size_t old_first = elastic_shard_first(array, old, team->layout_size);
    const size_t old_end = elastic_shard_first(array, old + 1, team->layout_size);
    const size_t new_first = elastic_shard_first(array, to, e->place.size);
    const size_t new_end = elastic_shard_first(array, to + 1, e->place.size);
    const size_t first = old_first > new_first ? old_first : new_first;
    const size_t end = old_end < new_end ? old_end : new_end;
    if (first >= end) return;
    const char *source = NULL;
    char *target = NULL;
    if (rank == from)
        source = (is_partner ? array->shard.partner : elastic_shard_base(e, &array->shard)) +
                 (first - old_first) * size;
    if (rank == to) target = elastic_shard_base(e, &array->staged) + (first - new_first) * size;
    elastic_moves_add(moves, rank, from, to, source, target, (end - first) * size);
}

static void add_sharded(struct tutti_elastic *e, const struct team *team,
                        struct elastic_array *array, struct elastic_moves *moves)
{
    for (int to = 0; to < e->place.size; to++)
        for (int old = 0; old < team->layout_size; old++)
            add_overlap(e, team, array, moves, to, old);
}

static enum tutti_status by_ranks(struct tutti_elastic *e, const struct team *team)
{
    struct elastic_moves moves = {0};
    uint64_t number = 0;
    for (size_t i = 0; i < e->array_count; i++) {
        if (e->arrays[i].kind == TUTTI_ELASTIC_REPLICATED)
            add_replicated(e, team, &e->arrays[i], &moves, &number);
        else
            add_sharded(e, team, &e->arrays[i], &moves);
    }
    const enum tutti_status status = elastic_moves_run(&moves, e->comm);
    e->received_bytes += moves.received_bytes;
    elastic_moves_release(&moves);
    return status;
}

/* ------------------------------------------------------------- from the beginning, or a checkpoint */

/* The first state, which the program has given: the replicated arrays of rank 0, and its own shards. */
static enum tutti_status by_beginning(struct tutti_elastic *e)
{
    if (is_sharded(e) && (e->layout.rank != e->place.rank || e->layout.size != e->place.size)) {
        e->is_lost = true;
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_elastic_begin: a rank died before the first step, and the first "
                         "values of its shards are lost");
    }
    for (size_t i = 0; i < e->array_count; i++) {
        const struct elastic_array *const array = &e->arrays[i];
        if (array->kind == TUTTI_ELASTIC_REPLICATED)
            TRY(tutti_broadcast(array->live, array->live, array->count, array->dtype, 0, e->comm));
    }
    elastic_state_keep(e);
    return TUTTI_OK;
}

/* No rank may rely on its state any more once all ranks load. */
static enum tutti_status by_checkpoint(struct tutti_elastic *e, struct team *team)
{
    struct elastic_progress loaded;
    bool is_there;
    const bool was_held = team->holder_count > 0;
    e->holds = false;
    TRY(elastic_save_load(e, &loaded, &is_there));
    if (!is_there && !was_held) {
        team->way = WAY_FIRST;
        return by_beginning(e);
    }
    if (!is_there) {
        e->is_lost = true;
        return error_set(TUTTI_PROC_FAILED,
                         "tutti_elastic_begin: shards are lost with their ranks%s, and there is no "
                         "checkpoint",
                         e->options.partner != 0 ? " and their partners" : "");
    }
    struct elastic_progress now = team->progress;
    if (now.step > loaded.step) now.undone += now.step - loaded.step;
    if (now.step == 0) { /* another run */
        now = loaded;
        now.teams++;
    }
    now.step = loaded.step;
    now.epoch = loaded.epoch;
    now.position = loaded.position;
    now.samples = loaded.samples;
    now.productive_ns = loaded.productive_ns;
    team->progress = now;
    e->saved_step = loaded.step;
    log_write(LOG_WARN, "elastic: goes on from the checkpoint of step %llu",
              (unsigned long long)loaded.step);
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- the partners */

static void add_to_partner(struct tutti_elastic *e, const struct elastic_array *array,
                           const char *source, char *target, struct elastic_moves *moves)
{
    for (int from = 0; from < e->place.size; from++) {
        const struct elastic_place place = {from, e->place.size};
        const size_t first = elastic_shard_first(array, from, e->place.size);
        const size_t end = elastic_shard_first(array, from + 1, e->place.size);
        elastic_moves_add(moves, e->place.rank, from, elastic_partner_of(e, place), source, target,
                          (end - first) * array->element_bytes);
    }
}

static enum tutti_status run_and_release(struct elastic_moves *moves, struct tutti_comm *comm)
{
    const enum tutti_status status = elastic_moves_run(moves, comm);
    elastic_moves_release(moves);
    return status;
}

enum tutti_status elastic_sync_partners(struct tutti_elastic *e)
{
    struct elastic_moves moves = {0};
    if (e->options.partner == 0) return TUTTI_OK;
    for (size_t i = 0; i < e->array_count; i++)
        if (e->arrays[i].kind != TUTTI_ELASTIC_REPLICATED)
            add_to_partner(e, &e->arrays[i], e->arrays[i].shard.live,
                           e->arrays[i].shard.partner_next, &moves);
    return run_and_release(&moves, e->comm);
}

/* Of the state that all are about to hold. */
static enum tutti_status give_to_partners(struct tutti_elastic *e, enum way way)
{
    struct elastic_moves moves = {0};
    if (e->options.partner == 0) return TUTTI_OK;
    for (size_t i = 0; i < e->array_count; i++) {
        struct elastic_array *const array = &e->arrays[i];
        const struct elastic_shard *const shard = way == WAY_FIRST ? &array->shard : &array->staged;
        if (array->kind != TUTTI_ELASTIC_REPLICATED)
            add_to_partner(e, array, elastic_shard_base(e, shard), shard->partner, &moves);
    }
    return run_and_release(&moves, e->comm);
}

/* --------------------------------------------------------------------------------------- all of it */

static void drop_staged(struct tutti_elastic *e)
{
    for (size_t i = 0; i < e->array_count; i++) elastic_shard_release(&e->arrays[i].staged);
}

static enum tutti_status stage(struct tutti_elastic *e)
{
    drop_staged(e);
    for (size_t i = 0; i < e->array_count; i++)
        if (e->arrays[i].kind != TUTTI_ELASTIC_REPLICATED)
            TRY(elastic_shard_make(e, &e->arrays[i], e->place, &e->arrays[i].staged));
    return TUTTI_OK;
}

static enum tutti_status bring(struct tutti_elastic *e, struct team *team)
{
    TRY(stage(e));
    TRY(elastic_save_open(e));
    TRY(team->way == WAY_RANKS ? by_ranks(e, team) : by_checkpoint(e, team));
    return give_to_partners(e, team->way);
}

static void adopt(struct tutti_elastic *e, const struct team *team)
{
    for (size_t i = 0; i < e->array_count && team->way != WAY_FIRST; i++) {
        struct elastic_array *const array = &e->arrays[i];
        elastic_shard_release(&array->shard);
        array->shard = array->staged;
        array->staged = (struct elastic_shard){0};
    }
    elastic_state_restore(e);
    e->progress = team->progress;
    e->counted_from_ns = team->heard_ns;
    e->layout = e->place;
    e->holds = true;
    e->needs_sync = false;
}

/* A rank that goes on alone must not keep the others waiting. */
static void let_go(struct tutti_elastic *e, enum tutti_status status)
{
    char message[ERROR_TEXT_MAX];
    if (status == TUTTI_OK || status == TUTTI_CORRUPT) return;
    error_copy(message, sizeof message);
    (void)tutti_comm_revoke_because(e->comm, message);
    (void)error_set(status, "%s", message);
}

enum tutti_status elastic_sync(struct tutti_elastic *e, bool *any_died)
{
    *any_died = false;
    struct team team = {0};
    char message[ERROR_TEXT_MAX];
    enum tutti_status status = learn(e, &team);
    if (status == TUTTI_MISMATCH && team.is_first) {
        release(&team); /* all ranks have this status, and none needs the others any more */
        return status;
    }
    if (status == TUTTI_OK) status = bring(e, &team);
    let_go(e, status);
    error_copy(message, sizeof message);
    uint64_t word = status == TUTTI_OK;
    const enum tutti_status agreed = elastic_sick_agree(e, &word);
    const bool has_sick = elastic_sick_are_chosen(e); /* who did not come, and are put out next */
    *any_died = agreed == TUTTI_PROC_FAILED || has_sick;
    const bool is_agreed = agreed == TUTTI_OK || *any_died;
    if (has_sick) word = 0;
    if (is_agreed && word == 1) adopt(e, &team);
    e->is_broken = !is_agreed || word != 1 || *any_died;
    e->rotation++;
    drop_staged(e);
    release(&team);
    if (!is_agreed) return agreed;
    if (word == 1) return TUTTI_OK;
    if (status != TUTTI_OK && !has_sick) return error_set(status, "%s", message);
    return error_set(
        TUTTI_PROC_FAILED,
        "tutti_elastic_begin: another rank could not take part in the transfer of state");
}
