/* Which ways messages take, as the trace of a run says: each rule of a table decides something, and nothing but tables does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "engine_world.h"
#include "transport/paths.h"

enum { RULES_MAX = 64, STEPS_MAX = 1 << 12, ROOM = 8, PIECE_BYTES = 64 << 10 };

/* The ways of all steps of all ranks, one after the other. */
struct trace {
    uint16_t taken[STEPS_MAX];
    uint32_t count;
    unsigned bits;
};

static void run_traced(const struct engine_job *job, const struct engine_mood *mood,
                       struct trace *trace)
{
    struct engine_rank ranks[ENGINE_RANKS_MAX] = {0};
    struct engine_net *net = engine_net_create(job->size, *mood, 1);
    trace->count = trace->bits = 0;
    for (int r = 0; r < job->size; r++) engine_rank_prepare(job, net, r, &ranks[r]);
    engine_run(job, net, ranks);
    for (int r = 0; r < job->size; r++) {
        const struct operation *const operation = &ranks[r].operation;
        for (uint32_t s = 0; s < operation->program->step_count; s++) {
            assert_true(trace->count < STEPS_MAX);
            trace->taken[trace->count++] = operation->taken[s];
            trace->bits |= operation->taken[s];
            /* Only what is in the step's list, or at the end of a link alone. */
            const struct program_step *step = &operation->program->steps[s];
            unsigned allowed = operation->program->lists[step->ways].bits | path_bit(step->place);
            for (uint32_t i = 0; i < step->tx_count; i++)
                allowed |=
                    operation->program->lists[operation->program->step_tx_ways[step->first_tx + i]].bits;
            if ((operation->taken[s] & ~allowed) != 0)
                fail_msg("%s by %s: a step took a way that is not in its list",
                         collective_name(job->algorithm->collective), job->algorithm->name);
        }
    }
    for (int r = 0; r < job->size; r++) {
        engine_expect_right(job, r, &ranks[r]);
        engine_rank_release(&ranks[r]);
    }
    engine_net_free(net);
}

/* ------------------------------------------------------------------------------------------ a rule less */

static struct path_rule rules[RULES_MAX];
static struct path_table changed;

static void change(const struct path_table *table)
{
    assert_true(table->rule_count <= RULES_MAX);
    memcpy(rules, table->rules, table->rule_count * sizeof *rules);
    changed = *table;
    changed.rules = rules;
}

static enum link_reach reach_for(enum path_way way)
{
    if (way == PATH_READ) return REACH_READ;
    return way == PATH_COPY ? REACH_COPY : REACH_NONE;
}

/* Whether the trace of that job is another one with the changed table. */
static bool differs(const struct engine_job *job, enum path_way way, bool expects)
{
    static struct trace before, after;
    struct engine_mood mood = {.piece_bytes = PIECE_BYTES,
                               .pieces = ROOM,
                               .delay = 1,
                               .reach = reach_for(way),
                               .expects = expects,
                               .shares = ROOM};
    run_traced(job, &mood, &before);
    mood.paths = &changed;
    run_traced(job, &mood, &after);
    return memcmp(before.taken, after.taken, before.count * sizeof *before.taken) != 0;
}

/* Whether a job in which the rule can apply takes other ways with the changed table. Blocks of one, some and all messages' size. */
static bool is_noticed(const struct path_rule *rule, size_t bytes)
{
    for (int a = 0; a < algo_count; a++) {
        const struct algorithm *const algorithm = &algo_list[a];
        if ((path_traffic_of(algorithm->collective) & rule->traffic) == 0 ||
            algorithm->collective == COLLECTIVE_BARRIER || algorithm->needs_levels)
            continue;
        for (int size = 2; size <= 4; size += 2) {
            if (!algo_supports(algorithm, size)) continue;
            const int roots = collective_is_rooted(algorithm->collective) ? 2 : 1;
            for (int i = 0; i < 2 * roots; i++) {
                const struct engine_job job = {.algorithm = algorithm,
                                               .size = size,
                                               .root = i % roots,
                                               .count = (bytes + 3) / sizeof(int32_t) *
                                                        (i < roots ? 1 : (size_t)size)};
                if (differs(&job, rule->way, rule->way == PATH_WRITE)) return true;
            }
        }
    }
    return false;
}

