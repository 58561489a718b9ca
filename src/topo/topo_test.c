#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo.h"

static int add(struct topo *topo, enum topo_kind kind, int parent, int number)
{
    const struct topo_node node = {
        .kind = kind, .parent = parent, .number = number, .cache_level = kind == TOPO_CACHE ? 3 : 0};
    int index;
    assert_int_equal(topo_add_node(topo, &node, &index), TUTTI_OK);
    return index;
}

/* A rack with a switch and a machine with a nic, a package, a cache, a core and rank 0. */
static struct topo sample(void)
{
    struct topo topo = {0};
    const int rack = add(&topo, TOPO_RACK, -1, -1), box = add(&topo, TOPO_SWITCH, rack, -1);
    const int machine = add(&topo, TOPO_MACHINE, rack, -1), nic = add(&topo, TOPO_NIC, machine, -1);
    const int package = add(&topo, TOPO_PACKAGE, machine, 0);
    const int cache = add(&topo, TOPO_CACHE, package, -1), core = add(&topo, TOPO_CORE, cache, 0);
    add(&topo, TOPO_RANK, core, 0);
    assert_int_equal(topo_add_link(&topo, &(struct topo_link){.ends = {nic, box}}), TUTTI_OK);
    return topo;
}

enum { RACK, SWITCH, MACHINE, NIC, PACKAGE, CACHE, CORE, RANK }; /* nodes of the sample */

static void a_topology_that_keeps_the_rules_is_valid(void **state)
{
    (void)state;
    struct topo topo = sample();
    if (topo_validate(&topo) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    topo_release(&topo);
}

static void expect_fault(const struct topo *topo, bool is_link, int index, const char *why)
{
    struct topo_fault fault;
    assert_int_equal(topo_find_fault(topo, &fault), TUTTI_OK);
    if (fault.why == NULL || strstr(fault.why, why) == NULL)
        fail_msg("'%s' and not '%s'", fault.why != NULL ? fault.why : "nothing", why);
    assert_int_equal(fault.is_link, is_link);
    assert_int_equal(fault.index, index);
    assert_int_equal(topo_validate(topo), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), why));
}

/* The sample with one node spoilt. */
#define EXPECT_NODE_FAULT(node, change, why)             \
    do {                                                 \
        struct topo topo = sample();                     \
        struct topo_node *const one = &topo.nodes[node]; \
        change;                                          \
        expect_fault(&topo, false, node, why);           \
        topo_release(&topo);                             \
    } while (0)

#define EXPECT_LINK_FAULT(change, why)                \
    do {                                              \
        struct topo topo = sample();                  \
        struct topo_link *const one = &topo.links[0]; \
        change;                                       \
        expect_fault(&topo, true, 0, why);            \
        topo_release(&topo);                          \
    } while (0)

static void every_rule_is_checked_for_nodes(void **state)
{
    (void)state;
    EXPECT_NODE_FAULT(RACK, one->parent = 0, "root has a parent");
    EXPECT_NODE_FAULT(RACK, one->kind = TOPO_CORE, "in a machine only");
    EXPECT_NODE_FAULT(SWITCH, one->kind = (enum topo_kind)99, "no such kind");
    EXPECT_NODE_FAULT(SWITCH, one->kind = (enum topo_kind) - 1, "no such kind");
    EXPECT_NODE_FAULT(SWITCH, one->parent = SWITCH, "does not come before");
    EXPECT_NODE_FAULT(SWITCH, one->parent = -1, "does not come before");
    EXPECT_NODE_FAULT(CORE, one->parent = 1 << 30, "does not come before");
    EXPECT_NODE_FAULT(CORE, one->parent = NIC, "nothing stands in");
    EXPECT_NODE_FAULT(CORE, one->kind = TOPO_RACK, "in no machine");
    EXPECT_NODE_FAULT(CORE, one->number = -2, "negative");
    EXPECT_NODE_FAULT(CORE, one->cache_level = 1, "level");
    EXPECT_NODE_FAULT(CACHE, one->cache_level = 0, "level");
    EXPECT_NODE_FAULT(CACHE, one->cache_level = 6, "level");
    EXPECT_NODE_FAULT(CACHE, one->bytes = UINT64_MAX, "bytes");
    EXPECT_NODE_FAULT(RANK, one->number = -1, "rank's number");
    EXPECT_NODE_FAULT(RANK, one->number = TOPO_RANKS_MAX, "rank's number");
    EXPECT_NODE_FAULT(NIC, one->bytes_per_second = -1, "bytes per second");
    EXPECT_NODE_FAULT(NIC, one->bytes_per_second = 0.0 / 0.0, "bytes per second");
    EXPECT_NODE_FAULT(NIC, one->bytes_per_second = 1e19, "bytes per second");
    EXPECT_NODE_FAULT(NIC, memset(one->name, 'x', sizeof one->name), "text");
    EXPECT_NODE_FAULT(NIC, memset(one->address, 'x', sizeof one->address), "text");
    EXPECT_NODE_FAULT(NIC, strcpy(one->name, "a\nb"), "text");
    EXPECT_NODE_FAULT(NIC, strcpy(one->name, "a\xc3"), "text");
    EXPECT_NODE_FAULT(NIC, strcpy(one->name, "\xc0\xaf"), "text");
    EXPECT_NODE_FAULT(NIC, strcpy(one->name, "\xed\xa0\x80"), "text");
}

