/* checkpoint_bytes.h - numbers in files: little-endian, at any place. */
#ifndef TUTTI_TRAIN_CHECKPOINT_BYTES_H
#define TUTTI_TRAIN_CHECKPOINT_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void bytes_put(unsigned char *at, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++) at[i] = (unsigned char)(number >> 8 * i);
}

static inline uint64_t bytes_get(const unsigned char *at, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) number |= (uint64_t)at[i] << 8 * i;
    return number;
}

#endif
