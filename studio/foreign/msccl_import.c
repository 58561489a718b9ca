/* msccl_import.c - from thread blocks to lanes.
 *
 *     wire      who takes whose messages: connections are FIFO, with one writing and one reading block
 *     run       once, on contributions: what does each chunk hold?
 *     write     the plan, with what the run found out
 *     prove     plan_verify
 *
 * The run finds what a plan says and a file does not: which step completes a reduction (`final`), which chunk scratch memory is
 * like, and, in place, whether a step reads what the application left there (then the plan reads its input) or what a step stored
 * (then its output). Blocks and connections make a Kahn network, so the order of the run does not matter, unless there is a race;
 * and the proof finds races. It finds, too, what the run does not look at: contributions that are counted twice, capacity.
 *
 * What a plan cannot say is noted and the run goes on: when the result turns out wrong, that is said instead.
 */
#include "studio/foreign/msccl_import.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/build.h"
#include "plan/verify.h"

enum {
    NOTHING = -1, /* a chunk that nobody wrote */
    MIXTURE = -2, /* of several classes */
    UNKNOWN = -3, /* behind a fault that was told */
    AFTERS_MAX = 256,
    RACES_MAX = 16
};

/* Chunks of all buffers and messages; steps times lanes of the proof. */
static const uint64_t CELLS_MAX = UINT64_C(1) << 24;
static const uint64_t WORK_MAX = UINT64_C(1) << 31;

struct held {
    int class; /* or NOTHING, MIXTURE, UNKNOWN */
    int count; /* contributions */
};

struct cell {
    struct held held;
    int writer; /* the last step that stored here, or -1: the application */
};

/* Nothing orders them. */
struct race {
    int step, other; /* the other one is a step of any gpu; -1: none */
};

/* The findings of the run about one step. */
struct finding {
    bool final;
    struct plan_place source, destination; /* places of the plan */
};

struct importer {
    const struct msccl_algo *algo;
    struct msccl_report *report;
    struct msccl_report note; /* the first thing that a plan cannot say */
    struct plan_shape shape;

    int *partners;      /* for each block: the block that it receives from, or -1 */
    int *send_lists;    /* the steps that send, of one block side by side, in order */
    int *first_sends;   /* of each block, and one more */
    int *taken;         /* of each block: messages it has received */
    int *done;          /* of each block: steps */
    int *block_of;      /* of each step */
    size_t *first_sent; /* of each step: in `sent` */
    struct held *sent;
    struct cell *cells;
    size_t *first_cells; /* of each gpu: input, output, scratch */
    int **scratch_like;  /* of each gpu: the class of each scratch chunk, or NOTHING */
    struct finding *findings;
    uint32_t *handles; /* of each step: in its rank's plan, in order of emission */
    int *emitted; /* steps of each gpu, in the order of its plan; a gpu begins at twice its first step */
    int *sent_writers;           /* beside `sent`: who had written the memory that was sent */
    bool stages;                 /* copies what it sends, where the memory is written to later */
    bool needs_copies;           /* copies are lacking, which may be why there was no proof */
    struct race race;            /* the reason why there was no proof, unless its step is -1 */
    struct race told[RACES_MAX]; /* taken to be ordered, so that the proof finds others */
    int told_count;
    int *run_order; /* all steps, as the run met them */
    int run_count;
    int *lane_of;  /* of each block: in its rank's plan */
    int *channels; /* of each block: of what it sends, in the plan */
    int *stack;    /* of steps */
    int *was_seen; /* of each step that is a nop: 1 + the step for which it was, last */
};

/* ------------------------------------------------------------------------------------------------ refusals */

static const struct msccl_block *block_at(const struct importer *importer, int step)
{
    return &importer->algo->blocks[importer->block_of[step]];
}

static int number_of_block(const struct importer *importer, const struct msccl_block *block)
{
    return (int)(block - importer->algo->blocks) - importer->algo->gpus[block->gpu].first_block;
}

/* Refuses a step; `why` is the whole reason, without conversions. */
static bool refuse_step(struct importer *importer, struct msccl_report *report,
                        enum msccl_verdict verdict, int step, const char *why)
{
    const struct msccl_block *block = block_at(importer, step);
    const struct msccl_step *of = &importer->algo->steps[step];
    return msccl_refuse(report, verdict, of->line, block->gpu, number_of_block(importer, block),
                        step - block->first_step, "%s (%s)", why, msccl_types[of->type].name);
}

__attribute__((format(printf, 3, 4))) static bool wrong_step(struct importer *importer, int step,
                                                             const char *format, ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return refuse_step(importer, importer->report, MSCCL_WRONG, step, why);
}

__attribute__((format(printf, 3, 4))) static void note_step(struct importer *importer, int step,
                                                            const char *format, ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    refuse_step(importer, &importer->note, MSCCL_NOT_EXPRESSIBLE, step, why);
}

static bool refuse_all(struct importer *importer, enum msccl_verdict verdict, int gpu,
                       const char *why)
{
    return msccl_refuse(importer->report, verdict, gpu < 0 ? 0 : importer->algo->gpus[gpu].line,
                        gpu, -1, -1, "%s", why);
}

static bool out_of_memory(struct importer *importer)
{
    return refuse_all(importer, MSCCL_NOT_KNOWN, -1, "out of memory");
}

/* --------------------------------------------------------------------------------------------------- buffers */

/* The output chunk that is the same memory as that input chunk, or -1. A rank without a part of the input reads, in place, what
 * will be its output. */
