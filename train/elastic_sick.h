/* elastic_sick.h - ranks that are sick, but not dead, leave the team of an elastic loop (tutti/exclude.h).
 *
 *     commit: signs of each rank ──▶ verdicts of this rank ──one bit of the word──▶ all know that some rank has a verdict
 *     begin:  the verdicts of all ranks are counted ──▶ the rank with most of them ──▶ elastic_team_mend puts it out
 *     a call that waits for a rank in vain (TIMEOUT) ────────────────────────────────▶ the same, at once
 *
 *  1. All ranks learn of verdicts by an agreement, and count them in a collective. So all put the same rank
 *     out, in the same step, and the rank itself knows it.
 *  2. A rank that does not come to a call takes part in no agreement. The failure of the communicator names it,
 *     and all ranks have the same failure. A barrier before each agreement makes sure that they have it.
 *  3. Verdicts outlast a communicator whose ranks all go on, and no other.
 */
#ifndef TUTTI_TRAIN_ELASTIC_SICK_H
#define TUTTI_TRAIN_ELASTIC_SICK_H

#include "elastic_state.h"

/* Takes over a copy of the policy. NULL: no rank is put out, and e->sick stays NULL, which all of
 * these functions accept. */
enum tutti_status elastic_sick_open(struct tutti_elastic *e,
                                    const struct tutti_exclude_policy *policy);
void elastic_sick_close(struct tutti_elastic *e);
/* There is a new communicator. */
enum tutti_status elastic_sick_follow(struct tutti_elastic *e);
/* A process has joined: this rank forgets all ranks, since their numbers may be those of others now. */
void elastic_sick_forget(struct tutti_elastic *e);

/* Looks at all ranks, if it is time to; `done`: how this rank's work in the step ended. Whether this rank has no
 * verdict. */
bool elastic_sick_look(struct tutti_elastic *e, enum tutti_status done);
/* Chooses the rank that most have a verdict on. Collective over a team that is whole. *is_chosen: there is
 * one, and it is not this rank. EXCLUDED: it is this rank. Else a status of a collective. */
enum tutti_status elastic_sick_choose(struct tutti_elastic *e, bool *is_chosen);
/* After a call that ended with `status`: chooses the rank that the others wait for in vain, or want to put out. False:
 * there is none, or it is this rank. */
bool elastic_sick_find(struct tutti_elastic *e, enum tutti_status status);

/* Makes a communicator without the rank that was chosen. */
enum tutti_status elastic_sick_put_out(struct tutti_elastic *e, struct tutti_comm **comm);

/* Zeroed at first but for `rank`. */
struct elastic_sick {
    struct tutti_exclude_policy policy;
    struct elastic_sick_rank *ranks; /* of the communicator; NULL: it has this one only */
    int size;
    uint64_t next_look_ns;
    int failures; /* with CORRUPT, in a row */
    int rank;     /* that was chosen; -1: none */
    enum tutti_cause cause;
};

static inline bool elastic_sick_is_chosen(const struct tutti_elastic *e)
{
    return e->sick != NULL && e->sick->rank >= 0;
}

#endif
