/* text_out.h - text that is printed to a stream, and then copied into a caller's buffer as far as
 * it fits. */
#ifndef TUTTI_TRAIN_TEXT_OUT_H
#define TUTTI_TRAIN_TEXT_OUT_H

#include <stddef.h>
#include <stdio.h>

#include "tutti/tutti.h"

struct text_out {
    FILE *file; /* to print to */
    char *memory;
    size_t size;
};

/* On failure (NO_MEMORY) there is nothing to finish. */
enum tutti_status text_out_begin(struct text_out *out);
/* Copies the printed text and a zero, as far as they fit into text_bytes; *full_bytes, unless
 * full_bytes is NULL, becomes the size of all of it. NO_MEMORY: part of the text could not be
 * printed, and nothing is copied. */
enum tutti_status text_out_finish(struct text_out *out, char *text, size_t text_bytes,
                                  size_t *full_bytes);
/* Ends it without a text. */
void text_out_abandon(struct text_out *out);

/* A number of at most three decimals, the same in every locale. */
void text_print_number(FILE *file, double number);

#endif
