/* The engine beside its model, without noise: every algorithm runs over links in virtual time that
 * have a latency and a rate (sim/), and takes as long as its simulation (src/model) with the same
 * numbers says.
 * ctest: timeout=300 label=once label=nosan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/status.h"
#include "model/simulate.h"
#include "tests/kit/call.h"
#include "tests/kit/sanitized.h"
#include "tests/sim/net.h"
#include "tests/sim/sim_task.h"
#include "transport/tcp/link.h"

enum { RANKS_MAX = 17, NET = SIM_MESSAGE + 1, PIECE_BYTES = 16 << 10, PIECES = 32 };

/* A byte takes a whole number of nanoseconds, so nothing is rounded: events at one time in the
 * model are at one time in the engine, too. */
static const struct sim_wire wire = {.latency_ns = 20000, .message_ns = 1000, .byte_ps = 1000};

/* Ranks 2h and 2h + 1 on a host, for plans alone: every rank has a card of its own. */
static const struct algo_levels *pairs(void)
{
    static int hosts[RANKS_MAX];
    static struct algo_levels levels = {.level_count = 1, .group_of = {hosts}};
    for (int r = 0; r < RANKS_MAX; r++) hosts[r] = r / 2;
    return &levels;
}

/* ----------------------------------------------------------------------------------- the engine */

struct world {
    struct sim *sim;
    struct sim_net *net;
    struct sim_task tasks[RANKS_MAX];
    uint64_t begun_ns, ended_ns;
    int left;
};

static void go_on(struct world *world, int rank)
{
    struct sim_task *task = &world->tasks[rank];
    enum run_result result = RUN_MOVED;
    while (!task->is_done && result == RUN_MOVED) result = operation_run(&task->operation);
    assert_int_not_equal(result, RUN_FAULT);
    if (task->is_done || result != RUN_DONE) return;
    task->is_done = true;
    world->left--;
    world->ended_ns = sim_now_ns(world->sim);
}

/* In nanoseconds, from when all links are connected and all ranks begin. */
static uint64_t run_engine(const struct sim_job *job)
{
    int nodes[RANKS_MAX];
    struct world world = {.sim = sim_create(1), .left = job->size};
    for (int r = 0; r < job->size; r++) nodes[r] = r;
    const struct sim_net_options options = {.size = job->size,
                                            .nodes = nodes,
                                            .kind = NET,
                                            .streams = 2,
                                            .piece_bytes = PIECE_BYTES,
                                            .piece_count = PIECES,
                                            .frame_count = UINT16_MAX,
                                            .reach_bytes = 0,
                                            .wire = &wire};
    struct sim_event event;
    world.net = sim_net_create(world.sim, &options);
    for (int r = 0; r < job->size; r++)
        sim_task_begin(&world.tasks[r], job, sim_net_transport(world.net, r));
    while (sim_next(world.sim, &event)) sim_net_happen(world.net, &event);
    world.begun_ns = sim_now_ns(world.sim);
    for (int r = 0; r < job->size; r++) go_on(&world, r);
    while (world.left > 0 && sim_next(world.sim, &event)) {
        sim_net_happen(world.net, &event);
        go_on(&world, event.node);
    }
    if (world.left > 0 || sim_net_wrong(world.net) != NULL)
        fail_msg("%s by %s on %d ranks: it comes to a halt",
                 collective_name(job->algorithm->collective), job->algorithm->name, job->size);
    for (int r = 0; r < job->size; r++) {
        assert_true(sim_task_is_right(&world.tasks[r]));
        sim_task_end(&world.tasks[r]);
    }
    sim_net_free(world.net);
    sim_free(world.sim);
    return world.ended_ns - world.begun_ns;
}

/* ------------------------------------------------------------------------------------ the model */

/* The links' table, of which only the paths count: ranks take no time for anything. */
static const struct path_table *free_paths(const struct path_table *from)
{
    enum { ROWS_MAX = 16 };
    static struct path_row rows[ROWS_MAX];
    static struct path_table table;
    assert_true(from->row_count <= ROWS_MAX);
    table = *from;
    for (unsigned i = 0; i < from->row_count; i++) {
        rows[i] = from->rows[i];
        rows[i].cost = (struct path_cost){0, 0, 0, 0};
    }
    table.rows = rows;
    return &table;
}

