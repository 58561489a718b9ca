#include "tests/sim/sim_task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/program_links.h"
#include "tests/kit/call.h"
#include "tests/kit/elements.h"

/* Of ranks in turns: without end, so to say, but for who is about to look no more. */
enum { PATIENCE = 8, LONG_PATIENCE = 1000, POISON = 0x5a };

/* -------------------------------------------------------------------------------------- drawing */

static size_t draw_count(struct sim *sim)
{
    const unsigned kind = sim_below(sim, 100);
    if (kind == 0) return 20000 + sim_below(sim, 20000);
    if (kind < 10) return 1 + sim_below(sim, 6000);
    return 1 + sim_below(sim, kind < 50 ? 40 : 600);
}

static bool fits(const struct algorithm *algorithm, int size, const struct algo_levels *levels)
{
    if (size > algorithm->rank_count_max) return false;
    return levels != NULL ? algo_supports_levels(algorithm, size) : algo_supports(algorithm, size);
}

static void draw_job(struct sim *sim, int size, const struct algo_levels *levels,
                     bool wants_allreduce, struct sim_job *job)
{
    const struct algorithm *algorithm;
    do algorithm = &algo_list[sim_below(sim, (unsigned)algo_count)];
    while (!fits(algorithm, size, levels) ||
           (wants_allreduce && algorithm->collective != COLLECTIVE_ALLREDUCE));
    *job = (struct sim_job){.algorithm = algorithm,
                            .levels = levels,
                            .size = size,
                            .count = draw_count(sim),
                            .in_place = sim_chance(sim, 300)};
    if (collective_is_rooted(algorithm->collective))
        job->root = (int)sim_below(sim, (unsigned)size);
    if (algorithm->has_radix && sim_chance(sim, 500)) job->radix = 2 + sim_below(sim, 4);
    do {
        job->dtype = (enum tutti_dtype)sim_below(sim, DTYPE_COUNT);
        job->op = (enum op)sim_below(sim, OP_BUILTIN_COUNT);
    } while (!elements_supported(job->op, job->dtype) ||
             !op_supports(op_builtin(job->op), job->dtype));
    if (job->count > 600 && size > 4) job->count = 600; /* which all may send to all */
}

void sim_job_draw(struct sim *sim, int size, const struct algo_levels *levels, struct sim_job *job)
{
    draw_job(sim, size, levels, false, job);
}

void sim_job_draw_allreduce(struct sim *sim, int size, const struct algo_levels *levels,
                            struct sim_job *job)
{
    draw_job(sim, size, levels, true, job);
}

void sim_job_enlarge(struct sim *sim, struct sim_job *job)
{
    const size_t bytes = (132 << 10) + sim_below(sim, 100000);
    job->count =
        bytes / tutti_dtype_size(job->dtype) * (sim_chance(sim, 300) ? (size_t)job->size : 1);
}

/* -------------------------------------------------------------------------------------- buffers */

static unsigned char *allocate(size_t bytes)
{
    unsigned char *memory = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (memory == NULL) abort();
    memset(memory, 0xa5, bytes);
    return memory;
}

static void make_buffers(struct sim_task *task)
{
    const struct sim_job *job = task->job;
    const enum collective collective = job->algorithm->collective;
    const size_t sends = test_send_blocks(collective, task->rank, job->size, job->root),
                 recvs = test_recv_blocks(collective, task->rank, job->size, job->root);
    const size_t block = job->count * tutti_dtype_size(job->dtype);
    task->memory[1] = NULL;
    if (job->in_place && sends > 0 && recvs > 0) {
        const size_t begin = block * test_in_place_block(collective, task->rank);
        task->memory_bytes[0] = block * (sends > recvs ? sends : recvs);
        task->memory[0] = allocate(task->memory_bytes[0]);
        task->input = task->memory[0] + (sends < recvs ? begin : 0);
        task->output = task->memory[0] + (recvs < sends ? begin : 0);
    } else {
        task->memory_bytes[0] = block * sends;
        task->memory_bytes[1] = block * recvs;
        task->input = task->memory[0] = allocate(task->memory_bytes[0]);
        task->output = task->memory[1] = allocate(task->memory_bytes[1]);
    }
    struct elements elements;
    if (sends == 0) return;
    if (collective_reduces(collective))
        elements_contribution(&elements, job->dtype, job->op, task->rank, job->size);
    else
        elements_bytes(&elements, job->dtype, task->rank);
    elements_fill(task->input, &elements, 0, sends * job->count);
}

