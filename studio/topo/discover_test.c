#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "studio/topo/discover.h"

static int count(const struct topo *topo, enum topo_kind kind)
{
    int found = 0;
    for (int i = 0; i < topo->node_count; i++) found += topo->nodes[i].kind == kind;
    return found;
}

/* The kinds from a node up to the root: "pu core L2 numa package machine". */
static const char *way_up(const struct topo *topo, int node)
{
    static char text[200];
    size_t used = 0;
    text[0] = '\0';
    for (; node >= 0; node = topo->nodes[node].parent) {
        const struct topo_node *what = &topo->nodes[node];
        char cache[8];
        snprintf(cache, sizeof cache, "L%d", what->cache_level);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                                 what->kind == TOPO_CACHE ? cache : topo_kind_name(what->kind));
    }
    return text;
}

static int find(const struct topo *topo, enum topo_kind kind, const char *name)
{
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == kind && strcmp(topo->nodes[i].name, name) == 0) return i;
    fail_msg("no %s %s", topo_kind_name(kind), name);
    return -1;
}

static struct topo synthetic(const char *description)
{
    struct topo topo;
    if (topo_discover_synthetic(description, &topo) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    assert_int_equal(topo.nodes[0].kind, TOPO_MACHINE);
    return topo;
}

static void this_host_has_processors_and_no_ranks(void **state)
{
    (void)state;
    struct topo topo;
    if (topo_discover(&topo) != TUTTI_OK) fail_msg("%s", tutti_error_message());
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    assert_int_equal(topo.nodes[0].kind, TOPO_MACHINE);
    assert_true(count(&topo, TOPO_PU) >= 1);
    assert_true(count(&topo, TOPO_PU) <= sysconf(_SC_NPROCESSORS_CONF));
    assert_int_equal(count(&topo, TOPO_RANK), 0);
    topo_release(&topo);
}

static void everything_of_a_described_host_is_there(void **state)
{
    (void)state;
    struct topo topo = synthetic("package:2 numa:1 l3:2 l2:4 core:1 pu:2");
    assert_int_equal(count(&topo, TOPO_PACKAGE), 2);
    assert_int_equal(count(&topo, TOPO_NUMA), 2);
    assert_int_equal(count(&topo, TOPO_CACHE), 2 * 2 + 2 * 2 * 4);
    assert_int_equal(count(&topo, TOPO_CORE), 16);
    assert_int_equal(count(&topo, TOPO_PU), 32);
    assert_int_equal(count(&topo, TOPO_NIC) + topo.link_count, 0); /* nobody told of any */
    for (int i = 0; i < topo.node_count; i++)
        if (topo.nodes[i].kind == TOPO_PU)
            assert_string_equal(way_up(&topo, i), "pu core L2 L3 numa package machine");
    topo_release(&topo);
}

static void memory_contains_what_is_near_it(void **state)
{
    (void)state;
    struct topo topo = synthetic("package:2 [numa] core:2 pu:1");
    assert_string_equal(way_up(&topo, topo.node_count - 1), "pu core numa package machine");
    topo_release(&topo);
    topo = synthetic("[numa] package:2 core:2 pu:1");
    assert_string_equal(way_up(&topo, topo.node_count - 1), "pu core package numa machine");
    topo_release(&topo);
    topo = synthetic(
        "package:1 l3:2 [numa] [numa] pu:2"); /* two kinds: the first contains, the second is beside */
    assert_int_equal(count(&topo, TOPO_NUMA), 4);
    assert_string_equal(way_up(&topo, topo.node_count - 1), "pu numa L3 package machine");
    topo_release(&topo);
}

static void what_hwloc_does_not_understand_is_refused(void **state)
{
    (void)state;
    struct topo topo;
    assert_int_equal(topo_discover_synthetic("sofa:2", &topo), TUTTI_INVALID_OPTIONS);
    assert_int_equal(topo.node_count, 0);
    static const char *const texts[] = {
        "", "<topology/>", "<topology version=\"2.0\"/>",
        "<topology version=\"2.0\"><object type=\"Sofa\"/></topology>", "{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(topo_discover_xml(texts[i], strlen(texts[i]), &topo),
                         TUTTI_INVALID_OPTIONS);
        assert_int_equal(topo.node_count, 0);
    }
}

/* Two packages. On the first, behind a bridge that joins them: a network card, an accelerator, and
 * a disk; on the second, a network card behind a bridge of its own, the screen of the service
 * processor, and a card that computes. */
#define SETS "cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\""
#define SETS_OF(mask, nodes)                                            \
    "cpuset=\"" mask "\" complete_cpuset=\"" mask "\" nodeset=\"" nodes \
    "\" complete_nodeset=\"" nodes "\""
#define PACKAGE_OF(index, mask, pu)                                                              \
    "<object type=\"Package\" os_index=\"" index "\" " SETS_OF(                                  \
        mask, "0x1") " gp_index=\"1" index "\"><info name=\"CPUModel\" value=\"Example 9000\"/>" \
                     "<object type=\"Core\" os_index=\"" index                                   \
                     "\" " SETS_OF(mask, "0x1") " gp_index=\"2" index                            \
                                                "\"><object type=\"PU\" os_index=\"" pu          \
                                                "\" " SETS_OF(mask, "0x1") " gp_index=\"3" index \
                                                                           "\"/></object>"
