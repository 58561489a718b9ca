/* nccl_xml.c - expat calls for every element that begins or ends; what is open is a stack.
 *
 * A <pci> is a bridge, a card, or neither, which its class and what is in it tell: bridges become
 * switches when they begin; a card only becomes a node when a <gpu> or a <net> comes in it. NVLinks
 * name their targets by address, and those may come later: they are resolved in the end.
 *
 * Foreign: the size, the depth and the number of everything are bounded, and documents that declare
 * a type, which is what entities would need, are refused.
 */
#include "studio/foreign/nccl_xml.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum {
    DEPTH_MAX = 24,         /* of elements that are known */
    SKIPPED_DEPTH_MAX = 64, /* of others */
    MACHINES_MAX = 1024,
    NVLINKS_MAX = 1 << 12,
    LINKS_MAX = 1024, /* of one sort between two gpus */
    NOTES_MAX = 16,
    CPUS_MAX = 8192 /* bits of an affinity mask */
};

enum element {
    ELEMENT_SYSTEM,
    ELEMENT_CPU,
    ELEMENT_PCI,
    ELEMENT_GPU,
    ELEMENT_NIC,
    ELEMENT_NET,
    ELEMENT_NVLINK,
    ELEMENT_XGMI,
    ELEMENT_COUNT
};

static const char *const element_names[ELEMENT_COUNT] = {"system", "cpu", "pci",    "gpu",
                                                         "nic",    "net", "nvlink", "xgmi"};

/* An element that is open. */
struct frame {
    enum element element;
    int node;                        /* the node that contains the nodes in this element */
    char address[TOPO_ADDRESS_SIZE]; /* of the card that it is, if it is one */
    double bytes_per_second;         /* of the card's PCI link; 0: not told */
    int sm;                          /* of a gpu: its generation */
    double xgmi_bytes_per_second; /* of a gpu: what one of its xGMI links carries; 0: not known */
    bool has_nvswitch;            /* of a gpu: some of its NVLinks go to one */
    double nvswitch_bytes_per_second; /* ... and carry this together */
};

struct machine {
    char hash[32]; /* host_hash, or "" */
    int node;
    int nvswitch; /* node, or -1 */
};

/* To another gpu: NVLinks, or xGMI links. */
struct nvlink {
    int node, line, to;
    char target[TOPO_ADDRESS_SIZE];
    double bytes_per_second; /* of all of them together */
};

struct reader {
    XML_Parser parser;
    struct topo *topo;
    enum tutti_status status;
    nccl_xml_note *note;
    void *context;

    struct frame frames[DEPTH_MAX];
    int depth;         /* frames that are open */
    int skipped_depth; /* elements that are open within one that is left out, with it; or 0 */

    struct machine machines[MACHINES_MAX];
    int machine_count;
    struct nvlink *nvlinks;
    int nvlink_count, nvlink_room;
    int *lines; /* of nodes: where they began */
    int line_room;
    char notes[NOTES_MAX][24]; /* elements that were told of */
    int note_count;
};

/* --------------------------------------------------------------------------------------- errors */

static int line_of(const struct reader *reader)
{
    return (int)XML_GetCurrentLineNumber(reader->parser);
}

/* The first failure ends reading. */
static void stop(struct reader *reader, enum tutti_status status)
{
    if (reader->status != TUTTI_OK || status == TUTTI_OK) return;
    reader->status = status;
    XML_StopParser(reader->parser, XML_FALSE);
}

__attribute__((format(printf, 2, 3))) static void fail(struct reader *reader, const char *format,
                                                       ...)
{
    char why[200];
    if (reader->status != TUTTI_OK) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    stop(reader, error_set(TUTTI_INVALID_OPTIONS, "line %d: %s", line_of(reader), why));
}

static void note_unknown(struct reader *reader, const char *element)
{
    char name[sizeof reader->notes[0]], text[100];
    topo_set_text(name, sizeof name, element);
    if (reader->note == NULL || reader->note_count == NOTES_MAX) return;
    for (int i = 0; i < reader->note_count; i++)
        if (strcmp(reader->notes[i], name) == 0) return;
    memcpy(reader->notes[reader->note_count++], name, sizeof name);
    snprintf(text, sizeof text, "line %d: <%s> is not known here, and is left out", line_of(reader),
             name);
    reader->note(text, reader->context);
}

/* ----------------------------------------------------------------------------------- attributes */

