#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/text.h"
#include "studio/plan/rounds.h"

static struct plan *parse(const char *text)
{
    struct plan *plan;
    char message[200];
    if (plan_parse(text, strlen(text), &plan, message, sizeof message) != TUTTI_OK)
        fail_msg("%s", message);
    return plan;
}

static struct rounds run(const struct plan *plan, unsigned ports, const double *values,
                         uint32_t value_count)
{
    struct rounds rounds;
    const char *message;
    const struct rounds_options options = {
        .ports = ports, .example_values = values, .value_count = value_count};
    if (rounds_init(&rounds, plan, &options, &message) != TUTTI_OK) fail_msg("%s", message);
    return rounds;
}

static void ring_takes_four_rounds_and_adds_up(void **state)
{
    (void)state;
    static const double values[] = {2, 4, 6, 1, 2, 3, 4, 8, 12};
    static const double sums[] = {7, 14, 21};
    struct plan *plan = parse("plan allreduce ranks 3 parts 3\n"
                              "rank 0\nlane 0\nin[0] -> to 1\nfrom 2 + in[2] -> to 1\n"
                              "from 2 + in[1] -> out[1], to 1 final\n"
                              "from 2 -> out[0], to 1\nfrom 2 -> out[2]\n"
                              "rank 1\nlane 0\nin[1] -> to 2\nfrom 0 + in[0] -> to 2\n"
                              "from 0 + in[2] -> out[2], to 2 final\n"
                              "from 0 -> out[1], to 2\nfrom 0 -> out[0]\n"
                              "rank 2\nlane 0\nin[2] -> to 0\nfrom 1 + in[1] -> to 0\n"
                              "from 1 + in[0] -> out[0], to 0 final\n"
                              "from 1 -> out[2], to 0\nfrom 1 -> out[1]\n");
    struct rounds rounds = run(plan, 1, values, 3);
    assert_int_equal(rounds.round_count, 4);
    assert_int_equal(rounds.message_count, 12);
    assert_int_equal(rounds.result_count, 15);
    int complete = 0;
    for (uint32_t i = 0; i < rounds.result_count; i++) {
        const struct round_result *result = &rounds.results[i];
        assert_int_equal(result->round, result->step); /* one step a round */
        const struct round_value *value = &rounds.values[result->first_value];
        if (value->ranks != 7) continue;
        assert_true(value->number == sums[value->chunk_class]);
        complete++;
    }
    assert_int_equal(complete, 9);
    rounds_release(&rounds);
    plan_free(plan);
}

static void a_lane_sends_as_many_messages_a_round_as_it_has_ports(void **state)
{
    (void)state;
    struct plan *plan = parse("plan broadcast ranks 4 root 0 parts 1\n"
                              "rank 0\nlane 0\nin[0] -> out[0], to 1, to 2\nin[0] -> to 3\n"
                              "rank 1\nlane 0\nfrom 0 -> out[0]\n"
                              "rank 2\nlane 0\nfrom 0 -> out[0]\n"
                              "rank 3\nlane 0\nfrom 0 -> out[0]\n");
    static const unsigned ports[] = {1, 2, 3, 0}, round_counts[] = {3, 2, 1, 1};
    for (int i = 0; i < 4; i++) {
        struct rounds rounds = run(plan, ports[i], NULL, 0);
        assert_int_equal(rounds.round_count, round_counts[i]);
        assert_int_equal(rounds.messages[0].round, 1);
        assert_int_equal(rounds.messages[2].round, round_counts[i]);
        rounds_release(&rounds);
    }
    plan_free(plan);
}

static void a_message_to_a_group_is_one_message(void **state)
{
    (void)state;
    struct plan *plan = parse("plan broadcast ranks 3 root 0 parts 1\n"
                              "rank 0\ngroup 0: 0..2\nlane 0\nin[0] -> out[0], to group 0\n"
                              "rank 1\ngroup 0: 0..1\ngroup 1: 0..2\nlane 0\n"
                              "from 0 group 1 -> out[0]\n"
                              "rank 2\ngroup 0: 0..2\nlane 0\nfrom 0 group 0 -> out[0]\n");
    struct rounds rounds = run(plan, 1, NULL, 0);
    assert_int_equal(rounds.round_count, 1);
    assert_int_equal(rounds.message_count, 2);
    rounds_release(&rounds);
    plan_free(plan);
}

static void two_sources_of_one_link_take_two_messages(void **state)
{
    (void)state;
    static const double values[] = {0, 0, 3, 5};
    struct plan *plan = parse("plan reduce ranks 2 root 0 parts 2\n"
                              "rank 0\nlane 0\nfrom 1 + in[0] -> out[0] final\n"
                              "from 1 + in[1] -> out[1] after 1.0\n"
                              "lane 1\nfrom 1 channel 1 + from 1 channel 1 -> out[0]\n"
                              "rank 1\nlane 0\nin[0] -> to 0\nin[1] -> to 0\n"
                              "in[0] -> to 0 channel 1\nin[0] -> to 0 channel 1\n");
    struct rounds rounds = run(plan, 1, values, 2);
    for (uint32_t i = 0; i < rounds.result_count; i++) {
        const struct round_result *result = &rounds.results[i];
        if (result->rank != 0) continue;
        const double number = rounds.values[result->first_value].number;
        const uint32_t expected_round[] = {1, 4, 4};
        const double expected[] = {3, 5, 6};
        assert_int_equal(result->round, expected_round[result->step]);
        assert_true(number == expected[result->step]);
    }
    rounds_release(&rounds);
    plan_free(plan);
}

