/* data.h - the text as samples, and the order in which training sees them.
 *
 * A sample is `context` tokens, each to be followed by the next. Samples of training have numbers
 * that count on for ever: with a batch of 8, step 3 has the samples 24 to 31. Which tokens a number
 * means depends on the seed alone, so ranks may share the samples of a step in any way.
 *
 *     tokens   |<----------------- 19 contexts: training ----------------->|<- held out ->|<----- 19 ...
 *              |shift|sample|sample|            ...                 |sample|
 *
 * An epoch has every sample of one shift once, in a random order. Each epoch has another shift and
 * another order.
 */
#ifndef GPT_DATA_H
#define GPT_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "tokenizer.h"

struct data {
    uint32_t *tokens;
    size_t token_count;
    size_t context;   /* tokens of a sample */
    size_t stretches; /* of 20 contexts each; a rest at the end is not used */
    uint64_t seed;
    double entropy_nats;    /* a token's, by the frequency of tokens alone: the loss to beat */
    double bytes_per_token; /* in the mean */
};

/* The bytes of a file, or of all licences of this Debian system if the path is NULL. The caller
 * frees them. */
unsigned char *data_read_text(const char *path, size_t *size);

/* Gives up if the text is too short for one stretch. */
void data_init(struct data *data, const struct tokenizer *tokenizer, const unsigned char *text,
               size_t size, size_t context, uint64_t seed);

void data_release(struct data *data);

/* Writes the `context` tokens of a sample of training, and the token that follows each of them. */
void data_sample(const struct data *data, uint64_t number, uint32_t *inputs, uint32_t *targets);

size_t data_held_out_count(const struct data *data);

/* The same for a sample that training never sees. Expects index < data_held_out_count. */
void data_held_out(const struct data *data, size_t index, uint32_t *inputs, uint32_t *targets);

#endif
