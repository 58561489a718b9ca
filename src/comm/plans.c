#include "comm/plans.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/loaded.h"
#include "base/hash.h"
#include "base/kept_text.h"
#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "comm/stored_folder.h"
#include "comm/stored_plan.h"
#include "health/failure.h"
#include "os/clock.h"

struct own_algorithm {
    struct algorithm *algorithm;
    struct own_algorithm *next;
};

/* A plan of the folder. */
struct candidate {
    const struct stored_place *place;
    bool is_told; /* why it is not used */
};

struct own_plans {
    uint32_t fingerprint;
    int candidate_count;
    struct candidate *candidates;        /* for this number of ranks, and proven */
    const struct algorithm **offered;    /* the plans among them that are for these machines */
    const struct stored_folder *folder;  /* or NULL */
    _Atomic(struct own_algorithm *) own; /* registered: the latest first */
    int of_rules_count;
    struct stored_plan *of_rules[]; /* in the order of rules_file */
};

/* --------------------------------------------------------------------------------------- limits */

static bool has_failed(const void *context)
{
    const struct tutti_comm *const comm = context;
    return comm->health.board != NULL && board_has_failed(comm->health.board);
}

struct plan_budget plans_limits(const struct tutti_comm *comm, uint64_t left_ns)
{
    struct plan_budget limits = plan_budget_default();
    limits.deadline_ns = clock_now_ns() + left_ns / 2;
    limits.is_stopped = has_failed;
    limits.context = comm;
    return limits;
}

static const uint64_t FIND_WRONG_NS = 2000000000;

static struct plan_budget limits_until(const struct tutti_comm *comm, uint64_t deadline_ns)
{
    const uint64_t now_ns = clock_now_ns();
    return plans_limits(comm, deadline_ns > now_ns ? deadline_ns - now_ns : 0);
}

/* -------------------------------------------------------------------------------------- reading */

static uint32_t fold(uint64_t fingerprint)
{
    const uint32_t folded = (uint32_t)(fingerprint ^ fingerprint >> 32);
    return folded > PLANS_CANNOT_JOIN ? folded : folded + PLANS_CANNOT_JOIN + 1;
}

static enum tutti_status read_rule(const struct rules *rules, int index,
                                   const struct plan_budget *limits, struct own_plans *plans)
{
    enum collective collective;
    const char *path;
    rules_file(rules, index, &collective, &path);
    TRY(stored_plan_find(path, limits, &plans->of_rules[index]));
    const struct algorithm *const algorithm = stored_plan_algorithm(plans->of_rules[index]);
    if (algorithm->collective == collective) return TUTTI_OK;
    return error_set(TUTTI_INVALID_ALGORITHM,
                     "%.200s: a rule for %s names it, and it is a plan for %s", path,
                     collective_name(collective), collective_name(algorithm->collective));
}

static enum tutti_status read_all(const struct rules *rules, const struct plan_budget *limits,
                                  struct own_plans *plans)
{
    uint64_t hash = 0x706c616e73u;
    for (int i = 0; i < plans->of_rules_count; i++) {
        TRY(read_rule(rules, i, limits, plans));
        hash = hash_take(hash, stored_plan_algorithm(plans->of_rules[i])->plan_fingerprint);
    }
    const char *const folder = option_text(OPTION_PLANS);
    if (folder != NULL) {
        TRY(stored_folder_find(folder, limits, &plans->folder));
        hash = hash_take(hash, plans->folder->fingerprint);
    }
    plans->fingerprint = plans->of_rules_count > 0 || folder != NULL ? fold(hash) : PLANS_NONE;
    return TUTTI_OK;
}

