#include "fault_minimise.h"

struct search {
    struct fault_schedule *best;
    fault_fails *fails;
    void *context;
};

/* Takes the candidate if it is one that fails. */
static bool takes(const struct search *search, const struct fault_schedule *candidate)
{
    if (!fault_schedule_is_valid(candidate) || !search->fails(candidate, search->context))
        return false;
    *search->best = *candidate;
    return true;
}

static void drop_fault(struct fault_schedule *schedule, int index)
{
    schedule->fault_count--;
    for (int i = index; i < schedule->fault_count; i++)
        schedule->faults[i] = schedule->faults[i + 1];
}

/* With the faults that strike there. */
static void drop_operation(struct fault_schedule *schedule, int index)
{
    schedule->operation_count--;
    for (int i = index; i < schedule->operation_count; i++)
        schedule->operations[i] = schedule->operations[i + 1];
    for (int i = schedule->fault_count - 1; i >= 0; i--) {
        if (schedule->faults[i].operation == index)
            drop_fault(schedule, i);
        else if (schedule->faults[i].operation > index)
            schedule->faults[i].operation--;
    }
}

/* With what it does. */
static void drop_rank(struct fault_schedule *schedule, int rank)
{
    schedule->rank_count--;
    if (schedule->host_count > schedule->rank_count) schedule->host_count = schedule->rank_count;
    for (int i = schedule->fault_count - 1; i >= 0; i--) {
        if (schedule->faults[i].rank == rank)
            drop_fault(schedule, i);
        else if (schedule->faults[i].rank > rank)
            schedule->faults[i].rank--;
    }
}

/* One thing less, from the last to the first of `count`. */
static void drop_all_that_can_go(const struct search *search, int count,
                                 void (*drop)(struct fault_schedule *, int))
{
    for (int i = count - 1; i >= 0; i--) {
        struct fault_schedule candidate = *search->best;
        drop(&candidate, i);
        takes(search, &candidate);
    }
}

static void simplify_operation(const struct search *search, int index)
{
    struct fault_schedule candidate = *search->best;
    struct fault_operation *o = &candidate.operations[index];
    o->started = o->in_place = o->mapped = false;
    takes(search, &candidate);
    candidate = *search->best;
    o->dtype = TUTTI_FLOAT32;
    o->op = OP_SUM;
    o->root = 0;
    takes(search, &candidate);
    for (;;) {
        candidate = *search->best;
        if (o->count <= 1) return;
        o->count = o->count > 16 ? o->count / 16 : 1;
        if (!takes(search, &candidate)) return;
    }
}

static void simplify_job(const struct search *search)
{
    struct fault_schedule candidate = *search->best;
    candidate.host_count = 1;
    takes(search, &candidate);
    candidate = *search->best;
    candidate.tcp = false;
    takes(search, &candidate);
    candidate = *search->best;
    candidate.integrity = false;
    takes(search, &candidate);
}

void fault_minimise(struct fault_schedule *schedule, fault_fails *fails, void *context)
{
    const struct search search = {schedule, fails, context};
    drop_all_that_can_go(&search, schedule->fault_count, drop_fault);
    drop_all_that_can_go(&search, schedule->operation_count, drop_operation);
    drop_all_that_can_go(&search, schedule->rank_count, drop_rank);
    simplify_job(&search);
    for (int i = 0; i < schedule->operation_count; i++) simplify_operation(&search, i);
}