static const char *find(const char **attributes, const char *name)
{
    for (; attributes[0] != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0) return attributes[1];
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole number from 0 to max; absent, empty and -1 are `absent`. */
static int read_number(struct reader *reader, const char **attributes, const char *name, int max,
                       int absent)
{
    const char *text = find(attributes, name);
    int64_t value = 0;
    if (text == NULL || *text == '\0' || strcmp(text, "-1") == 0) return absent;
    const char *c = text;
    for (; is_digit(*c) && value <= max; c++) value = value * 10 + (*c - '0');
    if (*c == '\0' && value <= max) return (int)value;
    fail(reader, "%s=\"%.30s\": a number from 0 to %d is expected", name, text, max);
    return absent;
}

/* "16.0 GT/s PCIe" is 16: the decimal number that a text begins with, whatever the locale. 0:
 * none. */
static double leading_decimal(const char *text)
{
    double value = 0, unit = 1;
    int digits = 0;
    for (; is_digit(*text) && digits < 9; text++, digits++) value = value * 10 + (*text - '0');
    if (*text != '.') return value;
    for (text++; is_digit(*text) && digits < 9; text++, digits++) {
        unit /= 10;
        value += unit * (*text - '0');
    }
    return value;
}

/* "0x060400" */
static unsigned read_class(const char **attributes, const char *name)
{
    const char *text = find(attributes, name);
    return text != NULL ? (unsigned)(strtoul(text, NULL, 16) & 0xffffffU) : 0;
}

static void read_address(struct reader *reader, const char **attributes, const char *name,
                         char address[TOPO_ADDRESS_SIZE])
{
    const char *text = find(attributes, name);
    if (text == NULL || *text == '\0' || strlen(text) >= TOPO_ADDRESS_SIZE)
        fail(reader, "%s=\"...\" is expected here: an address such as 0000:17:00.0", name);
    else
        topo_set_text(address, TOPO_ADDRESS_SIZE, text);
}

/* The bandwidth of a PCI link one way, without the overhead of its coding. */
static double pci_bytes_per_second(struct reader *reader, const char **attributes)
{
    const char *speed = find(attributes, "link_speed");
    const int width = read_number(reader, attributes, "link_width", 255, 0);
    const double transfers = speed != NULL ? leading_decimal(speed) * 1e9 : 0;
    if (transfers > 1e12) return 0;
    const double coding = transfers <= 5e9    ? 8.0 / 10     /* generations 1 and 2 */
                          : transfers <= 32e9 ? 128.0 / 130  /* 3 to 5 */
                                              : 242.0 / 256; /* from 6 on */
    return transfers * coding / 8 * width;
}

/* The bandwidth of one NVLink of a GPU of that generation, one way, as its maker states it. 0: not
 * known here. */
static double nvlink_bytes_per_second(int sm)
{
    switch (sm) {
    case 60:
    case 61: return 20e9;
    case 70:
    case 72:
    case 80:
    case 90: return 25e9;
    case 86: return 14.0625e9;
    case 100:
    case 103: return 50e9;
    default: return 0;
    }
}

/* The bandwidth of one xGMI link of a GPU of that architecture ("gfx90a", "908"), one way, as its
 * maker states it. 0: not known here. Older files call gfx90a 910. */
static double xgmi_bytes_per_second(const char *architecture)
{
    static const struct {
        const char *name;
        double bytes_per_second;
    } known[] = {{"906", 46e9}, {"908", 46e9}, {"90a", 50e9}, {"910", 50e9},
                 {"940", 64e9}, {"941", 64e9}, {"942", 64e9}, {"950", 76.8e9}};
    if (architecture == NULL) return 0;
    if (strncmp(architecture, "gfx", 3) == 0) architecture += 3;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(architecture, known[i].name, strlen(known[i].name)) == 0)
            return known[i].bytes_per_second;
    return 0;
}

/* ---------------------------------------------------------------------------------------- nodes */

/* 0, which is the root, after a failure. */
static int add_node(struct reader *reader, const struct topo_node *node)
{
    int index = 0;
    if (reader->status != TUTTI_OK) return 0;
    stop(reader, topo_add_node(reader->topo, node, &index));
    if (reader->status == TUTTI_OK && index >= reader->line_room) {
        const int room = index + index / 2 + 64;
        int *grown = reallocarray(reader->lines, (size_t)room, sizeof *grown);
        if (grown == NULL) {
            stop(reader, error_set(TUTTI_NO_MEMORY, "topology: out of memory"));
            return 0;
        }
        reader->lines = grown;
        reader->line_room = room;
    }
    if (reader->status == TUTTI_OK) reader->lines[index] = line_of(reader);
    return index;
}

