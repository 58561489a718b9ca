/* Schedules by name have the bubbles and the activations that were published; schedules that cannot
 * run are refused, and all others run.
 *
 * ctest: label=notsan
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/train/schedules.h"
#include "tutti/train/pipeline.h"

enum { STAGES_MAX = 8, MICRO_MAX = 32, CHUNKS_MAX = 4 };

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static struct tutti_schedule *make(const char *name, int p, int m, int v)
{
    const struct tutti_schedule_shape shape = {p, m, v};
    struct tutti_schedule *schedule;
    assert_int_equal(tutti_schedule_create(name, &shape, &schedule), TUTTI_OK);
    assert_int_equal(tutti_schedule_check(schedule), TUTTI_OK);
    return schedule;
}

/* Calls it for all shapes that each name takes. */
static void for_all(void (*check)(const char *name, int p, int m, int v))
{
    for (int p = 1; p <= STAGES_MAX; p++) {
        for (int m = 1; m <= MICRO_MAX; m++) {
            check("gpipe", p, m, 1);
            check("1f1b", p, m, 1);
            for (int v = 1; v <= CHUNKS_MAX; v++)
                if (v == 1 || m % p == 0) check("interleaved", p, m, v);
        }
    }
}

/* -------------------------------------------------------------------------------------- by name */

/* All numbers are whole, so nothing is rounded. */
static void check_bubble(const char *name, int p, int m, int v)
{
    static const double times_of[][2] = {{1, 2}, {1, 1}, {3, 7}, {2, 1}};
    struct tutti_schedule *const schedule = make(name, p, m, v);
    for (size_t i = 0; i < sizeof times_of / sizeof *times_of; i++) {
        const struct tutti_schedule_times times = {sizeof times, times_of[i][0], times_of[i][1],
                                                   NULL};
        const double ideal = m * v * (times.forward + times.backward);
        double step_time, idle_times[STAGES_MAX];
        assert_int_equal(tutti_schedule_simulate(schedule, &times, &step_time, idle_times),
                         TUTTI_OK);
        for (int s = 0; s < p; s++) {
            assert_true(idle_times[s] == step_time - ideal);
            assert_true(idle_times[s] * m * v == ideal * (p - 1));
        }
    }
    tutti_schedule_free(schedule);
}

static void bubbles_are_those_of_the_papers(void **state)
{
    (void)state;
    for_all(check_bubble);
}

static int published_activations(const char *name, int s, int p, int m, int v)
{
    if (strcmp(name, "gpipe") == 0) return m;
    if (v == 1) return smaller(p - s, m);
    return smaller(2 * (p - s - 1) + (v - 1) * p + 1, m * v);
}

static void check_activations(const char *name, int p, int m, int v)
{
    struct tutti_schedule *const schedule = make(name, p, m, v);
    for (int s = 0; s < p; s++)
        assert_int_equal(tutti_schedule_in_flight(schedule, s),
                         published_activations(name, s, p, m, v));
    assert_int_equal(tutti_schedule_in_flight(schedule, p), -1);
    assert_int_equal(tutti_schedule_in_flight(schedule, -1), -1);
    tutti_schedule_free(schedule);
}

static void activations_are_those_of_the_papers(void **state)
{
    (void)state;
    for_all(check_activations);
}

static void shapes_that_make_no_schedule_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct tutti_schedule_shape shape;
        const char *why;
    } bad[] = {{"zigzag", {2, 2, 1}, "no schedule 'zigzag'"},
               {NULL, {2, 2, 1}, "no schedule 'NULL'"},
               {"gpipe", {0, 2, 1}, "stages must be from 1 to 1024, are 0"},
               {"gpipe", {1025, 2, 1}, "stages"},
               {"1f1b", {2, 0, 1}, "micro-batches must be"},
               {"1f1b", {2, 65537, 1}, "micro-batches must be"},
               {"1f1b", {2, 2, 2}, "1f1b has 1 chunk on each stage, not 2"},
               {"interleaved", {2, 2, 257}, "chunks must be"},
               {"interleaved", {4, 6, 2}, "a multiple of its 4 stages as micro-batches, not 6"},
               {"gpipe", {1024, 65536, 1}, "more than 4194304 passes"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tutti_schedule *schedule = (struct tutti_schedule *)state;
        assert_int_equal(tutti_schedule_create(bad[i].name, &bad[i].shape, &schedule),
                         TUTTI_INVALID_OPTIONS);
        assert_null(schedule);
        if (strstr(tutti_error_message(), bad[i].why) == NULL)
            fail_msg("no '%s' in: %s", bad[i].why, tutti_error_message());
    }
}

