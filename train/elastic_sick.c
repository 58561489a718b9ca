#include "elastic_sick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rank_list.h"
#include "base/sized.h"
#include "elastic_table.h"
#include "os/clock.h"

enum {
    LOOKS_EACH_WINDOW = 10,
    FAILURE_WINDOWS = 10, /* between two failures that count together */
    WITNESS_SHARE =
        40, /* of 255, see elastic_table.h; less than the default late_share_max, which is of a window without agreements */
    PROBES = 4,
    PROBE_BYTES = 1 << 20, /* from each rank to each other, unless there are many ranks */
    PROBE_BYTES_ALL = 1 << 26
};
#define WINDOW_NS UINT64_C(10000000000) /* the default of the policy */

struct elastic_sick_rank {
    struct tutti_exclude_history history;
    struct tutti_signs seen;   /* of this communicator */
    uint64_t held_ns, corrupt; /* of those before */
    bool is_probed;            /* data came changed in a probe */
    int failures;              /* because of data from it, which came changed */
    uint64_t failed_ns;        /* the last of them */
    enum tutti_cause verdict;
};

enum tutti_status elastic_sick_open(struct tutti_elastic *e,
                                    const struct tutti_exclude_policy *policy)
{
    struct tutti_exclude_policy own = TUTTI_EXCLUDE_POLICY_INIT;
    if (policy == NULL) return TUTTI_OK;
    TRY(SIZED_READ("tutti_elastic_open: options.exclude_policy", tutti_exclude_policy, policy, &own));
    e->sick = calloc(1, sizeof *e->sick);
    if (e->sick == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_elastic_open: out of memory");
    e->sick->policy = own;
    return TUTTI_OK;
}

void elastic_sick_close(struct tutti_elastic *e)
{
    if (e->sick == NULL) return;
    free(e->sick->ranks);
    free(e->sick->chosen);
    free(e->sick);
    e->sick = NULL;
}

void elastic_sick_forget(struct tutti_elastic *e)
{
    struct elastic_sick *const sick = e->sick;
    e->choice_is_due = false; /* the process that has joined knows nothing of it */
    if (sick == NULL || sick->ranks == NULL) return;
    memset(sick->ranks, 0, (size_t)sick->size * sizeof *sick->ranks);
}

enum tutti_status elastic_sick_follow(struct tutti_elastic *e)
{
    struct elastic_sick *const sick = e->sick;
    if (sick == NULL) return TUTTI_OK;
    sick->chosen_count = 0;
    sick->next_look_ns = 0;
    if (sick->size == e->place.size && sick->ranks != NULL) {
        for (int r = 0; r < sick->size; r++) {
            struct elastic_sick_rank *const rank = &sick->ranks[r];
            rank->held_ns += rank->seen.held_ns;
            rank->corrupt += rank->seen.corrupt_count;
            rank->seen = (struct tutti_signs){0};
        }
        return TUTTI_OK;
    }
    free(sick->ranks);
    free(sick->chosen);
    sick->ranks = calloc((size_t)e->place.size, sizeof *sick->ranks);
    sick->chosen = calloc((size_t)e->place.size, sizeof *sick->chosen);
    sick->size = sick->ranks != NULL && sick->chosen != NULL ? e->place.size : 0;
    if (sick->size > 0) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks", e->place.size);
}

/* --------------------------------------------------------------------------------- verdicts of this rank */

static uint64_t window_of(const struct tutti_exclude_policy *policy)
{
    return policy->window_ns > 0 ? policy->window_ns : WINDOW_NS;
}

static void judge(struct tutti_elastic *e, int number)
{
    struct elastic_sick_rank *const rank = &e->sick->ranks[number];
    struct tutti_signs signs = {.size_bytes = sizeof signs};
    if (tutti_comm_signs(e->comm, number, &signs) != TUTTI_OK) return;
    if (signs.corrupt_count < rank->seen.corrupt_count) /* another thread had the communicator */
        signs.corrupt_count = rank->seen.corrupt_count;
    rank->seen = signs;
    signs.held_ns += rank->held_ns;
    signs.corrupt_count += rank->corrupt;
    rank->verdict = tutti_exclude_judge(&e->sick->policy, &rank->history, &signs);
}

/* If calls fail again and again because this rank gets changed data from another, that is a verdict on that one. What
 * others report of it is no evidence of this rank's own. */
static void judge_failure(struct tutti_elastic *e, enum tutti_status done, uint64_t now_ns)
{
    struct elastic_sick *const sick = e->sick;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    if (done != TUTTI_CORRUPT || tutti_comm_failure(e->comm, &failure) != TUTTI_OK ||
        failure.status != TUTTI_CORRUPT || failure.reporter != e->place.rank ||
        failure.culprit < 0 || failure.culprit >= sick->size || failure.culprit == e->place.rank)
        return;
    struct elastic_sick_rank *const rank = &sick->ranks[failure.culprit];
    if (now_ns - rank->failed_ns > FAILURE_WINDOWS * window_of(&sick->policy)) rank->failures = 0;
    rank->failed_ns = now_ns;
    if (++rank->failures >= e->options.attempt_max) rank->verdict = TUTTI_CAUSE_CORRUPT;
}

bool elastic_sick_look(struct tutti_elastic *e, enum tutti_status done)
{
    struct elastic_sick *const sick = e->sick;
    const uint64_t now_ns = clock_now_ns();
    bool is_healthy = true;
    if (sick == NULL) return true;
    if (done != TUTTI_OK || now_ns >= sick->next_look_ns) {
        sick->next_look_ns = now_ns + window_of(&sick->policy) / LOOKS_EACH_WINDOW;
        for (int r = 0; r < sick->size; r++)
            if (r != e->place.rank) judge(e, r);
    }
    judge_failure(e, done, now_ns);
    for (int r = 0; r < sick->size; r++)
        is_healthy = is_healthy && sick->ranks[r].verdict == TUTTI_CAUSE_NONE;
    return is_healthy;
}

/* ------------------------------------------------------------------------------------------- the choice */

/* The team has to be able to do without these ranks. All ranks answer alike. */
static bool may_put_out(const struct tutti_elastic *e, const int *ranks, int count)
{
    const int size = e->place.size, left = size - count;
    const bool may_replace = e->store.set != NULL && e->options.replace_wait_ns > 0;
    bool has_first = true;
    for (int i = 0; i < count; i++) has_first = has_first && ranks[i] != 0;
    if (2 * left < size || (2 * left == size && !has_first)) return false; /* no majority */
    return may_replace || left >= e->options.size_min;
}

enum tutti_status elastic_sick_agree(struct tutti_elastic *e, uint64_t *word)
{
    struct elastic_sick *const sick = e->sick;
    if (sick == NULL) return tutti_comm_agree(e->comm, word);
    const enum tutti_status status =
        tutti_comm_muster(e->comm, word, sick->chosen, &sick->chosen_count, &sick->cause);
    if (!may_put_out(e, sick->chosen, sick->chosen_count)) sick->chosen_count = 0;
    return status;
}

bool elastic_sick_needs_probe(const struct tutti_elastic *e)
{
    for (int r = 0; e->sick != NULL && r < e->sick->size; r++)
        if (e->sick->ranks[r].verdict == TUTTI_CAUSE_CORRUPT) return true;
    return false;
}

static uint64_t count_changed(const struct tutti_elastic *e, int rank)
{
    struct tutti_signs signs = {.size_bytes = sizeof signs};
    if (rank == e->place.rank || tutti_comm_signs(e->comm, rank, &signs) != TUTTI_OK) return 0;
    return signs.corrupt_count;
}

/* Large blocks from all to all: where a rank sends changed data, all others see it for themselves. Also a probe that
 * fails has shown something. */
static enum tutti_status probe(struct tutti_elastic *e)
{
    struct elastic_sick *const sick = e->sick;
    const size_t size = (size_t)sick->size;
    const size_t part = PROBE_BYTES_ALL / size < PROBE_BYTES ? PROBE_BYTES_ALL / size : PROBE_BYTES;
    uint64_t *const before = calloc(size, sizeof *before);
    unsigned char *const blocks = calloc(2 * size, part);
    enum tutti_status status = TUTTI_OK;
    if (before == NULL || blocks == NULL)
        status = error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for a probe");
    for (int r = 0; r < sick->size && status == TUTTI_OK; r++) before[r] = count_changed(e, r);
    for (int i = 0; i < PROBES && status == TUTTI_OK; i++)
        status = tutti_alltoall(blocks, blocks + size * part, part, TUTTI_UINT8, e->comm);
    for (int r = 0; r < sick->size && status != TUTTI_NO_MEMORY; r++)
        sick->ranks[r].is_probed |= count_changed(e, r) > before[r];
    free(before);
    free(blocks);
    return status;
}

/* The share of the last window in which this rank was in calls, of 255. */
static uint8_t share_in_calls(const struct tutti_elastic *e)
{
    const uint64_t window_ns = window_of(&e->sick->policy), now_ns = clock_now_ns();
    const uint64_t begin_ns = now_ns > window_ns ? now_ns - window_ns : 0;
    struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
    uint64_t sum_ns = 0;
    for (uint64_t number = 1;; number = entry.number + 1) {
        if (tutti_trace_read(e->comm, TUTTI_TRACE_COLLECTIVES, number, &entry) != TUTTI_OK ||
            entry.operation == NULL)
            break;
        const uint64_t end_ns = entry.end_ns != 0 ? entry.end_ns : now_ns;
        const uint64_t from_ns = entry.begin_ns > begin_ns ? entry.begin_ns : begin_ns;
        if (end_ns > from_ns) sum_ns += end_ns - from_ns;
    }
    return sum_ns < window_ns ? (uint8_t)(sum_ns / (window_ns / 255 + 1)) : 255;
}

/* In `all`: the verdicts of all ranks, with those of witnesses. */
static enum tutti_status gather(struct tutti_elastic *e, uint8_t *all)
{
    struct elastic_sick *const sick = e->sick;
    const size_t size = (size_t)sick->size, own = (size_t)e->place.rank;
    uint8_t *const rows = calloc(size, size + 1), *const shares = calloc(size, 1);
    enum tutti_status status = TUTTI_OK;
    if (rows == NULL || shares == NULL)
        status =
            error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks", sick->size);
    if (status == TUTTI_OK) {
        uint8_t *const row = rows + own * (size + 1);
        for (size_t r = 0; r < size; r++)
            row[r] = (uint8_t)(e->probe_is_due && sick->ranks[r].is_probed ? TUTTI_CAUSE_CORRUPT
                                                                           : sick->ranks[r].verdict);
        row[size] = share_in_calls(e);
        status = tutti_allgather(row, rows, size + 1, TUTTI_UINT8, e->comm);
    }
    for (size_t by = 0; by < size && status == TUTTI_OK; by++) {
        memcpy(all + by * size, rows + by * (size + 1), size);
        shares[by] = rows[by * (size + 1) + size];
    }
    if (status == TUTTI_OK) elastic_table_add_witnesses(all, shares, sick->size, WITNESS_SHARE);
    free(rows);
    free(shares);
    return status;
}

static const char *why(enum tutti_cause cause)
{
    switch (cause) {
    case TUTTI_CAUSE_LATE: return "it comes late, or not at all";
    case TUTTI_CAUSE_STALLED: return "it does not run, or does not answer";
    case TUTTI_CAUSE_CORRUPT: return "its data arrives changed";
    case TUTTI_CAUSE_DEVICE: return "its GPU has failed";
    default: return "it is sick";
    }
}

static void log_choice(const struct tutti_elastic *e, const uint8_t *all)
{
    const struct elastic_sick *const sick = e->sick;
    if (e->place.rank != 0 && (e->place.rank != 1 || sick->chosen[0] != 0)) return;
    for (int by = 0; by < sick->size; by++) {
        const uint8_t verdict = all[(size_t)by * (size_t)sick->size + (size_t)sick->chosen[0]];
        if (by != sick->chosen[0] && verdict != TUTTI_CAUSE_NONE)
            log_write(LOG_INFO, "elastic: rank %d found rank %d sick (cause %d)", by,
                      sick->chosen[0], verdict);
    }
}

enum tutti_status elastic_sick_choose(struct tutti_elastic *e)
{
    struct elastic_sick *const sick = e->sick;
    if (sick == NULL || sick->size < 2) return TUTTI_OK;
    const size_t size = (size_t)sick->size;
    enum tutti_cause cause = TUTTI_CAUSE_NONE;
    uint8_t *const all = calloc(size, size);
    if (all == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks", sick->size);
    enum tutti_status status = e->probe_is_due ? probe(e) : TUTTI_OK;
    if (status == TUTTI_OK) status = gather(e, all);
    uint64_t word = status == TUTTI_OK;
    if (status != TUTTI_OK) (void)tutti_comm_revoke_because(e->comm, "verdicts on sick ranks");
    /* A rank that has all verdicts must not begin what another, that lacks them, does not know of. */
    const enum tutti_status agreed = elastic_sick_agree(e, &word);
    const int found =
        agreed == TUTTI_OK && word == 1 ? elastic_table_find(all, sick->size, &cause) : -1;
    if (found >= 0 && may_put_out(e, &found, 1)) {
        sick->chosen[0] = found;
        sick->chosen_count = 1;
        sick->cause = cause;
        log_choice(e, all);
    }
    free(all);
    TRY(agreed);
    if (word != 1)
        return error_set(TUTTI_PROC_FAILED, "tutti_elastic_begin: a rank lacks the verdicts");
    if (sick->chosen_count == 0 || found != e->place.rank) return TUTTI_OK;
    sick->chosen_count = 0;
    return error_set(TUTTI_EXCLUDED, "tutti_elastic_begin: the others put rank %d out: %s", found,
                     why(cause));
}

/* The lowest rank that goes on says so. */
static void log_put_out(const struct tutti_elastic *e)
{
    const struct elastic_sick *const sick = e->sick;
    const bool may_replace = e->store.set != NULL && e->options.replace_wait_ns > 0;
    struct rank_list ranks = RANK_LIST_EMPTY;
    char waits[80] = "";
    int lowest = 0;
    for (int i = 0; i < sick->chosen_count; i++) {
        rank_list_add(&ranks, sick->chosen[i]);
        lowest += sick->chosen[i] == lowest; /* in order */
    }
    if (e->place.rank != lowest) return;
    if (may_replace)
        snprintf(waits, sizeof waits, ", and waits for a process in its place, for %.3g s at most",
                 (double)e->options.replace_wait_ns * 1e-9);
    log_write(LOG_WARN, "elastic: puts rank%s %s out in step %llu, because %s%s",
              ranks.count > 1 ? "s" : "", ranks.text, (unsigned long long)e->progress.step,
              why(sick->cause), waits);
}

enum tutti_status elastic_sick_put_out(struct tutti_elastic *e, struct tutti_comm **comm)
{
    struct elastic_sick *const sick = e->sick;
    struct tutti_exclude_options options = TUTTI_EXCLUDE_OPTIONS_INIT;
    const int count = sick->chosen_count;
    options.reason = "policy of the elastic loop";
    options.cause = sick->cause;
    log_put_out(e);
    sick->chosen_count = 0;
    return tutti_comm_exclude(e->comm, sick->chosen, count, &options, comm);
}
