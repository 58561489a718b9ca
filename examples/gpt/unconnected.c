#include "unconnected.h"

void unconnected_init(struct unconnected *unconnected, const struct mesh *mesh, struct model *model,
                      const struct tutti_shard_group *groups, size_t count,
                      const struct tutti_shards_options *options)
{
    struct tutti_shard_group *shares = allocate(count, sizeof *shares);
    struct tutti_shards_options own = *options;
    const size_t rows = model_rows(model, model->options.samples_max).count;
    *unconnected = (struct unconnected){.model = model,
                                        .stage = (int)mesh->stage.index,
                                        .clears_each = options->stage >= TUTTI_SHARDS_GRADIENTS};
    expect(tutti_comm_split(mesh->world, tutti_comm_rank(mesh->world), 0, NULL, &unconnected->alone),
           "making a communicator of one rank");
    for (size_t g = 0; g < count; g++) {
        shares[g] = groups[g];
        if (options->stage != TUTTI_SHARDS_NONE)
            shares[g].count =
                range_share(groups[g].count, mesh->replica.index, mesh->replica.size).count;
    }
    own.stage = TUTTI_SHARDS_NONE;
    own.micro_batches = 1;
    expect(tutti_shards_create(shares, count, &own, unconnected->alone, &unconnected->shards),
           "making shards");
    free(shares);
    unconnected->input = allocate(rows * model->options.shape.width, sizeof(real));
    unconnected->output = allocate(rows * model->options.shape.width, sizeof(real));
}

void unconnected_release(struct unconnected *unconnected)
{
    tutti_schedule_free(unconnected->schedule);
    tutti_shards_free(unconnected->shards);
    tutti_comm_free(unconnected->alone);
    free(unconnected->input);
    free(unconnected->output);
}

static void clear_gradients(struct unconnected *unconnected)
{
    struct model *model = unconnected->model;
    memset(model->gradients, 0, model->parameters.elements * sizeof *model->gradients);
}

/* The optimizer's work does not depend on what gradients are. */
static void hand_over(struct unconnected *unconnected)
{
    void *gradient;
    for (size_t g = 0; g < unconnected->model->parameters.group_count; g++) {
        expect(tutti_shards_gradient(unconnected->shards, g, &gradient), "getting gradients");
        expect(tutti_shards_ready(unconnected->shards, g), "handing over gradients");
    }
}

static void do_pass(struct unconnected *unconnected, enum tutti_pass pass, int micro,
                    tutti_pipeline_forward *forward, tutti_pipeline_backward *backward,
                    void *context)
{
    real *input = unconnected->input, *output = unconnected->output;
    if (pass == TUTTI_PASS_BACKWARD && unconnected->clears_each) clear_gradients(unconnected);
    expect(pass == TUTTI_PASS_FORWARD ? forward(context, 0, micro, input, output)
                                      : backward(context, 0, micro, output, input),
           "computing a pass");
}

void unconnected_run(struct unconnected *unconnected, size_t micro_batches,
                     tutti_pipeline_forward *forward, tutti_pipeline_backward *backward,
                     void *context)
{
    const struct tutti_schedule_action *actions = NULL;
    size_t count = 0;
    if (!unconnected->clears_each) clear_gradients(unconnected);
    if (unconnected->schedule != NULL)
        actions = tutti_schedule_actions(unconnected->schedule, unconnected->stage, &count);
    for (size_t i = 0; i < count; i++)
        do_pass(unconnected, actions[i].pass, actions[i].micro_batch, forward, backward, context);
    for (int micro = 0; actions == NULL && micro < (int)micro_batches; micro++) {
        do_pass(unconnected, TUTTI_PASS_FORWARD, micro, forward, backward, context);
        do_pass(unconnected, TUTTI_PASS_BACKWARD, micro, forward, backward, context);
    }
    hand_over(unconnected);
}
