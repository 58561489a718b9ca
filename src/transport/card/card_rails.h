/* card_rails.h - several cards of a rank as one device (card_device.h): the writes of long messages
 * are spread over them, everything else goes over the first one.
 *
 *   rank a                                                                    rank b
 *   send ───► card 0 ─────────── messages, credits, requests for places ────► card 0: posted receives
 *   write ─┬► card 0 ─┐                                                     ┌ card 0 ┐
 *          ├► card 1 ─┼───────── each write whole, over the card with the ──┼ card 1 ┼─► the same memory, which has
 *          └► card 2 ─┘          fewest bytes under way                     └ card 2 ┘   a key on each card
 *
 * Card i of one rank writes to card i of the other. Two ranks use as many as both have: a card
 * whose counterpart has not connected is not UP for that peer, and gets no write.
 *
 * Invariants
 *   1. A WRITTEN completion says that all of the bytes lie at the target, whichever card carried
 *      them. So none of the devices may have `keeps_order`, nor has this one: a message on the
 *      first card shows nothing of the others. The user tells its peer of a write when that write
 *      is complete (link.h), and so needs to know nothing of cards.
 *   2. A region's key is that of the first card, without which nothing is registered. If a further
 *      card does not register it, too, that card does not carry what is written from or to there.
 *   3. If several cards have equally few bytes under way, the first of them takes the write: a
 *      write that is alone goes with the messages.
 *   4. A peer is lost or broken when one of its cards is.
 *
 * Memory of fewer than least_bytes is registered with the first card alone, as are messages.
 *
 * Threads: as card_device.h. */
#ifndef TUTTI_TRANSPORT_CARD_CARD_RAILS_H
#define TUTTI_TRANSPORT_CARD_CARD_RAILS_H

#include <stddef.h>

#include "transport/card/card_device.h"

enum { CARD_RAILS_MAX = 1 + CARD_FURTHER_MAX, CARD_RAILS_BYTES = 65536 };

struct card_rails_options {
    int size;           /* ranks */
    size_t least_bytes; /* 0: CARD_RAILS_BYTES */
};

/* Takes the devices, 2 to CARD_RAILS_MAX, also on failure. NO_MEMORY, SYSTEM. */
enum tutti_status card_rails_create(const struct card_rails_options *options,
                                    struct card_device *const *devices, unsigned count,
                                    struct card_device **device);

/* The device of that number; NULL: there is none. */
struct card_device *card_rails_device(const struct card_device *rails, unsigned number);
/* The bytes that were given to that device to be written, since the beginning. */
uint64_t card_rails_given(const struct card_device *rails, unsigned number);

#endif
