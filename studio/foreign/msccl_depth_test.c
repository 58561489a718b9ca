#include "studio/foreign/msccl_depth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/text.h"
#include "studio/foreign/msccl_export.h"

static int depth_of(const struct plan *plan)
{
    int depth = -1;
    char message[200], *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    const struct msccl_export_options options = {
        .profile = msccl_profile_find("msccl"), .name = "", .depth = &depth};
    assert_non_null(file);
    if (msccl_export(plan, &options, file, message, sizeof message) != TUTTI_OK)
        fail_msg("%s", message);
    assert_int_equal(fclose(file), 0);
    free(text);
    return depth;
}

static int depth_of_algorithm(enum collective collective, const char *name, int ranks)
{
    const struct algo_params params = {.collective = collective, .rank_count = ranks};
    struct plan *plan;
    const char *why;
    assert_int_equal(algo_plan(algo_find(collective, name), &params, &plan, &why), TUTTI_OK);
    const int depth = depth_of(plan);
    plan_free(plan);
    return depth;
}

static void algorithms_need_what_they_are_known_to_need(void **state)
{
    (void)state;
    assert_int_equal(depth_of_algorithm(COLLECTIVE_ALLREDUCE, "ring", 8), 1);
    assert_int_equal(depth_of_algorithm(COLLECTIVE_ALLGATHER, "two_way_ring", 5), 1);
    assert_int_equal(depth_of_algorithm(COLLECTIVE_BROADCAST, "chain", 4), 1);
    assert_int_equal(depth_of_algorithm(COLLECTIVE_ALLREDUCE, "torus", 6), 2);
}

/* An allgather around a ring of three, each rank of which sends `ahead` chunks before it passes on
 * the first. */
static void a_circle_of_fused_steps_needs_room_for_one_more(void **state)
{
    (void)state;
    for (int ahead = 1; ahead <= 3; ahead++) {
        char text[4000], message[200];
        struct plan *plan;
        int used = snprintf(text, sizeof text, "plan allgather ranks 3 parts %d\n", ahead);
        for (int rank = 0; rank < 3; rank++) {
            const int next = (rank + 1) % 3, last = (rank + 2) % 3;
            used += snprintf(text + used, sizeof text - (size_t)used, "rank %d\nlane 0\n", rank);
            for (int i = 0; i < ahead; i++)
                used += snprintf(text + used, sizeof text - (size_t)used,
                                 "in[%d] -> out[%d], to %d\n", i, rank * ahead + i, next);
            for (int i = 0; i < ahead; i++)
                used += snprintf(text + used, sizeof text - (size_t)used,
                                 "from %d -> out[%d], to %d\n", last, last * ahead + i, next);
            for (int i = 0; i < ahead; i++)
                used += snprintf(text + used, sizeof text - (size_t)used, "from %d -> out[%d]\n",
                                 last, next * ahead + i);
        }
        if (plan_parse(text, (size_t)used, &plan, message, sizeof message) != TUTTI_OK)
            fail_msg("%s", message);
        assert_int_equal(depth_of(plan), ahead + 1);
        plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algorithms_need_what_they_are_known_to_need),
        cmocka_unit_test(a_circle_of_fused_steps_needs_room_for_one_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
