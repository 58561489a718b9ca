/* train_char_text.h - the text that examples/train_char learns from: as symbols, and divided into
 * characters to train on and characters that are held out. */
#ifndef EXAMPLES_TRAIN_CHAR_TEXT_H
#define EXAMPLES_TRAIN_CHAR_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { CONTEXT = 12 }; /* characters that the model sees */

struct text {
    size_t length;
    unsigned char *characters; /* as symbols 0 ... symbol_count - 1 */
    int symbol_count;
    unsigned char symbols[256]; /* the byte of each symbol */
    double entropy;             /* loss of guessing by the frequency of characters alone */
    uint32_t *train, *held_out; /* places of the characters to guess */
    size_t train_count, held_out_count;
};

/* Rank 0 reads the text (NULL: licences that are on every Debian system) and hands it to all. */
void share_text(const char *path, struct text *text, struct tutti_comm *comm);
/* Makes symbols of it, and divides it. */
void prepare_text(struct text *text);
void free_text(struct text *text);

#endif
