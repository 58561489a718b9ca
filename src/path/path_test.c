/* Tables of paths: whether those of all transports make sense, and what a table without sense is
 * told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "path/path.h"

#define ANY                                                                            \
    .traffic = PATH_ANY_TRAFFIC, .readers = PATH_ANY_READERS, .cores = PATH_ANY_CORES, \
    .senders = PATH_ANY_SENDERS, .why = "a test"
#define ROW(name)                                                        \
    {                                                                    \
        .path = name, .alignment = 1, .in_flight = 1, .measured = "not", \
        .sender_memory = PATH_PRIVATE                                    \
    }

static const struct path_row rows[] = {ROW(PATH_READ), ROW(PATH_SLOT), ROW(PATH_INLINE),
                                       ROW(PATH_STAGE)};
static const struct path_rule rules[] = {
    {.path = PATH_READ, .bytes_min = 1000, .bytes_max = 2000, .readers_max = 3, ANY, .steps = PATH_SENDS},
    {.path = PATH_READ,
     .bytes_min = 500,
     .bytes_max = SIZE_MAX,
     .all_bytes_max = 4000,
     ANY,
     .steps = PATH_SENDS},
    {.path = PATH_INLINE, .bytes_max = 40, ANY, .steps = PATH_ANY_SENDER},
    {.path = PATH_SLOT, .bytes_min = 41, .bytes_max = SIZE_MAX, ANY, .steps = PATH_ANY_SENDER},
    {.path = PATH_STAGE, .bytes_max = SIZE_MAX, ANY, .steps = PATH_PASSES},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows, RULE_COUNT = sizeof rules / sizeof *rules };
static const struct path_table table = {.name = "a test's",
                                        .rows = rows,
                                        .row_count = ROW_COUNT,
                                        .rules = rules,
                                        .rule_count = RULE_COUNT,
                                        .sizes = PATH_SIZES};

static struct path_case message_of(size_t bytes)
{
    return (struct path_case){.bytes = bytes,
                              .traffic = PATH_SPREAD,
                              .readers = PATH_TO_ONE,
                              .step = PATH_SENDS,
                              .cores = PATH_OWN_CORES,
                              .senders = PATH_FEW_SENDERS,
                              .rank_count = 4};
}

static void expect_paths(const struct path_case *message, const char *expected)
{
    char text[100];
    const struct path_list list = path_choose(&table, message);
    path_describe(&list, text, sizeof text);
    assert_string_equal(text, expected);
}

static void paths_follow_the_order_of_rules_and_their_bounds(void **state)
{
    (void)state;
    const struct {
        size_t bytes;
        const char *paths;
    } cases[] = {{0, "inline"},        {40, "inline"},      {41, "slot"},
                 {499, "slot"},        {999, "read, slot"}, {1000, "read, slot"},
                 {2000, "read, slot"}, {2001, "slot"},      {SIZE_MAX, "slot"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct path_case message = message_of(cases[i].bytes);
        expect_paths(&message, cases[i].paths);
    }
    struct path_case message = message_of(1500);
    message.reader_count = 3;
    expect_paths(&message, "read, slot");
    message.reader_count = 4;
    expect_paths(&message, "slot");
    message = message_of(600);
    expect_paths(&message, "read, slot");
    message.rank_count = 7; /* 7 of them are too much together */
    expect_paths(&message, "slot");
    message.step = PATH_PASSES;
    expect_paths(&message, "slot, stage");
}

static void a_path_that_links_lack_is_in_no_list(void **state)
{
    (void)state;
    struct path_table without = table;
    const struct path_case message = message_of(1500);
    without.lacks = path_bit(PATH_READ);
    const struct path_list list = path_choose(&without, &message);
    assert_false(path_has(&list, PATH_READ));
    assert_true(path_has(&list, PATH_SLOT));
    assert_null(path_row_of(&without, PATH_READ));
    assert_int_equal(path_least_bytes(&without, PATH_READ), SIZE_MAX);
    assert_int_equal(path_least_bytes(&table, PATH_READ), 500);
    assert_int_equal(path_inline_bytes(&table), 40);
}

