/* lists_test.c - collectives on lists of tensors are those on the tensors one after the other,
 * however each rank cuts its buffers and wherever the tensors lie; and lists that do not fit are
 * refused.
 *
 * Every rank cuts for itself: into one tensor, a few, or one per element, some of them empty.
 *
 * ctest: timeout=180
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/collective.h"
#include "base/dtype.h"
#include "tests/kit/call.h"
#include "tests/kit/elements.h"
#include "tests/kit/form.h"
#include "tests/kit/sanitized.h"
#include "tests/kit/spread.h"
#include "tests/worlds/ranks.h"

enum { PIECES_MAX = 4000 };

struct scenario {
    enum collective collective;
    const char *algorithm; /* NULL: chosen */
    enum tutti_dtype dtype;
    enum op kind;
    size_t count;
    int root;
    enum form form;
    bool in_place;
    int size;
};

/* -------------------------------------------------------------------------------------- cutting */

static int compare_sizes(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Counts of tensors that are `total` elements in all; at most PIECES_MAX of them. */
static size_t cut(size_t total, size_t *counts, uint64_t *random)
{
    const uint64_t style = spread_random(random) % 4;
    size_t pieces = 1 + (style > 0 ? spread_random(random) % 12 : 0);
    if (style == 3 && total < PIECES_MAX) { /* one element each, and an empty one at the end */
        for (size_t i = 0; i < total; i++) counts[i] = 1;
        counts[total] = 0;
        return total + 1;
    }
    size_t ends[16] = {0};
    for (size_t i = 0; i + 1 < pieces; i++)
        ends[i] = spread_random(random) % 4 == 0 ? 0 : spread_random(random) % (total + 1);
    ends[pieces - 1] = total;
    qsort(ends, pieces, sizeof *ends, compare_sizes);
    for (size_t i = 0; i < pieces; i++) counts[i] = ends[i] - (i > 0 ? ends[i - 1] : 0);
    return pieces;
}

static bool init_cut(struct spread *spread, const struct scenario *s, size_t total, uint64_t *random)
{
    size_t *const counts = malloc(PIECES_MAX * sizeof *counts);
    if (counts == NULL) return false;
    const size_t pieces = cut(total, counts, random);
    const bool good = spread_init(spread, counts, pieces, tutti_dtype_size(s->dtype),
                                  (enum spread_order)(spread_random(random) % 3),
                                  spread_random(random) % 9, random);
    free(counts);
    return good;
}

/* -------------------------------------------------------------------------------------- buffers */

/* In place there is one spread, that of the larger side, in which the other one begins at its place
 * `own`. */
struct buffers {
    struct spread spreads[2]; /* send, recv */
    size_t blocks[2];
    bool in_place; /* here: this rank has both */
    size_t own;
    struct tutti_tensor *tensors[2];
    struct tutti_list lists[2];
};

static struct spread *spread_of(struct buffers *b, int side)
{
    return b->spreads[side].memory != NULL ? &b->spreads[side] : &b->spreads[1 - side];
}

static size_t place_of(const struct buffers *b, int side)
{
    return b->in_place && b->spreads[side].memory == NULL ? b->own : 0;
}

static bool init_buffers(const struct scenario *s, struct buffers *b, int rank, uint64_t *random)
{
    *b = (struct buffers){.blocks = {test_send_blocks(s->collective, rank, s->size, s->root),
                                     test_recv_blocks(s->collective, rank, s->size, s->root)}};
    b->in_place = s->in_place && b->blocks[0] > 0 && b->blocks[1] > 0;
    const int larger = b->blocks[0] > b->blocks[1] ? 0 : 1;
    if (b->blocks[0] != b->blocks[1]) b->own = (size_t)rank * s->count;
    for (int side = 0; side < 2; side++) {
        if (b->blocks[side] == 0 || (b->in_place && side != larger)) continue;
        if (!init_cut(&b->spreads[side], s, b->blocks[side] * s->count, random)) return false;
    }
    for (int side = 0; side < 2; side++) {
        if (b->blocks[side] == 0) continue;
        const struct spread *const spread = spread_of(b, side);
        b->tensors[side] = calloc(spread->piece_count + 1, sizeof *b->tensors[side]);
        if (b->tensors[side] == NULL) return false;
        b->lists[side].tensors = b->tensors[side];
        b->lists[side].tensor_count =
            spread_tensors(spread, place_of(b, side), b->blocks[side] * s->count, b->tensors[side]);
    }
    return true;
}

static void release_buffers(struct buffers *b)
{
    for (int side = 0; side < 2; side++) {
        spread_release(&b->spreads[side]);
        free(b->tensors[side]);
    }
}

static void fill(const struct scenario *s, struct buffers *b, int rank, size_t first_index)
{
    struct elements table;
    if (collective_reduces(s->collective))
        elements_contribution(&table, s->dtype, s->kind, rank, s->size);
    else
        elements_bytes(&table, s->dtype, rank);
    if (b->spreads[1].memory != NULL) spread_poison(&b->spreads[1], 0, b->spreads[1].count);
    if (b->blocks[0] > 0)
        spread_put(spread_of(b, 0), false, place_of(b, 0), b->blocks[0] * s->count, &table,
                   first_index);
    for (int side = 0; side < 2; side++)
        if (b->spreads[side].memory != NULL) spread_expect(&b->spreads[side]);
}

static void expect(const struct scenario *s, struct buffers *b, int rank, size_t first_index)
{
    for (size_t block = 0; block < b->blocks[1]; block++) {
        struct elements table;
        size_t index = first_index;
        int from = (int)block;
        if (s->collective == COLLECTIVE_BROADCAST || s->collective == COLLECTIVE_SCATTER)
            from = s->root;
        if (s->collective == COLLECTIVE_SCATTER || s->collective == COLLECTIVE_ALLTOALL ||
            s->collective == COLLECTIVE_REDUCE_SCATTER)
            index += (size_t)rank * s->count;
        if (collective_reduces(s->collective))
            elements_result(&table, s->dtype, s->kind, s->size);
        else
            elements_bytes(&table, s->dtype, from);
        spread_put(spread_of(b, 1), true, place_of(b, 1) + block * s->count, s->count, &table,
                   index);
    }
}

/* ---------------------------------------------------------------------------------------- calls */

static int complain(const struct scenario *s, int rank, const char *what)
{
    fprintf(stderr, "rank %d of %d: %s_list by %s, count %zu, %s %s, root %d, %s%s: %s (%s)\n", rank,
            s->size, collective_name(s->collective), s->algorithm == NULL ? "choice" : s->algorithm,
            s->count, tutti_dtype_name(s->dtype), op_kind_name(s->kind), s->root,
            form_name(s->form), s->in_place ? ", in place" : "", what, tutti_error_message());
    return 1;
}

static int check(const struct scenario *s, const struct buffers *b, int rank)
{
    for (int side = 0; side < 2; side++) {
        long byte;
        char what[80];
        if (b->spreads[side].memory == NULL || !spread_is_wrong(&b->spreads[side], &byte)) continue;
        snprintf(what, sizeof what, "byte %ld of %s is wrong", byte, side == 0 ? "send" : "recv");
        return complain(s, rank, what);
    }
    return 0;
}

static int run_scenario(const struct scenario *s, struct tutti_comm *comm, int rank, uint64_t local)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = s->algorithm;
    struct tutti_prepared *prepared = NULL;
    struct buffers b;
    RANKS_EXPECT(init_buffers(s, &b, rank, &local));
    const struct form_call c = {.call = {.collective = s->collective,
                                         .dtype = s->dtype,
                                         .op = elements_op(s->kind),
                                         .root = s->root,
                                         .options = &options},
                                .shape = CALL_LIST,
                                .send_list = b.blocks[0] > 0 ? &b.lists[0] : NULL,
                                .recv_list = b.blocks[1] > 0 ? &b.lists[1] : NULL};
    int result = 0;
    for (size_t turn = 0; turn < (s->form == PREPARED ? 3 : 1) && result == 0; turn++) {
        fill(s, &b, rank, turn * 19);
        expect(s, &b, rank, turn * 19);
        const enum tutti_status status = form_run(s->form, &c, comm, &prepared);
        result =
            status == TUTTI_OK ? check(s, &b, rank) : complain(s, rank, tutti_status_name(status));
        /* the lists were copied when the call was made: what becomes of ours does not matter */
        for (int side = 0; side < 2; side++)
            if (s->form == PREPARED && b.blocks[side] > 0)
                memset(b.tensors[side], 0xee,
                       b.lists[side].tensor_count * sizeof(struct tutti_tensor));
    }
    tutti_prepared_free(prepared);
    tutti_op_free(c.call.op);
    release_buffers(&b);
    return result;
}

