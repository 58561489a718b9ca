/* network.h - connections between the ranks of a communicator, and who moves them. */
#ifndef TUTTI_COMM_NETWORK_H
#define TUTTI_COMM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "os/tcp_socket.h"
#include "tutti/tutti.h"

/* Only for a communicator that has a network, if nothing else is said; the domain is held, if others may move it. */

/* On failure comm_network_free gives back what there is. addresses: of the ranks' ports. */
enum tutti_status comm_network_create(struct tutti_comm *comm, const struct net_address *addresses);
/* Blocks until the ranks of all hosts have come this far, `look` objects (create.h), or the deadline. */
enum tutti_status comm_network_join(struct tutti_comm *comm,
                                    enum tutti_status (*look)(void *context), void *look_context,
                                    uint64_t deadline_ns);
bool comm_network_progress(struct tutti_comm *comm);
/* Before a rank is blamed for what it did not send: over TCP, what it sent may lie in sockets. A rank that goes on sending cannot keep
 * this one here. Also without a network. */
void comm_network_read_all(struct tutti_comm *comm);
/* Whether connections are wanted that are not there. */
bool comm_network_is_joining(const struct tutti_comm *comm);
/* Before the domain is given back: leaves data that was not sent yet, also of operations that are over, to the progress thread. The first
 * only notes it, for that thread itself; the second also tells the thread. */
void comm_network_note_rest(struct tutti_comm *comm);
void comm_network_leave_rest(struct tutti_comm *comm);
/* After a failure: memory that was posted or is expected is not touched any more. */
void comm_network_stop(struct tutti_comm *comm);
/* Until the others have what was sent to them and know that this rank leaves, or the deadline. */
void comm_network_finish(struct tutti_comm *comm);
void comm_network_free(struct tutti_comm *comm);
/* Adds what it holds beside its transport. */
void comm_network_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum);

#endif
