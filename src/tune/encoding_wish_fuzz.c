/* On any text, rules_parse_encodings ends, and rules that it accepts wish for encodings that there
 * are. */
#include <stdlib.h>
#include <string.h>

#include "tune/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    struct rules *rules;
    const enum tutti_status status = rules_parse_encodings(text, &rules);
    if (status != TUTTI_OK && (status != TUTTI_INVALID_OPTIONS || rules != NULL)) abort();
    for (int c = 0; c <= RULES_MESSAGES; c++) {
        struct encoding_wish wish;
        for (int shift = 0; shift < 64; shift++) {
            if (!rules_encode(rules, (enum collective)c, (size_t)1 << shift, &wish)) continue;
            if ((unsigned)wish.encoding >= ENCODING_COUNT || encoding_wish_pack(&wish) == 0)
                abort();
        }
    }
    rules_free(rules);
    free(text);
    return 0;
}
