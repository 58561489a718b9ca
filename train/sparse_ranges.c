#include "sparse_ranges.h"

#include <stdlib.h>

/* `part` of `parts` of a number, rounded down, without overflow. */
static uint64_t share_of(uint64_t number, uint64_t part, uint64_t parts)
{
    return number / parts * part + number % parts * part / parts;
}

void sparse_ranges_even(uint64_t row_count, int size, int64_t *firsts)
{
    const uint64_t share = row_count / (unsigned)size, rest = row_count % (unsigned)size;
    for (int r = 0; r <= size; r++) {
        const uint64_t before = (unsigned)r;
        firsts[r] = (int64_t)(share * before + (before < rest ? before : rest));
    }
}

static int by_index(const void *left, const void *right)
{
    const struct sparse_sample *const a = left, *const b = right;
    return (a->index > b->index) - (a->index < b->index);
}

void sparse_ranges_balanced(struct sparse_sample *samples, size_t sample_count, uint64_t row_count,
                            int size, int64_t *firsts)
{
    uint64_t total = 0, before = 0;
    for (size_t i = 0; i < sample_count; i++) total += samples[i].weight;
    if (total == 0) {
        sparse_ranges_even(row_count, size, firsts);
        return;
    }
    qsort(samples, sample_count, sizeof *samples, by_index);
    int next = 1;
    for (size_t i = 0; i < sample_count; i++) {
        const uint64_t index = samples[i].index < row_count ? samples[i].index : row_count;
        while (next < size && before >= share_of(total, (unsigned)next, (unsigned)size))
            firsts[next++] = (int64_t)index;
        before += samples[i].weight;
    }
    while (next <= size) firsts[next++] = (int64_t)row_count;
    firsts[0] = 0;
}

size_t sparse_find(const int64_t *indices, size_t count, int64_t index)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (indices[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