enum tutti_status plans_read(struct tutti_comm *comm, uint64_t deadline_ns)
{
    const struct plan_budget limits = limits_until(comm, deadline_ns);
    const struct rules *const rules = comm->team.settings.rules;
    const int count = rules_file_count(rules);
    struct own_plans *const plans =
        calloc(1, sizeof *plans + (size_t)count * sizeof *plans->of_rules);
    if (plans == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    comm->plans = plans;
    plans->of_rules_count = count;
    return read_all(rules, &limits, plans);
}

uint32_t plans_fingerprint(const struct tutti_comm *comm)
{
    return comm->plans != NULL ? comm->plans->fingerprint : PLANS_NONE;
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
    free(plans->candidates);
    free(plans->offered);
    free(plans);
    comm->plans = NULL;
}

/* -------------------------------------------------------------------------------------- proving */

static void keep_unused(struct tutti_comm *comm, const struct algorithm *algorithm, const char *why)
{
    choices_note_unused(&comm->health.choices, algorithm->collective, algorithm->name, why);
}

/* In the log once for all ranks, and for those who ask any of them. */
__attribute__((format(printf, 3, 4))) static void
say_unused(struct tutti_comm *comm, const struct algorithm *algorithm, const char *format, ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    keep_unused(comm, algorithm, why);
    if (comm->team.rank == 0) log_write(LOG_INFO, "%s is not used: %s", algorithm->name, why);
}

static bool is_for_size(struct tutti_comm *comm, const struct algorithm *algorithm)
{
    const int rank_count = algorithm->plan->shape.rank_count;
    if (rank_count == comm->team.size) return true;
    say_unused(comm, algorithm, "it is for %d ranks, and there are %d", rank_count, comm->team.size);
    return false;
}

static enum tutti_status prove_rules(struct tutti_comm *comm, const struct plan_budget *limits)
{
    const struct own_plans *const plans = comm->plans;
    for (int i = 0; i < plans->of_rules_count; i++) {
        const struct algorithm *const algorithm = stored_plan_algorithm(plans->of_rules[i]);
        if (!is_for_size(comm, algorithm)) continue;
        TRY(stored_plan_prove(plans->of_rules[i], limits));
        rules_set_file(comm->team.settings.rules, i, algorithm);
    }
    return TUTTI_OK;
}

/* Whether a plan of the folder can compete; what is wrong with one is no reason to do without a
 * communicator. */
static enum tutti_status try_candidate(struct tutti_comm *comm, const struct plan_budget *limits,
                                       const struct stored_place *place, bool *can_compete)
{
    char why[ERROR_TEXT_MAX];
    *can_compete = false;
    if (!is_for_size(comm, stored_plan_algorithm(place->plan))) return TUTTI_OK;
    const enum tutti_status status = stored_plan_prove(place->plan, limits);
    *can_compete = status == TUTTI_OK;
    if (status != TUTTI_INVALID_ALGORITHM) return status;
    error_copy(why, sizeof why);
    keep_unused(comm, stored_plan_algorithm(place->plan), why);
    if (comm->team.rank == 0) log_write(LOG_WARN, "a plan is not used: %s", why);
    return TUTTI_OK;
}

static enum tutti_status prove_folder(struct tutti_comm *comm, const struct plan_budget *limits)
{
    struct own_plans *const plans = comm->plans;
    const int count = plans->folder != NULL ? plans->folder->count : 0;
    for (int i = 0; plans->folder != NULL && i < plans->folder->refusal_count; i++)
        choices_note_unused(&comm->health.choices, COLLECTIVE_COUNT,
                            plans->folder->refusals[i].name, plans->folder->refusals[i].why);
    if (count == 0) return TUTTI_OK;
    plans->candidates = calloc((size_t)count, sizeof *plans->candidates);
    plans->offered = calloc((size_t)count, sizeof *plans->offered);
    if (plans->candidates == NULL || plans->offered == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    for (int i = 0; i < count; i++) {
        bool can_compete;
        TRY(try_candidate(comm, limits, &plans->folder->places[i], &can_compete));
        if (can_compete)
            plans->candidates[plans->candidate_count++].place = &plans->folder->places[i];
    }
    return TUTTI_OK;
}

enum tutti_status plans_prove(struct tutti_comm *comm, uint64_t deadline_ns)
{
    const struct plan_budget limits = limits_until(comm, deadline_ns);
    enum tutti_status status = prove_rules(comm, &limits);
    if (status == TUTTI_OK) status = prove_folder(comm, &limits);
    return status == TUTTI_ABORTED ? health_check(&comm->health) : status;
}

enum tutti_status plans_find_wrong(struct tutti_comm *comm)
{
    struct plan_budget limits = plan_budget_default();
    limits.deadline_ns = clock_now_ns() + FIND_WRONG_NS;
    const enum tutti_status status = prove_rules(comm, &limits);
    return status == TUTTI_INVALID_ALGORITHM ? status : TUTTI_OK;
}

static bool is_for_machines(struct tutti_comm *comm, const struct candidate *candidate,
                            const struct tune_shape *shape)
{
    const struct stored_place *const place = candidate->place;
    if ((place->host_count == 0 || place->host_count == shape->host_count) &&
        (place->rack_count == 0 || place->rack_count == shape->rack_count))
        return true;
    if (!candidate->is_told)
        say_unused(comm, stored_plan_algorithm(place->plan),
                   "it is for other machines, and there are %d hosts in %d racks",
                   shape->host_count, shape->rack_count);
    return false;
}

static int count_offered(const struct own_plans *plans, int count, enum collective collective)
{
    int found = 0;
    for (int i = 0; i < count; i++) found += plans->offered[i]->collective == collective;
    return found;
}

enum tutti_status plans_offer(struct tutti_comm *comm)
{
    struct own_plans *const plans = comm->plans;
    struct tune_site *const site = &comm->team.members.site;
    int count = 0;
    if (plans->candidate_count == 0) return TUTTI_OK;
    for (int i = 0; i < plans->candidate_count; i++) {
        struct candidate *const candidate = &plans->candidates[i];
        const struct algorithm *const algorithm = stored_plan_algorithm(candidate->place->plan);
        bool is_offered = is_for_machines(comm, candidate, &site->shape);
        if (is_offered && count_offered(plans, count, algorithm->collective) == RANKED_LOADED_MAX) {
            is_offered = false;
            if (!candidate->is_told)
                say_unused(comm, algorithm, "%d other plans of its collective come before it",
                           RANKED_LOADED_MAX);
        }
        if (is_offered) plans->offered[count++] = algorithm;
        candidate->is_told = candidate->is_told || !is_offered;
    }
    site->loaded = plans->offered;
    site->loaded_count = count;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------- files of calls */

static const char file_prefix[] = "file:";

bool plans_names_file(const char *algorithm)
{
    return strncmp(algorithm, file_prefix, sizeof file_prefix - 1) == 0;
}

static enum tutti_status find_file(const struct tutti_comm *comm, struct call *call,
                                   const struct plan_budget *limits, const char *path)
{
    struct stored_plan *stored;
    if (path[0] == '\0')
        return error_set(TUTTI_INVALID_ALGORITHM,
                         "algorithm \"file:\": the path of a file is needed");
    TRY(stored_plan_find(path, limits, &stored));
    const struct algorithm *const algorithm = stored_plan_algorithm(stored);
    if (algorithm->collective != call->what.collective)
        return error_set(TUTTI_INVALID_ALGORITHM, "%.200s is a plan for %s", path,
                         collective_name(algorithm->collective));
    if (algorithm->plan->shape.rank_count != comm->team.size)
        return error_set(TUTTI_INVALID_ALGORITHM, "%.200s is a plan for %d ranks, and there are %d",
                         path, algorithm->plan->shape.rank_count, comm->team.size);
    TRY(stored_plan_prove(stored, limits));
    call->algorithm = algorithm;
    call->wishes.radix = 0;
    return call_program_check(comm, call);
}

enum tutti_status plans_find_file(struct tutti_comm *comm, struct call *call, const char *algorithm)
{
    const uint64_t begin_ns = clock_now_ns(), timeout_ns = call->timeout_ns;
    const struct plan_budget limits = plans_limits(comm, timeout_ns);
    const enum tutti_status status =
        find_file(comm, call, &limits, algorithm + sizeof file_prefix - 1);
    const uint64_t taken_ns = clock_now_ns() - begin_ns;
    call->timeout_ns = taken_ns < timeout_ns ? timeout_ns - taken_ns : 1;
    return status == TUTTI_ABORTED ? health_check(&comm->health) : status;
}

/* ---------------------------------------------------------------------------- plans of the user */

enum tutti_status plans_add_own(struct tutti_comm *comm, struct algorithm *algorithm)
{
    struct own_algorithm *const own = malloc(sizeof *own);
    /* Records of calls name the algorithm, and a reader of a record may look at it after the
     * communicator has gone. */
    const char *const name = kept_text(algorithm->name);
    if (own == NULL || name == NULL) {
        free(own);
        loaded_free(algorithm);
        return error_set(TUTTI_NO_MEMORY, "registering a plan: out of memory");
    }
    algorithm->name = name;
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
