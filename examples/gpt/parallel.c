#include "parallel.h"

#include "exchange_ranks.h"
#include "tutti/train/pipeline.h"
#include "tutti/train/shards.h"

struct parallel {
    struct trainer_options options;
    struct parallel_options parallel;
    const struct data *data; /* borrowed */
    struct mesh mesh;
    struct exchange_ranks exchange;
    struct holder holder;
    struct tutti_shards *shards;
    struct tutti_pipeline *pipeline; /* NULL: one stage */
    struct model *model;
    struct saved **saved; /* of the micro-batches that are on their way */
    size_t saved_count, micro_batches;
    uint32_t *inputs, *targets; /* of a micro-batch */
    uint64_t *numbers;
    double *squares; /* [groups] */
    uint64_t step;   /* that goes on */
    double loss;     /* the sum over its tokens, where the head is */
};

/* --------------------------------------------------------------------------------------- the shards as holder */

static real *acquire(enum holder_pass pass, size_t group, void *context)
{
    const struct parallel *p = context;
    void *weights;
    expect(tutti_shards_acquire(p->shards,
                                pass == HOLDER_FORWARD ? TUTTI_PASS_FORWARD : TUTTI_PASS_BACKWARD,
                                group, &weights),
           "getting parameters");
    return weights;
}

static void release(size_t group, void *context)
{
    const struct parallel *p = context;
    expect(tutti_shards_release(p->shards, group), "giving parameters back");
}

static real *gradient(size_t group, void *context)
{
    const struct parallel *p = context;
    void *values;
    expect(tutti_shards_gradient(p->shards, group, &values), "getting memory for gradients");
    return values;
}

static void ready(size_t group, void *context)
{
    const struct parallel *p = context;
    expect(tutti_shards_ready(p->shards, group), "reducing gradients");
}

static void make_shards(struct parallel *p)
{
    const struct parameters *parameters = &p->model->parameters;
    const struct adamw *adamw = &p->options.adamw;
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    struct tutti_shard_group *groups = allocate(parameters->group_count, sizeof *groups);
    size_t most = 0;
    for (size_t g = 0; g < parameters->group_count; g++) {
        const struct group *group = &parameters->groups[g];
        groups[g].count = group->elements;
        groups[g].weight_decay = group->decays ? adamw->weight_decay : 0;
        if (group->elements > most) most = group->elements;
    }
    options.stage = (enum tutti_shards_stage)p->parallel.zero;
    options.dtype = REAL_DTYPE;
    options.micro_batches = (int)p->micro_batches;
    options.ahead = p->parallel.ahead;
    options.first_decay = adamw->first_decay;
    options.second_decay = adamw->second_decay;
    options.epsilon = adamw->epsilon;
    expect(tutti_shards_create(groups, parameters->group_count, &options, p->mesh.replica.comm,
                               &p->shards),
           "making shards");
    real *values = allocate(most, sizeof *values);
    for (size_t g = 0; g < parameters->group_count; g++) {
        parameters_randomise(parameters, &parameters->groups[g], &p->options.model.shape,
                             p->options.model.seed, values);
        expect(tutti_shards_set(p->shards, g, values), "setting first parameters");
    }
    free(values);
    free(groups);
}

/* ---------------------------------------------------------------------------------------------- micro-batches */

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

static enum tutti_status forward(void *context, int chunk, int micro, const void *input,
                                 void *output)
{
    struct parallel *p = context;
    const struct batch batch = read_batch(p, (size_t)micro);
    struct saved *saved = p->saved[(size_t)micro % p->saved_count];
    (void)chunk;
    p->loss += model_forward(p->model, &batch, saved, input, output);
    return TUTTI_OK;
}

static enum tutti_status backward(void *context, int chunk, int micro, const void *output_gradient,
                                  void *input_gradient)
{
    struct parallel *p = context;
    const struct batch batch = read_batch(p, (size_t)micro);
    struct saved *saved = p->saved[(size_t)micro % p->saved_count];
    (void)chunk;
    model_backward(p->model, &batch, saved, (real)(1 / tokens_of_step(p)), output_gradient,
                   input_gradient);
    return TUTTI_OK;
}

