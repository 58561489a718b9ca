#include "verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text.h"

enum { WINDOW = TRACE_ENTRIES_MAX }; /* numbers that are compared: the newest numbers */

/* The traces of one communicator. */
struct group {
    const struct trace_json *traces;
    size_t count;
    int size;
    const struct trace_json **by_rank; /* NULL: it left none */
    const struct trace_json *failed;   /* the first that knows of a failure; or NULL */
    struct verdict *verdict;
};

/* -------------------------------------------------------------------------------- who and where */

static struct trace_place place_of(const struct group *group, int rank)
{
    if (group->by_rank[rank] != NULL) return group->by_rank[rank]->own;
    for (size_t t = 0; t < group->count; t++)
        for (int i = 0; i < group->traces[t].place_count; i++)
            if (group->traces[t].places[i].rank == rank) return group->traces[t].places[i];
    return (struct trace_place){.rank = rank, .host = "unknown"};
}

const char *verdict_words(enum verdict_kind kind)
{
    static const char *const words[] = {"",
                                        "is at the slow end of a link",
                                        "is late",
                                        "failed",
                                        "is stalled",
                                        "mismatched",
                                        "is desynchronised",
                                        "is dead or gone"};
    return words[kind];
}

/* sequence: of the call in which it shows; 0: in none. */
__attribute__((format(printf, 5, 6))) static void judge(const struct group *group,
                                                        enum verdict_kind kind, int culprit,
                                                        uint64_t sequence, const char *format, ...)
{
    char who[RANK_TEXT_SIZE] = "";
    struct verdict *verdict = group->verdict;
    va_list arguments;
    *verdict = (struct verdict){.kind = kind, .culprit = culprit, .sequence = sequence};
    va_start(arguments, format);
    vsnprintf(verdict->why, sizeof verdict->why, format, arguments);
    va_end(arguments);
    if (culprit < 0) {
        snprintf(verdict->text, sizeof verdict->text, "nobody can be named: %s", verdict->why);
        return;
    }
    verdict->place = place_of(group, culprit);
    describe_rank(&verdict->place, who);
    snprintf(verdict->text, sizeof verdict->text, "%s %s: %s", who, verdict_words(kind),
             verdict->why);
}

static bool failed_with(const struct group *group, const char *status)
{
    return group->failed != NULL && strcmp(group->failed->failure.status, status) == 0;
}

/* The culprit that the communicator itself names, or -1. */
static int named_culprit(const struct group *group)
{
    if (group->failed == NULL || group->failed->failure.culprit < 0) return -1;
    return group->failed->places[group->failed->failure.culprit].rank;
}

/* ---------------------------------------------------------------------------------------- calls */

/* Its first call that is not over, or failed; NULL: it is in none. */
static const struct trace_entry *open_entry(const struct trace_json *trace)
{
    for (size_t i = 0; i < trace->operation_count; i++)
        if (!trace_entry_is_done(&trace->operations[i])) return &trace->operations[i];
    return NULL;
}

/* The earliest call that somebody is in, and who is in it for longest; 0: there is none that
 * anybody has to wait in. */
static uint64_t stuck_call(const struct group *group, const struct trace_json **waiter)
{
    uint64_t number = 0, longest_ns = 0;
    *waiter = NULL;
    for (size_t t = 0; t < group->count; t++) {
        const struct trace_json *trace = &group->traces[t];
        const struct trace_entry *entry = open_entry(trace);
        if (entry == NULL || (number > 0 && entry->number > number)) continue;
        const uint64_t waits_ns =
            trace->monotonic_ns > entry->begin_ns ? trace->monotonic_ns - entry->begin_ns : 0;
        if (*waiter == NULL || entry->number < number || waits_ns > longest_ns) {
            *waiter = trace;
            longest_ns = waits_ns;
        }
        number = entry->number;
    }
    if (group->failed == NULL && longest_ns < VERDICT_PATIENCE_NS) return 0;
    return number;
}

