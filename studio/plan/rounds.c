#include "studio/plan/rounds.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_DONE = UINT32_MAX };

/* A message on its way: which link it is on, and whether it has been taken. */
struct transit {
    const struct rank_plan *from;
    int group; /* of the sender */
    int channel;
    bool taken;
};

struct replayed_rank {
    struct round_value *memory,
        *scratch; /* memory: input and output, one after the other or as they are in place */
    struct round_value *buffers[PLAN_BUFFER_COUNT]; /* point there */
    uint32_t next[PLAN_LANES_MAX], lane_round[PLAN_LANES_MAX], sent_round[PLAN_LANES_MAX],
        sent_count[PLAN_LANES_MAX];
    uint32_t *step_round; /* NOT_DONE, or when it was */
    uint64_t entered;     /* barriers: ranks known to have entered */
};

struct replay {
    const struct plan *plan;
    struct replayed_rank *states;
    struct transit *transits; /* one for each of rounds->messages */
    uint32_t message_capacity, value_count, value_capacity;
    const struct rounds_options *options;
    struct rounds *rounds;
    const char *error;
    enum tutti_status status;
};

static void fail(struct replay *run, enum tutti_status status, const char *error)
{
    if (run->error == NULL) {
        run->error = error;
        run->status = status;
    }
}

static void *allocate(struct replay *run, size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory == NULL) fail(run, TUTTI_NO_MEMORY, "out of memory");
    return memory;
}

struct round_value rounds_input(const struct plan *plan, int rank, uint32_t chunk,
                                const struct rounds_options *options)
{
    const bool has_number = options->example_values != NULL && chunk < options->value_count;
    return (struct round_value){
        .chunk_class = plan_chunk_class(&plan->shape, rank, PLAN_INPUT, chunk),
        .ranks = UINT64_C(1) << rank,
        .number =
            has_number ? options->example_values[(size_t)rank * options->value_count + chunk] : 0};
}

/* ------------------------------------------------------------------------------------ beginning */

static bool fits(const struct plan *plan)
{
    uint64_t steps = 0, chunks = 0;
    if (plan->shape.rank_count > ROUNDS_RANKS_MAX) return false;
    for (int rank = 0; rank < plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = plan->ranks[rank];
        steps += rank_plan->step_count;
        chunks += (uint64_t)plan_chunk_count(&plan->shape, rank, PLAN_INPUT) +
                  plan_chunk_count(&plan->shape, rank, PLAN_OUTPUT) + rank_plan->scratch_count;
        for (uint32_t i = 0; i < rank_plan->step_count; i++)
            chunks += rank_plan->steps[i].chunk_count;
    }
    return steps <= ROUNDS_STEPS_MAX && chunks <= ROUNDS_CHUNKS_MAX;
}

static void begin_rank(struct replay *run, int rank)
{
    const struct plan *plan = run->plan;
    const struct rank_plan *rank_plan = plan->ranks[rank];
    struct replayed_rank *state = &run->states[rank];
    const uint32_t input_count = plan_chunk_count(&plan->shape, rank, PLAN_INPUT);
    const uint32_t output_count = plan_chunk_count(&plan->shape, rank, PLAN_OUTPUT);
    const bool in_place = run->options->in_place;
    const uint32_t input_begin = in_place ? plan_begin_in_place(&plan->shape, rank, PLAN_INPUT) : 0;
    const uint32_t output_begin =
        in_place ? plan_begin_in_place(&plan->shape, rank, PLAN_OUTPUT) : input_count;
    const uint32_t input_end = input_begin + input_count, output_end = output_begin + output_count;
    state->memory =
        allocate(run, input_end > output_end ? input_end : output_end, sizeof *state->memory);
    state->scratch = allocate(run, rank_plan->scratch_count, sizeof *state->scratch);
    state->step_round = allocate(run, rank_plan->step_count, sizeof *state->step_round);
    state->entered = UINT64_C(1) << rank;
    if (run->error != NULL) return;
    state->buffers[PLAN_INPUT] = state->memory + input_begin;
    state->buffers[PLAN_OUTPUT] = state->memory + output_begin;
    state->buffers[PLAN_SCRATCH] = state->scratch;
    for (uint32_t i = 0; i < input_count; i++)
        state->buffers[PLAN_INPUT][i] = rounds_input(plan, rank, i, run->options);
    for (uint32_t i = 0; i < rank_plan->step_count; i++) state->step_round[i] = NOT_DONE;
}

