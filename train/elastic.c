/* elastic.c - the life of an elastic loop, and its steps. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/log.h"
#include "base/option.h"
#include "base/sized.h"
#include "elastic_data.h"
#include "elastic_save.h"
#include "elastic_shard.h"
#include "elastic_sick.h"
#include "elastic_state.h"
#include "elastic_store.h"
#include "elastic_sync.h"
#include "elastic_team.h"
#include "os/clock.h"
#include "outside_group.h"

enum { NAME_BYTES_MAX = 100, ATTEMPTS = 3, TEAMS_MAX = 1000 };

/* ------------------------------------------------------------------------------------ arguments */

static enum tutti_status take_options(struct tutti_elastic *e,
                                      const struct tutti_elastic_options *given)
{
    struct tutti_elastic_options *const own = &e->options;
    *own = (struct tutti_elastic_options)TUTTI_ELASTIC_OPTIONS_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_elastic_open: options", tutti_elastic_options, given, own));
    const char *wrong = NULL;
    if (own->joins < -1 || own->joins > 1) wrong = "joins is none of -1, 0 and 1";
    if (own->size_min < 0) wrong = "size_min is below 0";
    if (own->partner_distance < 0) wrong = "partner_distance is below 0";
    if (own->attempt_max < 0) wrong = "attempt_max is below 0";
    if (own->update != TUTTI_ELASTIC_UPDATE_AFTER && own->update != TUTTI_ELASTIC_UPDATE_BEFORE)
        wrong = "update is not one of enum tutti_elastic_update";
    if (own->partner != 0 && own->update != TUTTI_ELASTIC_UPDATE_BEFORE)
        wrong = "partner needs TUTTI_ELASTIC_UPDATE_BEFORE";
    if (own->reserved != 0) wrong = "reserved is not 0";
    if (wrong != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_elastic_open: options.%s", wrong);
    if (own->size_min == 0) own->size_min = 1;
    if (own->batch == 0) own->batch = 1;
    if (own->attempt_max == 0) own->attempt_max = ATTEMPTS;
    return TUTTI_OK;
}

static bool is_name(const char *name)
{
    const size_t length = name != NULL ? strlen(name) : 0;
    bool is_fine = length >= 1 && length <= NAME_BYTES_MAX;
    for (size_t i = 0; is_fine && i < length; i++)
        is_fine = (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
    return is_fine;
}

static enum tutti_status check_array(const struct tutti_elastic_array *arrays, size_t index)
{
    const struct tutti_elastic_array *const array = &arrays[index];
    if (!is_name(array->name))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_elastic_open: array %zu has no name of 1 to %d printable bytes",
                         index, NAME_BYTES_MAX);
    for (size_t i = 0; i < index; i++)
        if (strcmp(arrays[i].name, array->name) == 0)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_elastic_open: arrays %zu and %zu are both '%s'", i, index,
                             array->name);
    if (!dtype_is_valid(array->dtype))
        return error_set(TUTTI_INVALID_DTYPE, "tutti_elastic_open: '%s' has no dtype", array->name);
    if (array->kind != TUTTI_ELASTIC_REPLICATED && array->kind != TUTTI_ELASTIC_SHARDED &&
        array->kind != TUTTI_ELASTIC_BLOCKS)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_elastic_open: '%s' is neither replicated nor sharded", array->name);
    if (array->count == 0 || array->count > SIZE_MAX / 2 / tutti_dtype_size(array->dtype))
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_elastic_open: '%s' has %zu elements",
                         array->name, array->count);
    if ((array->data == NULL) != (array->kind != TUTTI_ELASTIC_REPLICATED))
        return error_set(TUTTI_INVALID_BUFFER, "tutti_elastic_open: data of '%s' %s", array->name,
                         array->data == NULL ? "is NULL" : "must be NULL, as it is sharded");
    return TUTTI_OK;
}

