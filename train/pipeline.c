/* pipeline.c - runs a schedule: one stage of it on each rank.
 *
 *     receive started ──► pass: waits for its receive, and for a buffer to write to ──► send started
 *            ▲                                      │
 *            └──────── a buffer is free ◄───────────┘ of a backward pass
 *
 * Invariants
 *   1. A message has the tag of its direction, its sender's chunk and its micro-batch. So it finds
 *      its receive, in whatever order both ends go through their schedules; and a message of the
 *      next step waits, because a receive takes what was sent first.
 *   2. Receives are started in the order of their passes. pipeline_room says how many buffers are
 *      enough.
 *   3. Nothing is under way between steps, nor after one that failed.
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "agree.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "pipeline_room.h"
#include "schedule_run.h"

enum { ALIGNMENT = 64, LINE_PASSES = 8 };

/* Data that comes to this stage in one direction: buffers, each of which is free, or holds the
 * message for a pass. */
struct receives {
    char *memory;
    struct tutti_request **requests; /* of each buffer; NULL: nothing is under way */
    int *free_buffers;               /* a stack */
    int free_count, count;
    int *buffer_of;     /* of each chunk and micro-batch; set from the start of its receive on */
    size_t next_posted; /* position of the pass from which on no receive is started */
};

/* Data that leaves this stage in one direction: a ring of buffers. */
struct sends {
    char *memory;
    struct tutti_request **requests;
    int next, count;
};

struct tutti_pipeline {
    struct tutti_pipeline_options options;
    struct tutti_comm *comm;
    struct tutti_schedule_shape shape;
    int stage;
    struct tutti_schedule_action *actions; /* of this stage */
    size_t action_count;
    size_t pitch;                /* from one buffer to the next */
    void *memory;                /* of all buffers */
    struct receives receives[2]; /* activations, gradients: by enum tutti_pass */
    struct sends sends[2];
    struct tutti_pipeline_counters counters;
    bool is_broken;
};

/* --------------------------------------------------------------------------------------- create */

