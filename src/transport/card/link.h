/* link.h - the two ends of a link over a network card: what is to be sent, and what has come. Knows nothing of devices.
 *
 *   sender     entries  [slot][posted memory    ][slot]          one a commit or post
 *              messages  0     1    2    3    4    5             numbered for the life of the link; or, where the receiver
 *              messages  0     1    2              3             has offered a region, one for all that is left of an entry
 *   receiver   messages from `consumed` on, up to a window of them: each has come or not, in any order
 *
 * A message gets its number when it goes: only then is it known whether the receiver has offered a region for the rest of its
 * entry. The sender keeps an entry until its last message is consumed.
 *
 * A region offered belongs to a range of the link's bytes, so no part of it is used twice; it is over when the receiver has
 * consumed to its end. Until then no other one is offered.
 */
#ifndef TUTTI_TRANSPORT_CARD_LINK_H
#define TUTTI_TRANSPORT_CARD_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/message.h"
#include "transport/transport.h"

enum { CARD_WINDOW_MAX = 32 };

struct card_pair;

/* The same at both ends. */
struct card_shape {
    size_t piece_bytes;
    unsigned window; /* messages under way */
};

struct card_offer {
    struct card_target target;        /* as the sender's card names it */
    uint64_t from, length, signature; /* length 0: there is none */
    /* At the receiver alone. */
    uint64_t key;
    char *destination;
};

/* ------------------------------------------------------------------------------------------ sending */

struct card_entry {
    const char *data;
    size_t bytes, done; /* given to the device */
    uint64_t key;       /* of the memory; 0: it could not be registered */
    bool is_posted;
    uint64_t offset, signature;
    enum { CARD_BY_MESSAGES, CARD_IS_WRITING, CARD_HAS_LANDED, CARD_IS_TOLD } way;
    uint64_t end;        /* the number behind that of its last message */
    size_t written_from; /* from there on it was written */
    uint64_t offer_key;  /* into that target */
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
    uint64_t entry_first, entry_sending, entry_end; /* kept, next to be sent, next to be made */
    uint64_t sent, consumed;                        /* messages that have a number */
    uint64_t offset;                                /* bytes in all entries so far */
    bool has_posted;
    uint64_t posted_signature;
    struct card_offer offer;
};

/* What can be given to the device next. */
struct card_piece {
    bool is_write; /* into `target` from `at` on; else a message */
    struct card_memory memory;
    struct card_target target;
    uint64_t at, entry;
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
/* False: nothing, now. */
bool card_tx_next(const struct card_tx *tx, struct card_piece *piece);
/* It was given. */
void card_tx_given(struct card_tx *tx, const struct card_piece *piece);
/* Whether nothing of it is left to be given, now or later. */
bool card_tx_is_all_given(const struct card_tx *tx);
/* All of what was written for that entry lies at the receiver. False: nothing was written for it. */
bool card_tx_landed(struct card_tx *tx, uint64_t entry);
/* What the receiver says. False: it cannot have consumed that many. */
bool card_tx_granted(struct card_tx *tx, const struct card_message *grant);
/* The first entry is done with: forgets it, and says which memory was posted, if any. False: it is not. */
bool card_tx_drop(struct card_tx *tx, uint64_t *posted_key);
/* The same without its being done with. */
bool card_tx_give_up(struct card_tx *tx, uint64_t *posted_key);

/* ---------------------------------------------------------------------------------------- receiving */

/* Memory of a posted receive. */
struct card_buffer {
    char *data;
    uint64_t key;
};

struct card_arrival {
    bool has_come;
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
};

enum tutti_status card_rx_create(const struct card_shape *shape, const uint64_t *signature,
                                 struct card_rx **rx);
void card_rx_free(struct card_rx *rx);
/* A message has come, DATA of that many bytes in a buffer that is the link's from now on, or PLACED (NULL). Returns what is wrong, or
 * NULL. */
const char *card_rx_arrive(struct card_rx *rx, const struct card_message *message,
                           struct card_buffer *buffer, size_t bytes);
/* As the contract says. consume returns the buffer that the link does not need any more, or NULL. */
enum link_state card_rx_peek(const struct card_rx *rx, struct link_view *view);
struct card_buffer *card_rx_consume(struct card_rx *rx, size_t bytes);
/* Whether a region can be offered for the next bytes: none is, and no part of a message is consumed. */
bool card_rx_may_offer(const struct card_rx *rx);
/* key: of the region that was registered for it; target: as the sender names that. */
void card_rx_offer(struct card_rx *rx, void *destination, size_t bytes, uint64_t key,
                   const struct card_target *target);
/* The region offered is over: forgets it, and says which. 0: it is not, or there is none. */
uint64_t card_rx_drop_offer(struct card_rx *rx);
/* Whether the sender should be told now. */
bool card_rx_should_tell(const struct card_rx *rx);
bool card_rx_is_told(const struct card_rx *rx);
void card_rx_tell(const struct card_rx *rx, struct card_message *grant);
void card_rx_told(struct card_rx *rx);

#endif
