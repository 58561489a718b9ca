#include "tests/programs/program_plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/algo.h"
#include "plan/text.h"
#include "tests/kit/scratch.h"
#include "tutti/plan.h"

static char folder[SCRATCH_BYTES]; /* empty: there is none */

void program_plans_name(const struct random_step *s, int size, char name[PROGRAM_ALGORITHM_BYTES])
{
    snprintf(name, PROGRAM_ALGORITHM_BYTES, "file:%s/%d-on-%d-root-%d.plan", folder, s->algorithm,
             size, s->rank % size);
}

/* Blocks whose counts only two ranks know are not taken to go straight; and a plan of a file need
 * not give each element the same order of additions. */
static bool may_have(const struct random_step *s, int size)
{
    const bool spread = s->shape == CALL_VARYING && s->collective != COLLECTIVE_ALLGATHER &&
                        s->collective != COLLECTIVE_REDUCE_SCATTER;
    return s->verb == PROGRAM_CALL && s->own && size > 1 && !s->deterministic && !spread &&
           algo_supports(&algo_list[s->algorithm - 1], size);
}

bool program_plans_has(const struct random_step *s, int size)
{
    char name[PROGRAM_ALGORITHM_BYTES];
    program_plans_name(s, size, name);
    return may_have(s, size) && access(name + sizeof "file:" - 1, R_OK) == 0;
}

/* Some algorithms have another plan for calls in place: a plan in a file has to be right for all
 * calls. */
static bool is_right(const char *path)
{
    struct tutti_plan *plan;
    if (tutti_plan_load(path, &plan) != TUTTI_OK) abort();
    const enum tutti_status status = tutti_plan_verify(plan);
    (void)tutti_plan_free(plan);
    return status == TUTTI_OK;
}

static bool write_one(const struct random_step *s, int size)
{
    char name[PROGRAM_ALGORITHM_BYTES];
    const char *const path = name + sizeof "file:" - 1;
    const struct algorithm *const algorithm = &algo_list[s->algorithm - 1];
    const bool rooted = collective_is_rooted(algorithm->collective);
    const struct algo_params params = {.collective = algorithm->collective,
                                       .rank_count = size,
                                       .root = rooted ? s->rank % size : 0,
                                       .in_place = true};
    struct plan *plan;
    const char *message;
    program_plans_name(s, size, name);
    if (algo_plan(algorithm, &params, &plan, &message) != TUTTI_OK) return false;
    FILE *const file = fopen(path, "w");
    bool written = file != NULL;
    if (written) {
        plan_print(plan, file);
        written = fclose(file) == 0 && chmod(path, 0600) == 0;
    }
    plan_free(plan);
    if (written && !is_right(path)) (void)unlink(path);
    return written;
}

bool program_plans_write(const struct random_program *program)
{
    bool written = true;
    for (int i = 0; i < program->step_count; i++)
        for (int size = 1; size <= program->rank_count; size++) {
            if (!may_have(&program->steps[i], size)) continue;
            if (folder[0] == '\0') scratch_make(folder);
            written = written && write_one(&program->steps[i], size);
        }
    return written;
}

void program_plans_remove(void)
{
    if (folder[0] != '\0') scratch_remove(folder);
    folder[0] = '\0';
}
