/* server_test.c - parameter servers among processes: the bits of every mode, who waits, who took
 * part, what is refused, and deaths of workers and servers. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tests/kit/sanitized.h"
#include "tutti/server.h"

enum { WIDTH = 3000, SMALL = 7, ROWS = 500, ROW_WIDTH = 4, STEPS = 6 };
enum { DENSE, LITTLE, WORDS, TABLES }; /* tables */

static _Thread_local struct tutti_server_table tables[TABLES]; /* ranks may be threads */

/* `servers` servers are the first ranks; and the first `both` of these work, too. */
struct plan {
    int servers, both;
    enum tutti_server_mode mode;
    int staleness, quorum;
};

static int ranks_of_servers[] = {0, 1, 2, 3};

static struct tutti_server_options options_of(const struct plan *plan, int size, int *workers)
{
    tables[DENSE] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("dense", 0, WIDTH);
    tables[LITTLE] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("little", 0, SMALL);
    tables[WORDS] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("words", ROWS, ROW_WIDTH);
    for (int t = 0; t < TABLES; t++) tables[t].rate = 1;
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    options.tables = tables;
    options.table_count = TABLES;
    options.server_ranks = ranks_of_servers;
    options.server_count = (size_t)plan->servers;
    for (int r = plan->servers - plan->both; r < size; r++) workers[options.worker_count++] = r;
    options.worker_ranks = workers;
    options.mode = plan->mode;
    options.staleness = plan->staleness;
    options.quorum = plan->quorum;
    options.timeout_ns = 60000000000;
    return options;
}

static float value_of(uint64_t seed, int rank, int step, size_t i)
{
    const uint64_t h = elements_mixed(seed + (uint64_t)(rank * 100 + step), i);
    return (float)((double)(h % 20001) / 10000 - 1) * (h % 7 == 0 ? 1e4f : 1.0f);
}

static void fill(float *values, size_t count, uint64_t seed, int rank, int step)
{
    for (size_t i = 0; i < count; i++) values[i] = value_of(seed, rank, step, i);
}

struct world {
    int workers[16];
    struct tutti_server *server;
    int is_worker;
};

static enum tutti_status begin(struct world *world, const struct plan *plan, int rank, int size,
                               struct tutti_comm *comm)
{
    const struct tutti_server_options options = options_of(plan, size, world->workers);
    world->is_worker = rank >= plan->servers - plan->both;
    return tutti_server_create(&options, comm, &world->server);
}

/* -------------------------------------------------------------------------------- saved and loaded */

