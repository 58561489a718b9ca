/* agree.h - agreements among the ranks that are left, one after the other
 * (membership/agreement.h). */
#ifndef TUTTI_HEALTH_AGREE_H
#define TUTTI_HEALTH_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "membership/muster.h"
#include "tutti/tutti.h"

struct health;

/* The decision, which stays until the next agreement on the communicator. */
struct agreed {
    uint64_t epoch;      /* its number on the communicator */
    uint64_t word;       /* all words, and-ed */
    const uint64_t *set; /* of ranks that are left (membership/rank_set.h) */
};

/* Blocks until the next agreement is decided, with the communicator's timeout. Errors: MINORITY,
 * TIMEOUT (`function`, without "tutti_", is named), NO_MEMORY; of *result only the epoch is there
 * then. */
enum tutti_status agree(struct health *health, const char *function, uint64_t word,
                        struct agreed *result);
/* The same with a deadline that is later: one rank may wait so long before it calls. */
enum tutti_status agree_later(struct health *health, const char *function, uint64_t word,
                              uint64_t more_ns, struct agreed *result);
/* agree() for a decision that is of use only if it is about all ranks. Only the ranks in `voters`
 * have a vote, the same set on all ranks (copied): those of the old team, where others join it.
 * PROC_FAILED: a rank has left without a decision about all, so there is none. */
enum tutti_status agree_on_all(struct health *health, const char *function, const uint64_t *voters,
                               struct agreed *result);
/* An agreement of those who put ranks out of the communicator. It is another one than that of ranks
 * which call something else at the same time, or put out others: each rank has a vote in one of them,
 * so at most one of them has the majority that it needs. What the excluded ranks say in it is not
 * heard; if it is secret, they are not told anything of it either. */
struct agree_without {
    const uint64_t *ranks; /* a set of those that are excluded, without this one */
    uint32_t about;        /* a number that follows from the set, not 0 */
    bool is_secret;
};
/* agree() for these; NULL: nobody is excluded. among: the ranks on which an earlier agreement of the
 * same call has decided, so that no other rank is waited for; NULL: there was none. Errors besides:
 * DESYNC: too many ranks take part in another agreement. EXCLUDED: the others put this rank out. Both
 * may be the end of the other agreements, too. */
enum tutti_status agree_among(struct health *health, const char *function, uint64_t word,
                              const uint64_t *among, const struct agree_without *without,
                              struct agreed *result);
/* agree() for a muster (membership/muster.h): it goes on without ranks that are sick, and is decided at the latest
 * when it has waited for patience_ns, two timeouts of the communicator and some seconds.
 *
 * From the first muster of a communicator on, agree_later and agree_among, too, go on without ranks that do not run, or
 * do not answer, when these have had the communicator's timeout to come; and agree_on_all always does. Without a majority
 * of ranks that have come they end with TIMEOUT, some seconds later than otherwise. Here nobody votes on it: as always,
 * the rank that leads an agreement decides whom it reaches, and no two ranks decide differently.
 *
 * A rank that an agreement was decided without is waited for again when it has come as far as the others. If so many of
 * these are two agreements ahead that the rest is no majority, it gets MINORITY. */
enum tutti_status agree_without_sick(struct health *health, const char *function, uint64_t word,
                                     uint64_t patience_ns, struct agreed *result);
/* After that, among the ranks of its set: their common opinion of the missing ranks. Blocks until this rank has
 * an opinion, or for some seconds, and then until the others have voted. A missing rank that comes after all
 * takes part, too, and has no vote. *has_stalled: this rank sees that one of the missing ranks does not run, or
 * does not answer. */
enum tutti_status agree_on_missing(struct health *health, const char *function, const uint64_t *set,
                                   enum muster_opinion *opinion, bool *has_stalled);
/* A call with agreements begins: its thread alone makes them until agree_exit, since each has the next
 * number. DESYNC: another thread of this process is in such a call, which the error names. NO_MEMORY.
 * `function` is static, without "tutti_". Any thread; waits for the domain. */
enum tutti_status agree_enter(struct health *health, const char *function);
void agree_exit(struct health *health);
/* While survivors meet: a rank that ended its part of the meeting more than a second ago, whether
 * it succeeded or not; -1: none is known. All end it at about the same time, unless it has failed
 * for some. A rank that was stopped between two looks has not waited for that long: it may find
 * the reason first. */
int agree_gone_ahead(struct health *health, uint64_t now_ns);
/* While survivors meet, on a communicator that has mustered: the first of these ranks that does not run, or does not
 * answer, and has had the communicator's timeout for the meeting; -1: none is known. Looks at them, from the first call
 * of a meeting on. */
int agree_sick_at_meeting(struct health *health, const int *ranks, int count, uint64_t now_ns);
/* Before this rank leaves, and so answers no more: sends the last decision once more. */
void agree_leave(struct health *health);

#endif
