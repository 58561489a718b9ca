#include "tests/gpu/device_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/gpu/device_driver.h"
#include "tests/kit/elements.h"

enum { PIECES_MAX = 64, SHIFT_MAX = 17 };

/* -------------------------------------------------------------------------------------- drawing */

static bool may_vary(enum collective collective)
{
    return collective == COLLECTIVE_GATHER || collective == COLLECTIVE_SCATTER ||
           collective == COLLECTIVE_ALLGATHER || collective == COLLECTIVE_REDUCE_SCATTER ||
           collective == COLLECTIVE_ALLTOALL;
}

/* How many elements rank `from` sends to rank `to`, or the block of rank `from` in all but
 * alltoall. */
static size_t count_of(const struct device_case *c, int from, int to)
{
    return c->collective == COLLECTIVE_ALLTOALL ? c->counts[from][to] : c->counts[0][from];
}

static size_t draw_count(uint64_t style, size_t place, uint64_t *random)
{
    const uint64_t r = spread_random(random);
    switch (style) {
    case 0: return r % 4;
    case 1: return r % 3 != 0 ? 0 : 1 + (r >> 8) % 50;
    case 2: return place == 1 ? 20011 : 0;
    default: return (r >> 8) % (r % 5 == 0 ? 12001 : 300);
    }
}

static void draw_counts(struct device_case *c, uint64_t *random)
{
    static const size_t counts[] = {0, 1, 17, 333, 333, 4099, 16389, 70003};
    const uint64_t style = spread_random(random) % 4;
    const size_t all = counts[spread_random(random) % (sizeof counts / sizeof *counts)];
    for (int from = 0; from < c->size; from++)
        for (int to = 0; to < c->size; to++)
            c->counts[from][to] = c->shape != CALL_VARYING
                                      ? all
                                      : draw_count(style, (size_t)((from + to) % c->size), random);
    for (int from = 0; c->in_place && from < c->size; from++) /* as much back as there */
        for (int to = 0; c->collective == COLLECTIVE_ALLTOALL && to < from; to++)
            c->counts[from][to] = c->counts[to][from];
}

/* A function as the operation runs on the CPU: then all ranks have their buffers in its memory. */
static bool suits(const struct device_case *c, enum op kind)
{
    if (!collective_reduces(c->collective)) return true;
    if (kind == OP_USER && (c->placement != ON_HOST || c->algorithm != NULL)) return false;
    return elements_supported(kind, c->dtype);
}

void device_case_draw(struct device_case *c, uint64_t draw)
{
    uint64_t random = draw;
    c->draw = elements_mixed(draw, 77);
    c->dtype = (enum tutti_dtype)(spread_random(&random) % DTYPE_COUNT);
    c->root = (int)(spread_random(&random) % (uint64_t)c->size);
    c->form = (enum form)(spread_random(&random) % FORM_COUNT);
    c->streaming = (enum streaming)(spread_random(&random) % 3);
    const uint64_t where = spread_random(&random) % 8;
    c->placement = where < 3   ? ALL_ON_DEVICE
                   : where < 5 ? SOME_RANKS
                   : where < 7 ? SOME_BUFFERS
                               : ON_HOST;
    const uint64_t shape = spread_random(&random) % 8;
    c->shape = CALL_PLAIN;
    if (shape < 2 && c->collective != COLLECTIVE_BARRIER) c->shape = CALL_LIST;
    if (shape >= 6 && c->algorithm == NULL && may_vary(c->collective)) c->shape = CALL_VARYING;
    c->in_place = spread_random(&random) % 2 == 0;
    c->deterministic = c->algorithm == NULL && spread_random(&random) % 4 == 0;
    c->without_displs = spread_random(&random) % 3 == 0;
    c->is_pinned = spread_random(&random) % 2 == 0;
    do c->kind = (enum op)(spread_random(&random) % OP_COUNT);
    while (!suits(c, c->kind));
    draw_counts(c, &random);
}

