/* A server and one worker that says what it likes: what comes twice is applied once, and what
 * makes no sense ends the worker's line, with a reason, and no other worker's. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "server/serve.h"
#include "server/server_message.h"
#include "tests/kit/patient.h"
#include "tests/kit/sanitized.h"

enum { WIDTH = 5, ROWS = 9 };

static const struct division_table shapes[] = {{"dense", false, false, 0, WIDTH},
                                               {"rows", true, false, ROWS, 2}};
static const struct server_division division = {
    .server_count = 1, .worker_count = 2, .table_count = 2, .tables = shapes, .payload_max = 4096};
static const int ranks[] = {0, 1, 2};

static struct tables *make_tables(uint64_t bytes_max)
{
    struct tables *tables;
    struct table *table;
    struct table_spec spec = {.name = "dense",
                              .kind = TABLE_DENSE,
                              .count = WIDTH,
                              .share = WIDTH,
                              .optimizer = {.kind = TABLE_SGD, .rate = 1}};
    if (tables_create(bytes_max, &tables) != TUTTI_OK ||
        tables_add(tables, &spec, &table) != TUTTI_OK)
        abort();
    spec = (struct table_spec){.name = "rows",
                               .kind = TABLE_ROWS,
                               .count = ROWS,
                               .width = 2,
                               .optimizer = {.kind = TABLE_SGD, .rate = 1}};
    if (tables_add(tables, &spec, &table) != TUTTI_OK) abort();
    return tables;
}

/* Rank 0 serves, ranks 1 and 2 work; each gets its communicator with rank 0, and rank 0 both. */
static int connect(struct tutti_comm *comm, int rank, struct tutti_comm **made)
{
    for (int worker = 1; worker <= 2; worker++) {
        const int pair[] = {worker, 0};
        if (rank != 0 && rank != worker) continue;
        RANKS_EXPECT(tutti_comm_group(comm, pair, 2, NULL, rank == 0 ? &made[worker - 1] : made) ==
                     TUTTI_OK);
    }
    return 0;
}

static int serve_both(int rank, struct tutti_comm **comms)
{
    struct serve *serve;
    const struct serve_config config = {.division = &division,
                                        .tables = make_tables(0),
                                        .worker_ranks = ranks + 1,
                                        .server_ranks = ranks,
                                        .worker_comms = comms};
    RANKS_EXPECT(serve_create(&config, &serve) == TUTTI_OK);
    RANKS_EXPECT(serve_wait(serve, clock_now_ns() + 60000000000u, 0) == TUTTI_OK);
    struct tutti_server_counters counters;
    serve_count(serve, &counters);
    RANKS_EXPECT(counters.workers == 0);
    serve_free(serve);
    return 0;
}

struct wire {
    struct server_request request;
    struct server_request_part part;
};

static struct wire wire_of(enum server_kind kind, uint64_t sequence, uint64_t clock)
{
    struct wire wire = {.request = {.magic = SERVER_MAGIC,
                                    .version = SERVER_VERSION,
                                    .kind = (uint16_t)kind,
                                    .sequence = sequence,
                                    .clock = clock}};
    if (kind == SERVER_PUSH || kind == SERVER_PULL) {
        wire.request.part_count = 1;
        wire.part = (struct server_request_part){0, 0, WIDTH};
    }
    if (kind == SERVER_PUSH) wire.request.payload_bytes = (WIDTH * sizeof(float) + 7) / 8 * 8;
    return wire;
}

struct answer {
    struct server_reply reply;
    char payload[SERVER_INLINE_BYTES];
};

/* Says it, and takes the answer; the status is the answer's, or that of the communicator. */
static enum tutti_status ask(struct tutti_comm *comm, const struct wire *wire, const void *payload,
                             void *values)
{
    struct answer answer;
    const size_t bytes =
        sizeof wire->request + wire->request.part_count * sizeof(struct server_request_part);
    enum tutti_status status = tutti_send(wire, bytes, TUTTI_UINT8, 1, SERVER_TAG_REQUEST, comm);
    if (status == TUTTI_OK && wire->request.payload_bytes > 0)
        status = tutti_send(payload, wire->request.payload_bytes, TUTTI_UINT8, 1,
                            SERVER_TAG_PAYLOAD, comm);
    if (status == TUTTI_OK)
        status = tutti_recv(&answer, sizeof answer, TUTTI_UINT8, 1, SERVER_TAG_REPLY, NULL, comm);
    if (status == TUTTI_OK) status = (enum tutti_status)answer.reply.status;
    if (status == TUTTI_OK && answer.reply.payload_bytes > 0)
        memcpy(values, answer.payload, answer.reply.payload_bytes);
    return status;
}

