#include "report_bars.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/page/page.h"

/* The newest entries of a dump, as many as are shown. */
struct window {
    const struct trace_entry *entries;
    size_t count;
};

struct row {
    int rank;
    const struct trace_json *trace; /* NULL: it left no dump */
    struct window call_window, message_window;
};

struct bars {
    const struct report_comm *comm;
    struct row *rows;
    size_t row_count;
    const struct trace_entry **kinds; /* one entry of each kind, sorted */
    size_t kind_count;
    const char **states; /* one of each, sorted */
    size_t state_count;
};

/* ----------------------------------------------------------------------------------------- rows */

static void want(bool *wanted, size_t *left, int rank)
{
    if (rank < 0 || wanted[rank] || *left == 0) return;
    wanted[rank] = true;
    --*left;
}

/* Chooses the ranks that are shown. */
static void choose_rows(struct bars *bars, bool *wanted)
{
    const struct report_comm *comm = bars->comm;
    size_t left = REPORT_ROWS_MAX;
    want(wanted, &left, comm->verdict.culprit);
    for (size_t t = 0; t < comm->count; t++) {
        const struct trace_entry *entry = report_open_entry(&comm->traces[t]);
        if (entry != NULL && entry->waits_for >= 0)
            want(wanted, &left, comm->traces[t].places[entry->waits_for].rank);
    }
    for (int rank = 0; rank < comm->size && left > 0; rank++) want(wanted, &left, rank);
    for (int rank = 0; rank < comm->size; rank++)
        if (wanted[rank])
            bars->rows[bars->row_count++] = (struct row){.rank = rank, .trace = comm->by_rank[rank]};
}

static struct window newest(const struct trace_entry *entries, size_t count, size_t most)
{
    const size_t shown = count < most ? count : most;
    return (struct window){entries + (count - shown), shown};
}

/* Shares the bars among the rows; within a row messages get at most half if calls want the rest. */
static void choose_bars(struct bars *bars, size_t most, struct report_omitted *omitted)
{
    const struct report_comm *comm = bars->comm;
    size_t dumps = 0, shown = 0, all = 0;
    for (size_t r = 0; r < bars->row_count; r++) dumps += bars->rows[r].trace != NULL;
    const size_t share = dumps > 0 ? most / dumps + 1 : 0;
    for (size_t r = 0; r < bars->row_count; r++) {
        struct row *row = &bars->rows[r];
        if (row->trace == NULL) continue;
        const size_t messages = row->trace->message_count;
        const size_t kept = messages < share / 2 ? messages : share / 2;
        row->call_window = newest(row->trace->operations, row->trace->operation_count, share - kept);
        row->message_window = newest(row->trace->messages, messages, share - row->call_window.count);
        shown += row->call_window.count + row->message_window.count;
    }
    for (size_t t = 0; t < comm->count; t++)
        all += comm->traces[t].operation_count + comm->traces[t].message_count;
    *omitted =
        (struct report_omitted){.bars = all - shown, .rows = (size_t)comm->size - bars->row_count};
}

/* ---------------------------------------------------------------------------------------- kinds */

