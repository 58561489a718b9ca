#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/racks.h"

static struct topo loaded(const char *text)
{
    struct topo topo;
    if (topo_racks_load(text, strlen(text), &topo) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    return topo;
}

static int machine(const struct topo *topo, const char *name)
{
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_MACHINE && strcmp(topo->nodes[i].name, name) == 0) return i;
    fail_msg("no machine %s", name);
    return -1;
}

static const char *place(const struct topo *topo, const char *name, enum topo_kind kind)
{
    return topo->nodes[topo_place_of_machine(topo, machine(topo, name), kind)].name;
}

static void hosts_stand_in_racks(void **state)
{
    (void)state;
    struct topo topo =
        loaded("# two racks\n\n r0: a b.example.org # and a comment\nr1:\tc\r\nr0 : d");
    assert_int_equal(topo.node_count, 7);
    assert_string_equal(place(&topo, "a", TOPO_RACK), "r0");
    assert_string_equal(place(&topo, "b.example.org", TOPO_RACK), "r0");
    assert_string_equal(place(&topo, "c", TOPO_RACK), "r1");
    assert_string_equal(place(&topo, "d", TOPO_RACK), "r0");
    topo_release(&topo);
}

static void racks_stand_in_halls(void **state)
{
    (void)state;
    struct topo topo = loaded("east/r0: a\nwest/r0: b\neast/r1: c\nr0: d\n");
    assert_string_equal(place(&topo, "a", TOPO_CLUSTER), "east");
    assert_string_equal(place(&topo, "b", TOPO_CLUSTER), "west");
    assert_string_equal(place(&topo, "c", TOPO_CLUSTER), "east");
    assert_int_not_equal(topo_place_of_machine(&topo, machine(&topo, "a"), TOPO_RACK),
                         topo_place_of_machine(&topo, machine(&topo, "b"), TOPO_RACK));
    assert_int_equal(topo_place_of_machine(&topo, machine(&topo, "d"), TOPO_CLUSTER), 0);
    topo_release(&topo);
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {{"", "no host"},
                 {"# nothing\n", "no host"},
                 {"r0:", "no host"},
                 {"r0: a\nr1 b\n", "line 2"},
                 {"r0: a\n\n: b\n", "line 3: a name is missing"},
                 {"r0/: a\n", "line 1: a name is missing"},
                 {"a/b/c: d\n", "line 1: expected"},
                 {"r0: a:b\n", "line 1: a host's name"},
                 {"r0: a/b\n", "line 1: a host's name"},
                 {"r0: a\nr1: b a\n", "host a is there twice"},
                 {"r0: a\x01\n", "line 1: a character"},
                 {"0123456789012345678901234567890123456789012345678901234567890123: a\n",
                  "line 1: a name is too long"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo topo;
        assert_int_equal(topo_racks_load(cases[i].text, strlen(cases[i].text), &topo),
                         TUTTI_INVALID_OPTIONS);
        assert_int_equal(topo.node_count, 0);
        if (strstr(tutti_error_message(), cases[i].word) == NULL)
            fail_msg("\"%s\": %s", cases[i].text, tutti_error_message());
    }
}

static void a_zero_byte_is_no_end(void **state)
{
    (void)state;
    static const char text[] = "r0: a\0b\n";
    struct topo topo;
    assert_int_equal(topo_racks_load(text, sizeof text - 1, &topo), TUTTI_INVALID_OPTIONS);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const char text[] = "east/r0: a b\nwest/r0: c\nr5: d\n";
    struct topo topo = loaded(text);
    char *written = NULL;
    size_t size;
    FILE *file = open_memstream(&written, &size);
    assert_non_null(file);
    assert_int_equal(topo_racks_dump(&topo, file), TUTTI_OK);
    fclose(file);
    assert_string_equal(written, text);
    free(written);
    topo_release(&topo);
}

/* A machine, a switch beside it, and a link between its card and that. */
static void a_switch_that_a_link_leads_to_is_a_place(void **state)
{
    (void)state;
    struct topo topo = {0};
    static const struct topo_node nodes[] = {
        {.kind = TOPO_CLUSTER, .parent = -1, .number = -1},
        {.kind = TOPO_MACHINE, .parent = 0, .number = -1, .name = "a"},
        {.kind = TOPO_NIC, .parent = 1, .number = -1},
        {.kind = TOPO_SWITCH, .parent = 0, .number = -1, .name = "leaf"},
        {.kind = TOPO_MACHINE, .parent = 0, .number = -1, .name = "b c"}};
    char *written = NULL;
    size_t size;
    for (int i = 0; i < 4; i++) assert_int_equal(topo_add_node(&topo, &nodes[i], NULL), TUTTI_OK);
    assert_int_equal(topo_add_link(&topo, &(struct topo_link){.ends = {2, 3}}), TUTTI_OK);
    assert_int_equal(topo_place_of_machine(&topo, 1, TOPO_SWITCH), 3);
    assert_int_equal(topo_place_of_machine(&topo, 1, TOPO_RACK), -1);
    FILE *file = open_memstream(&written, &size);
    assert_non_null(file);
    assert_int_equal(topo_racks_dump(&topo, file), TUTTI_OK);
    fflush(file);
    assert_string_equal(written, "leaf: a\n");
    assert_int_equal(topo_add_node(&topo, &nodes[4], NULL), TUTTI_OK);
    assert_int_equal(topo_racks_dump(&topo, file), TUTTI_UNSUPPORTED);
    fclose(file);
    free(written);
    topo_release(&topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_stand_in_racks),
        cmocka_unit_test(racks_stand_in_halls),
        cmocka_unit_test(what_is_wrong_is_said_with_its_line),
        cmocka_unit_test(a_zero_byte_is_no_end),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_switch_that_a_link_leads_to_is_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
