/* report.h - says which rank holds up a call, while the call still waits. */
#ifndef TUTTI_CALL_REPORT_H
#define TUTTI_CALL_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_comm;
struct call_request;
struct board_finding;

/* The last line about a rank that holds up a call. */
struct report_call {
    bool is_open; /* it still does */
    int rank;
    const struct call_request *request;
    uint64_t since_ns, looked_ns;
    uint64_t present_ns;       /* this rank ran */
    uint64_t listens_until_ns; /* it did not before, and says nothing */
};

/* Whether a rank is known not to have made the call. Of a rank on another host only its answers are
 * known. */
bool call_has_not_begun(const struct tutti_comm *comm, const struct call_request *request, int rank);
/* A rank that is known to have called it and to wait for its gate: `peer` (or -1), which this one
 * waits for, else the first; -1: none. */
int call_rank_at_gate(const struct tutti_comm *comm, const struct call_request *request, int peer);
/* Whether it is known for which rank the call waits in the end; that rank may wait for nobody. */
bool report_find(struct tutti_comm *comm, const struct call_request *request, uint64_t now_ns,
                 struct board_finding *finding);
/* Looks, now and then, for the rank that holds up a call that has waited long, and says so once. */
void report_call(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns);
/* At every look at a call, whatever it waits for: that this rank runs. */
void report_presence(struct tutti_comm *comm, uint64_t now_ns);
/* The call is over: what was said of it, if anything, is no more; NULL: of whichever. Only while
 * comm->report.is_open. */
void report_call_end(struct tutti_comm *comm, const struct call_request *request);

#endif
