#include "studio/synth/from_topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "studio/topo/topo_json.h"

#define ACCELERATOR(n)                          \
    "{\"kind\": \"accelerator\", \"id\": \"g" n \
    "\", \"children\": [{\"kind\": \"rank\", \"number\": " n "}]}"
#define HOST(n)                                                    \
    "{\"kind\": \"machine\", \"name\": \"h" n                      \
    "\", \"children\": [{\"kind\": \"nic\", \"id\": \"n" n "\"}, " \
    "{\"kind\": \"rank\", \"number\": " n "}]}"
#define LINK(a, b, rate, known) \
    "{\"ends\": [\"" a "\", \"" b "\"], \"bytes_per_second\": " rate ", \"known\": \"" known "\"}"
#define MACHINE(children, links)                                                         \
    "{\"tutti_topology\": 1, \"root\": {\"kind\": \"machine\", \"children\": [" children \
    "]}, \"links\": [" links "]}"
#define CLUSTER(children, links)                                                         \
    "{\"tutti_topology\": 1, \"root\": {\"kind\": \"cluster\", \"children\": [" children \
    "]}, \"links\": [" links "]}"

static enum tutti_status read(const char *text, struct synth_graph *graph,
                              struct from_topo_notes *notes)
{
    struct topo topo;
    if (topo_json_load(text, strlen(text), &topo) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    const enum tutti_status status = synth_graph_from_topo(&topo, graph, notes);
    topo_release(&topo);
    return status;
}

static uint32_t capacity(const struct synth_graph *graph, int from, int to)
{
    const struct synth_edge *const edge = synth_graph_find(graph, from, to);
    return edge != NULL ? edge->capacity : 0;
}

static void an_accelerator_is_its_rank(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(
        read(MACHINE(ACCELERATOR("0") ", " ACCELERATOR("1") ", " ACCELERATOR("2"),
                     LINK("g0", "g1", "50e9", "nominal") ", " LINK("g1", "g2", "75e9", "nominal")),
             &graph, &notes),
        TUTTI_OK);
    assert_int_equal(graph.rank_count, 3);
    assert_int_equal(graph.node_count, 3);
    assert_true(graph.bytes_per_second == 25e9);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(capacity(&graph, turn, 1 - turn), 2);
        assert_int_equal(capacity(&graph, 1 + turn, 2 - turn), 3);
    }
    assert_int_equal(capacity(&graph, 0, 2), 0);
    assert_true(notes.rounded_most == 0 && notes.assumed_count == 0 && notes.switch_count == 0);
    synth_graph_release(&graph);
}

static void what_stands_in_a_machine_is_joined_to_it(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(
        read(CLUSTER(HOST("0") ", " HOST("1"), LINK("n0", "n1", "1e9", "assumed")), &graph, &notes),
        TUTTI_OK);
    assert_int_equal(graph.rank_count, 2);
    assert_int_equal(notes.assumed_count, 2);
    assert_true(notes.switch_count > 0);
    synth_graph_release(&graph);
}

#define SOCKET(n, a, b)                  \
    "{\"kind\": \"numa\", \"id\": \"s" n \
    "\", \"children\": [" ACCELERATOR(a) ", " ACCELERATOR(b) "]}"
#define SOCKET_LINKS(n, a, b) \
    LINK("s" n, "g" a, "16e9", "nominal") ", " LINK("s" n, "g" b, "16e9", "nominal")

/* Nothing is said of what lies between the sockets: they stand in one machine. */
static void sockets_of_a_machine_are_joined_by_standing_in_it(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(read(MACHINE(SOCKET("0", "0", "1") ", " SOCKET("1", "2", "3"),
                                  SOCKET_LINKS("0", "0", "1") ", " SOCKET_LINKS("1", "2", "3")),
                          &graph, &notes),
                     TUTTI_OK);
    assert_int_equal(notes.assumed_count, 2);
    assert_int_equal(graph.rank_count, 4);
    assert_int_equal(graph.node_count, 7); /* two sockets and the machine */
    synth_graph_release(&graph);
}

/* Two pairs with a link each, and nothing else: what is known to carry little is not gone
 * around. */
static void islands_are_joined_once_each(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(
        read(MACHINE(
                 ACCELERATOR("0") ", " ACCELERATOR("1") ", " ACCELERATOR("2") ", " ACCELERATOR("3"),
                 LINK("g0", "g1", "50e9", "nominal") ", " LINK("g2", "g3", "50e9", "nominal")),
             &graph, &notes),
        TUTTI_OK);
    assert_int_equal(notes.assumed_count, 2);
    assert_int_equal(graph.node_count, 5);
    assert_int_equal(capacity(&graph, 0, 4), 2); /* as much as all links together */
    assert_int_equal(capacity(&graph, 4, 2), 2);
    assert_int_equal(capacity(&graph, 1, 4), 0);
    assert_int_equal(capacity(&graph, 3, 4), 0);
    synth_graph_release(&graph);
}

