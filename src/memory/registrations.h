/* registrations.h - which memory a device has registered: a cache over the device's own calls, one
 * for each device.
 *
 * A network card reads and writes only memory that was registered with it, and registering takes
 * longer than most messages. So memory stays registered after its use, as long as two things hold:
 * the memory is still the same, and there is room.
 *
 *      not there ──acquire──► in use ──last release──► idle ──evicted, or the memory goes──► not there
 *                               │ ▲                      │
 *                               │ └──────acquire─────────┘
 *                               └──the memory goes──► dead: not found again ──last release──► not there
 *
 * Which memory is still the same, the cache knows
 *   of memory from tutti_mem_alloc     (tutti_mem_free says so),
 *   of memory from tutti_mem_register  (its owner has promised; it is registered as a whole),
 *   of private memory                  (the kernel tells, memory/unmapped.h; where it cannot, or the memory is a file or shared: not).
 * Any other memory is registered for one use, and only for that: correct, but slower.
 *
 * Invariants
 *  1. A registration in use is never taken back.
 *  2. Registrations cover whole pages. They may overlap.
 *  3. Every one has another key, from a random beginning on. Keys are never used again.
 *  4. The bounds count registrations in use, too, but only idle ones are evicted, the longest idle
 *     first.
 *  5. When an acquire makes a registration larger than it has to, it is at most twice as large.
 *
 * One thread at a time drives a cache: it calls everything below, and with the same right the
 * device's calls that need it. Only tutti_mem_unregister comes from elsewhere; it asks `enter` for
 * that right.
 *
 * A child of fork() has the parent's cache only to free it, which does not touch the device.
 */
#ifndef TUTTI_MEMORY_REGISTRATIONS_H
#define TUTTI_MEMORY_REGISTRATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* A device's own calls. All get `context`, and none is NULL. */
struct registrations_device {
    void *context;
    /* Registers whole pages. *key was never used before; a device that chooses keys itself changes
     * it to the key that peers need. *handle is for unregister_memory. NO_MEMORY: a limit was
     * reached; the cache makes room and tries again. Any other failure: not this memory. May block
     * as long as the device takes; must not unmap memory that others may use. */
    enum tutti_status (*register_memory)(void *context, void *address, size_t bytes, uint64_t *key,
                                         void **handle);
    void (*unregister_memory)(void *context, void *handle);
    /* Makes the calling thread drive the cache until leave; it is any thread but the driving one.
     * False: `deadline_ns` of the monotonic clock has passed. */
    bool (*enter)(void *context, uint64_t deadline_ns);
    void (*leave)(void *context);
};

struct registrations_options {
    size_t bytes_max, entries_max; /* bytes that stay registered; 0: nothing stays past its use */
    int key_bits;                  /* 8 to 64: keys are below 2 to that power */
};

struct registrations;

/* One memory that is registered, all constant. The cache's, as long as it is acquired. */
struct registration {
    char *begin;
    size_t bytes;
    uint64_t key;
    void *handle; /* of register_memory */
};

/* The device's context stays valid until free. Any thread; does not block. On failure (NO_MEMORY)
 * *cache is NULL. */
enum tutti_status registrations_create(const struct registrations_device *device,
                                       const struct registrations_options *options,
                                       struct registrations **cache);
/* Unregisters everything; nothing is in use any more. Waits until no tutti_mem_unregister is inside
 * `enter`, so the caller must not keep a thread from entering. NULL is allowed. */
void registrations_free(struct registrations *cache);

/* A registration that has all of that memory, at least 1 byte; every acquire needs a release. NULL:
 * the device or its limits do not allow it, so the caller copies instead; nothing has changed but
 * that idle registrations may be gone. Sets no error message. Blocks only in the device's calls,
 * and 100 us at most for a thread that is just unmapping memory. */
const struct registration *registrations_acquire(struct registrations *cache, const void *address,
                                                 size_t bytes);
/* No operation of this acquire uses it any more, neither here nor at a peer that has its key. */
void registrations_release(struct registrations *cache, const struct registration *registration);
/* Unregisters what has gone: acquire does it, too. Worth calling now and then while nothing is
 * acquired, since registered memory is not given back to the system. */
void registrations_sweep(struct registrations *cache);

struct registrations_counts {
    size_t bytes; /* registered now, also memory in use; overlaps count twice */
    size_t entries, in_use;
    uint64_t hits, misses;        /* acquires that found one, and others */
    uint64_t evictions, refusals; /* idle entries evicted for room; acquires that returned NULL */
    uint64_t invalidations;       /* taken back, or dead, because their memory went */
    size_t footprint_bytes;       /* memory of the cache itself */
};
struct registrations_counts registrations_counts(const struct registrations *cache);
/* The `bytes` of the counts. */
size_t registrations_bytes(const struct registrations *cache);

#endif
