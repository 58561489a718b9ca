#include "tests/programs/program_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/encoding.h"
#include "base/encoding_wish.h"
#include "tests/kit/elements.h"
#include "tests/programs/program_message.h"

enum { SEND, RECV };

/* --------------------------------------------------------------------------------------- blocks */

/* Elements that go from one rank to another, or of the block of a rank where both are the same. */
static size_t count_between(const struct random_step *s, int from, int to)
{
    const bool both_ways = s->in_place && from > to;
    const uint64_t h =
        elements_mixed((uint64_t)s->salt, (uint64_t)(both_ways ? to * 64 + from : from * 64 + to));
    const size_t count = (size_t)s->count;
    if (s->shape != CALL_VARYING) return count;
    switch (s->style) {
    case PROGRAM_SKEWED: return (from + to) % 3 == 1 ? count * 3 : h % 4;
    case PROGRAM_ZEROS: return h % 3 != 0 ? 0 : count;
    case PROGRAM_FEW: return h % 4;
    default: return count / 2 + h % (count + 1);
    }
}

static size_t count_at(const struct program_work *w, int side, int block)
{
    const struct random_step *const s = w->step;
    const int rank = w->on->rank;
    if (s->collective == COLLECTIVE_ALLTOALL)
        return side == SEND ? count_between(s, rank, block) : count_between(s, block, rank);
    const bool is_mine = w->blocks[side] == 1 && w->on->size > 1;
    return is_mine ? count_between(s, rank, rank) : count_between(s, block, block);
}

static size_t count_before(const struct program_work *w, int side, int end)
{
    size_t count = 0;
    for (int block = 0; block < end; block++) count += count_at(w, side, block);
    return count;
}

/* -------------------------------------------------------------------------------------- buffers */

static int larger_side(const struct program_work *w)
{
    return w->blocks[SEND] > w->blocks[RECV] ? SEND : RECV;
}

static bool is_within_other(const struct program_work *w, int side)
{
    return w->sides[side].memory == NULL;
}

static struct spread *spread_of(struct program_work *w, int side)
{
    return &w->sides[is_within_other(w, side) ? 1 - side : side];
}

/* Where the elements of a side begin among those of its spread. */
static size_t place_of(const struct program_work *w, int side)
{
    const bool is_smaller = is_within_other(w, side) && w->blocks[0] != w->blocks[1];
    return is_smaller ? count_before(w, 1 - side, w->on->rank) : 0;
}

static void *pointer_of(struct program_work *w, int side)
{
    const struct spread *const spread = spread_of(w, side);
    size_t offset = place_of(w, side);
    if (w->blocks[side] == 0) return NULL;
    if (w->step->shape == CALL_VARYING)
        offset = is_within_other(w, side) && w->blocks[0] != w->blocks[1]
                     ? spread->offsets[w->on->rank]
                     : 0;
    return spread->base + offset * spread->element_bytes;
}

/* Counts of the pieces of a side: its blocks, the tensors into which this rank cuts it, or one. */
static size_t cut(const struct program_work *w, int side, size_t *counts, uint64_t *random)
{
    enum { TENSORS = 7 };
    size_t left = count_before(w, side, (int)w->blocks[side]), pieces = 1;
    if (w->step->shape == CALL_VARYING) {
        for (size_t b = 0; b < w->blocks[side]; b++) counts[b] = count_at(w, side, (int)b);
        return w->blocks[side];
    }
    if (w->step->shape == CALL_LIST) pieces += spread_random(random) % TENSORS;
    for (size_t i = 0; i < pieces; i++) {
        counts[i] = i + 1 == pieces ? left : spread_random(random) % (left + 1);
        left -= counts[i];
    }
    return pieces;
}

static bool has_displs(const struct program_work *w)
{
    return w->step->salt % 3 != 0;
}

static bool init_side(struct program_work *w, int side)
{
    const struct random_step *const s = w->step;
    uint64_t random = elements_mixed((uint64_t)s->salt, (uint64_t)(w->on->rank * 2 + side));
    size_t counts[PROGRAM_RANKS_MAX];
    const size_t pieces = cut(w, side, counts, &random);
    const bool lies_apart =
        s->shape == CALL_LIST || (s->shape == CALL_VARYING && pieces > 1 && has_displs(w) &&
                                  (s->collective != COLLECTIVE_REDUCE_SCATTER || side == RECV));
    return spread_init_in(&w->sides[side], (enum spread_memory)s->memory, counts, pieces,
                          tutti_dtype_size((enum tutti_dtype)s->dtype),
                          lies_apart ? (enum spread_order)(spread_random(&random) % 3)
                                     : SPREAD_PACKED,
                          (size_t)s->shift, &random);
}

