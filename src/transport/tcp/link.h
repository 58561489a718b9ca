/* link.h - the two ends of a link over TCP: the pieces to be sent, and those that have come. Knows
 * nothing of sockets.
 *
 *   sender     entries  [message][posted message      ][message]        one a commit or post
 *              pieces    0        1     2     3     4   5               numbered for the life of the link
 *                           consumed ▲     sent ▲        ▲ sequence
 *   receiver   pieces from `consumed` on, TCP_WINDOW of them: each has come, is coming, or neither
 *
 * A small piece has room in the window itself. A larger one needs one of the receiver's places,
 * which the sender assigns. It takes the first free one, so that few places are touched if few are
 * needed. When a piece is consumed, its place is free again, and so is the memory in which the
 * sender keeps it.
 *
 * The receiver may also expect the next bytes of the link in other memory (tcp_rx_advertise). As
 * soon as the sender knows this, these bytes need no places, and only the window bounds the pieces
 * under way.
 */
#ifndef TUTTI_TRANSPORT_TCP_LINK_H
#define TUTTI_TRANSPORT_TCP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tcp/frame.h"
#include "transport/transport.h"

enum {
    TCP_WINDOW = 64, /* pieces under way; each has a bit in a word */
    TCP_SMALL_BYTES = 256,
    TCP_PLACES_MAX = 64
};

struct tcp_pair;

/* The same at both ends. */
struct tcp_shape {
    size_t piece_bytes;
    unsigned place_count;
    unsigned spare; /* of the places: how many may be consumed before the sender is told */
};

/* -------------------------------------------------------------------------------------- sending */

struct tcp_entry {
    const char *data;
    size_t bytes;
    uint64_t first; /* piece */
    uint64_t offset, signature;
};

struct tcp_tx {
    struct link_tx base;
    struct tcp_pair *pair;
    const uint64_t *signature;
    unsigned index; /* slot * TRANSPORT_CHANNEL_COUNT + channel */
    struct tcp_shape shape;
    bool is_granted; /* the receiver has opened its end */
    char *smalls, *slots;
    struct tcp_entry entries[TCP_WINDOW];
    uint64_t entry_first, entry_sending, entry_end; /* kept, next to be sent, next to be made */
    uint64_t sequence, sent, consumed;              /* pieces */
    uint64_t offset;                                /* bytes in all entries so far */
    bool has_posted;
    uint64_t posted_signature; /* of the last posted entry */
    uint64_t again; /* bits of pieces from consumed to sent that were lost on their way */
    uint8_t streams[TCP_WINDOW];            /* by which connection a piece was sent last */
    uint32_t places[TCP_WINDOW];            /* where a piece goes at the receiver */
    uint64_t place_free_at[TCP_PLACES_MAX]; /* `consumed` that frees it */
    uint64_t slot_free_at[TCP_PLACES_MAX];  /* of this end's memory */
    int slot_reserved;                      /* -1: none */
    uint64_t expected_until,
        expected_signature; /* as the receiver says: offset, of that operation */
};

struct tcp_piece {
    const char *data;
    size_t bytes;
    uint64_t sequence, offset, signature;
    uint32_t place;
    bool wants_answer; /* the sender waits until all that the operation sent here is consumed */
};

enum tutti_status tcp_tx_create(const struct tcp_shape *shape, const uint64_t *signature,
                                struct tcp_tx **tx);
void tcp_tx_free(struct tcp_tx *tx);
/* Memory for messages that are not small. */
enum tutti_status tcp_tx_make_slots(struct tcp_tx *tx);
/* As the contract says. */
bool tcp_tx_has_room(const struct tcp_tx *tx);
void *tcp_tx_reserve(struct tcp_tx *tx, size_t bytes);
void tcp_tx_commit(struct tcp_tx *tx, size_t bytes);
bool tcp_tx_post(struct tcp_tx *tx, const void *address, size_t bytes);
/* The piece that can be sent next; false: there is none now. */
bool tcp_tx_next(const struct tcp_tx *tx, struct tcp_piece *piece);
/* Whether all pieces were given to connections, and none was lost there. */
bool tcp_tx_is_all_sent(const struct tcp_tx *tx);
/* The piece was given to that connection. */
void tcp_tx_sent(struct tcp_tx *tx, const struct tcp_piece *piece, unsigned stream);
/* The receiver expects bytes of that operation up to that offset: pieces that end there or before
 * need no place. */
