/* failure.h - one failure, the same on all ranks. */
#ifndef TUTTI_COMM_FAILURE_H
#define TUTTI_COMM_FAILURE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct tutti_comm;
struct tutti_request;

/* Publishes a failure of a request with its cause; the first one wins on all ranks. */
void comm_fail(struct tutti_comm *comm, const struct tutti_request *request,
               enum tutti_status status, int culprit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Reports what is on the board as this thread's error; its status, or OK. */
enum tutti_status comm_check(struct tutti_comm *comm);
/* "rank 3 (host a, pid 71)", or "rank 3 (host a, pid 1 of another PID namespace)" */
void comm_name_rank(const struct tutti_comm *comm, int rank, char *text, size_t text_bytes);

#endif