/* ----------------------------------------------------------------------------------------- dead */

static bool find_dead(const struct group *group)
{
    const int culprit = named_culprit(group);
    if (!failed_with(group, "PROC_FAILED") || culprit < 0) return false;
    judge(group, VERDICT_DEAD, culprit, group->failed->failure.sequence, "%s%s",
          group->failed->failure.message,
          group->by_rank[culprit] == NULL ? "; it left no trace" : "");
    return true;
}

/* Somebody who waits for that rank in a call; NULL. */
static const struct trace_json *waits_for(const struct group *group, int rank)
{
    for (size_t t = 0; t < group->count; t++) {
        const struct trace_json *trace = &group->traces[t];
        const struct trace_entry *entry = open_entry(trace);
        if (entry != NULL && entry->waits_for >= 0 && trace->places[entry->waits_for].rank == rank)
            return trace;
    }
    return NULL;
}

/* A rank that left no trace, while others are stuck: one that is named, or any. */
static bool find_missing(const struct group *group, uint64_t stuck, bool is_named)
{
    if (stuck == 0) return false;
    for (int rank = 0; rank < group->size; rank++) {
        if (group->by_rank[rank] != NULL) continue;
        const struct trace_json *waiter = waits_for(group, rank);
        if (is_named && waiter == NULL && named_culprit(group) != rank) continue;
        char who[48] = "others wait";
        if (waiter != NULL) snprintf(who, sizeof who, "rank %d waits for it", waiter->own.rank);
        judge(group, VERDICT_DEAD, rank, stuck,
              "it left no trace, no other trace says whether its process runs, and %s in call "
              "#%" PRIu64,
              who, stuck);
        return true;
    }
    return false;
}

/* -------------------------------------------------------------------------------------- stalled */

/* Says of a rank that `waiter` waits for it in that entry, and noticed that it does not run. */
static void judge_stalled(const struct group *group, const struct trace_json *waiter,
                          const struct trace_entry *entry, uint64_t stuck)
{
    const int rank = waiter->places[entry->waits_for].rank;
    char what[ENTRY_TEXT_SIZE];
    describe_entry(entry, what);
    judge(group, VERDICT_STALLED, rank, stuck,
          "rank %d waits for it in %s, and found that its process does not run (stopped by a "
          "signal or a debugger, or without a processor)%s",
          waiter->own.rank, what, group->by_rank[rank] == NULL ? "; it left no trace" : "");
}

/* A rank that the others found stopped is the cause, even if it went on later and left a trace. */
static bool find_stalled(const struct group *group, uint64_t stuck)
{
    for (size_t t = 0; stuck > 0 && t < group->count; t++) {
        const struct trace_json *trace = &group->traces[t];
        const struct trace_entry *entry = open_entry(trace);
        if (entry == NULL || entry->waits_for < 0 || !entry->is_stopped) continue;
        judge_stalled(group, trace, entry, entry->number);
        return true;
    }
    return false;
}

/* -------------------------------------------------------------------------------- disagreements */