void tcp_tx_expected(struct tcp_tx *tx, uint64_t until, uint64_t signature);
/* The receiver says that it has consumed that many pieces; it may have consumed more by now. False:
 * it cannot have. */
bool tcp_tx_credit(struct tcp_tx *tx, uint64_t consumed);
/* Pieces that were sent over that connection and have not come are sent again. `received` has bits
 * from `consumed` on. */
bool tcp_tx_resume(struct tcp_tx *tx, unsigned stream, uint64_t consumed, uint64_t received);

/* ------------------------------------------------------------------------------------ receiving */

struct tcp_arrival {
    const char *data;
    uint64_t offset, signature;
    uint32_t bytes, place;
    bool wants_answer;
};

struct tcp_rx {
    struct link_rx base;
    struct tcp_pair *pair;
    const uint64_t *signature;
    unsigned index;
    struct tcp_shape shape;
    char *smalls, *slots;
    struct tcp_arrival arrivals[TCP_WINDOW];
    uint64_t consumed, told;   /* pieces, and as the sender was told */
    uint64_t position;         /* bytes in consumed pieces */
    uint64_t received, coming; /* a bit for each piece, at its number modulo TCP_WINDOW */
    uint64_t changed;       /* the same: it came, but not as it was sent, and has to come again */
    uint64_t places_used;   /* a bit each */
    unsigned places_untold; /* consumed since the sender was told */
    bool owes_answer, owes_expected; /* to the sender */
    size_t done;                     /* bytes of the piece in view that are consumed */
    char *expected;
    uint64_t expected_from; /* position */
    size_t expected_bytes;  /* 0: nothing is */
};

enum tutti_status tcp_rx_create(const struct tcp_shape *shape, const uint64_t *signature,
                                struct tcp_rx **rx);
void tcp_rx_free(struct tcp_rx *rx);
/* The head of a DATA frame has come: sets the place of its bytes. Returns a text that says what is
 * wrong, or NULL. */
const char *tcp_rx_begin(struct tcp_rx *rx, const struct tcp_frame *frame, char **target);
/* All bytes of the piece have come; true if it had come changed before. tcp_rx_abandon: its
 * connection was lost, and they will not come. */
bool tcp_rx_end(struct tcp_rx *rx, uint64_t sequence);
void tcp_rx_abandon(struct tcp_rx *rx, uint64_t sequence);
/* The piece came changed, and is going to be abandoned. True if it had come changed before. */
bool tcp_rx_came_changed(struct tcp_rx *rx, uint64_t sequence);
/* As the contract says. After tcp_rx_advertise, the next bytes of the link go to the destination as
 * they come, in any number of messages, as long as these end within it. 0 bytes: nothing is
 * expected any more; if the destination was larger than half of the places, this may be called only
 * when the peer sends nothing more there. */
enum link_state tcp_rx_peek(const struct tcp_rx *rx, struct link_view *view);
void tcp_rx_consume(struct tcp_rx *rx, size_t bytes);
void tcp_rx_advertise(struct tcp_rx *rx, void *destination, size_t bytes);
/* Whether the sender should soon be told how much is consumed. */
bool tcp_rx_should_tell(const struct tcp_rx *rx);
void tcp_rx_told(struct tcp_rx *rx);
/* The offset at which the expected bytes end; 0: none are expected. */
uint64_t tcp_rx_expected_until(const struct tcp_rx *rx);
/* Bits of pieces that have come, from `consumed` on. */
uint64_t tcp_rx_received(const struct tcp_rx *rx);

#endif
