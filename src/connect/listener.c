#include "connect/listener.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "base/option.h"
#include "base/status.h"

enum {
    INCOMING_DEFAULT = 64,
    EVENTS_A_LOOK = 64,
    LOOKS_A_PASS = 4, /* bounds the work of a pass; the next pass sees the rest */
    ACCEPTS_A_LOOK = 64,
    STARVED_PAUSE_NS = 100000000 /* without accepting, when the system has no descriptors */
};

/* A place of the table of incoming connections. READY: it is accepted, or its peer does not fit,
 * and listener_take has not taken it. */
enum incoming_state { INCOMING_ABSENT, INCOMING_HANDSHAKE, INCOMING_READY };
struct incoming {
    struct loop_entry entry;
    enum incoming_state state;
    uint64_t number; /* in the order in which they came */
    uint64_t came_ns;
    struct handshake handshake;
};

struct listener {
    struct handshake_loop loop;
    struct connector_list connectors;
    int socket; /* -1: it only has connectors */
    struct loop_entry socket_entry;
    struct net_address address;
    struct listener_counts counts;
    bool is_accepting;  /* epoll watches the socket */
    uint64_t resume_ns; /* it accepts nothing before */
    uint64_t incoming_count;

    struct listener_counts logged; /* the counts that the log has */
    uint64_t log_ns;               /* the next line does not come before */
    char last_stray[CONNECTOR_TEXT_MAX];
    char last_refusal[CONNECTOR_TEXT_MAX]; /* see listener_refusal */
    uint64_t refusal_ns;

    unsigned incoming_max;
    struct incoming incoming[];
};

