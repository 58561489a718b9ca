/* msccl_import_run.c - runs the file once, on contributions: see msccl_import.c. */
#include <stdlib.h>

#include "base/collective.h"
#include "studio/foreign/msccl_import_state.h"

/* Bounds: chunks of all buffers and messages; steps times lanes of the proof. */
static const uint64_t CELLS_MAX = UINT64_C(1) << 24;
static const uint64_t WORK_MAX = UINT64_C(1) << 31;

static bool set_up_cells(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    uint64_t count = 0, sent = 0;
    for (int gpu = 0; gpu < algo->gpu_count; gpu++) {
        importer->first_cells[gpu] = (size_t)count;
        for (int buffer = MSCCL_INPUT; buffer <= MSCCL_SCRATCH; buffer++)
            count += (uint64_t)msccl_import_chunks_of(importer, gpu, (enum msccl_buffer)buffer);
    }
    for (int step = 0; step < algo->step_count; step++) {
        importer->first_sent[step] = (size_t)sent;
        sent += (uint64_t)algo->steps[step].count;
    }
    if (count > CELLS_MAX || sent > CELLS_MAX ||
        (uint64_t)algo->step_count * (uint64_t)(algo->block_count + 1) > WORK_MAX)
        return msccl_import_refuse_all(importer, MSCCL_NOT_EXPRESSIBLE, -1,
                                       "too large to be proven");
    importer->cells = calloc((size_t)count + 1, sizeof *importer->cells);
    importer->sent = calloc((size_t)sent + 1, sizeof *importer->sent);
    importer->sent_writers = calloc((size_t)sent + 1, sizeof(int));
    if (!importer->cells || !importer->sent || !importer->sent_writers)
        return msccl_import_out_of_memory(importer);
    for (uint64_t i = 0; i < count; i++)
        importer->cells[i] = (struct msccl_cell){{MSCCL_NOTHING, 0}, -1};
    for (int gpu = 0; gpu < algo->gpu_count; gpu++) {
        const int scratch = msccl_import_chunks_of(importer, gpu, MSCCL_SCRATCH);
        for (int i = 0; i < msccl_import_chunks_of(importer, gpu, MSCCL_INPUT); i++)
            msccl_import_cell_at(importer, gpu, MSCCL_INPUT, i)->held = (struct msccl_held){
                (int)plan_chunk_class(&importer->shape, gpu, PLAN_INPUT, (uint32_t)i), 1};
        importer->scratch_like[gpu] = malloc((size_t)(scratch + 1) * sizeof(int));
        if (importer->scratch_like[gpu] == NULL) return msccl_import_out_of_memory(importer);
        for (int i = 0; i < scratch; i++) importer->scratch_like[gpu][i] = MSCCL_NOTHING;
    }
    return true;
}

static struct msccl_held sum_of(struct msccl_held a, struct msccl_held b)
{
    const bool same = a.class == b.class && a.class >= 0;
    const int count = a.count + b.count; /* more than all ranks are never right */
    if (a.class == MSCCL_UNKNOWN || b.class == MSCCL_UNKNOWN)
        return (struct msccl_held){MSCCL_UNKNOWN, 0};
    return (struct msccl_held){same ? a.class : MSCCL_MIXTURE,
                               count < 2 * MSCCL_GPUS_MAX ? count : 2 * MSCCL_GPUS_MAX};
}

/* The step for which that step has to wait; -1: there is none. */
static int waits_for(const struct msccl_importer *importer, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_step *of = &algo->steps[step];
    const int block = importer->block_of[step], partner = importer->partners[block];
    if (of->after_block >= 0) {
        const int other = algo->gpus[algo->blocks[block].gpu].first_block + of->after_block;
        if (importer->done[other] <= of->after_step)
            return algo->blocks[other].first_step + of->after_step;
    }
    if (!msccl_types[of->type].receives) return -1;
    const int message =
        importer->send_lists[importer->first_sends[partner] + importer->taken[block]];
    return importer->done[partner] <= message - algo->blocks[partner].first_step ? message : -1;
}

