#include "api/blocks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"

/* One of the two buffers while it is looked at. */
struct side {
    const char *name;
    const char *base;
    const size_t *counts,
        *displs;        /* one a rank; counts NULL: one block of `count`, displs NULL: no gaps */
    size_t block_count; /* 0: not looked at */
    size_t count;       /* elements in all */
};

/* --------------------------------------------------------------------------------------- counts */

static enum tutti_status count_all(const char *call, struct side *side, size_t element_bytes)
{
    const size_t limit = SIZE_MAX / 2 / element_bytes;
    if (side->counts == NULL) {
        if (side->count > limit)
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_%sv: %s must have at most %zu elements, has %zu", call,
                             side->name, limit, side->count);
        return TUTTI_OK;
    }
    side->count = 0;
    for (size_t r = 0; r < side->block_count; r++) {
        const size_t begin = side->displs != NULL ? side->displs[r] : side->count;
        if (side->counts[r] > limit || begin > limit - side->counts[r] ||
            side->count > limit - side->counts[r])
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_%sv: %s must end within %zu elements, but block %zu has %zu at "
                             "%zu",
                             call, side->name, limit, r, side->counts[r], begin);
        side->count += side->counts[r];
    }
    return TUTTI_OK;
}

static enum tutti_status no_counts(const struct arguments *a, const struct tutti_comm *comm,
                                   const char *name)
{
    return error_set(TUTTI_INVALID_COUNT,
                     "tutti_%sv: %s must be %d counts, one for each rank, is NULL",
                     collective_name(a->collective), name, comm->team.size);
}

/* The blocks of a v form: which buffer has counts depends on the collective and the rank. */
static enum tutti_status look_at_sides(const struct arguments *a, const struct tutti_comm *comm,
                                       struct side *send, struct side *recv)
{
    const size_t rank = (size_t)comm->team.rank;
    *send = (struct side){"send", a->send, NULL, NULL, blocks_sent(a, comm), a->count};
    *recv = (struct side){"recv", a->recv, NULL, NULL, blocks_received(a, comm), a->count};
    if (a->collective != COLLECTIVE_GATHER && a->collective != COLLECTIVE_ALLGATHER &&
        send->block_count > 0) {
        send->counts = a->blocks->send_counts;
        send->displs = a->blocks->send_displs;
        /* The parameter of reduce_scatterv has the name of what each rank gets. */
        if (send->counts == NULL)
            return no_counts(
                a, comm, a->collective == COLLECTIVE_REDUCE_SCATTER ? "recv_counts" : "send_counts");
    }
    if (a->collective != COLLECTIVE_SCATTER && a->collective != COLLECTIVE_REDUCE_SCATTER &&
        recv->block_count > 0) {
        recv->counts = a->blocks->recv_counts;
        recv->displs = a->blocks->recv_displs;
        if (recv->counts == NULL) return no_counts(a, comm, "recv_counts");
    }
    if (a->collective == COLLECTIVE_ALLGATHER) send->count = recv->counts[rank];
    if (a->collective == COLLECTIVE_REDUCE_SCATTER) recv->count = send->counts[rank];
    if (a->collective == COLLECTIVE_GATHER && recv->counts != NULL &&
        recv->counts[rank] != send->count)
        return error_set(
            TUTTI_INVALID_COUNT, "tutti_gatherv: send_count of the root must be what recv_counts has for it, %zu, is %zu",
            recv->counts[rank], send->count);
    if (a->collective == COLLECTIVE_SCATTER && send->counts != NULL &&
        send->counts[rank] != recv->count)
        return error_set(
            TUTTI_INVALID_COUNT,
            "tutti_scatterv: recv_count of the root must be what send_counts has for it, %zu, is "
            "%zu",
            send->counts[rank], recv->count);
    if (send->block_count == 0) send->count = 0;
    if (recv->block_count == 0) recv->count = 0;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------- segments */

/* Appends a piece of memory; pieces that follow each other are one segment. */
static void append(struct segment_of_buffer *segments, size_t *count, char *address, size_t bytes)
{
    if (bytes == 0) return;
    struct segment_of_buffer *last = *count > 0 ? &segments[*count - 1] : NULL;
    const size_t begin = last != NULL ? last->end : 0;
    if (last != NULL && last->address + (last->end - last->begin) == address) {
        last->end += bytes;
        return;
    }
    segments[(*count)++] = (struct segment_of_buffer){begin, begin + bytes, address};
}

/* A call's buffer of one segment is in one piece, whatever it was given as. */
static const void *settle(struct call_extra *extra, int which, const char *base)
{
    if (extra->segments[which] == NULL || extra->segment_counts[which] > 1) return base;
    if (extra->segment_counts[which] == 1) base = extra->segments[which][0].address;
    extra->segments[which] = NULL;
    return base;
}

static struct buffer buffer_of(const struct call *call, int which)
{
    return (struct buffer){.base = which == 0 ? (char *)(uintptr_t)call->send : call->recv,
                           .segments = call->extra->segments[which],
                           .segment_count = call->extra->segment_counts[which]};
}

/* Whether so many bytes from these offsets on are the same memory in both. */
static bool are_one(const struct buffer *a, size_t a_offset, const struct buffer *b,
                    size_t b_offset, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t run = bytes - done;
        const char *here = buffer_at(a, a_offset + done, &run);
        if (here != buffer_at(b, b_offset + done, &run)) return false;
        done += run;
    }
    return true;
}

