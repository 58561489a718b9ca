/* The builder keeps a rank_plan whose arrays grow, with steps in order of emission; plan_end checks
 * the step it closes, so that the first error is known where it happens, and plan_builder_finish
 * only sorts. */
#include "plan/build.h"

#include <stdlib.h>
#include <string.h>

enum { ALL_NOT_DECLARED = -1, NO_LANE = -1 };

static const char TOO_MANY_CHUNKS[] = "more chunks, over all ranks, than 32 bits can count";
static const char OUT_OF_MEMORY[] = "out of memory while a plan was built";
static const char OUT_OF_BUDGET[] = "more work or memory than a plan may take";

struct plan_builder {
    struct rank_plan *plan; /* arrays in order of emission */
    uint32_t lane_capacity, step_capacity, source_capacity, target_capacity, after_capacity,
        group_capacity, member_capacity, scratch_capacity;
    const char *error; /* the first one; NULL while all is well */
    enum tutti_status status;
    struct plan_step step; /* being written */
    bool in_step;
    int lane;
    int channels[PLAN_LANES_MAX];
    int group_all;
    struct plan_budget *budget; /* or NULL: without end */
};

static void fail_as(struct plan_builder *builder, enum tutti_status status, const char *error)
{
    if (builder->error != NULL) return;
    builder->status = status;
    builder->error = error;
}

static void fail(struct plan_builder *builder, const char *error)
{
    fail_as(builder, TUTTI_INVALID_ALGORITHM, error);
}

static bool work(struct plan_builder *builder, uint64_t looks)
{
    if (plan_budget_work(builder->budget, looks)) return true;
    fail(builder, OUT_OF_BUDGET);
    return false;
}

