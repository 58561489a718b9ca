/* lock.h - the lock of a domain, for threads that may have to wait for it, or that leave data
 * behind. */
#ifndef TUTTI_HEALTH_LOCK_H
#define TUTTI_HEALTH_LOCK_H

#include "health/health.h"
#include "health/network.h"

/* For a thread that may not be back before the peers need what it leaves: the progress thread sends
 * that. A thread that comes back soon uses domain_unlock. */
static inline void health_unlock(struct health *health)
{
    network_hand_over(health);
    domain_unlock(&health->team->domain);
}
/* Waits until the domain is this thread's, at most until the deadline of a call. Errors: TIMEOUT,
 * or the status of a communicator that has failed. */
enum tutti_status health_lock(struct health *health, uint64_t timeout_ns);
/* Takes the domain for what is still done when the communicator has failed; then health_lock does
 * not wait. */
enum tutti_status health_lock_failed(struct health *health, uint64_t timeout_ns);

#endif
