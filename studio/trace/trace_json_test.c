#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "studio/trace/trace_json.h"

#define HEAD                                                                              \
    "{\"tutti_trace\": 1, \"communicator\": \"ab\", \"rank\": 1, \"size\": 3, \"host\": " \
    "\"h\", \"pid\": 71, \"cores\": 2, \"monotonic_ns\": 900, \"calls\": 9, \"later\": "  \
    "{\"version\": [2]}"

static const char sample[] = HEAD
    ", \"measured\": {\"card_byte_fs\": 8000000}, \"failure\": {\"status\": \"TIMEOUT\", "
    "\"reporter\": 0, \"sequence\": 9, \"message\": "
    "\"m\", "
    "\"culprit\": {\"rank\": 2, \"host\": \"g\", \"pid\": 5}}, "
    "\"choices\": [{\"call\": \"barrier\", \"algorithm\": \"dissemination\", \"reason\": \"r\"}, "
    "{\"call\": \"allreduce\", \"count\": 4, \"dtype\": \"int8\", \"bytes\": 4, \"mapped\": true, "
    "\"algorithm\": \"tree\", \"radix\": 4, \"only_hosts\": true, \"expected_ns\": 90, \"reason\": "
    "\"the model\", \"calls\": 2, \"median_ns\": 95, \"next\": {\"algorithm\": \"ring\", "
    "\"expected_ns\": 99}, \"unused\": [{\"algorithm\": \"file:a\", \"reason\": \"is slow\"}], "
    "\"unused_left_out\": 5}], "
    "\"unused_plans\": [{\"call\": \"reduce\", \"algorithm\": \"file:b\", \"reason\": \"is "
    "odd\"}], \"unused_plans_left_out\": 7, "
    "\"operations\": [{\"sequence\": 8, \"call\": \"barrier\", \"begin_ns\": 5, \"end_ns\": 7, "
    "\"state\": \"done\"}, {\"sequence\": 9, \"call\": \"allreduce\", \"count\": 4, \"dtype\": "
    "\"int8\", \"op\": \"sum\", \"started\": true, \"signature\": \"00ff00ff00ff00ff\", "
    "\"expected_ns\": 90, "
    "\"begin_ns\": 8, \"state\": \"running\", \"waits_for_gate\": true, \"waits_for\": {\"rank\": "
    "2, \"host\": \"g\", "
    "\"pid\": 5, \"since_ns\": 10, \"stopped\": true}}], \"messages\": [{\"number\": 1, \"call\": "
    "\"recv\", "
    "\"count\": 1, \"dtype\": \"int8\", \"peer\": -1, \"tag\": 3, \"begin_ns\": 1, \"end_ns\": 2, "
    "\"state\": \"TRUNCATED\"}]}";

static void all_members_are_read(void **state)
{
    (void)state;
    struct trace_json trace;
    assert_int_equal(trace_json_load(sample, strlen(sample), &trace), TUTTI_OK);
    assert_string_equal(trace.communicator, "ab");
    assert_int_equal(trace.own.rank, 1);
    assert_int_equal(trace.own.pid, 71);
    assert_int_equal(trace.size, 3);
    assert_int_equal(trace.core_count, 2);
    assert_int_equal(trace.measured.numbers[BETWEEN_CARD_BYTE].value, 8000000);
    assert_int_equal(trace.measured.numbers[BETWEEN_CARD_BYTE].known, CALIBRATION_MEASURED);
    assert_int_equal(trace.measured.numbers[BETWEEN_UPLINK_BYTE].known, CALIBRATION_ASSUMED);
    assert_int_equal(trace.calls, 9);
    assert_string_equal(trace.failure.status, "TIMEOUT");
    assert_int_equal(trace.place_count, 1); /* named twice, and here once */
    assert_int_equal(trace.places[trace.failure.culprit].rank, 2);
    assert_int_equal(trace.operation_count, 2);
    assert_true(trace_entry_is_done(&trace.operations[0]));
    assert_int_equal(trace.operations[0].waits_for, -1);
    const struct trace_entry *running = &trace.operations[1];
    assert_false(trace_entry_is_over(running));
    assert_true(running->started && running->has_signature);
    assert_int_equal(running->signature, 0x00ff00ff00ff00ffu);
    assert_string_equal(trace.places[running->waits_for].host, "g");
    assert_int_equal(running->since_ns, 10);
    assert_true(running->is_stopped && !trace.operations[0].is_stopped);
    assert_true(running->is_gated && !trace.operations[0].is_gated);
    assert_int_equal(trace.message_count, 1);
    assert_int_equal(trace.messages[0].peer, -1);
    assert_int_equal(trace.messages[0].tag, 3);
    assert_true(trace_entry_is_over(&trace.messages[0]));
    assert_false(trace_entry_is_done(&trace.messages[0]));
    trace_json_release(&trace);
}

