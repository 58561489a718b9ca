#include "tests/worlds/engine_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "engine/program_links.h"
#include "tests/kit/call.h"
#include "tests/kit/chance.h"
#include "tests/worlds/engine_memory.h"

enum {
    PATIENCE = 8,
    LOOKS_MAX = 4000000,
    CUTS_MAX = 200 /* segments of a buffer */
};

static const int32_t UNTOUCHED = -1, SCRIBBLED = -2;

/* ------------------------------------------------------------------------------- counts, values */

void engine_job_vary(struct engine_job *job, size_t count_max, uint64_t seed)
{
    uint64_t random = seed;
    chance_next(&random);
    job->varies = true;
    for (int s = 0; s < job->size; s++) {
        for (int d = 0; d < job->size; d++) {
            const uint64_t kind = chance_next(&random) % 5;
            const size_t many = chance_next(&random) % (count_max + 1);
            job->counts[s][d] = kind < 2 ? kind : kind == 2 ? many % 9 : many;
        }
    }
    /* In place, what goes to a rank leaves the room for what comes from it. */
    for (int s = 0; s < job->size && job->in_place != 0; s++)
        for (int d = 0; d < s; d++) job->counts[s][d] = job->counts[d][s];
}

static size_t input_count(const struct engine_job *job, int rank, size_t block)
{
    if (!job->varies) return job->count;
    switch (job->algorithm->collective) {
    case COLLECTIVE_ALLTOALL: return job->counts[rank][block];
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER: return job->counts[0][block];
    default: return job->counts[0][rank];
    }
}

static size_t output_count(const struct engine_job *job, int rank, size_t block)
{
    if (!job->varies) return job->count;
    switch (job->algorithm->collective) {
    case COLLECTIVE_ALLTOALL: return job->counts[block][rank];
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER: return job->counts[0][rank];
    default: return job->counts[0][block];
    }
}

/* Where links encode, so small that all ranks' together are, too. */
static int32_t value_of(const struct engine_job *job, int rank, size_t block, size_t i)
{
    enum { SMALL = 0xfff };
    const unsigned value = 1 + (unsigned)rank * 1000003 + (unsigned)block * 50021 + (unsigned)i * 7;
    return (int32_t)(job->dummy != NULL && job->dummy->encoding != NULL ? value & SMALL : value);
}

static int32_t sum_of(const struct engine_job *job, size_t block, size_t i)
{
    uint32_t sum = 0;
    for (int r = 0; r < job->size; r++) sum += (uint32_t)value_of(job, r, block, i);
    return (int32_t)sum;
}

static int32_t expected(const struct engine_job *job, int rank, size_t block, size_t i)
{
    switch (job->algorithm->collective) {
    case COLLECTIVE_BROADCAST: return value_of(job, job->root, 0, i);
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return value_of(job, (int)block, 0, i);
    case COLLECTIVE_SCATTER: return value_of(job, job->root, (size_t)rank, i);
    case COLLECTIVE_ALLTOALL: return value_of(job, (int)block, (size_t)rank, i);
    case COLLECTIVE_REDUCE_SCATTER: return sum_of(job, (size_t)rank, i);
    default: return sum_of(job, 0, i);
    }
}

/* -------------------------------------------------------------------------------------- buffers */

static int32_t *element(const struct engine_buffer *buffer, size_t i)
{
    return buffer->elements != NULL ? buffer->elements[i] : (int32_t *)buffer->buffer.base + i;
}

static void make_whole(struct engine_buffer *buffer, size_t count)
{
    buffer->memory_count = count;
    buffer->memory = engine_memory_take(buffer->kind, count * sizeof(int32_t));
    buffer->buffer = (struct buffer){.base = (char *)buffer->memory};
}

/* Segments from what is said where every element lies. */
static void find_segments(struct engine_buffer *buffer)
{
    buffer->segments = calloc(buffer->count + 1, sizeof *buffer->segments);
    assert_non_null(buffer->segments);
    struct buffer *found = &buffer->buffer;
    *found = (struct buffer){.segments = buffer->segments};
    for (size_t i = 0; i < buffer->count; i++) {
        if (i == 0 || buffer->elements[i] != buffer->elements[i - 1] + 1) {
            buffer->segments[found->segment_count].begin = i * sizeof(int32_t);
            buffer->segments[found->segment_count++].address = (char *)buffer->elements[i];
        }
        buffer->segments[found->segment_count - 1].end = (i + 1) * sizeof(int32_t);
    }
}

