/* msccl_import_write.c - writes the plan, with the findings of the run. */
#include <stdlib.h>

#include "plan/build.h"
#include "studio/foreign/msccl_import_state.h"

enum { AFTERS_MAX = 256 };

/* A plan sends from the memory where data lies, until the message has come. If that memory is
 * written to later, MSCCL's copy can become a copy of the plan, in scratch memory of its own. The
 * copy comes before a send or, if a step receives, stores and sends, between the store and the
 * send. */
static bool is_staged(const struct msccl_importer *importer, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const int gpu = msccl_import_block_at(importer, step)->gpu;
    if (!importer->stages || !traits->sends || of->type == MSCCL_RECV_REDUCE_PASS) return false;
    for (int i = 0; i < of->count; i++) {
        const struct msccl_cell *cell =
            traits->stores
                ? msccl_import_cell_at(importer, gpu, of->destination_buffer, of->destination + i)
                : msccl_import_cell_at(importer, gpu, of->source_buffer, of->source + i);
        if (cell->writer != importer->sent_writers[importer->first_sent[step] + (size_t)i])
            return true;
    }
    return false;
}

int msccl_import_steps_in_plan(const struct msccl_importer *importer, int step)
{
    if (importer->algo->steps[step].type == MSCCL_NOP) return 0;
    return is_staged(importer, step) ? 2 : 1;
}

/* Orders all steps of the rank's plan, lane after lane. Returns how many lanes there are. */
static int order_steps(struct msccl_importer *importer, int gpu, int lane_ends[PLAN_LANES_MAX])
{
    const struct msccl_algo *algo = importer->algo;
    int *emitted = &importer->emitted[2 * (size_t)msccl_import_first_step_of(importer, gpu)];
    int counts[PLAN_LANES_MAX] = {0}, lane_count = 0, total = 0;
    for (int b = algo->gpus[gpu].first_block;
         b < algo->gpus[gpu].first_block + algo->gpus[gpu].block_count; b++) {
        if (importer->lane_of[b] >= lane_count) lane_count = importer->lane_of[b] + 1;
        for (int i = 0; i < algo->blocks[b].step_count; i++)
            counts[importer->lane_of[b]] +=
                msccl_import_steps_in_plan(importer, algo->blocks[b].first_step + i);
    }
    for (int lane = 0; lane < lane_count; lane++) {
        lane_ends[lane] = total;
        total += counts[lane];
    }
    for (int i = 0; i < importer->run_count; i++) {
        const int step = importer->run_order[i], block = importer->block_of[step];
        if (algo->blocks[block].gpu != gpu || algo->steps[step].type == MSCCL_NOP) continue;
        int *end = &lane_ends[importer->lane_of[block]];
        for (int k = msccl_import_steps_in_plan(importer, step); k > 0; k--)
            emitted[(*end)++] = step;
        importer->handles[step] = (uint32_t)*end - 1;
    }
    return lane_count;
}

/* Makes the step that is being built come after `step`, or after the steps for which that one
 * stands if it is a nop. False: there are more than AFTERS_MAX. */
static bool say_after(struct msccl_importer *importer, struct plan_builder *builder, int step,
                      int stamp, int *count)
{
    const struct msccl_algo *algo = importer->algo;
    int depth = 0;
    importer->stack[depth++] = step;
    while (depth > 0) {
        const int at = importer->stack[--depth];
        const struct msccl_step *of = &algo->steps[at];
        const struct msccl_block *block = msccl_import_block_at(importer, at);
        if (of->type != MSCCL_NOP) {
            if (++*count > AFTERS_MAX) return false;
            plan_after(builder, importer->handles[at]);
            continue;
        }
        /* A nop waits for the step that it names and for the step before it. */
        if (importer->was_seen[at] == stamp) continue;
        importer->was_seen[at] = stamp;
        if (at > block->first_step) importer->stack[depth++] = at - 1;
        if (of->after_block >= 0)
            importer->stack[depth++] =
                algo->blocks[algo->gpus[block->gpu].first_block + of->after_block].first_step +
                of->after_step;
    }
    return true;
}

