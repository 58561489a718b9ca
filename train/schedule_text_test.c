/* Schedules as text: a printed one can be read again, and a mistake is named by its line. Pictures
 * hold every pass.
 *
 * ctest: label=notsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/train/schedules.h"
#include "tutti/train/pipeline.h"

static char *text_of(const struct tutti_schedule *schedule)
{
    size_t bytes;
    assert_int_equal(tutti_schedule_text(schedule, NULL, 0, &bytes), TUTTI_OK);
    char *const text = malloc(bytes);
    assert_non_null(text);
    assert_int_equal(tutti_schedule_text(schedule, text, bytes, NULL), TUTTI_OK);
    assert_int_equal(strlen(text) + 1, bytes);
    return text;
}

static char *picture_of(const struct tutti_schedule *schedule, enum tutti_schedule_picture picture)
{
    size_t bytes;
    assert_int_equal(tutti_schedule_draw(schedule, NULL, picture, NULL, 0, &bytes), TUTTI_OK);
    char *const text = malloc(bytes);
    assert_non_null(text);
    assert_int_equal(tutti_schedule_draw(schedule, NULL, picture, text, bytes, NULL), TUTTI_OK);
    assert_int_equal(strlen(text) + 1, bytes);
    return text;
}

static struct tutti_schedule *make(const char *name, int p, int m, int v)
{
    const struct tutti_schedule_shape shape = {p, m, v};
    struct tutti_schedule *schedule;
    assert_int_equal(tutti_schedule_create(name, &shape, &schedule), TUTTI_OK);
    return schedule;
}

static void expect_same(const struct tutti_schedule *one, const struct tutti_schedule *other)
{
    struct tutti_schedule_shape shape, other_shape;
    tutti_schedule_describe(one, &shape);
    tutti_schedule_describe(other, &other_shape);
    assert_memory_equal(&shape, &other_shape, sizeof shape);
    for (int s = 0; s < shape.stage_count; s++) {
        size_t count, other_count;
        const struct tutti_schedule_action *const a = tutti_schedule_actions(one, s, &count);
        const struct tutti_schedule_action *const b = tutti_schedule_actions(other, s, &other_count);
        assert_int_equal(count, other_count);
        assert_memory_equal(a, b, count * sizeof *a);
    }
}

static void what_is_printed_is_read_again(void **state)
{
    (void)state;
    struct chance chance = {3, 0};
    for (int turn = 0; turn < 200; turn++) {
        const struct tutti_schedule_shape shape = {1 + chance_below(&chance, 4),
                                                   1 + chance_below(&chance, 12),
                                                   1 + chance_below(&chance, 3)};
        struct tutti_schedule *const schedule = schedules_random(&chance, &shape), *again;
        assert_non_null(schedule);
        char *const text = text_of(schedule);
        assert_int_equal(tutti_schedule_parse(text, strlen(text), &again), TUTTI_OK);
        expect_same(schedule, again);
        free(text);
        tutti_schedule_free(schedule);
        tutti_schedule_free(again);
    }
}

static void the_text_form_is_this(void **state)
{
    (void)state;
    struct tutti_schedule *const schedule = make("interleaved", 2, 2, 2);
    char *const text = text_of(schedule), part[10];
    size_t bytes;
    assert_string_equal(text, "schedule stages 2 micro_batches 2 chunks 2\n"
                              "stage 0: F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\n"
                              "stage 1: F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0\n");
    assert_int_equal(tutti_schedule_text(schedule, part, sizeof part, &bytes), TUTTI_OK);
    assert_string_equal(part, "schedule ");
    assert_int_equal(bytes, strlen(text) + 1);
    free(text);
    tutti_schedule_free(schedule);
}

static void comments_and_several_lines_of_a_stage_are_read(void **state)
{
    (void)state;
    static const char text[] = "# mine\n\n\tschedule stages 1 micro_batches 2 chunks 1 # two\r\n"
                               "stage 0: F0 # first\nstage 0: B0\n  stage 0: F1 B1.0";
    struct tutti_schedule *schedule;
    assert_int_equal(tutti_schedule_parse(text, sizeof text - 1, &schedule), TUTTI_OK);
    assert_int_equal(tutti_schedule_check(schedule), TUTTI_OK);
    char *const printed = text_of(schedule);
    assert_string_equal(printed,
                        "schedule stages 1 micro_batches 2 chunks 1\nstage 0: F0 B0 F1 B1\n");
    free(printed);
    tutti_schedule_free(schedule);
}

static void what_cannot_be_read_is_named_by_its_line(void **state)
{
    (void)state;
#define HEAD "schedule stages 2 micro_batches 3 chunks 2\n"
    static const char *const bad[][2] = {
        {"", "line 1: there is no 'schedule stages P micro_batches M chunks V'"},
        {"\nstage 0: F0",
         "line 2: the first line must be: schedule stages P micro_batches M chunks V"},
        {"schedule stages 2",
         "line 1: 'micro_batches' is missing: schedule stages P micro_batches M chunks V"},
        {"schedule stages x", "line 1: stages must be a number, is 'x'"},
        {"schedule stages 0 micro_batches 1 chunks 1",
         "line 1: stages must be from 1 to 1024, are 0"},
        {"schedule stages 99999999999 micro_batches 1 chunks 1",
         "line 1: stages must be a number, is '99999999999'"},
        {HEAD HEAD, "line 2: a second schedule"},
        {HEAD "rank 0: F0", "line 2: 'rank' is neither 'schedule' nor 'stage'"},
        {HEAD "stage 0 F0", "line 2: a number and a colon must follow 'stage'"},
        {HEAD "stage 2: F0", "line 2: there is no stage 2; stages are 0 to 1"},
        {HEAD "stage 0: F0 X1",
         "line 2: 'X1' is no pass: F or B, a micro-batch, and perhaps .CHUNK"},
        {HEAD "stage 0: F", "line 2: 'F' is no pass: F or B, a micro-batch, and perhaps .CHUNK"},
        {HEAD "stage 0: F1.",
         "line 2: 'F1.' is no pass: F or B, a micro-batch, and perhaps .CHUNK"},
        {HEAD "stage 0: F1.1x\a",
         "line 2: 'F1.1x?' is no pass: F or B, a micro-batch, and perhaps .CHUNK"},
        {HEAD "\nstage 0: B3", "line 3: 'B3': micro-batches are 0 to 2"},
        {HEAD "stage 1: B0.2", "line 2: 'B0.2': chunks are 0 to 1"},
        {HEAD "stage 1: F0 F0 F0 F0 F0 F0 F0 F0 F0 F0 F0 F0 F0",
         "line 2: stage 1 has more than 12 passes"},
        {"schedule stages 1 micro_batches 1 chunks 1 more", "line 1: what is 'more'?"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tutti_schedule *schedule;
        assert_int_equal(tutti_schedule_parse(bad[i][0], strlen(bad[i][0]), &schedule),
                         TUTTI_INVALID_OPTIONS);
        assert_null(schedule);
        assert_string_equal(tutti_error_message(), bad[i][1]);
    }
}

static void files_are_read(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti_schedule_XXXXXX";
    const int file = mkstemp(path);
    struct tutti_schedule *schedule;
    assert_true(file >= 0);
    assert_int_equal(write(file, HEAD "stage 0: F0 F9\n", 58), 58);
    assert_int_equal(tutti_schedule_load(path, &schedule), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), ": line 2: 'F9': micro-batches are 0 to 2"));
    assert_int_equal(ftruncate(file, 51), 0);
    assert_int_equal(tutti_schedule_load(path, &schedule), TUTTI_OK);
    tutti_schedule_free(schedule);
    close(file);
    unlink(path);
    assert_int_equal(tutti_schedule_load(path, &schedule), TUTTI_INVALID_OPTIONS);
    assert_null(schedule);
    assert_int_equal(tutti_schedule_load("/tmp", &schedule), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_schedule_free(NULL), TUTTI_OK);
}

/* ------------------------------------------------------------------------------------- pictures */

