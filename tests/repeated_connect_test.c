/* repeated_connect_test.c - a rank that connects more often than expected does not count for a rank that has not connected yet.
 *
 * Rank 0 waits for connections of two others. The first one makes all its connections several times, as it does when a callback request
 * crosses its own attempt, or when it did not hear that it was accepted. The second one is stopped meanwhile. A rank that believes that
 * all have connected looks at its listener so rarely that, if both sides do, no encrypted hello comes to its end.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "comm/network.h"
#include "comm/network_state.h"
#include "connect/port.h"
#include "os/clock.h"
#include "ranks.h"

enum { HOST, EAGER, LATE, RANKS };
enum { ATTEMPTS = 6, STOPPING_MS = 50, CONNECTING_MS = 500 };

static const uint64_t SECOND = 1000000000u;

static int connect_often(struct tutti_comm *comm, int rank)
{
    struct comm_network *const network = comm->transports.network;
    for (unsigned i = 0; i < ATTEMPTS; i++)
        RANKS_EXPECT(port_connect(&network->client, HOST, i % network->stream_count,
                                  &network->addresses[HOST],
                                  clock_now_ns() + 10 * SECOND) == TUTTI_OK);
    return 0;
}

static int wait_for_both(struct tutti_comm *comm, int rank, atomic_int *stopped)
{
    int32_t got = -1;
    RANKS_EXPECT(tutti_recv(&got, 1, TUTTI_INT32, EAGER, 1, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(got == EAGER);
    ranks_nap_ms(CONNECTING_MS); /* the progress thread accepts all connections */
    const bool still_waits = comm_network_is_joining(comm);
    kill(atomic_load(stopped), SIGCONT);
    RANKS_EXPECT(still_waits);
    return 0;
}

static int come_and_wait(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    atomic_int *const stopped = context;
    int32_t sent = rank, sum = 0;
    if (rank == LATE) {
        atomic_store(stopped, (int)getpid());
        raise(SIGSTOP);
    }
    while (atomic_load(stopped) == 0) ranks_nap_ms(1);
    ranks_nap_ms(STOPPING_MS);
    if (rank == HOST) RANKS_EXPECT(wait_for_both(comm, rank, stopped) == 0);
    if (rank == EAGER) {
        RANKS_EXPECT(connect_often(comm, rank) == 0);
        RANKS_EXPECT(tutti_send(&sent, 1, TUTTI_INT32, HOST, 1, comm) == TUTTI_OK);
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
    assert_int_equal(ranks_run(RANKS, &options, come_and_wait, ranks_share(sizeof(atomic_int))), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_connects_twice_does_not_stand_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
