#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tune/choose.h"

static const size_t sizes[] = {0,        1,        1024,     1025,      8 << 10, (8 << 10) + 1,
                               32 << 10, 40 << 10, 64 << 10, 100 << 10, 1 << 20, (1 << 20) + 1,
                               1 << 30};
static const int rank_counts[] = {1, 2, 3, 4, 7, 16, 17, 32, 33, 64, 1000};
enum {
    SIZES = sizeof sizes / sizeof *sizes,
    RANK_COUNTS = sizeof rank_counts / sizeof *rank_counts
};

static const struct algorithm *chosen(struct choose_call call)
{
    struct choice choice = {0};
    if (choose_algorithm(&call, &choice) != TUTTI_OK)
        fail_msg("%s of %zu bytes on %d ranks: %s", collective_name(call.collective), call.bytes,
                 call.rank_count, tutti_error_message());
    return choice.algorithm;
}

static void every_call_has_an_algorithm_that_can_do_it(void **state)
{
    (void)state;
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        for (int i = 0; i < SIZES * RANK_COUNTS * 2; i++) {
            const struct choose_call call = {.collective = (enum collective)c,
                                             .bytes = sizes[i % SIZES],
                                             .rank_count = rank_counts[i / SIZES % RANK_COUNTS],
                                             .deterministic = i / SIZES / RANK_COUNTS != 0};
            const struct algorithm *algorithm = chosen(call);
            assert_int_equal(algorithm->collective, c);
            assert_true(algo_supports(algorithm, call.rank_count));
            if (call.deterministic && collective_reduces(call.collective))
                assert_true(algorithm->deterministic);
        }
    }
}

