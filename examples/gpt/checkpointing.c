#include "checkpointing.h"

#include "give_up.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/shards.h"

enum { NAME_BYTES = 64, FACTS = 3 };

/* What makes samples the same ones: numbers that a checkpoint has, and that the run has to have at
 * that step. */
static const char *const fact_names[FACTS] = {"samples seen", "seed", "text"};

/* The optimizer's steps; the loss scale, and good steps since it grew. A run without a loss scale
 * has 0 and 0. */
enum { COUNTERS = 3 };
struct counters {
    uint64_t steps;
    double loss_scale;
    uint64_t good_steps;
};

struct checkpointing {
    struct checkpointing_options options;
    struct tutti_comm *world; /* borrowed */
    struct tutti_checkpoints *checkpoints;
    uint64_t step; /* from which the run goes on */
    uint64_t facts[FACTS];
    struct counters counters;
    struct tutti_checkpoint_tensor *tensors;
    char (*names)[NAME_BYTES];
    size_t count;
    bool has_failed; /* the last one */
};

/* All ranks have the same status, so one tells. */
static void expect_together(const struct checkpointing *c, enum tutti_status status,
                            const char *what)
{
    if (status != TUTTI_OK) end_together(c->world, 0, what, tutti_error_message());
}

/* -------------------------------------------------------------------------------- what there is */

/* This rank's elements of a view that belong to a tensor of its group, as a part of the whole
 * tensor. */
static void add_tensor(struct checkpointing *c, const struct tutti_shard_view *view,
                       const struct group *group, const struct tensor *own,
                       const struct tensor *whole)
{
    const size_t first = own->offset - group->offset, end = first + tensor_elements(own);
    const size_t view_end = view->first + view->count;
    const size_t from = view->first > first ? view->first : first;
    const size_t to = view_end < end ? view_end : end;
    if (from >= to) return;
    snprintf(c->names[c->count], NAME_BYTES, "%s, %s", own->name, view->name);
    c->tensors[c->count] = (struct tutti_checkpoint_tensor){
        .name = c->names[c->count],
        .dtype = view->dtype,
        .dims = 2,
        .shape = {whole->rows.count, whole->columns.count},
        .first = {own->rows.first, own->columns.first},
        .extent = {own->rows.count, own->columns.count},
        .begin = from - first,
        .count = to - from,
        .data = (char *)view->data + (from - view->first) * tutti_dtype_size(view->dtype)};
    c->count++;
}

static void add_group(struct checkpointing *c, struct parallel *parallel, size_t chunk,
                      const struct parameters *whole, size_t index)
{
    const struct parameters *parameters = parallel_parameters(parallel, chunk);
    const struct group *group = &parameters->groups[index];
    struct tutti_shard_view views[TUTTI_SHARDS_VIEWS];
    size_t count;
    expect(tutti_shards_views(parallel_shards(parallel),
                              parallel_first_group(parallel, chunk) + index, views, &count),
           "looking at the shards");
    for (size_t v = 0; v < count; v++)
        for (size_t i = 0; i < group->tensor_count; i++) {
            const struct tensor *own = &parameters->tensors[group->first_tensor + i];
            add_tensor(c, &views[v], group, own, parameters_find(whole, own->kind, own->layer));
        }
}

