/* network_join.h - the beginning of a communicator with a network: the ranks of all hosts come
 * together. */
#ifndef TUTTI_HEALTH_NETWORK_JOIN_H
#define TUTTI_HEALTH_NETWORK_JOIN_H

#include <stdint.h>

#include "tutti/tutti.h"

struct health;

/* Blocks until the ranks of all hosts have come this far, look() returns an error, or the deadline
 * passes. look NULL: it has no objection. Errors: INIT_TIMEOUT, PROC_FAILED, CORRUPT, the error of
 * look(), or the status of a failure that came from another host. */
enum tutti_status network_join(struct health *health, enum tutti_status (*look)(void *context),
                               void *look_context, uint64_t deadline_ns);

#endif
