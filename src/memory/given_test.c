#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/given.h"
#include "os/clock.h"
#include "tests/kit/chance.h"

static char memory[1000];

static void given_memory_is_found_with_its_whole_length(void **state)
{
    (void)state;
    struct given_range range;
    assert_false(given_find(memory, 1, &range));
    assert_int_equal(given_add(memory + 100, 200), TUTTI_OK);
    assert_true(given_find(memory + 100, 200, &range));
    assert_int_equal(range.begin, (uintptr_t)(memory + 100));
    assert_int_equal(range.end, (uintptr_t)(memory + 300));
    const uint64_t first = range.generation;
    assert_true(given_find(memory + 299, 1, &range));
    assert_false(given_find(memory + 99, 1, &range));
    assert_false(given_find(memory + 299, 2, &range));
    assert_int_equal(given_remove(memory + 100), TUTTI_OK);
    assert_false(given_find(memory + 100, 1, &range));
    assert_int_equal(given_add(memory + 100, 200), TUTTI_OK);
    assert_true(given_find(memory + 100, 200, &range));
    assert_true(range.generation > first);
    assert_int_equal(given_remove(memory + 100), TUTTI_OK);
}

static void expect_refusal(enum tutti_status status, enum tutti_status wanted, const char *why)
{
    assert_int_equal(status, wanted);
    if (strstr(tutti_error_message(), why) == NULL)
        fail_msg("'%s' has no '%s'", tutti_error_message(), why);
}

static void what_cannot_be_given_is_refused_with_the_reason(void **state)
{
    (void)state;
    expect_refusal(given_add(NULL, 5), TUTTI_INVALID_BUFFER, "NULL");
    expect_refusal(given_add(memory, 0), TUTTI_INVALID_BUFFER, "size_bytes is 0");
    expect_refusal(given_add(memory, SIZE_MAX), TUTTI_INVALID_COUNT, "address space");
    assert_int_equal(given_add(memory + 100, 100), TUTTI_OK);
    expect_refusal(given_add(memory + 100, 100), TUTTI_INVALID_BUFFER, "overlap");
    expect_refusal(given_add(memory + 199, 100), TUTTI_INVALID_BUFFER, "overlap");
    expect_refusal(given_add(memory, 101), TUTTI_INVALID_BUFFER, "overlap");
    expect_refusal(given_add(memory, 1000), TUTTI_INVALID_BUFFER, "overlap");
    assert_int_equal(given_add(memory + 200, 100), TUTTI_OK);
    expect_refusal(given_remove(memory), TUTTI_INVALID_BUFFER, "not the start");
    expect_refusal(given_remove(memory + 101), TUTTI_INVALID_BUFFER, "not the start");
    expect_refusal(given_remove(NULL), TUTTI_INVALID_BUFFER, "not the start");
    assert_int_equal(given_remove(memory + 100), TUTTI_OK);
    expect_refusal(given_remove(memory + 100), TUTTI_INVALID_BUFFER, "not the start");
    assert_int_equal(given_remove(memory + 200), TUTTI_OK);
}

static void memory_of_the_heap_is_refused(void **state)
{
    (void)state;
    void *ours;
    assert_int_equal(tutti_mem_alloc(10000, &ours), TUTTI_OK);
    expect_refusal(given_add(ours, 10000), TUTTI_INVALID_BUFFER, "tutti_mem_alloc");
    expect_refusal(given_add((char *)ours - 10, 11), TUTTI_INVALID_BUFFER, "tutti_mem_alloc");
    expect_refusal(given_add((char *)ours - 4096, (size_t)1 << 30), TUTTI_INVALID_BUFFER,
                   "tutti_mem_alloc");
    assert_int_equal(tutti_mem_free(ours), TUTTI_OK);
}

/* ------------------------------------------------------------------------------------ observers */

struct witness {
    struct given_observer observer;
    int calls;
    bool lets_go;
    struct given_range seen;
};

