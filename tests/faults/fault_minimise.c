#include "tests/faults/fault_minimise.h"

#include "tests/kit/minimise.h"

struct judge {
    fault_fails *fails;
    void *context;
};

static bool is_valid(const void *candidate)
{
    return fault_schedule_is_valid(candidate);
}

static bool fails(const void *candidate, void *context)
{
    const struct judge *judge = context;
    return judge->fails(candidate, judge->context);
}

/* ------------------------------------------------------------------------------------ what goes */

static int fault_count(const void *candidate)
{
    return ((const struct fault_schedule *)candidate)->fault_count;
}

static int operation_count(const void *candidate)
{
    return ((const struct fault_schedule *)candidate)->operation_count;
}

static int rank_count(const void *candidate)
{
    return ((const struct fault_schedule *)candidate)->rank_count;
}

static void drop_fault(void *candidate, int index)
{
    struct fault_schedule *const schedule = candidate;
    schedule->fault_count--;
    for (int i = index; i < schedule->fault_count; i++)
        schedule->faults[i] = schedule->faults[i + 1];
}

/* With the faults that strike there. */
static void drop_operation(void *candidate, int index)
{
    struct fault_schedule *const schedule = candidate;
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
static void drop_rank(void *candidate, int rank)
{
    struct fault_schedule *const schedule = candidate;
    schedule->rank_count--;
    if (schedule->host_count > schedule->rank_count) schedule->host_count = schedule->rank_count;
    for (int i = schedule->fault_count - 1; i >= 0; i--) {
        if (schedule->faults[i].rank == rank)
            drop_fault(schedule, i);
        else if (schedule->faults[i].rank > rank)
            schedule->faults[i].rank--;
    }
}

/* ---------------------------------------------------------------------------- what gets simpler */

static void one_host(void *candidate, int index)
{
    (void)index;
    ((struct fault_schedule *)candidate)->host_count = 1;
}

static void no_tcp(void *candidate, int index)
{
    (void)index;
    ((struct fault_schedule *)candidate)->tcp = false;
}

static void no_integrity(void *candidate, int index)
{
    (void)index;
    ((struct fault_schedule *)candidate)->integrity = false;
}

static void plain_call(void *candidate, int index)
{
    struct fault_operation *const o = &((struct fault_schedule *)candidate)->operations[index];
    o->started = o->in_place = o->mapped = false;
}

static void plain_arguments(void *candidate, int index)
{
    struct fault_operation *const o = &((struct fault_schedule *)candidate)->operations[index];
    o->dtype = TUTTI_FLOAT32;
    o->op = OP_SUM;
    o->root = 0;
}

static void fewer_elements(void *candidate, int index)
{
    struct fault_operation *const o = &((struct fault_schedule *)candidate)->operations[index];
    o->count = o->count > 16 ? o->count / 16 : 1;
}

static void simplify_operation(const struct minimise *search, int index)
{
    const struct fault_schedule *const best = search->best;
    minimise_try(search, plain_call, index);
    minimise_try(search, plain_arguments, index);
    while (best->operations[index].count > 1 && minimise_try(search, fewer_elements, index))
        continue;
}

void fault_minimise(struct fault_schedule *schedule, fault_fails *schedule_fails, void *context)
{
    struct judge judge = {schedule_fails, context};
    const struct minimise search = {schedule, sizeof *schedule, is_valid, fails, &judge};
    minimise_drop(&search, fault_count, drop_fault);
    minimise_drop(&search, operation_count, drop_operation);
    minimise_drop(&search, rank_count, drop_rank);
    minimise_try(&search, one_host, 0);
    minimise_try(&search, no_tcp, 0);
    minimise_try(&search, no_integrity, 0);
    for (int i = 0; i < schedule->operation_count; i++) simplify_operation(&search, i);
}
