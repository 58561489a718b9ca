/* Messages between ranks: every form, size and memory, in order, in both directions, beside
 * collectives, and from several threads. What happens when they fail: messages_failure_test.c.
 *
 * ctest: timeout=180
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/kit/patient.h"
#include "tests/worlds/ranks.h"

/* Bytes that tell whose message it is, which one, and where in it. */
static uint8_t byte_of(int source, int number, size_t i)
{
    return (uint8_t)((size_t)(source * 31 + number * 7 + 3) + i * 13 + (i >> 9));
}

static void fill(uint8_t *data, size_t bytes, int source, int number)
{
    for (size_t i = 0; i < bytes; i++) data[i] = byte_of(source, number, i);
}

static bool is_filled(const uint8_t *data, size_t bytes, int source, int number)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(source, number, i)) return false;
    return true;
}

/* ---------------------------------------------------------------------------------------- forms */

enum form { FORM_PLAIN, FORM_WITH, FORM_START, FORM_PREPARED, FORM_GROUPED, FORM_COUNT };

struct transfer {
    bool is_send;
    void *buffer;
    size_t count;
    enum tutti_dtype dtype;
    int peer, tag;
    struct tutti_message *message;
};

static enum tutti_status plain(const struct transfer *t, struct tutti_comm *comm)
{
    return t->is_send ? tutti_send(t->buffer, t->count, t->dtype, t->peer, t->tag, comm)
                      : tutti_recv(t->buffer, t->count, t->dtype, t->peer, t->tag, t->message, comm);
}

static enum tutti_status prepared(const struct transfer *t, struct tutti_comm *comm)
{
    struct tutti_prepared *made;
    enum tutti_status status =
        t->is_send
            ? tutti_send_prepare(t->buffer, t->count, t->dtype, t->peer, t->tag, NULL, comm, &made)
            : tutti_recv_prepare(t->buffer, t->count, t->dtype, t->peer, t->tag, t->message, NULL,
                                 comm, &made);
    for (int run = 0; run < 3 && status == TUTTI_OK; run++) {
        struct tutti_request *request;
        status = tutti_start(made, &request);
        if (status == TUTTI_OK) status = tutti_wait(&request);
    }
    const enum tutti_status freed = tutti_prepared_free(made);
    return status != TUTTI_OK ? status : freed;
}

/* Once in that form; three times where it is prepared. */
static enum tutti_status transfer(enum form form, const struct transfer *t, struct tutti_comm *comm)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.timeout_ns = 15000000000u;
    struct tutti_request *request = NULL;
    enum tutti_status status;
    switch (form) {
    case FORM_PLAIN: return plain(t, comm);
    case FORM_WITH:
        return t->is_send
                   ? tutti_send_with(t->buffer, t->count, t->dtype, t->peer, t->tag, &options, comm)
                   : tutti_recv_with(t->buffer, t->count, t->dtype, t->peer, t->tag, t->message,
                                     &options, comm);
    case FORM_START:
        status = t->is_send ? tutti_send_start(t->buffer, t->count, t->dtype, t->peer, t->tag,
                                               &options, comm, &request)
                            : tutti_recv_start(t->buffer, t->count, t->dtype, t->peer, t->tag,
                                               t->message, NULL, comm, &request);
        return status == TUTTI_OK ? tutti_wait(&request) : status;
    case FORM_PREPARED: return prepared(t, comm);
    default:
        status = tutti_group_begin();
        if (status == TUTTI_OK) status = plain(t, comm);
        const enum tutti_status ended = tutti_group_end();
        return status == TUTTI_OK ? ended : status;
    }
}

/* Rank 0 sends in every form what rank 1 receives in every form. */
static int all_forms(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    static const size_t counts[] = {0, 1, 300, 9000};
    uint8_t data[9000];
    for (int variant = 0; variant < FORM_COUNT * FORM_COUNT; variant++) {
        const enum form sending = (enum form)(variant / FORM_COUNT),
                        receiving = (enum form)(variant % FORM_COUNT);
        const bool sends_thrice = sending == FORM_PREPARED,
                   takes_thrice = receiving == FORM_PREPARED;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const size_t count = counts[c];
            struct tutti_message message = {.size_bytes = sizeof message, .source = -7};
            struct transfer t = {rank == 0, data, count, TUTTI_UINT8, 1 - rank, variant, &message};
            const bool again =
                rank == 0 ? takes_thrice && !sends_thrice : sends_thrice && !takes_thrice;
            memset(data, 0, sizeof data);
            if (rank == 0) fill(data, count, 0, variant);
            for (int i = 0; i < (again ? 3 : 1); i++)
                RANKS_EXPECT(transfer(rank == 0 ? sending : receiving, &t, comm) == TUTTI_OK);
            if (rank == 0) continue;
            RANKS_EXPECT(message.source == 0 && message.tag == variant && message.count == count);
            RANKS_EXPECT(is_filled(data, count, 0, variant) && size == 2);
        }
    }
    return 0;
}

