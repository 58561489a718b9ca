#include "bootstrap/door.h"

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
    GUESTS_DEFAULT = 64,
    EVENTS_A_LOOK = 64,
    LOOKS_A_PASS = 4, /* bound what one pass does; what is left is seen by the next one */
    ACCEPTS_A_LOOK = 64,
    PAUSE_NS_MIN = 5000000, /* between two attempts of a visit: doubled each time */
    PAUSE_NS_MAX = 250000000,
    BREATH_NS = 100000000,         /* without accepting, when the system has no descriptors */
    STARVED_APART_NS = 1000000000, /* at most, of those who try again and again */
    SILENT_NS = 1000000000         /* a connection that takes longer has no answer */
};
static const uint64_t LOG_EVERY_NS = 10000000000u;

/* What an event of epoll points to. */
enum entry_kind { ENTRY_LISTENER, ENTRY_TIMER, ENTRY_GUEST, ENTRY_VISIT };
struct entry {
    enum entry_kind kind;
};

struct connection {
    struct channel channel;
    uint32_t events; /* that epoll looks for; 0: it does not know the socket */
    struct net_address address;
    struct hello hello;
};

enum guest_state { GUEST_ABSENT, GUEST_GREETING, GUEST_ARRIVED };
struct guest {
    struct entry entry;
    enum guest_state state;
    uint64_t number; /* in the order in which they came */
    struct connection connection;
};

enum visit_state { VISIT_PAUSING, VISIT_CONNECTING, VISIT_GREETING, VISIT_OVER, VISIT_TAKEN };
struct visit {
    struct entry entry;
    enum visit_state state;
    struct door *door;
    struct visit *previous, *next;
    struct door_call call;
    struct net_address from;
    struct connection connection;
    uint64_t retry_ns, pause_ns;
    uint64_t connecting_ns; /* since when it has been */
    unsigned attempt_count;
    unsigned foreign_count; /* attempts in a row that met somebody else, see visit_foreign_answers */
    bool was_refused;       /* the last answer by one of us or a stranger was that */
    bool is_late;           /* it ended at its deadline */
    enum tutti_status status;
    char text[VISIT_TEXT_MAX];    /* why the last attempt failed; "": none did */
    char refusal[HELLO_TEXT_MAX]; /* was_refused: in words */
};

struct door {
    int epoll, timer, listener; /* listener -1: only visits */
    struct entry listener_entry, timer_entry;
    struct net_address address;
    struct hello_self self;
    struct tls_context *tls; /* NULL: it cannot encrypt */
    struct door_counts counts;
    bool is_accepting;                          /* epoll looks at the listener */
    uint64_t breath_ns;                         /* accepts nothing until then */
    uint64_t starved_first_ns, starved_last_ns; /* when it had to, and nobody arrived in between */
    uint64_t next_ns;  /* nothing has to be looked at for its deadline before */
    uint64_t timer_ns; /* what the timer is set to */
    uint64_t guest_number;
    struct visit *visits;

    struct door_counts logged; /* what the log knows */
    uint64_t log_ns;           /* the next line not before */
    char last_stranger[NET_ADDRESS_TEXT_MAX + HELLO_TEXT_MAX + 8];
    uint64_t log_visits_ns;
    char last_refusal[NET_ADDRESS_TEXT_MAX + HELLO_TEXT_MAX + 8];

    unsigned guest_max;
    struct guest guests[];
};

enum tutti_status door_ports_read(uint16_t *first, uint16_t *last)
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

static void soon(struct door *door, uint64_t when_ns)
{
    if (when_ns < door->next_ns) door->next_ns = when_ns;
}

