/* quiesce.h - after a failure: memory that others may still touch. */
#ifndef TUTTI_HEALTH_QUIESCE_H
#define TUTTI_HEALTH_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

#include "health/health.h"
#include "os/futex.h"

/* The memory of a call of this rank that others may still read or write. */
struct engagement {
    int slot;
    uint64_t begun;                      /* the number of its call in the slot */
    bool any_referenced, any_advertised; /* memory that was posted; places where others may write */
};
/* After a failure: gives up all links. False: ranks of this host may still touch memory that was
 * posted or advertised. */
bool health_stop_links(struct health *health);
/* After a failure: tells the others that this rank will not run a call any more. True: no peer can
 * still be reading or writing this rank's memory. Does not wait for others. */
bool health_leave_call(struct health *health, const struct engagement *engagement);
/* Whether no peer can still be reading or writing the memory of a call that was left at that time,
 * or as much time has passed as that may reasonably take. Does not wait. */
bool health_is_quiet(struct health *health, const struct engagement *engagement, uint64_t left_ns);
/* Leaves a call, and waits until it is quiet. Not in the progress thread, which moves several ranks
 * of a process: they would wait for each other. */
void health_quiesce(struct health *health, const struct engagement *engagement);
/* Between saying on the board that a call begins and the look whether the communicator has failed.
 * Whoever fails has its fence (health_quiesce) between saying so and its look at which ranks are in
 * a call: so one of the two sees the other. */
static inline void health_publish(const struct team *team)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(team->transports.publishers_fence, 0)) fence_this_thread();
}

#endif
