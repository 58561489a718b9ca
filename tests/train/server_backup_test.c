/* server_backup_test.c - parameter servers with backups among processes that are killed at random: one
 * server, two in a row or apart, workers, a worker and a server. A ledger of all pushes says what each
 * worker must pull, bit by bit; nobody hangs; and who lost a part of the tables is told whose.
 *
 *     server_backup_test                        what CI runs; with TUTTI_LONG more
 *     server_backup_test --runs N [--seed S]    as many as you like; stops at the first that fails
 *     server_backup_test --plan S               what the run of a seed is, as JSON; from a million on, servers have spares,
 *                                               and from two million on they die slowly, as is right between hosts
 *     server_backup_test --rank S               takes part in it as the rank that a launcher gave it, and says on
 *                                               standard output what happens: for bench/server_faults.py
 *
 * ctest: label=once timeout=300 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tests/kit/sanitized.h"
#include "tutti/server.h"

#define SPARES_FROM UINT64_C(1000000) /* seeds of runs in which servers die late, and have spares */
#define SLOW_FROM UINT64_C(2000000)
enum { SLOWER = 8 };
enum { CLOCKS_WITH_SPARES = 200, NAP_NS = 4000000 };
enum { WIDTH = 3000, WIDTH_MAX = 500000 }; /* the largest share is copied in several pieces */
enum { ROWS = 50, ROW_WIDTH = 4, PUSHED_ROWS = 8, RANKS_MAX = 8, CLOCKS = 15 };
enum { DENSE, WORDS, TABLES };

/* One run: servers are the first ranks, and the first of them may work, too. */
struct run {
    uint64_t seed;
    int servers, workers, size;
    bool works_on_servers, is_told;
    enum tutti_server_mode mode;
    uint64_t kill_us[RANKS_MAX];      /* after the beginning; 0: never */
    size_t width;                     /* of the dense tensor */
    int spares;                       /* of each server */
    int victims[2];                   /* killed one after the other, if there are spares */
    _Atomic int phase;                /* so many are dead, or will be at once */
    _Atomic int are_whole[RANKS_MAX]; /* a server: all parts have been alone, and are not any more */
    int leaver, leaver_clocks; /* a worker that leaves before the others, behind so many; -1: none */
    _Atomic int died[RANKS_MAX];
    _Atomic int failed, done; /* workers */
    _Atomic int met;          /* ranks, before the first of them is killed */
    _Atomic int pids[RANKS_MAX];
};

/* For a program that counts: a word, nanoseconds of the monotonic clock, and more. */
static void tell(const struct run *run, const char *word, const char *more)
{
    struct timespec now;
    char line[800];
    if (!run->is_told) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    const int size = snprintf(line, sizeof line, "%s %" PRIu64 " %s\n", word, ns, more);
    (void)!write(STDOUT_FILENO, line, size < (int)sizeof line ? (size_t)size : sizeof line - 1);
}

static int servers_of_all[] = {0, 1, 2, 3};

static uint64_t drawn(const struct run *run, uint64_t what)
{
    return elements_mixed(run->seed, what);
}

static bool is_worker(const struct run *run, int rank)
{
    return rank >= run->servers || (run->works_on_servers && rank == 0);
}

static enum tutti_status begin(const struct run *run, struct tutti_comm *comm,
                               struct tutti_server **server)
{
    struct tutti_server_table tables[TABLES] = {TUTTI_SERVER_TABLE_INIT("dense", 0, run->width),
                                                TUTTI_SERVER_TABLE_INIT("words", ROWS, ROW_WIDTH)};
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    int workers[RANKS_MAX];
    for (int t = 0; t < TABLES; t++) tables[t].rate = 1;
    tables[WORDS].optimizer = TUTTI_SERVER_MOMENTUM;
    tables[WORDS].momentum = 0.5;
    for (int rank = 0; rank < run->size; rank++)
        if (is_worker(run, rank)) workers[options.worker_count++] = rank;
    options.worker_ranks = workers;
    options.tables = tables;
    options.table_count = TABLES;
    options.server_ranks = servers_of_all;
    options.server_count = (size_t)run->servers;
    options.mode = run->mode;
    options.staleness = 1;
    options.quorum = 1;
    options.backups = 1;
    options.spares = run->spares;
    options.timeout_ns = 60000000000;
    return tutti_server_create(&options, comm, server);
}

/* ------------------------------------------------------------------------------------ the ledger */