static void choices_are_read(void **state)
{
    (void)state;
    struct trace_json trace;
    assert_int_equal(trace_json_load(sample, strlen(sample), &trace), TUTTI_OK);
    assert_int_equal(trace.operations[1].expected_ns, 90);
    assert_int_equal(trace.operations[0].expected_ns, 0);
    assert_int_equal(trace.choice_count, 2);
    const struct trace_choice *barrier = &trace.choices[0], *sum = &trace.choices[1];
    assert_false(barrier->has_count || barrier->is_mapped || barrier->only_hosts);
    assert_int_equal(barrier->unused_count, 0);
    assert_int_equal(barrier->next.algorithm[0], '\0');
    assert_true(sum->has_count && sum->is_mapped && sum->only_hosts && !sum->bytes_are_assumed);
    assert_string_equal(sum->algorithm, "tree");
    assert_string_equal(sum->reason, "the model");
    assert_true(sum->radix == 4 && sum->count == 4 && sum->bytes == 4 && sum->calls == 2);
    assert_true(sum->expected_ns == 90 && sum->median_ns == 95);
    assert_string_equal(sum->next.algorithm, "ring");
    assert_int_equal(sum->next.expected_ns, 99);
    assert_int_equal(sum->unused_count, 1);
    assert_string_equal(sum->unused[0].reason, "is slow");
    assert_true(sum->unused_left_out == 5 && barrier->unused_left_out == 0);
    assert_int_equal(trace.unused_plan_count, 1);
    assert_string_equal(trace.unused_plans[0].call, "reduce");
    assert_int_equal(trace.unused_plans_left_out, 7);
    trace_json_release(&trace);
}

static void dumps_without_choices_are_read(void **state)
{
    (void)state;
    struct trace_json trace;
    static const char text[] = HEAD ", \"operations\": [], \"messages\": []}";
    assert_int_equal(trace_json_load(text, strlen(text), &trace), TUTTI_OK);
    assert_int_equal(trace.choice_count, 0);
    assert_int_equal(trace.unused_plan_count, 0);
    assert_int_equal(trace.unused_plans_left_out, 0);
    trace_json_release(&trace);
}

static void no_part_of_a_dump_is_taken_for_one(void **state)
{
    (void)state;
    for (size_t size = 0; size + 1 < sizeof sample - 1; size++) {
        struct trace_json trace;
        assert_int_equal(trace_json_load(sample, size, &trace), TUTTI_INVALID_OPTIONS);
        assert_null(trace.operations);
    }
}

