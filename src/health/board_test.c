#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "health/board.h"

enum { SIZE = 3, ALL = 7, CALLS = 200000 };

static int create_board(void **state)
{
    *state = aligned_alloc(64, (board_bytes(SIZE, ALL) + 63) / 64 * 64);
    if (*state == NULL) return -1;
    memset(*state, 0, board_bytes(SIZE, ALL));
    return 0;
}

static int free_board(void **state)
{
    free(*state);
    return 0;
}

static const struct call_description some_call = {.collective = COLLECTIVE_REDUCE,
                                                  .dtype = TUTTI_BFLOAT16,
                                                  .op = OP_MAX,
                                                  .root = 2,
                                                  .count = 77,
                                                  .started = true,
                                                  .purpose = CALL_FOR_MESH,
                                                  .signature = 0x1234567890abcdef};

static void ranks_come_and_leave(void **state)
{
    struct board *board = *state;
    assert_int_equal(board_state(board, 1), RANK_ABSENT);
    board_enter(board, 1, 4711);
    assert_int_equal(board_state(board, 1), RANK_PRESENT);
    assert_int_equal(board_state(board, 0), RANK_ABSENT);
    assert_int_equal(board_state(board, 2), RANK_ABSENT);
    board_leave(board, 1);
    assert_int_equal(board_state(board, 1), RANK_LEFT);
}

static void findings_hold_while_their_call_lasts(void **state)
{
    struct board *board = *state;
    const struct board_finding said = {.rank = 2, .is_stopped = true, .sequence = 41};
    struct board_call *calls = board_calls(board, SIZE, 1, TRANSPORT_SLOT_COUNT - 1);
    const uint64_t begun = ((uint64_t)5 << 32) + 7; /* more than what is remembered of it */
    struct board_finding read;
    assert_false(board_read_finding(board, SIZE, 1, ALL, &read)); /* nothing was said */
    assert_false(board_is_in_call(board, SIZE, 1));
    board_begin(calls, &some_call, begun);
    assert_false(board_read_finding(board, SIZE, 1, ALL, &read));
    board_set_finding(board, 1, TRANSPORT_SLOT_COUNT - 1, begun, &said);
    assert_true(board_read_finding(board, SIZE, 1, ALL, &read));
    assert_int_equal(read.rank, 2);
    assert_true(read.is_stopped);
    assert_int_equal(read.sequence, 41);
    assert_true(board_is_in_call(board, SIZE, 1));
    assert_false(board_read_finding(board, SIZE, 0, ALL, &read));
    board_end(calls, begun);
    assert_false(board_read_finding(board, SIZE, 1, ALL, &read));
    assert_false(board_is_in_call(board, SIZE, 1));
    board_begin(calls, &some_call, begun + 1);
    assert_false(board_read_finding(board, SIZE, 1, ALL, &read));
    for (int bit = 0; bit < 64; bit++) { /* what is no slot or rank is not believed */
        atomic_store(&board->ranks[1].finding, (uint64_t)1 << bit | (begun + 1) << 32);
        if (board_read_finding(board, SIZE, 1, ALL, &read)) assert_in_range(read.rank, 0, ALL - 1);
    }
}