static void describe_counters(struct counters *counters, struct tutti_checkpoint_tensor *tensors)
{
    tensors[0] = (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
        "optimizer steps", TUTTI_UINT64, 1, &counters->steps);
    tensors[1] = (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW("loss scale", TUTTI_FLOAT64,
                                                                      1, &counters->loss_scale);
    tensors[2] = (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW("good steps", TUTTI_UINT64, 1,
                                                                      &counters->good_steps);
}

static size_t count_compressed(struct parallel *parallel)
{
    size_t count = 0;
    if (parallel_compressor(parallel) != NULL)
        expect(tutti_compressor_parts(parallel_compressor(parallel), NULL, 0, &count),
               "counting the compressor's parts");
    return count;
}

/* Of compressed gradients: residuals, and what else the next step begins with. */
static void add_compressed(struct checkpointing *c, struct parallel *parallel)
{
    size_t count;
    if (parallel_compressor(parallel) == NULL) return;
    const size_t room = count_compressed(parallel);
    expect(tutti_compressor_parts(parallel_compressor(parallel), &c->tensors[c->count], room, &count),
           "listing the compressor's parts");
    c->count += count;
}

/* All that this rank has, and what all ranks know, but for compressors. */
static void describe(struct checkpointing *c, struct parallel *parallel)
{
    const size_t chunks = parallel_chunk_count(parallel);
    const struct shape *shape = &parallel_options(parallel)->model.shape;
    const struct part all = part_whole(shape);
    struct parameters whole;
    size_t room = FACTS + COUNTERS + count_compressed(parallel);
    for (size_t i = 0; i < chunks; i++)
        room += parallel_parameters(parallel, i)->tensor_count * TUTTI_SHARDS_VIEWS;
    parameters_init(&whole, shape, &all);
    if (c->tensors == NULL) c->tensors = allocate(room, sizeof *c->tensors);
    if (c->names == NULL) c->names = allocate(room, sizeof *c->names);
    c->count = 0;
    for (size_t i = 0; i < chunks; i++)
        for (size_t g = 0; g < parallel_parameters(parallel, i)->group_count; g++)
            add_group(c, parallel, i, &whole, g);
    for (size_t i = 0; i < FACTS; i++)
        c->tensors[c->count++] = (struct tutti_checkpoint_tensor)TUTTI_CHECKPOINT_ROW(
            fact_names[i], TUTTI_UINT64, 1, &c->facts[i]);
    describe_counters(&c->counters, &c->tensors[c->count]);
    c->count += COUNTERS;
    parameters_release(&whole);
}

static void find_counters(const struct parallel *parallel, struct counters *counters)
{
    struct tutti_shards_counters counted = {.size_bytes = sizeof counted};
    expect(tutti_shards_count(parallel_shards(parallel), &counted), "counting steps");
    *counters = (struct counters){counted.steps, 0, 0};
    if (!parallel_has_loss_scale(parallel)) return;
    counters->loss_scale = tutti_shards_loss_scale(parallel_shards(parallel));
    counters->good_steps = counted.good_steps;
}

static uint64_t hash_text(const struct data *data)
{
    uint64_t hash = data->token_count;
    for (size_t i = 0; i < data->token_count; i++)
        hash = (hash ^ data->tokens[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void find_facts(const struct parallel *parallel, uint64_t steps, uint64_t facts[FACTS])
{
    const struct trainer_options *options = parallel_options(parallel);
    facts[0] = steps * options->batch;
    facts[1] = options->model.seed;
    facts[2] = hash_text(parallel_data(parallel));
}

/* ----------------------------------------------------------------------------------------- life */

struct checkpointing *checkpointing_open(const struct checkpointing_options *options,
                                         struct tutti_comm *world)
{
    struct tutti_checkpoints_options wanted = TUTTI_CHECKPOINTS_OPTIONS_INIT;
    size_t count;
    if (options->folder == NULL) return NULL;
    struct checkpointing *c = allocate(1, sizeof *c);
    c->options = *options;
    c->world = world;
    wanted.keep = (int)options->keep;
    wanted.lock = 1;
    expect_together(c, tutti_checkpoints_open(options->folder, &wanted, world, &c->checkpoints),
                    "opening checkpoints");
    expect_together(c, tutti_checkpoints_list(c->checkpoints, &c->step, 1, &count),
                    "looking for checkpoints");
    if (count > 0 && !options->resume) {
        (void)!tutti_checkpoints_close(c->checkpoints);
        end_together(world, 0, options->folder,
                     "there are checkpoints: add --resume, or take another folder");
    }
    return c;
}

bool checkpointing_close(struct checkpointing *c)
{
    if (c == NULL) return true;
    if (tutti_checkpoints_close(c->checkpoints) != TUTTI_OK) {
        c->has_failed = true;
        if (tutti_comm_rank(c->world) == 0)
            fprintf(stderr, "gpt: the last checkpoint: %s\n", tutti_error_message());
    }
    const bool is_good = !c->has_failed;
    free(c->tensors);
    free(c->names);
    free(c);
    return is_good;
}

uint64_t checkpointing_step(const struct checkpointing *c)
{
    return c != NULL ? c->step : 0;
}

void checkpointing_begin(struct checkpointing *c, struct parallel_options *parallel)
{
    struct tutti_checkpoint_tensor tensors[COUNTERS];
    struct counters saved;
    if (c == NULL || c->step == 0) return;
    describe_counters(&saved, tensors);
    expect_together(c, tutti_checkpoints_load(c->checkpoints, c->step, tensors, COUNTERS),
                    "going on from a checkpoint");
    parallel->first_step = saved.steps;
    if (parallel->loss_scale == 0 || saved.loss_scale == 0) return;
    parallel->loss_scale = saved.loss_scale;
    parallel->good_steps = saved.good_steps;
}

void checkpointing_load(struct checkpointing *c, struct parallel *parallel)
{
    uint64_t expected[FACTS];
    if (c == NULL || c->step == 0) return;
    find_facts(parallel, c->step, expected);
    describe(c, parallel);
    expect_together(c, tutti_checkpoints_load(c->checkpoints, c->step, c->tensors, c->count),
                    "going on from a checkpoint");
    for (size_t i = 0; i < FACTS; i++) {
        char why[128];
        if (c->facts[i] == expected[i]) continue;
        snprintf(why, sizeof why, "the checkpoint of step %llu is of another run: %s differ",
                 (unsigned long long)c->step, fact_names[i]);
        end_together(c->world, 0, c->options.folder, why);
    }
    if (parallel_compressor(parallel) != NULL)
        expect_together(
            c, tutti_compressor_load(parallel_compressor(parallel), c->checkpoints, c->step),
            "going on with compressed gradients");
}

/* Tells, once. */
static bool is_well(struct checkpointing *c, enum tutti_status status)
{
    c->has_failed = status != TUTTI_OK;
    if (c->has_failed && tutti_comm_rank(c->world) == 0)
        fprintf(stderr, "gpt: there is no new checkpoint: %s\n", tutti_error_message());
    return !c->has_failed;
}

void checkpointing_after(struct checkpointing *c, struct parallel *parallel, uint64_t steps)
{
    if (c == NULL) return;
    const bool is_last = steps == parallel_options(parallel)->schedule.steps;
    if (!is_last && (c->options.every_steps == 0 || steps % c->options.every_steps != 0)) return;
    (void)is_well(c, tutti_checkpoints_wait(c->checkpoints));
    find_facts(parallel, steps, c->facts);
    find_counters(parallel, &c->counters);
    describe(c, parallel);
    add_compressed(c, parallel);
    (void)is_well(c, tutti_checkpoints_save(c->checkpoints, steps, c->tensors, c->count));
}