static int compare_numbers(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int compare_kinds(const struct trace_entry *left, const struct trace_entry *right)
{
    int order = strcmp(left->call, right->call);
    if (order == 0) order = compare_numbers(left->count, right->count);
    if (order == 0) order = strcmp(left->dtype, right->dtype);
    if (order == 0) order = strcmp(left->op, right->op);
    if (order == 0) order = strcmp(left->algorithm, right->algorithm);
    if (order == 0) order = strcmp(left->paths, right->paths);
    if (order == 0) order = compare_numbers(left->expected_ns, right->expected_ns);
    if (order == 0) order = left->started - right->started;
    if (order == 0) order = left->is_gated - right->is_gated;
    if (order == 0) order = (left->root > right->root) - (left->root < right->root);
    if (order == 0) order = (left->peer > right->peer) - (left->peer < right->peer);
    if (order == 0) order = (left->tag > right->tag) - (left->tag < right->tag);
    return order;
}

static int by_kind(const void *a, const void *b)
{
    const struct trace_entry *const *left = a, *const *right = b;
    return compare_kinds(*left, *right);
}

static int by_state(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static void add_all(struct bars *bars, const struct window *window)
{
    for (size_t i = 0; i < window->count; i++) {
        bars->kinds[bars->kind_count++] = &window->entries[i];
        bars->states[bars->state_count++] = window->entries[i].state;
    }
}

static enum tutti_status find_kinds(struct bars *bars)
{
    size_t all = 0, kinds = 0, states = 0;
    for (size_t r = 0; r < bars->row_count; r++)
        all += bars->rows[r].call_window.count + bars->rows[r].message_window.count;
    bars->kinds = calloc(all + 1, sizeof *bars->kinds);
    bars->states = calloc(all + 1, sizeof *bars->states);
    if (bars->kinds == NULL || bars->states == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    for (size_t r = 0; r < bars->row_count; r++) {
        add_all(bars, &bars->rows[r].call_window);
        add_all(bars, &bars->rows[r].message_window);
    }
    qsort(bars->kinds, all, sizeof *bars->kinds, by_kind);
    qsort(bars->states, all, sizeof *bars->states, by_state);
    for (size_t i = 0; i < all; i++) {
        if (i == 0 || compare_kinds(bars->kinds[kinds - 1], bars->kinds[i]) != 0)
            bars->kinds[kinds++] = bars->kinds[i];
        if (i == 0 || strcmp(bars->states[states - 1], bars->states[i]) != 0)
            bars->states[states++] = bars->states[i];
    }
    bars->kind_count = kinds;
    bars->state_count = states;
    return TUTTI_OK;
}

static size_t kind_of(const struct bars *bars, const struct trace_entry *entry)
{
    const struct trace_entry **found =
        bsearch(&entry, bars->kinds, bars->kind_count, sizeof *bars->kinds, by_kind);
    return (size_t)(found - bars->kinds);
}

static size_t state_of(const struct bars *bars, const struct trace_entry *entry)
{
    const char *state = entry->state;
    const char **found =
        bsearch(&state, bars->states, bars->state_count, sizeof *bars->states, by_state);
    return (size_t)(found - bars->states);
}

/* ---------------------------------------------------------------------------------------- texts */

static void put_text(FILE *file, const char *name, const char *text)
{
    if (text[0] == '\0') return;
    fprintf(file, ",\"%s\":", name);
    page_print_json(file, text);
}

static void put_kind(FILE *file, const struct trace_entry *entry)
{
    fputs("{\"call\":", file);
    page_print_json(file, entry->call);
    put_text(file, "dtype", entry->dtype);
    if (entry->dtype[0] != '\0') fprintf(file, ",\"count\":%" PRIu64, entry->count);
    put_text(file, "op", entry->op);
    put_text(file, "algorithm", entry->algorithm);
    put_text(file, "ways", entry->paths);
    if (entry->expected_ns > 0) fprintf(file, ",\"expected\":%" PRIu64, entry->expected_ns);
    if (entry->started) fputs(",\"started\":true", file);
    if (entry->is_gated) fputs(",\"gated\":true", file);
    if (entry->root >= 0) fprintf(file, ",\"root\":%d", entry->root);
    if (entry->peer >= 0) fprintf(file, ",\"peer\":%d", entry->peer);
    if (entry->tag >= 0) fprintf(file, ",\"tag\":%d", entry->tag);
    fputs("}", file);
}

static void put_list(FILE *file, const struct bars *bars)
{
    fputs(",\n\"kinds\":[", file);
    for (size_t k = 0; k < bars->kind_count; k++) {
        if (k > 0) fputs(",\n", file);
        put_kind(file, bars->kinds[k]);
    }
    fputs("],\n\"states\":[", file);
    for (size_t s = 0; s < bars->state_count; s++) {
        if (s > 0) fputc(',', file);
        page_print_json(file, bars->states[s]);
    }
    fputs("]", file);
}

/* ----------------------------------------------------------------------------------------- bars */

static void put_window(FILE *file, const struct bars *bars, const struct row *row,
                       const struct window *window, const char *name)
{
    const struct trace_json *trace = row->trace;
    int64_t begin = 0;
    uint64_t number = 0;
    if (window->count == 0) return;
    fprintf(file, ",\n \"%s\":[", name);
    for (size_t i = 0; i < window->count; i++) {
        const struct trace_entry *entry = &window->entries[i];
        const bool is_over = trace_entry_is_over(entry) && entry->end_ns > 0;
        const uint64_t end_ns = is_over ? entry->end_ns : trace->monotonic_ns;
        const int64_t at = report_time(bars->comm, trace, entry->begin_ns),
                      end = report_time(bars->comm, trace, end_ns);
        const bool waits = entry->waits_for >= 0;
        const int64_t since = waits ? report_time(bars->comm, trace, entry->since_ns) : at;
        fprintf(file, "%s%" PRIu64 ",%zu,%" PRId64 ",%" PRId64 ",%zu,%d,%" PRId64, i > 0 ? "," : "",
                entry->number - number, kind_of(bars, entry), at - begin, end > at ? end - at : 0,
                state_of(bars, entry), waits ? trace->places[entry->waits_for].rank : -1,
                since > at ? since - at : 0);
        number = entry->number;
        begin = at;
    }
    fputs("]", file);
}

static void put_row(FILE *file, const struct bars *bars, const struct row *row)
{
    const struct trace_json *trace = row->trace;
    const struct trace_place *place = bars->comm->places[row->rank];
    fprintf(file, "{\"rank\":%d", row->rank);
    if (place != NULL) {
        put_text(file, "host", place->host);
        if (place->pid > 0) fprintf(file, ",\"pid\":%d", place->pid);
    }
    if (trace != NULL) {
        fprintf(file, ",\"dump\":%" PRId64 ",\"made\":%" PRIu64,
                report_time(bars->comm, trace, trace->monotonic_ns), trace->calls);
        put_window(file, bars, row, &row->call_window, "calls");
        put_window(file, bars, row, &row->message_window, "messages");
    }
    fputs("}", file);
}

/* Of measured calls, as long as a row shows them. */
static void put_late(FILE *file, const struct bars *bars)
{
    const struct trace_calls *calls = &bars->comm->measured;
    uint64_t first = UINT64_MAX;
    const char *between = "";
    for (size_t r = 0; r < bars->row_count; r++)
        if (bars->rows[r].call_window.count > 0 && bars->rows[r].call_window.entries->number < first)
            first = bars->rows[r].call_window.entries->number;
    fputs(",\n\"late\":[", file);
    for (size_t c = 0; c < calls->count; c++) {
        const struct call_times *each = &calls->each[c];
        if (each->number < first) continue;
        fprintf(file, "%s%" PRIu64 ",%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64, between, each->number,
                calls->traces[each->late].own.rank, each->late_ns, each->skew_ns, each->measured_ns);
        between = ",";
    }
    fputs("]", file);
}

static void put_all(FILE *file, const struct bars *bars, const struct report_omitted *omitted)
{
    static const char *const clocks[] = {
        [CALLS_ONE_CLOCK] = "one", [CALLS_WALL_CLOCKS] = "wall", [CALLS_NO_CLOCK] = "none"};
    const struct report_comm *comm = bars->comm;
    fputs("{\"communicator\":", file);
    page_print_json(file, comm->traces->communicator);
    fprintf(file, ",\"size\":%d,\"clock\":\"%s\",\"culprit\":%d,\"sequence\":%" PRIu64, comm->size,
            clocks[comm->measured.clock], comm->verdict.culprit, comm->verdict.sequence);
    fprintf(file, ",\"span\":%" PRIu64, comm->end_ns - comm->begin_ns);
    put_list(file, bars);
    fputs(",\n\"rows\":[", file);
    for (size_t r = 0; r < bars->row_count; r++) {
        if (r > 0) fputs(",\n", file);
        put_row(file, bars, &bars->rows[r]);
    }
    fputs("]", file);
    put_late(file, bars);
    fprintf(file, ",\n\"left_out\":{\"bars\":%zu,\"rows\":%zu}}", omitted->bars, omitted->rows);
}

enum tutti_status report_write_bars(FILE *file, const struct report_comm *comm, size_t most,
                                    struct report_omitted *omitted)
{
    struct bars bars = {.comm = comm};
    bool *wanted = calloc((size_t)comm->size, sizeof *wanted);
    bars.rows = calloc(REPORT_ROWS_MAX, sizeof *bars.rows);
    enum tutti_status status = TUTTI_OK;
    if (wanted == NULL || bars.rows == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "out of memory");
    } else {
        choose_rows(&bars, wanted);
        choose_bars(&bars, most, omitted);
        status = find_kinds(&bars);
    }
    if (status == TUTTI_OK) put_all(file, &bars, omitted);
    free(wanted);
    free(bars.rows);
    free(bars.kinds);
    free(bars.states);
    return status;
}
