/* The paths that messages take, according to the trace of a run: each rule and each row of each
 * transport's table decides something, and only tables decide.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/kit/changed_table.h"
#include "tests/worlds/card_world.h"
#include "tests/worlds/engine_world.h"
#include "tests/worlds/tcp_world.h"

enum { STEPS_MAX = 1 << 12, ROOM = 8, PIECE_BYTES = 64 << 10, FEW_BYTES = 4 << 10 };

/* --------------------------------------------------------------------------------------- worlds */

/* A job, and the links over which it runs: links within one thread for the tables of shared memory;
 * sockets of this host; simulated cards in virtual time. */
struct world {
    const struct engine_job *job;
    struct tcp_world *tcp;
    struct card_world *card;
    struct engine_net *net;
    struct engine_rank ranks[ENGINE_RANKS_MAX];
};

/* The conditions under which rows are taken: memory within reach, or links that are short of
 * room. */
static enum link_reach reach_for(enum path_kind path)
{
    if (path == PATH_READ) return REACH_READ;
    return path == PATH_COPY ? REACH_COPY : REACH_NONE;
}

/* If a message has to be stored first, or may be, it is longer than a piece. */
static size_t piece_bytes_for(enum path_kind path)
{
    return path == PATH_STAGE || path == PATH_SLOT ? FEW_BYTES : PIECE_BYTES;
}

static struct engine_mood mood_for(enum path_kind path, const struct path_table *table)
{
    return (struct engine_mood){.piece_bytes = piece_bytes_for(path),
                                .pieces = path == PATH_STAGE ? 1 : ROOM,
                                .delay = path == PATH_STAGE ? 3 : 1,
                                .reach = reach_for(path),
                                .expects = path == PATH_WRITE,
                                .shares = path == PATH_SLOT ? 0 : ROOM,
                                .paths = table};
}

static struct link_world open_tcp(struct world *world, enum path_kind path)
{
    world->tcp = tcp_world_create(world->job->size,
                                  (struct tcp_mood){.streams = 1,
                                                    .piece_bytes = piece_bytes_for(path),
                                                    .piece_count = path == PATH_STAGE ? 1 : ROOM,
                                                    .is_plain = true},
                                  1);
    return tcp_world_links(world->tcp);
}

static struct link_world open_card(struct world *world, enum path_kind path)
{
    world->card = card_world_create(
        world->job->size,
        (struct card_mood){
            .is_virtual = true, .packets = 8, .card = {.piece_count = path == PATH_STAGE ? 1 : 0}},
        1);
    return card_world_links(world->card);
}

/* Opens a world over the links of one table, which follow another table, with everything that
 * `path` needs. Nothing runs yet. */
static void world_open(struct world *world, const struct engine_job *job, enum table_number number,
                       const struct path_table *paths, enum path_kind path)
{
    *world = (struct world){.job = job};
    if (number == TABLE_LOCAL || number == TABLE_LOCAL_CHECKED) {
        world->net = engine_net_create(job->size, mood_for(path, paths), 1);
    } else {
        const struct link_world links =
            number == TABLE_TCP ? open_tcp(world, path) : open_card(world, path);
        for (int r = 0; r < job->size; r++) links.ranks[r]->paths.tables[0] = paths;
        world->net = engine_net_over(&links, 1);
    }
    for (int r = 0; r < job->size; r++) engine_rank_prepare(job, world->net, r, &world->ranks[r]);
}

static void world_close(struct world *world)
{
    for (int r = 0; r < world->job->size; r++) engine_rank_release(&world->ranks[r]);
    engine_net_free(world->net);
    if (world->tcp != NULL) tcp_world_free(world->tcp);
    if (world->card != NULL) card_world_free(world->card);
}

/* --------------------------------------------------------------------------------------- traces */

/* The paths of all steps of all ranks, one after the other, as path_bit. */
struct trace {
    uint16_t bits[STEPS_MAX];
    uint32_t count;
};

static void add_to(struct trace *trace, unsigned bits)
{
    assert_true(trace->count < STEPS_MAX);
    trace->bits[trace->count++] = (uint16_t)bits;
}

/* The paths in the lists of a step, for all its links and for each link alone; and those by which
 * the messages that it stores may come. */
