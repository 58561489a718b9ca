/* socket_wire.h - a wire between the processes of a host: an abstract Unix datagram socket a rank, named after a key that all ranks
 * know. The kernel says which user sent a datagram and from which socket: what comes from another user, or from a socket that has
 * not the name of one of the ranks, is dropped. */
#ifndef TUTTI_TRANSPORT_VIRTUAL_CARD_SOCKET_WIRE_H
#define TUTTI_TRANSPORT_VIRTUAL_CARD_SOCKET_WIRE_H

#include <stdint.h>

#include "transport/virtual_card/wire.h"
#include "tutti/tutti.h"

/* Failures: IN_PROGRESS: somebody has that rank's name; NO_DESCRIPTORS, NO_MEMORY, SYSTEM. */
enum tutti_status card_socket_wire_open(uint64_t key, int rank, int size, struct card_wire **wire);

#endif
