/* msccl_import.c - from thread blocks to lanes.
 *
 *     wire      who takes whose messages: connections are FIFO, with one writing and one reading block
 *     run       once, on contributions: what does each chunk hold?
 *     write     the plan, with the findings of the run
 *     prove     plan_verify
 *
 * The run finds what a plan says and a file does not: which step completes a reduction (`final`),
 * which chunk scratch memory is like, and, in place, whether a step reads what the application left
 * there (then the plan reads its input) or what a step stored (then its output). Blocks and
 * connections make a Kahn network, so the order of the run does not matter, unless there is a race;
 * and the proof finds races. It finds, too, what the run does not look at: contributions that are
 * counted twice, capacity.
 *
 * What a plan cannot say is noted and the run goes on: when the result turns out wrong, that is
 * said instead.
 */
#include "studio/foreign/msccl_import.h"

#include <stdlib.h>

#include "studio/foreign/msccl_import_state.h"

static bool find_shape(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    const int blocks = algo->collective == COLLECTIVE_ALLREDUCE ||
                               algo->collective == COLLECTIVE_REDUCE ||
                               algo->collective == COLLECTIVE_BROADCAST
                           ? 1
                           : algo->gpu_count;
    importer->shape = (struct plan_shape){.collective = algo->collective,
                                          .rank_count = algo->gpu_count,
                                          .root = algo->root,
                                          .parts = (uint32_t)(algo->chunk_count / blocks)};
    if (algo->chunk_count % blocks == 0) return true;
    return msccl_refuse(importer->report, MSCCL_WRONG, 0, -1, -1, -1,
                        "nchunksperloop=\"%d\" is no multiple of the number of gpus, %d",
                        algo->chunk_count, algo->gpu_count);
}

static bool set_up(struct msccl_importer *importer)
{
    const size_t gpus = (size_t)importer->algo->gpu_count,
                 blocks = (size_t)importer->algo->block_count + 1,
                 steps = (size_t)importer->algo->step_count + 1;
    importer->partners = calloc(blocks, sizeof(int));
    importer->first_sends = calloc(blocks, sizeof(int));
    importer->taken = calloc(blocks, sizeof(int));
    importer->done = calloc(blocks, sizeof(int));
    importer->send_lists = calloc(steps, sizeof(int));
    importer->block_of = calloc(steps, sizeof(int));
    importer->first_sent = calloc(steps, sizeof(size_t));
    importer->first_cells = calloc(gpus, sizeof(size_t));
    importer->scratch_like = calloc(gpus, sizeof(int *));
    importer->findings = calloc(steps, sizeof *importer->findings);
    importer->handles = calloc(steps, sizeof(uint32_t));
    importer->stack = calloc(2 * steps + 2, sizeof(int));
    importer->was_seen = calloc(steps, sizeof(int));
    importer->emitted = calloc(2 * steps, sizeof(int));
    importer->run_order = calloc(steps, sizeof(int));
    importer->lane_of = calloc(blocks, sizeof(int));
    importer->channels = calloc(blocks, sizeof(int));
    return (importer->partners && importer->first_sends && importer->taken && importer->done &&
            importer->send_lists && importer->block_of && importer->first_sent &&
            importer->first_cells && importer->scratch_like && importer->findings &&
            importer->handles && importer->stack && importer->was_seen && importer->emitted &&
            importer->run_order && importer->lane_of && importer->channels) ||
           msccl_import_out_of_memory(importer);
}

static void tear_down(struct msccl_importer *importer)
{
    for (int gpu = 0; importer->scratch_like != NULL && gpu < importer->algo->gpu_count; gpu++)
        free(importer->scratch_like[gpu]);
    free(importer->partners);
    free(importer->first_sends);
    free(importer->taken);
    free(importer->done);
    free(importer->send_lists);
    free(importer->block_of);
    free(importer->first_sent);
    free(importer->sent);
    free(importer->sent_writers);
    free(importer->cells);
    free(importer->first_cells);
    free(importer->scratch_like);
    free(importer->findings);
    free(importer->handles);
    free(importer->emitted);
    free(importer->run_order);
    free(importer->lane_of);
    free(importer->channels);
    free(importer->stack);
    free(importer->was_seen);
}

static void make_plan(struct msccl_importer *importer, struct plan **plan)
{
    struct plan *made = calloc(1, sizeof *made);
    if (made == NULL)
        msccl_import_out_of_memory(importer);
    else if (msccl_import_write(importer, made) && msccl_import_prove(importer, made))
        *plan = made;
    if (*plan == NULL) plan_free(made);
}

/* Tries once more, with copies. If that plan is wrong, the first reason counts: with copies, stores
 * come later than in the file, so races that only show there say nothing about it. */
static void make_plan_with_copies(struct msccl_importer *importer, struct plan **plan)
{
    const struct msccl_report first = *importer->report;
    *importer->report =
        (struct msccl_report){.gpu = -1, .block = -1, .step = -1, .in_place = first.in_place};
    importer->stages = true;
    make_plan(importer, plan);
    if (importer->report->verdict != MSCCL_WRONG) return;
    *importer->report = first;
    importer->race.step = -1;
}

/* A proof ends at the first fault. Races behind a race are found by taking that one to be
 * ordered. */
static void find_more_races(struct msccl_importer *importer)
{
    struct plan *plan = NULL;
    while (importer->race.step >= 0 && importer->told_count < MSCCL_RACES_MAX && plan == NULL) {
        importer->told[importer->told_count++] = importer->race;
        importer->race.step = -1;
        make_plan(importer, &plan);
    }
    plan_free(plan);
}

void msccl_import(const struct msccl_algo *algo, struct plan **plan, struct msccl_report *report)
{
    struct msccl_importer importer = {.algo = algo, .report = report, .race = {-1, -1}};
    *plan = NULL;
    *report = (struct msccl_report){.gpu = -1, .block = -1, .step = -1, .in_place = algo->in_place};
    if (set_up(&importer) && find_shape(&importer) && msccl_import_wire(&importer) &&
        msccl_import_run(&importer) && importer.note.verdict == MSCCL_PROVEN) {
        make_plan(&importer, plan);
        if (importer.needs_copies) make_plan_with_copies(&importer, plan);
        if (report->verdict == MSCCL_WRONG) find_more_races(&importer);
    }
    if (report->verdict == MSCCL_PROVEN && importer.note.verdict != MSCCL_PROVEN) {
        *report = importer.note;
        report->in_place = algo->in_place;
    }
    tear_down(&importer);
}