/* ------------------------------------------------------------------------------------- messages */

static bool same_group(const struct rank_plan *one, int one_group, const struct rank_plan *other,
                       int other_group)
{
    if (one_group == PLAN_NO_GROUP || other_group == PLAN_NO_GROUP) return one_group == other_group;
    const struct plan_group *a = &one->groups[one_group], *b = &other->groups[other_group];
    return a->member_count == b->member_count &&
           memcmp(one->members + a->first_member, other->members + b->first_member,
                  a->member_count * sizeof *one->members) == 0;
}

/* The message that a source of this rank stands for, after `skip` others of the same link; -1 when
 * it is not there yet. */
static int64_t find_message(const struct replay *run, const struct rank_plan *reader,
                            const struct plan_source *source, uint32_t skip)
{
    for (uint32_t i = 0; i < run->rounds->message_count; i++) {
        const struct transit *transit = &run->transits[i];
        const struct round_message *message = &run->rounds->messages[i];
        if (transit->taken || message->to != reader->rank || message->from != source->peer ||
            transit->channel != source->channel ||
            !same_group(transit->from, transit->group, reader, source->group))
            continue;
        if (skip == 0) return i;
        skip--;
    }
    return -1;
}

static bool same_link(const struct plan_source *one, const struct plan_source *other)
{
    return one->is_link && other->is_link && one->peer == other->peer &&
           one->group == other->group && one->channel == other->channel;
}

static int64_t message_of_source(const struct replay *run, const struct rank_plan *reader,
                                 const struct plan_step *step, uint32_t index)
{
    const struct plan_source *sources = reader->sources + step->first_source;
    uint32_t skip = 0;
    for (uint32_t i = 0; i < index; i++) skip += same_link(&sources[i], &sources[index]);
    return find_message(run, reader, &sources[index], skip);
}

static struct round_value *add_values(struct replay *run, uint32_t count)
{
    if (count > run->value_capacity - run->value_count) {
        const uint32_t capacity = run->value_capacity * 2 + count + 64;
        struct round_value *grown =
            realloc(run->rounds->values, capacity * sizeof *run->rounds->values);
        if (grown == NULL) {
            fail(run, TUTTI_NO_MEMORY, "out of memory");
            return NULL;
        }
        run->rounds->values = grown;
        run->value_capacity = capacity;
    }
    run->value_count += count;
    return run->rounds->values + run->value_count - count;
}

static void post(struct replay *run, const struct rank_plan *sender, const struct plan_step *step,
                 const struct round_result *result, int to, uint32_t round)
{
    struct rounds *rounds = run->rounds;
    if (rounds->message_count == run->message_capacity) {
        const uint32_t capacity = run->message_capacity * 2 + 64;
        void *messages = realloc(rounds->messages, capacity * sizeof *rounds->messages);
        if (messages != NULL) rounds->messages = messages;
        void *transits = realloc(run->transits, capacity * sizeof *run->transits);
        if (transits != NULL) run->transits = transits;
        if (messages == NULL || transits == NULL) {
            fail(run, TUTTI_NO_MEMORY, "out of memory");
            return;
        }
        run->message_capacity = capacity;
    }
    run->transits[rounds->message_count] = (struct transit){
        .from = sender, .group = step->target_group, .channel = step->target_channel};
    rounds->messages[rounds->message_count++] =
        (struct round_message){.round = round,
                               .from = sender->rank,
                               .to = to,
                               .first_value = result->first_value,
                               .value_count = result->value_count,
                               .sent_by = (uint32_t)(result - rounds->results),
                               .taken_by = ROUNDS_NEVER};
    if (round > rounds->round_count) rounds->round_count = round;
}

