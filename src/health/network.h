/* network.h - the ranks that a communicator reaches over a network, as a whole: what goes there
 * moves. remote_rank.h is about one of them.
 *
 *     network_create ──► network_join.h ──► network_progress, as long as it lives ──► network_leave.h ──► network_free
 *
 * The functions are for any communicator, unless they say "with a network". The caller holds the
 * domain where other threads could move it.
 */
#ifndef TUTTI_HEALTH_NETWORK_H
#define TUTTI_HEALTH_NETWORK_H

#include <stdbool.h>

#include "health/health.h"
#include "os/tcp_socket.h"

/* Opens the transport to other hosts, in team->transports.set, and makes room for what is known of
 * their ranks. ports: where the process of each rank of the team listens on loopback; copied. NULL:
 * the team's hosts say where. After a failure transports_close, then network_free, give back what
 * there is. */
enum tutti_status network_create(struct health *health, const uint16_t *ports);
/* For a rank that joins no more, and only has something to tell to other hosts: without the ranks
 * of its own, and without a card. */
enum tutti_status network_create_to_tell(struct health *health);
/* Without the transport, which its set closes. */
void network_free(struct health *health);

/* With a network: moves what goes over it, sends and takes in control messages. True if something
 * moved; after a failure false. */
bool network_move(struct health *health);
static inline bool network_progress(struct health *health)
{
    return health_has_network(health) && network_move(health);
}
/* Takes in what lies in sockets: before a rank is blamed for what it did not send. Bounded, however
 * much comes. */
void network_read_all(struct health *health);

/* Before the domain is unlocked: data of this rank may still be unsent, also of operations that are
 * over. Notes in the domain whether it is so; hand_over also wakes the progress thread for it,
 * which itself only notes. */
void network_note_output(struct health *health);
void network_pass_output(struct health *health);
static inline void network_hand_over(struct health *health)
{
    if (__builtin_expect(health_has_network(health), 0)) network_pass_output(health);
}

/* Adds what this holds beside its transport. */
void network_footprint(const struct health *health, struct tutti_footprint *sum);

#endif