void device_case_set_type(struct device_case *c, enum tutti_dtype dtype, enum op kind)
{
    c->dtype = dtype;
    c->kind = kind;
}

bool device_case_in_stream(const struct device_case *c, int rank)
{
    if (c->streaming == SOME_IN_STREAMS) return (c->draw >> (32 + rank % 16) & 1) != 0;
    return c->streaming == ALL_IN_STREAMS;
}

static bool is_on_device(const struct device_case *c, int rank, int side)
{
    if (c->placement == ALL_ON_DEVICE) return true;
    if (c->placement == ON_HOST) return false;
    const int of = c->placement == SOME_RANKS ? rank : 2 * rank + side;
    return (c->draw >> (of % 32) & 1) != 0;
}

/* ---------------------------------------------------------------------------------------- rooms */

void device_room_open(struct device_room *room)
{
    room->memory[0] = device_driver_allocate(DEVICE_CASE_BYTES);
    room->memory[1] = device_driver_map(DEVICE_CASE_BYTES, true);
    for (int side = 0; side < 2; side++) {
        room->pinned[side] = device_driver_pinned(DEVICE_CASE_BYTES);
        room->images[side] = device_driver_pinned(DEVICE_CASE_BYTES);
    }
    room->stream = device_driver_stream();
}

void device_room_close(struct device_room *room)
{
    device_driver_free(room->memory[0]);
    device_driver_unmap(room->memory[1], DEVICE_CASE_BYTES);
    for (int side = 0; side < 2; side++) {
        device_driver_free_pinned(room->pinned[side]);
        device_driver_free_pinned(room->images[side]);
    }
    device_driver_free_stream(room->stream);
}

/* -------------------------------------------------------------------------------------- buffers */

/* Counts of the blocks of one side. */
static void count_blocks(const struct device_run *run, int side, size_t *counts)
{
    const struct device_case *const c = run->c;
    const size_t blocks = run->sides[side].blocks;
    for (int b = 0; b < (int)blocks; b++) {
        if (c->collective == COLLECTIVE_ALLTOALL)
            counts[b] = side == 0 ? count_of(c, run->rank, b) : count_of(c, b, run->rank);
        else
            counts[b] = count_of(c, blocks == 1 ? run->rank : b, 0);
    }
}

/* Into a few tensors, some of them empty. */
static size_t cut(size_t total, size_t *counts, uint64_t *random)
{
    const size_t pieces = 1 + spread_random(random) % 12;
    for (size_t i = 0; i < pieces; i++) {
        counts[i] = spread_random(random) % 4 == 0 ? 0 : spread_random(random) % (total + 1);
        if (i + 1 == pieces) counts[i] = total;
        total -= counts[i];
    }
    return pieces;
}

static bool init_spread(struct device_run *run, int side, uint64_t *random)
{
    const struct device_case *const c = run->c;
    struct device_side *const it = &run->sides[side];
    size_t counts[PIECES_MAX], pieces = it->blocks, total = 0;
    count_blocks(run, side, counts);
    for (size_t b = 0; b < it->blocks; b++) total += counts[b];
    if (c->shape == CALL_LIST) pieces = cut(total, counts, random);
    const bool is_packed =
        c->shape == CALL_PLAIN ||
        (c->shape == CALL_VARYING && (c->without_displs || it->blocks == 1 ||
                                      (c->collective == COLLECTIVE_REDUCE_SCATTER && side == 0)));
    const enum spread_order order =
        is_packed ? SPREAD_PACKED : (enum spread_order)(spread_random(random) % 3);
    const size_t shift =
        spread_random(random) % 2 == 0 ? 0 : (size_t)(spread_random(random) % SHIFT_MAX);
    return spread_init(&it->spread, counts, pieces, tutti_dtype_size(c->dtype), order, shift,
                       random);
}

