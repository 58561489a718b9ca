#include "comm/stored_plan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/loaded.h"
#include "base/log.h"
#include "base/status.h"
#include "format/plan_file.h"
#include "format/proof_file.h"
#include "os/fork.h"

enum state { UNKNOWN, PROVEN, WRONG };

struct stored_plan {
    struct algorithm *algorithm;
    struct stored_plan *next;
    enum state state;
    char why[ERROR_TEXT_MAX]; /* WRONG */
    char path[];
};

static struct stored_plan *stored_plans;
FORK_LOCK(lock, FORK_STORED_PLANS, NULL);

static enum tutti_status load(const char *path, struct algorithm **algorithm)
{
    static const char prefix[] = "file:";
    struct plan *plan;
    char *const name = malloc(sizeof prefix + strlen(path));
    if (name == NULL) return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    strcpy(name, prefix);
    strcat(name, path);
    enum tutti_status status = plan_file_load(path, &plan);
    if (status == TUTTI_OK) status = loaded_create(name, plan, algorithm);
    free(name);
    return status;
}

static enum tutti_status find(const char *path, struct stored_plan **stored)
{
    for (*stored = stored_plans; *stored != NULL; *stored = (*stored)->next)
        if (strcmp((*stored)->path, path) == 0) return TUTTI_OK;
    struct stored_plan *const plan = calloc(1, sizeof *plan + strlen(path) + 1);
    if (plan == NULL) return error_set(TUTTI_NO_MEMORY, "reading %.200s: out of memory", path);
    strcpy(plan->path, path);
    const enum tutti_status status = load(path, &plan->algorithm);
    if (status != TUTTI_OK) {
        free(plan);
        return status;
    }
    plan->next = stored_plans;
    stored_plans = plan;
    *stored = plan;
    return TUTTI_OK;
}

enum tutti_status stored_plan_find(const char *path, struct stored_plan **stored)
{
    pthread_mutex_lock(&lock);
    const enum tutti_status status = find(path, stored);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum tutti_status prove(struct stored_plan *stored)
{
    struct loaded_proof proof;
    if (stored->state == WRONG) return error_set(TUTTI_INVALID_ALGORITHM, "%s", stored->why);
    if (stored->state == PROVEN) return TUTTI_OK;
    const bool is_kept = proof_file_find(stored->algorithm, &proof);
    const enum tutti_status status = is_kept ? TUTTI_OK : loaded_prove(stored->algorithm, &proof);
    if (status == TUTTI_INVALID_ALGORITHM) {
        stored->state = WRONG;
        error_copy(stored->why, sizeof stored->why);
    }
    TRY(status);
    log_write(LOG_DEBUG, "%s: %s", stored->algorithm->name,
              is_kept ? "was proven before" : "is proven");
    if (!is_kept) proof_file_keep(stored->algorithm, &proof);
    loaded_set_proof(stored->algorithm, &proof);
    stored->state = PROVEN;
    return TUTTI_OK;
}

enum tutti_status stored_plan_prove(struct stored_plan *stored)
{
    pthread_mutex_lock(&lock);
    const enum tutti_status status = prove(stored);
    pthread_mutex_unlock(&lock);
    return status;
}

const struct algorithm *stored_plan_algorithm(const struct stored_plan *stored)
{
    return stored->algorithm;
}