static void set_timer(struct door *door)
{
    if (door->timer_ns == door->next_ns) return;
    door->timer_ns = door->next_ns;
    const uint64_t when = door->next_ns == UINT64_MAX ? 0 : door->next_ns == 0 ? 1 : door->next_ns;
    const struct itimerspec at = {
        .it_value = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)}};
    timerfd_settime(door->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Tells epoll what to look for; false with errno. */
static bool watch(struct door *door, struct connection *connection, struct entry *entry,
                  uint32_t events)
{
    if (connection->events == events) return true;
    const int what = connection->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    struct epoll_event event = {.events = events, .data.ptr = entry};
    if (epoll_ctl(door->epoll, what, connection->channel.fd, &event) != 0) return false;
    connection->events = events;
    return true;
}

static void unwatch(struct door *door, struct connection *connection)
{
    if (connection->events != 0)
        epoll_ctl(door->epoll, EPOLL_CTL_DEL, connection->channel.fd, NULL);
    connection->events = 0;
}

static void hang_up(struct door *door, struct connection *connection)
{
    unwatch(door, connection);
    channel_close(&connection->channel);
    hello_release(&connection->hello);
}

/* Gives and takes what goes now. */
static void converse(struct connection *connection, uint64_t now_ns)
{
    struct hello *const hello = &connection->hello;
    hello_tick(hello, now_ns);
    size_t done = 1;
    while (hello->state == HELLO_GOING && done > 0) {
        unsigned char in[HELLO_BYTES];
        const void *out;
        const size_t out_bytes = hello_gives(hello, &out);
        enum tutti_status status;
        if (out_bytes > 0) {
            status = tcp_write(connection->channel.fd, out, out_bytes, &done);
            hello_given(hello, done);
        } else {
            status = tcp_read(connection->channel.fd, in, hello_wants(hello), &done);
            hello_take(hello, in, done, now_ns);
        }
        if (status != TUTTI_OK) hello_leave(hello);
    }
}

static enum tutti_status start_tls(struct door *door, struct connection *connection)
{
    struct tls_options options = {.fd = connection->channel.fd,
                                  .is_client = connection->hello.is_caller,
                                  .records_a_key = TLS_RECORDS_A_KEY};
    if (door->tls == NULL) return error_set(TUTTI_UNSUPPORTED, "nobody encrypts here");
    enum tutti_status status = hello_key(&connection->hello, options.key);
    if (status == TUTTI_OK) status = tls_start(door->tls, &options, &connection->channel.tls);
    mac_wipe(&options, sizeof options);
    return status;
}

/* What comes after the hello where both sides encrypt. */
static void secure(struct door *door, struct connection *connection)
{
    enum tutti_status status = TUTTI_OK;
    if (connection->channel.tls == NULL) status = start_tls(door, connection);
    if (status == TUTTI_OK) status = tls_handshake(connection->channel.tls);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status == TUTTI_UNSUPPORTED || status == TUTTI_AUTH_FAILED)
        log_write(LOG_INFO, "%s", tutti_error_message());
    hello_secured(&connection->hello, status == TUTTI_OK);
}

static bool converse_and_watch(struct door *door, struct connection *connection,
                               struct entry *entry, uint64_t now_ns)
{
    const struct hello *const hello = &connection->hello;
    const void *out;
    converse(connection, now_ns);
    if (hello->state == HELLO_SECURES) secure(door, connection);
    if (hello->state != HELLO_GOING && hello->state != HELLO_SECURES) return true;
    const bool waits_for_room =
        hello_gives(hello, &out) > 0 || channel_has_output(&connection->channel);
    return watch(door, connection, entry, waits_for_room ? EPOLLOUT : EPOLLIN);
}

static void fill_arrival(const struct connection *connection, struct door_arrival *arrival)
{
    const struct hello *const hello = &connection->hello;
    memset(arrival, 0, sizeof *arrival);
    arrival->status = hello->status;
    arrival->channel = hello->state == HELLO_DONE ? connection->channel : channel_none();
    arrival->address = connection->address;
    arrival->rank = hello->peer.rank;
    arrival->version = hello->version;
    arrival->purpose = hello->call.purpose;
    arrival->payload_bytes = hello->call.payload_bytes;
    memcpy(arrival->payload, hello->call.payload, hello->call.payload_bytes);
    if (hello->status != TUTTI_OK) hello_explain(hello, arrival->text);
}