static bool overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static bool overlaps_any(const char *address, size_t bytes, const struct buffer *b, size_t b_bytes)
{
    if (b->segments == NULL) return overlap(address, bytes, b->base, b_bytes);
    for (size_t s = 0; s < b->segment_count; s++)
        if (overlap(address, bytes, b->segments[s].address,
                    b->segments[s].end - b->segments[s].begin))
            return true;
    return false;
}

/* Whether two buffers overlap, each of at most one segment per rank. */
static bool buffers_overlap(const struct buffer *a, size_t a_bytes, const struct buffer *b,
                            size_t b_bytes)
{
    if (a_bytes == 0 || b_bytes == 0) return false;
    if (a->segments == NULL) return overlaps_any(a->base, a_bytes, b, b_bytes);
    for (size_t s = 0; s < a->segment_count; s++)
        if (overlaps_any(a->segments[s].address, a->segments[s].end - a->segments[s].begin, b,
                         b_bytes))
            return true;
    return false;
}

static int by_address(const void *a, const void *b)
{
    const char *const x = ((const struct segment_of_buffer *)a)->address,
                      *const y = ((const struct segment_of_buffer *)b)->address;
    return (x > y) - (x < y);
}

/* Whether blocks that are written lie on each other; in order of their addresses that is soon
 * seen. */
