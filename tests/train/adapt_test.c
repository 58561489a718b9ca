/* adapt_test.c - policies decide alike on all ranks, from what all ranks see: the noise scale is that
 * of gradients whose noise is known; limits have to be passed several times; policies that break
 * the rules, and samples that make no sense, are named.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tutti/train/adapt.h"

/* --------------------------------------------------------------------------- gradient noise scale */

static void noise_scale_is_that_of_the_formula(void **state)
{
    (void)state;
    struct tutti_noise noise = TUTTI_NOISE_INIT;
    assert_true(tutti_noise_scale(&noise) == 0);
    /* |G|^2 = 4 and S = 12: norms of 4 + 12 / 2 and 4 + 12 / 8. */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tutti_noise_add(&noise, 2, 10, 8, 5.5), TUTTI_OK);
        assert_true(fabs(tutti_noise_scale(&noise) - 3) < 1e-12);
    }
    assert_int_equal(noise.count, 5);
    noise = (struct tutti_noise)TUTTI_NOISE_INIT;
    assert_int_equal(tutti_noise_add(&noise, 2, 10, 8, 2), TUTTI_OK); /* |G|^2 below 0 */
    assert_true(isinf(tutti_noise_scale(&noise)));
    /* Sums, not quotients, are smoothed: (1 + 0.9 * 4) / 1.9 and so on. */
    noise = (struct tutti_noise)TUTTI_NOISE_INIT;
    assert_int_equal(tutti_noise_add(&noise, 1, 4 + 12, 4, 4 + 3), TUTTI_OK);
    assert_int_equal(tutti_noise_add(&noise, 1, 1 + 30, 4, 1 + 7.5), TUTTI_OK);
    assert_true(fabs(tutti_noise_scale(&noise) - (30 + 0.9 * 12) / (1 + 0.9 * 4)) < 1e-12);

    const struct tutti_noise before = noise;
    assert_int_equal(tutti_noise_add(&noise, 4, 1, 4, 1), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_noise_add(&noise, 0, 1, 4, 1), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_noise_add(&noise, 1, -1, 4, 1), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_noise_add(&noise, 1, 1, 4, (double)NAN), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_noise_add(&noise, 1, 1e308, 1000, 1e308), TUTTI_INVALID_OPTIONS);
    assert_memory_equal(&noise, &before, sizeof noise);
    noise.smoothing = 1;
    assert_int_equal(tutti_noise_add(&noise, 1, 1, 4, 1), TUTTI_INVALID_OPTIONS);
}

/* Near to normal, of variance 1. */
static double noise_at(uint64_t place)
{
    double sum = 0;
    for (uint64_t i = 0; i < 12; i++) sum += (double)(elements_mixed(place, i) >> 11) * 0x1p-53;
    return sum - 6;
}

/* Gradients of 50 numbers: the true ones are 0.5, and each sample adds noise of variance 2. So |G|^2
 * is 12.5, S is 100, and the noise scale is 8. */
static void noise_scale_is_that_of_the_gradients(void **state)
{
    enum { DIMENSIONS = 50, SMALL = 4, LARGE = 16, STEPS = 600 };
    struct tutti_noise noise = TUTTI_NOISE_INIT;
    (void)state;
    noise.smoothing = 0.99;
    for (uint64_t step = 0; step < STEPS; step++) {
        double small_squared = 0, large_squared = 0;
        for (uint64_t d = 0; d < DIMENSIONS; d++) {
            double sum = 0, small = 0;
            for (uint64_t s = 0; s < LARGE; s++) {
                sum += 0.5 + sqrt(2) * noise_at((step * DIMENSIONS + d) * LARGE + s);
                if (s == SMALL - 1) small = sum / SMALL;
            }
            small_squared += small * small;
            large_squared += sum / LARGE * sum / LARGE;
        }
        assert_int_equal(tutti_noise_add(&noise, SMALL, small_squared, LARGE, large_squared),
                         TUTTI_OK);
    }
    const double scale = tutti_noise_scale(&noise);
    assert_true(scale > 7 && scale < 9.2);
}

/* --------------------------------------------------------------------------------------- policies */

static struct tutti_adapt_settings settings_of(uint64_t batch, double rate)
{
    struct tutti_adapt_settings settings = TUTTI_ADAPT_SETTINGS_INIT;
    settings.batch = batch;
    settings.rate = rate;
    return settings;
}