static int repeats(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *made[2] = {NULL};
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    if (rank == 0) return serve_both(rank, made);
    const float ones[WIDTH + 1] = {1, 1, 1, 1, 1};
    float got[WIDTH];
    struct wire push = wire_of(SERVER_PUSH, 1, 0), tick = wire_of(SERVER_TICK, 2, 0),
                pull = wire_of(SERVER_PULL, 3, 1);
    for (int again = 0; again < 3; again++)
        RANKS_EXPECT(ask(made[0], &push, ones, NULL) == TUTTI_OK);
    for (int again = 0; again < 3; again++)
        RANKS_EXPECT(ask(made[0], &tick, NULL, NULL) == TUTTI_OK);
    for (int again = 0; again < 3; again++) {
        RANKS_EXPECT(ask(made[0], &pull, NULL, got) == TUTTI_OK);
        for (int i = 0; i < WIDTH; i++) RANKS_EXPECT(got[i] == -2);
    }
    RANKS_EXPECT(ask(made[0], &push, ones, NULL) == TUTTI_OK); /* of a clock that is over */
    push = wire_of(SERVER_PUSH, 4, 1), tick = wire_of(SERVER_TICK, 5, 1);
    pull = wire_of(SERVER_PULL, 6, 2);
    RANKS_EXPECT(ask(made[0], &push, ones, NULL) == TUTTI_OK);
    RANKS_EXPECT(ask(made[0], &tick, NULL, NULL) == TUTTI_OK);
    RANKS_EXPECT(ask(made[0], &pull, NULL, got) == TUTTI_OK);
    RANKS_EXPECT(got[0] == -4);
    const struct wire leave = wire_of(SERVER_LEAVE, 7, 0);
    RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(made[0]) == TUTTI_OK);
    return 0;
}

static void what_comes_twice_is_applied_once(void **state)
{
    (void)state;
    expect_good_both(3, repeats, NULL);
}

static int tell(struct tutti_comm *comm, const struct wire *wire)
{
    const int rank = 1;
    RANKS_EXPECT(tutti_send(wire,
                            sizeof wire->request +
                                wire->request.part_count * sizeof(struct server_request_part),
                            TUTTI_UINT8, 1, SERVER_TAG_REQUEST, comm) == TUTTI_OK);
    return 0;
}

/* Rank 1 asks for two pulls behind a tick, and then lets rank 2 end the clock for which they wait. */
static int urgent_pulls(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *made[2] = {NULL};
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    if (rank == 0) return serve_both(rank, made);
    struct wire tick = wire_of(SERVER_TICK, 1, 0), leave = wire_of(SERVER_LEAVE, 2, 0);
    char go = 1, answer[sizeof(struct answer)];
    if (rank == 2) {
        RANKS_EXPECT(tutti_recv(&go, 1, TUTTI_UINT8, 1, 0, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(ask(made[0], &tick, NULL, NULL) == TUTTI_OK);
    } else {
        struct wire usual = wire_of(SERVER_PULL, 2, 1), urgent = wire_of(SERVER_PULL, 3, 1),
                    record = wire_of(SERVER_RECORD, 4, 0);
        tick.request.slot = 3, usual.request.slot = 1, urgent.request.slot = 2;
        urgent.request.priority = 7, record.request.number = 99, leave.request.sequence = 5;
        RANKS_EXPECT(tell(made[0], &tick) == 0 && tell(made[0], &usual) == 0);
        RANKS_EXPECT(tell(made[0], &urgent) == 0);
        /* Answered at once: the server has all of them. */
        RANKS_EXPECT(ask(made[0], &record, NULL, NULL) == TUTTI_INVALID_COUNT);
        RANKS_EXPECT(tutti_send(&go, 1, TUTTI_UINT8, 2, 0, comm) == TUTTI_OK);
        static const int slots[] = {3, 2, 1}; /* a reply; two with their values */
        for (int i = 0; i < 3; i++) {
            struct tutti_message message = {.size_bytes = sizeof message};
            RANKS_EXPECT(tutti_recv(answer, sizeof answer, TUTTI_UINT8, 1, TUTTI_ANY_TAG, &message,
                                    made[0]) == TUTTI_OK);
            RANKS_EXPECT((message.tag - SERVER_TAG_REPLY) / 2 == slots[i]);
        }
    }
    RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(made[0]) == TUTTI_OK);
    return 0;
}

static void urgent_pulls_are_answered_first(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, urgent_pulls, NULL);
}

