/* shards.c - the life of shards: memory, agreement of all ranks, what is where. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/sized.h"
#include "base/status.h"
#include "shards_state.h"
#include "widen.h"

enum { ALIGNMENT = 64, AHEAD_MAX = 64 };

/* ------------------------------------------------------------------------------------ arguments */

static enum tutti_status wrong_option(const char *name, const char *must, double is)
{
    return error_set(TUTTI_INVALID_OPTIONS, "tutti_shards_create: options.%s must be %s, is %g",
                     name, must, is);
}

static bool is_small(enum tutti_dtype dtype)
{
    return dtype == TUTTI_BFLOAT16 || dtype == TUTTI_FLOAT16;
}

static enum tutti_status check_loss_scale(const struct tutti_shards_options *own)
{
    if (own->loss_scale != 0 &&
        !(own->loss_scale >= SHARDS_LOSS_SCALE_MIN && own->loss_scale <= SHARDS_LOSS_SCALE_MAX))
        return wrong_option("loss_scale", "0, or from 2^-64 to 2^64", own->loss_scale);
    if (own->growth_steps < 0) return wrong_option("growth_steps", "0 or more", own->growth_steps);
    if (own->growth_steps > 0 && own->loss_scale == 0)
        return wrong_option("growth_steps", "0 without a loss_scale", own->growth_steps);
    return TUTTI_OK;
}

static enum tutti_status take_options(const struct tutti_shards_options *given,
                                      struct tutti_shards_options *own)
{
    *own = (struct tutti_shards_options)TUTTI_SHARDS_OPTIONS_INIT;
    if (given != NULL)
        TRY(SIZED_READ("tutti_shards_create: options", tutti_shards_options, given, own));
    if ((unsigned)own->stage > TUTTI_SHARDS_PARAMETERS)
        return wrong_option("stage", "a value of enum tutti_shards_stage, 0 to 3", own->stage);
    if (own->dtype != TUTTI_FLOAT32 && own->dtype != TUTTI_FLOAT64 && !is_small(own->dtype))
        return error_set(TUTTI_INVALID_DTYPE,
                         "tutti_shards_create: options.dtype must be float32, float64, bfloat16 or "
                         "float16, is %s (dtype %d)",
                         tutti_dtype_name(own->dtype), (int)own->dtype);
    if (own->wide_gradients != 0 && !is_small(own->dtype))
        return wrong_option("wide_gradients", "0 unless the dtype has 16 bits", own->wide_gradients);
    if (own->micro_batches < 1)
        return wrong_option("micro_batches", "1 or more", own->micro_batches);
    if ((unsigned)own->reduction > TUTTI_SHARDS_REDUCE_EACH)
        return wrong_option("reduction", "a value of enum tutti_shards_reduction, 0 to 2",
                            own->reduction);
    if ((unsigned)own->optimizer > TUTTI_SHARDS_SGD)
        return wrong_option("optimizer", "a value of enum tutti_shards_optimizer, 0 or 1",
                            own->optimizer);
    if (own->ahead < 0 || own->ahead > AHEAD_MAX)
        return wrong_option("ahead", "0 to 64", own->ahead);
    if (!(own->first_decay >= 0 && own->first_decay < 1))
        return wrong_option("first_decay", "from 0 to below 1", own->first_decay);
    if (!(own->second_decay >= 0 && own->second_decay < 1))
        return wrong_option("second_decay", "from 0 to below 1", own->second_decay);
    if (!(own->epsilon > 0)) return wrong_option("epsilon", "above 0", own->epsilon);
    TRY(check_loss_scale(own));
    if (own->reduction == TUTTI_SHARDS_REDUCE_CHOSEN)
        own->reduction = own->stage >= TUTTI_SHARDS_GRADIENTS ? TUTTI_SHARDS_REDUCE_EACH
                                                              : TUTTI_SHARDS_REDUCE_ONCE;
    return TUTTI_OK;
}

