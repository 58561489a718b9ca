#include "report_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "compared.h"
#include "studio/page/page.h"
#include "table.h"
#include "text.h"

/* ---------------------------------------------------------------------------------------- cells */

struct column {
    const char *title, *hint;
    bool is_text;
};

/* Columns end with one that has no title; the one with the number `sorted` is sorted by,
 * downwards. */
static void begin_table(FILE *file, const char *caption, const struct column *columns, int sorted)
{
    fprintf(file,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n"
            "<table class=\"sortable\"><thead><tr>\n",
            caption);
    for (int c = 0; columns[c].title != NULL; c++)
        fprintf(file,
                "<th scope=\"col\"%s%s><button type=\"button\" title=\"%s\">%s</button></th>\n",
                columns[c].is_text ? " class=\"text\"" : "",
                c == sorted ? " aria-sort=\"descending\"" : "", columns[c].hint, columns[c].title);
    fputs("</tr></thead><tbody>\n", file);
}

static void end_table(FILE *file)
{
    fputs("</tbody></table></div>\n", file);
}

static void put_text(FILE *file, const char *text)
{
    fputs("<td class=\"text\">", file);
    page_print(file, "%s", text);
    fputs("</td>", file);
}

static void put_count(FILE *file, uint64_t count)
{
    fprintf(file, "<td data-value=\"%" PRIu64 "\">%" PRIu64 "</td>", count, count);
}

/* 0 is shown as nothing to speak of. */
static void put_duration(FILE *file, uint64_t ns, const char *none)
{
    char text[DURATION_TEXT_SIZE];
    describe_duration(0, ns, text);
    fprintf(file, "<td data-value=\"%" PRIu64 "\">%s</td>", ns, ns > 0 ? text : none);
}

/* ----------------------------------------------------------------------------------------- slow */

/* A rank, and the call in which it came the most after all others. */
struct slow_rank {
    const struct trace_place *own;
    const struct call_rank *rank;
    uint64_t worst_ns, worst_number;
};

static int by_lateness(const void *a, const void *b)
{
    const struct slow_rank *left = a, *right = b;
    if (left->rank->late_ns != right->rank->late_ns)
        return left->rank->late_ns > right->rank->late_ns ? -1 : 1;
    return left->own->rank - right->own->rank;
}

static struct slow_rank *find_slow(const struct report_comm *comm)
{
    const struct trace_calls *calls = &comm->measured;
    struct slow_rank *all = calloc(comm->count, sizeof *all);
    if (all == NULL) return NULL;
    for (size_t t = 0; t < comm->count; t++)
        all[t] = (struct slow_rank){.own = &comm->traces[t].own, .rank = &calls->ranks[t]};
    for (size_t c = 0; c < calls->count; c++) {
        struct slow_rank *slow = &all[calls->each[c].late];
        if (calls->each[c].late_ns <= slow->worst_ns || calls->each[c].late_ns < CALLS_TIMED_NS)
            continue;
        slow->worst_ns = calls->each[c].late_ns;
        slow->worst_number = calls->each[c].number;
    }
    qsort(all, comm->count, sizeof *all, by_lateness);
    return all;
}

static void put_slow(FILE *file, const struct trace_calls *calls, const struct slow_rank *slow)
{
    const struct call_rank *rank = slow->rank;
    char worst[DURATION_TEXT_SIZE];
    fputs("<tr>", file);
    put_count(file, (uint64_t)slow->own->rank);
    put_text(file, slow->own->host);
    fprintf(file, "<td data-value=\"%zu\">%zu of %zu</td>", rank->late_count, rank->late_count,
            calls->count);
    put_duration(file, rank->late_ns, "–");
    describe_duration(0, slow->worst_ns, worst);
    if (slow->worst_ns > 0)
        fprintf(file,
                "<td data-value=\"%" PRIu64 "\">%s in <a class=\"call\" href=\"#call-%" PRIu64
                "\">#%" PRIu64 "</a></td>",
                slow->worst_ns, worst, slow->worst_number, slow->worst_number);
    else
        fputs("<td data-value=\"0\">–</td>", file);
    fprintf(file, "<td data-value=\"%d\">%d%%</td>", rank->late_permille,
            (rank->late_permille + 5) / 10);
    put_count(file, rank->last_count);
    fputs("</tr>\n", file);
}

