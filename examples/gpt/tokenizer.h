/* tokenizer.h - text as numbers: byte-pair encoding (Sennrich, Haddow and Birch, Neural machine
 * translation of rare words with subword units, ACL 2016), over bytes.
 *
 * Tokens 0 to 255 are the bytes. Every further token is a pair of earlier ones: training takes the
 * most frequent pair of neighbours in the text, makes it a token, and goes on until the vocabulary
 * is full. Encoding joins neighbours in the order in which training found them.
 *
 * 1. Any bytes can be encoded, and decoding gives the same bytes.
 * 2. The text is cut into words first, at most TOKENIZER_WORD_BYTES_MAX long, and no token reaches
 *    over a cut.
 * 3. Equal text gives an equal tokenizer.
 */
#ifndef GPT_TOKENIZER_H
#define GPT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TOKENIZER_BYTES = 256,
    TOKENIZER_VOCABULARY_MAX = 1 << 16,
    TOKENIZER_WORD_BYTES_MAX = 32,
    TOKENIZER_FILE_BYTES_MAX = 1 << 20
};

struct tokenizer;

/* Learns up to `vocabulary` tokens from a text; there are fewer when no pair occurs twice. Expects
 * 256 <= vocabulary <= TOKENIZER_VOCABULARY_MAX. Takes time O(text + log(text) * distinct words'
 * bytes). */
struct tokenizer *tokenizer_train(const unsigned char *text, size_t size, size_t vocabulary);

/* Reads what tokenizer_print wrote, from bytes that may be anything. NULL if they are no tokenizer:
 * `why` then points to a constant sentence. */
struct tokenizer *tokenizer_parse(const char *bytes, size_t size, const char **why);

/* The same from a file. */
struct tokenizer *tokenizer_load(const char *path, const char **why);

/* Writes what tokenizer_parse reads. False if the file cannot be written; errno says why. */
bool tokenizer_print(const struct tokenizer *tokenizer, FILE *file);

void tokenizer_free(struct tokenizer *tokenizer);

size_t tokenizer_vocabulary(const struct tokenizer *tokenizer);

/* The bytes of a token, which belong to the tokenizer. Expects token < vocabulary. */
const unsigned char *tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t token,
                                     size_t *size);

/* Writes the tokens of a text, at most one for each of its bytes; returns how many. */
size_t tokenizer_encode(const struct tokenizer *tokenizer, const unsigned char *text, size_t size,
                        uint32_t *tokens);

#endif
