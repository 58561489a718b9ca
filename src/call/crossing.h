/* crossing.h - ranks that made the same call in different forms: started, prepared and grouped
 * calls match each other, and blocking calls match only blocking calls.
 *
 *     rank 0    started #1, called #2, waits in it for rank 1          calls of rank 0: 1 started, 1 blocking
 *     rank 1    started #1, started #2, waits for it (for rank 0)      calls of rank 1: 2 started, 0 blocking
 *
 * All ranks must make the calls of a communicator in the same order, so the two counts of any rank
 * are, at any time, a point on one path that all ranks go along. Two ranks *cross* when each has
 * made more calls of one form than the other one: such points cannot lie on one path, however long
 * ago either was read. Started calls that are outstanding, stand in line, or are over do not
 * matter. So ranks that are only late never cross.
 *
 * The communicator fails when a rank in a blocking call and a rank that waits for a started call,
 * or whose stream does, have been known to cross for a while: neither can go on, because each waits
 * for a call that the other one has not made. Other ranks that cross may still come right by
 * themselves, so a line only reports them (report.c), until a deadline has passed.
 *
 * The message names the lowest pair: the lowest of the ranks that wait for started calls, and the
 * lowest of the ranks in blocking calls that cross it. Ranks of other hosts are asked before
 * (remote_ask), so that all hosts name the same pair, and the one of the two that blocks speaks
 * first.
 */
#ifndef TUTTI_CALL_CROSSING_H
#define TUTTI_CALL_CROSSING_H

#include <stdbool.h>
#include <stdint.h>

#include "call/communicator.h"

/* Whether a rank crosses this one, which waits in the request; *theirs: how far that rank is, as
 * far as is known. */
bool crossing_is(struct tutti_comm *comm, const struct call_request *request, int rank,
                 struct board_progress *theirs);
/* The first rank that crosses this one; -1: none. */
int crossing_find(struct tutti_comm *comm, const struct call_request *request);
/* Called in a blocking call that has waited for a while: fails it if it finds such a rank. True: it
 * did. */
bool crossing_look(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns);
/* At the deadline of a call: fails it because of a rank that crosses this one. False: there is
 * none. */
bool crossing_fail_late(struct tutti_comm *comm, const struct call_request *request);
/* Writes what a rank that crosses this one did instead of the call that this one waits in: "it
 * started broadcast(..)", "it made broadcast(..) as a blocking call". */
void crossing_describe(const struct call_request *request, const struct board_progress *theirs,
                       char *text, size_t text_bytes);

/* A thread waits for a started request, from its second look on until the wait is over. Other ranks
 * are told of it after a while. */
struct crossing_wait {
    uint64_t since_ns; /* 0 at first */
    bool is_told;
};
void crossing_wait(struct tutti_comm *comm, const struct tutti_request *waited,
                   struct crossing_wait *wait);
void crossing_end_wait(struct tutti_comm *comm, const struct crossing_wait *wait);

/* Does the same for a call in a stream, whose stream waits for it whether a thread does or not:
 * whenever the call is looked at; and when it is over. With the domain held. */
void crossing_wait_in_stream(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns);
void crossing_end_in_stream(struct tutti_comm *comm, const struct call_request *request);

#endif