static unsigned chosen_of(const struct program *program, const struct program_step *step)
{
    unsigned bits = program->lists[step->paths].bits;
    for (uint32_t i = 0; i < step->tx_count; i++)
        bits |= program->lists[program->step_tx_paths[step->first_tx + i]].bits;
    return bits | (step_has(step, STEP_EXPECTS) ? path_bit(PATH_WRITE) : 0) |
           (step_has(step, STEP_PLACES_DIRECTLY) ? path_bit(PATH_DIRECT) : 0);
}

static void trace_chosen(const struct world *world, struct trace *chosen)
{
    chosen->count = 0;
    for (int r = 0; r < world->job->size; r++) {
        const struct program *program = world->ranks[r].program;
        for (uint32_t s = 0; s < program->step_count; s++)
            add_to(chosen, chosen_of(program, &program->steps[s]));
    }
}

/* Runs the world. No step takes a path that is not in its lists, except a place of its links, which
 * is always there. */
static void trace_taken(struct world *world, struct trace *taken)
{
    const struct engine_job *job = world->job;
    taken->count = 0;
    engine_run(job, world->net, world->ranks);
    for (int r = 0; r < job->size; r++) {
        const struct operation *operation = &world->ranks[r].operation;
        const struct program *program = operation->program;
        for (uint32_t s = 0; s < program->step_count; s++) {
            const struct program_step *step = &program->steps[s];
            add_to(taken, operation->taken[s]);
            if ((operation->taken[s] & ~(chosen_of(program, step) | path_bit(step->place))) != 0)
                fail_msg("%s by %s: a step took a path that is not in its list",
                         collective_name(job->algorithm->collective), job->algorithm->name);
        }
        engine_expect_right(job, r, &world->ranks[r]);
    }
}

/* --------------------------------------------------------------- each rule and each row decides */

/* One rule of a table, and a copy of the table with another rule for messages of that size. */
struct question {
    enum table_number number; /* whose links */
    const struct path_table *table;
    const struct path_rule *rule;
    enum table_change change;
    struct changed_table changed;
    size_t bytes;
};

/* Whether a step had the path in its list and took it, and neither with the changed table. A step
 * whose list has no place of its links takes their slots nevertheless, but first stores what it
 * can: so only staging shows that the slot is in no list. */
static bool is_step_changed(enum path_kind path, unsigned chosen_before, unsigned chosen_after,
                            unsigned taken_before, unsigned taken_after)
{
    const unsigned bit = path_bit(path), staged = path_bit(PATH_STAGE);
    if ((chosen_before & bit) == 0 || (chosen_after & bit) != 0 || (taken_before & bit) == 0)
        return false;
    return path == PATH_SLOT ? (taken_after & ~taken_before & staged) != 0
                             : (taken_after & bit) == 0;
}

static bool is_changed(const struct question *question, const struct engine_job *job)
{
    static struct trace chosen_before, chosen_after, taken_before, taken_after;
    static struct world before, after;
    const enum path_kind path = question->rule->path;
    bool is_seen = false;
    world_open(&before, job, question->number, question->table, path);
    world_open(&after, job, question->number, &question->changed.table, path);
    trace_chosen(&before, &chosen_before);
    trace_chosen(&after, &chosen_after);
    if (memcmp(chosen_before.bits, chosen_after.bits,
               chosen_before.count * sizeof *chosen_before.bits) != 0) {
        trace_taken(&before, &taken_before);
        trace_taken(&after, &taken_after);
        for (uint32_t i = 0; i < taken_before.count && !is_seen; i++)
            is_seen = is_step_changed(path, chosen_before.bits[i], chosen_after.bits[i],
                                      taken_before.bits[i], taken_after.bits[i]);
    }
    world_close(&before);
    world_close(&after);
    return is_seen;
}

/* Whether an algorithm can answer the question. Ranks in a ring that do not stage wait for each
 * other for ever: then only a broadcast is asked, in which no rank sends to a rank that it waits
 * for. */
static bool is_asked(const struct question *question, const struct algorithm *algorithm)
{
    const enum collective collective = algorithm->collective;
    if ((path_traffic_of(collective) & question->rule->traffic) == 0 ||
        collective == COLLECTIVE_BARRIER || algorithm->needs_levels)
        return false;
    return question->rule->path != PATH_STAGE ||
           (collective == COLLECTIVE_BROADCAST && strcmp(algorithm->name, "chain") == 0);
}

