/* The choice of a level: once a process, by its first threads at the same time, as TUTTI_KERNEL
 * says if that is available. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/option.h"
#include "kernel/kernel.h"

static enum kernel_level level_best(void)
{
    enum kernel_level best = KERNEL_SCALAR;
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++)
        if (kernel_level_available((enum kernel_level)level)) best = (enum kernel_level)level;
    return best;
}

static void *chosen_in_thread(void *result)
{
    *(enum kernel_level *)result = kernel_level_chosen();
    return NULL;
}

/* The level that a fresh process chooses. The process also copies, because a copy runs at the
 * chosen level. The parent must not have chosen yet. */
static int level_chosen_with(const char *wish)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        if (wish != NULL)
            setenv("TUTTI_KERNEL", wish, 1);
        else
            unsetenv("TUTTI_KERNEL");
        enum { THREADS = 4 };
        pthread_t threads[THREADS];
        enum kernel_level seen[THREADS];
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, chosen_in_thread, &seen[i]) != 0) _exit(100);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        const enum kernel_level level = kernel_level_chosen();
        for (int i = 0; i < THREADS; i++)
            if (seen[i] != level) _exit(101);
        setenv("TUTTI_KERNEL", "scalar", 1);
        if (kernel_level_chosen() != level) _exit(102); /* decided is decided */
        static unsigned char from[2000], to[2000];
        for (int i = 0; i < 2000; i++) from[i] = (unsigned char)(i * 7);
        kernel_copy_stream(to + 3, from + 1, 1990);
        if (memcmp(to + 3, from + 1, 1990) != 0 || to[2] != 0 || to[1993] != 0) _exit(103);
        _exit((int)level);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_environment_chooses_what_is_available(void **state)
{
    (void)state;
    const enum kernel_level best = level_best();
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        const bool available = kernel_level_available((enum kernel_level)level);
        assert_int_equal(level_chosen_with(kernel_level_name((enum kernel_level)level)),
                         available ? (int)level : (int)best);
    }
    assert_int_equal(level_chosen_with(NULL), best);
    assert_int_equal(level_chosen_with(""), best);
    assert_int_equal(level_chosen_with("AVX2"), best);
    assert_int_equal(level_chosen_with("avx2 "), best);
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(kernel_level_name(KERNEL_SCALAR), "scalar");
    assert_string_equal(kernel_level_name(KERNEL_AVX2), "avx2");
    assert_string_equal(kernel_level_name(KERNEL_AVX512), "avx512");
    assert_string_equal(kernel_level_name(KERNEL_NEON), "neon");
    assert_string_equal(kernel_level_name(KERNEL_LEVEL_COUNT), "unknown");
    for (int level = 0; level < KERNEL_LEVEL_COUNT; level++) { /* the table of options has them all */
        setenv("TUTTI_KERNEL", kernel_level_name((enum kernel_level)level), 1);
        assert_int_equal(option_wish(OPTION_KERNEL), level);
    }
    unsetenv("TUTTI_KERNEL");
    assert_true(kernel_level_available(KERNEL_SCALAR));
    assert_false(kernel_level_available(KERNEL_LEVEL_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(the_environment_chooses_what_is_available),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