static void lists_have_in_common_what_both_have(void **state)
{
    (void)state;
    struct path_list list = {.count = 0}, other = {.count = 0};
    path_add(&list, PATH_READ), path_add(&list, PATH_COPY), path_add(&list, PATH_SLOT);
    path_add(&other, PATH_SLOT), path_add(&other, PATH_READ), path_add(&other, PATH_SLOT);
    assert_int_equal(other.count, 2);
    const struct path_list common = path_common(&list, &other);
    char text[40], cut[8];
    path_describe(&common, text, sizeof text);
    assert_string_equal(text, "read, slot"); /* in the order of the first */
    path_describe(&common, cut, sizeof cut);
    assert_string_equal(cut, "read, s");
}

/* Each mistake alone, in a copy of a table without one. */
static void tables_without_sense_are_refused(void **state)
{
    (void)state;
    assert_null(path_check(&table));
    for (int mistake = 0; mistake < 10; mistake++) {
        struct path_row wrong_rows[ROW_COUNT];
        struct path_rule wrong_rules[RULE_COUNT];
        struct path_table wrong = table;
        memcpy(wrong_rows, rows, sizeof rows);
        memcpy(wrong_rules, rules, sizeof rules);
        wrong.rows = wrong_rows, wrong.rules = wrong_rules;
        switch (mistake) {
        case 0: wrong.rule_count = 0; break;
        case 1: wrong_rows[0].path = PATH_SLOT; break;
        case 2: wrong_rows[1].in_flight = 0; break;
        case 3: wrong_rows[1].measured = NULL; break;
        case 4: wrong_rules[0].path = PATH_WRITE; break;
        case 5: wrong_rules[0].bytes_min = 3000; break;
        case 6: wrong_rules[1].why = NULL; break;
        case 7: wrong_rules[1].cores = 0; break;
        case 8: wrong_rules[3].bytes_min = 42; break; /* 41 bytes go nowhere */
        case 9: wrong_rules[3].readers = PATH_TO_GROUP; break;
        }
        if (path_check(&wrong) == NULL) fail_msg("mistake %d was not found", mistake);
    }
}

static void what_is_agreed_has_another_hash_when_it_differs(void **state)
{
    (void)state;
    struct path_table other = table;
    const struct path_map map = {.tables = {&table}}, other_map = {.tables = {&other}};
    other.sizes.stream_bytes_min *= 2; /* a matter of one rank */
    other.lacks = path_bit(PATH_READ);
    assert_true(path_agreed(&map) == path_agreed(&other_map));
    other.sizes.piece_bytes_max *= 2;
    assert_true(path_agreed(&map) != path_agreed(&other_map));
}

static void what_is_encoded_does_not_go_as_it_lies(void **state)
{
    (void)state;
    struct path_case message = {.bytes = 1500,
                                .traffic = PATH_EXCHANGE,
                                .readers = PATH_TO_ONE,
                                .step = PATH_SENDS,
                                .cores = PATH_OWN_CORES,
                                .senders = PATH_FEW_SENDERS,
                                .rank_count = 2};
    struct path_list list = path_choose(&table, &message);
    assert_true(path_has(&list, PATH_READ));
    message.is_encoded = true;
    list = path_choose(&table, &message);
    assert_false(path_has(&list, PATH_READ));
    assert_true(path_has(&list, PATH_SLOT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_follow_the_order_of_rules_and_their_bounds),
        cmocka_unit_test(a_path_that_links_lack_is_in_no_list),
        cmocka_unit_test(lists_have_in_common_what_both_have),
        cmocka_unit_test(what_is_encoded_does_not_go_as_it_lies),
        cmocka_unit_test(tables_without_sense_are_refused),
        cmocka_unit_test(what_is_agreed_has_another_hash_when_it_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
