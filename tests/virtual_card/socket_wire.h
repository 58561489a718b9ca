/* socket_wire.h - a wire between the processes of a host: each rank has an abstract Unix datagram
 * socket, named after a key that all ranks know. The kernel says which user sent a datagram and
 * from which socket: datagrams from another user, or from a socket that does not have the name of
 * one of the ranks, are dropped. */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_SOCKET_WIRE_H
#define TUTTI_TESTS_VIRTUAL_CARD_SOCKET_WIRE_H

#include <stdint.h>

#include "tests/virtual_card/wire.h"
#include "tutti/tutti.h"

/* Failures: IN_PROGRESS (another socket has that rank's name), NO_DESCRIPTORS, NO_MEMORY,
 * SYSTEM. */
enum tutti_status card_socket_wire_open(uint64_t key, int rank, int size, struct card_wire **wire);

#endif