/* Where segments end, the first at 0: anywhere, and many are of one element; or as it is said. */
static size_t cut(size_t count, const size_t *segments, struct engine_net *net, size_t *cuts)
{
    static const size_t lengths[] = {1, 2, 40, 3000, 40000};
    size_t pieces = 0;
    cuts[0] = 0;
    while (cuts[pieces] < count) {
        const size_t most = lengths[engine_net_draw(net) % 5];
        const size_t length =
            segments != NULL ? segments[pieces % 4] : 1 + engine_net_draw(net) % most;
        const bool is_last = length >= count - cuts[pieces] || pieces + 1 == CUTS_MAX;
        cuts[pieces + 1] = is_last ? count : cuts[pieces] + length;
        pieces++;
    }
    return pieces;
}

/* With gaps, in any order. */
static void make_cut(struct engine_buffer *buffer, size_t count, const size_t *segments,
                     struct engine_net *net)
{
    enum { GAP = 3 };
    size_t cuts[CUTS_MAX + 1], order[CUTS_MAX];
    const size_t pieces = cut(count, segments, net, cuts);
    for (size_t p = 0; p < pieces; p++) {
        const size_t at = engine_net_draw(net) % (p + 1);
        order[p] = order[at];
        order[at] = p;
    }
    buffer->memory_count = count + (pieces + 1) * GAP;
    buffer->memory = engine_memory_take(buffer->kind, buffer->memory_count * sizeof(int32_t));
    buffer->elements = malloc((count + 1) * sizeof(int32_t *));
    assert_non_null(buffer->elements);
    size_t place = GAP;
    for (size_t p = 0; p < pieces; p++) {
        for (size_t i = cuts[order[p]]; i < cuts[order[p] + 1]; i++)
            buffer->elements[i] = &buffer->memory[place++];
        place += engine_net_draw(net) % (GAP + 1);
    }
    find_segments(buffer);
}

static void make_buffer(const struct engine_job *job, struct engine_net *net, size_t count,
                        struct engine_buffer *buffer)
{
    buffer->count = count;
    if (job->is_cut)
        make_cut(buffer, count, job->segments, net);
    else
        make_whole(buffer, count);
}

/* In place: the smaller buffer is a part of the larger one. */
static void make_part(const struct engine_buffer *whole, size_t first, size_t count,
                      struct engine_buffer *part)
{
    part->count = count;
    if (whole->elements == NULL) {
        part->buffer = (struct buffer){.base = whole->buffer.base + first * sizeof(int32_t)};
        return;
    }
    part->elements = malloc((count + 1) * sizeof(int32_t *));
    assert_non_null(part->elements);
    memcpy(part->elements, whole->elements + first, count * sizeof(int32_t *));
    find_segments(part);
}

static void free_buffer(struct engine_buffer *buffer)
{
    engine_memory_give(buffer->kind, buffer->memory, buffer->memory_count * sizeof(int32_t));
    free(buffer->elements);
    free(buffer->segments);
    *buffer = (struct engine_buffer){0};
}

/* ----------------------------------------------------------------------------------------- jobs */

static size_t block_counts(const struct engine_job *job, int rank, bool is_input, size_t *counts)
{
    const enum collective collective = job->algorithm->collective;
    const size_t blocks = is_input ? test_send_blocks(collective, rank, job->size, job->root)
                                   : test_recv_blocks(collective, rank, job->size, job->root);
    size_t sum = 0;
    for (size_t b = 0; b < blocks; b++) {
        const size_t count = is_input ? input_count(job, rank, b) : output_count(job, rank, b);
        if (counts != NULL) counts[b] = count;
        sum += count;
    }
    return sum;
}

static void make_buffers(const struct engine_job *job, struct engine_net *net, int rank,
                         struct engine_rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const size_t sends = block_counts(job, rank, true, NULL);
    const size_t send_blocks = test_send_blocks(collective, rank, job->size, job->root);
    const size_t recvs = block_counts(job, rank, false, NULL);
    const size_t recv_blocks = test_recv_blocks(collective, rank, job->size, job->root);
    own->input = own->output = (struct engine_buffer){.kind = engine_net_kind(net, rank)};
    if ((job->in_place >> rank & 1) == 0 || send_blocks == 0 || recv_blocks == 0) {
        make_buffer(job, net, sends, &own->input);
        make_buffer(job, net, recvs, &own->output);
    } else {
        size_t begin = 0; /* of the smaller buffer in the larger one */
        for (size_t b = 0; b < test_in_place_block(collective, rank); b++)
            begin +=
                send_blocks > recv_blocks ? input_count(job, rank, b) : output_count(job, rank, b);
        if (send_blocks > recv_blocks) {
            make_buffer(job, net, sends, &own->input);
            make_part(&own->input, begin, recvs, &own->output);
        } else {
            make_buffer(job, net, recvs, &own->output);
            make_part(&own->output, begin, sends, &own->input);
        }
    }
}