static void add_link(struct reader *reader, int from, int to, double bytes_per_second)
{
    const struct topo_link link = {
        .ends = {from, to}, .bytes_per_second = bytes_per_second, .known = TOPO_NOMINAL};
    if (reader->status == TUTTI_OK) stop(reader, topo_add_link(reader->topo, &link));
}

static struct machine *find_machine(struct reader *reader, const char *hash)
{
    for (int i = 0; i < reader->machine_count; i++)
        if (strcmp(reader->machines[i].hash, hash) == 0) return &reader->machines[i];
    if (reader->machine_count == MACHINES_MAX) {
        fail(reader, "more than %d machines", MACHINES_MAX);
        return &reader->machines[0];
    }
    struct machine *machine = &reader->machines[reader->machine_count++];
    const struct topo_node node = {.kind = TOPO_MACHINE, .parent = 0, .number = -1};
    memcpy(machine->hash, hash, sizeof machine->hash);
    machine->nvswitch = -1;
    machine->node = add_node(reader, &node);
    return machine;
}

static int hexadecimal(char c)
{
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "0000ffff,0000ffff": the lowest processor is the last bit. */
static void add_processors(struct reader *reader, const char *mask, int parent)
{
    int processor = 0;
    for (size_t i = strlen(mask); i > 0; i--) {
        if (mask[i - 1] == ',') continue;
        const int digit = hexadecimal(mask[i - 1]);
        if (digit < 0 || processor >= CPUS_MAX) {
            fail(reader, "affinity: hexadecimal words for at most %d processors are expected",
                 CPUS_MAX);
            return;
        }
        for (int bit = 0; bit < 4; bit++, processor++)
            if (digit >> bit & 1)
                add_node(reader, &(struct topo_node){
                                     .kind = TOPO_PU, .parent = parent, .number = processor});
    }
}

static void begin_cpu(struct reader *reader, const char **attributes, struct frame *frame)
{
    char hash[sizeof reader->machines[0].hash] = "";
    const char *text = find(attributes, "host_hash"), *mask = find(attributes, "affinity");
    if (text != NULL) topo_set_text(hash, sizeof hash, text);
    const struct topo_node node = {.kind = TOPO_NUMA,
                                   .parent = find_machine(reader, hash)->node,
                                   .number =
                                       read_number(reader, attributes, "numaid", INT32_MAX, -1)};
    frame->node = add_node(reader, &node);
    if (mask != NULL) add_processors(reader, mask, frame->node);
}

static void begin_pci(struct reader *reader, const char **attributes, struct frame *frame)
{
    enum { CLASS_BRIDGE = 0x06 };
    read_address(reader, attributes, "busid", frame->address);
    frame->bytes_per_second = pci_bytes_per_second(reader, attributes);
    if (read_class(attributes, "class") >> 16 != CLASS_BRIDGE) return;
    struct topo_node node = {.kind = TOPO_SWITCH, .parent = frame->node, .number = -1, .name = "PCI"};
    memcpy(node.address, frame->address, sizeof node.address);
    const int index = add_node(reader, &node);
    if (frame->bytes_per_second > 0) add_link(reader, index, frame->node, frame->bytes_per_second);
    frame->node = index;
    frame->address[0] = '\0';
    frame->bytes_per_second = 0;
}

/* A card's node, with its link if it is known. */
static int add_card(struct reader *reader, const struct frame *frame, struct topo_node *node)
{
    node->parent = frame->node;
    memcpy(node->address, frame->address, sizeof node->address);
    const int index = add_node(reader, node);
    if (frame->bytes_per_second > 0) add_link(reader, index, frame->node, frame->bytes_per_second);
    return index;
}

static void begin_gpu(struct reader *reader, const char **attributes, struct frame *frame)
{
    struct topo_node node = {.kind = TOPO_ACCELERATOR,
                             .number = read_number(reader, attributes, "dev", INT32_MAX, -1)};
    frame->sm = read_number(reader, attributes, "sm", 10000, 0);
    frame->xgmi_bytes_per_second = xgmi_bytes_per_second(find(attributes, "gcn"));
    if (frame->sm > 0) snprintf(node.name, sizeof node.name, "sm %d", frame->sm);
    frame->node = add_card(reader, frame, &node);
    const int rank = read_number(reader, attributes, "rank", TOPO_RANKS_MAX - 1, -1);
    if (rank < 0) return;
    add_node(reader, &(struct topo_node){.kind = TOPO_RANK, .parent = frame->node, .number = rank});
}

static void begin_net(struct reader *reader, const char **attributes, struct frame *frame)
{
    struct topo_node node = {.kind = TOPO_NIC,
                             .number = read_number(reader, attributes, "dev", INT32_MAX, -1)};
    const char *name = find(attributes, "name");
    if (name != NULL) topo_set_text(node.name, sizeof node.name, name);
    /* in megabits per second */
    node.bytes_per_second = read_number(reader, attributes, "speed", INT32_MAX, 0) * 1e6 / 8;
    frame->node = add_card(reader, frame, &node);
}

/* One switch for all NVSwitches of a machine: what a gpu's links to them carry adds up. */
static int nvswitch_of(struct reader *reader, int machine)
{
    for (int i = 0; i < reader->machine_count; i++) {
        struct machine *one = &reader->machines[i];
        const struct topo_node node = {
            .kind = TOPO_SWITCH, .parent = machine, .number = -1, .name = "NVSwitch"};
        if (one->node != machine) continue;
        if (one->nvswitch < 0) one->nvswitch = add_node(reader, &node);
        return one->nvswitch;
    }
    return 0;
}

static void end_gpu(struct reader *reader, const struct frame *frame)
{
    if (!frame->has_nvswitch || reader->status != TUTTI_OK) return;
    const int machine = topo_within(reader->topo, frame->node, TOPO_MACHINE);
    add_link(reader, frame->node, nvswitch_of(reader, machine), frame->nvswitch_bytes_per_second);
}

static void add_nvlink(struct reader *reader, const char **attributes, int node,
                       double bytes_per_second)
{
    if (reader->nvlink_count == NVLINKS_MAX) {
        fail(reader, "more than %d links between gpus", NVLINKS_MAX);
        return;
    }
    if (reader->nvlink_count == reader->nvlink_room) {
        const int room = reader->nvlink_room > 0 ? 2 * reader->nvlink_room : 64;
        struct nvlink *grown = reallocarray(reader->nvlinks, (size_t)room, sizeof *grown);
        if (grown == NULL) {
            stop(reader, error_set(TUTTI_NO_MEMORY, "topology: out of memory"));
            return;
        }
        reader->nvlinks = grown;
        reader->nvlink_room = room;
    }
    struct nvlink *nvlink = &reader->nvlinks[reader->nvlink_count++];
    *nvlink =
        (struct nvlink){.node = node, .line = line_of(reader), .bytes_per_second = bytes_per_second};
    read_address(reader, attributes, "target", nvlink->target);
}

static void begin_nvlink(struct reader *reader, const char **attributes, const struct frame *frame)
{
    enum { CLASS_DISPLAY = 0x03, CLASS_NVSWITCH = 0x068000, CLASS_CPU = 0x068001 };
    const unsigned class_id = read_class(attributes, "tclass");
    const double bytes_per_second =
        nvlink_bytes_per_second(frame->sm) * read_number(reader, attributes, "count", LINKS_MAX, 1);
    struct frame *gpu = &reader->frames[reader->depth - 1];
    if (class_id == CLASS_NVSWITCH) {
        gpu->has_nvswitch = true;
        gpu->nvswitch_bytes_per_second += bytes_per_second;
    } else if (class_id == CLASS_CPU) {
        add_link(reader, frame->node, topo_within(reader->topo, frame->node, TOPO_NUMA),
                 bytes_per_second);
    } else if (class_id == 0 || class_id >> 16 == CLASS_DISPLAY || class_id == CLASS_DISPLAY) {
        add_nvlink(reader, attributes, frame->node, bytes_per_second);
    } else {
        note_unknown(reader, "nvlink");
    }
}

/* AMD's GPUs are joined one to one, and name their targets as NVLinks do. */
static void begin_xgmi(struct reader *reader, const char **attributes, const struct frame *frame)
{
    add_nvlink(reader, attributes, frame->node,
               frame->xgmi_bytes_per_second * read_number(reader, attributes, "count", LINKS_MAX, 1));
}

/* ------------------------------------------------------------------------------------- elements */

/* Whether an element may stand in the element around it. The system stands in nothing. */
static bool belongs(enum element element, const struct frame *around)
{
    if (around == NULL) return element == ELEMENT_SYSTEM;
    switch (element) {
    case ELEMENT_SYSTEM: return false;
    case ELEMENT_CPU: return around->element == ELEMENT_SYSTEM;
    case ELEMENT_PCI:
    case ELEMENT_NIC: return around->element == ELEMENT_CPU || around->element == ELEMENT_PCI;
    case ELEMENT_GPU: return around->element == ELEMENT_PCI;
    case ELEMENT_NET: return around->element == ELEMENT_NIC;
    case ELEMENT_NVLINK:
    case ELEMENT_XGMI: return around->element == ELEMENT_GPU;
    default: return false;
    }
}

static void begin_known(struct reader *reader, enum element element, const char **attributes)
{
    struct frame frame = {0}; /* elements in a card belong to the card */
    if (reader->depth > 0) frame = reader->frames[reader->depth - 1];
    frame.element = element;
    frame.has_nvswitch = false;
    frame.nvswitch_bytes_per_second = 0;
    switch (element) {
    case ELEMENT_SYSTEM:
        frame.node =
            add_node(reader, &(struct topo_node){.kind = TOPO_CLUSTER, .parent = -1, .number = -1});
        break;
    case ELEMENT_CPU: begin_cpu(reader, attributes, &frame); break;
    case ELEMENT_PCI: begin_pci(reader, attributes, &frame); break;
    case ELEMENT_GPU: begin_gpu(reader, attributes, &frame); break;
    case ELEMENT_NET: begin_net(reader, attributes, &frame); break;
    case ELEMENT_NVLINK: begin_nvlink(reader, attributes, &frame); break;
    case ELEMENT_XGMI: begin_xgmi(reader, attributes, &frame); break;
    default: break;
    }
    reader->frames[reader->depth++] = frame;
}

static void XMLCALL begin_element(void *context, const char *name, const char **attributes)
{
    struct reader *reader = context;
    if (reader->status != TUTTI_OK) return;
    int element = 0;
    while (element < ELEMENT_COUNT && strcmp(element_names[element], name) != 0) element++;
    const struct frame *around = reader->depth > 0 ? &reader->frames[reader->depth - 1] : NULL;
    if (around == NULL && element != ELEMENT_SYSTEM) {
        fail(reader, "<system> is expected first");
    } else if (reader->skipped_depth > 0 || !belongs((enum element)element, around)) {
        if (reader->skipped_depth++ == 0) note_unknown(reader, name);
        if (reader->skipped_depth > SKIPPED_DEPTH_MAX) fail(reader, "nested too deeply");
    } else if (reader->depth == DEPTH_MAX) {
        fail(reader, "nested too deeply");
    } else {
        begin_known(reader, (enum element)element, attributes);
    }
}

static void XMLCALL end_element(void *context, const char *name)
{
    struct reader *reader = context;
    (void)name;
    if (reader->status != TUTTI_OK) return;
    if (reader->skipped_depth > 0) {
        reader->skipped_depth--;
        return;
    }
    const struct frame *frame = &reader->frames[--reader->depth];
    if (frame->element == ELEMENT_GPU) end_gpu(reader, frame);
}

/* Entities need a document type, and nothing that NCCL writes needs entities. */
static void XMLCALL refuse_doctype(void *context, const char *name, const char *system_id,
                                   const char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    fail(context, "a document type is not expected here");
}

/* -------------------------------------------------------------------------------------- the end */

/* A gpu, for looking up by machine and address. */
struct card {
    int machine, node;
    const char *address;
};

static int compare_cards(const void *a, const void *b)
{
    const struct card *left = a, *right = b;
    if (left->machine != right->machine) return left->machine < right->machine ? -1 : 1;
    return strcmp(left->address, right->address);
}

static enum tutti_status fail_at(int line, const char *why)
{
    return error_set(TUTTI_INVALID_OPTIONS, "line %d: %s", line, why);
}

/* Whether the other end has told of the same links before. */
static bool was_told(const struct reader *reader, int index)
{
    const struct nvlink *nvlink = &reader->nvlinks[index];
    for (int i = 0; i < index; i++)
        if (reader->nvlinks[i].node == nvlink->to && reader->nvlinks[i].to == nvlink->node)
            return true;
    return false;
}

static enum tutti_status join_gpus(struct reader *reader, struct card *cards)
{
    const struct topo *topo = reader->topo;
    size_t count = 0;
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_ACCELERATOR)
            cards[count++] =
                (struct card){topo_within(topo, i, TOPO_MACHINE), i, topo->nodes[i].address};
    qsort(cards, count, sizeof *cards, compare_cards);
    for (int i = 0; i < reader->nvlink_count; i++) {
        struct nvlink *nvlink = &reader->nvlinks[i];
        const struct card wanted = {topo_within(topo, nvlink->node, TOPO_MACHINE), 0,
                                    nvlink->target};
        const struct card *card = bsearch(&wanted, cards, count, sizeof *cards, compare_cards);
        if (card == NULL) return fail_at(nvlink->line, "the target of this link is no gpu here");
        if (card->node == nvlink->node) return fail_at(nvlink->line, "a link from a gpu to itself");
        nvlink->to = card->node;
        if (was_told(reader, i)) continue;
        const struct topo_link link = {.ends = {nvlink->node, nvlink->to},
                                       .bytes_per_second = nvlink->bytes_per_second,
                                       .known = TOPO_NOMINAL};
        TRY(topo_add_link(reader->topo, &link));
    }
    return TUTTI_OK;
}