static int output_of_input(const struct importer *importer, int gpu, int chunk)
{
    const struct plan_shape *const shape = &importer->shape;
    if (!importer->algo->in_place || (shape->collective == COLLECTIVE_SCATTER && gpu != shape->root))
        return -1;
    const int output = chunk + (int)plan_begin_in_place(shape, gpu, PLAN_INPUT) -
                       (int)plan_begin_in_place(shape, gpu, PLAN_OUTPUT);
    return output >= 0 && output < (int)plan_chunk_count(shape, gpu, PLAN_OUTPUT) ? output : -1;
}

/* The other way round. */
static int input_of_output(const struct importer *importer, int gpu, int chunk)
{
    const struct plan_shape *const shape = &importer->shape;
    const int inputs = (int)plan_chunk_count(shape, gpu, PLAN_INPUT);
    const int input = chunk + (int)plan_begin_in_place(shape, gpu, PLAN_OUTPUT) -
                      (int)plan_begin_in_place(shape, gpu, PLAN_INPUT);
    return input >= 0 && input < inputs && output_of_input(importer, gpu, input) == chunk ? input
                                                                                          : -1;
}

static int chunks_of(const struct importer *importer, int gpu, enum msccl_buffer buffer)
{
    if (buffer == MSCCL_SCRATCH) return importer->algo->gpus[gpu].chunks[MSCCL_SCRATCH];
    return (int)plan_chunk_count(&importer->shape, gpu,
                                 buffer == MSCCL_INPUT ? PLAN_INPUT : PLAN_OUTPUT);
}

static enum plan_buffer plan_buffer_of(enum msccl_buffer buffer)
{
    return buffer == MSCCL_INPUT ? PLAN_INPUT : buffer == MSCCL_OUTPUT ? PLAN_OUTPUT : PLAN_SCRATCH;
}

static struct cell *cell_at(const struct importer *importer, int gpu, enum msccl_buffer buffer,
                            int chunk)
{
    size_t index = importer->first_cells[gpu] + (size_t)chunk;
    if (buffer != MSCCL_INPUT) index += (size_t)chunks_of(importer, gpu, MSCCL_INPUT);
    if (buffer == MSCCL_SCRATCH) index += (size_t)chunks_of(importer, gpu, MSCCL_OUTPUT);
    if (buffer == MSCCL_INPUT) {
        const int output = output_of_input(importer, gpu, chunk);
        if (output >= 0) return cell_at(importer, gpu, MSCCL_OUTPUT, output);
    }
    return &importer->cells[index];
}

/* In place, files may name the same memory by either buffer, so one of the two counts is enough. */
static bool check_chunks(struct importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    bool fine = true;
    for (int gpu = 0; gpu < algo->gpu_count; gpu++)
        for (int buffer = MSCCL_INPUT; buffer <= MSCCL_OUTPUT; buffer++) {
            const int said = algo->gpus[gpu].chunks[buffer];
            const int wanted = chunks_of(importer, gpu, (enum msccl_buffer)buffer);
            if (said == wanted || said == 0) continue;
            if (wanted == 0) continue; /* of a rank that is not the root */
            fine = msccl_refuse(importer->report, MSCCL_WRONG, algo->gpus[gpu].line, gpu, -1, -1,
                                "%c_chunks=\"%d\" where %s of %d chunks on %d gpus has %d",
                                "io"[buffer], said, collective_name(algo->collective),
                                algo -> chunk_count, algo -> gpu_count, wanted);
        }
    return fine;
}

static bool check_places(struct importer *importer, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const int gpu = block_at(importer, step)->gpu;
    const struct {
        bool is_used;
        enum msccl_buffer buffer;
        int first;
    } places[] = {{traits->reads, of->source_buffer, of->source},
                  {traits->stores, of->destination_buffer, of->destination}};
    bool fine = true;
    for (int i = 0; i < 2; i++) {
        if (!places[i].is_used) continue;
        const int count = chunks_of(importer, gpu, places[i].buffer);
        if (places[i].first > count || of->count > count - places[i].first)
            fine = wrong_step(importer, step, "%s chunks %d to %d of %c, which has %d",
                              i == 0 ? "reads" : "stores", places[i].first,
                              places[i].first + of->count - 1, "ios"[places[i].buffer], count);
    }
    return fine;
}

/* --------------------------------------------------------------------------------------------------- wiring */

static bool find_partner(struct importer *importer, int block)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_block *of = &algo->blocks[block];
    const struct msccl_gpu *gpu = &algo->gpus[of->gpu];
    const int number = number_of_block(importer, of);
    for (int i = gpu->first_block; i < block; i++) {
        const struct msccl_block *other = &algo->blocks[i];
        if (other->channel != of->channel) continue;
        if ((of->send >= 0 && of->send == other->send) ||
            (of->receive >= 0 && of->receive == other->receive))
            return msccl_refuse(importer->report, MSCCL_WRONG, of->line, of->gpu, number, -1,
                                "tb %d has the same connection on channel %d",
                                number_of_block(importer, other), of->channel);
    }
    importer->partners[block] = -1;
    if (of->receive < 0) return true;
    const struct msccl_gpu *peer = &algo->gpus[of->receive];
    for (int i = peer->first_block; i < peer->first_block + peer->block_count; i++)
        if (algo->blocks[i].send == of->gpu && algo->blocks[i].channel == of->channel)
            importer->partners[block] = i;
    return true;
}

static int count_receives(const struct importer *importer, int block)
{
    const struct msccl_block *of = &importer->algo->blocks[block];
    int count = 0;
    for (int i = 0; i < of->step_count; i++)
        count += msccl_types[importer->algo->steps[of->first_step + i].type].receives;
    return count;
}

static int count_sends(const struct importer *importer, int block)
{
    return importer->first_sends[block + 1] - importer->first_sends[block];
}