static void every_rule_is_checked_for_links(void **state)
{
    (void)state;
    EXPECT_LINK_FAULT(one->ends[0] = -1, "no node");
    EXPECT_LINK_FAULT(one->ends[1] = RANK + 1, "no node");
    EXPECT_LINK_FAULT(one->ends[1] = RANK, "ranks have no links");
    EXPECT_LINK_FAULT(one->ends[1] = one->ends[0], "same node");
    EXPECT_LINK_FAULT(one->bytes_per_second = -1, "1e18");
    EXPECT_LINK_FAULT(one->latency_ns = 1e300, "1e18");
    EXPECT_LINK_FAULT(one->known = (enum topo_known)3, "measured");
}

static void two_ranks_of_one_number_are_one_too_many(void **state)
{
    (void)state;
    struct topo topo = sample();
    add(&topo, TOPO_RANK, PACKAGE, 0);
    expect_fault(&topo, false, RANK + 1, "another rank");
    topo.nodes[RANK + 1].number = 1;
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    topo_release(&topo);
}

static void nesting_and_nothing_at_all_have_bounds(void **state)
{
    (void)state;
    struct topo topo = {0};
    assert_int_equal(topo_validate(&topo), TUTTI_INVALID_OPTIONS);
    add(&topo, TOPO_SWITCH, -1, -1);
    for (int i = 0; i < TOPO_DEPTH_MAX; i++) add(&topo, TOPO_SWITCH, i, -1);
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    add(&topo, TOPO_SWITCH, TOPO_DEPTH_MAX, -1);
    expect_fault(&topo, false, TOPO_DEPTH_MAX + 1, "deeply");
    topo_release(&topo);
}

static void no_more_nodes_are_taken_than_there_may_be(void **state)
{
    (void)state;
    struct topo topo = {0};
    const struct topo_node node = {.kind = TOPO_SWITCH, .parent = 0, .number = -1};
    for (int i = 0; i < TOPO_NODES_MAX; i++)
        assert_int_equal(topo_add_node(&topo, &node, NULL), TUTTI_OK);
    assert_int_equal(topo_add_node(&topo, &node, NULL), TUTTI_UNSUPPORTED);
    assert_int_equal(topo.node_count, TOPO_NODES_MAX);
    topo_release(&topo);
    assert_null(topo.nodes);
}

static void a_copy_is_equal_until_it_is_changed(void **state)
{
    (void)state;
    struct topo topo = sample(), copy;
    assert_int_equal(topo_copy(&topo, &copy), TUTTI_OK);
    assert_true(topo_equal(&topo, &copy));
    assert_ptr_not_equal(topo.nodes, copy.nodes);
    copy.links[0].latency_ns = 1;
    assert_false(topo_equal(&topo, &copy));
    copy.links[0].latency_ns = 0;
    strcpy(copy.nodes[NIC].name, "x");
    assert_false(topo_equal(&topo, &copy));
    assert_int_equal(topo.nodes[NIC].name[0], '\0');
    topo_release(&topo);
    topo_release(&copy);
}

static void containers_are_found(void **state)
{
    (void)state;
    struct topo topo = sample();
    assert_int_equal(topo_within(&topo, RANK, TOPO_MACHINE), MACHINE);
    assert_int_equal(topo_within(&topo, CORE, TOPO_CORE), CORE);
    assert_int_equal(topo_within(&topo, RANK, TOPO_SWITCH), -1);
    assert_int_equal(topo_common(&topo, RANK, NIC), MACHINE);
    assert_int_equal(topo_common(&topo, SWITCH, NIC), RACK);
    assert_int_equal(topo_common(&topo, CORE, CACHE), CACHE);
    assert_int_equal(topo_common(&topo, CORE, CORE), CORE);
    assert_int_equal(topo_rank_count(&topo), 1);
    assert_int_equal(topo_node_of_rank(&topo, 0), RANK);
    assert_int_equal(topo_node_of_rank(&topo, 1), -1);
    topo_release(&topo);
}

