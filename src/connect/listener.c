#include "connect/listener.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/tls.h"

enum {
    INCOMING_DEFAULT = 64,
    EVENTS_A_LOOK = 64,
    LOOKS_A_PASS = 4, /* bound what one pass does; what is left is seen by the next one */
    ACCEPTS_A_LOOK = 64,
    PAUSE_NS_MIN = 5000000, /* between two attempts of a connector: doubled each time */
    PAUSE_NS_MAX = 250000000,
    STARVED_PAUSE_NS = 100000000,  /* without accepting, when the system has no descriptors */
    STARVED_APART_NS = 1000000000, /* at most, of those who try again and again */
    SILENT_NS = 1000000000         /* a connection that takes longer has no answer */
};
static const uint64_t LOG_EVERY_NS = 10000000000u;

/* What an event of epoll points to. */
enum entry_kind { ENTRY_SOCKET, ENTRY_TIMER, ENTRY_INCOMING, ENTRY_CONNECTOR };
struct entry {
    enum entry_kind kind;
};

struct handshake {
    struct channel channel;
    uint32_t events; /* that epoll looks for; 0: it does not know the socket */
    struct net_address address;
    struct hello hello;
};

enum incoming_state { INCOMING_ABSENT, INCOMING_HANDSHAKE, INCOMING_READY };
struct incoming {
    struct entry entry;
    enum incoming_state state;
    uint64_t number; /* in the order in which they came */
    struct handshake handshake;
};

enum connector_state {
    CONNECTOR_PAUSING,
    CONNECTOR_CONNECTING,
    CONNECTOR_HANDSHAKE,
    CONNECTOR_OVER,
    CONNECTOR_TAKEN
};
struct connector {
    struct entry entry;
    enum connector_state state;
    struct listener *listener;
    struct connector *previous, *next;
    struct connector_options call;
    struct net_address from;
    struct handshake handshake;
    uint64_t retry_ns, pause_ns;
    uint64_t connecting_ns; /* since when it has been */
    unsigned attempt_count;
    unsigned foreign_count; /* attempts in a row that met somebody else, see connector_foreign_answers */
    bool was_refused;       /* the last answer by one of us or a stranger was that */
    bool is_late;           /* it ended at its deadline */
    enum tutti_status status;
    char text[CONNECTOR_TEXT_MAX]; /* why the last attempt failed; "": none did */
    char refusal[HELLO_TEXT_MAX];  /* was_refused: in words */
};

struct listener {
    int epoll, timer, socket; /* socket -1: only connectors */
    struct entry socket_entry, timer_entry;
    struct net_address address;
    struct hello_self self;
    struct tls_context *tls; /* NULL: it cannot encrypt */
    struct listener_counts counts;
    bool is_accepting;                          /* epoll looks at the listener */
    uint64_t resume_ns;                         /* accepts nothing until then */
    uint64_t starved_first_ns, starved_last_ns; /* when it had to, and nobody arrived in between */
    uint64_t next_ns;  /* nothing has to be looked at for its deadline before */
    uint64_t timer_ns; /* what the timer is set to */
    uint64_t incoming_count;
    struct connector *connectors;

