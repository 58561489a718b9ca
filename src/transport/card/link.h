/* link.h - the two ends of a link over a network card: the messages to be sent, and those that have
 * come. Knows nothing of devices.
 *
 *   sender     entries  [slot][posted memory    ][slot]          one a commit or post
 *              messages  0     1    2    3    4    5             numbered for the life of the link; a write counts as one
 *   receiver   messages from `consumed` on, up to a window of them: each has come or not, in any
 *              order
 *
 * A message gets its number when it goes: only then is it known whether the receiver has offered a
 * region for the rest of its entry. The sender keeps an entry until its last message is consumed,
 * and the device does not read it any more, whatever the receiver says.
 *
 * Long posted memory goes by writes alone. If nothing is offered yet, its sender ASKs for a place.
 * Once the receiver's user looks for these bytes, the receiver offers the memory that its user
 * names, or a landing of its own:
 *
 *   sender    ASK ──►                write ──► PLACED ──►  write ──► PLACED ──► ...
 *   receiver       ◄── GRANT: where              (consumed) ◄── GRANT: so much further, in a landing
 *
 * A region offered belongs to a range of the link's bytes; it is over when the receiver has
 * consumed to the end of the range. Until then no other region is offered. No part of the user's
 * memory is used twice. A landing is a ring: to consume old bytes makes room for new ones.
 *
 * While a sender fills a landing, it asks for the next entries, as far ahead as a landing is long.
 * The receiver hears each question as it comes, and lengthens the landing's range; so the sender
 * waits for no answer between one entry and the next. But if the user has meanwhile said where some
 * bytes belong, the landing ends with those bytes, and the user may again say where later ones go.
 */
#ifndef TUTTI_TRANSPORT_CARD_LINK_H
#define TUTTI_TRANSPORT_CARD_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/message.h"
#include "transport/transport.h"

enum { CARD_WINDOW_MAX = 32, CARD_LANDING_PARTS = 8 };

struct card_pair;

/* The same at both ends. */
struct card_shape {
    size_t piece_bytes;
    unsigned window;      /* messages under way */
    size_t asked_bytes;   /* posted memory of so many bytes goes by writes alone */
    size_t landing_bytes; /* of a landing: a multiple of CARD_LANDING_PARTS * 64 */
};

struct card_offer {
    struct card_target target;       /* as the sender's card names it; key 0: by messages */
    uint64_t from, until, signature; /* until == from: there is none */
    uint64_t room;                   /* of a landing; 0: it is as long as its range */
    /* At the receiver alone. */
    uint64_t key; /* to be deregistered when it is over */
    char *destination;
};

/* -------------------------------------------------------------------------------------- sending */

struct card_entry {
    const char *data;
    size_t bytes, done; /* given to the device */
    uint64_t key;       /* of the memory; 0: it could not be registered */
    bool is_posted, has_asked;
    uint64_t offset, signature;
    uint64_t end;     /* the number behind its last message's */
    unsigned writing; /* writes that read from it, or of which the receiver was not told */
    unsigned sending; /* messages that read from it */
};

/* A write, which has the number of a message. */
struct card_written {
    bool is_used, has_landed, is_told, is_done; /* is_done: the card does not read there any more */
    uint64_t number, entry, offset, key;        /* key: the target's */
    size_t bytes;
};

struct card_tx {
    struct link_tx base;
    struct card_pair *pair;
    const uint64_t *signature;
    unsigned index;
    struct card_shape shape;
    size_t reach_bytes; /* from this size on memory is posted */
    bool is_granted;    /* the receiver has opened its end */
    char *slots;
    uint64_t slots_key;
    struct card_entry entries[CARD_WINDOW_MAX];
    struct card_written written[CARD_WINDOW_MAX]; /* by number */
    unsigned untold; /* of these: have landed, and the receiver does not know it */
    uint64_t entry_first, entry_sending, entry_end; /* kept, next to be sent, next to be made */
    uint64_t sent, consumed;                        /* messages that have a number */
    uint64_t offset;                                /* bytes in all entries so far */
    bool has_posted;
    uint64_t posted_signature;
    struct card_offer offer;
};

/* The next piece of work for the device. */
struct card_piece {
    bool is_write; /* into `target` from `at` on; else a message */
    struct card_memory memory;
    struct card_target target;
    uint64_t at;
    uint64_t number; /* of the message, or of the message that tells of the write */
    uint64_t entry;  /* of which it is a part, unless it tells of a write */
    struct card_message message;
};

enum tutti_status card_tx_create(const struct card_shape *shape, const uint64_t *signature,
                                 struct card_tx **tx);
void card_tx_free(struct card_tx *tx);
/* As the contract says. */
bool card_tx_has_room(const struct card_tx *tx);
void *card_tx_reserve(struct card_tx *tx, size_t bytes);
void card_tx_commit(struct card_tx *tx, size_t bytes);
bool card_tx_is_consumed(const struct card_tx *tx);
/* There is room; the memory is registered, or key is 0. */
void card_tx_post(struct card_tx *tx, const void *address, size_t bytes, uint64_t key);
/* The next piece that can be given to the device; a write has at most write_bytes bytes. False:
 * there is none now. */
