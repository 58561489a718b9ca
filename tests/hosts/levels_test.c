/* Ranks that take each other to be on several hosts choose, plan and agree as if they were: what is
 * called is right, and who knows other hosts is told.
 *
 * ctest: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "tests/worlds/ranks.h"
#include "topo/racks.h"

enum { RANKS = 6, COUNT_MAX = 400000 };

static const char *const host_names[RANKS] = {"a", "b", "c", "a", "b", "c"};

/* As the communicator will be given it by who creates it over several hosts. */
static int pretend_hosts(struct tutti_comm *comm, int rank, const int *host_of, const char *racks,
                         struct host_levels *levels)
{
    struct topo topo = {0};
    if (racks != NULL) RANKS_EXPECT(topo_racks_load(racks, strlen(racks), &topo) == TUTTI_OK);
    RANKS_EXPECT(host_levels_init(levels, RANKS, host_of, host_names, &topo) == TUTTI_OK);
    topo_release(&topo);
    comm->team.members.levels = levels;
    return 0;
}

static const size_t counts[] = {0, 1, 100, 20000, COUNT_MAX};

static int moves(struct tutti_comm *comm, int rank, int32_t *in, int32_t *out, size_t count)
{
    const size_t block = count / RANKS;
    for (size_t i = 0; i < block * RANKS; i++) in[i] = (int32_t)i + rank * 1000003;
    RANKS_EXPECT(tutti_allgather(in, out, block, TUTTI_INT32, comm) == TUTTI_OK);
    for (size_t r = 0; r < RANKS; r++)
        for (size_t i = 0; i < block; i++)
            RANKS_EXPECT(out[r * block + i] == (int32_t)i + (int)r * 1000003);
    for (int place = 0; place < 2; place++) {
        if (place == 1) memcpy(out, in, block * RANKS * sizeof *in);
        RANKS_EXPECT(tutti_alltoall(place == 1 ? out : in, out, block, TUTTI_INT32, comm) ==
                     TUTTI_OK);
        for (size_t r = 0; r < RANKS; r++)
            for (size_t i = 0; i < block; i++)
                RANKS_EXPECT(out[r * block + i] ==
                             (int32_t)((size_t)rank * block + i) + (int)r * 1000003);
    }
    for (int root = 0; root < RANKS; root += 5) {
        memcpy(out, in, count * sizeof *in);
        RANKS_EXPECT(tutti_broadcast(out, out, count / RANKS, TUTTI_INT32, root, comm) == TUTTI_OK);
        for (size_t i = 0; i < block; i++) RANKS_EXPECT(out[i] == (int32_t)i + root * 1000003);
    }
    return 0;
}

static int adds(struct tutti_comm *comm, int rank, int32_t *in, int32_t *out, size_t count,
                const struct tutti_call_options *options)
{
    for (size_t i = 0; i < count; i++) in[i] = (int32_t)i + rank * 10;
    memset(out, 0, count * sizeof *out);
    RANKS_EXPECT(tutti_allreduce_with(in, out, count, TUTTI_INT32, TUTTI_SUM, options, comm) ==
                 TUTTI_OK);
    for (size_t i = 0; i < count; i++) RANKS_EXPECT(out[i] == RANKS * (int32_t)i + 150);
    RANKS_EXPECT(tutti_reduce_with(in, out, count, TUTTI_INT32, TUTTI_MAX, 4, options, comm) ==
                 TUTTI_OK);
    for (size_t i = 0; i < count && rank == 4; i++) RANKS_EXPECT(out[i] == (int32_t)i + 50);
    return 0;
}

static int is_right(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    static const int host_of[RANKS] = {0, 1, 2, 0, 1, 2};
    struct host_levels levels;
    struct tutti_call_options deterministic = TUTTI_CALL_OPTIONS_INIT;
    deterministic.deterministic = 1;
    int32_t *in = malloc(COUNT_MAX * sizeof *in), *out = malloc(COUNT_MAX * sizeof *out);
    RANKS_EXPECT(in != NULL && out != NULL);
    if (pretend_hosts(comm, rank, host_of, context, &levels) != 0) return 1;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (moves(comm, rank, in, out, counts[i]) != 0 ||
            adds(comm, rank, in, out, counts[i], NULL) != 0 ||
            adds(comm, rank, in, out, counts[i], &deterministic) != 0)
            return 1;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    free(in);
    free(out);
    comm->team.members.levels = NULL;
    host_levels_release(&levels);
    return 0;
}

static void calls_over_hosts_are_right(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(RANKS, NULL, is_right, NULL), 0);
}

static void calls_over_racks_are_right(void **state)
{
    (void)state;
    static char racks[] = "r0: a c\nr1: b\n";
    assert_int_equal(ranks_run(RANKS, NULL, is_right, racks), 0);
}

static int disagrees(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int hosts[RANKS] = {0, 1, 2, 0, 1, 2}, others[RANKS] = {0, 0, 1, 1, 2, 2};
    struct host_levels levels;
    float one = 1;
    if (pretend_hosts(comm, rank, rank == 3 ? others : hosts, NULL, &levels) != 0) return 1;
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_MISMATCH);
    comm->team.members.levels = NULL;
    host_levels_release(&levels);
    return 0;
}

static void a_rank_that_knows_other_hosts_is_told(void **state)
{
    (void)state;
    const struct ranks_options options = {.deadline_ms = 20000};
    assert_int_equal(ranks_run(RANKS, &options, disagrees, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_over_hosts_are_right),
        cmocka_unit_test(calls_over_racks_are_right),
        cmocka_unit_test(a_rank_that_knows_other_hosts_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
