#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "studio/topo/path.h"

static int add(struct topo *topo, enum topo_kind kind, int parent, int number)
{
    const struct topo_node node = {.kind = kind, .parent = parent, .number = number};
    int index;
    assert_int_equal(topo_add_node(topo, &node, &index), TUTTI_OK);
    return index;
}

static void join(struct topo *topo, int a, int b, double gigabytes, double latency_ns,
                 enum topo_known known)
{
    const struct topo_link link = {.ends = {a, b},
                                   .bytes_per_second = gigabytes * 1e9,
                                   .latency_ns = latency_ns,
                                   .known = known};
    assert_int_equal(topo_add_link(topo, &link), TUTTI_OK);
}

/* Two racks of two machines of two cores with a rank each; a nic per machine, a leaf per rack, one
 * spine. Uplinks are as wide as a nic: rank r is on machine r / 2. */
static struct topo two_racks(void)
{
    struct topo topo = {0};
    const int root = add(&topo, TOPO_CLUSTER, -1, -1), spine = add(&topo, TOPO_SWITCH, root, -1);
    int rank = 0;
    for (int r = 0; r < 2; r++) {
        const int rack = add(&topo, TOPO_RACK, root, r), leaf = add(&topo, TOPO_SWITCH, rack, -1);
        join(&topo, leaf, spine, 10, 600, r == 0 ? TOPO_MEASURED : TOPO_ASSUMED);
        for (int m = 0; m < 2; m++) {
            const int machine = add(&topo, TOPO_MACHINE, rack, m);
            const int nic = add(&topo, TOPO_NIC, machine, -1);
            const int package = add(&topo, TOPO_PACKAGE, machine, 0);
            join(&topo, nic, leaf, 12.5, 400, TOPO_NOMINAL);
            for (int c = 0; c < 2; c++)
                add(&topo, TOPO_RANK, add(&topo, TOPO_CORE, package, c), rank++);
        }
    }
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    return topo;
}

