/* server_calls_test.c - calls of parameter servers at their limits: as many parts as there are, calls
 * that time out and go on, workers that are silent, workers that push too much, other modes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/patient.h"
#include "tutti/server.h"

enum { SMALL = 7, ROWS = 500, ROW_WIDTH = 4 };
enum { LITTLE, WORDS, TABLES };

/* The first ranks serve, the others work. */
static struct tutti_server_options options_of(size_t servers)
{
    static int ranks[] = {0, 1};
    static _Thread_local struct tutti_server_table tables[TABLES]; /* ranks may be threads */
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    tables[LITTLE] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("little", 0, SMALL);
    tables[WORDS] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT("words", ROWS, ROW_WIDTH);
    for (int t = 0; t < TABLES; t++) tables[t].rate = 1;
    options.tables = tables, options.table_count = TABLES;
    options.server_ranks = ranks, options.server_count = servers;
    options.timeout_ns = 60000000000;
    return options;
}

static bool says(const char *text)
{
    return strstr(tutti_error_message(), text) != NULL;
}

/* ------------------------------------------------------------------------------------- many parts */

enum { MANY = TUTTI_SERVER_PARTS };

struct many {
    struct tutti_server_table tables[MANY];
    struct tutti_server_part parts[MANY];
    char names[MANY][16];
    float values[MANY];
};

static int names_all_tables(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    struct many *const many = calloc(1, sizeof *many);
    struct tutti_server *server;
    struct tutti_server_options options = options_of(2);
    (void)seed, (void)context;
    RANKS_EXPECT(many != NULL);
    for (int t = 0; t < MANY; t++) {
        snprintf(many->names[t], sizeof many->names[t], "t%d", t);
        many->tables[t] = (struct tutti_server_table)TUTTI_SERVER_TABLE_INIT(many->names[t], 0, 1);
        many->tables[t].rate = 1;
        many->parts[t] = (struct tutti_server_part){(size_t)t, NULL, 0, &many->values[t]};
        many->values[t] = (float)t;
    }
    options.tables = many->tables, options.table_count = MANY;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank >= 2)
        RANKS_EXPECT(tutti_server_push_pull(server, many->parts, MANY, many->parts, MANY, NULL) ==
                     TUTTI_OK);
    for (int t = 0; t < MANY && rank >= 2; t++)
        RANKS_EXPECT(many->values[t] == -(float)(t * (size - 2)));
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    free(many);
    return 0;
}

static void a_call_can_name_every_table(void **state)
{
    (void)state;
    expect_good(4, RANKS_DEFAULT, names_all_tables, NULL);
}

/* ------------------------------------------------------------------------------ deadlines of calls */

/* Rank 1 asks again and again, while rank 2 lets it wait. */
static int goes_on(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    _Atomic int *const may_go = context;
    struct tutti_server *server;
    const struct tutti_server_options all = options_of(1);
    float ones[SMALL] = {1, 1, 1, 1, 1, 1, 1}, got[SMALL];
    const struct tutti_server_part push = {LITTLE, NULL, 0, ones}, pull = {LITTLE, NULL, 0, got};
    (void)seed, (void)size;
    RANKS_EXPECT(tutti_server_create(&all, comm, &server) == TUTTI_OK);
    for (int clock = 0; clock < 3 && rank > 0; clock++) {
        struct tutti_server_call_options options = TUTTI_SERVER_CALL_OPTIONS_INIT;
        while (rank == 2 && atomic_load(may_go) <= clock) ranks_nap_ms(1);
        options.timeout_ns = 20000000;
        for (int again = 0; rank == 1 && again < 3; again++)
            RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, &options) ==
                         TUTTI_TIMEOUT);
        if (rank == 1) atomic_fetch_add(may_go, 1);
        if (rank == 1 && clock == 1) RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
        if (rank == 1 && clock == 1)
            RANKS_EXPECT(tutti_server_pull(server, &pull, 1, NULL) == TUTTI_OK);
        else
            RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(got[0] == -2.0f * (float)(clock + 1));
    }
    struct tutti_server_counters counters = {.size_bytes = sizeof counters};
    RANKS_EXPECT(tutti_server_count(server, &counters) == TUTTI_OK);
    RANKS_EXPECT(rank == 0 || (counters.clock == 3 && counters.pushes == 3));
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void what_timed_out_goes_on_and_pushes_nothing_twice(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, goes_on, ranks_share(sizeof(_Atomic int)));
}

