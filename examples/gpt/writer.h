/* writer.h - lets a model write. */
#ifndef GPT_WRITER_H
#define GPT_WRITER_H

#include <stdio.h>

#include "model.h"
#include "tokenizer.h"

struct writer_options {
    size_t tokens;      /* how many to write */
    double temperature; /* below 1: likelier tokens even more often; 0: the likeliest alone */
    uint64_t seed;
};

/* Writes the bytes of some tokens, which begin with `prompt`'s, and of those that the model has
 * follow. The model is a whole one. Each token costs a forward pass over a context. Expects 1 <=
 * prompt_count <= the context. */
void writer_write(struct model *model, struct saved *saved, const struct tokenizer *tokenizer,
                  const struct writer_options *options, const uint32_t *prompt, size_t prompt_count,
                  FILE *file);

#endif
