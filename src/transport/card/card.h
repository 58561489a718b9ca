/* card.h - the transport over a network card (card_device.h): links between ranks by the verbs of a
 * card with remote memory access. Control goes beside it (transport/data_order.h).
 *
 *   rank a                                                                      rank b
 *   link ─┐                 ┌─ messages of a few KiB ─► posted receive ─────┬─ link: put in order by their numbers
 *   link ─┴─ pair ─ device ─┴─ remote writes ─► a region that b offered  ───┴─ ...
 *
 * Bytes that a link commits go in messages, read from slots that are registered. Memory that it
 * posts is registered while it is under way. It goes by remote writes straight to where the
 * receiver wants it, if the receiver has offered its memory (`advertise`, `place_directly`).
 * Otherwise short memory goes in messages, too, which cards and providers copy, and long memory by
 * remote writes into a landing of the receiver, from which the receiver reduces it, say (link.h).
 *
 * Invariants
 *   1. No message is sent for which the peer has posted no receive: each message says how many were
 *      posted so far, and some are kept for messages that say nothing else (pair.h). A receive is
 *      posted again as soon as a message was taken from it, whether its link consumes the message
 *      or not. So links never wait for each other, as each has a window of its own.
 *   2. Messages overtake each other and completions come in any order. So links number what they
 *      send, and a message that comes early waits in its window. After a write has completed, a
 *      message of the link says that its bytes are there.
 *   3. A region that is offered belongs to a range of the link's bytes; the sender decides for each
 *      posted message alone, and no offer of the user's memory is used twice. The receiver
 *      deregisters it when it has consumed the range.
 *   4. Whatever comes is foreign, and is checked before use. A message that makes no sense breaks
 *      the peer for good, and its links are at fault.
 *   5. Memory is allocated only by create and open, by the first message to or from a peer, and by
 *      a link when it first needs a landing. Only sleep waits.
 *
 * It has neither groups nor integrity.
 *
 * Threads: one at a time for all of it; only wake and wake_all come from any thread. Some thread
 * has to call progress until card_is_idle.
 */
#ifndef TUTTI_TRANSPORT_CARD_CARD_H
#define TUTTI_TRANSPORT_CARD_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/card_device.h"
#include "transport/card/flight.h"
#include "transport/transport.h"

enum {
    CARD_PIECE_COUNT_DEFAULT = 16,
    CARD_ASKED_BYTES = 65536 /* a question and its answer cost less than copying so much */
};

/* The same on all ranks, but for rank and owner. */
struct card_options {
    int rank, size;
    size_t piece_bytes; /* of a message without its head: a multiple of 64; 0: as long as the device takes */
    unsigned piece_count; /* messages of a link under way, up to 32; 0: CARD_PIECE_COUNT_DEFAULT */
    unsigned receive_count; /* posted for each peer, 8 to 64; 0: 32 */
    bool is_software;       /* the device's work is done by the host's cores */
    size_t reach_bytes; /* from this size on memory is posted; 0: as the table of paths says; SIZE_MAX: never */
    size_t offer_bytes; /* the same for memory that is offered */
    size_t asked_bytes; /* from this size on posted memory goes by remote writes alone; 0: 64 KiB; SIZE_MAX: never */
    unsigned patience; /* passes without anything moving until peers are told what an answer would have told them, too */
    size_t landing_bytes; /* into a ring of so many, where the receiver offers nothing better: a multiple of 512; 0: 1 MiB */
    size_t flight_bytes; /* given to the device for a peer before they have come: CARD_FLIGHT_ANY, CARD_FLIGHT_ADAPTS, or so many */
    /* What control asks of these links; NULL: card_data_order_ops. */
    const struct data_order_ops *ordered;
    void *owner;        /* for those functions: see card_owner */
    size_t owner_bytes; /* counted in the footprint */
};

/* Takes the device, also on failure. INVALID_OPTIONS, NO_MEMORY. */
enum tutti_status card_create(const struct card_options *options, struct card_device *device,
                              struct transport **transport);

/* Whether nothing waits here to be sent, and peers were told of everything that was consumed. */
bool card_is_idle(const struct transport *transport);
/* Stops and frees. NULL is allowed. */
void card_close(struct transport *transport);

/* Parts of a table of control's questions (struct data_order_ops): the numbers of messages, and
 * what the device says of the peer; and a table without anything else. */
uint64_t card_sent(const struct transport *transport, int peer);
uint64_t card_taken(const struct transport *transport, int peer);
bool card_told(struct transport *transport, int peer, uint64_t sent);
void card_report(const struct transport *transport, int peer, struct link_report *report);
void card_forget(struct transport *transport, int peer);
extern const struct data_order_ops card_data_order_ops;
void *card_owner(const struct transport *transport);
/* The state of a peer's device as the pair of this rank with it has seen it. */
enum card_peer_state card_peer_state(const struct transport *transport, int peer);
/* Whether there is a gap: a message from the peer has not come, although a later one has. */
bool card_misses(const struct transport *transport, int peer);

/* Its device; and the number of the device's regions that are not this module's own memory. */
struct card_device *card_device_of(const struct transport *transport);
unsigned card_offered_regions(const struct transport *transport);

#endif