/* As many messages are received as are sent. */
static bool check_partners(struct importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    bool fine = true;
    for (int block = 0; block < algo->block_count; block++) {
        const struct msccl_block *of = &algo->blocks[block];
        const int partner = importer->partners[block];
        const int received = count_receives(importer, block);
        const int sent = partner >= 0 ? count_sends(importer, partner) : 0;
        if (received != sent)
            fine = msccl_refuse(importer->report, MSCCL_WRONG, of->line, of->gpu,
                                number_of_block(importer, of), -1,
                                "%d messages are received of %d that gpu %d sends on channel %d",
                                received, sent, of->receive, of->channel);
        if (partner >= 0) importer->taken[partner] = 1; /* for the check below */
    }
    for (int block = 0; block < algo->block_count; block++) {
        const struct msccl_block *of = &algo->blocks[block];
        if (!importer->taken[block] && count_sends(importer, block) > 0)
            fine = msccl_refuse(importer->report, MSCCL_WRONG, of->line, of->gpu,
                                number_of_block(importer, of), -1,
                                "gpu %d has no thread block that receives this on channel %d",
                                of->send, of->channel);
        importer->taken[block] = 0;
    }
    return fine;
}

static bool check_dependency(struct importer *importer, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_step *of = &algo->steps[step];
    const struct msccl_gpu *gpu = &algo->gpus[block_at(importer, step)->gpu];
    if (of->after_block < 0) return true;
    if (of->after_block >= gpu->block_count)
        return wrong_step(importer, step, "waits for tb %d, which does not exist", of->after_block);
    const struct msccl_block *other = &algo->blocks[gpu->first_block + of->after_block];
    if (of->after_step >= other->step_count)
        return wrong_step(importer, step, "waits for tb %d step %d, which does not exist",
                          of->after_block, of->after_step);
    if (!algo->steps[other->first_step + of->after_step].is_awaited)
        return wrong_step(importer, step, "waits for tb %d step %d, which has hasdep=\"0\"",
                          of->after_block, of->after_step);
    return true;
}

static bool wire(struct importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    int sends = 0;
    bool fine = true;
    for (int block = 0; block < algo->block_count; block++) {
        const struct msccl_block *of = &algo->blocks[block];
        importer->first_sends[block] = sends;
        for (int i = of->first_step; i < of->first_step + of->step_count; i++) {
            importer->block_of[i] = block;
            if (msccl_types[algo->steps[i].type].sends) importer->send_lists[sends++] = i;
        }
        importer->first_sends[block + 1] = sends;
        if (!find_partner(importer, block)) fine = false;
    }
    if (fine) fine = check_partners(importer);
    for (int step = 0; step < algo->step_count; step++) {
        if (!check_places(importer, step)) fine = false;
        if (!check_dependency(importer, step)) fine = false;
    }
    return fine;
}

/* --------------------------------------------------------------------------------------------------- the run */

static bool set_up_cells(struct importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    uint64_t count = 0, sent = 0;
    for (int gpu = 0; gpu < algo->gpu_count; gpu++) {
        importer->first_cells[gpu] = (size_t)count;
        for (int buffer = MSCCL_INPUT; buffer <= MSCCL_SCRATCH; buffer++)
            count += (uint64_t)chunks_of(importer, gpu, (enum msccl_buffer)buffer);
    }
    for (int step = 0; step < algo->step_count; step++) {
        importer->first_sent[step] = (size_t)sent;
        sent += (uint64_t)algo->steps[step].count;
    }
    if (count > CELLS_MAX || sent > CELLS_MAX ||
        (uint64_t)algo->step_count * (uint64_t)(algo->block_count + 1) > WORK_MAX)
        return refuse_all(importer, MSCCL_NOT_EXPRESSIBLE, -1, "too large to be proven");
    importer->cells = calloc((size_t)count + 1, sizeof *importer->cells);
    importer->sent = calloc((size_t)sent + 1, sizeof *importer->sent);
    importer->sent_writers = calloc((size_t)sent + 1, sizeof(int));
    if (!importer->cells || !importer->sent || !importer->sent_writers)
        return out_of_memory(importer);
    for (uint64_t i = 0; i < count; i++) importer->cells[i] = (struct cell){{NOTHING, 0}, -1};
    for (int gpu = 0; gpu < algo->gpu_count; gpu++) {
        const int scratch = chunks_of(importer, gpu, MSCCL_SCRATCH);
        for (int i = 0; i < chunks_of(importer, gpu, MSCCL_INPUT); i++)
            cell_at(importer, gpu, MSCCL_INPUT, i)->held = (struct held){
                (int)plan_chunk_class(&importer->shape, gpu, PLAN_INPUT, (uint32_t)i), 1};
        importer->scratch_like[gpu] = malloc((size_t)(scratch + 1) * sizeof(int));
        if (importer->scratch_like[gpu] == NULL) return out_of_memory(importer);
        for (int i = 0; i < scratch; i++) importer->scratch_like[gpu][i] = NOTHING;
    }
    return true;
}

static struct held sum_of(struct held a, struct held b)
{
    const bool same = a.class == b.class && a.class >= 0;
    const int count = a.count + b.count; /* more than all ranks are never right */
    if (a.class == UNKNOWN || b.class == UNKNOWN) return (struct held){UNKNOWN, 0};
    return (struct held){same ? a.class : MIXTURE,
                         count < 2 * MSCCL_GPUS_MAX ? count : 2 * MSCCL_GPUS_MAX};
}

