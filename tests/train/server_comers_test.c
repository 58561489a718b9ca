/* Processes come to running parameter servers as users write it: the servers call tutti_comm_grow again and again, and who comes calls
 * tutti_comm_join. Some processes die on their way, stop, give other tables, call something else or leave, and servers die
 * meanwhile. A good process gets in all the same, workers go on, and the tables have each acknowledged update once.
 *
 *     server_comers_test                        what CI runs
 *     server_comers_test --runs N [--seed S]    N drawn runs; stops at the first that fails
 *
 * ctest: label=once label=notsan timeout=400 waits first */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "train/elastic_store.h"
#include "tutti/server.h"

enum {
    SERVERS = 2,
    WORKERS = 2,
    BAD = SERVERS + WORKERS,
    GOOD,
    PROCESSES,
    WIDTH = 2500,
    STEPS = 10
};
static const uint64_t SECOND = 1000000000u;

/* A bad process: where it is when that happens to it, and what it does. */
enum deed {
    COMES_WELL,
    DIES_OUTSIDE, /* between tutti_comm_join and tutti_server_join */
    DIES_WITHIN,  /* at some time in tutti_server_join, or behind it */
    DIES_AFTER,
    STOPS_OUTSIDE,
    STOPS_WITHIN,
    LEAVES,
    CALLS_SOMETHING_ELSE,
    HAS_OTHER_TABLES,
    HAS_MORE_TABLES,
    DEEDS
};
static const char *const names[DEEDS] = {
    "comes well",   "dies outside", "dies within",          "dies after",       "stops outside",
    "stops within", "leaves",       "calls something else", "has other tables", "has more tables"};

struct play {
    uint64_t seed;
    enum deed deed;
    enum tutti_server_mode mode;
    bool at_once; /* the good process does not wait until the bad one has come */
    int victim;   /* a server that dies once a process has joined; -1: none */
    int delay_us; /* after which it, or the bad process, dies or stops in the middle */

    char folder[SCRATCH_BYTES + 32];
    _Atomic int pids[PROCESSES];
    _Atomic int has_come; /* the bad process has joined the communicator */
    _Atomic int stops;    /* the workers */
    _Atomic uint64_t stop_at;
    _Atomic uint64_t updates; /* acknowledged ones of all workers */
    _Atomic int finished;
};

static void end_soon(const struct play *play, int signal_number);

/* -------------------------------------------------------------------------------- tables and comms */

static struct tutti_server_options options_of(const struct play *play,
                                              struct tutti_server_table tables[2])
{
    static const int servers[] = {0, 1};
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    tables[0] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("dense", 0, WIDTH);
    tables[1] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("more", 0, WIDTH);
    tables[0].rate = 1;
    options.tables = tables, options.table_count = 1;
    options.server_ranks = servers, options.server_count = SERVERS;
    options.mode = play->mode;
    options.backups = 1;
    options.joiner_max = 64;
    options.timeout_ns = 60 * SECOND;
    return options;
}

/* Deadlines of those that wait for a process that stopped. */
static struct tutti_comm_options comm_options(const struct tutti_store *store)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.store = store;
    options.timeout_ns = 4 * SECOND;
    options.init_timeout_ns = 20 * SECOND;
    return options;
}

/* ----------------------------------------------------------------------------------------- workers */

static bool goes_on(struct play *play, uint64_t clock)
{
    uint64_t none = 0;
    if (atomic_load(&play->stops))
        (void)atomic_compare_exchange_strong(&play->stop_at, &none, clock + 4);
    const uint64_t stop_at = atomic_load(&play->stop_at);
    return stop_at == 0 || clock < stop_at;
}

