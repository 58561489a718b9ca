/* repeat.h - a blocking call with the arguments of the one before it: training makes the same
 * few calls again and again. Its arguments were found good, and its program was found, so only
 * what the caller gave is compared.
 *
 *     nothing ──a call──► its address and count ──the same again──► all of it ──another one──► its address and count
 *
 * Kept once a call came twice, so that calls which never repeat pay for two stores. Calls with
 * options, lists, counts for each rank, operations of the user or memory of a device are not kept.
 */
#ifndef TUTTI_CALL_REPEAT_H
#define TUTTI_CALL_REPEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call/arguments.h"
#include "call/request.h"

struct tutti_comm;

/* With the domain held, but for the two hints. */
struct repeated_call {
    _Atomic uintptr_t send;  /* of the last call; any thread may look */
    _Atomic size_t count;    /* the same */
    struct call call;        /* complete */
    struct program *program; /* of `call`; NULL: nothing but the hints is kept */
    bool is_large;      /* its algorithm depends on what the ranks tell each other (all_memory.h) */
    bool is_prepared;   /* the operation of blocking calls is, since no other call was made */
    uint64_t forgotten; /* as in struct program_cache, when the program was there */
};

/* Whether it is the same call, as far as the hints say. Any thread. */
static inline bool repeat_is_likely(const struct repeated_call *repeated, const void *send,
                                    size_t count)
{
    return atomic_load_explicit(&repeated->send, memory_order_relaxed) == (uintptr_t)send &&
           atomic_load_explicit(&repeated->count, memory_order_relaxed) == count;
}

/* Whether the kept call has these arguments, of a shape that is EVEN, and may be made again. */
bool repeat_is(const struct tutti_comm *comm, const struct arguments *arguments);
/* Another call is about to be made. It may end before it is noted, and change what the kept call
 * rests on. */
void repeat_forget(struct tutti_comm *comm);
/* Notes a call that has begun with that program. */
void repeat_note(struct tutti_comm *comm, const struct call *call, struct program *program,
                 bool is_large);

#endif
