/* hash.h - numbers to one number, by which ranks find out whether they mean the same. Values go
 * over the network, so the function stays as it is. It is no protection against people who look for
 * two sequences with one hash.
 */
#ifndef TUTTI_BASE_HASH_H
#define TUTTI_BASE_HASH_H

#include <stdint.h>

/* Takes one more number. For a given number no two hashes become one, and for a given hash no two
 * numbers do: so a single change always shows. */
static inline uint64_t hash_take(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

#endif
