#include "top_k.h"

#include <math.h>
#include <string.h>

size_t top_k_of(size_t count, double share)
{
    const double exact = ceil((double)count * share);
    if (exact < 1) return count > 0;
    return exact < (double)count ? (size_t)exact : count;
}

/* Magnitudes in the order of numbers, NaN last. */
static uint32_t magnitude(const float *element)
{
    uint32_t bits;
    memcpy(&bits, element, sizeof bits);
    return bits & 0x7fffffff;
}

/* The bin of the k-th largest element, counted from the highest bin; *left becomes how many
 * elements of that bin are among the k. */
static uint32_t find_bin(const uint32_t *bins, size_t k, size_t *left)
{
    uint32_t bin = TOP_K_ROOM - 1;
    while (k > bins[bin]) k -= bins[bin--];
    *left = k;
    return bin;
}

/* The magnitude of the k-th largest element; *ties: how many elements of just that magnitude are
 * among the k. Bins of the upper 16 bits first, then of the lower 16 bits in one of them. */
static uint32_t find_threshold(const float *elements, size_t count, size_t k, uint32_t *bins,
                               size_t *ties)
{
    size_t left;
    memset(bins, 0, TOP_K_ROOM * sizeof *bins);
    for (size_t i = 0; i < count; i++) bins[magnitude(&elements[i]) >> 16]++;
    const uint32_t upper = find_bin(bins, k, &left);
    memset(bins, 0, TOP_K_ROOM * sizeof *bins);
    for (size_t i = 0; i < count; i++) {
        const uint32_t size = magnitude(&elements[i]);
        if (size >> 16 == upper) bins[size & 0xffff]++;
    }
    return upper << 16 | find_bin(bins, left, ties);
}

void top_k_select(const float *elements, size_t count, size_t k, uint32_t *room, void *selection)
{
    size_t ties;
    const uint32_t threshold = find_threshold(elements, count, k, room, &ties);
    unsigned char *place = selection, *value = place + k * sizeof(uint32_t);
    for (size_t i = 0; i < count; i++) {
        const uint32_t size = magnitude(&elements[i]), at = (uint32_t)i;
        if (size < threshold || (size == threshold && ties == 0)) continue;
        ties -= size == threshold;
        memcpy(place, &at, sizeof at);
        memcpy(value, &elements[i], sizeof elements[i]);
        place += sizeof at;
        value += sizeof elements[i];
    }
}

static uint32_t place_at(const void *selection, size_t i)
{
    uint32_t place;
    memcpy(&place, (const unsigned char *)selection + i * sizeof place, sizeof place);
    return place;
}

bool top_k_is_valid(const void *selection, size_t k, size_t count)
{
    for (size_t i = 0; i < k; i++) {
        const uint32_t place = place_at(selection, i);
        if (place >= count || (i > 0 && place <= place_at(selection, i - 1))) return false;
    }
    return true;
}

void top_k_add(const void *selection, size_t k, float *elements)
{
    const unsigned char *value = (const unsigned char *)selection + k * sizeof(uint32_t);
    for (size_t i = 0; i < k; i++, value += sizeof(float)) {
        float number;
        memcpy(&number, value, sizeof number);
        elements[place_at(selection, i)] += number;
    }
}

void top_k_clear(const void *selection, size_t k, float *elements)
{
    for (size_t i = 0; i < k; i++) elements[place_at(selection, i)] = 0;
}
