/* peers.h - the other half of the contract: what a transport knows of the ranks at the other ends
 * of its links, and how it sends them messages beside all links.
 *
 *     unused ──link opened, connect, tell──► wanted ──connection──► up ◄──made again── lost
 *                                              │                                        │
 *                                              └──────────── look: vanished, ended ◄────┘
 *
 * A transport makes its own connections. A connection to a peer becomes wanted when a link to it is
 * opened, when it is told something, or by `connect`; then `progress` tries to make it. If ranks
 * share memory there is nothing to connect: transport_peers_in_memory.
 *
 * *Control messages* go beside all links. A peer hears each one exactly once, in order, whatever
 * happens to connections, as long as it neither closes its transport nor breaks. Their first 32
 * bits are their kind. The kind PEERS_OWN_KIND belongs to the transport, and PEERS_CARRIED_KIND to
 * another transport that sends its control messages over this one.
 *   - They do not overtake credit: when a peer hears a message, it has all credit that this rank
 *     had returned before it sent the message. (Otherwise a rank could hear that a peer left while
 *     it still waits for that peer's last credit.)
 *   - Giving up links (`stop`) leaves no gap before later messages.
 *   - A rank that hears a message may tell another one at once, so a transport tells while it
 *     hears.
 *
 * Threads: as for links, one at a time, unless a function says "any thread". No function waits.
 */
#ifndef TUTTI_TRANSPORT_PEERS_H
#define TUTTI_TRANSPORT_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct transport;
struct transport_footprint;

enum {
    PEERS_MESSAGE_BYTES_MAX = 504, /* of a control message */
    PEERS_ENVELOPE_BYTES = 8,      /* more, for a transport that sends them over another one */
    PEERS_MESSAGES_MAX = 16,       /* sent to a peer and not acknowledged */
    PEERS_FINAL_MESSAGES = 2,      /* of these, kept for tell_final */
    PEERS_OWN_KIND = 8,
    PEERS_CARRIED_KIND = 9,
    PEERS_TROUBLE_MAX = 160
};

enum peer_state {
    PEER_UNUSED, /* no link to it was opened, no connection made */
    PEER_WANTED, /* no connection carries data yet */
    PEER_UP,     /* at least one does; or none is needed */
    PEER_LOST,   /* none does any more */
    PEER_BROKEN  /* it sent something that makes no sense */
};

struct peer_report {
    enum peer_state state;
    uint64_t since_ns; /* clock_now_ns() */
    uint64_t heard_ns; /* when something last came from it; 0: never */
    unsigned streams_up;
    uint64_t mended; /* corrupt frames that arrived intact when they were sent again */
    bool is_corrupt; /* a frame was corrupt again */
};

enum peer_presence {
    PEER_PRESENT,
    PEER_VANISHED, /* no connection came about for long: its host may be gone, or the network */
    PEER_ENDED     /* its process has, for certain */
};

struct peer_ops {
    /* Tells a peer up to PEERS_MESSAGE_BYTES_MAX bytes, at least 4, which are copied. Without a
     * connection to the peer, a connection becomes wanted and the bytes wait; `progress` sends
     * them. NO_MEMORY: there was no place, and the peer was not told. For a broken peer it does
     * nothing. */
    enum tutti_status (*tell)(struct transport *transport, int peer, const void *message,
                              size_t bytes);
    /* The same for a message that must not be dropped for lack of a place: PEERS_FINAL_MESSAGES
     * places for each peer are kept for such messages, and nothing is allocated once the peer is
     * known (by a link, a connection or an earlier message). */
    enum tutti_status (*tell_final)(struct transport *transport, int peer, const void *message,
                                    size_t bytes);
    /* The number of messages to the peer that it has not acknowledged. */
    unsigned (*unheard)(const struct transport *transport, int peer);

    void (*report)(const struct transport *transport, int peer, struct peer_report *report);
    /* When the peer's host last acknowledged anything, whether the peer's process runs or not; 0:
     * not known. From the first call on, the host is asked once a second. */
    uint64_t (*answered_ns)(const struct transport *transport, int peer);
    /* Whether the peer is there, as far as the transport can tell by itself. A peer that has ended
     * stays so. Must be called again and again: one look may begin something whose outcome a later
     * look sees. */
    enum peer_presence (*look)(struct transport *transport, int peer, uint64_t now_ns);
    /* Writes why connections to a peer (-1: to any) currently fail, without a full stop. False if
     * they do not, or if it is this rank. */
    bool (*trouble)(const struct transport *transport, int peer, char text[PEERS_TROUBLE_MAX]);

    /* Asks for a connection to a peer to which none is wanted yet. */
    enum tutti_status (*connect)(struct transport *transport, int peer);
    /* Whether wanted connections are missing: as long as they are, arriving bytes do not end a
     * sleep. */
    bool (*is_connecting)(const struct transport *transport);
    /* OK, or the error by which the last `progress` found that this rank can no longer reach its
     * peers; then it also sets this thread's error message. */
    enum tutti_status (*check)(const struct transport *transport);
    /* The peer has left, or is taken for dead: nothing more is done to reach it. */
    void (*forget)(struct transport *transport, int peer);

    /* Whether a peer may be waiting for something that waits here to be sent; then some thread has
     * to call `progress`. */
    bool (*is_awaited)(const struct transport *transport);
    /* Like `progress`, for a rank that starts nothing any more: true when each peer has consumed
     * all that was sent to it, has heard all it was told, and knows what was consumed and heard
     * here, or is gone. When stopped only messages count. */
    bool (*finish)(struct transport *transport);
    /* The same for one peer, without progress; and a peer whose connections are lost may come
     * back. */
    bool (*is_settled)(const struct transport *transport, int peer);
    /* Whether a peer is not settled because of bytes sent on links, and not because of messages
     * alone. */
    bool (*is_owed_data)(const struct transport *transport, int peer);
    /* Gives up all links for good: nothing is shown on them any more. True: memory that was posted
     * or advertised is no longer touched either. False: a rank that shares memory with this one may
     * still be reading or writing there; the caller waits until that rank has left its call.
     * Control messages still go out and come in. */
    bool (*stop)(struct transport *transport);
};

/* For ranks that are reached through memory: they are up from the beginning, told nothing, and owed
 * nothing. */
extern const struct peer_ops transport_peers_in_memory;

/* For parts of the table. */
enum peer_presence peers_look_present(struct transport *transport, int peer, uint64_t now_ns);
bool peers_no_trouble(const struct transport *transport, int peer, char text[PEERS_TROUBLE_MAX]);
enum tutti_status peers_connect_unsupported(struct transport *transport, int peer);
bool peers_not_connecting(const struct transport *transport);
enum tutti_status peers_check_ok(const struct transport *transport);
void peers_forget_nothing(struct transport *transport, int peer);

#endif