/* One call of a policy; whether it changed the settings. */
static bool ask(tutti_adapt_decide *decide, void *context, struct tutti_adapt_view view,
                struct tutti_adapt_settings *settings, char reason[256])
{
    const struct tutti_adapt_settings before = *settings;
    view.size_bytes = sizeof view;
    view.settings = &before;
    reason[0] = '\0';
    decide(&view, settings, reason, 256, context);
    const bool is_changed = memcmp(&before, settings, sizeof before) != 0;
    assert_int_equal(is_changed, reason[0] != '\0');
    return is_changed;
}

static void the_batch_follows_the_noise_scale(void **state)
{
    struct tutti_batch_by_noise own = TUTTI_BATCH_BY_NOISE_INIT;
    struct tutti_adapt_settings settings = settings_of(64, 0.1);
    char reason[256];
    (void)state;
    own.batch_min = 32;
    own.batch_max = 300;
#define NOISE(scale)                       \
    ask(tutti_batch_by_noise_decide, &own, \
        (struct tutti_adapt_view){.noise_scale = (scale), .noise_count = 9}, &settings, reason)
    assert_false(NOISE(130));
    assert_false(NOISE(130));
    assert_false(NOISE(100)); /* not in a row */
    assert_false(NOISE(130));
    assert_false(NOISE(500));
    assert_true(NOISE(130));
    assert_true(settings.batch == 128 && settings.rate == 0.2);
    assert_string_equal(reason, "the noise scale has been at least 2 times the batch for 3 calls, "
                                "and is 130 samples");
    for (int i = 0; i < 9; i++) assert_false(NOISE(130)); /* between both limits */
    for (int i = 0; i < 2; i++) assert_false(NOISE((double)INFINITY));
    assert_true(NOISE((double)INFINITY) && settings.batch == 256);
    for (int i = 0; i < 9; i++) assert_false(NOISE(1e9)); /* 512 would be too large */
    own.rate_power = 0.5;
    for (int batch = 256, i = 0; batch > 32; batch /= 2) {
        for (i = 0; i < 2; i++) assert_false(NOISE(1));
        assert_true(NOISE(1));
        assert_int_equal(settings.batch, batch / 2);
    }
    assert_true(fabs(settings.rate - 0.4 / sqrt(8)) < 1e-12);
    for (int i = 0; i < 9; i++) assert_false(NOISE(1));
    for (int i = 0; i < 9; i++) assert_false(NOISE(0)); /* not known */
}

static void a_slow_rank_changes_the_synchrony_and_back(void **state)
{
    struct tutti_bounded_when_slow own = TUTTI_BOUNDED_WHEN_SLOW_INIT;
    struct tutti_adapt_settings settings = settings_of(64, 0.1);
    struct tutti_adapt_rank ranks[4] = {{0.1, 0, 0}, {0.1, 0, 0}, {0.12, 0, 0}, {0.1, 0, 0}};
    char reason[256];
    (void)state;
#define SLOW(count)                           \
    ask(tutti_bounded_when_slow_decide, &own, \
        (struct tutti_adapt_view){.ranks = ranks, .rank_count = (count)}, &settings, reason)
    for (int i = 0; i < 9; i++) assert_false(SLOW(4));
    ranks[1].step_s = 0.3;
    assert_false(SLOW(4));
    assert_false(SLOW(4));
    assert_true(SLOW(4));
    assert_int_equal(settings.synchrony, TUTTI_SYNCHRONY_BOUNDED);
    assert_int_equal(settings.staleness, 4);
    assert_string_equal(reason, "rank 1 needs 0.3 s for a step, the median of the others is 0.1 s: "
                                "at least 1.5 times as long for 3 calls");
    for (int i = 0; i < 9; i++) assert_false(SLOW(4));
    for (int i = 0; i < 9; i++) { /* neither slow nor fair, and in turns fair */
        ranks[1].step_s = i % 2 == 0 ? 0.13 : 0.1;
        assert_false(SLOW(4));
    }
    ranks[1].step_s = 0.1;
    for (int i = 0; i < 9 && settings.synchrony != TUTTI_SYNCHRONY_FULL; i++)
        assert_int_equal(SLOW(4), i == 2);
    assert_int_equal(settings.synchrony, TUTTI_SYNCHRONY_FULL);
    /* Two ranks; a rank whose time is not known; a rank alone. */
    own.synchrony = TUTTI_SYNCHRONY_LOCAL;
    ranks[1].step_s = 0.3;
    for (int i = 0; i < 2; i++) assert_false(SLOW(2));
    ranks[0].step_s = 0;
    assert_false(SLOW(2));
    ranks[0].step_s = 0.1;
    for (int i = 0; i < 2; i++) assert_false(SLOW(2));
    assert_true(SLOW(2) && settings.synchrony == TUTTI_SYNCHRONY_LOCAL && settings.every == 8);
    for (int i = 0; i < 5; i++) assert_false(SLOW(1));
}