static float value_of(const struct run *run, int rank, int clock, size_t i)
{
    const uint64_t h = elements_mixed(run->seed + (uint64_t)(rank * 1000 + clock), (uint64_t)i);
    return (float)((double)(h % 20001) / 10000 - 1) * (h % 7 == 0 ? 1e4f : 1.0f);
}

static int64_t row_of(const struct run *run, int rank, int clock, int i)
{
    return (int64_t)((drawn(run, (uint64_t)(rank * 1000 + clock)) % ROWS + (uint64_t)i) % ROWS);
}

struct ledger {
    float dense[WIDTH_MAX];
    float words[ROWS], momentum[ROWS]; /* of each element of the row */
};

/* A step with the updates of these ranks, all of the same clock. */
static void take(struct ledger *ledger, const struct run *run, const int *ranks, size_t count,
                 int clock)
{
    float sums[ROWS] = {0};
    for (size_t i = 0; i < run->width; i++) {
        float sum = value_of(run, ranks[0], clock, i);
        for (size_t r = 1; r < count; r++) sum += value_of(run, ranks[r], clock, i);
        ledger->dense[i] += -1.0f * sum;
    }
    for (size_t r = 0; r < count; r++)
        for (int i = 0; i < PUSHED_ROWS; i++)
            sums[row_of(run, ranks[r], clock, i)] += (float)(ranks[r] + 1);
    for (int row = 0; row < ROWS; row++) {
        if (sums[row] == 0) continue;
        ledger->momentum[row] = 0.5f * ledger->momentum[row] + sums[row];
        ledger->words[row] += -1.0f * ledger->momentum[row];
    }
}

static bool is_as_in(const struct ledger *ledger, const struct run *run, const float *dense,
                     float words[ROWS][ROW_WIDTH])
{
    if (memcmp(ledger->dense, dense, run->width * sizeof *dense) != 0) return false;
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < ROW_WIDTH; c++)
            if (words[row][c] != ledger->words[row]) return false;
    return true;
}

/* ------------------------------------------------------------------------------------- the workers */

/* The state with which a worker computes. */
struct scratch {
    float dense[WIDTH_MAX], mine[WIDTH_MAX], words[ROWS][ROW_WIDTH];
    struct ledger ledger;
};

/* Two pushes, a tick and a pull; sometimes all at once. */
static enum tutti_status work(struct tutti_server *server, const struct run *run, int rank,
                              int clock, struct scratch *scratch)
{
    float *const mine = scratch->mine, rows[PUSHED_ROWS][ROW_WIDTH];
    int64_t numbers[PUSHED_ROWS], all[ROWS];
    for (size_t i = 0; i < run->width; i++) mine[i] = value_of(run, rank, clock, i);
    for (int i = 0; i < PUSHED_ROWS; i++) {
        numbers[i] = row_of(run, rank, clock, i);
        for (int c = 0; c < ROW_WIDTH; c++) rows[i][c] = (float)(rank + 1);
    }
    for (int row = 0; row < ROWS; row++) all[row] = row;
    const struct tutti_server_part push[] = {{DENSE, NULL, 0, mine},
                                             {WORDS, numbers, PUSHED_ROWS, rows}};
    const struct tutti_server_part pull[] = {{DENSE, NULL, 0, scratch->dense},
                                             {WORDS, all, ROWS, scratch->words}};
    if (clock % 3 == 0) return tutti_server_push_pull(server, push, 2, pull, 2, NULL);
    enum tutti_status status = tutti_server_push(server, push, 1, NULL);
    if (status == TUTTI_OK) status = tutti_server_push(server, push + 1, 1, NULL);
    if (status == TUTTI_OK) status = tutti_server_tick(server, NULL);
    if (status == TUTTI_OK) status = tutti_server_pull(server, pull, 2, NULL);
    return status;
}

/* Whether the message names a server that was to die, and the tables may be incomplete. */
static bool is_told_why(const struct run *run, enum tutti_status status)
{
    bool names = false, may = false;
    for (int s = 0; s < run->servers; s++) {
        char name[40];
        snprintf(name, sizeof name, "server at rank %d", s);
        names |= run->kill_us[s] > 0 && strstr(tutti_error_message(), name) != NULL;
        may |= run->kill_us[s] > 0 && run->kill_us[(s + 1) % run->servers] > 0;
    }
    may |= run->spares > 0; /* whoever counts decides that */
    return status == TUTTI_PROC_FAILED && names && may;
}

