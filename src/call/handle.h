/* handle.h - which pointers are communicators of this process. A call asks before it reads anything
 * behind a pointer.
 *
 * A call may be given a communicator that has been freed, the address of something else, or
 * garbage. Each communicator is therefore in one table while it lives, found by its address.
 *
 * 1. A lookup reads the table only, never what the pointer points to.
 * 2. A communicator is put in before the caller that creates it can have it, and taken out before
 *    its memory is given back.
 * 3. The table has no lock: a child of fork() must not find one held. It is a copy of the parent's
 *    there, as all memory is.
 *
 * It cannot tell a freed communicator from a new one that the allocator put at the same address.
 */
#ifndef TUTTI_CALL_HANDLE_H
#define TUTTI_CALL_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    HANDLE_COUNT_MAX = 1 << 16
}; /* at once; a power of two. Pages without communicators are never touched. */

extern struct tutti_comm *_Atomic handle_table[HANDLE_COUNT_MAX];

/* The place of a communicator with that address; if another one is there already, it is in the next
 * free place. */
static inline size_t handle_place(const struct tutti_comm *comm)
{
    const uintptr_t address = (uintptr_t)comm;
    return (address >> 6 ^ address >> 22) & (HANDLE_COUNT_MAX - 1);
}

/* Any thread; does not block. NO_MEMORY: there are HANDLE_COUNT_MAX already. */
enum tutti_status handle_add(struct tutti_comm *comm);
/* A communicator that is not in the table is left alone. Any thread; does not block. */
void handle_remove(const struct tutti_comm *comm);
/* The rarely needed part of handle_is_known. */
bool handle_search(const struct tutti_comm *comm);

/* Whether it is in the table; NULL never is. Any thread; does not block. */
static inline bool handle_is_known(const struct tutti_comm *comm)
{
    /* The caller got the pointer in an ordered way, together with the memory behind it: no order is
     * needed here. */
    const struct tutti_comm *there =
        atomic_load_explicit(&handle_table[handle_place(comm)], memory_order_relaxed);
    if (__builtin_expect(comm != NULL && there == comm, 1)) return true;
    return handle_search(comm);
}

/* Why a handle is none that this process may use: INVALID_COMM, with a text; `function` is the
 * public one, without "tutti_". */
enum tutti_status handle_error(const struct tutti_comm *comm, const char *function);

#endif
