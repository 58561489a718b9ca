/* Programs of every algorithm run in one thread over links that are slow, short of room and moody, in any order of
 * ranks: results are right, and nothing gets stuck.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "call.h"
#include "engine/run.h"

enum { RANKS_MAX = 8, DEPTH_MAX = 8, PATIENCE = 8, LOOKS_MAX = 4000000 };

/* ------------------------------------------------------------------------------- links of one thread */

struct mood {
    size_t piece_bytes;
    unsigned pieces; /* under way on a link */
    unsigned delay;  /* of so many looks one finds something new; 1: each */
    bool by_reference;
};

struct message {
    char *copy; /* of what was committed, in memory that a sanitizer can watch; NULL: posted */
    const void *data;
    size_t bytes;
    unsigned readers_left;
};

/* One link with all its readers; a writer's and a reader's ends point to it. */
struct wire {
    struct link_tx tx;
    struct net *net;
    struct message messages[DEPTH_MAX];
    uint64_t sent, read[RANKS_MAX];
    int writer, reader_count;
    void *reserved;
    size_t reserved_bytes;
};

struct reader {
    struct link_rx rx;
    struct wire *wire;
    int rank;
    size_t done; /* bytes of the message */
    bool seen;
};

struct net {
    struct mood mood;
    int size;
    uint64_t random;
    struct wire *wires[RANKS_MAX][TRANSPORT_CHANNEL_COUNT][RANKS_MAX + 1]; /* last: to all */
    struct reader *readers[RANKS_MAX][TRANSPORT_CHANNEL_COUNT][RANKS_MAX][2];
    struct endpoint {
        struct transport base;
        struct net *net;
    } endpoints[RANKS_MAX];
};

static uint64_t draw(struct net *net)
{
    net->random = net->random * 6364136223846793005u + 1442695040888963407u;
    return net->random >> 33;
}

static bool is_moody(struct net *net)
{
    return draw(net) % net->mood.delay != 0;
}

static uint64_t least_read(const struct wire *wire)
{
    uint64_t least = wire->sent;
    for (int r = 0; r < wire->net->size; r++)
        if (wire->read[r] < least) least = wire->read[r];
    return least;
}

static void *net_reserve(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true(bytes <= wire->net->mood.piece_bytes);
    if (wire->reserved != NULL && wire->reserved_bytes == bytes) return wire->reserved;
    if (wire->reserved == NULL &&
        (wire->sent - least_read(wire) >= wire->net->mood.pieces || is_moody(wire->net)))
        return NULL;
    free(wire->reserved);
    wire->reserved = malloc(bytes + 1);
    wire->reserved_bytes = bytes;
    assert_non_null(wire->reserved);
    return wire->reserved;
}

static void send_message(struct wire *wire, char *copy, const void *data, size_t bytes)
{
    struct message *message = &wire->messages[wire->sent % DEPTH_MAX];
    *message = (struct message){copy, data, bytes, (unsigned)wire->reader_count};
    wire->sent++;
}

static void net_commit(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_non_null(wire->reserved);
    assert_int_equal(wire->reserved_bytes, bytes);
    char *copy = wire->reserved;
    wire->reserved = NULL;
    send_message(wire, copy, copy, bytes);
}

static enum link_reach net_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)address, (void)bytes;
    return ((struct wire *)link)->net->mood.by_reference ? REACH_READ : REACH_NONE;
}

static bool net_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true(wire->net->mood.by_reference);
    assert_null(wire->reserved);
    if (wire->sent - least_read(wire) >= wire->net->mood.pieces || is_moody(wire->net))
        return false;
    send_message(wire, NULL, address, bytes);
    return true;
}

static bool net_consumed(struct link_tx *link)
{
    struct wire *wire = (struct wire *)link;
    return least_read(wire) == wire->sent;
}

