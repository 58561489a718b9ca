/* The verdict over made-up sets of traces: one of each kind, and what must not be taken for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/trace/text.c"
#include "tools/trace/verdict.c"

enum { RANKS_MAX = 4, CALLS = 5 };
static const uint64_t SECOND = 1000000000u;

/* Ranks that have called the same CALLS calls; all times are of one clock here. */
struct scene {
    struct trace_json traces[2 * RANKS_MAX];
    int count;
};

static void set_text(char *to, const char *text)
{
    memcpy(to, text, strlen(text) + 1);
}

static struct trace_json healthy(const char *communicator, int rank, int size)
{
    struct trace_json trace = {.size = size,
                               .own = {.rank = rank, .pid = 100 + rank},
                               .monotonic_ns = 100 * SECOND,
                               .wall_ns = 1000 * SECOND,
                               .calls = CALLS,
                               .failure = {.culprit = -1, .reporter = -1}};
    set_text(trace.communicator, communicator);
    snprintf(trace.own.host, sizeof trace.own.host, "host%d", rank);
    trace.operations = calloc(CALLS + 1, sizeof *trace.operations);
    trace.places = calloc((size_t)size, sizeof *trace.places);
    assert_non_null(trace.operations);
    assert_non_null(trace.places);
    trace.operation_count = CALLS;
    trace.place_count = size;
    for (int r = 0; r < size; r++) {
        trace.places[r] = (struct trace_place){.rank = r, .pid = 100 + r};
        snprintf(trace.places[r].host, sizeof trace.places[r].host, "host%d", r);
    }
    for (uint64_t i = 0; i < CALLS; i++) {
        struct trace_entry *entry = &trace.operations[i];
        *entry = (struct trace_entry){.number = i + 1,
                                      .has_signature = true,
                                      .signature = 7 * i,
                                      .count = 64,
                                      .root = -1,
                                      .peer = -1,
                                      .tag = -1,
                                      .begin_ns = (80 + i) * SECOND,
                                      .end_ns = (80 + i) * SECOND + 1000,
                                      .waits_for = -1};
        set_text(entry->call, "allreduce");
        set_text(entry->dtype, "float32");
        set_text(entry->op, "sum");
        set_text(entry->algorithm, "ring");
        set_text(entry->state, "done");
    }
    return trace;
}

static struct scene scene_of(int size)
{
    struct scene scene = {.count = size};
    for (int r = 0; r < size; r++) scene.traces[r] = healthy("c", r, size);
    return scene;
}

/* A rank is in its last call, for so long, and waits for somebody or nobody in particular. */
static void hold(struct trace_json *trace, double seconds, int whom)
{
    struct trace_entry *last = &trace->operations[trace->operation_count - 1];
    set_text(last->state, "running");
    last->end_ns = 0;
    last->begin_ns = last->since_ns = trace->monotonic_ns - (uint64_t)(seconds * 1e9);
    last->waits_for = whom;
}

/* It has not called its last one. */
static void hold_back(struct trace_json *trace)
{
    trace->operation_count--;
    trace->calls--;
}

static void fail_scene(struct scene *scene, const char *status, int culprit, const char *message)
{
    for (int i = 0; i < scene->count; i++) {
        set_text(scene->traces[i].failure.status, status);
        set_text(scene->traces[i].failure.message, message);
        scene->traces[i].failure.culprit = culprit;
    }
}

static void leave_out(struct scene *scene, int rank)
{
    trace_json_release(&scene->traces[rank]);
    for (int i = rank; i + 1 < scene->count; i++) scene->traces[i] = scene->traces[i + 1];
    scene->count--;
}

