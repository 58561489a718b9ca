#include "shards_holder.h"

#include "bfloat16.h"
#include "mesh.h"

/* A group's weights and gradients in float, while somebody uses them. */
struct wide_group {
    size_t elements;
    real *weights, *gradients;
    int use_count;
};

/* -------------------------------------------------------------------------------------- 16 bits */

static void widen(const uint16_t *small, size_t count, real *wide)
{
    for (size_t i = 0; i < count; i++) wide[i] = (real)bfloat16_widened(small[i]);
}

static void add_rounded(uint16_t *small, size_t count, const real *wide)
{
    for (size_t i = 0; i < count; i++)
        small[i] = bfloat16_nearest(bfloat16_widened(small[i]) + (float)wide[i]);
}

/* -------------------------------------------------------------------------------- the functions */

static real *acquire(enum holder_pass pass, size_t index, void *context)
{
    const struct chunk_holder *chunk = context;
    const size_t g = chunk->first_group + index;
    struct wide_group *group = &chunk->all->groups[g];
    void *weights;
    timeline_begin(chunk->all->timeline, WAITING_REPLICAS, 0);
    expect(tutti_shards_acquire(chunk->all->shards,
                                pass == HOLDER_FORWARD ? TUTTI_PASS_FORWARD : TUTTI_PASS_BACKWARD,
                                g, &weights),
           "getting parameters");
    timeline_end(chunk->all->timeline);
    if (!chunk->all->widens) return weights;
    if (group->use_count++ == 0) {
        group->weights = allocate(group->elements, sizeof *group->weights);
        widen(weights, group->elements, group->weights);
    }
    return group->weights;
}

static void release(size_t index, void *context)
{
    const struct chunk_holder *chunk = context;
    const size_t g = chunk->first_group + index;
    struct wide_group *group = &chunk->all->groups[g];
    if (chunk->all->widens && --group->use_count == 0) free(group->weights);
    expect(tutti_shards_release(chunk->all->shards, g), "giving parameters back");
    profile_read(chunk->all->profile);
}

static void *gradient_of(const struct chunk_holder *chunk, size_t group)
{
    void *values;
    timeline_begin(chunk->all->timeline, WAITING_REPLICAS, 0);
    expect(tutti_shards_gradient(chunk->all->shards, group, &values),
           "getting memory for gradients");
    timeline_end(chunk->all->timeline);
    return values;
}

static real *gradient(size_t index, void *context)
{
    const struct chunk_holder *chunk = context;
    const size_t g = chunk->first_group + index;
    struct wide_group *group = &chunk->all->groups[g];
    if (chunk->all->compression != NULL) return compression_gradient(chunk->all->compression, g);
    if (!chunk->all->rounds) return gradient_of(chunk, g);
    return group->gradients = allocate(group->elements, sizeof *group->gradients);
}

static void start_reduction(struct shards_holder *holder, size_t group)
{
    if (holder->compression != NULL) {
        compression_ready(holder->compression, group);
        return;
    }
    timeline_begin(holder->timeline, WAITING_REPLICAS, 0);
    expect(tutti_shards_ready(holder->shards, group), "reducing gradients");
    timeline_end(holder->timeline);
}

void shards_holder_reduce_late(struct shards_holder *holder)
{
    for (size_t i = 0; i < holder->late_count; i++) start_reduction(holder, holder->late[i]);
    holder->late_count = 0;
}

static void ready(size_t index, void *context)
{
    const struct chunk_holder *chunk = context;
    const size_t g = chunk->first_group + index;
    struct wide_group *group = &chunk->all->groups[g];
    if (chunk->all->rounds) {
        add_rounded(gradient_of(chunk, g), group->elements, group->gradients);
        free(group->gradients);
    }
    if (chunk->all->reduces_late)
        chunk->all->late[chunk->all->late_count++] = g;
    else
        start_reduction(chunk->all, g);
}

/* ----------------------------------------------------------------------------------- life cycle */

void shards_holder_init(struct shards_holder *holder, size_t chunk_count)
{
    *holder = (struct shards_holder){
        .chunk_count = chunk_count, .dtype = REAL_DTYPE, .gradient_dtype = REAL_DTYPE};
    holder->chunks = allocate(chunk_count, sizeof *holder->chunks);
    for (size_t c = 0; c < chunk_count; c++) {
        struct chunk_holder *chunk = &holder->chunks[c];
        *chunk = (struct chunk_holder){.holder = {acquire, release, gradient, ready, chunk},
                                       .all = holder};
    }
}

/* Of one model; masters take them as they are. */
static void set_first_values(struct shards_holder *holder, const struct model *model, size_t first)
{
    const struct parameters *parameters = &model->parameters;
    for (size_t g = 0; g < parameters->group_count; g++) {
        const struct group *group = &parameters->groups[g];
        real *values = allocate(group->elements, sizeof *values);
        parameters_randomise(parameters, group, &model->options.shape, model->options.seed, values);
        expect(tutti_shards_set(holder->shards, first + g, values), "setting first parameters");
        free(values);
    }
}

struct tutti_shard_group *shards_holder_groups(struct shards_holder *holder,
                                               struct model *const *models, double weight_decay)
{
    for (size_t c = 0; c < holder->chunk_count; c++) {
        holder->chunks[c].first_group = holder->group_count;
        holder->group_count += models[c]->parameters.group_count;
    }
    struct tutti_shard_group *groups = allocate(holder->group_count, sizeof *groups);
    holder->groups = allocate(holder->group_count, sizeof *holder->groups);
    holder->late = allocate(holder->group_count, sizeof *holder->late);
    for (size_t c = 0, g = 0; c < holder->chunk_count; c++)
        for (size_t i = 0; i < models[c]->parameters.group_count; i++, g++) {
            const struct group *group = &models[c]->parameters.groups[i];
            groups[g] =
                (struct tutti_shard_group){group->elements, group->decays ? weight_decay : 0};
            holder->groups[g].elements = group->elements;
        }
    return groups;
}

void shards_holder_open(struct shards_holder *holder, struct model *const *models,
                        const struct tutti_shards_options *given, enum weight_dtype weights,
                        double weight_decay, struct tutti_comm *replicas)
{
    struct tutti_shards_options options = *given;
    struct tutti_shard_group *groups = shards_holder_groups(holder, models, weight_decay);
    holder->widens = weights == WEIGHTS_BFLOAT16;
    holder->rounds = holder->widens && options.wide_gradients == 0;
    holder->gradient_dtype = holder->rounds ? TUTTI_BFLOAT16 : REAL_DTYPE;
    options.dtype = holder->dtype = holder->widens ? TUTTI_BFLOAT16 : REAL_DTYPE;
    expect(tutti_shards_create(groups, holder->group_count, &options, replicas, &holder->shards),
           "making shards");
    free(groups);
    for (size_t c = 0; c < holder->chunk_count; c++)
        set_first_values(holder, models[c], holder->chunks[c].first_group);
}

void shards_holder_close(struct shards_holder *holder)
{
    tutti_shards_free(holder->shards);
    free(holder->groups);
    free(holder->late);
    free(holder->chunks);
}
