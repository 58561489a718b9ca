#include "comm/plans.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "algo/loaded.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/stored_plan.h"
#include "health/failure.h"

struct own_algorithm {
    struct algorithm *algorithm;
    struct own_algorithm *next;
};

struct own_plans {
    enum tutti_status status; /* of reading them */
    char *why;                /* or NULL */
    uint32_t fingerprint;
    _Atomic(struct own_algorithm *) own; /* registered: the latest first */
    int of_rules_count;
    struct stored_plan *of_rules[]; /* in the order of rules_file */
};

/* -------------------------------------------------------------------------------------------------- reading */

static uint32_t fold(uint64_t fingerprint)
{
    const uint32_t folded = (uint32_t)(fingerprint ^ fingerprint >> 32);
    return folded > PLANS_FAILED ? folded : folded + PLANS_FAILED + 1;
}

static enum tutti_status read_rule(const struct rules *rules, int index, struct own_plans *plans)
{
    enum collective collective;
    const char *path;
    rules_file(rules, index, &collective, &path);
    TRY(stored_plan_find(path, &plans->of_rules[index]));
    const struct algorithm *const algorithm = stored_plan_algorithm(plans->of_rules[index]);
    if (algorithm->collective == collective) return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM,
                     "%.200s: a rule for %s names it, and it is a plan for %s", path,
                     collective_name(collective), collective_name(algorithm->collective));
}

static enum tutti_status read_all(const struct rules *rules, struct own_plans *plans)
{
    uint64_t hash = 0x706c616e73u;
    for (int i = 0; i < plans->of_rules_count; i++) {
        TRY(read_rule(rules, i, plans));
        hash = hash_take(hash, stored_plan_algorithm(plans->of_rules[i])->plan_fingerprint);
    }
    plans->fingerprint = plans->of_rules_count > 0 ? fold(hash) : PLANS_NONE;
    return TUTTI_OK;
}

enum tutti_status plans_read(struct tutti_comm *comm, bool is_derived)
{
    const struct rules *const rules = comm->team.settings.rules;
    const int count = rules_file_count(rules);
    struct own_plans *const plans =
        calloc(1, sizeof *plans + (size_t)count * sizeof *plans->of_rules);
    if (plans == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    comm->plans = plans;
    plans->of_rules_count = count;
    plans->status = read_all(rules, plans);
    if (plans->status == TUTTI_OK) return TUTTI_OK;
    plans->fingerprint = PLANS_FAILED;
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    plans->why = strdup(why);
    return is_derived || comm->team.size == 1 ? plans->status : TUTTI_OK;
}

uint32_t plans_fingerprint(const struct tutti_comm *comm)
{
    return comm->plans != NULL ? comm->plans->fingerprint : PLANS_NONE;
}

enum tutti_status plans_refuse(const struct tutti_comm *comm, int rank)
{
    if (rank == comm->team.rank)
        return error_set(comm->plans->status, "%s",
                         comm->plans->why != NULL ? comm->plans->why : "out of memory");
    return error_set(TUTTI_MISMATCH,
                     "rank %d cannot use the plans that its rules or options name; its own error "
                     "says why",
                     rank);
}

void plans_free(struct tutti_comm *comm)
{
    struct own_plans *const plans = comm->plans;
    if (plans == NULL) return;
    for (struct own_algorithm *own = atomic_load(&plans->own), *next; own != NULL; own = next) {
        next = own->next;
        loaded_free(own->algorithm);
        free(own);
    }
    free(plans->why);
    free(plans);
    comm->plans = NULL;
}

/* --------------------------------------------------------------------------------------------------- proving */

enum tutti_status plans_prove(struct tutti_comm *comm)
{
    struct own_plans *const plans = comm->plans;
    for (int i = 0; plans != NULL && i < plans->of_rules_count; i++) {
        const struct algorithm *const algorithm = stored_plan_algorithm(plans->of_rules[i]);
        if (algorithm->plan->shape.rank_count != comm->team.size) {
            if (comm->team.rank == 0)
                log_write(LOG_INFO, "%s is not used: it is for %d ranks, and there are %d",
                          algorithm->name, algorithm->plan->shape.rank_count, comm->team.size);
            continue;
        }
        TRY(stored_plan_prove(plans->of_rules[i]));
        rules_set_file(comm->team.settings.rules, i, algorithm);
    }
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------------- files of calls */

static const char file_prefix[] = "file:";

bool plans_names_file(const char *algorithm)
{
    return strncmp(algorithm, file_prefix, sizeof file_prefix - 1) == 0;
}

static enum tutti_status find_file(const struct tutti_comm *comm, struct call *call,
                                   const char *path)
{
    struct stored_plan *stored;
    TRY(stored_plan_find(path, &stored));
    const struct algorithm *const algorithm = stored_plan_algorithm(stored);
    if (algorithm->collective != call->what.collective)
        return error_set(TUTTI_INVALID_ALGORITHM, "%.200s is a plan for %s", path,
                         collective_name(algorithm->collective));
    if (algorithm->plan->shape.rank_count != comm->team.size)
        return error_set(TUTTI_INVALID_ALGORITHM, "%.200s is a plan for %d ranks, and there are %d",
                         path, algorithm->plan->shape.rank_count, comm->team.size);
    TRY(stored_plan_prove(stored));
    call->algorithm = algorithm;
    call->radix = 0;
    return comm_program_check(comm, call);
}

enum tutti_status plans_find_file(struct tutti_comm *comm, struct call *call, const char *algorithm)
{
    const enum tutti_status status = find_file(comm, call, algorithm + sizeof file_prefix - 1);
    if (status == TUTTI_OK || comm->team.size == 1) return status;
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    health_fail(&comm->health, NULL, TUTTI_MISMATCH, comm->team.rank,
                "rank %d cannot use the plan that its call names: %s", comm->team.rank, why);
    return health_check(&comm->health);
}

/* ---------------------------------------------------------------------------------------- plans of the user */

enum tutti_status plans_add_own(struct tutti_comm *comm, struct algorithm *algorithm)
{
    struct own_algorithm *const own = malloc(sizeof *own);
    if (own == NULL) {
        loaded_free(algorithm);
        return error_set(TUTTI_NO_MEMORY, "registering a plan: out of memory");
    }
    *own = (struct own_algorithm){algorithm, atomic_load(&comm->plans->own)};
    while (!atomic_compare_exchange_weak(&comm->plans->own, &own->next, own)) {
    }
    return TUTTI_OK;
}

bool plans_find_own(const struct tutti_comm *comm, enum collective collective, const char *name,
                    const struct algorithm **algorithm)
{
    for (const struct own_algorithm *own = atomic_load(&comm->plans->own); own != NULL;
         own = own->next)
        if (own->algorithm->collective == collective && strcmp(own->algorithm->name, name) == 0) {
            *algorithm = own->algorithm;
            return true;
        }
    return false;
}
