/* An elastic loop puts out ranks that are sick, but not dead: they are told so, a process takes the place, and the
 * others go on with the state; without a policy nobody is put out.
 *
 * ctest: label=once timeout=600 waits
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/cases.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "tests/worlds/ways.h"
#include "tutti/train/elastic.h"

enum {
    FOUNDERS = 4,
    VICTIM = 2,
    KILLED = 1, /* where the victim stops while the others meet */
    BEGIN = 10,
    STEPS = 600,
    LATE_MS = 1000,
    PAUSE_MS = 2500,
    COUNT = 5000
};
static const uint64_t SECOND = 1000000000u;
static char folder[SCRATCH_BYTES];

enum sickness { LATE, STOPPED, PAUSED, STOPS_LATER };

struct setting {
    enum sickness sickness;
    int joiners;
    bool has_policy;
    bool waits;   /* for a process that does not come, for longer than calls */
    int after_ms; /* STOPS_LATER: the time from the call that failed because another rank died */
};

/* Shared by all processes. */
struct endings {
    _Atomic int is_struck, finished, excluded, timed_out, size_at_end, others_left;
    _Atomic pid_t victim;
};
static struct endings *endings;

static enum tutti_status open_loop(const struct setting *setting, int process, int64_t *state,
                                   struct tutti_elastic **elastic)
{
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    struct tutti_exclude_policy policy = TUTTI_EXCLUDE_POLICY_INIT;
    const struct tutti_elastic_array array = {"state", TUTTI_ELASTIC_REPLICATED, TUTTI_INT64, COUNT,
                                              state};
    const bool joins = process >= FOUNDERS;
    static const uint64_t timeouts_s[] = {
        [LATE] = 60, [STOPPED] = 5, [PAUSED] = 60, [STOPS_LATER] = 3};
    comm.timeout_ns = timeouts_s[setting->sickness] * SECOND;
    comm.init_timeout_ns = 60 * SECOND;
    comm.rank = joins ? -1 : process;
    comm.size = joins ? -1 : FOUNDERS;
    policy.window_ns = SECOND / 5;
    options.comm_options = &comm;
    options.joins = joins;
    options.step_count = STEPS;
    options.replace_wait_ns = setting->joiners > 0 ? 60 * SECOND : setting->waits ? 15 * SECOND : 0;
    options.grow_wait_ns = 0;
    options.join_wait_ns = 100 * SECOND;
    options.exclude_policy = setting->has_policy ? &policy : NULL;
    return tutti_elastic_open(&array, 1, &options, elastic);
}

/* A process of its own sends this one a signal after a while. */
static void signal_later(int number, unsigned after_ms)
{
    const pid_t self = getpid();
    if (fork() != 0) return;
    ranks_nap_ms(after_ms);
    if (getppid() == self) kill(self, number);
    _exit(0);
}

/* The victim alone: from the step BEGIN on. It stops once: nobody would let it go on a second time, when it goes on
 * alone after the others have ended. */
static void be_sick(const struct setting *setting)
{
    const bool is_first = atomic_exchange(&endings->is_struck, 1) == 0;
    atomic_store(&endings->victim, getpid());
    if (setting->sickness == LATE) ranks_nap_ms(LATE_MS);
    if (setting->sickness == PAUSED && is_first) signal_later(SIGCONT, PAUSE_MS);
    if (setting->sickness != LATE && is_first) raise(SIGSTOP);
}

/* A step did not count, because another rank died: the victim stops before it meets the others, or soon after. */
static void stop_later(const struct setting *setting)
{
    if (atomic_exchange(&endings->is_struck, 1) != 0) return;
    atomic_store(&endings->victim, getpid());
    if (setting->after_ms > 0)
        signal_later(SIGSTOP, (unsigned)setting->after_ms);
    else
        raise(SIGSTOP);
}

