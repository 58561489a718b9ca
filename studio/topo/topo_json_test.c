#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/topo/path.h"
#include "studio/topo/topo_json.h"

static const char sample[] =
    "{ \"tutti_topology\": 1, \"comment\": \"two machines\",\n"
    "  \"root\": { \"kind\": \"rack\", \"name\": \"r\\u00e4ck\", \"children\": [\n"
    "    { \"kind\": \"switch\", \"id\": \"leaf\" },\n"
    "    { \"kind\": \"machine\", \"name\": \"a\", \"children\": [\n"
    "      { \"kind\": \"nic\", \"id\": \"a0\", \"bytes_per_second\": 12.5e9,\n"
    "        \"address\": \"0000:17:00.0\", \"up\": { \"bytes_per_second\": 15.75e9, \"known\": "
    "\"nominal\" } },\n"
    "      { \"kind\": \"cache\", \"cache_level\": 3, \"bytes\": 33554432, \"ranks\": [0, 1] } ] "
    "},\n"
    "    { \"kind\": \"machine\", \"name\": \"b\", \"number\": 7, \"ranks\": [2],\n"
    "      \"up\": { \"latency_ns\": 0.1 },\n"
    "      \"children\": [ { \"kind\": \"nic\", \"id\": \"b0\" } ] } ] },\n"
    "  \"links\": [\n"
    "    { \"ends\": [\"leaf\", \"a0\"], \"bytes_per_second\": 12.5e9, \"latency_ns\": 900, "
    "\"known\": "
    "\"measured\" },\n"
    "    { \"ends\": [\"b0\", \"leaf\"] } ] }\n";