/* Blocks of the size of one, some and all messages. */
static bool is_noticed_by(const struct question *question, const struct algorithm *algorithm)
{
    for (int size = 2; size <= 4; size += 2) {
        if (!algo_supports(algorithm, size)) continue;
        const int roots = collective_is_rooted(algorithm->collective) ? 2 : 1;
        for (int i = 0; i < 2 * roots; i++) {
            const size_t count = question->bytes / sizeof(int32_t);
            const struct engine_job job = {.algorithm = algorithm,
                                           .size = size,
                                           .root = i % roots,
                                           .count = count * (i < roots ? 1 : (size_t)size)};
            if (is_changed(question, &job)) return true;
        }
    }
    return false;
}

static bool is_noticed(const struct question *question)
{
    for (int a = 0; a < algo_count; a++)
        if (is_asked(question, &algo_list[a]) && is_noticed_by(question, &algo_list[a]))
            return true;
    return false;
}

/* Chooses the size: two pieces, which no table sends by reference, if a step may have to stage; and
 * enough bytes for a shared slot. */
static void suit(struct question *question)
{
    const enum path_kind path = question->rule->path;
    if (path == PATH_STAGE || (path == PATH_SLOT && question->change != RULE_LATER))
        question->bytes = 2 * FEW_BYTES - 1024;
    if (path == PATH_FORWARD && question->bytes < FEW_BYTES) question->bytes = FEW_BYTES;
}

/* Rules and bounds that decide nothing, and the reasons why they are there. */
#define ALWAYS_THERE                                                                              \
    "a message that no place of its links is in the list for takes their slots; the bound keeps " \
    "slots out of the lists of messages that go inline"
static const struct {
    enum table_number number;
    enum path_kind path;
    enum table_change change;
    const char *why;
} kept[] = {
    {TABLE_LOCAL, PATH_SLOT, RULE_LATER, ALWAYS_THERE},
    {TABLE_LOCAL_CHECKED, PATH_SLOT, RULE_LATER, ALWAYS_THERE},
    {TABLE_TCP, PATH_SLOT, RULE_LATER, ALWAYS_THERE},
};

static const char *why_kept(const struct question *question)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i].number == question->number && kept[i].path == question->rule->path &&
            kept[i].change == question->change)
            return kept[i].why;
    return NULL;
}

/* False: collectives do not follow that rule, or it has no such bound. */
static bool ask(enum table_number number, const struct path_table *table, unsigned rule,
                enum table_change change, struct question *question)
{
    *question = (struct question){
        .number = number, .table = table, .rule = &table->rules[rule], .change = change};
    if ((question->rule->traffic & PATH_ANY_COLLECTIVE) == 0 ||
        !table_change(table, rule, change, &question->changed, &question->bytes))
        return false;
    suit(question);
    return true;
}

/* Each change of each rule that collectives follow. For messages of send and recv see
 * p2p/paths_test.c. */
