#include "compared.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* The worst kinds of calls come first. The kinds that have no prediction follow, the longest
 * first. */
static int by_ratio(const void *a, const void *b)
{
    const struct compared *one = a, *other = b;
    if (one->ratio != other->ratio) return one->ratio > other->ratio ? -1 : 1;
    if (one->kind->measured_ns != other->kind->measured_ns)
        return one->kind->measured_ns > other->kind->measured_ns ? -1 : 1;
    return one->kind->first->number < other->kind->first->number ? -1 : 1;
}

/* All ranks expect the same, so one dump is asked; its latest call counts. */
static uint64_t expected_of(const struct trace_calls *calls, const struct call_kind *kind)
{
    const struct trace_json *trace = &calls->traces[0];
    for (size_t i = trace->operation_count; i > 0; i--) {
        const struct trace_entry *entry = &trace->operations[i - 1];
        if (entry->expected_ns > 0 && calls_are_alike(entry, kind->first))
            return entry->expected_ns;
    }
    return 0;
}

enum tutti_status compared_find(const struct predictor *predictor, const struct trace_calls *calls,
                                struct compared *rows)
{
    for (size_t k = 0; k < calls->kind_count; k++) {
        const struct call_kind *kind = &calls->kinds[k];
        struct compared *row = &rows[k];
        *row = (struct compared){.kind = kind, .expected_ns = expected_of(calls, kind)};
        double predicted_ns = (double)row->expected_ns;
        if (predictor != NULL) {
            TRY(predict_kind(predictor, calls, kind, &row->prediction));
            const bool is_predicted = row->prediction.why_not[0] == '\0';
            predicted_ns = is_predicted ? (double)row->prediction.time_ps * 1e-3 : 0;
        } else {
            snprintf(row->prediction.why_not, sizeof row->prediction.why_not, "nothing was asked");
        }
        if (kind->is_timed && predicted_ns > 0)
            row->ratio = (double)kind->measured_ns / predicted_ns;
    }
    qsort(rows, calls->kind_count, sizeof *rows, by_ratio);
    return TUTTI_OK;
}