bool card_tx_next(const struct card_tx *tx, size_t write_bytes, struct card_piece *piece);
/* The piece was given to the device. */
void card_tx_given(struct card_tx *tx, const struct card_piece *piece);
/* Whether nothing of the link is left to be given, now or later. */
bool card_tx_is_all_given(const struct card_tx *tx);
/* The write with that number, modulo 2^32, has landed at the receiver, or will have before any
 * message that is sent from now on; with is_done its memory is not read any more. False: there is
 * no such write. */
bool card_tx_landed(struct card_tx *tx, uint32_t number, bool is_done);
/* The device does not read a message of that entry any more (modulo the window). */
void card_tx_left(struct card_tx *tx, unsigned entry);
/* Takes the receiver's count. False: it cannot have consumed that many. */
bool card_tx_granted(struct card_tx *tx, const struct card_grant *grant);
/* Forgets the first entry if it is done with, and says which memory was posted, if any. False: it
 * is not done with: the receiver has not consumed it, or has said so before the device has read it. */
bool card_tx_drop(struct card_tx *tx, uint64_t *posted_key);
/* The same, even if the entry is not done with. */
bool card_tx_give_up(struct card_tx *tx, uint64_t *posted_key);

/* ------------------------------------------------------------------------------------ receiving */

/* Memory of a posted receive. */
struct card_buffer {
    char *data;
    uint64_t key;
};

struct card_arrival {
    bool has_come, is_question, is_heard; /* is_heard: a question before its turn */
    const char *data;
    struct card_buffer *buffer; /* in which that is; or NULL */
    size_t bytes;
    uint64_t offset, signature;
    bool wants_answer;
};

struct card_rx {
    struct link_rx base;
    struct card_pair *pair;
    const uint64_t *signature;
    unsigned index;
    struct card_shape shape;
    struct card_arrival arrivals[CARD_WINDOW_MAX];
    uint64_t consumed, told; /* messages, and as the sender was told */
    uint64_t position;       /* bytes in consumed messages */
    size_t done;             /* bytes of the message in view that are consumed */
    size_t offer_bytes;      /* from this size on memory is offered */
    bool owes_answer, owes_offer;
    struct card_offer offer;
    uint64_t told_until;                   /* of a landing */
    uint64_t asked_until, asked_signature; /* the sender asks for a place for bytes up to there */
    bool was_looked_for;                   /* these were, in vain */
    uint64_t wished_until; /* the user said in vain where bytes up to there belong; 0: not lately */
    char *landing;         /* registered; or NULL */
    struct card_target landing_target; /* key 0: there is none */
};

enum tutti_status card_rx_create(const struct card_shape *shape, const uint64_t *signature,
                                 struct card_rx **rx);
void card_rx_free(struct card_rx *rx);
/* A message has come: DATA of that many bytes in a buffer, which is the link's from now on, or
 * PLACED (buffer is NULL). Returns a text that says what is wrong, or NULL. */
const char *card_rx_arrive(struct card_rx *rx, const struct card_message *message,
                           struct card_buffer *buffer, size_t bytes);
/* As the contract says. consume returns a buffer that the link no longer needs, or NULL. */
enum link_state card_rx_peek(const struct card_rx *rx, struct link_view *view);
struct card_buffer *card_rx_consume(struct card_rx *rx, size_t bytes);
/* Whether a region can be offered for the next bytes: no region is offered, and no message is
 * partly consumed. */
bool card_rx_may_offer(const struct card_rx *rx);
/* The user said where that many bytes belong, and a region could not be offered. */
void card_rx_wish(struct card_rx *rx, size_t bytes);
/* Offers a region for that many bytes. key: the key of the region registered for them; target: the
 * sender's name for it. */
void card_rx_offer(struct card_rx *rx, void *destination, size_t bytes, uint64_t key,
                   const struct card_target *target);
/* Whether the sender waits for a place, and the user has had the chance to offer one: true from the
 * second look for the bytes on. */
bool card_rx_ask_landing(struct card_rx *rx);
/* Offers the landing for the bytes that the sender asked for; if there is none, tells the sender to
 * send them by messages. */
void card_rx_land(struct card_rx *rx);
/* If the region offered is over, forgets it, and returns the key to be deregistered. 0: none. */
uint64_t card_rx_drop_offer(struct card_rx *rx);
/* Whether the sender should be told now. */
bool card_rx_should_tell(const struct card_rx *rx);
bool card_rx_is_told(const struct card_rx *rx);
void card_rx_tell(const struct card_rx *rx, struct card_grant *grant);
void card_rx_told(struct card_rx *rx);

#endif
