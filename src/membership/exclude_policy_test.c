/* The policy names a rank that is clearly sick for long, and does not change its mind at a threshold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tutti/exclude.h"

static const uint64_t SECOND = 1000000000u;

static const struct tutti_exclude_policy policy = {.size_bytes = sizeof policy,
                                                   .window_ns = 10000000000u,
                                                   .late_share_max = 0.3,
                                                   .late_share_min = 0.1,
                                                   .late_windows = 3,
                                                   .stalled_ns = 20000000000u,
                                                   .corrupt_count_max = 4};

struct patient {
    struct tutti_exclude_history history;
    struct tutti_signs signs;
};

static void admit(struct patient *patient)
{
    memset(patient, 0, sizeof *patient);
    patient->signs.size_bytes = sizeof patient->signs;
    patient->signs.now_ns = SECOND;
    assert_int_equal(tutti_exclude_judge(&policy, &patient->history, &patient->signs),
                     TUTTI_CAUSE_NONE);
}

/* Ten looks in the next ten seconds, of which it holds others up for that share. */
static enum tutti_cause live(struct patient *patient, double late_share)
{
    enum tutti_cause verdict = TUTTI_CAUSE_NONE;
    for (int i = 0; i < 10; i++) {
        patient->signs.now_ns += SECOND;
        patient->signs.held_ns += (uint64_t)(late_share * (double)SECOND);
        verdict = tutti_exclude_judge(&policy, &patient->history, &patient->signs);
    }
    return verdict;
}

static void a_rank_that_is_late_for_long_is_named(void **state)
{
    struct patient patient;
    (void)state;
    admit(&patient);
    assert_int_equal(live(&patient, 0.5), TUTTI_CAUSE_NONE);
    assert_int_equal(live(&patient, 0.5), TUTTI_CAUSE_NONE);
    assert_int_equal(live(&patient, 0.5), TUTTI_CAUSE_LATE);
}

static void a_healthy_window_between_starts_the_count_anew(void **state)
{
    struct patient patient;
    (void)state;
    admit(&patient);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(live(&patient, 0.5), TUTTI_CAUSE_NONE);
        assert_int_equal(live(&patient, 0.5), TUTTI_CAUSE_NONE);
        assert_int_equal(live(&patient, 0.05), TUTTI_CAUSE_NONE);
    }
}

static void between_the_thresholds_nothing_changes(void **state)
{
    struct patient patient;
    (void)state;
    admit(&patient);
    for (int i = 0; i < 10; i++) assert_int_equal(live(&patient, 0.2), TUTTI_CAUSE_NONE);
    for (int i = 0; i < 3; i++) (void)live(&patient, 0.5);
    for (int i = 0; i < 10; i++) assert_int_equal(live(&patient, 0.2), TUTTI_CAUSE_LATE);
    assert_int_equal(live(&patient, 0.05), TUTTI_CAUSE_NONE);
    assert_int_equal(live(&patient, 0.5), TUTTI_CAUSE_NONE);
}

static void a_stalled_rank_is_named_after_a_while_and_not_for_short_stops(void **state)
{
    struct patient patient;
    (void)state;
    admit(&patient);
    for (int i = 0; i < 10; i++) { /* 10 s each time */
        patient.signs.is_stalled = 1;
        assert_int_equal(live(&patient, 0), TUTTI_CAUSE_NONE);
        patient.signs.is_stalled = 0;
        assert_int_equal(live(&patient, 0), TUTTI_CAUSE_NONE);
    }
    patient.signs.is_stalled = 1;
    assert_int_equal(live(&patient, 0), TUTTI_CAUSE_NONE);
    (void)live(&patient, 0);
    assert_int_equal(live(&patient, 0), TUTTI_CAUSE_STALLED);
    patient.signs.is_stalled = 0;
    patient.signs.now_ns += 1;
    assert_int_equal(tutti_exclude_judge(&policy, &patient.history, &patient.signs),
                     TUTTI_CAUSE_STALLED); /* until a window was healthy */
    assert_int_equal(live(&patient, 0), TUTTI_CAUSE_NONE);
}

static void changed_data_count_within_a_window(void **state)
{
    struct patient patient;
    (void)state;
    admit(&patient);
    for (int i = 0; i < 10; i++) {
        patient.signs.corrupt_count += 3;
        assert_int_equal(live(&patient, 0), TUTTI_CAUSE_NONE);
    }
    patient.signs.corrupt_count += 4;
    patient.signs.now_ns += 1; /* at once */
    assert_int_equal(tutti_exclude_judge(&policy, &patient.history, &patient.signs),
                     TUTTI_CAUSE_CORRUPT);
    assert_int_equal(live(&patient, 0), TUTTI_CAUSE_CORRUPT); /* the window with the changes */
    assert_int_equal(live(&patient, 0), TUTTI_CAUSE_NONE);
}

static void a_failed_gpu_is_for_good_and_the_gravest_cause_counts(void **state)
{
    struct patient patient;
    (void)state;
    admit(&patient);
    for (int i = 0; i < 3; i++) (void)live(&patient, 0.5);
    patient.signs.corrupt_count += 4;
    patient.signs.now_ns += 1;
    assert_int_equal(tutti_exclude_judge(&policy, &patient.history, &patient.signs),
                     TUTTI_CAUSE_CORRUPT);
    patient.signs.has_failed_device = 1;
    assert_int_equal(live(&patient, 0), TUTTI_CAUSE_DEVICE);
    patient.signs.has_failed_device = 0;
    for (int i = 0; i < 5; i++) assert_int_equal(live(&patient, 0), TUTTI_CAUSE_DEVICE);
}

static void odd_input_does_no_harm(void **state)
{
    struct patient patient;
    struct tutti_exclude_policy odd = {
        .size_bytes = sizeof odd, .late_share_max = -1, .late_share_min = 7, .late_windows = -3};
    (void)state;
    admit(&patient);
    for (int i = 0; i < 3; i++) (void)live(&patient, 0.5);
    patient.signs.now_ns = 1; /* an old look */
    patient.signs.held_ns = 0;
    assert_int_equal(tutti_exclude_judge(&policy, &patient.history, &patient.signs),
                     TUTTI_CAUSE_LATE);
    admit(&patient);
    patient.signs.is_stalled = 1;
    patient.signs.now_ns += 2 * SECOND;
    assert_int_equal(tutti_exclude_judge(&policy, &patient.history, &patient.signs),
                     TUTTI_CAUSE_NONE);
    patient.signs.now_ns -= SECOND; /* an older look of the same window */
    assert_int_equal(tutti_exclude_judge(&policy, &patient.history, &patient.signs),
                     TUTTI_CAUSE_NONE);
    admit(&patient);
    for (int i = 0; i < 100; i++) {
        patient.signs.now_ns += SECOND;
        assert_int_equal(tutti_exclude_judge(&odd, &patient.history, &patient.signs),
                         TUTTI_CAUSE_NONE);
        assert_int_equal(tutti_exclude_judge(NULL, &patient.history, &patient.signs),
                         TUTTI_CAUSE_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_late_for_long_is_named),
        cmocka_unit_test(a_healthy_window_between_starts_the_count_anew),
        cmocka_unit_test(between_the_thresholds_nothing_changes),
        cmocka_unit_test(a_stalled_rank_is_named_after_a_while_and_not_for_short_stops),
        cmocka_unit_test(changed_data_count_within_a_window),
        cmocka_unit_test(a_failed_gpu_is_for_good_and_the_gravest_cause_counts),
        cmocka_unit_test(odd_input_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