/* Until the good process has had its steps. */
static int works(struct tutti_server *server, struct play *play, int rank)
{
    static float ones[WIDTH], got[WIDTH];
    const struct tutti_server_part push = {0, NULL, 0, ones}, pull = {0, NULL, 0, got};
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    for (int i = 0; i < WIDTH; i++) ones[i] = 1;
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
    uint64_t clock = counters.clock;
    for (int own = 1; goes_on(play, clock); clock++, own++) {
        RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
        atomic_fetch_add(&play->updates, 1);
        if (rank == GOOD && own == STEPS) atomic_store(&play->stops, 1);
        ranks_nap_ms(1);
    }
    atomic_fetch_add(&play->finished, 1);
    while (atomic_load(&play->finished) < WORKERS + 1) ranks_nap_ms(1);
    RANKS_EXPECT(tutti_server_pull(server, &pull, 1, NULL) == TUTTI_OK);
    for (int i = 0; i < WIDTH; i++) RANKS_EXPECT(got[i] == -(float)atomic_load(&play->updates));
    return 0;
}

/* ----------------------------------------------------------------------------------------- servers */

static int serves(struct tutti_server *server, struct tutti_comm *servers,
                  const struct tutti_store *store, struct play *play, int rank)
{
    struct tutti_grow_options growth = TUTTI_GROW_OPTIONS_INIT;
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    struct tutti_comm *grown;
    uint64_t more = 1;
    growth.store = store;
    growth.joiner_max = 2;
    growth.wait_ns = SECOND / 5;
    while (more) {
        more = tutti_server_serve_for(server, SECOND / 50) == TUTTI_IN_PROGRESS;
        const enum tutti_status agreed = tutti_comm_agree(servers, &more);
        RANKS_EXPECT(agreed == TUTTI_OK || (agreed == TUTTI_PROC_FAILED && play->victim >= 0));
        if (!more) break;
        if (tutti_comm_grow(servers, &growth, &grown) != TUTTI_OK) continue;
        if (rank == play->victim) end_soon(play, SIGKILL);
        (void)!tutti_server_admit(server, grown);
        (void)tutti_comm_free(grown);
    }
    RANKS_EXPECT(tutti_server_serve(server) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK && counters.workers == 0);
    RANKS_EXPECT(counters.joined >= 1);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return tutti_comm_free(servers) != TUTTI_OK;
}

