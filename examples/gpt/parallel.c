#include "parallel.h"

#include "exchange_ranks.h"
#include "profile.h"
#include "tutti/train/pipeline.h"
#include "unconnected.h"
#include "volumes.h"

/* As many in a row double a loss scale. */
enum { GOOD_STEPS = 100 };

enum { WAITS = 3, REPORTED = WAITS + 2 }; /* waits; the loss, and the time of the step */

/* A part of the model that this rank has. */
struct chunk {
    struct saved **saved; /* of the micro-batches that are on their way */
    size_t saved_count;
};

struct parallel {
    struct trainer_options options;
    struct parallel_options parallel;
    const struct data *data; /* borrowed */
    struct mesh mesh;
    struct exchange_ranks exchange;
    struct shards_holder holder;
    struct timeline timeline;
    struct volumes volumes;
    struct profile profile;
    struct unconnected unconnected;  /* with it the shards are its */
    struct compression compression;  /* with it the shards are of this rank alone */
    struct tutti_pipeline *pipeline; /* NULL: one stage */
    struct model **models;           /* [chunks] */
    struct chunk *chunks;
    size_t micro_batches;
    uint32_t *inputs, *targets; /* of a micro-batch */
    uint64_t *numbers;
    double *squares; /* [groups] */
    uint64_t step;   /* that goes on */
    double loss;     /* the sum over its tokens, where the head is */
};

static void make_shards(struct parallel *p)
{
    const struct adamw *adamw = &p->options.adamw;
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    options.stage = (enum tutti_shards_stage)p->parallel.zero;
    options.micro_batches = (int)p->micro_batches;
    options.ahead = p->parallel.ahead;
    options.first_decay = adamw->first_decay;
    options.second_decay = adamw->second_decay;
    options.epsilon = adamw->epsilon;
    options.first_step = p->parallel.first_step;
    options.wide_gradients = p->parallel.wide_gradients;
    options.loss_scale = p->parallel.loss_scale;
    if (options.loss_scale > 0) {
        options.growth_steps = GOOD_STEPS;
        options.first_good_steps = p->parallel.good_steps;
    }
    if (p->parallel.is_unconnected) {
        options.dtype = REAL_DTYPE;
        struct tutti_shard_group *groups =
            shards_holder_groups(&p->holder, p->models, adamw->weight_decay);
        unconnected_init(&p->unconnected, &p->mesh, p->models[0], groups, p->holder.group_count,
                         &options);
        p->holder.shards = p->unconnected.shards;
        free(groups);
        return;
    }
    struct tutti_comm *replicas = p->mesh.replica.comm;
    if (p->parallel.compression.is_wanted) {
        compression_open(&p->compression, &p->parallel.compression, &p->models[0]->parameters,
                         p->micro_batches, &p->mesh);
        p->holder.compression = &p->compression;
        replicas = p->compression.alone;
        options.micro_batches = 1;
        options.loss_scale = 1; /* a step may be skipped */
    }
    shards_holder_open(&p->holder, p->models, &options, p->parallel.weights, adamw->weight_decay,
                       replicas);
}

/* -------------------------------------------------------------------------------- micro-batches */

/* This replica's share of the samples of a micro-batch. */
static struct batch read_batch(const struct parallel *p, size_t micro)
{
    const size_t samples = p->options.model.samples_max, context = p->data->context;
    const size_t first = (micro * p->mesh.replica.size + p->mesh.replica.index) * samples;
    for (size_t i = 0; i < samples; i++) {
        p->numbers[i] = p->step * p->options.batch + first + i;
        data_sample(p->data, p->numbers[i], p->inputs + i * context, p->targets + i * context);
    }
    return (struct batch){.samples = samples,
                          .inputs = p->inputs,
                          .targets = p->targets,
                          .numbers = p->numbers,
                          .step = p->step,
                          .training = true};
}

static double tokens_of_step(const struct parallel *p)
{
    return (double)(p->options.batch * p->data->context);
}

/* A chunk's micro-batches come back in their order, so those on their way have numbers in a row. */
static struct saved *saved_of(const struct parallel *p, int chunk, int micro)
{
    const struct chunk *here = &p->chunks[chunk];
    return here->saved[(size_t)micro % here->saved_count];
}