/* The first number that ranks called differently; 0. */
static enum tutti_status first_difference(const struct group *group, uint64_t *number)
{
    struct known {
        uint64_t number, signature;
    } *known = calloc(WINDOW, sizeof *known);
    if (known == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    uint64_t last = 0;
    *number = 0;
    for (size_t t = 0; t < group->count; t++) {
        const struct trace_json *trace = &group->traces[t];
        const uint64_t newest =
            trace->operation_count > 0 ? trace->operations[trace->operation_count - 1].number : 0;
        if (newest > last) last = newest;
    }
    for (size_t t = 0; t < group->count; t++)
        for (size_t i = 0; i < group->traces[t].operation_count; i++) {
            const struct trace_entry *entry = &group->traces[t].operations[i];
            struct known *place = &known[entry->number % WINDOW];
            if (!entry->has_signature || entry->number + WINDOW <= last) continue;
            if (place->number != entry->number)
                *place = (struct known){entry->number, entry->signature};
            else if (place->signature != entry->signature &&
                     (*number == 0 || entry->number < *number))
                *number = entry->number;
        }
    free(known);
    return TUTTI_OK;
}

static size_t count_of(const struct group *group, uint64_t number, uint64_t signature)
{
    size_t count = 0;
    for (size_t t = 0; t < group->count; t++) {
        const struct trace_entry *entry = trace_json_operation(&group->traces[t], number);
        count += entry != NULL && entry->has_signature && entry->signature == signature;
    }
    return count;
}

/* The rank whose call most others made; among equals the lowest. */
static int typical_rank(const struct group *group, uint64_t number)
{
    int typical = -1;
    size_t most = 0;
    uint64_t counted = 0;
    for (int rank = 0; rank < group->size; rank++) {
        const struct trace_entry *entry =
            group->by_rank[rank] != NULL ? trace_json_operation(group->by_rank[rank], number) : NULL;
        if (entry == NULL || !entry->has_signature) continue;
        if (typical >= 0 && entry->signature == counted) continue; /* as in the entry before */
        counted = entry->signature;
        const size_t count = count_of(group, number, counted);
        if (count > most) {
            most = count;
            typical = rank;
        }
    }
    return typical;
}

static bool differs(const struct group *group, int rank, uint64_t number, uint64_t signature)
{
    const struct trace_entry *entry = rank >= 0 && group->by_rank[rank] != NULL
                                          ? trace_json_operation(group->by_rank[rank], number)
                                          : NULL;
    return entry != NULL && entry->has_signature && entry->signature != signature;
}

/* A rank that called otherwise; or, where equally many did and the communicator blames it, the
 * typical one's like. */
static int odd_rank(const struct group *group, uint64_t number, int typical, int named)
{
    const uint64_t usual = trace_json_operation(group->by_rank[typical], number)->signature;
    int odd = 0;
    while (!differs(group, odd, number, usual)) odd++;
    const uint64_t other = trace_json_operation(group->by_rank[odd], number)->signature;
    const bool is_tie = count_of(group, number, usual) == count_of(group, number, other);
    return is_tie && named == typical ? named : odd;
}

static enum tutti_status find_disagreement(const struct group *group, bool *found)
{
    uint64_t number = 0;
    *found = false;
    TRY(first_difference(group, &number));
    if (number == 0) return TUTTI_OK;
    int typical = typical_rank(group, number), odd = named_culprit(group);
    if (!differs(group, odd, number,
                 trace_json_operation(group->by_rank[typical], number)->signature))
        odd = odd_rank(group, number, typical, odd);
    if (odd == typical) typical = odd_rank(group, number, typical, -1);
    const struct trace_entry *usual = trace_json_operation(group->by_rank[typical], number);
    const struct trace_entry *other = trace_json_operation(group->by_rank[odd], number);
    char theirs[ENTRY_TEXT_SIZE], ours[ENTRY_TEXT_SIZE];
    describe_entry(other, theirs);
    describe_entry(usual, ours);
    const bool is_other_call = strcmp(other->call, usual->call) != 0;
    char hidden[2 * TRACE_ALGORITHM_SIZE + 64] = "";
    if (strcmp(theirs, ours) == 0)
        snprintf(hidden, sizeof hidden, "; their algorithms (%s and %s) or options differ",
                 other->algorithm, usual->algorithm);
    judge(group, is_other_call ? VERDICT_DESYNCHRONISED : VERDICT_MISMATCHED, odd, number,
          "it called %s, where rank %d%s called %s%s", theirs, typical,
          count_of(group, number, usual->signature) > 1 ? " and others" : "", ours, hidden);
    *found = true;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------- late and slow */

/* Whether a rank is before a call and in none. */
static bool is_before(const struct trace_json *trace, uint64_t number)
{
    return trace != NULL && trace->calls < number && open_entry(trace) == NULL;
}

static bool find_late(const struct group *group, uint64_t stuck, const struct trace_json *waiter)
{
    int first = -1, others = 0;
    for (int rank = 0; stuck > 0 && rank < group->size; rank++) {
        if (!is_before(group->by_rank[rank], stuck)) continue;
        if (first < 0)
            first = rank;
        else
            others++;
    }
    if (first < 0) return false;
    const struct trace_json *late = group->by_rank[first];
    const struct trace_entry *last =
        late->operation_count > 0 ? &late->operations[late->operation_count - 1] : NULL;
    char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE], before[ENTRY_TEXT_SIZE] = "",
                                                           more[48] = "";
    describe_entry(open_entry(waiter), what);
    if (last != NULL) {
        describe_entry(last, before);
        describe_duration(last->end_ns, late->monotonic_ns, since);
    }
    if (others > 0) snprintf(more, sizeof more, "; so are %d other ranks", others);
    judge(group, VERDICT_LATE, first, stuck,
          "rank %d waits in %s, which it has not called; it is in no call%s%s%s%s%s",
          waiter->own.rank, what, last != NULL ? " for " : "", last != NULL ? since : "",
          last != NULL ? ", after " : " and was in none", before, more);
    return true;
}

/* A rank in a call, and since when it waits there. */
struct waiting {
    const struct trace_json *trace;
    const struct trace_entry *entry;
};

/* Whether a call waits, and since when. */
typedef bool waits_since(const struct trace_entry *entry, uint64_t *since_ns);

static bool waits_for_gate(const struct trace_entry *entry, uint64_t *since_ns)
{
    *since_ns = entry->begin_ns;
    return entry->is_gated;
}

static bool waits_for_rank(const struct trace_entry *entry, uint64_t *since_ns)
{
    *since_ns = entry->since_ns;
    return entry->waits_for >= 0;
}

/* The rank that has waited longest in the stuck call, the call as text, and how long; false: none
 * waits. */
static bool find_longest(const struct group *group, uint64_t stuck, waits_since *waits,
                         struct waiting *found, char what[ENTRY_TEXT_SIZE],
                         char since[DURATION_TEXT_SIZE])
{
    uint64_t longest_ns = 0;
    *found = (struct waiting){0};
    for (size_t t = 0; stuck > 0 && t < group->count; t++) {
        const struct trace_json *trace = &group->traces[t];
        const struct trace_entry *entry = open_entry(trace);
        uint64_t since_ns;
        if (entry == NULL || entry->number != stuck || !waits(entry, &since_ns)) continue;
        const uint64_t waits_ns =
            trace->monotonic_ns > since_ns ? trace->monotonic_ns - since_ns : 0;
        if (found->trace != NULL && waits_ns <= longest_ns) continue;
        *found = (struct waiting){trace, entry};
        longest_ns = waits_ns;
    }
    if (found->trace == NULL) return false;
    describe_entry(found->entry, what);
    describe_duration(0, longest_ns, since);
    return true;
}

/* Finds a rank that has made the call, and waits for its gate: its computation, on a device say, is
 * late. Of several such ranks it takes the rank that has waited longest. */
static bool find_gated(const struct group *group, uint64_t stuck)
{
    struct waiting found;
    char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE];
    if (!find_longest(group, stuck, waits_for_gate, &found, what, since)) return false;
    judge(group, VERDICT_LATE, found.trace->own.rank, stuck,
          "it has called %s, which waits for its gate there for %s", what, since);
    return true;
}