/* ---------------------------------------------------------------------------------------- tests */

static struct scenario draw_scenario(enum collective collective, int size, uint64_t *random)
{
    static const size_t counts[] = {0, 1, 2, 17, 300, 4001, 30011};
    struct scenario s = {.collective = collective,
                         .dtype = (enum tutti_dtype)(spread_random(random) % DTYPE_COUNT),
                         .root = (int)(spread_random(random) % (uint64_t)size),
                         .form = (enum form)(spread_random(random) % FORM_COUNT),
                         .in_place = spread_random(random) % 2,
                         .count = counts[spread_random(random) % 7],
                         .size = size};
    do s.kind = (enum op)(spread_random(random) % OP_COUNT);
    while (!elements_supported(s.kind, s.dtype));
    return s;
}

static int run_scenarios(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const int *const count = context;
    for (int i = 0; i < *count; i++) {
        uint64_t random = elements_mixed(seed, (uint64_t)i);
        const struct scenario s =
            draw_scenario((enum collective)(i % COLLECTIVE_BARRIER), size, &random);
        if (run_scenario(&s, comm, rank, elements_mixed(random, (uint64_t)rank)) != 0) return 1;
    }
    return 0;
}

static int run_algorithms(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)context;
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *const a = &algo_list[i];
        if (a->collective == COLLECTIVE_BARRIER || !algo_supports(a, size)) continue;
        if (is_left_out((unsigned)(i + size))) continue;
        uint64_t random = elements_mixed(seed, (uint64_t)i);
        struct scenario s = draw_scenario(a->collective, size, &random);
        s.algorithm = a->name;
        if (s.kind == OP_USER) s.kind = OP_SUM;
        if (run_scenario(&s, comm, rank, elements_mixed(random, (uint64_t)rank)) != 0) return 1;
    }
    return 0;
}