static struct verdict judged(struct scene *scene)
{
    struct verdict verdict;
    assert_int_equal(verdict_find(scene->traces, (size_t)scene->count, &verdict), TUTTI_OK);
    for (int i = 0; i < scene->count; i++) trace_json_release(&scene->traces[i]);
    print_message("%s\n", verdict.text);
    assert_null(strchr(verdict.text, '\n'));
    /* Its parts are those of the line. */
    assert_non_null(strstr(verdict.text, verdict.why));
    if (verdict.culprit >= 0) {
        char who[RANK_TEXT_SIZE];
        assert_non_null(strstr(verdict.text, verdict_words(verdict.kind)));
        assert_int_equal(verdict.place.rank, verdict.culprit);
        describe_rank(&verdict.place, who);
        assert_int_equal(strncmp(verdict.text, who, strlen(who)), 0);
    }
    return verdict;
}

static void expect(struct scene *scene, enum verdict_kind kind, int culprit, const char *says)
{
    const struct verdict verdict = judged(scene);
    assert_int_equal(verdict.kind, kind);
    assert_int_equal(verdict.culprit, culprit);
    if (strstr(verdict.text, says) == NULL) fail_msg("it does not say: %s", says);
}

/* --------------------------------------------------------------------------------------- health */

static void who_is_healthy_is_not_blamed(void **state)
{
    (void)state;
    struct scene scene = scene_of(4);
    expect(&scene, VERDICT_NOTHING, -1, "nothing is wrong: nothing failed, and no rank waits");
    scene = scene_of(1);
    expect(&scene, VERDICT_NOTHING, -1, "nothing is wrong");
    scene = (struct scene){.count = 0};
    expect(&scene, VERDICT_NOTHING, -1, "nothing is wrong");
}

static void a_moment_of_waiting_is_no_fault(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    hold(&scene.traces[0], 0.5, 1);
    hold_back(&scene.traces[1]);
    expect(&scene, VERDICT_NOTHING, -1,
           "nothing is wrong so far: nothing failed, and the longest wait, that of rank 0 in "
           "allreduce(count 64, float32, sum) #5, had lasted 500.0 ms; waits count from 2 s on");
}

static void who_has_left_the_window_behind_is_no_different_caller(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    scene.traces[0].operation_count = 2; /* forgotten, not called otherwise */
    scene.traces[0].calls = 2;
    expect(&scene, VERDICT_NOTHING, -1, "nothing is wrong");
}

/* ----------------------------------------------------------------------------------------- dead */

static void a_rank_that_all_name_is_dead(void **state)
{
    (void)state;
    struct scene scene = scene_of(4);
    for (int r = 0; r < 4; r++) hold(&scene.traces[r], 1, (r + 3) % 4);
    leave_out(&scene, 2);
    fail_scene(&scene, "PROC_FAILED", 2, "rank 2 (host host2, pid 102) died");
    expect(&scene, VERDICT_DEAD, 2, "rank 2 (host host2, pid 102) is dead or gone");
}

static void a_rank_without_trace_that_somebody_waits_for_is_dead(void **state)
{
    (void)state;
    struct scene scene = scene_of(4);
    for (int r = 0; r < 4; r++) hold(&scene.traces[r], 5, 1);
    leave_out(&scene, 1);
    expect(&scene, VERDICT_DEAD, 1,
           "rank 1 (host host1, pid 101) is dead or gone: it left no trace, no other trace says "
           "whether its process runs, and rank 0 waits for it in call #5");
}

static void a_rank_that_somebody_found_stopped_is_stalled_and_not_dead(void **state)
{
    (void)state;
    for (int has_trace = 0; has_trace < 2; has_trace++) {
        struct scene scene = scene_of(4);
        for (int r = 0; r < 4; r++) hold(&scene.traces[r], 5, r == 0 ? 3 : 1);
        if (has_trace)
            hold_back(&scene.traces[1]); /* it wrote it when it went on */
        else
            leave_out(&scene, 1);
        struct trace_json *waiter = &scene.traces[scene.count - 1];
        waiter->operations[CALLS - 1].is_stopped = true;
        const struct verdict verdict = judged(&scene);
        assert_int_equal(verdict.kind, VERDICT_STALLED);
        assert_int_equal(verdict.culprit, 1);
        assert_int_equal(verdict.sequence, CALLS);
        assert_non_null(strstr(verdict.text,
                               "rank 1 (host host1, pid 101) is stalled: rank 3 waits for it in "
                               "allreduce(count 64, float32, sum) #5"));
        assert_int_equal(strstr(verdict.text, "left no trace") == NULL, has_trace);
    }
}

