/* site.h - what a new communicator chooses algorithms by: the machines of its ranks, and what work
 * costs there. */
#ifndef TUTTI_COMM_SITE_H
#define TUTTI_COMM_SITE_H

#include <stdbool.h>

#include "bootstrap/rendezvous.h"
#include "call/communicator.h"

/* As the ranks meet, members: those of this host. If not all have the same calibration, no rank
 * uses one. MISMATCH, on all ranks: not all have the same table of measured choices, or the same
 * plans from files; but a rank with a wrong plan gets INVALID_ALGORITHM, as plans_find_wrong
 * says. */
enum tutti_status comm_agree_on_knowledge(struct tutti_comm *comm,
                                          const struct rendezvous_member *members);

/* Before the ranks meet. Sets team.transports.fabric: of the card that this process would use,
 * where that can do what the settings ask for. Failures: as transports_find_card; then it is
 * none. */
enum tutti_status comm_find_card(struct tutti_comm *comm);
/* After a failure that may be of this host alone: puts this rank and its host into this thread's
 * error. Returns the status. */
enum tutti_status comm_name_this_rank(const struct tutti_comm *comm, enum tutti_status status);
/* As the ranks meet: whether all of them would use cards of the same kind. The same on all
 * ranks. */
bool comm_agree_on_card(const struct tutti_comm *comm, const struct rendezvous_member *members);

/* After the ranks have met. Sets team.members.site to the same on all ranks. NO_MEMORY. */
enum tutti_status comm_find_site(struct tutti_comm *comm);

#endif