static int trains(struct world *world, uint64_t seed, int rank, int step, float *got)
{
    float mine[WIDTH];
    const struct tutti_server_part push = {DENSE, NULL, 0, mine}, pull = {DENSE, NULL, 0, got};
    fill(mine, WIDTH, seed, rank, step);
    if (!world->is_worker) return 0;
    RANKS_EXPECT(tutti_server_push_pull(world->server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
    return 0;
}

/* A run that is saved after a step and goes on has the values of one that begins with what was saved. */
static int is_saved(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan *const plan = context;
    float expected[WIDTH] = {0}, got[WIDTH] = {0};
    char folder[64] = "";
    struct world world = {0};
    if (rank == 0) {
        snprintf(folder, sizeof folder, "server-test-XXXXXX");
        RANKS_EXPECT(mkdtemp(folder) != NULL);
    }
    RANKS_EXPECT(tutti_broadcast(folder, folder, sizeof folder, TUTTI_UINT8, 0, comm) == TUTTI_OK);
    struct tutti_server_options options = options_of(plan, size, world.workers);
    for (int t = 0; t < TABLES; t++) tables[t].optimizer = TUTTI_SERVER_ADAM;
    world.is_worker = rank >= plan->servers - plan->both;
    RANKS_EXPECT(tutti_server_create(&options, comm, &world.server) == TUTTI_OK);
    RANKS_EXPECT(trains(&world, seed, rank, 0, got) == 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    const enum tutti_status saved = tutti_server_save(world.server, folder);
    RANKS_EXPECT(saved == (rank < plan->servers ? TUTTI_OK : TUTTI_INVALID_RANK));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(trains(&world, seed, rank, 1, expected) == 0);
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);

    options.load_folder = folder;
    RANKS_EXPECT(tutti_server_create(&options, comm, &world.server) == TUTTI_OK);
    RANKS_EXPECT(trains(&world, seed, rank, 1, got) == 0);
    RANKS_EXPECT(memcmp(got, expected, sizeof got) == 0 || !world.is_worker);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    /* One server saves one step later: the parts do not belong together. */
    RANKS_EXPECT(trains(&world, seed, rank, 2, got) == 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) RANKS_EXPECT(tutti_server_save(world.server, folder) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    const enum tutti_status again = tutti_server_create(&options, comm, &world.server);
    RANKS_EXPECT(again == (plan->servers > 1 ? TUTTI_MISMATCH : TUTTI_OK));
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    if (rank != 0) return 0;
    for (int s = 0; s < plan->servers; s++) {
        char path[128];
        snprintf(path, sizeof path, "%s/server-%d-of-%d.tables", folder, s, plan->servers);
        RANKS_EXPECT(unlink(path) == 0);
    }
    RANKS_EXPECT(rmdir(folder) == 0);
    return 0;
}

static void what_was_saved_is_where_the_next_run_begins(void **state)
{
    (void)state;
    expect_good(5, RANKS_DEFAULT, is_saved, &(struct plan){.servers = 2});
    expect_good(2, RANKS_DEFAULT, is_saved, &(struct plan){.servers = 1, .both = 1});
}

/* -------------------------------------------------------------------------------- bits of a clock */

/* Expected: each step subtracts the sum of the ranks' gradients, taken by an allreduce in rank
 * order among the workers. */
static int same_bits(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan *const plan = context;
    static _Thread_local float expected[WIDTH], mine[WIDTH], sums[WIDTH], got[WIDTH], little[SMALL],
        zeros[SMALL];
    struct world world = {0};
    struct tutti_comm *workers = NULL;
    RANKS_EXPECT(begin(&world, plan, rank, size, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_split(comm, world.is_worker ? 0 : TUTTI_NO_COLOR, rank, NULL,
                                  &workers) == TUTTI_OK);
    memset(expected, 0, sizeof expected);
    memset(zeros, 0, sizeof zeros);
    for (int step = 0; step < STEPS && world.is_worker; step++) {
        struct tutti_call_options in_order = TUTTI_CALL_OPTIONS_INIT;
        in_order.algorithm = "oneshot";
        in_order.deterministic = 1;
        fill(mine, WIDTH, seed, rank, step);
        RANKS_EXPECT(tutti_allreduce_with(mine, sums, WIDTH, TUTTI_FLOAT32, TUTTI_SUM, &in_order,
                                          workers) == TUTTI_OK);
        for (int i = 0; i < WIDTH; i++) expected[i] += -1.0f * sums[i];
        const struct tutti_server_part push = {DENSE, NULL, 0, mine};
        const struct tutti_server_part pull[] = {{DENSE, NULL, 0, got}, {LITTLE, NULL, 0, little}};
        if (step % 2 == 0) {
            RANKS_EXPECT(tutti_server_push_pull(world.server, &push, 1, pull, 2, NULL) == TUTTI_OK);
        } else {
            RANKS_EXPECT(tutti_server_push(world.server, &push, 1, NULL) == TUTTI_OK);
            RANKS_EXPECT(tutti_server_tick(world.server, NULL) == TUTTI_OK);
            RANKS_EXPECT(tutti_server_pull(world.server, pull, 2, NULL) == TUTTI_OK);
        }
        RANKS_EXPECT(memcmp(got, expected, sizeof got) == 0);
        RANKS_EXPECT(memcmp(little, zeros, sizeof little) == 0);
    }
    if (!world.is_worker) RANKS_EXPECT(tutti_server_serve(world.server) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(workers) == TUTTI_OK);
    return 0;
}

static void a_synchronous_clock_has_the_bits_of_an_allreduce_in_rank_order(void **state)
{
    (void)state;
    expect_good_both(4, same_bits, &(struct plan){.servers = 1});
    expect_good(5, RANKS_DEFAULT, same_bits, &(struct plan){.servers = 2});
    expect_good(3, RANKS_DEFAULT, same_bits, &(struct plan){.servers = 3, .both = 3});
    expect_good(3, RANKS_DEFAULT, same_bits, &(struct plan){.servers = 1, .both = 1});
}

static void a_bound_of_0_has_the_same_bits(void **state)
{
    (void)state;
    expect_good(5, RANKS_DEFAULT, same_bits,
                &(struct plan){.servers = 2, .mode = TUTTI_SERVER_BOUNDED});
    /* And so has a quorum of all. */
    expect_good(5, RANKS_DEFAULT, same_bits,
                &(struct plan){.servers = 2, .mode = TUTTI_SERVER_QUORUM, .quorum = 3});
}

/* ------------------------------------------------------------------------------------------- rows */

static int rows_are_added(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan *const plan = context;
    struct world world = {0};
    static _Thread_local float all[ROWS][ROW_WIDTH], values[40][ROW_WIDTH], out[ROWS][ROW_WIDTH];
    static _Thread_local int64_t rows[40], every[ROWS];
    (void)seed;
    RANKS_EXPECT(begin(&world, plan, rank, size, comm) == TUTTI_OK);
    memset(all, 0, sizeof all);
    for (int64_t i = 0; i < ROWS; i++) every[i] = ROWS - 1 - i;
    for (int step = 0; step < STEPS && world.is_worker; step++) {
        for (int from = plan->servers - plan->both; from < size; from++)
            for (int i = 0; i < 40; i++) { /* whole numbers: exact sums */
                const int64_t row =
                    (int64_t)elements_mixed((uint64_t)(from * 50 + step), (uint64_t)i) % 97;
                if (from == rank) rows[i] = row < 0 ? -row : row;
                for (int c = 0; c < ROW_WIDTH; c++) {
                    const float value = (float)(from + i + c);
                    if (from == rank) values[i][c] = value;
                    all[row < 0 ? -row : row][c] -= value;
                }
            }
        const struct tutti_server_part push = {WORDS, rows, 40, values};
        const struct tutti_server_part pull = {WORDS, every, ROWS, out};
        struct tutti_server_call_options options = TUTTI_SERVER_CALL_OPTIONS_INIT;
        if (step % 2 == 1) options.encoding = TUTTI_ENCODING_FLOAT16; /* exact for these, too */
        RANKS_EXPECT(tutti_server_push_pull(world.server, &push, 1, &pull, 1, &options) == TUTTI_OK);
        for (int i = 0; i < ROWS; i++)
            RANKS_EXPECT(memcmp(out[i], all[every[i]], sizeof *out) == 0);
    }
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    return 0;
}

static void rows_are_added_on_whichever_server_has_them(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, rows_are_added, &(struct plan){.servers = 1});
    expect_good(5, RANKS_DEFAULT, rows_are_added, &(struct plan){.servers = 3});
}

/* -------------------------------------------------------------------------- bounds and quorums */

struct shared {
    _Atomic int clocks[16];
    _Atomic int highest_lead;
    _Atomic int may_go;
    _Atomic uint64_t died_ns;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The last rank is slow: it ends a clock only when the others have been waiting for it. */
static int the_bound_blocks(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    struct shared *const shared = context;
    const struct plan plan = {.servers = 1, .mode = TUTTI_SERVER_BOUNDED, .staleness = 2};
    struct world world = {0};
    (void)seed;
    RANKS_EXPECT(begin(&world, &plan, rank, size, comm) == TUTTI_OK);
    for (int clock = 0; clock < 8 && rank > 0; clock++) {
        float little[SMALL] = {1, 1, 1, 1, 1, 1, 1}, got[SMALL];
        const struct tutti_server_part push = {LITTLE, NULL, 0, little},
                                       pull = {LITTLE, NULL, 0, got};
        if (rank == size - 1) /* waits until the others can go no further */
            for (int other = 1; other < size - 1; other++)
                while (atomic_load(&shared->clocks[other]) < clock + 2 &&
                       atomic_load(&shared->clocks[other]) < 7)
                    ranks_nap_ms(1);
        for (int other = 1; other < size; other++) {
            const int lead = clock - atomic_load(&shared->clocks[other]);
            /* A worker writes its clock when it has begun it, which it may before it has
             * written. */
            RANKS_EXPECT(lead <= plan.staleness + 1);
            if (rank != size - 1 && lead > atomic_load(&shared->highest_lead))
                atomic_store(&shared->highest_lead, lead);
        }
        RANKS_EXPECT(tutti_server_push(world.server, &push, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_tick(world.server, NULL) == TUTTI_OK);
        atomic_store(&shared->clocks[rank], clock + 1);
        RANKS_EXPECT(tutti_server_pull(world.server, &pull, 1, NULL) == TUTTI_OK);
        /* At least all updates of its own, and of the others up to the bound. */
        const int own = clock + 1, others = clock + 1 - plan.staleness;
        RANKS_EXPECT(-got[0] >= (float)(own + (others > 0 ? (size - 2) * others : 0)));
    }
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    return 0;
}

static void a_worker_waits_at_the_bound_and_sees_what_it_must(void **state)
{
    (void)state;
    struct shared *const shared = ranks_share(sizeof *shared);
    expect_good(4, RANKS_DEFAULT, the_bound_blocks, shared);
    assert_true(atomic_load(&shared->highest_lead) >= 2);
}

/* Every worker reads who took part in each step, and computes from that what the servers must
 * have, bit for bit; in the end all have read the same. */
enum { CLOCKS = 8 };

struct replayed {
    const struct plan plan;
    _Atomic int members[4096]; /* of each step, a bit for each rank */
    _Atomic int done;
};

static int read_members(struct tutti_server *server, uint64_t number, int *members,
                        struct tutti_server_step *step)
{
    int ranks[16];
    *step = (struct tutti_server_step){.size_bytes = sizeof *step};
    *members = 0;
    if (tutti_server_step_read(server, number, ranks, 16, step) != TUTTI_OK) return 1;
    for (size_t i = 0; i < step->member_count; i++) *members |= 1 << ranks[i];
    return 0;
}

/* Step by step, each in the order of ranks. Returns the number of updates. */
static int replay(const struct replayed *replayed, int steps, uint64_t seed, int size, float *values)
{
    int clocks[16] = {0}, updates = 0;
    memset(values, 0, WIDTH * sizeof *values);
    for (int step = 1; step <= steps; step++)
        for (int i = 0; i < WIDTH; i++) {
            float sum = 0;
            bool is_first = true;
            for (int rank = 0; rank < size; rank++) {
                if (!(atomic_load(&replayed->members[step]) >> rank & 1)) continue;
                if (clocks[rank] == CLOCKS) continue; /* pushed nothing */
                const float value = value_of(seed, rank, clocks[rank], (size_t)i);
                sum = is_first ? value : sum + value;
                is_first = false;
                if (i == WIDTH - 1) clocks[rank]++, updates++;
            }
            if (!is_first) values[i] += -1.0f * sum;
        }
    return updates;
}

static int steps_can_be_replayed(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    struct replayed *const replayed = context;
    const struct plan *const plan = &replayed->plan;
    static _Thread_local float mine[WIDTH], got[WIDTH], expected[WIDTH];
    struct world world = {0};
    struct tutti_server_step step;
    int members;
    RANKS_EXPECT(begin(&world, plan, rank, size, comm) == TUTTI_OK);
    const int workers = size - plan->servers;
    for (int clock = 0; clock < CLOCKS && rank >= plan->servers; clock++) {
        fill(mine, WIDTH, seed, rank, clock);
        if (rank == size - 1) ranks_nap_ms(3);
        const struct tutti_server_part push = {DENSE, NULL, 0, mine};
        RANKS_EXPECT(tutti_server_push(world.server, &push, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_tick(world.server, NULL) == TUTTI_OK);
        RANKS_EXPECT(read_members(world.server, 0, &members, &step) == 0);
        RANKS_EXPECT(members >> rank & 1);
        if (plan->quorum > 0)
            RANKS_EXPECT((int)step.member_count >= plan->quorum ||
                         step.member_count == step.worker_count);
    }
    if (rank < plan->servers) {
        RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
        return 0;
    }
    /* Others may need this worker for their quorum: it ends clocks in which it pushed nothing. */
    atomic_fetch_add(&replayed->done, 1);
    const bool waits = plan->quorum == 0 || rank == size - 1;
    while (waits && atomic_load(&replayed->done) < workers)
        if (plan->quorum > 0)
            RANKS_EXPECT(tutti_server_tick(world.server, NULL) == TUTTI_OK);
        else
            ranks_nap_ms(1);
    int steps = 0;
    while (waits && steps < 4095 &&
           read_members(world.server, (uint64_t)steps + 1, &members, &step) == 0) {
        int before = 0;
        steps++;
        RANKS_EXPECT(atomic_compare_exchange_strong(&replayed->members[steps], &before, members) ||
                     before == members);
    }
    const struct tutti_server_part pull = {DENSE, NULL, 0, got};
    RANKS_EXPECT(tutti_server_pull(world.server, &pull, 1, NULL) == TUTTI_OK);
    if (waits) {
        RANKS_EXPECT(replay(replayed, steps, seed, size, expected) == CLOCKS * workers);
        RANKS_EXPECT(memcmp(got, expected, sizeof got) == 0);
    }
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    return 0;
}

static void who_took_part_is_the_same_for_all_and_says_every_bit(void **state)
{
    (void)state;
    const struct plan plans[] = {
        {.servers = 2, .mode = TUTTI_SERVER_QUORUM, .quorum = 2},
        {.servers = 2, .mode = TUTTI_SERVER_BOUNDED, .staleness = 2},
        {.servers = 2, .mode = TUTTI_SERVER_ASYNCHRONOUS},
    };
    for (int i = 0; i < 3; i++) {
        struct replayed *const replayed = ranks_share(sizeof *replayed);
        memcpy((void *)&replayed->plan, &plans[i], sizeof plans[i]);
        expect_good(5, RANKS_DEFAULT, steps_can_be_replayed, replayed);
    }
}

/* ------------------------------------------------------------------------------------------ deaths */

/* The last rank dies in its third clock, with half an update on the server. */
static int a_worker_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan *const plan = context;
    struct world world = {0};
    const int dying = size - 1;
    float expected = 0;
    (void)seed;
    RANKS_EXPECT(begin(&world, plan, rank, size, comm) == TUTTI_OK);
    for (int clock = 0; clock < 6 && world.is_worker; clock++) {
        float little[SMALL] = {1, 1, 1, 1, 1, 1, 1}, got[SMALL];
        const struct tutti_server_part push = {LITTLE, NULL, 0, little},
                                       pull = {LITTLE, NULL, 0, got};
        struct tutti_server_step step = {.size_bytes = sizeof step};
        RANKS_EXPECT(tutti_server_push(world.server, &push, 1, NULL) == TUTTI_OK);
        if (rank == dying && clock == 2) kill(getpid(), SIGKILL);
        RANKS_EXPECT(tutti_server_tick(world.server, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_pull(world.server, &pull, 1, NULL) == TUTTI_OK);
        const int workers = size - plan->servers - (clock >= 2);
        expected -= (float)workers;
        RANKS_EXPECT(got[0] == expected && got[SMALL - 1] == expected);
        RANKS_EXPECT(tutti_server_step_read(world.server, 0, NULL, 0, &step) == TUTTI_OK);
        RANKS_EXPECT(step.worker_count == (uint64_t)workers);
        RANKS_EXPECT(step.member_count == (uint64_t)workers);
    }
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    return 0;
}

static void a_worker_that_dies_is_taken_out_of_the_clock(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    for (int servers = 1; servers <= 2; servers++) {
        struct ranks_outcome outcomes[5];
        const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                              .deadline_ms = 90000,
                                              .comm_options = &patient,
                                              .outcomes = outcomes};
        const int size = 3 + servers;
        assert_int_equal(
            ranks_run(size, &options, a_worker_dies, &(struct plan){.servers = servers}), 1);
        assert_int_equal(outcomes[size - 1].fate, RANKS_SIGNALLED);
    }
}

/* Server rank 1 dies in clock 2; all workers are told which rank, and server 0 says so, too. */
static int a_server_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan plan = {.servers = 2};
    struct shared *const shared = context;
    struct world world = {0};
    (void)seed;
    RANKS_EXPECT(begin(&world, &plan, rank, size, comm) == TUTTI_OK);
    if (rank == 1) {
        while (atomic_load(&shared->may_go) < size - 2) ranks_nap_ms(1);
        atomic_store(&shared->died_ns, now_ns());
        kill(getpid(), SIGKILL);
    }
    if (rank == 0) {
        RANKS_EXPECT(tutti_server_serve(world.server) == TUTTI_PROC_FAILED);
        RANKS_EXPECT(strstr(tutti_error_message(), "server at rank 1") != NULL);
        RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_PROC_FAILED);
        return 0;
    }
    static _Thread_local float values[WIDTH];
    const struct tutti_server_part part = {DENSE, NULL, 0, values};
    for (int clock = 0; clock < 2; clock++)
        RANKS_EXPECT(tutti_server_push_pull(world.server, &part, 1, &part, 1, NULL) == TUTTI_OK);
    atomic_fetch_add(&shared->may_go, 1);
    /* The last worker ends its clock when server 0 knows of the death already. */
    while (rank == 3 && atomic_load(&shared->clocks[2]) == 0) ranks_nap_ms(1);
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK)
        status = tutti_server_push_pull(world.server, &part, 1, &part, 1, NULL);
    if (rank == 2) atomic_store(&shared->clocks[2], 1);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(tutti_error_message(), "the server at rank 1") != NULL);
    printf("rank %d knew after %.3f s\n", rank,
           (double)(now_ns() - atomic_load(&shared->died_ns)) * 1e-9);
    RANKS_EXPECT(tutti_server_tick(world.server, NULL) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(tutti_server_pull(world.server, &part, 1, NULL) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(tutti_error_message(), "the server at rank 1") != NULL);
    (void)tutti_server_free(world.server);
    return 0;
}

static void a_server_that_dies_is_named(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    struct shared *const shared = ranks_share(sizeof *shared);
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .comm_options = &patient};
    assert_int_equal(ranks_run(4, &options, a_server_dies, shared), 1);
}

/* ------------------------------------------------------------------------------ what is refused */

static int refusals(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan plan = {.servers = 1, .both = 0};
    struct world world = {0};
    struct shared *const shared = context;
    (void)seed;
    RANKS_EXPECT(begin(&world, &plan, rank, size, comm) == TUTTI_OK);
    struct tutti_server *const server = world.server;
    static _Thread_local float values[WIDTH];
    int64_t rows[] = {3, ROWS};
    const struct tutti_server_part dense = {DENSE, NULL, 0, values},
                                   words = {WORDS, rows, 2, values}, few = {WORDS, rows, 1, values};
    if (rank == 0) {
        RANKS_EXPECT(tutti_server_push(server, &dense, 1, NULL) == TUTTI_INVALID_RANK);
        RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
        return 0;
    }
    struct tutti_server_call_options options = TUTTI_SERVER_CALL_OPTIONS_INIT;
    memset(values, 0, sizeof values);
    RANKS_EXPECT(tutti_server_push(server, &words, 1, NULL) == TUTTI_INVALID_COUNT);
    RANKS_EXPECT(strstr(tutti_error_message(), "rows[1] is 500") != NULL);
    rows[1] = -1;
    RANKS_EXPECT(tutti_server_pull(server, &words, 1, NULL) == TUTTI_INVALID_COUNT);
    values[7] = NAN;
    RANKS_EXPECT(tutti_server_push(server, &dense, 1, NULL) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(strstr(tutti_error_message(), "values[7]") != NULL);
    values[7] = 0;
    options.encoding = (enum tutti_encoding)99;
    RANKS_EXPECT(tutti_server_push(server, &dense, 1, &options) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_server_push(server, &(struct tutti_server_part){TABLES, NULL, 0, values}, 1,
                                   NULL) == TUTTI_INVALID_COUNT);
    RANKS_EXPECT(tutti_server_push(server, NULL, 1, NULL) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_server_push(server, &dense, TUTTI_SERVER_PARTS + 1, NULL) ==
                 TUTTI_INVALID_COUNT);
    RANKS_EXPECT(tutti_server_push(NULL, &dense, 1, NULL) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_server_push_pull(server, &dense, 1, &words, 1, NULL) == TUTTI_INVALID_COUNT);
    values[WIDTH - 1] = 1e6f; /* infinite as float16 */
    options.encoding = TUTTI_ENCODING_FLOAT16;
    RANKS_EXPECT(tutti_server_push(server, &dense, 1, &options) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_server_push_pull(server, &dense, 1, &few, 1, &options) ==
                 TUTTI_INVALID_BUFFER);
    values[WIDTH - 1] = 0;
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.clock == 0 && counters.pushes == 0);
    struct tutti_server_step step = {.size_bytes = sizeof step};
    RANKS_EXPECT(tutti_server_step_read(server, 77, NULL, 0, &step) == TUTTI_INVALID_COUNT);
    /* Nothing of that has done any harm. One worker waits for the other, which is not there yet. */
    RANKS_EXPECT(tutti_server_set(server, &few, 1, NULL) == TUTTI_OK);
    while (rank == 2 && atomic_load(&shared->may_go) == 0) ranks_nap_ms(1);
    if (rank == 1) {
        options = (struct tutti_server_call_options)TUTTI_SERVER_CALL_OPTIONS_INIT;
        options.timeout_ns = 20000000;
        for (int again = 0; again < 2; again++) {
            RANKS_EXPECT(tutti_server_tick(server, &options) == TUTTI_TIMEOUT);
            RANKS_EXPECT(strstr(tutti_error_message(), "the worker at rank 2") != NULL);
            RANKS_EXPECT(tutti_server_pull(server, &few, 1, &options) == TUTTI_TIMEOUT);
        }
        atomic_store(&shared->may_go, 1);
    }
    RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_pull(server, &few, 1, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void mistakes_are_refused_and_change_nothing(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, refusals, ranks_share(sizeof(struct shared)));
}

/* In a queue that holds one of the gradients, which are added up; or in one without a bound. */
static int many_gradients(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan plan = {.servers = 1};
    const size_t *const queue_bytes = context;
    static _Thread_local float ones[WIDTH], got[WIDTH];
    int workers[16];
    struct tutti_server *server;
    struct tutti_server_options options = options_of(&plan, size, workers);
    (void)seed;
    options.queue_bytes = *queue_bytes;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank > 0) {
        const struct tutti_server_part push = {DENSE, NULL, 0, ones}, pull = {DENSE, NULL, 0, got};
        for (int i = 0; i < WIDTH; i++) ones[i] = 1;
        for (int i = 0; i < 9; i++)
            RANKS_EXPECT(tutti_server_push(server, &push, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(got[0] == -10.0f * (float)(size - 1) && got[WIDTH - 1] == got[0]);
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void gradients_of_a_tensor_are_added_up_in_the_memory_of_one(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, many_gradients, &(size_t){WIDTH * sizeof(float)});
    expect_good(2, RANKS_DEFAULT, many_gradients, &(size_t){SIZE_MAX});
}

/* A child that frees what its parent has: it neither waits nor disturbs. */
static int a_child_frees(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct plan *const plan = context;
    struct world world = {0};
    int fate = -1;
    (void)seed;
    RANKS_EXPECT(begin(&world, plan, rank, size, comm) == TUTTI_OK);
    const pid_t child = fork();
    if (child == 0) {
        if (rank < plan->servers && tutti_server_serve(world.server) != TUTTI_INVALID_COMM)
            _exit(1);
        (void)tutti_server_free(world.server);
        _exit(0);
    }
    RANKS_EXPECT(child > 0 && waitpid(child, &fate, 0) == child && fate == 0);
    float little[SMALL] = {1, 1, 1, 1, 1, 1, 1};
    const struct tutti_server_part part = {LITTLE, NULL, 0, little};
    if (world.is_worker)
        RANKS_EXPECT(tutti_server_push_pull(world.server, &part, 1, &part, 1, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(world.server) == TUTTI_OK);
    return 0;
}

static void a_child_of_fork_frees_its_parents_server_and_changes_nothing(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    expect_good(4, RANKS_PROCESSES, a_child_frees, &(struct plan){.servers = 2});
    expect_good(2, RANKS_PROCESSES, a_child_frees, &(struct plan){.servers = 1, .both = 1});
}

static int mismatch(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct plan plan = {.servers = 1};
    int workers[16];
    struct tutti_server *server;
    struct tutti_server_options options = options_of(&plan, size, workers);
    tables[WORDS].rate = rank == 1 ? 2 : 1;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1 (host ") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), ") gave tables that differ") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "table 'words' has rate 2 and not 1") != NULL);
    tables[WORDS].rate = 1;
    tables[LITTLE].optimizer = rank == 2 ? TUTTI_SERVER_ADAM : TUTTI_SERVER_SGD;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "has optimizer ADAM and not SGD") != NULL);
    tables[LITTLE].optimizer = TUTTI_SERVER_SGD;
    options.table_count -= rank == 2;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "they are 2 tables and not 3") != NULL);
    options.table_count = TABLES;
    options.average = rank == 2;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), ") gave mode") != NULL);
    options.average = 0;
    options.mode = rank == 1 ? (enum tutti_server_mode)9 : TUTTI_SERVER_SYNCHRONOUS;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_INVALID_OPTIONS);
    tables[DENSE].width = 0;
    options.mode = TUTTI_SERVER_SYNCHRONOUS;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(server == NULL);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

