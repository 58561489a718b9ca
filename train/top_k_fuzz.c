/* For any elements, the selection is valid, and what is selected and what is left are all of them.
 * For any bytes in its place, a selection that is taken for valid can be added. */
#include <stdlib.h>
#include <string.h>

#include "top_k.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void select_any(const uint8_t *data, size_t count, size_t k)
{
    float *const elements = malloc(count * sizeof *elements);
    unsigned char *const selection = malloc(top_k_bytes(k));
    uint32_t *const room = malloc(TOP_K_ROOM * sizeof *room);
    if (elements == NULL || selection == NULL || room == NULL) abort();
    memcpy(elements, data, count * sizeof *elements);
    top_k_select(elements, count, k, room, selection);
    if (!top_k_is_valid(selection, k, count)) abort();
    top_k_clear(selection, k, elements);
    top_k_add(selection, k, elements);
    for (size_t i = 0; i < count; i++) {
        float element;
        memcpy(&element, data + i * sizeof element, sizeof element);
        if (element == element && elements[i] != element) abort();
    }
    free(elements);
    free(selection);
    free(room);
}

static void add_any(const uint8_t *data, size_t k, size_t count)
{
    unsigned char *const selection = malloc(top_k_bytes(k));
    float *const elements = calloc(count, sizeof *elements);
    if (selection == NULL || elements == NULL) abort();
    memcpy(selection, data, top_k_bytes(k));
    if (top_k_is_valid(selection, k, count)) top_k_add(selection, k, elements);
    free(selection);
    free(elements);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 9) return 0;
    const size_t number = data[0], count = (size - 1) / sizeof(float);
    select_any(data + 1, count, 1 + number % count);
    add_any(data + 1, (size - 1) / 8, 1 + number);
    return 0;
}
