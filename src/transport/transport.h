/* transport.h - the contract for links: between the engine and the transports, which carry bytes.
 * Control (control.h) knows a rank's peers, and tells them messages beside all links.
 *
 * A transport gives *links*: one-way streams of messages from one rank to another, or to all others
 * of a *group* that the transport names, FIFO, with numbers that run on across operations, so that
 * no operation needs a barrier at its entry or exit. Links exist per operation slot: operations in
 * different slots never wait for each other.
 *
 *   sender                                     receiver
 *   reserve(n) ─ place for n bytes, or NULL    peek ─ view of what has come, where it lies
 *   commit(n)  ─ they are on their way         consume(n) ─ n bytes of the view are done with
 *   post(address, n) ─ by reference: the
 *       receiver reads them where they lie
 *
 * Two ways save a copy where memory is shared. A *shared slot* is a place of its owner, which sends
 * it on any number of links as one copy of the bytes. If a rank is its only receiver, that rank may
 * change it and forward it instead of copying it. It comes back to its owner when the last reader
 * has consumed it:
 *
 *   reserve_shared ─ place, or NULL     peek ─ view with a place ─ forward(targets)
 *   send_shared(links)                  ...                       peek, consume
 *
 * A receiver may also *advertise* where it wants a message, so that the sender stores it there
 * itself (a remote write):
 *
 *   advertised_at ─ address, or NULL    advertise(destination, n)
 *   written(n)                          peek ─ view of n bytes at the destination
 *
 * Both are offers: a rank that does not take them up sends by another path. And a sender's own
 * message may carry a *reference* (refer) by which the receiver copies memory when it likes (copy).
 * The *capabilities* of a link say which of these it can do. Every link has all functions, but no
 * caller uses those of a capability that the link lacks.
 *
 * The bytes that the sender commits or posts in one call are one message. A chunk may be cut into
 * any messages; the receiver takes it as a stream of views. A transport may show a posted message
 * as several messages, and may put several messages behind each other where one was expected. A
 * message of 0 bytes carries order only.
 *
 * Every message carries the signature of its slot's operation (transport.signatures): a message
 * with another signature is a fault, and none of it is handed up. Data that a peer wrote is
 * foreign: it is read once and checked.
 *
 * Threads: one thread at a time calls these functions, for all slots of a transport together: it holds
 * the communicator's domain (domain/domain.h). Only sleep blocks. wake and wake_all: any thread.
 */
#ifndef TUTTI_TRANSPORT_TRANSPORT_H
#define TUTTI_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/kind.h"
#include "os/huge_pages.h"
#include "path/path.h"
#include "transport/data_order.h"
#include "tutti/tutti.h"

/* Slots 0 to 16 carry collectives, the last one point to point. */
enum {
    TRANSPORT_SLOT_COUNT = 18,
    TRANSPORT_SLOT_MESSAGES = TRANSPORT_SLOT_COUNT - 1,
    TRANSPORT_CHANNEL_COUNT = 16, /* as many as plans have */
    TRANSPORT_LINK_COUNT =
        TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT, /* of a pair of ranks, each way */
    TRANSPORT_GROUPS_MAX = 4,
    /* Messages under way on a link within a host. A rank that waits for room has begun one call more
     * than it has sent, and still remembers the call of the first message (health/board.h). */
    TRANSPORT_UNDER_WAY_MAX = 63
};

/* COPY: the receivers can copy it out at the price of a system call; READ: they can read it where
 * it lies. */
enum link_reach { REACH_NONE, REACH_COPY, REACH_READ };

/* How another rank can get at memory. Opaque to callers, except that kind 0 means none. */
struct link_reference {
    uint64_t kind, where;
};

/* The capabilities of an end of a link beside sending and receiving copies: the same in each slot
 * and channel. */
enum link_capability {
    LINK_SHARES = 1, /* tx: a target of send_shared and forward; rx: `place` in views, forward */
    LINK_ADVERTISES = 2,      /* tx: advertised_at, written; rx: advertise */
    LINK_PLACES_DIRECTLY = 4, /* rx: place_directly */
    LINK_REFERS = 8           /* tx: refer; rx: copy */
};

enum { LINK_TO_GROUP = -1 };

struct link_tx {
    const struct link_tx_ops *ops;
    int peer;              /* a rank, or LINK_TO_GROUP: a multicast link */
    unsigned capabilities; /* of enum link_capability */
    const struct memory_kind
        *memory; /* of the place that reserve or advertised_at returned last; NULL: the host's */
    /* Which memory lies in huge pages, for REACH_COPY: out of small ones the kernel copies two to
     * four times as slowly as ranks copy through places. NULL: that makes no difference here. */
    struct huge_pages_known *huge_pages;
};

