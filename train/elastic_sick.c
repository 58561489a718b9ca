#include "elastic_sick.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/sized.h"
#include "os/clock.h"

enum {
    CAUSES = TUTTI_CAUSE_DEVICE, /* without NONE */
    LOOKS = 20,                  /* in which another thread may have the communicator */
    TRIES = 3,
    LOOKS_EACH_WINDOW = 10
};
#define WINDOW_NS UINT64_C(10000000000) /* the default of the policy */

struct elastic_sick_rank {
    struct tutti_exclude_history history;
    struct tutti_signs seen;   /* of this communicator */
    uint64_t held_ns, corrupt; /* of those before */
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
    e->sick->rank = -1;
    return TUTTI_OK;
}

void elastic_sick_close(struct tutti_elastic *e)
{
    if (e->sick == NULL) return;
    free(e->sick->ranks);
    free(e->sick);
    e->sick = NULL;
}

void elastic_sick_forget(struct tutti_elastic *e)
{
    struct elastic_sick *const sick = e->sick;
    e->choice_is_due = false; /* the process that has joined knows nothing of it */
    if (sick == NULL || sick->ranks == NULL) return;
    memset(sick->ranks, 0, (size_t)sick->size * sizeof *sick->ranks);
    sick->failures = 0;
}

enum tutti_status elastic_sick_follow(struct tutti_elastic *e)
{
    struct elastic_sick *const sick = e->sick;
    if (sick == NULL) return TUTTI_OK;
    sick->rank = -1;
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
    sick->ranks = calloc((size_t)e->place.size, sizeof *sick->ranks);
    sick->size = sick->ranks != NULL ? e->place.size : 0;
    sick->failures = 0;
    if (sick->ranks != NULL) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks", e->place.size);
}

/* --------------------------------------------------------------------------------- verdicts of this rank */

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

/* A step that fails again and again because of one rank is a verdict on it. */
static void judge_failure(struct tutti_elastic *e, enum tutti_status done)
{
    struct elastic_sick *const sick = e->sick;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    sick->failures = done == TUTTI_CORRUPT ? sick->failures + 1 : 0;
    if (sick->failures < e->options.attempt_max ||
        tutti_comm_failure(e->comm, &failure) != TUTTI_OK || failure.status != TUTTI_CORRUPT)
        return;
    if (failure.culprit >= 0 && failure.culprit < sick->size && failure.culprit != e->place.rank)
        sick->ranks[failure.culprit].verdict = TUTTI_CAUSE_CORRUPT;
}

bool elastic_sick_look(struct tutti_elastic *e, enum tutti_status done)
{
    struct elastic_sick *const sick = e->sick;
    const uint64_t now_ns = clock_now_ns();
    bool is_healthy = true;
    if (sick == NULL) return true;
    if (done != TUTTI_OK || now_ns >= sick->next_look_ns) {
        const uint64_t window_ns = sick->policy.window_ns > 0 ? sick->policy.window_ns : WINDOW_NS;
        sick->next_look_ns = now_ns + window_ns / LOOKS_EACH_WINDOW;
        for (int r = 0; r < sick->size; r++)
            if (r != e->place.rank) judge(e, r);
    }
    judge_failure(e, done);
    for (int r = 0; r < sick->size; r++)
        is_healthy = is_healthy && sick->ranks[r].verdict == TUTTI_CAUSE_NONE;
    return is_healthy;
}

/* ------------------------------------------------------------------------------------------- the choice */

/* The team has to be able to do without a rank. */
static bool may_put_out(const struct tutti_elastic *e, int rank)
{
    const bool may_replace = e->store.set != NULL && e->options.replace_wait_ns > 0;
    if (e->place.size < 2 || (e->place.size == 2 && rank == 0)) return false; /* no majority */
    return may_replace || e->place.size > e->options.size_min;
}

/* The rank with the most verdicts; -1: none, or several have equally many. */
static int most_accused(const int32_t *counts, int size, enum tutti_cause *cause)
{
    int found = -1;
    int32_t most = 0;
    for (int r = 0; r < size; r++) {
        int32_t sum = 0;
        for (int c = 0; c < CAUSES; c++) sum += counts[r * CAUSES + c];
        if (sum > 0 && sum == most) found = -1;
        if (sum <= most) continue;
        most = sum;
        found = r;
    }
    *cause = TUTTI_CAUSE_NONE;
    for (int c = 0; c < CAUSES && found >= 0; c++)
        if (counts[found * CAUSES + c] > 0) *cause = (enum tutti_cause)(c + 1);
    return found;
}