/* The round in which a lane's next message travels: one that begins when the result is there, or as
 * soon as the lane has a port free. */
static uint32_t take_port(const struct replay *run, struct replayed_rank *state, uint32_t lane,
                          uint32_t result_round)
{
    uint32_t *round = &state->sent_round[lane], *count = &state->sent_count[lane];
    if (*round <= result_round) {
        *round = result_round + 1;
        *count = 0;
    } else if (run->options->ports > 0 && *count >= run->options->ports) {
        (*round)++;
        *count = 0;
    }
    (*count)++;
    return *round;
}

static void send_result(struct replay *run, const struct rank_plan *rank_plan,
                        const struct plan_step *step, const struct round_result *result)
{
    struct replayed_rank *state = &run->states[rank_plan->rank];
    for (uint32_t i = 0; i < step->target_count; i++)
        post(run, rank_plan, step, result, rank_plan->targets[step->first_target + i],
             take_port(run, state, step->lane, result->round));
    if (step->target_group == PLAN_NO_GROUP) return;
    const uint32_t round = take_port(run, state, step->lane, result->round);
    const struct plan_group *group = &rank_plan->groups[step->target_group];
    for (uint32_t i = 0; i < group->member_count; i++) {
        const int to = rank_plan->members[group->first_member + i];
        if (to != rank_plan->rank) post(run, rank_plan, step, result, to, round);
    }
}

/* ---------------------------------------------------------------------------------------- steps */

static bool is_ready(const struct replay *run, const struct rank_plan *rank_plan,
                     const struct plan_step *step)
{
    const struct replayed_rank *state = &run->states[rank_plan->rank];
    for (uint32_t i = 0; i < step->after_count; i++)
        if (state->step_round[rank_plan->afters[step->first_after + i]] == NOT_DONE) return false;
    for (uint32_t i = 0; i < step->source_count; i++)
        if (rank_plan->sources[step->first_source + i].is_link &&
            message_of_source(run, rank_plan, step, i) < 0)
            return false;
    return true;
}

static void add_to(struct round_value *sum, struct round_value value)
{
    sum->chunk_class = value.chunk_class;
    sum->ranks |= value.ranks;
    sum->number += value.number;
}

/* Adds source i to the result; returns the round in which it is there. */
static uint32_t take_source(struct replay *run, const struct rank_plan *rank_plan,
                            const struct plan_step *step, uint32_t i, uint32_t first_value,
                            uint32_t value_count)
{
    const struct plan_source *source = &rank_plan->sources[step->first_source + i];
    struct replayed_rank *state = &run->states[rank_plan->rank];
    struct round_value *sums = run->rounds->values + first_value;
    if (!source->is_link) {
        const struct round_value *values =
            state->buffers[source->location.buffer] + source->location.first;
        for (uint32_t k = 0; k < step->chunk_count; k++) add_to(&sums[k], values[k]);
        return 0;
    }
    /* Earlier sources of the same link are taken already. */
    const int64_t index = find_message(run, rank_plan, source, 0);
    struct round_message *message = &run->rounds->messages[index];
    if (message->value_count != value_count) {
        fail(run, TUTTI_INVALID_ALGORITHM, "a message has more or fewer chunks than its receiver");
        return 0;
    }
    const struct round_value *values = run->rounds->values + message->first_value;
    for (uint32_t k = 0; k < value_count; k++) add_to(&sums[k], values[k]);
    run->transits[index].taken = true;
    message->taken_by = run->rounds->result_count; /* the result that is being made */
    return message->round;
}

