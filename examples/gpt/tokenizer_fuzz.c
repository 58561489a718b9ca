/* Of any bytes: tokenizer_parse ends, gives a reason when it refuses them, and prints a tokenizer
 * that it accepts as it was, and can encode with. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    struct tokenizer *tokenizer = tokenizer_parse((const char *)data, size, &why);
    if ((tokenizer == NULL) != (why != NULL)) abort();
    if (tokenizer == NULL) return 0;

    char *text = NULL;
    size_t text_size;
    FILE *file = open_memstream(&text, &text_size);
    if (file == NULL || !tokenizer_print(tokenizer, file) || fclose(file) != 0) abort();
    if (text_size != size || memcmp(text, data, size) != 0) abort();

    uint32_t *tokens = malloc(size * sizeof *tokens);
    if (tokens == NULL) abort();
    size_t bytes = 0, token_bytes;
    const size_t count = tokenizer_encode(tokenizer, data, size, tokens);
    for (size_t i = 0; i < count; i++, bytes += token_bytes) {
        const unsigned char *token = tokenizer_bytes(tokenizer, tokens[i], &token_bytes);
        if (token_bytes > size - bytes || memcmp(token, data + bytes, token_bytes) != 0) abort();
    }
    if (bytes != size) abort();
    free(tokens);
    free(text);
    tokenizer_free(tokenizer);
    return 0;
}
