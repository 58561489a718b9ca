/* trace_json.c - jansson reads, this file says what it means. */
#include "studio/trace/trace_json.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/status.h"

enum { VERSION = 1 };
static const json_int_t NS_MAX = INT64_MAX;

/* An object, and where it stands: "operations[3]"; "" for the whole. */
struct part {
    json_t *object;
    char where[64];
};

__attribute__((format(printf, 3, 4))) static enum tutti_status
fail(const struct part *part, const char *key, const char *format, ...)
{
    char why[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return error_set(TUTTI_INVALID_OPTIONS, "%s%s\"%s\": %s", part->where,
                     part->where[0] != '\0' ? ": " : "", key, why);
}

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a trace: out of memory");
}

/* *to stays what it is where there is no such member and none is needed. */
static enum tutti_status read_integer(const struct part *part, const char *key, bool is_needed,
                                      json_int_t min, json_int_t max, json_int_t *to)
{
    json_t *value = json_object_get(part->object, key);
    if (value == NULL && !is_needed) return TUTTI_OK;
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < min || number > max)
        return fail(part, key,
                    "a whole number from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
                    " is expected",
                    min, max);
    *to = number;
    return TUTTI_OK;
}

static enum tutti_status read_number(const struct part *part, const char *key, bool is_needed,
                                     uint64_t *to)
{
    json_int_t value = (json_int_t)*to;
    TRY(read_integer(part, key, is_needed, 0, NS_MAX, &value));
    *to = (uint64_t)value;
    return TUTTI_OK;
}

static enum tutti_status read_int(const struct part *part, const char *key, bool is_needed, int min,
                                  int max, int *to)
{
    json_int_t value = *to;
    TRY(read_integer(part, key, is_needed, min, max, &value));
    *to = (int)value;
    return TUTTI_OK;
}

static enum tutti_status read_text(const struct part *part, const char *key, bool is_needed,
                                   char *to, size_t size)
{
    json_t *value = json_object_get(part->object, key);
    if (value == NULL && !is_needed) return TUTTI_OK;
    if (!json_is_string(value) || json_string_length(value) >= size ||
        strlen(json_string_value(value)) != json_string_length(value))
        return fail(part, key, "a text of at most %zu bytes is expected", size - 1);
    memcpy(to, json_string_value(value), json_string_length(value) + 1);
    printable_make(to); /* somebody will print it */
    return TUTTI_OK;
}

static enum tutti_status read_signature(const struct part *part, struct trace_entry *entry)
{
    json_t *value = json_object_get(part->object, "signature");
    if (value == NULL) return TUTTI_OK;
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    const bool is_hex = strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
    if (!is_hex) return fail(part, "signature", "16 hexadecimal digits are expected");
    entry->signature = strtoull(text, NULL, 16);
    entry->has_signature = true;
    return TUTTI_OK;
}

/* A member that names a rank: an index into the places, where each rank stands once. */
static enum tutti_status read_place(const struct part *part, const char *key,
                                    struct trace_json *trace, struct part *inner, int *index)
{
    *inner = (struct part){.object = json_object_get(part->object, key)};
    snprintf(inner->where, sizeof inner->where, "%.40s %.20s", part->where, key);
    if (inner->object == NULL) return TUTTI_OK;
    if (!json_is_object(inner->object)) return fail(part, key, "an object is expected");
    struct trace_place place = {.pid = 0};
    TRY(read_int(inner, "rank", true, 0, trace->size - 1, &place.rank));
    TRY(read_int(inner, "pid", false, 0, INT32_MAX, &place.pid));
    TRY(read_text(inner, "host", true, place.host, sizeof place.host));
    for (int i = 0; i < trace->place_count; i++)
        if (trace->places[i].rank == place.rank) {
            *index = i;
            return TUTTI_OK;
        }
    struct trace_place *grown =
        realloc(trace->places, ((size_t)trace->place_count + 1) * sizeof *grown);
    if (grown == NULL) return no_memory();
    trace->places = grown;
    trace->places[trace->place_count] = place;
    *index = trace->place_count++;
    return TUTTI_OK;
}

