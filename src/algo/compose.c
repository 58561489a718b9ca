#include "algo/compose.h"

#include <stdlib.h>

static const char OUT_OF_MEMORY[] = "out of memory while plans were composed";
static const char NO_FIT[] = "the composed plans do not fit each other";

#define NO_STEP UINT32_MAX

enum access { ACCESS_ANY, ACCESS_WRITE, ACCESS_COUNT };

/* The last step of a lane, in the embeddings before this one, that touched a chunk.  Input and
 * output chunks of one class share an entry, since they may be the same memory. */
struct history {
    uint32_t class_count, chunk_count, lane_count;
    uint32_t *steps; /* [access][lane][chunk]; NULL where one lane orders everything */
};

struct sequence {
    struct plan_builder *builder;
    const struct plan_shape *whole;
    struct embedder *embedders; /* one per embedding that this rank takes part in */
    int embedder_count;
    struct history history;
    uint32_t lane_count, lanes[PLAN_LANES_MAX];
    uint32_t last[PLAN_LANES_MAX]; /* the last step emitted in that lane, or NO_STEP */
};

/* One embedding while it is being emitted. */
struct phase {
    const struct embedder *embedder;
    const struct embedder *next; /* the following phase, NULL for the last */
    uint32_t *handles;           /* by step of its plan; NO_STEP: not emitted, or without effect */
    bool *emitted;               /* by step */
    uint32_t done[PLAN_LANES_MAX]; /* steps of the lane that were dealt with */
};

/* --------------------------------------------------------------------------- places and history */

/* Place number i of the step, of which there are source_count + 1, in the whole; false if it is a
 * link or not there. */
static bool place_at(const struct embedder *embedder, const struct plan_step *step, uint32_t i,
                     struct plan_location *place)
{
    if (i == step->source_count) {
        if (step->has_destination) *place = embed_place(embedder, step->destination);
        return step->has_destination;
    }
    return embed_source_place(embedder, step, i, place);
}

static uint32_t whole_chunks(const struct embedder *embedder, const struct plan_step *step)
{
    return embed_chunk_count(embedder, step);
}

/* The history's index of the first chunk at a place of a step. The indices of the next chunks
 * follow. */
static uint32_t key_of(const struct sequence *sequence, const struct embedder *embedder,
                       struct plan_location place)
{
    const int rank = embed_rank(&embedder->of, embedder->of.plan->rank);
    if (place.buffer == PLAN_SCRATCH) return sequence->history.class_count + place.first;
    if (sequence->whole->collective == COLLECTIVE_ALLTOALL) return place.first;
    return plan_chunk_class(sequence->whole, rank, place.buffer, place.first);
}

static uint32_t *entries(const struct history *history, enum access access, uint32_t lane,
                         uint32_t key)
{
    return &history->steps[((size_t)access * history->lane_count + lane) * history->chunk_count + key];
}

static void record(struct sequence *sequence, const struct embedder *embedder,
                   const struct plan_step *step, uint32_t handle)
{
    struct plan_location place;
    const uint32_t chunk_count = handle != NO_STEP ? whole_chunks(embedder, step) : 0;
    for (uint32_t i = 0; i <= step->source_count && chunk_count > 0; i++) {
        if (!place_at(embedder, step, i, &place)) continue;
        const uint32_t key = key_of(sequence, embedder, place);
        uint32_t *const any = entries(&sequence->history, ACCESS_ANY, step->lane, key),
                        *const written = entries(&sequence->history, ACCESS_WRITE, step->lane, key);
        for (uint32_t k = 0; k < chunk_count; k++) any[k] = handle;
        for (uint32_t k = 0; k < chunk_count && i == step->source_count; k++) written[k] = handle;
    }
}

/* The latest of some entries, or NO_STEP: one more than that is 0, and less than any other. */
static uint32_t latest_of(const uint32_t *handles, uint32_t count, uint32_t latest)
{
    for (uint32_t k = 0; k < count; k++)
        if (handles[k] + 1 > latest + 1) latest = handles[k];
    return latest;
}

/* For each other lane the last step of earlier phases that the step must not overtake, or NO_STEP.
 * Returns whether there is any. */
