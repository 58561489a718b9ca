/* failure.h - why the communicator failed: one failure on each host. */
#ifndef TUTTI_HEALTH_FAILURE_H
#define TUTTI_HEALTH_FAILURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct health;

/* The call or message that failed, as an error names it. */
struct call_name {
    char what[96];     /* "allreduce(count 7, float32, sum)" */
    uint64_t sequence; /* 0: it has none */
};
/* The call that this rank is in. False: none. */
bool health_call_under_way(const struct health *health, struct call_name *name);

/* Publishes a failure on this host's board; the first one there counts. Other hosts are told with
 * the next pass over the network, and keep it unless they have one already: so failures at the same
 * time may differ between hosts, and after a partition each side has its own. call NULL: no call is
 * to blame. Any thread. */
void health_fail(struct health *health, const struct call_name *call, enum tutti_status status,
                 int culprit, const char *format, ...) __attribute__((format(printf, 5, 6)));
void health_fail_with(struct health *health, const struct call_name *call, enum tutti_status status,
                      int culprit, const char *format, va_list arguments)
    __attribute__((format(printf, 5, 0)));
/* If the communicator has failed, sets this thread's error and returns its status, or EXCLUDED for a
 * rank that the others have put out; else OK. */
enum tutti_status health_check(struct health *health);
/* If others have put this rank out, this thread's error, EXCLUDED, with the rank that said so and the
 * cause; else OK. `function` is the public one, without "tutti_"; NULL: none. What was not decided
 * counts if counts_wishes. From EXCLUDED on this process joins no team. Any thread. */
enum tutti_status health_check_excluded(const struct health *health, const char *function,
                                        bool counts_wishes);
/* "rank 3 (host a, pid 71)", or "rank 3 (host a, pid 1 of another PID namespace)"; without a pid
 * that is not known */
void health_name_rank(const struct health *health, int rank, char *text, size_t text_bytes);

#endif
