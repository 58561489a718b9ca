#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "health/recorder.h"

static void begin(struct recorder *recorder, uint64_t number, size_t count)
{
    recorder_begin(recorder, number, clock_ticks(),
                   record_what(COLLECTIVE_REDUCE, TUTTI_FLOAT64, OP_MAX, 3, true, false, 2), count,
                   5, 0xfeedu + number, "ring");
}

static void a_message_has_an_encoding_in_the_place_of_an_op(void **state)
{
    (void)state;
    struct recorder recorder = {0};
    struct record record;
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    recorder_begin(&recorder, 1, clock_ticks(),
                   record_what(RECORD_RECV, TUTTI_FLOAT32, TUTTI_ENCODING_NONE, 3, true, false, 2),
                   77, 5, 9, NULL);
    assert_true(recorder_read(&recorder, 1, &record) && record.op == TUTTI_ENCODING_NONE);
    recorder_note_encoding(&recorder, 1, TUTTI_ENCODING_MXFP4);
    recorder_note_encoding(&recorder, 2, TUTTI_ENCODING_INT8); /* there is none */
    recorder_note_encoding(&recorder, 0, TUTTI_ENCODING_INT8);
    recorder_end(&recorder, 1, TUTTI_MISMATCH, false);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_int_equal(record.op, TUTTI_ENCODING_MXFP4);
    assert_true(record.kind == RECORD_RECV && record.dtype == TUTTI_FLOAT32 && record.slot == 3);
    assert_true(record.started && record.purpose == 2 && record.status == TUTTI_MISMATCH);
    recorder_release(&recorder);
}

static void what_was_recorded_is_read(void **state)
{
    (void)state;
    struct recorder recorder = {0};
    struct record record;
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    assert_int_equal((uintptr_t)recorder.entries % 64, 0);
    assert_false(recorder_read(&recorder, 1, &record));
    const uint64_t before_ns = clock_now_ns();
    begin(&recorder, 1, 77);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_int_equal(record.number, 1);
    assert_int_equal(record.kind, COLLECTIVE_REDUCE);
    assert_int_equal(record.dtype, TUTTI_FLOAT64);
    assert_int_equal(record.op, OP_MAX);
    assert_int_equal(record.slot, 3);
    assert_true(record.started && !record.varies);
    assert_int_equal(record.purpose, 2);
    assert_int_equal(record.count, 77);
    assert_int_equal(record.root, 5);
    assert_int_equal(record.signature, 0xfeedu + 1);
    assert_string_equal(record.algorithm, "ring");
    assert_int_equal(record.paths, 0);
    recorder_note_paths(&recorder, 1, path_bit(PATH_READ) | path_bit(PATH_STAGE));
    recorder_note_paths(&recorder, 2, path_bit(PATH_SLOT)); /* there is none */
    assert_true(recorder_read(&recorder, 1, &record));
    assert_true(record.count == 77 && record.paths == (path_bit(PATH_READ) | path_bit(PATH_STAGE)));
    assert_int_equal(record.end_ns, 0);
    assert_int_equal(record.waits_for, -1);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    recorder_end(&recorder, 1, TUTTI_TIMEOUT, false);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_int_equal(record.status, TUTTI_TIMEOUT);
    assert_string_equal(record_kind_name(record.kind), "reduce");
    /* The two clocks agree within what their pairs can tell. */
    assert_true(record.begin_ns + 1000000 >= before_ns);
    assert_true(record.end_ns <= clock_now_ns());
    assert_in_range(record.end_ns - record.begin_ns, 19000000, 5000000000u);
    assert_true(recorder_done_ns(&recorder) >= record.begin_ns);
    recorder_release(&recorder);
}