/* ------------------------------------------------------------------- what can run, and what not */

static struct tutti_schedule_shape draw_shape(struct chance *chance)
{
    return (struct tutti_schedule_shape){1 + chance_below(chance, 5), 1 + chance_below(chance, 6),
                                         1 + chance_below(chance, 3)};
}

/* All passes, to be changed; to be freed. */
static struct tutti_schedule_action *copy_of(const struct tutti_schedule *schedule, int *each)
{
    struct tutti_schedule_shape shape;
    tutti_schedule_describe(schedule, &shape);
    *each = 2 * shape.micro_batch_count * shape.chunk_count;
    struct tutti_schedule_action *const copy =
        malloc((size_t)(shape.stage_count * *each) * sizeof *copy);
    assert_non_null(copy);
    for (int s = 0; s < shape.stage_count; s++) {
        size_t count;
        const struct tutti_schedule_action *const actions =
            tutti_schedule_actions(schedule, s, &count);
        assert_int_equal(count, *each);
        memcpy(copy + s * *each, actions, count * sizeof *copy);
    }
    return copy;
}

static bool is_action(struct tutti_schedule_action a, enum tutti_pass pass, int micro, int chunk)
{
    return a.pass == pass && a.micro_batch == micro && a.chunk == chunk;
}

/* Whether it is among the first `next` of the stage. */
static bool is_past(const struct tutti_schedule_action *stage, int next, enum tutti_pass pass,
                    int micro, int chunk)
{
    for (int i = 0; i < next; i++)
        if (is_action(stage[i], pass, micro, chunk)) return true;
    return false;
}

/* The plainest way to find out: every stage in turn does what it can until none can do anything. */
static bool can_run(const struct tutti_schedule_shape *shape,
                    const struct tutti_schedule_action *all, int each)
{
    int next[16] = {0};
    const int p = shape->stage_count, parts = p * shape->chunk_count;
    bool moved = true, over = true;
    while (moved) {
        moved = false;
        for (int s = 0; s < p; s++) {
            for (; next[s] < each; next[s]++, moved = true) {
                const struct tutti_schedule_action a = all[s * each + next[s]];
                const int part = a.chunk * p + s;
                const int before = a.pass == TUTTI_PASS_FORWARD ? part - 1 : part + 1;
                if (before >= 0 && before < parts &&
                    !is_past(all + before % p * each, next[before % p], a.pass, a.micro_batch,
                             before / p))
                    break;
                if (a.pass == TUTTI_PASS_BACKWARD &&
                    !is_past(all + s * each, next[s], TUTTI_PASS_FORWARD, a.micro_batch, a.chunk))
                    break;
            }
        }
    }
    for (int s = 0; s < p; s++) over = over && next[s] == each;
    return over;
}

/* The refusal names a stage, a place there and what is at that place. */
static void expect_named(const struct tutti_schedule *schedule)
{
    const char *const message = tutti_error_message();
    const char *const at = strstr(message, "deadlock: stage ");
    int stage = 0, micro = 0, chunk = 0;
    size_t position = 0, count;
    char letter = '?';
    if (at == NULL || strstr(message, " waits for ") == NULL ||
        sscanf(at, "deadlock: stage %d, position %zu: %c%d.%d", &stage, &position, &letter, &micro,
               &chunk) < 4)
        fail_msg("not a deadlock: %s", message);
    const struct tutti_schedule_action *const actions =
        tutti_schedule_actions(schedule, stage, &count);
    assert_true(position < count);
    assert_true(is_action(actions[position],
                          letter == 'F' ? TUTTI_PASS_FORWARD : TUTTI_PASS_BACKWARD, micro, chunk));
}

