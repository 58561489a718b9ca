/* tokenizer_state.h - what training and using a tokenizer share. */
#ifndef GPT_TOKENIZER_STATE_H
#define GPT_TOKENIZER_STATE_H

#include "pair_map.h"
#include "tokenizer.h"

struct token {
    uint32_t left, right; /* of tokens that are pairs */
    unsigned char size, bytes[TOKENIZER_WORD_BYTES_MAX];
};

struct tokenizer {
    struct token *tokens;
    size_t vocabulary, capacity; /* how many there are, and for how many there is room */
    struct pair_map pairs;       /* to the token that they make */
};

/* With the tokens that are bytes. */
struct tokenizer *tokenizer_create(void);

/* Adds the token for a pair. False, and nothing is done, if there is one already, if the vocabulary
 * is full or if the token would be too long. Expects both < vocabulary. */
bool tokenizer_add(struct tokenizer *tokenizer, uint32_t left, uint32_t right);

/* The length of the word that a text begins with, at least 1: a run of letters, of digits, of other
 * marks or of blanks. One space may stand before the first three. Expects size > 0. */
size_t tokenizer_word(const unsigned char *text, size_t size);

#endif
