/* With the buffers that pipeline_room counts, a pipeline comes to its end whatever the speed of its
 * stages; with one less it would not.
 *
 * ctest: label=notsan
 */
#include "pipeline_room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/train/schedules.h"

enum { STAGES_MAX = 5, MESSAGES_MAX = 2 * 64 * 8 };

/* A pipeline without data: the events of pipeline.c, one at a time, in any order. */
struct stage {
    size_t next, posted_to[2];
    int free_count[2];
    size_t sent[2];
    int ring[2][MESSAGES_MAX];
};

struct world {
    const struct tutti_schedule *schedule;
    struct pipeline_room rooms[STAGES_MAX];
    struct stage stages[STAGES_MAX];
    bool is_posted[2][MESSAGES_MAX], is_sent[2][MESSAGES_MAX];
};

static void start(struct world *w, const struct tutti_schedule *schedule,
                  const struct pipeline_room *rooms)
{
    *w = (struct world){.schedule = schedule};
    for (int s = 0; s < schedule->shape.stage_count; s++) {
        w->rooms[s] = rooms[s];
        for (int pass = 0; pass < 2; pass++)
            w->stages[s].free_count[pass] = rooms[s].receives[pass];
    }
}

static int message_of(const struct world *w, int part, int micro_batch)
{
    return (int)schedule_index(&w->schedule->shape, part, micro_batch);
}

static bool post_one(struct world *w, int s, enum tutti_pass pass)
{
    const struct tutti_schedule_shape *const shape = &w->schedule->shape;
    struct stage *const stage = &w->stages[s];
    for (; stage->posted_to[pass] < w->schedule->stages[s].count; stage->posted_to[pass]++) {
        const struct tutti_schedule_action a =
            w->schedule->stages[s].actions[stage->posted_to[pass]];
        const int from = schedule_part_before(shape, pass, schedule_part(shape, s, a.chunk));
        if (a.pass != pass || from < 0) continue;
        if (stage->free_count[pass] == 0) return false;
        stage->free_count[pass]--;
        stage->posted_to[pass]++;
        w->is_posted[pass][message_of(w, from, a.micro_batch)] = true;
        return true;
    }
    return false;
}

static bool pass_one(struct world *w, int s)
{
    const struct tutti_schedule_shape *const shape = &w->schedule->shape;
    struct stage *const stage = &w->stages[s];
    if (stage->next == w->schedule->stages[s].count) return false;
    const struct tutti_schedule_action a = w->schedule->stages[s].actions[stage->next];
    const int part = schedule_part(shape, s, a.chunk);
    const int from = schedule_part_before(shape, a.pass, part);
    const int to = schedule_part_behind(shape, a.pass, part);
    if (from >= 0) {
        const int message = message_of(w, from, a.micro_batch);
        if (!w->is_sent[a.pass][message] || !w->is_posted[a.pass][message]) return false;
    }
    if (to >= 0) {
        const size_t size = (size_t)w->rooms[s].sends[a.pass], sent = stage->sent[a.pass];
        if (size == 0) return false;
        if (sent >= size && !w->is_posted[a.pass][stage->ring[a.pass][sent - size]]) return false;
        stage->ring[a.pass][stage->sent[a.pass]++] = message_of(w, part, a.micro_batch);
        w->is_sent[a.pass][message_of(w, part, a.micro_batch)] = true;
    }
    stage->next++;
    for (int pass = 0; pass < 2 && a.pass == TUTTI_PASS_BACKWARD; pass++)
        if (schedule_part_before(shape, (enum tutti_pass)pass, part) >= 0)
            stage->free_count[pass]++;
    return true;
}

/* Whether all stages come to their end, in an order of events that chance decides. */
static bool comes_to_its_end(struct world *w, struct chance *chance)
{
    const int p = w->schedule->shape.stage_count;
    for (int idle = 0; idle < 2;) { /* some draws, then a look at everything */
        bool moved = false;
        for (int i = 0; i < 20; i++) {
            const int event = chance_below(chance, 3 * p), s = event / 3;
            moved |= event % 3 == 2 ? pass_one(w, s) : post_one(w, s, (enum tutti_pass)(event % 3));
        }
        for (int s = 0; s < p && !moved; s++)
            moved = pass_one(w, s) || post_one(w, s, TUTTI_PASS_FORWARD) ||
                    post_one(w, s, TUTTI_PASS_BACKWARD);
        idle = moved ? 0 : idle + 1;
    }
    for (int s = 0; s < p; s++)
        if (w->stages[s].next != w->schedule->stages[s].count) return false;
    return true;
}