static enum link_state net_peek(struct link_rx *link, struct link_view *view)
{
    struct reader *reader = (struct reader *)link;
    struct wire *wire = reader->wire;
    const uint64_t number = wire->read[reader->rank];
    if (number == wire->sent) return LINK_EMPTY;
    if (!reader->seen && is_moody(wire->net)) return LINK_EMPTY;
    reader->seen = true;
    const struct message *message = &wire->messages[number % DEPTH_MAX];
    *view = (struct link_view){(const char *)message->data + reader->done,
                               message->bytes - reader->done};
    return LINK_READY;
}

static void net_consume(struct link_rx *link, size_t bytes)
{
    struct reader *reader = (struct reader *)link;
    struct wire *wire = reader->wire;
    struct message *message = &wire->messages[wire->read[reader->rank] % DEPTH_MAX];
    assert_true(reader->seen && bytes <= message->bytes - reader->done);
    reader->done += bytes;
    if (reader->done < message->bytes) return;
    reader->done = 0;
    reader->seen = false;
    wire->read[reader->rank]++;
    if (--message->readers_left > 0) return;
    free(message->copy); /* who still reads it is found out */
    *message = (struct message){0};
}

static const struct link_tx_ops tx_ops = {net_reserve, net_commit, net_reach, net_post,
                                          net_consumed};
static bool net_take(struct link_rx *link, void *destination, size_t bytes)
{
    (void)link, (void)destination, (void)bytes;
    fail_msg("every view of these links has data");
    return false;
}

static bool net_fetch(struct link_rx *link)
{
    return net_take(link, NULL, 0);
}

static const struct link_rx_ops rx_ops = {net_peek, net_take, net_fetch, net_consume};

static struct wire *wire_of(struct net *net, int channel, int writer, int reader)
{
    struct wire **place = &net->wires[writer][channel][reader == TRANSPORT_ALL ? RANKS_MAX : reader];
    if (*place != NULL) return *place;
    struct wire *wire = *place = calloc(1, sizeof *wire);
    assert_non_null(wire);
    wire->tx = (struct link_tx){&tx_ops, reader};
    wire->net = net;
    wire->writer = writer;
    wire->reader_count = reader == TRANSPORT_ALL ? net->size - 1 : 1;
    for (int r = 0; r < net->size; r++)
        if (r == writer || (reader != TRANSPORT_ALL && r != reader))
            wire->read[r] = UINT64_MAX; /* holds up nobody */
    return wire;
}

static void net_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    const struct mood *mood = &((struct endpoint *)transport)->net->mood;
    *piece_bytes_max = mood->piece_bytes;
    *piece_count_max = mood->pieces;
}

static enum tutti_status net_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    (void)bytes;
    assert_int_equal(slot, 0);
    *link = &wire_of(((struct endpoint *)transport)->net, channel, transport->rank, peer)->tx;
    return TUTTI_OK;
}

static enum tutti_status net_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     bool from_all, struct link_rx **link)
{
    struct net *net = ((struct endpoint *)transport)->net;
    assert_int_equal(slot, 0);
    struct reader **place = &net->readers[transport->rank][channel][peer][from_all];
    if (*place == NULL) {
        *place = calloc(1, sizeof **place);
        assert_non_null(*place);
        **place = (struct reader){
            .rx = {&rx_ops, peer},
            .wire = wire_of(net, channel, peer, from_all ? TRANSPORT_ALL : transport->rank),
            .rank = transport->rank};
    }
    *link = &(*place)->rx;
    return TUTTI_OK;
}

static void never_sleeps(struct transport *transport)
{
    fail_msg("rank %d sleeps while it runs", transport->rank);
}

static void never_sleeps_long(struct transport *transport, uint64_t timeout_ns)
{
    (void)timeout_ns;
    never_sleeps(transport);
}

static const struct transport_ops net_ops = {net_limits,   net_open_tx,  net_open_rx,
                                             never_sleeps, never_sleeps, never_sleeps_long,
                                             never_sleeps, never_sleeps};

