#include "sparse_merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { WORD_BITS = 64 };
/* A bitmap is worth its memory up to so many words for each index. */
enum { WORDS_PER_INDEX = 4 };

static size_t count_all(const struct sparse_list *lists, size_t list_count)
{
    size_t total = 0;
    for (size_t l = 0; l < list_count; l++) total += lists[l].count;
    return total;
}

/* ------------------------------------------------------------------------------- with a bitmap
 *
 * ranks[w] is the number of indices before word w, so that an index finds its place at once. */

struct bitmap {
    uint64_t *words;
    size_t *ranks;
};

static size_t place_in_bitmap(const struct bitmap *bitmap, uint64_t at)
{
    const uint64_t below = bitmap->words[at / WORD_BITS] & ((UINT64_C(1) << at % WORD_BITS) - 1);
    return bitmap->ranks[at / WORD_BITS] + (unsigned)__builtin_popcountll(below);
}

static void unite_in_bitmap(const struct bitmap *bitmap, size_t word_count,
                            const struct sparse_list *lists, size_t list_count, int64_t first,
                            struct sparse_merge *merge)
{
    for (size_t l = 0; l < list_count; l++)
        for (size_t i = 0; i < lists[l].count; i++) {
            const uint64_t at = (uint64_t)(lists[l].indices[i] - first);
            bitmap->words[at / WORD_BITS] |= UINT64_C(1) << at % WORD_BITS;
        }
    for (size_t w = 0; w < word_count; w++) {
        bitmap->ranks[w] = merge->count;
        for (uint64_t word = bitmap->words[w]; word != 0; word &= word - 1)
            merge->indices[merge->count++] =
                first + (int64_t)(w * WORD_BITS + (unsigned)__builtin_ctzll(word));
    }
}

/* places[] becomes the place in the union of each index, list by list. */
static bool unite_with_bitmap(const struct sparse_list *lists, size_t list_count, int64_t first,
                              size_t word_count, struct sparse_merge *merge, size_t *places)
{
    const struct bitmap bitmap = {calloc(word_count, sizeof(uint64_t)),
                                  malloc(word_count * sizeof(size_t))};
    const bool is_there = bitmap.words != NULL && bitmap.ranks != NULL;
    if (is_there) {
        unite_in_bitmap(&bitmap, word_count, lists, list_count, first, merge);
        for (size_t l = 0; l < list_count; l++)
            for (size_t i = 0; i < lists[l].count; i++)
                *places++ = place_in_bitmap(&bitmap, (uint64_t)(lists[l].indices[i] - first));
    }
    free(bitmap.words);
    free(bitmap.ranks);
    return is_there;
}

/* ------------------------------------------------------------------------------------- in pairs */

static size_t unite_two(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count,
                        int64_t *to)
{
    size_t i = 0, j = 0, count = 0;
    while (i < a_count && j < b_count) {
        const int64_t x = a[i], y = b[j];
        to[count++] = x < y ? x : y;
        i += x <= y;
        j += y <= x;
    }
    for (; i < a_count; i++) to[count++] = a[i];
    for (; j < b_count; j++) to[count++] = b[j];
    return count;
}

/* The first place from `from` on whose index is not below `index`; it is near. */
static size_t find_from(const int64_t *indices, size_t count, size_t from, int64_t index)
{
    size_t step = 1, low = from, high = from;
    while (high < count && indices[high] < index) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    if (high > count) high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (indices[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Lists, or unions of lists, of one level: begins[l] to begins[l + 1]. Both arrays of indices have
 * room for all. The union of all is in merge->indices at the end. */
static bool unite_in_pairs(const struct sparse_list *lists, size_t list_count, size_t total,
                           struct sparse_merge *merge, size_t *places)
{
    size_t *const counts = calloc(list_count + 1, sizeof *counts);
    size_t *const begins = malloc((list_count + 1) * sizeof *begins);
    int64_t *spare = malloc(total * sizeof *spare), *from = merge->indices;
    const bool is_there = counts != NULL && begins != NULL && spare != NULL;
    if (is_there) {
        size_t begin = 0;
        for (size_t l = 0; l < list_count; l++) {
            begins[l] = begin;
            counts[l] = lists[l].count;
            if (counts[l] > 0) memcpy(from + begin, lists[l].indices, counts[l] * sizeof *from);
            begin += counts[l];
        }
        for (size_t left = list_count; left > 1; left = (left + 1) / 2) {
            for (size_t l = 0; l < left; l += 2) {
                const size_t of_second = l + 1 < left ? counts[l + 1] : 0;
                const int64_t *const second = of_second > 0 ? from + begins[l + 1] : from;
                counts[l / 2] =
                    unite_two(from + begins[l], counts[l], second, of_second, spare + begins[l]);
                begins[l / 2] = begins[l];
            }
            int64_t *const united = spare;
            spare = from;
            from = united;
        }
        merge->indices = from;
        merge->count = counts[0];
        for (size_t l = 0; l < list_count; l++)
            for (size_t i = 0, at = 0; i < lists[l].count; i++)
                *places++ = at = find_from(from, merge->count, at, lists[l].indices[i]);
    }
    free(counts);
    free(begins);
    free(spare);
    return is_there;
}

/* ------------------------------------------------------------------------------------- together */

/* From the places of all rows in the union: who belongs together. */
static void group(const struct sparse_list *lists, size_t list_count, size_t row_bytes,
                  const size_t *places, size_t total, struct sparse_merge *merge)
{
    size_t *const ends = merge->starts + 1; /* first the counts, then the next free places */
    for (size_t i = 0; i < total; i++)
        if (places[i] + 1 < merge->count) ends[places[i] + 1]++;
    for (size_t i = 1; i < merge->count; i++) ends[i] += ends[i - 1];
    for (size_t l = 0; l < list_count; l++)
        for (size_t i = 0; i < lists[l].count; i++)
            merge->sources[ends[*places++]++] = (const char *)lists[l].values + i * row_bytes;
}

enum tutti_status sparse_merge_init(struct sparse_merge *merge, const struct sparse_list *lists,
                                    size_t list_count, int64_t first, uint64_t range,
                                    size_t row_bytes)
{
    const size_t total = count_all(lists, list_count);
    const uint64_t word_count = range / WORD_BITS + (range % WORD_BITS != 0);
    size_t *const places = malloc((total + 1) * sizeof *places);
    *merge = (struct sparse_merge){.indices = malloc((total + 1) * sizeof *merge->indices),
                                   .starts = calloc(total + 2, sizeof *merge->starts),
                                   .sources = malloc((total + 1) * sizeof *merge->sources)};
    bool is_good =
        places != NULL && merge->indices != NULL && merge->starts != NULL && merge->sources != NULL;
    if (is_good && total > 0) {
        is_good =
            word_count / WORDS_PER_INDEX <= total
                ? unite_with_bitmap(lists, list_count, first, (size_t)word_count, merge, places)
                : unite_in_pairs(lists, list_count, total, merge, places);
        if (is_good) group(lists, list_count, row_bytes, places, total, merge);
    }
    free(places);
    if (is_good) return TUTTI_OK;
    sparse_merge_release(merge);
    return error_set(TUTTI_NO_MEMORY, "out of memory");
}

void sparse_merge_release(struct sparse_merge *merge)
{
    free(merge->indices);
    free(merge->starts);
    free(merge->sources);
    *merge = (struct sparse_merge){NULL, 0, NULL, NULL};
}