    struct listener_counts logged; /* what the log knows */
    uint64_t log_ns;               /* the next line not before */
    char last_stranger[NET_ADDRESS_TEXT_MAX + HELLO_TEXT_MAX + 8];
    uint64_t log_connectors_ns;
    char last_refusal[NET_ADDRESS_TEXT_MAX + HELLO_TEXT_MAX + 8];

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

/* ------------------------------------------------------------------------------------------ connections */

static void soon(struct listener *listener, uint64_t when_ns)
{
    if (when_ns < listener->next_ns) listener->next_ns = when_ns;
}

static void set_timer(struct listener *listener)
{
    if (listener->timer_ns == listener->next_ns) return;
    listener->timer_ns = listener->next_ns;
    const uint64_t when = listener->next_ns == UINT64_MAX ? 0
                          : listener->next_ns == 0        ? 1
                                                          : listener->next_ns;
    const struct itimerspec at = {
        .it_value = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)}};
    timerfd_settime(listener->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Tells epoll what to look for; false with errno. */
static bool watch(struct listener *listener, struct handshake *handshake, struct entry *entry,
                  uint32_t events)
{
    if (handshake->events == events) return true;
    const int what = handshake->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    struct epoll_event event = {.events = events, .data.ptr = entry};
    if (epoll_ctl(listener->epoll, what, handshake->channel.fd, &event) != 0) return false;
    handshake->events = events;
    return true;
}

static void unwatch(struct listener *listener, struct handshake *handshake)
{
    if (handshake->events != 0)
        epoll_ctl(listener->epoll, EPOLL_CTL_DEL, handshake->channel.fd, NULL);
    handshake->events = 0;
}

static void handshake_close(struct listener *listener, struct handshake *handshake)
{
    unwatch(listener, handshake);
    channel_close(&handshake->channel);
    hello_release(&handshake->hello);
}

/* Gives and takes what goes now. */
static void handshake_say_hello(struct handshake *handshake, uint64_t now_ns)
{
    struct hello *const hello = &handshake->hello;
    hello_tick(hello, now_ns);
    size_t done = 1;
    while (hello->state == HELLO_GOING && done > 0) {
        unsigned char in[HELLO_BYTES];
        const void *out;
        const size_t out_bytes = hello_gives(hello, &out);
        enum tutti_status status;
        if (out_bytes > 0) {
            status = tcp_write(handshake->channel.fd, out, out_bytes, &done);
            hello_given(hello, done);
        } else {
            status = tcp_read(handshake->channel.fd, in, hello_wants(hello), &done);
            hello_take(hello, in, done, now_ns);
        }
        if (status != TUTTI_OK) hello_leave(hello);
    }
}

static enum tutti_status start_tls(struct listener *listener, struct handshake *handshake)
{
    struct tls_options options = {.fd = handshake->channel.fd,
                                  .is_client = handshake->hello.is_caller,
                                  .records_a_key = TLS_RECORDS_A_KEY};
    if (listener->tls == NULL) return error_set(TUTTI_UNSUPPORTED, "nobody encrypts here");
    enum tutti_status status = hello_key(&handshake->hello, options.key);
    if (status == TUTTI_OK) status = tls_start(listener->tls, &options, &handshake->channel.tls);
    mac_wipe(&options, sizeof options);
    return status;
}

/* What comes after the hello where both sides encrypt. */
static void handshake_secure(struct listener *listener, struct handshake *handshake)
{
    enum tutti_status status = TUTTI_OK;
    if (handshake->channel.tls == NULL) status = start_tls(listener, handshake);
    if (status == TUTTI_OK) status = tls_handshake(handshake->channel.tls);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status == TUTTI_UNSUPPORTED || status == TUTTI_AUTH_FAILED)
        log_write(LOG_INFO, "%s", tutti_error_message());
    hello_secured(&handshake->hello, status == TUTTI_OK);
}

static bool handshake_progress(struct listener *listener, struct handshake *handshake,
                               struct entry *entry, uint64_t now_ns)
{
    const struct hello *const hello = &handshake->hello;
    const void *out;
    handshake_say_hello(handshake, now_ns);
    if (hello->state == HELLO_SECURES) handshake_secure(listener, handshake);
    if (hello->state != HELLO_GOING && hello->state != HELLO_SECURES) return true;
    const bool waits_for_room =
        hello_gives(hello, &out) > 0 || channel_has_output(&handshake->channel);
    return watch(listener, handshake, entry, waits_for_room ? EPOLLOUT : EPOLLIN);
}

static void fill_accepted(const struct handshake *handshake, struct accepted_connection *accepted)
{
    const struct hello *const hello = &handshake->hello;
    memset(accepted, 0, sizeof *accepted);
    accepted->status = hello->status;
    accepted->channel = hello->state == HELLO_DONE ? handshake->channel : channel_none();
    accepted->address = handshake->address;
    accepted->rank = hello->peer.rank;
    accepted->version = hello->version;
    accepted->purpose = hello->call.purpose;
    accepted->payload_bytes = hello->call.payload_bytes;
    memcpy(accepted->payload, hello->call.payload, hello->call.payload_bytes);
    if (hello->status != TUTTI_OK) hello_explain(hello, accepted->text);
}

static bool fresh_nonce(unsigned char nonce[HELLO_NONCE_BYTES])
{
    return getrandom(nonce, HELLO_NONCE_BYTES, 0) == HELLO_NONCE_BYTES;
}

