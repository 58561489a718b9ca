/* kind.h - kinds of memory: the host's, which any instruction can reach, and others, a device's say, which only kernels and links touch.
 *
 * The address of its struct identifies a kind; NULL is the host's. The maker of a kind keeps the struct for as long as memory of that kind
 * is in use.
 */
#ifndef TUTTI_MEMORY_KIND_H
#define TUTTI_MEMORY_KIND_H

#include <stddef.h>

struct memory_kind {
    const char *name;
    /* Returns memory of that kind, 64-byte aligned; NULL when out of memory. Any thread. */
    void *(*allocate)(const struct memory_kind *kind, size_t bytes);
    /* What `allocate` returned, and with which bytes. Any thread. */
    void (*release)(const struct memory_kind *kind, void *address, size_t bytes);
};

#endif