static void every_form_of_send_meets_every_form_of_recv(void **state)
{
    (void)state;
    expect_good_both(2, all_forms, NULL);
}

/* A rank has nothing but a started message, and computes until the other one has it: in memory of
 * both, which Tutti knows nothing of. */
static int no_further_calls(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)size;
    enum { BYTES = 300000, PATIENCE_S = 30 };
    const struct timespec moment = {0, 1000000};
    atomic_bool *const has_come = context;
    uint8_t *const data = malloc(BYTES);
    struct tutti_request *request;
    RANKS_EXPECT(data != NULL);
    if (rank == 0) {
        fill(data, BYTES, 0, 1);
        RANKS_EXPECT(tutti_send_start(data, BYTES, TUTTI_UINT8, 1, 1, NULL, comm, &request) ==
                     TUTTI_OK);
        /* Only the progress thread can answer rank 1 meanwhile. */
        const time_t begin = time(NULL);
        while (!atomic_load(has_come) && time(NULL) - begin < PATIENCE_S) nanosleep(&moment, NULL);
        RANKS_EXPECT(atomic_load(has_come));
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    } else {
        RANKS_EXPECT(tutti_recv(data, BYTES, TUTTI_UINT8, 0, 1, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(is_filled(data, BYTES, 0, 1));
        atomic_store(has_come, true);
    }
    free(data);
    return 0;
}

static void started_messages_move_without_further_calls(void **state)
{
    (void)state;
    atomic_bool *const has_come =
        mmap(NULL, sizeof *has_come, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(has_come, MAP_FAILED);
    expect_good(2, RANKS_DEFAULT, no_further_calls, has_come);
    atomic_store(has_come, false);
    if (!ranks_repeat(RANKS_THREADS)) expect_good(2, RANKS_THREADS, no_further_calls, has_come);
    munmap(has_come, sizeof *has_come);
}

/* ---------------------------------------------------------------------------------------- sizes */

static const size_t sizes_bytes[] = {
    0,     1,     23,    24,    25,    39,    40,     41,     4096,    8191,          8192,
    16383, 16384, 16385, 65535, 65536, 65537, 131071, 131072, 1 << 20, (1 << 20) + 1, 3000001};
enum { SIZE_COUNT = sizeof sizes_bytes / sizeof *sizes_bytes, BYTES_MAX = 3000001 + 64 };

/* There and back, between all kinds of memory, at any alignment. */
static int all_sizes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    void *shared;
    uint8_t *const own = malloc(BYTES_MAX);
    RANKS_EXPECT(own != NULL && tutti_mem_alloc(BYTES_MAX, &shared) == TUTTI_OK);
    for (int s = 0; s < SIZE_COUNT; s++) {
        const size_t bytes = sizes_bytes[s];
        for (int kinds = 0; kinds < 4; kinds++) {
            uint8_t *data = (kinds >> rank & 1) != 0 ? own : shared;
            data += s % 3;
            data[bytes] = 77;
            if (rank == 0) {
                fill(data, bytes, 0, s);
                RANKS_EXPECT(tutti_send(data, bytes, TUTTI_UINT8, 1, s, comm) == TUTTI_OK);
                memset(data, 0, bytes); /* it belongs to the caller again */
                RANKS_EXPECT(tutti_recv(data, bytes, TUTTI_UINT8, 1, s, NULL, comm) == TUTTI_OK);
                RANKS_EXPECT(is_filled(data, bytes, 1, s));
            } else {
                memset(data, 0, bytes);
                RANKS_EXPECT(tutti_recv(data, bytes, TUTTI_UINT8, 0, s, NULL, comm) == TUTTI_OK);
                RANKS_EXPECT(is_filled(data, bytes, 0, s));
                fill(data, bytes, 1, s);
                RANKS_EXPECT(tutti_send(data, bytes, TUTTI_UINT8, 0, s, comm) == TUTTI_OK);
            }
            RANKS_EXPECT(data[bytes] == 77);
        }
    }
    free(own);
    RANKS_EXPECT(tutti_mem_free(shared) == TUTTI_OK);
    return 0;
}

static void every_size_arrives_from_and_in_all_kinds_of_memory(void **state)
{
    (void)state;
    expect_good_both(2, all_sizes, NULL);
    setenv("TUTTI_CMA", "0", 1);
    if (!ranks_are_threads()) expect_good(2, RANKS_PROCESSES, all_sizes, NULL);
    unsetenv("TUTTI_CMA");
}

/* A shorter message leaves the rest of the buffer alone, and says how long it was. */
static int shorter(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    static const size_t counts[] = {0, 3, 2000, 50000};
    double *const data = malloc(sizeof *data * 60000);
    RANKS_EXPECT(data != NULL);
    for (int c = 0; c < 4; c++) {
        struct tutti_message message = {.size_bytes = sizeof message};
        for (int i = 0; i < 60000; i++) data[i] = rank == 0 ? i : -1;
        if (rank == 0) {
            RANKS_EXPECT(tutti_send(data, counts[c], TUTTI_FLOAT64, 1, 0, comm) == TUTTI_OK);
            continue;
        }
        RANKS_EXPECT(tutti_recv(data, 60000, TUTTI_FLOAT64, TUTTI_ANY_RANK, TUTTI_ANY_TAG, &message,
                                comm) == TUTTI_OK);
        RANKS_EXPECT(message.source == 0 && message.tag == 0 && message.count == counts[c]);
        for (size_t i = 0; i < 60000; i++)
            RANKS_EXPECT(data[i] == (i < counts[c] ? (double)i : -1));
    }
    free(data);
    return 0;
}

static void a_shorter_message_fills_the_beginning(void **state)
{
    (void)state;
    expect_good_both(2, shorter, NULL);
}

/* ---------------------------------------------------------------------------------------- order */

enum { MESSAGES = 150, TAGS = 3 };

/* Size, tag and content of a sender's message, the same on all ranks. */
static size_t bytes_of(uint64_t seed, int source, int number)
{
    uint64_t random = seed + (uint64_t)(source * 1000 + number);
    chance_next(&random);
    static const size_t limits[] = {30, 500, 20000, 70000};
    return 8 + chance_next(&random) % limits[chance_next(&random) % 4];
}

static int tag_of(uint64_t seed, int source, int number)
{
    uint64_t random = seed * 3 + (uint64_t)(source * 1000 + number);
    chance_next(&random);
    return (int)(chance_next(&random) % TAGS);
}

struct outbox {
    uint8_t *data[MESSAGES];
    struct tutti_request *requests[MESSAGES];
};

static int send_all(struct outbox *outbox, struct tutti_comm *comm, int rank, uint64_t seed)
{
    for (int i = 0; i < MESSAGES; i++) {
        const size_t bytes = bytes_of(seed, rank, i);
        outbox->data[i] = malloc(bytes);
        RANKS_EXPECT(outbox->data[i] != NULL);
        fill(outbox->data[i], bytes, rank, i);
        outbox->data[i][0] = (uint8_t)i;
        RANKS_EXPECT(tutti_send_start(outbox->data[i], bytes, TUTTI_UINT8, 0, tag_of(seed, rank, i),
                                      NULL, comm, &outbox->requests[i]) == TUTTI_OK);
    }
    for (int i = 0; i < MESSAGES; i++) {
        RANKS_EXPECT(tutti_wait(&outbox->requests[i]) == TUTTI_OK);
        free(outbox->data[i]);
    }
    return 0;
}

/* Rank 0 receives from everybody, of a chosen or any source and tag in turn: of each sender and tag
 * the messages come in the order of sending; and the first one that fits any tag is the sender's
 * first. */
static int receive_all(struct tutti_comm *comm, int rank, int size, uint64_t seed)
{
    bool came[4][MESSAGES] = {{false}};
    uint8_t *const data = malloc(80000);
    uint64_t random = seed + 99;
    RANKS_EXPECT(data != NULL);
    for (int left = (size - 1) * MESSAGES; left > 0; left--) {
        int source = 1 + (int)(chance_next(&random) % (uint64_t)(size - 1)), first = 0;
        while (first < MESSAGES && came[source][first]) first++;
        const unsigned variant = (unsigned)chance_next(&random) % 4;
        if (first == MESSAGES) source = TUTTI_ANY_RANK;
        const int tag =
            variant == 0 && source != TUTTI_ANY_RANK ? tag_of(seed, source, first) : TUTTI_ANY_TAG;
        struct tutti_message message = {.size_bytes = sizeof message};
        RANKS_EXPECT(tutti_recv(data, 80000, TUTTI_UINT8, variant == 1 ? TUTTI_ANY_RANK : source,
                                tag, &message, comm) == TUTTI_OK);
        const int from = message.source, number = data[0];
        RANKS_EXPECT(from > 0 && from < size && number < MESSAGES && !came[from][number]);
        RANKS_EXPECT(tag == TUTTI_ANY_TAG || message.tag == tag);
        RANKS_EXPECT(message.tag == tag_of(seed, from, number));
        for (int i = 0; i < number; i++)
            RANKS_EXPECT(came[from][i] || (tag != TUTTI_ANY_TAG && tag_of(seed, from, i) != tag));
        RANKS_EXPECT(message.count == bytes_of(seed, from, number));
        data[0] = byte_of(from, number, 0);
        RANKS_EXPECT(is_filled(data, message.count, from, number));
        came[from][number] = true;
    }
    free(data);
    return 0;
}

static int in_order(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)context;
    if (rank == 0) return receive_all(comm, rank, size, seed);
    struct outbox *outbox = calloc(1, sizeof *outbox);
    RANKS_EXPECT(outbox != NULL);
    const int result = send_all(outbox, comm, rank, seed);
    free(outbox);
    return result;
}