/* The time in which servers die one after the other. */
static void nap(const struct run *run)
{
    const long ns = NAP_NS * (run->seed >= SLOW_FROM ? SLOWER : 1);
    if (run->seed >= SPARES_FROM) nanosleep(&(struct timespec){0, ns}, NULL);
}

static int clocks_of(const struct run *run, int rank)
{
    if (rank == run->leaver) return run->leaver_clocks;
    return run->seed >= SPARES_FROM ? CLOCKS_WITH_SPARES : CLOCKS;
}

static int works(struct tutti_server *server, struct run *run, int rank, struct scratch *scratch)
{
    for (int clock = 0; clock < clocks_of(run, rank); clock++) {
        struct tutti_server_step step = {.size_bytes = sizeof step};
        int members[RANKS_MAX];
        enum tutti_status status = work(server, run, rank, clock, scratch);
        if (status == TUTTI_OK)
            status = tutti_server_step_read(server, 0, members, RANKS_MAX, &step);
        if (status != TUTTI_OK) {
            tell(run, "failed", tutti_error_message());
            RANKS_EXPECT(is_told_why(run, status));
            RANKS_EXPECT(tutti_server_tick(server, NULL) != TUTTI_OK);
            atomic_fetch_add(&run->failed, 1);
            return 0;
        }
        tell(run, "clock", "");
        nap(run);
        if (run->mode == TUTTI_SERVER_SYNCHRONOUS) {
            RANKS_EXPECT(step.number == (uint64_t)clock + 1);
            take(&scratch->ledger, run, members, step.member_count, clock);
            RANKS_EXPECT(is_as_in(&scratch->ledger, run, scratch->dense, scratch->words));
        }
    }
    tell(run, "done", "");
    atomic_fetch_add(&run->done, 1);
    return 0;
}

static int element_of(const struct run *run, int server, int rank)
{
    return server * ((int)run->width / run->servers) + 10 + rank;
}

/* Workers meet, so that all they pushed is in the tables; of each rank then, how often it is there. */
static enum tutti_status count_all(struct tutti_server *server, const struct run *run, float *dense)
{
    const struct tutti_server_part pull = {DENSE, NULL, 0, dense};
    struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT;
    char counted[RANKS_MAX * 16] = "";
    size_t length = 0;
    enum tutti_status status = tutti_server_change_mode(server, &change, NULL);
    if (status == TUTTI_OK) status = tutti_server_push_pull(server, NULL, 0, &pull, 1, NULL);
    if (status != TUTTI_OK) return status;
    for (int rank = 0; rank < run->size; rank++)
        length += (size_t)snprintf(counted + length, sizeof counted - length, "%d ",
                                   -(int)dense[element_of(run, 0, rank)]);
    tell(run, "counted", counted);
    return TUTTI_OK;
}

/* A server dies last, and its part of the tables with it. */
static int ends_early(struct run *run, int rank, enum tutti_status status)
{
    tell(run, "failed", tutti_error_message());
    RANKS_EXPECT(is_told_why(run, status));
    atomic_fetch_add(&run->failed, 1);
    return 0;
}

/* In other modes, which change meanwhile: each worker's update has the worker's own bit in an element of its
 * own. */
static int counts(struct tutti_server *server, struct run *run, int rank, struct scratch *scratch)
{
    float *const dense = scratch->dense, *const mine = scratch->mine;
    const struct tutti_server_part push = {DENSE, NULL, 0, mine}, pull = {DENSE, NULL, 0, dense};
    /* Elements of each server's share. */
    memset(mine, 0, run->width * sizeof *mine);
    for (int s = 0; s < run->servers; s++) mine[element_of(run, s, rank)] = 1;
    for (int clock = 0; clock < clocks_of(run, rank); clock++) {
        struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT;
        change.mode = clock % 4 == 1 ? TUTTI_SERVER_SYNCHRONOUS : run->mode;
        change.staleness = change.mode == TUTTI_SERVER_BOUNDED;
        change.quorum = change.mode == TUTTI_SERVER_QUORUM;
        enum tutti_status status = tutti_server_push(server, &push, 1, NULL);
        if (status == TUTTI_OK) status = tutti_server_push_pull(server, &push, 1, &pull, 1, NULL);
        if (status == TUTTI_OK && clock % 2 == 1)
            status = tutti_server_change_mode(server, &change, NULL);
        if (status != TUTTI_OK) return ends_early(run, rank, status);
        tell(run, "clock", "");
        nap(run);
        for (int s = 0; s < run->servers; s++)
            for (int other = 0; other < run->size; other++) {
                const float count = -dense[element_of(run, s, other)];
                if (other == rank) RANKS_EXPECT(count == 2 * (float)(clock + 1));
                RANKS_EXPECT((int)count % 2 == 0 && count >= 0 &&
                             count <= 2 * (float)clocks_of(run, other));
            }
    }
    const enum tutti_status status = rank == run->leaver ? TUTTI_OK : count_all(server, run, dense);
    if (status != TUTTI_OK) return ends_early(run, rank, status);
    for (int s = 1; s < run->servers && rank != run->leaver; s++)
        for (int other = 0; other < run->size; other++)
            RANKS_EXPECT(dense[element_of(run, s, other)] == dense[element_of(run, 0, other)]);
    tell(run, "done", "");
    atomic_fetch_add(&run->done, 1);
    return 0;
}