static struct topo loaded(const char *text, size_t size)
{
    struct topo topo;
    if (topo_json_load(text, size, &topo) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    return topo;
}

static char *dumped(const struct topo *topo, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    assert_non_null(file);
    assert_int_equal(topo_json_dump(topo, file), TUTTI_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void everything_that_is_written_is_read(void **state)
{
    (void)state;
    struct topo topo = loaded(sample, sizeof sample - 1);
    struct topo_reach reach;
    assert_int_equal(topo.node_count, 10);
    assert_string_equal(topo.nodes[0].name, "r\xc3\xa4"
                                            "ck");
    assert_int_equal(topo.nodes[3].kind, TOPO_NIC);
    assert_string_equal(topo.nodes[3].address, "0000:17:00.0");
    assert_true(topo.nodes[3].bytes_per_second == 12.5e9);
    assert_int_equal(topo.nodes[4].cache_level, 3);
    assert_true(topo.nodes[4].bytes == 32 << 20);
    assert_int_equal(topo.nodes[6].number, 1);
    assert_int_equal(topo.nodes[7].number, 7);
    assert_int_equal(topo.link_count, 4);
    assert_int_equal(topo.links[0].ends[1], 2); /* up */
    assert_int_equal(topo.links[0].known, TOPO_NOMINAL);
    assert_true(topo.links[1].latency_ns == 0.1);
    assert_int_equal(topo.links[3].ends[0], 9);
    assert_int_equal(topo.links[3].known, TOPO_ASSUMED);
    assert_int_equal(topo_path(&topo, 0, 2, &reach), TUTTI_OK);
    assert_true(reach.bytes_per_second == 12.5e9);
    topo_release(&topo);
}

static void what_is_dumped_comes_back_equal(void **state)
{
    (void)state;
    struct topo topo = loaded(sample, sizeof sample - 1);
    size_t size, again_size;
    char *text = dumped(&topo, &size);
    struct topo again = loaded(text, size);
    assert_true(topo_equal(&topo, &again));
    char *again_text = dumped(&again, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(text, again_text, size);
    free(text);
    free(again_text);
    topo_release(&topo);
    topo_release(&again);
}

/* Text and what the message must have: the line, and words. */
static const struct {
    const char *text, *line, *words;
} wrong[] = {
    {"", "line 1: ", "near end of file"},
    {"{\n\"tutti_topology\": 1,\n\"root\" }", "line 3: ", "':' expected"},
    {"[]", "line 1: ", "an object"},
    {"{\"root\": {\"kind\": \"machine\"}}", "line 1: ", "1 is expected"},
    {"{\n\"tutti_topology\":\n2}", "line 3: ", "1 is expected"},
    {"{\"tutti_topology\": 1}", "line 1: ", "\"root\" is expected"},
    {"{\"tutti_topology\": 1, \"root\": 3}", "line 1: ", "an object"},
    {"{\"tutti_topology\": 1,\n\"root\": {\"kind\": \"machine\"},\n\"lniks\": []}",
     "line 3: ", "tutti_topology, root, links"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\"}, \"root\": 1}",
     "line 1: ", "duplicate"},
    {"{\"tutti_topology\": 1, \"root\": {\n\"name\": \"x\"}}", "line 1: ", "one of cluster, rack"},
    {"{\"tutti_topology\": 1, \"root\": {\n\"kind\":\n \"sofa\"}}", "line 3: ", "accelerator, rank"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"number\": 1.5}}",
     "line 2: ", "whole number"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"number\": -1}}",
     "line 2: ", "whole number"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"bytes_per_second\": 1e300}}",
     "line 2: ", "1e18"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"name\": \"01234567890123456789"
     "0123456789012345678901234567890123456789abcd\"}}",
     "line 2: ", "at most 63 bytes"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"name\": \"a\\nb\"}}",
     "line 1: ", "printable"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"up\": {}}}",
     "line 2: ", "stands in nothing"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"children\": 1}}",
     "line 2: ", "a list"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"ranks\": [0, 1,\n65536]}}",
     "line 3: ", "65535"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\",\n\"ranks\": [0, 1,\n0]}}",
     "line 3: ", "another rank"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"rack\", \"children\": [\n{\"kind\": "
     "\"rack\"},\n{\"kind\": \"core\"}]}}",
     "line 3: ", "a core: this kind stands in a machine only"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\", \"children\": [{\"kind\": "
     "\"cache\"}, "
     "\n{\"kind\": \"cache\"}]}}",
     "line 1: ", "level from 1 to 5"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"rack\", \"id\": \"a\", \"children\": "
     "[\n{\"kind\": "
     "\"rack\", \"id\": \"a\"}]}}",
     "line 2: ", "another node"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"rack\", \"id\": \"a\"}, \"links\": "
     "[\n{\"ends\": "
     "[\"a\",\n\"b\"]}]}",
     "line 3: ", "no node has the id \"b\""},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"rack\", \"id\": \"a\"}, \"links\": "
     "[\n{\"ends\": "
     "[\"a\"]}]}",
     "line 2: ", "two nodes"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"rack\", \"id\": \"a\"}, \"links\": "
     "[\n{\"ends\": "
     "[\"a\", \"a\"]}]}",
     "line 2: ", "a link: both ends"},
    {"{\"tutti_topology\": 1, \"root\": {\"kind\": \"rack\", \"id\": \"a\", \"children\": "
     "[{\"kind\": "
     "\"rack\", \"id\": \"b\"}]}, \"links\": [{\"ends\": [\"a\", \"b\"],\n\"known\": "
     "\"perhaps\"}]}",
     "line 2: ", "assumed, nominal or measured"},
};

static void what_is_wrong_is_told_with_its_line_and_what_is_expected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct topo topo;
        assert_int_equal(topo_json_load(wrong[i].text, strlen(wrong[i].text), &topo),
                         TUTTI_INVALID_OPTIONS);
        assert_null(topo.nodes);
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
        struct topo topo;
        char *text = malloc(size + 1); /* so that sanitizers see its end */
        assert_non_null(text);
        memcpy(text, sample, size);
        assert_int_equal(topo_json_load(text, size, &topo), TUTTI_INVALID_OPTIONS);
        free(text);
    }
}

static void nesting_has_a_bound(void **state)
{
    (void)state;
    char text[4096] = "{\"tutti_topology\": 1, \"root\": ";
    struct topo topo;
    for (int i = 0; i < 40; i++) strcat(text, "{\"kind\": \"rack\", \"children\": [\n");
    strcat(text, "{\"kind\": \"rack\"}");
    for (int i = 0; i < 40; i++) strcat(text, "]}");
    strcat(text, "}");
    assert_int_equal(topo_json_load(text, strlen(text), &topo), TUTTI_INVALID_OPTIONS);
    assert_string_equal(tutti_error_message(), "line 34: nested too deeply");
}

static void nodes_in_any_order_are_written_below_their_parents(void **state)
{
    (void)state;
    struct topo topo = {0};
    const struct topo_node machine = {.kind = TOPO_MACHINE, .parent = -1, .number = -1};
    assert_int_equal(topo_add_node(&topo, &machine, NULL), TUTTI_OK);
    static const int parents[] = {0, 0, 1, 2, 1};
    for (int i = 0; i < 5; i++) {
        const struct topo_node node = {.kind = TOPO_PACKAGE, .parent = parents[i], .number = i};
        assert_int_equal(topo_add_node(&topo, &node, NULL), TUTTI_OK);
    }
    size_t size;
    char *text = dumped(&topo, &size);
    struct topo again = loaded(text, size);
    static const int order[] = {0, 2, 4, 1, 3}; /* numbers, by where they stand in the text */
    for (int i = 0; i < 5; i++) assert_int_equal(again.nodes[i + 1].number, order[i]);
    free(text);
    topo_release(&topo);
    topo_release(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_is_written_is_read),
        cmocka_unit_test(what_is_dumped_comes_back_equal),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line_and_what_is_expected),
        cmocka_unit_test(every_text_that_ends_too_early_is_refused),
        cmocka_unit_test(nesting_has_a_bound),
        cmocka_unit_test(nodes_in_any_order_are_written_below_their_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