enum tutti_status elastic_sick_choose(struct tutti_elastic *e, bool *is_chosen)
{
    struct elastic_sick *const sick = e->sick;
    *is_chosen = false;
    if (sick == NULL || sick->size < 2) return TUTTI_OK;
    const size_t count = (size_t)sick->size * CAUSES;
    int32_t *const counts = calloc(count, sizeof *counts);
    if (counts == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_elastic_begin: no memory for %d ranks", sick->size);
    for (int r = 0; r < sick->size; r++)
        if (sick->ranks[r].verdict != TUTTI_CAUSE_NONE)
            counts[r * CAUSES + (int)sick->ranks[r].verdict - 1] = 1;
    const enum tutti_status status =
        tutti_allreduce(counts, counts, count, TUTTI_INT32, TUTTI_SUM, e->comm);
    enum tutti_cause cause = TUTTI_CAUSE_NONE;
    const int found = status == TUTTI_OK ? most_accused(counts, sick->size, &cause) : -1;
    free(counts);
    TRY(status);
    if (found < 0 || !may_put_out(e, found)) return TUTTI_OK;
    if (found == e->place.rank)
        return error_set(TUTTI_EXCLUDED, "tutti_elastic_begin: the others put rank %d out", found);
    sick->rank = found;
    sick->cause = cause;
    *is_chosen = true;
    return TUTTI_OK;
}

/* The only other rank that does not run; -1: there is none, or are several. */
static int find_stalled(struct tutti_elastic *e)
{
    int found = -1, count = 0;
    for (int look = 0; look < LOOKS && count == 0; look++) {
        for (int r = 0; r < e->place.size; r++) {
            struct tutti_signs signs = {.size_bytes = sizeof signs};
            if (r == e->place.rank || tutti_comm_signs(e->comm, r, &signs) != TUTTI_OK) continue;
            if (signs.is_stalled == 0) continue;
            found = r;
            count++;
        }
        if (count == 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return count == 1 ? found : -1;
}

bool elastic_sick_find(struct tutti_elastic *e, enum tutti_status status)
{
    struct elastic_sick *const sick = e->sick;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    if (sick == NULL || (status != TUTTI_TIMEOUT && status != TUTTI_EXCLUDED &&
                         status != TUTTI_DESYNC && status != TUTTI_CORRUPT))
        return false;
    if (tutti_comm_failure(e->comm, &failure) != TUTTI_OK) return false;
    sick->rank = -1;
    sick->cause = TUTTI_CAUSE_NONE;
    if (failure.status == TUTTI_EXCLUDED) {
        sick->rank = failure.culprit;
    } else if (failure.status == TUTTI_CORRUPT) {
        sick->rank = failure.culprit;
        sick->cause = TUTTI_CAUSE_CORRUPT;
    } else if ((sick->rank = find_stalled(e)) >= 0) {
        sick->cause = TUTTI_CAUSE_STALLED;
    } else if (failure.status == TUTTI_TIMEOUT) {
        sick->rank = failure.culprit;
        sick->cause = TUTTI_CAUSE_LATE;
    }
    const bool is_other =
        sick->rank >= 0 && sick->rank < e->place.size && sick->rank != e->place.rank;
    if (!is_other || !may_put_out(e, sick->rank)) sick->rank = -1;
    return sick->rank >= 0;
}

/* Ranks that wanted to put out different ranks agree on those whom the communicator's failure names. */
enum tutti_status elastic_sick_put_out(struct tutti_elastic *e, struct tutti_comm **comm)
{
    struct elastic_sick *const sick = e->sick;
    struct tutti_exclude_options options = TUTTI_EXCLUDE_OPTIONS_INIT;
    enum tutti_status status = TUTTI_DESYNC;
    options.reason = "policy of the elastic loop";
    for (int i = 0; i < TRIES && status == TUTTI_DESYNC && sick->rank >= 0; i++) {
        const int rank = sick->rank;
        options.cause = sick->cause;
        status = tutti_comm_exclude(e->comm, &rank, 1, &options, comm);
        if (status == TUTTI_DESYNC && !elastic_sick_find(e, status)) return status;
    }
    sick->rank = -1;
    return status;
}