static void a_late_rank_is_blamed_before_one_without_trace_that_nobody_names(void **state)
{
    (void)state;
    struct scene scene = scene_of(4);
    hold(&scene.traces[0], 5, 2);
    hold(&scene.traces[1], 5, 2);
    hold_back(&scene.traces[2]);
    leave_out(&scene, 3);
    expect(&scene, VERDICT_LATE, 2, "rank 2 (host host2, pid 102) is late");
}

static void a_verdict_names_the_call(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    hold(&scene.traces[0], 5, 1);
    hold_back(&scene.traces[1]);
    assert_int_equal(judged(&scene).sequence, CALLS);
    scene = scene_of(2);
    scene.traces[1].operations[2].signature++;
    assert_int_equal(judged(&scene).sequence, 3);
    scene = scene_of(2);
    fail_scene(&scene, "PROC_FAILED", 1, "it died");
    scene.traces[0].failure.sequence = 4;
    assert_int_equal(judged(&scene).sequence, 4);
    scene = scene_of(2);
    assert_int_equal(judged(&scene).sequence, 0);
}

static void only_a_missing_trace_is_left_to_blame(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    hold(&scene.traces[0], 5, -1);
    hold(&scene.traces[1], 5, -1);
    leave_out(&scene, 2);
    expect(&scene, VERDICT_DEAD, 2,
           "it left no trace, no other trace says whether its process runs, and others wait");
}

/* -------------------------------------------------------------------------------- disagreements */

static void the_odd_one_of_many_is_mismatched(void **state)
{
    (void)state;
    struct scene scene = scene_of(4);
    for (int r = 0; r < 4; r++) hold(&scene.traces[r], 3, (r + 3) % 4);
    scene.traces[1].operations[CALLS - 1].signature = 99;
    scene.traces[1].operations[CALLS - 1].count = 32;
    expect(&scene, VERDICT_MISMATCHED, 1,
           "it called allreduce(count 32, float32, sum) #5, where rank 0 and others called "
           "allreduce(count 64, float32, sum) #5");
}

static void of_two_the_one_that_the_failure_names_is_mismatched(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    hold(&scene.traces[0], 0.2, 1);
    hold(&scene.traces[1], 0.2, 0);
    scene.traces[1].operations[CALLS - 1].signature = 99;
    fail_scene(&scene, "MISMATCH", 0, "m");
    expect(&scene, VERDICT_MISMATCHED, 0, "their algorithms (ring and ring) or options differ");
}

static void of_two_that_nobody_names_the_second_is_mismatched(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    scene.traces[1].operations[CALLS - 1].signature = 99;
    expect(&scene, VERDICT_MISMATCHED, 1, "where rank 0 called");
}

static void another_call_is_desynchronised_and_the_first_one_counts(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    for (int r = 0; r < 3; r++) hold(&scene.traces[r], 3, -1);
    for (int i = 3; i < CALLS; i++) {
        struct trace_entry *entry = &scene.traces[2].operations[i];
        entry->signature = 99;
        set_text(entry->call, "barrier");
        entry->dtype[0] = entry->op[0] = '\0';
    }
    expect(&scene, VERDICT_DESYNCHRONISED, 2, "it called barrier() #4");
}

static void a_failure_without_traces_of_it_is_told(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    fail_scene(&scene, "ABORTED", 1, "rank 1 aborted: loss is NaN");
    hold(&scene.traces[0], 5, 1);
    hold_back(&scene.traces[1]);
    expect(&scene, VERDICT_FAILED, 1, "ABORTED: rank 1 aborted: loss is NaN");
}

/* -------------------------------------------------------------------------------- late and slow */