static enum tutti_status check_written_blocks(const char *call, const struct buffer *buffer)
{
    const size_t count = buffer->segment_count;
    bool ascends = true;
    for (size_t s = 1; s < count && ascends; s++)
        ascends = buffer->segments[s].address > buffer->segments[s - 1].address;
    struct segment_of_buffer *sorted = NULL;
    if (!ascends) {
        sorted = malloc(count * sizeof *sorted);
        if (sorted == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_%sv: out of memory", call);
        memcpy(sorted, buffer->segments, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_address);
    }
    const struct segment_of_buffer *s = sorted != NULL ? sorted : buffer->segments;
    bool good = true;
    for (size_t i = 1; i < count && good; i++)
        good = s[i - 1].address + (s[i - 1].end - s[i - 1].begin) <= s[i].address;
    free(sorted);
    if (good) return TUTTI_OK;
    return error_set(TUTTI_INVALID_BUFFER,
                     "tutti_%sv: blocks of recv must be apart, but some overlap", call);
}

/* ---------------------------------------------------------------------------------------- extra */

/* Room for counts (of `ranks` each) and segments in one allocation; all zero. */
static struct call_extra *make_extra(size_t ranks, const size_t segment_counts[2], bool has_input,
                                     bool has_output)
{
    const size_t counts = ((size_t)has_input + (size_t)has_output) * ranks;
    struct call_extra *extra =
        calloc(1, sizeof *extra + counts * sizeof(size_t) +
                      (segment_counts[0] + segment_counts[1]) * sizeof(struct segment_of_buffer));
    if (extra == NULL) return NULL;
    struct segment_of_buffer *segments = (struct segment_of_buffer *)(extra + 1);
    if (segment_counts[0] > 0) extra->segments[0] = segments;
    if (segment_counts[1] > 0) extra->segments[1] = segments + segment_counts[0];
    size_t *at = (size_t *)(segments + segment_counts[0] + segment_counts[1]);
    if (has_input) extra->input_counts = at, at += ranks;
    if (has_output) extra->output_counts = at;
    extra->count_bytes = counts * sizeof(size_t);
    return extra;
}

/* Counts, and segments where there are displacements. */
static void fill_side(const struct side *side, size_t element_bytes, size_t *counts,
                      struct segment_of_buffer *segments, size_t *segment_count)
{
    if (side->counts == NULL) return;
    memcpy(counts, side->counts, side->block_count * sizeof *counts);
    for (size_t r = 0; segments != NULL && r < side->block_count; r++)
        append(segments, segment_count,
               (char *)(uintptr_t)side->base + side->displs[r] * element_bytes,
               side->counts[r] * element_bytes);
}

static enum tutti_status check_present(const char *call, const struct side *side,
                                       size_t element_bytes)
{
    if (side->count == 0 || side->base != NULL) return TUTTI_OK;
    char name[32];
    snprintf(name, sizeof name, "%sv", call);
    return api_check_buffer(name, side->name, side->base, side->count * element_bytes);
}

/* The offset in one buffer at which the single block of the other lies, if the call is in place. */
static size_t own_offset(const struct side *blocks, size_t rank)
{
    size_t begin = 0;
    for (size_t r = 0; r < rank; r++) begin += blocks->counts[r];
    return begin;
}

static bool varying_is_in_place(const struct arguments *a, const struct tutti_comm *comm,
                                const struct side *send, const struct side *recv,
                                const struct call *call, size_t element_bytes)
{
    const struct buffer input = buffer_of(call, 0), output = buffer_of(call, 1);
    const size_t rank = (size_t)comm->team.rank;
    if (send->count == 0 || recv->count == 0) return false;
    if (a->collective == COLLECTIVE_ALLTOALL)
        return memcmp(send->counts, recv->counts, (size_t)comm->team.size * sizeof(size_t)) == 0 &&
               are_one(&input, 0, &output, 0, send->count * element_bytes);
    if (collective_gathers(a->collective))
        return are_one(&input, 0, &output, own_offset(recv, rank) * element_bytes,
                       send->count * element_bytes);
    return are_one(&input, own_offset(send, rank) * element_bytes, &output, 0,
                   recv->count * element_bytes);
}

enum tutti_status blocks_check_varying(const struct arguments *a, const struct tutti_comm *comm,
                                       struct call *call)
{
    const char *name = collective_name(a->collective);
    const size_t element_bytes = dtype_size(a->dtype);
    struct side send, recv;
    TRY(look_at_sides(a, comm, &send, &recv));
    TRY(count_all(name, &send, element_bytes));
    TRY(count_all(name, &recv, element_bytes));
    TRY(check_present(name, &send, element_bytes));
    TRY(check_present(name, &recv, element_bytes));

