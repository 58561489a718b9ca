/* failure.c - one failure, and the same on all ranks: who is named, and how it is published. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "health/deaths.h"
#include "health/exclusion.h"
#include "health/failure.h"
#include "health/health.h"
#include "process/excluded.h"

void health_name_rank(const struct health *health, int rank, char *text, size_t bytes)
{
    char host_name[DISCOVERY_HOST_NAME_MAX], process[64] = "";
    const int pid = health_pid_of(health, rank);
    team_host_name_of(health->team, rank, host_name);
    if (pid != 0)
        snprintf(process, sizeof process, ", pid %d%s", pid,
                 health_is_hidden(health, rank) ? " of another PID namespace" : "");
    snprintf(text, bytes, "rank %d (host %s%s)", rank, host_name, process);
}

bool health_call_under_way(const struct health *health, struct call_name *name)
{
    struct record record;
    if (!recorder_read_open(&health->recorder, &record)) return false;
    const struct call_description what = {.collective = (enum collective)record.kind,
                                          .dtype = (enum tutti_dtype)record.dtype,
                                          .op = (enum op)record.op,
                                          .root = record.root,
                                          .count = record.count,
                                          .started = record.started,
                                          .varies = record.varies,
                                          .purpose = (enum call_purpose)record.purpose};
    board_describe(&what, name->what, sizeof name->what);
    name->sequence = record.number;
    return true;
}

void health_fail_with(struct health *health, const struct call_name *call, enum tutti_status status,
                      int culprit, const char *format, va_list arguments)
{
    struct transport *const all = health->team->transports.set.all;
    const uint64_t sequence = call != NULL ? call->sequence : 0;
    char text[251], message[256], number[24] = "";
    vsnprintf(text, sizeof text, format, arguments);
    if (sequence > 0) snprintf(number, sizeof number, " #%llu", (unsigned long long)sequence);
    int used = 0;
    if (call != NULL) used = snprintf(message, sizeof message, "%.80s%s: ", call->what, number);
    snprintf(message + used, sizeof message - (size_t)used, "%.*s", (int)sizeof message - used - 1,
             text);
    const struct board_failure failure = {.status = status,
                                          .culprit = culprit,
                                          .reporter = health->team->rank,
                                          .culprit_pid =
                                              culprit >= 0 ? health_pid_of(health, culprit) : 0,
                                          .sequence = sequence,
                                          .message = message};
    if (!board_fail(health->board, &failure)) return;
    log_write(LOG_WARN, "rank %d: %s: %s", health->team->rank, tutti_status_name(status), message);
    trace_tell_failure(health);
    if (all != NULL) all->ops->wake_all(all);
}

void health_fail(struct health *health, const struct call_name *call, enum tutti_status status,
                 int culprit, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    health_fail_with(health, call, status, culprit, format, arguments);
    va_end(arguments);
}

enum tutti_status health_check_excluded(const struct health *health, const char *function,
                                        bool counts_wishes)
{
    struct exclusion exclusion;
    struct tutti_failure failure;
    char who[128];
    if (!exclusion_of_self(health, &exclusion)) return TUTTI_OK;
    if (!exclusion.is_decided && !counts_wishes) return TUTTI_OK;
    health_name_rank(health, exclusion.by, who, sizeof who);
    const bool is_told = board_failure(health->board, &failure) == TUTTI_EXCLUDED;
    if (exclusion.is_decided) excluded_note(); /* a wish may come to nothing */
    const char *const text =
        exclusion.is_decided
            ? "%s%s%srank %d is put out of the communicator, says %s: %s%s%s"
            : "%s%s%srank %d is to be put out of the communicator, says %s: %s%s%s";
    return error_set(TUTTI_EXCLUDED, text, function != NULL ? "tutti_" : "",
                     function != NULL ? function : "", function != NULL ? ": " : "",
                     health->team->rank, who, exclusion_cause_text(exclusion.cause),
                     is_told ? "; " : "", is_told ? failure.message : "");
}

enum tutti_status health_check(struct health *health)
{
    struct tutti_failure failure;
    const enum tutti_status status = board_failure(health->board, &failure);
    if (status == TUTTI_OK) return TUTTI_OK;
    TRY(health_check_excluded(health, NULL, false));
    return error_set(status, "%s (rank %d of %d; found by rank %d)", failure.message,
                     health->team->rank, health->team->size, failure.reporter);
}
