/* pair.h - the state of two ranks that are connected by a network card: the links between them, and
 * the receives that each has posted for the other.
 *
 * A rank may send `allowed` messages: as many as the peer has posted receives so far. Each message
 * says how many receives its sender has posted, counted from the beginning. If no message goes
 * anyway and the peer has not been told of half of them, a CREDIT says it alone. Receives that were
 * posted for messages beyond a gap count when the gap is closed; so one word of bits says which
 * messages have come.
 *
 *     sent ................ allowed - CREDITS_KEPT .... allowed
 *       └── any message ──────┘      └── CREDIT only ────┘
 *
 * A message that was taken also shows that the bytes written before it have come. So a rank that
 * takes many messages says so often, by a CREDIT if it sends nothing else, and a rank that sends
 * many gives its card no more than the path needs (flight.h).
 *
 * A rank is done with a peer when the peer has said that it took everything but CREDITs. So a
 * CREDIT that says this also goes when there is nothing better to do, once for all messages taken
 * before it.
 *
 * Why no rank gets stuck: receives are posted again at once. So if a rank may send no more, its
 * peer has not told it of at least half of them, and owes it a CREDIT. A rank sends a CREDIT for
 * each half of its receives. Between two of its own messages that the peer has not taken it
 * receives no more than all of them, so two or three CREDITs may be under way: fewer than are kept.
 *
 * The buffers of receives and those of messages that links hold are one pool: a message keeps the
 * buffer it came in, and another buffer is posted in its place. Each open link has added as many
 * buffers as its window holds.
 */
#ifndef TUTTI_TRANSPORT_CARD_PAIR_H
#define TUTTI_TRANSPORT_CARD_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/card/flight.h"
#include "transport/card/link.h"
#include "transport/link_set.h"

enum { CARD_RECEIVES_MIN = 8, CARD_CREDITS_KEPT = 4 };

/* The state that the pairs of a transport share. */
struct card_shared {
    int rank;
    struct card_device *device;
    struct card_shape shape;
    unsigned receive_count;
    size_t flight_bytes;         /* as the options say */
    size_t answer_bytes;         /* the peer is told that so many have come */
    uint64_t *const *signatures; /* the transport's, one a slot; links keep their address */
    bool is_stopped;
    unsigned own_regions; /* registered for memory of this module */
};

struct card_chunk {
    struct card_chunk *next;
    char *memory;
    uint64_t key;
    struct card_buffer buffers[];
};

struct card_pair {
    struct card_shared *shared;
    int rank; /* of the peer */
    struct card_tx *tx[TRANSPORT_LINK_COUNT];
    struct card_rx *rx[TRANSPORT_LINK_COUNT];
    struct link_set granted; /* links to the peer whose other end is open */
    struct link_set unsent;  /* that have something to send, now or when they may */
    struct link_set due;     /* links from the peer of which it should be told now */
    struct link_set untold;  /* or when there is nothing better to do */
    unsigned turn;
    struct card_chunk *chunks;
    struct card_buffer **spare; /* a stack */
    unsigned spare_count, buffer_count;
    uint64_t sent, allowed, posted_told;
    uint64_t said;                   /* messages sent, when the last one was that is not a CREDIT */
    bool owes_taken, owes_taken_now; /* the peer is to be told that such a one was taken */
    uint64_t taken,
        taken_beyond; /* messages of the peer without a gap; a bit for each from there on */
    struct card_flight flight;
    uint64_t unanswered_bytes; /* that have come, and the peer does not know it */
    unsigned under_way;        /* operations of the device that are not completed */
    bool is_refused;           /* the peer has given up its links */
    bool is_at_fault;
    enum card_peer_state state;
    uint64_t since_ns, heard_ns;
};

enum tutti_status card_pair_create(struct card_shared *shared, int rank, struct card_pair **pair);
/* After the device is gone. */
void card_pair_free(struct card_pair *pair);
enum tutti_status card_pair_open_tx(struct card_pair *pair, unsigned index, struct card_tx **tx);
enum tutti_status card_pair_open_rx(struct card_pair *pair, unsigned index, struct card_rx **rx);

bool card_pair_post(struct card_pair *pair, struct card_tx *tx, const void *address, size_t bytes);
void card_pair_offer(struct card_pair *pair, struct card_rx *rx, void *destination, size_t bytes);
/* The user of a link has looked for its next bytes in vain. */
void card_pair_look_for(struct card_pair *pair, struct card_rx *rx);
void card_pair_consume(struct card_pair *pair, struct card_rx *rx, size_t bytes);
/* A link has got something to send. */
void card_pair_send(struct card_pair *pair, struct card_tx *tx);

/* Gives the device as much as it takes; true when it took something. */
bool card_pair_write(struct card_pair *pair);
void card_pair_complete(struct card_pair *pair, const struct card_completion *completion);
/* The peer says that it has sent so many messages. False: it had no room for as many, and is at
 * fault. */
bool card_pair_told(struct card_pair *pair, uint64_t sent);
/* Looks at the device's report on the peer. */
void card_pair_look(struct card_pair *pair);
/* Whether there is something that the peer may be told later; and the function that makes it due
 * now. */
bool card_pair_has_untold(const struct card_pair *pair);
void card_pair_tell_all(struct card_pair *pair);
bool card_pair_has_output(const struct card_pair *pair);
bool card_pair_has_awaited_output(const struct card_pair *pair);
bool card_pair_is_settled(const struct card_pair *pair);
/* As card_stop says. */
void card_pair_stop(struct card_pair *pair);

#endif
