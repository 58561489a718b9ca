#include "comm/stored_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/loaded.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/stored_turn.h"
#include "format/plan_file.h"
#include "format/proof_file.h"

enum state { UNREAD, READ, PROVEN, WRONG };

struct stored_plan {
    struct algorithm *algorithm; /* from READ on */
    struct stored_plan *next;
    struct turn turn; /* of who reads or proves it; changes the state, with the lock */
    enum state state;
    char *why; /* WRONG; NULL: out of memory */
    char path[];
};

static struct stored_plan *stored_plans;

/* -------------------------------------------------------------------------------------- reading */

static enum tutti_status load(const char *path, const struct plan_budget *limits,
                              struct algorithm **algorithm)
{
    static const char prefix[] = "file:";
    struct plan *plan;
    struct plan_budget budget = plan_budget_to_read(limits);
    char *const name = malloc(sizeof prefix + strlen(path));
    if (name == NULL) return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    strcpy(name, prefix);
    strcat(name, path);
    enum tutti_status status = plan_file_load(path, &budget, &plan);
    if (status == TUTTI_OK) status = loaded_create(name, plan, algorithm);
    free(name);
    return status;
}

/* The entry of that path, which may be new; NULL: out of memory. */
static struct stored_plan *entry_of(const char *path)
{
    struct stored_plan *entry = stored_plans;
    while (entry != NULL && strcmp(entry->path, path) != 0) entry = entry->next;
    if (entry != NULL) return entry;
    entry = calloc(1, sizeof *entry + strlen(path) + 1);
    if (entry == NULL) return NULL;
    strcpy(entry->path, path);
    entry->next = stored_plans;
    stored_plans = entry;
    return entry;
}

/* With the lock, which it lets go of while it reads. */
static enum tutti_status find(const char *path, const struct plan_budget *limits,
                              struct stored_plan **stored)
{
    struct stored_plan *const entry = entry_of(path);
    if (entry == NULL) return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    *stored = entry;
    if (entry->state != UNREAD) return TUTTI_OK;
    TRY(stored_turn_take(&entry->turn, limits, path));
    enum tutti_status status = TUTTI_OK;
    if (entry->state == UNREAD) {
        struct algorithm *algorithm = NULL;
        stored_unlock();
        status = load(path, limits, &algorithm);
        stored_lock();
        entry->algorithm = algorithm;
        if (status == TUTTI_OK) entry->state = READ;
    }
    turn_give(&entry->turn);
    return status;
}

enum tutti_status stored_plan_find(const char *path, const struct plan_budget *limits,
                                   struct stored_plan **stored)
{
    stored_lock();
    const enum tutti_status status = find(path, limits, stored);
    stored_unlock();
    return status;
}

/* -------------------------------------------------------------------------------------- proving */

static enum tutti_status find_proof(const struct algorithm *algorithm,
                                    const struct plan_budget *limits, struct loaded_proof *proof)
{
    struct plan_budget budget = *limits;
    const bool is_kept = proof_file_find(algorithm, proof);
    if (!is_kept) TRY(loaded_prove(algorithm, &budget, proof));
    log_write(LOG_DEBUG, "%s: %s", algorithm->name, is_kept ? "was proven before" : "is proven");
    if (!is_kept) proof_file_keep(algorithm, proof);
    return TUTTI_OK;
}

/* With the turn and the lock, which it lets go of while it proves. */
static enum tutti_status prove_now(struct stored_plan *stored, const struct plan_budget *limits)
{
    struct loaded_proof proof;
    stored_unlock();
    const enum tutti_status status = find_proof(stored->algorithm, limits, &proof);
    stored_lock();
    if (status == TUTTI_OK) {
        loaded_set_proof(stored->algorithm, &proof);
        stored->state = PROVEN;
    } else if (status == TUTTI_INVALID_ALGORITHM) {
        char why[ERROR_TEXT_MAX];
        error_copy(why, sizeof why);
        stored->why = strdup(why);
        stored->state = WRONG;
    }
    return status;
}

static enum tutti_status prove(struct stored_plan *stored, const struct plan_budget *limits)
{
    enum tutti_status status = TUTTI_OK;
    if (stored->state == READ) {
        TRY(stored_turn_take(&stored->turn, limits, stored->path));
        if (stored->state == READ) status = prove_now(stored, limits);
        turn_give(&stored->turn);
    }
    if (status != TUTTI_OK || stored->state == PROVEN) return status;
    return error_set(TUTTI_INVALID_ALGORITHM, "%s",
                     stored->why != NULL ? stored->why : "out of memory");
}

enum tutti_status stored_plan_prove(struct stored_plan *stored, const struct plan_budget *limits)
{
    stored_lock();
    const enum tutti_status status = prove(stored, limits);
    stored_unlock();
    return status;
}

const struct algorithm *stored_plan_algorithm(const struct stored_plan *stored)
{
    return stored->algorithm;
}
