/* Tables of verdicts: a rank that enough witnesses accuse is found, a rank that a liar accuses is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elastic_table.h"

enum { L = TUTTI_CAUSE_LATE, C = TUTTI_CAUSE_CORRUPT, D = TUTTI_CAUSE_DEVICE };

static int find(const uint8_t *verdicts, int size)
{
    enum tutti_cause cause;
    const int found = elastic_table_find(verdicts, size, &cause);
    assert_int_equal(found >= 0, cause != TUTTI_CAUSE_NONE);
    return found;
}

static void a_rank_that_all_accuse_is_found(void **state)
{
    (void)state;
    assert_int_equal(find((const uint8_t[]){0, 0, L, 0, 0, 0, L, 0, 0, 0, 0, 0, 0, 0, L, 0}, 4), 2);
    assert_int_equal(find((const uint8_t[]){0, 0, L, 0, 0, L, 0, 0, 0}, 3), 2);
    /* It accuses others. */
    assert_int_equal(find((const uint8_t[]){0, 0, L, 0, 0, L, L, L, 0}, 3), 2);
    /* Two witnesses of three ranks that accuse. */
    assert_int_equal(find((const uint8_t[]){0, 0, C, 0, 0, 0, C, 0, 0, 0, 0, 0, L, 0, 0, 0}, 4), 2);
}

static void one_witness_is_not_enough(void **state)
{
    (void)state;
    assert_int_equal(find((const uint8_t[]){0, 0, 0, 0, 0, C, 0, 0, 0}, 3), -1);
    assert_int_equal(find((const uint8_t[]){0, C, 0, C, 0, 0, 0, 0, 0}, 3), -1); /* each other */
    assert_int_equal(find((const uint8_t[]){0, L, 0, 0}, 2), 1); /* there is no other witness */
    assert_int_equal(find((const uint8_t[]){0, L, L, 0}, 2), -1);
}

static void a_liar_puts_nobody_out(void **state)
{
    uint8_t verdicts[25] = {0};
    (void)state;
    for (int on = 0; on < 5; on++) verdicts[3 * 5 + on] = L;
    assert_int_equal(find(verdicts, 5), -1);
    /* Nor does it protect another: the others see that one. */
    for (int by = 0; by < 5; by++) verdicts[by * 5 + 1] = L;
    assert_int_equal(find(verdicts, 5), 1);
    /* Not even with a rank that believes it, if as many see another. */
    memset(verdicts, 0, sizeof verdicts);
    verdicts[3 * 5 + 0] = verdicts[4 * 5 + 0] = L;
    verdicts[1 * 5 + 2] = verdicts[0 * 5 + 2] = L;
    assert_int_equal(find(verdicts, 5), -1);
}

static void in_a_chain_of_lateness_the_end_has_most_witnesses(void **state)
{
    /* Rank 3 is late; rank 2 waits for it, rank 1 for rank 2, and takes rank 2 for late. */
    const uint8_t verdicts[] = {0, 0, 0, L, 0, 0, L, 0, 0, 0, 0, L, 0, 0, 0, 0};
    (void)state;
    assert_int_equal(find(verdicts, 4), 3);
}

static void a_cycle_puts_nobody_out(void **state)
{
    (void)state;
    assert_int_equal(find((const uint8_t[]){0, L, 0, 0, 0, 0, L, 0, 0, 0, 0, L, L, 0, 0, 0}, 4), -1);
}

static void ranks_that_waited_longer_are_witnesses(void **state)
{
    uint8_t verdicts[16] = {0}, shares[] = {200, 210, 190, 60};
    (void)state;
    verdicts[3] = L; /* of rank 0 on rank 3; ranks 1 and 2 wait for rank 0 */
    assert_int_equal(find(verdicts, 4), -1);
    elastic_table_add_witnesses(verdicts, shares, 4, 64);
    assert_int_equal(find(verdicts, 4), 3);
    /* A liar accuses rank 1, but rank 3 is late. */
    memset(verdicts, 0, sizeof verdicts);
    verdicts[2 * 4 + 1] = L;
    elastic_table_add_witnesses(verdicts, shares, 4, 64);
    assert_int_equal(find(verdicts, 4), -1);
    /* Both are accused: they waited for rank 3. */
    verdicts[0 * 4 + 3] = L;
    elastic_table_add_witnesses(verdicts, shares, 4, 64);
    assert_int_equal(find(verdicts, 4), 3);
    /* Nobody is accused. */
    memset(verdicts, 0, sizeof verdicts);
    elastic_table_add_witnesses(verdicts, shares, 4, 64);
    assert_int_equal(find(verdicts, 4), -1);
    /* All were in calls for about as long. */
    memset(shares, 100, sizeof shares);
    verdicts[3] = L;
    elastic_table_add_witnesses(verdicts, shares, 4, 64);
    assert_int_equal(find(verdicts, 4), -1);
}

static void most_witnesses_say_why(void **state)
{
    const uint8_t verdicts[] = {0, 0, 0, C, 0, 0, 0, L, 0, 0, 0, C, 0, 0, 0, 0};
    enum tutti_cause cause;
    (void)state;
    assert_int_equal(elastic_table_find(verdicts, 4, &cause), 3);
    assert_int_equal(cause, TUTTI_CAUSE_CORRUPT);
}

static void bytes_that_are_no_cause_do_not_count(void **state)
{
    const uint8_t verdicts[] = {9, 0, 200, 255, 255, 5 + D, 0, 0, 77};
    (void)state;
    assert_int_equal(find(verdicts, 3), -1);
}

/* No single rank, whatever it says, puts a rank out of a team in which the others accuse nobody. */
static void no_single_rank_decides(void **state)
{
    (void)state;
    for (int size = 3; size <= 6; size++)
        for (int liar = 0; liar < size; liar++)
            for (unsigned lies = 0; lies < 1u << size; lies++) {
                uint8_t verdicts[36] = {0};
                for (int on = 0; on < size; on++)
                    if ((lies >> on & 1) != 0) verdicts[liar * size + on] = C;
                assert_int_equal(find(verdicts, size), -1);
            }
}

int main(void)
{
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_all_accuse_is_found),
        cmocka_unit_test(one_witness_is_not_enough),
        cmocka_unit_test(a_liar_puts_nobody_out),
        cmocka_unit_test(in_a_chain_of_lateness_the_end_has_most_witnesses),
        cmocka_unit_test(a_cycle_puts_nobody_out),
        cmocka_unit_test(ranks_that_waited_longer_are_witnesses),
        cmocka_unit_test(most_witnesses_say_why),
        cmocka_unit_test(bytes_that_are_no_cause_do_not_count),
        cmocka_unit_test(no_single_rank_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
