/* Whatever bytes come: plan_parse ends, and what it accepts survives printing and reading once more. */
#include <stdlib.h>
#include <string.h>

#include "plan/text.h"

static char *print(const struct plan *plan, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    if (file == NULL) abort();
    plan_print(plan, file);
    if (fclose(file) != 0) abort();
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan *plan, *again;
    char message[200];
    if (plan_parse((const char *)data, size, &plan, message, sizeof message) != TUTTI_OK) {
        if (plan != NULL || strncmp(message, "line ", 5) != 0) abort();
        return 0;
    }
    size_t text_size, again_size;
    char *text = print(plan, &text_size);
    if (plan_parse(text, text_size, &again, message, sizeof message) != TUTTI_OK) abort();
    char *again_text = print(again, &again_size);
    if (text_size != again_size || memcmp(text, again_text, text_size) != 0) abort();
    free(text);
    free(again_text);
    plan_free(plan);
    plan_free(again);
    return 0;
}
