/* varying_test.c - collectives whose blocks have different counts: right, and touching nothing
 * else, for counts of all sorts, wherever the blocks lie, in all forms; and counts that do not fit
 * each other are found.
 *
 * Counts come from the seed, so that every rank knows all of them; where its blocks lie is each
 * rank's own matter.
 *
 * ctest: timeout=180
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/collective.h"
#include "base/dtype.h"
#include "tests/kit/call.h"
#include "tests/kit/elements.h"
#include "tests/kit/form.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/spread.h"
#include "tests/worlds/ranks.h"

enum { SIZE_MAX_HERE = 9 };

/* ------------------------------------------------------------------------------------ scenarios */

struct scenario {
    enum collective collective;
    enum tutti_dtype dtype;
    enum op kind;
    int root;
    enum form form;
    bool in_place;
    bool without_displs;
    bool deterministic;
    int size;
    size_t counts[SIZE_MAX_HERE][SIZE_MAX_HERE]; /* from, to; row 0 alone where ranks have one block each */
};

/* How many elements rank `from` sends to rank `to`, or the block of the rank `from` in all but
 * alltoallv. */
static size_t count_of(const struct scenario *s, int from, int to)
{
    return s->collective == COLLECTIVE_ALLTOALL ? s->counts[from][to] : s->counts[0][from];
}

enum style { SMALL, EVEN, ZEROS, ONE_LARGE, MIXED, STYLE_COUNT };

static size_t draw_count(enum style style, size_t place, uint64_t *random)
{
    const uint64_t r = spread_random(random);
    switch (style) {
    case SMALL: return r % 4;
    case EVEN: return 100;
    case ZEROS: return r % 3 != 0 ? 0 : 1 + (r >> 8) % 50;
    case ONE_LARGE: return place == 1 ? 40009 : 0;
    default: return (r >> 8) % (r % 5 == 0 ? 12001 : 300);
    }
}

static void draw_counts(struct scenario *s, uint64_t *random)
{
    const enum style style = (enum style)(spread_random(random) % STYLE_COUNT);
    for (int from = 0; from < s->size; from++)
        for (int to = 0; to < s->size; to++)
            s->counts[from][to] = draw_count(style, (size_t)((from + to) % s->size), random);
    for (int from = 0; s->in_place && from < s->size; from++) /* as much back as there */
        for (int to = 0; s->collective == COLLECTIVE_ALLTOALL && to < from; to++)
            s->counts[from][to] = s->counts[to][from];
}

static struct scenario draw_scenario(enum collective collective, int size, uint64_t *random)
{
    struct scenario s = {.collective = collective,
                         .dtype = (enum tutti_dtype)(spread_random(random) % DTYPE_COUNT),
                         .root = (int)(spread_random(random) % (uint64_t)size),
                         .form = (enum form)(spread_random(random) % FORM_COUNT),
                         .in_place = spread_random(random) % 2,
                         .without_displs = spread_random(random) % 3 == 0,
                         .deterministic = spread_random(random) % 4 == 0,
                         .size = size};
    do s.kind = (enum op)(spread_random(random) % OP_COUNT);
    while (!elements_supported(s.kind, s.dtype));
    draw_counts(&s, random);
    return s;
}

/* -------------------------------------------------------------------------------------- buffers */

/* One rank's buffers. In place both are the larger one's memory; the smaller one begins at its
 * place `own`. */
struct buffers {
    struct spread send, recv;
    bool in_place; /* here: this rank has both */
    size_t own;
    size_t send_blocks, recv_blocks;
};

static bool init_side(const struct scenario *s, struct spread *spread, size_t blocks, bool is_send,
                      int rank, uint64_t *random)
{
    size_t counts[SIZE_MAX_HERE];
    for (int r = 0; r < (int)blocks; r++) {
        if (blocks == 1 && s->collective != COLLECTIVE_ALLTOALL)
            counts[r] = count_of(s, rank, rank);
        else
            counts[r] = is_send ? count_of(s, s->collective == COLLECTIVE_ALLTOALL ? rank : r, r)
                                : count_of(s, r, rank);
    }
    const bool packed =
        s->without_displs || blocks == 1 || (s->collective == COLLECTIVE_REDUCE_SCATTER && is_send);
    const enum spread_order order =
        packed ? SPREAD_PACKED : (enum spread_order)(spread_random(random) % 3);
    return spread_init(spread, counts, blocks, tutti_dtype_size(s->dtype), order,
                       spread_random(random) % 9, random);
}