/* In a pipeline whatever is between passes is waiting. */
static void begin_pass(struct parallel *p, enum doing pass, int micro)
{
    if (p->pipeline != NULL) timeline_end(&p->timeline);
    timeline_begin(&p->timeline, pass, (size_t)micro);
}

static void end_pass(struct parallel *p)
{
    timeline_end(&p->timeline);
    profile_read(&p->profile);
    if (p->pipeline != NULL) timeline_begin(&p->timeline, WAITING_STAGES, 0);
}

static enum tutti_status forward(void *context, int chunk, int micro, const void *input,
                                 void *output)
{
    struct parallel *p = context;
    begin_pass(p, DOING_FORWARD, micro);
    const struct batch batch = read_batch(p, (size_t)micro);
    p->loss += model_forward(p->models[chunk], &batch, saved_of(p, chunk, micro), input, output);
    end_pass(p);
    return TUTTI_OK;
}

static enum tutti_status backward(void *context, int chunk, int micro, const void *output_gradient,
                                  void *input_gradient)
{
    struct parallel *p = context;
    begin_pass(p, DOING_BACKWARD, micro);
    const struct batch batch = read_batch(p, (size_t)micro);
    const double scale = tutti_shards_loss_scale(p->holder.shards) / tokens_of_step(p);
    model_backward(p->models[chunk], &batch, saved_of(p, chunk, micro), (real)scale,
                   output_gradient, input_gradient);
    shards_holder_reduce_late(&p->holder);
    end_pass(p);
    return TUTTI_OK;
}

/* The most micro-batches that are on their way through a chunk of the stage at any one time. */
static size_t on_their_way(const struct tutti_schedule *schedule, int stage, int chunk)
{
    size_t count, now = 0, most = 0;
    const struct tutti_schedule_action *actions = tutti_schedule_actions(schedule, stage, &count);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].chunk != chunk) continue;
        now += actions[i].pass == TUTTI_PASS_FORWARD ? 1 : (size_t)-1;
        if (now > most) most = now;
    }
    return most;
}

static void make_pipeline(struct parallel *p)
{
    const struct mesh *mesh = &p->mesh;
    const struct tutti_schedule_shape shape = {(int)mesh->stage.size, (int)p->micro_batches,
                                               (int)p->parallel.chunks};
    struct tutti_pipeline_options options = TUTTI_PIPELINE_OPTIONS_INIT;
    struct tutti_schedule *schedule;
    for (size_t c = 0; c < p->parallel.chunks; c++) p->chunks[c].saved_count = 1;
    if (mesh->stage.size == 1) return;
    options.count =
        model_rows(p->models[0], p->options.model.samples_max).count * p->options.model.shape.width;
    options.dtype = REAL_DTYPE;
    options.forward = forward;
    options.backward = backward;
    options.context = p;
    expect(tutti_schedule_create(p->parallel.schedule, &shape, &schedule), "making a schedule");
    for (size_t c = 0; c < p->parallel.chunks; c++)
        p->chunks[c].saved_count = on_their_way(schedule, (int)mesh->stage.index, (int)c);
    if (p->parallel.is_unconnected) {
        p->unconnected.schedule = schedule;
        return;
    }
    expect(tutti_pipeline_create(schedule, &options, mesh->stage.comm, &p->pipeline),
           "making a pipeline");
    tutti_schedule_free(schedule);
}

static void run_passes(struct parallel *p)
{
    p->loss = 0;
    if (p->parallel.is_unconnected) {
        unconnected_run(&p->unconnected, p->micro_batches, forward, backward, p);
        return;
    }
    if (p->pipeline != NULL) {
        timeline_begin(&p->timeline, WAITING_STAGES, 0);
        expect(tutti_pipeline_run(p->pipeline), "running the pipeline");
        timeline_end(&p->timeline);
        volumes_note(&p->volumes, VOLUME_PIPELINE);
        return;
    }
    for (int micro = 0; micro < (int)p->micro_batches; micro++) {
        (void)!forward(p, 0, micro, NULL, NULL);
        (void)!backward(p, 0, micro, NULL, NULL);
    }
}

/* ------------------------------------------------------------------------------------ gradients */