static enum tutti_status take_options(const struct tutti_pipeline_options *given,
                                      struct tutti_pipeline_options *own)
{
    if (given == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_pipeline_create: options are NULL");
    TRY(SIZED_READ("tutti_pipeline_create: options", tutti_pipeline_options, given, own));
    if (own->forward == NULL || own->backward == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_pipeline_create: options.%s is NULL",
                         own->forward == NULL ? "forward" : "backward");
    if (!dtype_is_valid(own->dtype))
        return error_set(TUTTI_INVALID_DTYPE, "tutti_pipeline_create: %d is no dtype",
                         (int)own->dtype);
    if (own->count == 0)
        return error_set(TUTTI_INVALID_COUNT, "tutti_pipeline_create: options.count is 0");
    return TUTTI_OK;
}

static enum tutti_status check_schedule(const struct tutti_schedule *schedule,
                                        const struct tutti_pipeline *p)
{
    if (schedule == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_pipeline_create: the schedule is NULL");
    const struct tutti_schedule_shape *const shape = &schedule->shape;
    const int tags = 2 * shape->chunk_count * shape->micro_batch_count; /* 2^25 at most */
    if (shape->stage_count != tutti_comm_size(p->comm))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_pipeline_create: the schedule has %d stages, the communicator %d "
                         "ranks",
                         shape->stage_count, tutti_comm_size(p->comm));
    if (p->options.first_tag < 0 || p->options.first_tag > INT_MAX - tags)
        return error_set(TUTTI_INVALID_TAG,
                         "tutti_pipeline_create: options.first_tag must be from 0 to %d, is %d",
                         INT_MAX - tags, p->options.first_tag);
    return schedule_run(schedule, NULL, NULL);
}

static bool make_receives(struct receives *r, const struct tutti_schedule_shape *shape, int count)
{
    r->count = count;
    r->requests = calloc((size_t)count + 1, sizeof *r->requests);
    r->free_buffers = calloc((size_t)count + 1, sizeof *r->free_buffers);
    r->buffer_of = calloc(schedule_stage_passes(shape) / 2, sizeof *r->buffer_of);
    return r->requests != NULL && r->free_buffers != NULL && r->buffer_of != NULL;
}

static bool make_sends(struct sends *s, int count)
{
    s->count = count;
    s->requests = calloc((size_t)count + 1, sizeof *s->requests);
    return s->requests != NULL;
}

static enum tutti_status make_buffers(struct tutti_pipeline *p, const struct pipeline_room *room)
{
    size_t buffers = 0;
    bool is_there = true;
    for (int pass = 0; pass < 2; pass++) {
        is_there &= make_receives(&p->receives[pass], &p->shape, room->receives[pass]);
        is_there &= make_sends(&p->sends[pass], room->sends[pass]);
        buffers += (size_t)(room->receives[pass] + room->sends[pass]);
    }
    if (!is_there) return error_set(TUTTI_NO_MEMORY, "tutti_pipeline_create: out of memory");
    const size_t size = dtype_size(p->options.dtype);
    if (p->options.count > SIZE_MAX / 2 / size / (buffers + 1) - ALIGNMENT)
        return error_set(
            TUTTI_INVALID_COUNT,
            "tutti_pipeline_create: %zu buffers of %zu elements do not fit into size_t", buffers,
            p->options.count);
    p->pitch = (p->options.count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    p->counters.buffer_count = buffers;
    p->counters.buffer_bytes = buffers * p->pitch;
    if (buffers == 0) return TUTTI_OK;
    TRY(tutti_mem_alloc(p->counters.buffer_bytes, &p->memory));
    char *at = p->memory;
    for (int pass = 0; pass < 2; pass++) {
        p->receives[pass].memory = at;
        at += (size_t)room->receives[pass] * p->pitch;
        p->sends[pass].memory = at;
        at += (size_t)room->sends[pass] * p->pitch;
    }
    return TUTTI_OK;
}

static enum tutti_status build(struct tutti_pipeline *p, const struct tutti_schedule *schedule)
{
    struct pipeline_room room;
    const struct schedule_stage *const own = &schedule->stages[p->stage];
    p->shape = schedule->shape;
    p->action_count = own->count;
    p->actions = malloc(own->count * sizeof *p->actions);
    if (p->actions == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_pipeline_create: out of memory");
    memcpy(p->actions, own->actions, own->count * sizeof *p->actions);
    TRY(pipeline_room(schedule, p->stage, &room));
    return make_buffers(p, &room);
}

static uint64_t hash_stage(uint64_t hash, const struct schedule_stage *stage)
{
    for (size_t i = 0; i < stage->count; i++) {
        const struct tutti_schedule_action a = stage->actions[i];
        hash = hash_take(hash, (uint64_t)a.pass << 40 | (uint64_t)a.chunk << 20 |
                                   (uint64_t)a.micro_batch);
    }
    return hash;
}

static int64_t fingerprint(const struct tutti_pipeline *p, const struct tutti_schedule *schedule)
{
    const struct tutti_schedule_shape *const shape = &schedule->shape;
    uint64_t hash = hash_take(1, p->options.count);
    hash = hash_take(hash, (uint64_t)p->options.dtype);
    hash = hash_take(hash, (uint64_t)p->options.first_tag);
    hash = hash_take(hash, (uint64_t)shape->micro_batch_count);
    hash = hash_take(hash, (uint64_t)shape->chunk_count);
    for (int s = 0; s < shape->stage_count; s++) hash = hash_stage(hash, &schedule->stages[s]);
    return (int64_t)(hash >> 2);
}

struct given {
    const struct tutti_pipeline_options *options;
    const struct tutti_schedule *schedule;
};

static void describe(const void *context, FILE *lines)
{
    const struct given *const given = context;
    const struct tutti_schedule_shape *const shape = &given->schedule->shape;
    const char *const name = given->schedule->name;
    fprintf(lines, "options.count: %zu\noptions.dtype: %s\noptions.first_tag: %d\n",
            given->options->count, tutti_dtype_name(given->options->dtype),
            given->options->first_tag);
    fprintf(lines, "schedule: %s, stages %d, micro-batches %d, chunks %d\n",
            name[0] != '\0' ? name : "from a text", shape->stage_count, shape->micro_batch_count,
            shape->chunk_count);
    for (int s = 0; s < shape->stage_count; s++) {
        const struct schedule_stage *const stage = &given->schedule->stages[s];
        for (size_t i = 0; i < stage->count; i++) {
            if (i % LINE_PASSES == 0)
                fprintf(lines, "%sstage %d, from position %zu:", i > 0 ? "\n" : "", s, i);
            fprintf(lines, " %s", schedule_action_name(shape, stage->actions[i]).text);
        }
        fputc('\n', lines);
    }
}

/* Ranks agree even if this rank already knows that it cannot go on: the other ranks must learn of
 * it. */
static enum tutti_status agree(const struct tutti_pipeline *p,
                               const struct tutti_schedule *schedule, enum tutti_status status)
{
    const struct given given = {&p->options, schedule};
    const struct agreement agreement = {"tutti_pipeline_create",
                                        status == TUTTI_OK ? fingerprint(p, schedule) : 0, describe,
                                        &given};
    return agree_on_making(p->comm, status, &agreement, NULL);
}

static enum tutti_status prepare(struct tutti_pipeline *p, const struct tutti_schedule *schedule,
                                 const struct tutti_pipeline_options *options)
{
    TRY(take_options(options, &p->options));
    TRY(check_schedule(schedule, p));
    return build(p, schedule);
}

enum tutti_status tutti_pipeline_create(const struct tutti_schedule *schedule,
                                        const struct tutti_pipeline_options *options,
                                        struct tutti_comm *comm, struct tutti_pipeline **created)
{
    *created = NULL;
    if (tutti_comm_rank(comm) < 0)
        return error_set(TUTTI_INVALID_COMM, "tutti_pipeline_create: not a communicator");
    struct tutti_pipeline *const p = calloc(1, sizeof *p);
    if (p == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_pipeline_create: out of memory");
    p->comm = comm;
    p->stage = tutti_comm_rank(comm);
    const enum tutti_status status = agree(p, schedule, prepare(p, schedule, options));
    if (status != TUTTI_OK) {
        tutti_pipeline_free(p);
        return status;
    }
    *created = p;
    return TUTTI_OK;
}

enum tutti_status tutti_pipeline_free(struct tutti_pipeline *p)
{
    if (p == NULL) return TUTTI_OK;
    for (int pass = 0; pass < 2; pass++) {
        free(p->receives[pass].requests);
        free(p->receives[pass].free_buffers);
        free(p->receives[pass].buffer_of);
        free(p->sends[pass].requests);
    }
    tutti_mem_free(p->memory);
    free(p->actions);
    free(p);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------- messages */

static int part_of(const struct tutti_pipeline *p, int chunk)
{
    return schedule_part(&p->shape, p->stage, chunk);
}

static bool is_alone(const struct tutti_pipeline *p)
{
    return p->shape.stage_count == 1;
}

/* The tag of the message that the part makes in that direction. */
static int tag_of(const struct tutti_pipeline *p, enum tutti_pass pass, int part, int micro_batch)
{
    const int chunk = part / p->shape.stage_count + (int)pass * p->shape.chunk_count;
    return p->options.first_tag + chunk * p->shape.micro_batch_count + micro_batch;
}

static int *buffer_of(struct tutti_pipeline *p, enum tutti_pass pass, int chunk, int micro_batch)
{
    return &p->receives[pass].buffer_of[chunk * p->shape.micro_batch_count + micro_batch];
}

static void *received(struct tutti_pipeline *p, enum tutti_pass pass, int buffer)
{
    return p->receives[pass].memory + (size_t)buffer * p->pitch;
}

/* Starts the receives for which there is a buffer. */
static enum tutti_status start_receives(struct tutti_pipeline *p, enum tutti_pass pass)
{
    struct receives *const r = &p->receives[pass];
    for (; r->next_posted < p->action_count && !is_alone(p); r->next_posted++) {
        const struct tutti_schedule_action a = p->actions[r->next_posted];
        const int from = schedule_part_before(&p->shape, pass, part_of(p, a.chunk));
        if (a.pass != pass || from < 0) continue;
        if (r->free_count == 0) return TUTTI_OK;
        const int buffer = r->free_buffers[r->free_count - 1];
        TRY(tutti_recv_start(received(p, pass, buffer), p->options.count, p->options.dtype,
                             from % p->shape.stage_count, tag_of(p, pass, from, a.micro_batch),
                             NULL, NULL, p->comm, &r->requests[buffer]));
        r->free_count--;
        *buffer_of(p, pass, a.chunk, a.micro_batch) = buffer;
    }
    return TUTTI_OK;
}

/* The message that a pass reads, once it is there; NULL: the pass has it. */
static enum tutti_status take_input(struct tutti_pipeline *p, struct tutti_schedule_action a,
                                    const void **input)
{
    struct receives *const r = &p->receives[a.pass];
    *input = NULL;
    if (schedule_part_before(&p->shape, a.pass, part_of(p, a.chunk)) < 0) return TUTTI_OK;
    const int buffer = *buffer_of(p, a.pass, a.chunk, a.micro_batch);
    *input = received(p, a.pass, buffer);
    if (is_alone(p)) return TUTTI_OK;
    TRY(tutti_wait(&r->requests[buffer]));
    p->counters.bytes_received += p->options.count * dtype_size(p->options.dtype);
    if (a.pass == TUTTI_PASS_FORWARD)
        p->counters.activations_received++;
    else
        p->counters.gradients_received++;
    return TUTTI_OK;
}

/* Finds the memory into which a pass writes, once the message that was there has left. NULL: no
 * part wants the output. */
static enum tutti_status take_output(struct tutti_pipeline *p, struct tutti_schedule_action a,
                                     void **output)
{
    struct sends *const s = &p->sends[a.pass];
    const int to = schedule_part_behind(&p->shape, a.pass, part_of(p, a.chunk));
    *output = NULL;
    if (to < 0) return TUTTI_OK;
    if (is_alone(p)) {
        struct receives *const r = &p->receives[a.pass];
        const int buffer = r->free_buffers[--r->free_count];
        *buffer_of(p, a.pass, to, a.micro_batch) = buffer;
        *output = received(p, a.pass, buffer);
        return TUTTI_OK;
    }
    if (s->requests[s->next] != NULL) TRY(tutti_wait(&s->requests[s->next]));
    *output = s->memory + (size_t)s->next * p->pitch;
    return TUTTI_OK;
}

static enum tutti_status start_send(struct tutti_pipeline *p, struct tutti_schedule_action a,
                                    const void *output)
{
    struct sends *const s = &p->sends[a.pass];
    const int part = part_of(p, a.chunk);
    const int to = schedule_part_behind(&p->shape, a.pass, part);
    if (output == NULL || is_alone(p)) return TUTTI_OK;
    TRY(tutti_send_start(output, p->options.count, p->options.dtype, to % p->shape.stage_count,
                         tag_of(p, a.pass, part, a.micro_batch), NULL, p->comm,
                         &s->requests[s->next]));
    s->next = (s->next + 1) % s->count;
    p->counters.bytes_sent += p->options.count * dtype_size(p->options.dtype);
    if (a.pass == TUTTI_PASS_FORWARD)
        p->counters.activations_sent++;
    else
        p->counters.gradients_sent++;
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- a step */

static enum tutti_status call_back(const struct tutti_pipeline *p, struct tutti_schedule_action a,
                                   const void *input, void *output)
{
    const bool is_forward = a.pass == TUTTI_PASS_FORWARD;
    const enum tutti_status status = (is_forward ? p->options.forward : p->options.backward)(
        p->options.context, a.chunk, a.micro_batch, input, output);
    if (status == TUTTI_OK) return TUTTI_OK;
    return error_set(status,
                     "tutti_pipeline_run: the %s pass of micro-batch %d through chunk %d of stage "
                     "%d returned %s",
                     is_forward ? "forward" : "backward", a.micro_batch, a.chunk, p->stage,
                     tutti_status_name(status));
}

/* After a backward pass: the gradient that it read, and the activation that was kept for it. */
static void give_back(struct tutti_pipeline *p, struct tutti_schedule_action a)
{
    for (int pass = 0; pass < 2; pass++) {
        struct receives *const r = &p->receives[pass];
        if (schedule_part_before(&p->shape, (enum tutti_pass)pass, part_of(p, a.chunk)) < 0)
            continue;
        r->free_buffers[r->free_count++] =
            *buffer_of(p, (enum tutti_pass)pass, a.chunk, a.micro_batch);
    }
}

static enum tutti_status do_pass(struct tutti_pipeline *p, struct tutti_schedule_action a)
{
    const void *input;
    void *output;
    TRY(take_input(p, a, &input));
    TRY(take_output(p, a, &output));
    TRY(call_back(p, a, input, output));
    TRY(start_send(p, a, output));
    if (a.pass == TUTTI_PASS_FORWARD) return TUTTI_OK;
    give_back(p, a);
    TRY(start_receives(p, TUTTI_PASS_FORWARD));
    return start_receives(p, TUTTI_PASS_BACKWARD);
}

static void begin_step(struct tutti_pipeline *p)
{
    for (int pass = 0; pass < 2; pass++) {
        struct receives *const r = &p->receives[pass];
        for (int i = 0; i < r->count; i++) r->free_buffers[i] = r->count - 1 - i;
        r->free_count = r->count;
        r->next_posted = 0;
        p->sends[pass].next = 0;
    }
}

/* All sends, and what receives a step that failed left; the first failure. */
static enum tutti_status wait_for_all(struct tutti_pipeline *p)
{
    enum tutti_status first = TUTTI_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->sends[pass].count + p->receives[pass].count; i++) {
            struct tutti_request **const request =
                i < p->sends[pass].count ? &p->sends[pass].requests[i]
                                         : &p->receives[pass].requests[i - p->sends[pass].count];
            if (*request == NULL) continue;
            const enum tutti_status status = tutti_wait(request);
            if (first == TUTTI_OK) first = status;
        }
    }
    return first;
}

static enum tutti_status do_step(struct tutti_pipeline *p)
{
    begin_step(p);
    TRY(start_receives(p, TUTTI_PASS_FORWARD));
    TRY(start_receives(p, TUTTI_PASS_BACKWARD));
    for (size_t i = 0; i < p->action_count; i++) TRY(do_pass(p, p->actions[i]));
    return wait_for_all(p);
}

enum tutti_status tutti_pipeline_run(struct tutti_pipeline *p)
{
    if (p->is_broken)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_pipeline_run: a step failed before; free the pipeline");
    const enum tutti_status status = do_step(p);
    if (status == TUTTI_OK) {
        p->counters.steps++;
        return TUTTI_OK;
    }
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    p->is_broken = true;
    /* The others wait for this rank, and what it started for them. */
    tutti_comm_revoke_because(p->comm, message);
    (void)wait_for_all(p);
    return error_set(status, "%s", message);
}

enum tutti_status tutti_pipeline_count(const struct tutti_pipeline *p,
                                       struct tutti_pipeline_counters *counters)
{
    TRY(SIZED_CHECK_RESULT("tutti_pipeline_count: counters", tutti_pipeline_counters, counters));
    SIZED_WRITE(tutti_pipeline_counters, counters, counters->size_bytes, &p->counters);
    return TUTTI_OK;
}
