#include "transport/tcp/rails.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/held.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/status.h"
#include "os/clock.h"
#include "transport/tcp/endpoint_state.h"
#include "transport/tcp/tcp.h"

/* The transport's own connections all go by the first card; the further connections have the
 * numbers behind them. */
enum { FIRST_STREAM = TCP_STREAMS_DEFAULT };
static_assert(FIRST_STREAM + RAILS_FURTHER_MAX <= TCP_STREAMS_MAX, "a connection for each card");

enum {
    PORT_NS = 1000000,      /* between looks at the port while a connection is wanted */
    SILENCE_NS = 200000000, /* between looks for connections on which nothing is answered */
    PATIENCE_S = 5,         /* of a first attempt; without success there is no rail */
    RETURN_S = 1,           /* of an attempt after a loss: pieces under way wait for it */
    BREAKS_MAX = 3,         /* in a row, of connections that do not last */
    ASK_NS = 50000000,      /* until the higher rank is asked, and then again */
    REASK_NS = 1000000000,
    PAUSE_NS_MIN = 50000000, /* between attempts where connections do not last: doubled each time */
};
static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t AGAIN_NS = 10000000000u; /* after an attempt in vain, when nothing was lost */
static const uint64_t HOME_NS = 30000000000u;  /* from a detour back to its own card */
static const uint64_t LASTING_NS = 2000000000u; /* it lasts if it was there so long */

struct rail {
    bool is_wanted, is_there;
    bool was_there;   /* once: pieces may have been lost on it */
    bool goes_around; /* by the first card: the next attempt, or the one under way */
    bool is_around;   /* the connection that is there */
    bool is_warned_of;
    uint64_t next_ns;    /* to connect, or to ask the peer to, at the earliest */
    uint64_t pause_ns;   /* before the next attempt after a loss */
    uint64_t there_ns;   /* since when */
    uint64_t attempt_ns; /* an attempt is under way until then; 0: none is */
    unsigned breaks;     /* in a row, soon after it was made */
};

struct rails_peer {
    bool has_met, owes_note;
    struct rails_addresses heard;
    struct rail rails[RAILS_FURTHER_MAX];
};

struct rails {
    struct endpoint *endpoint;
    struct rails_addresses own; /* those behind the first */
    uint64_t next_ns;           /* nothing is to be done before */
    struct log_limit nonsense;  /* addresses that make none */
    uint64_t silence_ns;        /* the next look */
    struct rank_map peers;      /* of struct rails_peer */
};

static bool any_is_remote(const struct endpoint *endpoint)
{
    struct remote_location is_at;
    for (int r = 0; r < endpoint->base.size; r++) {
        endpoint->locates(endpoint->context, r, &is_at);
        if (is_at.is_remote) return true;
    }
    return false;
}

/* A peer for which rails_know was called. */
static struct rails_peer *peer_of(const struct rails *rails, int peer)
{
    struct rails_peer *const about = rank_map_find(&rails->peers, peer);
    assert(about != NULL);
    return about;
}

enum tutti_status rails_create(struct endpoint *endpoint, const struct net_address *own,
                               unsigned own_count, struct rails **rails)
{
    *rails = NULL;
    if (own_count <= 1 || !any_is_remote(endpoint)) return TUTTI_OK;
    struct rails *const new = calloc(1, sizeof *new);
    if (new == NULL || !rank_map_init(&new->peers, endpoint->base.size)) {
        free(new);
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    }
    new->endpoint = endpoint;
    new->own.count = own_count - 1;
    memcpy(new->own.addresses, own + 1, new->own.count * sizeof *own);
    new->next_ns = UINT64_MAX;
    *rails = new;
    return TUTTI_OK;
}

void rails_free(struct rails *rails)
{
    if (rails == NULL) return;
    void *about;
    for (int at = 0; (about = rank_map_next(&rails->peers, &at)) != NULL;) free(about);
    rank_map_release(&rails->peers);
    free(rails);
}

size_t rails_bytes(const struct rails *rails)
{
    if (rails == NULL) return 0;
    const void *about;
    size_t bytes = held(rails) + rank_map_bytes(&rails->peers);
    for (int at = 0; (about = rank_map_next(&rails->peers, &at)) != NULL;) bytes += held(about);
    return bytes;
}

enum tutti_status rails_know(struct rails *rails, int peer)
{
    if (rails == NULL || rank_map_get(&rails->peers, peer, sizeof(struct rails_peer)) != NULL)
        return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
}

unsigned rails_stream_count(const struct rails *rails)
{
    return FIRST_STREAM + (rails != NULL ? rails->own.count : 0);
}

static struct rail *rail_of(struct rails *rails, int peer, unsigned stream)
{
    if (rails == NULL || stream < FIRST_STREAM) return NULL;
    return &peer_of(rails, peer)->rails[stream - FIRST_STREAM];
}

static void soon(struct rails *rails, uint64_t when_ns)
{
    if (when_ns < rails->next_ns) rails->next_ns = when_ns;
}

static bool connects_to(const struct rails *rails, int peer)
{
    return peer < rails->endpoint->base.rank;
}