/* The cluster of a single machine is that machine. */
static void drop_root(struct reader *reader)
{
    struct topo *topo = reader->topo;
    topo->node_count--;
    memmove(topo->nodes, topo->nodes + 1, (size_t)topo->node_count * sizeof *topo->nodes);
    memmove(reader->lines, reader->lines + 1, (size_t)topo->node_count * sizeof *reader->lines);
    for (int i = 0; i < topo->node_count; i++) topo->nodes[i].parent--;
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2; k++) topo->links[i].ends[k]--;
}

static enum tutti_status finish(struct reader *reader)
{
    struct topo_fault fault;
    if (reader->machine_count == 0)
        return fail_at(line_of(reader), "the system has no <cpu> in it");
    struct card *cards = calloc((size_t)reader->topo->node_count, sizeof *cards);
    if (cards == NULL) return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
    const enum tutti_status status = join_gpus(reader, cards);
    free(cards);
    TRY(status);
    if (reader->machine_count == 1) drop_root(reader);
    TRY(topo_find_fault(reader->topo, &fault));
    if (fault.why == NULL) return TUTTI_OK;
    const int node = fault.is_link ? reader->topo->links[fault.index].ends[0] : fault.index;
    return fail_at(reader->lines[node], fault.why);
}

static enum tutti_status read_all(struct reader *reader, const char *text, size_t text_bytes)
{
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, begin_element, end_element);
    XML_SetStartDoctypeDeclHandler(reader->parser, refuse_doctype);
    if (XML_Parse(reader->parser, text, (int)text_bytes, 1) == XML_STATUS_OK &&
        reader->status == TUTTI_OK)
        return finish(reader);
    if (reader->status != TUTTI_OK) return reader->status;
    const enum XML_Error error = XML_GetErrorCode(reader->parser);
    if (error == XML_ERROR_NO_MEMORY) return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
    return fail_at(line_of(reader), XML_ErrorString(error));
}

enum tutti_status nccl_xml_load(const char *text, size_t text_bytes, struct topo *topo,
                                nccl_xml_note *note, void *context)
{
    *topo = (struct topo){0};
    if (text_bytes > NCCL_XML_BYTES_MAX)
        return error_set(TUTTI_UNSUPPORTED, "topology: more than %d bytes of XML",
                         NCCL_XML_BYTES_MAX);
    enum tutti_status status = TUTTI_NO_MEMORY;
    struct reader *reader = calloc(1, sizeof *reader);
    XML_Parser parser = XML_ParserCreate(NULL);
    if (reader == NULL || parser == NULL) {
        error_set(status, "topology: out of memory");
    } else {
        *reader = (struct reader){.parser = parser, .topo = topo, .note = note, .context = context};
        status = read_all(reader, text, text_bytes);
        free(reader->nvlinks);
        free(reader->lines);
    }
    if (parser != NULL) XML_ParserFree(parser);
    free(reader);
    if (status != TUTTI_OK) topo_release(topo);
    return status;
}