struct link_tx_ops {
    /* A place for exactly that many bytes (at most what `limits` says) of the next message, 64-byte
     * aligned for more than a few bytes; NULL while there is none. Until commit, further calls
     * return the same place, with the bytes that were written to it. But a caller that sends its
     * next message another path loses the place. */
    void *(*reserve)(struct link_tx *link, size_t bytes);
    /* Sends the bytes that were written to the reserved place, which the receiver may change from then on. */
    void (*commit)(struct link_tx *link, size_t bytes);
    /* How the receivers can get at that memory if its bytes are not sent. Constant for given
     * memory. */
    enum link_reach (*reach)(struct link_tx *link, const void *address, size_t bytes);
    /* Sends memory within reach by reference; it must stay as it is until `consumed`. False: not
     * now. */
    bool (*post)(struct link_tx *link, const void *address, size_t bytes);
    /* Whether all receivers have consumed everything sent so far. */
    bool (*consumed)(struct link_tx *link);
    /* Whether one more message can be sent whose bytes need no place in the link: shared,
     * forwarded, or written. */
    bool (*has_room)(struct link_tx *link);
    /* The address at which the receiver wants the next message, if the message has that many bytes
     * and this rank can write there; else NULL. Not on multicast links. */
    void *(*advertised_at)(struct link_tx *link, size_t bytes);
    /* Sends all that was stored there; the link has room. */
    void (*written)(struct link_tx *link, size_t bytes);
    /* Says how the receiver can copy that memory, which must stay as it is as long as the receiver
     * may copy it. Sends nothing. False: the receiver cannot. Not on multicast links. */
    bool (*refer)(struct link_tx *link, const void *address, size_t bytes,
                  struct link_reference *reference);
};

struct link_view {
    const void *data; /* NULL: it lies elsewhere and must be copied out, see `take` and `fetch` */
    size_t bytes;
    void *place; /* the same memory, where it is a whole message that may be changed and forwarded; or NULL */
};

enum link_state { LINK_EMPTY, LINK_READY, LINK_FAULT };

struct link_rx {
    const struct link_rx_ops *ops;
    int peer;
    unsigned capabilities;            /* of enum link_capability */
    const struct memory_kind *memory; /* of what peek showed last; NULL: the host's */
};

struct link_rx_ops {
    /* READY: *view shows the rest of the next message, and is valid until consumed. FAULT: the
     * message has another signature, or makes no sense; the link stays at fault. */
    enum link_state (*peek)(struct link_rx *link, struct link_view *view);
    /* For a view without data. take: copies its first bytes to a destination; the caller consumes
     * them afterwards. fetch: copies a part of it into local memory, which the next peek shows:
     * a multiple of 1 KiB, in which units of encodings end, or all that is left.
     * False: not possible; the reason (its sender died, say) will show elsewhere. */
    bool (*take)(struct link_rx *link, void *destination, size_t bytes);
    bool (*fetch)(struct link_rx *link);
    /* Gives that many bytes back to the sender; a message is over when all of it has been
     * consumed. */
    void (*consume)(struct link_rx *link, size_t bytes);
    /* Sends the message in view, which has a place, on links that all share and have room; that
     * consumes it. */
    void (*forward)(struct link_rx *link, struct link_tx *const *targets, unsigned count);
    /* Lets the sender store the next message there if it has that many bytes; until the message has
     * come, nothing else touches that memory. No effect if the sender cannot write there. */
    void (*advertise)(struct link_rx *link, void *destination, size_t bytes);
    /* Lets this end of the link store the next `bytes` bytes, of any messages that have not come
     * yet, there as they come; views then show them there. Until they are consumed, no other code
     * touches that memory. A later call replaces an earlier one. */
    void (*place_directly)(struct link_rx *link, void *destination, size_t bytes);
    /* Copies from memory that the link's sender refers to, from `offset` bytes into it. EMPTY: not
     * possible, as for take. FAULT: the reference makes no sense. */
    enum link_state (*copy)(struct link_rx *link, const struct link_reference *reference,
                            size_t offset, void *destination, size_t bytes);
};

/* Ranks of which any one can send one message to all others at once. All of them name the same
 * group. */
struct transport_group {
    const int *ranks; /* ascending; the transport's */
    int count;        /* 2 or more */
};