static bool init_list(struct program_work *w, int side)
{
    struct spread *const spread = spread_of(w, side);
    w->tensors[side] = calloc(spread->piece_count + 1, sizeof *w->tensors[side]);
    if (w->tensors[side] == NULL) return false;
    w->lists[side].tensors = w->tensors[side];
    w->lists[side].tensor_count = spread_tensors(
        spread, place_of(w, side), count_before(w, side, (int)w->blocks[side]), w->tensors[side]);
    return true;
}

/* ----------------------------------------------------------------------------------- operations */

static void combine_commutatively(const void *left, const void *right, void *result, size_t count,
                                  enum tutti_dtype dtype, void *context)
{
    (void)context;
    const unsigned char *const l = left, *const r = right;
    for (size_t i = 0; i < count * tutti_dtype_size(dtype); i++)
        ((unsigned char *)result)[i] = l[i] ^ r[i];
}

static enum op kind_of(const struct random_step *s)
{
    return s->op == PROGRAM_OP_COMMUTATIVE ? OP_BXOR : (enum op)s->op;
}

static tutti_op make_op(const struct random_step *s)
{
    struct tutti_op_options options = TUTTI_OP_OPTIONS_INIT;
    tutti_op op;
    if (s->op != PROGRAM_OP_COMMUTATIVE) return elements_op(kind_of(s));
    options.combine = combine_commutatively;
    options.commutative = 1;
    return tutti_op_create(&options, &op) == TUTTI_OK ? op : NULL;
}

/* The algorithm of the step, or its plan in a file, where it can do what is asked: the same on all
 * ranks. */
static const char *algorithm_of(const struct random_step *s, int size,
                                char text[PROGRAM_ALGORITHM_BYTES])
{
    if (s->algorithm == 0) return NULL;
    const struct algorithm *const a = &algo_list[s->algorithm - 1];
    const bool varies = s->shape == CALL_VARYING && s->collective != COLLECTIVE_ALLGATHER &&
                        s->collective != COLLECTIVE_REDUCE_SCATTER;
    if (!algo_supports(a, size) || (a->needs_commutative && s->op == OP_USER) ||
        (s->deterministic && !a->deterministic) || (varies && !a->is_direct))
        return NULL;
    if (program_plans_has(s, size)) {
        program_plans_name(s, size, text);
        return text;
    }
    const bool has_radix = a->has_radix && s->radix > 0;
    snprintf(text, PROGRAM_ALGORITHM_BYTES, has_radix ? "%s/%d" : "%s", a->name, s->radix);
    return text;
}

static bool init_call(struct program_work *w)
{
    const struct random_step *const s = w->step;
    const enum collective collective = (enum collective)s->collective;
    const int rank = w->on->rank, size = w->on->size, root = s->rank % size;
    w->blocks[SEND] = test_send_blocks(collective, rank, size, root);
    w->blocks[RECV] = test_recv_blocks(collective, rank, size, root);
    const bool in_place = s->in_place && w->blocks[SEND] > 0 && w->blocks[RECV] > 0;
    for (int side = SEND; side <= RECV; side++)
        if (w->blocks[side] > 0 && (!in_place || side == larger_side(w)) && !init_side(w, side))
            return false;
    for (int side = SEND; side <= RECV && s->shape == CALL_LIST; side++)
        if (w->blocks[side] > 0 && !init_list(w, side)) return false;
    w->options.algorithm = algorithm_of(s, size, w->algorithm);
    const bool is_plain = w->options.algorithm == NULL && !s->deterministic && s->priority == 0 &&
                          !program_encodes(s);
    w->op = make_op(s);
    w->call = (struct form_call){.call = {collective, pointer_of(w, SEND), pointer_of(w, RECV),
                                          count_between(s, rank, rank), (enum tutti_dtype)s->dtype,
                                          w->op, root, is_plain ? NULL : &w->options},
                                 .shape = (enum call_shape)s->shape,
                                 .send_list = w->blocks[SEND] > 0 ? &w->lists[SEND] : NULL,
                                 .recv_list = w->blocks[RECV] > 0 ? &w->lists[RECV] : NULL,
                                 .send_counts = spread_of(w, SEND)->counts,
                                 .recv_counts = spread_of(w, RECV)->counts,
                                 .send_displs = has_displs(w) ? spread_of(w, SEND)->offsets : NULL,
                                 .recv_displs = has_displs(w) ? spread_of(w, RECV)->offsets : NULL};
    return w->op != NULL;
}

