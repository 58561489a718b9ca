/* known.h - what is known of a rank, wherever it is: from the board, where it shares this rank's
 * host, else from what it said last. */
#ifndef TUTTI_HEALTH_KNOWN_H
#define TUTTI_HEALTH_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "health/health.h"
#include "transport/control.h"

/* With the domain held. */

/* Whether it is there. */
enum rank_state known_state(const struct health *health, int rank);
/* Of a rank that has left: 1 + the last agreement that it may have decided; 0: it has not said. */
uint64_t known_left_at(const struct health *health, int rank);
/* Its latest calls in a slot, as far as they are known; to be read only. */
struct board_call *known_calls(const struct health *health, int rank, int slot);
/* Whether it is known how far that rank is with the call of that number in a slot. */
bool known_call(const struct health *health, int rank, int slot, uint64_t begun);
/* The numbers of calls that it has made; false: not known. */
bool known_progress(const struct health *health, int rank, struct board_progress *progress);
bool known_to_be_in_call(const struct health *health, int rank);
/* Whether it is in a call that makes agreements, such as tutti_comm_grow. */
bool known_to_agree(const struct health *health, int rank);
/* A rank as a finding: its latest call, and whether it is stopped, as far as that is visible
 * without asking. */
struct board_finding known_standing(const struct health *health, int rank);
/* Whether a rank does not run. A rank of another host counts as stopped only when it was asked and
 * does not answer. */
bool known_to_be_stopped(const struct health *health, int rank, uint64_t now_ns);
/* The report of control on a rank of another host; false: it is on this one. */
bool known_report(const struct health *health, int rank, struct peer_report *report);
/* For an error: what is known of a rank that does not answer, as "does not run (...)" or "has not
 * answered for 3.2 s: ...". False: it answers, as far as is known. */
enum { KNOWN_SILENCE_MAX = 112 };
bool known_silence(const struct health *health, int rank, uint64_t now_ns,
                   char text[static KNOWN_SILENCE_MAX]);
/* Whether its process has ended, for certain. */
bool known_to_have_ended(struct health *health, int rank);

#endif