/* So many rows that two such pulls are more than the server lets wait. */
enum { MANY = 500 };

static int tell_late_pull(struct tutti_comm *comm, uint64_t sequence, uint32_t slot)
{
    static const int64_t rows[MANY];
    const int rank = 1;
    struct wire pull = wire_of(SERVER_PULL, sequence, 1);
    pull.request.slot = slot, pull.request.timeout_ns = 20000000;
    pull.request.payload_bytes = sizeof rows;
    pull.part = (struct server_request_part){1, 1, MANY};
    RANKS_EXPECT(tell(comm, &pull) == 0);
    RANKS_EXPECT(tutti_send(rows, sizeof rows, TUTTI_UINT8, 1, SERVER_TAG_PAYLOAD, comm) == TUTTI_OK);
    return 0;
}

static enum tutti_status hear(struct tutti_comm *comm, int slot)
{
    struct server_reply reply;
    const enum tutti_status status =
        tutti_recv(&reply, sizeof reply, TUTTI_UINT8, 1, SERVER_TAG_REPLY + 2 * slot, NULL, comm);
    return status == TUTTI_OK ? (enum tutti_status)reply.status : status;
}

/* The server does not listen to rank 1 while two pulls wait; nobody else says anything meanwhile. */
static int late_pulls(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *made[2] = {NULL};
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    if (rank == 0) return serve_both(rank, made);
    struct wire leave = wire_of(SERVER_LEAVE, 1, 0);
    char go = 1;
    if (rank == 2) {
        RANKS_EXPECT(tutti_recv(&go, 1, TUTTI_UINT8, 1, 0, NULL, comm) == TUTTI_OK);
    } else {
        struct wire tick = wire_of(SERVER_TICK, 1, 0), record = wire_of(SERVER_RECORD, 4, 0);
        tick.request.slot = 3, record.request.number = 99, leave.request.sequence = 5;
        RANKS_EXPECT(tell(made[0], &tick) == 0);
        RANKS_EXPECT(tell_late_pull(made[0], 2, 1) == 0 && tell_late_pull(made[0], 3, 2) == 0);
        RANKS_EXPECT(ask(made[0], &record, NULL, NULL) == TUTTI_INVALID_COUNT);
        RANKS_EXPECT(hear(made[0], 1) == TUTTI_TIMEOUT && hear(made[0], 2) == TUTTI_TIMEOUT);
        RANKS_EXPECT(tutti_send(&go, 1, TUTTI_UINT8, 2, 0, comm) == TUTTI_OK);
        RANKS_EXPECT(hear(made[0], 3) == TUTTI_OK); /* without rank 2 */
    }
    RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(made[0]) == TUTTI_OK);
    return 0;
}

static void a_worker_is_heard_again_after_its_pulls_were_late(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, late_pulls, NULL);
}

/* Rank 1 asks for 20 large tensors, and takes none before the server has stopped to answer. */
enum { LARGE = 1 << 20, ASKED = 20 };

static int take_large(struct tutti_comm *comm)
{
    const int rank = 1;
    float *const values = malloc(LARGE * sizeof *values);
    for (int i = 0; i < ASKED && values != NULL; i++) {
        RANKS_EXPECT(hear(comm, 0) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(values, LARGE * sizeof *values, TUTTI_UINT8, 1,
                                SERVER_TAG_REPLY + 1, NULL, comm) == TUTTI_OK);
    }
    free(values);
    return values == NULL;
}

