#include "report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "studio/page/page.h"
#include "table.h"
#include "text.h"

enum { RUNS_MAX = 6, GROUPS_MAX = 8, MOMENT_SIZE = 40 };

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* -------------------------------------------------------------------------------------- phrases */

/* "rank 2", "ranks 0-3 and 7", "ranks 0, 2, 4, 6, 8, 10 and 17 more": ascending. */
static void print_ranks(FILE *file, const int *ranks, size_t count, const char *word)
{
    fprintf(file, "%s%s ", word, plural(count));
    for (size_t i = 0, end, runs = 0; i < count; i = end, runs++) {
        end = i + 1;
        if (runs == RUNS_MAX && count > i + 1) {
            fprintf(file, " and %zu more", count - i);
            return;
        }
        while (end < count && ranks[end] == ranks[end - 1] + 1) end++;
        if (end - i == 2) end = i + 1; /* two are no range */
        if (runs > 0) fputs(end == count ? " and " : ", ", file);
        fprintf(file, "%d", ranks[i]);
        if (end - i > 1) fprintf(file, "–%d", ranks[end - 1]);
    }
}

static void describe_moment(uint64_t wall_ns, char text[static MOMENT_SIZE])
{
    const time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm parts;
    char date[24] = "";
    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text, MOMENT_SIZE, "%s.%03d UTC", date, (int)(wall_ns / 1000000 % 1000));
}

/* The call that the verdict names, as the culprit made it, or else another rank; NULL: no dump has
 * it. */
static const struct trace_entry *find_call(const struct report_comm *comm)
{
    const uint64_t number = comm->verdict.sequence;
    const int culprit = comm->verdict.culprit;
    const struct trace_json *own = culprit >= 0 ? comm->by_rank[culprit] : NULL;
    const struct trace_entry *entry = own != NULL ? trace_json_operation(own, number) : NULL;
    for (size_t t = 0; number > 0 && entry == NULL && t < comm->count; t++)
        entry = trace_json_operation(&comm->traces[t], number);
    return entry;
}

/* ---------------------------------------------------------------------------------- the verdict */

static const char *const next_steps[] = {
    [VERDICT_NOTHING] = "No rank failed, and none had kept the others waiting for 2 s or more when "
                        "the dumps were written.",
    [VERDICT_SLOW_LINK] = "All ranks have made the call. Look at the network between that rank and "
                          "those that wait for it: tutti-topo --probe measures it.",
    [VERDICT_LATE] =
        "Look at what its process does outside of Tutti, or at the work that its device "
        "has to finish first: gdb -p shows where the process is.",
    [VERDICT_FAILED] = "The message says why. The output of that rank may say more.",
    [VERDICT_STALLED] =
        "Look at its process: ps -o stat,wchan -p shows its state. A T means that a "
        "signal or a debugger has stopped it, and kill -CONT lets it go on.",
    [VERDICT_MISMATCHED] = "All ranks have to make a call with the same arguments. Look at where "
                           "that rank gets its own from.",
    [VERDICT_DESYNCHRONISED] = "All ranks have to make the same calls in the same order. Look at "
                               "what led that rank to another call.",
    [VERDICT_DEAD] = "Look at how its process ended: the launcher's output has its exit status or "
                     "signal, and the kernel's log of its host says whether memory ran out."};

/* Of a rank that nobody has seen end. */
static const char look_for_it[] = "Look whether its process is still there: if it is stopped, it "
                                  "writes no dump. Its dump may also lie "
                                  "on its own host, or the host may not answer.";

static const char *const colours[] = {[VERDICT_NOTHING] = "fine",
                                      [VERDICT_SLOW_LINK] = "late",
                                      [VERDICT_LATE] = "late",
                                      [VERDICT_FAILED] = "failed",
                                      [VERDICT_STALLED] = "late",
                                      [VERDICT_MISMATCHED] = "failed",
                                      [VERDICT_DESYNCHRONISED] = "failed",
                                      [VERDICT_DEAD] = "failed"};

static void print_verdict(FILE *file, const struct verdict *verdict)
{
    if (verdict->kind == VERDICT_NOTHING)
        fputs("Nothing is wrong", file);
    else if (verdict->culprit < 0)
        fputs("No rank can be named", file);
    else
        page_print(file, "Rank %d %s", verdict->culprit, verdict_words(verdict->kind));
}

