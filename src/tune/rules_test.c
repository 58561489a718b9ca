#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tune/rules.h"

static struct rules *parsed(const char *text)
{
    struct rules *rules;
    if (rules_parse(text, &rules) != TUTTI_OK)
        fail_msg("\"%s\": %s", text != NULL ? text : "", tutti_error_message());
    return rules;
}

static void expect_wanted(const struct rules *rules, enum collective collective, size_t bytes,
                          const char *name)
{
    const struct algorithm *algorithm = NULL;
    unsigned radix;
    rules_wanted(rules, collective, bytes, &algorithm, &radix);
    const char *wanted = algorithm != NULL ? algorithm->name : NULL;
    if (name == NULL)
        assert_null(wanted);
    else
        assert_string_equal(wanted, name);
}

static void ranges_include_their_beginning_only(void **state)
{
    (void)state;
    struct rules *rules = parsed("allreduce:0-64k=oneshot,64k-=ring;broadcast=^tree");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 0, "oneshot");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 65535, "oneshot");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 65536, "ring");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, SIZE_MAX - 1, "ring");
    expect_wanted(rules, COLLECTIVE_REDUCE, 0, NULL);
    expect_wanted(rules, COLLECTIVE_BROADCAST, 10, NULL);
    assert_true(rules_forbids(rules, COLLECTIVE_BROADCAST, 10, "tree"));
    assert_false(rules_forbids(rules, COLLECTIVE_BROADCAST, 10, "chain"));
    assert_false(rules_forbids(rules, COLLECTIVE_ALLREDUCE, 10, "tree"));
    rules_free(rules);
}

static void files_count_when_they_are_known(void **state)
{
    (void)state;
    struct rules *rules =
        parsed("allreduce=ring,1m-=file:/a/b c.plan;broadcast=file:x.plan,tree;barrier=mesh");
    enum collective collective;
    const char *path;
    assert_int_equal(rules_file_count(rules), 2);
    rules_file(rules, 0, &collective, &path);
    assert_int_equal(collective, COLLECTIVE_ALLREDUCE);
    assert_string_equal(path, "/a/b c.plan");
    rules_file(rules, 1, &collective, &path);
    assert_int_equal(collective, COLLECTIVE_BROADCAST);
    assert_string_equal(path, "x.plan");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1 << 20, "ring");
    const struct algorithm own = {.name = "own"};
    rules_set_file(rules, 0, &own);
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1 << 20, "own");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1000, "ring");
    expect_wanted(rules, COLLECTIVE_BROADCAST, 1000, "tree");
    rules_set_file(rules, 0, NULL);
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1 << 20, "ring");
    rules_free(rules);
    assert_int_equal(rules_file_count(NULL), 0);
}

static void either_end_may_be_left_out(void **state)
{
    (void)state;
    struct rules *rules = parsed("reduce:-4096=direct,1m-2g=tree");
    expect_wanted(rules, COLLECTIVE_REDUCE, 4095, "direct");
    expect_wanted(rules, COLLECTIVE_REDUCE, 4096, NULL);
    expect_wanted(rules, COLLECTIVE_REDUCE, (1 << 20) - 1, NULL);
    expect_wanted(rules, COLLECTIVE_REDUCE, 1 << 20, "tree");
    expect_wanted(rules, COLLECTIVE_REDUCE, ((size_t)2 << 30) - 1, "tree");
    expect_wanted(rules, COLLECTIVE_REDUCE, (size_t)2 << 30, NULL);
    rules_free(rules);
}

static void later_entries_win(void **state)
{
    (void)state;
    struct rules *rules = parsed("allreduce=ring,1k-2k=tree;allreduce:1500-=chain");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 0, "ring");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1024, "tree");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1500, "chain");
    expect_wanted(rules, COLLECTIVE_ALLREDUCE, 1 << 20, "chain");
    rules_free(rules);
}

static void nothing_is_no_rules(void **state)
{
    (void)state;
    assert_null(parsed(NULL));
    assert_null(parsed(""));
    const struct algorithm *algorithm;
    unsigned radix;
    assert_false(rules_wanted(NULL, COLLECTIVE_ALLREDUCE, 1, &algorithm, &radix));
    assert_false(rules_forbids(NULL, COLLECTIVE_ALLREDUCE, 1, "ring"));
    rules_free(NULL);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"=ring", "character 1)"},
        {"allred=ring", "character 1)"},
        {"allreduce", "character 10)"},
        {"allreduce=", "character 11)"},
        {"allreduce=magic", "character 11)"},
        {"allreduce:tree extra", "character 15)"},
        {"allreduce:1k=ring", "character 13)"},
        {"allreduce:2k-1k=ring", "range is empty"},
        {"allreduce:5-5=ring", "range is empty"},
        {"allreduce:1k-2k", "character 16)"},
        {"allreduce:1k-x=ring", "character 14)"},
        {"allreduce:99999999999999999999-=ring", "size"},
        {"allreduce:18446744073709551615g-=ring", "size"},
        {"allreduce=ring;;", "character 16)"},
        {"allreduce=ring,", "character 16)"},
        {"allreduce=^^ring", "character 12)"},
        {"allreduce=file:", "the path of a file"},
        {"allreduce=^file:x", "no file can be forbidden"},
        {"gather=ring", "character 8)"},
        {"allreduce=averyveryveryverylongnamethatneverends", "name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rules *rules = (struct rules *)&rules;
        assert_int_equal(rules_parse(cases[i].text, &rules), TUTTI_INVALID_OPTIONS);
        assert_null(rules);
        if (strstr(tutti_error_message(), cases[i].place) == NULL)
            fail_msg("\"%s\": \"%s\" does not have %s", cases[i].text, tutti_error_message(),
                     cases[i].place);
    }
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct rules *rules;
    char *const text = malloc(5000);
    assert_non_null(text);
    strcpy(text, "barrier=tree");
    for (int i = 1; i < 256; i++) strcat(text, ",tree");
    assert_int_equal(rules_parse(text, &rules), TUTTI_OK);
    rules_free(rules);
    strcat(text, ",tree");
    assert_int_equal(rules_parse(text, &rules), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "too many"));
    memset(text, ';', 4999);
    text[4999] = '\0';
    assert_int_equal(rules_parse(text, &rules), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "longer"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_include_their_beginning_only),
        cmocka_unit_test(files_count_when_they_are_known),
        cmocka_unit_test(either_end_may_be_left_out),
        cmocka_unit_test(later_entries_win),
        cmocka_unit_test(nothing_is_no_rules),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
