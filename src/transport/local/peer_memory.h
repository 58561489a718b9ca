/* peer_memory.h - memory of other processes that this one cannot read where it lies.
 *
 * Private memory is copied out by process_vm_readv, if all ranks turned out at start-up to be
 * allowed to; otherwise, and with TUTTI_CMA=0, its contents go through slots. A heap that cannot be
 * mapped, because a descriptor or address space is lacking, is copied out, too.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_PEER_MEMORY_H
#define TUTTI_TRANSPORT_LOCAL_PEER_MEMORY_H

#include <sys/types.h>

#include "transport/local/ends.h"

/* Reads the private memory of another process; false when it cannot, now or for ever. */
bool peer_memory_read(pid_t pid, uint64_t remote, void *destination, size_t bytes);
/* For memory that is not readable where it lies. READY: it can be copied from *remote. EMPTY: not
 * now; the process that owns the heap may have gone, or this process lacks the resources to open
 * the heap. FAULT: that process has no heap that holds the range. */
enum link_state peer_memory_reach(const struct local_rx *rx, enum message_kind kind, uint64_t where,
                                  size_t bytes, uint64_t *remote);
/* Notes that this rank could not read the peer's message, because it lacks the means that the
 * status names: see peer_memory_shortage. */
void peer_memory_note_shortage(struct local *local, int local_peer, enum tutti_status shortage);
/* transport_ops.shortage */
enum tutti_status peer_memory_shortage(const struct transport *transport, uint64_t now_ns,
                                       int *peer);

#endif
