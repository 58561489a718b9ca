/* flight.h - how many bytes a rank gives its card for one peer before these have arrived: as many
 * as keep the path full, and few more. All of them lie in one queue, and urgent messages wait
 * behind them, above all answers to ranks that ask for a place.
 *
 *     given ──────────────── come ◄── the peer says how many messages it took (message.h: posted)
 *       └─ on its way: up to ─┘
 *          highest rate lately  *  ( 2 * shortest round trip  +  1 millisecond )
 *          ^ 64 samples of 5 ms      ^ fills the path, and       ^ so long peers and their threads
 *                                      finds it grown              may look at something else
 *
 * As over TCP (tcp/window.h), but here the sender decides: the receiver's card takes whatever
 * comes. So a round trip goes between two programs, not between two kernels, and may take a few
 * milliseconds if ranks share cores. That is why there is a minimum. Only messages that went while
 * next to nothing else was on its way count as round trips.
 *
 * A message that has come shows that all bytes given before it have come, since it goes behind the
 * writes, or says so itself. If a rank has several cards (card_rails.h), this holds for the first
 * one, behind which messages wait. The bytes on the others count as come a little early; there are
 * never many more of them than on the first one.
 *
 * Pure: numbers in, numbers out; nothing allocates. */
#ifndef TUTTI_TRANSPORT_CARD_FLIGHT_H
#define TUTTI_TRANSPORT_CARD_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/card_device.h"

enum {
    CARD_FLIGHT_SAMPLES = 64,
    CARD_FLIGHT_APART_NS = 5000000,
    CARD_FLIGHT_BYTES_MIN = 256 << 10,
    CARD_FLIGHT_ANSWER_BYTES = 64 << 10, /* a receiver says that so many have come */
    CARD_FLIGHT_WRITE_BYTES_MIN = 32 << 10,
    CARD_FLIGHT_SMALL_BYTES =
        4096 /* a message of so few goes in any case: they are bounded by their number */
};

/* Values of card_options.flight_bytes: any number of bytes; as many as the path needs. */
#define CARD_FLIGHT_ANY 0
#define CARD_FLIGHT_ADAPTS SIZE_MAX

struct card_flight {
    size_t limit; /* 0: any number */
    bool adapts;
    uint64_t given, come; /* bytes, for the life of the pair */
    uint64_t took;        /* messages of which the peer says so */
    struct {
        uint64_t given, sent_ns; /* sent_ns 0: behind much else, which says nothing about the path */
    } marks[CARD_RECEIVES_MAX];  /* of messages that it may not have taken, by their number */
    uint64_t shortest_ns[2], shortest_since_ns; /* round trips: lately, and before; 0: none */
    uint64_t sampled_ns, sampled_bytes;
    uint64_t rates[CARD_FLIGHT_SAMPLES]; /* bytes a second */
    uint64_t sample_count;
};

/* bytes: CARD_FLIGHT_ANY, CARD_FLIGHT_ADAPTS, or the limit. */
void card_flight_init(struct card_flight *flight, size_t bytes);
/* Whether so many more bytes may be given now. If nothing is on its way, any number may. */
bool card_flight_has_room(const struct card_flight *flight, size_t bytes);
/* The most bytes that a write should have: a multiple of 4096, since none may end within an
 * element. */
size_t card_flight_write_bytes(const struct card_flight *flight);
void card_flight_give(struct card_flight *flight, size_t bytes);
/* The message of that number was given, behind all bytes given so far. At most CARD_RECEIVES_MAX
 * messages are not taken. */
void card_flight_mark(struct card_flight *flight, uint64_t number, uint64_t now_ns);
/* The peer says that it took so many messages; they are no more than were marked. */
void card_flight_take(struct card_flight *flight, uint64_t messages, uint64_t now_ns);

#endif