static void what_is_out_of_bounds_is_refused_by_name(void **state)
{
    (void)state;
#define LISTS ", \"operations\": [], \"messages\": []}"
#define CHOICE(members) HEAD ", \"choices\": [{" members "}]" LISTS
#define GOOD_CHOICE "\"call\": \"a\", \"algorithm\": \"b\", \"reason\": \"\""
#define ONE(entry) HEAD ", \"operations\": [" entry "], \"messages\": []}"
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"[]", "object"},
        {"{\"tutti_trace\": 2}", "tutti_trace"},
        {HEAD "}", "operations"},
        {HEAD ", \"failure\": 1" LISTS, "failure"},
        {HEAD ", \"failure\": {\"status\": \"\", \"message\": \"\"}" LISTS, "status"},
        {HEAD ", \"failure\": {\"status\": \"X\", \"message\": \"\", \"culprit\": {\"rank\": 3, "
              "\"host\": \"\"}}" LISTS,
         "rank"},
        {HEAD ", \"wall_ns\": -1" LISTS, "wall_ns"},
        {HEAD ", \"measured\": [8]" LISTS, "measured"},
        {HEAD ", \"measured\": {\"card_byte_fs\": -8}" LISTS, "measured: \"card_byte_fs\""},
        {HEAD ", \"reason\": \"a reason that is much too long\"" LISTS, "reason"},
        {HEAD ", \"reason\": \"a\\u0000b\"" LISTS, "NUL"},
        {HEAD ", \"choices\": {}" LISTS, "choices"},
        {HEAD ", \"choices\": [7]" LISTS, "choices[0]"},
        {CHOICE("\"call\": \"a\", \"algorithm\": \"b\""), "reason"},
        {CHOICE("\"call\": \"a\", \"algorithm\": 7, \"reason\": \"\""), "algorithm"},
        {CHOICE(GOOD_CHOICE ", \"expected_ns\": -1"), "expected_ns"},
        {CHOICE(GOOD_CHOICE ", \"next\": {}"), "choices[0] next"},
        {CHOICE(GOOD_CHOICE ", \"unused\": [1]"), "choices[0] unused[0]"},
        {CHOICE(GOOD_CHOICE ", \"unused\": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"), "at most 16"},
        {CHOICE(GOOD_CHOICE ", \"unused_left_out\": true"), "choices[0]: \"unused_left_out\""},
        {HEAD ", \"unused_plans\": [{\"reason\": 1}]" LISTS, "unused_plans[0]"},
        {HEAD ", \"unused_plans_left_out\": -1" LISTS, "unused_plans_left_out"},
        {ONE("7"), "object"},
        {ONE("{\"sequence\": 1, \"call\": 5}"), "call"},
        {ONE("{\"sequence\": 1, \"call\": \"a\", \"state\": \"done\", \"begin_ns\": 0.5}"),
         "begin_ns"},
        {ONE("{\"sequence\": 1, \"call\": \"a\", \"state\": \"done\", \"begin_ns\": 1, "
             "\"signature\": \"12\"}"),
         "signature"},
        {ONE("{\"sequence\": 1, \"call\": \"a\", \"state\": \"done\", \"begin_ns\": 1, \"root\": "
             "3}"),
         "root"},
        {ONE("{\"sequence\": 2, \"call\": \"a\", \"state\": \"done\", \"begin_ns\": 1}, "
             "{\"sequence\": 2, \"call\": \"a\", \"state\": \"done\", \"begin_ns\": 1}"),
         "operations[1]"},
        {ONE("{\"sequence\": 1, \"call\": \"a\", \"state\": \"running\", \"begin_ns\": 1, "
             "\"waits_for\": {\"rank\": 1, \"host\": \"h\", \"since_ns\": 1}}"),
         "no rank waits for itself"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace_json trace;
        assert_int_equal(trace_json_load(cases[i].text, strlen(cases[i].text), &trace),
                         TUTTI_INVALID_OPTIONS);
        if (strstr(tutti_error_message(), cases[i].named) == NULL)
            fail_msg("%s: %s is not named", tutti_error_message(), cases[i].named);
    }
}

static void terminals_are_told_nothing(void **state)
{
    (void)state;
    static const char text[] = HEAD
        ", \"failure\": {\"status\": \"A\\u001b[2J\", \"message\": \"\\u009b\\n\\u007f\xc3\xa4\"}"
        ", \"operations\": [], \"messages\": []}";
    struct trace_json trace;
    assert_int_equal(trace_json_load(text, strlen(text), &trace), TUTTI_OK);
    assert_string_equal(trace.failure.status, "A?[2J");
    assert_string_equal(trace.failure.message, "???\xc3\xa4");
    trace_json_release(&trace);
}

static void dumps_are_sorted_and_grouped(void **state)
{
    (void)state;
    struct trace_json all[] = {{.communicator = "b", .own = {.rank = 0}},
                               {.communicator = "a", .own = {.rank = 2}},
                               {.communicator = "a", .own = {.rank = 1}, .wall_ns = 5},
                               {.communicator = "a", .own = {.rank = 1}, .wall_ns = 9}};
    trace_json_sort(all, 4);
    assert_int_equal(all[0].wall_ns, 9);
    assert_int_equal(all[1].wall_ns, 5);
    assert_int_equal(all[2].own.rank, 2);
    assert_string_equal(all[3].communicator, "b");
    assert_int_equal(trace_json_group(all, 4), 3);
    assert_int_equal(trace_json_group(all + 3, 1), 1);
    assert_int_equal(trace_json_group(all, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members_are_read),
        cmocka_unit_test(choices_are_read),
        cmocka_unit_test(dumps_without_choices_are_read),
        cmocka_unit_test(no_part_of_a_dump_is_taken_for_one),
        cmocka_unit_test(what_is_out_of_bounds_is_refused_by_name),
        cmocka_unit_test(terminals_are_told_nothing),
        cmocka_unit_test(dumps_are_sorted_and_grouped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
