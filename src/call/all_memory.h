/* all_memory.h - whether the memory of all ranks is mapped. Each rank sees this only of its own
 * memory, so ranks tell each other, in such a way that all of them know the same in the same call.
 *
 *     rank 0    reduce ── notes its own ──► allreduce ── tells ──► reduce: chooses by what all told ──► reduce: the same ──► barrier ── tells ──►
 *     rank 1    reduce ── notes its own ──────────────► allreduce ── tells ──► reduce ...
 *
 * Only blocking calls with large blocks of one count choose by it. Each of them notes what it had.
 * After the first few of them, after the first one of a collective, and then once in NOTES_A_TELL of
 * them, something is due: the next blocking call that no rank ends before all have begun it tells
 * the others on the board; it may be a large call itself. (What was told has to cross from each
 * rank's core to each other one's.) Calls after that one choose by what all ranks had in the
 * last call of their own collective; of a collective that was not called yet, by what they had
 * in the last call of all.
 *
 * Why ranks cannot disagree. All make the same calls in the same order, so they count alike the
 * calls n in which they tell. A rank reads what was told in call n after it has ended n and before
 * it begins n+1:
 *
 * 1. all have told it by then: they tell before they begin n, and no rank ends n while another one
 *    has not begun it;
 * 2. no rank has overwritten it: the place of n is that of n+2, which a rank tells after it has
 *    ended n+1, hence after all have begun n+1.
 *
 * The call that reads need not be one that all begin before any ends: a rank may be through with a
 * broadcast, and tell its part of n+1, while others have not begun the broadcast; those then still
 * read n.
 *
 * Started, prepared and grouped calls do not look. The blocking call n may be under way in another
 * thread as they begin, and may be over by then on some ranks and not on others; and where calls
 * wait in line they begin later than they were made.
 *
 * Threads of one process reach all of each other's memory, a device's too, so calls of any form
 * choose as for mapped memory, and nobody tells anything.
 */
#ifndef TUTTI_CALL_ALL_MEMORY_H
#define TUTTI_CALL_ALL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/collective.h"

struct tutti_comm;
struct call;

/* The knowledge that a communicator has of its ranks' memory; with the domain held. All but `own`
 * is the same on all ranks. */
struct all_memory {
    uint64_t told;  /* calls so far in which ranks told each other */
    uint64_t noted; /* calls so far that chose by it */
    uint32_t called,
        own; /* collectives called; and those in whose last call this rank's memory was mapped */
    uint32_t all; /* collectives in whose last call all memory was mapped, as of call `told` */
    bool is_read; /* `all` is known */
    bool is_due;  /* it is time to tell what was noted */
};

/* Whether ranks reach each other's memory whatever it is: they are threads of one process. */
bool all_memory_is_reached(const struct tutti_comm *comm);
/* Whether the algorithm of this blocking call depends on what ranks tell. */
bool all_memory_matters(const struct tutti_comm *comm, const struct call *call);
/* Whether a call of that collective chooses as for mapped memory. */
bool all_memory_decide(struct tutti_comm *comm, enum collective collective);
/* A call that chose its algorithm by this is about to begin. */
void all_memory_note(struct tutti_comm *comm, const struct call *call);
/* The same of a call on the memory of the call before it, of which nothing has to be noted. False:
 * it is time to tell or to hear something, and it is to be made like any other call. */
bool all_memory_note_again(struct tutti_comm *comm);
/* Any blocking call is about to begin, and something is to be told: tells it if this call allows
 * it. */
void all_memory_tell(struct tutti_comm *comm, const struct call *call);

#endif
