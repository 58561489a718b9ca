#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "studio/foreign/nccl_xml.h"
#include "studio/topo/path.h"

/* In the shape that NCCL dumps: two sockets; on the first a switch with two gpus and a nic, on the
 * second a gpu, and a nic that is on no bus. */
static const char sample[] =
    "<system version=\"1\">\n"
    "  <cpu numaid=\"0\" affinity=\"00000000,0000000f\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
    "familyid=\"6\" modelid=\"85\">\n"
    "    <pci busid=\"0000:16:00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "      <pci busid=\"0000:17:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "        <gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\">\n"
    "          <nvlink target=\"0000:18:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
    "          <nvlink target=\"0000:b1:00.0\" count=\"2\" tclass=\"0x030200\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"0000:18:00.0\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" "
    "link_width=\"8\">\n"
    "        <gpu dev=\"1\" sm=\"80\" rank=\"1\" gdr=\"1\">\n"
    "          <nvlink target=\"0000:17:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
    "        </gpu>\n"
    "      </pci>\n"
    "      <pci busid=\"0000:19:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" "
    "link_width=\"16\">\n"
    "        <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" latency=\"0.000000\" "
    "guid=\"0x1\" maxconn=\"131072\" gdr=\"1\"/></nic>\n"
    "      </pci>\n"
    "    </pci>\n"
    "  </cpu>\n"
    "  <cpu numaid=\"1\" affinity=\"00000000,000000F0\">\n"
    "    <pci busid=\"0000:b1:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n"
    "      <gpu dev=\"2\" sm=\"80\" rank=\"2\" gdr=\"1\">\n"
    "        <nvlink target=\"0000:17:00.0\" count=\"2\" tclass=\"0x030200\"/>\n"
    "      </gpu>\n"
    "    </pci>\n"
    "    <nic><net name=\"eth0\" dev=\"1\" speed=\"10000\" port=\"0\"/></nic>\n"
    "  </cpu>\n"
    "</system>\n";

static struct topo loaded(const char *text)
{
    struct topo topo;
    if (nccl_xml_load(text, strlen(text), &topo, NULL, NULL) != TUTTI_OK)
        fail_msg("%s", tutti_error_message());
    assert_int_equal(topo_validate(&topo), TUTTI_OK);
    return topo;
}

static int count(const struct topo *topo, enum topo_kind kind)
{
    int found = 0;
    for (int i = 0; i < topo->node_count; i++) found += topo->nodes[i].kind == kind;
    return found;
}

static int find(const struct topo *topo, enum topo_kind kind, int number)
{
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == kind && topo->nodes[i].number == number) return i;
    fail_msg("no %s %d", topo_kind_name(kind), number);
    return -1;
}

static double bytes_per_second(const struct topo *topo, int from_rank, int to_rank)
{
    struct topo_reach reach;
    assert_int_equal(topo_path(topo, from_rank, to_rank, &reach), TUTTI_OK);
    assert_true(reach.hops > 0);
    return reach.bytes_per_second;
}

static void everything_stands_where_it_is(void **state)
{
    (void)state;
    struct topo topo = loaded(sample);
    assert_int_equal(topo.nodes[0].kind, TOPO_MACHINE);
    assert_int_equal(count(&topo, TOPO_NUMA), 2);
    assert_int_equal(count(&topo, TOPO_PU), 8);
    assert_int_equal(count(&topo, TOPO_SWITCH), 1);
    assert_int_equal(count(&topo, TOPO_ACCELERATOR), 3);
    assert_int_equal(count(&topo, TOPO_NIC), 2);
    assert_int_equal(topo_rank_count(&topo), 3);
    const int gpu = find(&topo, TOPO_ACCELERATOR, 1), nic = find(&topo, TOPO_NIC, 0);
    assert_string_equal(topo.nodes[gpu].address, "0000:18:00.0");
    assert_string_equal(topo.nodes[nic].name, "mlx5_0");
    assert_true(topo.nodes[nic].bytes_per_second == 25e9);
    assert_int_equal(topo.nodes[topo.nodes[gpu].parent].kind, TOPO_SWITCH);
    assert_int_equal(topo.nodes[gpu].parent, topo.nodes[nic].parent);
    assert_int_equal(topo_within(&topo, find(&topo, TOPO_PU, 7), TOPO_NUMA),
                     find(&topo, TOPO_NUMA, 1));
    assert_int_equal(topo_within(&topo, find(&topo, TOPO_PU, 0), TOPO_NUMA),
                     find(&topo, TOPO_NUMA, 0));
    assert_int_equal(topo.nodes[find(&topo, TOPO_NIC, 1)].parent, find(&topo, TOPO_NUMA, 1));
    assert_int_equal(find(&topo, TOPO_RANK, 2), find(&topo, TOPO_ACCELERATOR, 2) + 1);
    topo_release(&topo);
}

