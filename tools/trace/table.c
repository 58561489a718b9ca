#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "text.h"

/* How much of a call lateness has to be before anything is said. */
static const double LATE_SHARE = 0.1;
enum {
    BUSY_PERMILLE = 500,
    LATE_PERMILLE = 50,
    WHERE_SIZE = TRACE_HOST_SIZE + 48,
    CALL_SIZE = 128
};

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static bool is_most(size_t part, size_t count)
{
    return 2 * part > count;
}

/* ------------------------------------------------------------------------------------- one call */

static uint64_t bytes_of(const struct trace_entry *entry)
{
    const enum tutti_dtype dtype = dtype_from_name(entry->dtype);
    return dtype_is_valid(dtype) ? entry->count * dtype_size(dtype) : 0;
}

/* "#17 allreduce 4194304 bytes float32" */
static void describe_kind(const struct call_kind *kind, char text[static CALL_SIZE])
{
    const struct trace_entry *entry = kind->first;
    const char *start = entry->started ? "_start" : "";
    const int used =
        snprintf(text, CALL_SIZE, "#%" PRIu64 " %s%s", entry->number, entry->call, start);
    if (entry->dtype[0] == '\0' || used < 0 || used >= CALL_SIZE) return;
    snprintf(text + used, CALL_SIZE - (size_t)used, " %" PRIu64 " bytes %s%s", bytes_of(entry),
             entry->dtype, "");
    if (entry->root < 0) return;
    const size_t length = strlen(text);
    snprintf(text + length, CALL_SIZE - length, " root %d", entry->root);
}

/* "card in of host a", "core 1 of host a", "uplink out of the rack of host a", "memory" */
static void describe_where(const struct predictor *predictor,
                           const struct call_prediction *prediction, char text[static WHERE_SIZE])
{
    const char *name = model_resource_name(prediction->busiest);
    char what[24];
    if (prediction->core >= 0)
        snprintf(what, sizeof what, "%s %d", name, prediction->core);
    else
        snprintf(what, sizeof what, "%s", name);
    if (prediction->host >= 0)
        snprintf(text, WHERE_SIZE, "%s of %shost %s", what,
                 resource_is_uplink(prediction->busiest) ? "the rack of " : "",
                 predictor->host_names[prediction->host]);
    else
        snprintf(text, WHERE_SIZE, "%s", what);
}

static void describe_dump(const struct trace_calls *calls, int dump,
                          char text[static RANK_TEXT_SIZE])
{
    const struct trace_place *own = &calls->traces[dump].own;
    snprintf(text, RANK_TEXT_SIZE, "rank %d (host %s)", own->rank, own->host);
}

/* " in 7 of 9", or nothing of a single call */
static void describe_share(size_t part, size_t count, char *text, size_t size)
{
    text[0] = '\0';
    if (count > 1) snprintf(text, size, " in %zu of %zu", part, count);
}

/* --------------------------------------------------------------------------------- what follows */

static const char indent[] = "         ", by_clocks[] = ", by the hosts' clocks";

static bool is_late(const struct call_kind *kind)
{
    if (kind->late < 0 || !is_most(kind->late_count, kind->count)) return false;
    return (double)kind->late_ns >= LATE_SHARE * (double)kind->measured_ns;
}

static void print_late(const struct trace_calls *calls, const struct call_kind *kind, FILE *file)
{
    char rank[RANK_TEXT_SIZE], late[DURATION_TEXT_SIZE], share[64];
    if (!is_late(kind)) return;
    describe_dump(calls, kind->late, rank);
    describe_duration(0, kind->late_ns, late);
    describe_share(kind->late_count, kind->count, share, sizeof share);
    if (calls->clock == CALLS_NO_CLOCK)
        fprintf(file, "%s%s waited least%s, by %s: the others waited for it\n", indent, rank, share,
                late);
    else
        fprintf(file, "%s%s came last%s, %s after the others%s\n", indent, rank, share, late,
                calls->clock == CALLS_ONE_CLOCK || kind->waits_for_all ? "" : by_clocks);
}