void report_write_slow(FILE *file, const struct report_comm *comm)
{
    static const struct column columns[] = {
        {"Rank", "its number in this communicator", false},
        {"Host", "where it runs", true},
        {"Came last", "in how many calls all others waited for it, by 2 us or more", false},
        {"Late in total", "how long all others waited for it, in these calls together", false},
        {"At most", "in one call, and in which", false},
        {"Usually", "how much of a call had passed when it came: the median", false},
        {"Ended last", "in how many calls it was the last to leave, by 2 us or more", false},
        {.title = NULL}};
    enum { LATE_IN_TOTAL = 3 };
    struct slow_rank *all = comm->measured.count > 0 ? find_slow(comm) : NULL;
    if (comm->count < 2) {
        fputs("<p>There is one dump, so nobody can say who came last.</p>\n", file);
        free(all);
        return;
    }
    if (all == NULL) {
        fputs("<p>There is no call in which ranks can be compared: see what is not known.</p>\n",
              file);
        return;
    }
    if (all[0].rank->late_ns == 0)
        fputs("<p>In no call did all others wait for one rank for 2 us or more.</p>\n", file);
    begin_table(file, "Slow ranks", columns, LATE_IN_TOTAL);
    for (size_t i = 0; i < comm->count && i < REPORT_TABLE_ROWS_MAX; i++)
        put_slow(file, &comm->measured, &all[i]);
    end_table(file);
    if (comm->count > REPORT_TABLE_ROWS_MAX)
        fprintf(file, "<p>%zu more ranks were late for less time.</p>\n",
                comm->count - REPORT_TABLE_ROWS_MAX);
    free(all);
}

/* ------------------------------------------------------------------------------------- measured */

static void describe_bytes(uint64_t bytes, char text[static DURATION_TEXT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1024;
        unit++;
    }
    snprintf(text, DURATION_TEXT_SIZE, "%.*f %s", unit > 0 && size < 100 ? 1 : 0, size, units[unit]);
}

static void put_size(FILE *file, const struct trace_entry *entry)
{
    const enum tutti_dtype dtype = dtype_from_name(entry->dtype);
    const uint64_t element = dtype_is_valid(dtype) ? dtype_size(dtype) : 0;
    char text[DURATION_TEXT_SIZE];
    if (element == 0 || entry->count > UINT64_MAX / element) {
        fputs("<td data-value=\"0\">–</td>", file);
        return;
    }
    const uint64_t bytes = entry->count * element;
    describe_bytes(bytes, text);
    fprintf(file, "<td data-value=\"%" PRIu64 "\" title=\"%" PRIu64 " bytes\">%s</td>", bytes,
            bytes, text);
}

