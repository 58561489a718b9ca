/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Wishes for encodings: what their words mean, alone and in rules; what is wrong is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tune/rules.h"

static struct encoding_wish right(const char *text)
{
    struct encoding_wish wish;
    const char *const wrong = encoding_wish_parse(text, &wish);
    if (wrong != NULL) fail_msg("\"%s\": %s", text, wrong);
    return wish;
}

static void expect(const char *text, enum tutti_encoding encoding, enum encoded_links links,
                   bool is_required)
{
    const struct encoding_wish wish = right(text);
    assert_int_equal(wish.encoding, encoding);
    assert_int_equal(wish.links, links);
    assert_int_equal(wish.is_required, is_required);
}

static void words_mean_what_they_say(void **state)
{
    (void)state;
    expect("none", TUTTI_ENCODING_NONE, ENCODED_HOSTS, false);
    expect("bfloat16", TUTTI_ENCODING_BFLOAT16, ENCODED_HOSTS, false);
    expect("int8/racks", TUTTI_ENCODING_INT8, ENCODED_RACKS, false);
    expect("mxfp4/required", TUTTI_ENCODING_MXFP4, ENCODED_HOSTS, true);
    expect("fp8_e4m3/everywhere/required", TUTTI_ENCODING_FP8_E4M3, ENCODED_EVERYWHERE, true);
    expect("float16/allowed/hosts", TUTTI_ENCODING_FLOAT16, ENCODED_HOSTS, false);
}

static void other_words_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "/",
                                        "bfloat",
                                        "bfloat16/",
                                        "bfloat16//hosts",
                                        "bfloat16/host",
                                        "bfloat16/hosts/racks",
                                        "bfloat16/hosts/hosts",
                                        "bfloat16/allowed/required",
                                        "bfloat16/required/required",
                                        "a name that is longer than any"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct encoding_wish wish;
        assert_non_null(encoding_wish_parse(texts[i], &wish));
    }
}

static void numbers_keep_wishes_apart(void **state)
{
    (void)state;
    uint16_t seen[256];
    unsigned count = 0;
    for (int e = 0; e < ENCODING_COUNT; e++)
        for (int links = ENCODED_HOSTS; links <= ENCODED_EVERYWHERE; links++)
            for (int required = 0; required < 2; required++) {
                const struct encoding_wish wish = {(enum tutti_encoding)e,
                                                   (enum encoded_links)links, required != 0};
                const uint16_t packed = encoding_wish_pack(&wish);
                const struct encoding_wish back = encoding_wish_unpack(packed);
                assert_true(packed != 0 && back.encoding == wish.encoding &&
                            back.links == wish.links && back.is_required == wish.is_required);
                for (unsigned i = 0; i < count; i++) assert_int_not_equal(seen[i], packed);
                seen[count++] = packed;
            }
}

static void people_read_them(void **state)
{
    (void)state;
    char text[ENCODING_WISH_TEXT_MAX];
    const struct encoding_wish none = right("none"), some = right("fp8_e4m3/everywhere/required");
    encoding_wish_describe(&none, text, sizeof text);
    assert_string_equal(text, "none");
    encoding_wish_describe(&some, text, sizeof text);
    assert_string_equal(text, "fp8_e4m3 on all links, required");
}

static void the_last_rule_of_a_size_counts(void **state)
{
    (void)state;
    struct rules *rules;
    struct encoding_wish wish;
    assert_int_equal(rules_parse_encodings("allreduce:64k-=bfloat16,1m-2m=int8/racks/required;"
                                           "reduce=none",
                                           &rules),
                     TUTTI_OK);
    assert_false(rules_encode(rules, COLLECTIVE_ALLREDUCE, 65535, &wish));
    assert_false(rules_encode(rules, COLLECTIVE_BROADCAST, 1 << 20, &wish));
    assert_true(rules_encode(rules, COLLECTIVE_ALLREDUCE, 65536, &wish));
    assert_int_equal(wish.encoding, TUTTI_ENCODING_BFLOAT16);
    assert_true(rules_encode(rules, COLLECTIVE_ALLREDUCE, 1 << 20, &wish));
    assert_true(wish.encoding == TUTTI_ENCODING_INT8 && wish.is_required);
    assert_true(rules_encode(rules, COLLECTIVE_ALLREDUCE, 2 << 20, &wish));
    assert_int_equal(wish.encoding, TUTTI_ENCODING_BFLOAT16);
    assert_true(rules_encode(rules, COLLECTIVE_REDUCE, 0, &wish));
    assert_int_equal(wish.encoding, TUTTI_ENCODING_NONE);
    rules_free(rules);
    assert_false(rules_encode(NULL, COLLECTIVE_ALLREDUCE, 0, &wish));
}

static void messages_have_rules_as_well(void **state)
{
    (void)state;
    struct rules *rules;
    struct encoding_wish wish;
    assert_int_equal(rules_parse_encodings("send:4k-=int8;allreduce=bfloat16,1m-=none", &rules),
                     TUTTI_OK);
    assert_false(rules_encode(rules, RULES_MESSAGES, 4095, &wish));
    assert_true(rules_encode(rules, RULES_MESSAGES, 4096, &wish));
    assert_int_equal(wish.encoding, TUTTI_ENCODING_INT8);
    assert_true(rules_encode(rules, COLLECTIVE_ALLREDUCE, 4096, &wish));
    assert_int_equal(wish.encoding, TUTTI_ENCODING_BFLOAT16);
    rules_free(rules);
    /* Messages have no algorithms. */
    assert_int_equal(rules_parse("send=ring", &rules), TUTTI_INVALID_OPTIONS);
    assert_int_equal(rules_parse_encodings("allreduce=int8,send=int8", &rules),
                     TUTTI_INVALID_OPTIONS);
}

static void wrong_rules_say_where(void **state)
{
    (void)state;
    struct rules *rules;
    assert_int_equal(rules_parse_encodings("allreduce:64k-=ring", &rules), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "encoding rules, at \"ring\" (character 16)"));
    assert_int_equal(rules_parse_encodings("allreduce:^bfloat16", &rules), TUTTI_INVALID_OPTIONS);
    assert_int_equal(rules_parse_encodings("allred=bfloat16", &rules), TUTTI_INVALID_OPTIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_mean_what_they_say),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(numbers_keep_wishes_apart),
        cmocka_unit_test(people_read_them),
        cmocka_unit_test(the_last_rule_of_a_size_counts),
        cmocka_unit_test(messages_have_rules_as_well),
        cmocka_unit_test(wrong_rules_say_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
