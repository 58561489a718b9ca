#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "team/host_levels.h"
#include "topo/racks.h"

enum { RANKS = 8 };

static const int host_of[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
/* Two racks in turns. */
static const char *const host_names[RANKS] = {"node0", "node4", "node1", "node5",
                                              "node2", "node6", "node3", "node7"};
static const char racks[] = "r0: node0 node1 node2 node3\nr1: node4 node5 node6 node7\n";

static struct topo read_racks(const char *text)
{
    struct topo topo;
    if (topo_racks_load(text, strlen(text), &topo) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    return topo;
}

static void make(struct host_levels *levels, const int *hosts, const char *const *names,
                 const struct topo *topo)
{
    if (host_levels_init(levels, RANKS, hosts, names, topo) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
}

static void without_a_topology_there_are_hosts(void **state)
{
    (void)state;
    static const int hosts[RANKS] = {7, 7, 3, 3, 7, 3, 3, 7};
    static const int order[RANKS] = {0, 1, 4, 7, 2, 3, 5, 6};
    struct host_levels levels;
    make(&levels, hosts, NULL, NULL);
    assert_int_equal(levels.levels.level_count, 1);
    assert_memory_equal(levels.levels.group_of[0], hosts, sizeof hosts);
    assert_memory_equal(levels.order, order, sizeof order);
    assert_int_equal(levels.host_count, 2);
    host_levels_release(&levels);
}

static void racks_bring_near_hosts_side_by_side(void **state)
{
    (void)state;
    static const int order[RANKS] = {0, 2, 4, 6, 1, 3, 5, 7};
    struct topo topo = read_racks(racks);
    struct host_levels levels;
    make(&levels, host_of, host_names, &topo);
    assert_int_equal(levels.levels.level_count, 2);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(levels.levels.group_of[1][r], levels.levels.group_of[1][r % 2]);
    assert_int_not_equal(levels.levels.group_of[1][0], levels.levels.group_of[1][1]);
    assert_memory_equal(levels.order, order, sizeof order);
    assert_int_equal(levels.host_count, 8);
    host_levels_release(&levels);
    topo_release(&topo);
}

static void halls_are_a_level_above_racks(void **state)
{
    (void)state;
    struct topo topo =
        read_racks("e/r0: node0 node1\ne/r1: node2 node3\nw/r0: node4 node5\nw/r1: node6 node7\n");
    struct host_levels levels;
    make(&levels, host_of, host_names, &topo);
    assert_int_equal(levels.levels.level_count, 3);
    assert_int_equal(levels.host_count, 8);
    host_levels_release(&levels);
    topo_release(&topo);
}

static void what_tells_nothing_apart_is_no_level(void **state)
{
    (void)state;
    struct topo topo = read_racks("r0: node0 node1 node2 node3 node4 node5 node6 node7 node8\n");
    struct host_levels levels;
    make(&levels, host_of, host_names, &topo);
    assert_int_equal(levels.levels.level_count, 1);
    assert_int_equal(levels.levels.level_count, 1);
    host_levels_release(&levels);
    topo_release(&topo);
}

static void names_may_differ_behind_the_first_dot(void **state)
{
    (void)state;
    struct topo topo = read_racks("r0: node0.a.org node1.a.org node2.a.org node3.a.org\n"
                                  "r1: node4 node5 node6 node7\n");
    struct host_levels levels;
    make(&levels, host_of, host_names, &topo);
    assert_int_equal(levels.levels.level_count, 2);
    host_levels_release(&levels);
    topo_release(&topo);
}

static void expect_refused(const char *text, const char *word, const char *other)
{
    struct topo topo = read_racks(text);
    struct host_levels levels;
    assert_int_equal(host_levels_init(&levels, RANKS, host_of, host_names, &topo),
                     TUTTI_INVALID_OPTIONS);
    if (strstr(tutti_error_message(), word) == NULL || strstr(tutti_error_message(), other) == NULL)
        fail_msg("%s", tutti_error_message());
    topo_release(&topo);
}

static void a_host_that_is_missing_is_named(void **state)
{
    (void)state;
    expect_refused("r0: node0 node1\nr1: node2 node3\n", "node4, which rank 1 is on",
                   "node0, node1, node2, node3");
    expect_refused("r0: node0.a node0.b node0 node1\nr1: node4.a node4.b\n", "2 machines", "node4");
}

static void fingerprints_tell_levels_apart(void **state)
{
    (void)state;
    static const int hosts[RANKS] = {0, 0, 1, 1, 2, 2, 3, 3},
                     renamed[RANKS] = {9, 9, 4, 4, 5, 5, 1, 1},
                     others[RANKS] = {0, 1, 0, 1, 2, 2, 3, 3};
    static const char *const names[RANKS] = {"a", "a", "b", "b", "c", "c", "d", "d"};
    struct topo one = read_racks("x: a b\ny: c d\n"), same = read_racks("p: d c\nq: a b\n"),
                other = read_racks("x: a c\ny: b d\n");
    const struct {
        const int *hosts;
        const struct topo *topo;
        bool is_same;
    } cases[] = {{hosts, &one, true},    {renamed, &one, true}, {hosts, &same, true},
                 {hosts, &other, false}, {hosts, NULL, false},  {others, NULL, false}};
    uint64_t expected = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host_levels levels;
        make(&levels, cases[i].hosts, names, cases[i].topo);
        if (i == 0) expected = levels.fingerprint;
        assert_int_equal(levels.fingerprint == expected, cases[i].is_same);
        host_levels_release(&levels);
    }
    topo_release(&one);
    topo_release(&same);
    topo_release(&other);
}

static void a_part_is_what_its_hosts_would_be(void **state)
{
    (void)state;
    static const int ranks[] = {6, 1, 0, 3}, hosts[] = {6, 1, 0, 3};
    static const char *const names[] = {"node3", "node4", "node0", "node5"};
    struct topo topo = read_racks(racks);
    struct host_levels whole, part, direct;
    make(&whole, host_of, host_names, &topo);
    assert_int_equal(host_levels_select(&part, &whole, ranks, 4), TUTTI_OK);
    assert_int_equal(host_levels_init(&direct, 4, hosts, names, &topo), TUTTI_OK);
    assert_int_equal(part.fingerprint, direct.fingerprint);
    assert_memory_equal(part.order, direct.order, sizeof(int) * 4);
    assert_int_equal(part.host_count, direct.host_count);
    host_levels_release(&part);
    host_levels_release(&direct);
    /* Ranks of one host. */
    assert_int_equal(host_levels_select(&part, &whole, ranks, 1), TUTTI_OK);
    assert_int_equal(part.host_count, 1);
    host_levels_release(&part);
    host_levels_release(&whole);
    topo_release(&topo);
}

/* ------------------------------------------------------------------------------------- the file */

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    setenv("TUTTI_TOPO_FILE", name, 1);
}

static void the_environment_names_the_file(void **state)
{
    (void)state;
    char name[] = "/tmp/tutti-racks-XXXXXX";
    const int fd = mkstemp(name);
    struct topo topo;
    assert_true(fd >= 0);
    close(fd);
    unsetenv("TUTTI_TOPO_FILE");
    assert_int_equal(host_levels_read_topology(&topo), TUTTI_OK);
    assert_int_equal(topo.node_count, 0);
    write_file(name, racks);
    assert_int_equal(host_levels_read_topology(&topo), TUTTI_OK);
    assert_int_equal(topo.node_count, 11);
    topo_release(&topo);
    write_file(name, "r0: a\nr1\n");
    assert_int_equal(host_levels_read_topology(&topo), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), name));
    assert_non_null(strstr(tutti_error_message(), "line 2"));
    write_file(name, " { \"tutti_topology\": 1 }");
    assert_int_equal(host_levels_read_topology(&topo), TUTTI_UNSUPPORTED);
    assert_non_null(strstr(tutti_error_message(), "tutti-topo"));
    unlink(name);
    assert_int_equal(host_levels_read_topology(&topo), TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), name));
    unsetenv("TUTTI_TOPO_FILE");
}