static void who_has_not_called_what_others_wait_in_is_late(void **state)
{
    (void)state;
    struct scene scene = scene_of(4);
    for (int r = 0; r < 4; r++)
        if (r != 3) hold(&scene.traces[r], 7, (r + 3) % 4);
    hold_back(&scene.traces[3]);
    fail_scene(&scene, "TIMEOUT", 3, "m");
    expect(
        &scene, VERDICT_LATE, 3,
        "rank 3 (host host3, pid 103) is late: rank 0 waits in allreduce(count 64, float32, sum) "
        "#5, which it has not called; it is in no call for 17.00 s, after");
}

static void who_is_in_the_call_is_not_late(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    hold(&scene.traces[0], 7, 2);
    hold(&scene.traces[1], 9, 0);
    hold(&scene.traces[2], 7, -1);
    expect(&scene, VERDICT_SLOW_LINK, 0,
           "everybody is in allreduce(count 64, float32, sum) #5, and rank 1 has waited longest");
}

static void an_earlier_call_explains_later_ones(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    hold(&scene.traces[0], 3, 1);
    hold(&scene.traces[2], 3, 1);
    struct trace_json *slow = &scene.traces[1];
    hold_back(slow); /* it still is in the call before */
    hold(slow, 4, 2);
    const struct verdict verdict = judged(&scene);
    assert_int_equal(verdict.kind, VERDICT_SLOW_LINK);
    assert_int_equal(verdict.culprit, 2);
}

static void nobody_is_named_where_nobody_can_be(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    hold(&scene.traces[0], 3, -1);
    hold(&scene.traces[1], 3, -1);
    expect(&scene, VERDICT_SLOW_LINK, -1, "nobody can be named");
}

static struct trace_entry a_message(const struct trace_json *trace, double seconds, int whom)
{
    struct trace_entry message = {.number = 1,
                                  .count = 3,
                                  .root = -1,
                                  .peer = 1,
                                  .tag = 7,
                                  .begin_ns = trace->monotonic_ns - (uint64_t)(seconds * 1e9),
                                  .waits_for = whom};
    message.since_ns = message.begin_ns;
    set_text(message.call, "recv");
    set_text(message.dtype, "int8");
    set_text(message.state, "running");
    return message;
}

static void who_does_not_send_what_somebody_is_blocked_for_is_late(void **state)
{
    (void)state;
    for (int blocks = 0; blocks < 2; blocks++) {
        struct scene scene = scene_of(2);
        struct trace_json *trace = &scene.traces[0];
        trace->messages = calloc(1, sizeof *trace->messages);
        assert_non_null(trace->messages);
        trace->messages[0] = a_message(trace, 5, blocks ? 1 : -1);
        trace->message_count = 1;
        if (blocks)
            expect(&scene, VERDICT_LATE, 1,
                   "rank 0 waits in recv(count 3, int8, from rank 1, tag 7), for 5.00 s");
        else /* it may be posted for whatever comes some day */
            expect(&scene, VERDICT_NOTHING, -1, "nothing is wrong");
    }
}

/* ------------------------------------------------------------------------ several communicators */

static void the_cause_is_sought_in_all_communicators(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    hold(&scene.traces[0], 7, 1);
    hold_back(&scene.traces[1]);
    for (int r = 0; r < 2; r++) {
        struct trace_json *other = &scene.traces[scene.count++];
        *other = healthy("a", r, 3);
        set_text(other->failure.status, "PROC_FAILED");
        other->failure.culprit = 2;
    }
    expect(&scene, VERDICT_DEAD, 2, "rank 2");
}

/* Rank 1 is late in its older dump, and was not in the newer one; in which order they are read does
 * not matter. */
static void of_a_rank_the_newest_dump_counts(void **state)
{
    (void)state;
    for (int newer = 1; newer < 3; newer++) {
        struct scene scene = scene_of(2);
        scene.traces[scene.count++] = healthy("c", 1, 2);
        hold(&scene.traces[0], 5, 1);
        hold_back(&scene.traces[3 - newer]);
        hold(&scene.traces[newer], 5, 0);
        scene.traces[newer].wall_ns += SECOND;
        expect(&scene, VERDICT_SLOW_LINK, 1, "(1 dump is not counted: of a rank the newest counts");
    }
}

