/* heap.h - the memory of this process that the other processes of the host can map.
 *
 * One shared-memory object per process, as large as it will ever be from the start and reserved allocation by
 * allocation, so that its descriptor is handed over once, when a communicator is created, whatever is
 * allocated later. Peers map it as a *window* when they first read from it or write to it, which they do only where
 * this process says that it expects something (transport/local).
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
/* Of an acquired heap. The descriptor stays the heap's. */
int heap_fd(void);
size_t heap_size(void);
/* Tells this process from every other one, also across PID namespaces. */
uint64_t heap_process_key(void);
/* Where in the heap that memory lies; false if it does not lie in it. Needs an acquired heap; no lock. */
bool heap_find(const void *address, size_t bytes, uint64_t *offset);

/* The other way round; NULL where the range lies outside. */
const void *heap_at(uint64_t offset, uint64_t bytes);

enum tutti_status heap_allocate(size_t bytes, void **memory);
/* Of memory that was inherited, only this process's hold on it. */
enum tutti_status heap_free(void *memory);

/* Another process's heap. */
struct heap_window;
/* Takes the descriptor (also on failure). Several acquires of one process key share a window. */
enum tutti_status heap_window_acquire(uint64_t process_key, int fd, size_t size_bytes,
                                      struct heap_window **window);
void heap_window_release(struct heap_window *window);
/* Address of the range in this process, mapped on first use; NULL when the range lies outside or cannot be
 * mapped. Any thread. */
void *heap_window_at(struct heap_window *window, uint64_t offset, uint64_t bytes);

#endif