/* The plan's place for a range that the step reads. In place, a range to which no step has stored
 * is the input. */
static struct plan_location place_read(const struct msccl_importer *importer, int gpu,
                                       enum msccl_buffer buffer, int first, int count)
{
    const struct plan_location as_said = {msccl_import_buffer_of(buffer), (uint32_t)first};
    int input = first, output = first;
    if (buffer == MSCCL_SCRATCH || !importer->algo->in_place) return as_said;
    if (buffer == MSCCL_OUTPUT) {
        input = msccl_import_input_of_output(importer, gpu, first);
        if (input < 0 ||
            msccl_import_input_of_output(importer, gpu, first + count - 1) != input + count - 1)
            return as_said;
    } else {
        output = msccl_import_output_of_input(importer, gpu, first);
        if (output < 0 ||
            msccl_import_output_of_input(importer, gpu, first + count - 1) != output + count - 1)
            return as_said;
    }
    int stored = 0;
    for (int i = 0; i < count; i++)
        stored += msccl_import_cell_at(importer, gpu, MSCCL_OUTPUT, output + i)->writer >= 0;
    if (stored == 0) return (struct plan_location){PLAN_INPUT, (uint32_t)input};
    if (stored == count) return (struct plan_location){PLAN_OUTPUT, (uint32_t)output};
    return as_said;
}

static void find_destination(struct msccl_importer *importer, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const int gpu = msccl_import_block_at(importer, step)->gpu;
    struct msccl_finding *finding = &importer->findings[step];
    finding->destination = (struct plan_location){msccl_import_buffer_of(of->destination_buffer),
                                                  (uint32_t)of->destination};
    if (of->destination_buffer != MSCCL_INPUT) return;
    const int first = msccl_import_output_of_input(importer, gpu, of->destination);
    const int last = msccl_import_output_of_input(importer, gpu, of->destination + of->count - 1);
    if (first < 0 || last != first + of->count - 1)
        msccl_import_note_step(importer, step,
                               "stores to input chunk %d, and a plan only reads its input",
                               of->destination);
    else
        finding->destination = (struct plan_location){PLAN_OUTPUT, (uint32_t)first};
}

/* Notes where the plan cannot store that: its memory is for one class of chunks. */
static void check_class(struct msccl_importer *importer, int step, int position,
                        struct msccl_held held)
{
    const struct plan_location *place = &importer->findings[step].destination;
    const int gpu = msccl_import_block_at(importer, step)->gpu;
    const uint32_t chunk = place->first + (uint32_t)position;
    if (held.class == MSCCL_UNKNOWN) return;
    if (held.class == MSCCL_MIXTURE) {
        msccl_import_note_step(importer, step, "adds different chunks");
    } else if (place->buffer == PLAN_SCRATCH) {
        int *like = &importer->scratch_like[gpu][chunk];
        if (*like == MSCCL_NOTHING) *like = held.class;
        if (*like != held.class)
            msccl_import_note_step(
                importer, step, "stores chunk %d to scratch chunk %u, which held chunk %d before",
                held.class, chunk, *like);
    } else if (place->buffer == PLAN_OUTPUT && plan_chunk_class(&importer->shape, gpu, PLAN_OUTPUT,
                                                                chunk) != (uint32_t)held.class) {
        msccl_import_note_step(importer, step, "stores chunk %d to output chunk %u for a while",
                               held.class, chunk);
    }
}

/* The first other step of the gpu that stores to that memory; -1: there is none. */
static int find_writer(const struct msccl_importer *importer, int step,
                       const struct msccl_cell *cell)
{
    const int gpu = msccl_import_block_at(importer, step)->gpu,
              first = msccl_import_first_step_of(importer, gpu);
    for (int i = first; i < first + msccl_import_step_count_of(importer, gpu); i++) {
        const struct msccl_step *of = &importer->algo->steps[i];
        if (!msccl_types[of->type].stores || i == step) continue;
        for (int k = 0; k < of->count; k++)
            if (cell ==
                msccl_import_cell_at(importer, gpu, of->destination_buffer, of->destination + k))
                return i;
    }
    return -1;
}