static bool fresh_nonce(unsigned char nonce[HELLO_NONCE_BYTES])
{
    return getrandom(nonce, HELLO_NONCE_BYTES, 0) == HELLO_NONCE_BYTES;
}

/* ----------------------------------------------------------------------------------------------- guests */

static void accept_or_not(struct door *door, bool accepts)
{
    if (door->listener < 0 || door->is_accepting == accepts) return;
    struct epoll_event event = {.events = accepts ? EPOLLIN : 0, .data.ptr = &door->listener_entry};
    if (epoll_ctl(door->epoll, EPOLL_CTL_MOD, door->listener, &event) == 0)
        door->is_accepting = accepts;
}

static void guest_leaves(struct door *door, struct guest *guest)
{
    hang_up(door, &guest->connection);
    guest->state = GUEST_ABSENT;
}

static void remember(struct door *door, const struct guest *guest)
{
    char address[NET_ADDRESS_TEXT_MAX], why[HELLO_TEXT_MAX];
    net_address_print(&guest->connection.address, address);
    hello_explain(&guest->connection.hello, why);
    snprintf(door->last_stranger, sizeof door->last_stranger, "%s: %s", address, why);
}

/* The hello is over, this way or the other. */
static void guest_is_through(struct door *door, struct guest *guest)
{
    const struct hello *const hello = &guest->connection.hello;
    switch (hello->state) {
    case HELLO_GOING:
    case HELLO_SECURES: return;
    case HELLO_STRAY:
        door->counts.strays++;
        remember(door, guest);
        guest_leaves(door, guest);
        return;
    case HELLO_DONE:
        door->counts.arrived++;
        door->starved_last_ns = 0;
        unwatch(door, &guest->connection);
        guest->state = GUEST_ARRIVED;
        return;
    case HELLO_FAILED: break;
    }
    if (hello->status == TUTTI_VERSION || hello->status == TUTTI_INVALID_OPTIONS) {
        door->counts.unfit++;
        hang_up(door, &guest->connection);
        guest->state = GUEST_ARRIVED;
        return;
    }
    door->counts.auth_failed++;
    remember(door, guest);
    guest_leaves(door, guest);
}

static void guest_moves(struct door *door, struct guest *guest, uint64_t now_ns)
{
    if (guest->state != GUEST_GREETING) return;
    if (!converse_and_watch(door, &guest->connection, &guest->entry, now_ns))
        hello_leave(&guest->connection.hello);
    guest_is_through(door, guest);
}

/* The one to go when another comes; NULL: all have arrived. */
static struct guest *oldest_guest(struct door *door)
{
    struct guest *oldest = NULL;
    for (unsigned i = 0; i < door->guest_max; i++) {
        struct guest *const guest = &door->guests[i];
        if (guest->state != GUEST_GREETING) continue;
        const bool is_proven = guest->connection.hello.is_proven;
        const bool oldest_is_proven = oldest != NULL && oldest->connection.hello.is_proven;
        if (oldest == NULL ||
            (is_proven == oldest_is_proven ? guest->number < oldest->number : oldest_is_proven))
            oldest = guest;
    }
    return oldest;
}

static bool push_out(struct door *door)
{
    struct guest *const guest = oldest_guest(door);
    if (guest == NULL) return false;
    door->counts.pushed_out++;
    guest_leaves(door, guest);
    return true;
}

static bool have_all_arrived(const struct door *door)
{
    for (unsigned i = 0; i < door->guest_max; i++)
        if (door->guests[i].state != GUEST_ARRIVED) return false;
    return true;
}

/* There is one, since not all have arrived. */
static struct guest *make_place(struct door *door)
{
    for (;;) {
        for (unsigned i = 0; i < door->guest_max; i++)
            if (door->guests[i].state == GUEST_ABSENT) return &door->guests[i];
        push_out(door);
    }
}

