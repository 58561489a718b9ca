/* plans.h - the plans of a communicator that are not built in: from files that rules or calls name,
 * and those that the user registered.
 *
 *     rules ──► plans_read ──► ranks meet, and compare fingerprints (site.h) ──► plans_prove ──► rules refer to them
 *
 * Every rank reads its own files. A rank that cannot read one says so as the ranks meet, so all
 * ranks get an error that names it, and none waits. A communicator that is derived from another one
 * has files that its ranks have compared before, or, with rules of its own, finds out with the
 * first call (the signature of a call has the plan's fingerprint).
 */
#ifndef TUTTI_COMM_PLANS_H
#define TUTTI_COMM_PLANS_H

#include <stdbool.h>
#include <stdint.h>

#include "call/communicator.h"
#include "plan/budget.h"

/* Reads the files that the communicator's rules name, and the folder of plans, until half of the
 * time to the deadline is over. INVALID_OPTIONS, INVALID_ALGORITHM, TIMEOUT, NO_MEMORY. */
enum tutti_status plans_read(struct tutti_comm *comm, uint64_t deadline_ns);

/* The budget for reading and proving a plan when so much time is left: half of it. The other half
 * is for telling the other ranks, and for what is to come. The work stops when the communicator has
 * failed. */
struct plan_budget plans_limits(const struct tutti_comm *comm, uint64_t left_ns);

enum { PLANS_NONE, PLANS_CANNOT_JOIN };
/* The word of a rank to the others: PLANS_NONE, or a number that tells plans apart.
 * PLANS_CANNOT_JOIN is the word of a rank that meets the others to tell them why it cannot join,
 * whatever the reason: no rank compares anything with it. */
uint32_t plans_fingerprint(const struct tutti_comm *comm);

/* After the ranks have met. Plans for another number of ranks are passed over, with a line in the
 * log. Blocks until half of the time to the deadline is over, at most, so that a rank whose proofs
 * take longer can tell the others why it does not come. INVALID_ALGORITHM, on all ranks: a plan
 * that a rule names is wrong or too costly; such a plan of the folder is left out. TIMEOUT: the
 * proofs took too long here, and maybe not on other ranks. NO_MEMORY. Else the status with which
 * the communicator has failed meanwhile. */
enum tutti_status plans_prove(struct tutti_comm *comm, uint64_t deadline_ns);
/* For a rank that cannot join because the others have other plans, and may have gone: whether a
 * rule of its own names a plan that is wrong. Blocks for 2 s at most. INVALID_ALGORITHM, with the
 * file and the step; OK: not as far as was seen. */
enum tutti_status plans_find_wrong(struct tutti_comm *comm);
/* Sets the plans that compete in team.members.site, which is new but for them: the plans of the
 * folder that are for its machines. The log says why other plans are not used. NO_MEMORY. */
enum tutti_status plans_offer(struct tutti_comm *comm);
void plans_free(struct tutti_comm *comm);

/* Whether a call's algorithm is a file: "file:PATH". */
bool plans_names_file(const char *algorithm);
/* Sets the call's algorithm to the plan of that file, which is read and proven the first time. That
 * takes half of the call's time at most, and the call has what is left. Other ranks may have
 * another file, or be able to read theirs, or be faster: a call that this fails is refused
 * (call/refuse.h). Any thread. */
enum tutti_status plans_find_file(struct tutti_comm *comm, struct call *call, const char *algorithm);

/* Plans that the user has registered, by their names; the communicator takes the algorithm over,
 * also on failure: NO_MEMORY. Any thread. */
enum tutti_status plans_add_own(struct tutti_comm *comm, struct algorithm *algorithm);
bool plans_find_own(const struct tutti_comm *comm, enum collective collective, const char *name,
                    const struct algorithm **algorithm);

#endif
