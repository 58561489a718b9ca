/* given.h - memory that the application has promised to keep where it is (tutti_mem_register).
 *
 * One ordered set for the process. Code that keeps something about such memory, such as a
 * registration with a network card, is an observer. Before tutti_mem_unregister returns, each
 * observer has given up what it kept, or the memory stays given.
 *
 *     given ──given_remove──► leaving ──all observers have let go──► gone
 *       ▲                        │
 *       └────one cannot yet──────┘         given_find does not find what is leaving
 *
 * Invariants
 *  1. Ranges do not overlap, and each has a generation that no other range of the process ever had.
 *  2. No observer is called with a lock that given_find takes.
 *  3. A child of fork() has no given memory and no observers.
 */
#ifndef TUTTI_MEMORY_GIVEN_H
#define TUTTI_MEMORY_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct given_range {
    uintptr_t begin, end;
    uint64_t generation; /* above 0 */
};

/* The public functions are these. */
enum tutti_status given_add(const void *memory, size_t bytes);
enum tutti_status given_remove(const void *memory);

/* The given range in which all of that memory lies. Any thread; takes a short lock. */
bool given_find(const void *address, size_t bytes, struct given_range *range);

/* The caller's memory, as long as it observes. */
struct given_observer {
    /* Gives up all that it keeps about that range. False: something is in use, or `deadline_ns` of
     * the monotonic clock has passed; then the range may still be used. Called by any thread, one
     * at a time. */
    bool (*let_go)(struct given_observer *observer, const struct given_range *range,
                   uint64_t deadline_ns);
    struct given_observer *next; /* for given.c */
};

/* Any thread but one inside let_go. The second one waits until a let_go under way has returned: so
 * its caller has nothing that let_go may wait for. */
void given_observe(struct given_observer *observer);
void given_observe_no_more(struct given_observer *observer);

#endif