enum tutti_status listener_ports_read(uint16_t *first, uint16_t *last)
{
    const char *text = option_text(OPTION_PORT_RANGE);
    *first = *last = 0;
    if (text == NULL) return TUTTI_OK;
    unsigned low, high;
    int used = 0;
    const int count = sscanf(text, "%5u%n-%5u%n", &low, &used, &high, &used);
    if (count == 1) high = low;
    if (count < 1 || text[used] != '\0' || strpbrk(text, " +") != NULL || low < 1 || high < low ||
        high > UINT16_MAX)
        return option_refuse(OPTION_PORT_RANGE, text);
    *first = (uint16_t)low;
    *last = (uint16_t)high;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------- incoming connections */

static void set_accepting(struct listener *listener, bool accepts)
{
    if (listener->socket < 0 || listener->is_accepting == accepts) return;
    struct epoll_event event = {.events = accepts ? EPOLLIN : 0,
                                .data.ptr = &listener->socket_entry};
    if (epoll_ctl(listener->loop.epoll, EPOLL_CTL_MOD, listener->socket, &event) == 0)
        listener->is_accepting = accepts;
}

static void incoming_close(struct listener *listener, struct incoming *incoming)
{
    handshake_close(&listener->loop, &incoming->handshake);
    incoming->state = INCOMING_ABSENT;
}

/* Closes an incoming connection that was not accepted. The log will name the last of these. */
static void incoming_drop(struct listener *listener, struct incoming *incoming)
{
    char address[NET_ADDRESS_TEXT_MAX], why[HELLO_TEXT_MAX];
    net_address_print(&incoming->handshake.address, address);
    hello_explain(&incoming->handshake.hello, why);
    snprintf(listener->last_stray, sizeof listener->last_stray, "%s: %s", address, why);
    incoming_close(listener, incoming);
}

/* Acts on the outcome of the handshake, if it is over. */
static void incoming_settle(struct listener *listener, struct incoming *incoming, uint64_t now_ns)
{
    const struct hello *const hello = &incoming->handshake.hello;
    switch (hello->state) {
    case HELLO_GOING:
    case HELLO_SECURES: return;
    case HELLO_STRAY:
        listener->counts.strays++;
        incoming_drop(listener, incoming);
        return;
    case HELLO_DONE:
        listener->counts.accepted++;
        listener->loop.shortage.last_ns = 0;
        handshake_unwatch(&listener->loop, &incoming->handshake);
        incoming->state = INCOMING_READY;
        return;
    case HELLO_FAILED: break;
    }
    if (hello->status == TUTTI_VERSION || hello->status == TUTTI_INVALID_OPTIONS) {
        listener->counts.unfit++;
        handshake_close(&listener->loop, &incoming->handshake);
        incoming->state = INCOMING_READY;
        return;
    }
    listener->counts.auth_failed++;
    incoming_drop(listener, incoming);
    memcpy(listener->last_refusal, listener->last_stray, sizeof listener->last_refusal);
    listener->refusal_ns = now_ns;
}

static void incoming_progress(struct listener *listener, struct incoming *incoming, uint64_t now_ns)
{
    if (incoming->state != INCOMING_HANDSHAKE) return;
    handshake_progress(&listener->loop, &incoming->handshake, &incoming->entry, now_ns);
    incoming_settle(listener, incoming, now_ns);
}

/* The incoming connection that is closed when another comes; NULL: all are ready. */
static struct incoming *oldest_incoming(struct listener *listener)
{
    struct incoming *oldest = NULL;
    for (unsigned i = 0; i < listener->incoming_max; i++) {
        struct incoming *const incoming = &listener->incoming[i];
        if (incoming->state != INCOMING_HANDSHAKE) continue;
        const bool is_proven = incoming->handshake.hello.is_proven;
        const bool oldest_is_proven = oldest != NULL && oldest->handshake.hello.is_proven;
        if (oldest == NULL ||
            (is_proven == oldest_is_proven ? incoming->number < oldest->number : oldest_is_proven))
            oldest = incoming;
    }
    return oldest;
}

static void push_out(struct listener *listener)
{
    struct incoming *const incoming = oldest_incoming(listener);
    if (incoming == NULL) return;
    listener->counts.pushed_out++;
    incoming_close(listener, incoming);
}

static bool are_all_ready(const struct listener *listener)
{
    for (unsigned i = 0; i < listener->incoming_max; i++)
        if (listener->incoming[i].state != INCOMING_READY) return false;
    return true;
}

/* There is one, since not all are ready. */
static struct incoming *make_place(struct listener *listener)
{
    for (;;) {
        for (unsigned i = 0; i < listener->incoming_max; i++)
            if (listener->incoming[i].state == INCOMING_ABSENT) return &listener->incoming[i];
        push_out(listener);
    }
}

static void incoming_start(struct listener *listener, struct incoming *incoming, int fd,
                           const struct net_address *address, uint64_t now_ns)
{
    incoming->state = INCOMING_HANDSHAKE;
    incoming->number = listener->incoming_count++;
    incoming->came_ns = now_ns;
    incoming->handshake.socket = byte_stream_plain(fd);
    incoming->handshake.events = 0;
    incoming->handshake.address = *address;
    if (handshake_answer(&listener->loop, &incoming->handshake, now_ns))
        incoming_progress(listener, incoming, now_ns);
    else
        incoming_close(listener, incoming);
}

/* The system lets nobody in, mostly for want of a descriptor. The oldest handshake gives its own
 * back, unless it has just begun, and the listener accepts again in a moment. */
static void pause_accepting(struct listener *listener, enum tutti_status status, uint64_t now_ns)
{
    handshake_loop_lacks(&listener->loop, status, now_ns);
    listener->counts.starved++;
    const struct incoming *const oldest = oldest_incoming(listener);
    if (oldest != NULL && now_ns >= oldest->came_ns + STARVED_PAUSE_NS) push_out(listener);
    snprintf(listener->last_stray, sizeof listener->last_stray, "%s", listener->loop.shortage.why);
    listener->resume_ns = now_ns + STARVED_PAUSE_NS;
    set_accepting(listener, false);
    handshake_loop_wake_at(&listener->loop, listener->resume_ns);
}

static void accept_incoming(struct listener *listener, uint64_t now_ns)
{
    for (int i = 0; i < ACCEPTS_A_LOOK; i++) {
        struct net_address address;
        int fd;
        if (are_all_ready(listener)) { /* until one is taken */
            set_accepting(listener, false);
            return;
        }
        const enum tutti_status status = tcp_accept(listener->socket, &fd, &address);
        if (status == TUTTI_IN_PROGRESS) return;
        if (status != TUTTI_OK) {
            pause_accepting(listener, status, now_ns);
            return;
        }
        listener->counts.incoming++;
        incoming_start(listener, make_place(listener), fd, &address, now_ns);
    }
}

bool listener_take(struct listener *listener, struct accepted_connection *accepted)
{
    struct incoming *first = NULL;
    for (unsigned i = 0; i < listener->incoming_max; i++) {
        struct incoming *const incoming = &listener->incoming[i];
        if (incoming->state == INCOMING_READY && (first == NULL || incoming->number < first->number))
            first = incoming;
    }
    if (first == NULL) return false;
    handshake_fill(&first->handshake, accepted);
    incoming_close(listener, first);
    if (listener->resume_ns == 0) set_accepting(listener, true);
    return true;
}

/* ---------------------------------------------------------------------------- deadlines and log */

/* Moves all whose time may have come, and finds out when the next one's comes. */
static void keep_time(struct listener *listener, uint64_t now_ns)
{
    struct handshake_loop *const loop = &listener->loop;
    if (now_ns < loop->next_ns) return;
    loop->next_ns = UINT64_MAX;
    if (now_ns >= listener->resume_ns) {
        listener->resume_ns = 0;
        set_accepting(listener, true);
    } else {
        handshake_loop_wake_at(loop, listener->resume_ns);
    }
    for (unsigned i = 0; i < listener->incoming_max; i++) {
        struct incoming *const incoming = &listener->incoming[i];
        incoming_progress(listener, incoming, now_ns);
        if (incoming->state == INCOMING_HANDSHAKE)
            handshake_loop_wake_at(loop, incoming->handshake.hello.deadline_ns);
    }
    connector_list_progress(&listener->connectors, now_ns);
}

/* Connections that were pushed out alone are no warning: many ranks of this job connected at once,
 * and connect again. */
static void write_log(struct listener *listener, uint64_t now_ns)
{
    const struct listener_counts *const counts = &listener->counts;
    const struct listener_counts *const logged = &listener->logged;
    const uint64_t strays = counts->strays - logged->strays;
    const uint64_t pushed_out = counts->pushed_out - logged->pushed_out;
    const uint64_t auth_failed = counts->auth_failed - logged->auth_failed;
    const uint64_t starved = counts->starved - logged->starved;
    if (now_ns < listener->log_ns || strays + pushed_out + auth_failed + starved == 0) return;
    char address[NET_ADDRESS_TEXT_MAX];
    net_address_print(&listener->address, address);
    log_write(auth_failed + starved > 0 ? LOG_WARN : LOG_INFO,
              "%s: dropped %" PRIu64 " strays, %" PRIu64 " without this job's key, %" PRIu64
              " to make room; last: %s",
              address, strays, auth_failed, pushed_out,
              listener->last_stray[0] != '\0' ? listener->last_stray : "-");
    listener->logged = listener->counts;
    listener->log_ns = now_ns + LOG_LIMIT_NS;
}

/* ------------------------------------------------------------------------------------- listener */

static enum tutti_status open_descriptors(struct listener *listener,
                                          const struct listener_options *options)
{
    TRY(handshake_loop_open(&listener->loop, &options->self));
    if (options->address.family == AF_UNSPEC) return TUTTI_OK;
    TRY(tcp_listen_with(options->protocol, &options->address, options->port_last, &listener->socket,
                        &listener->address));
    TRY(handshake_loop_add(&listener->loop, listener->socket, &listener->socket_entry));
    listener->is_accepting = true;
    return TUTTI_OK;
}

enum tutti_status listener_open(const struct listener_options *options, struct listener **listener)
{
    const unsigned incoming_max =
        options->incoming_max == 0 ? INCOMING_DEFAULT : options->incoming_max;
    *listener = calloc(1, sizeof **listener + incoming_max * sizeof *(*listener)->incoming);
    if (*listener == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    struct listener *const new = *listener;
    new->socket = -1;
    new->socket_entry.kind = LOOP_SOCKET;
    new->connectors.loop = &new->loop;
    new->incoming_max = incoming_max;
    for (unsigned i = 0; i < incoming_max; i++) {
        new->incoming[i].entry.kind = LOOP_INCOMING;
        handshake_init(&new->incoming[i].handshake);
    }
    const enum tutti_status status = open_descriptors(new, options);
    if (status == TUTTI_OK) return TUTTI_OK;
    listener_close(new);
    *listener = NULL;
    return status;
}

enum tutti_status listener_encrypt(struct listener *listener)
{
    struct handshake_loop *const loop = &listener->loop;
    if (!loop->self.key.is_secret)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "encryption needs a secret that all ranks have and others do not: "
                         "set TUTTI_SECRET_FILE (or TUTTI_SECRET)");
    return loop->tls != NULL ? TUTTI_OK : tls_context_create(&loop->tls);
}

static void close_rest(struct listener *listener)
{
    if (listener->socket >= 0) close(listener->socket);
    handshake_loop_close(&listener->loop);
    free(listener);
}

void listener_close(struct listener *listener)
{
    if (listener == NULL) return;
    write_log(listener, UINT64_MAX);
    connector_list_log(&listener->connectors, UINT64_MAX);
    for (unsigned i = 0; i < listener->incoming_max; i++)
        handshake_close(&listener->loop, &listener->incoming[i].handshake);
    close_rest(listener);
}

/* Sockets are closed and not taken out of the epoll set: the parent goes on with it. */
void listener_forget(struct listener *listener)
{
    if (listener == NULL) return;
    for (unsigned i = 0; i < listener->incoming_max; i++)
        handshake_forget(&listener->incoming[i].handshake);
    connector_list_forget(&listener->connectors);
    close_rest(listener);
}

enum tutti_status listener_connect(struct listener *listener,
                                   const struct connector_options *options,
                                   struct connector **connector)
{
    return connector_create(&listener->connectors, options, connector);
}

void listener_address(const struct listener *listener, struct net_address *address)
{
    *address = listener->address;
}

int listener_descriptor(const struct listener *listener)
{
    return listener->loop.epoll;
}

enum tutti_status listener_starves(const struct listener *listener, uint64_t since_ns,
                                   uint64_t now_ns, uint64_t for_ns)
{
    return handshake_loop_starves(&listener->loop, since_ns, now_ns, for_ns);
}

bool listener_refusal(const struct listener *listener, uint64_t since_ns,
                      char text[CONNECTOR_TEXT_MAX])
{
    memcpy(text, listener->last_refusal, sizeof listener->last_refusal);
    return text[0] != '\0' && listener->refusal_ns >= since_ns;
}

void listener_count(const struct listener *listener, struct listener_counts *counts)
{
    *counts = listener->counts;
    counts->refused = listener->connectors.refused_count;
}

static void handle(struct listener *listener, struct loop_entry *entry, uint64_t now_ns)
{
    uint64_t expirations;
    switch (entry->kind) {
    case LOOP_SOCKET: accept_incoming(listener, now_ns); break;
    case LOOP_INCOMING: incoming_progress(listener, (struct incoming *)entry, now_ns); break;
    case LOOP_CONNECTOR: connector_handle(entry, now_ns); break;
    case LOOP_TIMER:
        /* Only the deadline that made it expire counts, and keep_time finds that. */
        if (read(listener->loop.timer, &expirations, sizeof expirations) > 0)
            listener->loop.timer_ns = UINT64_MAX;
        break;
    }
}

void listener_progress(struct listener *listener, uint64_t now_ns)
{
    keep_time(listener, now_ns);
    for (int look = 0; look < LOOKS_A_PASS; look++) {
        struct epoll_event events[EVENTS_A_LOOK];
        const int count = epoll_wait(listener->loop.epoll, events, EVENTS_A_LOOK, 0);
        for (int i = 0; i < count; i++) handle(listener, events[i].data.ptr, now_ns);
        if (count < EVENTS_A_LOOK) break;
    }
    write_log(listener, now_ns);
    connector_list_log(&listener->connectors, now_ns);
    handshake_loop_set_timer(&listener->loop);
}
