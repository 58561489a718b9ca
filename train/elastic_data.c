#include "elastic_data.h"

#include "base/hash.h"

enum { FEISTEL_ROUNDS = 4 };

uint64_t elastic_batch(uint64_t position, uint64_t batch, uint64_t sample_count)
{
    if (sample_count == 0) return batch;
    const uint64_t left = position < sample_count ? sample_count - position : 0;
    return batch < left ? batch : left;
}

uint64_t elastic_batch_first(uint64_t count, int rank, int size)
{
    const uint64_t ranks = (uint64_t)size, all = count / ranks, rest = count % ranks;
    return all * (uint64_t)rank + rest * (uint64_t)rank / ranks;
}

/* Mixes all bits of what it has taken: a hash of two numbers leaves the low bits simple. */
static uint64_t mix(uint64_t key, uint64_t half)
{
    uint64_t hash = hash_take(key, half);
    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 32;
}

/* Of 2^(2 half_bits) numbers. Whatever `mix` is, each round can be undone, so no two places become
 * one. */
static uint64_t feistel(uint64_t place, int half_bits, uint64_t key)
{
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = place >> half_bits & mask, right = place & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        const uint64_t next = left ^ (mix(hash_take(key, round + 1), right) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

/* A place that leaves the range is permuted again, until it is back: it comes back, as it began
 * inside, and takes fewer than four rounds on average. */
uint64_t elastic_permute(uint64_t place, uint64_t count, uint64_t seed, uint64_t epoch)
{
    int half_bits = 1;
    while (half_bits < 32 && count > UINT64_C(1) << (2 * half_bits)) half_bits++;
    const uint64_t key = hash_take(hash_take(1, seed), epoch);
    uint64_t at = place;
    do at = feistel(at, half_bits, key);
    while (at >= count);
    return at;
}