/* This rank's shard of a group gets the sum of what the ranks have there. */
static void sum_shard(struct parallel *p, size_t chunk, int group, struct tutti_comm *comm,
                      enum doing waits)
{
    const size_t index = p->holder.chunks[chunk].first_group + (size_t)group;
    struct tutti_shard own;
    expect(tutti_shards_own(p->holder.shards, index, &own), "finding gradients");
    if (own.count == 0) return;
    timeline_begin(&p->timeline, waits, 0);
    expect(tutti_allreduce(own.gradients, own.gradients, own.count, p->holder.gradient_dtype,
                           TUTTI_SUM, comm),
           "adding up gradients");
    timeline_end(&p->timeline);
}

/* What other ranks than replicas have summands of: each end of the pipeline has some of a tied
 * embedding's gradient, and each slice has some of the gains' where it has its own rows. */
static void sum_summands(struct parallel *p)
{
    const size_t chunks = p->parallel.chunks, end = p->mesh.stage.index == 0 ? 0 : chunks - 1;
    if (p->options.model.shape.tied && p->mesh.ends != NULL)
        sum_shard(p, end, p->models[end]->parameters.embedding_group, p->mesh.ends, WAITING_STAGES);
    volumes_note(&p->volumes, VOLUME_TIED);
    if (p->parallel.rows_split && p->mesh.slice.size > 1)
        for (size_t c = 0; c < chunks; c++)
            sum_shard(p, c, GROUP_GAINS, p->mesh.slice.comm, WAITING_SLICES);
    volumes_note(&p->volumes, VOLUME_GAINS);
}

/* Whether another rank, of another slice or stage, has the same gradients and counts them. */
static bool is_counted_elsewhere(const struct parallel *p, size_t chunk, int group)
{
    if (group == GROUP_GAINS) return p->mesh.slice.index > 0;
    return p->options.model.shape.tied && p->mesh.stage.index > 0 &&
           group == p->models[chunk]->parameters.embedding_group;
}

/* The sum of squares of all gradients of the whole model. */
static double square_gradients(struct parallel *p)
{
    const double scale = tutti_shards_loss_scale(p->holder.shards);
    const double *square = p->squares;
    double sum = 0;
    volumes_note(&p->volumes, VOLUME_PARAMETERS);
    expect(tutti_shards_squares(p->holder.shards, p->squares), "finding the gradients' length");
    volumes_note(&p->volumes, VOLUME_SQUARES);
    for (size_t c = 0; c < p->parallel.chunks; c++)
        for (size_t g = 0; g < p->models[c]->parameters.group_count; g++, square++)
            if (!is_counted_elsewhere(p, c, (int)g)) sum += *square;
    sum /= scale * scale;
    if (p->parallel.is_unconnected) return sum;
    timeline_begin(&p->timeline, WAITING_SLICES, 0);
    sum = axis_sum(&p->mesh.slice, sum);
    timeline_end(&p->timeline);
    volumes_note(&p->volumes, VOLUME_SLICE_LENGTH);
    timeline_begin(&p->timeline, WAITING_STAGES, 0);
    sum = axis_sum(&p->mesh.stage, sum);
    timeline_end(&p->timeline);
    volumes_note(&p->volumes, VOLUME_STAGE_LENGTH);
    return sum;
}

/* The sums of all ranks, unless nothing is known of others. */
static void report_all(struct parallel *p, const struct timeline *before, struct step_report *report)
{
    static const enum doing waits[WAITS] = {WAITING_STAGES, WAITING_REPLICAS, WAITING_SLICES};
    double sums[REPORTED];
    double ranks = (double)tutti_comm_size(p->mesh.world);
    for (size_t i = 0; i < WAITS; i++)
        sums[i] = 1e-9 * (double)(p->timeline.waited_ns[waits[i]] - before->waited_ns[waits[i]]);
    sums[WAITS] = p->mesh.slice.index == 0 ? p->loss : 0;
    sums[WAITS + 1] = 1e-9 * (double)(timeline_now_ns() - p->timeline.open[0].begin_ns);
    if (p->parallel.is_unconnected) {
        ranks = 1;
    } else {
        timeline_begin(&p->timeline, WAITING_ALL, 0);
        mesh_sum_all(&p->mesh, sums, REPORTED);
        timeline_end(&p->timeline);
        volumes_note(&p->volumes, VOLUME_REPORT);
    }
    for (size_t i = 0; i < WAITS; i++) report->waited_s[i] = sums[i] / ranks;
    report->loss = sums[WAITS] / tokens_of_step(p);
    report->step_s = sums[WAITS + 1] / ranks;
}

