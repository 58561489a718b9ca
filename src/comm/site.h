/* site.h - what a new communicator chooses algorithms by: the machines of its ranks, and what work costs there. */
#ifndef TUTTI_COMM_SITE_H
#define TUTTI_COMM_SITE_H

#include "bootstrap/rendezvous.h"
#include "call/communicator.h"

/* As the ranks meet, members: those of this host. If not all have the same calibration, nobody uses one. INVALID_OPTIONS, on all ranks: not all
 * have the same table of measured choices. MISMATCH, on all ranks: not all have the same plans from files. */
enum tutti_status comm_agree_on_knowledge(struct tutti_comm *comm,
                                          const struct rendezvous_member *members);

/* After the ranks have met. Sets team.members.site to the same on all ranks. NO_MEMORY. */
enum tutti_status comm_find_site(struct tutti_comm *comm);

#endif