/* ------------------------------------------------------------------------------------ refilling */

/* Until all workers have left; says when the parts that a death left alone have another server. */
static int serves_and_tells(struct tutti_server *server, struct run *run, int rank)
{
    bool was_alone = false;
    enum tutti_status status = TUTTI_IN_PROGRESS;
    while (status == TUTTI_IN_PROGRESS) {
        struct tutti_server_counters counters = {.size_bytes = sizeof counters};
        status = tutti_server_serve_for(server, 1000000);
        RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
        was_alone |= counters.parts_alone > 0;
        if (was_alone && counters.parts_alone == 0) atomic_store(&run->are_whole[rank], 1);
    }
    RANKS_EXPECT(status == TUTTI_OK);
    return 0;
}

static void kill_next(struct run *run)
{
    const int phase = atomic_load(&run->phase);
    bool all = true;
    for (int s = 0; s < run->servers; s++)
        all &= phase == 0 || s == run->victims[0] || atomic_load(&run->are_whole[s]) != 0;
    if (phase == 2 || !all) return;
    atomic_store(&run->phase, phase + 1);
    kill(atomic_load(&run->pids[run->victims[phase]]), SIGKILL);
}

/* The first worker kills a server, and the other one when the first has been replaced. Both compare what they
 * pull with the ledger, and go on for some clocks behind the second death. */
static int works_while_servers_die(struct tutti_server *server, struct run *run, int rank,
                                   struct scratch *scratch)
{
    int left = 5;
    for (int clock = 0; left > 0 && clock < 1000; clock++) {
        struct tutti_server_step step = {.size_bytes = sizeof step};
        int members[RANKS_MAX];
        RANKS_EXPECT(work(server, run, rank, clock, scratch) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_step_read(server, 0, members, RANKS_MAX, &step) == TUTTI_OK);
        if (run->mode == TUTTI_SERVER_SYNCHRONOUS) {
            take(&scratch->ledger, run, members, step.member_count, clock);
            RANKS_EXPECT(is_as_in(&scratch->ledger, run, scratch->dense, scratch->words));
        }
        if (rank == run->servers && clock >= 3) kill_next(run);
        left -= atomic_load(&run->phase) == 2;
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    RANKS_EXPECT(left == 0);
    atomic_fetch_add(&run->done, 1);
    return 0;
}

static int takes_part_while_servers_die(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                        void *context)
{
    struct run *const run = context;
    struct tutti_server *server;
    struct scratch *const scratch = calloc(1, sizeof *scratch);
    (void)seed;
    RANKS_EXPECT(scratch != NULL);
    atomic_store(&run->pids[rank], getpid());
    RANKS_EXPECT(begin(run, comm, &server) == TUTTI_OK);
    ranks_meet(&run->met, size);
    if (is_worker(run, rank))
        RANKS_EXPECT(works_while_servers_die(server, run, rank, scratch) == 0);
    else
        RANKS_EXPECT(serves_and_tells(server, run, rank) == 0);
    free(scratch);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* A server and its backup, one after the other: all pushes are there, with the same bits. */
static void a_spare_takes_the_place_of_a_dead_server(void **state)
{
    static const int victims[][2] = {{1, 0}, {0, 1}, {2, 1}, {1, 2}, {0, 2}, {2, 0}};
    struct ranks_outcome outcomes[RANKS_MAX];
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 120000,
                                          .comm_options = &patient,
                                          .outcomes = outcomes};
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        struct run *const run = ranks_share(sizeof *run);
        *run = (struct run){.seed = i, .servers = 3, .workers = 2, .size = 5, .leaver = -1};
        run->spares = 1;
        run->width = i < 2 ? WIDTH_MAX : WIDTH;
        run->mode = i % 2 == 0 ? TUTTI_SERVER_SYNCHRONOUS : TUTTI_SERVER_BOUNDED;
        if (i < 2) run->mode = TUTTI_SERVER_SYNCHRONOUS;
        memcpy(run->victims, victims[i], sizeof victims[i]);
        (void)ranks_run(run->size, &options, takes_part_while_servers_die, run);
        for (int rank = 0; rank < run->size; rank++)
            if (rank != victims[i][0] && rank != victims[i][1])
                assert_int_equal(outcomes[rank].fate, RANKS_GOOD);
        assert_int_equal(atomic_load(&run->done), run->workers);
    }
}

