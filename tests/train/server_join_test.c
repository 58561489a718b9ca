/* server_join_test.c - workers that come to a parameter server while others work: in all modes, with backups and
 * spares, while servers and workers are killed, and while those that come die half-way. The list of steps says what
 * each value must be, bit by bit; nobody hangs.
 *
 *     server_join_test                        what CI runs
 *     server_join_test --runs N [--seed S]    N drawn runs with deaths; stops at the first that fails
 *
 * ctest: label=once timeout=300 */
#include <inttypes.h>
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

enum { RANKS_MAX = 16, WIDTH = 2500, PLACES = 6, STEPS_MAX = 400 };

/* When a worker that comes dies: with the communicator, as soon as it is in, or with half an update pushed. */
enum death { LIVES, DIES_OUTSIDE, DIES_INSIDE, DIES_MID_CLOCK };

/* Servers are the first ranks, then come workers, then those that are not there at first. */
struct play {
    uint64_t seed;
    int servers, workers, joiners;
    enum tutti_server_mode mode;
    int staleness, quorum, backups, spares;
    enum death deaths[RANKS_MAX]; /* of those that come */
    int victim;                   /* a rank that is killed at kill_at; -1: none */
    int kill_at;
    int come_at[RANKS_MAX]; /* so many ticks of all workers have ended then */

    _Atomic int ticks, came, done;
    _Atomic uint64_t stop_at;          /* the clock that is the last one; 0: not yet known */
    _Atomic uint64_t first[RANKS_MAX]; /* clock of each worker */
    _Atomic int pids[RANKS_MAX];
    _Atomic int is_killed;
};

static int size_of(const struct play *play)
{
    return play->servers + play->workers + play->joiners;
}

static struct tutti_server_options options_of(const struct play *play,
                                              struct tutti_server_table *table)
{
    static int servers[] = {0, 1, 2, 3};
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    *table = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("dense", 0, WIDTH);
    table->rate = 1;
    options.tables = table, options.table_count = 1;
    options.server_ranks = servers, options.server_count = (size_t)play->servers;
    options.mode = play->mode, options.staleness = play->staleness, options.quorum = play->quorum;
    options.backups = play->backups, options.spares = play->spares;
    options.joiner_max = PLACES;
    options.timeout_ns = 60000000000;
    return options;
}

static float value_of(const struct play *play, int rank, uint64_t clock, size_t i)
{
    const uint64_t h = elements_mixed(play->seed + (uint64_t)rank * 1000 + clock, i);
    return (float)((double)(h % 20001) / 10000 - 1) * (h % 7 == 0 ? 1e4f : 1.0f);
}

/* --------------------------------------------------------------------------------------- replaying */

/* The contents of the list of steps; the ranks of workers that come are those of this test. */
static int replay(struct tutti_server *server, const struct play *play, int rank, float *values)
{
    uint64_t next[RANKS_MAX];
    for (int r = 0; r < RANKS_MAX; r++) next[r] = atomic_load(&play->first[r]);
    memset(values, 0, WIDTH * sizeof *values);
    for (uint64_t number = 1; number < STEPS_MAX; number++) {
        struct tutti_server_step step = {.size_bytes = sizeof step};
        int members[RANKS_MAX];
        const enum tutti_status status =
            tutti_server_step_read(server, number, members, RANKS_MAX, &step);
        if (status == TUTTI_INVALID_COUNT) return 0;
        RANKS_EXPECT(status == TUTTI_OK && step.member_count <= step.worker_count);
        for (size_t i = 0; i < WIDTH; i++) {
            float sum = 0;
            for (size_t m = 0; m < step.member_count; m++) {
                const float value = value_of(play, members[m], next[members[m]], i);
                sum = m == 0 ? value : sum + value;
            }
            if (step.member_count > 0) values[i] += -1.0f * sum;
        }
        for (size_t m = 0; m < step.member_count; m++) {
            if (play->mode == TUTTI_SERVER_SYNCHRONOUS)
                RANKS_EXPECT(next[members[m]] == number - 1);
            next[members[m]]++;
        }
    }
    return 1;
}

