/* remote_ranks.h - the ranks that a communicator reaches over a network: they come together, what goes there moves, and they part.
 *
 * A function here is only for a communicator that has a network, unless it says otherwise. The caller holds the domain where others may
 * move it.
 */
#ifndef TUTTI_HEALTH_REMOTE_RANKS_H
#define TUTTI_HEALTH_REMOTE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "health/health.h"
#include "os/tcp_socket.h"

/* On failure remote_free gives back what there is. addresses: of the ranks' ports. */
enum tutti_status remote_create(struct health *health, const struct net_address *addresses);
/* Blocks until the ranks of all hosts have come this far, `look` objects (create.h), or the deadline. */
enum tutti_status remote_join(struct health *health, enum tutti_status (*look)(void *context),
                              void *look_context, uint64_t deadline_ns);
/* Moves what goes over the network, and tells and hears what is due. True when something moved. */
bool remote_move(struct health *health);
/* The same of any communicator. */
static inline bool remote_progress(struct health *health)
{
    return health_has_network(health) && remote_move(health);
}
/* Before a rank is blamed for what it did not send: over TCP, what it sent may lie in sockets. A rank that goes on sending cannot keep
 * this one here. Also without a network. */
void remote_read_all(struct health *health);
/* Before the domain is given back: data that was not sent yet, also of operations that are over, is left to the progress thread. That
 * thread itself only notes it; all others also wake the thread. Also without a network. */
void remote_note_rest(struct health *health);
void remote_hand_over(struct health *health);
static inline void remote_leave_rest(struct health *health)
{
    if (__builtin_expect(health_has_network(health), 0)) remote_hand_over(health);
}
/* After a failure: gives up all links, of any communicator. False: ranks of this host may still touch memory that was posted or is
 * expected. */
bool health_stop_links(struct health *health);
/* Until the others have what was sent to them and know that this rank leaves, or the deadline. */
void remote_finish(struct health *health);
void remote_free(struct health *health);
/* Adds what it holds beside its transport. Also without a network. */
void remote_footprint(const struct health *health, struct tutti_footprint *sum);

#endif