static int asks_and_does_not_listen(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    static const struct division_table large[] = {{"large", false, false, 0, LARGE}};
    static const struct server_division tensor = {.server_count = 1,
                                                  .worker_count = 2,
                                                  .table_count = 1,
                                                  .tables = large,
                                                  .payload_max = 2 * LARGE * sizeof(float)};
    const struct table_spec spec = {
        .name = "large", .kind = TABLE_DENSE, .count = LARGE, .share = LARGE};
    struct tutti_comm *made[2] = {NULL};
    char go = 1;
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    if (rank == 0) {
        struct serve_config config = {.division = &tensor,
                                      .worker_ranks = ranks + 1,
                                      .server_ranks = ranks,
                                      .worker_comms = made};
        struct serve *serve;
        struct table *table;
        struct tutti_server_counters counters;
        RANKS_EXPECT(tables_create(0, &config.tables) == TUTTI_OK);
        RANKS_EXPECT(tables_add(config.tables, &spec, &table) == TUTTI_OK);
        RANKS_EXPECT(serve_create(&config, &serve) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(&go, 1, TUTTI_UINT8, 1, 0, NULL, comm) == TUTTI_OK);
        ranks_nap_ms(50);
        serve_count(serve, &counters);
        RANKS_EXPECT(counters.pulls < ASKED / 2);
        RANKS_EXPECT(tutti_send(&go, 1, TUTTI_UINT8, 1, 0, comm) == TUTTI_OK);
        RANKS_EXPECT(serve_wait(serve, clock_now_ns() + 60000000000u, 0) == TUTTI_OK);
        serve_free(serve);
        return 0;
    }
    struct wire leave = wire_of(SERVER_LEAVE, rank == 1 ? ASKED + 1 : 1, 0);
    for (uint64_t i = 1; i <= ASKED && rank == 1; i++) {
        struct wire pull = wire_of(SERVER_PULL, i, 0);
        pull.part.count = LARGE;
        RANKS_EXPECT(tell(made[0], &pull) == 0);
    }
    if (rank == 1) {
        RANKS_EXPECT(tutti_send(&go, 1, TUTTI_UINT8, 0, 0, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(&go, 1, TUTTI_UINT8, 0, 0, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(take_large(made[0]) == 0);
    }
    RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(made[0]) == TUTTI_OK);
    return 0;
}

static void answers_that_nobody_takes_do_not_fill_the_memory(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, asks_and_does_not_listen, NULL);
}

/* Rank 0 is server 1 of two, and has no memory for rows; rank 2 is server 0; rank 1 works. */
static int spoils_a_step(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const struct server_division halves = {.server_count = 2,
                                                  .worker_count = 1,
                                                  .table_count = 2,
                                                  .tables = shapes,
                                                  .payload_max = 4096};
    static const int servers[] = {2, 0};
    struct tutti_comm *made[3] = {NULL};
    struct serve *serve;
    (void)seed, (void)context, (void)size;
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    if (rank == 0) {
        const struct serve_config config = {.division = &halves,
                                            .tables = make_tables(1024),
                                            .seat = 1,
                                            .worker_ranks = ranks + 1,
                                            .server_ranks = servers,
                                            .worker_comms = made,
                                            .seat_comms = made + 1};
        RANKS_EXPECT(serve_create(&config, &serve) == TUTTI_OK);
        RANKS_EXPECT(serve_wait(serve, clock_now_ns() + 60000000000u, 0) == TUTTI_NO_MEMORY);
        serve_free(serve);
        return 0;
    }
    if (rank == 1) {
        const struct {
            int64_t row;
            float values[2];
        } payload = {1, {1, 1}};
        struct wire push = wire_of(SERVER_PUSH, 1, 0), tick = wire_of(SERVER_TICK, 2, 0),
                    pull = wire_of(SERVER_PULL, 3, 1), leave = wire_of(SERVER_LEAVE, 4, 0);
        float got[2];
        push.part = pull.part = (struct server_request_part){1, 1, 1};
        push.request.payload_bytes = sizeof payload, pull.request.payload_bytes = sizeof payload.row;
        RANKS_EXPECT(ask(made[0], &push, &payload, NULL) == TUTTI_OK);
        RANKS_EXPECT(tell(made[0], &tick) == 0);
        RANKS_EXPECT(ask(made[0], &pull, &payload.row, got) == TUTTI_NO_MEMORY);
        RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    } else {
        struct server_request request;
        const uint64_t members = 1;
        RANKS_EXPECT(tutti_recv(&request, sizeof request, TUTTI_UINT8, 1, SERVER_TAG_TO_LOWER, NULL,
                                made[0]) == TUTTI_OK);
        RANKS_EXPECT(request.kind == SERVER_HAS && request.number == 0 && request.clock == 0);
        request.kind = SERVER_DECIDED, request.number = request.sequence = 1;
        request.left_count = 1, request.payload_bytes = sizeof members;
        RANKS_EXPECT(tutti_send(&request, sizeof request, TUTTI_UINT8, 1, SERVER_TAG_TO_HIGHER,
                                made[0]) == TUTTI_OK);
        RANKS_EXPECT(tutti_send(&members, sizeof members, TUTTI_UINT8, 1, SERVER_TAG_TO_HIGHER + 1,
                                made[0]) == TUTTI_OK);
        RANKS_EXPECT(tutti_recv(&request, sizeof request, TUTTI_UINT8, 1, SERVER_TAG_TO_LOWER, NULL,
                                made[0]) == TUTTI_ABORTED);
        RANKS_EXPECT(strstr(tutti_error_message(), "could not apply a step") != NULL);
    }
    (void)tutti_comm_free(made[0]);
    return 0;
}

static void a_server_that_spoils_a_step_says_so_to_server_0(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, spoils_a_step, NULL);
}