static void welcome(struct door *door, struct guest *guest, int fd,
                    const struct net_address *address, uint64_t now_ns)
{
    unsigned char nonce[HELLO_NONCE_BYTES];
    guest->state = GUEST_GREETING;
    guest->number = door->guest_number++;
    guest->connection.channel = channel_plain(fd);
    guest->connection.events = 0;
    guest->connection.address = *address;
    if (!fresh_nonce(nonce)) {
        guest_leaves(door, guest);
        return;
    }
    hello_start_answer(&guest->connection.hello, &door->self, nonce, now_ns);
    soon(door, guest->connection.hello.deadline_ns);
    guest_moves(door, guest, now_ns);
}

/* Whoever greets makes room for the next one; who accepts nothing now does so again in a moment. */
static void take_breath(struct door *door, uint64_t now_ns)
{
    door->counts.starved++;
    if (now_ns > door->starved_last_ns + STARVED_APART_NS) door->starved_first_ns = now_ns;
    door->starved_last_ns = now_ns;
    push_out(door);
    snprintf(door->last_stranger, sizeof door->last_stranger, "%.200s", tutti_error_message());
    door->breath_ns = now_ns + BREATH_NS;
    accept_or_not(door, false);
    soon(door, door->breath_ns);
}

static void accept_guests(struct door *door, uint64_t now_ns)
{
    for (int i = 0; i < ACCEPTS_A_LOOK; i++) {
        struct net_address address;
        int fd;
        if (have_all_arrived(door)) { /* until one is taken */
            accept_or_not(door, false);
            return;
        }
        const enum tutti_status status = tcp_accept(door->listener, &fd, &address);
        if (status == TUTTI_IN_PROGRESS) return;
        if (status != TUTTI_OK) {
            take_breath(door, now_ns);
            return;
        }
        door->counts.accepted++;
        welcome(door, make_place(door), fd, &address, now_ns);
    }
}

/* ----------------------------------------------------------------------------------------------- visits */

static void visit_ends(struct visit *visit, enum tutti_status status)
{
    visit->state = VISIT_OVER;
    visit->status = status;
}

/* This attempt came to nothing; visit->text says why. */
static void visit_pauses(struct visit *visit, uint64_t now_ns)
{
    hang_up(visit->door, &visit->connection);
    visit->pause_ns = visit->pause_ns == 0 ? PAUSE_NS_MIN : visit->pause_ns * 2;
    if (visit->pause_ns > PAUSE_NS_MAX) visit->pause_ns = PAUSE_NS_MAX;
    /* Those who were sent away together do not come back together. */
    const unsigned char chance = visit->connection.hello.nonce[0];
    visit->retry_ns = now_ns + visit->pause_ns + visit->pause_ns * chance / 256;
    visit->state = VISIT_PAUSING;
    soon(visit->door, visit->retry_ns);
}

static void visit_fails_to_connect(struct visit *visit, enum tutti_status status, uint64_t now_ns)
{
    snprintf(visit->text, sizeof visit->text, "%.300s", tutti_error_message());
    if (status == TUTTI_PROC_FAILED) {
        visit_pauses(visit, now_ns);
        return;
    }
    hang_up(visit->door, &visit->connection);
    visit_ends(visit, status);
}

static void visit_sets_out(struct visit *visit, uint64_t now_ns)
{
    const struct net_address *from = visit->from.family == AF_UNSPEC ? NULL : &visit->from;
    visit->attempt_count++;
    visit->connecting_ns = clock_now_ns(); /* the first attempt is not told the time */
    visit->state = VISIT_CONNECTING;
    enum tutti_status status =
        tcp_connect_start(&visit->call.address, from, &visit->connection.channel.fd);
    if (status == TUTTI_OK && !watch(visit->door, &visit->connection, &visit->entry, EPOLLOUT))
        status = error_system("watching a connection");
    if (status != TUTTI_OK) visit_fails_to_connect(visit, status, now_ns);
}