#define BRIDGE(gp, address, range)                                                     \
    "<object type=\"Bridge\" gp_index=\"" gp                                           \
    "\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"" range "\" pci_busid=\"" address \
    "\" pci_type=\"0604 [8086:1901] [0000:0000] 07\" "                                 \
    "pci_link_speed=\"31.507692\">"
#define DEVICE(gp, address, class_id)                                                            \
    "<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"" address "\" pci_type=\"" class_id \
    " [15b3:1017] [15b3:0008] 00\" pci_link_speed=\"15.753846\">"
#define NAMED(gp, name, type) \
    "<object type=\"OSDev\" gp_index=\"" gp "\" name=\"" name "\" osdev_type=\"" type "\"/>"
#define END "</object>"

static const char host[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"
    "<topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" " SETS
    " allowed_cpuset=\"0x3\" allowed_nodeset=\"0x1\" gp_index=\"1\">"
    "<info name=\"HostName\" value=\"example\"/>"
    "<object type=\"NUMANode\" os_index=\"0\" " SETS
    " gp_index=\"2\" local_memory=\"1073741824\"/>" PACKAGE_OF(
        "0", "0x1",
        "0") "<object type=\"Bridge\" gp_index=\"40\" bridge_type=\"0-1\" depth=\"0\" "
             "bridge_pci=\"0000:[16-19]\">" BRIDGE("41", "0000:16:00.0", "0000:[17-19]")
                 DEVICE("42", "0000:17:00.0", "0207") NAMED("43", "mlx5_0", "3")
                     NAMED("44", "ib0", "2") END DEVICE("45", "0000:18:00.0", "0302")
                         NAMED("46", "cuda0", "5") END DEVICE("47", "0000:19:00.0", "0108")
                             NAMED("48", "nvme0n1", "0") END END END END PACKAGE_OF(
                                 "1", "0x2",
                                 "1") "<object type=\"Bridge\" gp_index=\"50\" bridge_type=\"0-1\" "
                                      "depth=\"0\" bridge_pci=\"0000:[b0-b4]\">" BRIDGE(
                                          "51", "0000:b0:00.0", "0000:[b1-b1]")
                                          DEVICE("52", "0000:b1:00.0", "0200")
                                              NAMED("53", "eth0", "2")
                                                  END END DEVICE("54", "0000:b3:00.0", "0300")
                                                      NAMED("55", "card0", "1")
                                                          END DEVICE("56", "0000:b4:00.0", "0300")
                                                              NAMED("57", "rsmi0", "1")
                                                                  END END END END "</topology>";

static void devices_stand_where_they_are_near(void **state)
{
    (void)state;
    struct topo topo;
    if (topo_discover_xml(host, sizeof host - 1, &topo) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    assert_string_equal(topo.nodes[0].name, "example");
    assert_int_equal(find(&topo, TOPO_PACKAGE, "Example 9000"), 2);
    assert_int_equal(count(&topo, TOPO_NIC), 2);
    assert_int_equal(count(&topo, TOPO_ACCELERATOR), 2);
    assert_int_equal(count(&topo, TOPO_SWITCH), 1); /* over the other bridge no two devices meet */
    const int nic = find(&topo, TOPO_NIC, "mlx5_0"), cuda = find(&topo, TOPO_ACCELERATOR, "cuda0");
    assert_string_equal(way_up(&topo, nic), "nic switch package numa machine");
    assert_int_equal(topo.nodes[cuda].parent, topo.nodes[nic].parent);
    assert_string_equal(topo.nodes[nic].address, "0000:17:00.0");
    assert_string_equal(way_up(&topo, find(&topo, TOPO_NIC, "eth0")), "nic package numa machine");
    assert_int_equal(topo.nodes[topo.nodes[find(&topo, TOPO_NIC, "eth0")].parent].number, 1);
    assert_string_equal(way_up(&topo, find(&topo, TOPO_ACCELERATOR, "rsmi0")),
                        "accelerator package numa machine");
    topo_release(&topo);
}

static void buses_are_as_fast_as_hwloc_says(void **state)
{
    (void)state;
    struct topo topo;
    assert_int_equal(topo_discover_xml(host, sizeof host - 1, &topo), TUTTI_OK);
    assert_int_equal(topo.link_count, 5); /* of four devices and the switch */
    for (int i = 0; i < topo.link_count; i++) {
        const struct topo_link *link = &topo.links[i];
        const bool is_switch = topo.nodes[link->ends[0]].kind == TOPO_SWITCH;
        assert_int_equal(link->ends[1], topo.nodes[link->ends[0]].parent);
        assert_int_equal(link->known, TOPO_NOMINAL);
        assert_true(link->bytes_per_second > (is_switch ? 31.5e9 : 15.7e9));
        assert_true(link->bytes_per_second < (is_switch ? 31.6e9 : 15.8e9));
    }
    topo_release(&topo);
}

/* libpciaccess, which looks at PCI for hwloc, keeps a few bytes. A leak sanitizer would take them
 * for a leak of this test. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__asan_default_options(void)
{
    return "fast_unwind_on_malloc=0:print_suppressions=0";
}

const char *__lsan_default_suppressions(void)
{
    return "leak:hwloc_topology_load\n";
}

int main(void)
{
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_host_has_processors_and_no_ranks),
        cmocka_unit_test(everything_of_a_described_host_is_there),
        cmocka_unit_test(memory_contains_what_is_near_it),
        cmocka_unit_test(what_hwloc_does_not_understand_is_refused),
        cmocka_unit_test(devices_stand_where_they_are_near),
        cmocka_unit_test(buses_are_as_fast_as_hwloc_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