/* ------------------------------------------------------------------------------------ the ranks */

struct death {
    const struct run *run;
    uint64_t us;
};

static void *kill_later(void *context)
{
    const struct death death = *(const struct death *)context;
    const uint64_t us = death.us;
    nanosleep(&(struct timespec){(time_t)(us / 1000000), (long)(us % 1000000 * 1000)}, NULL);
    tell(death.run, "killed", "");
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Until all workers have left: how many parts are on one server alone, whenever that changes. */
static void tell_of_parts(struct tutti_server *server, const struct run *run, int rank)
{
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    uint64_t before = 0;
    if (run->spares == 0 || is_worker(run, rank)) return;
    while (tutti_server_serve_for(server, 1000000) == TUTTI_IN_PROGRESS) {
        char alone[32];
        if (tutti_server_count(server, &counters) != TUTTI_OK || counters.parts_alone == before)
            continue;
        before = counters.parts_alone;
        snprintf(alone, sizeof alone, "%" PRIu64, before);
        tell(run, "alone", alone);
    }
}

static bool may_lose_a_share(const struct run *run)
{
    for (int s = 0; s < run->servers; s++)
        if (run->kill_us[s] > 0 && run->kill_us[(s + 1) % run->servers] > 0) return true;
    return false;
}

static bool loses_ranks(const struct run *run)
{
    for (int rank = 0; rank < run->size; rank++)
        if (run->kill_us[rank] > 0) return true;
    return false;
}

static int takes_part(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct run *const run = context;
    struct tutti_server *server;
    pthread_t killer;
    struct death death = {run, run->kill_us[rank]}; /* the rank lives until then */
    struct scratch *const scratch = calloc(1, sizeof *scratch);
    (void)seed, (void)size;
    RANKS_EXPECT(scratch != NULL);
    RANKS_EXPECT(begin(run, comm, &server) == TUTTI_OK);
    const enum tutti_status met = tutti_barrier(comm); /* some may still be in it when a rank dies */
    RANKS_EXPECT(met == TUTTI_OK || (met == TUTTI_PROC_FAILED && loses_ranks(run)));
    tell(run, "begun", "");
    if (death.us > 0) {
        RANKS_EXPECT(pthread_create(&killer, NULL, kill_later, &death) == 0);
        RANKS_EXPECT(pthread_detach(killer) == 0);
    }
    if (is_worker(run, rank))
        RANKS_EXPECT((run->mode == TUTTI_SERVER_SYNCHRONOUS ? works : counts)(server, run, rank,
                                                                              scratch) == 0);
    free(scratch);
    tell_of_parts(server, run, rank);
    const enum tutti_status status = tutti_server_free(server);
    RANKS_EXPECT(status == TUTTI_OK ||
                 (status == TUTTI_PROC_FAILED && (may_lose_a_share(run) || run->spares > 0)));
    return 0;
}

/* Two or three servers die, long enough behind each other that most parts have another backup then. */
static void draw_with_spares(struct run *run)
{
    run->servers = 3 + (int)(drawn(run, 1) % 2);
    run->size = run->servers + run->workers;
    run->spares = 1 + (int)(drawn(run, 13) % 2);
    run->leaver = -1;
    run->works_on_servers = false;
    run->width = drawn(run, 14) % 3 == 0 ? WIDTH_MAX : WIDTH;
    uint64_t at = 1 + drawn(run, 5) % 100000;
    const int deaths = run->spares == 1 ? 2 : run->servers - 1; /* one more finds no place left */
    for (int i = 0; i < deaths; i++) {
        int victim = (int)(drawn(run, 20 + (uint64_t)i) % (uint64_t)run->servers);
        while (run->kill_us[victim] > 0) victim = (victim + 1) % run->servers;
        run->kill_us[victim] = at * (run->seed >= SLOW_FROM ? SLOWER : 1);
        at += drawn(run, 40) % 4 == 0 ? 20000 : 200000;
        at += drawn(run, 30 + (uint64_t)i) % 400000;
    }
}

static void draw(struct run *run, uint64_t seed)
{
    static const enum tutti_server_mode modes[] = {TUTTI_SERVER_SYNCHRONOUS,
                                                   TUTTI_SERVER_SYNCHRONOUS, TUTTI_SERVER_BOUNDED,
                                                   TUTTI_SERVER_ASYNCHRONOUS, TUTTI_SERVER_QUORUM};
    *run = (struct run){.seed = seed, .width = WIDTH};
    run->servers = 2 + (int)(drawn(run, 1) % 3);
    run->workers = 1 + (int)(drawn(run, 2) % 3);
    run->size = run->servers + run->workers;
    run->works_on_servers = drawn(run, 3) % 4 == 0;
    run->mode = modes[drawn(run, 4) % 5];
    run->leaver = run->workers > 1 && drawn(run, 10) % 3 == 0 ? run->servers : -1;
    run->leaver_clocks = 1 + (int)(drawn(run, 11) % CLOCKS);
    if (seed >= SPARES_FROM) {
        draw_with_spares(run);
        return;
    }
    const uint64_t at = 1 + drawn(run, 5) % 60000, next = at + drawn(run, 6) % 8000;
    const int first = drawn(run, 7) % 3 == 0 ? 0 : (int)(drawn(run, 8) % (uint64_t)run->servers);
    switch (drawn(run, 9) % 8) {
    case 0: break;
    case 1: run->kill_us[run->servers] = at; break;
    case 2:
        run->kill_us[first] = at;
        run->kill_us[run->size - 1] = next;
        break;
    case 3:
        run->kill_us[first] = at;
        run->kill_us[(first + 1) % run->servers] = next;
        break;
    case 4:
        run->kill_us[first] = at;
        if (run->servers == 4) run->kill_us[(first + 2) % run->servers] = next;
        break;
    default: run->kill_us[first] = at; break;
    }
}

/* Whether all was well; otherwise how to repeat it is printed. */
static bool is_good(uint64_t seed)
{
    struct ranks_outcome outcomes[RANKS_MAX];
    static struct run *run;
    if (run == NULL) run = ranks_share(sizeof *run);
    draw(run, seed);
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 120000,
                                          .seed = seed | 1,
                                          .comm_options = &patient,
                                          .outcomes = outcomes};
    (void)ranks_run(run->size, &options, takes_part, run);
    bool good = true;
    int workers = 0;
    for (int rank = 0; rank < run->size; rank++) {
        const bool was_killed =
            outcomes[rank].fate == RANKS_SIGNALLED && outcomes[rank].value == SIGKILL;
        good &= outcomes[rank].fate == RANKS_GOOD || (was_killed && run->kill_us[rank] > 0);
        workers += is_worker(run, rank) && !was_killed;
    }
    good &= atomic_load(&run->failed) + atomic_load(&run->done) >= workers;
    if (!good)
        fprintf(stderr, "repeat it with --runs 1 --seed %llu (%d servers, %d workers, mode %d)\n",
                (unsigned long long)seed, run->servers, run->workers, (int)run->mode);
    return good;
}