static void a_dump_of_another_number_of_ranks_does_not_count(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    leave_out(&scene, 2);
    scene.traces[scene.count++] = healthy("c", 2, 8);
    hold(&scene.traces[0], 5, 2);
    hold(&scene.traces[1], 5, 2);
    expect(&scene, VERDICT_DEAD, 2, "it left no trace");
}

/* A receive from itself that nobody sends. */
static void a_rank_that_waits_for_its_own_message_is_told_so(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    struct trace_json *trace = &scene.traces[0];
    trace->messages = calloc(1, sizeof *trace->messages);
    assert_non_null(trace->messages);
    trace->messages[0] = a_message(trace, 5, 0);
    trace->messages[0].peer = 0;
    trace->message_count = 1;
    expect(&scene, VERDICT_LATE, 0, "for 5.00 s, for its own message");
}

static void a_stopped_rank_that_does_not_send_is_stalled(void **state)
{
    (void)state;
    struct scene scene = scene_of(2);
    struct trace_json *trace = &scene.traces[0];
    trace->messages = calloc(1, sizeof *trace->messages);
    assert_non_null(trace->messages);
    trace->messages[0] = a_message(trace, 5, 1);
    trace->messages[0].is_stopped = true;
    trace->message_count = 1;
    leave_out(&scene, 1);
    expect(&scene, VERDICT_STALLED, 1, "rank 0 waits for it in recv(count 3, int8, from rank 1");
}

static void who_has_called_it_and_waits_for_a_gate_is_late(void **state)
{
    (void)state;
    struct scene scene = scene_of(3);
    hold(&scene.traces[0], 5, 1); /* a chain of waiting */
    hold(&scene.traces[1], 6, 2);
    hold(&scene.traces[2], 4, -1);
    scene.traces[2].operations[scene.traces[2].operation_count - 1].is_gated = true;
    const struct verdict verdict = judged(&scene);
    assert_int_equal(verdict.kind, VERDICT_LATE);
    assert_int_equal(verdict.culprit, 2);
    assert_non_null(strstr(verdict.text, "waits for its gate there for 4.00 s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_healthy_is_not_blamed),
        cmocka_unit_test(a_moment_of_waiting_is_no_fault),
        cmocka_unit_test(who_has_left_the_window_behind_is_no_different_caller),
        cmocka_unit_test(a_rank_that_all_name_is_dead),
        cmocka_unit_test(a_rank_without_trace_that_somebody_waits_for_is_dead),
        cmocka_unit_test(a_rank_that_somebody_found_stopped_is_stalled_and_not_dead),
        cmocka_unit_test(a_late_rank_is_blamed_before_one_without_trace_that_nobody_names),
        cmocka_unit_test(a_verdict_names_the_call),
        cmocka_unit_test(only_a_missing_trace_is_left_to_blame),
        cmocka_unit_test(the_odd_one_of_many_is_mismatched),
        cmocka_unit_test(of_two_the_one_that_the_failure_names_is_mismatched),
        cmocka_unit_test(of_two_that_nobody_names_the_second_is_mismatched),
        cmocka_unit_test(another_call_is_desynchronised_and_the_first_one_counts),
        cmocka_unit_test(a_failure_without_traces_of_it_is_told),
        cmocka_unit_test(who_has_not_called_what_others_wait_in_is_late),
        cmocka_unit_test(who_is_in_the_call_is_not_late),
        cmocka_unit_test(who_has_called_it_and_waits_for_a_gate_is_late),
        cmocka_unit_test(an_earlier_call_explains_later_ones),
        cmocka_unit_test(nobody_is_named_where_nobody_can_be),
        cmocka_unit_test(who_does_not_send_what_somebody_is_blocked_for_is_late),
        cmocka_unit_test(a_stopped_rank_that_does_not_send_is_stalled),
        cmocka_unit_test(the_cause_is_sought_in_all_communicators),
        cmocka_unit_test(of_a_rank_the_newest_dump_counts),
        cmocka_unit_test(a_dump_of_another_number_of_ranks_does_not_count),
        cmocka_unit_test(a_rank_that_waits_for_its_own_message_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