static void warn(struct rails *rails, int peer, unsigned number, const char *why)
{
    struct endpoint *const endpoint = rails->endpoint;
    struct rail *const rail = &peer_of(rails, peer)->rails[number];
    struct peer_report report;
    tcp_report(endpoint->tcp, peer, &report);
    if (report.state != PEER_UP || endpoint_peer_of(endpoint, peer)->is_forgotten)
        return; /* there is no rail at all, and it is known why */
    char who[128], own[NET_ADDRESS_TEXT_MAX], other[NET_ADDRESS_TEXT_MAX];
    endpoint->names(endpoint->context, peer, who, sizeof who);
    net_address_print_host(&rails->own.addresses[number],
                           own); /* its port number is the listener's */
    net_address_print(&peer_of(rails, peer)->heard.addresses[number], other);
    log_write(rail->is_warned_of ? LOG_INFO : LOG_WARN,
              "%s: no connection by rail %u from %s to %s (%.160s); data goes by other rails", who,
              number + 1, own, other, why);
    rail->is_warned_of = true;
}

/* --------------------------------------------------------------------------------- what happens */

bool rails_want(struct rails *rails, int peer, unsigned stream)
{
    struct rail *const rail = rail_of(rails, peer, stream);
    if (rail == NULL) return false;
    const uint64_t now = clock_now_ns();
    if (rail->is_there && now - rail->there_ns >= LASTING_NS)
        rail->pause_ns = rail->breaks = 0;
    else if (rail->is_there)
        rail->breaks++;
    rail->is_wanted = true;
    rail->is_there = false;
    rail->next_ns = now + rail->pause_ns + (connects_to(rails, peer) ? 0 : ASK_NS);
    rail->pause_ns = rail->pause_ns == 0 ? PAUSE_NS_MIN : 2 * rail->pause_ns;
    if (rail->pause_ns > AGAIN_NS) rail->pause_ns = AGAIN_NS;
    soon(rails, rail->next_ns);
    return true;
}

static void arrived(struct rails *rails, int peer, unsigned number)
{
    struct rail *const rail = &peer_of(rails, peer)->rails[number];
    const uint64_t now = clock_now_ns();
    rail->is_wanted = false;
    rail->is_there = rail->was_there = true;
    rail->there_ns = now;
    rail->attempt_ns = 0;
    rail->is_around = rail->goes_around;
    rail->goes_around = false;
    if (rail->breaks == BREAKS_MAX)
        warn(rails, peer, number, "it was closed soon, again and again");
    if (!connects_to(rails, peer) || !rail->is_around) return;
    rail->next_ns = now + HOME_NS;
    soon(rails, rail->next_ns);
}

static void asked_for(struct rails *rails, struct rail *rail)
{
    if (rail->is_wanted || rail->attempt_ns != 0) return;
    rail->is_wanted = true;
    rail->next_ns = clock_now_ns();
    soon(rails, rail->next_ns);
}

static void not_reached(struct rails *rails, int peer, unsigned number)
{
    struct rail *const rail = &peer_of(rails, peer)->rails[number];
    const uint64_t now = clock_now_ns();
    const bool went_around = rail->goes_around;
    rail->attempt_ns = 0;
    rail->goes_around = rail->is_wanted && rail->was_there && !went_around;
    rail->next_ns = now + (rail->goes_around  ? 0
                           : !rail->is_wanted ? HOME_NS
                           : rail->was_there  ? SECOND_NS
                                              : AGAIN_NS);
    soon(rails, rail->next_ns);
    if (!went_around) warn(rails, peer, number, tutti_error_message());
}

bool rails_take(struct rails *rails, int peer, unsigned stream, int fd)
{
    struct rail *const rail = rail_of(rails, peer, stream);
    if (rail == NULL) return false;
    if (fd >= 0)
        arrived(rails, peer, stream - FIRST_STREAM);
    else if (fd == PORT_CALLBACK)
        asked_for(rails, rail);
    else
        not_reached(rails, peer, stream - FIRST_STREAM);
    return true;
}

void rails_lose(struct rails *rails, int peer, unsigned stream)
{
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    if (rails_want(rails, peer, stream)) warn(rails, peer, stream - FIRST_STREAM, why);
}

void rails_meet(struct rails *rails, int peer)
{
    if (rails == NULL || !endpoint_peer_of(rails->endpoint, peer)->is_at.is_remote) return;
    struct rails_peer *const about = peer_of(rails, peer);
    if (about->has_met) return;
    about->has_met = about->owes_note = true;
    soon(rails, 0);
}

static bool is_port(const struct net_address *address)
{
    return (address->family == AF_INET || address->family == AF_INET6) && address->port != 0 &&
           address->scope == 0;
}

static bool makes_sense(const struct rails_addresses *heard)
{
    if (heard->count < 1 || heard->count > RAILS_FURTHER_MAX) return false;
    for (uint32_t i = 0; i < heard->count; i++)
        if (!is_port(&heard->addresses[i])) return false;
    return true;
}

