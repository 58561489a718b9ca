/* elastic_team.h - the communicators of an elastic loop, one after the other. */
#ifndef TUTTI_TRAIN_ELASTIC_TEAM_H
#define TUTTI_TRAIN_ELASTIC_TEAM_H

#include "elastic_state.h"

/* The first communicator of this process: that of the first ranks, or by joining a team. */
enum tutti_status elastic_team_enter(struct tutti_elastic *e,
                                     const struct tutti_comm_options *options, bool joins);
/* A communicator in the place of the present one, which has failed or has lost ranks: with a process
 * in the place of each rank that is missing, or of those that are left. On failure the loop cannot
 * go on. */
enum tutti_status elastic_team_mend(struct tutti_elastic *e);
/* Lets in processes that wait, if there are any, as long as the team is smaller than wanted. OK,
 * too, if nobody came. */
enum tutti_status elastic_team_grow(struct tutti_elastic *e);
void elastic_team_leave(struct tutti_elastic *e);

#endif