static void links_carry_what_generation_and_width_say(void **state)
{
    (void)state;
    struct topo topo = loaded(sample);
    assert_int_equal(topo.link_count,
                     4 + 2); /* PCI links that are known, and NVLinks once for both ends */
    assert_true(bytes_per_second(&topo, 0, 1) == 100e9);
    assert_true(bytes_per_second(&topo, 2, 0) == 50e9);
    const double narrow = bytes_per_second(&topo, 1, 2); /* eight lanes of the third generation */
    assert_true(narrow > 7.87e9 && narrow < 7.88e9);
    topo_release(&topo);
}

static void nvswitches_are_one_switch(void **state)
{
    (void)state;
    char text[4096] = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"1\">";
    for (int i = 0; i < 4; i++) {
        char gpu[512];
        snprintf(
            gpu, sizeof gpu,
            "<pci busid=\"0000:0%d:00.0\" class=\"0x030200\"><gpu dev=\"%d\" sm=\"90\" rank=\"%d\">"
            "<nvlink target=\"0000:c4:00.0\" count=\"10\" tclass=\"0x068000\"/>"
            "<nvlink target=\"0000:c5:00.0\" count=\"8\" tclass=\"0x068000\"/></gpu></pci>",
            i, i, i);
        strcat(text, gpu);
    }
    strcat(text, "</cpu></system>");
    struct topo topo = loaded(text);
    struct topo_reach reach;
    assert_int_equal(count(&topo, TOPO_SWITCH), 1);
    assert_int_equal(topo.link_count, 4);
    assert_int_equal(topo_path(&topo, 0, 3, &reach), TUTTI_OK);
    assert_true(reach.link_count == 2 && reach.bytes_per_second == 450e9);
    topo_release(&topo);
}

static void several_hosts_are_a_cluster(void **state)
{
    (void)state;
    struct topo topo = loaded("<system><cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"3\"/>"
                              "<cpu host_hash=\"0x2\" numaid=\"0\" affinity=\"3\"/>"
                              "<cpu host_hash=\"0x1\" numaid=\"1\" affinity=\"c\"/></system>");
    assert_int_equal(topo.nodes[0].kind, TOPO_CLUSTER);
    assert_int_equal(count(&topo, TOPO_MACHINE), 2);
    assert_int_equal(count(&topo, TOPO_NUMA), 3);
    const int second = find(&topo, TOPO_NUMA, 1);
    assert_int_equal(topo.nodes[second].parent, 1); /* the first machine */
    topo_release(&topo);
}

static void processors_of_a_gpu_may_be_its_neighbours_by_nvlink(void **state)
{
    (void)state;
    struct topo topo = loaded("<system><cpu numaid=\"8\"><pci busid=\"0:1:0\" class=\"0x030200\">"
                              "<gpu dev=\"0\" sm=\"70\"><nvlink target=\"0:2:0\" count=\"3\" "
                              "tclass=\"0x068001\"/></gpu></pci></cpu></system>");
    assert_int_equal(topo.link_count, 1);
    assert_int_equal(topo.links[0].ends[1], find(&topo, TOPO_NUMA, 8));
    assert_true(topo.links[0].bytes_per_second == 75e9);
    topo_release(&topo);
}

static void links_of_amd_are_read_as_nvlinks_are(void **state)
{
    (void)state;
    struct topo topo = loaded(
        "<system><cpu numaid=\"0\"><pci busid=\"0:1:0\" class=\"0x120000\">"
        "<gpu dev=\"0\" sm=\"304\" gcn=\"gfx942\" rank=\"0\">"
        "<xgmi target=\"0:2:0\" count=\"2\" tclass=\"0x120000\"/></gpu></pci>"
        "<pci busid=\"0:2:0\" class=\"0x120000\"><gpu dev=\"1\" sm=\"304\" gcn=\"gfx942\" "
        "rank=\"1\">"
        "<xgmi target=\"0:1:0\" count=\"2\" tclass=\"0x120000\"/></gpu></pci>"
        "<pci busid=\"0:3:0\" class=\"0x038000\"><gpu dev=\"2\" sm=\"120\" gcn=\"908\" rank=\"2\">"
        "<xgmi target=\"0:1:0\" tclass=\"0x038000\"/></gpu></pci>"
        "<pci busid=\"0:4:0\" class=\"0x038000\"><gpu dev=\"3\" sm=\"9\" gcn=\"1201\" rank=\"3\">"
        "<xgmi target=\"0:1:0\" count=\"1\" tclass=\"0x038000\"/></gpu></pci></cpu></system>");
    assert_int_equal(topo.link_count, 3); /* both ends tell of the first one */
    assert_true(topo.links[0].bytes_per_second == 128e9);
    assert_true(topo.links[1].bytes_per_second == 46e9);
    assert_true(topo.links[2].bytes_per_second == 0); /* not known here */
    assert_true(bytes_per_second(&topo, 0, 1) == 128e9);
    topo_release(&topo);
}

struct notes {
    int count;
    char text[400];
};

static void take_note(const char *note, void *context)
{
    struct notes *notes = context;
    notes->count++;
    strcat(notes->text, note);
    strcat(notes->text, ";");
}

