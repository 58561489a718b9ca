#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/mapping.h"

enum { PAGE = 4096 };

static char *map(void *at, size_t bytes, int flags, int fd)
{
    char *const memory =
        mmap(at, bytes, PROT_READ | PROT_WRITE, flags | (at != NULL ? MAP_FIXED : 0), fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void private_memory_has_its_outer_bounds(void **state)
{
    (void)state;
    uintptr_t begin, end;
    char *const room = map(NULL, 12 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    char *const memory = room + 2 * PAGE;
    /* A hole before it, two mappings of different protection, shared memory, and a hole. */
    assert_int_equal(munmap(room, 2 * PAGE), 0);
    assert_int_equal(mprotect(memory + 4 * PAGE, 2 * PAGE, PROT_READ), 0);
    map(memory + 6 * PAGE, 2 * PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    assert_int_equal(munmap(memory + 8 * PAGE, 2 * PAGE), 0);
    const uintptr_t at = (uintptr_t)memory;
    assert_true(mapping_is_private(at + PAGE, at + 2 * PAGE, &begin, &end));
    assert_int_equal(begin, at);
    assert_int_equal(end, at + 4 * PAGE);
    assert_true(mapping_is_private(at + 3 * PAGE, at + 5 * PAGE, &begin, &end));
    assert_int_equal(begin, at);
    assert_int_equal(end, at + 6 * PAGE);
    assert_false(mapping_is_private(at + 5 * PAGE, at + 7 * PAGE, &begin, &end));
    assert_false(mapping_is_private(at + 6 * PAGE, at + 7 * PAGE, &begin, &end));
    assert_false(mapping_is_private(at + 7 * PAGE, at + 9 * PAGE, &begin, &end));
    assert_false(mapping_is_private(at - PAGE, at + PAGE, &begin, &end));
    assert_false(mapping_is_private(at - PAGE, at, &begin, &end));
    munmap(memory, 8 * PAGE);
}

static void files_are_not_private_memory(void **state)
{
    (void)state;
    uintptr_t begin, end;
    const int fd = memfd_create("mapping-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    char *const copy = map(NULL, PAGE, MAP_PRIVATE, fd);
    assert_false(mapping_is_private((uintptr_t)copy, (uintptr_t)copy + PAGE, &begin, &end));
    munmap(copy, PAGE);
    close(fd);
}

static void what_malloc_gives_and_the_stack_are_private(void **state)
{
    (void)state;
    uintptr_t begin, end;
    char on_stack[100];
    char *const small = malloc(100), *const large = malloc((size_t)1 << 22);
    assert_true(mapping_is_private((uintptr_t)on_stack, (uintptr_t)on_stack + 100, &begin, &end));
    assert_true(begin <= (uintptr_t)on_stack);
    assert_true(mapping_is_private((uintptr_t)small, (uintptr_t)small + 100, &begin, &end));
    assert_true(mapping_is_private((uintptr_t)large, (uintptr_t)large + (1 << 22), &begin, &end));
    assert_true(end >= (uintptr_t)large + (1 << 22));
    free(large);
    free(small);
}

static void what_is_not_there_or_kept_out_is_not_readable(void **state)
{
    (void)state;
    char *const memory = map(NULL, 3 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(mprotect(memory, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(memory + PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(munmap(memory + 2 * PAGE, PAGE), 0);
    assert_false(mapping_is_readable(memory));
    assert_false(mapping_is_readable(memory + PAGE - 1));
    assert_true(mapping_is_readable(memory + PAGE));
    assert_true(mapping_is_readable(memory + 2 * PAGE - 1));
    assert_false(mapping_is_readable(memory + 2 * PAGE));
    munmap(memory, 2 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_memory_has_its_outer_bounds),
        cmocka_unit_test(files_are_not_private_memory),
        cmocka_unit_test(what_malloc_gives_and_the_stack_are_private),
        cmocka_unit_test(what_is_not_there_or_kept_out_is_not_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