static struct topo_reach path(const struct topo *topo, int from, int to)
{
    struct topo_reach reach;
    if (topo_path(topo, from, to, &reach) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    return reach;
}

static void the_narrowest_link_decides_and_latencies_add_up(void **state)
{
    (void)state;
    struct topo topo = two_racks();
    const struct topo_reach rack = path(&topo, 0, 3), far = path(&topo, 0, 7);
    assert_int_equal(rack.link_count, 2);
    assert_true(rack.bytes_per_second == 12.5e9 && rack.latency_ns == 800);
    assert_int_equal(rack.known, TOPO_NOMINAL);
    assert_int_equal(far.link_count, 4);
    assert_true(far.bytes_per_second == 10e9 && far.latency_ns == 2000);
    assert_int_equal(far.known, TOPO_ASSUMED); /* as its weakest link */
    assert_int_equal(far.hops, 4 + 2 * 4);     /* rank, core, package, machine, nic */
    const struct topo_reach back = path(&topo, 7, 0);
    assert_true(back.hops == far.hops && back.bytes_per_second == far.bytes_per_second);
    topo_release(&topo);
}

static void in_a_machine_nothing_is_told_and_nothing_invented(void **state)
{
    (void)state;
    struct topo topo = two_racks();
    const struct topo_reach own = path(&topo, 0, 0), near = path(&topo, 0, 1);
    assert_int_equal(own.hops, 0);
    assert_int_equal(near.hops, 4);
    assert_int_equal(near.link_count, 0);
    assert_true(near.bytes_per_second == 0 && near.latency_ns == 0);
    topo_release(&topo);
}

static void racks_and_clusters_join_nothing_by_themselves(void **state)
{
    (void)state;
    struct topo topo = two_racks();
    topo.link_count = 0;
    assert_int_equal(path(&topo, 0, 1).hops, 4);
    assert_int_equal(path(&topo, 0, 2).hops, -1);
    topo_release(&topo);
}

static void the_path_leads_back_hop_by_hop(void **state)
{
    (void)state;
    struct topo topo = two_racks();
    struct topo_reach *reach = calloc((size_t)topo.node_count, sizeof *reach);
    assert_non_null(reach);
    const int from = topo_node_of_rank(&topo, 0);
    assert_int_equal(topo_reach_all(&topo, from, reach), TUTTI_OK);
    int node = topo_node_of_rank(&topo, 7), nics = 0, spines = 0;
    for (int hops = reach[node].hops; hops > 0; hops--) {
        assert_int_equal(reach[node].hops, hops);
        node = reach[node].previous;
        nics += topo.nodes[node].kind == TOPO_NIC;
        spines += node == 1;
    }
    assert_int_equal(node, from);
    assert_int_equal(nics, 2);
    assert_int_equal(spines, 1);
    free(reach);
    topo_release(&topo);
}

/* Accelerators 0, 1, 2 below one bus; 0-1 and 1-2 have links of their own. */
static struct topo accelerators(int *index)
{
    struct topo topo = {0};
    const int machine = add(&topo, TOPO_MACHINE, -1, -1), bus = add(&topo, TOPO_SWITCH, machine, -1);
    for (int i = 0; i < 3; i++) {
        index[i] = add(&topo, TOPO_ACCELERATOR, bus, i);
        join(&topo, index[i], bus, 16, 0, TOPO_NOMINAL);
        add(&topo, TOPO_RANK, index[i], i);
    }
    join(&topo, index[0], index[1], 50, 0, TOPO_NOMINAL);
    join(&topo, index[1], index[2], 25, 0, TOPO_NOMINAL);
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    return topo;
}

static void accelerators_use_their_own_links_but_hand_nothing_on(void **state)
{
    (void)state;
    int index[3];
    struct topo topo = accelerators(index);
    assert_true(path(&topo, 0, 1).bytes_per_second == 50e9);
    assert_true(path(&topo, 2, 1).bytes_per_second == 25e9);
    assert_true(path(&topo, 0, 2).bytes_per_second == 16e9); /* not through accelerator 1 */
    topo_release(&topo);
}

static void of_paths_as_short_the_widest_and_then_the_fastest_is_taken(void **state)
{
    (void)state;
    static const struct {
        double gigabytes, latency_ns;
    } rails[] = {{0, 10}, {25, 300}, {100, 900}, {100, 700}, {50, 100}};
    struct topo topo = {0};
    const int root = add(&topo, TOPO_CLUSTER, -1, -1);
    const int a = add(&topo, TOPO_MACHINE, root, 0), b = add(&topo, TOPO_MACHINE, root, 1);
    add(&topo, TOPO_RANK, a, 0);
    add(&topo, TOPO_RANK, b, 1);
    for (size_t i = 0; i < sizeof rails / sizeof *rails; i++) {
        const int from = add(&topo, TOPO_NIC, a, (int)i), to = add(&topo, TOPO_NIC, b, (int)i);
        join(&topo, from, to, rails[i].gigabytes, rails[i].latency_ns, TOPO_MEASURED);
    }
    const struct topo_reach reach = path(&topo, 0, 1);
    assert_true(reach.bytes_per_second == 100e9 && reach.latency_ns == 700);
    join(&topo, a, b, 1, 5000, TOPO_MEASURED); /* shorter */
    assert_true(path(&topo, 0, 1).bytes_per_second == 1e9);
    topo_release(&topo);
}

static void a_link_to_the_container_takes_the_place_of_standing_there(void **state)
{
    (void)state;
    struct topo topo = {0};
    const int machine = add(&topo, TOPO_MACHINE, -1, -1);
    const int left = add(&topo, TOPO_PACKAGE, machine, 0);
    add(&topo, TOPO_RANK, left, 0);
    add(&topo, TOPO_RANK, add(&topo, TOPO_PACKAGE, machine, 1), 1);
    join(&topo, machine, left, 40, 80, TOPO_MEASURED);
    const struct topo_reach reach = path(&topo, 1, 0);
    assert_true(reach.hops == 4 && reach.link_count == 1);
    assert_true(reach.bytes_per_second == 40e9 && reach.latency_ns == 80);
    topo_release(&topo);
}

static void a_rank_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct topo topo = two_racks();
    struct topo_reach reach;
    assert_int_equal(topo_path(&topo, 0, 8, &reach), TUTTI_INVALID_RANK);
    assert_non_null(tutti_error_message());
    topo_release(&topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_narrowest_link_decides_and_latencies_add_up),
        cmocka_unit_test(in_a_machine_nothing_is_told_and_nothing_invented),
        cmocka_unit_test(racks_and_clusters_join_nothing_by_themselves),
        cmocka_unit_test(the_path_leads_back_hop_by_hop),
        cmocka_unit_test(accelerators_use_their_own_links_but_hand_nothing_on),
        cmocka_unit_test(of_paths_as_short_the_widest_and_then_the_fastest_is_taken),
        cmocka_unit_test(a_link_to_the_container_takes_the_place_of_standing_there),
        cmocka_unit_test(a_rank_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