void rails_hear(struct rails *rails, int peer, const void *message, size_t bytes)
{
    struct rails_message said;
    if (rails == NULL || !endpoint_peer_of(rails->endpoint, peer)->is_at.is_remote ||
        bytes != sizeof said)
        return;
    memcpy(&said, message, sizeof said);
    const struct rails_addresses *const heard = &said.rails;
    struct rails_peer *const about = peer_of(rails, peer);
    if (!makes_sense(heard)) {
        char more[LOG_LIMIT_TEXT_SIZE];
        if (log_limit_allows(&rails->nonsense, clock_now_ns(), more))
            log_write(LOG_WARN, "rank %d: what it says of its network cards makes no sense%s", peer,
                      more);
        return;
    }
    about->heard = *heard;
    if (about->heard.count > rails->own.count) about->heard.count = rails->own.count;
    /* A rank that was connected because the peer wanted it has not asked for these by itself. */
    for (unsigned i = 0; i < about->heard.count; i++)
        about->rails[i].is_wanted |= !about->rails[i].is_there;
    soon(rails, 0);
}

/* --------------------------------------------------------------------------------- what is done */

/* An address that this host has, too (such as a bridge's, which every host has) leads here and not
 * to the peer. */
static bool leads_there(const struct rails *rails, const struct rails_peer *about, unsigned number)
{
    const struct net_address *own = &rails->own.addresses[number],
                             *other = &about->heard.addresses[number];
    return own->family == other->family && !net_address_same_host(own, other);
}

static void attempt(struct rails *rails, int peer, unsigned number, uint64_t now)
{
    struct endpoint *const endpoint = rails->endpoint;
    struct rails_peer *const about = peer_of(rails, peer);
    struct rail *const rail = &about->rails[number];
    const bool around = rail->goes_around;
    struct net_address from = rails->own.addresses[number];
    from.port = 0; /* any, not the listener's */
    const uint64_t patience_ns =
        SECOND_NS * (rail->was_there && rail->is_wanted && !around ? RETURN_S : PATIENCE_S);
    rail->attempt_ns = now + patience_ns + SECOND_NS;
    if (port_connect_from(&endpoint->client, peer, FIRST_STREAM + number, around ? NULL : &from,
                          around ? &endpoint_peer_of(endpoint, peer)->is_at.port
                                 : &about->heard.addresses[number],
                          now + patience_ns) != TUTTI_OK)
        not_reached(rails, peer, number);
}

/* Does what this rail needs now; returns when it next needs something. */
static uint64_t move(struct rails *rails, int peer, unsigned number, uint64_t now)
{
    struct endpoint *const endpoint = rails->endpoint;
    struct rails_peer *const about = peer_of(rails, peer);
    struct rail *const rail = &about->rails[number];
    const bool connects = connects_to(rails, peer);
    const bool comes_home = connects && rail->is_there && rail->is_around;
    if ((!rail->is_wanted && !comes_home) || !leads_there(rails, about, number)) return UINT64_MAX;
    if (!connects && !rail->was_there) return now + PORT_NS; /* the peer connects by itself */
    if (now >= rail->attempt_ns) rail->attempt_ns = 0;
    if (rail->attempt_ns != 0) return now + PORT_NS;
    if (now < rail->next_ns) return rail->next_ns;
    if (connects) {
        attempt(rails, peer, number, now);
    } else {
        rail->next_ns = now + REASK_NS;
        (void)port_request_callback(&endpoint->client, peer, FIRST_STREAM + number,
                                    &endpoint_peer_of(endpoint, peer)->is_at.port);
    }
    return now + PORT_NS;
}

static bool tell(struct endpoint *endpoint, int peer, const struct rails_addresses *own)
{
    const struct rails_message message = {.kind = CONTROL_KIND_OWN, .rails = *own};
    return tcp_tell(endpoint->tcp, peer, &message, sizeof message) == TUTTI_OK;
}

/* Tells a peer that is there our addresses if it lacks them, and does what all rails to it need. */
static void move_all(struct rails *rails, int peer, uint64_t now)
{
    struct rails_peer *const about = peer_of(rails, peer);
    if (about->owes_note) {
        about->owes_note = !tell(rails->endpoint, peer, &rails->own);
        if (about->owes_note) soon(rails, now + PORT_NS);
    }
    for (unsigned i = 0; i < about->heard.count; i++) soon(rails, move(rails, peer, i, now));
}

void rails_progress(struct rails *rails, uint64_t now_ns)
{
    struct endpoint *const endpoint = rails->endpoint;
    if (now_ns >= rails->silence_ns) {
        rails->silence_ns = now_ns + SILENCE_NS;
        tcp_give_up_silent(endpoint->tcp, FIRST_STREAM);
    }
    if (now_ns < rails->next_ns || endpoint->is_stopped) return;
    rails->next_ns = UINT64_MAX;
    const struct endpoint_peer *about;
    for (int at = 0; (about = rank_map_next(&endpoint->peers, &at)) != NULL;)
        if (about->is_at.is_remote && !about->is_forgotten) move_all(rails, at - 1, now_ns);
    if (rails->next_ns != UINT64_MAX) port_progress(now_ns);
}