static void messages_are_received_in_the_order_of_sending(void **state)
{
    (void)state;
    expect_good_both(3, in_order, NULL);
}

/* Receives that fit the same message take it in the order of calling; those with another tag let it
 * pass. */
static int posted(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size, (void)context;
    enum { COUNT = 10000 };
    int32_t *const data = malloc(sizeof *data * COUNT);
    struct tutti_request **const requests = calloc(COUNT, sizeof(struct tutti_request *));
    RANKS_EXPECT(data != NULL && requests != NULL);
    if (rank == 0) {
        for (int i = 0; i < COUNT; i++) {
            data[i] = -1;
            RANKS_EXPECT(tutti_recv_start(&data[i], 1, TUTTI_INT32, i % 3 == 1 ? TUTTI_ANY_RANK : 1,
                                          i % 2, NULL, NULL, comm, &requests[i]) == TUTTI_OK);
        }
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        for (int i = COUNT - 1; i >= 0; i--)
            RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK && data[i] == i);
    } else {
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        for (int tag = 1; tag >= 0; tag--)
            for (int32_t i = tag; i < COUNT; i += 2)
                RANKS_EXPECT(tutti_send(&i, 1, TUTTI_INT32, 0, tag, comm) == TUTTI_OK);
    }
    free(data);
    free(requests);
    return 0;
}

