#include "transport/local/nearness.h"

#include <assert.h>
#include <stdlib.h>

enum { PART_BITS = 16, WORD_BITS = 64 };
static_assert(PART_BITS * CPU_LEVEL_COUNT == WORD_BITS, "a word holds a part of each level");

uint64_t nearness_word(const struct cpu_binding *place)
{
    uint64_t word = 0;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++)
        word = word << PART_BITS | place->parts[level];
    return word;
}

/* The number of levels to which the rank is bound; also 0 if the word makes no sense. */
static int depth_of(uint64_t word)
{
    int depth = 0;
    for (bool bound = true; word != 0; word <<= PART_BITS) {
        const uint64_t part = word >> (WORD_BITS - PART_BITS);
        if (part > CPU_COUNT_MAX) return 0;
        if (part == 0)
            bound = false;
        else if (!bound)
            return 0;
        else
            depth++;
    }
    return depth;
}

static int by_word_and_rank(const void *a, const void *b, void *context)
{
    const uint64_t *words = context;
    const int left = *(const int *)a, right = *(const int *)b;
    if (words[left] != words[right]) return words[left] < words[right] ? -1 : 1;
    return left < right ? -1 : left > right;
}

bool nearness_order(uint64_t *words, int rank_count, int *order)
{
    int depth = CPU_LEVEL_COUNT; /* that all ranks have */
    for (int r = 0; r < rank_count; r++) {
        const int own = depth_of(words[r]);
        if (own < depth) depth = own;
        order[r] = r;
    }
    if (depth == 0) return false;
    for (int r = 0; r < rank_count; r++)
        words[r] &= UINT64_MAX << (CPU_LEVEL_COUNT - depth) * PART_BITS;
    qsort_r(order, (size_t)rank_count, sizeof *order, by_word_and_rank, words);
    for (int r = 0; r < rank_count; r++)
        if (order[r] != r) return true;
    return false;
}