/* The step that it has to wait for; -1: none. */
static int waits_for(const struct importer *importer, int step)
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
static struct plan_place place_read(const struct importer *importer, int gpu,
                                    enum msccl_buffer buffer, int first, int count)
{
    const struct plan_place as_said = {plan_buffer_of(buffer), (uint32_t)first};
    int input = first, output = first;
    if (buffer == MSCCL_SCRATCH || !importer->algo->in_place) return as_said;
    if (buffer == MSCCL_OUTPUT) {
        input = input_of_output(importer, gpu, first);
        if (input < 0 || input_of_output(importer, gpu, first + count - 1) != input + count - 1)
            return as_said;
    } else {
        output = output_of_input(importer, gpu, first);
        if (output < 0 || output_of_input(importer, gpu, first + count - 1) != output + count - 1)
            return as_said;
    }
    int stored = 0;
    for (int i = 0; i < count; i++)
        stored += cell_at(importer, gpu, MSCCL_OUTPUT, output + i)->writer >= 0;
    if (stored == 0) return (struct plan_place){PLAN_INPUT, (uint32_t)input};
    if (stored == count) return (struct plan_place){PLAN_OUTPUT, (uint32_t)output};
    return as_said;
}

static void find_destination(struct importer *importer, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const int gpu = block_at(importer, step)->gpu;
    struct finding *finding = &importer->findings[step];
    finding->destination =
        (struct plan_place){plan_buffer_of(of->destination_buffer), (uint32_t)of->destination};
    if (of->destination_buffer != MSCCL_INPUT) return;
    const int first = output_of_input(importer, gpu, of->destination);
    const int last = output_of_input(importer, gpu, of->destination + of->count - 1);
    if (first < 0 || last != first + of->count - 1)
        note_step(importer, step, "stores to input chunk %d, and a plan only reads its input",
                  of->destination);
    else
        finding->destination = (struct plan_place){PLAN_OUTPUT, (uint32_t)first};
}

/* Whether the plan can store that there: memory is for one class of chunks. */
static void check_class(struct importer *importer, int step, int position, struct held held)
{
    const struct plan_place *place = &importer->findings[step].destination;
    const int gpu = block_at(importer, step)->gpu;
    const uint32_t chunk = place->first + (uint32_t)position;
    if (held.class == UNKNOWN) return;
    if (held.class == MIXTURE) {
        note_step(importer, step, "adds different chunks");
    } else if (place->buffer == PLAN_SCRATCH) {
        int *like = &importer->scratch_like[gpu][chunk];
        if (*like == NOTHING) *like = held.class;
        if (*like != held.class)
            note_step(importer, step,
                      "stores chunk %d to scratch chunk %u, which held chunk %d before", held.class,
                      chunk, *like);
    } else if (place->buffer == PLAN_OUTPUT && plan_chunk_class(&importer->shape, gpu, PLAN_OUTPUT,
                                                                chunk) != (uint32_t)held.class) {
        note_step(importer, step, "stores chunk %d to output chunk %u for a while", held.class,
                  chunk);
    }
}

static int first_step_of(const struct importer *importer, int gpu)
{
    const struct msccl_gpu *of = &importer->algo->gpus[gpu];
    return of->block_count > 0 ? importer->algo->blocks[of->first_block].first_step : 0;
}

static int step_count_of(const struct importer *importer, int gpu)
{
    const struct msccl_gpu *of = &importer->algo->gpus[gpu];
    int count = 0;
    for (int i = 0; i < of->block_count; i++)
        count += importer->algo->blocks[of->first_block + i].step_count;
    return count;
}

/* "tb 1 step 0", with its gpu if that is another one. */
struct name {
    char text[48];
};

static struct name name_of(const struct importer *importer, int step, int gpu)
{
    const struct msccl_block *block = block_at(importer, step);
    const int number = number_of_block(importer, block), at = step - block->first_step;
    struct name name;
    if (block->gpu == gpu)
        snprintf(name.text, sizeof name.text, "tb %d step %d", number, at);
    else
        snprintf(name.text, sizeof name.text, "gpu %d tb %d step %d", block->gpu, number, at);
    return name;
}

/* The first step of the gpu that stores to that memory, though not before `step`; -1: none. */
static int find_writer(const struct importer *importer, int step, const struct cell *cell)
{
    const int gpu = block_at(importer, step)->gpu, first = first_step_of(importer, gpu);
    for (int i = first; i < first + step_count_of(importer, gpu); i++) {
        const struct msccl_step *of = &importer->algo->steps[i];
        if (!msccl_types[of->type].stores || i == step) continue;
        for (int k = 0; k < of->count; k++)
            if (cell == cell_at(importer, gpu, of->destination_buffer, of->destination + k))
                return i;
    }
    return -1;
}

static void wrong_read(struct importer *importer, int step, enum msccl_buffer buffer, int chunk)
{
    const int gpu = block_at(importer, step)->gpu;
    const bool is_shown = importer->report->further_count < MSCCL_FURTHER_MAX;
    const int writer =
        is_shown ? find_writer(importer, step, cell_at(importer, gpu, buffer, chunk)) : -1;
    if (writer < 0)
        wrong_step(importer, step, "reads %c chunk %d, which nobody wrote", "ios"[buffer], chunk);
    else
        wrong_step(importer, step,
                   "reads %c chunk %d, which %s writes; nothing orders that before this",
                   "ios"[buffer], chunk, name_of(importer, writer, gpu).text);
}

/* False: nobody wrote it. */
static bool read_chunk(struct importer *importer, int step, enum msccl_buffer buffer, int chunk,
                       struct held *held)
{
    struct cell *cell = cell_at(importer, block_at(importer, step)->gpu, buffer, chunk);
    *held = cell->held;
    return held->class != NOTHING;
}

/* Computes a step's result at one position, before the step stores and sends it. False: a read of
 * *missing finds nothing. */
static bool compute(struct importer *importer, int step, int message, int position,
                    struct held *result, enum msccl_buffer *missing, int *chunk)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    struct held other;
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