/* ----------------------------------------------------------------------------------------------- incoming */

static void set_accepting(struct listener *listener, bool accepts)
{
    if (listener->socket < 0 || listener->is_accepting == accepts) return;
    struct epoll_event event = {.events = accepts ? EPOLLIN : 0,
                                .data.ptr = &listener->socket_entry};
    if (epoll_ctl(listener->epoll, EPOLL_CTL_MOD, listener->socket, &event) == 0)
        listener->is_accepting = accepts;
}

static void incoming_close(struct listener *listener, struct incoming *incoming)
{
    handshake_close(listener, &incoming->handshake);
    incoming->state = INCOMING_ABSENT;
}

static void note_stranger(struct listener *listener, const struct incoming *incoming)
{
    char address[NET_ADDRESS_TEXT_MAX], why[HELLO_TEXT_MAX];
    net_address_print(&incoming->handshake.address, address);
    hello_explain(&incoming->handshake.hello, why);
    snprintf(listener->last_stranger, sizeof listener->last_stranger, "%s: %s", address, why);
}

/* The hello is over, this way or the other. */
static void incoming_settle(struct listener *listener, struct incoming *incoming)
{
    const struct hello *const hello = &incoming->handshake.hello;
    switch (hello->state) {
    case HELLO_GOING:
    case HELLO_SECURES: return;
    case HELLO_STRAY:
        listener->counts.strays++;
        note_stranger(listener, incoming);
        incoming_close(listener, incoming);
        return;
    case HELLO_DONE:
        listener->counts.accepted++;
        listener->starved_last_ns = 0;
        unwatch(listener, &incoming->handshake);
        incoming->state = INCOMING_READY;
        return;
    case HELLO_FAILED: break;
    }
    if (hello->status == TUTTI_VERSION || hello->status == TUTTI_INVALID_OPTIONS) {
        listener->counts.unfit++;
        handshake_close(listener, &incoming->handshake);
        incoming->state = INCOMING_READY;
        return;
    }
    listener->counts.auth_failed++;
    note_stranger(listener, incoming);
    incoming_close(listener, incoming);
}

static void incoming_progress(struct listener *listener, struct incoming *incoming, uint64_t now_ns)
{
    if (incoming->state != INCOMING_HANDSHAKE) return;
    if (!handshake_progress(listener, &incoming->handshake, &incoming->entry, now_ns))
        hello_leave(&incoming->handshake.hello);
    incoming_settle(listener, incoming);
}

/* The one to go when another comes; NULL: all have arrived. */
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

static bool push_out(struct listener *listener)
{
    struct incoming *const incoming = oldest_incoming(listener);
    if (incoming == NULL) return false;
    listener->counts.pushed_out++;
    incoming_close(listener, incoming);
    return true;
}

static bool are_all_ready(const struct listener *listener)
{
    for (unsigned i = 0; i < listener->incoming_max; i++)
        if (listener->incoming[i].state != INCOMING_READY) return false;
    return true;
}

/* There is one, since not all have arrived. */
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
    unsigned char nonce[HELLO_NONCE_BYTES];
    incoming->state = INCOMING_HANDSHAKE;
    incoming->number = listener->incoming_count++;
    incoming->handshake.channel = channel_plain(fd);
    incoming->handshake.events = 0;
    incoming->handshake.address = *address;
    if (!fresh_nonce(nonce)) {
        incoming_close(listener, incoming);
        return;
    }
    hello_start_answer(&incoming->handshake.hello, &listener->self, nonce, now_ns);
    soon(listener, incoming->handshake.hello.deadline_ns);
    incoming_progress(listener, incoming, now_ns);
}

/* Whoever greets makes room for the next one; who accepts nothing now does so again in a moment. */
static void pause_accepting(struct listener *listener, uint64_t now_ns)
{
    listener->counts.starved++;
    if (now_ns > listener->starved_last_ns + STARVED_APART_NS) listener->starved_first_ns = now_ns;
    listener->starved_last_ns = now_ns;
    push_out(listener);
    snprintf(listener->last_stranger, sizeof listener->last_stranger, "%.200s",
             tutti_error_message());
    listener->resume_ns = now_ns + STARVED_PAUSE_NS;
    set_accepting(listener, false);
    soon(listener, listener->resume_ns);
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
            pause_accepting(listener, now_ns);
            return;
        }
        listener->counts.incoming++;
        incoming_start(listener, make_place(listener), fd, &address, now_ns);
    }
}

