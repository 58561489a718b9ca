/* What it costs a rank that there are many: it keeps few descriptors, and knows all the others. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/belongings.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum {
    RANKS = 100,
    DESCRIPTORS_MAX = 7
}; /* its heap, the segment, two processes that it watches; the socket of its monitor and what wakes that */

static struct tutti_id id;

static int join_and_count(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                          void *context)
{
    (void)unused, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    options.rank = rank;
    options.size = size;
    options.id = &id;
    const int before = belongings_descriptors();
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(belongings_descriptors() - before <= DESCRIPTORS_MAX);
    int32_t sum = rank;
    RANKS_EXPECT(tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(sum == size * (size - 1) / 2);
    RANKS_EXPECT(belongings_descriptors() - before <= DESCRIPTORS_MAX);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(belongings_descriptors() == before);
    return 0;
}

static void many_ranks_keep_few_descriptors(void **state)
{
    (void)state;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    assert_int_equal(tutti_id_create(&id), TUTTI_OK);
    assert_int_equal(ranks_run(RANKS, &options, join_and_count, NULL), 0);
}

/* Three in a row, so that some of the dead were watched by the dead. */
static int some_of_many_die(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed;
    const int first = *(const int *)context;
    const int distance = (rank - first + size) % size;
    if (distance < 3) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    int32_t sum = rank;
    RANKS_EXPECT(tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_PROC_FAILED);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT((failure.culprit - first + size) % size < 3);
    return 0;
}

static void deaths_among_many_are_noticed(void **state)
{
    (void)state;
    static struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .outcomes = outcomes};
    for (int first = 40; first < RANKS; first += 58) { /* also across the end */
        assert_int_equal(ranks_run(RANKS, &options, some_of_many_die, &first), 3);
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(outcomes[r].fate,
                             (r - first + RANKS) % RANKS < 3 ? RANKS_SIGNALLED : RANKS_GOOD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_ranks_keep_few_descriptors),
        cmocka_unit_test(deaths_among_many_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
