/* absence.h - what this rank knows of ranks that do not come to a muster (membership/muster.h): the evidence for
 * its verdicts. With the domain held, by the thread that makes the agreement.
 *
 * A call to which all ranks come soon costs nothing. After a moment this rank tells all others that it is here,
 * and asks ranks of other hosts: a process that runs answers, even if its application calls nothing. */
#ifndef TUTTI_HEALTH_ABSENCE_H
#define TUTTI_HEALTH_ABSENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "membership/muster.h"
#include "tutti/tutti.h"

struct recovery;

/* A muster begins with the current agreement; absent_ns as in struct muster_time, UINT64_MAX: no rank is absent. NO_MEMORY. */
enum tutti_status absence_begin(struct recovery *recovery, uint64_t patience_ns, uint64_t absent_ns);
/* The agreements that follow are none. */
void absence_end(struct recovery *recovery);
/* The same evidence while survivors meet after the current agreement; once more while it goes on: nothing. NO_MEMORY. */
enum tutti_status absence_begin_meeting(struct recovery *recovery, uint64_t patience_ns);
/* Whether this rank has given ranks up since absence_forget, or has waited in vain for a meeting: then it has no patience any
 * more. */
bool absence_has_given_up(const struct recovery *recovery);
void absence_forget(struct recovery *recovery);
void absence_free(struct recovery *recovery);
/* The bytes that malloc holds for it. */
size_t absence_bytes(const struct recovery *recovery);
/* One look, after recover_look; to be repeated every few milliseconds. Nothing, if there is no muster. Whether
 * it is time to tell the others that this rank has come (recover_say_vote). */
bool absence_look(struct recovery *recovery, uint64_t now_ns);
/* Whether the agreement goes on without that rank. */
bool absence_is_given_up(const struct recovery *recovery, int rank);
/* Of a meeting: the first of the ranks that does not run, or does not answer, and is given up for that; -1: none. Looks,
 * if it is time to. */
int absence_find(struct recovery *recovery, const int *ranks, int count, uint64_t now_ns);
/* This rank's opinion of the ranks that are not in the set, as of the last look. */
enum muster_opinion absence_opinion(const struct recovery *recovery, const uint64_t *set);
/* Whether one of them has come meanwhile. */
bool absence_has_come(const struct recovery *recovery, const uint64_t *set);
/* Whether one of them does not run, or does not answer. */
bool absence_has_stalled(const struct recovery *recovery, const uint64_t *set);

#endif
