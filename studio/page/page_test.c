/* Pages: parts stand where their marks were, and nothing that comes from outside is more than
 * text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/page/page.h"

static char *text;
static size_t size;

static FILE *begin(void)
{
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    return file;
}

static void expect(FILE *file, const char *expected)
{
    fclose(file);
    assert_string_equal(text, expected);
    free(text);
}

static void parts_stand_where_their_marks_were(void **state)
{
    (void)state;
    const struct page_part parts[] = {{"long", "{{n}}"}, {"n", "7"}, {.name = NULL}};
    FILE *file = begin();
    page_write("<b>{{n}}</b>{{long}}{{n}} {n}", parts, file);
    expect(file, "<b>7</b>{{n}}7 {n}"); /* a part is not searched for marks */
    file = begin();
    page_write("", parts, file);
    expect(file, "");
}

static void text_stays_text(void **state)
{
    (void)state;
    FILE *file = begin();
    page_print(file, "%s %d", "<i a=\"b\">&\x1b\xff", 3);
    expect(file, "&lt;i a=&quot;b&quot;&gt;&amp;?? 3");
    file = begin();
    page_print_json(file, "</script><!--\"\\\n\x7f\xc3\xa4&");
    expect(file, "\"\\u003c/script\\u003e\\u003c!--\\\"\\\\\\u000a\\u007f\xc3\xa4\\u0026\"");
}

static void a_text_that_is_too_long_is_cut_between_characters(void **state)
{
    (void)state;
    char longer[6000];
    for (size_t i = 0; i < sizeof longer - 2; i += 2) memcpy(longer + i, "\xc3\xa4", 2);
    memset(longer + sizeof longer - 2, 0, 2);
    FILE *file = begin();
    page_print(file, "%s", longer);
    fclose(file);
    assert_int_equal(size, 4095);
    assert_int_equal(text[4094], '?');
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_stand_where_their_marks_were),
        cmocka_unit_test(text_stays_text),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
