/* Calls of made-up dumps side by side: what is measured, who was late, and when clocks are not
 * believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/trace/calls.c"

enum { RANKS = 4, CALLS = 3, LATE_RANK = 2 };
static const uint64_t MS = 1000000, BASE_NS = 50000000000, EVERY_NS = 1000000000;

struct scene {
    struct trace_json traces[RANKS];
    struct trace_calls calls;
};

static void set_text(char *to, const char *text)
{
    memcpy(to, text, strlen(text) + 1);
}

/* All ranks are in each call from its first to its 50th millisecond. Hosts' clocks count from
 * different moments. */
static void begin_scene(struct scene *scene, bool is_one_host, const char *call)
{
    *scene = (struct scene){.calls = {.count = 0}};
    for (int r = 0; r < RANKS; r++) {
        struct trace_json *trace = &scene->traces[r];
        const uint64_t clock_ns = is_one_host ? BASE_NS : BASE_NS * (uint64_t)(1 + r);
        *trace = (struct trace_json){.size = RANKS,
                                     .own = {.rank = r, .pid = 1},
                                     .wall_ns = UINT64_C(1790000000000000000),
                                     .monotonic_ns = clock_ns};
        snprintf(trace->own.host, sizeof trace->own.host, "host%d", is_one_host ? 0 : r);
        trace->operations = calloc(CALLS, sizeof *trace->operations);
        assert_non_null(trace->operations);
        trace->operation_count = CALLS;
        for (uint64_t i = 0; i < CALLS; i++) {
            struct trace_entry *entry = &trace->operations[i];
            const uint64_t begin_ns = clock_ns - (CALLS - i) * EVERY_NS;
            *entry = (struct trace_entry){.number = i + 1,
                                          .count = 1000,
                                          .root = -1,
                                          .waits_for = -1,
                                          .begin_ns = begin_ns,
                                          .end_ns = begin_ns + 50 * MS};
            set_text(entry->call, call);
            set_text(entry->dtype, "float32");
            set_text(entry->algorithm, "ring");
            set_text(entry->state, "done");
        }
    }
}

static void find(struct scene *scene)
{
    assert_int_equal(calls_find(scene->traces, RANKS, &scene->calls), TUTTI_OK);
}

static void end_scene(struct scene *scene)
{
    calls_release(&scene->calls);
    for (int r = 0; r < RANKS; r++) trace_json_release(&scene->traces[r]);
}

/* In all calls, the rank comes and goes so much later. */
static void move(struct scene *scene, int rank, uint64_t begin_ns, uint64_t end_ns)
{
    for (int i = 0; i < CALLS; i++) {
        scene->traces[rank].operations[i].begin_ns += begin_ns;
        scene->traces[rank].operations[i].end_ns += end_ns;
    }
}

static void check_late(const struct scene *scene, enum calls_clock clock)
{
    const struct trace_calls *calls = &scene->calls;
    const struct call_kind *kind = &calls->kinds[0];
    assert_int_equal(calls->clock, clock);
    assert_int_equal(calls->kind_count, 1);
    assert_int_equal(kind->count, CALLS);
    assert_true(kind->is_timed);
    assert_int_equal(kind->measured_ns, 20 * MS);
    assert_int_equal(kind->skew_ns, 30 * MS);
    assert_int_equal(kind->late, LATE_RANK);
    assert_int_equal(kind->late_count, CALLS);
    assert_int_equal(kind->late_ns, 30 * MS);
    assert_int_equal(kind->last, -1);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(calls->ranks[r].late_permille, r == LATE_RANK ? 600 : 0);
        assert_int_equal(calls->ranks[r].late_count, r == LATE_RANK ? CALLS : 0);
        assert_int_equal(calls->ranks[r].late_ns, r == LATE_RANK ? CALLS * 30 * MS : 0);
    }
    for (uint64_t i = 0; i < CALLS; i++) {
        const struct call_times *each = &calls->each[i];
        assert_int_equal(each->number, i + 1);
        assert_int_equal(each->measured_ns, 20 * MS);
        assert_int_equal(each->skew_ns, 30 * MS);
        assert_int_equal(each->late_ns, 30 * MS);
        assert_int_equal(each->late, LATE_RANK);
    }
}

static void late_rank_is_named_and_its_lateness_is_not_measured(void **state)
{
    (void)state;
    for (int is_one_host = 0; is_one_host < 2; is_one_host++) {
        struct scene scene;
        begin_scene(&scene, is_one_host != 0, "allreduce");
        move(&scene, LATE_RANK, 30 * MS, 0);
        find(&scene);
        check_late(&scene, is_one_host != 0 ? CALLS_ONE_CLOCK : CALLS_WALL_CLOCKS);
        end_scene(&scene);
    }
}

