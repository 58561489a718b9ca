/* fault_time.h - a line that bench/faults reads: how long a fault of a row of
 * docs/develop/faults.md took, from its beginning to the return of the last survivor's blocked
 * call, or to what the row says. */
#ifndef TUTTI_TESTS_KIT_FAULT_TIME_H
#define TUTTI_TESTS_KIT_FAULT_TIME_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

static inline void fault_time_print(const char *row, uint64_t took_ns)
{
    printf("fault-time: %s %.4f\n", row, (double)took_ns * 1e-9);
    fflush(stdout);
}

/* Of one that is measured in calls. */
static inline void fault_time_print_calls(const char *row, int calls)
{
    printf("fault-time: %s %d\n", row, calls);
    fflush(stdout);
}

/* Of a row of which nobody has to find out anything: nothing came of it. */
static inline void fault_time_print_none(const char *row)
{
    printf("fault-time: %s none\n", row);
    fflush(stdout);
}

/* What a call took beyond its deadline, by which others may have told it earlier. */
static inline uint64_t fault_time_beyond(uint64_t took_ns, uint64_t deadline_ns)
{
    return took_ns > deadline_ns ? took_ns - deadline_ns : 0;
}

/* Of several ranks the slowest counts. */
static inline void fault_time_raise(_Atomic uint64_t *slowest_ns, uint64_t took_ns)
{
    uint64_t slowest = atomic_load(slowest_ns);
    while (took_ns > slowest && !atomic_compare_exchange_weak(slowest_ns, &slowest, took_ns)) {
    }
}

#endif
