/* heap.h - the memory of this process that the other processes of the host can map.
 *
 * One shared-memory object per process, as large as it will ever be from the start and reserved allocation by
 * allocation. Peers are told where it is when a communicator is created, whatever is allocated later, and map it as a
 * *window* when they first read from it or write to it, which they do only where this process says that it expects
 * something (transport/local). Nobody keeps a descriptor of it but this process: a window finds the object through
 * /proc, which works where its owner's pid means the same process here, and belongs to the same user.
 *
 * A child of fork() inherits the mapping, not the heap: what its parent allocated stays where it is, shared with
 * the parent, until the child frees it for itself; what the child allocates comes from a heap of its own.
 *
 * Does not: pool small objects (an allocation is whole pages), move, or grow.
 */
#ifndef TUTTI_MEMORY_HEAP_H
#define TUTTI_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* Creates the heap on first use; every acquire needs a release. Any thread. */
enum tutti_status heap_acquire(void);
void heap_release(void);
/* The release of an acquire in that generation of the process (os/process.h), now or before a fork. */
void heap_release_of(uint32_t generation);
/* How another process finds the heap of one. What it was told is checked when the window is mapped. */
struct heap_location {
    uint64_t process_key; /* tells the process from every other one, also across PID namespaces */
    uint64_t inode;       /* tells the object from whatever else may have its descriptor's number */
    uint64_t bytes;
    int32_t fd;  /* the owner's */
    int32_t pid; /* the owner's, as whoever looks for it sees it */
};

/* Of an acquired heap; the pid is getpid(). */
struct heap_location heap_location(void);
size_t heap_size(void);
/* Where in the heap that memory lies; false if it does not lie in it. Needs an acquired heap; no lock. */
bool heap_find(const void *address, size_t bytes, uint64_t *offset);

/* The other way round; NULL where the range lies outside. */
const void *heap_at(uint64_t offset, uint64_t bytes);

enum tutti_status heap_allocate(size_t bytes, void **memory);
/* Of memory that was inherited, only this process's hold on it. */
enum tutti_status heap_free(void *memory);

/* Whether that heap can be opened from here, now. */
bool heap_is_reachable(const struct heap_location *location);

/* Another process's heap. */
struct heap_window;
/* Several acquires of one process key share a window. Opens nothing yet. */
enum tutti_status heap_window_acquire(const struct heap_location *location,
                                      struct heap_window **window);
void heap_window_release(struct heap_window *window);
const struct heap_location *heap_window_location(const struct heap_window *window);
bool heap_window_holds(const struct heap_window *window, uint64_t offset, uint64_t bytes);
/* Address of the range in this process, mapped on first use; NULL when the range lies outside or cannot be
 * mapped: its process may be gone. Any thread. */
void *heap_window_at(struct heap_window *window, uint64_t offset, uint64_t bytes);

#endif
