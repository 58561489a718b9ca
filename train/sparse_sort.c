#include "sparse_sort.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

bool sparse_is_increasing(const int64_t *indices, size_t count)
{
    bool is_increasing = true;
    for (size_t i = 1; i < count; i++) is_increasing &= indices[i - 1] < indices[i];
    return is_increasing;
}

static unsigned digit_of(const struct sparse_key *key, unsigned shift)
{
    return (unsigned)((uint64_t)key->index >> shift) & (DIGITS - 1);
}

/* Sorts by one digit. */
static void distribute(const struct sparse_key *from, struct sparse_key *to, size_t count,
                       unsigned shift)
{
    size_t begins[DIGITS] = {0}, begin = 0;
    for (size_t i = 0; i < count; i++) begins[digit_of(&from[i], shift)]++;
    for (unsigned d = 0; d < DIGITS; d++) {
        const size_t of_digit = begins[d];
        begins[d] = begin;
        begin += of_digit;
    }
    for (size_t i = 0; i < count; i++) to[begins[digit_of(&from[i], shift)]++] = from[i];
}

struct sparse_key *sparse_sort(struct sparse_key *keys, struct sparse_key *spare, size_t count,
                               uint64_t row_count)
{
    for (unsigned shift = 0; shift < 64 && (row_count - 1) >> shift != 0; shift += DIGIT_BITS) {
        distribute(keys, spare, count, shift);
        struct sparse_key *const sorted = spare;
        spare = keys;
        keys = sorted;
    }
    return keys;
}