static void progress_of_both_forms_is_told(void **state)
{
    struct board *board = *state;
    struct board_progress read;
    assert_true(board_read_progress(board, SIZE, 1, &read)); /* nothing was called */
    assert_true(read.blocking == 0 && read.started == 0 && read.awaited == 0);
    assert_false(read.is_blocked || read.knows_blocking || read.knows_started);

    struct call_description blocking = some_call;
    blocking.started = false;
    board_begin(board_calls(board, SIZE, 1, 0), &blocking, 1);
    for (int i = 1; i <= 20; i++) board_set_started(board, 1, (uint64_t)i);
    assert_true(board_read_progress(board, SIZE, 1, &read));
    assert_true(read.is_blocked && read.knows_blocking);
    assert_int_equal(read.blocking, 1);
    assert_int_equal(read.started, 20);
    assert_int_equal(read.blocking_what.count, some_call.count);
    assert_false(read.knows_started); /* it stands in line */
    board_begin(board_calls(board, SIZE, 1, 4), &some_call, 2);
    assert_true(board_read_progress(board, SIZE, 1, &read));
    assert_true(read.knows_started && read.started_what.root == some_call.root);

    struct call_description other = some_call;
    other.count = 78;
    board_set_awaited(board, 1, 18, 19, &other);
    board_end(board_calls(board, SIZE, 1, 0), 1);
    assert_true(board_read_progress(board, SIZE, 1, &read));
    assert_false(read.is_blocked);
    assert_int_equal(read.awaited, 18);
    assert_int_equal(read.sequence, 19);
    assert_true(read.knows_started && read.started_what.count == 78 && read.started_what.started);
    board_set_awaited(board, 1, 0, 0, &other);
    assert_true(board_read_progress(board, SIZE, 1, &read));
    assert_int_equal(read.awaited, 0);
    atomic_store(&board->ranks[1].awaited_what,
                 UINT32_MAX); /* what is no collective is not believed */
    atomic_store(&board->ranks[1].awaited, 1);
    assert_true(board_read_progress(board, SIZE, 1, &read));
    assert_in_range(read.started_what.collective, 0, COLLECTIVE_COUNT - 1);
}

/* A rank that keeps to one order is ahead in neither form, or level, or ahead in both, at whatever
 * times the counts were read. */
static void points_on_one_path_do_not_cross(void **state)
{
    (void)state;
    enum { STEPS = 40 };
    struct board_progress path[STEPS + 1] = {{0}};
    uint32_t random = 4711;
    for (int i = 0; i < STEPS; i++) {
        path[i + 1] = path[i];
        random = random * 1664525 + 1013904223;
        *(random >> 31 ? &path[i + 1].blocking : &path[i + 1].started) += 1;
    }
    for (int a = 0; a <= STEPS; a++)
        for (int b = 0; b <= STEPS; b++) assert_false(board_progress_crosses(&path[a], &path[b]));
    const struct board_progress blocks = {.blocking = 3, .started = 7},
                                starts = {.blocking = 2, .started = 8};
    assert_true(board_progress_crosses(&blocks, &starts));
    assert_false(board_progress_crosses(&starts, &blocks));
}

static void a_rank_is_reported_once_in_ten_seconds(void **state)
{
    struct board *board = *state;
    const uint64_t second = 1000000000;
    assert_true(board_claim_report(board, SIZE, 1, 100 * second));
    assert_false(board_claim_report(board, SIZE, 1, 109 * second));
    assert_true(board_claim_report(board, SIZE, 0, 109 * second));
    assert_true(board_claim_report(board, SIZE, ALL - 1, 109 * second)); /* of another host */
    assert_true(board_claim_naming(board, SIZE, 1, 109 * second));       /* that is another word */
    assert_true(board_claim_report(board, SIZE, 1, 111 * second));
    assert_false(board_claim_report(board, SIZE, 1, 112 * second));
}

static void the_sequence_counts_calls_of_all_slots(void **state)
{
    struct board *board = *state;
    assert_int_equal(board_sequence(board, SIZE, 1), 0);
    for (uint64_t call = 1; call <= 40; call++)
        board_begin(board_calls(board, SIZE, 1, 0), &some_call, call);
    board_begin(board_calls(board, SIZE, 1, 5), &some_call, 1);
    /* An operation that moves messages is not a numbered call. */
    board_begin(board_calls(board, SIZE, 1, TRANSPORT_SLOT_MESSAGES), &some_call, 77);
    assert_int_equal(board_sequence(board, SIZE, 1), 41);
    assert_int_equal(board_sequence(board, SIZE, 0), 0);
}