static bool find_conflicts(const struct sequence *sequence, const struct embedder *embedder,
                           const struct plan_step *step, uint32_t latest[PLAN_LANES_MAX])
{
    const struct history *const history = &sequence->history;
    bool found = false;
    struct plan_location place;
    const uint32_t chunk_count = history->lane_count > 0 ? whole_chunks(embedder, step) : 0;
    for (uint32_t lane = 0; lane < history->lane_count; lane++) latest[lane] = NO_STEP;
    for (uint32_t i = 0; i <= step->source_count && chunk_count > 0; i++) {
        if (!place_at(embedder, step, i, &place)) continue;
        const uint32_t key = key_of(sequence, embedder, place);
        const enum access access = i == step->source_count ? ACCESS_ANY : ACCESS_WRITE;
        for (uint32_t lane = 0; lane < history->lane_count; lane++)
            if (lane != step->lane)
                latest[lane] =
                    latest_of(entries(history, access, lane, key), chunk_count, latest[lane]);
    }
    for (uint32_t lane = 0; lane < history->lane_count; lane++) found |= latest[lane] != NO_STEP;
    return found;
}

/* ---------------------------------------------------------------------------------------- steps */

static bool same_place(struct plan_location a, struct plan_location b)
{
    return a.buffer == b.buffer && a.first == b.first;
}

/* Whether the step's only source is a place here; *place is where that is in the whole. */
static bool reads_one_place(const struct embedder *embedder, const struct plan_step *step,
                            struct plan_location *place)
{
    return step->source_count == 1 && embed_source_place(embedder, step, 0, place);
}

/* Whether a step stores what its destination holds already: in its own plan it copies between two
 * buffers, but both may lie at one place of the whole. */
static bool stores_what_is_there(const struct embedder *embedder, const struct plan_step *step)
{
    struct plan_location from;
    return step->has_destination && reads_one_place(embedder, step, &from) &&
           same_place(from, embed_place(embedder, step->destination));
}

static bool is_awaited(const struct rank_plan *plan, uint32_t step)
{
    for (uint32_t i = 0; i < plan->after_count; i++)
        if (plan->afters[i] == step) return true;
    return false;
}

/* The first step of that lane in the next phase, if all it does is to send on what this step, its
 * lane's last, has just stored; else NULL. */
static const struct plan_step *sent_on_by_next(const struct phase *phase, uint32_t index)
{
    const struct rank_plan *plan = phase->embedder->of.plan;
    const struct plan_step *step = &plan->steps[index];
    const struct plan_lane *lane = &plan->lanes[step->lane];
    if (phase->next == NULL || step->lane >= phase->next->of.plan->lane_count) return NULL;
    if (index + 1 != lane->first_step + lane->step_count) return NULL;
    if (!step->has_destination || embed_sends(phase->embedder, step) || is_awaited(plan, index))
        return NULL;

    const struct rank_plan *next_plan = phase->next->of.plan;
    const struct plan_lane *next_lane = &next_plan->lanes[step->lane];
    if (next_lane->step_count == 0) return NULL;
    const struct plan_step *next = &next_plan->steps[next_lane->first_step];
    struct plan_location from;
    if (!embed_sends(phase->next, next) || next->after_count > 0 ||
        !reads_one_place(phase->next, next, &from))
        return NULL;
    if (next->has_destination && !stores_what_is_there(phase->next, next)) return NULL;
    if (!same_place(from, embed_place(phase->embedder, step->destination))) return NULL;
    if (whole_chunks(phase->next, next) != whole_chunks(phase->embedder, step) ||
        !embed_fits(phase->next, next))
        return NULL;
    return next;
}

/* The whole has nothing of what it is about, or nobody who wants it. */
static bool is_left_out(const struct embedder *embedder, const struct plan_step *step)
{
    return (step->chunk_count > 0 && whole_chunks(embedder, step) == 0) ||
           (!step->has_destination && !embed_sends(embedder, step));
}