/* ---------------------------------------------------------------------------------- silent workers */

struct silent {
    bool asks; /* worker 2 waits for another mode, which server 1 does not answer; else in a tick */
    _Atomic int *may_go;
};

static enum tutti_status wait_for_workers(struct tutti_server *server, bool asks)
{
    struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT;
    change.mode = TUTTI_SERVER_ASYNCHRONOUS;
    return asks ? tutti_server_change_mode(server, &change, NULL) : tutti_server_tick(server, NULL);
}

/* Worker 3 says nothing, and worker 2 waits for it: rank 3 is named, and servers go on. */
static int one_is_silent(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct silent *const silent = context;
    _Atomic int *const may_go = silent->may_go;
    struct tutti_server *server;
    struct tutti_server_options options = options_of(2);
    (void)seed, (void)size;
    options.serve_timeout_ns = 50000000;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank < 2) {
        do { /* until worker 2 waits, it may be the silent one */
            RANKS_EXPECT(tutti_server_serve(server) == TUTTI_TIMEOUT);
            RANKS_EXPECT(says("tutti_server_serve: the worker at rank "));
        } while (!says("the worker at rank 3 has said nothing for "));
        for (int again = 0; again < 3; again++) { /* worker 2 waits, and is never named */
            RANKS_EXPECT(tutti_server_serve(server) == TUTTI_TIMEOUT);
            RANKS_EXPECT(says("the worker at rank 3 has said nothing for "));
        }
        atomic_fetch_add(may_go, 1);
        enum tutti_status status = TUTTI_TIMEOUT;
        while (status == TUTTI_TIMEOUT) status = tutti_server_serve(server);
        RANKS_EXPECT(status == TUTTI_OK);
    } else {
        while (rank == 3 && atomic_load(may_go) < 2) ranks_nap_ms(1);
        RANKS_EXPECT(wait_for_workers(server, silent->asks) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static int serves_for_a_while(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    _Atomic int *const may_go = context;
    struct tutti_server *server;
    struct tutti_server_options options = options_of(1);
    (void)seed, (void)size;
    options.timeout_ns = 50000000;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank == 0) {
        for (int again = 0; again < 3; again++)
            RANKS_EXPECT(tutti_server_serve_for(server, 1000000) == TUTTI_IN_PROGRESS);
        RANKS_EXPECT(!says("tutti_server_serve_for")); /* it is no error */
        RANKS_EXPECT(tutti_server_free(server) == TUTTI_TIMEOUT);
        RANKS_EXPECT(says("tutti_server_free: the worker at rank 1 has said nothing for "));
        atomic_store(may_go, 1);
        return 0;
    }
    RANKS_EXPECT(tutti_server_serve_for(server, UINT64_MAX) == TUTTI_OK); /* serves nobody */
    while (atomic_load(may_go) == 0) ranks_nap_ms(1);
    (void)tutti_server_free(server);
    return 0;
}

static void a_server_says_which_worker_is_silent(void **state)
{
    (void)state;
    for (int asks = 0; asks <= 1; asks++)
        expect_good(4, RANKS_DEFAULT, one_is_silent,
                    &(struct silent){asks, ranks_share(sizeof(_Atomic int))});
    expect_good(2, RANKS_DEFAULT, serves_for_a_while, ranks_share(sizeof(_Atomic int)));
}

/* --------------------------------------------------------------------------------------- too much */

/* Rank 2 pushes more than the queue holds. It is told so, from then on, and rank 3 goes on. */
static int pushes_too_much(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { COUNT = 100 };
    static _Thread_local float values[COUNT][ROW_WIDTH];
    int64_t rows[COUNT];
    const int64_t *const server_of_rows = context;
    struct tutti_server *server;
    struct tutti_server_options options = options_of(2);
    (void)seed, (void)size;
    options.queue_bytes = COUNT * (ROW_WIDTH * sizeof(float) + sizeof *rows);
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    const struct tutti_server_part part = {WORDS, rows, COUNT, values};
    for (int i = 0; i < COUNT; i++) rows[i] = 2 * i + *server_of_rows;
    if (rank == 3) RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    if (rank == 2) {
        RANKS_EXPECT(tutti_server_push(server, &part, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_push_pull(server, &part, 1, &part, 1, NULL) == TUTTI_NO_MEMORY);
        for (int again = 0; again < 2; again++) {
            RANKS_EXPECT(says("raise queue_bytes"));
            RANKS_EXPECT(tutti_server_push(server, &part, 1, NULL) == TUTTI_NO_MEMORY);
        }
        const struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT;
        const enum tutti_status status = tutti_server_change_mode(server, &change, NULL);
        RANKS_EXPECT(*server_of_rows == 0 ? status == TUTTI_NO_MEMORY : status != TUTTI_OK);
    }
    if (rank < 2) RANKS_EXPECT(tutti_server_serve(server) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

/* The answer to a pull behind a push that is refused does not wait until the worker looks at the push. */
static int pulls_behind_a_refused_push(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                       void *context)
{
    enum { COUNT = 100 };
    static _Thread_local float values[COUNT][ROW_WIDTH], got[COUNT][ROW_WIDTH];
    int64_t rows[COUNT];
    struct tutti_server *server;
    struct tutti_server_operation *push, *tick, *pull;
    struct tutti_server_options options = options_of(1);
    (void)seed, (void)size, (void)context;
    options.queue_bytes = COUNT * (ROW_WIDTH * sizeof(float) + sizeof *rows);
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    const struct tutti_server_part part = {WORDS, rows, COUNT, values};
    const struct tutti_server_part pulled = {WORDS, rows, COUNT, got};
    for (int i = 0; i < COUNT; i++) rows[i] = i;
    if (rank == 1) {
        RANKS_EXPECT(tutti_server_push(server, &part, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_push_start(server, &part, 1, NULL, &push) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_tick_start(server, NULL, &tick) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_pull_start(server, &pulled, 1, NULL, &pull) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_wait(&pull) == TUTTI_NO_MEMORY && says("raise queue_bytes"));
        RANKS_EXPECT(tutti_server_wait(&tick) == TUTTI_NO_MEMORY && says("raise queue_bytes"));
        RANKS_EXPECT(tutti_server_wait(&push) == TUTTI_NO_MEMORY && says("raise queue_bytes"));
        RANKS_EXPECT(tutti_server_pull(server, &pulled, 1, NULL) == TUTTI_NO_MEMORY);
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void a_worker_is_told_that_it_pushed_too_much(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, pulls_behind_a_refused_push, NULL);
    expect_good(4, RANKS_DEFAULT, pushes_too_much, &(int64_t){0});
    expect_good(4, RANKS_DEFAULT, pushes_too_much, &(int64_t){1});
}

/* The function, and where the reason lies. */
static int refuses(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local float values[SMALL];
    const struct tutti_server_part part = {LITTLE, NULL, 0, values};
    struct tutti_server_call_options half = TUTTI_SERVER_CALL_OPTIONS_INIT;
    struct tutti_server *server;
    struct tutti_server_options options = options_of(1);
    (void)seed, (void)size, (void)context;
    options.tables = NULL;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(says("tutti_server_create: tables is NULL"));
    options = options_of(1);
    options.server_ranks = NULL;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(says("tutti_server_create: server_ranks is NULL"));
    options = options_of(1);
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank > 0) {
        values[SMALL - 1] = 1e30f;
        half.encoding = TUTTI_ENCODING_FLOAT16;
        RANKS_EXPECT(tutti_server_push(server, &part, 1, &half) == TUTTI_INVALID_BUFFER);
        RANKS_EXPECT(says("tutti_server_push: 1e+30, a value for table 'little', is too large"));
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void a_refusal_says_why(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, refuses, NULL);
}

/* ------------------------------------------------------------------------------------ other modes */

static struct tutti_server_change change_to(enum tutti_server_mode mode, int staleness, int quorum)
{
    struct tutti_server_change change = TUTTI_SERVER_CHANGE_INIT;
    change.mode = mode, change.staleness = staleness, change.quorum = quorum;
    return change;
}

struct changed {
    size_t servers;
    _Atomic int *may_go;
};

/* From asynchronous, where one worker ticks alone, to synchronous, bounded and a quorum. */
static int changes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct changed *const changed = context;
    const size_t servers = changed->servers;
    const int workers = size - (int)servers, worker = rank - (int)servers;
    struct tutti_server *server;
    struct tutti_server_options options = options_of(servers);
    float ones[SMALL] = {1, 1, 1, 1, 1, 1, 1}, got[SMALL];
    const struct tutti_server_part push = {LITTLE, NULL, 0, ones}, pull = {LITTLE, NULL, 0, got};
    (void)seed;
    options.mode = TUTTI_SERVER_ASYNCHRONOUS;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    struct tutti_server_change to = change_to(TUTTI_SERVER_SYNCHRONOUS, 0, 0);
    if (worker < 0) {
        RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_INVALID_RANK);
        RANKS_EXPECT(tutti_server_serve(server) == TUTTI_OK);
        return tutti_server_free(server) != TUTTI_OK;
    }
    for (int i = 0; i < 5; i++) RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_OK);
    for (int clock = 1; clock <= 3; clock++) {
        RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
        RANKS_EXPECT(got[0] == -(float)(workers * clock));
    }
    to = change_to(TUTTI_SERVER_BOUNDED, 2, 0);
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_OK);
    /* The bound is 2: each worker can end so many clocks before the others begin theirs. */
    for (int clock = 0; clock < 2; clock++)
        RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
    to = change_to(TUTTI_SERVER_QUORUM, 0, workers);
    struct tutti_server_call_options soon = TUTTI_SERVER_CALL_OPTIONS_INIT;
    soon.timeout_ns = 20000000;
    if (worker == 0) {
        RANKS_EXPECT(tutti_server_change_mode(server, &to, &soon) == TUTTI_TIMEOUT);
        RANKS_EXPECT(says("the change of the mode still waits for the worker at rank"));
        atomic_store(changed->may_go, 1);
    }
    while (atomic_load(changed->may_go) == 0) ranks_nap_ms(1);
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_push_pull(server, &push, 1, &pull, 1, NULL) == TUTTI_OK);
    RANKS_EXPECT(got[0] == -(float)(workers * 4));
    return tutti_server_free(server) != TUTTI_OK;
}

static int changes_differently(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    struct tutti_server *server;
    struct tutti_server_options options = options_of(1);
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank == 0) return tutti_server_free(server) != TUTTI_OK;
    struct tutti_server_change to = change_to(TUTTI_SERVER_BOUNDED, rank, 0);
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_MISMATCH);
    RANKS_EXPECT(says("asks for the mode bounded by ") || says("asked for different modes"));
    to.staleness = -1;
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_INVALID_OPTIONS);
    to = change_to(TUTTI_SERVER_SYNCHRONOUS, 3, 0);
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(says("tutti_server_change_mode: staleness is 3, and only mode BOUNDED has a"));
    to = change_to(TUTTI_SERVER_BOUNDED, 3, 2);
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(says("quorum is 2, and only mode QUORUM has a"));
    to = change_to(TUTTI_SERVER_QUORUM, 0, 4); /* of 3 */
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_server_change_mode(server, NULL, NULL) == TUTTI_INVALID_OPTIONS);
    to = change_to(TUTTI_SERVER_BOUNDED, 3, 0);
    if (rank == 3) return tutti_server_free(server) != TUTTI_OK; /* and is not waited for */
    RANKS_EXPECT(tutti_server_change_mode(server, &to, NULL) == TUTTI_OK);
    return tutti_server_free(server) != TUTTI_OK;
}