static struct net *net_create(int size, struct mood mood, uint64_t seed)
{
    struct net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->mood = mood;
    net->size = size;
    net->random = seed;
    for (int r = 0; r < size; r++)
        net->endpoints[r] = (struct endpoint){{.ops = &net_ops, .rank = r, .size = size}, net};
    return net;
}

static void net_free(struct net *net)
{
    struct wire **wires = &net->wires[0][0][0];
    for (size_t i = 0; i < sizeof net->wires / sizeof *wires; i++) {
        if (wires[i] != NULL) free(wires[i]->reserved);
        free(wires[i]);
    }
    struct reader **readers = &net->readers[0][0][0][0];
    for (size_t i = 0; i < sizeof net->readers / sizeof *readers; i++) free(readers[i]);
    free(net);
}

/* Whatever was sent was read: the next operation finds its links empty. */
static void expect_empty(struct net *net)
{
    struct wire **wires = &net->wires[0][0][0];
    for (size_t i = 0; i < sizeof net->wires / sizeof *wires; i++)
        if (wires[i] != NULL && least_read(wires[i]) != wires[i]->sent)
            fail_msg("rank %d sent to %d what nobody read", wires[i]->writer, wires[i]->tx.peer);
}

/* ------------------------------------------------------------------------------------- one collective */

struct job {
    const struct algorithm *algorithm;
    int size, root;
    size_t count;
    bool in_place;
};

struct rank_job {
    struct program *program;
    struct operation operation;
    int32_t *send, *recv, *memory[2];
    bool done;
};

static int32_t value_of(int rank, size_t index)
{
    return (int32_t)(1 + rank * 1000003 + (int)index * 7);
}

static int32_t sum_of(int size, size_t index)
{
    int32_t sum = 0;
    for (int r = 0; r < size; r++) sum += value_of(r, index);
    return sum;
}

static int32_t expected(const struct job *job, int rank, size_t block, size_t i)
{
    const size_t behind = (size_t)rank * job->count + i;
    switch (job->algorithm->collective) {
    case COLLECTIVE_BROADCAST: return value_of(job->root, i);
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return value_of((int)block, i);
    case COLLECTIVE_SCATTER: return value_of(job->root, behind);
    case COLLECTIVE_ALLTOALL: return value_of((int)block, behind);
    case COLLECTIVE_REDUCE_SCATTER: return sum_of(job->size, behind);
    default: return sum_of(job->size, i);
    }
}

