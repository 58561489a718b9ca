/* control.h - the contract for control: what a rank knows of the ranks of other hosts, and how it
 * tells them small messages beside all links (transport.h).
 *
 *     unused ──link opened, connect, tell──► wanted ──connection──► up ◄──made again── lost
 *                                              │                                        │
 *                                              └──────────── look: vanished, ended ◄────┘
 *
 * Control goes over TCP, whatever carries the data: whether a rank is alive never depends on a
 * network card or its provider. So there is one implementation (tcp/endpoint.h). It has no
 * `progress`, sleep or wake of its own: those of the set's transport `all` (open.h) move it, too.
 *
 * Control makes its own connections. A connection to a peer becomes wanted when it has a link, when
 * the peer is told something, or by `connect`. If ranks share memory there is nothing to connect,
 * and no control: they have a board (open.h).
 *
 * A peer hears each *control message* exactly once, in order, whatever happens to connections, as
 * long as it neither closes its transport nor breaks. The first 32 bits of a message are its kind.
 * The kind CONTROL_KIND_OWN belongs to control itself, and CONTROL_KIND_GREETING to links that are
 * beside it (data_order.h).
 *   - They do not overtake credit: when a peer hears a message, it has all credit that this rank
 *     had returned before it. (Otherwise a rank could hear that a peer left while it still waits
 *     for that peer's last credit.) Data itself may come later over connections; a rank that leaves
 *     waits until its data has been consumed. Beside links, data_order.h says what holds.
 *   - Giving up links (`stop`) leaves no gap before later messages.
 *   - A rank that hears a message may tell another one at once, so `tell` may be called meanwhile.
 *
 * Threads: as for links, one at a time. No function waits.
 */
#ifndef TUTTI_TRANSPORT_CONTROL_H
#define TUTTI_TRANSPORT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    CONTROL_MESSAGE_BYTES_MAX = 504,
    CONTROL_ENVELOPE_BYTES = 8, /* behind each message, where links are beside control */
    CONTROL_MESSAGES_MAX = 16,  /* sent to a peer and not acknowledged */
    CONTROL_FINAL_MESSAGES = 2, /* of these, kept for tell_final */
    CONTROL_KIND_OWN = 8,
    CONTROL_KIND_GREETING = 9,
    CONTROL_TROUBLE_MAX = 160
};

#define CONTROL_FORGOTTEN_NS UINT64_C(30000000000)

enum peer_state {
    PEER_UNUSED, /* no link to it was opened, no connection made */
    PEER_WANTED, /* no connection carries data yet */
    PEER_UP,     /* at least one does */
    PEER_LOST,   /* none does any more, nor do links beside control */
    PEER_BROKEN  /* it sent something that makes no sense */
};

struct peer_report {
    enum peer_state state;
    uint64_t since_ns;   /* clock_now_ns() */
    uint64_t heard_ns;   /* when something last came from it; 0: never */
    unsigned streams_up; /* connections; without any, 1 if links beside control are up */
    uint64_t mended;     /* corrupt frames that arrived intact when they were sent again */
    bool is_corrupt;     /* a frame was corrupt again */
};

enum peer_presence {
    PEER_PRESENT,
    PEER_VANISHED, /* no connection came about for long: its host may be gone, or the network */
    PEER_ENDED     /* its process has, for certain */
};

struct control;

struct control_ops {
    /* Tells a peer up to CONTROL_MESSAGE_BYTES_MAX bytes, at least 4, which are copied. Without a
     * connection to the peer, a connection becomes wanted and the bytes wait; `progress` sends
     * them. NO_MEMORY: there was no place, and the peer was not told. For a broken peer it does
     * nothing. */
    enum tutti_status (*tell)(struct control *control, int peer, const void *message, size_t bytes);
    /* The same for a message that must not be dropped for lack of a place: CONTROL_FINAL_MESSAGES
     * places for each peer are kept for such messages, and nothing is allocated once the peer is
     * known (by a link, a connection or an earlier message). */
    enum tutti_status (*tell_final)(struct control *control, int peer, const void *message,
                                    size_t bytes);
    /* The number of messages to the peer that it has not acknowledged. */
    unsigned (*unheard)(const struct control *control, int peer);
    /* Whether the peer has heard all it was told, and knows what was heard here. */
    bool (*is_settled)(const struct control *control, int peer);

    void (*report)(const struct control *control, int peer, struct peer_report *report);
    /* When the peer's host last acknowledged anything, whether the peer's process runs or not; 0:
     * not known. From the first call on, the host is asked once a second. */
    uint64_t (*answered_ns)(const struct control *control, int peer);
    /* Whether the peer is there, as far as connections and links can tell. A peer that has ended
     * stays so. Must be called again and again: one look may begin something whose outcome a later
     * look sees. */
    enum peer_presence (*look)(struct control *control, int peer, uint64_t now_ns);
    /* Writes why connections and links to a peer (-1: to any) currently fail, without a full stop.
     * False if they do not, or if it is this rank. */
    bool (*trouble)(const struct control *control, int peer, char text[CONTROL_TROUBLE_MAX]);

    /* Asks for a connection to a peer to which none is wanted yet. */
    enum tutti_status (*connect)(struct control *control, int peer);
    /* Whether wanted connections are missing: as long as they are, arriving bytes do not end a
     * sleep. */
    bool (*is_connecting)(const struct control *control);
    /* OK, or the error by which the last `progress` found that this rank can no longer reach its
     * peers; then it also sets this thread's error message. */
    enum tutti_status (*check)(const struct control *control);
    /* The peer has left, or is taken for dead: nothing waits for it any more. Attempts to connect to
     * it go on all the same for CONTROL_FORGOTTEN_NS, since a rank that is taken for dead by mistake
     * has to hear of the agreement on that; then they end, so that a rank that never comes back
     * costs nothing. If it is told something later, or asks for a connection, they begin again for
     * as long. No attempt is made once it is known to have ended. */
    void (*forget)(struct control *control, int peer);
};

struct control {
    const struct control_ops *ops;
    int rank, size;
};

#endif
