#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/between.h"

/* Cards of 1 Gbit/s, of which an uplink carries two, and 50 us. */
static const struct probe_links links = {.host_byte_ns = {.count = 4, 7, 8, 10},
                                         .uplink_byte_ns = {.count = 2, 4, 4, 4},
                                         .rack_ns = {.count = 4, 50000, 60000, 90000}};

static void bytes_cost_the_middle_and_latencies_are_the_least(void **state)
{
    (void)state;
    struct between between;
    between_set(&between, &links, 10000000);
    const struct calibration_number *const card = &between.numbers[BETWEEN_CARD_BYTE],
                                           *const rack = &between.numbers[BETWEEN_LATENCY_RACK];
    assert_int_equal(card->value, 8000000);
    assert_int_equal(card->spread_permille, 250);
    assert_int_equal(between.numbers[BETWEEN_UPLINK_BYTE].value, 4000000);
    assert_int_equal(rack->value, 40000000); /* and 10 us of the two ranks */
    assert_int_equal(rack->spread_permille, 250);
    assert_int_equal(card->known, CALIBRATION_MEASURED);
    assert_int_equal(between.numbers[BETWEEN_LATENCY_CLUSTER].known, CALIBRATION_ASSUMED);
}

static void numbers_stay_within_bounds(void **state)
{
    (void)state;
    const struct probe_links odd = {.host_byte_ns = {.count = 1, 1e30, 1e30, 1e30},
                                    .uplink_byte_ns = {.count = 1, 0, 0, 0},
                                    .rack_ns = {.count = 1, 1, 1e9, 1e9},
                                    .cluster_ns = {.count = 1, 1e30, 1e30, 1e30}};
    struct between between;
    between_set(&between, &odd, 10000000);
    for (unsigned i = 0; i < BETWEEN_NUMBERS; i++) {
        const struct calibration_info *const info = calibration_info(between_parameter(i));
        assert_true(between.numbers[i].value >= info->least);
        assert_true(between.numbers[i].value <= info->most);
        assert_true(between.numbers[i].spread_permille <= CALIBRATION_SPREAD_MAX);
    }
}

static void coarse_values_are_near(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < UINT64_C(1) << 40; value += value / 97 + 1) {
        struct between between = {{{.value = value}}};
        between_make_coarse(&between);
        const uint64_t coarse = between.numbers[0].value,
                       off = coarse > value ? coarse - value : value - coarse;
        assert_true(off <= value / 16);
        between_make_coarse(&between);
        assert_int_equal(between.numbers[0].value, coarse);
    }
    struct between one = {{{.value = 8400000}}}, other = {{{.value = 8200000}}};
    between_make_coarse(&one);
    between_make_coarse(&other);
    assert_int_equal(one.numbers[0].value, other.numbers[0].value);
}

static void what_is_calibrated_stays(void **state)
{
    (void)state;
    struct calibration calibration;
    struct between between;
    calibration_init(&calibration, NULL, NULL);
    between_set(&between, &links, 0);
    assert_true(between_is_wanted(&calibration, false));
    calibration.numbers[CALIBRATION_card_byte_fs] =
        (struct calibration_number){80000, 5, CALIBRATION_MEASURED};
    assert_false(between_is_wanted(&calibration, false));
    assert_true(between_is_wanted(&calibration, true)); /* of uplinks nobody knows */
    const uint64_t cluster = calibration.numbers[CALIBRATION_latency_cluster_ps].value;
    between_take(&between, &calibration);
    assert_int_equal(calibration.numbers[CALIBRATION_card_byte_fs].value, 80000);
    assert_int_equal(calibration.numbers[CALIBRATION_uplink_byte_fs].value, 4000000);
    assert_int_equal(calibration.numbers[CALIBRATION_uplink_byte_fs].known, CALIBRATION_MEASURED);
    assert_int_equal(calibration.numbers[CALIBRATION_latency_cluster_ps].value, cluster);
    assert_int_equal(calibration.numbers[CALIBRATION_latency_cluster_ps].known, CALIBRATION_ASSUMED);
    assert_false(between_is_wanted(&calibration, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_cost_the_middle_and_latencies_are_the_least),
        cmocka_unit_test(numbers_stay_within_bounds),
        cmocka_unit_test(coarse_values_are_near),
        cmocka_unit_test(what_is_calibrated_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
