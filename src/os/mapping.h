/* mapping.h - what is mapped where in this process. */
#ifndef TUTTI_OS_MAPPING_H
#define TUTTI_OS_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether private anonymous memory lies in the whole range: what malloc and mmap give, no file, no shared memory. Then *outer_begin and
 * *outer_end are the bounds of the mappings that it lies in. Reads /proc, about a millisecond for a thousand mappings. Takes no lock;
 * allocates nothing. */
bool mapping_is_private(uintptr_t begin, uintptr_t end, uintptr_t *outer_begin,
                        uintptr_t *outer_end);

/* Whether this process can read what lies at an address. One system call; any thread. */
bool mapping_is_readable(const void *address);

#endif
