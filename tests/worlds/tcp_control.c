#include "tests/worlds/tcp_control.h"

#include "base/status.h"
#include "transport/tcp/tcp.h"

static struct transport *tcp_of(const struct control *control)
{
    return ((const struct tcp_control *)control)->tcp;
}

static enum tutti_status tell(struct control *control, int peer, const void *message, size_t bytes)
{
    return tcp_tell(tcp_of(control), peer, message, bytes);
}

static enum tutti_status tell_final(struct control *control, int peer, const void *message,
                                    size_t bytes)
{
    return tcp_tell_final(tcp_of(control), peer, message, bytes);
}

static unsigned unheard(const struct control *control, int peer)
{
    return tcp_unheard_control(tcp_of(control), peer);
}

static bool is_settled(const struct control *control, int peer)
{
    return tcp_is_settled(tcp_of(control), peer);
}

static void report(const struct control *control, int peer, struct peer_report *of_peer)
{
    tcp_report(tcp_of(control), peer, of_peer);
}

static uint64_t answered_ns(const struct control *control, int peer)
{
    return tcp_answered_ns(tcp_of(control), peer);
}

static enum peer_presence look(struct control *control, int peer, uint64_t now_ns)
{
    (void)control, (void)peer, (void)now_ns;
    return PEER_PRESENT;
}

static bool trouble(const struct control *control, int peer, char text[CONTROL_TROUBLE_MAX])
{
    (void)control, (void)peer;
    text[0] = '\0';
    return false;
}

static enum tutti_status connect_nobody(struct control *control, int peer)
{
    (void)control, (void)peer;
    return TUTTI_UNSUPPORTED;
}

static bool is_connecting(const struct control *control)
{
    (void)control;
    return false;
}

static enum tutti_status check(const struct control *control)
{
    (void)control;
    return TUTTI_OK;
}

static void forget(struct control *control, int peer)
{
    (void)control, (void)peer;
}

static const struct control_ops ops = {.tell = tell,
                                       .tell_final = tell_final,
                                       .unheard = unheard,
                                       .is_settled = is_settled,
                                       .report = report,
                                       .answered_ns = answered_ns,
                                       .look = look,
                                       .trouble = trouble,
                                       .connect = connect_nobody,
                                       .is_connecting = is_connecting,
                                       .check = check,
                                       .forget = forget};

void tcp_control_init(struct tcp_control *control, struct transport *tcp)
{
    *control = (struct tcp_control){.base = {.ops = &ops, .rank = tcp->rank, .size = tcp->size},
                                    .tcp = tcp};
}
