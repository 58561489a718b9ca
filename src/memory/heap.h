/* heap.h - the memory of this process that the other processes of the host can map.
 *
 * One shared-memory object per process, whose memory is reserved allocation by allocation. Peers
 * are told where it is when a communicator is created, whatever is allocated later. They map it as
 * a *window* when they first read from it or write to it, which they do only where this process
 * says that it expects something (transport/local). Only this process keeps a descriptor of it: a
 * window finds the object through /proc, which works if its owner's pid means the same process
 * here, and belongs to the same user.
 *
 * Offsets are cut into *extents*, each twice as large as the one before it. An allocation lies in
 * one of them. Its process maps an extent when it first allocates in it, and a peer when it first
 * reads there; both know from the offset alone which one it is. So the address space is about twice
 * the memory in use, and does not depend on how much memory the machine has.
 *
 *     offset  0        16 MiB             48 MiB                                112 MiB
 *             ├extent 0─┼────extent 1──────┼──────────────extent 2───────────────┼──  ...  64 TiB
 *
 * A core dump of a process contains its own allocations, and nothing else of all this (os/shm.h).
 *
 * A child of fork() inherits the mapping, not the heap: what its parent allocated stays where it
 * is, shared with the parent, until the child frees it for itself; what the child allocates comes
 * from a heap of its own.
 *
 * Does not: pool small objects (an allocation is whole pages), move, or unmap an extent before its
 * last use.
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
/* The release of an acquire in that generation of the process (os/process.h), now or before a
 * fork. */
void heap_release_of(uint32_t generation);
/* The location by which another process finds this heap. It is checked when the window is
 * mapped. */
struct heap_location {
    uint64_t process_key; /* tells the process from every other one, also across PID namespaces */
    uint64_t inode;       /* tells the object from whatever else may have its descriptor's number */
    uint64_t bytes;       /* no offset is beyond */
    int32_t fd;           /* the owner's */
    int32_t pid;          /* the owner's, as the process that looks for it sees it */
};

/* The location of an acquired heap; the pid is getpid(). */
struct heap_location heap_location(void);
/* Every offset is below it. */
size_t heap_size(void);
/* Finds where in the heap that memory lies; false if it does not lie in it. Needs an acquired heap;
 * no lock. */
bool heap_find(const void *address, size_t bytes, uint64_t *offset);

/* Whether any of that memory lies in the heap. No lock. */
bool heap_overlaps(const void *address, size_t bytes);
/* The other way round; NULL where the range lies outside. */
const void *heap_at(uint64_t offset, uint64_t bytes);

enum tutti_status heap_allocate(size_t bytes, void **memory);
/* Frees memory of the heap. If the memory is inherited, only this process's hold on it ends. */
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
/* Whether an allocation can lie there. */
bool heap_window_holds(const struct heap_window *window, uint64_t offset, uint64_t bytes);
/* Address of the range in this process, mapped on first use; NULL when no allocation can lie there
 * or it cannot be mapped: its process may be gone, or see heap_window_shortage. Any thread. */
void *heap_window_at(struct heap_window *window, uint64_t offset, uint64_t bytes);
/* Why the last attempt to map failed: NO_DESCRIPTORS or NO_MEMORY of this process; else OK. The
 * next attempt comes 10 ms later at the earliest. */
enum tutti_status heap_window_shortage(const struct heap_window *window);

/* The address of the first entry of a table with the addresses of this process's extents; constant.
 * A process that cannot map the extents may read that table, and then the extents
 * (process_vm_readv). */
uint64_t heap_bases(void);
/* Finds the extent in which a range lies. *base: the position of the extent's entry behind the
 * first entry. *distance: how far in the extent the range begins. False: no allocation can lie
 * there. */
bool heap_base_of(uint64_t offset, uint64_t bytes, uint64_t *base, uint64_t *distance);

#endif
