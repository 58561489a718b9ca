/* chosen.h - what is told of a choice when a program is made: one line in the log, and what a
 * running job answers (health/choices.h); and which algorithm the latest call got, for programs
 * that measure. */
#ifndef TUTTI_CALL_CHOSEN_H
#define TUTTI_CALL_CHOSEN_H

#include "call/communicator.h"
#include "tune/choose.h"

/* In the log: what was chosen, and, once for each plan of the user, why it was not. Domain held. */
void chosen_say(struct tutti_comm *comm, const struct call *call, const struct choose_call *wanted,
                const struct choice *choice);
/* For tools that ask the job. Domain held. */
void chosen_keep(struct tutti_comm *comm, const struct call *call, const struct choose_call *wanted,
                 const struct choice *choice, uint64_t signature);

enum { CHOSEN_NAME_SIZE = 128 };
/* The algorithm of this rank's latest call, as rules name it: "tree", or "tree/3" where the radix
 * is not the algorithm's own. Empty: there was no call, or nothing is recorded (base/watched.h);
 * messages do not count. Any thread; prompt. */
void chosen_name_latest(const struct tutti_comm *comm, char name[static CHOSEN_NAME_SIZE]);

#endif