/* Words of who has not shown the key: they may explain at the deadline why this came to nothing, and decide nothing before. */
static bool is_unproven(const struct hello *hello)
{
    return hello->state == HELLO_STRAY ||
           (hello->state == HELLO_FAILED && hello->status == TUTTI_AUTH_FAILED &&
            !hello->is_other_rank);
}

/* What an attempt that failed tells of who is there. */
static void note_answer(struct visit *visit, const char *why)
{
    const struct hello *const hello = &visit->connection.hello;
    const bool is_refusal = hello->state == HELLO_FAILED && is_unproven(hello);
    if (is_refusal || hello->is_foreign)
        visit->foreign_count++;
    else if (hello->is_proven)
        visit->foreign_count = 0;
    if (is_refusal || hello->is_proven) visit->was_refused = is_refusal;
    if (!is_refusal) return;
    visit->door->counts.refused++;
    snprintf(visit->refusal, sizeof visit->refusal, "%s", why);
    snprintf(visit->door->last_refusal, sizeof visit->door->last_refusal, "%s", visit->text);
}

/* The hello is over, this way or the other. */
static void visit_is_through(struct visit *visit, uint64_t now_ns)
{
    const struct hello *const hello = &visit->connection.hello;
    if (hello->state == HELLO_GOING || hello->state == HELLO_SECURES) return;
    char address[NET_ADDRESS_TEXT_MAX], why[HELLO_TEXT_MAX];
    net_address_print(&visit->call.address, address);
    hello_explain(hello, why);
    snprintf(visit->text, sizeof visit->text, "%s: %s", address, why);
    unwatch(visit->door, &visit->connection);
    if (hello->state == HELLO_DONE) {
        visit_ends(visit, TUTTI_OK);
        return;
    }
    note_answer(visit, why);
    if (is_unproven(hello)) {
        visit_pauses(visit, now_ns);
        return;
    }
    hang_up(visit->door, &visit->connection);
    visit_ends(visit, hello->status);
}

static void visit_greets(struct visit *visit, uint64_t now_ns)
{
    if (!converse_and_watch(visit->door, &visit->connection, &visit->entry, now_ns))
        hello_leave(&visit->connection.hello);
    visit_is_through(visit, now_ns);
}

static void visit_looks_whether_it_is_there(struct visit *visit, uint64_t now_ns)
{
    const enum tutti_status status =
        tcp_connect_test(visit->connection.channel.fd, &visit->call.address);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status != TUTTI_OK) {
        visit_fails_to_connect(visit, status, now_ns);
        return;
    }
    unsigned char nonce[HELLO_NONCE_BYTES];
    if (!fresh_nonce(nonce)) {
        visit_fails_to_connect(visit, error_system("getrandom"), now_ns);
        return;
    }
    visit->state = VISIT_GREETING;
    visit->connection.address = visit->call.address;
    struct hello_self self = visit->door->self;
    if (visit->call.is_encrypted) self.configuration |= HELLO_ENCRYPTS;
    hello_start_call(&visit->connection.hello, &self, &visit->call.hello, nonce, now_ns);
    mac_wipe(&self, sizeof self);
    soon(visit->door, visit->connection.hello.deadline_ns);
    visit_greets(visit, now_ns);
}

/* A connection that takes long has no error of its own: the error of an earlier one may not be true any more. */
static void note_silence(struct visit *visit, uint64_t now_ns)
{
    char address[NET_ADDRESS_TEXT_MAX];
    if (visit->state != VISIT_CONNECTING || now_ns < visit->connecting_ns + SILENT_NS) return;
    net_address_print(&visit->call.address, address);
    snprintf(visit->text, sizeof visit->text, "connecting to %s: no answer", address);
}

static void visit_is_late(struct visit *visit, uint64_t now_ns)
{
    note_silence(visit, now_ns);
    hang_up(visit->door, &visit->connection);
    visit->is_late = true;
    visit_ends(visit, visit->was_refused ? TUTTI_AUTH_FAILED : TUTTI_INIT_TIMEOUT);
}