static void fill_memory(struct engine_rank *own, int32_t value)
{
    engine_memory_begin(own->dummy);
    for (size_t i = 0; i < own->input.memory_count; i++) own->input.memory[i] = value;
    for (size_t i = 0; i < own->output.memory_count; i++) own->output.memory[i] = value;
    engine_memory_end(own->dummy);
}

void engine_rank_fill(const struct engine_job *job, int rank, struct engine_rank *own)
{
    size_t counts[ENGINE_RANKS_MAX];
    const size_t blocks = test_send_blocks(job->algorithm->collective, rank, job->size, job->root);
    block_counts(job, rank, true, counts);
    fill_memory(own, UNTOUCHED);
    engine_memory_begin(job->dummy);
    for (size_t b = 0, at = 0; b < blocks; b++)
        for (size_t i = 0; i < counts[b]; i++)
            *element(&own->input, at++) = value_of(job, rank, b, i);
    engine_memory_end(job->dummy);
}

void engine_rank_scribble(struct engine_rank *own)
{
    fill_memory(own, SCRIBBLED);
}

static void bind(const struct engine_job *job, struct engine_net *net, int rank,
                 struct engine_rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const struct algo_params params = {.collective = collective,
                                       .rank_count = job->size,
                                       .root = job->root,
                                       .in_place = (job->in_place >> rank & 1) != 0,
                                       .levels = job->levels};
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s", message);
    size_t input_counts[ENGINE_RANKS_MAX], output_counts[ENGINE_RANKS_MAX];
    const size_t sends = block_counts(job, rank, true, input_counts),
                 recvs = block_counts(job, rank, false, output_counts);
    struct bind_options options = {.count = job->count,
                                   .dtype = TUTTI_INT32,
                                   .op = op_builtin(OP_SUM),
                                   .level = KERNEL_SCALAR,
                                   .in_place = params.in_place,
                                   .shares_cores = rank % 2 != 0};
    if (job->varies) { /* as a v form is called */
        const bool has_inputs = test_send_blocks(collective, rank, job->size, job->root) > 1,
                   has_outputs = test_recv_blocks(collective, rank, job->size, job->root) > 1;
        options.input_counts = has_inputs ? input_counts : NULL;
        options.output_counts = has_outputs ? output_counts : NULL;
        options.count = collective == COLLECTIVE_SCATTER || collective == COLLECTIVE_REDUCE_SCATTER
                            ? recvs
                            : sends;
    }
    own->dummy = job->dummy;
    own->executor = NULL;
    own->gate = NULL;
    own->job = job;
    own->rank = rank;
    if (own->dummy != NULL && own->dummy->make_executor != NULL)
        own->executor = own->dummy->make_executor(engine_net_draw(net));
    options.has_executor = own->executor != NULL;
    if (own->dummy != NULL) {
        options.encoding = own->dummy->encoding;
        options.places = job->places;
        *(job->encodes_apart ? &options.encoding_kernels : &options.kernels) = own->dummy->kernels;
    }
    for (int b = 0; b < PLAN_BUFFER_COUNT; b++) options.kinds[b] = engine_net_kind(net, rank);
    struct transport *transport = engine_net_transport(net, rank);
    bind_to_transport(&options, transport);
    if (bind_program(plan, &options, &own->program) != TUTTI_OK)
        fail_msg("%s by %s: %s", collective_name(collective), job->algorithm->name,
                 tutti_error_message());
    plan_rank_free(plan);
    assert_int_equal(program_open_links(own->program, transport, 0), TUTTI_OK);
}

/* Until then it has shown nothing. */
static void gate_opens(void *context)
{
    struct engine_rank *own = context;
    assert_false(own->operation.any_advertised || own->operation.sends_active > 0);
    engine_rank_fill(own->job, own->rank, own);
}

