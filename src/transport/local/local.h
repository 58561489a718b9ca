/* local.h - the transport of one host (transport/host.h): ranks as processes and as threads over the same memory.
 *
 * Who sleeps on a descriptor is rung through a doorbell (os/doorbell.h), all others through a futex: each rank chooses
 * for itself, and who never asks for a descriptor has none.
 * Its one group are all its ranks, by number.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_LOCAL_H
#define TUTTI_TRANSPORT_LOCAL_LOCAL_H

#include "transport/host.h"
#include "transport/transport.h"

/* The descriptor of a segment for that many ranks, made by one of them. */
enum tutti_status local_segment_create(int size, size_t board_bytes, int *fd);
/* What `limits` says in a segment for that many ranks: less the more there are, and with checks half of it. */
void local_limits(int size, bool checks, size_t *piece_bytes_max, unsigned *piece_count_max);
/* Joins; blocks until all ranks of the segment have, or the deadline. */
enum tutti_status local_open(const struct host_options *options, struct transport **transport);
void local_close(struct transport *transport);
/* See struct host_facts. */
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