static void each_acknowledged_push_counts_once_whoever_dies(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    const uint64_t runs = getenv("TUTTI_LONG") != NULL ? 200 : 12;
    for (uint64_t seed = 1; seed <= runs; seed++) assert_true(is_good(seed));
}

/* Without deaths: the same values on ranks that are servers and workers, and with spares. */
static void backups_change_no_bit(void **state)
{
    (void)state;
    for (int kind = 0; kind <= 2; kind++) {
        struct run *const run = ranks_share(sizeof *run);
        *run = (struct run){.seed = 5, .servers = 3, .workers = 2, .size = 5, .leaver = -1};
        run->width = WIDTH;
        run->works_on_servers = kind > 0;
        run->spares = kind;
        expect_good(5, RANKS_DEFAULT, takes_part, run);
    }
}

static void print_plan(uint64_t seed)
{
    static const char *const modes[] = {"synchronous", "bounded", "asynchronous", "quorum"};
    struct run run;
    draw(&run, seed);
    printf("{\"seed\": %" PRIu64 ", \"servers\": %d, \"workers\": %d, \"server_works\": %s, "
           "\"mode\": \"%s\", \"leaver\": %d, \"spares\": %d, \"kills\": {",
           seed, run.servers, run.workers, run.works_on_servers ? "true" : "false", modes[run.mode],
           run.leaver, run.spares);
    const char *between = "";
    for (int rank = 0; rank < run.size; rank++) {
        if (run.kill_us[rank] == 0) continue;
        printf("%s\"%d\": %" PRIu64, between, rank, run.kill_us[rank]);
        between = ", ";
    }
    printf("}}\n");
}