static int is_there_from_the_start(const struct tutti_store *store, struct play *play, int rank)
{
    static const int server_ranks[] = {0, 1};
    struct tutti_server_table tables[2];
    struct tutti_comm_options own = comm_options(store);
    const struct tutti_server_options options = options_of(play, tables);
    struct tutti_comm *base, *servers = NULL;
    struct tutti_server *server;
    own.rank = rank, own.size = SERVERS + WORKERS;
    RANKS_EXPECT(tutti_comm_create(&own, &base) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_create(&options, base, &server) == TUTTI_OK);
    if (rank < SERVERS)
        RANKS_EXPECT(tutti_comm_group(base, server_ranks, SERVERS, NULL, &servers) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(base) == TUTTI_OK);
    if (rank < SERVERS) return serves(server, servers, store, play, rank);
    RANKS_EXPECT(works(server, play, rank) == 0);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* ------------------------------------------------------------------------------------------ coming */

struct end {
    int delay_us, signal_number;
};

static void *end_then(void *of)
{
    const struct end *const end = of;
    usleep((useconds_t)end->delay_us);
    kill(getpid(), end->signal_number);
    return NULL;
}

/* Whatever this process does meanwhile. */
static void end_soon(const struct play *play, int signal_number)
{
    static struct end end;
    pthread_t thread;
    end = (struct end){play->delay_us, signal_number};
    if (pthread_create(&thread, NULL, end_then, &end) != 0) abort();
    (void)pthread_detach(thread);
}

/* Another server may die, or another process that comes spoil the first try. */
static int comes_well(const struct tutti_store *store, struct play *play, int rank)
{
    struct tutti_server_table tables[2];
    const struct tutti_server_options options = options_of(play, tables);
    const struct tutti_comm_options own = comm_options(store);
    struct tutti_server *server = NULL;
    struct tutti_comm *grown;
    while (!play->at_once && atomic_load(&play->has_come) == 0) ranks_nap_ms(1);
    while (server == NULL) {
        if (tutti_comm_join(&own, &grown) != TUTTI_OK) continue;
        const enum tutti_status status = tutti_server_join(&options, grown, &server);
        if (status != TUTTI_OK) printf("the good process: %s\n", tutti_error_message());
        RANKS_EXPECT(status == TUTTI_OK || play->deed != COMES_WELL || play->victim >= 0);
        (void)tutti_comm_free(grown);
    }
    const bool is_stopped = play->deed == STOPS_OUTSIDE || play->deed == STOPS_WITHIN;
    if (is_stopped) kill(atomic_load(&play->pids[BAD]), SIGCONT);
    RANKS_EXPECT(works(server, play, rank) == 0);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static bool says(const char *text)
{
    return strstr(tutti_error_message(), text) != NULL;
}

/* A process that is not wanted. Whatever it gets, it gets it in the end. */
static int does(enum deed deed, struct tutti_comm *grown, struct play *play, int rank)
{
    struct tutti_server_table tables[2];
    struct tutti_server_options options = options_of(play, tables);
    struct tutti_server *server = NULL;
    int32_t one = 1;
    if (deed == DIES_OUTSIDE) raise(SIGKILL);
    if (deed == STOPS_OUTSIDE) raise(SIGSTOP);
    if (deed == LEAVES) return 0;
    if (deed == CALLS_SOMETHING_ELSE) {
        RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, grown) != TUTTI_OK);
        return 0;
    }
    if (deed == DIES_WITHIN) end_soon(play, SIGKILL);
    if (deed == STOPS_WITHIN) end_soon(play, SIGSTOP);
    if (deed == HAS_OTHER_TABLES) tables[0].rate = 2;
    if (deed == HAS_MORE_TABLES) options.table_count = 2;
    const enum tutti_status status = tutti_server_join(&options, grown, &server);
    if (deed == DIES_AFTER) {
        RANKS_EXPECT(status == TUTTI_OK || play->at_once);
        raise(SIGKILL);
    }
    if (deed == DIES_WITHIN) ranks_nap_ms(60000);
    if (deed == HAS_OTHER_TABLES || deed == HAS_MORE_TABLES)
        RANKS_EXPECT(status == TUTTI_MISMATCH && says("tables that differ from those of rank"));
    if (status != TUTTI_OK) printf("the process that %s: %s\n", names[deed], tutti_error_message());
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static int comes_badly(const struct tutti_store *store, struct play *play, int rank)
{
    const struct tutti_comm_options own = comm_options(store);
    struct tutti_comm *grown;
    if (play->deed == COMES_WELL) {
        atomic_store(&play->has_come, 1);
        return 0;
    }
    while (tutti_comm_join(&own, &grown) != TUTTI_OK) {
    }
    atomic_store(&play->has_come, 1);
    RANKS_EXPECT(does(play->deed, grown, play, rank) == 0);
    (void)tutti_comm_free(grown);
    return 0;
}

static int takes_part(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    struct play *const play = context;
    struct elastic_folder_store *made;
    struct tutti_store store;
    (void)none, (void)size, (void)seed;
    atomic_store(&play->pids[rank], getpid());
    RANKS_EXPECT(elastic_folder_store_open(play->folder, &store, &made) == TUTTI_OK);
    const int bad = rank < BAD    ? is_there_from_the_start(&store, play, rank)
                    : rank == BAD ? comes_badly(&store, play, rank)
                                  : comes_well(&store, play, rank);
    elastic_folder_store_close(made);
    return bad;
}

/* ------------------------------------------------------------------------------------------- tests */

static char folder[SCRATCH_BYTES];

static bool may_die(const struct play *play, int rank)
{
    const bool is_mortal =
        play->deed == DIES_OUTSIDE || play->deed == DIES_WITHIN || play->deed == DIES_AFTER;
    return rank == play->victim || (rank == BAD && is_mortal);
}

static bool runs_well(const struct play *drawn)
{
    static int number;
    struct play *const play = ranks_share(sizeof *play);
    struct ranks_outcome outcomes[PROCESSES];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .without_comm = true, .outcomes = outcomes};
    bool all = true;
    memcpy((void *)play, drawn, sizeof *play);
    snprintf(play->folder, sizeof play->folder, "%s/%d", folder, number++);
    if (mkdir(play->folder, 0700) != 0) abort();
    (void)ranks_run(PROCESSES, &options, takes_part, play);
    for (int rank = 0; rank < PROCESSES; rank++)
        all &= outcomes[rank].fate == RANKS_GOOD ||
               (may_die(play, rank) && outcomes[rank].fate == RANKS_SIGNALLED);
    if (!all)
        printf("seed %" PRIu64 ": mode %d, a process %s%s, server %d dies, delay %d us\n",
               play->seed, (int)play->mode, names[play->deed],
               play->at_once ? " (both at once)" : "", play->victim, play->delay_us);
    return all;
}