/* The facts in the dumps about a kind of calls beyond its times: a line each. */
static enum tutti_status put_remarks(FILE *file, const struct comparison *comparison,
                                     const struct compared *row)
{
    char *text = NULL;
    size_t size;
    FILE *lines = open_memstream(&text, &size);
    if (lines == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    const enum tutti_status status = print_conclusions(comparison, row, lines);
    const bool is_whole = fclose(lines) == 0;
    fputs("<td class=\"text remarks\">", file);
    if (comparison->predictor != NULL && row->prediction.why_not[0] != '\0')
        page_print(file, "not predicted: %s. ", row->prediction.why_not);
    for (char *rest = text, *line; is_whole && (line = strsep(&rest, "\n")) != NULL;) {
        line += strspn(line, " ");
        if (*line != '\0') page_print(file, "%s. ", line);
    }
    fputs("</td>", file);
    free(text);
    return status;
}

static uint64_t total_ns(const struct compared *row)
{
    return row->kind->is_timed ? row->kind->count * row->kind->measured_ns : 0;
}

/* The calls that took the most of the time come first. */
static int by_total(const void *a, const void *b)
{
    const struct compared *one = a, *other = b;
    if (total_ns(one) != total_ns(other)) return total_ns(one) > total_ns(other) ? -1 : 1;
    return one->kind->first->number < other->kind->first->number ? -1 : 1;
}

static enum tutti_status put_measured(FILE *file, const struct comparison *comparison,
                                      const struct compared *row)
{
    const struct trace_entry *entry = row->kind->first;
    const bool is_predicted = row->prediction.why_not[0] == '\0';
    fputs("<tr><td class=\"text\">", file);
    page_print(file, "%s%s %s", entry->call, entry->started ? "_start" : "", entry->dtype);
    if (entry->root >= 0) fprintf(file, ", root %d", entry->root);
    fputs("</td>", file);
    put_size(file, entry);
    put_text(file, entry->algorithm[0] != '\0' ? entry->algorithm : "–");
    put_count(file, row->kind->count);
    put_duration(file, row->kind->is_timed ? row->kind->measured_ns : 0, "&lt; 2 us");
    put_duration(file, total_ns(row), "–");
    put_duration(file, row->expected_ns, "–");
    if (comparison->predictor != NULL)
        put_duration(file, is_predicted ? row->prediction.time_ps / 1000 : 0, "–");
    if (row->ratio > 0)
        fprintf(file, "<td data-value=\"%.6g\"%s>%.*f</td>", row->ratio,
                row->ratio > COMPARED_RATIO_FINE ? " class=\"slow\"" : "", row->ratio < 100 ? 2 : 0,
                row->ratio);
    else
        fputs("<td data-value=\"0\">–</td>", file);
    put_duration(file, row->kind->skew_ns, "–");
    TRY(put_remarks(file, comparison, row));
    fputs("</tr>\n", file);
    return TUTTI_OK;
}

static void put_basis(FILE *file, const struct comparison *comparison)
{
    char *text = NULL;
    size_t size;
    FILE *lines = open_memstream(&text, &size);
    if (lines == NULL) return;
    print_numbers(comparison, lines);
    if (fclose(lines) == 0) {
        fputs("<p>Predicted with ", file);
        for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
            if (*line != '\0') page_print(file, "%s. ", line);
        fputs("</p>\n", file);
    }
    free(text);
}

static enum tutti_status write_rows(FILE *file, const struct comparison *comparison)
{
    static const struct column with[] = {
        {"Operation", "the collective and its dtype", true},
        {"Size", "count times the size of an element", false},
        {"Algorithm", "that the calls got", true},
        {"Calls", "that all dumps have, complete", false},
        {"Measured", "from when the last rank came until the last one left: the median", false},
        {"In total", "the number of calls times what they took", false},
        {"Expected", "by the job, when it chose the algorithm", false},
        {"Predicted", "by the cost model, with the calibration", false},
        {"Ratio", "measured to predicted; without a calibration, to expected", false},
        {"Skew", "how long the first rank waited for the last one: the median", false},
        {"Remarks", "what the dumps show of these calls", true},
        {.title = NULL}};
    enum { IN_TOTAL = 5, PREDICTED = 7, COLUMNS = sizeof with / sizeof *with };
    struct column without[COLUMNS - 1];
    memcpy(without, with, PREDICTED * sizeof *with);
    memcpy(without + PREDICTED, with + PREDICTED + 1, (COLUMNS - PREDICTED - 1) * sizeof *with);
    const bool is_predicted = comparison->predictor != NULL;
    const size_t all = comparison->found->kind_count;
    begin_table(file, "Measured and predicted times", is_predicted ? with : without, IN_TOTAL);
    for (size_t k = 0; k < all && k < REPORT_TABLE_ROWS_MAX; k++)
        TRY(put_measured(file, comparison, &comparison->rows[k]));
    end_table(file);
    if (all > REPORT_TABLE_ROWS_MAX)
        fprintf(file, "<p>%zu more kinds of calls took less time.</p>\n",
                all - REPORT_TABLE_ROWS_MAX);
    return TUTTI_OK;
}

static bool expects_nothing(const struct comparison *comparison)
{
    for (size_t k = 0; k < comparison->found->kind_count; k++)
        if (comparison->rows[k].expected_ns > 0) return false;
    return true;
}

static enum tutti_status write_table(FILE *file, const struct comparison *comparison,
                                     struct compared *rows)
{
    if (rows == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    TRY(compared_find(comparison->predictor, comparison->found, rows));
    qsort(rows, comparison->found->kind_count, sizeof *rows, by_total);
    if (comparison->predictor != NULL)
        put_basis(file, comparison);
    else if (expects_nothing(comparison))
        fputs("<p>The dumps hold no prediction of these calls. With --calibration FILE the report "
              "has one.</p>\n",
              file);
    return write_rows(file, comparison);
}

enum tutti_status report_write_measured(FILE *file, const struct report_comm *comm,
                                        const char *calibration)
{
    struct predictor predictor;
    if (comm->measured.count == 0) {
        fputs("<p>There is no call whose time is measured: see what is not known.</p>\n", file);
        return TUTTI_OK;
    }
    if (calibration != NULL) TRY(predictor_init(&predictor, &comm->measured, calibration));
    struct compared *rows = calloc(comm->measured.kind_count + 1, sizeof *rows);
    const struct comparison comparison = {.found = &comm->measured,
                                          .predictor = calibration != NULL ? &predictor : NULL,
                                          .rows = rows,
                                          .calibration = calibration};
    const enum tutti_status status = write_table(file, &comparison, rows);
    free(rows);
    if (calibration != NULL) predictor_release(&predictor);
    return status;
}
