#include "transport/tcp/gone.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "os/tcp_socket.h"
#include "transport/tcp/endpoint_state.h"

enum {
    PROBE_NS = 30000000,
    REFUSALS = 10 /* a firewall that was told to reset connections refuses for a moment, too */
};
static const uint64_t LOST_NS = 30000000000u;
/* The time that a rank may take to connect after it was asked to. */
static const uint64_t LATE_NS = 300000000u;

void gone_init(struct gone *gone)
{
    *gone = (struct gone){.probe_fd = -1};
}

void gone_release(struct gone *gone)
{
    if (gone->probe_fd >= 0) close(gone->probe_fd);
    gone->probe_fd = -1;
}

/* One look at whether a process listens at the peer's port; if one does, the port is probed again
 * later. */
static void probe(struct gone *gone, const struct net_address *port, uint64_t now_ns)
{
    enum tutti_status status = TUTTI_OK;
    if (gone->probe_fd < 0) {
        if (now_ns - gone->probed_ns < PROBE_NS) return;
        gone->probed_ns = now_ns;
        status = tcp_connect_start(port, NULL, &gone->probe_fd);
    }
    if (status == TUTTI_OK) status = tcp_connect_test(gone->probe_fd, port);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status == TUTTI_PROC_FAILED && errno == ECONNREFUSED)
        gone->refusals++;
    else if (status == TUTTI_OK)
        gone->refusals = 0;
    gone_release(gone);
}

/* Whether the peer's connections were lost and it has not been heard on new ones. *is_lost: there
 * are none. */
static bool is_doubtful(const struct peer_report *report, const struct endpoint_peer *about,
                        uint64_t now_ns, bool *is_lost)
{
    const struct gone *const gone = &about->gone;
    const bool is_asked = report->state == PEER_UNUSED && about->asked_ns != 0;
    const bool is_late = (report->state == PEER_WANTED && now_ns > report->since_ns + LATE_NS) ||
                         (is_asked && now_ns > about->asked_ns + LATE_NS);
    /* A connection on which nothing was heard since the loss may lead to another process, which
     * closes it. */
    const bool is_unheard =
        report->state == PEER_UP && gone->lost_ns != 0 && report->heard_ns < gone->lost_ns;
    *is_lost = report->state == PEER_LOST;
    return *is_lost || is_late || is_unheard;
}

enum peer_presence gone_look(struct endpoint *endpoint, int peer, uint64_t now_ns)
{
    struct endpoint_peer *about = endpoint_peer_of(endpoint, peer);
    struct peer_report report;
    bool is_lost;
    if (about == NULL) return PEER_PRESENT; /* nothing was tried that could tell */
    struct gone *gone = &about->gone;
    if (gone->presence != PEER_PRESENT) return gone->presence;
    tcp_report(endpoint->tcp, peer, &report);
    if (!is_doubtful(&report, about, now_ns, &is_lost)) {
        gone->lost_ns = 0;
        gone->refusals = 0;
        gone_release(gone);
        return PEER_PRESENT;
    }
    if (gone->lost_ns == 0) gone->lost_ns = now_ns;
    probe(gone, &about->is_at.port, now_ns);
    /* The peer's process would have the port if it lived. */
    const bool is_replaced = port_foreign_answers(&endpoint->client, peer) >= REFUSALS;
    if (is_replaced || gone->refusals >= REFUSALS)
        gone->presence = PEER_ENDED;
    else if (is_lost && now_ns - gone->lost_ns > LOST_NS)
        gone->presence = PEER_VANISHED;
    if (gone->presence == PEER_PRESENT) return PEER_PRESENT;
    gone_release(gone); /* it is not probed again */
    log_write(LOG_INFO, "rank %d: there are no connections to rank %d, and %s", endpoint->base.rank,
              peer,
              is_replaced                    ? "somebody else has its port"
              : gone->presence == PEER_ENDED ? "its host refuses new ones"
                                             : "no new one came about for 30 s");
    return gone->presence;
}