static void begin_step(struct parallel *p, uint64_t step)
{
    const size_t steps = p->options.schedule.steps, kept = p->parallel.profile_steps;
    p->step = step;
    if (step + kept >= steps && !p->profile.keeps) profile_begin(&p->profile);
    volumes_begin_step(&p->volumes);
    timeline_begin(&p->timeline, DOING_STEP, (size_t)step);
}

static void update_parameters(struct parallel *p, const struct tutti_shards_step_options *options)
{
    timeline_begin(&p->timeline, DOING_OPTIMIZER, 0);
    expect(tutti_shards_step(p->holder.shards, options, NULL), "updating parameters");
    timeline_end(&p->timeline);
}

/* A step whose gradients are not finite changes no parameter. */
static bool may_skip(const struct parallel *p)
{
    return p->parallel.loss_scale > 0 || p->parallel.compression.is_wanted;
}

struct step_report parallel_step(struct parallel *p, uint64_t step)
{
    struct tutti_shards_step_options options = TUTTI_SHARDS_STEP_INIT;
    const struct timeline before = p->timeline;
    struct step_report report;
    begin_step(p, step);
    run_passes(p);
    timeline_begin(&p->timeline, WAITING_REPLICAS, 0);
    const bool is_finite =
        !p->parallel.compression.is_wanted || compression_finish(&p->compression, p->holder.shards);
    expect(tutti_shards_finish(p->holder.shards), "reducing gradients");
    timeline_end(&p->timeline);
    if (!p->parallel.is_unconnected) sum_summands(p);
    const double squares = square_gradients(p);
    report.gradient_length = sqrt(squares);
    report.rate = options.rate = schedule_rate(&p->options.schedule, step);
    if (may_skip(p)) /* all ranks know the sum of all squares */
        options.overflow = is_finite && isfinite(squares) ? TUTTI_SHARDS_OVERFLOW_NONE
                                                          : TUTTI_SHARDS_OVERFLOW_FOUND;
    report.is_skipped = options.overflow == TUTTI_SHARDS_OVERFLOW_FOUND;
    if (report.is_skipped)
        volumes_skip_step(&p->volumes);
    else
        options.factor = (double)clip_factor(squares, p->options.clip);
    update_parameters(p, &options);
    report_all(p, &before, &report);
    timeline_end(&p->timeline);
    profile_read(&p->profile);
    return report;
}

/* ----------------------------------------------------------------------------------- life cycle */

/* Compressed gradients are float, of one scale, and those of the whole model. */
static const char *compression_mistake(const struct parallel_options *parallel)
{
    const struct mesh_sizes *mesh = &parallel->mesh;
    if (!parallel->compression.is_wanted)
        return parallel->compression.compressor.feedback == 0 ? "--no-feedback is for --compress"
                                                              : NULL;
    if (sizeof(real) > sizeof(float)) return "--compress is for gpt, which computes in float";
    if (mesh->stages > 1 || mesh->slices > 1)
        return "--compress is for replicas alone: a mesh of dp";
    if (parallel->zero > 0)
        return "--compress leaves every replica with all averages, so it goes with --zero 0";
    if (parallel->weights == WEIGHTS_BFLOAT16 && !parallel->wide_gradients)
        return "--compress takes float gradients: add --wide-gradients to --dtype bf16";
    if (parallel->loss_scale > 0)
        return "--compress keeps residuals from step to step, so it goes without --loss-scale";
    if (parallel->is_unconnected) return "without communication there is nothing to compress";
    return NULL;
}