static void ten_thousand_receives_are_matched_in_the_order_of_calling(void **state)
{
    (void)state;
    expect_good_both(2, posted, NULL);
}

/* ------------------------------------------------------------------------------ both directions */

struct exchange {
    size_t bytes;
    int pattern; /* 0: around a ring, 1: in pairs, 2: all with all and with themselves */
    bool heap;
};

static bool meets(const struct exchange *e, int rank, int peer, int size)
{
    switch (e->pattern) {
    case 0: return peer == (rank + 1) % size;
    case 1: return peer == (rank ^ 1) && peer < size;
    default: return true;
    }
}

static int exchange(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct exchange *e = context;
    enum { RANKS = 8 };
    uint8_t *sent[RANKS] = {0}, *received[RANKS] = {0};
    void *shared = NULL;
    if (e->heap) RANKS_EXPECT(tutti_mem_alloc(2 * RANKS * e->bytes, &shared) == TUTTI_OK);
    for (int peer = 0; peer < size; peer++) {
        sent[peer] = e->heap ? (uint8_t *)shared + (size_t)peer * e->bytes : malloc(e->bytes);
        received[peer] =
            e->heap ? (uint8_t *)shared + (size_t)(RANKS + peer) * e->bytes : malloc(e->bytes);
        RANKS_EXPECT(sent[peer] != NULL && received[peer] != NULL);
    }
    for (int round = 0; round < 2; round++) {
        for (int peer = 0; peer < size; peer++) fill(sent[peer], e->bytes, rank, peer + round);
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        for (int peer = 0; peer < size; peer++)
            if (meets(e, rank, peer, size))
                RANKS_EXPECT(tutti_send(sent[peer], e->bytes, TUTTI_UINT8, peer, 5, comm) ==
                             TUTTI_OK);
        for (int peer = 0; peer < size; peer++)
            if (meets(e, peer, rank, size))
                RANKS_EXPECT(tutti_recv(received[peer], e->bytes, TUTTI_UINT8, peer, 5, NULL,
                                        comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        for (int peer = 0; peer < size; peer++)
            if (meets(e, peer, rank, size))
                RANKS_EXPECT(is_filled(received[peer], e->bytes, peer, rank + round));
    }
    for (int peer = 0; peer < size && !e->heap; peer++) {
        free(sent[peer]);
        free(received[peer]);
    }
    RANKS_EXPECT(tutti_mem_free(shared) == TUTTI_OK);
    return 0;
}

static void large_messages_cross_in_a_group(void **state)
{
    (void)state;
    static const size_t bytes[] = {4000001, 2000000, 400000}; /* of the patterns */
    for (int pattern = 0; pattern < 3; pattern++)
        for (int heap = 0; heap < 2; heap++)
            expect_good_both(4, exchange, &(struct exchange){bytes[pattern], pattern, heap != 0});
    setenv("TUTTI_CMA", "0", 1);
    if (!ranks_are_threads())
        expect_good(4, RANKS_PROCESSES, exchange, &(struct exchange){400000, 2, false});
    unsetenv("TUTTI_CMA");
}

/* ----------------------------------------------------------------------------------- to oneself */

struct chat {
    struct tutti_comm *comm;
    enum tutti_status status;
};

static void *send_later(void *argument)
{
    struct chat *chat = argument;
    static const int32_t word = 4711;
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    chat->status = tutti_send(&word, 1, TUTTI_INT32, tutti_comm_rank(chat->comm), 9, chat->comm);
    return NULL;
}

static int talk_to_oneself(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    static const size_t sizes[] = {0, 1, 100, 16384, 16385, 2000000};
    uint8_t *const out = malloc(2000000), *const in = malloc(2000000);
    RANKS_EXPECT(out != NULL && in != NULL);
    for (int s = 0; s < 6; s++) {
        const size_t bytes = sizes[s];
        struct tutti_request *request;
        struct tutti_message message = {.size_bytes = sizeof message};
        fill(out, bytes, rank, s);
        for (int first = 0; first < 2; first++) { /* the receive first, or the send */
            memset(in, 0, bytes);
            if (first == 0) {
                RANKS_EXPECT(tutti_recv_start(in, bytes, TUTTI_UINT8, rank, s, &message, NULL, comm,
                                              &request) == TUTTI_OK);
                RANKS_EXPECT(tutti_test(&request) == TUTTI_IN_PROGRESS);
                RANKS_EXPECT(tutti_send(out, bytes, TUTTI_UINT8, rank, s, comm) == TUTTI_OK);
            } else {
                RANKS_EXPECT(tutti_send_start(out, bytes, TUTTI_UINT8, rank, s, NULL, comm,
                                              &request) == TUTTI_OK);
                RANKS_EXPECT(tutti_recv(in, bytes, TUTTI_UINT8, TUTTI_ANY_RANK, TUTTI_ANY_TAG,
                                        &message, comm) == TUTTI_OK);
            }
            RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
            RANKS_EXPECT(message.source == rank && message.tag == s && message.count == bytes);
            RANKS_EXPECT(is_filled(in, bytes, rank, s));
        }
    }
    for (int i = 0; i < 50; i++) /* small ones need nobody to receive them yet */
        RANKS_EXPECT(tutti_send(&i, 1, TUTTI_INT32, rank, i, comm) == TUTTI_OK);
    for (int i = 49, got = -1; i >= 0; i--)
        RANKS_EXPECT(tutti_recv(&got, 1, TUTTI_INT32, rank, i, NULL, comm) == TUTTI_OK && got == i);
    free(in);
    free(out);
    /* A blocked receive, until another thread sends. */
    struct chat chat = {comm, TUTTI_INTERNAL};
    pthread_t thread;
    int32_t word = 0;
    RANKS_EXPECT(pthread_create(&thread, NULL, send_later, &chat) == 0);
    RANKS_EXPECT(tutti_recv(&word, 1, TUTTI_INT32, rank, 9, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(pthread_join(thread, NULL) == 0 && chat.status == TUTTI_OK && word == 4711);
    return 0;
}

static void a_rank_may_send_to_itself(void **state)
{
    (void)state;
    expect_good_both(2, talk_to_oneself, NULL);
}

static void a_rank_alone_may_send_to_itself(void **state)
{
    (void)state;
    expect_good_both(1, talk_to_oneself, NULL);
}

/* --------------------------------------------------------------------------- beside collectives */

/* Nobody receives yet: the other rank waits in a barrier, or has started one. */
static int send_into_a_collective(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)seed;
    enum { COUNT = 3000 };
    const bool starts = context != NULL;
    if (rank > 0)
        for (int32_t i = 0; i < COUNT; i++)
            RANKS_EXPECT(tutti_send(&i, 1, TUTTI_INT32, 0, i % 5, comm) == TUTTI_OK);
    if (starts) {
        struct tutti_request *request;
        RANKS_EXPECT(tutti_barrier_start(NULL, comm, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    } else {
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    }
    for (int source = 1; rank == 0 && source < size; source++) {
        for (int32_t i = 0, got = -1; i < COUNT; i++) {
            RANKS_EXPECT(tutti_recv(&got, 1, TUTTI_INT32, source, TUTTI_ANY_TAG, NULL, comm) ==
                         TUTTI_OK);
            RANKS_EXPECT(got == i);
        }
    }
    return 0;
}

static void small_messages_leave_while_their_receiver_waits_in_a_collective(void **state)
{
    (void)state;
    static int starts = 1;
    expect_good_both(3, send_into_a_collective, NULL);
    expect_good_both(3, send_into_a_collective, &starts);
}

/* Messages, started and blocking collectives, all under way at once, of any urgency. */
static int everything_at_once(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)context;
    enum { JOBS = 12, COUNT = 20000 };
    int32_t *const reduced = malloc(sizeof *reduced * JOBS * COUNT);
    uint8_t *const out = malloc(JOBS * COUNT), *const in = malloc(JOBS * COUNT);
    RANKS_EXPECT(reduced != NULL && out != NULL && in != NULL);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; round < 4; round++) {
        struct tutti_request *reduces[JOBS], *sends[JOBS], *receives[JOBS];
        for (int j = 0; j < JOBS; j++) {
            struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
            options.priority = j % 3 * 10 - 10;
            const size_t bytes = j % 2 == 0 ? COUNT : 40;
            for (int i = 0; i < COUNT; i++) reduced[j * COUNT + i] = rank + i + j;
            fill(out + j * COUNT, bytes, rank, j);
            RANKS_EXPECT(tutti_recv_start(in + j * COUNT, bytes, TUTTI_UINT8, before, j, NULL,
                                          &options, comm, &receives[j]) == TUTTI_OK);
            RANKS_EXPECT(tutti_allreduce_start(reduced + j * COUNT, reduced + j * COUNT, COUNT,
                                               TUTTI_INT32, TUTTI_SUM, &options, comm,
                                               &reduces[j]) == TUTTI_OK);
            RANKS_EXPECT(tutti_send_start(out + j * COUNT, bytes, TUTTI_UINT8, next, j, &options,
                                          comm, &sends[j]) == TUTTI_OK);
            if ((seed >> j & 1) != 0) {
                struct tutti_call_options urgent = TUTTI_CALL_OPTIONS_INIT;
                urgent.priority = 100;
                int32_t one = 1;
                RANKS_EXPECT(tutti_allreduce_with(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, &urgent,
                                                  comm) == TUTTI_OK);
                RANKS_EXPECT(one == size);
            }
        }
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        for (int j = JOBS - 1; j >= 0; j--) {
            const size_t bytes = j % 2 == 0 ? COUNT : 40;
            RANKS_EXPECT(tutti_wait(&receives[j]) == TUTTI_OK);
            RANKS_EXPECT(is_filled(in + j * COUNT, bytes, before, j));
            RANKS_EXPECT(tutti_wait(&reduces[j]) == TUTTI_OK && tutti_wait(&sends[j]) == TUTTI_OK);
            for (int i = 0; i < COUNT; i++)
                RANKS_EXPECT(reduced[j * COUNT + i] == size * (i + j) + size * (size - 1) / 2);
        }
    }
    free(reduced);
    free(out);
    free(in);
    return 0;
}

static void messages_and_collectives_do_not_disturb_each_other(void **state)
{
    (void)state;
    expect_good_both(3, everything_at_once, NULL);
}

/* One after the other on the same ranks, without anything between that would order them. */
static int two_communicators(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context;
    struct tutti_comm *other;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    enum { BYTES = 50000 };
    uint8_t *const out[2] = {malloc(BYTES), malloc(BYTES)}, *const in[2] = {malloc(BYTES),
                                                                            malloc(BYTES)};
    RANKS_EXPECT(out[0] != NULL && out[1] != NULL && in[0] != NULL && in[1] != NULL);
    struct tutti_comm *const comms[2] = {comm, other};
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; round < 20; round++) {
        struct tutti_request *receives[2];
        const size_t bytes = round % 2 == 0 ? BYTES : 100;
        for (int c = 0; c < 2; c++) /* the same peer, tag and size: only the communicator differs */
            RANKS_EXPECT(tutti_recv_start(in[c], bytes, TUTTI_UINT8, before, 1, NULL, NULL,
                                          comms[c], &receives[c]) == TUTTI_OK);
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        for (int c = 1; c >= 0; c--) {
            fill(out[c], bytes, rank, round + c);
            RANKS_EXPECT(tutti_send(out[c], bytes, TUTTI_UINT8, next, 1, comms[c]) == TUTTI_OK);
        }
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        for (int c = 0; c < 2; c++)
            RANKS_EXPECT(tutti_wait(&receives[c]) == TUTTI_OK &&
                         is_filled(in[c], bytes, before, round + c));
    }
    for (int c = 0; c < 2; c++) {
        free(out[c]);
        free(in[c]);
    }
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    return 0;
}

static void communicators_keep_their_messages_apart(void **state)
{
    (void)state;
    expect_good_both(3, two_communicators, NULL);
}

/* -------------------------------------------------------------------------------------- threads */

enum { THREADS = 4 };

struct talker {
    struct tutti_comm *comm;
    int rank, number, result;
};

/* Each thread talks to its like on the other rank, blocking and started; the first ones all start
 * at once. */
static int talk(const struct talker *talker)
{
    const int rank = talker->rank, peer = 1 - rank, tag = talker->number;
    uint8_t out[20000], in[20000];
    for (int round = 0; round < 40; round++) {
        const size_t bytes = round % 4 == 3 ? sizeof out : (size_t)(1 + round * 37);
        fill(out, bytes, rank, tag + round);
        memset(in, 0, bytes);
        struct tutti_request *send, *recv;
        struct tutti_message message = {.size_bytes = sizeof message};
        if (round % 2 == 1) {
            RANKS_EXPECT(tutti_recv_start(in, bytes, TUTTI_UINT8, peer, tag, &message, NULL,
                                          talker->comm, &recv) == TUTTI_OK);
            RANKS_EXPECT(tutti_send_start(out, bytes, TUTTI_UINT8, peer, tag, NULL, talker->comm,
                                          &send) == TUTTI_OK);
            RANKS_EXPECT(tutti_wait(&send) == TUTTI_OK && tutti_wait(&recv) == TUTTI_OK);
        } else if (rank == 0) {
            RANKS_EXPECT(tutti_send(out, bytes, TUTTI_UINT8, peer, tag, talker->comm) == TUTTI_OK);
            RANKS_EXPECT(tutti_recv(in, bytes, TUTTI_UINT8, peer, tag, &message, talker->comm) ==
                         TUTTI_OK);
        } else {
            RANKS_EXPECT(tutti_recv(in, bytes, TUTTI_UINT8, TUTTI_ANY_RANK, tag, &message,
                                    talker->comm) == TUTTI_OK);
            RANKS_EXPECT(tutti_send(out, bytes, TUTTI_UINT8, peer, tag, talker->comm) == TUTTI_OK);
        }
        RANKS_EXPECT(message.source == peer && message.tag == tag && message.count == bytes);
        RANKS_EXPECT(is_filled(in, bytes, peer, tag + round));
    }
    return 0;
}

static void *be_talker(void *argument)
{
    struct talker *talker = argument;
    talker->result = talk(talker);
    return NULL;
}

static int many_threads(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size;
    const bool blocks = context != NULL;
    struct talker talkers[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        talkers[t] = (struct talker){comm, rank, t, 1};
        RANKS_EXPECT(pthread_create(&threads[t], NULL, be_talker, &talkers[t]) == 0);
    }
    for (int i = 0; blocks && i < 50; i++) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    int result = 0;
    for (int t = 0; t < THREADS; t++) {
        RANKS_EXPECT(pthread_join(threads[t], NULL) == 0);
        result |= talkers[t].result;
    }
    return result;
}

static void many_threads_of_a_rank_send_and_receive_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) expect_good_both(2, many_threads, NULL);
}

