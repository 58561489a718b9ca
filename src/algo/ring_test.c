#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/plans/plan_rounds.h"

/* Fraigniaud, Lazard 1994: floor(p/2) rounds, the least there can be in a cycle. */
static void two_way_ring_takes_half_the_rounds(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 33; ranks++) {
        const struct algo_params params = {.collective = COLLECTIVE_ALLGATHER, .rank_count = ranks};
        struct plan_rounds of = plan_rounds_of("two_way_ring", &params, 1);
        assert_int_equal(of.rounds.round_count, ranks / 2);
        assert_int_equal(plan_rounds_messages_max(&of), 1);
        for (uint32_t i = 0; i < of.rounds.message_count; i++) {
            const struct round_message *message = &of.rounds.messages[i];
            const int distance = (message->to - message->from + ranks) % ranks;
            assert_true(distance == 1 || distance == ranks - 1);
            assert_int_equal(message->value_count, 1);
        }
        for (int rank = 0; rank < ranks; rank++)
            assert_int_equal(plan_rounds_chunks_sent(&of, rank), ranks - 1);
        plan_rounds_release(&of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_way_ring_takes_half_the_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
