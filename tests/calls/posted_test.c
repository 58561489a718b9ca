/* Receives that are posted and that no thread waits for: they are looked at when something may have
 * happened to them, and not all the time; they fail like any other.
 *
 * ctest: label=once waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "os/clock.h"
#include "tests/worlds/ranks.h"

enum { POSTED = 300, LAST = POSTED };
static const uint64_t SECOND = 1000000000u;

static int run(int size, ranks_function *function, void *context)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 10 * SECOND;
    const struct ranks_options options = {.deadline_ms = 40000, .comm_options = &comm_options};
    return ranks_run(size, &options, function, context);
}

/* -------------------------------------------------------------------------------- what they cost */

/* How many of them were looked at since their time began. */
static int count_looks(struct tutti_comm *comm, struct tutti_request *const *posted)
{
    int count = 0;
    while (!domain_try_lock(&comm->team.domain)) ranks_nap_ms(1);
    for (int i = 0; i < POSTED; i++)
        count += posted[i]->started_ns == 0 || posted[i]->looked_ns != posted[i]->started_ns;
    domain_unlock(&comm->team.domain);
    return count;
}

static int post_many_and_wait_for_one(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                      void *context)
{
    (void)seed, (void)context, (void)size;
    char data[POSTED + 1] = {0};
    struct tutti_request *posted[POSTED], *last;
    if (rank == 1) {
        ranks_nap_ms(200);
        RANKS_EXPECT(tutti_send(data, 1, TUTTI_INT8, 0, LAST, comm) == TUTTI_OK);
        /* All look again if it leaves before they are counted. */
        RANKS_EXPECT(tutti_recv(data, 1, TUTTI_INT8, 0, LAST, NULL, comm) == TUTTI_OK);
        for (int i = 0; i < POSTED; i++)
            RANKS_EXPECT(tutti_send(data, 1, TUTTI_INT8, 0, i, comm) == TUTTI_OK);
        return 0;
    }
    for (int i = 0; i < POSTED; i++)
        RANKS_EXPECT(tutti_recv_start(&data[i], 1, TUTTI_INT8, 1, i, NULL, NULL, comm,
                                      &posted[i]) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_start(&data[LAST], 1, TUTTI_INT8, 1, LAST, NULL, NULL, comm, &last) ==
                 TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_wait(&last) == TUTTI_OK);
    if (clock_now_ns() - begin_ns > SECOND / 10) /* it has looked several times */
        RANKS_EXPECT(count_looks(comm, posted) == 0);
    RANKS_EXPECT(tutti_send(data, 1, TUTTI_INT8, 1, LAST, comm) == TUTTI_OK);
    for (int i = 0; i < POSTED; i++) RANKS_EXPECT(tutti_wait(&posted[i]) == TUTTI_OK);
    return 0;
}

static void what_nobody_waits_for_is_not_looked_at_again_and_again(void **state)
{
    (void)state;
    assert_int_equal(run(2, post_many_and_wait_for_one, NULL), 0);
}

/* -------------------------------------------------------------------------------- how they fail */

/* Waits for a message of the last rank, which does not come; the posted one fails first. */
static int expect_posted_fails(struct tutti_comm *comm, struct tutti_request *posted, int from,
                               enum tutti_status status, const char *word)
{
    const int rank = 0;
    char data;
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_recv(&data, 1, TUTTI_INT8, from, 2, NULL, comm) == status);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 8 * SECOND);
    RANKS_EXPECT(strstr(tutti_error_message(), "tag 1") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), word) != NULL);
    RANKS_EXPECT(tutti_wait(&posted) == status);
    return 0;
}

static int let_its_deadline_pass(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)context, (void)size;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_request *posted = NULL;
    char data[2];
    if (rank == 1)
        return tutti_recv(data, 1, TUTTI_INT8, 0, 2, NULL, comm) == TUTTI_TIMEOUT ? 0 : 1;
    options.timeout_ns = SECOND / 5;
    RANKS_EXPECT(tutti_recv_start(data, 1, TUTTI_INT8, 1, 1, NULL, &options, comm, &posted) ==
                 TUTTI_OK);
    return expect_posted_fails(comm, posted, 1, TUTTI_TIMEOUT, "deadline of 0.2 s");
}

static void its_deadline_passes_although_nobody_waits_for_it(void **state)
{
    (void)state;
    assert_int_equal(run(2, let_its_deadline_pass, NULL), 0);
}

/* Rank 1 leaves, before (is_late) or after the receive from it is posted. */
static int let_its_sender_leave(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)size;
    const bool is_late = *(const bool *)context;
    struct tutti_request *posted = NULL;
    char data[2] = {0};
    if (rank == 1) { /* the harness frees its communicator */
        RANKS_EXPECT(tutti_recv(data, 1, TUTTI_INT8, 0, 3, NULL, comm) == TUTTI_OK);
        return 0;
    }
    if (rank == 2)
        return tutti_recv(data, 1, TUTTI_INT8, 0, 2, NULL, comm) == TUTTI_PROC_FAILED ? 0 : 1;
    if (is_late) RANKS_EXPECT(tutti_send(data, 1, TUTTI_INT8, 1, 3, comm) == TUTTI_OK);
    ranks_nap_ms(150);
    RANKS_EXPECT(tutti_recv_start(data, 1, TUTTI_INT8, 1, 1, NULL, NULL, comm, &posted) == TUTTI_OK);
    ranks_nap_ms(50);
    if (!is_late) RANKS_EXPECT(tutti_send(data, 1, TUTTI_INT8, 1, 3, comm) == TUTTI_OK);
    return expect_posted_fails(comm, posted, 2, TUTTI_PROC_FAILED, "left the communicator");
}

static void its_sender_leaves_although_nobody_waits_for_it(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++)
        assert_int_equal(run(3, let_its_sender_leave, &(bool){is_late != 0}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_waits_for_is_not_looked_at_again_and_again),
        cmocka_unit_test(its_deadline_passes_although_nobody_waits_for_it),
        cmocka_unit_test(its_sender_leaves_although_nobody_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