static void every_order_that_can_run_is_accepted_and_no_other(void **state)
{
    (void)state;
    struct chance chance = {20260705, 0};
    int refused = 0, accepted = 0;
    for (int turn = 0; turn < 3000; turn++) {
        const struct tutti_schedule_shape shape = draw_shape(&chance);
        struct tutti_schedule *const right = schedules_random(&chance, &shape);
        int each;
        assert_non_null(right);
        assert_int_equal(tutti_schedule_check(right), TUTTI_OK);
        struct tutti_schedule_action *const all = copy_of(right, &each);
        for (int swaps = 1 + chance_below(&chance, 3); swaps > 0; swaps--) {
            struct tutti_schedule_action *const stage =
                all + chance_below(&chance, shape.stage_count) * each;
            const int i = chance_below(&chance, each), j = chance_below(&chance, each);
            const struct tutti_schedule_action kept = stage[i];
            stage[i] = stage[j];
            stage[j] = kept;
        }
        struct tutti_schedule *const changed = schedules_make(&shape, all);
        assert_non_null(changed);
        const enum tutti_status status = tutti_schedule_check(changed);
        assert_int_equal(status, can_run(&shape, all, each) ? TUTTI_OK : TUTTI_INVALID_OPTIONS);
        if (status != TUTTI_OK) expect_named(changed);
        *(status == TUTTI_OK ? &accepted : &refused) += 1;
        free(all);
        tutti_schedule_free(changed);
        tutti_schedule_free(right);
    }
    assert_true(accepted > 300 && refused > 300);
}

/* Moves one pass behind another one of its stage, if it is before it. */
static void move_behind(struct tutti_schedule_action *stage, int each,
                        struct tutti_schedule_action one, struct tutti_schedule_action other)
{
    int from = 0, to = 0;
    while (!is_action(stage[from], one.pass, one.micro_batch, one.chunk)) from++;
    while (!is_action(stage[to], other.pass, other.micro_batch, other.chunk)) to++;
    assert_true(from < each && to < each);
    for (; from < to; from++) stage[from] = stage[from + 1];
    stage[to] = from == to ? one : stage[to];
}

/* Stage s does not begin micro-batch j before i is over; stage s + 1 does not go back with i before
 * j has come. */
static void planted_deadlocks_are_refused_and_named(void **state)
{
    (void)state;
    struct chance chance = {7, 0};
    static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
    for (int turn = 0; turn < 1000; turn++) {
        const int kind = turn % 3, p = 2 + chance_below(&chance, 5);
        const int v = kind == 2 ? 1 + chance_below(&chance, 3) : 1;
        const int m = kind == 2 ? p * (1 + chance_below(&chance, 3)) : 2 + chance_below(&chance, 9);
        const int chunk = chance_below(&chance, v), s = chance_below(&chance, p - 1);
        const int i = chance_below(&chance, m), j = (i + 1 + chance_below(&chance, m - 1)) % m;
        const struct tutti_schedule_shape shape = {p, m, v};
        struct tutti_schedule *const right = make(names[kind], p, m, v);
        int each;
        struct tutti_schedule_action *const all = copy_of(right, &each);
        const struct tutti_schedule_action begins = {TUTTI_PASS_FORWARD, j, chunk};
        const struct tutti_schedule_action ends = {TUTTI_PASS_BACKWARD, i, chunk};
        move_behind(all + s * each, each, begins, ends);
        move_behind(all + (s + 1) * each, each, ends, begins);
        struct tutti_schedule *const wrong = schedules_make(&shape, all);
        double step_time = -1;
        char text[8];
        assert_non_null(wrong);
        assert_int_equal(tutti_schedule_check(wrong), TUTTI_INVALID_OPTIONS);
        expect_named(wrong);
        assert_int_equal(tutti_schedule_simulate(wrong, NULL, &step_time, NULL),
                         TUTTI_INVALID_OPTIONS);
        assert_true(step_time == -1);
        assert_int_equal(
            tutti_schedule_draw(wrong, NULL, TUTTI_SCHEDULE_PICTURE_TEXT, text, sizeof text, NULL),
            TUTTI_INVALID_OPTIONS);
        free(all);
        tutti_schedule_free(right);
        tutti_schedule_free(wrong);
    }
}

