/* vote.h - in which agreement of a number does each rank take part? Messages by which ranks ask each
 * other, and the conclusion from the answers. Pure functions.
 *
 * At each number a rank takes part in one agreement: that is its vote (standing.h). A rank that others
 * want to put out, and whose own wish can have no majority any more, has to know whether a wish of the
 * others can have one. If so, they may have put it out, and it waits to be told. If not, nobody is put
 * out at this number, and it gives up as the others do.
 *
 *     accused rank                                          another rank
 *       │ QUESTION   the number, and my vote there               │
 *       │ ─────────────────────────────────────────────────────► │ notes it
 *       │ VOTE       the same number, and its own vote           │
 *       │ ◄───────────────────────────────────────────────────── │ also after it gave up; silence: it has none yet
 *
 * A version that does not know these messages drops them, and its vote stays unknown.
 */
#ifndef TUTTI_MEMBERSHIP_VOTE_H
#define TUTTI_MEMBERSHIP_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VOTE_BYTES = 16, VOTE_HISTORY = 16 };

/* ------------------------------------------------------------------------------------- messages */

struct vote_message {
    bool is_question;
    uint64_t epoch; /* the sender's vote, as standing_epoch has it */
};

void vote_write(const struct vote_message *message, unsigned char bytes[VOTE_BYTES]);
/* False: it is no such message. The bytes may be foreign. */
bool vote_read(const void *bytes, size_t byte_count, struct vote_message *message);

/* --------------------------------------------------------------------------------- what is known */

/* A rank's own last votes, as epochs; all 0 at first. */
struct vote_history {
    uint64_t epochs[VOTE_HISTORY];
};
void vote_note_own(struct vote_history *history, uint64_t epoch);
/* The own vote at that number; 0: none, or too long ago. */
uint64_t vote_own_at(const struct vote_history *history, uint64_t number);

/* A rank keeps one of another rank's votes: the vote at the number that is under way, and until that
 * is heard, the first one that was heard of a later number. `kept`: 0 at first; returns what is kept
 * from now on. */
uint64_t vote_keep(uint64_t kept, uint64_t heard, uint64_t number);

/* ------------------------------------------------------------------------------------ conclusion */

/* In place of what an agreement is about. */
#define VOTE_UNKNOWN (UINT64_C(1) << 32)
#define VOTE_NONE (UINT64_C(2) << 32) /* the rank left before it came to this number */

/* The subject of a rank's agreement of this number (0: it puts nobody out), VOTE_UNKNOWN or VOTE_NONE. */
typedef uint64_t vote_of(const void *context, int rank);

/* Whether an agreement that puts ranks out can have the votes of a majority, if ranks whose votes are
 * unknown have all the same. own: the subject of the calling rank's, which does not count. Takes time
 * for each rank and for each different list of ranks. */
bool vote_may_exclude(int size, uint32_t own, vote_of *of, const void *context);

#endif
