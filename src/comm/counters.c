/* counters.c - what a rank did on a communicator: how often, how many bytes, and the last
 * operations one by one.
 *
 * All of it is the flight recorder's (health/recorder.h), which counts and records for others'
 * sake; this only reads.
 */
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"

/* RECORD_KINDS: there is none of that name. */
static unsigned kind_of(const char *operation)
{
    unsigned kind = 0;
    while (kind < RECORD_KINDS && strcmp(operation, record_kind_name(kind)) != 0) kind++;
    return kind;
}

enum tutti_status tutti_comm_count(const struct tutti_comm *comm, const char *operation,
                                   struct tutti_comm_counters *counters)
{
    TRY(communicator_check_handle(comm, "comm_count"));
    TRY(SIZED_CHECK_RESULT("tutti_comm_count: counters", tutti_comm_counters, counters));
    const unsigned kind = operation != NULL ? kind_of(operation) : RECORD_KINDS;
    if (kind == RECORD_KINDS)
        return error_set(TUTTI_INVALID_OPTIONS, "tutti_comm_count: there is no operation '%s'",
                         operation != NULL ? operation : "(NULL)");
    const bool is_message = kind == RECORD_SEND || kind == RECORD_RECV;
    const struct recorder *recorder =
        is_message ? &comm->health.message_recorder : &comm->health.recorder;
    const struct record_count *counted = &recorder->counts[kind];
    const struct tutti_comm_counters own = {
        .calls = atomic_load_explicit(&counted->calls, memory_order_relaxed),
        .bytes = atomic_load_explicit(&counted->bytes, memory_order_relaxed)};
    SIZED_WRITE(tutti_comm_counters, counters, counters->size_bytes, &own);
    return TUTTI_OK;
}

static struct tutti_trace_entry entry_of(const struct record *record)
{
    const bool is_message = record->kind == RECORD_SEND || record->kind == RECORD_RECV;
    return (struct tutti_trace_entry){.number = record->number,
                                      .operation = record_kind_name(record->kind),
                                      .algorithm = record->algorithm,
                                      .bytes = record->count *
                                               dtype_size((enum tutti_dtype)record->dtype),
                                      .begin_ns = record->begin_ns,
                                      .end_ns = record->end_ns,
                                      .peer = record->root,
                                      .tag = is_message ? (int)(int64_t)record->signature : 0};
}

enum tutti_status tutti_trace_read(const struct tutti_comm *comm, enum tutti_trace_of of,
                                   uint64_t number, struct tutti_trace_entry *entry)
{
    TRY(communicator_check_handle(comm, "trace_read"));
    TRY(SIZED_CHECK_RESULT("tutti_trace_read: entry", tutti_trace_entry, entry));
    if (of != TUTTI_TRACE_COLLECTIVES && of != TUTTI_TRACE_MESSAGES)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "tutti_trace_read: of must be collectives or "
                         "messages, 0 or 1, is %d",
                         (int)of);
    const struct recorder *recorder =
        of == TUTTI_TRACE_MESSAGES ? &comm->health.message_recorder : &comm->health.recorder;
    const uint64_t last = recorder_latest(recorder);
    const uint64_t first = recorder_first(last);
    struct tutti_trace_entry own = {.operation = NULL};
    struct record record;
    for (uint64_t at = number > first ? number : first; at <= last; at++)
        if (recorder_read(recorder, at, &record)) {
            own = entry_of(&record);
            break;
        }
    SIZED_WRITE(tutti_trace_entry, entry, entry->size_bytes, &own);
    return TUTTI_OK;
}
