/* words.h - the control messages between two ranks (transport/peers.h), which a network card
 * delivers in any order: the messages to be told, and those that came before their turn. Knows
 * nothing of devices.
 *
 *   teller   acked ──── sent ──── told          numbered for the life of the pair; those from `acked` on are kept
 *   hearer   heard ... [came][    ][came]       shown in order; as many can come as may be kept
 */
#ifndef TUTTI_TRANSPORT_CARD_WORDS_H
#define TUTTI_TRANSPORT_CARD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/peers.h"

struct card_word {
    size_t bytes;   /* 0: it has not come */
    uint64_t after; /* it is heard after so many messages of any kind */
    char data[PEERS_MESSAGE_BYTES_MAX];
};

/* Zeroed, to begin with. */
struct card_words {
    struct card_word *queue; /* of PEERS_MESSAGES_MAX to be told, and as many that came */
    uint64_t told, sent, acked;
    uint64_t heard, heard_told; /* and as the teller was told */
};

/* NO_MEMORY. */
enum tutti_status card_words_init(struct card_words *words);
void card_words_release(struct card_words *words);
/* The last PEERS_FINAL_MESSAGES places are kept for final messages. */
bool card_words_have_room(const struct card_words *words, bool is_final);
/* There is room. */
void card_words_tell(struct card_words *words, const void *message, size_t bytes);
/* The next to be sent; NULL: none. */
const struct card_word *card_words_next(const struct card_words *words);
/* The hearer has heard that many, or already more. False: it cannot have. */
bool card_words_acked(struct card_words *words, uint64_t heard);
/* A control message has come, which is to be heard after so many messages of any kind. False: it
 * makes no sense. */
bool card_words_take(struct card_words *words, uint64_t number, uint64_t after, const void *message,
                     size_t bytes);
/* The next to be heard when so many messages have come; NULL: none. card_words_heard then counts it
 * as heard. */
const struct card_word *card_words_hear(const struct card_words *words, uint64_t taken);
void card_words_heard(struct card_words *words);

#endif