static enum tutti_status read_entry(const struct part *part, struct trace_json *trace,
                                    bool is_message, struct trace_entry *entry)
{
    struct part waits;
    *entry = (struct trace_entry){.root = -1, .peer = -1, .tag = -1, .waits_for = -1};
    if (!json_is_object(part->object)) return fail(part, "", "an object is expected");
    TRY(read_number(part, is_message ? "number" : "sequence", true, &entry->number));
    TRY(read_text(part, "call", true, entry->call, sizeof entry->call));
    TRY(read_text(part, "dtype", false, entry->dtype, sizeof entry->dtype));
    TRY(read_text(part, "op", false, entry->op, sizeof entry->op));
    TRY(read_text(part, "algorithm", false, entry->algorithm, sizeof entry->algorithm));
    TRY(read_text(part, "ways", false, entry->paths, sizeof entry->paths));
    TRY(read_text(part, "state", true, entry->state, sizeof entry->state));
    TRY(read_number(part, "count", false, &entry->count));
    TRY(read_int(part, "root", false, 0, trace->size - 1, &entry->root));
    TRY(read_int(part, "peer", false, -1, trace->size - 1, &entry->peer));
    TRY(read_int(part, "tag", false, INT32_MIN, INT32_MAX, &entry->tag));
    TRY(read_number(part, "begin_ns", true, &entry->begin_ns));
    TRY(read_number(part, "end_ns", false, &entry->end_ns));
    TRY(read_number(part, "expected_ns", false, &entry->expected_ns));
    TRY(read_signature(part, entry));
    entry->started = json_is_true(json_object_get(part->object, "started"));
    entry->is_gated = json_is_true(json_object_get(part->object, "waits_for_gate"));
    TRY(read_place(part, "waits_for", trace, &waits, &entry->waits_for));
    if (entry->waits_for < 0) return TUTTI_OK;
    if (!is_message && trace->places[entry->waits_for].rank == trace->own.rank)
        return fail(&waits, "rank",
                    "another rank than the dump's own, %d, is expected: no rank "
                    "waits for itself in a collective",
                    trace->own.rank);
    entry->is_stopped = json_is_true(json_object_get(waits.object, "stopped"));
    return read_number(&waits, "since_ns", true, &entry->since_ns);
}

static enum tutti_status read_entries(const struct part *whole, const char *key,
                                      struct trace_json *trace, bool is_message,
                                      struct trace_entry **entries, size_t *count)
{
    json_t *array = json_object_get(whole->object, key);
    if (!json_is_array(array) || json_array_size(array) > TRACE_ENTRIES_MAX)
        return fail(whole, key, "an array of at most %d objects is expected", TRACE_ENTRIES_MAX);
    const size_t all = json_array_size(array);
    *entries = calloc(all + 1, sizeof **entries);
    if (*entries == NULL) return no_memory();
    for (size_t i = 0; i < all; i++) {
        struct part part = {.object = json_array_get(array, i)};
        snprintf(part.where, sizeof part.where, "%s[%zu]", key, i);
        TRY(read_entry(&part, trace, is_message, &(*entries)[i]));
        if (i > 0 && (*entries)[i].number <= (*entries)[i - 1].number)
            return fail(&part, is_message ? "number" : "sequence",
                        "more than that of the one before is expected");
    }
    *count = all;
    return TUTTI_OK;
}

static enum tutti_status read_rival(const struct part *part, struct trace_rival *rival)
{
    if (!json_is_object(part->object)) return fail(part, "", "an object is expected");
    TRY(read_text(part, "call", false, rival->call, sizeof rival->call));
    TRY(read_text(part, "algorithm", true, rival->algorithm, sizeof rival->algorithm));
    TRY(read_text(part, "reason", false, rival->reason, sizeof rival->reason));
    TRY(read_number(part, "expected_ns", false, &rival->expected_ns));
    rival->only_hosts = json_is_true(json_object_get(part->object, "only_hosts"));
    return TUTTI_OK;
}

/* An array that need not be there. */
static enum tutti_status find_array(const struct part *part, const char *key, size_t count_max,
                                    json_t **array, size_t *count)
{
    *array = json_object_get(part->object, key);
    *count = *array != NULL ? json_array_size(*array) : 0;
    if ((*array != NULL && !json_is_array(*array)) || *count > count_max)
        return fail(part, key, "an array of at most %zu objects is expected", count_max);
    return TUTTI_OK;
}

static enum tutti_status read_rivals(const struct part *part, const char *key,
                                     struct trace_rival **rivals, size_t *count)
{
    json_t *array;
    size_t all;
    TRY(find_array(part, key, TRACE_UNUSED_MAX, &array, &all));
    if (all == 0) return TUTTI_OK;
    *rivals = calloc(all, sizeof **rivals);
    if (*rivals == NULL) return no_memory();
    *count = all;
    for (size_t i = 0; i < all; i++) {
        struct part inner = {.object = json_array_get(array, i)};
        snprintf(inner.where, sizeof inner.where, "%.16s %.16s[%zu]", part->where, key, i);
        TRY(read_rival(&inner, &(*rivals)[i]));
    }
    return TUTTI_OK;
}

