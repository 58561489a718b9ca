/* Messages arrive whole and in order at the ranks for which they are meant, or not at all. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "health/control_ring.h"

static struct control_ring *make_ring(void **state)
{
    (void)state;
    struct control_ring *ring = aligned_alloc(64, sizeof *ring);
    assert_non_null(ring);
    memset(ring, 0, sizeof *ring);
    return ring;
}

static void each_gets_its_own_in_order(void **state)
{
    struct control_ring *ring = make_ring(state);
    uint64_t written = 0, read[3] = {0};
    char bytes[CONTROL_RING_BYTES_MAX];
    size_t byte_count;
    assert_false(control_ring_read(ring, &read[1], 1, bytes, &byte_count));
    for (int round = 0; round < 10; round++) {
        control_ring_write(ring, &written, 1, "one", 4);
        control_ring_write(ring, &written, 2, "to the other", 13);
        control_ring_write(ring, &written, 1, "two", 4);
        assert_true(control_ring_read(ring, &read[1], 1, bytes, &byte_count));
        assert_int_equal(byte_count, 4);
        assert_string_equal(bytes, "one");
        assert_true(control_ring_read(ring, &read[1], 1, bytes, &byte_count));
        assert_string_equal(bytes, "two");
        assert_false(control_ring_read(ring, &read[1], 1, bytes, &byte_count));
        assert_true(control_ring_read(ring, &read[2], 2, bytes, &byte_count));
        assert_string_equal(bytes, "to the other");
        control_ring_write(ring, &written, CONTROL_RING_TO_ALL, "to all", 7);
        for (int self = 1; self < 3; self++) {
            assert_true(control_ring_read(ring, &read[self], self, bytes, &byte_count));
            assert_string_equal(bytes, "to all");
        }
        assert_false(control_ring_read(ring, &read[2], 2, bytes, &byte_count));
    }
    free(ring);
}

static void who_is_late_reads_the_last_ones(void **state)
{
    struct control_ring *ring = make_ring(state);
    uint64_t written = 0, read = 0;
    for (int i = 1; i <= 100; i++) control_ring_write(ring, &written, 0, &i, sizeof i);
    for (int i = 100 - CONTROL_RING_KEPT + 1; i <= 100; i++) {
        int got = 0;
        size_t byte_count;
        char bytes[CONTROL_RING_BYTES_MAX];
        assert_true(control_ring_read(ring, &read, 0, bytes, &byte_count));
        memcpy(&got, bytes, sizeof got);
        assert_int_equal(byte_count, sizeof got);
        assert_int_equal(got, i);
    }
    free(ring);
}

static void nonsense_in_a_ring_does_no_harm(void **state)
{
    struct control_ring *ring = make_ring(state);
    uint64_t read = 0;
    char bytes[CONTROL_RING_BYTES_MAX];
    size_t byte_count;
    memset(ring, 0xff, sizeof *ring);
    assert_false(control_ring_read(ring, &read, 0, bytes, &byte_count));
    for (int i = 0; i < CONTROL_RING_KEPT; i++) {
        atomic_store(&ring->messages[i].number, (uint64_t)(4 * CONTROL_RING_KEPT + i));
        atomic_store(&ring->messages[i].to, 0);
        atomic_store(&ring->messages[i].bytes, UINT32_MAX);
    }
    assert_false(control_ring_read(ring, &read, 0, bytes, &byte_count));
    free(ring);
}

/* While another thread writes, what is read is one message and not parts of several. */
enum { LETTERS = 200000 };

static void *write_many(void *argument)
{
    struct control_ring *ring = argument;
    uint64_t written = 0, words[CONTROL_RING_WORDS];
    for (uint64_t i = 1; i <= LETTERS; i++) {
        for (int w = 0; w < CONTROL_RING_WORDS; w++) words[w] = i;
        control_ring_write(ring, &written, 5, words, 8 * (1 + i % CONTROL_RING_WORDS));
    }
    return NULL;
}

static void a_message_is_read_whole(void **state)
{
    struct control_ring *ring = make_ring(state);
    pthread_t thread;
    uint64_t read = 0, last = 0;
    assert_int_equal(pthread_create(&thread, NULL, write_many, ring), 0);
    while (last < LETTERS) {
        uint64_t words[CONTROL_RING_WORDS];
        size_t byte_count;
        if (!control_ring_read(ring, &read, 5, words, &byte_count)) continue;
        assert_true(words[0] > last);
        last = words[0];
        assert_int_equal(byte_count, 8 * (1 + last % CONTROL_RING_WORDS));
        for (size_t w = 0; w < byte_count / 8; w++) assert_int_equal(words[w], last);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_its_own_in_order),
        cmocka_unit_test(who_is_late_reads_the_last_ones),
        cmocka_unit_test(nonsense_in_a_ring_does_no_harm),
        cmocka_unit_test(a_message_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
