/* local.h - the transport of one host (transport/host.h): ranks as processes and as threads over
 * the same memory.
 *
 * A rank that sleeps on a descriptor is woken through a doorbell (os/doorbell.h), all others
 * through a futex. Each rank chooses for itself, and a rank that never asks for a descriptor has
 * none. The transport has one group: all its ranks, by number.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_LOCAL_H
#define TUTTI_TRANSPORT_LOCAL_LOCAL_H

#include "transport/host.h"
#include "transport/transport.h"

/* Makes a segment for that many ranks, and gives its descriptor; one of the ranks calls this. */
enum tutti_status local_segment_create(int size, size_t board_bytes, int *fd);
/* The limits of links (`limits` of transport.h) in a segment for that many ranks: the more ranks,
 * the lower; with checks, half as much. */
void local_limits(int size, bool checks, size_t *piece_bytes_max, unsigned *piece_count_max);
/* Maps the segment. Waits for nobody: the board can be used, and nothing else yet. */
enum tutti_status local_open(const struct host_options *options, struct transport **transport);
/* Joins: blocks until all ranks of the segment have come here, or until the deadline. Afterwards it
 * is known what they have in common, but for local_maps_heaps. peers: one per rank; copied. */
enum tutti_status local_meet(struct transport *transport, const struct host_peer *peers,
                             const struct host_patience *patience);
/* Blocks once more until all have come here. From then on links can be used. */
enum tutti_status local_begin(struct transport *transport, const struct host_patience *patience);
void local_close(struct transport *transport);
/* See host.h and open.h. */
void *local_board(struct transport *transport);
int local_core_count(struct transport *transport);
bool local_publishers_fence(const struct transport *transport);
bool local_maps_heaps(const struct transport *transport);
const int *local_order(const struct transport *transport);
/* Whether a rank whose process is not visible from here has ended. Any thread. */
bool local_has_ended(const struct transport *transport, int rank);
bool local_checks(const struct transport *transport);
/* With checks: messages that were right only in their second copy. Any thread. */
uint64_t local_mended(const struct transport *transport);

#endif
