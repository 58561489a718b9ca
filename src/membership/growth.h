/* growth.h - a team grows: which number each rank of the new team has, and what one round of
 * growing came to. Pure functions.
 *
 *     survivors of the old team, joiners ──► numbers at the meeting ──► ranks of the new team
 *
 *     old ranks 0 1 2 3, of which 1 has died; two joiners a, b
 *
 *         at the meeting          0  2  3  a  b          survivors in their old order, then joiners in the order in which they came
 *         ranks, as they come     0  1  2  3  4
 *         ranks that are kept     0  2  3  1  4          joiners fill the gaps first
 *
 * The lowest survivor has number 0 at the meeting, whatever its rank: it admits the joiners
 * (connect/admission.h).
 *
 * A round ends with an agreement among all ranks of the new team, in which only the survivors have a
 * vote (membership/agreement.h). The new team is there if that agreement is about all of its ranks,
 * and is nowhere if it is about fewer. So no joiner goes on with a team that the survivors do not
 * have, nor one survivor with a team that another one lacks. A rank that gets no decision does not
 * know which of the two holds: it must neither use the new team nor decide anything more about the
 * old one.
 */
#ifndef TUTTI_MEMBERSHIP_GROWTH_H
#define TUTTI_MEMBERSHIP_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

/* The steps of a rank; the last four are the end. A process that joins begins with the meeting, and
 * where a member begins the next round, it applies again. */
enum growth_step {
    GROWTH_SURVIVORS, /* the old team agrees who is left */
    GROWTH_WORD,      /* the old team agrees on what the admitting rank says */
    GROWTH_MEETING,   /* the ranks of the new team meet, and make its communicator */
    GROWTH_TEAM,      /* the new team agrees whether all have met */
    GROWTH_MADE,      /* the new team is there */
    GROWTH_REFUSED,   /* nothing comes of it, and the old team is as it was */
    GROWTH_LEFT_OUT,  /* the old team goes on without this rank */
    GROWTH_UNDECIDED  /* the new team may be there, and this rank does not have it */
};

/* How a step ended. */
struct growth_event {
    bool is_decided; /* of an agreement: there is a decision; of a meeting: all have come */
    bool is_useless; /* a rank lacks something, or too few came: another round would not help */
    bool has_self;   /* of an agreement: this rank is in the set */
    bool has_all;    /* of a later agreement: all are in the set whom it is about */
};

/* The step after one that is not the end. */
enum growth_step growth_next(enum growth_step step, const struct growth_event *event);

/* A new team to be. */
struct growth_team {
    int old_size;              /* of the old team */
    const uint64_t *survivors; /* of the old team, by their old ranks (rank_set.h); not empty */
    int joiner_count;
    bool keeps_ranks; /* survivors have their old ranks in the new team, too */
};

/* How many ranks of the old team are gone. */
int growth_gap_count(const struct growth_team *team);
/* How many ranks the new team has. */
int growth_size(const struct growth_team *team);
/* Whether the ranks are 0 to growth_size - 1 without a gap, and no more than rank_max. */
bool growth_is_sound(const struct growth_team *team, int rank_max);
/* The number at the meeting of a survivor, by its old rank. */
int growth_number_of(const struct growth_team *team, int old_rank);
/* places[number]: the new rank of that number at the meeting; room for growth_size. voters: the new
 * ranks of the survivors, a set of growth_size ranks, which is overwritten. The team is sound. */
void growth_place(const struct growth_team *team, int *places, uint64_t *voters);
/* Whether a decision about that set makes the new team: it has all ranks. */
bool growth_is_made(const struct growth_team *team, const uint64_t *decided);

#endif
