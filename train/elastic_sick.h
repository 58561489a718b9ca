/* elastic_sick.h - ranks that are sick, but not dead, leave the team of an elastic loop (tutti/exclude.h).
 *
 *     commit: signs of each rank ──▶ verdicts of this rank ──one bit of the word──▶ all know that some rank has a verdict
 *     begin:  all ranks see all verdicts (elastic_table.h) ──▶ a rank has enough witnesses ──▶ elastic_team_mend puts it out
 *     an agreement to which a rank does not come ──▶ tutti_comm_muster: most of the others find it sick ──▶ the same
 *
 *  1. Each choice is the outcome of an agreement. So all ranks that go on put out the same ranks, in the same step.
 *  2. A call that reaches its deadline names a rank, and each host may name another one. No rank is put out
 *     because of that: a rank that only waits for another comes to the agreement.
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
/* A process has joined: what was known of ranks may be of others. */
void elastic_sick_forget(struct tutti_elastic *e);

/* Looks at all ranks, if it is time to; `done`: how this rank's work in the step ended. Whether this rank has no
 * verdict. */
bool elastic_sick_look(struct tutti_elastic *e, enum tutti_status done);
/* Whether this rank has a verdict that others can confirm only if all send to all. */
bool elastic_sick_needs_probe(const struct tutti_elastic *e);
/* The agreement of a step, as tutti_comm_agree; with a policy, a muster. After TIMEOUT ranks may be chosen. */
enum tutti_status elastic_sick_agree(struct tutti_elastic *e, uint64_t *word);
/* Chooses the rank that has enough witnesses, if there is one. Collective over a team that is whole.
 * EXCLUDED: it is this rank. PROC_FAILED: there is no choice, because a rank died or a call failed. After TIMEOUT
 * other ranks may be chosen, which did not come. */
enum tutti_status elastic_sick_choose(struct tutti_elastic *e);
/* Makes a communicator without the ranks that were chosen. */
enum tutti_status elastic_sick_put_out(struct tutti_elastic *e, struct tutti_comm **comm);

/* Zeroed at first. */
struct elastic_sick {
    struct tutti_exclude_policy policy;
    struct elastic_sick_rank *ranks; /* of the communicator; NULL: it has this one only */
    int *chosen;                     /* room for all of them */
    int size, chosen_count;
    uint64_t next_look_ns;
    enum tutti_cause cause;
};

static inline bool elastic_sick_are_chosen(const struct tutti_elastic *e)
{
    return e->sick != NULL && e->sick->chosen_count > 0;
}

#endif