static void strike(const struct setting *setting, int process, uint64_t step)
{
    if (step < BEGIN) return;
    if (setting->sickness == STOPS_LATER && process == KILLED) raise(SIGKILL);
    if (setting->sickness == STOPS_LATER) ranks_nap_ms(2); /* so that the loop is not over before */
    if (setting->sickness != STOPS_LATER && process == VICTIM) be_sick(setting);
}

/* The last that ends lets a stopped process go on, so that it hears of it, too. */
static void end(const struct setting *setting)
{
    const bool stops = setting->sickness == STOPPED || setting->sickness == STOPS_LATER;
    const int lost = setting->sickness == STOPS_LATER ? 2 : 1,
              left = FOUNDERS - lost + setting->joiners;
    if (atomic_fetch_add(&endings->others_left, 1) + 1 == left && stops)
        kill(atomic_load(&endings->victim), SIGCONT);
}

/* The status with which the loop ended; OK: all steps were done. */
static enum tutti_status loop(struct tutti_elastic *elastic, const struct setting *setting,
                              int process, int64_t *state)
{
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    for (;;) {
        int64_t gradients[COUNT];
        int is_committed = 0;
        enum tutti_status status = tutti_elastic_begin(elastic, &step);
        if (status != TUTTI_OK) return status;
        if (step.is_over) break;
        strike(setting, process, step.number);
        for (int i = 0; i < COUNT; i++) gradients[i] = (int64_t)step.number + i;
        status = tutti_allreduce(gradients, gradients, COUNT, TUTTI_INT64, TUTTI_MAX,
                                 tutti_elastic_comm(elastic));
        status = tutti_elastic_commit(elastic, status, &is_committed);
        if (status != TUTTI_OK) return status;
        if (!is_committed && process == VICTIM && setting->sickness == STOPS_LATER)
            stop_later(setting);
        for (int i = 0; is_committed && i < COUNT; i++) state[i] += gradients[i];
    }
    atomic_store(&endings->size_at_end, step.size);
    return TUTTI_OK;
}

static bool is_right(const int64_t *state)
{
    const int64_t sum = (int64_t)STEPS * (STEPS - 1) / 2;
    for (int i = 0; i < COUNT; i++)
        if (state[i] != sum + (int64_t)STEPS * i) return false;
    return true;
}

static int take_part(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    const struct setting *const setting = context;
    int64_t *const state = calloc(COUNT, sizeof *state);
    struct tutti_elastic *elastic;
    (void)none, (void)size, (void)seed;
    setenv("TUTTI_ELASTIC_STORE", folder, 1);
    RANKS_EXPECT(state != NULL && open_loop(setting, rank, state, &elastic) == TUTTI_OK);
    const enum tutti_status status = loop(elastic, setting, rank, state);
    if (status != TUTTI_OK) printf("process %d: %s\n", rank, tutti_error_message());
    if (rank != VICTIM) end(setting);
    atomic_fetch_add(&endings->excluded, status == TUTTI_EXCLUDED && rank == VICTIM);
    atomic_fetch_add(&endings->timed_out, status == TUTTI_TIMEOUT && rank != VICTIM);
    atomic_fetch_add(&endings->finished, status == TUTTI_OK && is_right(state));
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    free(state);
    return 0;
}

static void run(struct setting setting)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 200000, .without_comm = true};
    memset(endings, 0, sizeof *endings);
    scratch_make(folder);
    const int bad = ranks_run(FOUNDERS + setting.joiners, &options, take_part, &setting);
    scratch_remove(folder);
    assert_int_equal(bad, setting.sickness == STOPS_LATER); /* the rank that is killed */
}

static void run_without_the_victim(struct setting setting)
{
    if (ranks_are_threads()) skip();
    run(setting);
    assert_int_equal(atomic_load(&endings->excluded), 1);
    assert_int_equal(atomic_load(&endings->finished), FOUNDERS - 1 + setting.joiners);
    assert_int_equal(atomic_load(&endings->size_at_end), FOUNDERS - 1 + setting.joiners);
}