/* As a rank that somebody else started. */
static int take_part(uint64_t seed)
{
    struct run *const run = ranks_share(sizeof *run);
    struct tutti_comm *comm;
    draw(run, seed);
    run->is_told = true;
    if (tutti_comm_create(&patient, &comm) != TUTTI_OK || tutti_comm_size(comm) != run->size) {
        fprintf(stderr, "server_backup_test: %s\n", tutti_error_message());
        return 2;
    }
    const int result = takes_part(comm, tutti_comm_rank(comm), run->size, seed, run);
    (void)tutti_comm_free(comm);
    if (result == 0) tell(run, "ended", "");
    return result;
}

/* Server 0 dies, and its part is pulled from server 1. Then that one dies: the message has its rank and its pid. */
static int names_whom_it_asked(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    struct run *const run = context;
    static float dense[WIDTH_MAX];
    const struct tutti_server_part pull = {DENSE, NULL, 0, dense};
    struct tutti_server *server;
    (void)seed;
    atomic_store(&run->pids[rank], getpid());
    RANKS_EXPECT(begin(run, comm, &server) == TUTTI_OK);
    ranks_meet(&run->met, size);
    if (rank < 2) return tutti_server_serve(server) == TUTTI_OK ? 1 : 2; /* dies in it */
    RANKS_EXPECT(kill(atomic_load(&run->pids[0]), SIGKILL) == 0);
    RANKS_EXPECT(tutti_server_pull(server, &pull, 1, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_pull(server, &pull, 1, NULL) == TUTTI_OK);
    RANKS_EXPECT(kill(atomic_load(&run->pids[1]), SIGKILL) == 0);
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) status = tutti_server_pull(server, &pull, 1, NULL);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d)", atomic_load(&run->pids[1]));
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(tutti_error_message(), "the server at rank 1 ") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), pid) != NULL);
    (void)tutti_server_free(server);
    return 0;
}

static void a_failure_names_the_server_that_was_asked(void **state)
{
    struct ranks_outcome outcomes[3];
    struct run *const run = ranks_share(sizeof *run);
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 120000,
                                          .comm_options = &patient,
                                          .outcomes = outcomes};
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    *run = (struct run){.servers = 2, .workers = 1, .size = 3, .width = WIDTH, .leaver = -1};
    assert_int_equal(ranks_run(3, &options, names_whom_it_asked, run), 2);
    assert_int_equal(outcomes[2].fate, RANKS_GOOD);
}

static int run_many(int count, char **arguments)
{
    uint64_t runs = 0, first = 1;
    for (int i = 1; i + 1 < count; i += 2) {
        const uint64_t seed = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--plan") == 0) return print_plan(seed), 0;
        if (strcmp(arguments[i], "--rank") == 0) return take_part(seed);
        if (strcmp(arguments[i], "--runs") == 0) runs = seed;
        if (strcmp(arguments[i], "--seed") == 0) first = seed;
    }
    for (uint64_t i = 0; i < runs; i++)
        if (!is_good(first + i)) return 1;
    printf("%llu runs were good\n", (unsigned long long)runs);
    return runs > 0 ? 0 : 2;
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return run_many(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backups_change_no_bit),
        cmocka_unit_test(a_failure_names_the_server_that_was_asked),
        cmocka_unit_test(a_spare_takes_the_place_of_a_dead_server),
        cmocka_unit_test(each_acknowledged_push_counts_once_whoever_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
