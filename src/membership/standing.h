/* standing.h - how an agreement among survivors has to see a rank that takes part in another one, or that
 * has left. Pure functions.
 *
 * The agreements of a communicator have numbers. At each number a rank takes part in one agreement: it
 * shrinks, say, or it puts certain ranks out (*about* them; health/agree.h). Agreements about different
 * things do not hear each other, and each needs a majority of all ranks. So at each number one of them
 * is decided at most.
 *
 * A rank that left takes part in nothing any more. Whether the others may go on without it, as without
 * a dead rank, depends on what it knows:
 *
 *     it has decided nothing that this rank lacks       as if dead
 *     it may have decided something that this rank      it may be in a team without this rank: only suspected, so
 *     lacks, or this rank is to be put out              that this rank needs a majority to go on
 */
#ifndef TUTTI_MEMBERSHIP_STANDING_H
#define TUTTI_MEMBERSHIP_STANDING_H

#include <stdbool.h>
#include <stdint.h>

/* The agreement of that number about that, on the wire. about 0: who is left. */
uint64_t standing_epoch(uint64_t number, uint32_t about);
/* From such an epoch, which may be foreign. */
uint64_t standing_number(uint64_t epoch);
uint32_t standing_about(uint64_t epoch);
/* A number that follows from a set of ranks, and is not 0 (FNV-1a). Different sets have the same one
 * with a chance of 2^-32. */
uint32_t standing_about_set(const uint64_t *set, int size);

/* Whether so many ranks, of which one may be rank 0, can decide among `size` ranks: more than half of
 * them, or half with rank 0. */
bool standing_is_majority(int count, bool has_first, int size);

/* A rank's own past. */
struct standing_self {
    uint64_t number; /* of the agreement that is under way */
    /* The first agreement that this rank did not decide, or that left it out; 0: none. Later agreements
     * do not make up for it: a rank whose agreement asks who is left may take part in an agreement of
     * others that asks whether all have met, who do not count on it. */
    uint64_t missed;
    bool is_accused; /* somebody wants to put this rank out, or it is decided */
};
/* Whether a rank that left may have gone on without this one. decided: the number of the last agreement
 * that it may have decided, 0: none. has_opposed: it once took part in an agreement that this rank had
 * no part in. */
bool standing_has_moved_on(const struct standing_self *self, uint64_t decided, bool has_opposed);

/* The past of a rank after an agreement: whether it decided, with this rank in its set. */
void standing_note_end(struct standing_self *self, bool takes_part);

#endif