static void a_barrier_spreads_who_has_entered(void **state)
{
    (void)state;
    struct plan *plan = parse("plan barrier ranks 4 parts 1\n"
                              "rank 0\nlane 0\nin[] -> to 1\nfrom 3 -> to 2\nfrom 2 -> out[]\n"
                              "rank 1\nlane 0\nin[] -> to 2\nfrom 0 -> to 3\nfrom 3 -> out[]\n"
                              "rank 2\nlane 0\nin[] -> to 3\nfrom 1 -> to 0\nfrom 0 -> out[]\n"
                              "rank 3\nlane 0\nin[] -> to 0\nfrom 2 -> to 1\nfrom 1 -> out[]\n");
    struct rounds rounds = run(plan, 1, NULL, 0);
    assert_int_equal(rounds.round_count, 2);
    for (uint32_t i = 0; i < rounds.result_count; i++)
        if (rounds.results[i].step == 2)
            assert_int_equal(rounds.values[rounds.results[i].first_value].ranks, 15);
    rounds_release(&rounds);
    plan_free(plan);
}

static void messages_know_the_steps_at_both_ends(void **state)
{
    (void)state;
    struct plan *plan = parse("plan broadcast ranks 3 root 0 parts 1\n"
                              "rank 0\nlane 0\nin[0] -> out[0]\nin[0] -> to 1\nin[0] -> to 2\n"
                              "rank 1\nlane 0\nfrom 0 -> out[0]\n"
                              "rank 2\nlane 0\n");
    struct rounds rounds = run(plan, 1, NULL, 0);
    assert_int_equal(rounds.message_count, 2);
    for (uint32_t i = 0; i < rounds.message_count; i++) {
        const struct round_message *message = &rounds.messages[i];
        const struct round_result *sent = &rounds.results[message->sent_by];
        assert_int_equal(sent->rank, 0);
        assert_int_equal(sent->step, message->to); /* step 1 sends to 1, step 2 to 2 */
        if (message->to == 2) {
            assert_int_equal(message->taken_by, ROUNDS_NEVER);
            continue;
        }
        assert_int_equal(rounds.results[message->taken_by].rank, 1);
        assert_int_equal(rounds.results[message->taken_by].step, 0);
    }
    rounds_release(&rounds);
    plan_free(plan);
}

static void input_is_output_in_place(void **state)
{
    (void)state;
    /* Rank 1 never stores its own block; in place it is where it belongs. */
    struct plan *plan =
        parse("plan allgather ranks 2 parts 1\n"
              "rank 0\nlane 0\nin[0] -> to 1\nfrom 1 -> out[1]\nout[0..1] -> to 1\n"
              "rank 1\nscratch like 0..1\nlane 0\nout[1] -> to 0\nfrom 0 -> out[0]\n"
              "from 0 -> scratch[0..1]\n");
    for (int in_place = 0; in_place < 2; in_place++) {
        struct rounds rounds;
        const char *message;
        const struct rounds_options options = {.ports = 1, .in_place = in_place != 0};
        assert_int_equal(rounds_init(&rounds, plan, &options, &message), TUTTI_OK);
        for (uint32_t i = 0; i < rounds.message_count; i++) {
            const struct round_message *sent = &rounds.messages[i];
            const struct round_value *values = rounds.values + sent->first_value;
            if (sent->from == 1) assert_int_equal(values[0].ranks, in_place ? 2 : 0);
            if (sent->value_count != 2) continue;
            assert_int_equal(values[0].ranks, in_place ? 1 : 0);
            assert_int_equal(values[1].ranks, in_place ? 2 : 0);
        }
        rounds_release(&rounds);
    }
    plan_free(plan);
}

static void says_why_a_plan_cannot_run(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
        enum tutti_status status;
    } cases[] = {
        {"plan allreduce ranks 2 parts 1\nrank 0\nlane 0\nfrom 1 -> out[0]\nrank 1",
         "the plan comes to a halt: nobody sends what is waited for", TUTTI_INVALID_ALGORITHM},
        {"plan allreduce ranks 2 parts 2\nrank 0\nlane 0\nfrom 1 -> out[0]\n"
         "rank 1\nlane 0\nin[0..1] -> to 0",
         "a message has more or fewer chunks than its receiver", TUTTI_INVALID_ALGORITHM},
        {"plan allreduce ranks 1 parts 2000000\nrank 0", "the plan is too large to be unfolded",
         TUTTI_UNSUPPORTED},
    };
    for (int i = 0; i < 3; i++) {
        struct plan *plan = parse(cases[i].text);
        struct rounds rounds;
        const char *message;
        const struct rounds_options options = {.ports = 1};
        assert_int_equal(rounds_init(&rounds, plan, &options, &message), cases[i].status);
        assert_string_equal(message, cases[i].why);
        assert_null(rounds.results);
        plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_takes_four_rounds_and_adds_up),
        cmocka_unit_test(a_lane_sends_as_many_messages_a_round_as_it_has_ports),
        cmocka_unit_test(a_message_to_a_group_is_one_message),
        cmocka_unit_test(two_sources_of_one_link_take_two_messages),
        cmocka_unit_test(a_barrier_spreads_who_has_entered),
        cmocka_unit_test(messages_know_the_steps_at_both_ends),
        cmocka_unit_test(input_is_output_in_place),
        cmocka_unit_test(says_why_a_plan_cannot_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