const char *parallel_mistake(const struct trainer_options *options,
                             const struct parallel_options *parallel, size_t ranks)
{
    const struct mesh_sizes *mesh = &parallel->mesh;
    const struct shape *shape = &options->model.shape;
    if (mesh->stages * mesh->replicas * mesh->slices != ranks)
        return "the mesh has to have as many ranks as there are";
    const size_t chunks = parallel->chunks > 0 ? parallel->chunks : 1;
    if (mesh->stages * chunks > shape->layers) return "every stage has to have a layer";
    if (chunks > 1 && mesh->stages == 1) return "chunks are for a pipeline: pp=2 or more";
    if (parallel->is_unconnected && (chunks > 1 || parallel->weights == WEIGHTS_BFLOAT16))
        return "communication can be left out with one chunk and float alone";
    if (parallel->weights == WEIGHTS_BFLOAT16 && sizeof(real) > sizeof(float))
        return "bf16 is for gpt, which computes in float";
    if (mesh->slices > shape->heads) return "every slice has to have a head";
    if (mesh->slices > shape->hidden) return "every slice has to have a column of the MLP";
    if (parallel->gathers_again && (!parallel->rows_split || options->model.recompute))
        return "rows are gathered again with --split-rows, and without --recompute, which does so "
               "anyway";
    if (options->batch % (mesh->replicas * options->model.samples_max) != 0)
        return "the batch has to be a multiple of the replicas' micro-batches together";
    if (strcmp(parallel->schedule, "interleaved") == 0 &&
        options->batch / (mesh->replicas * options->model.samples_max) % mesh->stages != 0)
        return "interleaved passes need a multiple of the stages as micro-batches";
    return compression_mistake(parallel);
}

static void make_model(struct parallel *p, size_t chunk)
{
    struct model_options model = p->options.model;
    model.part = mesh_part(&p->mesh, &model.shape, chunk, p->parallel.chunks);
    model.part.rows_split = p->parallel.rows_split;
    model.gather_again = p->parallel.gathers_again;
    model.exchange = p->parallel.is_unconnected ? &exchange_alone : &p->exchange.exchange;
    model.holder = p->parallel.is_unconnected ? NULL : &p->holder.chunks[chunk].holder;
    model.timeline = &p->timeline;
    p->models[chunk] = model_create(&model);
}

/* How many elements of a group this rank adds up with others; 0: there is no such group. */
static size_t own_count(const struct parallel *p, size_t chunk, int group)
{
    struct tutti_shard own;
    if (group == GROUP_NONE) return 0;
    expect(tutti_shards_own(p->holder.shards, p->holder.chunks[chunk].first_group + (size_t)group,
                            &own),
           "finding gradients");
    return own.count;
}

/* What one of the models adds. */
static void count_chunk(const struct parallel *p, size_t chunk, struct volumes_setting *setting)
{
    const struct parameters *parameters = &p->models[chunk]->parameters;
    const struct model_options *model = &p->models[chunk]->options;
    setting->layers += model->part.layers.count;
    setting->has_embedding = setting->has_embedding || part_has_embedding(&model->part);
    setting->has_head = setting->has_head || part_has_head(&model->shape, &model->part);
    setting->own_gains += own_count(p, chunk, GROUP_GAINS);
    for (size_t t = 0; t < parameters->tensor_count; t++)
        setting->parameters += tensor_elements(&parameters->tensors[t]);
    for (size_t g = 0; g < parameters->group_count; g++)
        setting->blocks +=
            (parameters->groups[g].elements + TUTTI_SHARDS_BLOCK - 1) / TUTTI_SHARDS_BLOCK;
    if (model->shape.tied && p->mesh.ends != NULL)
        setting->own_tied += own_count(p, chunk, parameters->embedding_group);
}

static void count_volumes(struct parallel *p)
{
    const struct model_options *model = &p->models[0]->options;
    struct volumes_setting setting = {.zero = p->parallel.zero,
                                      .micro_batches = p->micro_batches,
                                      .rows_split = p->parallel.rows_split,
                                      .gathers_again = p->parallel.gathers_again,
                                      .recomputes = model->recompute,
                                      .compresses = p->parallel.compression.is_wanted,
                                      .part = model->part,
                                      .shape = model->shape,
                                      .rows = model->samples_max * model->shape.context,
                                      .chunks = p->parallel.chunks,
                                      .parameter_bytes = tutti_dtype_size(p->holder.dtype),
                                      .gradient_bytes = tutti_dtype_size(p->holder.gradient_dtype),
                                      .report_count = REPORTED};
    for (size_t c = 0; c < p->parallel.chunks; c++) count_chunk(p, c, &setting);
    volumes_init(&p->volumes, &p->mesh, &setting);
}

static void make_saved(struct chunk *chunk, const struct model *model)
{
    chunk->saved = allocate(chunk->saved_count, sizeof(struct saved *));
    for (size_t i = 0; i < chunk->saved_count; i++) chunk->saved[i] = saved_create(model);
}