bool program_work_init(struct program_work *w, const struct random_step *step, int index,
                       const struct program_comm *on)
{
    *w = (struct program_work){
        .step = step, .index = index, .on = on, .options = TUTTI_CALL_OPTIONS_INIT};
    w->options.deterministic = step->deterministic;
    w->options.priority = step->priority;
    if (program_encodes(step)) {
        static const char *const links[] = {"hosts", "racks", "everywhere"};
        snprintf(w->encoding, sizeof w->encoding, "%s/%s/%s",
                 tutti_encoding_name((enum tutti_encoding)step->encoding), links[step->links],
                 step->required ? "required" : "allowed");
        w->options.encoding = w->encoding;
    }
    return step->verb == PROGRAM_CALL ? init_call(w) : program_message_init(w);
}

void program_work_release(struct program_work *w)
{
    (void)tutti_prepared_free(w->prepared);
    for (int side = SEND; side <= RECV; side++) {
        spread_release(&w->sides[side]);
        free(w->tensors[side]);
    }
    (void)tutti_op_free(w->op);
    *w = (struct program_work){0};
}

/* ------------------------------------------------------------------------------------- contents */

size_t program_work_index(const struct program_work *w, int block)
{
    return (size_t)(w->step->salt % 1000 + w->on->members[0] * 13 + w->turn * 101 + block * 37);
}

void program_work_given(const struct program_work *w, int rank, struct elements *table)
{
    const enum tutti_dtype dtype = (enum tutti_dtype)w->step->dtype;
    if (program_encodes(w->step))
        elements_contribution(table, dtype, OP_MAX, rank, w->on->size);
    else
        elements_bytes(table, dtype, rank);
}

/* A contribution to a sum is rounded by each rank at most; in units of several elements, by its
 * sender and by the owner of the sum. Sums of 16 bits are rounded besides. */
double program_work_tolerance(const struct program_work *w)
{
    const struct random_step *const s = w->step;
    const enum tutti_encoding encoding = (enum tutti_encoding)s->encoding;
    const double largest = elements_largest((enum tutti_dtype)s->dtype);
    if (!program_encodes(s)) return 0;
    const double share = encoding_error_max(encoding);
    if (s->verb == PROGRAM_MESSAGE || !collective_reduces((enum collective)s->collective))
        return largest * share;
    const int size = w->on->size, roundings = encoding_unit_elements(encoding) > 1 ? 2 : size;
    return largest * (pow(1 + share, roundings) * pow(1 + 0x1p-8, size) - 1) /
           (s->op == OP_AVG ? size : 1);
}

static void fill(struct program_work *w)
{
    const struct random_step *const s = w->step;
    const enum tutti_dtype dtype = (enum tutti_dtype)s->dtype;
    struct elements table;
    size_t place = place_of(w, SEND);
    if (collective_reduces((enum collective)s->collective))
        elements_contribution(&table, dtype, kind_of(s), w->on->rank, w->on->size);
    else
        program_work_given(w, w->on->rank, &table);
    for (int side = SEND; side <= RECV; side++)
        if (!is_within_other(w, side)) spread_poison(&w->sides[side], 0, w->sides[side].count);
    for (int block = 0; block < (int)w->blocks[SEND]; block++) {
        const size_t count = count_at(w, SEND, block);
        spread_put(spread_of(w, SEND), false, place, count, &table, program_work_index(w, block));
        place += count;
    }
}

