/* plans.h - the plans of a communicator that are not built in: from files that rules or calls name, and those that the user registered.
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

/* Reads the files that the communicator's rules name, and the folder of plans. INVALID_OPTIONS, INVALID_ALGORITHM, NO_MEMORY. */
enum tutti_status plans_read(struct tutti_comm *comm);

enum { PLANS_NONE, PLANS_CANNOT_JOIN };
/* The word of a rank to the others: PLANS_NONE, or a number that tells plans apart. PLANS_CANNOT_JOIN is that of a rank that meets the others
 * to tell them why it cannot join, whatever the reason: nobody compares anything with it. */
uint32_t plans_fingerprint(const struct tutti_comm *comm);

/* After the ranks have met. Plans for another number of ranks are passed over, with a line in the log. INVALID_ALGORITHM, on all ranks: a
 * plan that a rule names is wrong; one of the folder is left out. NO_MEMORY. */
enum tutti_status plans_prove(struct tutti_comm *comm);
/* Sets the plans that compete in team.members.site, which is new but for them: those of the folder that are for its machines. The log says
 * why others are not used. NO_MEMORY. */
enum tutti_status plans_offer(struct tutti_comm *comm);
void plans_free(struct tutti_comm *comm);

/* Whether a call's algorithm is a file: "file:PATH". */
bool plans_names_file(const char *algorithm);
/* Sets the call's algorithm to the plan of that file, which is read and proven the first time. Other ranks may have another file, or be able
 * to read theirs: a call that this fails is refused (call/refuse.h). Any thread. */
enum tutti_status plans_find_file(const struct tutti_comm *comm, struct call *call,
                                  const char *algorithm);

/* Plans that the user has registered, by their names; the communicator takes the algorithm over, also on failure: NO_MEMORY. Any thread. */
enum tutti_status plans_add_own(struct tutti_comm *comm, struct algorithm *algorithm);
bool plans_find_own(const struct tutti_comm *comm, enum collective collective, const char *name,
                    const struct algorithm **algorithm);

#endif