static void visit_moves(struct visit *visit, uint64_t now_ns)
{
    if (visit->state >= VISIT_OVER) return;
    if (visit->state == VISIT_PAUSING && now_ns >= visit->retry_ns) visit_sets_out(visit, now_ns);
    if (visit->state == VISIT_CONNECTING) visit_looks_whether_it_is_there(visit, now_ns);
    if (visit->state == VISIT_GREETING) visit_greets(visit, now_ns);
    if (visit->state < VISIT_OVER && now_ns >= visit->call.deadline_ns)
        visit_is_late(visit, now_ns);
}

enum tutti_status door_connect(struct door *door, const struct door_call *call, struct visit **visit)
{
    *visit = calloc(1, sizeof **visit);
    if (*visit == NULL) return error_set(TUTTI_NO_MEMORY, "connecting: out of memory");
    struct visit *const new = *visit;
    new->entry.kind = ENTRY_VISIT;
    new->door = door;
    new->call = *call;
    if (call->from != NULL) new->from = *call->from;
    new->call.from = NULL;
    new->connection.channel = channel_none();
    new->next = door->visits;
    if (new->next != NULL) new->next->previous = new;
    door->visits = new;
    visit_sets_out(new, 0);
    soon(door, new->state == VISIT_CONNECTING ? call->deadline_ns : 0);
    set_timer(door);
    return TUTTI_OK;
}

static enum tutti_status say_late(const struct visit *visit)
{
    char address[NET_ADDRESS_TEXT_MAX];
    const char *last = visit->was_refused ? visit->refusal : visit->text;
    net_address_print(&visit->call.address, address);
    return error_set(visit->status, "%s: not let in until the deadline (attempt %u); %.200s",
                     address, visit->attempt_count, last[0] != '\0' ? last : "no answer");
}

bool visit_trouble(struct visit *visit, uint64_t now_ns, char text[VISIT_TEXT_MAX])
{
    note_silence(visit, now_ns);
    memcpy(text, visit->text, sizeof visit->text);
    return text[0] != '\0';
}

enum tutti_status visit_test(struct visit *visit, struct door_arrival *arrival)
{
    if (visit->state < VISIT_OVER) return TUTTI_IN_PROGRESS;
    if (visit->is_late) return say_late(visit);
    if (visit->status != TUTTI_OK) return error_set(visit->status, "%s", visit->text);
    if (visit->state == VISIT_TAKEN)
        return error_set(TUTTI_INVALID_REQUEST, "the connection was taken already");
    fill_arrival(&visit->connection, arrival);
    visit->connection.channel = channel_none();
    visit->state = VISIT_TAKEN;
    return TUTTI_OK;
}

unsigned visit_foreign_answers(const struct visit *visit)
{
    return visit->foreign_count;
}

void visit_free(struct visit *visit)
{
    if (visit == NULL) return;
    hang_up(visit->door, &visit->connection);
    if (visit->previous != NULL)
        visit->previous->next = visit->next;
    else
        visit->door->visits = visit->next;
    if (visit->next != NULL) visit->next->previous = visit->previous;
    free(visit);
}

/* ------------------------------------------------------------------------------------- deadlines and log */

/* Looks at everybody whose time may have come, and when the next one's comes. */
static void keep_time(struct door *door, uint64_t now_ns)
{
    if (now_ns < door->next_ns) return;
    door->next_ns = UINT64_MAX;
    if (now_ns >= door->breath_ns) {
        door->breath_ns = 0;
        accept_or_not(door, true);
    } else {
        soon(door, door->breath_ns);
    }
    for (unsigned i = 0; i < door->guest_max; i++) {
        struct guest *const guest = &door->guests[i];
        guest_moves(door, guest, now_ns);
        if (guest->state == GUEST_GREETING) soon(door, guest->connection.hello.deadline_ns);
    }
    for (struct visit *visit = door->visits; visit != NULL; visit = visit->next) {
        visit_moves(visit, now_ns);
        if (visit->state < VISIT_OVER) soon(door, visit->call.deadline_ns);
        if (visit->state == VISIT_PAUSING) soon(door, visit->retry_ns);
        if (visit->state == VISIT_GREETING) soon(door, visit->connection.hello.deadline_ns);
    }
}

