#include "tests/faults/fault_rank.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "tests/faults/fault_operate.h"
#include "tests/faults/fault_strike.h"
#include "tests/kit/belongings.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;

struct life {
    const struct fault_schedule *schedule;
    struct fault_history *history;
    struct fault_epoch_history *epoch;
    struct tutti_comm *comm;
    struct fault_strikes strikes;
};

/* ----------------------------------------------------------------------------------- operations */

static void begin_operation(struct life *life, struct fault_work *work, int index)
{
    struct fault_call_history *call = &life->history->calls[index];
    const struct fault *fault = fault_strike_in_call(&life->strikes, index);
    const bool mismatches = fault != NULL && fault->kind == FAULT_MISMATCH;
    const bool limited = fault != NULL && fault->kind == FAULT_DESCRIPTORS;
    const bool ready = fault_work_init(work, &life->schedule->operations[index], index, life->comm,
                                       mismatches ? fault->detail : -1,
                                       fault != NULL && fault->kind == FAULT_DESYNC);
    call->epoch = life->history->epoch_count - 1;
    call->begin_ns = clock_now_ns();
    call->called = true;
    fault_strike_soon(&life->strikes, index, FAULT_MIDDLE);
    if (limited) fault_descriptors_limit(true);
    if (ready)
        fault_work_begin(work, life->comm);
    else
        work->status = TUTTI_NO_MEMORY;
    if (limited) fault_descriptors_limit(false);
}

static enum tutti_status end_operation(struct life *life, struct fault_work *work)
{
    struct fault_call_history *call = &life->history->calls[work->index];
    const enum tutti_status status = fault_work_end(work);
    call->end_ns = clock_now_ns();
    call->status = status;
    call->is_wrong = work->is_wrong;
    call->returned = true;
    fault_work_release(work);
    fault_strike_join(&life->strikes);
    fault_strike(&life->strikes, work->index, FAULT_AFTER);
    return status;
}

/* Whether the next operation is to begin before this one has ended. */
static bool goes_on_before_the_end(const struct life *life, const struct fault_work *work,
                                   int under_way)
{
    const struct fault_schedule *schedule = life->schedule;
    const int next = work->index + 1;
    return under_way < FAULT_STARTED_MAX && work->status == TUTTI_OK &&
           next < schedule->operation_count && fault_operation_is_started(work->operation) &&
           fault_operation_is_started(&schedule->operations[next]);
}

/* From that operation on to the first failure; returns the first one that this rank did not
 * begin. */
static int operate(struct life *life, int index)
{
    struct fault_work works[FAULT_STARTED_MAX];
    int under_way = 0;
    while (index < life->schedule->operation_count && !life->epoch->failed && !life->strikes.leaves) {
        fault_strike(&life->strikes, index, FAULT_BEFORE);
        if (!life->strikes.leaves) {
            begin_operation(life, &works[under_way++], index++);
            if (goes_on_before_the_end(life, &works[under_way - 1], under_way)) continue;
        }
        for (int i = 0; i < under_way; i++)
            if (end_operation(life, &works[i]) != TUTTI_OK) life->epoch->failed = true;
        under_way = 0;
    }
    return index;
}

/* ------------------------------------------------------------------------------------- failures */

static struct tutti_failure failure_of(const struct tutti_comm *comm)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    tutti_comm_failure(comm, &failure);
    return failure;
}

/* Who could not make or use another communicator knows of a failure that the others may not know
 * of. */
static void spread_failure(struct life *life)
{
    if (failure_of(life->comm).status == TUTTI_OK) (void)tutti_comm_revoke(life->comm);
    life->epoch->again = tutti_barrier(life->comm);
}

static void begin_epoch(struct life *life, int first_operation)
{
    life->epoch = &life->history->epochs[life->history->epoch_count];
    life->epoch->rank = tutti_comm_rank(life->comm);
    life->epoch->size = tutti_comm_size(life->comm);
    life->epoch->first_operation = first_operation;
    life->history->epoch_count++;
    life->strikes.comm = life->comm;
}