struct parallel *parallel_create(const struct trainer_options *options,
                                 const struct parallel_options *parallel, const struct data *data,
                                 struct tutti_comm *world)
{
    const size_t samples = options->model.samples_max;
    const size_t rows = samples * options->model.shape.context;
    struct parallel *p = allocate(1, sizeof *p);
    p->options = *options;
    p->parallel = *parallel;
    if (p->parallel.chunks == 0) p->parallel.chunks = 1;
    p->data = data;
    p->micro_batches = options->batch / (parallel->mesh.replicas * samples);
    mesh_open(&p->mesh, &parallel->mesh, world);
    exchange_ranks_init(&p->exchange, &p->mesh.slice, parallel->rows_split);
    p->exchange.timeline = &p->timeline;
    p->exchange.volumes = &p->volumes;
    const size_t chunks = p->parallel.chunks;
    shards_holder_init(&p->holder, chunks);
    p->holder.timeline = &p->timeline;
    p->holder.profile = &p->profile;
    p->holder.reduces_late = parallel->reduces_late;
    p->models = allocate(chunks, sizeof(struct model *));
    p->chunks = allocate(chunks, sizeof *p->chunks);
    for (size_t c = 0; c < chunks; c++) make_model(p, c);
    make_shards(p);
    make_pipeline(p);
    for (size_t c = 0; c < chunks; c++) make_saved(&p->chunks[c], p->models[c]);
    p->inputs = allocate(rows, sizeof *p->inputs);
    p->targets = allocate(rows, sizeof *p->targets);
    p->numbers = allocate(samples, sizeof *p->numbers);
    p->squares = allocate(p->holder.group_count, sizeof *p->squares);
    profile_init(&p->profile, &p->mesh, &p->timeline, parallel->profile);
    count_volumes(p);
    return p;
}

void parallel_free(struct parallel *p)
{
    tutti_pipeline_free(p->pipeline);
    if (p->parallel.is_unconnected) {
        unconnected_release(&p->unconnected);
        p->holder.shards = NULL;
    }
    shards_holder_close(&p->holder);
    if (p->parallel.compression.is_wanted) compression_close(&p->compression);
    profile_release(&p->profile);
    timeline_release(&p->timeline);
    for (size_t c = 0; c < p->parallel.chunks; c++) {
        for (size_t i = 0; i < p->chunks[c].saved_count; i++) saved_free(p->chunks[c].saved[i]);
        free(p->chunks[c].saved);
        model_free(p->models[c]);
    }
    free(p->chunks);
    free(p->models);
    exchange_ranks_release(&p->exchange);
    mesh_close(&p->mesh);
    free(p->inputs);
    free(p->targets);
    free(p->numbers);
    free(p->squares);
    free(p);
}

const struct trainer_options *parallel_options(const struct parallel *p)
{
    return &p->options;
}

const struct data *parallel_data(const struct parallel *p)
{
    return p->data;
}

size_t parallel_chunk_count(const struct parallel *p)
{
    return p->holder.chunk_count;
}

const struct parameters *parallel_parameters(const struct parallel *p, size_t chunk)
{
    return &p->models[chunk]->parameters;
}

size_t parallel_first_group(const struct parallel *p, size_t chunk)
{
    return p->holder.chunks[chunk].first_group;
}

struct tutti_shards *parallel_shards(const struct parallel *p)
{
    return p->holder.shards;
}

bool parallel_has_loss_scale(const struct parallel *p)
{
    return p->parallel.loss_scale > 0;
}

struct tutti_compressor *parallel_compressor(const struct parallel *p)
{
    return p->compression.compressor;
}

/* ----------------------------------------------------------------------------- what comes of it */

