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

/* The numbers of a card, and of an uplink if uplink_fs is above 0. */
static struct between bytes(uint64_t card_fs, unsigned card_spread, uint64_t uplink_fs,
                            unsigned uplink_spread)
{
    struct between between = {{[BETWEEN_CARD_BYTE] = {card_fs, card_spread, CALIBRATION_MEASURED}}};
    if (uplink_fs > 0)
        between.numbers[BETWEEN_UPLINK_BYTE] =
            (struct calibration_number){uplink_fs, uplink_spread, CALIBRATION_MEASURED};
    return between;
}

static void what_lies_apart_is_not_kept(void **state)
{
    (void)state;
    const struct between nothing = {{{.value = 0}}}, steady = bytes(8000000, 250, 0, 0),
                         racks = bytes(8000000, 20, 8000000, 250), apart = bytes(8000000, 251, 0, 0),
                         uplinks_apart = bytes(8000000, 20, 8000000, 251);
    assert_true(between_is_steady(&steady) && between_is_steady(&racks));
    assert_false(between_is_steady(&nothing) || between_is_steady(&apart) ||
                 between_is_steady(&uplinks_apart));
    const struct between nearly = bytes(10000000, 0, 0, 0), more = bytes(10000001, 0, 0, 0);
    assert_true(between_agree(&steady, &nearly) && between_agree(&nearly, &steady));
    assert_false(between_agree(&steady, &more) || between_agree(&more, &steady));
    assert_false(between_agree(&steady, &racks));
}

enum { HOSTS = 4 };

/* A round in which hosts 0 and 1 met, and 2 and 3, with those rates in MB/s; 0: they did not. */
static bool holds(const struct between *between, const int *rack_of, double first, double second)
{
    double rates[HOSTS * HOSTS] = {0};
    const struct probe round = {
        .host_count = HOSTS, .tournament_count = 1, .bytes_per_second = rates};
    rates[0 * HOSTS + 1] = rates[1 * HOSTS + 0] = first * 1e6;
    rates[2 * HOSTS + 3] = rates[3 * HOSTS + 2] = second * 1e6;
    return between_holds(between, &round, rack_of);
}

/* Cards of 125 MB/s, and uplinks that carry as much, which both pairs share where they cross
 * them. */
static void a_round_shows_whether_numbers_hold(void **state)
{
    (void)state;
    static const int one[HOSTS] = {0}, in_turns[HOSTS] = {0, 1, 0, 1},
                     by_pairs[HOSTS] = {0, 0, 1, 1};
    const struct between between = bytes(8000000, 0, 8000000, 0), nothing = {{{.value = 0}}};
    assert_true(holds(&between, one, 125, 125));
    assert_true(holds(&between, one, 84, 187));
    assert_true(holds(&between, one, 125, 10)); /* one of two: an accident */
    assert_false(holds(&between, one, 82, 82));
    assert_false(holds(&between, one, 190, 190));
    assert_true(holds(&between, by_pairs, 125, 125));
    assert_false(holds(&between, in_turns, 125, 125)); /* there is no uplink that they share */
    assert_true(holds(&between, in_turns, 62, 62));
    assert_true(holds(&between, in_turns, 125, 0)); /* a pair alone has all of it */
    assert_false(holds(&nothing, one, 125, 125));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_cost_the_middle_and_latencies_are_the_least),
        cmocka_unit_test(numbers_stay_within_bounds),
        cmocka_unit_test(coarse_values_are_near),
        cmocka_unit_test(what_is_calibrated_stays),
        cmocka_unit_test(what_lies_apart_is_not_kept),
        cmocka_unit_test(a_round_shows_whether_numbers_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
