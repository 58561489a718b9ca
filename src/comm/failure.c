/* failure.c - one failure, and the same on all ranks: who is named, and how it is published. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/deaths.h"
#include "comm/failure.h"
#include "comm/request.h"

void comm_name_rank(const struct tutti_comm *comm, int rank, char *text, size_t bytes)
{
    snprintf(text, bytes, "rank %d (host %s, pid %d%s)", rank, comm_host_name_of(comm, rank),
             board_pid(comm->health.board, rank),
             comm_is_hidden(comm, rank) ? " of another PID namespace" : "");
}

void comm_fail(struct tutti_comm *comm, const struct tutti_request *request,
               enum tutti_status status, int culprit, const char *format, ...)
{
    char text[256], message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    uint64_t sequence = 0;
    if (request != NULL) {
        char what[96], number[24] = "";
        if (request->is_message)
            comm_message_describe(request_message_const(request), what, sizeof what);
        else
            board_describe(&request_call_const(request)->call.what, what, sizeof what);
        sequence = request->sequence;
        if (sequence > 0) snprintf(number, sizeof number, " #%llu", (unsigned long long)sequence);
        const int used = snprintf(message, sizeof message, "%.80s%s: ", what, number);
        snprintf(message + used, sizeof message - (size_t)used, "%.*s",
                 (int)sizeof message - used - 1, text);
    } else {
        snprintf(message, sizeof message, "%.250s", text);
    }
    if (!board_fail(comm->health.board, status, culprit, comm->rank, sequence, message)) return;
    log_write(LOG_WARN, "rank %d: %s: %s", comm->rank, tutti_status_name(status), message);
    trace_tell_failure(comm);
    if (comm->transports.set.all != NULL)
        comm->transports.set.all->ops->wake_all(comm->transports.set.all);
}

enum tutti_status comm_check(struct tutti_comm *comm)
{
    struct tutti_failure failure;
    const enum tutti_status status = board_failure(comm->health.board, &failure);
    if (status == TUTTI_OK) return TUTTI_OK;
    return error_set(status, "%s (rank %d of %d; found by rank %d)", failure.message, comm->rank,
                     comm->size, failure.reporter);
}