static void ranks_agree_on_what_all_had(void **state)
{
    struct board *board = *state;
    enum { ALL_COLLECTIVES = (1 << COLLECTIVE_COUNT) - 1 };
    assert_int_equal(board_all_mapped(board, SIZE, 0), 0); /* there was none */
    uint32_t before = 0;
    for (uint64_t number = 1; number < 6; number++) {
        const uint32_t one_has_not = (uint32_t)number * 21 & ALL_COLLECTIVES;
        for (int rank = 0; rank < SIZE; rank++) {
            assert_int_equal(board_all_mapped(board, SIZE, number), 0); /* one has not begun it */
            board_tell_mapped(board, rank, number,
                              rank != 1 ? ALL_COLLECTIVES : ALL_COLLECTIVES & ~one_has_not);
        }
        assert_int_equal(board_all_mapped(board, SIZE, number), ALL_COLLECTIVES & ~one_has_not);
        /* The call before is known until a rank begins the next. */
        if (number > 1) assert_int_equal(board_all_mapped(board, SIZE, number - 1), before);
        before = ALL_COLLECTIVES & ~one_has_not;
    }
}

static void calls_of_ranks_and_slots_lie_apart_and_inside(void **state)
{
    struct board *board = *state;
    const char *const end = (const char *)board + board_bytes(SIZE, ALL);
    for (int rank = 0; rank < SIZE; rank++) {
        for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++) {
            struct board_call *calls = board_calls(board, SIZE, rank, slot);
            assert_true((const char *)(calls + BOARD_CALLS) <= end);
            for (int i = 0; i < BOARD_CALLS; i++) {
                assert_int_equal((uintptr_t)&calls[i] % 64, 0);
                assert_int_equal(atomic_load(&calls[i].begun), 0);
                atomic_store(&calls[i].begun, 1);
            }
        }
    }
}

static void expect_some_call(const struct call_description *read)
{
    assert_int_equal(read->collective, some_call.collective);
    assert_int_equal(read->dtype, some_call.dtype);
    assert_int_equal(read->op, some_call.op);
    assert_int_equal(read->root, some_call.root);
    assert_int_equal(read->count, some_call.count);
    assert_true(read->started);
    assert_int_equal(read->purpose, some_call.purpose);
    assert_int_equal(read->signature, some_call.signature);
}

static void a_call_is_read_as_it_was_written(void **state)
{
    struct board_call *calls = board_calls(*state, SIZE, 1, 5);
    struct call_description read;
    assert_int_equal(board_begun(calls), 0);
    assert_false(board_read_call(calls, 1, &read));
    assert_false(board_is_engaged(calls));
    board_begin(calls, &some_call, 1);
    assert_int_equal(board_begun(calls), 1);
    assert_true(board_is_engaged(calls));
    assert_true(board_read_call(calls, 1, &read));
    expect_some_call(&read);
    board_end(calls, 1);
    assert_false(board_is_engaged(calls));
    assert_true(board_read_call(calls, 1, &read));
    assert_false(board_read_call(calls, 2, &read));
}

static void a_call_that_waits_for_its_gate_says_so(void **state)
{
    struct board_call *calls = board_calls(*state, SIZE, 1, 2);
    struct call_description read;
    assert_false(board_is_gated(calls, 1)); /* it has not begun */
    board_begin(calls, &some_call, 1);
    assert_false(board_is_gated(calls, 1));
    board_set_gated(calls, 1, true);
    assert_true(board_is_gated(calls, 1));
    assert_false(board_is_gated(calls, 1 + BOARD_CALLS));
    assert_true(board_read_call(calls, 1, &read)); /* and is the same call as before */
    assert_int_equal(board_word_of(&read), board_word_of(&some_call));
    board_set_gated(calls, 1, false);
    assert_false(board_is_gated(calls, 1));
    board_set_gated(calls, 1, true);
    board_end(calls, 1);
    assert_false(board_is_gated(calls, 1)); /* it is over */
    board_begin(calls, &some_call, 1 + BOARD_CALLS);
    assert_false(board_is_gated(calls, 1 + BOARD_CALLS));
}

static void the_latest_calls_are_remembered(void **state)
{
    struct board_call *calls = board_calls(*state, SIZE, 0, 0);
    struct call_description read;
    for (uint64_t k = 1; k <= 3 * BOARD_CALLS; k++) {
        struct call_description call = some_call;
        call.count = k;
        board_begin(calls, &call, k);
        board_end(calls, k);
    }
    assert_int_equal(board_begun(calls), 3 * BOARD_CALLS);
    for (uint64_t k = 1; k <= 3 * BOARD_CALLS + 1; k++) {
        const bool known = board_read_call(calls, k, &read);
        assert_int_equal(known, k > 2 * BOARD_CALLS && k <= 3 * BOARD_CALLS);
        if (known) assert_int_equal(read.count, k);
    }
}