static void make_pipeline(struct parallel *p)
{
    const struct mesh *mesh = &p->mesh;
    const struct tutti_schedule_shape shape = {(int)mesh->stage.size, (int)p->micro_batches, 1};
    struct tutti_pipeline_options options = TUTTI_PIPELINE_OPTIONS_INIT;
    struct tutti_schedule *schedule;
    p->saved_count = 1;
    if (mesh->stage.size == 1) return;
    options.count =
        model_rows(p->model, p->options.model.samples_max).count * p->options.model.shape.width;
    options.dtype = REAL_DTYPE;
    options.forward = forward;
    options.backward = backward;
    options.context = p;
    expect(tutti_schedule_create(p->parallel.schedule, &shape, &schedule), "making a schedule");
    expect(tutti_pipeline_create(schedule, &options, mesh->stage.comm, &p->pipeline),
           "making a pipeline");
    p->saved_count = (size_t)tutti_schedule_in_flight(schedule, (int)mesh->stage.index);
    tutti_schedule_free(schedule);
}

static void run_passes(struct parallel *p)
{
    p->loss = 0;
    if (p->pipeline != NULL) {
        expect(tutti_pipeline_run(p->pipeline), "running the pipeline");
        return;
    }
    for (int micro = 0; micro < (int)p->micro_batches; micro++) {
        (void)!forward(p, 0, micro, NULL, NULL);
        (void)!backward(p, 0, micro, NULL, NULL);
    }
}

/* -------------------------------------------------------------------------------------------------- gradients */

/* This rank's shard of a group gets the sum of what the ranks have there. */
static void sum_shard(const struct parallel *p, int group, struct tutti_comm *comm)
{
    struct tutti_shard own;
    expect(tutti_shards_own(p->shards, (size_t)group, &own), "finding gradients");
    if (own.count == 0) return;
    expect(tutti_allreduce(own.gradients, own.gradients, own.count, REAL_DTYPE, TUTTI_SUM, comm),
           "adding up gradients");
}

/* What other ranks than replicas have summands of: each end of the pipeline has some of a tied embedding's gradient, and
 * each slice has some of the gains' where it has its own rows. */
static void sum_summands(const struct parallel *p)
{
    if (p->options.model.shape.tied && p->mesh.ends != NULL)
        sum_shard(p, p->model->parameters.embedding_group, p->mesh.ends);
    if (p->parallel.rows_split && p->mesh.slice.size > 1)
        sum_shard(p, GROUP_GAINS, p->mesh.slice.comm);
}

/* Whether another rank, of another slice or stage, has the same gradients and counts them. */
static bool is_counted_elsewhere(const struct parallel *p, int group)
{
    if (group == GROUP_GAINS) return p->mesh.slice.index > 0;
    return p->options.model.shape.tied && group == p->model->parameters.embedding_group &&
           p->mesh.stage.index > 0;
}

/* The sum of squares of all gradients of the whole model. */
static double square_gradients(const struct parallel *p)
{
    double sum = 0;
    expect(tutti_shards_squares(p->shards, p->squares), "finding the gradients' length");
    for (size_t g = 0; g < p->model->parameters.group_count; g++)
        if (!is_counted_elsewhere(p, (int)g)) sum += p->squares[g];
    return axis_sum(&p->mesh.stage, axis_sum(&p->mesh.slice, sum));
}

struct step_report parallel_step(struct parallel *p, uint64_t step)
{
    struct tutti_shards_step_options options = TUTTI_SHARDS_STEP_INIT;
    struct step_report report;
    p->step = step;
    run_passes(p);
    expect(tutti_shards_finish(p->shards), "reducing gradients");
    sum_summands(p);
    const double squares = square_gradients(p);
    report.gradient_length = sqrt(squares);
    report.rate = options.rate = schedule_rate(&p->options.schedule, step);
    options.factor = (double)clip_factor(squares, p->options.clip);
    expect(tutti_shards_step(p->shards, &options, NULL), "updating parameters");
    report.loss = mesh_sum(&p->mesh, p->mesh.slice.index == 0 ? p->loss : 0) / tokens_of_step(p);
    return report;
}

/* ------------------------------------------------------------------------------------------------- life cycle */