static enum tutti_status read_choice(const struct part *part, struct trace_choice *choice)
{
    if (!json_is_object(part->object)) return fail(part, "", "an object is expected");
    TRY(read_text(part, "call", true, choice->call, sizeof choice->call));
    TRY(read_text(part, "dtype", false, choice->dtype, sizeof choice->dtype));
    TRY(read_text(part, "algorithm", true, choice->algorithm, sizeof choice->algorithm));
    TRY(read_text(part, "reason", true, choice->reason, sizeof choice->reason));
    choice->has_count = json_object_get(part->object, "count") != NULL;
    TRY(read_number(part, "count", false, &choice->count));
    TRY(read_number(part, "bytes", false, &choice->bytes));
    TRY(read_int(part, "radix", false, 0, INT32_MAX, &choice->radix));
    TRY(read_number(part, "expected_ns", false, &choice->expected_ns));
    TRY(read_number(part, "median_ns", false, &choice->median_ns));
    TRY(read_number(part, "calls", false, &choice->calls));
    choice->bytes_are_assumed = json_is_true(json_object_get(part->object, "bytes_are_assumed"));
    choice->is_mapped = json_is_true(json_object_get(part->object, "mapped"));
    choice->only_hosts = json_is_true(json_object_get(part->object, "only_hosts"));
    struct part next = {.object = json_object_get(part->object, "next")};
    snprintf(next.where, sizeof next.where, "%.24s next", part->where);
    if (next.object != NULL) TRY(read_rival(&next, &choice->next));
    TRY(read_number(part, "unused_left_out", false, &choice->unused_left_out));
    return read_rivals(part, "unused", &choice->unused, &choice->unused_count);
}

/* Dumps of versions that did not keep them have none. */
static enum tutti_status read_choices(const struct part *whole, struct trace_json *trace)
{
    json_t *array;
    size_t all;
    TRY(find_array(whole, "choices", TRACE_CHOICES_MAX, &array, &all));
    if (all == 0) return TUTTI_OK;
    trace->choices = calloc(all, sizeof *trace->choices);
    if (trace->choices == NULL) return no_memory();
    trace->choice_count = all;
    for (size_t i = 0; i < all; i++) {
        struct part part = {.object = json_array_get(array, i)};
        snprintf(part.where, sizeof part.where, "choices[%zu]", i);
        TRY(read_choice(&part, &trace->choices[i]));
    }
    return TUTTI_OK;
}

static enum tutti_status read_failure(const struct part *whole, struct trace_json *trace)
{
    struct trace_failure *failure = &trace->failure;
    struct part part = {json_object_get(whole->object, "failure"), "failure"}, culprit;
    failure->culprit = failure->reporter = -1;
    if (part.object == NULL) return TUTTI_OK;
    if (!json_is_object(part.object)) return fail(whole, "failure", "an object is expected");
    TRY(read_text(&part, "status", true, failure->status, sizeof failure->status));
    if (failure->status[0] == '\0') return fail(&part, "status", "a status is expected");
    TRY(read_text(&part, "message", true, failure->message, sizeof failure->message));
    TRY(read_int(&part, "reporter", false, -1, trace->size - 1, &failure->reporter));
    TRY(read_number(&part, "sequence", false, &failure->sequence));
    return read_place(&part, "culprit", trace, &culprit, &failure->culprit);
}

static enum tutti_status read_measured(const struct part *whole, struct between *measured)
{
    const struct part part = {json_object_get(whole->object, "measured"), "measured"};
    if (part.object == NULL) return TUTTI_OK;
    if (!json_is_object(part.object)) return fail(whole, "measured", "an object is expected");
    for (int i = 0; i < BETWEEN_NUMBERS; i++) {
        const struct calibration_info *info =
            calibration_info(between_parameter((enum between_number)i));
        const json_int_t most = info->most < (uint64_t)NS_MAX ? (json_int_t)info->most : NS_MAX;
        json_int_t value = -1;
        TRY(read_integer(&part, info->name, false, (json_int_t)info->least, most, &value));
        if (value >= 0)
            measured->numbers[i] =
                (struct calibration_number){(uint64_t)value, 0, CALIBRATION_MEASURED};
    }
    return TUTTI_OK;
}

