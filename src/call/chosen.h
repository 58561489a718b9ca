/* chosen.h - what is told of a choice when a program is made: one line in the log, and what a running job answers (health/choices.h). */
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

#endif
