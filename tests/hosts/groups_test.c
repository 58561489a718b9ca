/* Ranks of a communicator over several hosts: those of one host send each other one message at
 * once, and share slots.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 5, HOSTS = 2, COUNT_MAX = 50000 };

/* As the harness numbers them, in turns. */
static bool are_near(int a, int b)
{
    return a % HOSTS == b % HOSTS;
}

static int calls(struct tutti_comm *comm, int rank, const char *algorithm, size_t count,
                 int32_t *in, int32_t *out)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = algorithm;
    for (size_t i = 0; i < count; i++) in[i] = (int32_t)i + rank;
    RANKS_EXPECT(tutti_allreduce_with(in, out, count, TUTTI_INT32, TUTTI_SUM, &options, comm) ==
                 TUTTI_OK);
    for (size_t i = 0; i < count; i++) RANKS_EXPECT(out[i] == RANKS * (int32_t)i + 10);
    for (int root = 0; root < RANKS; root++) {
        RANKS_EXPECT(tutti_broadcast_with(in, out, count, TUTTI_INT32, root, &options, comm) ==
                     TUTTI_OK);
        for (size_t i = 0; i < count; i++) RANKS_EXPECT(out[i] == (int32_t)i + root);
    }
    return 0;
}

/* Programs with a multicast link, and with shared slots, that are open in slot 0. */
static int look_at_programs(struct tutti_comm *comm, int rank, unsigned *multicast, unsigned *shares)
{
    for (int i = 0; i < PROGRAM_CACHE_SIZE; i++) {
        const struct program *const program = comm->programs.cached[i].program;
        if (program == NULL || program->tx[0] == NULL) continue;
        *shares += program->shares;
        for (uint32_t t = 0; t < program->tx_count; t++) {
            const struct link_tx *const link = program->tx[0][t];
            if (link->peer == LINK_TO_GROUP) {
                ++*multicast;
                continue;
            }
            RANKS_EXPECT(((link->capabilities & LINK_SHARES) != 0) == are_near(rank, link->peer));
        }
    }
    return 0;
}

static int shares_with_its_host(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)size, (void)seed;
    unsigned *const sums = context; /* of all ranks: programs that multicast, and that share */
    const struct transport *const transport = comm->team.transports.set.all;
    RANKS_EXPECT(transport->group_count == 1);
    int member = 0;
    for (int r = 0; r < RANKS; r++)
        if (are_near(rank, r)) RANKS_EXPECT(transport->groups[0].ranks[member++] == r);
    RANKS_EXPECT(transport->groups[0].count == member);

    int32_t *in = malloc(COUNT_MAX * sizeof *in), *out = malloc(COUNT_MAX * sizeof *out);
    RANKS_EXPECT(in != NULL && out != NULL);
    static const char *const algorithms[] = {NULL, "hierarchical", "hierarchical_tree"};
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
        for (size_t count = 2; count <= COUNT_MAX; count *= 10)
            if (calls(comm, rank, algorithms[a], count, in, out) != 0) return 1;
    free(in);
    free(out);
    unsigned multicast = 0, shares = 0;
    if (look_at_programs(comm, rank, &multicast, &shares) != 0) return 1;
    __atomic_fetch_add(&sums[0], multicast, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sums[1], shares, __ATOMIC_RELAXED);
    return 0;
}

static void ranks_of_a_host_multicast_and_share(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES};
    unsigned *const sums = ranks_share(2 * sizeof *sums);
    assert_int_equal(setenv("TUTTI_TEST_HOSTS", "2", 1), 0);
    assert_int_equal(ranks_run(RANKS, &options, shares_with_its_host, sums), 0);
    print_message("%u multicast links, %u programs that share\n", sums[0], sums[1]);
    assert_true(sums[0] > 0 && sums[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_host_multicast_and_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