/* Results of all positions; behind a fault, which is told once for each step, they are not known. Returns how many are complete. */
static int compute_all(struct importer *importer, int step, int message, struct held *results)
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
            results[i] = (struct held){UNKNOWN, 0};
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
static bool fits(struct importer *importer, int step, int message)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const int sent = message >= 0 ? importer->algo->steps[message].count : of->count;
    if (sent == of->count) return true;
    return wrong_step(importer, step, "receives %d chunks where %s sends %d", of->count,
                      name_of(importer, message, -1).text, sent);
}

static void execute(struct importer *importer, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_step *of = &algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const int block = importer->block_of[step], gpu = algo->blocks[block].gpu;
    struct finding *finding = &importer->findings[step];
    struct held *results = &importer->sent[importer->first_sent[step]];
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
        for (int i = 0; i < of->count; i++) results[i] = (struct held){UNKNOWN, 0};
    for (int i = 0; of->type == MSCCL_SEND && i < of->count; i++)
        importer->sent_writers[importer->first_sent[step] + (size_t)i] =
            cell_at(importer, gpu, of->source_buffer, of->source + i)->writer;
    for (int i = 0; traits->stores && i < of->count; i++)
        importer->sent_writers[importer->first_sent[step] + (size_t)i] = step;
    for (int i = 0; traits->stores && i < of->count; i++)
        *cell_at(importer, gpu, of->destination_buffer, of->destination + i) =
            (struct cell){results[i], step};
    importer->run_order[importer->run_count++] = step;
    if (!reduces(of)) return;
    finding->final = complete > 0;
    if (complete > 0 && complete < of->count)
        note_step(importer, step, "completes the reduction of %d of its %d chunks", complete,
                  of->count);
    if (!collective_reduces(algo->collective))
        note_step(importer, step, "reduces in a collective that does not");
}

static void run_block(struct importer *importer, int block, bool *moved)
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

static void check_output(struct importer *importer, int gpu, int chunk)
{
    const struct plan_shape *shape = &importer->shape;
    const struct cell *cell = cell_at(importer, gpu, MSCCL_OUTPUT, chunk);
    const int wanted = (int)plan_chunk_class(shape, gpu, PLAN_OUTPUT, (uint32_t)chunk);
    const int count = collective_reduces(shape->collective) ? shape->rank_count : 1;
    if (cell->held.class == UNKNOWN) return;
    if (cell->held.class == wanted && cell->held.count == count) return;
    if (cell->writer < 0)
        msccl_refuse(importer->report, MSCCL_WRONG, importer->algo->gpus[gpu].line, gpu, -1, -1,
                     "output chunk %d is never written", chunk);
    else if (cell->held.class != wanted)
        wrong_step(importer, cell->writer, "output chunk %d ends with another chunk in it", chunk);
    else
        wrong_step(importer, cell->writer, "output chunk %d ends with %d contributions of %d",
                   chunk, cell->held.count, count);
}

/* Each thread block that waits for ever, and for which step. */
static void check_ends(struct importer *importer)
{
    const struct msccl_algo *algo = importer->algo;
    for (int block = 0; block < algo->block_count; block++) {
        const int step = algo->blocks[block].first_step + importer->done[block];
        if (importer->done[block] == algo->blocks[block].step_count) continue;
        const int other = waits_for(importer, step);
        wrong_step(importer, step, "deadlock: waits for %s",
                   name_of(importer, other, algo->blocks[block].gpu).text);
    }
}

static bool run(struct importer *importer)
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
            for (int i = 0; i < chunks_of(importer, gpu, MSCCL_OUTPUT); i++)
                check_output(importer, gpu, i);
    return importer->report->verdict == MSCCL_PROVEN;
}

/* --------------------------------------------------------------------------------------------------- lanes */

static const uint64_t LANE_WORK_MAX = UINT64_C(1) << 24;

/* A GPU has more thread blocks than a plan has lanes: which blocks never work side by side? */
struct sharing {
    const struct importer *importer;
    int gpu, first_step, step_count;
    int *in_order; /* its steps, as the run met them */
    int *known;    /* [step][block]: steps of that block that are completed before the step */
    bool *is_in;   /* of each block: whether it is in the lane that is looked at */
};

static int *known_at(const struct sharing *sharing, int step)
{
    const int blocks = sharing->importer->algo->gpus[sharing->gpu].block_count;
    return sharing->known + (size_t)(step - sharing->first_step) * (size_t)blocks;
}

static void learn(const struct sharing *sharing, int step, int other)
{
    const struct importer *importer = sharing->importer;
    const struct msccl_gpu *gpu = &importer->algo->gpus[sharing->gpu];
    const struct msccl_block *block = block_at(importer, other);
    int *known = known_at(sharing, step), *of_other = known_at(sharing, other);
    for (int i = 0; i < gpu->block_count; i++)
        if (of_other[i] > known[i]) known[i] = of_other[i];
    int *own = &known[number_of_block(importer, block)];
    if (*own < other - block->first_step + 1) *own = other - block->first_step + 1;
}

/* By the order of blocks and by dependencies alone: what is ordered by messages is not looked at. */
static void learn_order(struct sharing *sharing)
{
    const struct importer *importer = sharing->importer;
    const struct msccl_algo *algo = importer->algo;
    int count = 0;
    for (int i = 0; i < importer->run_count; i++) {
        const int step = importer->run_order[i];
        const struct msccl_block *block = block_at(importer, step);
        if (block->gpu != sharing->gpu) continue;
        sharing->in_order[count++] = step;
        if (step > block->first_step) learn(sharing, step, step - 1);
        if (algo->steps[step].after_block >= 0)
            learn(sharing, step,
                  algo->blocks[algo->gpus[sharing->gpu].first_block + algo->steps[step].after_block]
                          .first_step +
                      algo->steps[step].after_step);
    }
}