static bool init_buffers(const struct scenario *s, struct buffers *b, int rank, uint64_t *random)
{
    *b = (struct buffers){.send_blocks = test_send_blocks(s->collective, rank, s->size, s->root),
                          .recv_blocks = test_recv_blocks(s->collective, rank, s->size, s->root)};
    b->in_place = s->in_place && b->send_blocks > 0 && b->recv_blocks > 0;
    const bool needs_send = !b->in_place || b->send_blocks > b->recv_blocks;
    const bool needs_recv = !b->in_place || !needs_send;
    for (int r = 0; b->in_place && b->send_blocks != b->recv_blocks && r < rank; r++)
        b->own += count_of(s, r, r);
    return (!needs_send || init_side(s, &b->send, b->send_blocks, true, rank, random)) &&
           (!needs_recv || init_side(s, &b->recv, b->recv_blocks, false, rank, random));
}

static void release_buffers(struct buffers *b)
{
    spread_release(&b->send);
    spread_release(&b->recv);
}

/* What block `block` of a rank's input holds, from which index on: no two alike. */
static size_t index_of(size_t block, unsigned run)
{
    return block * 37 + run * 101;
}

static void tabulate_input(struct elements *table, const struct scenario *s, int rank)
{
    if (collective_reduces(s->collective))
        elements_contribution(table, s->dtype, s->kind, rank, s->size);
    else
        elements_bytes(table, s->dtype, rank);
}

static void fill(const struct scenario *s, struct buffers *b, int rank, unsigned run)
{
    struct elements table;
    tabulate_input(&table, s, rank);
    if (b->recv.memory != NULL) spread_poison(&b->recv, 0, b->recv.count);
    struct spread *const send = b->send.memory != NULL ? &b->send : &b->recv;
    const bool is_whole = b->send_blocks == send->piece_count;
    for (size_t block = 0, place = is_whole ? 0 : b->own; block < b->send_blocks; block++) {
        const size_t count = is_whole ? send->counts[block] : count_of(s, rank, rank);
        const size_t name = b->send_blocks == 1 && s->size > 1 ? (size_t)rank : block;
        spread_put(send, false, place, count, &table, index_of(name, run));
        place += count;
    }
}

static void expect_block(const struct scenario *s, struct elements *table, int rank, size_t block,
                         size_t *name)
{
    const int from = s->collective == COLLECTIVE_SCATTER ? s->root : (int)block;
    const bool keeps_own =
        s->collective == COLLECTIVE_GATHER || s->collective == COLLECTIVE_ALLGATHER;
    *name = keeps_own ? block : (size_t)rank;
    if (collective_reduces(s->collective))
        elements_result(table, s->dtype, s->kind, s->size);
    else
        elements_bytes(table, s->dtype, from);
}

static void expect(const struct scenario *s, struct buffers *b, int rank, unsigned run)
{
    if (b->send.memory != NULL) spread_expect(&b->send);
    if (b->recv.memory != NULL) spread_expect(&b->recv);
    struct spread *const recv = b->recv.memory != NULL ? &b->recv : &b->send;
    const bool is_whole = b->recv_blocks == recv->piece_count;
    for (size_t block = 0, place = is_whole ? 0 : b->own; block < b->recv_blocks; block++) {
        const size_t count = is_whole ? recv->counts[block] : count_of(s, rank, rank);
        struct elements table;
        size_t name;
        expect_block(s, &table, rank, block, &name);
        spread_put(recv, true, place, count, &table, index_of(name, run));
        place += count;
    }
}

/* ---------------------------------------------------------------------------------------- calls */

static struct form_call call_of(const struct scenario *s, const struct buffers *b, int rank)
{
    const struct spread *const large_send = b->send.memory != NULL ? &b->send : &b->recv;
    const struct spread *const large_recv = b->recv.memory != NULL ? &b->recv : &b->send;
    struct form_call c = {.call = {.collective = s->collective,
                                   .count = count_of(s, rank, rank),
                                   .dtype = s->dtype,
                                   .root = s->root},
                          .shape = CALL_VARYING};
    if (b->send_blocks > 0) {
        c.send_counts = large_send->counts;
        c.send_displs = s->without_displs ? NULL : large_send->offsets;
        c.call.send = large_send->base;
        if (large_send->piece_count > b->send_blocks)
            c.call.send = large_send->base + large_send->offsets[rank] * large_send->element_bytes;
    }
    if (b->recv_blocks > 0) {
        c.recv_counts = large_recv->counts;
        c.recv_displs = s->without_displs ? NULL : large_recv->offsets;
        c.call.recv = large_recv->base;
        if (large_recv->piece_count > b->recv_blocks)
            c.call.recv = large_recv->base + large_recv->offsets[rank] * large_recv->element_bytes;
    }
    return c;
}

