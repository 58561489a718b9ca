/* tensorflow_order_test.c - collectives that ranks report in any order run in one order, or fail
 * with a text that says why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bindings/tensorflow/front/order.c" /* no library has it */
#include "tests/kit/chance.h"

enum { RANKS = 6, ANSWERS_MAX = 4096 };

struct heard {
    int rank;
    struct order_key key;
    enum tutti_status status;
    int root, member_count, members[RANKS];
    char text[ORDER_TEXT_MAX];
};

static struct heard answers[ANSWERS_MAX];
static int answer_count, warning_count;
static char warning[ORDER_TEXT_MAX];

static void hear(void *context, int rank, const struct order_answer *answer)
{
    (void)context;
    assert_true(answer_count < ANSWERS_MAX);
    struct heard *const heard = &answers[answer_count++];
    *heard = (struct heard){.rank = rank,
                            .key = answer->key,
                            .status = answer->status,
                            .root = answer->root,
                            .member_count = answer->member_count};
    if (answer->status == TUTTI_OK)
        memcpy(heard->members, answer->members, (size_t)answer->member_count * sizeof(int));
    else
        snprintf(heard->text, sizeof heard->text, "%s", answer->text);
}

static void hear_warning(void *context, const char *text)
{
    (void)context;
    warning_count++;
    snprintf(warning, sizeof warning, "%s", text);
}

static struct order *begin(void)
{
    answer_count = warning_count = 0;
    struct order *const order = order_create(RANKS, hear, hear_warning, NULL);
    assert_non_null(order);
    return order;
}

static struct order_report report_of(int group, int instance, int size, const char *what)
{
    struct order_report report = {.key = {group, instance}, .group_size = size, .timeout_ns = 1000};
    snprintf(report.what, sizeof report.what, "%s", what);
    return report;
}

static void take(struct order *order, int rank, int group, int instance, int size)
{
    const struct order_report report = report_of(group, instance, size, "sum");
    order_take(order, rank, &report, 0);
}

/* Makes a communicator, in which each rank has the place that it wants. */
static void take_place(struct order *order, int rank, int group, int size, int place)
{
    struct order_report report = report_of(group, 0, size, "make");
    report.key.has_communicator = report.has_place = true;
    report.place = place;
    order_take(order, rank, &report, 0);
}

/* All members run a collective, and nobody else does. */
static void expect_run(int first, int group, int instance, const int *members, int count)
{
    for (int i = 0; i < count; i++) {
        const struct heard *const heard = &answers[first + i];
        assert_int_equal(heard->status, TUTTI_OK);
        assert_true(heard->key.group == group && heard->key.instance == instance);
        assert_int_equal(heard->rank, members[count - 1 - i]); /* the first rank is told last */
        assert_int_equal(heard->member_count, count);
        assert_memory_equal(heard->members, members, (size_t)count * sizeof *members);
    }
}

static void a_collective_runs_when_all_have_reported(void **state)
{
    (void)state;
    struct order *const order = begin();
    static const int two[] = {1, 4};
    take(order, 4, 7, 40, 2);
    assert_true(order_waits(order));
    assert_int_equal(answer_count, 0);
    take(order, 4, 7, 41, 2);
    take(order, 1, 7, 41, 2);
    expect_run(0, 7, 41, two, 2);
    take(order, 1, 7, 40, 2);
    expect_run(2, 7, 40, two, 2);
    assert_int_equal(answer_count, 4);
    assert_false(order_waits(order));
    order_free(order);
}

static void a_group_is_who_made_it(void **state)
{
    (void)state;
    struct order *const order = begin();
    take(order, 2, 9, 1, 2);
    take(order, 0, 9, 1, 2);
    assert_int_equal(answer_count, 2);
    take(order, 3, 9, 2, 2);
    assert_int_equal(answers[2].rank, 3);
    assert_int_equal(answers[2].status, TUTTI_MISMATCH);
    assert_non_null(strstr(answers[2].text, "rank 3 is none of the ranks"));
    take(order, 0, 9, 3, 3);
    assert_int_equal(answers[3].status, TUTTI_MISMATCH);
    assert_non_null(strstr(answers[3].text, "it has 2"));
    for (int size = -1; size < 9; size += 8 + (size == 0)) {
        take(order, 0, 10, 1, size);
        assert_non_null(strstr(answers[answer_count - 1].text, "and the job has 6"));
        if (size == 7) break;
    }
    order_free(order);
}