static bool is_slower(uint64_t measured_ns, const struct compared *row)
{
    return (double)measured_ns * 1e3 > COMPARED_RATIO_FINE * (double)row->prediction.time_ps;
}

/* Whether the calls took longer than ports of the network explain at the rate that the model has
 * for them. Hosts' clocks may hide that a rank was late: where all wait for all, the rank that
 * waited least has to say the same. */
static bool is_slow(const struct trace_calls *calls, const struct compared *row)
{
    const struct call_kind *kind = row->kind;
    if (calls->clock == CALLS_WALL_CLOCKS && kind->waits_for_all && !is_slower(kind->least_ns, row))
        return false;
    return row->ratio > COMPARED_RATIO_FINE && !kind->first->started &&
           resource_is_port(row->prediction.busiest) &&
           row->prediction.busy_permille >= BUSY_PERMILLE;
}

/* Finds the percentage of its rate at which the host of the rank that ended last would work if it
 * were the only host at fault. 0: it is not known to be at fault. */
static enum tutti_status find_slow_host(const struct comparison *comparison,
                                        const struct compared *row, double *percent)
{
    const struct predictor *predictor = comparison->predictor;
    const int rank = comparison->found->traces[row->kind->last].own.rank;
    const int host = predictor->host_of[rank];
    *percent = 0;
    if (predictor->ranks_on[host] > 1 || is_slower(row->kind->last_others_ns, row)) return TUTTI_OK;
    return predict_slow_host(predictor, comparison->found, row->kind, host, row->kind->measured_ns,
                             percent);
}

static enum tutti_status print_rate(const struct comparison *comparison, const struct compared *row,
                                    FILE *file)
{
    const struct call_kind *kind = row->kind;
    const bool names_one = kind->last >= 0 && is_most(kind->last_count, kind->count);
    char rank[RANK_TEXT_SIZE] = "", share[64] = "";
    double percent = 0;
    if (!is_slow(comparison->found, row)) return TUTTI_OK;
    const char *rate = predictor_port_is_measured(comparison->predictor, row->prediction.busiest)
                           ? "calibrated"
                           : "assumed";
    const bool needs_clocks =
        comparison->found->clock == CALLS_WALL_CLOCKS && (names_one || !kind->waits_for_all);
    const char *const by_what = needs_clocks ? by_clocks : "";
    if (names_one) {
        describe_dump(comparison->found, kind->last, rank);
        describe_share(kind->last_count, kind->count, share, sizeof share);
        TRY(find_slow_host(comparison, row, &percent));
    }
    if (percent > 0)
        fprintf(file,
                "%sas if %s received at %.2g%% of its %s rate: it ended last%s, the others in the "
                "predicted time%s\n",
                indent, rank, percent, rate, share, by_what);
    else
        fprintf(file, "%sas if the %s had %.2g%% of their %s rate%s%s%s%s%s\n", indent,
                resource_is_uplink(row->prediction.busiest) ? "uplinks" : "cards", 100 / row->ratio,
                rate, names_one ? "; " : "", rank, names_one ? " ended last" : "", share, by_what);
    return TUTTI_OK;
}