/* True: all ranks that are left are through with all operations, or this one cannot go on. */
static bool is_over(struct life *life, int next_operation)
{
    struct fault_epoch_history *epoch = life->epoch;
    epoch->word = fault_word(epoch->failed, next_operation);
    epoch->recovery_ns = clock_now_ns();
    epoch->agrees = true;
    epoch->agree_status = tutti_comm_agree(life->comm, &epoch->word);
    epoch->agreed_ns = clock_now_ns();
    epoch->agreed = true;
    if (epoch->agree_status == TUTTI_OK || epoch->agree_status == TUTTI_PROC_FAILED)
        return epoch->agree_status == TUTTI_OK && fault_word_is_good(epoch->word);
    fprintf(stderr, "rank %d: %s\n", life->strikes.rank, tutti_error_message());
    return true;
}

/* True: there is a communicator of those that are left. */
static bool shrink(struct life *life)
{
    struct fault_epoch_history *epoch = life->epoch;
    struct tutti_comm *smaller;
    epoch->shrinks = true;
    epoch->shrink_status = tutti_comm_shrink(life->comm, NULL, &smaller);
    epoch->shrunk = true;
    epoch->recovered_ns = clock_now_ns();
    epoch->failure = failure_of(life->comm);
    if (epoch->shrink_status != TUTTI_OK) {
        fprintf(stderr, "rank %d: %s\n", life->strikes.rank, tutti_error_message());
        return false;
    }
    (void)tutti_comm_free(life->comm);
    life->comm = smaller;
    return true;
}

/* True: there is another epoch, from *operation on. */
static bool recover(struct life *life, int *operation)
{
    fault_strike_soon(&life->strikes, *operation, FAULT_RECOVERY);
    const bool goes_on =
        !is_over(life, *operation) && shrink(life) && life->history->epoch_count < FAULT_EPOCHS_MAX;
    fault_strike_join(&life->strikes);
    *operation = fault_word_operation(life->epoch->word);
    if (!goes_on) life->epoch->failure = failure_of(life->comm);
    return goes_on;
}

static void go_through_all(struct life *life)
{
    int operation = 0;
    do {
        begin_epoch(life, operation);
        operation = operate(life, operation);
        fault_flips_end();
        if (life->strikes.leaves) return;
        if (life->epoch->failed) spread_failure(life);
    } while (recover(life, &operation));
}

/* All are there before anything strikes: who still joins what another one has revoked gets no
 * communicator. */
static enum tutti_status create(struct life *life, const struct tutti_id *id)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    if (life->schedule->host_count == 1) { /* otherwise all this comes from the environment */
        options.rank = life->strikes.rank;
        options.size = life->schedule->rank_count;
        options.id = id;
    }
    options.timeout_ns = options.init_timeout_ns = FAULT_TIMEOUT_S * SECOND;
    if (life->schedule->integrity) options.integrity = TUTTI_INTEGRITY_NETWORK;
    const enum tutti_status status = tutti_comm_create(&options, &life->comm);
    if (status == TUTTI_OK)
        (void)!tutti_barrier(life->comm); /* what fails in it is the first operation's to find */
    return status;
}

void fault_rank_run(const struct fault_schedule *schedule, int rank, struct fault_record *record)
{
    struct fault_history *const history = &record->ranks[rank];
    struct life life = {.schedule = schedule,
                        .history = history,
                        .strikes = {.schedule = schedule, .record = record, .rank = rank}};
    history->pid = getpid();
    history->before = belongings_now();
    history->created = create(&life, &record->id);
    if (history->created != TUTTI_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, tutti_error_message());
        return;
    }
    go_through_all(&life);
    history->frees_ns = clock_now_ns();
    (void)tutti_comm_free(life.comm);
    history->left = life.strikes.leaves;
    history->after = belongings_in_the_end(&history->before);
    history->finished = true;
}
