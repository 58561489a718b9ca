/* notify_test.c - a thread that sleeps on an eventfd hears of every request that is done, once,
 * whoever finished it and whether that was before it asked.
 *
 * ctest: timeout=120
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

/* Whether it is added to that often and no more, in the time that a busy machine may need. */
static bool comes_to(int event_fd, uint64_t count)
{
    uint64_t seen = 0, more = 0;
    struct pollfd polled = {.fd = event_fd, .events = POLLIN};
    for (; seen < count; seen += more)
        if (poll(&polled, 1, 30000) != 1 || read(event_fd, &more, sizeof more) != sizeof more)
            return false;
    return seen == count && poll(&polled, 1, 0) == 0;
}

static int started_calls(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 40 }; /* more than there are slots */
    int64_t sums[COUNT];
    struct tutti_request *requests[COUNT];
    const int event_fd = eventfd(0, EFD_CLOEXEC);
    for (int k = 0; k < COUNT; k++) {
        sums[k] = k;
        RANKS_EXPECT(tutti_allreduce_start(&sums[k], &sums[k], 1, TUTTI_INT64, TUTTI_SUM, NULL,
                                           comm, &requests[k]) == TUTTI_OK);
        if (k % 8 == 7) ranks_nap_ms(5); /* some are done before anybody asks */
        RANKS_EXPECT(tutti_notify(requests[k], event_fd) == TUTTI_OK);
    }
    RANKS_EXPECT(comes_to(event_fd, COUNT));
    for (int k = 0; k < COUNT; k++) {
        RANKS_EXPECT(tutti_test(&requests[k]) == TUTTI_OK);
        RANKS_EXPECT(sums[k] == (int64_t)k * size);
    }
    close(event_fd);
    return 0;
}

/* Messages, and what runs twice. */
static int prepared_messages(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context;
    const int event_fd = eventfd(0, EFD_CLOEXEC);
    int64_t mine = rank, theirs;
    struct tutti_prepared *prepared;
    RANKS_EXPECT(tutti_recv_prepare(&theirs, 1, TUTTI_INT64, (rank + 1) % size, 0, NULL, NULL, comm,
                                    &prepared) == TUTTI_OK);
    for (int run = 0; run < 2; run++) {
        struct tutti_request *request;
        theirs = -1;
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_notify(request, event_fd) == TUTTI_OK);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK); /* nobody has sent */
        RANKS_EXPECT(tutti_notify(request, event_fd) == TUTTI_INVALID_REQUEST);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_send(&mine, 1, TUTTI_INT64, (rank + size - 1) % size, 0, comm) ==
                     TUTTI_OK);
        RANKS_EXPECT(comes_to(event_fd, 1));
        RANKS_EXPECT(tutti_test(&request) == TUTTI_OK && theirs == (rank + 1) % size);
    }
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    close(event_fd);
    return 0;
}

/* What ends by a failure is done, too. */
static int aborted_calls(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    const int event_fd = eventfd(0, EFD_CLOEXEC);
    struct tutti_request *request;
    int64_t message;
    RANKS_EXPECT(tutti_recv_start(&message, 1, TUTTI_INT64, rank, 0, NULL, NULL, comm, &request) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_notify(request, -1) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_notify(NULL, event_fd) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_notify(request, event_fd) == TUTTI_OK);
    const enum tutti_status status = tutti_barrier(comm); /* rank 1 may still be in it */
    RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_ABORTED);
    if (rank == 0) RANKS_EXPECT(tutti_comm_abort(comm, "enough") == TUTTI_OK);
    RANKS_EXPECT(comes_to(event_fd, 1));
    RANKS_EXPECT(tutti_test(&request) == TUTTI_ABORTED);
    close(event_fd);
    return 0;
}

static void started_calls_are_told_once_each(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(1, NULL, started_calls, NULL), 0);
    assert_int_equal(ranks_run(4, NULL, started_calls, NULL), 0);
}

static void messages_are_told_at_each_run(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, prepared_messages, NULL), 0);
}

static void failures_are_told(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, aborted_calls, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(started_calls_are_told_once_each),
        cmocka_unit_test(messages_are_told_at_each_run),
        cmocka_unit_test(failures_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
