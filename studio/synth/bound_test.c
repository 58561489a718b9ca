/* bound_test.c - published throughput bounds, exactly, and every small random graph against all of
 * its cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "studio/synth/bound.h"
#include "tests/plans/synth_graphs.h"

static void expect(struct synth_graph graph, int root, int64_t top, int64_t bottom)
{
    struct synth_bound bound;
    if (synth_bound_find(&graph, root, 0, &bound) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    if (bound.ratio.top != top || bound.ratio.bottom != bottom)
        fail_msg("%lld/%lld instead of %lld/%lld", (long long)bound.ratio.top,
                 (long long)bound.ratio.bottom, (long long)top, (long long)bottom);
    synth_bound_release(&bound);
    synth_graph_release(&graph);
}

static void allgather_bounds_are_those_of_forestcoll(void **state)
{
    (void)state;
    expect(graph_dgx1(1), SYNTH_EVERY_RANK, 7, 6);
    for (int p = 3; p <= 12; p++)
        expect(graph_torus(p, 1), SYNTH_EVERY_RANK, p % 2 ? (p - 1) / 2 : p - 1, p % 2 ? 1 : 2);
    expect(graph_torus(4, 4), SYNTH_EVERY_RANK, 15, 4);
    expect(graph_torus(3, 3), SYNTH_EVERY_RANK, 2, 1);
    expect(graph_torus(4, 2), SYNTH_EVERY_RANK, 7, 3);
    expect(graph_cube(4), SYNTH_EVERY_RANK, 15, 4);
    expect(graph_boxes(1, 8, 300, 0), SYNTH_EVERY_RANK, 7, 300);
    expect(graph_boxes(2, 8, 300, 25), SYNTH_EVERY_RANK, 3, 65);
    expect(graph_boxes(2, 8, 450, 50), SYNTH_EVERY_RANK, 3, 100);
    /* Four sevenths of a host link are enough for the uplink; from there on the hosts' links
     * count. */
    expect(graph_racks(2, 4, 7, 4), SYNTH_EVERY_RANK, 1, 1);
    expect(graph_racks(2, 4, 7, 3), SYNTH_EVERY_RANK, 4, 3);
    expect(graph_racks(2, 4, 1, 1), SYNTH_EVERY_RANK, 7, 1);
}

/* 1 GB of output: 7.75 and 40 ms. */
static void te_ccl_topologies_have_their_bounds(void **state)
{
    (void)state;
    expect(graph_two_dgx2(), SYNTH_EVERY_RANK, 31, 250); /* 31 * 1 GB / 32 / 125 GB/s */
    expect(graph_two_ndv2(), SYNTH_EVERY_RANK, 8, 25);   /* 8 * 1 GB / 16 / 12.5 GB/s */
}

static void broadcast_bounds_are_narrowest_cuts(void **state)
{
    (void)state;
    expect(graph_dgx1(1), 0, 1, 6);
    expect(graph_torus(7, 1), 3, 1, 2);
    expect(graph_boxes(2, 8, 300, 25), 5, 1, 200);
}

static void expect_halves(struct synth_graph graph, int64_t top, int64_t bottom)
{
    struct synth_ratio ratio;
    assert_int_equal(synth_bound_halves(&graph, 0, &ratio), TUTTI_OK);
    if (ratio.top != top || ratio.bottom != bottom)
        fail_msg("%lld/%lld instead of %lld/%lld", (long long)ratio.top, (long long)ratio.bottom,
                 (long long)top, (long long)bottom);
    synth_graph_release(&graph);
}

/* A ring of p has p^2 / 4 blocks for two links there, so p^2 / 8; DGX-1 has the published 8/3, by
 * the cut {0, 1, 2, 3}. */
static void halves_bind_an_alltoall(void **state)
{
    (void)state;
    expect_halves(graph_torus(8, 1), 8, 1);
    expect_halves(graph_torus(64, 1), 512, 1);
    expect_halves(graph_torus(200, 1), 5000, 1); /* more ranks than halves that are looked at */
    expect_halves(graph_torus(7, 1), 6, 1);
    expect_halves(graph_torus(4, 4), 8, 1);
    expect_halves(graph_dgx1(1), 8, 3);
    expect_halves(graph_boxes(2, 8, 300, 25), 8, 25); /* 64 blocks through 8 cards of 25 */
    struct synth_graph apart = {.rank_count = 4, .node_count = 4};
    struct synth_ratio ratio;
    assert_int_equal(synth_bound_halves(&apart, 0, &ratio), TUTTI_INVALID_OPTIONS);
    apart.rank_count = apart.node_count = 1;
    assert_int_equal(synth_bound_halves(&apart, 0, &ratio), TUTTI_INVALID_OPTIONS);
    struct synth_graph ring = graph_torus(4, 1);
    assert_int_equal(synth_bound_halves(&ring, 1, &ratio), TUTTI_TIMEOUT);
    synth_graph_release(&ring);
}

