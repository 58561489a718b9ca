#include "synth/from_topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/topo_json.h"

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

/* Three rates of a noisy measurement are 6, 6 and 7 parts of the narrowest one; nominal ones would be taken to the letter. */
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
    assert_non_null(strstr(tutti_error_message(), "has no bytes_per_second"));
    assert_null(graph.edges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accelerator_is_its_rank),
        cmocka_unit_test(what_stands_in_a_machine_is_joined_to_it),
        cmocka_unit_test(what_was_measured_is_rounded),
        cmocka_unit_test(a_link_that_does_not_say_what_it_carries_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