    const size_t segment_counts[2] = {send.displs != NULL ? send.block_count : 0,
                                      recv.displs != NULL ? recv.block_count : 0};
    call->extra = make_extra((size_t)comm->team.size, segment_counts, send.counts != NULL,
                             recv.counts != NULL);
    if (call->extra == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_%sv: out of memory", name);
    fill_side(&send, element_bytes, call->extra->input_counts, call->extra->segments[0],
              &call->extra->segment_counts[0]);
    fill_side(&recv, element_bytes, call->extra->output_counts, call->extra->segments[1],
              &call->extra->segment_counts[1]);
    call->send = settle(call->extra, 0, send.base);
    call->recv = (void *)(uintptr_t)settle(call->extra, 1, recv.base);
    call->what.varies = true;
    call->what.count = collective_scatters(a->collective) ? recv.count : send.count;
    call->in_place = varying_is_in_place(a, comm, &send, &recv, call, element_bytes);

    const struct buffer input = buffer_of(call, 0), output = buffer_of(call, 1);
    enum tutti_status status =
        output.segments != NULL ? check_written_blocks(name, &output) : TUTTI_OK;
    if (status == TUTTI_OK && !call->in_place &&
        buffers_overlap(&input, send.count * element_bytes, &output, recv.count * element_bytes))
        status = error_set(TUTTI_INVALID_BUFFER,
                           "tutti_%sv: send and recv must be apart or in place, but overlap", name);
    if (status != TUTTI_OK) free(call->extra);
    return status;
}

/* ----------------------------------------------------------------------------- lists of tensors */

static enum tutti_status count_list(const char *call, const char *name,
                                    const struct tutti_list *list, size_t element_bytes,
                                    size_t *count)
{
    const size_t limit = SIZE_MAX / 2 / element_bytes;
    *count = 0;
    if (list == NULL || (list->tensors == NULL && list->tensor_count > 0))
        return error_set(TUTTI_INVALID_BUFFER,
                         "tutti_%s_list: %s must be a list of tensors, is NULL", call, name);
    for (size_t t = 0; t < list->tensor_count; t++) {
        const struct tutti_tensor *tensor = &list->tensors[t];
        if (tensor->count > 0 && tensor->data == NULL)
            return error_set(TUTTI_INVALID_BUFFER,
                             "tutti_%s_list: tensor %zu of %s must be the address of %zu elements, "
                             "is NULL",
                             call, t, name, tensor->count);
        if (tensor->count > limit - *count)
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_%s_list: %s must have at most %zu elements, has more: %zu in "
                             "tensor %zu",
                             call, name, limit, tensor->count, t);
        *count += tensor->count;
    }
    return TUTTI_OK;
}

/* The count of a block, from the buffers that this rank has. */
static enum tutti_status block_count(const char *call, const size_t counts[2],
                                     const size_t blocks[2], size_t *count)
{
    const int which = blocks[1] > 0 ? 1 : 0;
    *count = counts[which] / blocks[which];
    for (int i = 0; i < 2; i++)
        if (blocks[i] > 0 && counts[i] != *count * blocks[i])
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_%s_list: send and recv must be %zu and %zu equal blocks, have "
                             "%zu and %zu elements",
                             call, blocks[0], blocks[1], counts[0], counts[1]);
    return TUTTI_OK;
}

static void fill_list(const struct tutti_list *list, size_t element_bytes,
                      struct segment_of_buffer *segments, size_t *segment_count)
{
    for (size_t t = 0; t < list->tensor_count; t++)
        append(segments, segment_count, list->tensors[t].data,
               list->tensors[t].count * element_bytes);
}

enum tutti_status blocks_check_lists(const struct arguments *a, const struct tutti_comm *comm,
                                     struct call *call)
{
    const char *name = collective_name(a->collective);
    const size_t element_bytes = dtype_size(a->dtype);
    const struct tutti_list *const lists[2] = {a->send, a->recv};
    static const char *const names[2] = {"send", "recv"};
    const size_t blocks[2] = {blocks_sent(a, comm), blocks_received(a, comm)};
    size_t counts[2] = {0, 0}, segment_counts[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        if (blocks[i] == 0) continue;
        TRY(count_list(name, names[i], lists[i], element_bytes, &counts[i]));
        segment_counts[i] = lists[i]->tensor_count;
    }
    TRY(block_count(name, counts, blocks, &call->what.count));

    call->extra = make_extra(0, segment_counts, false, false);
    if (call->extra == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_%s_list: out of memory", name);
    for (int i = 0; i < 2; i++)
        if (blocks[i] > 0)
            fill_list(lists[i], element_bytes, call->extra->segments[i],
                      &call->extra->segment_counts[i]);
    call->send = settle(call->extra, 0, NULL);
    call->recv = (void *)(uintptr_t)settle(call->extra, 1, NULL);

    const struct buffer input = buffer_of(call, 0), output = buffer_of(call, 1);
    const size_t block_bytes = call->what.count * element_bytes,
                 own = (size_t)comm->team.rank * block_bytes;
    if (blocks[0] == 0 || blocks[1] == 0 || block_bytes == 0) return TUTTI_OK;
    call->in_place = are_one(&input, collective_scatters(a->collective) ? own : 0, &output,
                             collective_gathers(a->collective) ? own : 0,
                             (blocks[0] < blocks[1] ? blocks[0] : blocks[1]) * block_bytes);
    return TUTTI_OK;
}