static int complain(const struct scenario *s, int rank, const char *what)
{
    fprintf(stderr, "rank %d of %d: %sv, %s %s, root %d, %s%s%s: %s (%s)\n", rank, s->size,
            collective_name(s->collective), tutti_dtype_name(s->dtype), op_kind_name(s->kind),
            s->root, form_name(s->form), s->in_place ? ", in place" : "",
            s->without_displs ? ", without displacements" : "", what, tutti_error_message());
    return 1;
}

static int check(const struct scenario *s, const struct buffers *b, int rank)
{
    const struct spread *const spreads[] = {&b->send, &b->recv};
    for (int i = 0; i < 2; i++) {
        long byte;
        char what[80];
        if (spreads[i]->memory == NULL || !spread_is_wrong(spreads[i], &byte)) continue;
        snprintf(what, sizeof what, "byte %ld of %s is wrong", byte, i == 0 ? "send" : "recv");
        return complain(s, rank, what);
    }
    return 0;
}

static int run_scenario(const struct scenario *s, struct tutti_comm *comm, int rank, uint64_t local)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.deterministic = s->deterministic;
    struct tutti_prepared *prepared = NULL;
    struct buffers b;
    RANKS_EXPECT(init_buffers(s, &b, rank, &local));
    struct form_call c = call_of(s, &b, rank);
    c.call.op = elements_op(s->kind);
    c.call.options = &options;
    int result = 0;
    for (unsigned turn = 0; turn < (s->form == PREPARED ? 3 : 1) && result == 0; turn++) {
        fill(s, &b, rank, turn);
        expect(s, &b, rank, turn);
        const enum tutti_status status = form_run(s->form, &c, comm, &prepared);
        result =
            status == TUTTI_OK ? check(s, &b, rank) : complain(s, rank, tutti_status_name(status));
    }
    tutti_prepared_free(prepared);
    tutti_op_free(c.call.op);
    release_buffers(&b);
    return result;
}

static const enum collective varying[] = {COLLECTIVE_GATHER, COLLECTIVE_SCATTER,
                                          COLLECTIVE_ALLGATHER, COLLECTIVE_REDUCE_SCATTER,
                                          COLLECTIVE_ALLTOALL};

static int run_scenarios(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const int *const count = context;
    for (int i = 0; i < *count; i++) {
        uint64_t random = elements_mixed(seed, (uint64_t)i);
        const struct scenario s = draw_scenario(varying[i % 5], size, &random);
        if (run_scenario(&s, comm, rank, elements_mixed(random, (uint64_t)rank)) != 0) return 1;
    }
    return 0;
}

static const struct tutti_comm_options comm_options = {.size_bytes =
                                                           sizeof(struct tutti_comm_options),
                                                       .rank = -1,
                                                       .size = -1,
                                                       .timeout_ns = 20000000000u};

static void blocks_of_all_counts_arrive_among_threads(void **state)
{
    (void)state;
    static const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int size = 1; size <= SIZE_MAX_HERE; size++)
        assert_int_equal(ranks_run(size, &options, run_scenarios, &(int){some_of(150)}), 0);
}

static void blocks_of_all_counts_arrive_among_processes(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    static const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int size = 1; size <= 6; size++)
        assert_int_equal(ranks_run(size, &options, run_scenarios, &(int){some_of(150)}), 0);
}

/* ----------------------------------------------------------------------------------- mismatches */

/* Both ends of a transfer from rank 1 to rank 0 say another count. What then happens on other ranks
 * depends on the timing; but rank 0 must not take the data, nobody may write beside its buffers,
 * and whoever fails names one of the two. */
struct mismatch {
    enum collective collective;
    size_t sent, expected;
    const char *encoding; /* of the call, then of float32; NULL: none */
};

enum { MISMATCH_RANKS = 3, ROOM = 4096 };

static int blames_one_of_the_two(struct tutti_comm *comm, int rank, enum tutti_status status)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(status == TUTTI_MISMATCH || status == TUTTI_TIMEOUT || status == TUTTI_DESYNC);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.culprit == 0 || failure.culprit == 1);
    RANKS_EXPECT(failure.message[0] != '\0');
    return 0;
}

static enum tutti_status call_mismatched(const struct mismatch *m, const int32_t *send,
                                         int32_t *recv, int rank, size_t filler,
                                         struct tutti_comm *comm)
{
    size_t send_counts[MISMATCH_RANKS], recv_counts[MISMATCH_RANKS];
    for (int r = 0; r < MISMATCH_RANKS; r++) send_counts[r] = recv_counts[r] = filler;
    if (rank == 1) send_counts[0] = m->sent;
    if (rank == 0) recv_counts[1] = m->expected;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    const enum tutti_dtype dtype = m->encoding != NULL ? TUTTI_FLOAT32 : TUTTI_INT32;
    options.encoding = m->encoding;
    switch (m->collective) {
    case COLLECTIVE_GATHER:
        return tutti_gatherv_with(send, rank == 1 ? m->sent : filler, recv, recv_counts, NULL,
                                  dtype, 0, &options, comm);
    case COLLECTIVE_SCATTER: /* root is 1 */
        return tutti_scatterv_with(send, send_counts, NULL, recv, rank == 0 ? m->expected : filler,
                                   dtype, 1, &options, comm);
    default:
        return tutti_alltoallv_with(send, send_counts, NULL, recv, recv_counts, NULL, dtype,
                                    &options, comm);
    }
}