void report_write_title(FILE *file, const struct report_job *job)
{
    print_verdict(file, &job->comms[0].verdict);
}

/* ---------------------------------------------------------------------------------------- facts */

static void begin_fact(FILE *file, const char *name)
{
    fprintf(file, "<div><dt>%s</dt><dd>", name);
}

static void end_fact(FILE *file)
{
    fputs("</dd></div>\n", file);
}

static void write_culprit(FILE *file, const struct report_comm *comm)
{
    const struct verdict *verdict = &comm->verdict;
    if (verdict->culprit < 0) return;
    begin_fact(file, "Culprit");
    fprintf(file, "<strong>rank %d</strong>", verdict->culprit);
    page_print(file, ", host %s", verdict->place.host);
    if (verdict->place.pid > 0) fprintf(file, ", process %d", verdict->place.pid);
    end_fact(file);
}

static void write_call(FILE *file, const struct report_comm *comm)
{
    const struct trace_entry *entry = find_call(comm);
    char text[ENTRY_TEXT_SIZE];
    if (comm->verdict.sequence == 0) return;
    begin_fact(file, "In call");
    snprintf(text, sizeof text, "#%" PRIu64, comm->verdict.sequence);
    if (entry != NULL) describe_entry(entry, text);
    page_print(file, "%s", text);
    end_fact(file);
}

/* The dump whose failure was written first; NULL: there is none. */
static const struct trace_json *first_failure(const struct report_comm *comm)
{
    const struct trace_json *first = NULL;
    for (size_t t = 0; t < comm->count; t++) {
        const struct trace_json *trace = &comm->traces[t];
        if (trace->failure.status[0] == '\0') continue;
        if (first == NULL || trace->wall_ns < first->wall_ns) first = trace;
    }
    return first;
}

static void write_failure(FILE *file, const struct report_comm *comm)
{
    const struct trace_json *trace = first_failure(comm);
    begin_fact(file, "First failure");
    if (trace == NULL) {
        fputs("none was reported", file);
    } else {
        page_print(file, "%s", trace->failure.status);
        if (trace->failure.reporter >= 0)
            fprintf(file, ", found by rank %d", trace->failure.reporter);
    }
    end_fact(file);
}

static void write_size(FILE *file, const struct report_job *job)
{
    const size_t size = (size_t)job->comms[0].size, all = job->count + job->left_out;
    size_t hosts, processes;
    report_count_places(job, &hosts, &processes);
    begin_fact(file, "Job");
    if (all > 1)
        fprintf(file, "%zu processes on %zu host%s, %zu communicators; this one has %zu rank%s",
                processes, hosts, plural(hosts), all, size, plural(size));
    else
        fprintf(file, "%zu rank%s on %zu host%s", size, plural(size), hosts, plural(hosts));
    end_fact(file);
}

static void write_time(FILE *file, const struct report_comm *comm)
{
    char covered[DURATION_TEXT_SIZE], moment[MOMENT_SIZE];
    uint64_t calls = 0, messages = 0;
    for (size_t t = 0; t < comm->count; t++) {
        if (comm->traces[t].calls > calls) calls = comm->traces[t].calls;
        messages += comm->traces[t].messages_begun;
    }
    begin_fact(file, "Recorded");
    describe_duration(comm->begin_ns, comm->end_ns, covered);
    fprintf(file, "the last %s, up to call #%" PRIu64, covered, calls);
    if (messages > 0) fprintf(file, ", and %" PRIu64 " message%s", messages, plural(messages));
    end_fact(file);
    begin_fact(file, "Dumps");
    fprintf(file, "%zu of %d rank%s", comm->count, comm->size, plural((size_t)comm->size));
    if (comm->wall_ns < UINT64_MAX) {
        describe_moment(comm->wall_ns, moment);
        fprintf(file, ", the first at %s", moment);
    }
    end_fact(file);
}

static const char *next_step(const struct report_comm *comm)
{
    const struct trace_json *failed = first_failure(comm);
    const bool is_seen = failed != NULL && strcmp(failed->failure.status, "PROC_FAILED") == 0;
    return comm->verdict.kind == VERDICT_DEAD && !is_seen ? look_for_it
                                                          : next_steps[comm->verdict.kind];
}