/* Chance graphs of up to 4 ranks and 2 switches have 64 cuts. */
static void no_cut_is_wider_than_the_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct synth_graph graph = graph_by_chance(seed);
        const int root = seed % 3 == 0 ? (int)(seed % (unsigned)graph.rank_count) : SYNTH_EVERY_RANK;
        struct synth_ratio widest = {0, 1};
        for (unsigned set = 1; set < 1u << graph.node_count; set++) {
            struct synth_ratio ratio = {0, 0};
            const unsigned ranks = (1u << graph.rank_count) - 1;
            if ((set & ranks) == ranks) continue;
            ratio.top = root == SYNTH_EVERY_RANK ? __builtin_popcount(set & ranks) : set >> root & 1;
            for (int i = 0; i < graph.edge_count; i++)
                if ((set >> graph.edges[i].from & 1) && !(set >> graph.edges[i].to & 1))
                    ratio.bottom += graph.edges[i].capacity;
            if (ratio.top > 0 && synth_ratio_compare(ratio, widest) > 0) widest = ratio;
        }
        struct synth_bound bound;
        const enum tutti_status status = synth_bound_find(&graph, root, 0, &bound);
        if (widest.bottom == 0) {
            assert_int_equal(status, TUTTI_INVALID_OPTIONS);
        } else {
            assert_int_equal(status, TUTTI_OK);
            assert_int_equal(synth_ratio_compare(bound.ratio, widest), 0);
            synth_bound_release(&bound);
        }
        synth_graph_release(&graph);
    }
}

/* The width found is one that suffices; nothing below the bound ever is, and some number of trees
 * attains it. */
static void trees_of_one_width_attain_the_bound_for_some_number(void **state)
{
    (void)state;
    struct synth_graph graph = graph_dgx1(1);
    bool attained = false;
    for (int k = 1; k <= 6; k++) {
        struct synth_ratio width;
        assert_int_equal(synth_bound_with(&graph, SYNTH_EVERY_RANK, k, 0, &width), TUTTI_OK);
        const int order = synth_ratio_compare((struct synth_ratio){width.top, width.bottom * k},
                                              (struct synth_ratio){7, 6});
        assert_true(order >= 0);
        if (order == 0) attained = true;
    }
    assert_true(attained);
    synth_graph_release(&graph);
    graph = graph_torus(6, 1);
    struct synth_ratio width;
    assert_int_equal(synth_bound_with(&graph, SYNTH_EVERY_RANK, 1, 0, &width), TUTTI_OK);
    assert_int_equal(width.top, 3); /* 6 trees of 5 hops each over 12 edges */
    assert_int_equal(width.bottom, 1);
    synth_graph_release(&graph);
}

static void what_has_no_bound_is_refused(void **state)
{
    (void)state;
    struct synth_graph graph = {.rank_count = 1, .node_count = 1};
    struct synth_bound bound;
    assert_int_equal(synth_bound_find(&graph, SYNTH_EVERY_RANK, 0, &bound), TUTTI_INVALID_OPTIONS);
    graph = graph_torus(4, 1);
    assert_int_equal(synth_bound_find(&graph, 4, 0, &bound), TUTTI_INVALID_ROOT);
    assert_int_equal(synth_bound_find(&graph, 0, 1, &bound), TUTTI_TIMEOUT);
    synth_graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allgather_bounds_are_those_of_forestcoll),
        cmocka_unit_test(te_ccl_topologies_have_their_bounds),
        cmocka_unit_test(broadcast_bounds_are_narrowest_cuts),
        cmocka_unit_test(halves_bind_an_alltoall),
        cmocka_unit_test(no_cut_is_wider_than_the_bound),
        cmocka_unit_test(trees_of_one_width_attain_the_bound_for_some_number),
        cmocka_unit_test(what_has_no_bound_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