static void the_ring_keeps_the_last_ones(void **state)
{
    (void)state;
    enum { ALL = 3 * RECORDER_ENTRIES + 7 };
    struct recorder recorder = {0};
    struct record record;
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    for (uint64_t number = 1; number <= ALL; number++) {
        begin(&recorder, number, number);
        recorder_end(&recorder, number, TUTTI_OK, false);
    }
    const uint64_t first = recorder_first(ALL);
    assert_int_equal(ALL - first + 1, RECORDER_ENTRIES);
    for (uint64_t number = first; number <= ALL; number++) {
        assert_true(recorder_read(&recorder, number, &record));
        assert_int_equal(record.count, number);
    }
    assert_false(recorder_read(&recorder, first - 1, &record));
    assert_false(recorder_read(&recorder, ALL + 1, &record));
    assert_int_equal(recorder_first(3), 1);
    assert_int_equal(recorder.counts[COLLECTIVE_REDUCE].calls, ALL);
    assert_int_equal(recorder.counts[COLLECTIVE_REDUCE].bytes, 8 * (uint64_t)ALL * (ALL + 1) / 2);
    recorder_release(&recorder);
}

/* A started call may run while hundreds of blocking ones pass it. */
static void who_was_overtaken_writes_nothing(void **state)
{
    (void)state;
    struct recorder recorder = {0};
    struct record record;
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    begin(&recorder, 1, 1);
    begin(&recorder, 1 + RECORDER_ENTRIES, 2);
    recorder_end(&recorder, 1, TUTTI_TIMEOUT, false);
    recorder_wait(&recorder, 1, 4, clock_now_ns(), clock_now_ns());
    recorder_end(&recorder, 0, TUTTI_TIMEOUT, false);
    assert_true(recorder_read(&recorder, 1 + RECORDER_ENTRIES, &record));
    assert_int_equal(record.end_ns, 0);
    assert_int_equal(record.status, TUTTI_OK);
    assert_int_equal(record.waits_for, -1);
    recorder_release(&recorder);
}

static void who_is_waited_for_is_kept_with_since_when(void **state)
{
    (void)state;
    struct recorder recorder = {0};
    struct record record;
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    begin(&recorder, 1, 1);
    const uint64_t start_ns = clock_now_ns(), second = 1000000000;
    recorder_wait(&recorder, 1, 0, start_ns, start_ns + second);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_int_equal(record.waits_for, 0);
    assert_in_range(record.waits_since_ns, start_ns - 1000000, start_ns + 1000000);
    recorder_wait(&recorder, 1, 0, start_ns, start_ns + 2 * second); /* the same one: since then */
    assert_true(recorder_read(&recorder, 1, &record));
    assert_in_range(record.waits_since_ns, start_ns - 1000000, start_ns + 1000000);
    recorder_wait(&recorder, 1, 65535, start_ns, start_ns + 3 * second);
    recorder_set_stopped(&recorder, 1, 65535, true);
    recorder_wait(&recorder, 1, 65535, start_ns, start_ns + 4 * second);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_true(record.is_stopped);
    assert_int_equal(record.waits_for, 65535);
    assert_in_range(record.waits_since_ns, start_ns + 3 * second - 1000000,
                    start_ns + 3 * second + 1000000);
    recorder_set_stopped(&recorder, 1, 65535, false); /* it goes on */
    assert_true(recorder_read(&recorder, 1, &record));
    assert_false(record.is_stopped);
    assert_int_equal(record.waits_for, 65535);
    recorder_set_stopped(&recorder, 1, 65535, true);
    recorder_wait(&recorder, 1, 7, start_ns, start_ns + 5 * second);
    recorder_set_stopped(&recorder, 1, 65535, true); /* not this one */
    assert_true(recorder_read(&recorder, 1, &record));
    assert_int_equal(record.waits_for, 7);
    assert_false(record.is_stopped);
    recorder_release(&recorder);
}

static void that_a_call_waits_for_its_gate_is_kept(void **state)
{
    (void)state;
    struct recorder recorder = {.entries = NULL};
    struct record record;
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    for (uint64_t number = 1; number <= 2; number++) {
        begin(&recorder, number, number);
        assert_true(recorder_read(&recorder, number, &record) && !record.is_gated);
        recorder_set_gated(&recorder, number, true);
        assert_true(recorder_read(&recorder, number, &record) && record.is_gated);
    }
    recorder_set_gated(&recorder, 1, false);
    recorder_set_gated(&recorder, 1 + RECORDER_ENTRIES, true); /* is not there */
    recorder_end(&recorder, 1, TUTTI_OK, false);
    recorder_end(&recorder, 2, TUTTI_ABORTED, false); /* its gate never opened */
    assert_true(recorder_read(&recorder, 1, &record) && !record.is_gated);
    assert_true(recorder_read(&recorder, 2, &record) && record.is_gated);
    assert_int_equal(record.status, TUTTI_ABORTED);
    recorder_release(&recorder);
}