static void wrong_read(struct msccl_importer *importer, int step, enum msccl_buffer buffer,
                       int chunk)
{
    const int gpu = msccl_import_block_at(importer, step)->gpu;
    const bool is_shown = importer->report->further_count < MSCCL_FURTHER_MAX;
    const int writer =
        is_shown ? find_writer(importer, step, msccl_import_cell_at(importer, gpu, buffer, chunk))
                 : -1;
    if (writer < 0)
        msccl_import_wrong_step(importer, step, "reads %c chunk %d, which nobody wrote",
                                "ios"[buffer], chunk);
    else
        msccl_import_wrong_step(
            importer, step, "reads %c chunk %d, which %s writes; nothing orders that before this",
            "ios"[buffer], chunk, msccl_import_name_of(importer, writer, gpu).text);
}

/* False: nobody wrote it. */
static bool read_chunk(struct msccl_importer *importer, int step, enum msccl_buffer buffer,
                       int chunk, struct msccl_held *held)
{
    struct msccl_cell *cell =
        msccl_import_cell_at(importer, msccl_import_block_at(importer, step)->gpu, buffer, chunk);
    *held = cell->held;
    return held->class != MSCCL_NOTHING;
}

/* Computes a step's result at one position, before the step stores and sends it. False: a read of
 * *missing finds nothing. */
static bool compute(struct msccl_importer *importer, int step, int message, int position,
                    struct msccl_held *result, enum msccl_buffer *missing, int *chunk)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    struct msccl_held other;
    *missing = of->source_buffer;
    *chunk = of->source + position;
    if (traits->reads && !read_chunk(importer, step, *missing, *chunk, result)) return false;
    if (of->type == MSCCL_REDUCE) {
        *missing = of->destination_buffer;
        *chunk = of->destination + position;
        if (!read_chunk(importer, step, *missing, *chunk, &other)) return false;
        *result = sum_of(other, *result);
    }
    if (!traits->receives) return true;
    other = importer->sent[importer->first_sent[message] + (size_t)position];
    *result = traits->reads ? sum_of(*result, other) : other;
    return true;
}

/* Computes the results of all positions, and returns how many are complete. Behind a fault, which
 * is told once for each step, a result is not known. */
static int compute_all(struct msccl_importer *importer, int step, int message,
                       struct msccl_held *results)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    bool is_told = false;
    int complete = 0;
    for (int i = 0; i < of->count; i++) {
        enum msccl_buffer missing;
        int chunk;
        if (!compute(importer, step, message, i, &results[i], &missing, &chunk)) {
            if (!is_told) wrong_read(importer, step, missing, chunk);
            is_told = true;
            results[i] = (struct msccl_held){MSCCL_UNKNOWN, 0};
        }
        complete += results[i].count == importer->algo->gpu_count;
        if (msccl_types[of->type].stores) check_class(importer, step, i, results[i]);
    }
    return complete;
}

static bool reduces(const struct msccl_step *step)
{
    const struct msccl_traits *traits = &msccl_types[step->type];
    return step->type == MSCCL_REDUCE || (traits->reads && traits->receives);
}

/* Whether the message that the step receives has as many chunks. */
static bool fits(struct msccl_importer *importer, int step, int message)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const int sent = message >= 0 ? importer->algo->steps[message].count : of->count;
    if (sent == of->count) return true;
    return msccl_import_wrong_step(importer, step, "receives %d chunks where %s sends %d", of->count,
                                   msccl_import_name_of(importer, message, -1).text, sent);
}