/* ----------------------------------------------------------------------------------------------- connectors */

static void connector_end(struct connector *connector, enum tutti_status status)
{
    connector->state = CONNECTOR_OVER;
    connector->status = status;
}

/* This attempt came to nothing; connector->text says why. */
static void connector_pause(struct connector *connector, uint64_t now_ns)
{
    handshake_close(connector->listener, &connector->handshake);
    connector->pause_ns = connector->pause_ns == 0 ? PAUSE_NS_MIN : connector->pause_ns * 2;
    if (connector->pause_ns > PAUSE_NS_MAX) connector->pause_ns = PAUSE_NS_MAX;
    /* Those who were sent away together do not come back together. */
    const unsigned char chance = connector->handshake.hello.nonce[0];
    connector->retry_ns = now_ns + connector->pause_ns + connector->pause_ns * chance / 256;
    connector->state = CONNECTOR_PAUSING;
    soon(connector->listener, connector->retry_ns);
}

static void connector_fail(struct connector *connector, enum tutti_status status, uint64_t now_ns)
{
    snprintf(connector->text, sizeof connector->text, "%.300s", tutti_error_message());
    if (status == TUTTI_PROC_FAILED) {
        connector_pause(connector, now_ns);
        return;
    }
    handshake_close(connector->listener, &connector->handshake);
    connector_end(connector, status);
}

static void connector_attempt(struct connector *connector, uint64_t now_ns)
{
    const struct net_address *from = connector->from.family == AF_UNSPEC ? NULL : &connector->from;
    connector->attempt_count++;
    connector->connecting_ns = clock_now_ns(); /* the first attempt is not told the time */
    connector->state = CONNECTOR_CONNECTING;
    enum tutti_status status =
        tcp_connect_start(&connector->call.address, from, &connector->handshake.channel.fd);
    if (status == TUTTI_OK &&
        !watch(connector->listener, &connector->handshake, &connector->entry, EPOLLOUT))
        status = error_system("watching a connection");
    if (status != TUTTI_OK) connector_fail(connector, status, now_ns);
}

/* Words of who has not shown the key: they may explain at the deadline why this came to nothing, and decide nothing before. */
static bool is_unproven(const struct hello *hello)
{
    return hello->state == HELLO_STRAY ||
           (hello->state == HELLO_FAILED && hello->status == TUTTI_AUTH_FAILED &&
            !hello->is_other_rank);
}

/* What an attempt that failed tells of who is there. */
static void note_answer(struct connector *connector, const char *why)
{
    const struct hello *const hello = &connector->handshake.hello;
    const bool is_refusal = hello->state == HELLO_FAILED && is_unproven(hello);
    if (is_refusal || hello->is_foreign)
        connector->foreign_count++;
    else if (hello->is_proven)
        connector->foreign_count = 0;
    if (is_refusal || hello->is_proven) connector->was_refused = is_refusal;
    if (!is_refusal) return;
    connector->listener->counts.refused++;
    snprintf(connector->refusal, sizeof connector->refusal, "%s", why);
    snprintf(connector->listener->last_refusal, sizeof connector->listener->last_refusal, "%s",
             connector->text);
}

/* The hello is over, this way or the other. */
static void connector_settle(struct connector *connector, uint64_t now_ns)
{
    const struct hello *const hello = &connector->handshake.hello;
    if (hello->state == HELLO_GOING || hello->state == HELLO_SECURES) return;
    char address[NET_ADDRESS_TEXT_MAX], why[HELLO_TEXT_MAX];
    net_address_print(&connector->call.address, address);
    hello_explain(hello, why);
    snprintf(connector->text, sizeof connector->text, "%s: %s", address, why);
    unwatch(connector->listener, &connector->handshake);
    if (hello->state == HELLO_DONE) {
        connector_end(connector, TUTTI_OK);
        return;
    }
    note_answer(connector, why);
    if (is_unproven(hello)) {
        connector_pause(connector, now_ns);
        return;
    }
    handshake_close(connector->listener, &connector->handshake);
    connector_end(connector, hello->status);
}

