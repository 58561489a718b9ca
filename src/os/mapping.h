/* mapping.h - the mappings of this process. */
#ifndef TUTTI_OS_MAPPING_H
#define TUTTI_OS_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether private anonymous memory fills the whole range: memory from malloc and mmap, no file, no
 * shared memory. Then *outer_begin and *outer_end are the bounds of the mappings in which it lies.
 * Reads /proc, about a millisecond for a thousand mappings. Takes no lock; allocates nothing. */
bool mapping_is_private(uintptr_t begin, uintptr_t end, uintptr_t *outer_begin,
                        uintptr_t *outer_end);

/* Whether this process can read what lies at an address. One system call; any thread. */
bool mapping_is_readable(const void *address);

#endif