static void foreign_nonsense_reads_as_some_call(void **state)
{
    struct board_call *calls = board_calls(*state, SIZE, 0, 0);
    struct call_description read;
    char text[96];
    for (uint64_t seed = 1; seed < 2000; seed++) {
        struct board_call *call = &calls[seed % BOARD_CALLS];
        atomic_store(&call->what, (uint32_t)(seed * 0x9e3779b9u));
        atomic_store(&call->root, (int32_t)(seed * 0x85ebca6bu));
        atomic_store(&call->count, seed * 0x9e3779b97f4a7c15u);
        atomic_store(&call->begun, seed);
        assert_true(board_read_call(calls, seed, &read));
        assert_true(read.collective < COLLECTIVE_COUNT);
        board_describe(&read, text, sizeof text);
        assert_true(strlen(text) < sizeof text);
    }
}

/* Every field of call k is a function of k. */
static void *keep_calling(void *memory)
{
    for (uint64_t k = 1; k <= CALLS; k++) {
        struct call_description call = some_call;
        call.signature = k * 3;
        call.count = k * 5;
        call.root = (int)k;
        board_begin(memory, &call, k);
        board_end(memory, k);
    }
    return NULL;
}

static void a_reader_never_mixes_two_calls(void **state)
{
    struct board_call *calls = board_calls(*state, SIZE, 2, 0);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, keep_calling, calls), 0);
    uint64_t begun = 0, mixed = 0;
    while (begun < CALLS) {
        begun = board_begun(calls);
        for (uint64_t k = begun > BOARD_CALLS ? begun - BOARD_CALLS : 1; k <= begun; k++) {
            struct call_description read;
            if (board_read_call(calls, k, &read) &&
                (read.signature != k * 3 || read.count != k * 5 || read.root != (int)k))
                mixed++;
        }
    }
    pthread_join(writer, NULL);
    assert_int_equal(mixed, 0);
    assert_false(board_is_engaged(calls));
}

static void descriptions_name_what_matters(void **state)
{
    (void)state;
    char text[96];
    board_describe(&some_call, text, sizeof text);
    assert_string_equal(text, "mesh_create()");
    struct call_description of_user = some_call;
    of_user.purpose = CALL_FOR_USER;
    board_describe(&of_user, text, sizeof text);
    assert_string_equal(text, "reduce_start(count 77, bfloat16, max, root 2)");
    struct call_description call = {
        .collective = COLLECTIVE_ALLREDUCE, .dtype = TUTTI_INT64, .count = 3};
    board_describe(&call, text, sizeof text);
    assert_string_equal(text, "allreduce(count 3, int64, sum)");
    call.collective = COLLECTIVE_BROADCAST;
    board_describe(&call, text, sizeof text);
    assert_string_equal(text, "broadcast(count 3, int64, root 0)");
    call.collective = COLLECTIVE_BARRIER;
    board_describe(&call, text, sizeof text);
    assert_string_equal(text, "barrier()");
}

static void descriptions_are_cut_to_their_place(void **state)
{
    (void)state;
    char whole[96];
    board_describe(&some_call, whole, sizeof whole);
    for (size_t bytes = 1; bytes < sizeof whole; bytes++) {
        char *const text = malloc(bytes); /* so that a sanitizer sees the end */
        assert_non_null(text);
        board_describe(&some_call, text, bytes);
        assert_true(strlen(text) < bytes);
        assert_memory_equal(text, whole, strlen(text));
        free(text);
    }
}

