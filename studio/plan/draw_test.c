#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/text.h"
#include "studio/plan/draw.h"

static enum tutti_status draw(const char *plan_text, const struct draw_options *options,
                              char **picture, const char **message)
{
    struct plan *plan;
    char cause[200];
    if (plan_parse(plan_text, strlen(plan_text), &plan, cause, sizeof cause) != TUTTI_OK)
        fail_msg("%s", cause);
    size_t size;
    FILE *file = open_memstream(picture, &size);
    assert_non_null(file);
    const enum tutti_status status = plan_draw_svg(plan, options, file, message);
    assert_int_equal(fclose(file), 0);
    plan_free(plan);
    return status;
}

static int count(const char *text, const char *word)
{
    int found = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word)) found++;
    return found;
}

/* Every element that is opened is closed, in order. */
static void assert_well_formed(const char *text)
{
    char open[16][16];
    int depth = 0;
    while ((text = strchr(text, '<')) != NULL) {
        const size_t length = strcspn(text, ">");
        assert_true(text[length] == '>');
        const bool closing = text[1] == '/';
        const size_t name_length = strcspn(text + 1 + closing, " >/");
        char name[16];
        assert_true(name_length < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)name_length, text + 1 + closing);
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (text[length - 1] != '/') {
            assert_true(depth < 16);
            strcpy(open[depth++], name);
        }
        text += length + 1;
    }
    assert_int_equal(depth, 0);
}

static const char exchange[] = "plan allreduce ranks 2 parts 1\n"
                               "rank 0\nlane 0\nin[0] -> to 1\nin[0] + from 1 -> out[0] final\n"
                               "rank 1\nlane 0\nin[0] -> to 0\nfrom 0 + in[0] -> out[0] final\n";

static void numbers_add_up_in_the_picture(void **state)
{
    (void)state;
    static const double values[] = {1.5, 40};
    const struct draw_options options = {
        .rounds = {.ports = 1, .example_values = values, .value_count = 1}};
    char *picture;
    const char *message;
    assert_int_equal(draw(exchange, &options, &picture, &message), TUTTI_OK);
    assert_well_formed(picture);
    assert_int_equal(count(picture, ">41.5</text>"), 2);
    assert_int_equal(count(picture, ">1.5</text>"), 2); /* in its box and under way */
    assert_int_equal(count(picture, ">recv_reduce</text>"), 2);
    assert_int_equal(count(picture, ">1 round, 2 messages</text>"), 1);
    free(picture);
}

static void hosts_are_framed(void **state)
{
    (void)state;
    static const int apart[] = {0, 1}, together[] = {3, 3};
    struct draw_options options = {.rounds = {.ports = 1}, .host_of = apart};
    char *picture;
    const char *message;
    assert_int_equal(draw(exchange, &options, &picture, &message), TUTTI_OK);
    assert_well_formed(picture);
    assert_int_equal(count(picture, "<rect class=\"y\""), 2);
    assert_int_equal(count(picture, ">host 0</text>"), 1);
    assert_int_equal(count(picture, ">host 1</text>"), 1);
    free(picture);
    options.host_of = together;
    assert_int_equal(draw(exchange, &options, &picture, &message), TUTTI_OK);
    assert_int_equal(count(picture, "<rect class=\"y\""), 1);
    assert_int_equal(count(picture, ">host 3</text>"), 1);
    free(picture);
    assert_int_equal(draw(exchange, NULL, &picture, &message), TUTTI_OK);
    assert_int_equal(count(picture, "<rect class=\"y\""), 0);
    free(picture);
}

static void contributions_are_named_without_numbers(void **state)
{
    (void)state;
    char *picture;
    const char *message;
    assert_int_equal(draw(exchange, NULL, &picture, &message), TUTTI_OK);
    assert_well_formed(picture);
    assert_int_equal(count(picture, ">all</text>"), 2);
    assert_int_equal(count(picture, ">allreduce of 2 ranks</text>"), 1);
    free(picture);
}

static void a_title_cannot_break_the_picture(void **state)
{
    (void)state;
    const struct draw_options options = {.title = "</text><script>&\x01", .rounds = {.ports = 1}};
    char *picture;
    const char *message;
    assert_int_equal(draw(exchange, &options, &picture, &message), TUTTI_OK);
    assert_well_formed(picture);
    assert_int_equal(count(picture, "&lt;/text&gt;&lt;script&gt;&amp;</text>"), 1);
    assert_int_equal(count(picture, "\x01"), 0);
    free(picture);
}