const char *parallel_mistake(const struct trainer_options *options,
                             const struct parallel_options *parallel, size_t ranks)
{
    const struct mesh_sizes *mesh = &parallel->mesh;
    const struct shape *shape = &options->model.shape;
    if (mesh->stages * mesh->replicas * mesh->slices != ranks)
        return "the mesh has to have as many ranks as there are";
    if (mesh->stages > shape->layers) return "every stage has to have a layer";
    if (mesh->slices > shape->heads) return "every slice has to have a head";
    if (mesh->slices > shape->hidden) return "every slice has to have a column of the MLP";
    if (options->batch % (mesh->replicas * options->model.samples_max) != 0)
        return "the batch has to be a multiple of the replicas' micro-batches together";
    return NULL;
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
    p->data = data;
    p->micro_batches = options->batch / (parallel->mesh.replicas * samples);
    mesh_open(&p->mesh, &parallel->mesh, world);
    exchange_ranks_init(&p->exchange, &p->mesh.slice, parallel->rows_split);
    p->holder = (struct holder){acquire, release, gradient, ready, p};

    struct model_options model = options->model;
    model.part = mesh_part(&p->mesh, &model.shape, parallel->rows_split);
    model.exchange = &p->exchange.exchange;
    model.holder = &p->holder;
    p->model = model_create(&model);
    make_shards(p);
    make_pipeline(p);
    p->saved = allocate(p->saved_count, sizeof(struct saved *));
    for (size_t i = 0; i < p->saved_count; i++) p->saved[i] = saved_create(p->model);
    p->inputs = allocate(rows, sizeof *p->inputs);
    p->targets = allocate(rows, sizeof *p->targets);
    p->numbers = allocate(samples, sizeof *p->numbers);
    p->squares = allocate(p->model->parameters.group_count, sizeof *p->squares);
    return p;
}

void parallel_free(struct parallel *p)
{
    tutti_pipeline_free(p->pipeline);
    tutti_shards_free(p->shards);
    for (size_t i = 0; i < p->saved_count; i++) saved_free(p->saved[i]);
    free(p->saved);
    model_free(p->model);
    exchange_ranks_release(&p->exchange);
    mesh_close(&p->mesh);
    free(p->inputs);
    free(p->targets);
    free(p->numbers);
    free(p->squares);
    free(p);
}

/* ------------------------------------------------------------------------------------------- what comes of it */

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

/* This rank's slice of a tensor, into its place in the whole one, unless another rank gives that. */
static void place_slice(const struct parallel *p, const struct tensor *tensor, real *whole)
{
    const struct parameters *parameters = &p->model->parameters;
    const size_t g = group_of(parameters, tensor);
    const real *value = acquire(HOLDER_FORWARD, g, (void *)p);
    value += tensor->offset - parameters->groups[g].offset;
    expect_copies(p->mesh.replica.comm, value, tensor_elements(tensor));
    if (tensor->split == SPLIT_NOT)
        expect_copies(p->mesh.slice.comm, value, tensor_elements(tensor));
    if (tensor->kind == TENSOR_EMBEDDING && p->options.model.shape.tied && p->mesh.ends != NULL)
        expect_copies(p->mesh.ends, value, tensor_elements(tensor));
    const bool is_given = p->mesh.replica.index == 0 && !is_counted_elsewhere(p, (int)g);
    for (size_t r = 0; is_given && r < tensor->rows.count; r++)
        memcpy(whole + (tensor->rows.first + r) * tensor->whole_columns + tensor->columns.first,
               value + r * tensor->columns.count, tensor->columns.count * sizeof *value);
    release(g, (void *)p);
}

void parallel_collect(struct parallel *p, struct model *whole)
{
    const struct shape *shape = &p->options.model.shape;
    const struct part part = part_whole(shape);
    struct parameters all;
    parameters_init(&all, shape, &part);
    for (size_t t = 0; t < all.tensor_count; t++) {
        const struct tensor *tensor = &all.tensors[t];
        const struct tensor *own =
            parameters_find(&p->model->parameters, tensor->kind, tensor->layer);
        const size_t count = tensor_elements(tensor);
        real *values = allocate(count, sizeof *values);
        if (own != NULL) place_slice(p, own, values);
        expect(tutti_reduce(values, values, count, REAL_DTYPE, TUTTI_SUM, 0, p->mesh.world),
               "collecting weights");
        if (whole != NULL) memcpy(whole->weights + tensor->offset, values, count * sizeof *values);
        free(values);
    }
    parameters_release(&all);
}

void parallel_describe(const struct parallel *p, size_t steps, FILE *file)
{
    struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
    const double mib = 1 << 20;
    expect(tutti_shards_count(p->shards, &counters), "asking the shards");
    fprintf(file,
            "shards         %.1f MiB of parameters, %.1f of gradients, %.1f of moments; up to %.1f "
            "for groups in use\n",
            (double)counters.parameter_bytes / mib, (double)counters.gradient_bytes / mib,
            (double)counters.state_bytes / mib, (double)counters.buffer_bytes / mib);
    if (steps == 0) return;
    const double n = (double)p->mesh.replica.size;
    const double elements =
        (2 * (double)counters.elements_allreduced + (double)counters.elements_reduce_scattered +
         (double)counters.elements_gathered);
    fprintf(file, "sent           %.2f MiB a step for them\n",
            elements * (n - 1) / n * sizeof(real) / (double)steps / mib);
}