static void meet(_Atomic int *count, int wanted)
{
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < wanted) ranks_nap_ms(1);
}

/* Rank 1 gives up a wish, which comes true without it. Its next wish is a new one, if it is another one, or
 * if the worker has ended a clock since; and is not, if it asks for the same. */
static int gives_up_a_wish(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    _Atomic int *const met = context;
    struct tutti_server *server;
    struct tutti_server_options options = options_of(1);
    struct tutti_server_call_options soon = TUTTI_SERVER_CALL_OPTIONS_INIT;
    const struct tutti_server_change asynchronous = change_to(TUTTI_SERVER_ASYNCHRONOUS, 0, 0),
                                     bounded = change_to(TUTTI_SERVER_BOUNDED, 1, 0);
    (void)seed, (void)size;
    soon.timeout_ns = 20000000;
    options.mode = TUTTI_SERVER_ASYNCHRONOUS;
    RANKS_EXPECT(tutti_server_create(&options, comm, &server) == TUTTI_OK);
    if (rank == 0) return tutti_server_free(server) != TUTTI_OK;
    for (int times = 0; times < 3; times++) {
        const bool ticks = times == 1, asks_for_same = times == 2;
        const struct tutti_server_change *const next =
            ticks || asks_for_same ? &bounded : &asynchronous;
        if (rank == 1)
            RANKS_EXPECT(tutti_server_change_mode(server, &bounded, &soon) == TUTTI_TIMEOUT);
        meet(&met[4 * times], 2);
        if (rank == 2) RANKS_EXPECT(tutti_server_change_mode(server, &bounded, NULL) == TUTTI_OK);
        meet(&met[4 * times + 1], 2);
        if (rank == 1 && ticks) RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
        if (rank == 1 && asks_for_same)
            RANKS_EXPECT(tutti_server_change_mode(server, next, NULL) == TUTTI_OK);
        if (asks_for_same) continue;
        if (rank == 1) RANKS_EXPECT(tutti_server_change_mode(server, next, &soon) == TUTTI_TIMEOUT);
        meet(&met[4 * times + 2], 2);
        RANKS_EXPECT(tutti_server_change_mode(server, next, NULL) == TUTTI_OK);
        meet(&met[4 * times + 3], 2);
    }
    return tutti_server_free(server) != TUTTI_OK;
}

static void a_wish_that_was_given_up_is_not_the_next_one(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, gives_up_a_wish, ranks_share(12 * sizeof(_Atomic int)));
}

static void workers_change_the_mode_together(void **state)
{
    (void)state;
    for (size_t servers = 1; servers <= 2; servers++)
        expect_good(3 + (int)servers, RANKS_DEFAULT, changes,
                    &(struct changed){servers, ranks_share(sizeof(_Atomic int))});
    expect_good(4, RANKS_DEFAULT, changes_differently, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_can_name_every_table),
        cmocka_unit_test(what_timed_out_goes_on_and_pushes_nothing_twice),
        cmocka_unit_test(a_server_says_which_worker_is_silent),
        cmocka_unit_test(a_worker_is_told_that_it_pushed_too_much),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(workers_change_the_mode_together),
        cmocka_unit_test(a_wish_that_was_given_up_is_not_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