/* Rank 1 leaves, and is stopped before the server's answer comes. Rank 2 works meanwhile, and lets it go on. */
static int leaves_and_is_stopped(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    pid_t *const stopped = context;
    struct tutti_comm *made[2] = {NULL};
    (void)seed, (void)size;
    if (rank == 1) *stopped = getpid();
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) return serve_both(rank, made);
    const struct wire leave = wire_of(SERVER_LEAVE, rank == 1 ? 2 : 4, 0);
    if (rank == 1) {
        const float ones[WIDTH + 1] = {1, 1, 1, 1, 1};
        const struct wire push = wire_of(SERVER_PUSH, 1, 0);
        struct server_reply reply;
        RANKS_EXPECT(ask(made[0], &push, ones, NULL) == TUTTI_OK); /* there is a connection */
        RANKS_EXPECT(tutti_send(&leave, sizeof leave.request, TUTTI_UINT8, 1, SERVER_TAG_REQUEST,
                                made[0]) == TUTTI_OK);
        raise(SIGSTOP);
        RANKS_EXPECT(tutti_recv(&reply, sizeof reply, TUTTI_UINT8, 1, SERVER_TAG_REPLY, NULL,
                                made[0]) == TUTTI_OK);
    } else {
        enum tutti_status status = TUTTI_OK;
        for (uint64_t clock = 0; clock < 3 && status == TUTTI_OK; clock++) {
            const struct wire tick = wire_of(SERVER_TICK, clock + 1, clock);
            status = ask(made[0], &tick, NULL, NULL);
        }
        (void)kill(*stopped, SIGCONT);
        RANKS_EXPECT(status == TUTTI_OK);
        RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_free(made[0]) == TUTTI_OK);
    return 0;
}

static void a_worker_that_is_stopped_while_it_leaves_holds_up_nobody(void **state)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .comm_options = &patient};
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* children of fork() can start no threads */
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    assert_int_equal(ranks_run(3, &options, leaves_and_is_stopped, ranks_share(sizeof(pid_t))), 0);
    unsetenv("TUTTI_TRANSPORT");
}

/* One change of a good push, and a word of the reason. */
struct nonsense {
    const char *reason;
    void (*change)(struct wire *wire, float *values);
};

#define CHANGE(name, code)                             \
    static void name(struct wire *wire, float *values) \
    {                                                  \
        (void)wire, (void)values;                      \
        code;                                          \
    }
