/* network.h - what a communicator does for ranks that it reaches over a network, and when. */
#ifndef TUTTI_COMM_NETWORK_H
#define TUTTI_COMM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "os/tcp_socket.h"

/* Only for a communicator that has a network, if nothing else is said; the domain is held, if others may move it. */

/* On failure comm_network_free gives back what there is. addresses: of the ranks' ports. */
enum tutti_status comm_network_create(struct tutti_comm *comm, const struct net_address *addresses);
/* Blocks until the ranks of all hosts have come this far, `look` objects (create.h), or the deadline. */
enum tutti_status comm_network_join(struct tutti_comm *comm,
                                    enum tutti_status (*look)(void *context), void *look_context,
                                    uint64_t deadline_ns);
/* Moves what goes over the network, and tells and hears what is due. True when something moved. */
bool comm_network_move(struct tutti_comm *comm);
/* The same of any communicator. */
static inline bool comm_network_progress(struct tutti_comm *comm)
{
    return comm_has_network(comm) && comm_network_move(comm);
}
/* Before a rank is blamed for what it did not send: over TCP, what it sent may lie in sockets. A rank that goes on sending cannot keep
 * this one here. Also without a network. */
void comm_network_read_all(struct tutti_comm *comm);
/* Before the domain is given back: leaves data that was not sent yet, also of operations that are over, to the progress thread. The first
 * only control messages it, for that thread itself; the second also tells the thread. Also without a network. */
void comm_network_note_rest(struct tutti_comm *comm);
void comm_network_leave_rest(struct tutti_comm *comm);
/* After a failure: gives up all links, of any communicator. False: ranks of this host may still touch memory that was posted or is
 * expected. */
bool comm_stop_links(struct tutti_comm *comm);
/* Until the others have what was sent to them and know that this rank leaves, or the deadline. */
void comm_network_finish(struct tutti_comm *comm);
void comm_network_free(struct tutti_comm *comm);
/* Adds what it holds beside its transport. Also without a network. */
void comm_network_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum);

#endif
