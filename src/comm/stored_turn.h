/* stored_turn.h - plans from files, which a process reads and proves once: one thread does it,
 * while others that need that plan wait, each until its own deadline.
 *
 *     lock ──► take ──► is it made? ──► unlock ──► make it ──► lock ──► keep it ──► turn_give ──► unlock
 *
 * The lock is one for all such things, and held for moments only. A turn (os/turn.h) lasts as long
 * as the making does.
 */
#ifndef TUTTI_COMM_STORED_TURN_H
#define TUTTI_COMM_STORED_TURN_H

#include "os/turn.h"
#include "plan/budget.h"
#include "tutti/tutti.h"

void stored_lock(void);
void stored_unlock(void);

/* Waits for the turn, without the lock meanwhile, until the deadline of the budget, which is not
 * charged. `what` is for the message. TIMEOUT, ABORTED (it was stopped): the turn is another
 * thread's. Any thread that holds the lock. */
enum tutti_status stored_turn_take(struct turn *turn, const struct plan_budget *limits,
                                   const char *what);

#endif