static bool find_slow(const struct group *group, uint64_t stuck)
{
    struct waiting found;
    char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE];
    if (!find_longest(group, stuck, waits_for_rank, &found, what, since)) return false;
    judge(group, VERDICT_SLOW_LINK, found.trace->places[found.entry->waits_for].rank, stuck,
          "everybody is in %s, and rank %d has waited longest, for it, for %s", what,
          found.trace->own.rank, since);
    return true;
}

/* Finds a rank that is blocked in a message in which another rank has no part yet. A message that
 * no rank waits for may be posted for long. */
static bool find_silent(const struct group *group)
{
    const struct trace_json *waiter = NULL;
    const struct trace_entry *its = NULL;
    uint64_t longest_ns = group->failed == NULL ? VERDICT_PATIENCE_NS : 0;
    for (size_t t = 0; t < group->count; t++)
        for (size_t i = 0; i < group->traces[t].message_count; i++) {
            const struct trace_json *trace = &group->traces[t];
            const struct trace_entry *entry = &trace->messages[i];
            if (trace_entry_is_done(entry) || entry->waits_for < 0) continue;
            if (trace->monotonic_ns < entry->since_ns + longest_ns) continue;
            longest_ns = trace->monotonic_ns - entry->since_ns;
            waiter = trace;
            its = entry;
        }
    if (waiter == NULL) return false;
    if (its->is_stopped) {
        judge_stalled(group, waiter, its, 0);
        return true;
    }
    char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE];
    describe_entry(its, what);
    describe_duration(0, longest_ns, since);
    const int rank = waiter->places[its->waits_for].rank;
    if (rank == waiter->own.rank)
        judge(group, VERDICT_LATE, rank, 0, "it waits in %s, for %s, for its own message", what,
              since);
    else
        judge(group, VERDICT_LATE, rank, 0, "rank %d waits in %s, for %s", waiter->own.rank, what,
              since);
    return true;
}

