#include "transport/local/peer_memory.h"

#include <sys/uio.h>

#include "memory/heap.h"
#include "os/clock.h"

/* A rank that has lacked descriptors or memory for SHORTAGE_NS will not get them. A rank that has
 * not tried for SHORTAGE_IS_OVER_NS has found another path. */
static const uint64_t SHORTAGE_NS = 1000000000, SHORTAGE_IS_OVER_NS = 500000000;

bool peer_memory_read(pid_t pid, uint64_t remote, void *destination, size_t bytes)
{
    const struct iovec from = {(void *)(uintptr_t)remote, bytes}, to = {destination, bytes};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

void peer_memory_note_shortage(struct local *local, int local_peer, enum tutti_status shortage)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns - atomic_load_explicit(&local->shortage_seen_ns, memory_order_relaxed) >
        SHORTAGE_IS_OVER_NS)
        atomic_store_explicit(&local->shortage_since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&local->shortage, shortage, memory_order_relaxed);
    atomic_store_explicit(&local->shortage_peer, local_peer, memory_order_relaxed);
    atomic_store_explicit(&local->shortage_seen_ns, now_ns, memory_order_relaxed);
}

/* The address of memory of a peer's heap in the peer's process; 0: it cannot be known here. */
static uint64_t heap_address(const struct local_rx *rx, uint64_t where, size_t bytes)
{
    const struct local *local = rx->local;
    const pid_t pid = local->peers[rx->local_peer].pid;
    uint64_t place, distance, base = 0;
    if (!local->copies_remote || !heap_base_of(where, bytes, &place, &distance)) return 0;
    place += atomic_load_explicit(&segment_bell(local->segment, rx->local_peer)->heap_bases,
                                  memory_order_relaxed);
    const bool is_known = peer_memory_read(pid, place, &base, sizeof base) && base != 0;
    return is_known ? base + distance : 0;
}

enum link_state peer_memory_reach(const struct local_rx *rx, enum message_kind kind, uint64_t where,
                                  size_t bytes, uint64_t *remote)
{
    const struct host_peer *peer = &rx->local->peers[rx->local_peer];
    *remote = 0;
    if (kind != MESSAGE_HEAP || peer->window == NULL ||
        !heap_window_holds(peer->window, where, bytes))
        return LINK_FAULT;
    const enum tutti_status shortage = heap_window_shortage(peer->window);
    if (shortage == TUTTI_OK) return LINK_EMPTY;
    *remote = heap_address(rx, where, bytes);
    if (*remote != 0) return LINK_READY;
    peer_memory_note_shortage(rx->local, rx->local_peer, shortage);
    return LINK_EMPTY;
}

enum tutti_status peer_memory_shortage(const struct transport *transport, uint64_t now_ns, int *peer)
{
    const struct local *local = (const struct local *)transport;
    const uint64_t seen_ns = atomic_load_explicit(&local->shortage_seen_ns, memory_order_relaxed),
                   since_ns = atomic_load_explicit(&local->shortage_since_ns, memory_order_relaxed);
    if (seen_ns == 0 || (int64_t)(now_ns - seen_ns) > (int64_t)SHORTAGE_IS_OVER_NS ||
        (int64_t)(seen_ns - since_ns) < (int64_t)SHORTAGE_NS)
        return TUTTI_OK;
    *peer = local_name_of(local, atomic_load_explicit(&local->shortage_peer, memory_order_relaxed));
    return (enum tutti_status)atomic_load_explicit(&local->shortage, memory_order_relaxed);
}