static void prepare(const struct job *job, struct net *net, int rank, struct rank_job *own)
{
    const enum collective collective = job->algorithm->collective;
    const struct algo_params params = {.collective = collective,
                                       .rank_count = job->size,
                                       .root = job->root,
                                       .in_place = job->in_place};
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s", message);
    struct bind_options options = {
        .count = job->count, .dtype = TUTTI_INT32, .op = op_builtin(OP_SUM), .level = KERNEL_SCALAR};
    struct transport *transport = &net->endpoints[rank].base;
    transport->ops->limits(transport, &options.piece_bytes_max, &options.piece_count_max);
    if (bind_program(plan, &options, &own->program) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    plan_rank_free(plan);
    assert_int_equal(program_open_links(own->program, transport, 0), TUTTI_OK);

    const size_t sends = test_send_blocks(collective, rank, job->size, job->root) * job->count;
    const size_t recvs = test_recv_blocks(collective, rank, job->size, job->root) * job->count;
    own->memory[0] = aligned_alloc(64, (sends * 4 + 64) / 64 * 64);
    own->memory[1] = aligned_alloc(64, (recvs * 4 + 64) / 64 * 64);
    assert_true(own->memory[0] != NULL && own->memory[1] != NULL);
    own->send = own->memory[0];
    own->recv = own->memory[1];
    if (job->in_place && sends > 0 && recvs > 0) {
        const size_t offset = test_in_place_block(collective, rank) * job->count;
        if (sends > recvs)
            own->recv = own->send + offset;
        else
            own->send = own->recv + (recvs > sends ? offset : 0);
    }
    for (size_t i = 0; i < recvs; i++) own->recv[i] = -1;
    for (size_t i = 0; i < sends; i++) own->send[i] = value_of(rank, i);
    own->done = false;
    assert_int_equal(operation_prepare(&own->operation, own->program, transport, 0,
                                       own->program->signature,
                                       &(struct buffer){.base = (char *)own->send},
                                       &(struct buffer){.base = (char *)own->recv}),
                     TUTTI_OK);
}

static void run_all(const struct job *job, struct net *net, struct rank_job *ranks)
{
    int left = job->size;
    for (int looks = 0; left > 0; looks++) {
        if (looks == LOOKS_MAX)
            fail_msg("%s by %s on %d ranks, count %zu%s: stuck (pieces of %zu, %u of them%s)",
                     collective_name(job->algorithm->collective), job->algorithm->name, job->size,
                     job->count, job->in_place ? ", in place" : "", net->mood.piece_bytes,
                     net->mood.pieces, net->mood.by_reference ? ", by reference" : "");
        struct rank_job *own = &ranks[draw(net) % (uint64_t)job->size];
        if (own->done) continue;
        const enum run_result result = operation_run(&own->operation);
        assert_int_not_equal(result, RUN_FAULT);
        if (result != RUN_DONE) continue;
        own->done = true;
        left--;
    }
}

static void run_job(const struct job *job, struct mood mood, uint64_t seed)
{
    struct net *net = net_create(job->size, mood, seed);
    struct rank_job ranks[RANKS_MAX];
    for (int r = 0; r < job->size; r++) operation_init(&ranks[r].operation, PATIENCE);
    for (int r = 0; r < job->size; r++) prepare(job, net, r, &ranks[r]);
    run_all(job, net, ranks);
    expect_empty(net);
    for (int r = 0; r < job->size; r++) {
        const size_t blocks = test_recv_blocks(job->algorithm->collective, r, job->size, job->root);
        for (size_t i = 0; i < blocks * job->count; i++)
            if (ranks[r].recv[i] != expected(job, r, i / job->count, i % job->count))
                fail_msg(
                    "%s by %s on %d ranks, count %zu, root %d%s: rank %d, element %zu is wrong",
                    collective_name(job->algorithm->collective), job->algorithm->name, job->size,
                    job->count, job->root, job->in_place ? ", in place" : "", r, i);
        operation_release(&ranks[r].operation);
        program_free(ranks[r].program);
        free(ranks[r].memory[0]);
        free(ranks[r].memory[1]);
    }
    net_free(net);
}

static void run_every_algorithm(const size_t *counts, int count_count, struct mood mood)
{
    static const int sizes[] = {2, 3, 4, 5, 8};
    for (int i = 0; i < algo_count; i++) {
        for (int s = 0; s < 5; s++) {
            if (!algo_supports(&algo_list[i], sizes[s])) continue;
            for (int c = 0; c < 2 * count_count; c++) {
                const int root =
                    collective_is_rooted(algo_list[i].collective) ? (i + c) % sizes[s] : 0;
                const struct job job = {&algo_list[i], sizes[s], root, counts[c / 2], c % 2 == 1};
                run_job(&job, mood, (uint64_t)(i * 1000 + s * 100 + c));
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------------- tests */

static void every_program_is_right_with_room(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 100};
    run_every_algorithm(counts, 4, (struct mood){.piece_bytes = 16384, .pieces = 4, .delay = 1});
}

static void every_program_is_right_in_one_slot(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 100, 5003};
    run_every_algorithm(counts, 5, (struct mood){.piece_bytes = 8192, .pieces = 1, .delay = 3});
}

static void chunks_larger_than_all_slots_do_not_stick(void **state)
{
    (void)state;
    static const size_t counts[] = {60013};
    run_every_algorithm(counts, 1, (struct mood){.piece_bytes = 8192, .pieces = 2, .delay = 2});
}

static void every_program_is_right_by_reference(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 5000, 20011};
    run_every_algorithm(
        counts, 3,
        (struct mood){.piece_bytes = 16384, .pieces = 3, .delay = 2, .by_reference = true});
}

/* Two runs of one program over the same links: what the first leaves behind would show. */
static void a_program_runs_again_and_again(void **state)
{
    (void)state;
    const struct job job = {algo_find(COLLECTIVE_ALLREDUCE, "ring"), 4, 0, 30011, false};
    struct net *net = net_create(4, (struct mood){.piece_bytes = 8192, .pieces = 2, .delay = 2}, 9);
    struct rank_job ranks[4];
    for (int r = 0; r < 4; r++) operation_init(&ranks[r].operation, PATIENCE);
    for (int r = 0; r < 4; r++) prepare(&job, net, r, &ranks[r]);
    for (int round = 0; round < 5; round++) {
        run_all(&job, net, ranks);
        for (int r = 0; r < 4; r++) {
            for (size_t i = 0; i < job.count; i++) assert_int_equal(ranks[r].recv[i], sum_of(4, i));
            memset(ranks[r].recv, 0, job.count * 4);
            ranks[r].done = false;
            assert_int_equal(operation_prepare(&ranks[r].operation, ranks[r].program,
                                               &net->endpoints[r].base, 0,
                                               ranks[r].program->signature,
                                               &(struct buffer){.base = (char *)ranks[r].send},
                                               &(struct buffer){.base = (char *)ranks[r].recv}),
                             TUTTI_OK);
        }
    }
    for (int r = 0; r < 4; r++) {
        operation_release(&ranks[r].operation);
        program_free(ranks[r].program);
        free(ranks[r].memory[0]);
        free(ranks[r].memory[1]);
    }
    net_free(net);
}

/* A message that is longer than what is left, or cut within an element, faults before anything is written. */
static void messages_of_a_wrong_length_are_a_fault(void **state)
{
    (void)state;
    static const size_t wrong[] = {0, 3, 44, 4096};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        const struct job job = {algo_find(COLLECTIVE_BROADCAST, "direct"), 2, 0, 10, false};
        struct net *net =
            net_create(2, (struct mood){.piece_bytes = 8192, .pieces = 4, .delay = 1}, 1);
        struct rank_job own;
        operation_init(&own.operation, PATIENCE);
        prepare(&job, net, 1, &own);
        struct wire *wire = NULL;
        for (int c = 0; c < TRANSPORT_CHANNEL_COUNT; c++)
            for (int to = 0; to <= RANKS_MAX; to++)
                if (net->wires[0][c][to] != NULL) wire = net->wires[0][c][to];
        assert_non_null(wire);
        assert_int_equal(operation_run(&own.operation), RUN_BLOCKED);
        assert_int_equal(operation_waits_for(&own.operation), 0);
        char noise[4096] = {1};
        send_message(wire, NULL, noise, wrong[w]);
        assert_int_equal(operation_run(&own.operation), RUN_FAULT);
        assert_int_equal(own.operation.fault_peer, 0);
        assert_int_equal(operation_run(&own.operation), RUN_FAULT);
        for (int i = 0; i < 10; i++) assert_int_equal(own.recv[i], -1);
        operation_release(&own.operation);
        program_free(own.program);
        free(own.memory[0]);
        free(own.memory[1]);
        net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_is_right_with_room),
        cmocka_unit_test(every_program_is_right_in_one_slot),
        cmocka_unit_test(chunks_larger_than_all_slots_do_not_stick),
        cmocka_unit_test(every_program_is_right_by_reference),
        cmocka_unit_test(a_program_runs_again_and_again),
        cmocka_unit_test(messages_of_a_wrong_length_are_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