static void clocks_that_differ_are_found_out(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, false, "allreduce");
    move(&scene, LATE_RANK, 30 * MS, 0);
    scene.traces[0].wall_ns -= 100 * MS;
    find(&scene);
    check_late(&scene, CALLS_NO_CLOCK);
    /* Rank 0 left at 50 ms, 100 ms too early, when rank 2 came at 30 ms. */
    assert_int_equal(scene.calls.clock_error_ns, 80 * MS);
    assert_int_equal(scene.calls.clock_ranks[0], 0);
    assert_int_equal(scene.calls.clock_ranks[1], LATE_RANK);
    end_scene(&scene);
}

static void clocks_that_are_not_told_are_not_used(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, false, "alltoall");
    move(&scene, LATE_RANK, 30 * MS, 0);
    scene.traces[3].wall_ns = 0;
    find(&scene);
    check_late(&scene, CALLS_NO_CLOCK);
    assert_int_equal(scene.calls.clock_error_ns, 0);
    end_scene(&scene);
    begin_scene(&scene, false, "broadcast"); /* its root need not wait for anybody */
    scene.traces[3].wall_ns = 0;
    find(&scene);
    assert_int_equal(scene.calls.count, 0);
    assert_int_equal(scene.calls.unclocked_count, CALLS);
    end_scene(&scene);
}

static void clock_that_is_ahead_makes_nobody_late(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, false, "allreduce");
    scene.traces[LATE_RANK].wall_ns += 30 * MS;
    find(&scene);
    assert_int_equal(scene.calls.clock, CALLS_WALL_CLOCKS);
    assert_int_equal(scene.calls.kinds[0].late, -1);
    assert_int_equal(scene.calls.kinds[0].measured_ns, 50 * MS);
    for (int r = 0; r < RANKS; r++) assert_int_equal(scene.calls.ranks[r].late_permille, 0);
    end_scene(&scene);
}

static void who_ends_last_is_told_from_the_others(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, true, "broadcast");
    move(&scene, 1, 0, 70 * MS);
    find(&scene);
    assert_int_equal(scene.calls.kinds[0].measured_ns, 120 * MS);
    assert_int_equal(scene.calls.kinds[0].last, 1);
    assert_int_equal(scene.calls.kinds[0].last_count, CALLS);
    assert_int_equal(scene.calls.kinds[0].last_others_ns, 50 * MS);
    assert_int_equal(scene.calls.kinds[0].late, -1);
    end_scene(&scene);
}

static void median_call_counts(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, true, "allreduce");
    for (int r = 0; r < RANKS; r++) {
        scene.traces[r].operations[0].end_ns += 7 * MS;
        scene.traces[r].operations[2].end_ns += 900 * MS;
    }
    find(&scene);
    assert_int_equal(scene.calls.kinds[0].measured_ns, 57 * MS);
    end_scene(&scene);
}

static void calls_that_differ_are_different_kinds(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, true, "allreduce");
    for (int r = 0; r < RANKS; r++) {
        scene.traces[r].operations[1].count = 7;
        set_text(scene.traces[r].operations[2].algorithm, "tree");
    }
    find(&scene);
    assert_int_equal(scene.calls.kind_count, 3);
    end_scene(&scene);
}

static void short_calls_have_no_time(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, true, "barrier");
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < CALLS; i++)
            scene.traces[r].operations[i].end_ns = scene.traces[r].operations[i].begin_ns;
    find(&scene);
    assert_false(scene.calls.kinds[0].is_timed);
    assert_int_equal(scene.calls.kinds[0].late, -1);
    end_scene(&scene);
}

static void calls_that_are_not_complete_are_left_out(void **state)
{
    (void)state;
    struct scene scene;
    begin_scene(&scene, true, "allreduce");
    set_text(scene.traces[1].operations[0].state, "TIMEOUT");
    scene.traces[3].operations[1].count = 8;
    scene.traces[2].operation_count--;
    find(&scene);
    assert_int_equal(scene.calls.count, 0);
    assert_int_equal(scene.calls.unfinished_count, 1);
    assert_int_equal(scene.calls.different_count, 1);
    assert_int_equal(scene.calls.absent_count, 1);
    end_scene(&scene);
    begin_scene(&scene, true, "gatherv");
    find(&scene);
    assert_int_equal(scene.calls.count, 0);
    assert_int_equal(scene.calls.varying_count, CALLS);
    end_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_rank_is_named_and_its_lateness_is_not_measured),
        cmocka_unit_test(clocks_that_differ_are_found_out),
        cmocka_unit_test(clocks_that_are_not_told_are_not_used),
        cmocka_unit_test(clock_that_is_ahead_makes_nobody_late),
        cmocka_unit_test(who_ends_last_is_told_from_the_others),
        cmocka_unit_test(median_call_counts),
        cmocka_unit_test(calls_that_differ_are_different_kinds),
        cmocka_unit_test(short_calls_have_no_time),
        cmocka_unit_test(calls_that_are_not_complete_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
