#include "train_char_basics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int my_rank;

void give_up(const char *what, const char *why)
{
    fprintf(stderr, "train_char: rank %d: %s: %s\n", my_rank, what, why);
    exit(1); /* the others will be told which rank has gone */
}

void check(enum tutti_status status, const char *what)
{
    if (status != TUTTI_OK) give_up(what, tutti_error_message());
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) give_up("memory", strerror(errno));
    return memory;
}

float *allocate_shared(size_t count)
{
    void *memory;
    check(tutti_mem_alloc(count * sizeof(float), &memory), "memory for tutti");
    return memory;
}

double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* SplitMix64. */
uint64_t random_at(uint64_t seed, uint64_t place)
{
    uint64_t z =
        (seed + 1) * UINT64_C(0xd1342543de82ef95) + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double random_unit(uint64_t seed, uint64_t place)
{
    return (double)(random_at(seed, place) >> 11) * 0x1p-53;
}
