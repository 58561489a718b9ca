#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/kept_text.h"

static void a_text_outlives_what_it_was_copied_from(void **state)
{
    (void)state;
    char text[] = "swap";
    const char *const kept = kept_text(text);
    memset(text, 'x', sizeof text - 1);
    assert_string_equal(kept, "swap");
    assert_ptr_not_equal(kept, text);
}

static void each_text_is_kept_once(void **state)
{
    (void)state;
    const char *const first = kept_text("one"), *const other = kept_text("other");
    assert_ptr_equal(kept_text("one"), first);
    assert_ptr_equal(kept_text("other"), other);
    assert_ptr_not_equal(first, other);
}

static char text_is_wrong[1];

static void *keep_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++) {
        char text[20];
        snprintf(text, sizeof text, "text %d", i % 100);
        const char *const kept = kept_text(text);
        if (kept == NULL || strcmp(kept, text) != 0) return text_is_wrong;
    }
    return NULL;
}

static void threads_may_keep_texts_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    void *wrong;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_many, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_outlives_what_it_was_copied_from),
        cmocka_unit_test(each_text_is_kept_once),
        cmocka_unit_test(threads_may_keep_texts_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
