/* memory.h - the part of gpu_facts about memory of each sort: what kind it is, its number, its
 * range, its names and handles. */
#ifndef TUTTI_BENCH_GPU_FACTS_MEMORY_H
#define TUTTI_BENCH_GPU_FACTS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct cuda_context;

/* The driver's answers about an address. */
struct memory_told {
    int result;
    unsigned type, is_managed;
    int ordinal;
    unsigned long long number;
    struct cuda_context *context;
};

struct memory_told memory_ask(uint64_t address);
void memory_tell_attributes(const char *name, uint64_t address);
void memory_tell_range(const char *name, uint64_t address);
/* All of it. begins: memory begins at the address. */
void memory_tell(const char *name, uint64_t address, bool begins);

void memory_part(void);

#endif
