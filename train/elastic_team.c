#include "elastic_team.h"

#include "base/log.h"
#include "base/sized.h"
#include "elastic_save.h"
#include "elastic_sick.h"
#include "elastic_store.h"
#include "os/clock.h"

static enum tutti_status take(struct tutti_elastic *e, struct tutti_comm *comm)
{
    elastic_team_leave(e);
    e->comm = comm;
    e->place = (struct elastic_place){tutti_comm_rank(comm), tutti_comm_size(comm)};
    if (e->place.size > e->size_wanted) e->size_wanted = e->place.size;
    e->is_broken = false;
    e->needs_sync = true;
    e->next_grow_ns = elastic_time_after(clock_now_ns(), e->options.grow_every_ns);
    if (e->folder_store != NULL) elastic_folder_store_sign(e->folder_store);
    return elastic_sick_follow(e);
}

void elastic_team_leave(struct tutti_elastic *e)
{
    elastic_save_leave(e);
    (void)tutti_shards_free(e->shards); /* its status is of a team that is no more */
    e->shards = NULL;
    if (e->comm != NULL) tutti_comm_free(e->comm);
    e->comm = NULL;
}

enum tutti_status elastic_team_enter(struct tutti_elastic *e,
                                     const struct tutti_comm_options *options, bool joins)
{
    struct tutti_comm_options own = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    if (options != NULL)
        TRY(SIZED_READ("tutti_elastic_open: options.comm_options", tutti_comm_options, options,
                       &own));
    if (joins) {
        if (e->store.set == NULL)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_elastic_open: a process that joins needs options.store, or the "
                             "directory TUTTI_ELASTIC_STORE");
        own.store = &e->store;
        own.id = NULL;
        own.init_timeout_ns = e->options.join_wait_ns;
        TRY(tutti_comm_join(&own, &comm));
        e->is_new = true;
    } else {
        const bool needs_store = own.rank >= 0 && own.id == NULL && own.store == NULL;
        if (needs_store && e->store.set != NULL) own.store = &e->store;
        TRY(tutti_comm_create(&own, &comm));
    }
    return take(e, comm);
}

static struct tutti_grow_options grow_options(const struct tutti_elastic *e, uint64_t wait_ns)
{
    struct tutti_grow_options options = TUTTI_GROW_OPTIONS_INIT;
    options.store = &e->store;
    options.wait_ns = wait_ns;
    return options;
}

/* TIMEOUT: no process came in time. */
static enum tutti_status replace(struct tutti_elastic *e, struct tutti_comm **comm)
{
    const struct tutti_grow_options options = grow_options(e, e->options.replace_wait_ns);
    if (e->store.set == NULL || e->options.replace_wait_ns == 0) return TUTTI_TIMEOUT;
    return tutti_comm_replace(e->comm, &options, comm);
}

/* None came, or one cannot be let in, say because of its options: the ranks can do without. All ranks
 * have the same status. */
static bool is_of_joiners(enum tutti_status status)
{
    return status != TUTTI_OK && status != TUTTI_PROC_FAILED && status != TUTTI_MINORITY;
}

/* A process in the place of a rank that was put out, if one comes. */
static enum tutti_status add_one(struct tutti_elastic *e)
{
    struct tutti_grow_options options = grow_options(e, e->options.replace_wait_ns);
    struct tutti_comm *comm;
    if (e->store.set == NULL || e->options.replace_wait_ns == 0 || e->place.size >= e->size_wanted)
        return TUTTI_OK;
    options.joiner_max = e->size_wanted - e->place.size;
    const enum tutti_status status = tutti_comm_grow(e->comm, &options, &comm);
    if (status == TUTTI_OK) return take(e, comm);
    if (!elastic_may_recover(status)) return is_of_joiners(status) ? TUTTI_OK : status;
    e->is_broken = true;
    return TUTTI_OK;
}

/* The ranks that were chosen are put out. */
static enum tutti_status mend_without(struct tutti_elastic *e)
{
    struct tutti_comm *comm;
    e->choice_is_due = false; /* not all may have agreed that one is */
    TRY(elastic_sick_put_out(e, &comm));
    TRY(take(e, comm));
    TRY(add_one(e));
    if (e->place.rank == 0) log_write(LOG_WARN, "elastic: goes on with %d ranks", e->place.size);
    return TUTTI_OK;
}

/* The communicator that takes the place of one that has lost ranks. */
static enum tutti_status mend(struct tutti_elastic *e)
{
    struct tutti_comm *comm;
    if (elastic_sick_are_chosen(e)) return mend_without(e);
    enum tutti_status status = replace(e, &comm);
    if (is_of_joiners(status)) status = tutti_comm_shrink(e->comm, NULL, &comm);
    TRY(status);
    return take(e, comm);
}

enum tutti_status elastic_team_mend(struct tutti_elastic *e)
{
    const int size_before = e->place.size;
    elastic_save_leave(e);
    TRY(mend(e));
    e->mends = true;
    e->progress.failures += (uint64_t)(size_before - e->place.size);
    if (e->place.size >= e->options.size_min) return TUTTI_OK;
    e->is_lost = true;
    return error_set(TUTTI_PROC_FAILED, "tutti_elastic_begin: %d ranks are left, and size_min is %d",
                     e->place.size, e->options.size_min);
}

enum tutti_status elastic_team_grow(struct tutti_elastic *e)
{
    struct tutti_grow_options options = grow_options(e, e->options.grow_wait_ns);
    struct tutti_comm *comm;
    e->next_grow_ns = elastic_time_after(clock_now_ns(), e->options.grow_every_ns);
    if (e->place.size >= e->size_wanted) return TUTTI_OK;
    options.joiner_min = 1;
    options.joiner_max = e->size_wanted - e->place.size;
    const enum tutti_status status = tutti_comm_grow(e->comm, &options, &comm);
    if (is_of_joiners(status) && !elastic_may_recover(status)) return TUTTI_OK;
    if (status != TUTTI_OK && elastic_may_recover(status)) {
        e->is_broken = true;
        return TUTTI_OK;
    }
    TRY(status);
    TRY(take(e, comm));
    e->mends = false;
    log_write(LOG_INFO, "elastic: the team has %d ranks again", e->place.size);
    return TUTTI_OK;
}
