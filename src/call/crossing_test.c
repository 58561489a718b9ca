/* Tests which rank says first that two ranks wait for each other in different forms. The test sets
 * the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "call/crossing.h"
#include "health/board.h"
#include "tests/worlds/ranks.h"

enum { BLOCKS, BYSTANDER, STARTS, RANKS };

static const uint64_t STEP_NS = 10000000, LIMIT_NS = 5000000000u, BEGIN_NS = 1000000000000u;

struct look {
    int rank;         /* the rank that looks */
    bool crosses;     /* else the other rank waits for nothing */
    uint64_t said_ns; /* after so long; 0: not at all */
};

/* The rank that looks writes on the board for the others, too: they do nothing. */
static int look_again_and_again(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed;
    struct look *const look = context;
    if (rank != look->rank) return 0;
    const struct call_description what = {
        .collective = COLLECTIVE_ALLREDUCE, .dtype = TUTTI_INT32, .count = 7};
    struct board *const board = comm->health.board;
    struct call_request *const request = calloc(1, sizeof *request);
    RANKS_EXPECT(request != NULL);
    *request = (struct call_request){.base = {.comm = comm, .sequence = 1, .started_ns = BEGIN_NS},
                                     .call = &request->own,
                                     .own.what = what,
                                     .begun = 1};
    board_begin(board_calls(board, size, BLOCKS, 0), &what, 1);
    if (rank != BLOCKS) board_begin(board_calls(board, size, rank, 0), &what, 1);
    if (look->crosses) board_set_awaited(board, STARTS, 1, 1, &what);
    for (uint64_t ns = 0; ns < LIMIT_NS && look->said_ns == 0; ns += STEP_NS)
        if (crossing_look(comm, request, BEGIN_NS + ns)) look->said_ns = ns;
    RANKS_EXPECT(board_has_failed(board) == (look->said_ns != 0));
    board_end(board_calls(board, size, BLOCKS, 0), 1);
    board_end(board_calls(board, size, rank, 0), 1);
    free(request);
    return 0;
}

static uint64_t said_ns(int rank, bool crosses)
{
    struct look *const look = ranks_share(sizeof *look);
    *look = (struct look){.rank = rank, .crosses = crosses};
    assert_int_equal(ranks_run(RANKS, NULL, look_again_and_again, look), 0);
    return look->said_ns;
}

/* A bystander on another host may not know of a lower pair, which the ranks of that pair know. */
static void a_bystander_lets_the_rank_that_blocks_speak_first(void **state)
{
    (void)state;
    const uint64_t own_ns = said_ns(BLOCKS, true), bystander_ns = said_ns(BYSTANDER, true);
    assert_true(own_ns > 0);
    assert_true(bystander_ns >= own_ns + 300000000); /* hosts hear of a failure before that */
}

static void where_nobody_waits_for_a_started_call_nothing_is_said(void **state)
{
    (void)state;
    assert_true(said_ns(BLOCKS, false) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bystander_lets_the_rank_that_blocks_speak_first),
        cmocka_unit_test(where_nobody_waits_for_a_started_call_nothing_is_said),
    };
    setenv("TUTTI_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
