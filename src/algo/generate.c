#include "algo/generate.h"

static void write_steps(algo_generate *generate, const struct algo_params *params, int rank,
                        struct plan_builder *b)
{
    if (plan_builder_error(b) != NULL) return; /* the rank or the root is out of range */
    if (params->rank_count > 1) {
        generate(params, rank, b);
        return;
    }
    plan_lane(b); /* one rank has its result at hand */
    if (params->collective != COLLECTIVE_BARRIER) plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 1);
}

enum tutti_status generate_rank_plan(algo_generate *generate, const struct algo_params *params,
                                     int rank, struct rank_plan **rank_plan, const char **message)
{
    *rank_plan = NULL;
    *message = "out of memory while a plan was made";
    struct plan_builder *builder =
        plan_builder_create(params->collective, params->rank_count, params->root, rank);
    if (builder == NULL) return TUTTI_NO_MEMORY;
    write_steps(generate, params, rank, builder);
    const enum tutti_status status = plan_builder_finish(builder, rank_plan, message);
    plan_builder_free(builder);
    return status;
}
