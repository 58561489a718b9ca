#include "connect/connector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "base/status.h"
#include "os/clock.h"

enum {
    PAUSE_NS_MIN = 5000000, /* between two attempts: doubled each time */
    PAUSE_NS_MAX = 250000000,
    SILENT_NS = 1000000000 /* a connection that takes longer has no answer */
};

enum connector_state {
    CONNECTOR_PAUSING,
    CONNECTOR_CONNECTING,
    CONNECTOR_HANDSHAKE,
    CONNECTOR_OVER,
    CONNECTOR_TAKEN
};
struct connector {
    struct loop_entry entry;
    enum connector_state state;
    struct connector_list *list;
    struct connector *previous, *next;
    struct connector_options options; /* `from` is NULL: see below */
    struct net_address from;          /* none: the kernel chooses */
    struct handshake handshake;
    uint64_t retry_ns, pause_ns;
    uint64_t connecting_ns; /* when the attempt began */
    unsigned attempt_count;
    unsigned foreign_count; /* see connector_foreign_answers */
    bool was_refused;       /* the last process that answered refused the hello, unproven */
    bool is_late;           /* its deadline ended it */
    enum tutti_status status;
    char text[CONNECTOR_TEXT_MAX]; /* why the last attempt failed; "": none did */
    char refusal[HELLO_TEXT_MAX];  /* was_refused: why, in words */
};

static void connector_end(struct connector *connector, enum tutti_status status)
{
    connector->state = CONNECTOR_OVER;
    connector->status = status;
}

/* The attempt has failed; connector->text says why. */
static void connector_pause(struct connector *connector, uint64_t now_ns)
{
    struct handshake_loop *const loop = connector->list->loop;
    handshake_close(loop, &connector->handshake);
    connector->pause_ns = connector->pause_ns == 0 ? PAUSE_NS_MIN : connector->pause_ns * 2;
    if (connector->pause_ns > PAUSE_NS_MAX) connector->pause_ns = PAUSE_NS_MAX;
    /* Ranks that were refused together do not come back together. */
    const unsigned char chance = connector->handshake.hello.nonce[0];
    connector->retry_ns = now_ns + connector->pause_ns + connector->pause_ns * chance / 256;
    connector->state = CONNECTOR_PAUSING;
    handshake_loop_wake_at(loop, connector->retry_ns);
}

static void connector_fail(struct connector *connector, enum tutti_status status, uint64_t now_ns)
{
    snprintf(connector->text, sizeof connector->text, "%.300s", tutti_error_message());
    const bool is_short = status == TUTTI_NO_DESCRIPTORS || status == TUTTI_NO_MEMORY;
    if (is_short) handshake_loop_lacks(connector->list->loop, status, clock_now_ns());
    if (status == TUTTI_PROC_FAILED || (is_short && !connector->options.ends_at_shortage)) {
        connector_pause(connector, now_ns);
        return;
    }
    handshake_close(connector->list->loop, &connector->handshake);
    connector_end(connector, status);
}

static void connector_attempt(struct connector *connector, uint64_t now_ns)
{
    const struct net_address *from = connector->from.family == AF_UNSPEC ? NULL : &connector->from;
    connector->attempt_count++;
    connector->connecting_ns = clock_now_ns(); /* connector_create does not know the time */
    connector->state = CONNECTOR_CONNECTING;
    enum tutti_status status =
        tcp_connect_start_with(connector->options.protocol, &connector->options.address, from,
                               &connector->handshake.socket.fd);
    if (status == TUTTI_OK &&
        !handshake_watch(connector->list->loop, &connector->handshake, &connector->entry, EPOLLOUT))
        status = error_system("watching a connection");
    if (status == TUTTI_OK)
        handshake_loop_has_enough(connector->list->loop);
    else
        connector_fail(connector, status, now_ns);
}

/* The other side has not shown the key. Its answer may explain at the deadline why the connector
 * failed, and decides nothing before. */
static bool is_unproven(const struct hello *hello)
{
    return hello->state == HELLO_STRAY ||
           (hello->state == HELLO_FAILED && hello->status == TUTTI_AUTH_FAILED &&
            !hello->is_other_rank);
}

/* Remembers how a failed attempt describes the process that listens there. */
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
    connector->list->refused_count++;
    snprintf(connector->refusal, sizeof connector->refusal, "%s", why);
    snprintf(connector->list->last_refusal, sizeof connector->list->last_refusal, "%s",
             connector->text);
}

/* Acts on the outcome of the handshake, if it is over. */
static void connector_settle(struct connector *connector, uint64_t now_ns)
{
    const struct hello *const hello = &connector->handshake.hello;
    if (!handshake_is_over(&connector->handshake)) return;
    char address[NET_ADDRESS_TEXT_MAX], why[HELLO_TEXT_MAX];
    net_address_print(&connector->options.address, address);
    hello_explain(hello, why);
    snprintf(connector->text, sizeof connector->text, "%s: %s", address, why);
    handshake_unwatch(connector->list->loop, &connector->handshake);
    if (hello->state == HELLO_DONE) {
        connector_end(connector, TUTTI_OK);
        return;
    }
    note_answer(connector, why);
    if (is_unproven(hello)) {
        connector_pause(connector, now_ns);
        return;
    }
    handshake_close(connector->list->loop, &connector->handshake);
    connector_end(connector, hello->status);
}