static void choose_place(struct device_run *run, int side)
{
    struct device_side *const it = &run->sides[side];
    it->place = is_on_device(run->c, run->rank, side) ? SIDE_ON_DEVICE
                : run->c->is_pinned                   ? SIDE_PINNED
                                                      : SIDE_HERE;
    if (it->spread.bytes > DEVICE_CASE_BYTES) abort(); /* whoever changes the counts sees that */
    it->target = it->place == SIDE_ON_DEVICE ? run->room->memory[side]
                 : it->place == SIDE_PINNED  ? run->room->pinned[side]
                                             : it->spread.memory;
}

/* The side in whose spread a side lies. */
static struct device_side *home_of(struct device_run *run, int side)
{
    return run->sides[side].spread.memory != NULL ? &run->sides[side] : &run->sides[1 - side];
}

static bool is_inside(const struct device_run *run, int side)
{
    return run->in_place && run->sides[side].spread.memory == NULL;
}

static unsigned char *address_in(const struct device_side *home, const void *in_spread)
{
    return home->target + ((const unsigned char *)in_spread - home->spread.memory);
}

static bool init_sides(struct device_run *run, uint64_t *random)
{
    const struct device_case *const c = run->c;
    struct device_side *const sides = run->sides;
    sides[0].blocks = test_send_blocks(c->collective, run->rank, c->size, c->root);
    sides[1].blocks = test_recv_blocks(c->collective, run->rank, c->size, c->root);
    run->in_place = c->in_place && sides[0].blocks > 0 && sides[1].blocks > 0;
    const int larger = sides[0].blocks > sides[1].blocks ? 0 : 1;
    for (int r = 0; run->in_place && sides[0].blocks != sides[1].blocks && r < run->rank; r++)
        run->own += count_of(c, r, 0);
    for (int side = 0; side < 2; side++) {
        if (sides[side].blocks == 0 || (run->in_place && side != larger)) continue;
        if (!init_spread(run, side, random)) return false;
        choose_place(run, side);
    }
    return true;
}

static size_t total_of(const struct device_run *run, int side)
{
    size_t counts[PIECES_MAX], total = 0;
    count_blocks(run, side, counts);
    for (size_t b = 0; b < run->sides[side].blocks; b++) total += counts[b];
    return total;
}

/* What the call is given for one side. */
static bool describe_side(struct device_run *run, int side)
{
    struct device_side *const it = &run->sides[side], *const home = home_of(run, side);
    struct form_call *const call = &run->call;
    const struct spread *const spread = &home->spread;
    if (it->blocks == 0) return true;
    unsigned char *first = spread->base;
    if (is_inside(run, side) && it->blocks != home->blocks && run->c->shape != CALL_LIST)
        first += spread->offsets[run->rank] * spread->element_bytes;
    if (side == 0)
        call->call.send = address_in(home, first);
    else
        call->call.recv = address_in(home, first);
    if (run->c->shape == CALL_VARYING) {
        const size_t *const displs = run->c->without_displs ? NULL : spread->offsets;
        *(side == 0 ? &call->send_counts : &call->recv_counts) = spread->counts;
        *(side == 0 ? &call->send_displs : &call->recv_displs) = displs;
    }
    if (run->c->shape != CALL_LIST) return true;
    it->tensors = calloc(spread->piece_count + 1, sizeof *it->tensors);
    if (it->tensors == NULL) return false;
    it->list.tensors = it->tensors;
    it->list.tensor_count = spread_tensors(spread, is_inside(run, side) ? run->own : 0,
                                           total_of(run, side), it->tensors);
    for (size_t t = 0; t < it->list.tensor_count; t++)
        it->tensors[t].data = address_in(home, it->tensors[t].data);
    *(side == 0 ? &call->send_list : &call->recv_list) = &it->list;
    return true;
}

/* ------------------------------------------------------------------------------------- elements */

/* What a block holds, from which index on: no two alike. */
static size_t index_of(size_t block, unsigned turn)
{
    return block * 37 + turn * 101;
}

/* The block's number among all that are sent. */
static size_t name_of(const struct device_case *c, int side, size_t block, int rank)
{
    switch (c->collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return side == 0 ? (size_t)rank : block;
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return side == 0 ? block : (size_t)rank;
    default: return 0;
    }
}