static void each_rule_decides_something(void **state)
{
    (void)state;
    const struct path_table *const table = transport_paths("local");
    for (unsigned r = 0; r < table->rule_count; r++) {
        const struct path_rule *const rule = &table->rules[r];
        if ((rule->traffic & PATH_ANY_COLLECTIVE) == 0 || path_is_place(rule->way) ||
            rule->way == PATH_STAGE)
            continue; /* those of messages, and what is always possible: below */
        change(table);
        rules[r].bytes_min = rules[r].bytes_max = SIZE_MAX;
        const size_t bytes = rule->bytes_min > 4 << 10 ? rule->bytes_min : 4 << 10;
        if (!is_noticed(rule, bytes) && !is_noticed(rule, 2 * bytes))
            fail_msg("rule %u, %s from %zu bytes on (%s), decides nothing", r,
                     path_way_name(rule->way), rule->bytes_min, rule->why);
    }
}

/* What links lack is taken by nobody, whatever rules there are for it. */
static void each_row_can_be_lacking(void **state)
{
    (void)state;
    const struct path_table *const table = transport_paths("local");
    for (unsigned r = 0; r < table->rule_count; r++) {
        const struct path_rule *const rule = &table->rules[r];
        if ((rule->traffic & PATH_ANY_COLLECTIVE) == 0 || path_is_place(rule->way) ||
            rule->way == PATH_STAGE)
            continue;
        change(table);
        changed.lacks = path_bit(rule->way);
        const size_t bytes = rule->bytes_min > 4 << 10 ? rule->bytes_min : 4 << 10;
        if (!is_noticed(rule, bytes) && !is_noticed(rule, 2 * bytes))
            fail_msg("%s is taken without being there", path_way_name(rule->way));
    }
}

/* ---------------------------------------------------------------------------------------- always possible */

static const struct algorithm *algorithm_of(enum collective collective, const char *name)
{
    unsigned radix;
    const struct algorithm *algorithm;
    if (!algo_parse(collective, name, &algorithm, &radix)) fail_msg("no %s", name);
    return algorithm;
}

static void places_follow_their_bounds(void **state)
{
    (void)state;
    struct trace trace;
    struct engine_mood mood = {.piece_bytes = PIECE_BYTES, .pieces = ROOM, .delay = 1};
    const struct engine_job to_one = {.algorithm = algorithm_of(COLLECTIVE_ALLTOALL, "direct"),
                                      .size = 4,
                                      .count = 10},
                            to_all = {.algorithm = algorithm_of(COLLECTIVE_ALLREDUCE, "oneshot"),
                                      .size = 4,
                                      .count = 20};
    run_traced(&to_one, &mood, &trace);
    assert_int_equal(trace.bits, path_bit(PATH_INLINE));
    run_traced(&to_all, &mood, &trace);
    assert_int_equal(trace.bits, path_bit(PATH_GROUP_SLOT));
    change(transport_paths("local"));
    for (unsigned r = 0; r < changed.rule_count; r++) {
        if (rules[r].way == PATH_INLINE) rules[r].bytes_max = 8;
        if (rules[r].way == PATH_SLOT) rules[r].bytes_min = 9;
    }
    mood.paths = &changed;
    run_traced(&to_one, &mood, &trace);
    assert_int_equal(trace.bits, path_bit(PATH_SLOT));
}

/* Links with room for one piece: ranks of a ring would wait for each other. */
static void what_has_no_room_is_staged(void **state)
{
    (void)state;
    struct trace trace;
    const struct engine_mood mood = {.piece_bytes = 16 << 10, .pieces = 1, .delay = 3};
    const struct engine_job job = {
        .algorithm = algorithm_of(COLLECTIVE_ALLGATHER, "ring"), .size = 4, .count = 50000};
    run_traced(&job, &mood, &trace);
    assert_true((trace.bits & path_bit(PATH_STAGE)) != 0 && (trace.bits & path_bit(PATH_SLOT)) != 0);
}

/* A way that could not be taken is counted with the reason. */
static void what_is_passed_over_is_counted(void **state)
{
    (void)state;
    struct engine_rank ranks[2] = {0};
    const struct engine_job job = {
        .algorithm = algorithm_of(COLLECTIVE_ALLTOALL, "direct"), .size = 2, .count = 10000};
    const struct engine_mood mood = {.piece_bytes = PIECE_BYTES, .pieces = 4, .delay = 1};
    struct engine_net *net = engine_net_create(2, mood, 1);
    for (int r = 0; r < 2; r++) engine_rank_prepare(&job, net, r, &ranks[r]);
    engine_run(&job, net, ranks);
    for (int r = 0; r < 2; r++) {
        assert_true(ranks[r].operation.passed_over[PATH_READ][PASSED_OUT_OF_REACH] > 0);
        engine_rank_release(&ranks[r]);
    }
    engine_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_decides_something),
        cmocka_unit_test(each_row_can_be_lacking),
        cmocka_unit_test(places_follow_their_bounds),
        cmocka_unit_test(what_has_no_room_is_staged),
        cmocka_unit_test(what_is_passed_over_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
