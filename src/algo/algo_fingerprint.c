#include "algo/algo_fingerprint.h"

#include "algo/levels.h"
#include "base/hash.h"
#include "base/status.h"
#include "plan/fingerprint.h"

/* ---------------------------------------------------------------------------------------- plans */

/* One rank's plan at a time. */
static enum tutti_status take_plan(const struct algorithm *algorithm,
                                   const struct algo_params *params, uint64_t *fingerprint,
                                   const char **message)
{
    struct algo_params separate = *params;
    separate.in_place = false;
    uint64_t of_plan = 0;
    for (int rank = 0; rank < params->rank_count; rank++) {
        struct rank_plan *plan;
        TRY(generate_rank_plan(algorithm->generate, &separate, rank, &plan, message));
        if (rank == 0) of_plan = fingerprint_begin(&plan->shape);
        of_plan = fingerprint_rank(of_plan, plan);
        plan_rank_free(plan);
    }
    *fingerprint = hash_take(*fingerprint, of_plan);
    return TUTTI_OK;
}

enum { SMALL_RANKS = 8 };

/* Hosts of 2, 3, 1 and 2 ranks, in racks of two, numbered so that neither lie side by side. */
static const int small_hosts[SMALL_RANKS] = {0, 1, 0, 1, 1, 3, 7, 3},
                 small_racks[SMALL_RANKS] = {0, 0, 0, 0, 0, 2, 2, 2},
                 small_order[SMALL_RANKS] = {3, 0, 6, 2, 7, 1, 5, 4};

static enum tutti_status take_small_plans(const struct algorithm *algorithm, unsigned radix,
                                          uint64_t *fingerprint, const char **message)
{
    static const int sizes[] = {2, 3, 4, 5, SMALL_RANKS}; /* bruck is circulant, but for 5 */
    static const struct algo_levels levels = {.level_count = 2,
                                              .group_of = {small_hosts, small_racks}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int size = sizes[i];
        if (!algo_supports_levels(algorithm, size)) continue;
        struct algo_params params = {.collective = algorithm->collective,
                                     .rank_count = size,
                                     .root =
                                         collective_is_rooted(algorithm->collective) ? size / 2 : 0,
                                     .radix = radix,
                                     .levels = algorithm->needs_levels ? &levels : NULL};
        TRY(take_plan(algorithm, &params, fingerprint, message));
        if (size < SMALL_RANKS) continue;
        params.order = small_order;
        TRY(take_plan(algorithm, &params, fingerprint, message));
    }
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- parameters */

/* As generators see them: the numbers of groups mean nothing. */
static enum tutti_status take_levels(const struct algo_params *params, uint64_t *fingerprint,
                                     const char **message)
{
    struct hierarchy hierarchy;
    *message = "out of memory while a plan was made";
    TRY(hierarchy_init(&hierarchy, params->levels, params->order, params->rank_count));
    for (int i = 0; i < params->rank_count; i++)
        *fingerprint = hash_take(*fingerprint, (uint32_t)hierarchy.order[i]);
    for (int level = 0; level <= hierarchy.top; level++)
        for (int unit = 0; unit < hierarchy.unit_count[level]; unit++)
            *fingerprint = hash_take(*fingerprint, (uint32_t)hierarchy.units[level][unit]);
    hierarchy_release(&hierarchy);
    return TUTTI_OK;
}

static enum tutti_status take_params(const struct algo_params *params, uint64_t *fingerprint,
                                     const char **message)
{
    *fingerprint =
        hash_take(*fingerprint, (uint64_t)params->collective << 32 | (uint32_t)params->rank_count);
    *fingerprint = hash_take(*fingerprint, (uint64_t)(uint32_t)params->root << 32 | params->radix);
    *fingerprint = hash_take(*fingerprint, params->order != NULL);
    for (int r = 0; params->order != NULL && r < params->rank_count; r++)
        *fingerprint = hash_take(*fingerprint, (uint32_t)params->order[r]);
    if (params->levels == NULL) return TUTTI_OK;
    *fingerprint = hash_take(*fingerprint, (uint32_t)params->levels->level_count);
    return take_levels(params, fingerprint, message);
}

enum tutti_status algo_fingerprint(const struct algorithm *algorithm,
                                   const struct algo_params *params, uint64_t *fingerprint,
                                   const char **message)
{
    uint64_t taken = 0;
    TRY(take_params(params, &taken, message));
    if (algorithm->plan != NULL) {
        *fingerprint = hash_take(taken, algorithm->plan_fingerprint);
        return TUTTI_OK;
    }
    if (params->rank_count <= ALGO_FINGERPRINT_RANKS)
        TRY(take_plan(algorithm, params, &taken, message));
    else
        TRY(take_small_plans(algorithm, params->radix, &taken, message));
    *fingerprint = taken;
    return TUTTI_OK;
}
