#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/text.h"
#include "studio/foreign/mscclpp_export.h"

static enum tutti_status export(const struct plan *plan, bool in_place, char **text, char *message,
                                size_t message_bytes) {
    size_t size; FILE *file = open_memstream(text, &size);
    const struct mscclpp_export_options options = {.name = "a \"name\" \\ <&>\n",
                                                   .in_place = in_place};
    assert_non_null(file);
    const enum tutti_status status = mscclpp_export(plan, &options, file, message, message_bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(size > 0, status == TUTTI_OK);
    return status;
}

static void check_algorithm(const struct algorithm *algorithm, int ranks,
                            const struct algo_levels *levels)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct algo_params params = {.collective = algorithm->collective,
                                           .rank_count = ranks,
                                           .in_place = in_place != 0,
                                           .levels = algorithm->needs_levels ? levels : NULL};
        struct plan *plan;
        const char *why;
        char message[200] = "", *text = NULL;
        assert_int_equal(algo_plan(algorithm, &params, &plan, &why), TUTTI_OK);
        const enum tutti_status status =
            export(plan, params.in_place, &text, message, sizeof message);
        if (collective_is_rooted(algorithm->collective) ||
            algorithm->collective == COLLECTIVE_BARRIER) {
            assert_int_equal(status, TUTTI_INVALID_ALGORITHM);
            assert_non_null(strstr(message, "MSCCL++"));
        } else if (status != TUTTI_OK) {
            fail_msg("%s %s of %d ranks: %s", collective_name(algorithm->collective),
                     algorithm->name, ranks, message);
        }
        free(text);
        plan_free(plan);
    }
}

static void every_algorithm_without_a_root_is_written(void **state)
{
    static const int counts[] = {1, 2, 3, 8, 17, 33};
    int hosts[33];
    const struct algo_levels levels = {.level_count = 1, .group_of = {hosts}};
    (void)state;
    for (int i = 0; i < 33; i++) hosts[i] = i / 3;
    for (int i = 0; i < algo_count; i++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            if (algo_supports_levels(&algo_list[i], counts[n]))
                check_algorithm(&algo_list[i], counts[n], &levels);
}

static struct plan *parsed(const char *text)
{
    struct plan *plan;
    char message[200];
    if (plan_parse(text, strlen(text), &plan, message, sizeof message) != TUTTI_OK)
        fail_msg("%s", message);
    return plan;
}

static int count(const char *text, const char *word)
{
    int found = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word)) found++;
    return found;
}

/* Lane 1 waits twice for steps of lane 0, but what it knows it is not told again. */
static void dependencies_become_as_few_semaphores_as_say_them(void **state)
{
    struct plan *plan = parsed("plan allreduce ranks 1 parts 1\n"
                               "rank 0\n"
                               "scratch like 0 0 0 0\n"
                               "lane 0\n"
                               "in[0] -> scratch[0]\n"
                               "in[0] -> scratch[1]\n"
                               "lane 1\n"
                               "scratch[1] -> scratch[2] after 0.0 0.1\n"
                               "scratch[0] -> scratch[3] after 0.0\n"
                               "scratch[3] -> out[0] after 1.0 1.1\n");
    char message[200], *text = NULL;
    (void)state;
    assert_int_equal(export(plan, false, &text, message, sizeof message), TUTTI_OK);
    assert_int_equal(count(text, "init_value"), 1);
    assert_int_equal(count(text, "sem_release"), 1);
    assert_int_equal(count(text, "sem_acquire"), 1);
    assert_non_null(strstr(text, "\"name\": \"a \\\"name\\\" \\\\ <&>\\u000a "));
    free(text);
    plan_free(plan);
}

/* The second rank is on a host of its own. */
static void other_hosts_are_reached_over_ports(void **state)
{
    static const int host_of[] = {0, 1, 0};
    static const struct mscclpp_export_options options = {.name = "", .host_of = host_of};
    const struct algo_params params = {.collective = COLLECTIVE_ALLGATHER, .rank_count = 3};
    struct plan *plan;
    const char *why;
    char message[200], *text = NULL;
    size_t size;
    (void)state;
    assert_int_equal(algo_plan(algo_find(COLLECTIVE_ALLGATHER, "direct"), &params, &plan, &why),
                     TUTTI_OK);
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(mscclpp_export(plan, &options, file, message, sizeof message), TUTTI_OK);
    assert_int_equal(fclose(file), 0);
    assert_non_null(strstr(text,
                           "\"channels\": [{\"channel_type\": \"memory\", \"connected_to\": "
                           "[2, 2]}, {\"channel_type\": \"port\", \"connected_to\": [1, 1]}]"));
    assert_non_null(strstr(text, "\"channels\": [{\"channel_type\": \"port\", \"connected_to\": "
                                 "[0, 0, 2, 2]}]"));
    assert_int_equal(count(text, "\"pwsf\""), 3);
    assert_int_equal(count(text, "\"access_channel_types\": [\"port\"]"), 4);
    assert_int_equal(count(text, "\"access_channel_types\": [\"memory\"]"), 2);
    free(text);
    plan_free(plan);
}

static void scratch_beyond_all_measure_is_refused(void **state)
{
    struct plan *plan = parsed("plan allreduce ranks 1 parts 1100000\n"
                               "rank 0\n"
                               "scratch like 0..1099999\n"
                               "lane 0\n"
                               "in[0..1099999] -> out[0..1099999]\n");
    char message[200], *text = NULL;
    (void)state;
    assert_int_equal(export(plan, false, &text, message, sizeof message), TUTTI_INVALID_ALGORITHM);
    assert_string_equal(message, "rank 0: more than 1048576 scratch chunks");
    free(text);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_without_a_root_is_written),
        cmocka_unit_test(dependencies_become_as_few_semaphores_as_say_them),
        cmocka_unit_test(other_hosts_are_reached_over_ports),
        cmocka_unit_test(scratch_beyond_all_measure_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