static void connector_greet(struct connector *connector, uint64_t now_ns)
{
    if (!handshake_progress(connector->listener, &connector->handshake, &connector->entry, now_ns))
        hello_leave(&connector->handshake.hello);
    connector_settle(connector, now_ns);
}

static void connector_check(struct connector *connector, uint64_t now_ns)
{
    const enum tutti_status status =
        tcp_connect_test(connector->handshake.channel.fd, &connector->call.address);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status != TUTTI_OK) {
        connector_fail(connector, status, now_ns);
        return;
    }
    unsigned char nonce[HELLO_NONCE_BYTES];
    if (!fresh_nonce(nonce)) {
        connector_fail(connector, error_system("getrandom"), now_ns);
        return;
    }
    connector->state = CONNECTOR_HANDSHAKE;
    connector->handshake.address = connector->call.address;
    struct hello_self self = connector->listener->self;
    if (connector->call.is_encrypted) self.configuration |= HELLO_ENCRYPTS;
    hello_start_call(&connector->handshake.hello, &self, &connector->call.hello, nonce, now_ns);
    mac_wipe(&self, sizeof self);
    soon(connector->listener, connector->handshake.hello.deadline_ns);
    connector_greet(connector, now_ns);
}

/* A connection that takes long has no error of its own: the error of an earlier one may not be true any more. */
static void note_silence(struct connector *connector, uint64_t now_ns)
{
    char address[NET_ADDRESS_TEXT_MAX];
    if (connector->state != CONNECTOR_CONNECTING || now_ns < connector->connecting_ns + SILENT_NS)
        return;
    net_address_print(&connector->call.address, address);
    snprintf(connector->text, sizeof connector->text, "connecting to %s: no answer", address);
}

static void connector_time_out(struct connector *connector, uint64_t now_ns)
{
    note_silence(connector, now_ns);
    handshake_close(connector->listener, &connector->handshake);
    connector->is_late = true;
    connector_end(connector, connector->was_refused ? TUTTI_AUTH_FAILED : TUTTI_INIT_TIMEOUT);
}

static void connector_progress(struct connector *connector, uint64_t now_ns)
{
    if (connector->state >= CONNECTOR_OVER) return;
    if (connector->state == CONNECTOR_PAUSING && now_ns >= connector->retry_ns)
        connector_attempt(connector, now_ns);
    if (connector->state == CONNECTOR_CONNECTING) connector_check(connector, now_ns);
    if (connector->state == CONNECTOR_HANDSHAKE) connector_greet(connector, now_ns);
    if (connector->state < CONNECTOR_OVER && now_ns >= connector->call.deadline_ns)
        connector_time_out(connector, now_ns);
}

enum tutti_status connector_create(struct listener *listener, const struct connector_options *call,
                                   struct connector **connector)
{
    *connector = calloc(1, sizeof **connector);
    if (*connector == NULL) return error_set(TUTTI_NO_MEMORY, "connecting: out of memory");
    struct connector *const new = *connector;
    new->entry.kind = ENTRY_CONNECTOR;
    new->listener = listener;
    new->call = *call;
    if (call->from != NULL) new->from = *call->from;
    new->call.from = NULL;
    new->handshake.channel = channel_none();
    new->next = listener->connectors;
    if (new->next != NULL) new->next->previous = new;
    listener->connectors = new;
    connector_attempt(new, 0);
    soon(listener, new->state == CONNECTOR_CONNECTING ? call->deadline_ns : 0);
    set_timer(listener);
    return TUTTI_OK;
}

static enum tutti_status report_timeout(const struct connector *connector)
{
    char address[NET_ADDRESS_TEXT_MAX];
    const char *last = connector->was_refused ? connector->refusal : connector->text;
    net_address_print(&connector->call.address, address);
    return error_set(connector->status, "%s: not let in until the deadline (attempt %u); %.200s",
                     address, connector->attempt_count, last[0] != '\0' ? last : "no answer");
}

bool connector_trouble(struct connector *connector, uint64_t now_ns, char text[CONNECTOR_TEXT_MAX])
{
    note_silence(connector, now_ns);
    memcpy(text, connector->text, sizeof connector->text);
    return text[0] != '\0';
}