static int counts_that_differ(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed;
    const struct mismatch *const m = context;
    const size_t filler = 5;
    const size_t room = m->sent > m->expected ? m->sent : m->expected;
    const size_t total = 3 * (room + filler) + ROOM;
    int32_t *const send = malloc(total * sizeof *send), *const recv = malloc(total * sizeof *recv);
    RANKS_EXPECT(send != NULL && recv != NULL);
    memset(send, rank + 1, total * sizeof *send);
    memset(recv, 0x77, total * sizeof *recv);
    enum tutti_status status = call_mismatched(m, send, recv, rank, filler, comm);
    /* what nobody looked for yet must not be taken for what comes next */
    if (status == TUTTI_OK) {
        int32_t all[MISMATCH_RANKS] = {0}, mine = 1000 + rank;
        status = tutti_allgather(&mine, all, 1, TUTTI_INT32, comm);
        for (int r = 0; status == TUTTI_OK && r < MISMATCH_RANKS; r++)
            RANKS_EXPECT(all[r] == 1000 + r);
    }
    const size_t written = 3 * filler + m->expected; /* at most, and never by more */
    for (size_t i = written; i < total; i++) RANKS_EXPECT(recv[i] == 0x77777777);
    for (size_t i = 0; i < total; i++) RANKS_EXPECT(send[i] == (rank + 1) * 0x01010101);
    if (rank == 0 && m->expected > 0) RANKS_EXPECT(status != TUTTI_OK);
    free(send);
    free(recv);
    return status == TUTTI_OK ? 0 : blames_one_of_the_two(comm, rank, status);
}

static void counts_that_do_not_fit_are_found(void **state)
{
    (void)state;
    static const struct tutti_comm_options impatient = {.size_bytes =
                                                            sizeof(struct tutti_comm_options),
                                                        .rank = -1,
                                                        .size = -1,
                                                        .timeout_ns = 1500000000u};
    static const struct ranks_options options = {.deadline_ms = 30000, .comm_options = &impatient};
    static const size_t counts[][2] = {{7, 3}, {3, 7}, {20000, 100}, {100, 20000}, {5, 0}, {0, 5}};
    static const enum collective local[] = {COLLECTIVE_GATHER, COLLECTIVE_SCATTER,
                                            COLLECTIVE_ALLTOALL};
    static const char *const encodings[] = {NULL, NULL, NULL, "bfloat16/everywhere/required"};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int i = 0; i < 4; i++) {
            struct mismatch m = {i < 3 ? local[i] : local[c % 3], counts[c][0], counts[c][1],
                                 encodings[i]};
            if (ranks_run(MISMATCH_RANKS, &options, counts_that_differ, &m) != 0)
                fail_msg("%sv: %zu sent, %zu expected%s", collective_name(m.collective), m.sent,
                         m.expected, m.encoding != NULL ? ", encoded" : "");
        }
}

/* Where all ranks give all counts, they are part of the call. */
static int counts_that_ranks_disagree_on(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                         void *context)
{
    (void)seed;
    const bool reduces = *(const bool *)context;
    int32_t send[64] = {0}, recv[64] = {0};
    size_t counts[] = {4, 4, 4, 4};
    RANKS_EXPECT(size <= 4);
    if (rank == 1) counts[2]++;
    const enum tutti_status status =
        reduces ? tutti_reduce_scatterv(send, recv, counts, TUTTI_INT32, TUTTI_SUM, comm)
                : tutti_allgatherv(send, recv, counts, NULL, TUTTI_INT32, comm);
    RANKS_EXPECT(status == TUTTI_MISMATCH);
    return 0;
}

static void counts_that_ranks_disagree_on_are_a_mismatch(void **state)
{
    (void)state;
    static const struct ranks_options options = {.deadline_ms = 30000,
                                                 .comm_options = &comm_options};
    for (int reduces = 0; reduces < 2; reduces++) {
        bool context = reduces;
        assert_int_equal(ranks_run(3, &options, counts_that_ranks_disagree_on, &context), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_all_counts_arrive_among_threads),
        cmocka_unit_test(blocks_of_all_counts_arrive_among_processes),
        cmocka_unit_test(counts_that_do_not_fit_are_found),
        cmocka_unit_test(counts_that_ranks_disagree_on_are_a_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