/* Room for `more` further items behind *count; false sticks. */
static bool grow(struct plan_builder *builder, void *items, size_t item_bytes, uint32_t count,
                 uint32_t more, uint32_t *capacity)
{
    if (more <= *capacity - count) return true;
    uint64_t wanted = (uint64_t)*capacity * 2 + 32;
    if (wanted < (uint64_t)count + more) wanted = (uint64_t)count + more;
    void *old, *grown = NULL;
    memcpy(&old, items, sizeof old); /* items points to a pointer of any type */
    if (!plan_budget_hold(builder->budget, (wanted - *capacity) * item_bytes)) {
        fail(builder, OUT_OF_BUDGET);
        return false;
    }
    if (wanted <= UINT32_MAX / 2) grown = realloc(old, wanted * item_bytes);
    if (grown == NULL) {
        fail_as(builder, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
        return false;
    }
    memcpy(items, &grown, sizeof grown);
    *capacity = (uint32_t)wanted;
    return true;
}

#define GROW(builder, name, more)                                                \
    grow((builder), &(builder)->plan->name##s, sizeof *(builder)->plan->name##s, \
         (builder)->plan->name##_count, (more), &(builder)->name##_capacity)

/* ----------------------------------------------------------------------------------- life cycle */

static bool start_empty(struct plan_builder *builder, struct plan_shape shape, int rank)
{
    struct rank_plan *plan = calloc(1, sizeof *plan);
    memset(builder, 0, sizeof *builder);
    builder->plan = plan;
    if (plan == NULL) return false;
    plan->shape = shape;
    plan->shape.parts = 1;
    plan->rank = rank;
    builder->lane = NO_LANE;
    builder->group_all = ALL_NOT_DECLARED;
    return true;
}

static uint64_t class_count(const struct plan_shape *shape)
{
    const uint64_t all = (uint64_t)shape->rank_count, parts = shape->parts;
    switch (shape->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST: return parts;
    case COLLECTIVE_ALLTOALL: return all * all > UINT32_MAX ? UINT64_MAX : all * all * parts;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: return 0;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER: break;
    }
    return all * parts;
}

static void check_identity(struct plan_builder *builder)
{
    const struct plan_shape *shape = &builder->plan->shape;
    if ((unsigned)shape->collective >= COLLECTIVE_COUNT) {
        fail(builder, "not a collective");
        return;
    }
    if (shape->rank_count < 1 || shape->rank_count > PLAN_RANKS_MAX)
        fail(builder, "rank count out of range");
    if (shape->root < 0 || shape->root >= shape->rank_count) fail(builder, "root out of range");
    if (shape->root != 0 && !collective_is_rooted(shape->collective))
        fail(builder, "a root other than 0 in a collective without root");
    if (builder->plan->rank < 0 || builder->plan->rank >= shape->rank_count)
        fail(builder, "rank out of range");
    if (builder->error == NULL && class_count(shape) > UINT32_MAX) fail(builder, TOO_MANY_CHUNKS);
}

struct plan_builder *plan_builder_create(enum collective collective, int rank_count, int root,
                                         int rank)
{
    struct plan_builder *builder = malloc(sizeof *builder);
    if (builder == NULL) return NULL;
    const struct plan_shape shape = {
        .collective = collective, .rank_count = rank_count, .root = root};
    if (!start_empty(builder, shape, rank)) {
        free(builder);
        return NULL;
    }
    check_identity(builder);
    return builder;
}

void plan_builder_free(struct plan_builder *builder)
{
    if (builder == NULL) return;
    plan_rank_free(builder->plan);
    free(builder);
}

void plan_builder_charge(struct plan_builder *builder, struct plan_budget *budget)
{
    builder->budget = budget;
}

const char *plan_builder_error(const struct plan_builder *builder)
{
    return builder->error;
}

void plan_fail(struct plan_builder *builder, enum tutti_status status, const char *error)
{
    fail_as(builder, status, error);
}

/* ------------------------------------------------------------------------------------ the frame */

void plan_parts(struct plan_builder *builder, uint32_t parts)
{
    struct rank_plan *plan = builder->plan;
    if (builder->error != NULL) return;
    if (plan->step_count > 0 || plan->scratch_count > 0 || builder->in_step)
        fail(builder, "the number of parts was changed after a step or scratch");
    if (parts < 1) fail(builder, "no parts");
    if (builder->error != NULL) return;
    plan->shape.parts = parts;
    if (class_count(&plan->shape) > UINT32_MAX) fail(builder, TOO_MANY_CHUNKS);
}

uint32_t plan_scratch(struct plan_builder *builder, uint32_t like_class)
{
    struct rank_plan *plan = builder->plan;
    if (builder->error != NULL) return 0;
    if (like_class >= class_count(&plan->shape)) {
        fail(builder, "scratch is like no chunk of the plan");
        return 0;
    }
    if (!grow(builder, &plan->scratch_like, sizeof *plan->scratch_like, plan->scratch_count, 1,
              &builder->scratch_capacity))
        return 0;
    plan->scratch_like[plan->scratch_count] = like_class;
    return plan->scratch_count++;
}

static bool members_make_a_group(const struct rank_plan *plan, const int *members, int member_count)
{
    bool holds_rank = false;
    for (int i = 0; i < member_count; i++) {
        if (members[i] < 0 || members[i] >= plan->shape.rank_count) return false;
        if (i > 0 && members[i] <= members[i - 1]) return false;
        holds_rank |= members[i] == plan->rank;
    }
    return holds_rank;
}

static int find_group(struct plan_builder *builder, const int *members, int member_count)
{
    const struct rank_plan *const plan = builder->plan;
    for (uint32_t i = 0; i < plan->group_count; i++) {
        const struct plan_group *group = &plan->groups[i];
        if (!work(builder, 1 + (uint64_t)member_count / 16)) return PLAN_NO_GROUP;
        if (group->member_count == (uint32_t)member_count &&
            memcmp(plan->members + group->first_member, members,
                   sizeof *members * (size_t)member_count) == 0)
            return (int)i;
    }
    return PLAN_NO_GROUP;
}

int plan_group(struct plan_builder *builder, const int *members, int member_count)
{
    struct rank_plan *plan = builder->plan;
    if (builder->error != NULL) return 0;
    if (!members_make_a_group(plan, members, member_count)) {
        fail(builder, "a group is not made of ascending ranks with this one among them");
        return 0;
    }
    const int known = find_group(builder, members, member_count);
    if (known != PLAN_NO_GROUP) return known;
    if (builder->error != NULL || !GROW(builder, group, 1) ||
        !GROW(builder, member, (uint32_t)member_count))
        return 0;
    memcpy(plan->members + plan->member_count, members, sizeof *members * (size_t)member_count);
    plan->groups[plan->group_count] =
        (struct plan_group){plan->member_count, (uint32_t)member_count};
    plan->member_count += (uint32_t)member_count;
    return (int)plan->group_count++;
}

int plan_group_all(struct plan_builder *builder)
{
    if (builder->error != NULL) return 0;
    if (builder->group_all != ALL_NOT_DECLARED) return builder->group_all;
    const int rank_count = builder->plan->shape.rank_count;
    int *members = malloc(sizeof *members * (size_t)rank_count);
    if (members == NULL) {
        fail_as(builder, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
        return 0;
    }
    for (int i = 0; i < rank_count; i++) members[i] = i;
    builder->group_all = plan_group(builder, members, rank_count);
    free(members);
    return builder->group_all;
}

uint32_t plan_lane(struct plan_builder *builder)
{
    struct rank_plan *plan = builder->plan;
    if (builder->error != NULL) return 0;
    if (builder->in_step) fail(builder, "a lane was started inside a step");
    if (plan->lane_count >= PLAN_LANES_MAX) fail(builder, "too many lanes");
    if (builder->error != NULL || !GROW(builder, lane, 1)) return 0;
    plan->lanes[plan->lane_count] = (struct plan_lane){0, 0};
    builder->lane = (int)plan->lane_count;
    return plan->lane_count++;
}

void plan_lane_again(struct plan_builder *builder, uint32_t lane)
{
    if (builder->error != NULL) return;
    if (builder->in_step) fail(builder, "the lane was changed inside a step");
    if (lane >= builder->plan->lane_count) fail(builder, "no such lane");
    if (builder->error == NULL) builder->lane = (int)lane;
}

void plan_channel(struct plan_builder *builder, int channel)
{
    if (builder->error != NULL) return;
    if (builder->lane == NO_LANE) fail(builder, "a channel before the first lane");
    if (channel < 0 || channel >= PLAN_CHANNELS_MAX) fail(builder, "channel out of range");
    if (builder->error == NULL) builder->channels[builder->lane] = channel;
}

/* ---------------------------------------------------------------------------------------- steps */

void plan_begin(struct plan_builder *builder, uint32_t chunk_count)
{
    const struct rank_plan *plan = builder->plan;
    if (builder->error != NULL) return;
    if (builder->in_step) fail(builder, "a step was begun inside another");
    if (builder->lane == NO_LANE) fail(builder, "a step before the first lane");
    if ((chunk_count == 0) != (plan->shape.collective == COLLECTIVE_BARRIER))
        fail(builder, "steps act on no chunks in barriers, and only there");
    if (builder->error != NULL) return;
    builder->in_step = true;
    builder->step = (struct plan_step){.chunk_count = chunk_count,
                                       .first_source = plan->source_count,
                                       .first_target = plan->target_count,
                                       .target_group = PLAN_NO_GROUP,
                                       .first_after = plan->after_count,
                                       .lane = (uint32_t)builder->lane};
}

/* Whether something may be said about a step now. */
static bool speaking(struct plan_builder *builder)
{
    if (builder->error == NULL && !builder->in_step) fail(builder, "said outside of a step");
    return builder->error == NULL;
}

static void add_source(struct plan_builder *builder, struct plan_source source)
{
    if (!GROW(builder, source, 1)) return;
    builder->plan->sources[builder->plan->source_count++] = source;
    builder->step.source_count++;
}

static bool check_place(struct plan_builder *builder, enum plan_buffer buffer, uint32_t first)
{
    const struct rank_plan *plan = builder->plan;
    if ((unsigned)buffer >= PLAN_BUFFER_COUNT) {
        fail(builder, "not a buffer");
        return false;
    }
    const uint32_t count = buffer == PLAN_SCRATCH
                               ? plan->scratch_count
                               : plan_chunk_count(&plan->shape, plan->rank, buffer);
    if (first > count || builder->step.chunk_count > count - first)
        fail(builder, "chunks outside of their buffer");
    return builder->error == NULL;
}

static bool check_peer(struct plan_builder *builder, int peer)
{
    if (peer < 0 || peer >= builder->plan->shape.rank_count) fail(builder, "peer out of range");
    if (peer == builder->plan->rank) fail(builder, "a rank is its own peer");
    return builder->error == NULL;
}

static bool is_member(const struct rank_plan *plan, int group, int rank)
{
    const struct plan_group *of = &plan->groups[group];
    uint32_t low = of->first_member, high = low + of->member_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (plan->members[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < of->first_member + of->member_count && plan->members[low] == rank;
}

static bool check_group(struct plan_builder *builder, int group)
{
    if (group < 0 || (uint32_t)group >= builder->plan->group_count) fail(builder, "no such group");
    return builder->error == NULL;
}

void plan_read(struct plan_builder *builder, enum plan_buffer buffer, uint32_t first)
{
    if (!speaking(builder) || !check_place(builder, buffer, first)) return;
    add_source(builder, (struct plan_source){.location = {buffer, first}, .group = PLAN_NO_GROUP});
}

void plan_receive(struct plan_builder *builder, int peer)
{
    if (!speaking(builder) || !check_peer(builder, peer)) return;
    add_source(builder, (struct plan_source){.is_link = true,
                                             .peer = peer,
                                             .group = PLAN_NO_GROUP,
                                             .channel = builder->channels[builder->lane]});
}

void plan_receive_group(struct plan_builder *builder, int peer, int group)
{
    if (!speaking(builder) || !check_peer(builder, peer) || !check_group(builder, group)) return;
    if (!is_member(builder->plan, group, peer)) {
        fail(builder, "a message to a group from a rank outside of it");
        return;
    }
    add_source(builder, (struct plan_source){.is_link = true,
                                             .peer = peer,
                                             .group = group,
                                             .channel = builder->channels[builder->lane]});
}

void plan_write(struct plan_builder *builder, enum plan_buffer buffer, uint32_t first)
{
    if (!speaking(builder) || !check_place(builder, buffer, first)) return;
    if (builder->step.has_destination) fail(builder, "a step with two destinations");
    if (buffer == PLAN_INPUT && builder->step.chunk_count > 0)
        fail(builder, "the input is only read");
    if (builder->error != NULL) return;
    builder->step.has_destination = true;
    builder->step.destination = (struct plan_location){buffer, first};
}

/* One channel for all targets of a step, since they are told apart from groups by their peer
 * alone. */
static bool may_send(struct plan_builder *builder)
{
    struct plan_step *step = &builder->step;
    const int channel = builder->channels[builder->lane];
    if (step->target_group != PLAN_NO_GROUP)
        fail(builder, "a step that sends to a group sends to nobody else");
    if (step->target_count > 0 && step->target_channel != channel)
        fail(builder, "a step that sends on two channels");
    if (builder->error != NULL) return false;
    step->target_channel = channel;
    return true;
}

void plan_send(struct plan_builder *builder, int peer)
{
    struct rank_plan *plan = builder->plan;
    if (!speaking(builder) || !check_peer(builder, peer) || !may_send(builder) ||
        !work(builder, builder->step.target_count / 8))
        return;
    for (uint32_t i = builder->step.first_target; i < plan->target_count; i++)
        if (plan->targets[i] == peer) fail(builder, "a step that sends to one peer twice");
    if (builder->error != NULL || !GROW(builder, target, 1)) return;
    plan->targets[plan->target_count++] = peer;
    builder->step.target_count++;
}

void plan_send_group(struct plan_builder *builder, int group)
{
    if (!speaking(builder) || !check_group(builder, group)) return;
    if (builder->step.target_count > 0)
        fail(builder, "a step that sends to a group sends to nobody else");
    if (builder->plan->groups[group].member_count < 2) fail(builder, "a message to a group of one");
    if (builder->error != NULL || !may_send(builder)) return;
    builder->step.target_group = group;
}

void plan_after(struct plan_builder *builder, uint32_t step)
{
    struct rank_plan *plan = builder->plan;
    if (!speaking(builder) || !work(builder, builder->step.after_count / 8)) return;
    for (uint32_t i = builder->step.first_after; i < plan->after_count; i++)
        if (plan->afters[i] == step) return;
    if (!GROW(builder, after, 1)) return;
    plan->afters[plan->after_count++] = step;
    builder->step.after_count++;
}

void plan_final(struct plan_builder *builder)
{
    if (!speaking(builder)) return;
    if (!collective_reduces(builder->plan->shape.collective))
        fail(builder, "`final` in a collective that does not reduce");
    builder->step.final = true;
}

/* Chunks from this one on whose classes are consecutive numbers; scratch chunks have theirs in a
 * row, one by one. */
static uint32_t run_length(const struct rank_plan *plan, struct plan_location place)
{
    if (place.buffer == PLAN_SCRATCH) return UINT32_MAX;
    return plan->shape.parts - place.first % plan->shape.parts;
}

static bool run_agrees(const struct rank_plan *plan, struct plan_location one,
                       struct plan_location other, uint32_t run)
{
    if (one.buffer != PLAN_SCRATCH && other.buffer != PLAN_SCRATCH)
        return plan_location_class(plan, one.buffer, one.first) ==
               plan_location_class(plan, other.buffer, other.first);
    const struct plan_location scratch = one.buffer == PLAN_SCRATCH ? one : other;
    const struct plan_location place = one.buffer == PLAN_SCRATCH ? other : one;
    const uint32_t *const like = plan->scratch_like + scratch.first;
    if (place.buffer == PLAN_SCRATCH)
        return memcmp(like, plan->scratch_like + place.first, run * sizeof *like) == 0;
    const uint32_t first = plan_location_class(plan, place.buffer, place.first);
    for (uint32_t i = 0; i < run; i++)
        if (like[i] != first + i) return false;
    return true;
}

static bool classes_agree(struct plan_builder *builder, struct plan_location one,
                          struct plan_location other, uint32_t chunk_count)
{
    const struct rank_plan *const plan = builder->plan;
    const bool is_one_by_one = one.buffer == PLAN_SCRATCH || other.buffer == PLAN_SCRATCH;
    if (one.buffer == other.buffer && one.first == other.first) return true;
    if (!work(builder, is_one_by_one ? chunk_count : chunk_count / plan->shape.parts * 2))
        return true;
    while (chunk_count > 0) {
        uint32_t run = run_length(plan, one);
        if (run > run_length(plan, other)) run = run_length(plan, other);
        if (run > chunk_count) run = chunk_count;
        if (!run_agrees(plan, one, other, run)) return false;
        one.first += run, other.first += run, chunk_count -= run;
    }
    return true;
}

static bool overlap_shifted(struct plan_location one, struct plan_location other,
                            uint32_t chunk_count)
{
    const uint32_t distance =
        one.first > other.first ? one.first - other.first : other.first - one.first;
    return one.buffer == other.buffer && distance > 0 && distance < chunk_count;
}

/* Classes agree position by position, and no position is stored where another one is read. */
static void check_places(struct plan_builder *builder)
{
    const struct rank_plan *plan = builder->plan;
    const struct plan_step *step = &builder->step;
    const struct plan_location *model = step->has_destination ? &step->destination : NULL;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (source->is_link) continue;
        if (model == NULL) model = &source->location;
        if (!classes_agree(builder, source->location, *model, step->chunk_count))
            fail(builder, "a step joins chunks of different classes");
        if (step->has_destination &&
            overlap_shifted(source->location, step->destination, step->chunk_count))
            fail(builder, "a step stores over chunks that it still reads");
    }
}

uint32_t plan_end(struct plan_builder *builder)
{
    struct rank_plan *plan = builder->plan;
    const struct plan_step *step = &builder->step;
    if (!speaking(builder)) return 0;
    if (step->source_count == 0) fail(builder, "a step without a source");
    if (!step->has_destination && step->target_count == 0 && step->target_group == PLAN_NO_GROUP)
        fail(builder, "a step without destination or target");
    check_places(builder);
    if (builder->error != NULL || !GROW(builder, step, 1)) return 0;
    plan->steps[plan->step_count] = *step;
    plan->lanes[step->lane].step_count++;
    builder->in_step = false;
    return plan->step_count++;
}

uint32_t plan_copy(struct plan_builder *builder, enum plan_buffer from, uint32_t from_first,
                   enum plan_buffer to, uint32_t to_first, uint32_t chunk_count)
{
    plan_begin(builder, chunk_count);
    plan_read(builder, from, from_first);
    plan_write(builder, to, to_first);
    return plan_end(builder);
}

uint32_t plan_send_from(struct plan_builder *builder, int peer, enum plan_buffer from,
                        uint32_t first, uint32_t chunk_count)
{
    plan_begin(builder, chunk_count);
    plan_read(builder, from, first);
    plan_send(builder, peer);
    return plan_end(builder);
}

uint32_t plan_receive_to(struct plan_builder *builder, int peer, enum plan_buffer to,
                         uint32_t first, uint32_t chunk_count)
{
    plan_begin(builder, chunk_count);
    plan_receive(builder, peer);
    plan_write(builder, to, first);
    return plan_end(builder);
}

/* ------------------------------------------------------------------------------------ finishing */

/* Everything that the steps own, in the order of the grouped steps. */
struct sorted {
    struct plan_step *steps;
    struct plan_source *sources;
    int *targets;
    uint32_t *afters;
    uint32_t *index_of; /* emission index -> index into steps; NULL: the same */
};

static void sorted_free(struct sorted *sorted)
{
    free(sorted->steps);
    free(sorted->sources);
    free(sorted->targets);
    free(sorted->afters);
    free(sorted->index_of);
}

static bool sorted_alloc(struct sorted *sorted, const struct rank_plan *plan)
{
    sorted->steps = calloc((size_t)plan->step_count + 1, sizeof *sorted->steps);
    sorted->sources = calloc((size_t)plan->source_count + 1, sizeof *sorted->sources);
    sorted->targets = calloc((size_t)plan->target_count + 1, sizeof *sorted->targets);
    sorted->afters = calloc((size_t)plan->after_count + 1, sizeof *sorted->afters);
    sorted->index_of = calloc((size_t)plan->step_count + 1, sizeof *sorted->index_of);
    return sorted->steps && sorted->sources && sorted->targets && sorted->afters && sorted->index_of;
}

/* Whether the steps were emitted lane after lane. */
static bool are_in_order(const struct rank_plan *plan)
{
    for (uint32_t i = 1; i < plan->step_count; i++)
        if (plan->steps[i].lane < plan->steps[i - 1].lane) return false;
    return true;
}

/* Steps keep their order within a lane. */
static void place_steps(struct rank_plan *plan, struct sorted *sorted)
{
    uint32_t next[PLAN_LANES_MAX], first = 0;
    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        plan->lanes[lane].first_step = next[lane] = first;
        first += plan->lanes[lane].step_count;
    }
    for (uint32_t i = 0; sorted->index_of != NULL && i < plan->step_count; i++) {
        sorted->index_of[i] = next[plan->steps[i].lane]++;
        sorted->steps[sorted->index_of[i]] = plan->steps[i];
    }
}

static const char *move_belongings(const struct rank_plan *plan, struct sorted *sorted)
{
    uint32_t source_count = 0, target_count = 0, after_count = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct plan_step *step = &sorted->steps[i];
        for (uint32_t k = 0; k < step->source_count; k++)
            sorted->sources[source_count + k] = plan->sources[step->first_source + k];
        for (uint32_t k = 0; k < step->target_count; k++)
            sorted->targets[target_count + k] = plan->targets[step->first_target + k];
        for (uint32_t k = 0; k < step->after_count; k++) {
            const uint32_t handle = plan->afters[step->first_after + k];
            if (handle >= plan->step_count) return "a step comes after one that does not exist";
            const uint32_t index = sorted->index_of != NULL ? sorted->index_of[handle] : handle;
            if (index >= i && sorted->steps[index].lane == step->lane)
                return "a step waits for itself or for a later one of its lane";
            sorted->afters[after_count + k] = index;
        }
        step->first_source = source_count, source_count += step->source_count;
        step->first_target = target_count, target_count += step->target_count;
        step->first_after = after_count, after_count += step->after_count;
    }
    return NULL;
}

static void swap_in(struct rank_plan *plan, struct sorted *sorted)
{
    const struct sorted old = {plan->steps, plan->sources, plan->targets, plan->afters,
                               sorted->index_of};
    plan->steps = sorted->steps, plan->sources = sorted->sources;
    plan->targets = sorted->targets, plan->afters = sorted->afters;
    *sorted = old;
}

static void sort_by_lane(struct plan_builder *builder)
{
    struct sorted sorted = {0};
    if (sorted_alloc(&sorted, builder->plan)) {
        place_steps(builder->plan, &sorted);
        const char *error = move_belongings(builder->plan, &sorted);
        if (error == NULL)
            swap_in(builder->plan, &sorted);
        else
            fail(builder, error);
    } else {
        fail_as(builder, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
    }
    sorted_free(&sorted);
}

/* Gives back room that an array does not need; it is never NULL afterwards. */
static bool trim(void *items, size_t item_bytes, uint32_t count)
{
    void *old;
    memcpy(&old, items, sizeof old); /* as in grow */
    void *const trimmed = realloc(old, ((size_t)count + 1) * item_bytes);
    if (trimmed != NULL) memcpy(items, &trimmed, sizeof trimmed);
    return trimmed != NULL;
}

/* Steps of a single lane, and others that were emitted in order, stay where they are. */
static void group_by_lane(struct plan_builder *builder)
{
    struct rank_plan *const plan = builder->plan;
    if (!are_in_order(plan)) {
        sort_by_lane(builder);
        return;
    }
    struct sorted same = {plan->steps, plan->sources, plan->targets, plan->afters, NULL};
    place_steps(plan, &same);
    const char *const error = move_belongings(plan, &same);
    if (error != NULL) fail(builder, error);
    if (!trim(&plan->steps, sizeof *plan->steps, plan->step_count) ||
        !trim(&plan->sources, sizeof *plan->sources, plan->source_count) ||
        !trim(&plan->targets, sizeof *plan->targets, plan->target_count) ||
        !trim(&plan->afters, sizeof *plan->afters, plan->after_count))
        fail_as(builder, TUTTI_NO_MEMORY, OUT_OF_MEMORY);
}

enum tutti_status plan_builder_finish(struct plan_builder *builder, struct rank_plan **rank_plan,
                                      const char **message)
{
    const struct plan_shape shape = builder->plan->shape;
    const int rank = builder->plan->rank;
    struct plan_budget *const budget = builder->budget;
    *rank_plan = NULL;
    if (builder->in_step) fail(builder, "the last step was not ended");
    if (builder->error == NULL) group_by_lane(builder);
    const enum tutti_status status = builder->error == NULL ? TUTTI_OK : builder->status;
    *message = builder->error == NULL ? "" : builder->error;

    struct plan_builder empty;
    if (!start_empty(&empty, shape, rank)) {
        *message = OUT_OF_MEMORY;
        return TUTTI_NO_MEMORY; /* the builder keeps what it has, for plan_builder_free */
    }
    if (status == TUTTI_OK)
        *rank_plan = builder->plan;
    else
        plan_rank_free(builder->plan);
    *builder = empty;
    builder->budget = budget;
    check_identity(builder);
    return status;
}