static bool write_afters(struct msccl_importer *importer, struct plan_builder *builder, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_block *block = msccl_import_block_at(importer, step);
    const int first_block = algo->gpus[block->gpu].first_block;
    int first = step, count = 0;
    while (first > block->first_step && algo->steps[first - 1].type == MSCCL_NOP) first--;
    for (int i = first; i <= step; i++) {
        const struct msccl_step *of = &algo->steps[i];
        if (of->after_block < 0) continue;
        const int other = algo->blocks[first_block + of->after_block].first_step + of->after_step;
        if (!say_after(importer, builder, other, step + 1, &count)) {
            msccl_import_note_step(importer, step, "waits for more than %d steps", AFTERS_MAX);
            return false;
        }
    }
    for (int i = 0; i < importer->told_count; i++)
        if (importer->told[i].step == step &&
            msccl_import_block_at(importer, importer->told[i].other)->gpu == block->gpu)
            plan_after(builder, importer->handles[importer->told[i].other]);
    return true;
}

static void write_send(struct msccl_importer *importer, struct plan_builder *builder, int step)
{
    plan_channel(builder, importer->channels[importer->block_of[step]]);
    plan_send(builder, msccl_import_block_at(importer, step)->send);
}

/* Adds scratch memory of the step's own, like the chunks that it sends. */
static struct plan_location stage_of(struct msccl_importer *importer, struct plan_builder *builder,
                                     int step)
{
    struct plan_location stage = {PLAN_SCRATCH, 0};
    for (int i = 0; i < importer->algo->steps[step].count; i++) {
        const struct msccl_held *held = &importer->sent[importer->first_sent[step] + (size_t)i];
        const uint32_t chunk = plan_scratch(builder, (uint32_t)held->class);
        if (i == 0) stage.first = chunk;
    }
    return stage;
}

static void write_step(struct msccl_importer *importer, struct plan_builder *builder, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const struct msccl_block *block = msccl_import_block_at(importer, step);
    const struct msccl_finding *finding = &importer->findings[step];
    const bool staged = is_staged(importer, step);
    const struct plan_location stage =
        staged ? stage_of(importer, builder, step) : (struct plan_location){PLAN_SCRATCH, 0};
    const struct plan_location to = staged ? stage : finding->destination;
    plan_begin(builder, (uint32_t)of->count);
    if (of->type == MSCCL_REDUCE) plan_read(builder, to.buffer, to.first);
    if (traits->reads) plan_read(builder, finding->source.buffer, finding->source.first);
    const int partner = importer->partners[importer->block_of[step]];
    if (traits->receives) plan_channel(builder, importer->channels[partner]);
    if (traits->receives) plan_receive(builder, block->receive);
    if (traits->stores || staged) plan_write(builder, to.buffer, to.first);
    if (traits->sends && (traits->receives || !staged)) write_send(importer, builder, step);
    if (finding->final) plan_final(builder);
    if (!write_afters(importer, builder, step)) return;
    plan_end(builder);
    if (!staged) return;
    plan_begin(builder, (uint32_t)of->count);
    plan_read(builder, stage.buffer, stage.first);
    if (traits->receives)
        plan_write(builder, finding->destination.buffer, finding->destination.first);
    else
        write_send(importer, builder, step);
    plan_end(builder);
}

/* A block that stays where it is needs no step in a file that is in place. With separate buffers it
 * needs a copy, which does nothing in place. */
static void write_own_block(struct msccl_importer *importer, struct plan_builder *builder, int gpu,
                            int lane_count)
{
    const int inputs = msccl_import_chunks_of(importer, gpu, MSCCL_INPUT);
    bool has_lane = false;
    if (!importer->algo->in_place || lane_count == PLAN_LANES_MAX) return;
    for (int i = 0; i < inputs; i++) {
        const int output = msccl_import_output_of_input(importer, gpu, i);
        if (output < 0 || msccl_import_cell_at(importer, gpu, MSCCL_OUTPUT, output)->writer >= 0)
            continue;
        if (!has_lane) plan_lane(builder);
        has_lane = true;
        plan_copy(builder, PLAN_INPUT, (uint32_t)i, PLAN_OUTPUT, (uint32_t)output, 1);
    }
}