/* Sockets with a link between them use it; the rank that has none reaches the machine, and from
 * there the first socket. */
static void a_link_between_sockets_is_not_gone_around(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(read(MACHINE(SOCKET("0", "0", "1") ", " SOCKET(
                                      "1", "2", "3") ", {\"kind\": \"rank\", \"number\": 4}",
                                  SOCKET_LINKS("0", "0", "1") ", " SOCKET_LINKS(
                                      "1", "2", "3") ", " LINK("s0", "s1", "20e9", "nominal")),
                          &graph, &notes),
                     TUTTI_OK);
    assert_int_equal(notes.assumed_count, 2);
    assert_int_equal(graph.edge_count, 2 * (4 + 1 + 2));
    synth_graph_release(&graph);
}

static void joined_sockets_that_accelerators_link_are_left_to_their_links(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(read(MACHINE(SOCKET("0", "0", "1") ", " SOCKET("1", "2", "3"),
                                  SOCKET_LINKS("0", "0", "1") ", " SOCKET_LINKS(
                                      "1", "2", "3") ", " LINK("g0", "g2", "50e9", "nominal")),
                          &graph, &notes),
                     TUTTI_OK);
    assert_int_equal(notes.assumed_count, 0);
    assert_int_equal(graph.node_count, 6);
    synth_graph_release(&graph);
}

static void ranks_that_nothing_joins_are_named(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(read(CLUSTER(HOST("0") ", " HOST("1") ", " HOST("2") ", " HOST("3"),
                                  LINK("n0", "n2", "1e9", "nominal")),
                          &graph, &notes),
                     TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "nothing joins ranks 1 3 to rank 0"));
    assert_non_null(strstr(tutti_error_message(), "add the links between the machines"));
    assert_null(graph.edges);
}

/* Three rates of a noisy measurement are 6, 6 and 7 parts of the narrowest one; nominal ones would
 * be taken to the letter. */
static void what_was_measured_is_rounded(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
#define RING(known)                                                       \
    MACHINE(ACCELERATOR("0") ", " ACCELERATOR("1") ", " ACCELERATOR("2"), \
            LINK("g0", "g1", "48.976e6", known) ", " LINK(                \
                "g1", "g2", "49.549e6", known) ", " LINK("g2", "g0", "57.315e6", known))
    assert_int_equal(read(RING("measured"), &graph, &notes), TUTTI_OK);
    assert_int_equal(capacity(&graph, 0, 1), 6);
    assert_int_equal(capacity(&graph, 1, 2), 6);
    assert_int_equal(capacity(&graph, 2, 0), 7);
    assert_true(notes.rounded_most > 0.001 && notes.rounded_most <= 0.02);
    synth_graph_release(&graph);
    assert_int_equal(read(RING("nominal"), &graph, &notes), TUTTI_OK);
    assert_true(capacity(&graph, 1, 2) > capacity(&graph, 0, 1) && notes.rounded_most < 0.0001);
    synth_graph_release(&graph);
}

static void a_link_that_does_not_say_what_it_carries_is_named(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(
        read(MACHINE(ACCELERATOR("0") ", " ACCELERATOR("1"), "{\"ends\": [\"g0\", \"g1\"]}"),
             &graph, &notes),
        TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "needs bytes_per_second above 0"));
    assert_null(graph.edges);
}

static void links_too_far_apart_are_refused(void **state)
{
    (void)state;
    struct synth_graph graph;
    struct from_topo_notes notes;
    assert_int_equal(
        read(MACHINE(ACCELERATOR("0") ", " ACCELERATOR("1") ", " ACCELERATOR("2"),
                     LINK("g0", "g1", "1", "nominal") ", " LINK("g1", "g2", "1e12", "nominal")),
             &graph, &notes),
        TUTTI_UNSUPPORTED);
    assert_non_null(strstr(tutti_error_message(), "no multiples of one unit"));
    assert_null(graph.edges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accelerator_is_its_rank),
        cmocka_unit_test(what_stands_in_a_machine_is_joined_to_it),
        cmocka_unit_test(sockets_of_a_machine_are_joined_by_standing_in_it),
        cmocka_unit_test(islands_are_joined_once_each),
        cmocka_unit_test(a_link_between_sockets_is_not_gone_around),
        cmocka_unit_test(joined_sockets_that_accelerators_link_are_left_to_their_links),
        cmocka_unit_test(ranks_that_nothing_joins_are_named),
        cmocka_unit_test(what_was_measured_is_rounded),
        cmocka_unit_test(links_too_far_apart_are_refused),
        cmocka_unit_test(a_link_that_does_not_say_what_it_carries_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