enum tutti_status connector_test(struct connector *connector, struct accepted_connection *accepted)
{
    if (connector->state < CONNECTOR_OVER) return TUTTI_IN_PROGRESS;
    if (connector->is_late) return report_timeout(connector);
    if (connector->status != TUTTI_OK) return error_set(connector->status, "%s", connector->text);
    if (connector->state == CONNECTOR_TAKEN)
        return error_set(TUTTI_INVALID_REQUEST, "the connection was taken already");
    fill_accepted(&connector->handshake, accepted);
    connector->handshake.channel = channel_none();
    connector->state = CONNECTOR_TAKEN;
    return TUTTI_OK;
}

unsigned connector_foreign_answers(const struct connector *connector)
{
    return connector->foreign_count;
}

void connector_free(struct connector *connector)
{
    if (connector == NULL) return;
    handshake_close(connector->listener, &connector->handshake);
    if (connector->previous != NULL)
        connector->previous->next = connector->next;
    else
        connector->listener->connectors = connector->next;
    if (connector->next != NULL) connector->next->previous = connector->previous;
    free(connector);
}

/* ------------------------------------------------------------------------------------- deadlines and log */

/* Looks at everybody whose time may have come, and when the next one's comes. */
static void keep_time(struct listener *listener, uint64_t now_ns)
{
    if (now_ns < listener->next_ns) return;
    listener->next_ns = UINT64_MAX;
    if (now_ns >= listener->resume_ns) {
        listener->resume_ns = 0;
        set_accepting(listener, true);
    } else {
        soon(listener, listener->resume_ns);
    }
    for (unsigned i = 0; i < listener->incoming_max; i++) {
        struct incoming *const incoming = &listener->incoming[i];
        incoming_progress(listener, incoming, now_ns);
        if (incoming->state == INCOMING_HANDSHAKE)
            soon(listener, incoming->handshake.hello.deadline_ns);
    }
    for (struct connector *connector = listener->connectors; connector != NULL;
         connector = connector->next) {
        connector_progress(connector, now_ns);
        if (connector->state < CONNECTOR_OVER) soon(listener, connector->call.deadline_ns);
        if (connector->state == CONNECTOR_PAUSING) soon(listener, connector->retry_ns);
        if (connector->state == CONNECTOR_HANDSHAKE)
            soon(listener, connector->handshake.hello.deadline_ns);
    }
}

static void write_log_of_connectors(struct listener *listener, uint64_t now_ns)
{
    const uint64_t refused = listener->counts.refused - listener->logged.refused;
    if (now_ns < listener->log_connectors_ns || refused == 0) return;
    log_write(LOG_WARN,
              "%" PRIu64
              " connectors met somebody who does not show this job's key, and go on; last: %s",
              refused, listener->last_refusal);
    listener->logged.refused = listener->counts.refused;
    listener->log_connectors_ns = now_ns + LOG_EVERY_NS;
}

/* That some had to make room is nothing to worry about: many of this job's own came at once, and come again. */
static void write_log(struct listener *listener, uint64_t now_ns)
{
    const struct listener_counts *const counts = &listener->counts, *const logged =
                                                                        &listener->logged;
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
              listener->last_stranger[0] != '\0' ? listener->last_stranger : "-");
    const uint64_t refused_before = logged->refused;
    listener->logged = listener->counts;
    listener->logged.refused = refused_before;
    listener->log_ns = now_ns + LOG_EVERY_NS;
}

/* ------------------------------------------------------------------------------------------------- listener */

static enum tutti_status add_own(struct listener *listener, int fd, struct entry *entry)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = entry};
    if (epoll_ctl(listener->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return error_system("epoll for start-up");
    return TUTTI_OK;
}

static enum tutti_status open_descriptors(struct listener *listener,
                                          const struct listener_options *options)
{
    listener->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (listener->epoll < 0) return error_system("epoll for start-up");
    listener->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (listener->timer < 0) return error_system("a timer for start-up");
    TRY(add_own(listener, listener->timer, &listener->timer_entry));
    if (options->address.family == AF_UNSPEC) return TUTTI_OK;
    TRY(tcp_listen(&options->address, options->port_last, &listener->socket, &listener->address));
    TRY(add_own(listener, listener->socket, &listener->socket_entry));
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
    new->epoll = new->timer = new->socket = -1;
    new->socket_entry.kind = ENTRY_SOCKET;
    new->timer_entry.kind = ENTRY_TIMER;
    new->self = options->self;
    new->next_ns = new->timer_ns = UINT64_MAX;
    new->incoming_max = incoming_max;
    for (unsigned i = 0; i < incoming_max; i++) {
        new->incoming[i].entry.kind = ENTRY_INCOMING;
        new->incoming[i].handshake.channel = channel_none();
    }
    const enum tutti_status status = open_descriptors(new, options);
    if (status == TUTTI_OK) return TUTTI_OK;
    listener_close(new);
    *listener = NULL;
    return status;
}

enum tutti_status listener_encrypt(struct listener *listener)
{
    if (!listener->self.key.is_secret)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "encryption needs a secret that all ranks have and others do not: "
                         "set TUTTI_SECRET_FILE (or TUTTI_SECRET)");
    return listener->tls != NULL ? TUTTI_OK : tls_context_create(&listener->tls);
}