/* In a plan, channels only tell connections with the same ends apart: they count from 0 for each
 * pair of gpus. */
static bool number_channels(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    for (int i = 0; i < algo->block_count; i++) {
        const struct msccl_block *block = &algo->blocks[i];
        const struct msccl_gpu *gpu = &algo->gpus[block->gpu];
        int channel = 0;
        for (int k = gpu->first_block; k < gpu->first_block + gpu->block_count; k++)
            channel +=
                algo->blocks[k].send == block->send && algo->blocks[k].channel < block->channel;
        importer->channels[i] = block->send >= 0 ? channel : 0;
        if (importer->channels[i] >= PLAN_CHANNELS_MAX)
            return msccl_refuse(importer->report, MSCCL_NOT_EXPRESSIBLE, block->line, block->gpu,
                                i - gpu->first_block, -1,
                                "more channels to gpu %d than the %d of a plan", block->send,
                                PLAN_CHANNELS_MAX);
    }
    return true;
}

static bool write_steps(struct msccl_importer *importer, struct plan_builder *builder, int gpu)
{
    const int *emitted = &importer->emitted[2 * (size_t)msccl_import_first_step_of(importer, gpu)];
    int lane_ends[PLAN_LANES_MAX], at = 0;
    plan_parts(builder, importer->shape.parts);
    for (int i = 0; i < msccl_import_chunks_of(importer, gpu, MSCCL_SCRATCH); i++)
        plan_scratch(builder, importer->scratch_like[gpu][i] >= 0
                                  ? (uint32_t)importer->scratch_like[gpu][i]
                                  : 0);
    const int lane_count = order_steps(importer, gpu, lane_ends);
    for (int lane = 0; lane < lane_count; lane++) {
        plan_lane(builder);
        for (; at < lane_ends[lane]; at += msccl_import_steps_in_plan(importer, emitted[at])) {
            write_step(importer, builder, emitted[at]);
            if (importer->note.verdict != MSCCL_PROVEN) return false;
            const char *error = plan_builder_error(builder);
            if (error != NULL) return msccl_import_wrong_step(importer, emitted[at], "%s", error);
        }
    }
    write_own_block(importer, builder, gpu, lane_count);
    return true;
}

static bool write_rank(struct msccl_importer *importer, int gpu, struct rank_plan **written)
{
    const struct plan_shape *shape = &importer->shape;
    const char *error = "out of memory";
    if (!msccl_import_choose_lanes(importer, gpu)) return false;
    struct plan_builder *builder =
        plan_builder_create(shape->collective, shape->rank_count, shape->root, gpu);
    if (builder == NULL) return msccl_import_out_of_memory(importer);
    if (!write_steps(importer, builder, gpu)) {
        plan_builder_free(builder);
        return false;
    }
    const enum tutti_status status = plan_builder_finish(builder, written, &error);
    plan_builder_free(builder);
    if (status == TUTTI_OK) return true;
    if (status == TUTTI_NO_MEMORY) return msccl_import_out_of_memory(importer);
    return msccl_import_refuse_all(importer, MSCCL_WRONG, gpu, error);
}

bool msccl_import_write(struct msccl_importer *importer, struct plan *plan)
{
    const struct plan_shape *shape = &importer->shape;
    plan->shape = *shape;
    plan->ranks = calloc((size_t)shape->rank_count, sizeof(struct rank_plan *));
    if (plan->ranks == NULL) return msccl_import_out_of_memory(importer);
    if (!number_channels(importer)) return false;
    for (int gpu = 0; gpu < shape->rank_count; gpu++)
        if (!write_rank(importer, gpu, &plan->ranks[gpu])) return false;
    return true;
}
