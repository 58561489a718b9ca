/* exclusion.h - whether others put a rank out of the communicator, and what it is told of that.
 *
 *     a rank that excludes it: "we want to" ──► the others agree, and meet ──► each of them: "it is decided"
 *                    └──────── one word in the rank's own line of its host's board ────────┘
 *
 * A rank of the same host writes the word itself; to a rank of another host it goes as a control message,
 * which that rank writes down. From the first word on the rank takes nobody for dead who has left the
 * communicator (recover_state.h): the others may go on without it. From the second on all its calls
 * end with EXCLUDED, and it takes part in no agreement of the communicator.
 *
 * A word that was decided stays. Any process with the job's secret can say it, as it can revoke the
 * communicator.
 */
#ifndef TUTTI_HEALTH_EXCLUSION_H
#define TUTTI_HEALTH_EXCLUSION_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/exclude.h"

struct health;

struct exclusion {
    bool is_decided;
    int by; /* the rank that says so */
    enum tutti_cause cause;
};

/* "it comes late to call after call" */
const char *exclusion_cause_text(enum tutti_cause cause);
/* The word about this rank. False: there is none. Any thread. */
bool exclusion_of_self(const struct health *health, struct exclusion *exclusion);
/* As one word; and for a rank of this host, by its local number: the first word counts, until one is
 * decided. Any thread. */
uint64_t exclusion_word(const struct exclusion *exclusion);
void exclusion_write(struct health *health, int number, uint64_t word);
/* A word about this rank, which came from another host and may be foreign. */
void exclusion_hear(struct health *health, uint64_t word);

#endif