static const struct tutti_comm_options comm_options = {.size_bytes =
                                                           sizeof(struct tutti_comm_options),
                                                       .rank = -1,
                                                       .size = -1,
                                                       .timeout_ns = 20000000000u};

static void lists_are_their_tensors_among_threads(void **state)
{
    (void)state;
    static const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int size = 1; size <= 9; size++)
        assert_int_equal(ranks_run(size, &options, run_scenarios, &(int){some_of(120)}), 0);
}

static void lists_are_their_tensors_among_processes(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    static const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int size = 1; size <= 6; size++)
        assert_int_equal(ranks_run(size, &options, run_scenarios, &(int){some_of(120)}), 0);
}

static void every_algorithm_takes_lists(void **state)
{
    (void)state;
    static const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int size = 2; size <= 8; size++)
        assert_int_equal(ranks_run(size, &options, run_algorithms, NULL), 0);
}

/* What does not fit is refused before anything is sent: the communicator goes on as if it had not
 * been called. */
static int wrong_lists(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    int32_t data[8] = {1, 1, 1, 1, 1, 1, 1, 1}, sum = 1;
    const struct tutti_tensor three = {data, 3}, four = {data + 4, 4}, nowhere = {NULL, 3},
                              huge[] = {{data, SIZE_MAX / 4}, {data, SIZE_MAX / 4}};
    const struct tutti_list send = {&three, 1}, longer = {&four, 1}, null_data = {&nowhere, 1},
                            null_tensors = {NULL, 1}, too_long = {huge, 2}, empty = {NULL, 0};
    RANKS_EXPECT(tutti_allreduce_list(&send, &longer, TUTTI_INT32, TUTTI_SUM, comm) ==
                 TUTTI_INVALID_COUNT);
    RANKS_EXPECT(tutti_allreduce_list(&send, &null_data, TUTTI_INT32, TUTTI_SUM, comm) ==
                 TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_allreduce_list(&null_tensors, &send, TUTTI_INT32, TUTTI_SUM, comm) ==
                 TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_allreduce_list(NULL, &send, TUTTI_INT32, TUTTI_SUM, comm) ==
                 TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_allreduce_list(&too_long, &too_long, TUTTI_INT32, TUTTI_SUM, comm) ==
                 TUTTI_INVALID_COUNT);
    if (size > 1)
        RANKS_EXPECT(tutti_allgather_list(&send, &longer, TUTTI_INT32, comm) == TUTTI_INVALID_COUNT);
    RANKS_EXPECT(tutti_allreduce_list(&empty, &empty, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(sum == size);
    for (int i = 0; i < 8; i++) RANKS_EXPECT(data[i] == 1);
    return 0;
}

static void lists_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct ranks_options options = {.deadline_ms = 30000,
                                                 .comm_options = &comm_options};
    assert_int_equal(ranks_run(3, &options, wrong_lists, NULL), 0);
}

/* Tensors of 8 KiB and some more: large enough to be read where they lie, and many in what a link
 * takes as one. */
static int many_tensors(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { TENSORS = 30, RANKS = 6, STRIDE = 4200 };
    static const size_t counts[] = {4097, 1365, 1365, 1365};
    int32_t *const in = malloc(sizeof *in * TENSORS * STRIDE), *const out =
                                                                   malloc(sizeof *out * TENSORS *
                                                                          STRIDE * RANKS);
    struct tutti_tensor sent[TENSORS], received[TENSORS * RANKS];
    RANKS_EXPECT(in != NULL && out != NULL && size <= RANKS);
    for (int round = 0; round < 12; round++) {
        const bool gathers = round % 2 == 0;
        const size_t blocks = gathers ? (size_t)size : 1;
        for (size_t t = 0; t < TENSORS; t++) {
            sent[t] = (struct tutti_tensor){in + t * STRIDE, gathers ? 2050 : counts[t % 4]};
            for (size_t i = 0; i < sent[t].count; i++) in[t * STRIDE + i] = rank + (int)(t + i);
        }
        for (size_t t = 0; t < TENSORS * blocks; t++)
            received[t] = (struct tutti_tensor){out + t * STRIDE, sent[t % TENSORS].count};
        const struct tutti_list send = {sent, gathers ? TENSORS : 4 * (size_t)size},
                                recv = {received, gathers ? TENSORS * blocks : 4 * (size_t)size};
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.algorithm = gathers ? "direct" : "twoshot";
        RANKS_EXPECT((gathers ? tutti_allgather_list_with(&send, &recv, TUTTI_INT32, &options, comm)
                              : tutti_allreduce_list_with(&send, &recv, TUTTI_INT32, TUTTI_SUM,
                                                          &options, comm)) == TUTTI_OK);
        for (size_t t = 0; t < recv.tensor_count; t++)
            for (size_t i = 0; i < received[t].count; i++) {
                const int32_t here = (int32_t)(t % TENSORS + i), got = out[t * STRIDE + i];
                RANKS_EXPECT(got == (gathers ? (int32_t)(t / TENSORS) + here
                                             : size * here + size * (size - 1) / 2));
            }
    }
    free(in);
    free(out);
    return 0;
}

static void many_tensors_that_are_read_where_they_lie_do_not_stick(void **state)
{
    (void)state;
    static const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 60000, .comm_options = &comm_options};
    for (int size = 3; size <= 6; size++)
        assert_int_equal(ranks_run(size, &options, many_tensors, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_their_tensors_among_threads),
        cmocka_unit_test(lists_are_their_tensors_among_processes),
        cmocka_unit_test(every_algorithm_takes_lists),
        cmocka_unit_test(lists_that_do_not_fit_are_refused),
        cmocka_unit_test(many_tensors_that_are_read_where_they_lie_do_not_stick),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