void report_write_head(FILE *file, const struct report_job *job)
{
    const struct report_comm *comm = &job->comms[0];
    const struct verdict *verdict = &comm->verdict;
    fprintf(file,
            "<header class=\"%s\">\n<p class=\"kind\">Report of a job by tutti-trace</p>\n<h1>",
            colours[verdict->kind]);
    print_verdict(file, verdict);
    fputs("</h1>\n", file);
    if (verdict->kind != VERDICT_NOTHING) {
        fputs("<p class=\"why\">", file);
        page_print(file, "%s", verdict->why);
        fputs(".</p>\n", file);
    }
    fprintf(file, "<p class=\"next\">%s</p>\n<dl class=\"facts\">\n", next_step(comm));
    write_culprit(file, comm);
    write_call(file, comm);
    write_failure(file, comm);
    write_size(file, job);
    write_time(file, comm);
    fputs("</dl>\n</header>\n", file);
}

/* ------------------------------------------------------------------------------------- evidence */

/* Where a rank is: in a call that is not over, or that failed, or in none. */
struct position {
    int rank;
    bool is_open, is_message;
    const struct trace_entry *entry; /* the call, or the one before; NULL: it has made none */
    uint64_t ns;                     /* for how long */
};

static uint64_t since(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static struct position position_of(const struct trace_json *trace)
{
    const struct trace_entry *open = report_open_entry(trace);
    struct position at = {.rank = trace->own.rank, .is_open = open != NULL, .entry = open};
    at.is_message = open != NULL && trace_entry_is_message(open);
    if (open != NULL) {
        const bool is_over = trace_entry_is_over(open);
        at.ns = since(open->begin_ns, is_over ? open->end_ns : trace->monotonic_ns);
    } else if (trace->operation_count > 0) {
        at.entry = &trace->operations[trace->operation_count - 1];
        at.ns = since(at.entry->end_ns, trace->monotonic_ns);
    }
    return at;
}

/* 0: they are at the same place. */
static int compare_places(const struct position *left, const struct position *right)
{
    if (left->is_message != right->is_message) return left->is_message ? 1 : -1;
    const uint64_t one = left->entry != NULL ? left->entry->number : 0,
                   other = right->entry != NULL ? right->entry->number : 0;
    if (one != other) return one < other ? -1 : 1;
    if (left->is_open != right->is_open) return left->is_open ? 1 : -1;
    if (one == 0 || !left->is_open) return 0;
    const int order = strcmp(left->entry->state, right->entry->state);
    if (order != 0) return order;
    char mine[ENTRY_TEXT_SIZE], theirs[ENTRY_TEXT_SIZE];
    describe_entry(left->entry, mine);
    describe_entry(right->entry, theirs);
    return strcmp(mine, theirs);
}

static int by_place(const void *a, const void *b)
{
    const struct position *left = a, *right = b;
    const int order = compare_places(left, right);
    return order != 0 ? order : left->rank - right->rank;
}

static void write_position(FILE *file, const struct position *at, const int *ranks, size_t count,
                           uint64_t longest_ns)
{
    char what[ENTRY_TEXT_SIZE] = "", took[DURATION_TEXT_SIZE];
    const char *const are = count == 1 ? "is" : "are", *const up_to = count == 1 ? "" : "up to ";
    if (at->entry != NULL) describe_entry(at->entry, what);
    describe_duration(0, longest_ns, took);
    fputs("<li>", file);
    print_ranks(file, ranks, count, "Rank");
    if (at->entry == NULL)
        fprintf(file, " %s called nothing", count == 1 ? "has" : "have");
    else if (!at->is_open)
        page_print(file, " %s in no call for %s%s, after %s", are, up_to, took, what);
    else if (trace_entry_is_over(at->entry))
        page_print(file, " got %s from %s, after %s%s", at->entry->state, what, up_to, took);
    else
        page_print(file, " %s in %s for %s%s%s", are, what, up_to, took,
                   at->entry->is_gated ? ", which waits for its gate" : "");
    fputs(".</li>\n", file);
}

static void write_positions(FILE *file, const struct report_comm *comm, int *ranks)
{
    struct position *all = calloc(comm->count, sizeof *all);
    if (all == NULL) return;
    for (size_t t = 0; t < comm->count; t++) all[t] = position_of(&comm->traces[t]);
    qsort(all, comm->count, sizeof *all, by_place);
    size_t groups = 0;
    for (size_t i = 0, end; i < comm->count; i = end, groups++) {
        uint64_t longest_ns = 0;
        for (end = i; end < comm->count && compare_places(&all[i], &all[end]) == 0; end++) {
            if (all[end].ns > longest_ns) longest_ns = all[end].ns;
            ranks[end - i] = all[end].rank;
        }
        if (groups < GROUPS_MAX) write_position(file, &all[i], ranks, end - i, longest_ns);
    }
    if (groups > GROUPS_MAX)
        fprintf(file, "<li>Other ranks are at %zu further places.</li>\n", groups - GROUPS_MAX);
    free(all);
}

/* A rank that waits for another one in the call that it is in, or waited until that failed. */
struct wait {
    int target, rank;
    bool is_stopped;
    uint64_t ns;
};

static int by_target(const void *a, const void *b)
{
    const struct wait *left = a, *right = b;
    return left->target != right->target ? left->target - right->target : left->rank - right->rank;
}

static size_t find_waits(const struct report_comm *comm, struct wait *waits)
{
    size_t count = 0;
    for (size_t t = 0; t < comm->count; t++) {
        const struct trace_json *trace = &comm->traces[t];
        const struct trace_entry *entry = report_open_entry(trace);
        if (entry == NULL || entry->waits_for < 0) continue;
        const uint64_t end_ns = trace_entry_is_over(entry) ? entry->end_ns : trace->monotonic_ns;
        waits[count++] = (struct wait){.target = trace->places[entry->waits_for].rank,
                                       .rank = trace->own.rank,
                                       .is_stopped = entry->is_stopped,
                                       .ns = since(entry->since_ns, end_ns)};
    }
    qsort(waits, count, sizeof *waits, by_target);
    return count;
}

static void write_waits(FILE *file, const struct report_comm *comm, int *ranks)
{
    struct wait *waits = calloc(comm->count, sizeof *waits);
    const size_t count = waits != NULL ? find_waits(comm, waits) : 0;
    size_t groups = 0;
    for (size_t i = 0, end; i < count && groups < GROUPS_MAX; i = end, groups++) {
        char whom[RANK_TEXT_SIZE], waited[DURATION_TEXT_SIZE];
        uint64_t longest_ns = 0;
        bool is_stopped = false;
        for (end = i; end < count && waits[end].target == waits[i].target; end++) {
            if (waits[end].ns > longest_ns) longest_ns = waits[end].ns;
            is_stopped |= waits[end].is_stopped;
            ranks[end - i] = waits[end].rank;
        }
        describe_rank(comm->places[waits[i].target], whom);
        describe_duration(0, longest_ns, waited);
        fputs("<li>", file);
        print_ranks(file, ranks, end - i, "Rank");
        page_print(file, " waited there for %s, %s%s%s.", whom, end - i > 1 ? "up to " : "", waited,
                   is_stopped ? "; its process did not run" : "");
        fputs("</li>\n", file);
    }
    free(waits);
}

/* The texts by which ranks were told of the failure: each different text once. */
static void write_failures(FILE *file, const struct report_comm *comm, int *ranks)
{
    size_t groups = 0;
    for (size_t t = 0; t < comm->count && groups < GROUPS_MAX; t++) {
        const struct trace_failure *failure = &comm->traces[t].failure;
        bool is_new = failure->status[0] != '\0';
        size_t count = 0;
        for (size_t u = 0; is_new && u < comm->count; u++) {
            const struct trace_failure *other = &comm->traces[u].failure;
            if (strcmp(failure->status, other->status) != 0 ||
                strcmp(failure->message, other->message) != 0)
                continue;
            is_new = u >= t;
            ranks[count++] = comm->traces[u].own.rank;
        }
        if (!is_new) continue;
        groups++;
        fputs("<li>", file);
        print_ranks(file, ranks, count, "Rank");
        page_print(file, " reported %s: %s", failure->status, failure->message);
        if (failure->reporter >= 0) fprintf(file, " (found by rank %d)", failure->reporter);
        fputs(".</li>\n", file);
    }
}

static void write_missing(FILE *file, const struct report_comm *comm, int *ranks, const char *after)
{
    size_t count = 0;
    for (int rank = 0; rank < comm->size; rank++)
        if (comm->by_rank[rank] == NULL) ranks[count++] = rank;
    if (count == 0) return;
    fputs("<li>", file);
    print_ranks(file, ranks, count, "Rank");
    fprintf(file, " left no dump%s.</li>\n", after);
}

void report_write_evidence(FILE *file, const struct report_comm *comm)
{
    int *ranks = calloc((size_t)comm->size, sizeof *ranks);
    if (ranks == NULL) return;
    fputs("<ul class=\"evidence\">\n", file);
    write_failures(file, comm, ranks);
    write_missing(file, comm, ranks, "");
    write_positions(file, comm, ranks);
    write_waits(file, comm, ranks);
    fputs("</ul>\n", file);
    free(ranks);
}

/* ------------------------------------------------------------------------------------ not known */

static void write_ring(FILE *file, const struct report_comm *comm)
{
    uint64_t oldest = 0;
    for (size_t t = 0; t < comm->count; t++) {
        const struct trace_json *trace = &comm->traces[t];
        const uint64_t first = trace->operation_count > 0 ? trace->operations[0].number : 0;
        if (first > oldest) oldest = first;
    }
    if (oldest > 1)
        fprintf(file,
                "<li>Calls before #%" PRIu64 " are not in all dumps: a recorder keeps the last "
                "ones.</li>\n",
                oldest);
}

static void write_omission(FILE *file, size_t count, const char *one, const char *many)
{
    if (count == 1) fprintf(file, "<li>One call is not in the tables: %s.</li>\n", one);
    if (count > 1) fprintf(file, "<li>%zu calls are not in the tables: %s.</li>\n", count, many);
}

static void write_clocks(FILE *file, const struct trace_calls *calls)
{
    char *text = NULL;
    size_t size;
    FILE *lines = open_memstream(&text, &size);
    if (lines == NULL) return;
    print_clocks(calls, lines);
    if (fclose(lines) == 0 && size > 1) {
        text[size - 1] = '\0'; /* the end of its one line */
        fputs("<li>", file);
        page_print(file, "C%s.", text + 1);
        fputs("</li>\n", file);
    }
    free(text);
}

void report_write_unknown(FILE *file, const struct report_comm *comm)
{
    const struct trace_calls *calls = &comm->measured;
    int *ranks = calloc((size_t)comm->size, sizeof *ranks);
    if (ranks != NULL)
        write_missing(file, comm, ranks,
                      ": it is not in the tables, and what it did is known only as far as others "
                      "waited for it "
                      "or reported it");
    free(ranks);
    if (comm->surplus_count > 0)
        fprintf(file,
                "<li>%zu dump%s not counted: of a rank the newest counts, and all have to be of "
                "%d ranks.</li>\n",
                comm->surplus_count, comm->surplus_count == 1 ? " is" : "s are", comm->size);
    write_ring(file, comm);
    write_omission(file, calls->absent_count, "not all dumps have it", "not all dumps have them");
    write_omission(file, calls->unfinished_count, "not all ranks completed it",
                   "not all ranks completed them");
    write_omission(file, calls->different_count, "ranks made it differently",
                   "ranks made them differently");
    write_omission(file, calls->varying_count, "dumps do not have the counts of its blocks",
                   "dumps do not have the counts of their blocks");
    write_omission(file, calls->unclocked_count, "only clocks could compare it",
                   "only clocks could compare them");
    write_clocks(file, calls);
}

void report_write_unread(FILE *file, const struct report_job *job)
{
    const struct traces *traces = &job->traces;
    if (traces->unread_count + traces->left_out + job->left_out == 0) return;
    fputs("<section class=\"unread\">\n<h2>Not read</h2>\n<ul>\n", file);
    for (size_t i = 0; i < traces->unread_count && i < UNREAD_NAMED_MAX; i++) {
        fputs("<li>", file);
        page_print(file, "%s: %s", traces->unread[i].path, traces->unread[i].why);
        fputs("</li>\n", file);
    }
    if (traces->unread_count > UNREAD_NAMED_MAX)
        fprintf(file, "<li>%zu more files cannot be read.</li>\n",
                traces->unread_count - UNREAD_NAMED_MAX);
    if (traces->left_out > 0)
        fprintf(file,
                "<li>%zu more dumps: a report reads the first %d, or %d calls and messages.</li>\n",
                traces->left_out, REPORT_DUMPS_MAX, REPORT_ENTRIES_MAX);
    if (job->left_out > 0)
        fprintf(file, "<li>%zu more communicators: a report shows %d.</li>\n", job->left_out,
                REPORT_COMMUNICATORS_MAX);
    fputs("</ul>\n</section>\n", file);
}