static void children_are_listed_in_order(void **state)
{
    (void)state;
    struct topo topo = sample();
    int first[RANK + 1], next[RANK + 1];
    topo_children(&topo, first, next);
    assert_int_equal(first[RACK], SWITCH);
    assert_int_equal(next[SWITCH], MACHINE);
    assert_int_equal(next[MACHINE], -1);
    assert_int_equal(first[MACHINE], NIC);
    assert_int_equal(next[NIC], PACKAGE);
    assert_int_equal(first[RANK], -1);
    assert_int_equal(next[RACK], -1);
    topo_release(&topo);
}

static void text_is_cut_between_characters_and_cleaned(void **state)
{
    (void)state;
    char text[6];
    topo_set_text(text, sizeof text, "abcdefgh");
    assert_string_equal(text, "abcde");
    topo_set_text(text, sizeof text, "abcd\xc3\xa4");
    assert_string_equal(text, "abcd");
    topo_set_text(text, sizeof text, "abc\xc3\xa4z");
    assert_string_equal(text, "abc\xc3\xa4");
    topo_set_text(text, sizeof text,
                  "a\n\x80"
                  "b");
    assert_string_equal(text, "a??b");
    topo_set_text(text, sizeof text, "a\xc3");
    assert_string_equal(text, "a?");
}

static void names_lead_back_to_what_they_name(void **state)
{
    (void)state;
    for (int i = 0; i < TOPO_KIND_COUNT; i++)
        assert_int_equal(topo_kind_from_name(topo_kind_name((enum topo_kind)i)), i);
    for (int i = 0; i < TOPO_KNOWN_COUNT; i++)
        assert_int_equal(topo_known_from_name(topo_known_name((enum topo_known)i)), i);
    assert_int_equal(topo_kind_from_name("sofa"), TOPO_KIND_COUNT);
    assert_int_equal(topo_known_from_name(""), TOPO_KNOWN_COUNT);
}

static void labels_say_what_is_known(void **state)
{
    (void)state;
    char label[TOPO_LABEL_SIZE];
    struct topo_node node = {.kind = TOPO_CACHE, .number = -1, .cache_level = 3, .bytes = 32 << 20};
    topo_label(&node, label);
    assert_string_equal(label, "L3 32 MiB");
    node = (struct topo_node){.kind = TOPO_NIC, .number = -1, .name = "eth0"};
    topo_label(&node, label);
    assert_string_equal(label, "nic eth0");
    node = (struct topo_node){.kind = TOPO_NUMA, .number = 1, .bytes = UINT64_C(3) << 29};
    topo_label(&node, label);
    assert_string_equal(label, "numa 1 1.5 GiB");
    struct topo_link link = {.bytes_per_second = 12.5e9, .latency_ns = 1500, .known = TOPO_NOMINAL};
    topo_link_label(&link, label);
    assert_string_equal(label, "12.5 GB/s, 1.5 us, nominal");
    link = (struct topo_link){.bytes_per_second = 125e6, .latency_ns = 90};
    topo_link_label(&link, label);
    assert_string_equal(label, "125 MB/s, 90 ns, assumed");
    link = (struct topo_link){.known = TOPO_MEASURED};
    topo_link_label(&link, label);
    assert_string_equal(label, "measured");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topology_that_keeps_the_rules_is_valid),
        cmocka_unit_test(every_rule_is_checked_for_nodes),
        cmocka_unit_test(every_rule_is_checked_for_links),
        cmocka_unit_test(two_ranks_of_one_number_are_one_too_many),
        cmocka_unit_test(nesting_and_nothing_at_all_have_bounds),
        cmocka_unit_test(no_more_nodes_are_taken_than_there_may_be),
        cmocka_unit_test(a_copy_is_equal_until_it_is_changed),
        cmocka_unit_test(containers_are_found),
        cmocka_unit_test(children_are_listed_in_order),
        cmocka_unit_test(text_is_cut_between_characters_and_cleaned),
        cmocka_unit_test(names_lead_back_to_what_they_name),
        cmocka_unit_test(labels_say_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
