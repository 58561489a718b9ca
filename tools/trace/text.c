#include "text.h"

#include <inttypes.h>
#include <string.h>

void describe_entry(const struct trace_entry *entry, char text[static ENTRY_TEXT_SIZE])
{
    size_t used = 0;
    const char *between = "";
#define ADD(...)                                                                        \
    do {                                                                                \
        if (used < ENTRY_TEXT_SIZE)                                                     \
            used += (size_t)snprintf(text + used, ENTRY_TEXT_SIZE - used, __VA_ARGS__); \
    } while (0)
    const bool is_message = trace_entry_is_message(entry);
    ADD("%s%s(", entry->call, entry->started ? "_start" : "");
    if (entry->dtype[0] != '\0') {
        ADD("count %" PRIu64 ", %s", entry->count, entry->dtype);
        between = ", ";
    }
    if (entry->op[0] != '\0') ADD("%s%s", between, entry->op);
    if (entry->root >= 0) ADD("%sroot %d", between, entry->root);
    if (is_message) {
        const char *path = strcmp(entry->call, "send") == 0 ? "to" : "from";
        if (entry->peer >= 0)
            ADD("%s%s rank %d", between, path, entry->peer);
        else
            ADD("%s%s any rank", between, path);
        if (entry->tag >= 0) ADD(", tag %d", entry->tag);
        ADD(")");
    } else {
        ADD(") #%" PRIu64, entry->number);
    }
#undef ADD
}

void describe_rank(const struct trace_place *place, char text[static RANK_TEXT_SIZE])
{
    if (place->pid > 0)
        snprintf(text, RANK_TEXT_SIZE, "rank %d (host %s, pid %d)", place->rank, place->host,
                 place->pid);
    else
        snprintf(text, RANK_TEXT_SIZE, "rank %d (host %s)", place->rank, place->host);
}

void describe_duration(uint64_t from_ns, uint64_t to_ns, char text[static DURATION_TEXT_SIZE])
{
    const double ns = to_ns > from_ns ? (double)(to_ns - from_ns) : 0;
    if (ns < 1e3)
        snprintf(text, DURATION_TEXT_SIZE, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(text, DURATION_TEXT_SIZE, "%.1f us", ns * 1e-3);
    else if (ns < 1e9)
        snprintf(text, DURATION_TEXT_SIZE, "%.1f ms", ns * 1e-6);
    else
        snprintf(text, DURATION_TEXT_SIZE, "%.2f s", ns * 1e-9);
}

/* --------------------------------------------------------------------------------------- tables */

static void show_entry(const struct trace_json *trace, const struct trace_entry *entry, FILE *file)
{
    char what[ENTRY_TEXT_SIZE], took[DURATION_TEXT_SIZE], ago[DURATION_TEXT_SIZE];
    char expected[DURATION_TEXT_SIZE];
    const bool is_over = trace_entry_is_over(entry);
    describe_entry(entry, what);
    describe_duration(entry->begin_ns, is_over ? entry->end_ns : trace->monotonic_ns, took);
    if (is_over && entry->end_ns == entry->begin_ns) snprintf(took, sizeof took, "< 2 us");
    describe_duration(entry->begin_ns, trace->monotonic_ns, ago);
    describe_duration(0, entry->expected_ns, expected);
    fprintf(file, "%12s  %10s  %10s  %-12s  %-22s  %s", ago, took,
            entry->expected_ns > 0 ? expected : "-", entry->state,
            entry->algorithm[0] != '\0' ? entry->algorithm : "-", what);
    if (entry->waits_for >= 0) {
        char whom[RANK_TEXT_SIZE];
        describe_rank(&trace->places[entry->waits_for], whom);
        fprintf(file, ", waited for %s%s", whom, entry->is_stopped ? ", which did not run" : "");
    }
    if (entry->is_gated) fputs(is_over ? ", waited for its gate" : ", waits for its gate", file);
    if (entry->paths[0] != '\0') fprintf(file, " [%s]", entry->paths);
    fputc('\n', file);
}

static void show_head(const struct trace_json *trace, FILE *file)
{
    char own[RANK_TEXT_SIZE];
    describe_rank(&trace->own, own);
    fprintf(file, "%s of %d, communicator %s: %" PRIu64 " calls\n", own, trace->size,
            trace->communicator, trace->calls);
    if (trace->failure.status[0] != '\0')
        fprintf(file, "failed: %s: %s\n", trace->failure.status, trace->failure.message);
}

void show_trace(const struct trace_json *trace, FILE *file)
{
    show_head(trace, file);
    fprintf(file, "%12s  %10s  %10s  %-12s  %-22s  %s\n", "began ago", "took", "expected", "state",
            "algorithm", "call");
    for (size_t i = 0; i < trace->operation_count; i++)
        show_entry(trace, &trace->operations[i], file);
    if (trace->message_count > 0) fputs("messages:\n", file);
    for (size_t i = 0; i < trace->message_count; i++) show_entry(trace, &trace->messages[i], file);
}

/* ---------------------------------------------------------------------------------------- lines */

static size_t show_running(const struct trace_json *trace, const struct trace_entry *entries,
                           size_t count, const char *between, FILE *file)
{
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        const struct trace_entry *entry = &entries[i];
        if (trace_entry_is_over(entry)) continue;
        char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE];
        describe_entry(entry, what);
        describe_duration(entry->begin_ns, trace->monotonic_ns, since);
        fprintf(file, "%s%s for %s", between, what, since);
        between = "; ";
        if (entry->is_gated) fputs(", waits for its gate", file);
        shown++;
        if (entry->waits_for < 0) continue;
        char whom[RANK_TEXT_SIZE];
        describe_rank(&trace->places[entry->waits_for], whom);
        describe_duration(entry->since_ns, trace->monotonic_ns, since);
        fprintf(file, ", waits for %s for %s%s", whom, since,
                entry->is_stopped ? ", and it does not run" : "");
    }
    return shown;
}

static void show_idle(const struct trace_json *trace, FILE *file)
{
    if (trace->operation_count == 0) {
        fputs(trace->calls == 0 ? "has called nothing yet" : "in no call", file);
        return;
    }
    const struct trace_entry *last = &trace->operations[trace->operation_count - 1];
    char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE];
    describe_entry(last, what);
    describe_duration(last->end_ns, trace->monotonic_ns, since);
    fprintf(file, "in no call for %s, after %s", since, what);
}

void show_state(const struct trace_json *trace, FILE *file)
{
    fprintf(file, "pid %d  %.8s  rank %d of %d: ", trace->own.pid, trace->communicator,
            trace->own.rank, trace->size);
    if (trace->failure.status[0] != '\0') fprintf(file, "failed (%s); ", trace->failure.status);
    size_t shown = show_running(trace, trace->operations, trace->operation_count, "", file);
    shown += show_running(trace, trace->messages, trace->message_count, shown > 0 ? "; " : "", file);
    if (shown == 0) show_idle(trace, file);
    fputc('\n', file);
}
