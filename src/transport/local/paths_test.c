/* The tables of shared memory: they make sense, and messages of send and recv go as
 * docs/explanation/performance.md says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "transport/local/paths.h"
#include "transport/paths.h"

static void tables_make_sense(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        const char *const why = path_check(local_paths(checks != 0));
        if (why != NULL) fail_msg("%s", why);
    }
    for (const char *const *name = transport_path_names(); *name != NULL; name++) {
        const char *const why = path_check(transport_paths(*name));
        if (why != NULL) fail_msg("%s: %s", *name, why);
    }
    assert_null(transport_paths("carrier pigeon"));
}

static bool is_copied(size_t bytes, enum path_traffic traffic, enum path_cores cores)
{
    const struct path_case message = {.bytes = bytes,
                                      .traffic = traffic,
                                      .readers = PATH_TO_ONE,
                                      .step = PATH_SENDS,
                                      .cores = cores,
                                      .senders = PATH_FEW_SENDERS,
                                      .rank_count = 2};
    const struct path_list paths = path_choose(local_paths(false), &message);
    return path_has(&paths, PATH_COPY);
}

static void messages_are_copied_by_their_reader_where_that_saves_time(void **state)
{
    (void)state;
    const size_t least = 16 << 10, most = 2 << 20;
    for (int shared = 0; shared < 2; shared++) {
        const enum path_cores cores = shared ? PATH_SHARED_CORES : PATH_OWN_CORES;
        assert_false(is_copied(least - 1, PATH_MESSAGE, cores));
        assert_true(is_copied(least, PATH_MESSAGE, cores) && is_copied(most, PATH_MESSAGE, cores));
        assert_int_equal(is_copied(most + 1, PATH_MESSAGE, cores), shared);
        assert_true(is_copied(most + 1, PATH_MESSAGE_BOTH_WAYS, cores));
    }
}

static void what_is_compared_goes_through_places_only(void **state)
{
    (void)state;
    for (unsigned i = 0; i < local_paths(true)->rule_count; i++) {
        const enum path_kind path = local_paths(true)->rules[i].path;
        assert_true(path_is_place(path) || path == PATH_STAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_make_sense),
        cmocka_unit_test(messages_are_copied_by_their_reader_where_that_saves_time),
        cmocka_unit_test(what_is_compared_goes_through_places_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