static enum tutti_status take_arrays(struct tutti_elastic *e,
                                     const struct tutti_elastic_array *arrays, size_t count)
{
    if (count > 0 && arrays == NULL)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_elastic_open: arrays is NULL");
    for (size_t i = 0; i < count; i++) TRY(check_array(arrays, i));
    e->arrays = calloc(count + 1, sizeof *e->arrays);
    if (e->arrays == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: out of memory");
    for (size_t i = 0; i < count; i++) {
        struct elastic_array *const own = &e->arrays[e->array_count++];
        *own = (struct elastic_array){.name = strdup(arrays[i].name),
                                      .kind = arrays[i].kind,
                                      .dtype = arrays[i].dtype,
                                      .count = arrays[i].count,
                                      .element_bytes = tutti_dtype_size(arrays[i].dtype),
                                      .live = arrays[i].data};
        const bool has_copy = elastic_keeps_copies(e) && own->kind == TUTTI_ELASTIC_REPLICATED;
        if (has_copy) own->copy = malloc(own->count * own->element_bytes);
        if (own->name == NULL || (has_copy && own->copy == NULL))
            return error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: no memory for a copy of '%s'",
                             arrays[i].name);
    }
    return TUTTI_OK;
}

static enum tutti_status take_store(struct tutti_elastic *e)
{
    const char *const folder = option_text(OPTION_ELASTIC_STORE);
    if (e->options.store != NULL)
        return SIZED_READ("tutti_elastic_open: options.store", tutti_store, e->options.store,
                          &e->store);
    if (folder == NULL) return TUTTI_OK;
    return elastic_folder_store_open(folder, &e->store, &e->folder_store);
}

/* ----------------------------------------------------------------------------------- life cycle */

static enum tutti_status open_all(struct tutti_elastic *e, const struct tutti_elastic_array *arrays,
                                  size_t count, const struct tutti_elastic_options *options)
{
    bool joins;
    TRY(outside_group("tutti_elastic_open"));
    TRY(take_options(e, options));
    TRY(take_arrays(e, arrays, count));
    TRY(take_store(e));
    TRY(elastic_sick_open(e, e->options.exclude_policy));
    e->options.exclude_policy = NULL; /* the caller's */
    TRY(option_boolean(OPTION_ELASTIC_JOIN, &joins));
    if (e->options.joins >= 0) joins = e->options.joins == 1;
    if (e->options.checkpoint_folder != NULL) {
        e->checkpoint_folder = strdup(e->options.checkpoint_folder);
        if (e->checkpoint_folder == NULL)
            return error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: out of memory");
    }
    TRY(elastic_team_enter(e, e->options.comm_options, joins));
    e->options.comm_options = NULL; /* the caller's, and so are these */
    e->options.store = NULL;
    e->options.checkpoint_folder = NULL;
    e->layout = e->place;
    e->saved_step = UINT64_MAX;
    e->counted_from_ns = clock_now_ns();
    for (size_t i = 0; i < e->array_count; i++)
        if (e->arrays[i].kind != TUTTI_ELASTIC_REPLICATED)
            TRY(elastic_shard_make(e, &e->arrays[i], e->place, &e->arrays[i].shard));
    return TUTTI_OK;
}