static void count_rooms(const struct tutti_schedule *schedule, struct pipeline_room *rooms)
{
    for (int s = 0; s < schedule->shape.stage_count; s++)
        assert_int_equal(pipeline_room(schedule, s, &rooms[s]), TUTTI_OK);
}

static void any_schedule_runs_at_any_speed_of_its_stages(void **state)
{
    (void)state;
    struct chance chance = {11, 0};
    struct pipeline_room rooms[STAGES_MAX];
    struct world *const w = malloc(sizeof *w);
    int halts = 0, large = 0;
    assert_non_null(w);
    for (int turn = 0; turn < 1500; turn++) {
        const struct tutti_schedule_shape shape = {2 + chance_below(&chance, STAGES_MAX - 1),
                                                   1 + chance_below(&chance, 12),
                                                   1 + chance_below(&chance, 3)};
        struct tutti_schedule *const schedule = schedules_random(&chance, &shape);
        assert_non_null(schedule);
        count_rooms(schedule, rooms);
        for (int speed = 0; speed < 3; speed++) {
            start(w, schedule, rooms);
            assert_true(comes_to_its_end(w, &chance));
        }
        /* This can fail: rings of 1 are not enough for all. */
        for (int s = 0; s < shape.stage_count; s++)
            for (int pass = 0; pass < 2; pass++) {
                large += rooms[s].sends[pass] > 2;
                if (rooms[s].sends[pass] > 1) rooms[s].sends[pass] = 1;
            }
        start(w, schedule, rooms);
        halts += !comes_to_its_end(w, &chance);
        tutti_schedule_free(schedule);
    }
    assert_true(halts > 10 && large > 10);
    free(w);
}

/* The first stage does all forward passes first, the second one none too early: gradients line
 * up. */
static void stages_of_different_schedules_get_what_they_need(void **state)
{
    (void)state;
    static const char text[] =
        "schedule stages 2 micro_batches 12 chunks 1\n"
        "stage 0: F0 F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11\n"
        "stage 1: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8 F9 B9 F10 B10 F11 B11\n";
    struct chance chance = {5, 0};
    struct pipeline_room rooms[STAGES_MAX];
    struct tutti_schedule *schedule;
    struct world *const w = malloc(sizeof *w);
    assert_non_null(w);
    assert_int_equal(tutti_schedule_parse(text, sizeof text - 1, &schedule), TUTTI_OK);
    count_rooms(schedule, rooms);
    start(w, schedule, rooms);
    assert_true(comes_to_its_end(w, &chance));
    for (int s = 0; s < 2; s++)
        for (int pass = 0; pass < 2; pass++) {
            if (rooms[s].sends[pass] > 2) rooms[s].sends[pass] = 2;
        }
    start(w, schedule, rooms);
    assert_false(comes_to_its_end(w, &chance));
    tutti_schedule_free(schedule);
    free(w);
}

static void known_schedules_need_little(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++) {
        for (int m = 1; m <= 24; m++) {
            const struct tutti_schedule_shape shape = {p, m, 1};
            struct tutti_schedule *schedule;
            struct pipeline_room room;
            assert_int_equal(tutti_schedule_create("1f1b", &shape, &schedule), TUTTI_OK);
            for (int s = 0; s < p; s++) {
                const int kept = p - s < m ? p - s : m;
                assert_int_equal(pipeline_room(schedule, s, &room), TUTTI_OK);
                assert_int_equal(room.receives[0], s == 0 ? 0 : kept + 1 < m ? kept + 1 : m);
                assert_int_equal(room.receives[1], s == p - 1 ? 0 : m < 2 ? m : 2);
                assert_int_equal(room.sends[0], s == p - 1 ? 0 : m < 2 ? m : 2);
                assert_int_equal(room.sends[1], s == 0 ? 0 : m < 2 ? m : 2);
            }
            tutti_schedule_free(schedule);
        }
    }
}

static void one_stage_keeps_what_lies_between_its_chunks(void **state)
{
    (void)state;
    const struct tutti_schedule_shape shape = {1, 3, 3};
    struct tutti_schedule *schedule;
    struct pipeline_room room;
    assert_int_equal(tutti_schedule_create("interleaved", &shape, &schedule), TUTTI_OK);
    assert_int_equal(pipeline_room(schedule, 0, &room), TUTTI_OK);
    assert_int_equal(room.receives[0], 2); /* one micro-batch at a time: two boundaries */
    assert_int_equal(room.receives[1], 2); /* one that is read and one that is written */
    assert_int_equal(room.sends[0] + room.sends[1], 0);
    tutti_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_schedule_runs_at_any_speed_of_its_stages),
        cmocka_unit_test(stages_of_different_schedules_get_what_they_need),
        cmocka_unit_test(known_schedules_need_little),
        cmocka_unit_test(one_stage_keeps_what_lies_between_its_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
