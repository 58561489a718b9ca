/* For any bytes, trace_json_load ends. A dump that it accepts is within bounds, and has nothing
 * that a terminal obeys. */
#include <stdlib.h>
#include <string.h>

#include "studio/trace/trace_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
    const size_t length = strnlen(text, size);
    if (length == size) abort();
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) abort();
}

static void check_entries(const struct trace_json *trace, const struct trace_entry *entries,
                          size_t count)
{
    if (count > TRACE_ENTRIES_MAX) abort();
    for (size_t i = 0; i < count; i++) {
        const struct trace_entry *entry = &entries[i];
        check_text(entry->call, sizeof entry->call);
        check_text(entry->dtype, sizeof entry->dtype);
        check_text(entry->op, sizeof entry->op);
        check_text(entry->algorithm, sizeof entry->algorithm);
        check_text(entry->paths, sizeof entry->paths);
        check_text(entry->state, sizeof entry->state);
        if (i > 0 && entry->number <= entries[i - 1].number) abort();
        if (entry->waits_for < -1 || entry->waits_for >= trace->place_count) abort();
        if (entry->root >= trace->size || entry->peer >= trace->size) abort();
    }
}

static void check_rivals(const struct trace_rival *rivals, size_t count)
{
    if (count > TRACE_UNUSED_MAX) abort();
    for (size_t i = 0; i < count; i++) {
        check_text(rivals[i].call, sizeof rivals[i].call);
        check_text(rivals[i].algorithm, sizeof rivals[i].algorithm);
        check_text(rivals[i].reason, sizeof rivals[i].reason);
        if (rivals[i].expected_ns > INT64_MAX) abort();
    }
}

static void check_choices(const struct trace_json *trace)
{
    if (trace->choice_count > TRACE_CHOICES_MAX) abort();
    for (size_t i = 0; i < trace->choice_count; i++) {
        const struct trace_choice *choice = &trace->choices[i];
        check_text(choice->call, sizeof choice->call);
        check_text(choice->dtype, sizeof choice->dtype);
        check_text(choice->algorithm, sizeof choice->algorithm);
        check_text(choice->reason, sizeof choice->reason);
        if (choice->radix < 0 || choice->expected_ns > INT64_MAX || choice->count > INT64_MAX ||
            choice->unused_left_out > INT64_MAX)
            abort();
        check_rivals(&choice->next, 1);
        check_rivals(choice->unused, choice->unused_count);
    }
    check_rivals(trace->unused_plans, trace->unused_plan_count);
    if (trace->unused_plans_left_out > INT64_MAX) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_json trace;
    if (trace_json_load((const char *)data, size, &trace) != TUTTI_OK) {
        if (trace.operations != NULL || trace.choices != NULL || tutti_error_message()[0] == '\0')
            abort();
        return 0;
    }
    if (trace.size < 1 || trace.own.rank < 0 || trace.own.rank >= trace.size) abort();
    if (trace.failure.culprit < -1 || trace.failure.culprit >= trace.place_count) abort();
    check_text(trace.own.host, sizeof trace.own.host);
    check_text(trace.communicator, sizeof trace.communicator);
    check_text(trace.failure.status, sizeof trace.failure.status);
    check_text(trace.failure.message, sizeof trace.failure.message);
    for (int i = 0; i < trace.place_count; i++) {
        check_text(trace.places[i].host, sizeof trace.places[i].host);
        if (trace.places[i].rank < 0 || trace.places[i].rank >= trace.size) abort();
    }
    check_entries(&trace, trace.operations, trace.operation_count);
    check_entries(&trace, trace.messages, trace.message_count);
    check_choices(&trace);
    trace_json_release(&trace);
    return 0;
}