static void a_late_rank_is_put_out_and_the_others_go_on(void **state)
{
    (void)state;
    run_without_the_victim((struct setting){LATE, 0, true, false, 0});
}

static void a_process_takes_the_place_of_a_late_rank(void **state)
{
    (void)state;
    run_without_the_victim((struct setting){LATE, 1, true, false, 0});
}

static void a_stopped_rank_is_put_out_at_the_deadline(void **state)
{
    (void)state;
    run_without_the_victim((struct setting){STOPPED, 0, true, false, 0});
}

static void where_no_process_comes_for_longer_than_a_deadline_the_others_go_on(void **state)
{
    (void)state;
    run_without_the_victim((struct setting){STOPPED, 0, true, true, 0});
}

static void a_process_takes_the_place_of_a_stopped_rank(void **state)
{
    (void)state;
    run_without_the_victim((struct setting){STOPPED, 1, true, false, 0});
}

static void a_rank_that_stops_for_less_than_the_deadline_stays(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    run((struct setting){PAUSED, 0, true, false, 0});
    assert_int_equal(atomic_load(&endings->excluded), 0);
    assert_int_equal(atomic_load(&endings->finished), FOUNDERS);
    assert_int_equal(atomic_load(&endings->size_at_end), FOUNDERS);
}

/* The victim stops while the others meet, in one of the agreements or between them. It goes on when they are done, and has
 * no part in the team. */
static void a_rank_that_stops_while_the_others_meet_is_left_out(void **state)
{
    const struct setting *const setting = *state;
    if (ranks_are_threads()) skip();
    run(*setting);
    assert_int_equal(atomic_load(&endings->finished), FOUNDERS - 2 + setting->joiners);
    assert_int_equal(atomic_load(&endings->size_at_end), FOUNDERS - 2 + setting->joiners);
}

static void without_a_policy_nobody_is_put_out(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    run((struct setting){STOPPED, 0, false, false, 0});
    assert_int_equal(atomic_load(&endings->excluded), 0);
    assert_int_equal(atomic_load(&endings->timed_out), FOUNDERS - 1);
}

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    endings = ranks_share(sizeof *endings);
/* On one host, and where each rank takes itself to be on a host of its own. */
#define IN_BOTH_PLACES(function) \
    CASE_OF(function, in_shared_memory), CASE_OF(function, on_four_hosts)
#define STOPS_AFTER(ms, joiners, way)                                                            \
    CASE_WITH("a_rank_that_stops_while_the_others_meet_is_left_out, after " #ms " ms, " #joiners \
              " joiners, " #way,                                                                 \
              a_rank_that_stops_while_the_others_meet_is_left_out, way,                          \
              (&(struct setting){STOPS_LATER, joiners, true, false, ms}))
    const struct CMUnitTest tests[] = {
        IN_BOTH_PLACES(where_no_process_comes_for_longer_than_a_deadline_the_others_go_on),
        STOPS_AFTER(0, 0, in_shared_memory),
        STOPS_AFTER(0, 0, on_four_hosts),
        STOPS_AFTER(2, 2, in_shared_memory),
        STOPS_AFTER(4, 2, on_four_hosts),
        STOPS_AFTER(8, 0, in_shared_memory),
        STOPS_AFTER(15, 0, on_four_hosts),
        IN_BOTH_PLACES(a_stopped_rank_is_put_out_at_the_deadline),
        IN_BOTH_PLACES(a_process_takes_the_place_of_a_stopped_rank),
        IN_BOTH_PLACES(a_late_rank_is_put_out_and_the_others_go_on),
        IN_BOTH_PLACES(a_process_takes_the_place_of_a_late_rank),
        IN_BOTH_PLACES(a_rank_that_stops_for_less_than_the_deadline_stays),
        CASE_OF(without_a_policy_nobody_is_put_out, in_shared_memory),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