bool sim_task_is_right(const struct sim_task *task)
{
    const struct sim_job *job = task->job;
    const enum collective collective = job->algorithm->collective;
    const size_t blocks = test_recv_blocks(collective, task->rank, job->size, job->root);
    const bool takes_own_part = collective == COLLECTIVE_REDUCE_SCATTER ||
                                collective == COLLECTIVE_SCATTER ||
                                collective == COLLECTIVE_ALLTOALL;
    const bool has_root = collective == COLLECTIVE_BROADCAST || collective == COLLECTIVE_SCATTER;
    const size_t first = takes_own_part ? (size_t)task->rank * job->count : 0;
    const size_t block = job->count * tutti_dtype_size(job->dtype);
    struct elements elements;
    if (blocks > 0 && collective_reduces(collective))
        elements_result(&elements, job->dtype, job->op, job->size);
    for (size_t b = 0; b < blocks; b++) {
        if (!collective_reduces(collective))
            elements_bytes(&elements, job->dtype, has_root ? job->root : (int)b);
        if (elements_first_wrong(task->output + b * block, &elements, first, job->count) !=
            job->count)
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------------------------- life cycle */

static _Noreturn void give_up(const struct sim_job *job, const char *why)
{
    fprintf(stderr, "%s by %s on %d ranks: %s\n", collective_name(job->algorithm->collective),
            job->algorithm->name, job->size, why);
    abort();
}

static void bind(struct sim_task *task, struct transport *transport)
{
    const struct sim_job *job = task->job;
    const struct algo_params params = {.collective = job->algorithm->collective,
                                       .rank_count = job->size,
                                       .root = job->root,
                                       .in_place = job->in_place,
                                       .radix = job->radix,
                                       .levels = job->levels};
    struct bind_options options = {.count = job->count,
                                   .dtype = job->dtype,
                                   .op = op_builtin(job->op),
                                   .level = KERNEL_SCALAR,
                                   .in_place = job->in_place};
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &params, task->rank, &plan, &message) != TUTTI_OK)
        give_up(job, message);
    bind_to_transport(&options, transport);
    if (bind_program(plan, &options, &task->program) != TUTTI_OK)
        give_up(job, tutti_error_message());
    plan_rank_free(plan);
    if (program_open_links(task->program, transport, job->slot) != TUTTI_OK)
        give_up(job, tutti_error_message());
}

void sim_task_begin(struct sim_task *task, const struct sim_job *job, struct transport *transport)
{
    *task = (struct sim_task){.job = job, .rank = transport->rank};
    bind(task, transport);
    make_buffers(task);
    operation_init(&task->operation, task->rank % 2 == 0 ? PATIENCE : LONG_PATIENCE);
    const struct buffer input = {.base = (char *)task->input},
                        output = {.base = (char *)task->output};
    if (operation_prepare(&task->operation, task->program, transport, job->slot, &input, &output) !=
        TUTTI_OK)
        give_up(job, tutti_error_message());
    operation_open(&task->operation, job->signature);
}

void sim_task_end(struct sim_task *task)
{
    if (task->job == NULL) return;
    operation_release(&task->operation);
    program_free(task->program);
    free(task->memory[0]);
    free(task->memory[1]);
    *task = (struct sim_task){0};
}

/* --------------------------------------------------------------------------------------- graves */

static void bury(unsigned char *memory, size_t bytes, struct sim_grave **graves)
{
    struct sim_grave *grave = malloc(sizeof *grave);
    if (grave == NULL) abort();
    memset(memory, POISON, bytes);
    *grave = (struct sim_grave){*graves, memory, bytes};
    *graves = grave;
}

void sim_task_bury(struct sim_task *task, struct sim_grave **graves)
{
    for (int i = 0; i < 2 && task->job != NULL; i++) {
        if (task->memory[i] == NULL) continue;
        bury(task->memory[i], task->memory_bytes[i], graves);
        task->memory[i] = NULL;
    }
    sim_task_end(task);
}

bool sim_graves_are_quiet(const struct sim_grave *graves)
{
    for (; graves != NULL; graves = graves->next)
        for (size_t i = 0; i < graves->bytes; i++)
            if (graves->memory[i] != POISON) return false;
    return true;
}

void sim_graves_free(struct sim_grave *graves)
{
    while (graves != NULL) {
        struct sim_grave *next = graves->next;
        free(graves->memory);
        free(graves);
        graves = next;
    }
}