/* The block behind that mark in docs/how-to/topology.md. */
static char *documented(const char *mark)
{
    char path[4096];
    const char *root = getenv("TUTTI_ROOT");
    if (root == NULL) skip();
    snprintf(path, sizeof path, "%s/docs/how-to/topology.md", root);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_in_range(fread(text, 1, (1 << 16) - 1, file), 1, (1 << 16) - 2);
    fclose(file);
    char *begin = strstr(text, mark);
    assert_non_null(begin);
    begin = strchr(strstr(begin, "```"), '\n') + 1;
    char *const end = strstr(begin, "```");
    assert_non_null(end);
    memmove(text, begin, (size_t)(end - begin));
    text[end - begin] = '\0';
    return text;
}

static void the_documented_example_is_read(void **state)
{
    (void)state;
    char *text = documented("<!-- file racks.txt -->");
    struct topo topo = read_racks(text);
    struct host_levels levels;
    make(&levels, host_of, host_names, &topo);
    assert_int_equal(levels.host_count, 8);
    host_levels_release(&levels);
    topo_release(&topo);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_topology_there_are_hosts),
        cmocka_unit_test(racks_bring_near_hosts_side_by_side),
        cmocka_unit_test(halls_are_a_level_above_racks),
        cmocka_unit_test(what_tells_nothing_apart_is_no_level),
        cmocka_unit_test(names_may_differ_behind_the_first_dot),
        cmocka_unit_test(a_host_that_is_missing_is_named),
        cmocka_unit_test(fingerprints_tell_levels_apart),
        cmocka_unit_test(a_part_is_what_its_hosts_would_be),
        cmocka_unit_test(the_environment_names_the_file),
        cmocka_unit_test(the_documented_example_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