/* -------------------------------------------------------------------------------------- decisions */

static struct tutti_adapt_sample sample_of(double step_s, double scale, double small_batch)
{
    struct tutti_adapt_sample sample = TUTTI_ADAPT_SAMPLE_INIT;
    sample.step_s = step_s;
    sample.small_batch = small_batch;
    sample.large_batch = 4 * small_batch;
    sample.small_squared = 1 + scale / sample.small_batch;
    sample.large_squared = 1 + scale / sample.large_batch;
    return sample;
}

static int adapt_together(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_batch_by_noise noise = TUTTI_BATCH_BY_NOISE_INIT;
    struct tutti_bounded_when_slow slow = TUTTI_BOUNDED_WHEN_SLOW_INIT;
    const struct tutti_adapt_policy policies[] = {
        {"batch by noise", tutti_batch_by_noise_decide, &noise},
        {"slow", tutti_bounded_when_slow_decide, &slow}};
    struct tutti_adapt_settings settings = settings_of(64, 0.1);
    struct tutti_adapt_options options = TUTTI_ADAPT_OPTIONS_INIT;
    struct tutti_adapt_decision decision = {.size_bytes = sizeof decision};
    struct tutti_adapt *adapt;
    (void)size, (void)seed, (void)context;
    options.probe_bytes = 10000;
    RANKS_EXPECT(tutti_adapt_create(policies, 2, &settings, &options, comm, &adapt) == TUTTI_OK);
    for (uint64_t call = 1; call <= 8; call++) {
        /* Ranks see different norms, which only together have this noise scale. */
        struct tutti_adapt_sample sample = sample_of(rank == 2 && call > 3 ? 0.5 : 0.1, 200, 16);
        sample.small_squared += 0.5 * (rank - 1);
        RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_OK);
        RANKS_EXPECT(decision.call == call);
        RANKS_EXPECT(decision.changed == (call == 3 || call == 6));
        if (call == 3)
            RANKS_EXPECT(strncmp(decision.reason,
                                 "batch by noise: batch 64 -> 128, learning rate 0.1 -> 0.2: the "
                                 "noise scale",
                                 70) == 0);
        if (call == 6)
            RANKS_EXPECT(strncmp(decision.reason,
                                 "slow: synchrony full -> bounded by 4 steps: rank 2 needs",
                                 55) == 0);
    }
    RANKS_EXPECT(tutti_adapt_current(adapt)->batch == 128);
    RANKS_EXPECT(tutti_adapt_current(adapt)->synchrony == TUTTI_SYNCHRONY_BOUNDED);
    RANKS_EXPECT(fabs(tutti_noise_scale(tutti_adapt_noise(adapt)) - 200) < 1e-6);
    return tutti_adapt_free(adapt) != TUTTI_OK;
}

static void all_ranks_adapt_alike(void **state)
{
    (void)state;
    expect_good_both(3, adapt_together, NULL);
}

/* The observations of a policy, and its orders. */
struct seen {
    int rank;
    bool breaks_rules, wants_nonsense, names_nonsense;
    double links[8];
};

static void look(const struct tutti_adapt_view *view, struct tutti_adapt_settings *wanted,
                 char *reason, size_t reason_bytes, void *context)
{
    struct seen *const seen = context;
    for (int r = 0; r < view->rank_count; r++) seen->links[r] = view->ranks[r].link_s;
    if (seen->breaks_rules) wanted->batch += (uint64_t)seen->rank;
    if (seen->wants_nonsense) wanted->rate = (double)NAN;
    snprintf(wanted->encoding, sizeof wanted->encoding, "%s",
             seen->names_nonsense ? "bfloat17"
             : view->call > 3     ? "bfloat16/hosts"
                                  : "");
    snprintf(reason, reason_bytes, "as call %d", (int)view->call);
}

