#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/text.h"
#include "studio/plan/player.h"

static enum tutti_status write_player(const char *plan_text, const struct player_options *options,
                                      char **page, char *message, size_t message_bytes)
{
    struct plan *plan;
    char cause[200];
    if (plan_parse(plan_text, strlen(plan_text), &plan, cause, sizeof cause) != TUTTI_OK)
        fail_msg("%s", cause);
    size_t size;
    FILE *file = open_memstream(page, &size);
    assert_non_null(file);
    const enum tutti_status status = plan_write_player(plan, options, file, message, message_bytes);
    assert_int_equal(fclose(file), 0);
    plan_free(plan);
    return status;
}

static char *page_of(const char *plan_text, const struct player_options *options)
{
    char *page, message[200] = "";
    if (write_player(plan_text, options, &page, message, sizeof message) != TUTTI_OK)
        fail_msg("%s", message);
    return page;
}

static int count(const char *text, const char *word)
{
    int found = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word)) found++;
    return found;
}

static void contains(const char *page, const char *text)
{
    if (count(page, text) == 0) fail_msg("the page has no %s", text);
}

static const struct player_options plain = {.rounds = {.ports = 1}};

static const char exchange[] = "plan allreduce ranks 2 parts 1\n"
                               "rank 0\nlane 0\nin[0] -> to 1\nin[0] + from 1 -> out[0] final\n"
                               "rank 1\nlane 0\nin[0] -> to 0\nfrom 0 + in[0] -> out[0] final\n";

static void a_page_has_the_whole_run(void **state)
{
    (void)state;
    char *page = page_of(exchange, &plain);
    contains(page, "{\"title\": \"allreduce of 2 ranks\",");
    contains(page, "\"collective\": \"allreduce\", \"algorithm\": null,");
    contains(page, "\"ranks\": 2, \"root\": null, \"parts\": 1, \"cells\": 1,");
    contains(page,
             "\"rounds\": 1,\n\"proof\": null,\n\"busiest\": 1, \"least\": 1,\n\"hosts\": null");
    contains(page, "\"sets\": [\"1\", \"2\", \"3\"]");
    contains(page, "[0, 0, \"send\", \"0.0: in[0] -> to 1\", -1, 0, [0, 0]]");
    contains(page,
             "[1, 0, \"recv_reduce\", \"0.1: in[0] + from 1 -> out[0]  final\", 1, 0, [0, 2]]");
    contains(page, "\"frames\": [\n[0, 0, 0, 0, 1, 0, 0, 1],\n[0, 0, 0, 2, 1, 0, 0, 2]]}");
    assert_int_equal(count(page, "<h1>allreduce of 2 ranks</h1>"), 1);
    assert_int_equal(count(page, "<style>"), 1);
    assert_int_equal(count(page, "show();\n</script>"), 1);
    assert_int_equal(count(page, "{{plan}}"), 0);
    free(page);
}

static void what_is_known_besides_is_in_the_page(void **state)
{
    (void)state;
    static const double values[] = {0.1, -3e300};
    static const int hosts[] = {0, 1};
    const struct player_options options = {
        .rounds = {.ports = 2, .in_place = true, .example_values = values, .value_count = 1},
        .title = "a swap",
        .algorithm = "swap",
        .host_of = hosts,
        .proof = "rank 0: a \"race\"",
        .is_proven = false};
    char *page = page_of(exchange, &options);
    contains(page,
             "{\"title\": \"a swap\",\n\"collective\": \"allreduce\", \"algorithm\": \"swap\",");
    contains(page, "\"in_place\": true, \"ports\": 2,");
    contains(page, "\"proof\": {\"proven\": false, \"text\": \"rank 0: a \\\"race\\\"\"}");
    contains(page, "\"hosts\": [0, 1],");
    contains(page, "\"values\": [[0.1], [-3e+300]],");
    free(page);
}

static void a_plan_without_messages_has_two_frames(void **state)
{
    (void)state;
    char *page = page_of("plan allreduce ranks 1 parts 1\nrank 0\nlane 0\nin[0] -> out[0]", &plain);
    contains(page, "\"rounds\": 0,");
    contains(page, "\"busiest\": 0, \"least\": 0,");
    contains(page, "\"frames\": [\n[0, 0, 0, 0],\n[]]}");
    free(page);
    page = page_of("plan barrier ranks 2 parts 1\nrank 0\nlane 0\nin[] -> to 1\nfrom 1 -> out[]\n"
                   "rank 1\nlane 0\nin[] -> to 0\nfrom 0 -> out[]",
                   &plain);
    contains(page, "\"busiest\": null, \"least\": null,");
    free(page);
}