static bool find_failure(const struct group *group)
{
    if (group->failed == NULL) return false;
    judge(group, VERDICT_FAILED, named_culprit(group), group->failed->failure.sequence, "%s: %s",
          group->failed->failure.status, group->failed->failure.message);
    return true;
}

/* ---------------------------------------------------------------------------------------- order */

/* Whether a failure tells more than positions of ranks can: an abort makes others late, and so
 * on. */
static bool speaks_for_itself(const struct group *group)
{
    return group->failed != NULL && !failed_with(group, "TIMEOUT") &&
           !failed_with(group, "PROC_FAILED");
}

static enum tutti_status judge_group(const struct group *group)
{
    const struct trace_json *waiter;
    bool found = find_dead(group);
    if (!found) TRY(find_disagreement(group, &found));
    if (found || (speaks_for_itself(group) && find_failure(group))) return TUTTI_OK;
    const uint64_t stuck = stuck_call(group, &waiter);
    if (find_stalled(group, stuck) || find_missing(group, stuck, true) ||
        find_late(group, stuck, waiter) || find_missing(group, stuck, false) ||
        find_gated(group, stuck) || find_slow(group, stuck) || find_silent(group) ||
        find_failure(group))
        return TUTTI_OK;
    if (stuck > 0)
        judge(group, VERDICT_SLOW_LINK, -1, stuck,
              "everybody is in call #%" PRIu64 ", and nobody knows for whom it waits", stuck);
    return TUTTI_OK;
}

static void gather(struct group *group)
{
    for (size_t t = 0; t < group->count; t++) {
        const struct trace_json *const trace = &group->traces[t];
        group->by_rank[trace->own.rank] = trace;
        if (group->failed == NULL && trace->failure.status[0] != '\0') group->failed = trace;
    }
}