static void a_short_call_is_timed_once(void **state)
{
    (void)state;
    struct recorder recorder = {0};
    struct record record;
    const uint32_t what = record_what(COLLECTIVE_BARRIER, TUTTI_FLOAT32, OP_SUM, 0, false, false, 0);
    assert_int_equal(recorder_init(&recorder), TUTTI_OK);
    const uint64_t before_ns = clock_now_ns(), millisecond = 1000000;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    recorder_begin(&recorder, 1, 0, what, 0, 0, 0, NULL);
    assert_true(recorder_read(&recorder, 1, &record)); /* it has just begun */
    assert_in_range(record.begin_ns, before_ns + 19 * millisecond, clock_now_ns());
    recorder_begin(&recorder, 1, clock_ticks(), what, 0, 0, 0, NULL);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_true(record.begin_ns + 19 * millisecond <= clock_now_ns());
    recorder_end(&recorder, 1, TUTTI_OK, true);
    assert_true(recorder_read(&recorder, 1, &record));
    assert_int_equal(record.end_ns, record.begin_ns);
    recorder_begin(&recorder, 2, 0, what, 0, 0, 0, NULL); /* one that never waited */
    recorder_end(&recorder, 2, TUTTI_OK, true);
    assert_true(recorder_read(&recorder, 2, &record));
    assert_true(record.begin_ns >= before_ns + 39 * millisecond);
    assert_int_equal(record.end_ns, record.begin_ns);
    recorder_begin(&recorder, 3, clock_ticks(), what, 0, 0, 0, NULL);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    recorder_end(&recorder, 3, TUTTI_TIMEOUT, true); /* what fails is not short */
    assert_true(recorder_read(&recorder, 3, &record));
    assert_true(record.end_ns - record.begin_ns >= 19 * millisecond);
    recorder_release(&recorder);
}

/* ---------------------------------------------------------------------------- readers meanwhile */

struct race {
    struct recorder recorder;
    _Atomic uint64_t last;
    _Atomic bool is_over;
    uint64_t read, torn; /* the reader's */
};

static void *read_all(void *argument)
{
    struct race *race = argument;
    while (!atomic_load(&race->is_over)) {
        const uint64_t last = atomic_load(&race->last);
        for (uint64_t number = recorder_first(last); number <= last; number++) {
            struct record record;
            if (!recorder_read(&race->recorder, number, &record)) continue;
            race->read++;
            race->torn += record.count != number || record.signature != 0xfeedu + number;
        }
    }
    return NULL;
}

static void a_reader_never_sees_half_an_entry(void **state)
{
    (void)state;
    static struct race race;
    pthread_t reader;
    assert_int_equal(recorder_init(&race.recorder), TUTTI_OK);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &race), 0);
    for (uint64_t number = 1; number <= 200000; number++) {
        begin(&race.recorder, number, number);
        atomic_store(&race.last, number);
        recorder_end(&race.recorder, number, TUTTI_OK, false);
    }
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* it reads what lies still, at least */
    atomic_store(&race.is_over, true);
    pthread_join(reader, NULL);
    assert_true(race.read > 0);
    assert_int_equal(race.torn, 0);
    recorder_release(&race.recorder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_has_an_encoding_in_the_place_of_an_op),
        cmocka_unit_test(what_was_recorded_is_read),
        cmocka_unit_test(the_ring_keeps_the_last_ones),
        cmocka_unit_test(who_was_overtaken_writes_nothing),
        cmocka_unit_test(who_is_waited_for_is_kept_with_since_when),
        cmocka_unit_test(that_a_call_waits_for_its_gate_is_kept),
        cmocka_unit_test(a_short_call_is_timed_once),
        cmocka_unit_test(a_reader_never_sees_half_an_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
