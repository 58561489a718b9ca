/* flight.h - how much a rank gives its card for one peer before that has come: as much as keeps the path full, and little more. All of it
 * lies in one queue, and what is urgent waits behind it: answers to who asks for a place, above all.
 *
 *     given ──────────────── come ◄── the peer says how many messages it took (message.h: posted)
 *       └─ on its way: up to ─┘
 *          highest rate lately  *  ( 2 * shortest round trip  +  1 millisecond )
 *          ^ 64 samples of 5 ms      ^ fills the path, and       ^ so long peers and their threads
 *                                      finds it grown              may look at something else
 *
 * As over TCP (tcp/window.h), but it is the sender who decides: the receiver's card takes whatever comes. So a round trip is one of two
 * programs, not of two kernels, and may take a few milliseconds where ranks share cores. That is why there is a minimum. Round trips are those
 * of messages that went while next to nothing was on its way.
 *
 * A message says that all that was given before it has come, since it goes after what was written, or says so itself.
 *
 * Pure: numbers in, numbers out; nothing allocates. */
#ifndef TUTTI_TRANSPORT_CARD_FLIGHT_H
#define TUTTI_TRANSPORT_CARD_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/device.h"

enum {
    CARD_FLIGHT_SAMPLES = 64,
    CARD_FLIGHT_APART_NS = 5000000,
    CARD_FLIGHT_BYTES_MIN = 256 << 10,
    CARD_FLIGHT_ANSWER_BYTES = 64 << 10, /* a receiver says that so many have come */
    CARD_FLIGHT_WRITE_BYTES_MIN = 32 << 10,
    CARD_FLIGHT_SMALL_BYTES =
        4096 /* a message of so few goes in any case: they are bounded by their number */
};

/* As card_options.flight_bytes has it: any number of bytes; as the path needs. */
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
/* Whether so many bytes more may be given now. Nothing on its way: anything may. */
bool card_flight_has_room(const struct card_flight *flight, size_t bytes);
/* Writes should be of so many bytes at most: a multiple of 4096, since none may end within an element. */
size_t card_flight_write_bytes(const struct card_flight *flight);
void card_flight_give(struct card_flight *flight, size_t bytes);
/* A message was given, of that number: all that was given is before it. At most CARD_RECEIVES_MAX are not taken. */
void card_flight_mark(struct card_flight *flight, uint64_t number, uint64_t now_ns);
/* The peer says that it took so many messages; no more than were marked. */
void card_flight_take(struct card_flight *flight, uint64_t messages, uint64_t now_ns);

#endif
