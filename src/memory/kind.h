/* kind.h - kinds of memory: that of the host, which any instruction reaches, and what only kernels and links touch, as a device's.
 *
 * A kind is known by the address of its struct; NULL is the host's. Who makes one keeps it for as long as anything lies in it.
 */
#ifndef TUTTI_MEMORY_KIND_H
#define TUTTI_MEMORY_KIND_H

#include <stddef.h>

struct memory_kind {
    const char *name;
    /* Memory of that kind, 64-byte aligned; NULL when out of memory. Any thread. */
    void *(*allocate)(const struct memory_kind *kind, size_t bytes);
    void (*release)(const struct memory_kind *kind, void *address, size_t bytes);
};

#endif