static void every_collective_can_be_drawn(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "plan reduce ranks 2 root 1 parts 2\nrank 0\nlane 0\nin[0..1] -> to 1\n"
        "rank 1\nlane 0\nfrom 0 + in[0..1] -> out[0..1] final",
        "plan broadcast ranks 2 root 0 parts 20\nrank 0\nlane 0\nin[0..19] -> out[0..19], to 1\n"
        "rank 1\nlane 0\nfrom 0 -> out[0..19]",
        "plan gather ranks 2 root 0 parts 1\nrank 0\nlane 0\nin[0] -> out[0]\nfrom 1 -> out[1]\n"
        "rank 1\nlane 0\nin[0] -> to 0",
        "plan scatter ranks 2 root 0 parts 2\nrank 0\nlane 0\nin[0..1] -> out[0..1]\n"
        "in[2..3] -> to 1\nrank 1\nlane 0\nfrom 0 -> out[0..1]",
        "plan allgather ranks 2 parts 1\nrank 0\nlane 0\nin[0] -> out[0], to 1\nfrom 1 -> out[1]\n"
        "rank 1\nlane 0\nin[0] -> out[1], to 0\nfrom 0 -> out[0]",
        "plan reduce_scatter ranks 2 parts 1\nrank 0\nlane 0\nin[1] -> to 1\n"
        "in[0] + from 1 -> out[0] final\n"
        "rank 1\nlane 0\nin[0] -> to 0\nfrom 0 + in[1] -> out[0] final",
        "plan alltoall ranks 2 parts 2\nrank 0\nlane 0\nin[0..1] -> out[0..1]\nin[2..3] -> to 1\n"
        "from 1 -> out[2..3]\n"
        "rank 1\nlane 0\nin[2..3] -> out[2..3]\nin[0..1] -> to 0\nfrom 0 -> out[0..1]",
        "plan barrier ranks 2 parts 1\nrank 0\nlane 0\nin[] -> to 1\nfrom 1 -> out[]\n"
        "rank 1\nlane 0\nin[] -> to 0\nfrom 0 -> out[]",
        "plan allreduce ranks 1 parts 1\nrank 0\nlane 0\nin[0] -> out[0]",
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char *picture;
        const char *message;
        if (draw(plans[i], NULL, &picture, &message) != TUTTI_OK) fail_msg("%s", message);
        assert_well_formed(picture);
        free(picture);
    }
}

static void a_row_is_the_one_above_and_what_has_changed(void **state)
{
    (void)state;
    char *picture;
    const char *message;
    assert_int_equal(draw("plan broadcast ranks 2 root 0 parts 8\nrank 0\nlane 0\n"
                          "in[0..7] -> out[0..7]\nout[0..3] -> to 1\nout[4..7] -> to 1\n"
                          "rank 1\nlane 0\nfrom 0 -> out[0..3]\nfrom 0 -> out[4..7]",
                          NULL, &picture, &message),
                     TUTTI_OK);
    assert_well_formed(picture);
    assert_int_equal(count(picture, ">2 rounds, 2 messages</text>"), 1);
    assert_int_equal(count(picture, "<use href=\"#r0\""), 1);
    assert_int_equal(count(picture, "<use href=\"#r1\""), 1);
    for (int chunk = 0; chunk < 8; chunk++) {
        char label[32];
        snprintf(label, sizeof label, ">%d</text>", chunk);
        assert_int_equal(count(picture, label), 2); /* once a rank, not once a row */
    }
    assert_int_equal(count(picture, "prefers-color-scheme:dark"), 1);
    free(picture);

    /* An all-to-all begins anew: what was there are inputs. */
    assert_int_equal(draw("plan alltoall ranks 2 parts 1\nrank 0\nlane 0\nin[0] -> out[0]\n"
                          "in[1] -> to 1\nfrom 1 -> out[1]\n"
                          "rank 1\nlane 0\nin[1] -> out[1]\nin[0] -> to 0\nfrom 0 -> out[0]",
                          NULL, &picture, &message),
                     TUTTI_OK);
    assert_int_equal(count(picture, "<use href=\"#r"), 0);
    free(picture);
}

static void rows_do_not_stand_on_one_another_without_end(void **state)
{
    (void)state;
    enum { RANKS = 15 };
    char text[4096] = "plan broadcast ranks 15 root 0 parts 1\n";
    for (int rank = 0; rank < RANKS; rank++) {
        char line[120];
        snprintf(line, sizeof line, "rank %d\nlane 0\n", rank);
        strcat(text, line);
        if (rank == 0)
            strcat(text, "in[0] -> out[0], to 1\n");
        else if (rank < RANKS - 1)
            snprintf(text + strlen(text), sizeof line, "from %d -> out[0], to %d\n", rank - 1,
                     rank + 1);
        else
            strcat(text, "from 13 -> out[0]\n");
    }
    char *picture;
    const char *message;
    assert_int_equal(draw(text, NULL, &picture, &message), TUTTI_OK);
    assert_well_formed(picture);
    assert_int_equal(count(picture, "<g id=\"r"), RANKS);
    assert_int_equal(count(picture, "<use href=\"#r"), RANKS - 2);
    assert_int_equal(count(picture, "<use href=\"#r11\""), 0);
    free(picture);
}

static void nothing_is_written_when_it_cannot_be_drawn(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {{"plan allreduce ranks 2 parts 1000\nrank 0\nrank 1",
                  "too many ranks or chunks for a picture"},
                 {"plan allreduce ranks 2 parts 1\nrank 0\nlane 0\nfrom 1 -> out[0]\nrank 1",
                  "the plan comes to a halt: nobody sends what is waited for"}};
    for (int i = 0; i < 2; i++) {
        char *picture;
        const char *message;
        assert_int_not_equal(draw(cases[i].text, NULL, &picture, &message), TUTTI_OK);
        assert_string_equal(message, cases[i].why);
        assert_string_equal(picture, "");
        free(picture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_add_up_in_the_picture),
        cmocka_unit_test(hosts_are_framed),
        cmocka_unit_test(contributions_are_named_without_numbers),
        cmocka_unit_test(a_title_cannot_break_the_picture),
        cmocka_unit_test(every_collective_can_be_drawn),
        cmocka_unit_test(a_row_is_the_one_above_and_what_has_changed),
        cmocka_unit_test(rows_do_not_stand_on_one_another_without_end),
        cmocka_unit_test(nothing_is_written_when_it_cannot_be_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
