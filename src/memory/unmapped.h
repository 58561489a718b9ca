/* unmapped.h - which memory of this process has gone: for code that keeps something about memory
 * that it does not own.
 *
 *     munmap, mremap, madvise(DONTNEED), free      the thread waits until the message is read
 *            │
 *         userfaultfd ───► reader thread, or whoever asks ──┐
 *     tutti_mem_free ───────────────────────────────────────┤ under one short lock
 *                                                           ▼
 *                            each listener's list, which whoever drives the listener takes
 *
 * Invariants
 *  1. A message is read with the lock held, and is in all lists before the lock is free. So a
 *     thread that takes the lock after some memory was unmapped finds that in its list.
 *  2. With the lock held nothing allocates, frees or unmaps: such a thread might wait for the
 *     message that waits for the lock.
 *  3. fork() does not wait for the lock, for the same reason. A child has no listeners and watches
 *     nothing.
 *
 * One descriptor and one thread for the whole process, from the first memory that is watched until
 * the last listener closes.
 *
 * Not seen: pages that go while their mapping stays, other than by madvise (a file cut short;
 * MADV_GUARD_INSTALL). So only private anonymous memory can be watched. For what madvise throws
 * away the message comes *before* it goes: a thread that uses memory while another one throws it
 * away gets neither the old contents nor the new.
 */
#ifndef TUTTI_MEMORY_UNMAPPED_H
#define TUTTI_MEMORY_UNMAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/ranges.h"

struct unmapped_range {
    uintptr_t begin, end;
};

enum { UNMAPPED_PENDING = 64 };

/* The caller's, zeroed; members are for unmapped.c. */
struct unmapped_listener {
    struct unmapped_listener *next;
    struct unmapped_range pending[UNMAPPED_PENDING];
    int count;
};

/* Any thread. Does not fail. */
void unmapped_open(struct unmapped_listener *listener);
/* All that it watched has been unwatched. Any thread, but none that others hold up while it unmaps
 * memory. */
void unmapped_close(struct unmapped_listener *listener);
/* Takes the ranges that have gone since the last time, at most UNMAPPED_PENDING of them; returns
 * how many. If there were more, they come as a single range that contains them all. Any thread, one
 * at a time for a listener; does not block. */
int unmapped_take(struct unmapped_listener *listener, struct unmapped_range *gone);

/* Watches the memory at [watched->begin, watched->end), which the caller has set to whole pages,
 * and the rest of the mappings around it: both are changed to those. False: this memory cannot be
 * watched, or none can. Any thread. */
bool unmapped_watch(struct range *watched);
/* Must be called for each that was watched, also when its memory has gone. Any thread. */
void unmapped_unwatch(struct range *watched);
/* Waits, at most 100 us, until no thread is in the middle of unmapping watched memory. False: one
 * still is, and memory at the same addresses may be new although no list says so yet. */
bool unmapped_settle(void);
/* Whether memory can be watched here, as far as it was tried. */
bool unmapped_is_possible(void);

/* The pages of this memory are about to go, and this is not seen: it is not private memory. Any
 * thread. */
void unmapped_announce(const void *address, uint64_t bytes);

#endif
