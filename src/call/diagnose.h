/* diagnose.h - looking for reasons why a call does not move. */
#ifndef TUTTI_CALL_DIAGNOSE_H
#define TUTTI_CALL_DIAGNOSE_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_comm;
struct call_request;
struct tutti_request;

/* Looks for reasons why a request does not move (deaths, mismatches, the deadline) and fails it. */
void diagnose_call(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns);
/* Only for processes that died; true when the communicator failed of it. */
bool diagnose_deaths(struct tutti_comm *comm, const struct tutti_request *request);
/* Looks only for data that arrived changed; true when the communicator failed of it. request NULL:
 * what arrived was for no request. */
bool diagnose_corruption(struct tutti_comm *comm, const struct tutti_request *request);
/* Whether the last of what a rank that has left sent may still be on its way to this one;
 * TUTTI_ANY_RANK: of any. For a moment only. */
bool diagnose_await_last_words(struct tutti_comm *comm, struct tutti_request *request, int rank);
/* A message of that peer made no sense for this request: fails it. False: the peer is on another
 * host and is asked first what it means; once more, please. */
bool diagnose_fault(struct tutti_comm *comm, struct call_request *request, int peer);

#endif
