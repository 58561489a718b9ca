#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/heap.h"

enum { PAGE = 4096, EXTENT_BYTES = 16 << 20 /* of the first */ };

static void *allocated(size_t bytes)
{
    void *memory = NULL;
    if (heap_allocate(bytes, &memory) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    return memory;
}

static size_t backed_bytes(void)
{
    struct stat stat;
    assert_int_equal(fstat(heap_location().fd, &stat), 0);
    return (size_t)stat.st_blocks * 512;
}

static void allocations_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 4096, 4097, 100000, 1 << 20, 5};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    unsigned char *memory[COUNT];
    for (int i = 0; i < COUNT; i++) {
        memory[i] = allocated(sizes[i]);
        assert_int_equal((uintptr_t)memory[i] % 64, 0);
        for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(memory[i][b], 0);
        memset(memory[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++)
        for (size_t b = 0; b < sizes[i]; b++) assert_int_equal(memory[i][b], i + 1);
    for (int i = 0; i < COUNT; i++) assert_int_equal(heap_free(memory[i]), TUTTI_OK);
    assert_int_equal(heap_location().fd, -1);
}

static void freed_memory_is_given_back_and_used_again(void **state)
{
    (void)state;
    assert_int_equal(heap_acquire(), TUTTI_OK);
    char *a = allocated(PAGE), *b = allocated(8 * PAGE), *c = allocated(PAGE);
    memset(b, 1, 8 * PAGE);
    assert_int_equal(backed_bytes(), 10 * PAGE);
    assert_int_equal(heap_free(b), TUTTI_OK);
    assert_int_equal(backed_bytes(), 2 * PAGE);
    char *d = allocated(5 * PAGE), *e = allocated(4 * PAGE), *f = allocated(3 * PAGE);
    assert_ptr_equal(d, b);
    for (size_t i = 0; i < 5 * PAGE; i++) assert_int_equal(d[i], 0);
    assert_true(e > c); /* does not fit into the hole that is left */
    assert_ptr_equal(f, b + 5 * PAGE);
    char *const all[] = {c, f, a, e, d};
    for (int i = 0; i < 5; i++) assert_int_equal(heap_free(all[i]), TUTTI_OK);
    assert_int_equal(backed_bytes(), 0);
    heap_release();
}

static void any_order_of_allocating_and_freeing_keeps_contents(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    unsigned char *memory[COUNT] = {0};
    size_t bytes[COUNT];
    uint64_t random = 12345;
    assert_int_equal(heap_acquire(), TUTTI_OK);
    for (int turn = 0; turn < 3000; turn++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int i = (int)(random >> 33) % COUNT;
        if (memory[i] == NULL) {
            bytes[i] = 1 + (random >> 40) % 30000;
            memory[i] = allocated(bytes[i]);
            assert_int_equal(memory[i][0] | memory[i][bytes[i] - 1], 0);
            memory[i][0] = memory[i][bytes[i] - 1] = (unsigned char)(i + 1);
        } else {
            assert_int_equal(memory[i][0], i + 1);
            assert_int_equal(memory[i][bytes[i] - 1], i + 1);
            assert_int_equal(heap_free(memory[i]), TUTTI_OK);
            memory[i] = NULL;
        }
    }
    for (int i = 0; i < COUNT; i++)
        if (memory[i] != NULL) assert_int_equal(heap_free(memory[i]), TUTTI_OK);
    heap_release();
}

static void addresses_are_found_with_their_whole_length(void **state)
{
    (void)state;
    uint64_t offset;
    int elsewhere = 0;
    assert_false(heap_find(&elsewhere, 1, &offset)); /* no heap at all */
    char *memory = allocated(3 * PAGE);
    assert_true(heap_find(memory, 3 * PAGE, &offset));
    assert_int_equal(offset, 0);
    assert_true(heap_find(memory + 100, 5, &offset));
    assert_int_equal(offset, 100);
    assert_false(heap_find(memory - 1, 1, &offset));
    assert_false(heap_find(&elsewhere, 1, &offset));
    assert_true(heap_find(memory, EXTENT_BYTES, &offset));
    assert_false(heap_find(memory, EXTENT_BYTES + 1, &offset));
    assert_false(heap_find(memory + 1, EXTENT_BYTES, &offset));
    assert_false(heap_find(memory + 1, SIZE_MAX, &offset));
    assert_int_equal(heap_free(memory), TUTTI_OK);
}

static void what_is_no_allocation_is_not_freed(void **state)
{
    (void)state;
    int elsewhere = 0;
    assert_int_equal(heap_free(&elsewhere), TUTTI_INVALID_BUFFER);
    char *memory = allocated(2 * PAGE);
    assert_int_equal(heap_free(memory + 1), TUTTI_INVALID_BUFFER);
    assert_int_equal(heap_free(memory + PAGE), TUTTI_INVALID_BUFFER);
    assert_int_equal(heap_acquire(), TUTTI_OK);
    assert_int_equal(heap_free(memory), TUTTI_OK);
    assert_int_equal(heap_free(memory), TUTTI_INVALID_BUFFER);
    heap_release();
    void *none = memory;
    assert_int_equal(heap_allocate((size_t)1 << 50, &none), TUTTI_NO_SPACE);
    assert_null(none);
    assert_int_equal(heap_location().fd, -1);
}

static void a_window_shows_the_memory_of_another_heap(void **state)
{
    (void)state;
    char *memory = allocated(2 * PAGE);
    memory[PAGE] = 42;
    struct heap_window *window, *same;
    const struct heap_location location = heap_location();
    assert_true(heap_is_reachable(&location));
    assert_int_equal(heap_window_acquire(&location, &window), TUTTI_OK);
    assert_int_equal(heap_window_acquire(&location, &same), TUTTI_OK);
    assert_ptr_equal(window, same);
    const char *view = heap_window_at(window, PAGE, 1);
    assert_non_null(view);
    assert_ptr_not_equal(view, memory + PAGE);
    assert_int_equal(*view, 42);
    memory[PAGE] = 43;
    assert_int_equal(*(const volatile char *)view, 43);
    assert_null(heap_window_at(window, heap_size(), 1));
    assert_null(heap_window_at(window, heap_size() + 1, 0));
    assert_null(heap_window_at(window, 1, heap_size()));
    assert_null(heap_window_at(window, UINT64_MAX, 1));
    assert_null(heap_window_at(window, 1, UINT64_MAX));
    assert_null(heap_window_at(window, EXTENT_BYTES - PAGE, PAGE + 1)); /* in two extents */
    assert_non_null(heap_window_at(window, EXTENT_BYTES - PAGE, PAGE));
    heap_window_release(window);
    view = heap_window_at(same, PAGE, 1);
    assert_non_null(view);
    assert_int_equal(*view, 43);
    heap_window_release(same);
    heap_window_release(NULL);
    assert_int_equal(heap_free(memory), TUTTI_OK);
}

/* A process does not believe what another process says of the place of a heap. */
static void what_is_no_heap_is_not_mapped(void **state)
{
    (void)state;
    struct heap_window *window;
    const int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, EXTENT_BYTES), 0);
    struct stat stat;
    assert_int_equal(fstat(fd, &stat), 0);
    struct heap_location location = {1, stat.st_ino, heap_size(), fd, getpid()};
    assert_false(heap_is_reachable(&location)); /* it could shrink */
    assert_int_equal(heap_window_acquire(&location, &window), TUTTI_OK);
    assert_null(heap_window_at(window, 0, 1));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_true(heap_is_reachable(&location));
    assert_non_null(heap_window_at(window, 0, 1));
    assert_null(heap_window_at(window, EXTENT_BYTES, 1)); /* beyond its end */
    heap_window_release(window);
    location.inode++; /* something else has that number by now */
    assert_false(heap_is_reachable(&location));
    location.inode--;
    location.pid = 0; /* not visible from here */
    assert_false(heap_is_reachable(&location));
    close(fd);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fstat(ends[0], &stat), 0);
    location = (struct heap_location){1, stat.st_ino, 1, ends[0], getpid()};
    assert_false(heap_is_reachable(&location));
    close(ends[0]);
    close(ends[1]);
}

static void *allocate_and_free(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++) {
        void *memory;
        if (heap_allocate((size_t)(1 + i % 7) * PAGE, &memory) != TUTTI_OK) return (void *)1;
        memset(memory, 1, PAGE);
        if (heap_free(memory) != TUTTI_OK) return (void *)1;
    }
    return NULL;
}

static void threads_share_the_heap(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, allocate_and_free, NULL), 0);
    for (int t = 0; t < 4; t++) {
        void *result;
        pthread_join(threads[t], &result);
        assert_null(result);
    }
    assert_int_equal(heap_location().fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_zeroed_and_apart),
        cmocka_unit_test(freed_memory_is_given_back_and_used_again),
        cmocka_unit_test(any_order_of_allocating_and_freeing_keeps_contents),
        cmocka_unit_test(addresses_are_found_with_their_whole_length),
        cmocka_unit_test(what_is_no_allocation_is_not_freed),
        cmocka_unit_test(a_window_shows_the_memory_of_another_heap),
        cmocka_unit_test(what_is_no_heap_is_not_mapped),
        cmocka_unit_test(threads_share_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
