/* data_order.h - the hook between control (control.h) and links whose data goes by another path,
 * over network cards, say: no control message overtakes data that was sent before it.
 *
 *   rank a                                                        rank b
 *   links ─── messages 0 to 41 ─────────── the cards ──────────►  0 to 40 have come
 *   control ─ message, "after 42" ──────── connections ────────►  held until 41 has come
 *
 * Each control message says how many messages its sender had given to its links for that peer
 * before it, and is heard when those have come. In two cases it does not wait: when the links have
 * been stopped, are in trouble or have gone, since the rest may never come then; and when
 * CONTROL_MESSAGES_MAX wait already, since control may not lose one. Data that comes later than a
 * message "I have left" is then taken for lost, and its call fails.
 *
 * The number is foreign. Links bound how far their sender may be ahead of what has come, so they
 * know numbers that cannot be true (`told`). A peer that says one is at fault, and the message is
 * heard at once.
 *
 * The same numbers tell links what they cannot see by themselves: that a peer which is heard has
 * sent messages that do not come (`examine`). Whether a peer whose links fail is taken for gone is
 * decided here for all kinds of links (doubt.h).
 *
 * Ends of links that must know each other before a byte goes *greet* each other: a greeting is a
 * control message of the kind CONTROL_KIND_GREETING, which comes to the links and to nobody else.
 * So links beside control have no control messages, no liveness and no rendezvous of their own.
 *
 * Threads: as for links.
 */
#ifndef TUTTI_TRANSPORT_DATA_ORDER_H
#define TUTTI_TRANSPORT_DATA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/control.h"

struct transport;
struct data_order; /* opaque */

/* What control knows of a peer that its links do not. */
struct link_evidence {
    uint64_t now_ns;
    uint64_t heard_ns; /* when control last heard the peer; 0: never */
    uint64_t told;     /* by the peer: so many messages it has sent on the links */
};

/* What links know of a peer. */
struct link_report {
    bool is_up;                        /* data can go both ways */
    bool is_lost;                      /* it could, and the peer's end is gone */
    bool is_broken;                    /* it sent something that makes no sense */
    uint64_t heard_ns;                 /* when something last came from it; 0: never */
    uint64_t trouble_ns;               /* since when something has failed for it; 0: nothing has */
    char trouble[CONTROL_TROUBLE_MAX]; /* what failed, without a full stop */
};

/* For links beside control: transport.h has a pointer to it. */
struct data_order_ops {
    /* The number of messages of any kind sent to that peer so far, and of those from it that have
     * come without a gap. */
    uint64_t (*sent)(const struct transport *transport, int peer);
    uint64_t (*taken)(const struct transport *transport, int peer);
    /* The peer says by control that it has sent so many messages, which is foreign. False: it may
     * not send as many before more have come; then its links are at fault, and the log says so. */
    bool (*told)(struct transport *transport, int peer, uint64_t sent);
    /* A greeting has come from that peer; it is foreign. False: it makes no sense, or is not
     * expected; the log says so. */
    bool (*greeted)(struct transport *transport, int peer, const void *greeting, size_t bytes);
    /* Looks whether data to or from a peer is stuck or lost. Called again and again, until
     * `stop`. */
    void (*examine)(struct transport *transport, int peer, const struct link_evidence *evidence);
    void (*report)(const struct transport *transport, int peer, struct link_report *report);
    /* OK, or the error by which this rank's end can no longer reach its peers; then it also sets
     * this thread's error message. */
    enum tutti_status (*check)(const struct transport *transport);
    /* The peer has left, or is taken for dead. */
    void (*forget)(struct transport *transport, int peer);
};

struct data_order_options {
    int rank, size;
    /* A control message has come, and it is its turn; remote_options.h says what it may call. May
     * be NULL. */
    void (*hears)(void *context, int peer, const void *message, size_t bytes);
    void *context;
};

/* NO_MEMORY. */
enum tutti_status data_order_create(const struct data_order_options *options,
                                    struct data_order **order);
/* Says which links and which control it is between; called once, before either does anything. links
 * is NULL where a rank has control alone. */
void data_order_join(struct data_order *order, struct transport *links, struct control *control);
/* NULL is allowed. */
void data_order_free(struct data_order *order);
size_t data_order_bytes(const struct data_order *order);

/* For links: sends a greeting, a control message of kind CONTROL_KIND_GREETING. False: not now. */
bool data_order_greet(struct data_order *order, int peer, const void *greeting, size_t bytes);

/* For control. Copies a message to `sealed`, of CONTROL_MESSAGE_BYTES_MAX + CONTROL_ENVELOPE_BYTES,
 * together with the number of messages that it comes after. Returns their length. */
size_t data_order_seal(const struct data_order *order, int peer, const void *message, size_t bytes,
                       void *sealed);
/* A sealed message has come, which is foreign. */
void data_order_hear(struct data_order *order, int peer, const void *sealed, size_t bytes);
/* Hears messages whose turn has come. */
void data_order_progress(struct data_order *order);
/* From now on messages wait for nothing. */
void data_order_stop(struct data_order *order);
/* Whether the peer is gone as far as its links show. heard_ns: as in struct link_evidence. */
enum peer_presence data_order_look(struct data_order *order, int peer, uint64_t heard_ns,
                                   uint64_t now_ns);
/* Adds what links know to what control does: also whether something may still come on them from a
 * peer with which there is no connection. */
void data_order_report(const struct data_order *order, int peer, struct peer_report *report);
/* As in control.h. */
bool data_order_trouble(const struct data_order *order, int peer, char text[CONTROL_TROUBLE_MAX]);
enum tutti_status data_order_check(const struct data_order *order);
void data_order_forget(struct data_order *order, int peer);

/* For links that find out nothing by themselves, and need no greeting. */
bool ordered_not_greeted(struct transport *transport, int peer, const void *greeting, size_t bytes);
void ordered_not_examined(struct transport *transport, int peer,
                          const struct link_evidence *evidence);
enum tutti_status ordered_is_sound(const struct transport *transport);

#endif