/* Whether the blocks that are in never work side by side. */
static bool is_chain(const struct sharing *sharing)
{
    const struct importer *importer = sharing->importer;
    int before = -1;
    for (int i = 0; i < sharing->step_count; i++) {
        const int step = sharing->in_order[i];
        if (!sharing->is_in[number_of_block(importer, block_at(importer, step))]) continue;
        if (before >= 0) {
            const struct msccl_block *other = block_at(importer, before);
            if (known_at(sharing, step)[number_of_block(importer, other)] <=
                before - other->first_step)
                return false;
        }
        before = step;
    }
    return true;
}

/* The first lane that the block can come to; PLAN_LANES_MAX: none. */
static int find_lane(const struct sharing *sharing, int block)
{
    const struct importer *importer = sharing->importer;
    const struct msccl_gpu *gpu = &importer->algo->gpus[sharing->gpu];
    for (int lane = 0; lane < PLAN_LANES_MAX; lane++) {
        for (int i = 0; i < gpu->block_count; i++)
            sharing->is_in[i] =
                i == block || (i < block && importer->lane_of[gpu->first_block + i] == lane);
        if (is_chain(sharing)) return lane;
    }
    return PLAN_LANES_MAX;
}

static bool share_lanes_with(struct importer *importer, struct sharing *sharing)
{
    const struct msccl_gpu *gpu = &importer->algo->gpus[sharing->gpu];
    learn_order(sharing);
    for (int i = 0; i < gpu->block_count; i++) {
        const int lane = find_lane(sharing, i);
        if (lane == PLAN_LANES_MAX)
            return msccl_refuse(
                importer->report, MSCCL_NOT_EXPRESSIBLE, gpu->line, sharing->gpu, -1, -1,
                "%d thread blocks, more than %d of them side by side: the lanes of a plan",
                gpu->block_count, PLAN_LANES_MAX);
        importer->lane_of[gpu->first_block + i] = lane;
    }
    return true;
}

/* A lane for each block while there are enough. */
static bool choose_lanes(struct importer *importer, int gpu)
{
    const struct msccl_gpu *of = &importer->algo->gpus[gpu];
    for (int i = 0; i < of->block_count; i++) importer->lane_of[of->first_block + i] = i;
    if (of->block_count <= PLAN_LANES_MAX) return true;
    struct sharing sharing = {.importer = importer,
                              .gpu = gpu,
                              .first_step = first_step_of(importer, gpu),
                              .step_count = step_count_of(importer, gpu)};
    const uint64_t room = (uint64_t)sharing.step_count * (uint64_t)of->block_count;
    if (room > LANE_WORK_MAX)
        return refuse_all(importer, MSCCL_NOT_EXPRESSIBLE, gpu, "too many steps and thread blocks");
    sharing.in_order = calloc((size_t)sharing.step_count + 1, sizeof(int));
    sharing.known = calloc((size_t)room + 1, sizeof(int));
    sharing.is_in = calloc((size_t)of->block_count, sizeof(bool));
    const bool shared = sharing.in_order && sharing.known && sharing.is_in
                            ? share_lanes_with(importer, &sharing)
                            : out_of_memory(importer);
    free(sharing.in_order);
    free(sharing.known);
    free(sharing.is_in);
    return shared;
}

/* A plan sends from the memory where data lies, until the message has come. If that memory is
 * written to later, MSCCL's copy can become a copy of the plan, in scratch memory of its own. The
 * copy comes before a send or, if a step receives, stores and sends, between the store and the
 * send. */
static bool is_staged(const struct importer *importer, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const int gpu = block_at(importer, step)->gpu;
    if (!importer->stages || !traits->sends || of->type == MSCCL_RECV_REDUCE_PASS) return false;
    for (int i = 0; i < of->count; i++) {
        const struct cell *cell =
            traits->stores ? cell_at(importer, gpu, of->destination_buffer, of->destination + i)
                           : cell_at(importer, gpu, of->source_buffer, of->source + i);
        if (cell->writer != importer->sent_writers[importer->first_sent[step] + (size_t)i])
            return true;
    }
    return false;
}

static int steps_in_plan(const struct importer *importer, int step)
{
    if (importer->algo->steps[step].type == MSCCL_NOP) return 0;
    return is_staged(importer, step) ? 2 : 1;
}

/* The order of all steps of the plan: lane after lane. */
static int order_steps(struct importer *importer, int gpu, int lane_ends[PLAN_LANES_MAX])
{
    const struct msccl_algo *algo = importer->algo;
    int *emitted = &importer->emitted[2 * (size_t)first_step_of(importer, gpu)];
    int counts[PLAN_LANES_MAX] = {0}, lane_count = 0, total = 0;
    for (int b = algo->gpus[gpu].first_block;
         b < algo->gpus[gpu].first_block + algo->gpus[gpu].block_count; b++) {
        if (importer->lane_of[b] >= lane_count) lane_count = importer->lane_of[b] + 1;
        for (int i = 0; i < algo->blocks[b].step_count; i++)
            counts[importer->lane_of[b]] += steps_in_plan(importer, algo->blocks[b].first_step + i);
    }
    for (int lane = 0; lane < lane_count; lane++) {
        lane_ends[lane] = total;
        total += counts[lane];
    }
    for (int i = 0; i < importer->run_count; i++) {
        const int step = importer->run_order[i], block = importer->block_of[step];
        if (algo->blocks[block].gpu != gpu || algo->steps[step].type == MSCCL_NOP) continue;
        int *end = &lane_ends[importer->lane_of[block]];
        for (int k = steps_in_plan(importer, step); k > 0; k--) emitted[(*end)++] = step;
        importer->handles[step] = (uint32_t)*end - 1;
    }
    return lane_count;
}

/* ------------------------------------------------------------------------------------------------- the plan */