static void says(const char *text, const char *why)
{
    struct tutti_schedule *schedule;
    assert_int_equal(tutti_schedule_parse(text, strlen(text), &schedule), TUTTI_OK);
    assert_int_equal(tutti_schedule_check(schedule), TUTTI_INVALID_OPTIONS);
    assert_string_equal(tutti_error_message(), why);
    tutti_schedule_free(schedule);
}

static void what_is_wrong_is_said_in_full(void **state)
{
    (void)state;
    says("schedule stages 2 micro_batches 2 chunks 1\nstage 0: F0 F1 B0 B1\nstage 1: F0 B0 F1",
         "the schedule cannot run: stage 1 has no B1");
    says("schedule stages 2 micro_batches 1 chunks 1\nstage 1: F0 B0",
         "the schedule cannot run: stage 0 has no F0");
    says("schedule stages 1 micro_batches 2 chunks 1\nstage 0: F0 F1 F0 B1",
         "the schedule cannot run: stage 0 has F0 twice, at positions 0 and 2");
    says("schedule stages 1 micro_batches 1 chunks 2\nstage 0: F0.0 B0.0 F0.1 B0.1",
         "the schedule comes to a deadlock: stage 0, position 1: B0.0 waits for B0.1 of stage 0 "
         "(position 3)");
    says("schedule stages 2 micro_batches 2 chunks 1\nstage 0: F0 B0 F1 B1\nstage 1: F0 F1 B0 B1",
         "the schedule comes to a deadlock: stage 0, position 1: B0 waits for B0 of stage 1 "
         "(position 2); stage 1, position 1: F1 waits for F1 of stage 0 (position 2)");
}

/* ----------------------------------------------------------------------------------- simulation */

static void slow_stages_hold_up_the_others(void **state)
{
    (void)state;
    struct tutti_schedule *const schedule = make("1f1b", 2, 2, 1);
    const double weights[] = {1, 10};
    const struct tutti_schedule_times times = {sizeof times, 1, 2, weights};
    double step_time, idle_times[2];
    assert_int_equal(tutti_schedule_simulate(schedule, &times, &step_time, idle_times), TUTTI_OK);
    assert_true(step_time == 1 + 2 * 30 + 2); /* the slow one computes all the time but at both ends */
    assert_true(idle_times[0] == step_time - 6 && idle_times[1] == 3);
    tutti_schedule_free(schedule);
}

static void times_must_be_above_0(void **state)
{
    (void)state;
    struct tutti_schedule *const schedule = make("1f1b", 2, 2, 1);
    const double weights[] = {1, 0};
    const struct tutti_schedule_times bad[] = {{sizeof *bad, 0, 1, NULL},
                                               {sizeof *bad, 1, -1, NULL},
                                               {sizeof *bad, 1, INFINITY, NULL},
                                               {sizeof *bad, 1, 1, weights},
                                               {1, 1, 1, NULL}};
    double step_time;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tutti_schedule_simulate(schedule, &bad[i], &step_time, NULL),
                         TUTTI_INVALID_OPTIONS);
    tutti_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_are_those_of_the_papers),
        cmocka_unit_test(activations_are_those_of_the_papers),
        cmocka_unit_test(shapes_that_make_no_schedule_are_refused),
        cmocka_unit_test(every_order_that_can_run_is_accepted_and_no_other),
        cmocka_unit_test(planted_deadlocks_are_refused_and_named),
        cmocka_unit_test(what_is_wrong_is_said_in_full),
        cmocka_unit_test(slow_stages_hold_up_the_others),
        cmocka_unit_test(times_must_be_above_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