/* Whoever reports it afterwards is told the same, and other collectives go on. */
static void what_does_not_fit_fails_for_all(void **state)
{
    (void)state;
    struct order *const order = begin();
    const struct order_report sum = report_of(1, 1, 3, "sum [4]"),
                              other = report_of(1, 1, 3, "sum [5]");
    take(order, 0, 1, 2, 3);
    order_take(order, 0, &sum, 0);
    order_take(order, 1, &other, 0);
    order_take(order, 2, &sum, 0);
    assert_int_equal(answer_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answers[i].rank, i);
        assert_int_equal(answers[i].status, TUTTI_MISMATCH);
        assert_non_null(strstr(answers[i].text,
                               "rank 0 calls sum [4] among 3 ranks, rank 1 calls sum [5] among 3"));
    }
    take(order, 1, 1, 2, 3);
    take(order, 2, 1, 2, 3);
    assert_int_equal(answer_count, 6);
    assert_int_equal(answers[5].status, TUTTI_OK);
    assert_false(order_waits(order));
    order_free(order);
}

static void a_rank_begins_a_collective_once(void **state)
{
    (void)state;
    struct order *const order = begin();
    take(order, 5, 1, 1, 2);
    take(order, 5, 1, 1, 2);
    assert_int_equal(answer_count, 2); /* one for each computation of rank 5 */
    for (int i = 0; i < 2; i++) assert_non_null(strstr(answers[i].text, "rank 5 begins it twice"));
    take(order, 4, 1, 1, 2);
    assert_int_equal(answer_count, 3);
    assert_int_equal(answers[2].status, TUTTI_MISMATCH);
    assert_false(order_waits(order));
    order_free(order);
}

static void a_broadcast_has_one_root(void **state)
{
    (void)state;
    static const enum order_root roots[][3] = {{ORDER_NOT_ROOT, ORDER_ROOT, ORDER_NOT_ROOT},
                                               {ORDER_NOT_ROOT, ORDER_NOT_ROOT, ORDER_NOT_ROOT},
                                               {ORDER_ROOT, ORDER_ROOT, ORDER_NOT_ROOT},
                                               {ORDER_NO_ROOT, ORDER_ROOT, ORDER_NOT_ROOT}};
    static const char *const texts[] = {NULL, "none sends", "both send", "calls"};
    for (int i = 0; i < 4; i++) {
        struct order *const order = begin();
        for (int r = 0; r < 3; r++) {
            struct order_report report = report_of(1, 1, 3, "broadcast");
            report.root = roots[i][r];
            order_take(order, 2 * r, &report, 0);
        }
        assert_int_equal(answer_count, 3);
        for (int a = 0; a < 3; a++) {
            if (i == 0)
                assert_true(answers[a].status == TUTTI_OK && answers[a].root == 1);
            else
                assert_non_null(strstr(answers[a].text, texts[i]));
        }
        order_free(order);
    }
}

static void a_communicator_has_the_order_of_places(void **state)
{
    (void)state;
    struct order *const order = begin();
    static const int by_place[] = {4, 0, 2};
    take_place(order, 0, 7, 3, 1);
    take_place(order, 2, 7, 3, 2);
    take_place(order, 4, 7, 3, 0);
    assert_int_equal(answer_count, 3);
    assert_int_equal(answers[2].rank, 0); /* the lowest rank is told last */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answers[i].status, TUTTI_OK);
        assert_true(answers[i].key.has_communicator);
        assert_memory_equal(answers[i].members, by_place, sizeof by_place);
    }
    /* Its operations have that order, too, and a group of the same number without one is another. */
    for (int r = 0; r < 6; r += 2) {
        struct order_report report = report_of(7, 1, 3, "sum");
        report.key.has_communicator = true;
        order_take(order, r, &report, 0);
    }
    assert_int_equal(answer_count, 6);
    assert_memory_equal(answers[5].members, by_place, sizeof by_place);
    take(order, 1, 7, 1, 2);
    take(order, 3, 7, 1, 2);
    expect_run(6, 7, 1, (const int[]){1, 3}, 2);
    order_free(order);
}

static void places_are_distinct_and_in_the_group(void **state)
{
    (void)state;
    struct order *const order = begin();
    take_place(order, 0, 7, 2, 1);
    take_place(order, 1, 7, 2, 1);
    assert_int_equal(answer_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(answers[i].status, TUTTI_MISMATCH);
        assert_non_null(strstr(answers[i].text, "rank 0 and rank 1 both want place 1"));
    }
    static const int wrong[] = {-1, 2, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        take_place(order, 0, 8, 2, wrong[i]);
        assert_int_equal(answers[2 + i].status, TUTTI_MISMATCH);
        assert_non_null(strstr(answers[2 + i].text, "wants place"));
    }
    /* A rank that asks for a place, and one that asks for none. */
    struct order_report report = report_of(9, 0, 2, "make");
    report.key.has_communicator = true;
    order_take(order, 1, &report, 0);
    take_place(order, 0, 9, 2, 0);
    assert_int_equal(answers[answer_count - 1].status, TUTTI_MISMATCH);
    assert_false(order_waits(order));
    order_free(order);
}

