/* stored_turn.h - who makes a thing that a process makes once: one thread, while others that need it wait, each until its own deadline.
 *
 *     lock ──► take ──► is it made? ──► unlock ──► make it ──► lock ──► keep it ──► end ──► unlock
 *
 * The lock is one for all such things, and held for moments only. A turn lasts as long as the making does. A child of fork whose parent
 * had a turn takes it over: the thread that had it is not there.
 */
#ifndef TUTTI_COMM_STORED_TURN_H
#define TUTTI_COMM_STORED_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/budget.h"
#include "tutti/tutti.h"

struct stored_turn {
    bool is_taken;
    uint32_t generation; /* of the process that took it */
};

void stored_lock(void);
void stored_unlock(void);

/* Waits for the turn, without the lock meanwhile, until the deadline of the budget, which is not charged. `what` is for the message. TIMEOUT,
 * ABORTED (it was stopped): the turn is another thread's. Any thread that holds the lock. */
enum tutti_status stored_turn_take(struct stored_turn *turn, const struct plan_budget *limits,
                                   const char *what);
/* By the thread whose turn it is; it holds the lock. */
void stored_turn_end(struct stored_turn *turn);

#endif
