/* A rank that has no descriptor left for its network card's connections says so: all ranks get
 * NO_DESCRIPTORS, and that rank as the one that is at fault.
 *
 * ctest: label=nosan label=once timeout=120 waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/card_game.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 2, COUNT = 1 << 18 };

static const char provider[] = "tcp;ofi_rxm";

/* From now on this process can open no more. */
static void end_descriptors(void)
{
    struct rlimit limit;
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)lowest;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Rank 0 has something for rank 1. If rank 0 is short, libfabric tells it, as it cannot send. If
 * rank 1 is, libfabric tells nobody, as that rank only cannot accept a connection. In the
 * communicator that they were given they have spoken over their cards since the start; in a copy
 * they have not. */
static int call_short(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    const int victim = *(const int *)context;
    static float numbers[COUNT];
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    struct tutti_comm *copy;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    if (rank == victim) end_descriptors();
    const enum tutti_status status =
        tutti_broadcast(numbers, numbers, COUNT, TUTTI_FLOAT32, 0, copy);
    char words[100];
    snprintf(words, sizeof words, "rank %d has no descriptor left for its network card: ", victim);
    RANKS_EXPECT(status == TUTTI_NO_DESCRIPTORS);
    RANKS_EXPECT(strstr(tutti_error_message(), words) != NULL);
    RANKS_EXPECT(tutti_comm_failure(copy, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.culprit == victim);
    return tutti_comm_free(copy) != TUTTI_OK;
}

static void a_rank_without_descriptors_is_named(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = UINT64_C(60000000000);
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .comm_options = &comm_options};
    if (!card_world_has_fabric(provider)) {
        print_message("skipped: provider %s of libfabric is not here\n", provider);
        skip();
    }
    for (int victim = 0; victim < RANKS; victim++)
        assert_int_equal(ranks_run(RANKS, &options, call_short, &victim), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_without_descriptors_is_named)};
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    setenv("TUTTI_FABRIC", provider, 1);
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
