/* server_payloads_test.c - parts of all sizes between workers and servers: in one message with the
 * request, together, or alone and without a copy; and pulls of tensors that change meanwhile. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/patient.h"
#include "tutti/server.h"

enum { LARGE = 100003, MEDIUM = 9001, TINY = 3, ROWS = 2000, ROW_WIDTH = 16, PUSHED = 1500 };
enum { AT_LARGE, AT_MEDIUM, AT_TINY, AT_ROWS, TABLES };
enum { STEPS = 6 };

/* The arrays of a worker: one step's gradients, values as they came, and as they must be. */
struct tensors {
    float large[LARGE], medium[MEDIUM], tiny[TINY], rows[ROWS][ROW_WIDTH];
};
struct memory {
    struct tensors given, got, expected;
    int64_t pushed[PUSHED], pulled[ROWS];
};

static enum tutti_status begin(int servers, enum tutti_server_mode mode, struct tutti_comm *comm,
                               struct tutti_server **server)
{
    struct tutti_server_table tables[TABLES] = {
        TUTTI_SERVER_TABLE_INIT("large", 0, LARGE), TUTTI_SERVER_TABLE_INIT("medium", 0, MEDIUM),
        TUTTI_SERVER_TABLE_INIT("tiny", 0, TINY), TUTTI_SERVER_TABLE_INIT("rows", ROWS, ROW_WIDTH)};
    const int ranks[] = {0, 1, 2};
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    for (int t = 0; t < TABLES; t++) tables[t].rate = 1;
    options.tables = tables;
    options.table_count = TABLES;
    options.server_ranks = ranks;
    options.server_count = (size_t)servers;
    options.mode = mode;
    options.timeout_ns = 60000000000;
    return tutti_server_create(&options, comm, server);
}

/* Whole numbers: sums are exact in any order. */
static float value_of(int rank, int step, size_t i)
{
    return (float)((i * 7 + (size_t)(rank * 3 + step)) % 16);
}

static void fill(float *values, size_t count, int rank, int step)
{
    for (size_t i = 0; i < count; i++) values[i] = value_of(rank, step, i);
}

static void expect_more(float *expected, size_t count, int servers, int size, int step)
{
    for (int rank = servers; rank < size; rank++)
        for (size_t i = 0; i < count; i++) expected[i] -= value_of(rank, step, i);
}

static void prepare(struct memory *m, int servers, int rank, int size, int step)
{
    struct tensors *const given = &m->given, *const expected = &m->expected;
    fill(given->large, LARGE, rank, step);
    fill(given->medium, MEDIUM, rank, step);
    fill(given->tiny, TINY, rank, step);
    fill(given->rows[0], (size_t)PUSHED * ROW_WIDTH, rank, step);
    for (int i = 0; i < PUSHED; i++) m->pushed[i] = (i * 3 + step) % ROWS;
    for (int i = 0; i < ROWS; i++) m->pulled[i] = ROWS - 1 - i;
    expect_more(expected->large, LARGE, servers, size, step);
    expect_more(expected->medium, MEDIUM, servers, size, step);
    expect_more(expected->tiny, TINY, servers, size, step);
    for (int from = servers; from < size; from++)
        for (size_t i = 0; i < PUSHED; i++)
            for (size_t c = 0; c < ROW_WIDTH; c++)
                expected->rows[m->pushed[i]][c] -= value_of(from, step, i * ROW_WIDTH + c);
}

static int check_got(const struct memory *m, int rank)
{
    RANKS_EXPECT(memcmp(m->got.large, m->expected.large, sizeof m->got.large) == 0);
    RANKS_EXPECT(memcmp(m->got.medium, m->expected.medium, sizeof m->got.medium) == 0);
    RANKS_EXPECT(memcmp(m->got.tiny, m->expected.tiny, sizeof m->got.tiny) == 0);
    for (int i = 0; i < ROWS; i++)
        RANKS_EXPECT(
            memcmp(m->got.rows[i], m->expected.rows[m->pulled[i]], sizeof m->got.rows[i]) == 0);
    return 0;
}

/* The gradients of a started push may change at once. */
static int push_started(struct tutti_server *server, struct memory *m,
                        const struct tutti_server_part *parts, int rank)
{
    struct tutti_server_operation *push, *tick;
    RANKS_EXPECT(tutti_server_push_start(server, parts, TABLES, NULL, &push) == TUTTI_OK);
    memset(&m->given, 0xff, sizeof m->given);
    RANKS_EXPECT(tutti_server_tick_start(server, NULL, &tick) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_wait(&push) == TUTTI_OK);
    RANKS_EXPECT(tutti_server_wait(&tick) == TUTTI_OK);
    return 0;
}

static int train(struct tutti_server *server, struct memory *m, int servers, int rank, int size)
{
    struct tensors *const given = &m->given, *const got = &m->got;
    for (int step = 0; step < STEPS; step++) {
        const struct tutti_server_part push[] = {{AT_TINY, NULL, 0, given->tiny},
                                                 {AT_LARGE, NULL, 0, given->large},
                                                 {AT_ROWS, m->pushed, PUSHED, given->rows},
                                                 {AT_MEDIUM, NULL, 0, given->medium}};
        const struct tutti_server_part pull[] = {{AT_ROWS, m->pulled, ROWS, got->rows},
                                                 {AT_MEDIUM, NULL, 0, got->medium},
                                                 {AT_TINY, NULL, 0, got->tiny},
                                                 {AT_LARGE, NULL, 0, got->large}};
        prepare(m, servers, rank, size, step);
        if (step % 2 == 0) {
            RANKS_EXPECT(tutti_server_push_pull(server, push, TABLES, pull, TABLES, NULL) ==
                         TUTTI_OK);
        } else {
            RANKS_EXPECT(push_started(server, m, push, rank) == 0);
            RANKS_EXPECT(tutti_server_pull(server, pull, TABLES, NULL) == TUTTI_OK);
        }
        RANKS_EXPECT(check_got(m, rank) == 0);
    }
    return 0;
}