static enum tutti_status read_all(json_t *root, struct trace_json *trace)
{
    const struct part whole = {.object = root};
    json_int_t version = 0;
    if (!json_is_object(root)) return fail(&whole, "", "an object is expected");
    TRY(read_integer(&whole, "tutti_trace", true, VERSION, VERSION, &version));
    TRY(read_text(&whole, "communicator", true, trace->communicator, sizeof trace->communicator));
    TRY(read_int(&whole, "size", true, 1, TRACE_RANKS_MAX, &trace->size));
    TRY(read_int(&whole, "rank", true, 0, trace->size - 1, &trace->own.rank));
    TRY(read_text(&whole, "host", true, trace->own.host, sizeof trace->own.host));
    TRY(read_int(&whole, "pid", true, 0, INT32_MAX, &trace->own.pid));
    TRY(read_int(&whole, "cores", false, 1, TRACE_CORES_MAX, &trace->core_count));
    trace->rack = trace->cores_of = -1;
    TRY(read_int(&whole, "rack", false, 0, TRACE_RANKS_MAX, &trace->rack));
    TRY(read_int(&whole, "same_cores_as", false, 0, trace->size - 1, &trace->cores_of));
    TRY(read_measured(&whole, &trace->measured));
    TRY(read_text(&whole, "reason", false, trace->reason, sizeof trace->reason));
    TRY(read_number(&whole, "wall_ns", false, &trace->wall_ns));
    TRY(read_number(&whole, "monotonic_ns", true, &trace->monotonic_ns));
    TRY(read_number(&whole, "calls", true, &trace->calls));
    TRY(read_number(&whole, "messages_begun", false, &trace->messages_begun));
    TRY(read_failure(&whole, trace));
    TRY(read_choices(&whole, trace));
    TRY(read_rivals(&whole, "unused_plans", &trace->unused_plans, &trace->unused_plan_count));
    TRY(read_number(&whole, "unused_plans_left_out", false, &trace->unused_plans_left_out));
    TRY(read_entries(&whole, "operations", trace, false, &trace->operations,
                     &trace->operation_count));
    return read_entries(&whole, "messages", trace, true, &trace->messages, &trace->message_count);
}

enum tutti_status trace_json_load(const char *text, size_t text_bytes, struct trace_json *trace)
{
    json_error_t error;
    *trace = (struct trace_json){.size = 0};
    if (text_bytes > TRACE_JSON_BYTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "more than %d bytes", TRACE_JSON_BYTES_MAX);
    json_t *root = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "line %d: %s", error.line, error.text);
    const enum tutti_status status = read_all(root, trace);
    json_decref(root);
    if (status != TUTTI_OK) trace_json_release(trace);
    return status;
}

void trace_json_release(struct trace_json *trace)
{
    for (size_t i = 0; i < trace->choice_count; i++) free(trace->choices[i].unused);
    free(trace->choices);
    free(trace->unused_plans);
    free(trace->places);
    free(trace->operations);
    free(trace->messages);
    *trace = (struct trace_json){.size = 0};
}

static int by_communicator_and_rank(const void *a, const void *b)
{
    const struct trace_json *left = a, *right = b;
    const int order = strcmp(left->communicator, right->communicator);
    if (order != 0) return order;
    if (left->own.rank != right->own.rank) return left->own.rank < right->own.rank ? -1 : 1;
    if (left->wall_ns != right->wall_ns) return left->wall_ns > right->wall_ns ? -1 : 1;
    return left->monotonic_ns > right->monotonic_ns ? -1 : left->monotonic_ns < right->monotonic_ns;
}

void trace_json_sort(struct trace_json *all, size_t count)
{
    if (count > 0) qsort(all, count, sizeof *all, by_communicator_and_rank);
}

size_t trace_json_group(const struct trace_json *all, size_t count)
{
    size_t end = 0;
    while (end < count && strcmp(all[end].communicator, all[0].communicator) == 0) end++;
    return end;
}

size_t trace_json_keep_newest(struct trace_json *all, size_t count)
{
    size_t kept = 1;
    for (size_t t = 1; t < count; t++) {
        if (all[t].size != all[0].size || all[t].own.rank == all[kept - 1].own.rank) continue;
        const struct trace_json counts = all[t];
        all[t] = all[kept];
        all[kept++] = counts;
    }
    return kept;
}

const struct trace_entry *trace_json_operation(const struct trace_json *trace, uint64_t number)
{
    size_t low = 0, high = trace->operation_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (trace->operations[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    const bool is_there = low < trace->operation_count && trace->operations[low].number == number;
    return is_there ? &trace->operations[low] : NULL;
}

bool trace_entry_is_message(const struct trace_entry *entry)
{
    return strcmp(entry->call, "send") == 0 || strcmp(entry->call, "recv") == 0;
}

bool trace_entry_is_done(const struct trace_entry *entry)
{
    return strcmp(entry->state, "done") == 0;
}

bool trace_entry_is_over(const struct trace_entry *entry)
{
    return strcmp(entry->state, "running") != 0;
}
