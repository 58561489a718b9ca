#include "calls.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Clocks of processors and of hosts are read at slightly different moments: less than this
 * contradicts nothing. */
enum { CLOCK_SLACK_NS = 20000 };

/* One call of all ranks. */
struct call {
    size_t kind;
    const struct trace_entry **entries; /* of each dump */
    uint64_t measured_ns, others_ns, skew_ns, late_ns, whole_ns;
    uint64_t least_ns, most_ns; /* the times that ranks were in the call, each by its own clock */
    uint64_t waited_ns;         /* the rank that waited least waited so much less than any other */
    int late, least, last;
};

struct table {
    struct trace_calls *found;
    const struct trace_entry **entries;
    struct call *all;
    size_t count;
};

/* --------------------------------------------------------------------------------- side by side */

bool calls_are_alike(const struct trace_entry *one, const struct trace_entry *other)
{
    return strcmp(one->call, other->call) == 0 && one->count == other->count &&
           strcmp(one->dtype, other->dtype) == 0 && one->root == other->root &&
           one->started == other->started && strcmp(one->algorithm, other->algorithm) == 0;
}

/* "allgatherv": the counts of others are not in a dump. */
static bool is_varying(const struct trace_entry *entry)
{
    const size_t length = strlen(entry->call);
    char name[sizeof entry->call];
    if (length == 0 || entry->call[length - 1] != 'v') return false;
    memcpy(name, entry->call, length);
    name[length - 1] = '\0';
    return collective_from_name(name) != COLLECTIVE_COUNT;
}

enum fit { ABSENT, LEFT_OUT, FITS };

/* Whether the call counts; its entries are filled in. */
static enum fit gather(struct trace_calls *calls, uint64_t number,
                       const struct trace_entry **entries)
{
    bool is_done = true, is_same = true;
    for (size_t t = 0; t < calls->trace_count; t++) {
        const struct trace_entry *entry = entries[t] =
            trace_json_operation(&calls->traces[t], number);
        if (entry == NULL) return ABSENT;
        is_done = is_done && trace_entry_is_done(entry) && entry->end_ns >= entry->begin_ns;
        is_same = is_same && entry->signature == entries[0]->signature &&
                  (calls_are_alike(entry, entries[0]) || is_varying(entry));
    }
    const bool is_known = collective_from_name(entries[0]->call) != COLLECTIVE_COUNT;
    const bool varies = is_varying(entries[0]);
    calls->unfinished_count += !is_done;
    calls->varying_count += is_done && varies;
    calls->different_count += is_done && !varies && !(is_same && is_known);
    return is_done && is_same && is_known ? FITS : LEFT_OUT;
}

static void gather_all(struct table *table)
{
    struct trace_calls *calls = table->found;
    const struct trace_json *first = &calls->traces[0];
    size_t most = 0, common = 0;
    for (size_t t = 0; t < calls->trace_count; t++)
        if (calls->traces[t].operation_count > most) most = calls->traces[t].operation_count;
    for (size_t i = 0; i < first->operation_count; i++) {
        const struct trace_entry **entries = table->entries + table->count * calls->trace_count;
        const enum fit fit = gather(calls, first->operations[i].number, entries);
        if (fit == FITS) table->all[table->count++].entries = entries;
        common += fit != ABSENT;
    }
    calls->absent_count = most - common;
}

/* --------------------------------------------------------------------------------------- clocks */

/* No rank leaves such a call before all have come. */
static bool waits_for_all(const struct trace_entry *entry)
{
    switch (collective_from_name(entry->call)) {
    case COLLECTIVE_BARRIER: return true;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return entry->count > 0;
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_COUNT: break;
    }
    return false;
}

/* Times wrap, so that no number of a dump does harm. */
static uint64_t since(uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t ns = to_ns - from_ns;
    return ns > INT64_MAX ? 0 : ns;
}

struct span {
    uint64_t begin_ns, end_ns;
};

static struct span span_of(const struct table *table, const struct call *call, size_t t)
{
    const struct trace_entry *entry = call->entries[t];
    const uint64_t own_ns = entry->end_ns - entry->begin_ns, all_end_ns = INT64_MAX;
    if (table->found->clock == CALLS_NO_CLOCK)
        return (struct span){all_end_ns - own_ns, all_end_ns};
    return (struct span){entry->begin_ns + table->found->offsets_ns[t],
                         entry->end_ns + table->found->offsets_ns[t]};
}