static void cells_of_an_alltoall_are_outputs_after_the_start(void **state)
{
    (void)state;
    static const char text[] =
        "plan alltoall ranks 2 parts 1\nrank 0\nscratch like 1\nlane 0\n"
        "in[1] -> scratch[0], to 1\nfrom 1 -> out[1]\n"
        "rank 1\nscratch like 2\nlane 0\nin[0] -> scratch[0], to 0\nfrom 0 -> out[0]";
    struct player_options options = plain;
    char *page = page_of(text, &options);
    contains(page, "\"frames\": [\n[0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 2, 1, 1, 1, 3, 1],\n"
                   "[0, 1, 2, 1, 1, 0, 1, 0]]}");
    free(page);
    options.rounds.in_place = true; /* and each has its own block already */
    page = page_of(text, &options);
    contains(page, "\n[0, 0, 0, 0, 0, 1, 2, 1, 1, 0, 1, 0, 1, 1, 3, 1]]}");
    free(page);
}

static void texts_cannot_break_the_page(void **state)
{
    (void)state;
    const struct player_options options = {.rounds = {.ports = 1},
                                           .title = "</script><!--<script>\"\\&\x01{{plan}}",
                                           .algorithm = "</script>",
                                           .proof = "</script>"};
    char *page = page_of(exchange, &options);
    assert_int_equal(count(page, "<script"), 2);
    assert_int_equal(count(page, "</script>"), 2);
    assert_int_equal(count(page, "<!--"), 1); /* the page's own */
    assert_int_equal(count(page, "\x01"), 0);
    assert_int_equal(count(page, "{\"title\": "), 1);
    contains(page,
             "{\"title\": \"\\u003c/script\\u003e\\u003c!--\\u003cscript\\u003e\\\"\\\\\\u0026"
             "\\u0001{{plan}}\",");
    assert_int_equal(count(page, ">&lt;/script&gt;&lt;!--&lt;script&gt;&quot;\\&amp;?{{plan}}</"),
                     2);
    contains(page, "\"algorithm\": \"\\u003c/script\\u003e\"");
    contains(page, "\"text\": \"\\u003c/script\\u003e\"");
    free(page);
}

static void nothing_is_written_when_it_cannot_be_shown(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
        enum tutti_status status;
    } cases[] = {
        {"plan allreduce ranks 1 parts 8193\nrank 0",
         "a page shows at most 8192 chunks on all ranks together, and this plan has 8193",
         TUTTI_UNSUPPORTED},
        {"plan alltoall ranks 2 parts 4000000\nrank 0\nrank 1",
         "a page shows at most 8192 chunks on all ranks together, and this plan has 16000000",
         TUTTI_UNSUPPORTED},
        {"plan allreduce ranks 2 parts 1\nrank 0\nlane 0\nfrom 1 -> out[0]\nrank 1",
         "the plan comes to a halt: nobody sends what is waited for", TUTTI_INVALID_ALGORITHM},
        {"plan allreduce ranks 1 parts 1\nrank 0\nscratch like 0\n", "", TUTTI_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *page, message[200] = "";
        assert_int_equal(write_player(cases[i].text, &plain, &page, message, sizeof message),
                         cases[i].status);
        assert_string_equal(message, cases[i].why);
        assert_int_equal(page[0] != '\0', cases[i].status == TUTTI_OK);
        free(page);
    }
}

static void limits_hold_to_the_last(void **state)
{
    (void)state;
    char text[4096] = "plan barrier ranks 65 parts 1\n", *page, message[200] = "";
    for (int rank = 0; rank < 65; rank++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "rank %d\n", rank);
    assert_int_equal(write_player(text, &plain, &page, message, sizeof message), TUTTI_UNSUPPORTED);
    assert_string_equal(message, "a page shows at most 64 ranks, and this plan has 65");
    free(page);
    memcpy(strstr(text, "65"), "64", 2);
    *strstr(text, "rank 64\n") = '\0';
    page = page_of(text, &plain);
    contains(page, "\"8000000000000000\"]");
    free(page);
    page = page_of("plan allreduce ranks 1 parts 8192\nrank 0", &plain);
    contains(page, "\"cells\": 8192,");
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_has_the_whole_run),
        cmocka_unit_test(what_is_known_besides_is_in_the_page),
        cmocka_unit_test(a_plan_without_messages_has_two_frames),
        cmocka_unit_test(cells_of_an_alltoall_are_outputs_after_the_start),
        cmocka_unit_test(texts_cannot_break_the_page),
        cmocka_unit_test(nothing_is_written_when_it_cannot_be_shown),
        cmocka_unit_test(limits_hold_to_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