/* All steps but nops that the step which waits for `step` comes after: that one, or what a nop stands for. */
static bool say_after(struct importer *importer, struct plan_builder *builder, int step, int stamp,
                      int *count)
{
    const struct msccl_algo *algo = importer->algo;
    int depth = 0;
    importer->stack[depth++] = step;
    while (depth > 0) {
        const int at = importer->stack[--depth];
        const struct msccl_step *of = &algo->steps[at];
        const struct msccl_block *block = block_at(importer, at);
        if (of->type != MSCCL_NOP) {
            if (++*count > AFTERS_MAX) return false;
            plan_after(builder, importer->handles[at]);
            continue;
        }
        /* A nop waits for what it says and for the step before it; each is visited once for each step. */
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

static bool write_afters(struct importer *importer, struct plan_builder *builder, int step)
{
    const struct msccl_algo *algo = importer->algo;
    const struct msccl_block *block = block_at(importer, step);
    const int first_block = algo->gpus[block->gpu].first_block;
    int first = step, count = 0;
    while (first > block->first_step && algo->steps[first - 1].type == MSCCL_NOP) first--;
    for (int i = first; i <= step; i++) {
        const struct msccl_step *of = &algo->steps[i];
        if (of->after_block < 0) continue;
        const int other = algo->blocks[first_block + of->after_block].first_step + of->after_step;
        if (!say_after(importer, builder, other, step + 1, &count)) {
            note_step(importer, step, "waits for more than %d steps", AFTERS_MAX);
            return false;
        }
    }
    for (int i = 0; i < importer->told_count; i++)
        if (importer->told[i].step == step &&
            block_at(importer, importer->told[i].other)->gpu == block->gpu)
            plan_after(builder, importer->handles[importer->told[i].other]);
    return true;
}

static void write_send(struct importer *importer, struct plan_builder *builder, int step)
{
    plan_channel(builder, importer->channels[importer->block_of[step]]);
    plan_send(builder, block_at(importer, step)->send);
}

/* Scratch of the step's own, like the chunks that it sends. */
static struct plan_place stage_of(struct importer *importer, struct plan_builder *builder, int step)
{
    struct plan_place stage = {PLAN_SCRATCH, 0};
    for (int i = 0; i < importer->algo->steps[step].count; i++) {
        const struct held *held = &importer->sent[importer->first_sent[step] + (size_t)i];
        const uint32_t chunk = plan_scratch(builder, (uint32_t)held->class);
        if (i == 0) stage.first = chunk;
    }
    return stage;
}

static void write_step(struct importer *importer, struct plan_builder *builder, int step)
{
    const struct msccl_step *of = &importer->algo->steps[step];
    const struct msccl_traits *traits = &msccl_types[of->type];
    const struct msccl_block *block = block_at(importer, step);
    const struct finding *finding = &importer->findings[step];
    const bool staged = is_staged(importer, step);
    const struct plan_place stage =
        staged ? stage_of(importer, builder, step) : (struct plan_place){PLAN_SCRATCH, 0};
    const struct plan_place to = staged ? stage : finding->destination;
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

/* In place, a block that stays where it is needs no step; with separate buffers it needs a copy, which is none in place. */
static void write_own_block(struct importer *importer, struct plan_builder *builder, int gpu,
                            int lane_count)
{
    const int inputs = chunks_of(importer, gpu, MSCCL_INPUT);
    bool has_lane = false;
    if (!importer->algo->in_place || lane_count == PLAN_LANES_MAX) return;
    for (int i = 0; i < inputs; i++) {
        const int output = output_of_input(importer, gpu, i);
        if (output < 0 || cell_at(importer, gpu, MSCCL_OUTPUT, output)->writer >= 0) continue;
        if (!has_lane) plan_lane(builder);
        has_lane = true;
        plan_copy(builder, PLAN_INPUT, (uint32_t)i, PLAN_OUTPUT, (uint32_t)output, 1);
    }
}

/* Channels only tell connections with the same ends apart, and count from 0 for each pair of gpus. */
static bool number_channels(struct importer *importer)
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

static bool write_rank(struct importer *importer, struct plan_builder *builder, int gpu)
{
    const int *emitted = &importer->emitted[2 * (size_t)first_step_of(importer, gpu)];
    int lane_ends[PLAN_LANES_MAX], at = 0;
    plan_parts(builder, importer->shape.parts);
    for (int i = 0; i < chunks_of(importer, gpu, MSCCL_SCRATCH); i++)
        plan_scratch(builder, importer->scratch_like[gpu][i] >= 0
                                  ? (uint32_t)importer->scratch_like[gpu][i]
                                  : 0);
    const int lane_count = order_steps(importer, gpu, lane_ends);
    for (int lane = 0; lane < lane_count; lane++) {
        plan_lane(builder);
        for (; at < lane_ends[lane]; at += steps_in_plan(importer, emitted[at])) {
            write_step(importer, builder, emitted[at]);
            if (importer->note.verdict != MSCCL_PROVEN) return false;
            const char *error = plan_builder_error(builder);
            if (error != NULL) return wrong_step(importer, emitted[at], "%s", error);
        }
    }
    write_own_block(importer, builder, gpu, lane_count);
    return true;
}

static bool write_plan(struct importer *importer, struct plan *plan)
{
    const struct plan_shape *shape = &importer->shape;
    plan->shape = *shape;
    plan->ranks = calloc((size_t)shape->rank_count, sizeof(struct rank_plan *));
    if (plan->ranks == NULL) return out_of_memory(importer);
    if (!number_channels(importer)) return false;
    for (int gpu = 0; gpu < shape->rank_count; gpu++) {
        const char *error = "out of memory";
        if (!choose_lanes(importer, gpu)) return false;
        struct plan_builder *builder =
            plan_builder_create(shape->collective, shape->rank_count, shape->root, gpu);
        if (builder == NULL) return out_of_memory(importer);
        const bool written = write_rank(importer, builder, gpu);
        enum tutti_status status = TUTTI_OK;
        if (written) status = plan_builder_finish(builder, &plan->ranks[gpu], &error);
        plan_builder_free(builder);
        if (!written) return false;
        if (status == TUTTI_NO_MEMORY) return out_of_memory(importer);
        if (status != TUTTI_OK) return refuse_all(importer, MSCCL_WRONG, gpu, error);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------- the proof */

/* The step of the file that is that step of the plan. -1: none. */
static int step_of(const struct importer *importer, const struct plan *plan, int rank, int lane,
                   int step)
{
    if (rank < 0 || lane < 0 || step < 0) return -1;
    const int at = (int)plan->ranks[rank]->lanes[lane].first_step + step;
    const int first = first_step_of(importer, rank);
    int count = 0;
    for (int i = 0; i < step_count_of(importer, rank); i++)
        count += steps_in_plan(importer, first + i);
    return at < count ? importer->emitted[2 * (size_t)first + (size_t)at] : -1;
}

/* The verifier's words, with the file's name for the other step of a race. */
static void name_other(const struct importer *importer, const struct verify_report *found,
                       int other, char *why, size_t why_bytes)
{
    char words[48];
    const char *begin = strstr(found->message, ": ");
    begin = begin != NULL ? begin + 2 : found->message;
    snprintf(words, sizeof words, "lane %d step %d", found->other_lane, found->other_step);
    const char *at = other >= 0 ? strstr(begin, words) : NULL;
    if (at == NULL)
        snprintf(why, why_bytes, "%s", begin);
    else
        snprintf(why, why_bytes, "%.*s%s%s", (int)(at - begin), begin,
                 name_of(importer, other, found->rank).text, at + strlen(words));
}

static bool was_told(const struct importer *importer, int step, int other)
{
    for (int i = 0; i < importer->told_count; i++)
        if (importer->told[i].step == step && importer->told[i].other == other) return true;
    return false;
}

/* A send of MSCCL copies its data. A send of a plan reads its memory until the message has come,
 * and the engine stores some results straight in their receivers' memory. If only that is at fault,
 * the file may be right. */
static bool is_about_copies(const char *message)
{
    return strstr(message, "may still be sending") != NULL ||
           strstr(message, "may place its result") != NULL ||
           strstr(message, "may have placed its result") != NULL;
}

/* Replicas whose bits may differ are right for MSCCL, and a plan promises that they do not. */
static bool is_about_bits(const char *message)
{
    return strstr(message, "is added up in another order") != NULL;
}

static bool prove(struct importer *importer, const struct plan *plan)
{
    struct verify_report found;
    struct verify_options how = {.in_place = importer->algo->in_place};
    const enum verify_verdict verdict = plan_verify(plan, &how, &found);
    if (verdict == VERIFY_NO_MEMORY || verdict == VERIFY_TOO_COSTLY)
        return refuse_all(importer, MSCCL_NOT_KNOWN, -1, found.message);
    if (verdict == VERIFY_PROVEN) {
        how.in_place = !how.in_place;
        if (importer->told_count == 0)
            importer->report->proven_otherwise = plan_verify(plan, &how, &found) == VERIFY_PROVEN;
        return true;
    }
    importer->needs_copies = is_about_copies(found.message);
    const enum msccl_verdict what =
        importer->needs_copies || is_about_bits(found.message) ? MSCCL_NOT_EXPRESSIBLE : MSCCL_WRONG;
    const int step = step_of(importer, plan, found.rank, found.lane, found.step);
    const int other = step_of(importer, plan, found.other_rank, found.other_lane, found.other_step);
    char why[sizeof found.message];
    name_other(importer, &found, other, why, sizeof why);
    if (other >= 0 && what == MSCCL_WRONG && !was_told(importer, step, other))
        importer->race = (struct race){step, other};
    else if (importer->told_count > 0)
        return false; /* it may come of what was taken for granted */
    if (step >= 0) return refuse_step(importer, importer->report, what, step, why);
    return refuse_all(importer, what, found.rank, why);
}

/* ------------------------------------------------------------------------------------------------------- all */

static bool find_shape(struct importer *importer)
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

static bool set_up(struct importer *importer)
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
           out_of_memory(importer);
}

static void tear_down(struct importer *importer)
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

static void make_plan(struct importer *importer, struct plan **plan)
{
    struct plan *made = calloc(1, sizeof *made);
    if (made == NULL)
        out_of_memory(importer);
    else if (write_plan(importer, made) && prove(importer, made))
        *plan = made;
    if (*plan == NULL) plan_free(made);
}

/* Once more with copies, and then the first reason counts: with them, stores come later than in the file, so races that only show
 * there say nothing about it. */
static void make_plan_with_copies(struct importer *importer, struct plan **plan)
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

/* A proof ends at the first fault. Races behind a race are found by taking that one to be ordered. */
static void find_more_races(struct importer *importer)
{
    struct plan *plan = NULL;
    while (importer->race.step >= 0 && importer->told_count < RACES_MAX && plan == NULL) {
        importer->told[importer->told_count++] = importer->race;
        importer->race.step = -1;
        make_plan(importer, &plan);
    }
    plan_free(plan);
}

void msccl_import(const struct msccl_algo *algo, struct plan **plan, struct msccl_report *report)
{
    struct importer importer = {.algo = algo, .report = report, .race = {-1, -1}};
    *plan = NULL;
    *report = (struct msccl_report){.gpu = -1, .block = -1, .step = -1, .in_place = algo->in_place};
    if (set_up(&importer) && find_shape(&importer) && check_chunks(&importer) && wire(&importer) &&
        run(&importer) && importer.note.verdict == MSCCL_PROVEN) {
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