enum tutti_status print_conclusions(const struct comparison *comparison, const struct compared *row,
                                    FILE *file)
{
    print_late(comparison->found, row->kind, file);
    return row->prediction.why_not[0] == '\0' ? print_rate(comparison, row, file) : TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ the calls */

struct widths {
    int call, algorithm;
};

static struct widths find_widths(const struct comparison *comparison, size_t shown)
{
    struct widths widths = {4, 9};
    for (size_t i = 0; i < shown; i++) {
        char text[CALL_SIZE];
        describe_kind(comparison->rows[i].kind, text);
        const int call = (int)strlen(text),
                  algorithm = (int)strlen(comparison->rows[i].kind->first->algorithm);
        if (call > widths.call) widths.call = call;
        if (algorithm > widths.algorithm) widths.algorithm = algorithm;
    }
    return widths;
}

static enum tutti_status print_row(const struct comparison *comparison, const struct compared *row,
                                   struct widths widths, FILE *file)
{
    const struct call_kind *kind = row->kind;
    const struct call_prediction *prediction = &row->prediction;
    const bool is_predicted = prediction->why_not[0] == '\0';
    char call[CALL_SIZE], measured[DURATION_TEXT_SIZE] = "< 2 us",
                          predicted[DURATION_TEXT_SIZE] = "-", ratio[24] = "-",
                          skew[DURATION_TEXT_SIZE];
    describe_kind(kind, call);
    if (kind->is_timed) describe_duration(0, kind->measured_ns, measured);
    describe_duration(0, kind->skew_ns, skew);
    if (is_predicted) describe_duration(0, prediction->time_ps / 1000, predicted);
    if (row->ratio > 0) snprintf(ratio, sizeof ratio, "%.2f", row->ratio);
    fprintf(file, "%7zu  %-*s  %9s  %9s  %6s  %9s  %-*s  ", kind->count, widths.call, call,
            measured, predicted, ratio, skew, widths.algorithm,
            kind->first->algorithm[0] != '\0' ? kind->first->algorithm : "-");
    if (is_predicted) {
        char where[WHERE_SIZE];
        describe_where(comparison->predictor, prediction, where);
        fprintf(file, "%s (%d%%)\n", where, (prediction->busy_permille + 5) / 10);
    } else {
        fprintf(file, "not predicted: %s\n", prediction->why_not);
    }
    return print_conclusions(comparison, row, file);
}

static enum tutti_status print_calls(const struct comparison *comparison, FILE *file)
{
    const size_t all = comparison->found->kind_count, top = (size_t)comparison->top;
    const size_t shown = all < top ? all : top;
    const struct widths widths = find_widths(comparison, shown);
    if (all == 0) return TUTTI_OK;
    fprintf(file, "\n%7s  %-*s  %9s  %9s  %6s  %9s  %-*s  %s\n", "calls", widths.call, "call",
            "measured", "predicted", "ratio", "skew", widths.algorithm, "algorithm", "busiest");
    for (size_t i = 0; i < shown; i++)
        TRY(print_row(comparison, &comparison->rows[i], widths, file));
    if (shown < all)
        fprintf(file, "%7s  and %zu kind%s of calls more (--top)\n", "", all - shown,
                plural(all - shown));
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ the ranks */

struct late_rank {
    const struct call_rank *rank;
    const struct trace_place *own;
};

static int by_lateness(const void *a, const void *b)
{
    const struct late_rank *one = a, *other = b;
    if (one->rank->late_permille != other->rank->late_permille)
        return one->rank->late_permille > other->rank->late_permille ? -1 : 1;
    return one->own->rank - other->own->rank;
}

static enum tutti_status print_ranks(const struct comparison *comparison, FILE *file)
{
    const struct trace_calls *calls = comparison->found;
    struct late_rank *late = calloc(calls->trace_count, sizeof *late);
    if (late == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    size_t count = 0;
    for (size_t t = 0; t < calls->trace_count; t++)
        if (calls->ranks[t].late_permille >= LATE_PERMILLE)
            late[count++] = (struct late_rank){&calls->ranks[t], &calls->traces[t].own};
    qsort(late, count, sizeof *late, by_lateness);
    if (count > 0)
        fprintf(file, "\n%7s  %5s  %9s  %10s  %s\n", "rank", "late", "came last", "ended last",
                "host");
    for (size_t i = 0; i < count && i < (size_t)comparison->top; i++)
        fprintf(file, "%7d  %4d%%  %9zu  %10zu  %s\n", late[i].own->rank,
                (late[i].rank->late_permille + 5) / 10, late[i].rank->late_count,
                late[i].rank->last_count, late[i].own->host);
    if (count > (size_t)comparison->top)
        fprintf(file, "%7s  and %zu more (--top)\n", "", count - (size_t)comparison->top);
    if (count > 0)
        fprintf(file,
                "late: how much of a call had passed when the rank came, in the middle of %zu\n",
                calls->count);
    free(late);
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------- what is not there */

void print_clocks(const struct trace_calls *calls, FILE *file)
{
    char error[DURATION_TEXT_SIZE];
    if (calls->clock == CALLS_WALL_CLOCKS && calls->count > 0) {
        fputs("clocks: hosts are compared by their own clocks; nothing here contradicts those\n",
              file);
    } else if (calls->clock_error_ns > 0) {
        describe_duration(0, calls->clock_error_ns, error);
        fprintf(file,
                "clocks: those of rank %d and rank %d differ by %s at least, so calls are compared "
                "by how "
                "long each rank was in them\n",
                calls->traces[calls->clock_ranks[0]].own.rank,
                calls->traces[calls->clock_ranks[1]].own.rank, error);
    } else if (calls->clock == CALLS_NO_CLOCK) {
        fputs(
            "clocks: not all dumps say when they were written (wall_ns), so calls are compared by "
            "how long each rank was in them\n",
            file);
    }
}

static void print_missing(const struct trace_calls *calls, FILE *file)
{
    enum { NAMED_MAX = 8 };
    const size_t size = (size_t)calls->traces[0].size, missing = size - calls->trace_count;
    size_t t = 0, named = 0;
    if (missing == 0) return;
    fprintf(file, "dumps: %zu of %zu ranks; there %s none of rank%s", calls->trace_count, size,
            missing == 1 ? "is" : "are", plural(missing));
    for (int rank = 0; rank < (int)size && named < NAMED_MAX; rank++) {
        while (t < calls->trace_count && calls->traces[t].own.rank < rank) t++;
        if (t < calls->trace_count && calls->traces[t].own.rank == rank) continue;
        fprintf(file, "%s %d", named > 0 ? "," : "", rank);
        named++;
    }
    fprintf(file, "%s: whether they were late or slow is not known\n",
            missing > NAMED_MAX ? " and others" : "");
}

static void print_omission(size_t count, const char *why, bool *is_first, FILE *file)
{
    if (count == 0) return;
    fprintf(file, "%s%zu %s", *is_first ? "left out: " : "; ", count, why);
    *is_first = false;
}

static bool has_started(const struct trace_calls *calls)
{
    for (size_t k = 0; k < calls->kind_count; k++)
        if (calls->kinds[k].first->started) return true;
    return false;
}

static bool lacks_something(const struct trace_calls *calls)
{
    const size_t left_out = calls->absent_count + calls->unfinished_count + calls->different_count +
                            calls->varying_count + calls->unclocked_count;
    return left_out > 0 || calls->clock != CALLS_ONE_CLOCK || has_started(calls) ||
           calls->trace_count < (size_t)calls->traces[0].size;
}

void print_left_out(const struct trace_calls *calls, FILE *file)
{
    bool is_first = true;
    print_clocks(calls, file);
    print_missing(calls, file);
    print_omission(calls->absent_count, "not in all dumps", &is_first, file);
    print_omission(calls->unfinished_count, "not completed by all ranks", &is_first, file);
    print_omission(calls->different_count, "that differ between ranks", &is_first, file);
    print_omission(calls->varying_count, "of v forms, for dumps do not have the counts of blocks",
                   &is_first, file);
    print_omission(calls->unclocked_count, "that only clocks could compare", &is_first, file);
    if (!is_first) fputc('\n', file);
    if (has_started(calls))
        fputs("calls that were started run beside others; they are predicted alone\n", file);
}

/* ------------------------------------------------------------------------------------------ all */

void print_numbers(const struct comparison *comparison, FILE *file)
{
    const struct predictor *predictor = comparison->predictor;
    const int ranks = predictor_most_ranks(predictor);
    const int measured = predictor_measured_count(predictor), of_job = predictor->job_measured_count;
    if (comparison->calibration == NULL && of_job == 0)
        fputs("as shipped, not measured on these hosts", file);
    else
        fprintf(file, "%s, %d of %d measured",
                comparison->calibration != NULL ? comparison->calibration : "as shipped", measured,
                CALIBRATION_PARAMETERS);
    if (of_job > 0) fprintf(file, ", %d of them by the job", of_job);
    if (predictor->core_count > 0)
        fprintf(file, "; %d core%s a host%s", predictor->core_count,
                plural((size_t)predictor->core_count),
                predictor->cores_are_assumed ? " (assumed)" : "");
    if (predictor->core_count > 0 && predictor->cores_of != NULL)
        fputs(", and some hosts share theirs", file);
    else if (predictor->core_count > 0 && ranks > predictor->core_count)
        fprintf(file, ", which its %d ranks share", ranks);
    fputc('\n', file);
    if (predictor->doubt[0] != '\0')
        fprintf(file, "numbers are of another job: %s\n", predictor->doubt);
    if (predictor->calibration.is_loaded)
        fputs("numbers were measured while others used the machine\n", file);
}

static void print_head(const struct comparison *comparison, FILE *file)
{
    const struct trace_calls *calls = comparison->found;
    const struct predictor *predictor = comparison->predictor;
    fprintf(file, "communicator %s: %d rank%s", calls->traces[0].communicator,
            predictor->rank_count, plural((size_t)predictor->rank_count));
    if (predictor->host_count > 0)
        fprintf(file, " on %d host%s", predictor->host_count, plural((size_t)predictor->host_count));
    if (predictor->rack_count > 1) fprintf(file, " in %d racks", predictor->rack_count);
    fprintf(file, ", %zu call%s\nnumbers: ", calls->count, plural(calls->count));
    print_numbers(comparison, file);
}

enum tutti_status print_comparison(const struct comparison *comparison, FILE *file)
{
    print_head(comparison, file);
    TRY(print_calls(comparison, file));
    TRY(print_ranks(comparison, file));
    if (lacks_something(comparison->found)) fputc('\n', file);
    print_left_out(comparison->found, file);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------- programs */

/* A text in quotes, with the quotes in the text doubled. */
static void put_csv(const char *text, FILE *file)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static void put_rank(const struct trace_calls *calls, int dump, size_t count, FILE *file)
{
    if (dump >= 0)
        fprintf(file, ",%d,%zu", calls->traces[dump].own.rank, count);
    else
        fputs(",,0", file);
}

static void print_csv_row(const struct comparison *comparison, const struct compared *row,
                          FILE *file)
{
    const struct trace_calls *calls = comparison->found;
    const struct call_kind *kind = row->kind;
    const struct trace_entry *entry = kind->first;
    const struct call_prediction *prediction = &row->prediction;
    fprintf(file, "%s,%" PRIu64 ",%zu,%s,%d,%" PRIu64 ",%s,%d,", calls->traces[0].communicator,
            entry->number, kind->count, entry->call, entry->started, bytes_of(entry), entry->dtype,
            entry->root);
    put_csv(entry->algorithm, file);
    fputc(',', file);
    if (kind->is_timed) fprintf(file, "%" PRIu64, kind->measured_ns);
    if (prediction->why_not[0] == '\0') {
        char where[WHERE_SIZE];
        describe_where(comparison->predictor, prediction, where);
        fprintf(file, ",%.0f,", (double)prediction->time_ps * 1e-3);
        if (row->ratio > 0) fprintf(file, "%.4f", row->ratio);
        fputc(',', file);
        put_csv(where, file);
        fprintf(file, ",%.3f", prediction->busy_permille * 1e-3);
    } else {
        fputs(",,,,", file);
    }
    fprintf(file, ",%" PRIu64, kind->skew_ns);
    put_rank(calls, kind->late, kind->late_count, file);
    fprintf(file, ",%" PRIu64, kind->late_ns);
    put_rank(calls, kind->last, kind->last_count, file);
    fputc('\n', file);
}

void print_comparison_csv(const struct comparison *comparison, bool with_head, FILE *file)
{
    const size_t all = comparison->found->kind_count, top = (size_t)comparison->top;
    if (with_head)
        fputs("communicator,first,calls,collective,started,bytes,dtype,root,algorithm,measured_ns,"
              "predicted_ns,ratio,busiest,busy,skew_ns,late_rank,late_calls,late_ns,last_rank,"
              "last_calls\n",
              file);
    for (size_t i = 0; i < all && i < top; i++)
        print_csv_row(comparison, &comparison->rows[i], file);
}