/* What was meant for a size must exist: a name that is not in the list would silently give the next best. */
static void preferences_are_what_they_say(void **state)
{
    (void)state;
    static const struct {
        enum collective collective;
        size_t bytes;
        int rank_count;
        const char *name;
        bool oversubscribed, mapped;
    } cases[] = {
        {COLLECTIVE_ALLREDUCE, 4 << 10, 2, "oneshot", false, false},
        {COLLECTIVE_ALLREDUCE, 8 << 10, 2, "twoshot", true, false},
        {COLLECTIVE_ALLREDUCE, 64 << 20, 2, "chain", true, false},
        {COLLECTIVE_REDUCE, 64 << 20, 2, "direct", false, false},
        {COLLECTIVE_REDUCE, 1 << 20, 8, "direct", true, false},
        {COLLECTIVE_REDUCE, 1 << 20, 8, "twoshot", false, false},
        {COLLECTIVE_REDUCE, 4 << 20, 8, "chain", true, false},
        {COLLECTIVE_ALLREDUCE, 16 << 10, 8, "oneshot", true, false},
        {COLLECTIVE_ALLREDUCE, 64 << 10, 8, "twoshot", true, false},
        {COLLECTIVE_ALLREDUCE, 256 << 10, 8, "relay", true, false},
        {COLLECTIVE_ALLREDUCE, 256 << 10, 8, "twoshot", false, false},
        {COLLECTIVE_ALLREDUCE, 256 << 10, 8, "twoshot", true, true},
        {COLLECTIVE_ALLREDUCE, 64 << 20, 2, "twoshot", false, true},
        {COLLECTIVE_ALLREDUCE, 64 << 20, 33, "ring", true, true},
        {COLLECTIVE_ALLREDUCE, 100, 4, "oneshot", false, false},
        {COLLECTIVE_ALLREDUCE, 100, 17, "doubling", false, false},
        {COLLECTIVE_ALLREDUCE, 1 << 20, 4, "twoshot", false, false},
        {COLLECTIVE_ALLREDUCE, 1 << 20, 17, "halving_doubling", false, false},
        {COLLECTIVE_ALLREDUCE, 2 << 20, 17, "ring", false, false},
        {COLLECTIVE_BARRIER, 0, 4, "mesh", false, false},
        {COLLECTIVE_BARRIER, 0, 17, "dissemination", false, false},
        {COLLECTIVE_ALLTOALL, 100, 4, "direct", false, false},
        {COLLECTIVE_ALLTOALL, 4 << 20, 4, "pairwise", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct choose_call call = {.collective = cases[i].collective,
                                         .bytes = cases[i].bytes,
                                         .rank_count = cases[i].rank_count,
                                         .oversubscribed = cases[i].oversubscribed,
                                         .mapped = cases[i].mapped};
        assert_string_equal(chosen(call)->name, cases[i].name);
    }
}

static void sockets_have_preferences_of_their_own(void **state)
{
    (void)state;
    static const struct {
        enum collective collective;
        size_t bytes;
        int rank_count;
        const char *name;
    } cases[] = {
        {COLLECTIVE_ALLREDUCE, 8, 4, "doubling"},
        {COLLECTIVE_ALLREDUCE, 64 << 10, 2, "doubling"},
        {COLLECTIVE_ALLREDUCE, 64 << 10, 4, "halving_doubling"},
        {COLLECTIVE_ALLREDUCE, 64 << 10, 5, "circulant"},
        {COLLECTIVE_ALLREDUCE, 4 << 20, 2, "chain"},
        {COLLECTIVE_REDUCE, 64 << 20, 8, "double_tree"},
        {COLLECTIVE_BROADCAST, 8, 8, "tree"},
        {COLLECTIVE_BROADCAST, 64 << 20, 4, "double_tree"},
        {COLLECTIVE_ALLGATHER, 1 << 20, 4, "direct"}, /* as in memory */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct choose_call call = {.collective = cases[i].collective,
                                         .bytes = cases[i].bytes,
                                         .rank_count = cases[i].rank_count,
                                         .over_sockets = true};
        assert_string_equal(chosen(call)->name, cases[i].name);
    }
}

static void rules_decide_where_they_speak(void **state)
{
    (void)state;
    struct rules *rules;
    assert_int_equal(rules_parse("allreduce:0-1k=tree,1k-=^oneshot;barrier=^mesh", &rules),
                     TUTTI_OK);
    struct choose_call call = {
        .collective = COLLECTIVE_ALLREDUCE, .bytes = 10, .rank_count = 4, .rules = rules};
    assert_string_equal(chosen(call)->name, "tree");
    call.bytes = 1024;
    assert_string_not_equal(chosen(call)->name, "oneshot");
    call.collective = COLLECTIVE_BARRIER;
    call.bytes = 0;
    assert_string_not_equal(chosen(call)->name, "mesh");
    call.collective = COLLECTIVE_REDUCE;
    assert_string_equal(chosen(call)->name, "direct");
    rules_free(rules);
}

static void a_name_wins_over_rules(void **state)
{
    (void)state;
    struct rules *rules;
    assert_int_equal(rules_parse("allreduce=tree,^ring", &rules), TUTTI_OK);
    const struct choose_call call = {.collective = COLLECTIVE_ALLREDUCE,
                                     .rank_count = 4,
                                     .algorithm = algo_find(COLLECTIVE_ALLREDUCE, "ring"),
                                     .rules = rules};
    assert_string_equal(chosen(call)->name, "ring");
    rules_free(rules);
}

static void expect_refused(struct choose_call call, const char *word)
{
    struct choice choice;
    assert_int_equal(choose_algorithm(&call, &choice), TUTTI_INVALID_ALGORITHM);
    assert_non_null(strstr(tutti_error_message(), word));
}

static void what_cannot_be_done_is_refused(void **state)
{
    (void)state;
    expect_refused((struct choose_call){.collective = COLLECTIVE_ALLGATHER,
                                        .rank_count = 3,
                                        .algorithm = algo_find(COLLECTIVE_ALLGATHER, "doubling")},
                   "3 ranks");
    expect_refused((struct choose_call){.collective = COLLECTIVE_ALLREDUCE,
                                        .rank_count = 4,
                                        .in_rank_order = true,
                                        .algorithm = algo_find(COLLECTIVE_ALLREDUCE, "ring")},
                   "commutative");
    expect_refused((struct choose_call){.collective = COLLECTIVE_GATHER,
                                        .rank_count = 4,
                                        .counts_are_local = true,
                                        .algorithm = algo_find(COLLECTIVE_GATHER, "tree")},
                   "counts");
    expect_refused((struct choose_call){.collective = COLLECTIVE_ALLREDUCE,
                                        .rank_count = 4,
                                        .deterministic = true,
                                        .algorithm = algo_find(COLLECTIVE_ALLREDUCE, "ring")},
                   "deterministic");
    expect_refused(
        (struct choose_call){.collective = COLLECTIVE_ALLREDUCE,
                             .rank_count = 4,
                             .algorithm = algo_find(COLLECTIVE_ALLREDUCE, "hierarchical")},
        "on one host");
    char none_left[400] = "alltoall=";
    for (int i = 0; i < algo_count; i++)
        if (algo_list[i].collective == COLLECTIVE_ALLTOALL)
            strcat(strcat(strcat(none_left, strchr(none_left, '^') ? "," : ""), "^"),
                   algo_list[i].name);
    struct rules *rules;
    assert_int_equal(rules_parse(none_left, &rules), TUTTI_OK);
    expect_refused(
        (struct choose_call){.collective = COLLECTIVE_ALLTOALL, .rank_count = 4, .rules = rules},
        "alltoall");
    rules_free(rules);
}

static void hosts_that_are_known_can_be_made_use_of(void **state)
{
    (void)state;
    const struct network_shape two_hosts = {2, 3, 3, 1, 2};
    const struct choose_call call = {.collective = COLLECTIVE_ALLREDUCE,
                                     .rank_count = 6,
                                     .network = &two_hosts,
                                     .algorithm = algo_find(COLLECTIVE_ALLREDUCE, "hierarchical")};
    assert_string_equal(chosen(call)->name, "hierarchical");
}

/* Data that is only moved has the same bits by any algorithm. */
static void deterministic_mode_leaves_moving_alone(void **state)
{
    (void)state;
    const struct choose_call call = {.collective = COLLECTIVE_ALLGATHER,
                                     .rank_count = 4,
                                     .deterministic = true,
                                     .algorithm = algo_find(COLLECTIVE_ALLGATHER, "ring")};
    assert_string_equal(chosen(call)->name, "ring");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_has_an_algorithm_that_can_do_it),
        cmocka_unit_test(preferences_are_what_they_say),
        cmocka_unit_test(sockets_have_preferences_of_their_own),
        cmocka_unit_test(rules_decide_where_they_speak),
        cmocka_unit_test(a_name_wins_over_rules),
        cmocka_unit_test(what_cannot_be_done_is_refused),
        cmocka_unit_test(hosts_that_are_known_can_be_made_use_of),
        cmocka_unit_test(deterministic_mode_leaves_moving_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
