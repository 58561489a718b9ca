/* local_world.h - the transports of ranks that share a segment, all in this process. */
#ifndef TUTTI_TESTS_LOCAL_WORLD_H
#define TUTTI_TESTS_LOCAL_WORLD_H

#include "transport/local/local.h"

enum { LOCAL_WORLD_RANKS_MAX = 64 };

/* Ranks wait for each other when they open, so each does it in a thread of its own. They take each other for `peer`; names: as
 * in local_options. Returns a descriptor of the segment, the caller's. */
int local_world_open(int size, struct local_peer peer, const int *names, size_t board_bytes,
                     struct transport **transports);

#endif