static uint64_t run_model(const struct sim_job *job, const struct path_table *paths)
{
    int hosts[RANKS_MAX];
    for (int r = 0; r < job->size; r++) hosts[r] = r;
    const struct model_machine machine = {
        .rank_count = job->size,
        .host_count = job->size,
        .rack_count = 1,
        .host_of = hosts,
        .core_count = 1,
        .latency_ps = {[MODEL_SAME_RACK] = wire.latency_ns * 1000},
        .card = {.message = {.each_ps = wire.message_ns * 1000, .byte_fs = wire.byte_ps * 1000}},
        .between = paths,
        .piece_bytes_max = PIECE_BYTES,
        .piece_count_max = PIECES};
    const struct algo_params params = {.collective = job->algorithm->collective,
                                       .rank_count = job->size,
                                       .root = job->root,
                                       .levels = job->levels};
    struct plan *plan = NULL;
    struct wiring wiring;
    struct verify_report report;
    const char *message = "";
    if (algo_plan(job->algorithm, &params, &plan, &message) != TUTTI_OK) fail_msg("%s", message);
    if (wiring_init(&wiring, plan, NULL, &report) != VERIFY_PROVEN) fail_msg("%s", report.message);
    struct model_result result = {.time_ps = 0};
    if (model_simulate(plan, &wiring, &machine, job->count, dtype_size(job->dtype), &result) !=
        TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    wiring_release(&wiring);
    plan_free(plan);
    return result.time_ps;
}

/* --------------------------------------------------------------------------------- both of them */

static const struct path_table *paths_of_links(void)
{
    static const int node = 0;
    struct sim *sim = sim_create(1);
    const struct sim_net_options options = {.size = 1,
                                            .nodes = &node,
                                            .kind = NET,
                                            .streams = 2,
                                            .piece_bytes = PIECE_BYTES,
                                            .piece_count = PIECES,
                                            .frame_count = 2,
                                            .wire = &wire};
    struct sim_net *net = sim_net_create(sim, &options);
    struct path_rule *rules;
    static struct path_table table;
    table = *sim_net_transport(net, 0)->paths.tables[0];
    rules = malloc(table.rule_count * sizeof *rules); /* for the test's life */
    assert_non_null(rules);
    for (unsigned i = 0; i < table.rule_count; i++) rules[i] = table.rules[i];
    table.rules = rules;
    sim_net_free(net);
    sim_free(sim);
    return free_paths(&table);
}

static bool can_do(const struct algorithm *algorithm, int size)
{
    return algorithm->needs_levels ? algo_supports_levels(algorithm, size)
                                   : algo_supports(algorithm, size);
}

struct tally {
    double worst;
    int cases, wrong;
};

static void compare(const struct sim_job *job, const struct path_table *paths, size_t bytes,
                    struct tally *tally)
{
    const double engine = (double)run_engine(job), model = (double)run_model(job, paths) / 1000;
    const double error = model > engine ? model / engine - 1 : 1 - model / engine;
    tally->cases++;
    if (error > tally->worst) tally->worst = error;
    if (error <= 0.01) return;
    tally->wrong++;
    printf("%s by %s on %d ranks, %zu bytes: %.3f us, the model says %.3f\n",
           collective_name(job->algorithm->collective), job->algorithm->name, job->size, bytes,
           engine / 1000, model / 1000);
}

/* A vector of so many bytes, or blocks of as many together. */
static size_t count_of(enum collective collective, int size, size_t bytes)
{
    switch (collective) {
    case COLLECTIVE_BARRIER: return 0;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return bytes / sizeof(int32_t);
    default: return bytes / sizeof(int32_t) / (size_t)size;
    }
}

/* At all sizes, with a root of its own at each. */
static void compare_sizes(const struct algorithm *algorithm, int size,
                          const struct path_table *paths, struct tally *tally)
{
    static const size_t sizes[] = {1 << 10, 64 << 10, 1 << 20};
    static unsigned combination;
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++) {
        if (is_left_out(combination++)) continue;
        const struct sim_job job = {.algorithm = algorithm,
                                    .levels = algorithm->needs_levels ? pairs() : NULL,
                                    .size = size,
                                    .root =
                                        collective_is_rooted(algorithm->collective) ? s % size : 0,
                                    .count = count_of(algorithm->collective, size, sizes[s]),
                                    .dtype = TUTTI_INT32,
                                    .op = OP_SUM,
                                    .signature = 7};
        compare(&job, paths, sizes[s], tally);
    }
}

static bool is_quick(int size)
{
    static const int quick[] = {2, 3, 4, 7, 8, 12, 17};
    for (size_t q = 0; q < sizeof quick / sizeof *quick; q++)
        if (quick[q] == size) return true;
    return false;
}

static void the_engine_takes_as_long_as_the_model_says(void **state)
{
    (void)state;
    const bool is_long = getenv("TUTTI_LONG") != NULL;
    const struct path_table *paths = paths_of_links();
    struct tally tally = {.cases = 0};
    for (int i = 0; i < algo_count; i++)
        for (int p = 2; p <= RANKS_MAX; p++)
            if ((is_long || is_quick(p)) && can_do(&algo_list[i], p))
                compare_sizes(&algo_list[i], p, paths, &tally);
    printf("%d cases, %d of them off by more than 1%%, at most %.2f%%\n", tally.cases, tally.wrong,
           100 * tally.worst);
    assert_true(tally.cases > 1200 / (int)sparse_stride());
    assert_int_equal(tally.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_takes_as_long_as_the_model_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
