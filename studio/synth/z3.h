/* z3.h - the questions that exact synthesis asks of the Z3 solver, whose library is loaded when the
 * first question is asked.
 *
 * Unknowns are facts, which hold or do not. A literal is a fact, or with a minus sign its opposite.
 * Statements about them add up; then z3_solve answers whether all of them can hold at once, and
 * z3_holds how.
 *
 * Nothing here needs Z3's headers: the few functions are declared in z3.c as version 4.8 and later
 * have them. A process without the library (Debian: libz3-4) gets UNSUPPORTED, whose message says
 * so.
 *
 * Errors (out of memory) stick; z3_solve reports the first. One thread at a time, but for
 * z3_interrupt.
 */
#ifndef TUTTI_STUDIO_SYNTH_Z3_H
#define TUTTI_STUDIO_SYNTH_Z3_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct z3; /* opaque */

enum z3_answer {
    Z3_POSSIBLE,
    Z3_IMPOSSIBLE,
    Z3_UNDECIDED /* time is over, or z3_interrupt was called */
};

/* UNSUPPORTED: the library is not here, or not as it should be. */
enum tutti_status z3_open(struct z3 **z3);
/* NULL is fine. */
void z3_close(struct z3 *z3);

/* A new unknown, numbered from 1 on. */
int z3_new_fact(struct z3 *z3);

/* One of these literals holds. */
void z3_any(struct z3 *z3, const int *literals, int literal_count);
/* No more than so many of these literals hold. */
void z3_at_most(struct z3 *z3, const int *literals, int literal_count, int most);
/* Decides, or gives up when so much time has passed. NO_MEMORY, or UNSUPPORTED when the solver
 * fails. */
enum tutti_status z3_solve(struct z3 *z3, uint64_t timeout_ns, enum z3_answer *answer);
/* In the last solution: whether the literal holds. */
bool z3_holds(struct z3 *z3, int literal);

/* From another thread: the running z3_solve ends soon, undecided. */
void z3_interrupt(struct z3 *z3);

#endif