/* The dump that has the clock of this one's host: the first of that host. */
static size_t clock_owner(const struct trace_calls *calls, size_t t)
{
    for (size_t i = 0; i < t; i++)
        if (strcmp(calls->traces[i].own.host, calls->traces[t].own.host) == 0) return i;
    return t;
}

static void find_offsets(struct table *table)
{
    struct trace_calls *calls = table->found;
    bool has_walls = true, is_one_host = true;
    for (size_t t = 0; t < calls->trace_count; t++) {
        const struct trace_json *owner = &calls->traces[clock_owner(calls, t)];
        is_one_host = is_one_host && owner == calls->traces;
        has_walls = has_walls && owner->wall_ns > 0;
        calls->offsets_ns[t] = owner->wall_ns - owner->monotonic_ns;
    }
    calls->clock = is_one_host ? CALLS_ONE_CLOCK : has_walls ? CALLS_WALL_CLOCKS : CALLS_NO_CLOCK;
    for (size_t t = 0; t < calls->trace_count && (is_one_host || !has_walls); t++)
        calls->offsets_ns[t] =
            is_one_host ? 0 : 0 - calls->traces[clock_owner(calls, t)].monotonic_ns;
}

/* Somebody left before somebody else came. */
static void doubt_clocks(struct table *table)
{
    struct trace_calls *calls = table->found;
    for (size_t c = 0; c < table->count && calls->clock != CALLS_NO_CLOCK; c++) {
        const struct call *call = &table->all[c];
        if (!waits_for_all(call->entries[0])) continue;
        size_t left = 0, came = 0;
        for (size_t t = 1; t < calls->trace_count; t++) {
            const struct span span = span_of(table, call, t);
            if (since(span.end_ns, span_of(table, call, left).end_ns) > 0) left = t;
            if (since(span_of(table, call, came).begin_ns, span.begin_ns) > 0) came = t;
        }
        const uint64_t error_ns =
            since(span_of(table, call, left).end_ns, span_of(table, call, came).begin_ns);
        if (error_ns <= CLOCK_SLACK_NS || error_ns <= calls->clock_error_ns) continue;
        calls->clock_error_ns = error_ns;
        calls->clock_ranks[0] = (int)left;
        calls->clock_ranks[1] = (int)came;
    }
    if (calls->clock_error_ns > 0) calls->clock = CALLS_NO_CLOCK;
}

/* ------------------------------------------------------------------------------------ measuring */

/* Whether the time that ranks were in the call has to say the same as the clocks. */
static bool needs_proof(const struct trace_calls *calls, const struct call *call)
{
    return calls->clock == CALLS_WALL_CLOCKS && waits_for_all(call->entries[0]);
}

static void measure(const struct table *table, struct call *call)
{
    const size_t count = table->found->trace_count;
    struct span spans[2] = {{0}}; /* of the last rank to begin, and of the last rank to end */
    uint64_t first_ns = 0, before_ns = 0, others_end_ns = 0;
    uint64_t least_ns = UINT64_MAX, less_ns = UINT64_MAX, most_ns = 0;
    for (size_t t = 0; t < count; t++) {
        const struct span span = span_of(table, call, t);
        const uint64_t own_ns = span.end_ns - span.begin_ns;
        if (t == 0 || since(span.begin_ns, first_ns) > 0) first_ns = span.begin_ns;
        if (t == 0 || since(spans[0].begin_ns, span.begin_ns) > 0) {
            before_ns = t == 0 ? span.begin_ns : spans[0].begin_ns;
            spans[0] = span;
            call->late = (int)t;
        } else if (t == 1 || since(before_ns, span.begin_ns) > 0) {
            before_ns = span.begin_ns;
        }
        if (t == 0 || since(spans[1].end_ns, span.end_ns) > 0) {
            others_end_ns = t == 0 ? span.end_ns : spans[1].end_ns;
            spans[1] = span;
            call->last = (int)t;
        } else if (t == 1 || since(others_end_ns, span.end_ns) > 0) {
            others_end_ns = span.end_ns;
        }
        if (own_ns > most_ns) most_ns = own_ns;
        if (own_ns < least_ns) {
            less_ns = least_ns;
            least_ns = own_ns;
            call->least = (int)t;
        } else if (own_ns < less_ns) {
            less_ns = own_ns;
        }
    }
    const uint64_t last_begin_ns = spans[0].begin_ns;
    call->skew_ns = since(first_ns, last_begin_ns);
    call->late_ns = count > 1 ? since(before_ns, last_begin_ns) : 0;
    call->measured_ns = since(last_begin_ns, spans[1].end_ns);
    call->others_ns = since(last_begin_ns, others_end_ns);
    call->whole_ns = since(first_ns, spans[1].end_ns);
    call->least_ns = least_ns;
    call->most_ns = most_ns;
    call->waited_ns = count > 1 ? less_ns - least_ns : 0;
    if (!needs_proof(table->found, call)) return;
    const uint64_t proven_ns = call->least == call->late ? call->waited_ns : 0;
    if (call->late_ns > proven_ns) call->late_ns = proven_ns;
}