static void the_first_failure_wins(void **state)
{
    struct board *board = *state;
    struct tutti_failure failure;
    assert_int_equal(board_failure(board, &failure), TUTTI_OK);
    assert_int_equal(failure.culprit, -1);
    assert_false(board_has_failed(board));
    const struct board_failure first = {.status = TUTTI_MISMATCH,
                                        .culprit = 5, /* on another host */
                                        .reporter = 2,
                                        .culprit_pid = 123,
                                        .sequence = 44,
                                        .message = "first"},
                               second = {
                                   .status = TUTTI_ABORTED, .sequence = 45, .message = "second"};
    assert_true(board_fail(board, &first));
    assert_false(board_fail(board, &second));
    assert_true(board_has_failed(board));
    assert_int_equal(board_failure(board, &failure), TUTTI_MISMATCH);
    assert_int_equal(failure.size_bytes, sizeof failure);
    assert_int_equal(failure.culprit, 5);
    assert_int_equal(failure.reporter, 2);
    assert_int_equal(failure.pid, 123);
    assert_int_equal(failure.sequence, 44);
    assert_string_equal(failure.message, "first");
}

static void long_messages_are_cut(void **state)
{
    char message[1000];
    memset(message, 'm', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    struct tutti_failure failure;
    const struct board_failure late = {
        .status = TUTTI_TIMEOUT, .culprit = -1, .sequence = 1, .message = message};
    assert_true(board_fail(*state, &late));
    assert_int_equal(board_failure(*state, &failure), TUTTI_TIMEOUT);
    assert_int_equal(strlen(failure.message), sizeof failure.message - 1);
    assert_int_equal(failure.pid, 0);
}

static void whom_a_rank_blames_is_told_with_the_time(void **state)
{
    struct board *board = *state;
    uint64_t then_ns;
    assert_int_equal(board_blame(board, 0, &then_ns), -1);
    board_set_blame(board, 0, 65535, UINT64_C(123456789000000));
    assert_int_equal(board_blame(board, 0, &then_ns), 65535);
    assert_int_equal(then_ns, UINT64_C(123456789000000));
    assert_int_equal(board_blame(board, 1, &then_ns), -1);
    assert_int_equal(board_thread(board, 0), 0);
    board_set_thread(board, 0, 4711);
    assert_int_equal(board_thread(board, 0), 4711);
    board_set_thread(board, 0, -3); /* foreign */
    assert_int_equal(board_thread(board, 0), 0);
}

static void a_reporter_that_died_halfway_is_a_failure(void **state)
{
    struct board *board = *state;
    struct tutti_failure failure;
    atomic_store(&board->failure_state, 1); /* claimed, never published */
    assert_int_equal(board_failure(board, &failure), TUTTI_PROC_FAILED);
    assert_int_equal(failure.culprit, -1);
}

static void a_status_that_is_none_becomes_internal(void **state)
{
    struct board *board = *state;
    struct tutti_failure failure;
    const struct board_failure late = {.status = TUTTI_TIMEOUT, .sequence = 1, .message = ""};
    assert_true(board_fail(board, &late));
    for (int status = -3; status <= STATUS_COUNT + 3; status++) {
        if (status > TUTTI_IN_PROGRESS && status < STATUS_COUNT) continue;
        board->failure_status = status;
        assert_int_equal(board_failure(board, &failure), TUTTI_INTERNAL);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, create_board, free_board)
    const struct CMUnitTest tests[] = {
        TEST(ranks_come_and_leave),
        TEST(findings_hold_while_their_call_lasts),
        TEST(progress_of_both_forms_is_told),
        TEST(points_on_one_path_do_not_cross),
        TEST(a_rank_is_reported_once_in_ten_seconds),
        TEST(the_sequence_counts_calls_of_all_slots),
        TEST(ranks_agree_on_what_all_had),
        TEST(calls_of_ranks_and_slots_lie_apart_and_inside),
        TEST(a_call_is_read_as_it_was_written),
        TEST(a_call_that_waits_for_its_gate_says_so),
        TEST(the_latest_calls_are_remembered),
        TEST(foreign_nonsense_reads_as_some_call),
        TEST(a_reader_never_mixes_two_calls),
        TEST(descriptions_name_what_matters),
        TEST(descriptions_are_cut_to_their_place),
        TEST(the_first_failure_wins),
        TEST(long_messages_are_cut),
        TEST(whom_a_rank_blames_is_told_with_the_time),
        TEST(a_reporter_that_died_halfway_is_a_failure),
        TEST(a_status_that_is_none_becomes_internal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