/* Emits the step; returns true when it took the next phase's first step of the lane along. */
static bool emit(struct sequence *sequence, struct phase *phase, uint32_t index)
{
    struct plan_builder *b = sequence->builder;
    const struct embedder *embedder = phase->embedder;
    const struct rank_plan *plan = embedder->of.plan;
    const struct plan_step *step = &plan->steps[index];
    uint32_t earlier[PLAN_LANES_MAX];
    if (!embed_fits(embedder, step)) {
        plan_fail(b, TUTTI_INVALID_ALGORITHM, "a composed plan's range lies in several pieces");
        return false;
    }
    if (is_left_out(embedder, step)) {
        phase->handles[index] = sequence->last[step->lane];
        return false;
    }
    const bool conflict = find_conflicts(sequence, embedder, step, earlier);
    const bool idle_store = stores_what_is_there(embedder, step),
               sends = embed_sends(embedder, step);
    if (idle_store && !sends && step->after_count == 0 && !conflict) {
        phase->handles[index] = sequence->last[step->lane];
        return false;
    }

    plan_lane_again(b, sequence->lanes[step->lane]);
    plan_begin(b, whole_chunks(embedder, step));
    for (uint32_t i = 0; i < step->after_count; i++) {
        const uint32_t awaited = phase->handles[plan->afters[step->first_after + i]];
        if (awaited != NO_STEP) plan_after(b, awaited);
    }
    for (uint32_t lane = 0; lane < sequence->history.lane_count; lane++)
        if (earlier[lane] != NO_STEP) plan_after(b, earlier[lane]);
    embed_sources(embedder, step);
    if (step->has_destination && !(idle_store && sends)) {
        const struct plan_location to = embed_place(embedder, step->destination);
        plan_write(b, to.buffer, to.first);
    }
    embed_targets(embedder, step);
    const struct plan_step *next = sent_on_by_next(phase, index);
    if (next != NULL) embed_targets(phase->next, next);
    if (step->final && !embedder->of.partial) plan_final(b);
    phase->handles[index] = sequence->last[step->lane] = plan_end(b);
    return next != NULL;
}

/* --------------------------------------------------------------------------------------- phases */

static bool may_be_emitted(const struct phase *phase, const struct plan_step *step)
{
    const struct rank_plan *plan = phase->embedder->of.plan;
    for (uint32_t i = 0; i < step->after_count; i++)
        if (!phase->emitted[plan->afters[step->first_after + i]]) return false;
    return true;
}

/* Lane by lane as far as dependencies allow, round and round: handles exist before they are waited
 * for. */
static void emit_phase(struct sequence *sequence, struct phase *phase, struct phase *next)
{
    const struct rank_plan *plan = phase->embedder->of.plan;
    bool moved = true;
    while (moved && plan_builder_error(sequence->builder) == NULL) {
        moved = false;
        for (uint32_t l = 0; l < plan->lane_count; l++) {
            const struct plan_lane *lane = &plan->lanes[l];
            for (; phase->done[l] < lane->step_count; phase->done[l]++, moved = true) {
                const uint32_t index = lane->first_step + phase->done[l];
                if (phase->emitted[index]) continue; /* along with the phase before */
                if (!may_be_emitted(phase, &plan->steps[index])) break;
                phase->emitted[index] = true;
                if (!emit(sequence, phase, index)) continue;
                const uint32_t first = next->embedder->of.plan->lanes[l].first_step;
                next->handles[first] = phase->handles[index];
                next->emitted[first] = true;
            }
        }
    }
    for (uint32_t l = 0; l < plan->lane_count; l++)
        if (phase->done[l] < plan->lanes[l].step_count)
            plan_fail(sequence->builder, TUTTI_INVALID_ALGORITHM,
                      "a composed plan waits for itself");
    for (uint32_t i = 0; sequence->history.steps != NULL && i < plan->step_count; i++)
        record(sequence, phase->embedder, &plan->steps[i], phase->handles[i]);
}

static bool emit_phases(struct sequence *sequence)
{
    size_t step_count = 0, first = 0;
    for (int i = 0; i < sequence->embedder_count; i++)
        step_count += sequence->embedders[i].of.plan->step_count;
    uint32_t *const handles = malloc(sizeof *handles * (step_count + 1));
    bool *const emitted = calloc(step_count + 1, sizeof *emitted);
    const bool memory = handles != NULL && emitted != NULL;
    for (size_t i = 0; memory && i < step_count; i++) handles[i] = NO_STEP;
    for (int i = 0; memory && i < sequence->embedder_count; i++) {
        const struct embedder *const embedder = &sequence->embedders[i],
                                     *const after =
                                         i + 1 < sequence->embedder_count ? embedder + 1 : NULL;
        struct phase phase = {.embedder = embedder,
                              .next = after,
                              .handles = handles + first,
                              .emitted = emitted + first};
        first += embedder->of.plan->step_count;
        struct phase next = {
            .embedder = after, .handles = handles + first, .emitted = emitted + first};
        emit_phase(sequence, &phase, &next);
    }
    free(handles);
    free(emitted);
    return memory;
}

