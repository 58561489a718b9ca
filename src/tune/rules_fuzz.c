/* On any text, rules_parse ends, and rules that it accepts name algorithms of the list. */
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "tune/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL) abort();
    memcpy(text, data, size);
    text[size] = '\0';
    struct rules *rules;
    const enum tutti_status status = rules_parse(text, &rules);
    if (status != TUTTI_OK && (status != TUTTI_INVALID_OPTIONS || rules != NULL)) abort();
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        for (int shift = 0; shift < 64; shift++) {
            const size_t bytes = (size_t)1 << shift;
            const struct algorithm *algorithm = NULL;
            unsigned radix;
            rules_wanted(rules, (enum collective)c, bytes, &algorithm, &radix);
            const char *name = algorithm != NULL ? algorithm->name : NULL;
            if (name != NULL && algo_find((enum collective)c, name) == NULL) abort();
            rules_forbids(rules, (enum collective)c, bytes, "tree");
        }
    }
    rules_free(rules);
    free(text);
    return 0;
}
