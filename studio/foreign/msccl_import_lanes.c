/* msccl_import_lanes.c - which lane of the plan each thread block of a GPU gets. */
#include <stdlib.h>

#include "studio/foreign/msccl_import_state.h"

/* Bounds steps times blocks of a GPU. */
static const uint64_t LANE_WORK_MAX = UINT64_C(1) << 24;

/* A GPU has more thread blocks than a plan has lanes: which blocks never work side by side? */
struct sharing {
    const struct msccl_importer *importer;
    int gpu, first_step, step_count;
    int *in_order; /* its steps, as the run met them */
    int *known;    /* [step][block]: steps of that block that are completed before the step */
    bool *is_in;   /* of each block: whether it is in the lane that is looked at */
};

static int *known_at(const struct sharing *sharing, int step)
{
    const int blocks = sharing->importer->algo->gpus[sharing->gpu].block_count;
    return sharing->known + (size_t)(step - sharing->first_step) * (size_t)blocks;
}

/* `other` is completed before `step`, and so is all that was completed before `other`. */
static void learn(const struct sharing *sharing, int step, int other)
{
    const struct msccl_importer *importer = sharing->importer;
    const struct msccl_gpu *gpu = &importer->algo->gpus[sharing->gpu];
    const struct msccl_block *block = msccl_import_block_at(importer, other);
    int *known = known_at(sharing, step), *of_other = known_at(sharing, other);
    for (int i = 0; i < gpu->block_count; i++)
        if (of_other[i] > known[i]) known[i] = of_other[i];
    int *own = &known[msccl_import_number_of_block(importer, block)];
    if (*own < other - block->first_step + 1) *own = other - block->first_step + 1;
}

/* Looks at the order of blocks and at dependencies alone, not at the order that messages make. */
static void learn_order(struct sharing *sharing)
{
    const struct msccl_importer *importer = sharing->importer;
    const struct msccl_algo *algo = importer->algo;
    int count = 0;
    for (int i = 0; i < importer->run_count; i++) {
        const int step = importer->run_order[i];
        const struct msccl_block *block = msccl_import_block_at(importer, step);
        if (block->gpu != sharing->gpu) continue;
        sharing->in_order[count++] = step;
        if (step > block->first_step) learn(sharing, step, step - 1);
        if (algo->steps[step].after_block >= 0)
            learn(sharing, step,
                  algo->blocks[algo->gpus[sharing->gpu].first_block + algo->steps[step].after_block]
                          .first_step +
                      algo->steps[step].after_step);
    }
}

/* Whether the blocks that are in never work side by side. */
static bool is_chain(const struct sharing *sharing)
{
    const struct msccl_importer *importer = sharing->importer;
    int before = -1;
    for (int i = 0; i < sharing->step_count; i++) {
        const int step = sharing->in_order[i];
        if (!sharing->is_in[msccl_import_number_of_block(importer,
                                                         msccl_import_block_at(importer, step))])
            continue;
        if (before >= 0) {
            const struct msccl_block *other = msccl_import_block_at(importer, before);
            if (known_at(sharing, step)[msccl_import_number_of_block(importer, other)] <=
                before - other->first_step)
                return false;
        }
        before = step;
    }
    return true;
}

/* The first lane that the block can come to; PLAN_LANES_MAX: none. */
static int find_lane(const struct sharing *sharing, int block)
{
    const struct msccl_importer *importer = sharing->importer;
    const struct msccl_gpu *gpu = &importer->algo->gpus[sharing->gpu];
    for (int lane = 0; lane < PLAN_LANES_MAX; lane++) {
        for (int i = 0; i < gpu->block_count; i++)
            sharing->is_in[i] =
                i == block || (i < block && importer->lane_of[gpu->first_block + i] == lane);
        if (is_chain(sharing)) return lane;
    }
    return PLAN_LANES_MAX;
}

static bool share_lanes_with(struct msccl_importer *importer, struct sharing *sharing)
{
    const struct msccl_gpu *gpu = &importer->algo->gpus[sharing->gpu];
    learn_order(sharing);
    for (int i = 0; i < gpu->block_count; i++) {
        const int lane = find_lane(sharing, i);
        if (lane == PLAN_LANES_MAX)
            return msccl_refuse(
                importer->report, MSCCL_NOT_EXPRESSIBLE, gpu->line, sharing->gpu, -1, -1,
                "%d thread blocks, more than %d of them side by side: the lanes of a plan",
                gpu->block_count, PLAN_LANES_MAX);
        importer->lane_of[gpu->first_block + i] = lane;
    }
    return true;
}

/* Each block has a lane of its own while there are enough. */
bool msccl_import_choose_lanes(struct msccl_importer *importer, int gpu)
{
    const struct msccl_gpu *of = &importer->algo->gpus[gpu];
    for (int i = 0; i < of->block_count; i++) importer->lane_of[of->first_block + i] = i;
    if (of->block_count <= PLAN_LANES_MAX) return true;
    struct sharing sharing = {.importer = importer,
                              .gpu = gpu,
                              .first_step = msccl_import_first_step_of(importer, gpu),
                              .step_count = msccl_import_step_count_of(importer, gpu)};
    const uint64_t room = (uint64_t)sharing.step_count * (uint64_t)of->block_count;
    if (room > LANE_WORK_MAX)
        return msccl_import_refuse_all(importer, MSCCL_NOT_EXPRESSIBLE, gpu,
                                       "too many steps and thread blocks");
    sharing.in_order = calloc((size_t)sharing.step_count + 1, sizeof(int));
    sharing.known = calloc((size_t)room + 1, sizeof(int));
    sharing.is_in = calloc((size_t)of->block_count, sizeof(bool));
    const bool is_shared = sharing.in_order && sharing.known && sharing.is_in
                               ? share_lanes_with(importer, &sharing)
                               : msccl_import_out_of_memory(importer);
    free(sharing.in_order);
    free(sharing.known);
    free(sharing.is_in);
    return is_shared;
}
