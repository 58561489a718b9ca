#include "transport/transport.h"

#include <assert.h>

#include "base/status.h"

enum link_reach link_no_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)link, (void)address, (void)bytes;
    return REACH_NONE;
}

bool link_no_post(struct link_tx *link, const void *address, size_t bytes)
{
    (void)link, (void)address, (void)bytes;
    return false;
}

bool link_no_take(struct link_rx *link, void *destination, size_t bytes)
{
    (void)link, (void)destination, (void)bytes;
    return false;
}

bool link_no_fetch(struct link_rx *link)
{
    (void)link;
    return false;
}

void *link_no_advertised_at(struct link_tx *link, size_t bytes)
{
    (void)link, (void)bytes;
    assert(!"links of this kind do not advertise");
    return NULL;
}

void link_no_written(struct link_tx *link, size_t bytes)
{
    (void)link, (void)bytes;
    assert(!"links of this kind do not advertise");
}

bool link_no_refer(struct link_tx *link, const void *address, size_t bytes,
                   struct link_reference *reference)
{
    (void)link, (void)address, (void)bytes, (void)reference;
    assert(!"links of this kind do not refer");
    return false;
}

void link_no_forward(struct link_rx *link, struct link_tx *const *targets, unsigned count)
{
    (void)link, (void)targets, (void)count;
    assert(!"links of this kind do not share");
}

void link_no_advertise(struct link_rx *link, void *destination, size_t bytes)
{
    (void)link, (void)destination, (void)bytes;
    assert(!"links of this kind do not advertise");
}

void link_no_place_directly(struct link_rx *link, void *destination, size_t bytes)
{
    (void)link, (void)destination, (void)bytes;
    assert(!"nothing lands on links of this kind");
}

enum link_state link_no_copy(struct link_rx *link, const struct link_reference *reference,
                             size_t offset, void *destination, size_t bytes)
{
    (void)link, (void)reference, (void)offset, (void)destination, (void)bytes;
    assert(!"links of this kind do not refer");
    return LINK_FAULT;
}

enum tutti_status transport_no_multicast_tx(struct transport *transport, int slot, int channel,
                                            int group, size_t bytes, struct link_tx **link)
{
    (void)transport, (void)slot, (void)channel, (void)group, (void)bytes, (void)link;
    return error_set(TUTTI_UNSUPPORTED, "these links go to one rank each");
}

enum tutti_status transport_no_multicast_rx(struct transport *transport, int slot, int channel,
                                            int group, int peer, struct link_rx **link)
{
    (void)transport, (void)slot, (void)channel, (void)group, (void)peer, (void)link;
    return error_set(TUTTI_UNSUPPORTED, "these links go to one rank each");
}

enum tutti_status transport_no_shared_slots(struct transport *transport, int slot)
{
    (void)transport, (void)slot;
    return error_set(TUTTI_UNSUPPORTED, "these links share nothing");
}

void *transport_no_reserve_shared(struct transport *transport, int slot, size_t bytes)
{
    (void)transport, (void)slot, (void)bytes;
    assert(!"links of this kind do not share");
    return NULL;
}

void transport_no_send_shared(struct transport *transport, int slot, struct link_tx *const *links,
                              unsigned count, size_t bytes)
{
    (void)transport, (void)slot, (void)links, (void)count, (void)bytes;
    assert(!"links of this kind do not share");
}

const struct sharing_ops transport_shares_nothing = {.open_multicast_tx = transport_no_multicast_tx,
                                                     .open_multicast_rx = transport_no_multicast_rx,
                                                     .open_shared_slots = transport_no_shared_slots,
                                                     .reserve_shared = transport_no_reserve_shared,
                                                     .send_shared = transport_no_send_shared};

void transport_no_flush(struct transport *transport)
{
    (void)transport;
}

bool transport_not_awaited(const struct transport *transport)
{
    (void)transport;
    return false;
}

bool transport_owes_nothing(const struct transport *transport, int peer)
{
    (void)transport, (void)peer;
    return true;
}

bool transport_stops_nothing(struct transport *transport)
{
    (void)transport;
    return false;
}

int transport_no_corrupt_rank(const struct transport *transport)
{
    (void)transport;
    return -1;
}

enum tutti_status transport_no_shortage(const struct transport *transport, uint64_t now_ns,
                                        int *peer)
{
    (void)transport, (void)now_ns, (void)peer;
    return TUTTI_OK;
}

void transport_no_footprint(const struct transport *transport, struct transport_footprint *sum)
{
    (void)transport, (void)sum;
}

bool transport_no_progress(struct transport *transport)
{
    (void)transport;
    return false;
}

int transport_no_descriptor(struct transport *transport)
{
    (void)transport;
    return -1;
}

void transport_no_sleeper(struct transport *transport)
{
    (void)transport;
}

void transport_no_sleep(struct transport *transport, uint64_t timeout_ns)
{
    (void)transport, (void)timeout_ns;
}