static int all_sizes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const int servers = *(const int *)context;
    struct tutti_server *server;
    (void)seed;
    RANKS_EXPECT(begin(servers, TUTTI_SERVER_SYNCHRONOUS, comm, &server) == TUTTI_OK);
    if (rank >= servers) {
        struct memory *const m = calloc(1, sizeof *m);
        RANKS_EXPECT(m != NULL);
        RANKS_EXPECT(train(server, m, servers, rank, size) == 0);
        free(m);
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void parts_of_all_sizes_arrive_where_they_belong(void **state)
{
    (void)state;
    expect_good_both(3, all_sizes, &(int){1});
    expect_good(4, RANKS_DEFAULT, all_sizes, &(int){2});
    expect_good(5, RANKS_DEFAULT, all_sizes, &(int){3});
}

/* -------------------------------------------------------------------------------------- started sets */

/* Rank 1 sets all values and pushes nothing, and may change its own at once; rank 2 pushes. */
static int sets(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_server *server;
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(begin(1, TUTTI_SERVER_SYNCHRONOUS, comm, &server) == TUTTI_OK);
    struct memory *const m = rank > 0 ? calloc(1, sizeof *m) : NULL;
    if (m != NULL) {
        struct tutti_server_operation *operations[2];
        const struct tutti_server_part given[] = {{AT_LARGE, NULL, 0, m->given.large},
                                                  {AT_TINY, NULL, 0, m->given.tiny}};
        const struct tutti_server_part got[] = {{AT_TINY, NULL, 0, m->got.tiny},
                                                {AT_LARGE, NULL, 0, m->got.large}};
        fill(m->given.large, LARGE, rank, 0);
        fill(m->given.tiny, TINY, rank, 0);
        RANKS_EXPECT((rank == 1 ? tutti_server_set_start : tutti_server_push_start)(
                         server, given, 2, NULL, &operations[0]) == TUTTI_OK);
        memset(&m->given, 0xff, sizeof m->given);
        RANKS_EXPECT(tutti_server_tick_start(server, NULL, &operations[1]) == TUTTI_OK);
        for (int i = 0; i < 2; i++) RANKS_EXPECT(tutti_server_wait(&operations[i]) == TUTTI_OK);
        RANKS_EXPECT(tutti_server_pull(server, got, 2, NULL) == TUTTI_OK);
        for (size_t i = 0; i < LARGE; i++)
            RANKS_EXPECT(m->got.large[i] == value_of(1, 0, i) - value_of(2, 0, i));
        for (size_t i = 0; i < TINY; i++)
            RANKS_EXPECT(m->got.tiny[i] == value_of(1, 0, i) - value_of(2, 0, i));
        m->given.large[5] = INFINITY;
        RANKS_EXPECT(tutti_server_set_start(server, given, 1, NULL, operations) ==
                         TUTTI_INVALID_BUFFER &&
                     operations[0] == NULL);
        free(m);
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void a_started_set_has_its_own_copy(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, sets, NULL);
}

/* -------------------------------------------------------------------------------------- changes */

/* Each step takes 1 from all elements; so the values of a pull are of one step if they are alike. */
static int steps_meanwhile(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { PULLS = 4, ROUNDS = 15 };
    struct tutti_server *server;
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(begin(1, TUTTI_SERVER_ASYNCHRONOUS, comm, &server) == TUTTI_OK);
    if (rank > 0) {
        struct tensors *const all = calloc(PULLS + 1, sizeof *all);
        RANKS_EXPECT(all != NULL);
        for (size_t i = 0; i < LARGE; i++) all->large[i] = 1;
        const struct tutti_server_part push = {AT_LARGE, NULL, 0, all->large};
        for (int round = 0; round < ROUNDS; round++) {
            struct tutti_server_operation *pulls[PULLS];
            for (int p = 0; p < PULLS; p++) {
                const struct tutti_server_part pull = {AT_LARGE, NULL, 0, all[p + 1].large};
                RANKS_EXPECT(tutti_server_pull_start(server, &pull, 1, NULL, &pulls[p]) == TUTTI_OK);
            }
            RANKS_EXPECT(tutti_server_push(server, &push, 1, NULL) == TUTTI_OK);
            RANKS_EXPECT(tutti_server_tick(server, NULL) == TUTTI_OK);
            for (int p = 0; p < PULLS; p++) {
                const float *const values = all[p + 1].large;
                RANKS_EXPECT(tutti_server_wait(&pulls[p]) == TUTTI_OK);
                RANKS_EXPECT(values[0] <= (float)-round);
                for (size_t i = 1; i < LARGE; i++) RANKS_EXPECT(values[i] == values[0]);
            }
        }
        free(all);
    }
    RANKS_EXPECT(tutti_server_free(server) == TUTTI_OK);
    return 0;
}

static void a_pull_has_the_values_of_one_step_while_others_are_taken(void **state)
{
    (void)state;
    expect_good_both(4, steps_meanwhile, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_all_sizes_arrive_where_they_belong),
        cmocka_unit_test(a_started_set_has_its_own_copy),
        cmocka_unit_test(a_pull_has_the_values_of_one_step_while_others_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