static int break_rules(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct seen seen = {.rank = rank};
    const struct tutti_adapt_policy policy = {"look", look, &seen};
    struct tutti_adapt_settings settings = settings_of(64, 0.1);
    struct tutti_adapt_options options = TUTTI_ADAPT_OPTIONS_INIT;
    struct tutti_adapt_decision decision = {.size_bytes = sizeof decision};
    struct tutti_adapt_sample sample = sample_of(1, 1, 1);
    struct tutti_adapt *adapt;
    (void)seed, (void)context;
    settings.batch = (uint64_t)(64 + rank);
    RANKS_EXPECT(tutti_adapt_create(&policy, 1, &settings, NULL, comm, &adapt) == TUTTI_MISMATCH);
    RANKS_EXPECT(adapt == NULL && strstr(tutti_error_message(), "has 'batch: 65'") != NULL);
    settings.batch = 0;
    RANKS_EXPECT(tutti_adapt_create(&policy, 1, &settings, NULL, comm, &adapt) ==
                 TUTTI_INVALID_OPTIONS);
    settings.batch = 64;
    RANKS_EXPECT(tutti_adapt_create(&policy, 17, &settings, NULL, comm, &adapt) ==
                 TUTTI_INVALID_OPTIONS);
    strcpy(settings.encoding, "int8/host");
    RANKS_EXPECT(tutti_adapt_create(&policy, 1, &settings, NULL, comm, &adapt) ==
                 TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "'int8/host': behind the name, `racks`, `hosts`"));
    settings.encoding[0] = '\0';
    options.probe_bytes = 1000;
    RANKS_EXPECT(tutti_adapt_create(&policy, 1, &settings, &options, comm, &adapt) == TUTTI_OK);
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_OK);
    RANKS_EXPECT(decision.changed == 0 && decision.reason[0] == '\0' && seen.links[0] == 0);

    sample.step_s = rank == 1 ? -1 : 1;
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) ==
                 (rank == 1 ? TUTTI_INVALID_OPTIONS : TUTTI_MISMATCH));
    RANKS_EXPECT(strstr(tutti_error_message(), rank == 1 ? "sample.step_s must be 0 or more, is -1"
                                                         : "the sample of rank 1") != NULL);
    sample.step_s = 1;
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_OK && decision.call == 2);
    for (int r = 0; r < size; r++) RANKS_EXPECT(seen.links[r] > 0 && seen.links[r] < 60);

    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    seen.breaks_rules = true;
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 0 has 'batch: 64', rank 1 has 'batch: 65'") !=
                 NULL);
    RANKS_EXPECT(tutti_adapt_current(adapt)->batch == 64);
    seen.breaks_rules = false;
    seen.wants_nonsense = true;
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "policy 'look': settings.rate must be above 0") !=
                 NULL);
    seen.wants_nonsense = false;
    seen.names_nonsense = true;
    RANKS_EXPECT(tutti_adapt_observe(adapt, &sample, &decision) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "policy 'look': settings.encoding is 'bfloat17': no "
                                               "encoding of that name; there are bfloat16"));
    seen.names_nonsense = false;
    RANKS_EXPECT(tutti_adapt_observe(adapt, NULL, &decision) == TUTTI_OK && decision.changed == 0);
    RANKS_EXPECT(tutti_adapt_observe(adapt, NULL, &decision) == TUTTI_OK && decision.changed == 1);
    RANKS_EXPECT(strcmp(decision.reason, "look: encoding none -> bfloat16/hosts: as call 4") == 0);
    RANKS_EXPECT(strcmp(tutti_adapt_current(adapt)->encoding, "bfloat16/hosts") == 0);
    return tutti_adapt_free(adapt) != TUTTI_OK;
}

static void what_breaks_the_rules_is_named(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, break_rules, NULL);
}

static int lose_a_rank(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct tutti_adapt_settings settings = settings_of(64, 0.1);
    _Atomic int *const met = context;
    struct tutti_adapt *adapt;
    (void)seed;
    RANKS_EXPECT(tutti_adapt_create(NULL, 0, &settings, NULL, comm, &adapt) == TUTTI_OK);
    RANKS_EXPECT(tutti_adapt_observe(adapt, NULL, NULL) == TUTTI_OK);
    ranks_meet(met, size);
    if (rank == size - 1) raise(SIGKILL);
    RANKS_EXPECT(tutti_adapt_observe(adapt, NULL, NULL) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(tutti_adapt_current(adapt)->batch == 64);
    return tutti_adapt_free(adapt) != TUTTI_OK;
}

static void a_death_is_told(void **state)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .comm_options = &patient};
    (void)state;
    if (ranks_are_threads()) skip(); /* they cannot die */
    assert_int_equal(ranks_run(3, &options, lose_a_rank, ranks_share(sizeof(_Atomic int))), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_scale_is_that_of_the_formula),
        cmocka_unit_test(noise_scale_is_that_of_the_gradients),
        cmocka_unit_test(the_batch_follows_the_noise_scale),
        cmocka_unit_test(a_slow_rank_changes_the_synchrony_and_back),
        cmocka_unit_test(all_ranks_adapt_alike),
        cmocka_unit_test(what_breaks_the_rules_is_named),
        cmocka_unit_test(a_death_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