CHANGE(other_magic, wire->request.magic++)
CHANGE(other_version, wire->request.version++)
CHANGE(other_kind, wire->request.kind = SERVER_KIND_END)
CHANGE(a_servers_kind, wire->request.kind = SERVER_DECIDED)
CHANGE(later_sequence, wire->request.sequence = 2)
CHANGE(no_sequence, wire->request.sequence = 0)
CHANGE(a_slot_too_high, wire->request.slot = SERVER_SLOTS)
CHANGE(unknown_encoding, wire->request.encoding = 200)
CHANGE(other_clock, wire->request.clock = 5)
CHANGE(other_table, wire->part.table = 2)
CHANGE(no_rows_there, wire->part.is_rows = 1)
CHANGE(other_count, wire->part.count--)
CHANGE(other_size, wire->request.payload_bytes += 8)
CHANGE(nan_in_it, values[3] = NAN)
CHANGE(infinite_count, wire->part = ((struct server_request_part){1, 1, UINT64_MAX / 8}))
CHANGE(a_row_out_of_range, wire->part = ((struct server_request_part){1, 1, 1});
       wire->request.payload_bytes = 16; memcpy(values, &(int64_t){ROWS}, sizeof(int64_t)))

static const struct nonsense all_nonsense[] = {
    {"no request", other_magic},     {"version 4", other_version},
    {"kind is 30", other_kind},      {"kind is 15", a_servers_kind},
    {"number is 2", later_sequence}, {"number is 0", no_sequence},
    {"slot 64", a_slot_too_high},    {"encoding is 200", unknown_encoding},
    {"clock 5", other_clock},        {"no table 2", other_table},
    {"dense tensor", no_rows_there}, {"4 elements", other_count},
    {"not 24", other_size},          {"is nan", nan_in_it},
    {"too large", infinite_count},   {"row 9", a_row_out_of_range},
};
enum { NONSENSE = sizeof all_nonsense / sizeof *all_nonsense };

/* Rank 1 says it; rank 2 goes on. */
static int makes_no_sense(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct nonsense *const nonsense = context;
    struct tutti_comm *made[2] = {NULL};
    (void)seed, (void)size;
    RANKS_EXPECT(connect(comm, rank, made) == 0);
    if (rank == 0) return serve_both(rank, made);
    float values[WIDTH + 3] = {1, 1, 1, 1, 1};
    struct wire push = wire_of(SERVER_PUSH, 1, 0);
    if (rank == 1) {
        nonsense->change(&push, values);
        RANKS_EXPECT(ask(made[0], &push, values, NULL) == TUTTI_ABORTED);
        RANKS_EXPECT(strstr(tutti_error_message(), nonsense->reason) != NULL);
    } else {
        const struct wire tick = wire_of(SERVER_TICK, 2, 0), pull = wire_of(SERVER_PULL, 3, 1),
                          leave = wire_of(SERVER_LEAVE, 4, 0);
        RANKS_EXPECT(ask(made[0], &push, values, NULL) == TUTTI_OK);
        RANKS_EXPECT(ask(made[0], &tick, NULL, NULL) == TUTTI_OK);
        RANKS_EXPECT(ask(made[0], &pull, NULL, values) == TUTTI_OK);
        RANKS_EXPECT(values[0] == -1);
        RANKS_EXPECT(ask(made[0], &leave, NULL, NULL) == TUTTI_OK);
    }
    (void)tutti_comm_free(made[0]);
    return 0;
}

static void what_makes_no_sense_ends_one_line_with_a_reason(void **state)
{
    (void)state;
    for (int i = 0; i < NONSENSE; i++)
        expect_good(3, RANKS_THREADS, makes_no_sense, (void *)&all_nonsense[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_twice_is_applied_once),
        cmocka_unit_test(urgent_pulls_are_answered_first),
        cmocka_unit_test(a_worker_is_heard_again_after_its_pulls_were_late),
        cmocka_unit_test(a_server_that_spoils_a_step_says_so_to_server_0),
        cmocka_unit_test(answers_that_nobody_takes_do_not_fill_the_memory),
        cmocka_unit_test(a_worker_that_is_stopped_while_it_leaves_holds_up_nobody),
        cmocka_unit_test(what_makes_no_sense_ends_one_line_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