static void each_rule_of_each_table_decides_something(void **state)
{
    (void)state;
    int wrong = 0;
    static struct question question;
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct path_table *const table = table_numbered((enum table_number)t);
        for (unsigned i = 0; i < table->rule_count * TABLE_CHANGE_COUNT; i++) {
            const unsigned r = i / TABLE_CHANGE_COUNT;
            const enum table_change change = (enum table_change)(i % TABLE_CHANGE_COUNT);
            if (!ask((enum table_number)t, table, r, change, &question)) continue;
            const char *const why = why_kept(&question);
            if (is_noticed(&question) == (why == NULL)) continue;
            print_message("%s: rule %u, %s from %zu bytes on (%s): %s messages go %s%s\n",
                          table->name, r, path_kind_name(question.rule->path),
                          question.rule->bytes_min, question.rule->why, table_change_text(change),
                          why == NULL ? "as before" : "another path, although it is said here: ",
                          why == NULL ? "" : why);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* The test can fail. */
static void a_rule_that_decides_nothing_is_found(void **state)
{
    (void)state;
    static struct question question;
    static struct changed_table twice;
    const struct path_table *const table = table_numbered(TABLE_LOCAL);
    for (unsigned r = 0; r < table->rule_count; r++) {
        if (table->rules[r].path != PATH_READ) continue;
        table_repeat(table, r, &twice);
        assert_true(ask(TABLE_LOCAL, &twice.table, r, RULE_WITHOUT, &question));
        assert_false(is_noticed(&question));
        assert_true(ask(TABLE_LOCAL, &twice.table, r, ROW_LACKING, &question));
        assert_true(is_noticed(&question));
    }
}

/* Shows that the test above forgets no row. */
static void each_row_of_each_table_has_a_rule_for_collectives(void **state)
{
    (void)state;
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct path_table *const table = table_numbered((enum table_number)t);
        for (unsigned i = 0; i < table->row_count; i++) {
            unsigned traffic = 0;
            for (unsigned r = 0; r < table->rule_count; r++)
                if (table->rules[r].path == table->rows[i].path) traffic |= table->rules[r].traffic;
            if ((traffic & PATH_ANY_COLLECTIVE) == 0)
                fail_msg("%s: no rule for %s", table->name, path_kind_name(table->rows[i].path));
        }
    }
}

/* ---------------------------------------------------------------------------------- out of room */

static struct engine_job job_of(enum collective collective, const char *name, int size, size_t count)
{
    unsigned radix;
    struct engine_job job = {.size = size, .count = count};
    if (!algo_parse(collective, name, &job.algorithm, &radix)) fail_msg("no %s", name);
    return job;
}

/* Ranks of a ring would wait for each other. */
static void what_has_no_room_is_staged(void **state)
{
    (void)state;
    static struct trace taken;
    static struct world world;
    const struct engine_job job = job_of(COLLECTIVE_ALLGATHER, "ring", 4, 50000);
    world_open(&world, &job, TABLE_LOCAL, table_numbered(TABLE_LOCAL), PATH_STAGE);
    trace_taken(&world, &taken);
    unsigned bits = 0;
    for (uint32_t i = 0; i < taken.count; i++) bits |= taken.bits[i];
    assert_true((bits & path_bit(PATH_STAGE)) != 0 && (bits & path_bit(PATH_SLOT)) != 0);
    world_close(&world);
}

/* A path that could not be taken is counted with the reason. */
static void what_is_passed_over_is_counted(void **state)
{
    (void)state;
    static struct trace taken;
    static struct world world;
    const struct engine_job job = job_of(COLLECTIVE_ALLTOALL, "direct", 2, 10000);
    world_open(&world, &job, TABLE_LOCAL, table_numbered(TABLE_LOCAL), PATH_SLOT);
    trace_taken(&world, &taken);
    for (int r = 0; r < 2; r++)
        assert_true(world.ranks[r].operation.passed_over[PATH_READ][PASSED_OUT_OF_REACH] > 0);
    world_close(&world);
}

static unsigned paths_taken(const struct engine_job *job, bool in_small_pages)
{
    static struct trace taken;
    static struct world world = {0};
    struct engine_mood mood = mood_for(PATH_COPY, table_numbered(TABLE_LOCAL));
    mood.in_small_pages = in_small_pages;
    world = (struct world){.job = job, .net = engine_net_create(job->size, mood, 1)};
    for (int r = 0; r < job->size; r++) engine_rank_prepare(job, world.net, r, &world.ranks[r]);
    trace_taken(&world, &taken);
    world_close(&world);
    unsigned bits = 0;
    for (uint32_t i = 0; i < taken.count; i++) bits |= taken.bits[i];
    return bits;
}

/* Receivers copy out huge pages alone. */
static void what_lies_in_small_pages_goes_through_places(void **state)
{
    (void)state;
    const struct engine_job job = job_of(COLLECTIVE_ALLTOALL, "direct", 2, 20000);
    const unsigned huge = paths_taken(&job, false), small = paths_taken(&job, true);
    assert_true((huge & path_bit(PATH_COPY)) != 0 && (huge & path_bit(PATH_SLOT)) == 0);
    assert_true((small & path_bit(PATH_COPY)) == 0 && (small & path_bit(PATH_SLOT)) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_of_each_table_decides_something),
        cmocka_unit_test(a_rule_that_decides_nothing_is_found),
        cmocka_unit_test(each_row_of_each_table_has_a_rule_for_collectives),
        cmocka_unit_test(what_has_no_room_is_staged),
        cmocka_unit_test(what_is_passed_over_is_counted),
        cmocka_unit_test(what_lies_in_small_pages_goes_through_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