static void write_log_of_visits(struct door *door, uint64_t now_ns)
{
    const uint64_t refused = door->counts.refused - door->logged.refused;
    if (now_ns < door->log_visits_ns || refused == 0) return;
    log_write(LOG_WARN,
              "%" PRIu64
              " visits met somebody who does not show this job's key, and go on; last: %s",
              refused, door->last_refusal);
    door->logged.refused = door->counts.refused;
    door->log_visits_ns = now_ns + LOG_EVERY_NS;
}

/* That some had to make room is nothing to worry about: many of this job's own came at once, and come again. */
static void write_log(struct door *door, uint64_t now_ns)
{
    const struct door_counts *const counts = &door->counts, *const logged = &door->logged;
    const uint64_t strays = counts->strays - logged->strays;
    const uint64_t pushed_out = counts->pushed_out - logged->pushed_out;
    const uint64_t auth_failed = counts->auth_failed - logged->auth_failed;
    const uint64_t starved = counts->starved - logged->starved;
    if (now_ns < door->log_ns || strays + pushed_out + auth_failed + starved == 0) return;
    char address[NET_ADDRESS_TEXT_MAX];
    net_address_print(&door->address, address);
    log_write(auth_failed + starved > 0 ? LOG_WARN : LOG_INFO,
              "%s: dropped %" PRIu64 " strays, %" PRIu64 " without this job's key, %" PRIu64
              " to make room; last: %s",
              address, strays, auth_failed, pushed_out,
              door->last_stranger[0] != '\0' ? door->last_stranger : "-");
    const uint64_t refused_before = logged->refused;
    door->logged = door->counts;
    door->logged.refused = refused_before;
    door->log_ns = now_ns + LOG_EVERY_NS;
}

/* ------------------------------------------------------------------------------------------------- door */

static enum tutti_status add_own(struct door *door, int fd, struct entry *entry)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = entry};
    if (epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return error_system("epoll for start-up");
    return TUTTI_OK;
}

static enum tutti_status open_descriptors(struct door *door, const struct door_options *options)
{
    door->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (door->epoll < 0) return error_system("epoll for start-up");
    door->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (door->timer < 0) return error_system("a timer for start-up");
    TRY(add_own(door, door->timer, &door->timer_entry));
    if (options->address.family == AF_UNSPEC) return TUTTI_OK;
    TRY(tcp_listen(&options->address, options->port_last, &door->listener, &door->address));
    TRY(add_own(door, door->listener, &door->listener_entry));
    door->is_accepting = true;
    return TUTTI_OK;
}

enum tutti_status door_open(const struct door_options *options, struct door **door)
{
    const unsigned guest_max = options->guest_max == 0 ? GUESTS_DEFAULT : options->guest_max;
    *door = calloc(1, sizeof **door + guest_max * sizeof *(*door)->guests);
    if (*door == NULL) return error_set(TUTTI_NO_MEMORY, "start-up: out of memory");
    struct door *const new = *door;
    new->epoll = new->timer = new->listener = -1;
    new->listener_entry.kind = ENTRY_LISTENER;
    new->timer_entry.kind = ENTRY_TIMER;
    new->self = options->self;
    new->next_ns = new->timer_ns = UINT64_MAX;
    new->guest_max = guest_max;
    for (unsigned i = 0; i < guest_max; i++) {
        new->guests[i].entry.kind = ENTRY_GUEST;
        new->guests[i].connection.channel = channel_none();
    }
    const enum tutti_status status = open_descriptors(new, options);
    if (status == TUTTI_OK) return TUTTI_OK;
    door_close(new);
    *door = NULL;
    return status;
}

