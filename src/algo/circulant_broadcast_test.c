#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/plans/plan_rounds.h"

static struct plan_rounds circulant(enum collective collective, int ranks, int root)
{
    const struct algo_params params = {.collective = collective, .rank_count = ranks, .root = root};
    return plan_rounds_of("circulant", &params, 1);
}

/* No broadcast can do with less: a block that leaves the root in round S is with 2^k ranks after k
 * rounds. Nobody waits for a round here, so broadcast_schedule_test shows that a rank hears from
 * one other rank in a round. */
static void broadcast_takes_s_minus_1_plus_q_rounds(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks++) {
        struct plan_rounds of = circulant(COLLECTIVE_BROADCAST, ranks, ranks * 2 / 3);
        const uint32_t blocks = of.plan->shape.parts;
        assert_true(blocks > 1);
        assert_int_equal(of.rounds.round_count, blocks - 1 + log_up(ranks, 2));
        assert_int_equal(of.rounds.message_count, blocks * (uint32_t)(ranks - 1));
        plan_rounds_release(&of);
    }
}

static const struct plan_source *message_of(const struct rank_plan *plan,
                                            const struct plan_step *step)
{
    for (uint32_t i = 0; i < step->source_count; i++)
        if (plan->sources[step->first_source + i].is_link)
            return &plan->sources[step->first_source + i];
    return NULL;
}

static void assert_opposite(const struct rank_plan *broadcast, const struct plan_step *forth,
                            const struct rank_plan *reduce, const struct plan_step *back)
{
    const struct plan_source *source = &broadcast->sources[forth->first_source];
    if (forth->target_count > 0) {
        assert_non_null(message_of(reduce, back));
        assert_int_equal(message_of(reduce, back)->peer, broadcast->targets[forth->first_target]);
        assert_int_equal(back->destination.first, source->location.first);
        assert_int_equal(back->target_count, 0);
    } else {
        assert_int_equal(back->target_count, 1);
        assert_int_equal(reduce->targets[back->first_target], source->peer);
        assert_int_equal(reduce->sources[back->first_source].location.first,
                         forth->destination.first);
    }
}

/* Message for message, so it is right in as many rounds. */
static void reduce_is_broadcast_backwards(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= ROUNDS_RANKS_MAX; ranks++) {
        struct plan_rounds broadcast = circulant(COLLECTIVE_BROADCAST, ranks, ranks / 3);
        struct plan_rounds reduce = circulant(COLLECTIVE_REDUCE, ranks, ranks / 3);
        assert_true(reduce.rounds.round_count <= broadcast.rounds.round_count);
        for (int rank = 0; rank < ranks; rank++) {
            const struct rank_plan *forth = broadcast.plan->ranks[rank];
            const struct rank_plan *back = reduce.plan->ranks[rank];
            assert_int_equal(forth->step_count, back->step_count);
            for (uint32_t i = 0; i < forth->step_count; i++)
                assert_opposite(forth, &forth->steps[i], back,
                                &back->steps[forth->step_count - 1 - i]);
        }
        plan_rounds_release(&broadcast);
        plan_rounds_release(&reduce);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcast_takes_s_minus_1_plus_q_rounds),
        cmocka_unit_test(reduce_is_broadcast_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