static void the_picture_for_a_terminal_is_this(void **state)
{
    (void)state;
    struct tutti_schedule *const schedule = make("1f1b", 3, 4, 1);
    char *const text = picture_of(schedule, TUTTI_SCHEDULE_PICTURE_TEXT);
    assert_string_equal(text, "stage 0 F0 F1 F2             B0--- F3 B1---    B2---    B3---\n"
                              "stage 1    F0 F1       B0--- F2 B1--- F3 B2---    B3---\n"
                              "stage 2       F0 B0--- F1 B1--- F2 B2--- F3 B3---\n");
    free(text);
    tutti_schedule_free(schedule);
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        count++;
    }
    return count;
}

static void an_svg_has_a_box_for_each_pass(void **state)
{
    (void)state;
    struct tutti_schedule *const schedule = make("interleaved", 4, 8, 2);
    char *const text = picture_of(schedule, TUTTI_SCHEDULE_PICTURE_SVG);
    for (const char *const *look =
             (const char *const[]){"\"F0\"", "\"F1\"", "\"B0\"", "\"B1\"", NULL};
         *look != NULL; look++) {
        const bool is_in_legend = look[0][2] == '0'; /* the first chunk's */
        assert_int_equal(count_of(text, *look), 4 * 8 + is_in_legend);
    }
    assert_int_equal(count_of(text, ">7</text>"), 4 * 4);
    assert_non_null(strstr(text, "step 57, idle over busy 18.75 %"));
    assert_true(strncmp(text, "<svg ", 5) == 0 && strstr(text, "</svg>\n")[7] == '\0');
    free(text);
    tutti_schedule_free(schedule);
}

static void pictures_that_nobody_can_look_at_are_refused(void **state)
{
    (void)state;
    struct tutti_schedule *const large = make("gpipe", 64, 1024, 1);
    struct tutti_schedule *const wide = make("gpipe", 1, 1000, 1);
    const struct tutti_schedule_times uneven = {sizeof uneven, 1e-90, 1e90, NULL};
    char text[10];
    assert_int_equal(
        tutti_schedule_draw(large, NULL, TUTTI_SCHEDULE_PICTURE_SVG, text, sizeof text, NULL),
        TUTTI_UNSUPPORTED);
    assert_int_equal(
        tutti_schedule_draw(wide, NULL, TUTTI_SCHEDULE_PICTURE_TEXT, text, sizeof text, NULL),
        TUTTI_UNSUPPORTED);
    assert_int_equal(
        tutti_schedule_draw(wide, &uneven, TUTTI_SCHEDULE_PICTURE_SVG, text, sizeof text, NULL),
        TUTTI_OK);
    assert_int_equal(
        tutti_schedule_draw(wide, NULL, (enum tutti_schedule_picture)7, text, sizeof text, NULL),
        TUTTI_INVALID_OPTIONS);
    tutti_schedule_free(large);
    tutti_schedule_free(wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_is_read_again),
        cmocka_unit_test(the_text_form_is_this),
        cmocka_unit_test(comments_and_several_lines_of_a_stage_are_read),
        cmocka_unit_test(what_cannot_be_read_is_named_by_its_line),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(the_picture_for_a_terminal_is_this),
        cmocka_unit_test(an_svg_has_a_box_for_each_pass),
        cmocka_unit_test(pictures_that_nobody_can_look_at_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