static void execute(struct msccl_importer *importer, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_step *of = &algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const int block = importer->block_of[step], gpu = algo->blocks[block].gpu;
    struct msccl_finding *finding = &importer->findings[step];
    struct msccl_held *results = &importer->sent[importer->first_sent[step]];
    int message = -1, complete = 0;
    if (traits->receives)
        message = importer->send_lists[importer->first_sends[importer->partners[block]] +
                                       importer->taken[block]++];
    if (traits->reads)
        finding->source = place_read(importer, gpu, of->source_buffer, of->source, of->count);
    if (traits->stores) find_destination(importer, step);
    if (fits(importer, step, message))
        complete = compute_all(importer, step, message, results);
    else
        for (int i = 0; i < of->count; i++) results[i] = (struct msccl_held){MSCCL_UNKNOWN, 0};
    for (int i = 0; of->type == MSCCL_SEND && i < of->count; i++)
        importer->sent_writers[importer->first_sent[step] + (size_t)i] =
            msccl_import_cell_at(importer, gpu, of->source_buffer, of->source + i)->writer;
    for (int i = 0; traits->stores && i < of->count; i++)
        importer->sent_writers[importer->first_sent[step] + (size_t)i] = step;
    for (int i = 0; traits->stores && i < of->count; i++)
        *msccl_import_cell_at(importer, gpu, of->destination_buffer, of->destination + i) =
            (struct msccl_cell){results[i], step};
    importer->run_order[importer->run_count++] = step;
    if (!reduces(of)) return;
    finding->final = complete > 0;
    if (complete > 0 && complete < of->count)
        msccl_import_note_step(importer, step, "completes the reduction of %d of its %d chunks",
                               complete, of->count);
    if (!collective_reduces(algo->collective))
        msccl_import_note_step(importer, step, "reduces in a collective that does not");
}

static void run_block(struct msccl_importer *importer, int block, bool *moved)
{
    const struct msccl_block *of = &importer->algo->blocks[block];
    while (importer->done[block] < of->step_count) {
        const int step = of->first_step + importer->done[block];
        if (waits_for(importer, step) >= 0) return;
        execute(importer, step);
        importer->done[block]++;
        *moved = true;
    }
}

static void check_output(struct msccl_importer *importer, int gpu, int chunk)
{
    const struct plan_shape *shape = &importer->shape;
    const struct msccl_cell *cell = msccl_import_cell_at(importer, gpu, MSCCL_OUTPUT, chunk);
    const int wanted = (int)plan_chunk_class(shape, gpu, PLAN_OUTPUT, (uint32_t)chunk);
    const int count = collective_reduces(shape->collective) ? shape->rank_count : 1;
    if (cell->held.class == MSCCL_UNKNOWN) return;
    if (cell->held.class == wanted && cell->held.count == count) return;
    if (cell->writer < 0)
        msccl_refuse(importer->report, MSCCL_WRONG, importer->algo->gpus[gpu].line, gpu, -1, -1,
                     "output chunk %d is never written", chunk);
    else if (cell->held.class != wanted)
        msccl_import_wrong_step(importer, cell->writer,
                                "output chunk %d ends with another chunk in it", chunk);
    else
        msccl_import_wrong_step(importer, cell->writer,
                                "output chunk %d ends with %d contributions of %d", chunk,
                                cell->held.count, count);
}

/* Tells of each thread block that waits for ever, and for which step. */
static void check_ends(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    for (int block = 0; block < algo->block_count; block++) {
        const int step = algo->blocks[block].first_step + importer->done[block];
        if (importer->done[block] == algo->blocks[block].step_count) continue;
        const int other = waits_for(importer, step);
        msccl_import_wrong_step(importer, step, "deadlock: waits for %s",
                                msccl_import_name_of(importer, other, algo->blocks[block].gpu).text);
    }
}

bool msccl_import_run(struct msccl_importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    bool moved = true;
    if (!set_up_cells(importer)) return false;
    while (moved) {
        moved = false;
        for (int block = 0; block < algo->block_count; block++) run_block(importer, block, &moved);
    }
    check_ends(importer);
    if (importer->run_count == algo->step_count)
        for (int gpu = 0; gpu < algo->gpu_count; gpu++)
            for (int i = 0; i < msccl_import_chunks_of(importer, gpu, MSCCL_OUTPUT); i++)
                check_output(importer, gpu, i);
    return importer->report->verdict == MSCCL_PROVEN;
}