static struct play play_of(uint64_t seed, enum deed deed, int victim)
{
    const uint64_t h = elements_mixed(seed, (size_t)deed);
    struct play play = {.seed = seed, .deed = deed, .victim = victim};
    play.at_once = h % 2;
    play.delay_us = (int)(h / 4 % 40000);
    play.mode =
        h / 2 % 2 && deed != STOPS_WITHIN ? TUTTI_SERVER_SYNCHRONOUS : TUTTI_SERVER_ASYNCHRONOUS;
    return play;
}

static void expect_well(enum deed first, enum deed last, int victim, int tries)
{
    if (ranks_are_threads()) skip();
    for (enum deed deed = first; deed <= last; deed++)
        for (int i = 0; i < tries; i++) {
            const struct play play = play_of((uint64_t)i, deed, victim);
            assert_true(runs_well(&play));
        }
}

static void processes_that_die_keep_nobody_out(void **state)
{
    (void)state;
    expect_well(COMES_WELL, DIES_AFTER, -1, 2);
}

static void processes_that_stop_keep_nobody_out(void **state)
{
    (void)state;
    expect_well(STOPS_OUTSIDE, STOPS_WITHIN, -1, 2);
}

static void processes_that_want_something_else_keep_nobody_out(void **state)
{
    (void)state;
    expect_well(LEAVES, HAS_MORE_TABLES, -1, 2);
}

static void a_process_comes_while_a_server_dies(void **state)
{
    (void)state;
    for (int victim = 0; victim < SERVERS; victim++) expect_well(COMES_WELL, COMES_WELL, victim, 2);
}

static int run_many(int argument_count, char **arguments)
{
    uint64_t count = 1, seed = 1;
    for (int i = 1; i + 1 < argument_count; i += 2) {
        if (strcmp(arguments[i], "--runs") == 0) count = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--seed") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
    }
    for (uint64_t i = seed; i < seed + count; i++) {
        const uint64_t h = elements_mixed(i, 99);
        const struct play play =
            play_of(i, (enum deed)(h % DEEDS), h / 16 % 3 == 0 ? (int)(h / 64 % SERVERS) : -1);
        if (!runs_well(&play)) return 1;
    }
    printf("%" PRIu64 " runs from seed %" PRIu64 " were good\n", count, seed);
    return 0;
}

int main(int argument_count, char **arguments)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_die_keep_nobody_out),
        cmocka_unit_test(processes_that_stop_keep_nobody_out),
        cmocka_unit_test(processes_that_want_something_else_keep_nobody_out),
        cmocka_unit_test(a_process_comes_while_a_server_dies),
    };
    scratch_make(folder);
    const int result = argument_count > 1 ? run_many(argument_count, arguments)
                                          : cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(folder);
    return result;
}