/* Whose block of input, and which, becomes that block of output; of a reduction: everybody's. */
static void trace(const struct program_work *w, int block, int *source, int *source_block)
{
    const int root = w->step->rank % w->on->size;
    *source = block;
    *source_block = 0;
    switch (w->step->collective) {
    case COLLECTIVE_BROADCAST: *source = root; break;
    case COLLECTIVE_SCATTER:
        *source = root;
        *source_block = w->on->rank;
        break;
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_REDUCE_SCATTER: *source_block = w->on->rank; break;
    default: break;
    }
}

static void expect(struct program_work *w)
{
    const struct random_step *const s = w->step;
    const enum tutti_dtype dtype = (enum tutti_dtype)s->dtype;
    size_t place = place_of(w, RECV);
    for (int side = SEND; side <= RECV; side++)
        if (!is_within_other(w, side)) spread_expect(&w->sides[side]);
    for (int block = 0; block < (int)w->blocks[RECV]; block++) {
        struct elements table;
        int source, source_block;
        const size_t count = count_at(w, RECV, block);
        trace(w, block, &source, &source_block);
        if (collective_reduces((enum collective)s->collective))
            elements_result(&table, dtype, kind_of(s), w->on->size);
        else
            program_work_given(w, source, &table);
        spread_put(spread_of(w, RECV), true, place, count, &table,
                   program_work_index(w, source_block));
        place += count;
    }
}

/* ---------------------------------------------------------------------------------------- calls */

static enum tutti_status begin_call(struct program_work *w)
{
    const enum form form = (enum form)w->step->form;
    enum tutti_status status = TUTTI_OK;
    fill(w);
    expect(w);
    w->request_count = 1;
    if (form != PREPARED || w->prepared == NULL)
        status = form_issue(form, &w->call, w->on->comm, &w->requests[0], &w->prepared);
    if (form == PREPARED && status == TUTTI_OK) status = tutti_start(w->prepared, &w->requests[0]);
    return status;
}

enum tutti_status program_work_begin(struct program_work *w, bool grouped)
{
    w->is_open = true;
    w->turn++;
    return w->step->verb == PROGRAM_CALL ? begin_call(w) : program_message_begin(w, grouped);
}

enum tutti_status program_work_wait(struct program_work *w, int request, bool polls)
{
    struct tutti_request **const handle = &w->requests[request];
    if (*handle == NULL) return TUTTI_OK;
    const enum tutti_status status = polls ? tutti_test(handle) : tutti_wait(handle);
    if (status == TUTTI_IN_PROGRESS || status != TUTTI_OK)
        return status == w->statuses[request] ? TUTTI_OK : status;
    return w->statuses[request] == TUTTI_OK ? TUTTI_OK : TUTTI_INTERNAL;
}

bool program_work_replica(struct program_work *w, uint64_t *number)
{
    const struct random_step *const s = w->step;
    const bool is_alike = s->collective == COLLECTIVE_ALLREDUCE ||
                          s->collective == COLLECTIVE_ALLGATHER ||
                          s->collective == COLLECTIVE_BROADCAST;
    if (s->verb != PROGRAM_CALL || !program_encodes(s) || !is_alike) return false;
    *number = spread_number(spread_of(w, RECV), place_of(w, RECV),
                            count_before(w, RECV, (int)w->blocks[RECV]));
    return true;
}

const char *program_work_complaint(struct program_work *w, char text[160])
{
    const char *const complaint =
        w->step->verb == PROGRAM_MESSAGE ? program_message_complaint(w) : NULL;
    if (complaint != NULL) return complaint;
    if (w->step->verb == PROGRAM_CALL && w->blocks[RECV] > 0)
        spread_accept(spread_of(w, RECV), place_of(w, RECV),
                      count_before(w, RECV, (int)w->blocks[RECV]), (enum tutti_dtype)w->step->dtype,
                      program_work_tolerance(w));
    for (int side = SEND; side <= RECV; side++) {
        const struct spread *const spread = &w->sides[side];
        long byte;
        if (spread->memory == NULL || !spread_is_wrong(spread, &byte)) continue;
        const long bytes = (long)(spread->count * spread->element_bytes);
        snprintf(text, 160,
                 "byte %ld of %s is 0x%02x and not 0x%02x (turn %d, %ld bytes of elements)", byte,
                 side == SEND ? "send" : "recv", spread->base[byte],
                 spread->expected[byte + (spread->base - spread->memory)], w->turn, bytes);
        return text;
    }
    return NULL;
}
