#include "process/metrics.h"

#include <inttypes.h>

static const char *kind_name(int kind)
{
    if (kind == METRICS_SEND) return "send";
    if (kind == METRICS_RECV) return "recv";
    return collective_name((enum collective)kind);
}

static void head(FILE *file, const char *name, const char *type, const char *help)
{
    fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void by_collective(FILE *file, const char *name, const char *process, const uint64_t *values)
{
    for (int kind = 0; kind < METRICS_KINDS; kind++)
        fprintf(file, "%s{collective=\"%s\",process=\"%s\"} %" PRIu64 "\n", name, kind_name(kind),
                process, values[kind]);
}

static void print_labels(FILE *file, const char *name, const struct metrics_communicator *one)
{
    fprintf(file, "%s{communicator=\"%s\",rank=\"%d\",size=\"%d\"} ", name, one->id, one->rank,
            one->size);
}

/* In whole numbers: the decimal point of %f depends on the application's locale. */
static void print_ms(FILE *file, uint64_t ms)
{
    fprintf(file, "%" PRIu64 ".%03" PRIu64 "\n", ms / 1000, ms % 1000);
}

/* A line for each rank that it was ever held up by. */
static void print_held(FILE *file, const struct metrics_communicator *one)
{
    for (int by = 0; one->held_ns != NULL && by < one->size; by++) {
        const uint64_t ns = atomic_load_explicit(&one->held_ns[by], memory_order_relaxed);
        if (ns == 0) continue;
        fprintf(file, "tutti_held_up_seconds_total{communicator=\"%s\",rank=\"%d\",by=\"%d\"} ",
                one->id, one->rank, by);
        print_ms(file, ns / 1000000);
    }
}

void metrics_print(const char *process, const struct metrics_counts *counts,
                   const struct metrics_communicator *communicators, size_t communicator_count,
                   FILE *file)
{
    head(file, "tutti_calls_total", "counter", "Operations begun, by collective; messages, too.");
    by_collective(file, "tutti_calls_total", process, counts->calls);
    head(file, "tutti_bytes_total", "counter",
         "Bytes of these operations: count times element size, as called.");
    by_collective(file, "tutti_bytes_total", process, counts->bytes);
    head(file, "tutti_failures_total", "counter", "Communicators that failed.");
    fprintf(file, "tutti_failures_total{process=\"%s\"} %" PRIu64 "\n", process, counts->failures);
    head(file, "tutti_communicators", "gauge", "Communicators that there are.");
    fprintf(file, "tutti_communicators{process=\"%s\"} %zu\n", process, communicator_count);
    head(file, "tutti_sequence", "gauge", "Calls of this rank on a communicator so far.");
    for (size_t i = 0; i < communicator_count; i++) {
        print_labels(file, "tutti_sequence", &communicators[i]);
        fprintf(file, "%" PRIu64 "\n", communicators[i].sequence);
    }
    head(file, "tutti_idle_seconds", "gauge", "Time since an operation was completed.");
    for (size_t i = 0; i < communicator_count; i++) {
        if (!communicators[i].has_completed) continue;
        print_labels(file, "tutti_idle_seconds", &communicators[i]);
        print_ms(file, (uint64_t)(communicators[i].idle_seconds * 1e3));
    }
    head(file, "tutti_held_up_seconds_total", "counter",
         "Time in which calls of this rank waited for one that came later.");
    for (size_t i = 0; i < communicator_count; i++) print_held(file, &communicators[i]);
}
