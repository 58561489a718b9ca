#include "transport/transport.h"

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