static enum tutti_status check_groups(const struct tutti_shard_group *groups, size_t count)
{
    if (groups == NULL && count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_shards_create: the groups are NULL");
    size_t elements = 0;
    for (size_t g = 0; g < count; g++) {
        if (groups[g].count > SIZE_MAX / 64 - elements)
            return error_set(TUTTI_INVALID_COUNT,
                             "tutti_shards_create: group %zu has too many elements", g);
        elements += groups[g].count;
        if (!(groups[g].weight_decay >= 0))
            return error_set(TUTTI_INVALID_OPTIONS,
                             "tutti_shards_create: the weight decay of group %zu must be 0 or "
                             "more, is %g",
                             g, groups[g].weight_decay);
    }
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- memory */

static size_t padded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Takes some of one block of memory, or only counts where there is none yet. */
static char *take(char *memory, size_t *used, size_t bytes)
{
    char *const piece = memory != NULL ? memory + *used : NULL;
    *used += padded(bytes);
    return piece;
}

struct room {
    size_t parameters, gradients, state;
    size_t masters; /* of the state */
};

static struct room lay_out(struct tutti_shards *s)
{
    const bool has_shard = s->options.stage == TUTTI_SHARDS_PARAMETERS;
    const bool has_second = s->options.optimizer == TUTTI_SHARDS_ADAMW;
    struct room room = {0, 0, 0, 0};
    for (size_t g = 0; g < s->group_count; g++) {
        struct shards_group *const group = &s->groups[g];
        const size_t own = group->own.count;
        group->parameters = take(s->parameters, &room.parameters,
                                 (has_shard ? own : group->count) * s->parameter_size);
        char *const gradients = take(s->gradients, &room.gradients,
                                     (s->keeps_gradients ? group->count : own) * s->gradient_size);
        group->gradients = s->keeps_gradients ? gradients : NULL;
        group->sums = gradients;
        if (s->keeps_gradients && gradients != NULL)
            group->sums = gradients + group->own.first * s->gradient_size;
        group->first = take(s->state, &room.state, own * s->state_size);
        group->second = has_second ? take(s->state, &room.state, own * s->state_size) : NULL;
        if (!is_small(s->options.dtype)) continue;
        const size_t before = room.state;
        group->masters = (float *)(void *)take(s->state, &room.state, own * sizeof(float));
        room.masters += room.state - before;
    }
    return room;
}

static enum tutti_status allocate(struct tutti_shards *s)
{
    const struct room room = lay_out(s);
    TRY(tutti_mem_alloc(room.parameters + ALIGNMENT, &s->parameters));
    TRY(tutti_mem_alloc(room.gradients + ALIGNMENT, &s->gradients));
    s->state = aligned_alloc(ALIGNMENT, room.state + ALIGNMENT);
    if (s->state == NULL)
        return error_set(TUTTI_NO_MEMORY,
                         "tutti_shards_create: no memory for %zu bytes of the optimizer's state",
                         room.state);
    memset(s->state, 0, room.state + ALIGNMENT);
    (void)lay_out(s);
    s->counters.parameter_bytes = room.parameters;
    s->counters.gradient_bytes = room.gradients;
    s->counters.state_bytes = room.state;
    s->counters.master_bytes = room.masters;
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- life cycle */

static void init_group(struct tutti_shards *s, size_t index, const struct tutti_shard_group *given)
{
    struct shards_group *const group = &s->groups[index];
    group->count = given->count;
    group->weight_decay = given->weight_decay;
    group->blocks_before = s->block_count;
    group->counts = s->counts + index * (size_t)s->size;
    for (int r = 0; r < s->size; r++) {
        group->counts[r] = shards_own(given->count, r, s->size).count;
        s->square_counts[r] += shards_own_blocks(given->count, r, s->size).count;
    }
    group->own = s->options.stage == TUTTI_SHARDS_NONE ? (struct shards_range){0, given->count}
                                                       : shards_own(given->count, s->rank, s->size);
    s->block_count += shards_blocks(given->count);
}

static size_t gathered_count(const struct tutti_shards *s)
{
    return s->block_count + SHARDS_STEP_NUMBERS * (size_t)s->size;
}

static enum tutti_status build(struct tutti_shards *s, const struct tutti_shard_group *groups,
                               size_t count)
{
    const bool is_mixed = is_small(s->options.dtype);
    s->state_dtype = is_mixed ? TUTTI_FLOAT32 : s->options.dtype;
    s->gradient_dtype = s->options.wide_gradients != 0 ? TUTTI_FLOAT32 : s->options.dtype;
    s->parameter_size = dtype_size(s->options.dtype);
    s->gradient_size = dtype_size(s->gradient_dtype);
    s->state_size = dtype_size(s->state_dtype);
    s->loss_scale = s->options.loss_scale;
    s->counters.good_steps = s->options.first_good_steps;
    s->keeps_gradients = s->options.stage < TUTTI_SHARDS_GRADIENTS &&
                         s->options.reduction == TUTTI_SHARDS_REDUCE_ONCE;
    s->group_count = count;
    s->counters.steps = s->options.first_step;
    s->reduction_room = count + (size_t)s->options.ahead + 1;
    s->groups = calloc(count + 1, sizeof *s->groups);
    s->counts = calloc(count * (size_t)s->size + 1, sizeof *s->counts);
    s->square_counts = calloc((size_t)s->size, sizeof *s->square_counts);
    s->reductions = calloc(s->reduction_room, sizeof *s->reductions);
    if (s->groups == NULL || s->counts == NULL || s->square_counts == NULL || s->reductions == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_shards_create: out of memory");
    for (int r = 0; r < s->size; r++) s->square_counts[r] = SHARDS_STEP_NUMBERS;
    for (size_t g = 0; g < count; g++) init_group(s, g, &groups[g]);
    s->gathered_squares = calloc(gathered_count(s), sizeof *s->gathered_squares);
    s->all_squares = calloc(s->block_count + SHARDS_STEP_NUMBERS, sizeof *s->all_squares);
    if (s->gathered_squares == NULL || s->all_squares == NULL)
        return error_set(TUTTI_NO_MEMORY, "tutti_shards_create: no memory for %zu blocks",
                         s->block_count);
    return allocate(s);
}

static uint64_t hash_double(uint64_t hash, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return hash_take(hash, bits);
}

/* The values that all ranks must give alike, as one number of 62 bits. */
static int64_t fingerprint(const struct tutti_shards *s)
{
    const struct tutti_shards_options *const o = &s->options;
    uint64_t hash = hash_take(1, s->group_count);
    hash = hash_take(hash, (uint64_t)o->stage << 48 | (uint64_t)o->dtype << 40 |
                               (uint64_t)o->reduction << 32 | (uint64_t)o->optimizer << 24 |
                               (uint64_t)o->ahead);
    hash = hash_take(hash, (uint64_t)o->micro_batches);
    hash = hash_take(hash, o->first_step);
    hash = hash_double(hash, o->first_decay);
    hash = hash_double(hash, o->second_decay);
    hash = hash_double(hash, o->epsilon);
    hash = hash_take(hash, (uint64_t)(o->wide_gradients != 0) << 32 | (uint64_t)o->growth_steps);
    hash = hash_double(hash, o->loss_scale);
    hash = hash_take(hash, o->first_good_steps);
    for (size_t g = 0; g < s->group_count; g++)
        hash = hash_double(hash_take(hash, s->groups[g].count), s->groups[g].weight_decay);
    return (int64_t)(hash >> 2);
}

static void describe(const void *context, FILE *lines)
{
    const struct tutti_shards *const s = context;
    const struct tutti_shards_options *const o = &s->options;
    fprintf(lines, "groups: %zu\noptions.stage: %d\noptions.dtype: %s\n", s->group_count,
            (int)o->stage, tutti_dtype_name(o->dtype));
    fprintf(lines, "options.micro_batches: %d\noptions.reduction: %d\noptions.optimizer: %d\n",
            o->micro_batches, (int)o->reduction, (int)o->optimizer);
    fprintf(lines, "options.ahead: %d\noptions.first_decay: %.17g\noptions.second_decay: %.17g\n",
            o->ahead, o->first_decay, o->second_decay);
    fprintf(lines, "options.epsilon: %.17g\noptions.first_step: %" PRIu64 "\n", o->epsilon,
            o->first_step);
    fprintf(lines, "options.wide_gradients: %d\noptions.growth_steps: %d\n", o->wide_gradients != 0,
            o->growth_steps);
    fprintf(lines, "options.first_good_steps: %" PRIu64 "\noptions.loss_scale: %.17g\n",
            o->first_good_steps, o->loss_scale);
    for (size_t g = 0; g < s->group_count; g++)
        fprintf(lines, "group %zu: %zu elements, weight decay %.17g\n", g, s->groups[g].count,
                s->groups[g].weight_decay);
}

/* Ranks agree even if this rank already knows that it cannot go on: the other ranks must learn of
 * it. */
static enum tutti_status agree(const struct tutti_shards *s, enum tutti_status status)
{
    const struct agreement agreement = {"tutti_shards_create",
                                        status == TUTTI_OK ? fingerprint(s) : 0, describe, s};
    return agree_on_making(s->comm, status, &agreement, NULL);
}

static enum tutti_status prepare(struct tutti_shards *s, const struct tutti_shard_group *groups,
                                 size_t count, const struct tutti_shards_options *options)
{
    TRY(take_options(options, &s->options));
    TRY(check_groups(groups, count));
    return build(s, groups, count);
}

enum tutti_status tutti_shards_create(const struct tutti_shard_group *groups, size_t count,
                                      const struct tutti_shards_options *options,
                                      struct tutti_comm *comm, struct tutti_shards **created)
{
    *created = NULL;
    if (tutti_comm_size(comm) < 1)
        return error_set(TUTTI_INVALID_COMM, "tutti_shards_create: this is no communicator");
    struct tutti_shards *s = calloc(1, sizeof *s);
    if (s == NULL) return error_set(TUTTI_NO_MEMORY, "tutti_shards_create: out of memory");
    s->comm = comm;
    s->rank = tutti_comm_rank(comm);
    s->size = tutti_comm_size(comm);
    const enum tutti_status status = agree(s, prepare(s, groups, count, options));
    if (status != TUTTI_OK) {
        tutti_shards_free(s);
        return status;
    }
    *created = s;
    return TUTTI_OK;
}

/* Nobody asks how what is still under way ended. */
static void abandon(struct tutti_shards *s)
{
    for (size_t i = 0; i < s->reduction_count; i++) {
        struct shards_reduction *const reduction =
            &s->reductions[(s->reduction_first + i) % s->reduction_room];
        if (reduction->request != NULL) (void)!tutti_wait(&reduction->request);
        shards_pool_give(&s->buckets, reduction->buffer);
    }
    for (size_t g = 0; g < s->group_count; g++) {
        if (s->groups[g].gather != NULL) (void)!tutti_wait(&s->groups[g].gather);
        shards_pool_give(&s->gathered, s->groups[g].gathered);
        shards_pool_give(&s->buckets, s->groups[g].open);
    }
}

enum tutti_status tutti_shards_free(struct tutti_shards *s)
{
    if (s == NULL) return TUTTI_OK;
    if (s->groups != NULL) abandon(s);
    shards_pool_release(&s->gathered);
    shards_pool_release(&s->buckets);
    tutti_mem_free(s->parameters);
    tutti_mem_free(s->gradients);
    free(s->state);
    free(s->groups);
    free(s->counts);
    free(s->square_counts);
    free(s->reductions);
    free(s->gathered_squares);
    free(s->all_squares);
    free(s);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------- what is where */

enum tutti_status tutti_shards_set(struct tutti_shards *s, size_t index, const void *values)
{
    TRY(shards_check(s, "set", index));
    struct shards_group *const group = &s->groups[index];
    if (values == NULL && group->count > 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_shards_set: the values are NULL");
    if (group->use_count > 0 || group->ready_count > 0 || group->is_asked_for)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_shards_set: group %zu is %s", index,
                         group->use_count > 0 ? "acquired" : "in the middle of a step");
    TRY(shards_broken_by(s, shards_wait_gather(group)));
    shards_drop_gathered(s, group);
    const bool is_whole = s->options.stage < TUTTI_SHARDS_PARAMETERS;
    const size_t first = is_whole ? 0 : group->own.first;
    const size_t count = is_whole ? group->count : group->own.count;
    if (count == 0) return TUTTI_OK;
    if (group->masters == NULL) {
        memcpy(group->parameters, (const char *)values + first * s->parameter_size,
               count * s->parameter_size);
        return TUTTI_OK;
    }
    narrow(s->options.dtype, count, (const float *)values + first, group->parameters);
    memcpy(group->masters, (const float *)values + group->own.first,
           group->own.count * sizeof(float));
    return TUTTI_OK;
}

enum tutti_status tutti_shards_own(struct tutti_shards *s, size_t index, struct tutti_shard *shard)
{
    TRY(shards_check(s, "own", index));
    const struct shards_group *const group = &s->groups[index];
    *shard = (struct tutti_shard){.first = group->own.first, .count = group->own.count};
    if (group->own.count == 0) return TUTTI_OK;
    const bool is_whole = s->options.stage < TUTTI_SHARDS_PARAMETERS;
    shard->parameters = group->parameters + (is_whole ? group->own.first * s->parameter_size : 0);
    shard->gradients = s->is_finished ? group->sums : NULL;
    shard->first_moments = group->first;
    shard->second_moments = group->second;
    shard->masters = group->masters;
    return TUTTI_OK;
}

/* All but the memory of parameters, gradients, state and buffers. */
static size_t table_bytes(const struct tutti_shards *s)
{
    const size_t groups = s->group_count, size = (size_t)s->size;
    return sizeof *s + (groups + 1) * sizeof *s->groups + (groups * size + 1) * sizeof *s->counts +
           size * sizeof *s->square_counts + s->reduction_room * sizeof *s->reductions +
           gathered_count(s) * sizeof *s->gathered_squares +
           (s->block_count + SHARDS_STEP_NUMBERS) * sizeof *s->all_squares +
           s->gathered.table_bytes + s->buckets.table_bytes + (size_t)3 * ALIGNMENT;
}

enum tutti_status tutti_shards_count(const struct tutti_shards *s,
                                     struct tutti_shards_counters *counters)
{
    TRY(SIZED_CHECK_RESULT("tutti_shards_count: counters", tutti_shards_counters, counters));
    struct tutti_shards_counters own = s->counters;
    own.gather_bytes = s->gathered.bytes_max;
    own.bucket_bytes = s->buckets.bytes_max;
    own.buffer_bytes = own.gather_bytes + own.bucket_bytes;
    own.table_bytes = table_bytes(s);
    SIZED_WRITE(tutti_shards_counters, counters, counters->size_bytes, &own);
    return TUTTI_OK;
}