struct transport {
    const struct transport_ops *ops;
    const struct sharing_ops *sharing; /* transport_shares_nothing, if they do not */
    /* What control asks of links that carry data beside it; NULL for links in memory and over
     * TCP. */
    const struct data_order_ops *ordered;
    int rank, size;
    /* The groups of which this rank is a member, from creation on. None: each message goes to one
     * rank. */
    struct transport_group groups[TRANSPORT_GROUPS_MAX];
    int group_count;
    /* The paths that lead to each rank, from creation on; a group has the paths of its members. The
     * tables live as long as the transport. */
    struct path_map paths;
    const struct memory_kind *shared_memory; /* of shared slots; NULL: the host's */
    /* The signature of the operation that runs in each slot; the engine sets it before the
     * operation's first step. Points to own_signatures or, in transports below a router, to
     * signatures that all of them share. Links keep the pointer, so it is set before the first link
     * is opened. */
    uint64_t *signatures;
    uint64_t own_signatures[TRANSPORT_SLOT_COUNT];
    /* The kind of memory that the operation's kernels take beside the host's (NULL: none). Links
     * give the operation only such memory (`memory` of a link), and take only such memory from it
     * by reference. All other memory that comes by reference is shown without data, to be copied.
     * Set and shared as signatures are. */
    const struct memory_kind **takes_kind;
    const struct memory_kind *own_takes_kind[TRANSPORT_SLOT_COUNT];
};

/* What only ranks that share memory can do: see `groups`, and LINK_SHARES. */
struct sharing_ops {
    /* As open_tx and open_rx, for links of one of `groups`: the link on which this rank sends to
     * all others of the group, and the link on which a peer of the group does. */
    enum tutti_status (*open_multicast_tx)(struct transport *transport, int slot, int channel,
                                           int group, size_t bytes, struct link_tx **link);
    enum tutti_status (*open_multicast_rx)(struct transport *transport, int slot, int channel,
                                           int group, int peer, struct link_rx **link);
    /* This and the next two functions are for transports whose links have LINK_SHARES. Prepares
     * this rank's shared slots for one slot of operations. May allocate and call the kernel. */
    enum tutti_status (*open_shared_slots)(struct transport *transport, int slot);
    /* A shared slot for that many bytes (at most what `limits` says); NULL while there is none,
     * since a rank has only a few. Until it is sent, further calls return the same slot. */
    void *(*reserve_shared)(struct transport *transport, int slot, size_t bytes);
    /* Sends the shared slot that was reserved last on links of that slot of operations, which all
     * share and have room. */
    void (*send_shared)(struct transport *transport, int slot, struct link_tx *const *links,
                        unsigned count, size_t bytes);
};

struct transport_footprint {
    size_t private_bytes;    /* as it is touched at most */
    size_t shared_bytes;     /* reserved for its own data, and its part of the common memory */
    size_t link_count;       /* both directions */
    size_t descriptor_count; /* beside the segment's */
};

struct transport_ops {
    /* The amounts that every link can take: bytes of a piece, and pieces under way. The same on all
     * ranks. */
    void (*limits)(struct transport *transport, size_t *piece_bytes_max, unsigned *piece_count_max);
    /* Opens (or finds) a link and prepares it for messages of up to `bytes`. The link stays the
     * transport's. Binding ensures that there is such a channel. May allocate and call the kernel;
     * does not wait for the peer. */
    enum tutti_status (*open_tx)(struct transport *transport, int slot, int channel, int peer,
                                 size_t bytes, struct link_tx **link);
    enum tutti_status (*open_rx)(struct transport *transport, int slot, int channel, int peer,
                                 struct link_rx **link);
    /* Moves bytes between links and the outside; never waits. True when something moved. */
    bool (*progress)(struct transport *transport);
    /* As `progress`, and tells peers now what it would have told them with later data: for a rank
     * that starts nothing any more. */
    void (*flush)(struct transport *transport);
    /* Whether a peer may be waiting for something that waits here to be sent; then some thread has
     * to call `progress`. */
    bool (*is_awaited)(const struct transport *transport);
    /* Whether a peer has consumed all that was sent to it, and knows what was consumed here; or is
     * gone for good. Without progress. After `stop`: yes. */
    bool (*is_settled)(const struct transport *transport, int peer);
    /* Gives up all links for good: nothing is shown on them any more. True: memory that was posted
     * or advertised is no longer touched either. False: a rank that shares memory with this one may
     * still be reading or writing there, so the caller waits until that rank has left its call; or
     * a network card may, whose driver does not close it. */
    bool (*stop)(struct transport *transport);
    /* Announces that this rank is about to sleep: a look after this call sees everything that peers
     * published before it returned. Then the caller either cancels, or sleeps until a peer
     * publishes something or wakes it, at most timeout_ns. */
    void (*sleep_begin)(struct transport *transport);
    void (*sleep_cancel)(struct transport *transport);
    void (*sleep)(struct transport *transport, uint64_t timeout_ns);
    /* A descriptor to poll together with others, readable when `sleep` would return early. Call
     * this once before the first sleep, and again after each sleep_begin and the last look that
     * follows it, immediately before polling; call sleep_cancel afterwards. -1: there is none, now
     * or later; then poll with a short timeout. The descriptor stays the transport's. */
    int (*descriptor)(struct transport *transport);
    /* Wakes this rank's own sleeper, from another thread; cheap if no thread sleeps. */
    void (*wake)(struct transport *transport);
    /* Wakes every rank that sleeps and shares memory with this one, and this one. Ranks of other
     * hosts are woken by messages. */
    void (*wake_all)(struct transport *transport);
    /* A rank whose data arrived corrupt a second time, when it was sent again or read from its
     * second copy; -1: none is known. */
    int (*corrupt_rank)(const struct transport *transport);
    /* NO_DESCRIPTORS or NO_MEMORY if this rank has lacked them for a second and so cannot read what
     * *peer sent; else OK. */
    enum tutti_status (*shortage)(const struct transport *transport, uint64_t now_ns, int *peer);
    /* Adds the memory, links and descriptors that this rank's end holds. Between operations;
     * allocates and waits for nothing. */
    void (*add_footprint)(const struct transport *transport, struct transport_footprint *sum);
};