enum tutti_status door_encrypt(struct door *door)
{
    if (!door->self.key.is_secret)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "encryption needs a secret that all ranks have and others do not: "
                         "set TUTTI_SECRET_FILE (or TUTTI_SECRET)");
    return door->tls != NULL ? TUTTI_OK : tls_context_create(&door->tls);
}

void door_close(struct door *door)
{
    if (door == NULL) return;
    write_log(door, UINT64_MAX);
    write_log_of_visits(door, UINT64_MAX);
    for (unsigned i = 0; i < door->guest_max; i++) hang_up(door, &door->guests[i].connection);
    if (door->listener >= 0) close(door->listener);
    if (door->timer >= 0) close(door->timer);
    if (door->epoll >= 0) close(door->epoll);
    tls_context_free(door->tls);
    mac_wipe(&door->self.key, sizeof door->self.key);
    free(door);
}

/* Descriptors are closed and not taken from epoll, which the parent goes on with. */
static void drop(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void door_forget(struct door *door)
{
    if (door == NULL) return;
    for (unsigned i = 0; i < door->guest_max; i++) {
        channel_close(&door->guests[i].connection.channel);
        hello_release(&door->guests[i].connection.hello);
    }
    for (struct visit *visit = door->visits; visit != NULL; visit = visit->next) {
        channel_close(&visit->connection.channel);
        hello_release(&visit->connection.hello);
    }
    drop(&door->listener);
    drop(&door->timer);
    drop(&door->epoll);
    tls_context_free(door->tls);
    mac_wipe(&door->self.key, sizeof door->self.key);
    free(door);
}

void door_address(const struct door *door, struct net_address *address)
{
    *address = door->address;
}

int door_descriptor(const struct door *door)
{
    return door->epoll;
}

uint64_t door_starved_ns(const struct door *door, uint64_t now_ns)
{
    const bool goes_on =
        door->starved_last_ns != 0 && now_ns < door->starved_last_ns + STARVED_APART_NS;
    return goes_on ? door->starved_last_ns - door->starved_first_ns : 0;
}

void door_count(const struct door *door, struct door_counts *counts)
{
    *counts = door->counts;
}

static void handle(struct door *door, struct entry *entry, uint64_t now_ns)
{
    uint64_t expirations;
    switch (entry->kind) {
    case ENTRY_LISTENER: accept_guests(door, now_ns); break;
    case ENTRY_GUEST: guest_moves(door, (struct guest *)entry, now_ns); break;
    case ENTRY_VISIT: visit_moves((struct visit *)entry, now_ns); break;
    case ENTRY_TIMER:
        /* Only what made it ring counts, and keep_time finds that. */
        if (read(door->timer, &expirations, sizeof expirations) > 0) door->timer_ns = UINT64_MAX;
        break;
    }
}

void door_progress(struct door *door, uint64_t now_ns)
{
    keep_time(door, now_ns);
    for (int look = 0; look < LOOKS_A_PASS; look++) {
        struct epoll_event events[EVENTS_A_LOOK];
        const int count = epoll_wait(door->epoll, events, EVENTS_A_LOOK, 0);
        for (int i = 0; i < count; i++) handle(door, events[i].data.ptr, now_ns);
        if (count < EVENTS_A_LOOK) break;
    }
    write_log(door, now_ns);
    write_log_of_visits(door, now_ns);
    set_timer(door);
}

bool door_take(struct door *door, struct door_arrival *arrival)
{
    struct guest *first = NULL;
    for (unsigned i = 0; i < door->guest_max; i++) {
        struct guest *const guest = &door->guests[i];
        if (guest->state == GUEST_ARRIVED && (first == NULL || guest->number < first->number))
            first = guest;
    }
    if (first == NULL) return false;
    fill_arrival(&first->connection, arrival);
    first->connection.channel = channel_none();
    guest_leaves(door, first);
    if (door->breath_ns == 0) accept_or_not(door, true);
    return true;
}