static void what_is_not_known_is_left_out_and_told_once(void **state)
{
    (void)state;
    static const char text[] = "<system><cpu numaid=\"0\">\n<weather><pci busid=\"1\"/></weather>\n"
                               "<weather/><gpu/></cpu>\n<pci busid=\"2\"/></system>";
    struct notes notes = {0};
    struct topo topo;
    assert_int_equal(nccl_xml_load(text, strlen(text), &topo, take_note, &notes), TUTTI_OK);
    assert_int_equal(notes.count, 3);
    assert_string_equal(notes.text, "line 2: <weather> is not known here, and is left out;"
                                    "line 3: <gpu> is not known here, and is left out;"
                                    "line 4: <pci> is not known here, and is left out;");
    assert_int_equal(topo.node_count, 2);
    topo_release(&topo);
}

static const struct {
    const char *text, *message;
} wrong[] = {
    {"", "line 1: no element found"},
    {"<system>\n<cpu>", "line 2: "},
    {"<cpu/>", "line 1: <system> is expected first"},
    {"<system/>", "line 1: the system has no <cpu>"},
    {"<!DOCTYPE x [<!ENTITY a \"b\">]><system><cpu/></system>", "a document type"},
    {"<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><system><cpu/></system>", "a document type"},
    {"<system><cpu numaid=\"x\"/></system>", "numaid=\"x\": a number"},
    {"<system><cpu numaid=\"99999999999999999999\"/></system>", "a number from 0"},
    {"<system><cpu affinity=\"12g\"/></system>", "affinity: hexadecimal"},
    {"<system><cpu>\n<pci class=\"0x060400\"/></cpu></system>", "line 2: busid"},
    {"<system><cpu>\n<pci busid=\"0123456789012345678901234567890\"/></cpu></system>",
     "line 2: busid"},
    {"<system><cpu><pci busid=\"1\">\n<gpu rank=\"70000\"/></pci></cpu></system>", "line 2: rank"},
    {"<system><cpu><pci busid=\"1\"><gpu rank=\"1\"/></pci>\n<pci busid=\"2\"><gpu "
     "rank=\"1\"/></pci></cpu></system>",
     "line 2: another rank"},
    {"<system><cpu><pci busid=\"1\"><gpu>\n<nvlink target=\"2\"/></gpu></pci></cpu></system>",
     "line 2: the target"},
    {"<system><cpu><pci busid=\"1\"><gpu>\n<nvlink target=\"1\"/></gpu></pci></cpu></system>",
     "line 2: a link from a gpu to itself"},
    {"<system><cpu><pci busid=\"1\"><gpu>\n<nvlink/></gpu></pci></cpu></system>", "line 2: target"},
};

static void what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct topo topo;
        assert_int_equal(nccl_xml_load(wrong[i].text, strlen(wrong[i].text), &topo, NULL, NULL),
                         TUTTI_INVALID_OPTIONS);
        assert_int_equal(topo.node_count, 0);
        if (strncmp(tutti_error_message(), "line ", 5) != 0 ||
            strstr(tutti_error_message(), wrong[i].message) == NULL)
            fail_msg("%s\nsays: %s\nand not: %s", wrong[i].text, tutti_error_message(),
                     wrong[i].message);
    }
}

static void every_text_that_ends_too_early_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size + 2 < sizeof sample; size++) {
        struct topo topo;
        char *text = malloc(size + 1); /* so that sanitizers see its end */
        assert_non_null(text);
        memcpy(text, sample, size);
        assert_int_equal(nccl_xml_load(text, size, &topo, NULL, NULL), TUTTI_INVALID_OPTIONS);
        free(text);
    }
}

/* Elements of that name in each other. */
static void expect_too_deep(const char *element, const char *attributes)
{
    enum { DEPTH = 20000 };
    char *text = NULL;
    size_t size;
    struct topo topo;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    fputs("<system><cpu>", file);
    for (int i = 0; i < DEPTH; i++) fprintf(file, "<%s %s>", element, attributes);
    for (int i = 0; i < DEPTH; i++) fprintf(file, "</%s>", element);
    fputs("</cpu></system>", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(nccl_xml_load(text, size, &topo, NULL, NULL), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "too deeply"));
    free(text);
}

static void nesting_has_a_bound(void **state)
{
    (void)state;
    expect_too_deep("pci", "busid=\"0000:01:00.0\" class=\"0x060400\"");
    expect_too_deep("sofa", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_stands_where_it_is),
        cmocka_unit_test(links_carry_what_generation_and_width_say),
        cmocka_unit_test(nvswitches_are_one_switch),
        cmocka_unit_test(several_hosts_are_a_cluster),
        cmocka_unit_test(processors_of_a_gpu_may_be_its_neighbours_by_nvlink),
        cmocka_unit_test(links_of_amd_are_read_as_nvlinks_are),
        cmocka_unit_test(what_is_not_known_is_left_out_and_told_once),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(every_text_that_ends_too_early_is_refused),
        cmocka_unit_test(nesting_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