/* Every rank says what is wrong, not the server alone. */
static int wrong_options(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)seed, (void)context;
    static const char *const expected[] = {
        "tables[2]: there is a table \"little\" already", "tables[1]: the optimizer's rate is -1",
        "tables[0]: the optimizer's beta2 is 2", "mode QUORUM needs a quorum from 1",
        "mode BOUNDED needs a staleness of 0 or more"};
    const struct plan plan = {.servers = 1};
    for (int i = 0; i < (int)(sizeof expected / sizeof *expected); i++) {
        int workers[16];
        struct tutti_server *server;
        struct tutti_server_options options = options_of(&plan, size, workers);
        if (i == 0) tables[WORDS].name = "little";
        if (i == 1) tables[LITTLE].rate = -1;
        if (i == 2) tables[DENSE].optimizer = TUTTI_SERVER_ADAM, tables[DENSE].beta2 = 2;
        if (i == 3) options.mode = TUTTI_SERVER_QUORUM, options.quorum = size;
        if (i == 4) options.mode = TUTTI_SERVER_BOUNDED, options.staleness = -1;
        RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(strstr(tutti_error_message(), expected[i]) != NULL);
    }
    return 0;
}

static void every_rank_says_which_option_is_wrong(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, wrong_options, NULL);
}

static void options_that_differ_are_refused_on_all_ranks(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, mismatch, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_synchronous_clock_has_the_bits_of_an_allreduce_in_rank_order),
        cmocka_unit_test(a_bound_of_0_has_the_same_bits),
        cmocka_unit_test(rows_are_added_on_whichever_server_has_them),
        cmocka_unit_test(a_worker_waits_at_the_bound_and_sees_what_it_must),
        cmocka_unit_test(who_took_part_is_the_same_for_all_and_says_every_bit),
        cmocka_unit_test(a_worker_that_dies_is_taken_out_of_the_clock),
        cmocka_unit_test(a_server_that_dies_is_named),
        cmocka_unit_test(mistakes_are_refused_and_change_nothing),
        cmocka_unit_test(every_rank_says_which_option_is_wrong),
        cmocka_unit_test(gradients_of_a_tensor_are_added_up_in_the_memory_of_one),
        cmocka_unit_test(a_child_of_fork_frees_its_parents_server_and_changes_nothing),
        cmocka_unit_test(options_that_differ_are_refused_on_all_ranks),
        cmocka_unit_test(what_was_saved_is_where_the_next_run_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