/* Gives up unless all ranks of the communicator have these values, bit for bit. */
static void expect_copies(struct tutti_comm *comm, const real *values, size_t count)
{
    uint64_t hash = 1;
    const unsigned char *bytes = (const unsigned char *)values;
    for (size_t i = 0; i < count * sizeof *values; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    const int64_t own = (int64_t)(hash >> 2), both[2] = {own, -own};
    int64_t least[2];
    expect(tutti_allreduce(both, least, 2, TUTTI_INT64, TUTTI_MIN, comm), "comparing weights");
    if (least[0] != own || least[1] != -own) give_up("weights", "copies of them differ");
}

static size_t group_of(const struct parameters *parameters, const struct tensor *tensor)
{
    const size_t index = (size_t)(tensor - parameters->tensors);
    size_t g = 0;
    while (index - parameters->groups[g].first_tensor >= parameters->groups[g].tensor_count) g++;
    return g;
}

/* This rank's slice of a tensor, into its place in the whole one, unless another rank gives
 * that. */
static void place_slice(const struct parallel *p, size_t chunk, const struct tensor *tensor,
                        real *whole)
{
    const struct parameters *parameters = &p->models[chunk]->parameters;
    const struct holder *holder = &p->holder.chunks[chunk].holder;
    const size_t g = group_of(parameters, tensor);
    const real *value = holder->acquire(HOLDER_FORWARD, g, holder->context);
    value += tensor->offset - parameters->groups[g].offset;
    expect_copies(p->mesh.replica.comm, value, tensor_elements(tensor));
    if (tensor->split == SPLIT_NOT)
        expect_copies(p->mesh.slice.comm, value, tensor_elements(tensor));
    if (tensor->kind == TENSOR_EMBEDDING && p->options.model.shape.tied && p->mesh.ends != NULL)
        expect_copies(p->mesh.ends, value, tensor_elements(tensor));
    const bool is_given = p->mesh.replica.index == 0 && !is_counted_elsewhere(p, chunk, (int)g);
    for (size_t r = 0; is_given && r < tensor->rows.count; r++)
        memcpy(whole + (tensor->rows.first + r) * tensor->whole_columns + tensor->columns.first,
               value + r * tensor->columns.count, tensor->columns.count * sizeof *value);
    holder->release(g, holder->context);
}

void parallel_collect(struct parallel *p, struct model *whole)
{
    const struct shape *shape = &p->options.model.shape;
    const struct part part = part_whole(shape);
    struct parameters all;
    parameters_init(&all, shape, &part);
    for (size_t t = 0; t < all.tensor_count; t++) {
        const struct tensor *tensor = &all.tensors[t];
        const size_t count = tensor_elements(tensor);
        real *values = allocate(count, sizeof *values);
        for (size_t c = 0; c < p->parallel.chunks; c++) {
            const struct tensor *own =
                parameters_find(&p->models[c]->parameters, tensor->kind, tensor->layer);
            if (own != NULL) place_slice(p, c, own, values);
        }
        expect(tutti_reduce(values, values, count, REAL_DTYPE, TUTTI_SUM, 0, p->mesh.world),
               "collecting weights");
        if (whole != NULL) memcpy(whole->weights + tensor->offset, values, count * sizeof *values);
        free(values);
    }
    parameters_release(&all);
}

/* Operations that have not begun are not counted yet. After this, those of steps so far all are. */
static void settle(struct parallel *p)
{
    if (p->parallel.zero == 0 || p->parallel.zero == 3) return;
    for (size_t c = 0; c < p->parallel.chunks; c++) {
        const struct holder *holder = &p->holder.chunks[c].holder;
        for (size_t g = 0; g < p->models[c]->parameters.group_count; g++) {
            (void)holder->acquire(HOLDER_FORWARD, g, holder->context);
            holder->release(g, holder->context);
        }
    }
    volumes_note(&p->volumes, VOLUME_PARAMETERS);
}

void parallel_describe(struct parallel *p, FILE *file)
{
    struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
    const double mib = 1 << 20;
    expect(tutti_shards_count(p->holder.shards, &counters), "asking the shards");
    if (file != NULL)
        fprintf(file,
                "shards         %.1f MiB of parameters, %.1f of gradients, %.1f of %s; up to %.1f "
                "for groups in use\n",
                (double)counters.parameter_bytes / mib, (double)counters.gradient_bytes / mib,
                (double)counters.state_bytes / mib,
                counters.master_bytes > 0 ? "moments and masters" : "moments",
                (double)counters.buffer_bytes / mib);
    if (p->parallel.is_unconnected) return;
    if (p->parallel.compression.is_wanted && file != NULL)
        compression_describe(&p->compression, file);
    settle(p);
    (void)volumes_print(&p->volumes, file);
}

void parallel_write_profile(struct parallel *p)
{
    profile_write(&p->profile);
}
