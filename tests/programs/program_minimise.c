#include "tests/programs/program_minimise.h"

#include "tests/kit/minimise.h"

enum { VALUES = sizeof(struct random_step) / sizeof(int) };

static bool is_valid(const void *candidate)
{
    return program_is_valid(candidate);
}

static int step_count(const void *candidate)
{
    return ((const struct random_program *)candidate)->step_count;
}

/* ----------------------------------------------------------------------------------------- drop */

static void remove_step(struct random_program *p, int index)
{
    p->step_count--;
    for (int i = index; i < p->step_count; i++) p->steps[i] = p->steps[i + 1];
}

/* Removes the step that ends the group or threads begun before the step at that index. */
static void remove_end(struct random_program *p, int index, int begin, int end)
{
    int depth = 1;
    for (int i = index; i < p->step_count; i++) {
        depth += (p->steps[i].verb == begin) - (p->steps[i].verb == end);
        if (depth > 0) continue;
        remove_step(p, i);
        return;
    }
}

/* Steps are dropped from the last to the first, so a step that makes something goes after the steps
 * that need it. An end goes only with its beginning. */
static void drop_step(void *candidate, int index)
{
    struct random_program *const p = candidate;
    if (index >= p->step_count) return;
    const int verb = p->steps[index].verb;
    if (verb == PROGRAM_END || verb == PROGRAM_JOIN) return;
    remove_step(p, index);
    if (verb == PROGRAM_BEGIN) remove_end(p, index, PROGRAM_BEGIN, PROGRAM_END);
    if (verb == PROGRAM_PARALLEL) remove_end(p, index, PROGRAM_PARALLEL, PROGRAM_JOIN);
}

static void drop_rank(void *candidate, int index)
{
    struct random_program *const p = candidate;
    p->rank_count--;
    if (p->hosts > p->rank_count) p->hosts = p->rank_count;
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i].rank >= p->rank_count) p->steps[i].rank = index;
}

/* ------------------------------------------------------------------------------------- simplify */

enum { ONE_HOST, UNCHECKED, PLAIN_TEXT, NO_STOPS, OVER_MEMORY, JOB_EDITS };

static void simplify_job(void *candidate, int index)
{
    struct random_program *const p = candidate;
    switch (index) {
    case ONE_HOST: p->hosts = 1; break;
    case UNCHECKED: p->integrity = TUTTI_INTEGRITY_OFF; break;
    case PLAIN_TEXT: p->encryption = 0; break;
    case NO_STOPS: p->stops = 0; break;
    default: p->over = PROGRAM_OVER_MEMORY; break;
    }
}

/* A value of a step becomes 0, which is the simplest of each kind. */
static void simplify_value(void *candidate, int index)
{
    struct random_step *const step = &((struct random_program *)candidate)->steps[index / VALUES];
    if (index % VALUES > 0)
        ((int *)step)[index % VALUES] = 0; /* all are ints; the first is the verb */
}

static void halve_count(void *candidate, int index)
{
    ((struct random_program *)candidate)->steps[index].count /= 2;
}

static void halve_number(void *candidate, int index)
{
    ((struct random_program *)candidate)->steps[index].number /= 2;
}

void program_minimise(struct random_program *p, bool (*fails)(const void *, void *), void *context)
{
    const struct minimise search = {p, sizeof *p, is_valid, fails, context};
    minimise_drop(&search, step_count, drop_step);
    while (p->rank_count > 1 && minimise_try(&search, drop_rank, 0)) continue;
    for (int i = 0; i < JOB_EDITS; i++) minimise_try(&search, simplify_job, i);
    for (int i = 0; i < p->step_count * VALUES; i++) minimise_try(&search, simplify_value, i);
    for (int i = 0; i < p->step_count; i++) {
        while (minimise_try(&search, halve_count, i)) continue;
        while (minimise_try(&search, halve_number, i)) continue;
    }
    minimise_drop(&search, step_count, drop_step); /* some are not needed any more */
}
