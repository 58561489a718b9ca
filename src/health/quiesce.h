/* quiesce.h - after a failure: memory that others may still touch. */
#ifndef TUTTI_HEALTH_QUIESCE_H
#define TUTTI_HEALTH_QUIESCE_H

#include <stdbool.h>

#include "health/health.h"
#include "os/futex.h"

/* What others may still read or write of this rank. */
struct engagement {
    int slot;
    uint64_t begun;                      /* the number of its call in the slot */
    bool any_referenced, any_advertised; /* memory that was posted; places where others may write */
};
/* After a failure: gives up all links. False: ranks of this host may still touch memory that was posted or advertised. */
bool health_stop_links(struct health *health);
/* After a failure: until no peer can still be reading or writing this rank's memory, or for as long as that may
 * reasonably take. */
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
