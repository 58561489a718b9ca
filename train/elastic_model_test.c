/* Intervals of checkpoints and effective training time, against numbers that were computed by hand
 * and published.
 *
 * ctest: label=notsan
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tutti/train/elastic.h"

#define EXPECT_NEAR(found, wanted, tolerance)                                   \
    do {                                                                        \
        const double number = (found);                                          \
        if (!(fabs(number - (wanted)) <= (tolerance)))                          \
            fail_msg("%s is %.6f, not %.6f", #found, number, (double)(wanted)); \
    } while (0)

static const double day_s = 86400;

static void young_and_daly_have_their_intervals(void **state)
{
    const struct tutti_elastic_costs costs = {
        .nodes = 1, .failure_rate = 1 / (3 * 3600.0), .write_s = 60};
    (void)state;
    EXPECT_NEAR(tutti_elastic_young(&costs), 1138.4, 0.05);
    EXPECT_NEAR(tutti_elastic_daly(&costs), 1098.8, 0.05);
}

static void a_write_that_is_longer_than_failures_are_apart_makes_one_interval(void **state)
{
    const struct tutti_elastic_costs costs = {.nodes = 1, .failure_rate = 0.1, .write_s = 20};
    const struct tutti_elastic_costs never = {.nodes = 1, .write_s = 20};
    (void)state;
    EXPECT_NEAR(tutti_elastic_daly(&costs), 10, 1e-9);
    assert_true(isinf(tutti_elastic_mttf(&never)) && isinf(tutti_elastic_daly(&never)) &&
                isinf(tutti_elastic_young(&never)));
}

/* Kokolis et al., table of cluster RSC-1 and RSC-2: 16,384 GPUs, 8 in a node. */
static void the_time_to_failure_is_as_published(void **state)
{
    struct tutti_elastic_costs costs = {.nodes = 16384 / 8, .failure_rate = 6.50e-3 / day_s};
    (void)state;
    EXPECT_NEAR(tutti_elastic_mttf(&costs) / 3600, 1.803, 0.001);
    costs.failure_rate = 2.34e-3 / day_s;
    EXPECT_NEAR(tutti_elastic_mttf(&costs) / 3600, 5.01, 0.005);
    /* Llama 3: 419 interruptions in 54 days. */
    costs = (struct tutti_elastic_costs){.nodes = 1, .failure_rate = 419 / (54 * day_s)};
    EXPECT_NEAR(tutti_elastic_mttf(&costs) / 3600, 3.093, 0.001);
}

static void the_effective_training_time_is_as_computed(void **state)
{
    struct tutti_elastic_costs costs = {.nodes = 2048,
                                        .failure_rate = 6.50e-3 / day_s,
                                        .restart_s = 300,
                                        .write_s = 20,
                                        .interval_s = 3600};
    (void)state;
    EXPECT_NEAR(tutti_elastic_ettr(&costs), 0.6727, 0.00005);
    costs.nodes = 256; /* 2048 GPUs */
    EXPECT_NEAR(tutti_elastic_ettr(&costs), 0.9543, 0.00005);
    costs.nodes = 1e6;
    EXPECT_NEAR(tutti_elastic_ettr(&costs), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(young_and_daly_have_their_intervals),
        cmocka_unit_test(a_write_that_is_longer_than_failures_are_apart_makes_one_interval),
        cmocka_unit_test(the_time_to_failure_is_as_published),
        cmocka_unit_test(the_effective_training_time_is_as_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
