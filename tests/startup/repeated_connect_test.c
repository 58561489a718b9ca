/* repeated_connect_test.c - a rank that connects more often than expected does not count for a rank
 * that has not connected yet.
 *
 * Rank 0 waits for connections of two others. The first one makes all its connections again and
 * again, as it does when a callback request crosses its own attempt, or when it did not hear that
 * it was accepted. The second one is stopped meanwhile. A rank that believes that all have
 * connected looks at its listener so rarely that, if both sides do, no encrypted hello comes to its
 * end.
 *
 * Rank 0 counts the connections itself: a port that is asked for a connection which it is making
 * already makes no other one.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "health/lock.h"
#include "health/network.h"
#include "os/clock.h"
#include "tests/worlds/ranks.h"
#include "transport/tcp/endpoint_state.h"

enum { HOST, EAGER, LATE, RANKS };
enum { STOPPING_MS = 50, PAUSE_MS = 1 };

static const uint64_t SECOND = 1000000000u;

struct shared {
    atomic_int stopped; /* the process of LATE */
    atomic_bool is_enough;
};

static struct endpoint *endpoint_of(struct tutti_comm *comm)
{
    return (struct endpoint *)comm->team.transports.set.tcp;
}

static int connect_often(struct tutti_comm *comm, int rank, struct shared *shared)
{
    struct endpoint *const endpoint = endpoint_of(comm);
    const uint64_t deadline_ns = clock_now_ns() + 20 * SECOND;
    struct remote_location is_at;
    endpoint->locates(endpoint->context, HOST, &is_at);
    while (!atomic_load(&shared->is_enough)) {
        for (unsigned stream = 0; stream < endpoint->stream_count; stream++)
            RANKS_EXPECT(port_connect(&endpoint->client, HOST, stream, &is_at.port, deadline_ns) ==
                         TUTTI_OK);
        ranks_nap_ms(PAUSE_MS);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    }
    return 0;
}

/* As many as are missing, which are those of LATE: with the domain held, so that nobody else takes
 * them. */
static int take_again(struct tutti_comm *comm, int rank)
{
    struct endpoint *const endpoint = endpoint_of(comm);
    const uint64_t deadline_ns = clock_now_ns() + 15 * SECOND;
    const unsigned missing = endpoint->missing;
    RANKS_EXPECT(missing >= endpoint->stream_count);
    for (unsigned taken = 0; taken <= missing;) {
        port_progress(clock_now_ns());
        taken += atomic_load(&endpoint->client.delivered_count);
        network_progress(&comm->health);
        RANKS_EXPECT(clock_now_ns() < deadline_ns);
    }
    RANKS_EXPECT(endpoint->control.ops->is_connecting(&endpoint->control));
    return 0;
}

static int wait_for_both(struct tutti_comm *comm, int rank, struct shared *shared)
{
    int32_t got = -1;
    RANKS_EXPECT(tutti_recv(&got, 1, TUTTI_INT32, EAGER, 1, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(got == EAGER);
    RANKS_EXPECT(health_lock(&comm->health, 10 * SECOND) == TUTTI_OK);
    const int failed = take_again(comm, rank);
    health_unlock(&comm->health);
    atomic_store(&shared->is_enough, true);
    kill(atomic_load(&shared->stopped), SIGCONT);
    return failed;
}

static int come_and_wait(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    struct shared *const shared = context;
    int32_t sent = rank, sum = 0;
    if (rank == LATE) {
        atomic_store(&shared->stopped, (int)getpid());
        raise(SIGSTOP);
    }
    while (atomic_load(&shared->stopped) == 0) ranks_nap_ms(PAUSE_MS);
    ranks_nap_ms(STOPPING_MS);
    if (rank == HOST) RANKS_EXPECT(wait_for_both(comm, rank, shared) == 0);
    if (rank == EAGER) {
        RANKS_EXPECT(tutti_send(&sent, 1, TUTTI_INT32, HOST, 1, comm) == TUTTI_OK);
        RANKS_EXPECT(connect_often(comm, rank, shared) == 0);
    }
    RANKS_EXPECT(tutti_allreduce(&sent, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(sum == HOST + EAGER + LATE);
    return 0;
}

static void a_rank_that_connects_twice_does_not_stand_for_another(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 30 * SECOND;
    comm_options.encryption = TUTTI_ENCRYPTION_ON;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &comm_options};
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    assert_int_equal(ranks_run(RANKS, &options, come_and_wait, ranks_share(sizeof(struct shared))),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_connects_twice_does_not_stand_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