/* Side 0 into memory, side 1 into what is expected. */
static void write_blocks(struct device_run *run, int side, unsigned turn)
{
    const struct device_case *const c = run->c;
    const bool reduces = collective_reduces(c->collective);
    size_t counts[PIECES_MAX], place = is_inside(run, side) ? run->own : 0;
    count_blocks(run, side, counts);
    for (size_t block = 0; block < run->sides[side].blocks; block++) {
        struct elements table;
        int from = run->rank;
        if (side == 1) {
            from = (int)block;
            if (c->collective == COLLECTIVE_BROADCAST || c->collective == COLLECTIVE_SCATTER)
                from = c->root;
        }
        if (!reduces)
            elements_bytes(&table, c->dtype, from);
        else if (side == 0)
            elements_contribution(&table, c->dtype, c->kind, from, c->size);
        else
            elements_result(&table, c->dtype, c->kind, c->size);
        spread_put(&home_of(run, side)->spread, side == 1, place, counts[block], &table,
                   index_of(name_of(c, side, block, run->rank), turn));
        place += counts[block];
    }
}

/* In memory, and what is expected of it. */
static void fill(struct device_run *run, unsigned turn)
{
    struct device_side *const recv = &run->sides[1];
    if (recv->spread.memory != NULL) spread_poison(&recv->spread, 0, recv->spread.count);
    write_blocks(run, 0, turn);
    for (int side = 0; side < 2; side++)
        if (run->sides[side].spread.memory != NULL) spread_expect(&run->sides[side].spread);
    write_blocks(run, 1, turn);
}

/* In the order of the stream, or at once. */
static void put(struct device_run *run)
{
    for (int side = 0; side < 2; side++) {
        struct device_side *const it = &run->sides[side];
        const size_t bytes = it->spread.bytes;
        unsigned char *const image = run->room->images[side];
        if (it->spread.memory == NULL || it->place == SIDE_HERE) continue;
        memcpy(image, it->spread.memory, bytes);
        if (run->in_stream && it->place == SIDE_ON_DEVICE)
            device_driver_put_later(it->target, image, bytes, run->room->stream);
        else if (run->in_stream)
            device_driver_move_later(it->target, image, bytes, run->room->stream);
        else if (it->place == SIDE_ON_DEVICE)
            device_driver_put(it->target, image, bytes);
        else
            memcpy(it->target, image, bytes);
    }
}

static void get_later(struct device_run *run)
{
    for (int side = 0; side < 2; side++) {
        struct device_side *const it = &run->sides[side];
        unsigned char *const image = run->room->images[side];
        if (it->spread.memory == NULL || it->place == SIDE_HERE) continue;
        if (it->place == SIDE_ON_DEVICE)
            device_driver_get_later(image, it->target, it->spread.bytes, run->room->stream);
        else
            device_driver_move_later(image, it->target, it->spread.bytes, run->room->stream);
    }
}

/* The call is over, and what was to be got later is there. */
static void get(struct device_run *run)
{
    for (int side = 0; side < 2; side++) {
        struct device_side *const it = &run->sides[side];
        unsigned char *const image = run->room->images[side];
        if (it->spread.memory == NULL || it->place == SIDE_HERE) continue;
        if (!run->in_stream && it->place == SIDE_ON_DEVICE)
            device_driver_get(image, it->target, it->spread.bytes);
        memcpy(it->spread.memory,
               run->in_stream || it->place == SIDE_ON_DEVICE ? image : it->target, it->spread.bytes);
    }
}

/* ----------------------------------------------------------------------------------------- runs */