/* The first is for a transport by itself, the second for a transport that carries the operations of
 * another. */
static inline void transport_own_slots(struct transport *transport)
{
    transport->signatures = transport->own_signatures;
    transport->takes_kind = transport->own_takes_kind;
}
static inline void transport_share_slots(struct transport *transport, const struct transport *other)
{
    transport->signatures = other->signatures;
    transport->takes_kind = other->takes_kind;
}

/* For links that lack a capability. Only the first four are ever called; they say that nothing is
 * possible. */
enum link_reach link_no_reach(struct link_tx *link, const void *address, size_t bytes);
bool link_no_post(struct link_tx *link, const void *address, size_t bytes);
bool link_no_take(struct link_rx *link, void *destination, size_t bytes);
bool link_no_fetch(struct link_rx *link);
void *link_no_advertised_at(struct link_tx *link, size_t bytes);
void link_no_written(struct link_tx *link, size_t bytes);
bool link_no_refer(struct link_tx *link, const void *address, size_t bytes,
                   struct link_reference *reference);
void link_no_forward(struct link_rx *link, struct link_tx *const *targets, unsigned count);
void link_no_advertise(struct link_rx *link, void *destination, size_t bytes);
void link_no_place_directly(struct link_rx *link, void *destination, size_t bytes);
enum link_state link_no_copy(struct link_rx *link, const struct link_reference *reference,
                             size_t offset, void *destination, size_t bytes);
/* For transports without groups, and for those whose links do not share: UNSUPPORTED, or never
 * called; and a table of them. */
extern const struct sharing_ops transport_shares_nothing;
enum tutti_status transport_no_multicast_tx(struct transport *transport, int slot, int channel,
                                            int group, size_t bytes, struct link_tx **link);
enum tutti_status transport_no_multicast_rx(struct transport *transport, int slot, int channel,
                                            int group, int peer, struct link_rx **link);
enum tutti_status transport_no_shared_slots(struct transport *transport, int slot);
void *transport_no_reserve_shared(struct transport *transport, int slot, size_t bytes);
void transport_no_send_shared(struct transport *transport, int slot, struct link_tx *const *links,
                              unsigned count, size_t bytes);

/* For ranks that are reached through memory: nothing waits, and nobody is owed anything. */
void transport_no_flush(struct transport *transport);
bool transport_not_awaited(const struct transport *transport);
bool transport_owes_nothing(const struct transport *transport, int peer);
bool transport_stops_nothing(struct transport *transport);

/* For transports where these cannot occur. */
int transport_no_corrupt_rank(const struct transport *transport);
enum tutti_status transport_no_shortage(const struct transport *transport, uint64_t now_ns,
                                        int *peer);
void transport_no_footprint(const struct transport *transport, struct transport_footprint *sum);
/* For transports whose links move by themselves, and for those without a descriptor. */
bool transport_no_progress(struct transport *transport);
int transport_no_descriptor(struct transport *transport);
/* For transports on which no thread sleeps, as in virtual time. The first takes the place of
 * sleep_begin, sleep_cancel, wake and wake_all; the second takes the place of sleep, and ends at
 * once. */
void transport_no_sleeper(struct transport *transport);
void transport_no_sleep(struct transport *transport, uint64_t timeout_ns);

#endif