static void late_ranks_are_named(void **state)
{
    (void)state;
    struct order *const order = begin();
    struct order_report report = report_of(1, 1, RANKS, "sum"), part = report_of(2, 1, 2, "max");
    report.timeout_ns = 5000000000u;
    part.timeout_ns = 0;
    for (int r = 0; r < RANKS; r++)
        if (r != 1 && r != 4) order_take(order, r, &report, 1000);
    order_take(order, 3, &part, 1000);
    order_tick(order, 1000 + ORDER_LATE_NS - 1);
    assert_int_equal(warning_count, 0);
    order_tick(order, 1000 + ORDER_LATE_NS);
    assert_int_equal(warning_count, 2);
    assert_string_equal(warning, "max of group 2, instance 1: 1 of its 2 ranks have not begun it, "
                                 "only rank 3 have after 2.0 s");
    order_tick(order, 1000 + 2 * (uint64_t)ORDER_LATE_NS);
    assert_int_equal(warning_count, 2); /* once */
    order_tick(order, 1000 + report.timeout_ns);
    assert_int_equal(answer_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(answers[i].status, TUTTI_TIMEOUT);
        assert_string_equal(
            answers[i].text,
            "sum of group 1, instance 1: ranks 1, 4 have not begun it after 5 s, its deadline");
    }
    order_tick(order, UINT64_MAX - 1);
    assert_int_equal(answer_count, 4); /* no deadline is none */
    /* Whoever comes now is told, too. */
    order_take(order, 1, &report, 1000 + report.timeout_ns);
    assert_int_equal(answers[4].status, TUTTI_TIMEOUT);
    order_free(order);
}

static void there_may_be_many_at_once_but_not_any_number(void **state)
{
    (void)state;
    struct order *const order = begin();
    for (int i = 0; i < 3000; i++) take(order, 0, 1, i, 2);
    for (int i = 3000; i-- > 1000;) take(order, 1, 1, i, 2);
    assert_int_equal(answer_count, 4000);
    order_free(order);
}

/* Groups that overlap, each rank in an order of its own: every collective runs once, and all ranks
 * see one order. */
static void any_order_becomes_one(void **state)
{
    (void)state;
    enum { GROUPS = 3, INSTANCES = 40 };
    static const int members[GROUPS][RANKS] = {{0, 1, 2, 3, 4, 5}, {1, 3, 5}, {0, 3}};
    static const int sizes[GROUPS] = {6, 3, 2};
    uint64_t random = chance_seed(20261129);
    for (int round = 0; round < 20; round++) {
        struct order *const order = begin();
        struct step {
            int rank, group, instance;
        } steps[GROUPS * INSTANCES * RANKS];
        int count = 0;
        for (int g = 0; g < GROUPS; g++)
            for (int i = 0; i < INSTANCES; i++)
                for (int m = 0; m < sizes[g]; m++)
                    steps[count++] = (struct step){members[g][m], g, i};
        for (int i = count; i-- > 1;) {
            const int k = (int)(chance_next(&random) % (unsigned)(i + 1));
            const struct step step = steps[i];
            steps[i] = steps[k];
            steps[k] = step;
        }
        for (int i = 0; i < count; i++)
            take(order, steps[i].rank, steps[i].group, steps[i].instance, sizes[steps[i].group]);
        assert_int_equal(answer_count, count);
        for (int a = 0; a < count;) {
            const int g = answers[a].key.group;
            expect_run(a, g, answers[a].key.instance, members[g], sizes[g]);
            a += sizes[g];
        }
        assert_false(order_waits(order));
        order_free(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_runs_when_all_have_reported),
        cmocka_unit_test(a_group_is_who_made_it),
        cmocka_unit_test(what_does_not_fit_fails_for_all),
        cmocka_unit_test(a_rank_begins_a_collective_once),
        cmocka_unit_test(a_broadcast_has_one_root),
        cmocka_unit_test(a_communicator_has_the_order_of_places),
        cmocka_unit_test(places_are_distinct_and_in_the_group),
        cmocka_unit_test(late_ranks_are_named),
        cmocka_unit_test(there_may_be_many_at_once_but_not_any_number),
        cmocka_unit_test(any_order_becomes_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