static int complain(const struct device_run *run, const char *what)
{
    static const char *const placements[] = {"on devices", "of some ranks on devices",
                                             "some on devices", "in the host's memory"};
    static const char *const shapes[] = {"", "_list", "v"};
    static const char *const streams[] = {"", ", in streams", ", some in streams"};
    const struct device_case *const c = run->c;
    fprintf(
        stderr,
        "rank %d of %d: %s%s by %s, count %zu, %s %s, root %d, %s%s%s%s, buffers %s%s: %s (%s)\n",
        run->rank, c->size, collective_name(c->collective), shapes[c->shape],
        c->algorithm == NULL ? "choice" : c->algorithm, c->counts[0][0], tutti_dtype_name(c->dtype),
        op_kind_name(c->kind), c->root, form_name(c->form), streams[c->streaming],
        run->in_place ? ", in place" : "", c->deterministic ? ", deterministic" : "",
        placements[c->placement], c->is_pinned ? ", pinned" : "", what, tutti_error_message());
    return 1;
}

static int check(const struct device_run *run)
{
    for (int side = 0; side < 2; side++) {
        long byte;
        char what[80];
        const struct spread *const spread = &run->sides[side].spread;
        if (spread->memory == NULL || !spread_is_wrong(spread, &byte)) continue;
        snprintf(what, sizeof what, "byte %ld of %s is wrong", byte, side == 0 ? "send" : "recv");
        return complain(run, what);
    }
    return 0;
}

static void release(struct device_run *run)
{
    if (run->prepared != NULL && tutti_prepared_free(run->prepared) != TUTTI_OK) abort();
    if (run->call.call.op != NULL) tutti_op_free(run->call.call.op);
    for (int side = 0; side < 2; side++) {
        spread_release(&run->sides[side].spread);
        free(run->sides[side].tensors);
    }
}

/* Makes the call, or starts a prepared one. A call in a stream is a started one for the other
 * ranks. */
static void call(struct device_run *run)
{
    const enum form form = run->form;
    if (form == STARTED || (form == PREPARED && run->prepared == NULL))
        run->status = form_issue(form, &run->call, run->comm, &run->request, &run->prepared);
    else if (form != PREPARED)
        run->status = form_run(form, &run->call, run->comm, &run->prepared);
    if (form == PREPARED && run->status == TUTTI_OK)
        run->status = tutti_start(run->prepared, &run->request);
}

bool device_run_begin(struct device_run *run, const struct device_case *c,
                      const struct device_room *room, struct tutti_comm *comm, int rank)
{
    *run = (struct device_run){.c = c, .room = room, .comm = comm, .rank = rank};
    uint64_t random = elements_mixed(c->draw, (uint64_t)rank);
    run->in_stream = device_case_in_stream(c, rank);
    run->form = c->form;
    if (c->form == BLOCKING && c->streaming == SOME_IN_STREAMS && !run->in_stream)
        run->form = STARTED;
    run->options = (struct tutti_call_options)TUTTI_CALL_OPTIONS_INIT;
    run->options.algorithm = c->algorithm;
    run->options.deterministic = c->deterministic;
    if (run->in_stream) run->options.stream = room->stream;
    run->options.on_stream = run->in_stream;
    run->call.call = (struct test_call){.collective = c->collective,
                                        .count = count_of(c, rank, rank),
                                        .dtype = c->dtype,
                                        .op = elements_op(c->kind),
                                        .root = c->root,
                                        .options = &run->options};
    run->call.shape = c->shape;
    if (run->call.call.op == NULL || !init_sides(run, &random) || !describe_side(run, 0) ||
        !describe_side(run, 1)) {
        release(run);
        return false;
    }
    fill(run, 0);
    put(run);
    call(run);
    return true;
}

int device_run_end(struct device_run *run)
{
    int result = 0;
    for (unsigned turn = 0; result == 0; turn++) {
        if (run->in_stream && run->status == TUTTI_OK) get_later(run);
        if (run->request != NULL && run->status == TUTTI_OK)
            run->status = tutti_wait(&run->request);
        if (run->in_stream) device_driver_finish(run->room->stream);
        get(run);
        result =
            run->status == TUTTI_OK ? check(run) : complain(run, tutti_status_name(run->status));
        if (run->form != PREPARED || turn == 2 || result != 0) break;
        fill(run, turn + 1);
        put(run);
        call(run);
    }
    release(run);
    return result;
}
