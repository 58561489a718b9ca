/* Communicators of several hosts begin and end: a failure comes before a rank has looked whether
 * all have joined; a rank leaves before another one's first message to it.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "health/heartbeats.h"
#include "health/lock.h"
#include "health/network_join.h"
#include "health/network_state.h"
#include "health/remote_rank.h"
#include "os/clock.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;

/* Rank 0 joins what it has joined already: it knows that all have, and of a failure since. */
static int join_what_has_failed(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    struct health *const health = &comm->health;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank != 0) return 0;
    RANKS_EXPECT(tutti_comm_abort(comm, "the test says so") == TUTTI_OK);
    RANKS_EXPECT(health_lock_failed(health, 10 * SECOND) == TUTTI_OK);
    heartbeats_free(health->network);
    health->network->heartbeat = NULL; /* joining begins another one */
    const enum tutti_status joined = network_join(health, NULL, NULL, clock_now_ns() + 10 * SECOND);
    health_unlock(health);
    RANKS_EXPECT(joined == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_ABORTED);
    return 0;
}

static void a_failure_after_all_have_joined_is_the_first_call_s_to_report(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES};
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    const int bad = ranks_run(2, &options, join_what_has_failed, NULL);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(bad, 0);
}

/* Rank 1 has left when rank 2 tells it something for the first time: there is no connection, and
 * none will be made. */
static int tell_who_has_left(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    struct tutti_comm *copy;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    if (rank == 1) RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 2) {
        struct peer_report report;
        const struct control *const control = copy->health.network->control;
        RANKS_EXPECT(health_lock(&copy->health, 10 * SECOND) == TUTTI_OK);
        remote_ask(&copy->health, 1, 0, 1);
        control->ops->report(control, 1, &report);
        RANKS_EXPECT(report.state == PEER_WANTED && control->ops->unheard(control, 1) > 0);
        health_unlock(&copy->health);
    }
    const uint64_t begin_ns = clock_now_ns();
    if (rank != 1) RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 10 * SECOND); /* not the deadline of calls */
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

static void who_left_first_is_not_waited_for(void **state)
{
    (void)state;
    struct tutti_comm_options patient = TUTTI_COMM_OPTIONS_INIT;
    patient.timeout_ns = 60 * SECOND;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    setenv("TUTTI_TEST_HOSTS", "3", 1);
    setenv("TUTTI_HEARTBEAT", "0", 1);
    const int bad = ranks_run(3, &options, tell_who_has_left, NULL);
    unsetenv("TUTTI_HEARTBEAT");
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_after_all_have_joined_is_the_first_call_s_to_report),
        cmocka_unit_test(who_left_first_is_not_waited_for),
    };
    setenv("TUTTI_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