static enum tutti_status judge_communicator(const struct trace_json *traces, size_t count,
                                            struct verdict *verdict)
{
    struct group group = {.traces = traces, .count = count, .size = traces->size, .verdict = verdict};
    *verdict = (struct verdict){.kind = VERDICT_NOTHING, .culprit = -1};
    group.by_rank = calloc((size_t)group.size, sizeof *group.by_rank);
    if (group.by_rank == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    gather(&group);
    const enum tutti_status status = judge_group(&group);
    free(group.by_rank);
    return status;
}

static uint64_t first_dump_ns(const struct trace_json *traces, size_t count)
{
    uint64_t first = UINT64_MAX;
    for (size_t t = 0; t < count; t++)
        if (traces[t].wall_ns < first) first = traces[t].wall_ns;
    return first;
}

/* Somebody who waits, and for how long. */
struct wait {
    const struct trace_json *trace; /* NULL: nobody does */
    const struct trace_entry *entry;
    uint64_t ns;
};

static void note_wait(const struct trace_json *trace, const struct trace_entry *entry,
                      uint64_t since_ns, struct wait *longest)
{
    const uint64_t ns = trace->monotonic_ns > since_ns ? trace->monotonic_ns - since_ns : 0;
    if (longest->trace == NULL || ns > longest->ns) *longest = (struct wait){trace, entry, ns};
}

/* A rank in a call counts as one that waits, as in stuck_call. */
static void find_longest_wait(const struct trace_json *trace, struct wait *longest)
{
    const struct trace_entry *const open = open_entry(trace);
    if (open != NULL) note_wait(trace, open, open->begin_ns, longest);
    for (size_t i = 0; i < trace->message_count; i++) {
        const struct trace_entry *const entry = &trace->messages[i];
        if (!trace_entry_is_done(entry) && entry->waits_for >= 0)
            note_wait(trace, entry, entry->since_ns, longest);
    }
}

/* Says on what "nothing is wrong" rests: waits that are too short to be anybody's fault. */
static void describe_nothing(const struct wait *longest, struct verdict *verdict)
{
    char what[ENTRY_TEXT_SIZE], since[DURATION_TEXT_SIZE];
    if (longest->trace == NULL) {
        snprintf(verdict->text, sizeof verdict->text,
                 "nothing is wrong: nothing failed, and no rank waits");
        return;
    }
    describe_entry(longest->entry, what);
    describe_duration(0, longest->ns, since);
    snprintf(verdict->text, sizeof verdict->text,
             "nothing is wrong so far: nothing failed, and the longest wait, that of rank %d in "
             "%s, had lasted %s; waits count from %d s on",
             longest->trace->own.rank, what, since, (int)(VERDICT_PATIENCE_NS / 1000000000));
}

/* Behind the line: which dumps it does not rest on. */
static void describe_surplus(struct verdict *verdict)
{
    const size_t length = strlen(verdict->text), count = verdict->surplus_count;
    if (count == 0) return;
    snprintf(
        verdict->text + length, sizeof verdict->text - length,
        " (%zu dump%s not counted: of a rank the newest counts, and all of a communicator have "
        "to be of as many ranks)",
        count, count == 1 ? " is" : "s are");
}

enum tutti_status verdict_find(struct trace_json *traces, size_t count, struct verdict *verdict)
{
    uint64_t best_ns = UINT64_MAX;
    size_t surplus_count = 0;
    struct wait longest = {0};
    trace_json_sort(traces, count);
    *verdict = (struct verdict){.kind = VERDICT_NOTHING, .culprit = -1};
    for (size_t begin = 0, end; begin < count; begin = end) {
        struct verdict one;
        end = begin + trace_json_group(traces + begin, count - begin);
        const size_t kept = trace_json_keep_newest(traces + begin, end - begin);
        surplus_count += end - begin - kept;
        TRY(judge_communicator(traces + begin, kept, &one));
        for (size_t t = begin; t < begin + kept; t++) find_longest_wait(&traces[t], &longest);
        const uint64_t when_ns = first_dump_ns(traces + begin, kept);
        if (one.kind < verdict->kind || (one.kind == verdict->kind && when_ns >= best_ns)) continue;
        *verdict = one;
        best_ns = when_ns;
    }
    verdict->surplus_count = surplus_count;
    if (verdict->kind == VERDICT_NOTHING) describe_nothing(&longest, verdict);
    describe_surplus(verdict);
    return TUTTI_OK;
}
