/* A provider of libfabric keeps what it was given, and never says that it is done: the ranks are
 * told long before the deadline of their call.
 *
 * ctest: label=long label=nosan label=once timeout=180 waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/fabric/fabric_shim.h"
#include "tests/worlds/card_game.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 2, COUNT = 1 << 18, CALLS = 200 };

static const char provider[] = "tcp;ofi_rxm";

/* A call that goes on to its deadline ends with TIMEOUT. */
static int call_until_it_fails(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)size, (void)seed, (void)context;
    static float numbers[COUNT];
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < CALLS && status == TUTTI_OK; i++)
        status = tutti_allreduce(numbers, numbers, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED || status == TUTTI_MINORITY);
    return 0;
}

static void what_a_provider_keeps_is_a_failure(void **state)
{
    (void)state;
    static const struct fabric_shim keeps = {.name = "keeps", .done_max = 100};
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = UINT64_C(60000000000);
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .comm_options = &comm_options};
    if (!card_world_has_fabric(provider)) {
        print_message("skipped: provider %s of libfabric is not here\n", provider);
        skip();
    }
    fabric_shim_use(&keeps, 1); /* the ranks inherit it */
    assert_int_equal(ranks_run(RANKS, &options, call_until_it_fails, NULL), 0);
    fabric_shim_use(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_provider_keeps_is_a_failure)};
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    setenv("TUTTI_FABRIC", provider, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
