#include "health/trace_choices.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "health/json_write.h"

/* The recorder times short calls once: they take so long at most. */
enum { SHORT_CALL_NS = 2000 };

/* A call of the recorder that fits a choice. */
struct call_of_choice {
    uint64_t choice;  /* its number */
    uint64_t took_ns; /* 0: not known */
};

struct calls_of_choices {
    struct call_of_choice *all; /* by choice, and by what they took; NULL: none are known */
    size_t count;
};

/* Readers have nanoseconds; what was predicted is never nothing. */
static uint64_t nanoseconds(uint64_t ps)
{
    const uint64_t ns = (ps + 500) / 1000;
    return ns > 0 || ps == 0 ? ns : 1;
}

static void put_expected(FILE *file, uint64_t ps)
{
    if (ps != 0) fprintf(file, ", \"expected_ns\": %" PRIu64, nanoseconds(ps));
}

void trace_put_expected(FILE *file, const struct choices *choices, const struct record *call)
{
    struct choice_note note;
    if (choices_find(choices, call, &note) == 0 || note.bytes_are_assumed) return;
    put_expected(file, note.expected_ps);
}

static int by_choice(const void *a, const void *b)
{
    const struct call_of_choice *one = a, *other = b;
    if (one->choice != other->choice) return one->choice < other->choice ? -1 : 1;
    return (one->took_ns > other->took_ns) - (one->took_ns < other->took_ns);
}

/* 0: it is not over, or failed. */
static uint64_t took_ns(const struct record *call)
{
    if (call->end_ns == 0 || call->status != TUTTI_OK) return 0;
    return call->end_ns > call->begin_ns ? call->end_ns - call->begin_ns : SHORT_CALL_NS;
}

/* To be freed. */
static struct calls_of_choices find_calls(const struct choices *choices,
                                          const struct recorder *recorder)
{
    struct calls_of_choices calls = {.all = calloc(RECORDER_ENTRIES, sizeof *calls.all)};
    const uint64_t last = recorder_latest(recorder);
    for (uint64_t number = recorder_first(last); calls.all != NULL && number <= last; number++) {
        struct record call;
        struct choice_note note;
        if (!recorder_read(recorder, number, &call)) continue;
        const uint64_t choice = choices_find(choices, &call, &note);
        if (choice == 0) continue;
        calls.all[calls.count++] = (struct call_of_choice){choice, took_ns(&call)};
    }
    if (calls.count > 0) qsort(calls.all, calls.count, sizeof *calls.all, by_choice);
    return calls;
}

/* How many had that choice, and what the middle one of those took of which that is known. */
static void put_calls(FILE *file, const struct calls_of_choices *calls, uint64_t choice)
{
    size_t first = 0, timed = 0, end = 0;
    while (first < calls->count && calls->all[first].choice < choice) first++;
    for (end = timed = first; end < calls->count && calls->all[end].choice == choice; end++)
        timed += calls->all[end].took_ns == 0;
    fprintf(file, ", \"calls\": %zu", end - first);
    if (timed < end)
        fprintf(file, ", \"median_ns\": %" PRIu64, calls->all[timed + (end - timed) / 2].took_ns);
}

static void put_rival(FILE *file, const struct choice_rival *rival)
{
    fputs("{\"algorithm\": ", file);
    json_write_name(file, rival->algorithm);
    if (rival->only_hosts) fputs(", \"only_hosts\": true", file);
    put_expected(file, rival->expected_ps);
    if (rival->why != NULL) {
        fputs(", \"reason\": ", file);
        json_write_text(file, rival->why);
    }
    fputs("}", file);
}

static void put_call(FILE *file, const struct choice_note *note)
{
    fprintf(file, "{\"call\": \"%s%s\"", collective_name(note->collective), note->varies ? "v" : "");
    if (note->collective == COLLECTIVE_BARRIER) return;
    if (!note->varies)
        fprintf(file, ", \"count\": %" PRIu64, note->count < INT64_MAX ? note->count : INT64_MAX);
    fprintf(file, ", \"dtype\": \"%s\", \"bytes\": %" PRIu64, tutti_dtype_name(note->dtype),
            note->bytes < INT64_MAX ? note->bytes : INT64_MAX);
    if (note->bytes_are_assumed) fputs(", \"bytes_are_assumed\": true", file);
    if (note->is_mapped) fputs(", \"mapped\": true", file);
}

static void put_choice(FILE *file, const struct choice_note *note, uint64_t number,
                       const struct calls_of_choices *calls)
{
    put_call(file, note);
    fputs(", \"algorithm\": ", file);
    json_write_name(file, note->algorithm);
    if (note->radix != 0) fprintf(file, ", \"radix\": %u", note->radix);
    if (note->only_hosts) fputs(", \"only_hosts\": true", file);
    if (note->encoding != NULL) fprintf(file, ", \"encoding\": \"%s\"", note->encoding);
    put_expected(file, note->expected_ps);
    fputs(", \"reason\": ", file);
    json_write_text(file, note->reason);
    put_calls(file, calls, number);
    if (note->next.algorithm != NULL) {
        fputs(", \"next\": ", file);
        put_rival(file, &note->next);
    }
    const char *between = ", \"unused\": [";
    for (int i = 0; i < CHOICE_UNUSED_MAX && note->unused[i].algorithm != NULL; i++) {
        fputs(between, file);
        put_rival(file, &note->unused[i]);
        between = ", ";
    }
    if (note->unused[0].algorithm != NULL) fputs("]", file);
    if (note->unused_left_out > 0)
        fprintf(file, ", \"unused_left_out\": %" PRIu64, note->unused_left_out);
    fputs("}", file);
}

static void put_unused_plans(FILE *file, const struct choices *choices)
{
    const struct unused_plan *plan;
    const uint64_t left_out = choices_unused_left_out(choices);
    const char *between = " \"unused_plans\": [\n  ";
    for (int i = 0; (plan = choices_unused(choices, i)) != NULL; i++) {
        fprintf(file, "%s{", between);
        if (plan->collective != COLLECTIVE_COUNT)
            fprintf(file, "\"call\": \"%s\", ", collective_name(plan->collective));
        fputs("\"algorithm\": ", file);
        json_write_name(file, plan->algorithm);
        fputs(", \"reason\": ", file);
        json_write_text(file, plan->why);
        fputs("}", file);
        between = ",\n  ";
    }
    if (choices_unused(choices, 0) != NULL) fputs("],\n", file);
    if (left_out > 0) fprintf(file, " \"unused_plans_left_out\": %" PRIu64 ",\n", left_out);
}

void trace_put_choices(FILE *file, const struct choices *choices, const struct recorder *recorder)
{
    const uint64_t last = choices_latest(choices);
    const char *between = "\n  ";
    struct calls_of_choices calls = {.all = NULL};
    if (last > 0) calls = find_calls(choices, recorder);
    fputs(" \"choices\": [", file);
    for (uint64_t number = choices_first(choices, last); number <= last; number++) {
        struct choice_note note;
        if (!choices_read(choices, number, &note)) continue;
        fputs(between, file);
        put_choice(file, &note, number, &calls);
        between = ",\n  ";
    }
    fputs("],\n", file);
    free(calls.all);
    put_unused_plans(file, choices);
}