void engine_rank_prepare_again(struct engine_net *net, int rank, struct engine_rank *own)
{
    own->done = false;
    assert_int_equal(operation_prepare(&own->operation, own->program, engine_net_transport(net, rank),
                                       0, &own->input.buffer, &own->output.buffer),
                     TUTTI_OK);
    own->operation.executor = own->executor;
    if (own->dummy == NULL || own->dummy->make_gate == NULL) {
        operation_open(&own->operation, own->program->signature);
        return;
    }
    if (own->gate != NULL) own->dummy->free_gate(own->gate);
    own->gate = own->dummy->make_gate(engine_net_draw(net), gate_opens, own);
    engine_rank_scribble(own);
    operation_open_at(&own->operation, own->gate, own->program->signature);
}

void engine_rank_prepare(const struct engine_job *job, struct engine_net *net, int rank,
                         struct engine_rank *own)
{
    operation_init(&own->operation, PATIENCE);
    bind(job, net, rank, own);
    make_buffers(job, net, rank, own);
    engine_rank_fill(job, rank, own);
    engine_rank_prepare_again(net, rank, own);
}

static _Noreturn void fail_job(const struct engine_job *job, const char *what)
{
    fail_msg("%s%s by %s on %d ranks, count %zu, root %d, in place %x%s: %s",
             collective_name(job->algorithm->collective), job->varies ? "v" : "",
             job->algorithm->name, job->size, job->count, job->root, job->in_place,
             job->is_cut ? ", cut" : "", what);
    abort();
}

void engine_run(const struct engine_job *job, struct engine_net *net, struct engine_rank *ranks)
{
    int left = job->size;
    for (int looks = 0; left > 0; looks++) {
        if (looks == LOOKS_MAX) fail_job(job, "stuck");
        struct engine_rank *own = &ranks[engine_net_draw(net) % (uint64_t)job->size];
        engine_net_step(net);
        if (own->done) continue;
        own->operation.must_not_spin = engine_net_draw(net) % 8 == 0;
        const enum run_result result = operation_run(&own->operation);
        if (result == RUN_FAULT) fail_job(job, "a message made no sense");
        if (result != RUN_DONE) continue;
        own->done = true;
        left--;
    }
}

/* Gaps between segments are as they were. */
static void expect_gaps_untouched(const struct engine_job *job, const struct engine_buffer *buffer)
{
    if (buffer->memory == NULL || buffer->elements == NULL) return;
    bool *used = calloc(buffer->memory_count, sizeof *used);
    assert_non_null(used);
    for (size_t i = 0; i < buffer->count; i++) used[buffer->elements[i] - buffer->memory] = true;
    for (size_t i = 0; i < buffer->memory_count; i++)
        if (!used[i] && buffer->memory[i] != UNTOUCHED) fail_job(job, "written between segments");
    free(used);
}

void engine_expect_right(const struct engine_job *job, int rank, const struct engine_rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const size_t blocks = test_recv_blocks(collective, rank, job->size, job->root);
    engine_memory_begin(job->dummy);
    for (size_t b = 0, at = 0; b < blocks; b++) {
        for (size_t i = 0; i < output_count(job, rank, b); i++, at++) {
            const int32_t right = expected(job, rank, b, i), is = *element(&own->output, at);
            if (is == right) continue;
            char text[96];
            snprintf(text, sizeof text, "rank %d, block %zu, element %zu is %d and not %d", rank, b,
                     i, is, right);
            fail_job(job, text);
        }
    }
    expect_gaps_untouched(job, &own->input);
    expect_gaps_untouched(job, &own->output);
    engine_memory_end(job->dummy);
}

void engine_rank_release(struct engine_rank *own)
{
    operation_release(&own->operation);
    program_free(own->program);
    if (own->executor != NULL) own->dummy->free_executor(own->executor);
    if (own->gate != NULL) own->dummy->free_gate(own->gate);
    free_buffer(&own->input);
    free_buffer(&own->output);
}

void engine_run_job_over(const struct engine_job *job, struct engine_net *net)
{
    struct engine_rank ranks[ENGINE_RANKS_MAX];
    for (int r = 0; r < job->size; r++) engine_rank_prepare(job, net, r, &ranks[r]);
    engine_run(job, net, ranks);
    engine_net_expect_empty(net);
    for (int r = 0; r < job->size; r++) {
        engine_expect_right(job, r, &ranks[r]);
        engine_rank_release(&ranks[r]);
    }
}

void engine_run_job(const struct engine_job *job, struct engine_mood mood, uint64_t seed)
{
    struct engine_net *net = engine_net_create(job->size, mood, seed);
    engine_run_job_over(job, net);
    engine_net_free(net);
}