enum tutti_status tutti_elastic_open(const struct tutti_elastic_array *arrays, size_t count,
                                     const struct tutti_elastic_options *options,
                                     struct tutti_elastic **opened)
{
    *opened = NULL;
    struct tutti_elastic *const e = calloc(1, sizeof *e);
    if (e == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: out of memory");
    const enum tutti_status status = open_all(e, arrays, count, options);
    if (status == TUTTI_OK) {
        *opened = e;
        return TUTTI_OK;
    }
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    (void)tutti_elastic_close(e);
    return error_set(status, "%s", message);
}

enum tutti_status tutti_elastic_close(struct tutti_elastic *e)
{
    if (e == NULL) return TUTTI_OK;
    elastic_team_leave(e);
    elastic_sick_close(e);
    for (size_t i = 0; i < e->array_count; i++) {
        elastic_shard_release(&e->arrays[i].shard);
        elastic_shard_release(&e->arrays[i].staged);
        free(e->arrays[i].copy);
        free(e->arrays[i].name);
    }
    free(e->arrays);
    free(e->checkpoint_folder);
    elastic_folder_store_close(e->folder_store);
    free(e);
    return TUTTI_OK;
}

struct tutti_comm *tutti_elastic_comm(const struct tutti_elastic *e)
{
    return e != NULL ? e->comm : NULL;
}

enum tutti_status tutti_elastic_shard(const struct tutti_elastic *e, size_t index,
                                      struct tutti_elastic_part *part)
{
    if (index >= e->array_count || e->arrays[index].kind == TUTTI_ELASTIC_REPLICATED)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_elastic_shard: there is no sharded array %zu", index);
    const struct elastic_shard *const shard = &e->arrays[index].shard;
    *part = (struct tutti_elastic_part){shard->first, shard->count, shard->live};
    return TUTTI_OK;
}

uint64_t tutti_elastic_sample(const struct tutti_elastic *e, uint64_t epoch, uint64_t place)
{
    const uint64_t count = e->options.sample_count;
    if (count == 0 || e->options.seed == 0 || place >= count) return place;
    return elastic_permute(place, count, e->options.seed, epoch);
}

/* ---------------------------------------------------------------------------------------- begin */

static enum tutti_status break_off(struct tutti_elastic *e, enum tutti_status status)
{
    e->phase = ELASTIC_BROKEN;
    e->broken_by = status;
    error_copy(e->broken_message, sizeof e->broken_message);
    return status;
}

static enum tutti_status refuse(const struct tutti_elastic *e, const char *function,
                                const char *wrong)
{
    if (e->phase == ELASTIC_BROKEN) return error_set(e->broken_by, "%s", e->broken_message);
    return error_set(TUTTI_INVALID_OPTIONS, "%s: %s", function, wrong);
}

/* A team with the same state on all of its ranks. Ranks that die are others' chances; a team that
 * fails though no rank dies fails again. */
static enum tutti_status come_together(struct tutti_elastic *e)
{
    for (int teams = 0, tries = 0; e->is_broken || e->needs_sync; teams++) {
        bool any_died = false;
        if (e->is_broken) TRY(elastic_team_mend(e));
        const enum tutti_status status = elastic_sync(e, &any_died);
        tries = any_died ? 0 : tries + 1;
        if (status == TUTTI_OK) continue;
        if (e->is_lost || !elastic_may_recover(status)) return status;
        if (teams >= TEAMS_MAX || tries > e->options.attempt_max) return status;
        log_write(LOG_INFO, "elastic: once more, after: %s", tutti_error_message());
    }
    return TUTTI_OK;
}

/* A rank that has enough witnesses against it leaves the team. */
static enum tutti_status put_out_the_sick(struct tutti_elastic *e)
{
    const bool is_due = e->choice_is_due;
    e->choice_is_due = false;
    if (!is_due) return TUTTI_OK;
    const enum tutti_status status = elastic_sick_choose(e);
    if (status == TUTTI_OK && !elastic_sick_are_chosen(e)) return TUTTI_OK;
    if (status != TUTTI_OK && !elastic_may_recover(status) && !elastic_sick_are_chosen(e))
        return status;
    if (e->failed_at_ns == 0) e->failed_at_ns = clock_now_ns();
    e->is_broken = true;
    return come_together(e);
}

/* The agreement of the step before. */
static enum tutti_status do_what_is_due(struct tutti_elastic *e)
{
    const bool grows = e->grow_is_due, saves = e->save_is_due;
    e->grow_is_due = e->save_is_due = false;
    if (e->is_broken) return TUTTI_OK;
    if (saves) TRY(elastic_save(e, e->progress.write_ns == 0));
    if (grows && !e->is_broken) TRY(elastic_team_grow(e));
    return TUTTI_OK;
}

static bool is_over(const struct tutti_elastic *e)
{
    return e->options.step_count > 0 && e->holds && e->progress.step >= e->options.step_count;
}

/* The time since the step before began was productive, if that counts. */
static void account(struct tutti_elastic *e)
{
    if (e->last_step_counts) e->progress.productive_ns += clock_now_ns() - e->step_began_ns;
    e->last_step_counts = false;
}

static void fill_step(struct tutti_elastic *e, struct tutti_elastic_step *step)
{
    const struct elastic_progress *const p = &e->progress;
    const uint64_t batch = elastic_batch(p->position, e->options.batch, e->options.sample_count);
    const uint64_t first = elastic_batch_first(batch, e->place.rank, e->place.size);
    const uint64_t end = elastic_batch_first(batch, e->place.rank + 1, e->place.size);
    e->batch_first = p->position;
    e->batch_count = batch;
    *step = (struct tutti_elastic_step){.number = p->step,
                                        .epoch = p->epoch,
                                        .first = p->position + first,
                                        .count = end - first,
                                        .batch_first = p->position,
                                        .batch_count = batch,
                                        .generation = p->teams,
                                        .rank = e->place.rank,
                                        .size = e->place.size,
                                        .attempt = e->attempt + 1,
                                        .is_over = is_over(e)};
}

/* Ends with a step, or because the loop is over. */
static enum tutti_status begin(struct tutti_elastic *e)
{
    account(e);
    if (is_over(e)) { /* whoever has died since is not missed */
        e->save_is_due = e->grow_is_due = false;
        return e->is_broken ? TUTTI_OK : elastic_save(e, true);
    }
    TRY(do_what_is_due(e));
    TRY(come_together(e));
    TRY(put_out_the_sick(e));
    return is_over(e) ? elastic_save(e, true) : TUTTI_OK;
}

enum tutti_status tutti_elastic_begin(struct tutti_elastic *e, struct tutti_elastic_step *step)
{
    struct tutti_elastic_step own;
    if (e->phase != ELASTIC_BETWEEN)
        return refuse(e, "tutti_elastic_begin", "call tutti_elastic_commit first");
    TRY(SIZED_CHECK_RESULT("tutti_elastic_begin: step", tutti_elastic_step, step));
    TRY(outside_group("tutti_elastic_begin"));
    const enum tutti_status status = begin(e);
    if (status != TUTTI_OK) return break_off(e, status);
    fill_step(e, &own);
    SIZED_WRITE(tutti_elastic_step, step, step->size_bytes, &own);
    e->step_began_ns = clock_now_ns();
    if (!own.is_over) e->phase = ELASTIC_IN_STEP;
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- commit */

enum { WORD_OK = 1, WORD_SAVE = 2, WORD_GROW = 4, WORD_HEALTHY = 8, WORD_INTACT = 16 };

/* Rank 0 decides what is due: the other ranks leave it to its bits. */
static uint64_t word_of(const struct tutti_elastic *e, bool is_fine, bool is_healthy)
{
    const uint64_t now_ns = clock_now_ns();
    uint64_t word = WORD_SAVE | WORD_GROW | (is_fine ? WORD_OK : 0);
    if (is_healthy) word |= WORD_HEALTHY;
    if (!elastic_sick_needs_probe(e)) word |= WORD_INTACT;
    if (e->place.rank != 0) return word;
    if (!elastic_save_is_due(e, now_ns)) word &= ~(uint64_t)WORD_SAVE;
    const bool may_grow = e->store.set != NULL && e->options.grow_wait_ns > 0 &&
                          e->place.size < e->size_wanted && now_ns >= e->next_grow_ns;
    return may_grow ? word : word & ~(uint64_t)WORD_GROW;
}

static void end_outage(struct tutti_elastic *e)
{
    struct elastic_progress *const p = &e->progress;
    if (e->failed_at_ns == 0) return;
    p->outage_ns = clock_now_ns() - e->failed_at_ns;
    if (p->outage_ns > p->outage_max_ns) p->outage_max_ns = p->outage_ns;
    e->failed_at_ns = 0;
}

static void count_step(struct tutti_elastic *e)
{
    struct elastic_progress *const p = &e->progress;
    p->step++;
    p->samples += e->batch_count;
    p->position += e->batch_count;
    if (e->options.sample_count > 0 && p->position >= e->options.sample_count) {
        p->position = 0;
        p->epoch++;
    }
    for (size_t i = 0; i < e->array_count; i++) {
        struct elastic_shard *const shard = &e->arrays[i].shard;
        char *const old = shard->partner;
        shard->partner = shard->partner_next;
        shard->partner_next = old;
    }
    elastic_state_keep(e);
    e->attempt = e->failures_in_a_row = 0;
    e->last_step_counts = true;
    end_outage(e);
}

static void undo_step(struct tutti_elastic *e, uint64_t noticed_ns)
{
    elastic_state_restore(e);
    e->progress.repeated++;
    e->attempt++;
    e->is_broken = true;
    if (e->failed_at_ns == 0) e->failed_at_ns = noticed_ns;
}

/* Whether this rank's part is done. If not, the others must not wait for it in a call of the step. */
static enum tutti_status finish_work(struct tutti_elastic *e, enum tutti_status work)
{
    char message[ERROR_TEXT_MAX];
    if (work == TUTTI_OK) work = elastic_sync_partners(e);
    if (work == TUTTI_OK) return TUTTI_OK;
    error_copy(message, sizeof message);
    (void)tutti_comm_revoke_because(e->comm, message);
    return error_set(work, "%s", message);
}

enum tutti_status tutti_elastic_commit(struct tutti_elastic *e, enum tutti_status work,
                                       int *is_committed)
{
    char message[ERROR_TEXT_MAX];
    *is_committed = 0;
    if (e->phase != ELASTIC_IN_STEP) return refuse(e, "tutti_elastic_commit", "no step has begun");
    TRY(outside_group("tutti_elastic_commit"));
    e->phase = ELASTIC_BETWEEN;
    const enum tutti_status done = finish_work(e, work);
    const uint64_t noticed_ns = clock_now_ns();
    error_copy(message, sizeof message);
    uint64_t word = word_of(e, done == TUTTI_OK, elastic_sick_look(e, done));
    const enum tutti_status agreed = elastic_sick_agree(e, &word);
    if (elastic_sick_are_chosen(e)) { /* they did not come, and the next begin puts them out */
        undo_step(e, noticed_ns);
        return TUTTI_OK;
    }
    if (agreed != TUTTI_OK && agreed != TUTTI_PROC_FAILED) return break_off(e, agreed);
    const bool any_died = agreed == TUTTI_PROC_FAILED;
    *is_committed = (word & WORD_OK) != 0;
    if (*is_committed)
        count_step(e);
    else
        undo_step(e, noticed_ns);
    if (any_died && e->failed_at_ns == 0) e->failed_at_ns = noticed_ns;
    e->is_broken = e->is_broken || any_died;
    e->save_is_due = !any_died && *is_committed && (word & WORD_SAVE) != 0;
    e->grow_is_due = !any_died && *is_committed && (word & WORD_GROW) != 0;
    e->choice_is_due = e->sick != NULL && (word & WORD_HEALTHY) == 0;
    e->probe_is_due = (word & WORD_INTACT) == 0;
    e->failures_in_a_row = *is_committed || any_died ? 0 : e->failures_in_a_row + 1;
    if (e->failures_in_a_row < e->options.attempt_max) return TUTTI_OK;
    /* To put a rank out may help. */
    if (e->choice_is_due && e->failures_in_a_row < 2 * e->options.attempt_max) return TUTTI_OK;
    if (done == TUTTI_OK)
        (void)error_set(TUTTI_ABORTED,
                        "tutti_elastic_commit: other ranks failed in step %llu %d times",
                        (unsigned long long)e->progress.step, e->failures_in_a_row);
    return break_off(e, done == TUTTI_OK ? TUTTI_ABORTED : error_set(done, "%s", message));
}