/* Measures the calls that the clocks allow to measure. */
static void measure_all(struct table *table)
{
    struct trace_calls *calls = table->found;
    size_t kept = 0;
    for (size_t c = 0; c < table->count; c++) {
        struct call call = table->all[c];
        if (calls->clock == CALLS_NO_CLOCK && !waits_for_all(call.entries[0])) {
            calls->unclocked_count++;
            continue;
        }
        measure(table, &call);
        table->all[kept++] = call;
    }
    table->count = calls->count = kept;
}

/* ---------------------------------------------------------------------------------------- kinds */

static int by_size(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* The middle one, of an even number the lower one; 0 of none. */
static uint64_t median(uint64_t *values, size_t count)
{
    if (count == 0) return 0;
    qsort(values, count, sizeof *values, by_size);
    return values[(count - 1) / 2];
}

static enum tutti_status find_kinds(struct table *table)
{
    struct trace_calls *calls = table->found;
    calls->kinds = calloc(table->count + 1, sizeof *calls->kinds);
    if (calls->kinds == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    for (size_t c = 0; c < table->count; c++) {
        const struct trace_entry *entry = table->all[c].entries[0];
        size_t k = 0;
        while (k < calls->kind_count && !calls_are_alike(calls->kinds[k].first, entry)) k++;
        table->all[c].kind = k;
        if (k < calls->kind_count) continue;
        calls->kinds[calls->kind_count++] =
            (struct call_kind){.first = entry,
                               .collective = collective_from_name(entry->call),
                               .waits_for_all = waits_for_all(entry),
                               .late = -1,
                               .last = -1};
    }
    return TUTTI_OK;
}

/* Room for one number of each call, and of each rank. */
struct room {
    uint64_t *values;
    size_t *late, *last;
};

static int most_often(const size_t *counts, size_t count, size_t *times)
{
    size_t most = 0;
    for (size_t t = 1; t < count; t++)
        if (counts[t] > counts[most]) most = t;
    *times = counts[most];
    return counts[most] > 0 ? (int)most : -1;
}

/* Whether a rank was late, or last, by what the recorder can tell. */
static bool tells(uint64_t ns)
{
    return ns >= CALLS_TIMED_NS;
}

static void tell_late(const struct table *table, size_t k, struct room *room)
{
    struct call_kind *kind = &table->found->kinds[k];
    size_t count = 0;
    if (kind->late < 0) return;
    for (size_t c = 0; c < table->count; c++) {
        const struct call *call = &table->all[c];
        if (call->kind != k || call->late != kind->late || !tells(call->late_ns)) continue;
        room->values[count++] = call->late_ns;
    }
    kind->late_ns = median(room->values, count);
}

static void tell_last(const struct table *table, size_t k, struct room *room)
{
    struct call_kind *kind = &table->found->kinds[k];
    size_t count = 0;
    if (kind->last < 0) return;
    for (size_t c = 0; c < table->count; c++) {
        const struct call *call = &table->all[c];
        if (call->kind == k && call->last == kind->last) room->values[count++] = call->others_ns;
    }
    kind->last_others_ns = median(room->values, count);
}

/* The median of a member of struct call, over all calls of a kind. */
static uint64_t median_of(const struct table *table, size_t k, size_t offset, struct room *room)
{
    size_t count = 0;
    for (size_t c = 0; c < table->count; c++)
        if (table->all[c].kind == k)
            memcpy(&room->values[count++], (const char *)&table->all[c] + offset, sizeof(uint64_t));
    return median(room->values, count);
}

static void sum_up(const struct table *table, size_t k, struct room *room)
{
    struct trace_calls *calls = table->found;
    struct call_kind *kind = &calls->kinds[k];
    memset(room->late, 0, calls->trace_count * sizeof *room->late);
    memset(room->last, 0, calls->trace_count * sizeof *room->last);
    for (size_t c = 0; c < table->count; c++) {
        const struct call *call = &table->all[c];
        if (call->kind != k) continue;
        kind->count++;
        if (tells(call->late_ns)) {
            room->late[call->late]++;
            calls->ranks[call->late].late_ns += call->late_ns;
        }
        room->last[call->last] +=
            calls->clock != CALLS_NO_CLOCK && tells(call->measured_ns - call->others_ns);
    }
    kind->measured_ns = median_of(table, k, offsetof(struct call, measured_ns), room);
    kind->is_timed = tells(kind->measured_ns);
    kind->skew_ns = median_of(table, k, offsetof(struct call, skew_ns), room);
    kind->least_ns = median_of(table, k, offsetof(struct call, least_ns), room);
    kind->late = most_often(room->late, calls->trace_count, &kind->late_count);
    kind->last = most_often(room->last, calls->trace_count, &kind->last_count);
    tell_late(table, k, room);
    tell_last(table, k, room);
    for (size_t t = 0; t < calls->trace_count; t++) {
        calls->ranks[t].late_count += room->late[t];
        calls->ranks[t].last_count += room->last[t];
    }
}

static uint64_t late_permille(const struct table *table, const struct call *call, size_t t)
{
    const uint64_t begin_ns = span_of(table, call, t).begin_ns,
                   before_last_ns =
                       since(begin_ns, span_of(table, call, (size_t)call->late).begin_ns),
                   own_ns = call->entries[t]->end_ns - call->entries[t]->begin_ns;
    if (call->whole_ns == 0 || before_last_ns > call->skew_ns) return 0;
    uint64_t late_ns = call->skew_ns - before_last_ns;
    if (needs_proof(table->found, call) && late_ns > call->most_ns - own_ns)
        late_ns = call->most_ns - own_ns;
    return (uint64_t)((unsigned __int128)late_ns * 1000 / call->whole_ns);
}

static enum tutti_status sum_up_all(struct table *table)
{
    struct trace_calls *calls = table->found;
    const size_t ranks = calls->trace_count;
    struct room room = {.values = calloc(table->count + 1, sizeof *room.values),
                        .late = calloc(ranks, sizeof *room.late),
                        .last = calloc(ranks, sizeof *room.last)};
    calls->ranks = calloc(ranks, sizeof *calls->ranks);
    const bool has_room =
        room.values != NULL && room.late != NULL && room.last != NULL && calls->ranks != NULL;
    for (size_t k = 0; has_room && k < calls->kind_count; k++) sum_up(table, k, &room);
    for (size_t t = 0; has_room && t < ranks; t++) {
        for (size_t c = 0; c < table->count; c++)
            room.values[c] = late_permille(table, &table->all[c], t);
        calls->ranks[t].late_permille = (int)median(room.values, table->count);
    }
    free(room.values);
    free(room.late);
    free(room.last);
    return has_room ? TUTTI_OK : error_set(TUTTI_NO_MEMORY, "out of memory");
}

/* ------------------------------------------------------------------------------------------ all */

static enum tutti_status list_each(const struct table *table)
{
    struct trace_calls *calls = table->found;
    calls->each = calloc(table->count + 1, sizeof *calls->each);
    if (calls->each == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    for (size_t c = 0; c < table->count; c++) {
        const struct call *call = &table->all[c];
        calls->each[c] = (struct call_times){.number = call->entries[0]->number,
                                             .measured_ns = call->measured_ns,
                                             .skew_ns = call->skew_ns,
                                             .late_ns = call->late_ns,
                                             .late = call->late};
    }
    return TUTTI_OK;
}

static enum tutti_status find_all(struct table *table)
{
    if (table->entries == NULL || table->all == NULL || table->found->offsets_ns == NULL)
        return error_set(TUTTI_NO_MEMORY, "out of memory");
    gather_all(table);
    find_offsets(table);
    doubt_clocks(table);
    measure_all(table);
    TRY(find_kinds(table));
    TRY(list_each(table));
    return sum_up_all(table);
}

enum tutti_status calls_find(const struct trace_json *traces, size_t count,
                             struct trace_calls *calls)
{
    *calls = (struct trace_calls){.traces = traces,
                                  .trace_count = count,
                                  .offsets_ns = calloc(count, sizeof *calls->offsets_ns)};
    const size_t most = traces[0].operation_count;
    struct table table = {.found = calls,
                          .entries = calloc((most + 1) * count + 1, sizeof *table.entries),
                          .all = calloc(most + 1, sizeof *table.all)};
    const enum tutti_status status = find_all(&table);
    free(table.entries);
    free(table.all);
    if (status != TUTTI_OK) calls_release(calls);
    return status;
}

void calls_release(struct trace_calls *calls)
{
    free(calls->offsets_ns);
    free(calls->each);
    free(calls->kinds);
    free(calls->ranks);
    *calls = (struct trace_calls){.trace_count = 0};
}
