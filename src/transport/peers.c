#include "transport/peers.h"

#include "base/status.h"
#include "transport/transport.h"

static enum tutti_status tell_unsupported(struct transport *transport, int peer,
                                          const void *message, size_t bytes)
{
    (void)message, (void)bytes;
    return error_set(TUTTI_UNSUPPORTED, "rank %d: rank %d takes no control messages here",
                     transport->rank, peer);
}

static unsigned none_unheard(const struct transport *transport, int peer)
{
    (void)transport, (void)peer;
    return 0;
}

static void report_up(const struct transport *transport, int peer, struct peer_report *report)
{
    (void)transport, (void)peer;
    *report = (struct peer_report){.state = PEER_UP};
}

static uint64_t answered_never(const struct transport *transport, int peer)
{
    (void)transport, (void)peer;
    return 0;
}

enum peer_presence peers_look_present(struct transport *transport, int peer, uint64_t now_ns)
{
    (void)transport, (void)peer, (void)now_ns;
    return PEER_PRESENT;
}

bool peers_no_trouble(const struct transport *transport, int peer, char text[PEERS_TROUBLE_MAX])
{
    (void)transport, (void)peer;
    text[0] = '\0';
    return false;
}

enum tutti_status peers_connect_unsupported(struct transport *transport, int peer)
{
    return error_set(TUTTI_UNSUPPORTED, "rank %d: connections to rank %d are made by somebody else",
                     transport->rank, peer);
}

static enum tutti_status connect_nothing(struct transport *transport, int peer)
{
    (void)transport, (void)peer;
    return TUTTI_OK;
}

bool peers_not_connecting(const struct transport *transport)
{
    (void)transport;
    return false;
}

enum tutti_status peers_check_ok(const struct transport *transport)
{
    (void)transport;
    return TUTTI_OK;
}

void peers_forget_nothing(struct transport *transport, int peer)
{
    (void)transport, (void)peer;
}

static bool nobody_awaits(const struct transport *transport)
{
    (void)transport;
    return false;
}

static bool is_finished(struct transport *transport)
{
    (void)transport;
    return true;
}

static bool is_settled(const struct transport *transport, int peer)
{
    (void)transport, (void)peer;
    return true;
}

static bool is_owed_nothing(const struct transport *transport, int peer)
{
    (void)transport, (void)peer;
    return false;
}

static bool stop_nothing(struct transport *transport)
{
    (void)transport;
    return false;
}

const struct peer_ops transport_peers_in_memory = {.tell = tell_unsupported,
                                                   .tell_final = tell_unsupported,
                                                   .unheard = none_unheard,
                                                   .report = report_up,
                                                   .answered_ns = answered_never,
                                                   .look = peers_look_present,
                                                   .trouble = peers_no_trouble,
                                                   .connect = connect_nothing,
                                                   .is_connecting = peers_not_connecting,
                                                   .check = peers_check_ok,
                                                   .forget = peers_forget_nothing,
                                                   .is_awaited = nobody_awaits,
                                                   .finish = is_finished,
                                                   .is_settled = is_settled,
                                                   .is_owed_data = is_owed_nothing,
                                                   .stop = stop_nothing};