static void threads_talk_while_another_one_calls_collectives(void **state)
{
    (void)state;
    static int blocks = 1;
    expect_good_both(2, many_threads, &blocks);
}

/* Rank 0 sits in a barrier with one thread, and with another one sends what rank 1 needs before it
 * comes there. */
struct helper {
    struct tutti_comm *comm;
    _Atomic bool entered;
    size_t bytes;
    enum tutti_status status;
};

static void *send_from_outside(void *argument)
{
    struct helper *helper = argument;
    while (!atomic_load(&helper->entered)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    uint8_t *const data = malloc(helper->bytes);
    if (data == NULL) return NULL;
    fill(data, helper->bytes, 0, 3);
    helper->status = tutti_send(data, helper->bytes, TUTTI_UINT8, 1, 3, helper->comm);
    free(data);
    return NULL;
}

static int help_from_outside(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context, (void)size;
    static const size_t sizes[] = {100, 300000};
    for (int s = 0; s < 2; s++) {
        if (rank == 0) {
            struct helper helper = {.comm = comm, .bytes = sizes[s], .status = TUTTI_INTERNAL};
            pthread_t thread;
            RANKS_EXPECT(pthread_create(&thread, NULL, send_from_outside, &helper) == 0);
            atomic_store(&helper.entered, true);
            RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
            RANKS_EXPECT(pthread_join(thread, NULL) == 0 && helper.status == TUTTI_OK);
        } else {
            uint8_t *const data = malloc(sizes[s]);
            RANKS_EXPECT(data != NULL);
            RANKS_EXPECT(tutti_recv(data, sizes[s], TUTTI_UINT8, 0, 3, NULL, comm) == TUTTI_OK);
            RANKS_EXPECT(is_filled(data, sizes[s], 0, 3));
            free(data);
            RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        }
    }
    return 0;
}

static void a_thread_sends_while_another_one_is_blocked_in_a_collective(void **state)
{
    (void)state;
    expect_good_both(2, help_from_outside, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_send_meets_every_form_of_recv),
        cmocka_unit_test(started_messages_move_without_further_calls),
        cmocka_unit_test(every_size_arrives_from_and_in_all_kinds_of_memory),
        cmocka_unit_test(a_shorter_message_fills_the_beginning),
        cmocka_unit_test(messages_are_received_in_the_order_of_sending),
        cmocka_unit_test(ten_thousand_receives_are_matched_in_the_order_of_calling),
        cmocka_unit_test(large_messages_cross_in_a_group),
        cmocka_unit_test(a_rank_may_send_to_itself),
        cmocka_unit_test(a_rank_alone_may_send_to_itself),
        cmocka_unit_test(small_messages_leave_while_their_receiver_waits_in_a_collective),
        cmocka_unit_test(messages_and_collectives_do_not_disturb_each_other),
        cmocka_unit_test(communicators_keep_their_messages_apart),
        cmocka_unit_test(many_threads_of_a_rank_send_and_receive_at_once),
        cmocka_unit_test(threads_talk_while_another_one_calls_collectives),
        cmocka_unit_test(a_thread_sends_while_another_one_is_blocked_in_a_collective),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