static void run_step(struct replay *run, const struct rank_plan *rank_plan, uint32_t index)
{
    const struct plan_step *step = &rank_plan->steps[index];
    struct replayed_rank *state = &run->states[rank_plan->rank];
    const bool barrier = run->plan->shape.collective == COLLECTIVE_BARRIER;
    const uint32_t value_count = barrier ? 1 : step->chunk_count;
    struct round_result result = {.round = state->lane_round[step->lane],
                                  .rank = rank_plan->rank,
                                  .step = index,
                                  .first_value = run->value_count,
                                  .value_count = value_count};
    struct round_value *sums = add_values(run, value_count);
    if (sums == NULL) return;
    memset(sums, 0, value_count * sizeof *sums);
    for (uint32_t i = 0; i < step->after_count; i++) {
        const uint32_t done = state->step_round[rank_plan->afters[step->first_after + i]];
        if (done > result.round) result.round = done;
    }
    for (uint32_t i = 0; i < step->source_count; i++) {
        const uint32_t there = take_source(run, rank_plan, step, i, result.first_value, value_count);
        if (there > result.round) result.round = there;
    }
    if (run->error != NULL) return;
    if (barrier) sums->ranks = state->entered |= sums->ranks;
    if (step->has_destination && !barrier)
        memcpy(state->buffers[step->destination.buffer] + step->destination.first, sums,
               value_count * sizeof *sums);
    state->lane_round[step->lane] = state->step_round[index] = result.round;
    if (result.round > run->rounds->round_count) run->rounds->round_count = result.round;
    run->rounds->results[run->rounds->result_count] = result;
    send_result(run, rank_plan, step, &run->rounds->results[run->rounds->result_count++]);
}

/* Runs what can run; false when nothing could. */
static bool sweep(struct replay *run)
{
    bool moved = false;
    for (int rank = 0; rank < run->plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = run->plan->ranks[rank];
        for (uint32_t lane = 0; lane < rank_plan->lane_count; lane++) {
            uint32_t *next = &run->states[rank].next[lane];
            while (run->error == NULL && *next < rank_plan->lanes[lane].step_count) {
                const uint32_t index = rank_plan->lanes[lane].first_step + *next;
                if (!is_ready(run, rank_plan, &rank_plan->steps[index])) break;
                run_step(run, rank_plan, index);
                (*next)++;
                moved = true;
            }
        }
    }
    return moved && run->error == NULL;
}

enum tutti_status rounds_init(struct rounds *rounds, const struct plan *plan,
                              const struct rounds_options *options, const char **message)
{
    const int rank_count = plan->shape.rank_count;
    memset(rounds, 0, sizeof *rounds);
    *message = "";
    if (!fits(plan)) {
        *message = "the plan is too large to be unfolded";
        return TUTTI_UNSUPPORTED;
    }
    struct replay run = {.plan = plan, .options = options, .rounds = rounds};
    uint32_t step_count = 0;
    for (int rank = 0; rank < rank_count; rank++) step_count += plan->ranks[rank]->step_count;
    rounds->results = allocate(&run, step_count, sizeof *rounds->results);
    run.states = allocate(&run, (size_t)rank_count, sizeof *run.states);
    for (int rank = 0; rank < rank_count && run.error == NULL; rank++) begin_rank(&run, rank);
    while (run.error == NULL && sweep(&run)) continue;
    if (rounds->result_count != step_count)
        fail(&run, TUTTI_INVALID_ALGORITHM,
             "the plan comes to a halt: nobody sends what is waited for");
    for (int rank = 0; run.states != NULL && rank < rank_count; rank++) {
        free(run.states[rank].memory);
        free(run.states[rank].scratch);
        free(run.states[rank].step_round);
    }
    free(run.states);
    free(run.transits);
    if (run.error == NULL) return TUTTI_OK;
    *message = run.error;
    rounds_release(rounds);
    return run.status;
}

void rounds_release(struct rounds *rounds)
{
    free(rounds->messages);
    free(rounds->results);
    free(rounds->values);
    memset(rounds, 0, sizeof *rounds);
}