static void connector_shake_hands(struct connector *connector, uint64_t now_ns)
{
    handshake_progress(connector->list->loop, &connector->handshake, &connector->entry, now_ns);
    connector_settle(connector, now_ns);
}

/* Looks whether the connection is there. */
static void connector_check(struct connector *connector, uint64_t now_ns)
{
    const enum tutti_status status =
        tcp_connect_test(connector->handshake.socket.fd, &connector->options.address);
    if (status == TUTTI_IN_PROGRESS) return;
    if (status != TUTTI_OK) {
        connector_fail(connector, status, now_ns);
        return;
    }
    connector->handshake.address = connector->options.address;
    if (!handshake_call(connector->list->loop, &connector->handshake, &connector->options.hello,
                        connector->options.is_encrypted, now_ns)) {
        connector_fail(connector, error_system("getrandom"), now_ns);
        return;
    }
    connector->state = CONNECTOR_HANDSHAKE;
    connector_shake_hands(connector, now_ns);
}

/* A connection that takes long has no error of its own, and the error of an earlier one may not
 * hold any more. */
static void note_silence(struct connector *connector, uint64_t now_ns)
{
    char address[NET_ADDRESS_TEXT_MAX];
    if (connector->state != CONNECTOR_CONNECTING || now_ns < connector->connecting_ns + SILENT_NS)
        return;
    net_address_print(&connector->options.address, address);
    snprintf(connector->text, sizeof connector->text, "connecting to %s: no answer", address);
}

static void connector_time_out(struct connector *connector, uint64_t now_ns)
{
    note_silence(connector, now_ns);
    handshake_close(connector->list->loop, &connector->handshake);
    connector->is_late = true;
    connector_end(connector, connector->was_refused ? TUTTI_AUTH_FAILED : TUTTI_INIT_TIMEOUT);
}

static void connector_progress(struct connector *connector, uint64_t now_ns)
{
    if (connector->state >= CONNECTOR_OVER) return;
    if (connector->state == CONNECTOR_PAUSING && now_ns >= connector->retry_ns)
        connector_attempt(connector, now_ns);
    if (connector->state == CONNECTOR_CONNECTING) connector_check(connector, now_ns);
    if (connector->state == CONNECTOR_HANDSHAKE) connector_shake_hands(connector, now_ns);
    if (connector->state < CONNECTOR_OVER && now_ns >= connector->options.deadline_ns)
        connector_time_out(connector, now_ns);
}

enum tutti_status connector_create(struct connector_list *list,
                                   const struct connector_options *options,
                                   struct connector **connector)
{
    *connector = calloc(1, sizeof **connector);
    if (*connector == NULL) return error_set(TUTTI_NO_MEMORY, "connecting: out of memory");
    struct connector *const new = *connector;
    new->entry.kind = LOOP_CONNECTOR;
    new->list = list;
    new->options = *options;
    if (options->from != NULL) new->from = *options->from;
    new->options.from = NULL;
    handshake_init(&new->handshake);
    new->next = list->first;
    if (new->next != NULL) new->next->previous = new;
    list->first = new;
    connector_attempt(new, 0);
    handshake_loop_wake_at(list->loop,
                           new->state == CONNECTOR_CONNECTING ? options->deadline_ns : 0);
    handshake_loop_set_timer(list->loop);
    return TUTTI_OK;
}

void connector_handle(struct loop_entry *entry, uint64_t now_ns)
{
    connector_progress((struct connector *)entry, now_ns);
}

static enum tutti_status report_timeout(const struct connector *connector)
{
    char address[NET_ADDRESS_TEXT_MAX];
    const char *last = connector->was_refused ? connector->refusal : connector->text;
    net_address_print(&connector->options.address, address);
    return error_set(connector->status, "%s: not accepted before the deadline (attempt %u); %.200s",
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
    handshake_fill(&connector->handshake, accepted);
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
    handshake_close(connector->list->loop, &connector->handshake);
    if (connector->previous != NULL)
        connector->previous->next = connector->next;
    else
        connector->list->first = connector->next;
    if (connector->next != NULL) connector->next->previous = connector->previous;
    free(connector);
}

/* ----------------------------------------------------------------------------------------- list */

void connector_list_progress(struct connector_list *list, uint64_t now_ns)
{
    struct handshake_loop *const loop = list->loop;
    for (struct connector *connector = list->first; connector != NULL; connector = connector->next) {
        connector_progress(connector, now_ns);
        if (connector->state < CONNECTOR_OVER)
            handshake_loop_wake_at(loop, connector->options.deadline_ns);
        if (connector->state == CONNECTOR_PAUSING)
            handshake_loop_wake_at(loop, connector->retry_ns);
        if (connector->state == CONNECTOR_HANDSHAKE)
            handshake_loop_wake_at(loop, connector->handshake.hello.deadline_ns);
    }
}

void connector_list_log(struct connector_list *list, uint64_t now_ns)
{
    const uint64_t refused = list->refused_count - list->logged_count;
    if (now_ns < list->log_ns || refused == 0) return;
    log_write(LOG_WARN,
              "%" PRIu64 " attempts to connect were refused by a process that does not show this "
              "job's key, and go on; last: %s",
              refused, list->last_refusal);
    list->logged_count = list->refused_count;
    list->log_ns = now_ns + LOG_LIMIT_NS;
}

void connector_list_forget(struct connector_list *list)
{
    for (struct connector *connector = list->first; connector != NULL; connector = connector->next)
        handshake_forget(&connector->handshake);
}