/* As a cache does whose driver looks for given memory meanwhile. */
static bool let_go(struct given_observer *observer, const struct given_range *range,
                   uint64_t deadline_ns)
{
    struct witness *const witness = (struct witness *)observer;
    struct given_range found;
    assert_true(deadline_ns > clock_now_ns());
    assert_false(given_find((void *)range->begin, 1, &found));
    witness->calls++;
    witness->seen = *range;
    return witness->lets_go;
}

static void memory_goes_when_all_observers_have_let_go(void **state)
{
    (void)state;
    struct witness a = {.observer.let_go = let_go, .lets_go = true}, b = a;
    struct given_range range;
    given_observe(&a.observer);
    given_observe(&b.observer);
    assert_int_equal(given_add(memory, 10), TUTTI_OK);
    b.lets_go = false;
    expect_refusal(given_remove(memory), TUTTI_IN_PROGRESS, "still uses");
    assert_true(given_find(memory, 10, &range));
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.seen.generation, range.generation);
    b.lets_go = true;
    assert_int_equal(given_remove(memory), TUTTI_OK);
    assert_int_equal(b.calls, 2);
    assert_true(a.calls > 0);
    given_observe_no_more(&a.observer);
    given_observe_no_more(&b.observer);
    assert_int_equal(given_add(memory, 10), TUTTI_OK);
    assert_int_equal(given_remove(memory), TUTTI_OK);
    assert_int_equal(b.calls, 2);
}

/* --------------------------------------------------------------------------------------- others */

static void a_child_has_none(void **state)
{
    (void)state;
    int fate;
    struct witness witness = {.observer.let_go = let_go, .lets_go = false};
    given_observe(&witness.observer);
    assert_int_equal(given_add(memory, 10), TUTTI_OK);
    const pid_t pid = fork();
    if (pid == 0) {
        struct given_range range;
        const bool is_good = !given_find(memory, 1, &range) &&
                             given_remove(memory) == TUTTI_INVALID_BUFFER &&
                             given_add(memory, 10) == TUTTI_OK &&
                             given_remove(memory) == TUTTI_OK && witness.calls == 0;
        _exit(is_good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &fate, 0), pid);
    assert_int_equal(fate, 0);
    struct given_range range;
    assert_true(given_find(memory, 10, &range));
    given_observe_no_more(&witness.observer);
    assert_int_equal(given_remove(memory), TUTTI_OK);
}

enum { THREADS = 4, PART_BYTES = sizeof memory / THREADS };

static void *give_and_take(void *context)
{
    char *const part = context;
    struct chance chance = {.seed = (uintptr_t)(part - memory)};
    bool is_good = true;
    for (int turn = 0; turn < 2000 && is_good; turn++) {
        const size_t begin = (size_t)chance_below(&chance, PART_BYTES);
        const size_t bytes = 1 + (size_t)chance_below(&chance, (int)(PART_BYTES - begin));
        struct given_range range;
        is_good = given_add(part + begin, bytes) == TUTTI_OK &&
                  given_find(part + begin, bytes, &range) && range.end - range.begin == bytes &&
                  given_remove(part + begin) == TUTTI_OK && !given_find(part + begin, 1, &range);
    }
    return is_good ? NULL : part;
}

static void threads_give_and_take_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, give_and_take, memory + t * PART_BYTES),
                         0);
    for (int t = 0; t < THREADS; t++) {
        void *bad;
        pthread_join(threads[t], &bad);
        assert_null(bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_memory_is_found_with_its_whole_length),
        cmocka_unit_test(what_cannot_be_given_is_refused_with_the_reason),
        cmocka_unit_test(memory_of_the_heap_is_refused),
        cmocka_unit_test(memory_goes_when_all_observers_have_let_go),
        cmocka_unit_test(a_child_has_none),
        cmocka_unit_test(threads_give_and_take_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
