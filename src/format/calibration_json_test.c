#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/calibration_json.h"
#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

static const char sample[] =
    "{ \"tutti_calibration\": 1, \"comment\": \"by hand\",\n"
    "  \"machine\": { \"cpu_model\": \"EPYC \\u00e4\", \"cpu_count\": 2, \"cpus_a_cache\": 1,\n"
    "    \"cache_bytes\": [32768, 524288, 33554432], \"kernel_release\": \"6.1\",\n"
    "    \"cards\": \"eth0\", \"host_count\": 4, \"rank_count\": 8 },\n"
    "  \"loaded\": true,\n"
    "  \"parameters\": {\n"
    "    \"turn_ps\": { \"value\": 1234567, \"spread_permille\": 20, \"known\": \"measured\" },\n"
    "    \"card_burst_bytes\": { \"value\": 4096 } },\n"
    "  \"within\": { \"slot\": { \"sender_ps\": 7, \"receiver_byte_fs\": 8, \"known\": "
    "\"measured\" } },\n"
    "  \"between\": { \"direct\": { \"receiver_ps\": 9 } } }\n";

static struct calibration shipped(void)
{
    struct calibration calibration;
    calibration_init(&calibration, local_paths(false), tcp_paths());
    return calibration;
}

static struct calibration loaded(const char *text, size_t size)
{
    struct calibration calibration = shipped();
    if (calibration_json_load(text, size, &calibration) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    return calibration;
}

static char *dumped(const struct calibration *calibration, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    assert_non_null(file);
    assert_int_equal(calibration_json_dump(calibration, file), TUTTI_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void everything_that_is_written_is_read(void **state)
{
    (void)state;
    const struct calibration calibration = loaded(sample, sizeof sample - 1), before = shipped();
    const struct hardware *hardware = &calibration.key.hardware;
    assert_true(calibration.is_loaded);
    assert_string_equal(hardware->cpu_model, "EPYC \xc3\xa4");
    assert_int_equal(hardware->cpu_count, 2);
    assert_int_equal(hardware->cpus_a_cache, 1);
    assert_int_equal(hardware->cache_bytes[2], 32 << 20);
    assert_int_equal(hardware->cache_bytes[3], 0);
    assert_string_equal(hardware->kernel_release, "6.1");
    assert_string_equal(hardware->cards, "eth0");
    assert_int_equal(calibration.key.host_count, 4);
    assert_int_equal(calibration.key.rank_count, 8);
    const struct calibration_number *turn = &calibration.numbers[CALIBRATION_turn_ps];
    assert_int_equal(turn->value, 1234567);
    assert_int_equal(turn->spread_permille, 20);
    assert_int_equal(turn->known, CALIBRATION_MEASURED);
    assert_int_equal(calibration.numbers[CALIBRATION_card_burst_bytes].value, 4096);
    assert_int_equal(calibration.numbers[CALIBRATION_card_burst_bytes].known, CALIBRATION_ASSUMED);
    const struct calibration_path *slot = &calibration.paths[CALIBRATION_WITHIN][PATH_SLOT];
    assert_int_equal(slot->values[CALIBRATION_PATH_sender_ps], 7);
    assert_int_equal(
        slot->values[CALIBRATION_PATH_receiver_ps],
        before.paths[CALIBRATION_WITHIN][PATH_SLOT].values[CALIBRATION_PATH_receiver_ps]);
    assert_int_equal(slot->values[CALIBRATION_PATH_receiver_byte_fs], 8);
    assert_int_equal(slot->known, CALIBRATION_MEASURED);
    const struct calibration_path *direct = &calibration.paths[CALIBRATION_BETWEEN][PATH_DIRECT];
    assert_int_equal(direct->values[CALIBRATION_PATH_receiver_ps], 9);
}

static void what_is_not_named_stays(void **state)
{
    (void)state;
    static const char text[] = "{\"tutti_calibration\": 1}";
    const struct calibration calibration = loaded(text, sizeof text - 1), before = shipped();
    assert_memory_equal(&calibration, &before, sizeof before);
}

static void what_is_dumped_comes_back_equal(void **state)
{
    (void)state;
    size_t size, again_size;
    const struct calibration calibration = loaded(sample, sizeof sample - 1);
    char *text = dumped(&calibration, &size);
    const struct calibration again = loaded(text, size);
    assert_memory_equal(&again, &calibration, sizeof again);
    char *again_text = dumped(&again, &again_size);
    assert_string_equal(text, again_text);
    free(text);
    free(again_text);
}

#define WHOLE "{\"tutti_calibration\": 1,\n"
/* Text and what the message must have: the line, and words. */
static const struct {
    const char *text, *line, *words;
} wrong[] = {
    {"", "line 1: ", "near end of file"},
    {"[]", "line 1: ", "an object"},
    {"{\n\"tutti_calibration\":\n2}", "line 3: ", "1 is expected"},
    {"{}", "line 1: ", "\"tutti_calibration\": 1 is expected"},
    {WHOLE "\"within\": 1}", "line 2: ", "\"within\": an object"},
    {WHOLE "\"machnie\": {}}", "line 2: ", "no \"machnie\" is known here, but tutti_calibration"},
    {WHOLE "\"loaded\": 1}", "line 2: ", "true or false"},
    {WHOLE "\"loaded\": true,\n\"loaded\": true}", "line 3: ", "duplicate"},
    {WHOLE "\"machine\": {\"speed\": 1}}", "line 2: ", "no \"speed\" is known here, but cpu_model"},
    {WHOLE "\"machine\": {\"cpu_model\": 1}}", "line 2: ", "a text of at most 95 bytes"},
    {WHOLE "\"machine\": {\n\"cards\": \"\\u001b[1m\"}}", "line 3: ", "printable"},
    {WHOLE "\"machine\": {\"cpu_count\": 2000}}", "line 2: ", "from 0 to 1024"},
    {WHOLE "\"machine\": {\"cpu_count\": -1}}", "line 2: ", "from 0 to 1024"},
    {WHOLE "\"machine\": {\"cache_bytes\": [1, 2, 3, 4, 5]}}", "line 2: ", "at most 4 numbers"},
    {WHOLE "\"machine\": {\"cache_bytes\": [1.5]}}", "line 2: ", "whole numbers"},
    {WHOLE "\"parameters\": {\"copy\\u001b\": {}}}", "line 2: ", "no \"copy?\" is known here"},
    {WHOLE "\"parameters\": {\"turn_ps\": 3}}", "line 2: ", "\"turn_ps\": an object"},
    {WHOLE "\"parameters\": {\"turn_ps\": {}}}", "line 2: ", "a \"value\" is expected"},
    {WHOLE "\"parameters\": {\n\"card_byte_fs\": {\n\"value\": 0}}}",
     "line 4: ", "from 1 to 1000000000"},
    {WHOLE "\"parameters\": {\"card_byte_fs\": {\"value\": 1.5}}}", "line 2: ", "whole number"},
    {WHOLE "\"parameters\": {\"turn_ps\": {\"value\": 1, \"known\":\n\"perhaps\"}}}",
     "line 3: ", "assumed or measured"},
    {WHOLE "\"parameters\": {\"turn_ps\": {\"value\": 1, \"spread\": 1}}}", "line 2: ", "\"spread\""},
    {WHOLE "\"between\": {\n\"forward\": {}}}", "line 3: ", "no \"forward\" is known here"},
    {WHOLE "\"within\": {\"slot\": {\"sender_ps\": 4294967296}}}", "line 2: ", "to 4294967295"},
    {WHOLE "\"within\": {\"slot\": {\"sender\": 1}}}", "line 2: ", "but spread_permille, known"},
};

static void what_is_wrong_is_told_with_its_line_and_what_is_expected(void **state)
{
    (void)state;
    const struct calibration before = shipped();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct calibration calibration = before;
        assert_int_equal(calibration_json_load(wrong[i].text, strlen(wrong[i].text), &calibration),
                         TUTTI_INVALID_OPTIONS);
        assert_memory_equal(&calibration, &before, sizeof before);
        const char *message = tutti_error_message();
        if (strncmp(message, wrong[i].line, strlen(wrong[i].line)) != 0 ||
            strstr(message, wrong[i].words) == NULL)
            fail_msg("%s\nsays: %s\nand not: %s...%s", wrong[i].text, message, wrong[i].line,
                     wrong[i].words);
    }
}

static void every_text_that_ends_too_early_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size + 3 < sizeof sample; size++) {
        struct calibration calibration = shipped();
        char *text = malloc(size + 1); /* so that sanitizers see its end */
        assert_non_null(text);
        memcpy(text, sample, size);
        assert_int_equal(calibration_json_load(text, size, &calibration), TUTTI_INVALID_OPTIONS);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_is_written_is_read),
        cmocka_unit_test(what_is_not_named_stays),
        cmocka_unit_test(what_is_dumped_comes_back_equal),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line_and_what_is_expected),
        cmocka_unit_test(every_text_that_ends_too_early_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