void listener_close(struct listener *listener)
{
    if (listener == NULL) return;
    write_log(listener, UINT64_MAX);
    write_log_of_connectors(listener, UINT64_MAX);
    for (unsigned i = 0; i < listener->incoming_max; i++)
        handshake_close(listener, &listener->incoming[i].handshake);
    if (listener->socket >= 0) close(listener->socket);
    if (listener->timer >= 0) close(listener->timer);
    if (listener->epoll >= 0) close(listener->epoll);
    tls_context_free(listener->tls);
    mac_wipe(&listener->self.key, sizeof listener->self.key);
    free(listener);
}

/* Descriptors are closed and not taken from epoll, which the parent goes on with. */
static void drop(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void listener_forget(struct listener *listener)
{
    if (listener == NULL) return;
    for (unsigned i = 0; i < listener->incoming_max; i++) {
        channel_close(&listener->incoming[i].handshake.channel);
        hello_release(&listener->incoming[i].handshake.hello);
    }
    for (struct connector *connector = listener->connectors; connector != NULL;
         connector = connector->next) {
        channel_close(&connector->handshake.channel);
        hello_release(&connector->handshake.hello);
    }
    drop(&listener->socket);
    drop(&listener->timer);
    drop(&listener->epoll);
    tls_context_free(listener->tls);
    mac_wipe(&listener->self.key, sizeof listener->self.key);
    free(listener);
}

void listener_address(const struct listener *listener, struct net_address *address)
{
    *address = listener->address;
}

int listener_descriptor(const struct listener *listener)
{
    return listener->epoll;
}

uint64_t listener_starved_ns(const struct listener *listener, uint64_t now_ns)
{
    const bool goes_on =
        listener->starved_last_ns != 0 && now_ns < listener->starved_last_ns + STARVED_APART_NS;
    return goes_on ? listener->starved_last_ns - listener->starved_first_ns : 0;
}

void listener_count(const struct listener *listener, struct listener_counts *counts)
{
    *counts = listener->counts;
}

static void handle(struct listener *listener, struct entry *entry, uint64_t now_ns)
{
    uint64_t expirations;
    switch (entry->kind) {
    case ENTRY_SOCKET: accept_incoming(listener, now_ns); break;
    case ENTRY_INCOMING: incoming_progress(listener, (struct incoming *)entry, now_ns); break;
    case ENTRY_CONNECTOR: connector_progress((struct connector *)entry, now_ns); break;
    case ENTRY_TIMER:
        /* Only what made it ring counts, and keep_time finds that. */
        if (read(listener->timer, &expirations, sizeof expirations) > 0)
            listener->timer_ns = UINT64_MAX;
        break;
    }
}

void listener_progress(struct listener *listener, uint64_t now_ns)
{
    keep_time(listener, now_ns);
    for (int look = 0; look < LOOKS_A_PASS; look++) {
        struct epoll_event events[EVENTS_A_LOOK];
        const int count = epoll_wait(listener->epoll, events, EVENTS_A_LOOK, 0);
        for (int i = 0; i < count; i++) handle(listener, events[i].data.ptr, now_ns);
        if (count < EVENTS_A_LOOK) break;
    }
    write_log(listener, now_ns);
    write_log_of_connectors(listener, now_ns);
    set_timer(listener);
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
    fill_accepted(&first->handshake, accepted);
    first->handshake.channel = channel_none();
    incoming_close(listener, first);
    if (listener->resume_ns == 0) set_accepting(listener, true);
    return true;
}