/* ----------------------------------------------------------------------------------------- workers */

static void kill_if_due(struct play *play)
{
    if (play->victim < 0 || atomic_load(&play->ticks) < play->kill_at) return;
    if (atomic_exchange(&play->is_killed, 1) == 0)
        kill(atomic_load(&play->pids[play->victim]), SIGKILL);
}

/* The first worker that sees that all have come says how long all go on: so far that nobody is past it. */
static bool goes_on(struct play *play, uint64_t clock)
{
    const uint64_t far = clock + 4 + (uint64_t)play->staleness;
    uint64_t none = 0;
    const bool is_due = atomic_load(&play->came) == play->joiners &&
                        (play->victim < 0 || atomic_load(&play->is_killed) != 0);
    if (is_due) (void)atomic_compare_exchange_strong(&play->stop_at, &none, far);
    const uint64_t stop_at = atomic_load(&play->stop_at);
    return (stop_at == 0 || clock < stop_at) && clock < STEPS_MAX;
}

static int works(struct tutti_server *server, struct play *play)
{
    const int rank = tutti_server_rank(server);
    static _Thread_local float mine[WIDTH], got[WIDTH], expected[WIDTH];
    const struct tutti_server_part push = {0, NULL, 0, mine}, pull = {0, NULL, 0, got};
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
    uint64_t clock = counters.clock;
    for (; goes_on(play, clock); clock++) {
        for (size_t i = 0; i < WIDTH; i++) mine[i] = value_of(play, rank, clock, i);
        if (clock % 3 == 0) {
            RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
        } else {
            RANKS_EXPECT(tutti_server_push(server, &push, 1, NULL) == TUTTI_OK);
            RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
            RANKS_EXPECT(tutti_server_pull(server, &pull, 1, NULL) == TUTTI_OK);
        }
        atomic_fetch_add(&play->ticks, 1);
        kill_if_due(play);
        ranks_nap_ms(1);
    }
    struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT; /* all meet */
    change.mode = TUTTI_SERVER_ASYNCHRONOUS;
    RANKS_EXPECT(tutti_server_change_mode(server, &change, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_pull(server, &pull, 1, NULL) == TUTTI_OK);
    RANKS_EXPECT(replay(server, play, rank, expected) == 0);
    RANKS_EXPECT(memcmp(got, expected, sizeof got) == 0);
    atomic_fetch_add(&play->done, 1);
    return 0;
}

/* ------------------------------------------------------------------------------------------ coming */

/* The servers, and one worker that comes. */
static int group_with(struct tutti_comm *all, const struct play *play, int rank, int joiner,
                      struct tutti_comm **grown)
{
    int ranks[RANKS_MAX];
    for (int s = 0; s < play->servers; s++) ranks[s] = s;
    ranks[play->servers] = joiner;
    RANKS_EXPECT(tutti_comm_group(all, ranks, play->servers + 1, NULL, grown) == TUTTI_OK);
    return 0;
}

/* Without those that have died. */
static enum tutti_status without_dead(struct tutti_comm **grown)
{
    struct tutti_comm *smaller;
    const enum tutti_status status = tutti_comm_shrink(*grown, NULL, &smaller);
    if (status != TUTTI_OK) return status;
    (void)tutti_comm_free(*grown);
    *grown = smaller;
    return TUTTI_OK;
}

static void wait_for(struct play *play, int joiner)
{
    while (atomic_load(&play->ticks) < play->come_at[joiner]) ranks_nap_ms(1);
}

static int serves(struct tutti_server *server, struct play *play, int rank,
                  struct tutti_comm **grown)
{
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    for (int j = 0; j < play->joiners; j++) {
        wait_for(play, j);
        enum tutti_status status = tutti_server_admit(server, grown[j]);
        for (int again = 0; again < 3 && status != TUTTI_OK && status != TUTTI_INVALID_COMM; again++)
            if (without_dead(&grown[j]) == TUTTI_OK) status = tutti_server_admit(server, grown[j]);
        RANKS_EXPECT(status == TUTTI_OK || play->victim >= 0 || play->deaths[j] != LIVES);
        (void)tutti_comm_free(grown[j]);
    }
    RANKS_EXPECT(tutti_server_serve(server) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.workers == 0 && counters.joined <= (uint64_t)play->joiners);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static int comes(struct play *play, int rank, int joiner, struct tutti_comm *grown)
{
    static _Thread_local float ones[WIDTH];
    const struct tutti_server_part push = {0, NULL, 0, ones};
    struct tutti_server_table table;
    struct tutti_server *server;
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    const struct tutti_server_options options = options_of(play, &table);
    const enum death death = play->deaths[joiner];
    wait_for(play, joiner);
    if (death != LIVES) atomic_fetch_add(&play->came, 1);
    if (death == DIES_OUTSIDE) kill(getpid(), SIGKILL);
    enum tutti_status status = tutti_server_join(&options, grown, &server);
    for (int again = 0; again < 3 && status != TUTTI_OK; again++)
        if (without_dead(&grown) == TUTTI_OK) status = tutti_server_join(&options, grown, &server);
    RANKS_EXPECT(status == TUTTI_OK);
    (void)tutti_comm_free(grown);
    if (death == DIES_INSIDE) kill(getpid(), SIGKILL);
    if (death == DIES_MID_CLOCK && tutti_server_push(server, &push, 1, NULL) == TUTTI_OK)
        kill(getpid(), SIGKILL);
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
    atomic_store(&play->first[tutti_server_rank(server)], counters.clock);
    atomic_fetch_add(&play->came, 1);
    RANKS_EXPECT(works(server, play) == 0);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static int takes_part(struct tutti_comm *all, int rank, int size, uint64_t seed, void *context)
{
    struct play *const play = context;
    const int there = play->servers + play->workers;
    int ranks[RANKS_MAX];
    struct tutti_comm *base, *grown[RANKS_MAX];
    struct tutti_server_table table;
    struct tutti_server *server;
    const struct tutti_server_options options = options_of(play, &table);
    (void)size, (void)seed;
    atomic_store(&play->pids[rank], getpid());
    for (int j = 0; j < play->joiners; j++)
        if (rank < play->servers || rank == there + j)
            RANKS_EXPECT(group_with(all, play, rank, there + j, &grown[j]) == 0);
    if (rank >= there) return comes(play, rank, rank - there, grown[rank - there]);
    for (int r = 0; r < there; r++) ranks[r] = r;
    RANKS_EXPECT(tutti_comm_group(all, ranks, there, NULL, &base) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    if (rank < play->servers) return serves(server, play, rank, grown);
    RANKS_EXPECT(works(server, play) == 0);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* ------------------------------------------------------------------------------------------- tests */

static const struct {
    enum tutti_server_mode mode;
    int staleness, quorum;
} modes[] = {{TUTTI_SERVER_SYNCHRONOUS, 0, 0},
             {TUTTI_SERVER_BOUNDED, 0, 0},
             {TUTTI_SERVER_BOUNDED, 2, 0},
             {TUTTI_SERVER_ASYNCHRONOUS, 0, 0},
             {TUTTI_SERVER_QUORUM, 0, 3}};
enum { MODES = sizeof modes / sizeof *modes };

/* Workers come in three clocks or so. */
static struct play play_of(uint64_t seed, int servers, int workers, int joiners, int mode)
{
    struct play play = {.seed = seed, .servers = servers, .workers = workers, .joiners = joiners};
    play.mode = modes[mode].mode;
    play.staleness = modes[mode].staleness;
    play.quorum = modes[mode].quorum;
    play.victim = -1;
    for (int j = 0; j < joiners; j++) play.come_at[j] = workers * (2 + 3 * j);
    return play;
}

static void workers_come_in_every_mode(void **state)
{
    (void)state;
    for (int mode = 0; mode < MODES; mode++)
        for (int servers = 1; servers <= 2; servers++) {
            struct play *const play = ranks_share(sizeof *play);
            const struct play drawn = play_of((uint64_t)mode, servers, 2, 2, mode);
            memcpy((void *)play, &drawn, sizeof drawn);
            expect_good(size_of(play), RANKS_DEFAULT, takes_part, play);
            assert_int_equal(atomic_load(&play->done), 4);
        }
}

static void workers_come_where_servers_have_backups_and_spares(void **state)
{
    (void)state;
    for (int spares = 0; spares <= 1; spares++) {
        struct play *const play = ranks_share(sizeof *play);
        struct play drawn = play_of(7, 3, 2, 2, 2 * spares);
        drawn.backups = 1, drawn.spares = spares;
        memcpy((void *)play, &drawn, sizeof drawn);
        expect_good(size_of(play), RANKS_DEFAULT, takes_part, play);
        assert_int_equal(atomic_load(&play->done), 4);
    }
}

/* Whether all ranks that were not to die are good. */
static bool is_good(struct play *play)
{
    struct ranks_outcome outcomes[RANKS_MAX];
    const int there = play->servers + play->workers;
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 120000,
                                          .comm_options = &patient,
                                          .outcomes = outcomes};
    bool all = true;
    (void)ranks_run(size_of(play), &options, takes_part, play);
    for (int rank = 0; rank < size_of(play); rank++) {
        const bool may_die =
            rank == play->victim || (rank >= there && play->deaths[rank - there] != LIVES);
        if (!may_die && outcomes[rank].fate != RANKS_GOOD) all = false;
    }
    return all;
}

static void a_worker_that_dies_while_it_comes_is_no_hang(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    for (enum death death = DIES_OUTSIDE; death <= DIES_MID_CLOCK; death++)
        for (int mode = 0; mode < MODES; mode += 2) {
            struct play *const play = ranks_share(sizeof *play);
            struct play drawn = play_of((uint64_t)death, 1 + (int)death % 2, 2, 2, mode);
            drawn.deaths[0] = death;
            memcpy((void *)play, &drawn, sizeof drawn);
            assert_true(is_good(play));
            assert_int_equal(atomic_load(&play->done), 3);
        }
}

/* A server or worker dies while workers come, or between. */
static struct play drawn_play(uint64_t seed)
{
    const uint64_t h = elements_mixed(seed, 1), g = elements_mixed(seed, 2);
    struct play play =
        play_of(seed, 2 + (int)(h % 2), 2, 1 + (int)(h / 2 % 2), (int)(h / 4 % MODES));
    play.backups = 1;
    play.victim = (int)(g % (uint64_t)(play.servers + play.workers));
    play.kill_at = 1 + (int)(g / 16 % 14);
    if (h / 64 % 3 == 0) play.deaths[0] = DIES_OUTSIDE + (enum death)(h / 256 % 3);
    return play;
}

static bool runs_well(uint64_t seed)
{
    struct play *const play = ranks_share(sizeof *play);
    const struct play drawn = drawn_play(seed);
    memcpy((void *)play, &drawn, sizeof drawn);
    const bool all = is_good(play);
    if (!all)
        printf("seed %" PRIu64 ": %d servers, mode %d, rank %d dies at tick %d\n", seed,
               play->servers, (int)play->mode, play->victim, play->kill_at);
    return all;
}

static void workers_come_while_servers_and_workers_die(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip();
    const uint64_t count = IS_SANITIZED ? 4 : 10;
    for (uint64_t seed = 1; seed <= count; seed++) assert_true(runs_well(seed));
}

/* -------------------------------------------------------------------------------------- refusals */

static bool says(const char *text)
{
    return strstr(tutti_error_message(), text) != NULL;
}

/* Rank 0 serves, rank 1 works, rank 2 comes: wrongly, then well, and again when all have left. */
static int refusals(struct tutti_comm *all, int rank, int size, uint64_t seed, void *context)
{
    struct play *const play = context;
    const int first[] = {0, 1};
    struct tutti_comm *base;
    struct tutti_server *server = NULL;
    struct tutti_server_table table;
    struct tutti_server_options options = options_of(play, &table);
    (void)size, (void)seed;
    options.joiner_max = 1;
    if (rank < 2) {
        RANKS_EXPECT(tutti_comm_group(all, first, 2, NULL, &base) == TUTTI_OK);
        options.joiner_max = 1025;
        RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(says("tutti_server_create: joiner_max is 1025"));
        options.joiner_max = 1;
        RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_admit(server, base) == TUTTI_INVALID_COMM);
        RANKS_EXPECT(says("no rank of the communicator joins"));
        RANKS_EXPECT(tutti_server_admit(server, NULL) == TUTTI_INVALID_COMM);
        RANKS_EXPECT(tutti_server_admit(NULL, base) == TUTTI_INVALID_BUFFER);
        RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    }
    if (rank == 2) {
        RANKS_EXPECT(tutti_server_join(NULL, all, &server) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(server == NULL && says("tutti_server_join: options is NULL"));
        table.rate = 2;
        RANKS_EXPECT(tutti_server_join(&options, all, &server) == TUTTI_MISMATCH);
        table.rate = 1;
    } else {
        RANKS_EXPECT(tutti_server_admit(server, all) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(says("rank 2 (host ") && says(") failed with INVALID_OPTIONS"));
        RANKS_EXPECT(tutti_server_admit(server, all) == TUTTI_MISMATCH);
    }
    RANKS_EXPECT(says("table 'dense' has rate 2 and not 1"));
    RANKS_EXPECT((rank == 2 ? tutti_server_join(&options, all, &server)
                            : tutti_server_admit(server, all)) == TUTTI_OK);
    struct tutti_server *second = NULL;
    RANKS_EXPECT((rank == 2 ? tutti_server_join(&options, all, &second)
                            : tutti_server_admit(server, all)) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(says("joiner_max of the parameter server is 1, and all these places are taken"));
    if (rank > 0) RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* Rank 0 serves, rank 1 works, and two come where there is one place. */
static int one_place_for_two(struct tutti_comm *all, int rank, int size, uint64_t seed,
                             void *context)
{
    struct play *const play = context;
    const int first[] = {0, 1};
    struct tutti_comm *base;
    struct tutti_server *server = NULL;
    struct tutti_server_table table;
    struct tutti_server_options options = options_of(play, &table);
    (void)size, (void)seed;
    options.joiner_max = 1;
    if (rank < 2) {
        RANKS_EXPECT(tutti_comm_group(all, first, 2, NULL, &base) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    }
    const enum tutti_status status =
        rank < 2 ? tutti_server_admit(server, all) : tutti_server_join(&options, all, &server);
    RANKS_EXPECT(status == (rank == 3 ? TUTTI_INVALID_OPTIONS : TUTTI_OK));
    if (rank == 3)
        RANKS_EXPECT(server == NULL && says("2 workers come at once, and lower ranks get the last "
                                            "places, of which there is 1"));
    if (rank == 2) RANKS_EXPECT(tutti_server_rank(server) == 2);
    if (rank == 1 || rank == 2) RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(all) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* Rank 3 meets server 0 without server 1, which lives: no worker can come like that. */
static int without_a_server(struct tutti_comm *all, int rank, int size, uint64_t seed, void *context)
{
    struct play *const play = context;
    const int there[] = {0, 1, 2}, some[] = {0, 3}, whole[] = {0, 1, 3};
    struct tutti_comm *base, *few, *grown;
    struct tutti_server *server = NULL;
    struct tutti_server_table table;
    const struct tutti_server_options options = options_of(play, &table);
    (void)size, (void)seed;
    if (rank < 3) {
        RANKS_EXPECT(tutti_comm_group(all, there, 3, NULL, &base) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    }
    if (rank == 0 || rank == 3) {
        RANKS_EXPECT(tutti_comm_group(all, some, 2, NULL, &few) == TUTTI_OK);
        RANKS_EXPECT((rank == 0 ? tutti_server_admit(server, few)
                                : tutti_server_join(&options, few, &server)) == TUTTI_INVALID_COMM);
        RANKS_EXPECT(says(rank == 0 ? "the server at rank 1 lives, and is not in the communicator"
                                    : ") failed with INVALID_COMM"));
        RANKS_EXPECT(tutti_comm_free(few) == TUTTI_OK);
    }
    if (rank != 2) {
        RANKS_EXPECT(tutti_comm_group(all, whole, 3, NULL, &grown) == TUTTI_OK);
        RANKS_EXPECT((rank < 2 ? tutti_server_admit(server, grown)
                               : tutti_server_join(&options, grown, &server)) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(grown) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(all) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* Ranks 0 and 1 are servers of two parameter servers, of which ranks 2 and 3 are the workers. */
static int two_parameter_servers(struct tutti_comm *all, int rank, int size, uint64_t seed,
                                 void *context)
{
    struct play *const play = context;
    const int own[] = {rank % 2, rank % 2 + 2};
    struct tutti_comm *base;
    struct tutti_server *server = NULL;
    struct tutti_server_table table;
    const struct tutti_server_options options = options_of(play, &table);
    (void)size, (void)seed;
    if (rank < 4) {
        RANKS_EXPECT(tutti_comm_group(all, own, 2, NULL, &base) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    }
    RANKS_EXPECT((rank < 4 ? tutti_server_admit(server, all)
                           : tutti_server_join(&options, all, &server)) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(says("ranks 0 and 1 of the communicator are server 0 of two parameter servers"));
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* All workers have left: the server has ended, and nobody comes. */
static int comes_too_late(struct tutti_comm *all, int rank, int size, uint64_t seed, void *context)
{
    struct play *const play = context;
    const int first[] = {0, 1}, pair[] = {0, 2};
    struct tutti_comm *base, *late = NULL;
    struct tutti_server *server = NULL;
    struct tutti_server_table table;
    const struct tutti_server_options options = options_of(play, &table);
    (void)size, (void)seed;
    if (rank != 1) RANKS_EXPECT(tutti_comm_group(all, pair, 2, NULL, &late) == TUTTI_OK);
    if (rank < 2) {
        RANKS_EXPECT(tutti_comm_group(all, first, 2, NULL, &base) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    }
    if (rank == 1) RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    if (rank == 0) RANKS_EXPECT(tutti_server_serve(server) == TUTTI_OK);
    if (rank == 1) return 0;
    if (rank == 0) (void)!tutti_server_admit(server, late);
    if (rank == 2) {
        const enum tutti_status status = tutti_server_join(&options, late, &server);
        RANKS_EXPECT(status == TUTTI_ABORTED || status == TUTTI_PROC_FAILED);
        RANKS_EXPECT(says("all workers of the parameter server have left") ||
                     says("the parameter server was freed"));
    }
    RANKS_EXPECT(tutti_comm_free(late) == TUTTI_OK);
    if (rank == 0) RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void a_worker_that_cannot_come_is_told_why(void **state)
{
    (void)state;
    struct play play = play_of(1, 1, 1, 1, 3);
    expect_good(3, RANKS_DEFAULT, refusals, &play);
    expect_good(3, RANKS_DEFAULT, comes_too_late, &play);
    expect_good(4, RANKS_DEFAULT, one_place_for_two, &play);
    expect_good(5, RANKS_DEFAULT, two_parameter_servers, &play);
    struct play two = play_of(1, 2, 1, 1, 3);
    expect_good(4, RANKS_DEFAULT, without_a_server, &two);
}

/* ------------------------------------------------------------------------------------------- main */

static int run_many(int argument_count, char **arguments)
{
    uint64_t count = 1, seed = 1;
    for (int i = 1; i + 1 < argument_count; i += 2) {
        if (strcmp(arguments[i], "--runs") == 0) count = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--seed") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
    }
    for (uint64_t i = 0; i < count; i++)
        if (!runs_well(seed + i)) return 1;
    printf("%" PRIu64 " runs from seed %" PRIu64 " were good\n", count, seed);
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) return run_many(argument_count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_come_in_every_mode),
        cmocka_unit_test(workers_come_where_servers_have_backups_and_spares),
        cmocka_unit_test(a_worker_that_dies_while_it_comes_is_no_hang),
        cmocka_unit_test(workers_come_while_servers_and_workers_die),
        cmocka_unit_test(a_worker_that_cannot_come_is_told_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