/* ------------------------------------------------------------------------------------ sequences */

static uint32_t block_count(enum collective collective, int rank_count)
{
    switch (collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return 1;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return (uint32_t)rank_count;
}

static uint32_t class_count(const struct plan_shape *shape)
{
    return block_count(shape->collective, shape->rank_count) * shape->parts;
}

/* Chunks of scratch that the plans touch, their own and what lies between them. */
static uint32_t scratch_end(const struct sequence *sequence)
{
    uint32_t end = 0;
    struct plan_location place;
    for (int e = 0; e < sequence->embedder_count; e++) {
        const struct embedder *embedder = &sequence->embedders[e];
        const bool has_scratch = embedder->of.plan->scratch_count > 0 ||
                                 embedder->of.input.buffer == PLAN_SCRATCH ||
                                 embedder->of.output.buffer == PLAN_SCRATCH;
        for (uint32_t s = 0; has_scratch && s < embedder->of.plan->step_count; s++) {
            const struct plan_step *step = &embedder->of.plan->steps[s];
            for (uint32_t i = 0; i <= step->source_count; i++) {
                if (!place_at(embedder, step, i, &place) || place.buffer != PLAN_SCRATCH) continue;
                if (place.first + whole_chunks(embedder, step) > end)
                    end = place.first + whole_chunks(embedder, step);
            }
        }
    }
    return end;
}

static bool history_init(struct sequence *sequence)
{
    struct history *history = &sequence->history;
    if (sequence->lane_count <= 1) return true;
    history->class_count = class_count(sequence->whole);
    history->chunk_count = history->class_count + scratch_end(sequence);
    const size_t count = (size_t)ACCESS_COUNT * sequence->lane_count * history->chunk_count;
    history->steps = malloc(sizeof *history->steps * (count + 1));
    if (history->steps == NULL) return false;
    for (size_t i = 0; i < count; i++) history->steps[i] = NO_STEP;
    history->lane_count = sequence->lane_count;
    return true;
}

static bool embedders_init(struct sequence *sequence, const struct embedding *embeddings, int count)
{
    sequence->embedders = malloc(sizeof *sequence->embedders * ((size_t)count + 1));
    if (sequence->embedders == NULL) return false;
    for (int i = 0; i < count; i++) {
        if (embeddings[i].plan == NULL) continue;
        struct embedder *embedder = &sequence->embedders[sequence->embedder_count];
        if (!embedder_init(embedder, &embeddings[i], sequence->whole, sequence->builder))
            return false;
        sequence->embedder_count++;
        if (embeddings[i].plan->lane_count > sequence->lane_count)
            sequence->lane_count = embeddings[i].plan->lane_count;
    }
    return true;
}

void compose_sequence(struct plan_builder *builder, const struct plan_shape *whole,
                      const struct embedding *embeddings, int embedding_count)
{
    struct sequence sequence = {.builder = builder, .whole = whole};
    bool memory = embedders_init(&sequence, embeddings, embedding_count) && history_init(&sequence);
    for (uint32_t i = 0; i < sequence.lane_count; i++) {
        sequence.lanes[i] = plan_lane(builder);
        sequence.last[i] = NO_STEP;
    }
    if (memory && plan_builder_error(builder) == NULL) memory = emit_phases(&sequence);
    if (!memory) plan_fail(builder, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
    free(sequence.history.steps);
    for (int i = 0; i < sequence.embedder_count; i++) embedder_release(&sequence.embedders[i]);
    free(sequence.embedders);
}

/* ---------------------------------------------------------------------------------- two of them */

static bool has_chunks(enum collective collective)
{
    return collective != COLLECTIVE_ALLTOALL && collective != COLLECTIVE_BARRIER;
}

/* The smallest cut of which both plans' chunks are ranges, which is the finer one's. */
static bool shape_of(const struct composition *composition, struct plan_shape *whole)
{
    const struct plan_shape *first = &composition->first->shape,
                            *second = &composition->second->shape;
    if (!has_chunks(first->collective) || !has_chunks(second->collective)) return false;
    if (!has_chunks(composition->collective) || first->rank_count != second->rank_count)
        return false;
    if (composition->first->rank != composition->second->rank) return false;
    const uint32_t first_count = class_count(first), second_count = class_count(second);
    const uint32_t count = first_count > second_count ? first_count : second_count;
    const uint32_t blocks = block_count(composition->collective, first->rank_count);
    *whole = (struct plan_shape){composition->collective, first->rank_count, composition->root,
                                 count / blocks};
    return count % first_count == 0 && count % second_count == 0 && count % blocks == 0;
}

/* Whether chunk for chunk both are the same classes; input and output are runs of classes. */
static bool same_chunks(const struct plan_shape *a, enum plan_buffer buffer_a,
                        const struct plan_shape *b, enum plan_buffer buffer_b, int rank)
{
    const uint32_t count_a = class_count(a), count_b = class_count(b);
    const uint32_t chunks_a = plan_chunk_count(a, rank, buffer_a);
    const uint32_t chunks_b = plan_chunk_count(b, rank, buffer_b);
    if ((uint64_t)chunks_a * count_b != (uint64_t)chunks_b * count_a) return false;
    return chunks_a == 0 || (uint64_t)plan_chunk_class(a, rank, buffer_a, 0) * count_b ==
                                (uint64_t)plan_chunk_class(b, rank, buffer_b, 0) * count_a;
}

static bool plans_fit(const struct composition *composition, const struct plan_shape *whole)
{
    const struct plan_shape *first = &composition->first->shape,
                            *second = &composition->second->shape;
    const int rank = composition->first->rank;
    return same_chunks(first, PLAN_OUTPUT, second, PLAN_INPUT, rank) &&
           same_chunks(first, PLAN_INPUT, whole, PLAN_INPUT, rank) &&
           same_chunks(second, PLAN_OUTPUT, whole, PLAN_OUTPUT, rank);
}

/* The place of the first plan's output: the output if that has these classes, otherwise scratch. */
static struct plan_location between(struct plan_builder *builder,
                                    const struct composition *composition,
                                    const struct plan_shape *whole)
{
    const struct plan_shape *first = &composition->first->shape;
    const int rank = composition->first->rank;
    const uint32_t scale = class_count(whole) / class_count(first);
    const uint32_t count = plan_chunk_count(first, rank, PLAN_OUTPUT) * scale;
    const uint32_t there = plan_chunk_count(whole, rank, PLAN_OUTPUT);
    if (count == 0) return (struct plan_location){PLAN_OUTPUT, 0};
    const uint32_t begin = plan_chunk_class(first, rank, PLAN_OUTPUT, 0) * scale;
    const uint32_t there_begin = there > 0 ? plan_chunk_class(whole, rank, PLAN_OUTPUT, 0) : 0;
    if (begin >= there_begin && begin + count <= there_begin + there)
        return (struct plan_location){PLAN_OUTPUT, begin - there_begin};
    const struct plan_location scratch = {PLAN_SCRATCH, plan_scratch(builder, begin)};
    for (uint32_t i = 1; i < count; i++) plan_scratch(builder, begin + i);
    return scratch;
}

void compose_into(struct plan_builder *builder, const struct composition *composition)
{
    struct plan_shape whole;
    if (!shape_of(composition, &whole) || !plans_fit(composition, &whole)) {
        plan_fail(builder, TUTTI_INVALID_ALGORITHM, NO_FIT);
        return;
    }
    plan_parts(builder, whole.parts);
    const struct plan_location middle = between(builder, composition, &whole);
    const struct embedding embeddings[] = {
        {.plan = composition->first,
         .scale = class_count(&whole) / class_count(&composition->first->shape),
         .input = {PLAN_INPUT, 0},
         .output = middle},
        {.plan = composition->second,
         .scale = class_count(&whole) / class_count(&composition->second->shape),
         .input = middle,
         .output = {PLAN_OUTPUT, 0},
         .first_channel = composition->second_channel},
    };
    compose_sequence(builder, &whole, embeddings, 2);
}

enum tutti_status compose_rank(const struct composition *composition, struct rank_plan **rank_plan,
                               const char **message)
{
    struct plan_builder *builder =
        plan_builder_create(composition->collective, composition->first->shape.rank_count,
                            composition->root, composition->first->rank);
    *rank_plan = NULL;
    *message = OUT_OF_MEMORY;
    if (builder == NULL) return TUTTI_NO_MEMORY;
    compose_into(builder, composition);
    const enum tutti_status status = plan_builder_finish(builder, rank_plan, message);
    plan_builder_free(builder);
    return status;
}
