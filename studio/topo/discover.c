/* discover.c - walks hwloc's tree. Memory hangs beside the tree there (a numa node is a leaf near
 * the cores that it serves); here it contains them, so that ranks near one memory are a group.
 */
#include "studio/topo/discover.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

enum { DEPTH_MAX = 128 }; /* of hwloc's tree: what it read from a file may be foreign */

struct walk {
    struct topo *topo;
    int depth;
};

static enum tutti_status add_object(struct walk *walk, hwloc_obj_t object, int parent);

static int number_of(hwloc_obj_t object)
{
    return object->os_index <= INT_MAX ? (int)object->os_index : -1; /* also HWLOC_UNKNOWN_INDEX */
}

static const char *info(hwloc_obj_t object, const char *name)
{
    const char *value = hwloc_obj_get_info_by_name(object, name);
    return value != NULL ? value : "";
}

/* ----------------------------------------------------------------------------- memory and cores */

/* Children of a list, one after the other. */
static enum tutti_status add_list(struct walk *walk, hwloc_obj_t first, int parent)
{
    for (hwloc_obj_t child = first; child != NULL; child = child->next_sibling)
        TRY(add_object(walk, child, parent));
    return TUTTI_OK;
}

/* The first numa node of a list, also behind a cache of memory. */
static hwloc_obj_t find_memory(hwloc_obj_t object)
{
    while (object != NULL && object->type != HWLOC_OBJ_NUMANODE)
        object = object->memory_first_child;
    return object;
}

static enum tutti_status add_memory(struct walk *walk, hwloc_obj_t memory, int parent, int *index)
{
    const struct topo_node node = {.kind = TOPO_NUMA,
                                   .parent = parent,
                                   .number = number_of(memory),
                                   .bytes = memory->attr->numanode.local_memory};
    return topo_add_node(walk->topo, &node, index);
}

/* Adds the contents of an object. The first NUMA node becomes the container of everything that is
 * not memory. */
static enum tutti_status add_contents(struct walk *walk, hwloc_obj_t object, int index)
{
    if (walk->depth == DEPTH_MAX)
        return error_set(TUTTI_UNSUPPORTED, "topology: hwloc's is nested too deeply");
    walk->depth++;
    int inner = index;
    for (hwloc_obj_t child = object->memory_first_child; child != NULL; child = child->next_sibling) {
        hwloc_obj_t memory = find_memory(child);
        if (memory == NULL) continue;
        TRY(add_memory(walk, memory, index, inner == index ? &inner : NULL));
    }
    TRY(add_list(walk, object->first_child, inner));
    TRY(add_list(walk, object->io_first_child, inner));
    walk->depth--;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- devices */

enum {
    CLASS_NETWORK = 0x02,
    CLASS_DISPLAY = 0x03,
    CLASS_PROCESSING = 0x12,
    CLASS_DISPLAY_VGA = 0x0300
};

/* Names of the operating system's devices that show what a display adapter computes with. */
static bool computes(hwloc_obj_t device)
{
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC) return true;
    return device->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU && device->name != NULL &&
           (strncmp(device->name, "nvml", 4) == 0 || strncmp(device->name, "rsmi", 4) == 0 ||
            strncmp(device->name, "ze", 2) == 0);
}

static bool is_network(hwloc_obj_t device)
{
    return device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
           device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
}

static bool any_device(hwloc_obj_t object, bool (*is_one)(hwloc_obj_t device))
{
    for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && is_one(child)) return true;
    return false;
}

/* TOPO_NIC, TOPO_ACCELERATOR, or TOPO_KIND_COUNT for what Tutti has no use for. The screen of a
 * server is a VGA adapter: only one that computes is an accelerator. */
static enum topo_kind kind_of_device(hwloc_obj_t object)
{
    if (object->type == HWLOC_OBJ_OS_DEVICE)
        return is_network(object) ? TOPO_NIC
               : computes(object) ? TOPO_ACCELERATOR
                                  : TOPO_KIND_COUNT;
    if (object->type != HWLOC_OBJ_PCI_DEVICE) return TOPO_KIND_COUNT;
    const unsigned class_id = object->attr->pcidev.class_id, base = class_id >> 8;
    if (base == CLASS_NETWORK || any_device(object, is_network)) return TOPO_NIC;
    if (base == CLASS_PROCESSING || (base == CLASS_DISPLAY && class_id != CLASS_DISPLAY_VGA) ||
        any_device(object, computes))
        return TOPO_ACCELERATOR;
    return TOPO_KIND_COUNT;
}

/* The name that programs give the device, else the name that its maker gives it. */
static const char *name_of_device(hwloc_obj_t object, enum topo_kind kind)
{
    if (object->type == HWLOC_OBJ_OS_DEVICE) return object->name != NULL ? object->name : "";
    bool (*const is_one)(hwloc_obj_t device) = kind == TOPO_NIC ? is_network : computes;
    for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && is_one(child) && child->name != NULL)
            return child->name;
    return info(object, "PCIDevice");
}

static void write_address(const struct hwloc_pcidev_attr_s *pci, char address[TOPO_ADDRESS_SIZE])
{
    snprintf(address, TOPO_ADDRESS_SIZE, "%04x:%02x:%02x.%01x", (unsigned)pci->domain,
             (unsigned)pci->bus, (unsigned)pci->dev, (unsigned)pci->func & 0xfU);
}

/* A PCI link to where the node stands, if hwloc knows how fast it is. */
static enum tutti_status add_bus_link(struct walk *walk, int index, float gigabytes_per_second)
{
    if (!(gigabytes_per_second > 0 && gigabytes_per_second < 1e6F)) return TUTTI_OK;
    const struct topo_link link = {.ends = {index, walk->topo->nodes[index].parent},
                                   .bytes_per_second = (double)gigabytes_per_second * 1e9,
                                   .known = TOPO_NOMINAL};
    return topo_add_link(walk->topo, &link);
}

static enum tutti_status add_device(struct walk *walk, hwloc_obj_t object, int parent,
                                    enum topo_kind kind)
{
    struct topo_node node = {.kind = kind, .parent = parent, .number = -1};
    int index;
    topo_set_text(node.name, sizeof node.name, name_of_device(object, kind));
    if (object->type == HWLOC_OBJ_PCI_DEVICE) write_address(&object->attr->pcidev, node.address);
    TRY(topo_add_node(walk->topo, &node, &index));
    if (object->type != HWLOC_OBJ_PCI_DEVICE) return TUTTI_OK;
    return add_bus_link(walk, index, object->attr->pcidev.linkspeed);
}

/* Whether something below the bridge, or it itself, is a device that Tutti has a use for. */
static bool has_device(hwloc_obj_t object, int depth)
{
    if (kind_of_device(object) != TOPO_KIND_COUNT) return true;
    if (object->type != HWLOC_OBJ_BRIDGE || depth == DEPTH_MAX) return false;
    for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling)
        if (has_device(child, depth + 1)) return true;
    return false;
}

/* A bridge between PCI buses where several paths meet. */
static bool is_switch(hwloc_obj_t object)
{
    int paths = 0;
    if (object->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) return false;
    for (hwloc_obj_t child = object->io_first_child; child != NULL; child = child->next_sibling)
        paths += has_device(child, 0);
    return paths > 1;
}

static enum tutti_status add_bridge(struct walk *walk, hwloc_obj_t object, int parent)
{
    if (!is_switch(object)) return add_contents(walk, object, parent);
    struct topo_node node = {.kind = TOPO_SWITCH, .parent = parent, .number = -1, .name = "PCI"};
    int index;
    write_address(&object->attr->bridge.upstream.pci, node.address);
    TRY(topo_add_node(walk->topo, &node, &index));
    TRY(add_bus_link(walk, index, object->attr->bridge.upstream.pci.linkspeed));
    return add_contents(walk, object, index);
}

/* ------------------------------------------------------------------------------------- the tree */

static enum tutti_status add_processor(struct walk *walk, hwloc_obj_t object, int parent,
                                       enum topo_kind kind)
{
    struct topo_node node = {.kind = kind, .parent = parent, .number = number_of(object)};
    int index;
    if (kind == TOPO_PACKAGE) topo_set_text(node.name, sizeof node.name, info(object, "CPUModel"));
    TRY(topo_add_node(walk->topo, &node, &index));
    return add_contents(walk, object, index);
}

static enum tutti_status add_cache(struct walk *walk, hwloc_obj_t object, int parent)
{
    const struct topo_node node = {.kind = TOPO_CACHE,
                                   .parent = parent,
                                   .number = -1,
                                   .cache_level = (int)object->attr->cache.depth,
                                   .bytes = object->attr->cache.size};
    int index;
    TRY(topo_add_node(walk->topo, &node, &index));
    return add_contents(walk, object, index);
}

static enum tutti_status add_object(struct walk *walk, hwloc_obj_t object, int parent)
{
    const enum topo_kind device = kind_of_device(object);
    if (device != TOPO_KIND_COUNT) return add_device(walk, object, parent, device);
    switch (object->type) {
    case HWLOC_OBJ_PACKAGE: return add_processor(walk, object, parent, TOPO_PACKAGE);
    case HWLOC_OBJ_CORE: return add_processor(walk, object, parent, TOPO_CORE);
    case HWLOC_OBJ_PU: return add_processor(walk, object, parent, TOPO_PU);
    case HWLOC_OBJ_L2CACHE:
    case HWLOC_OBJ_L3CACHE:
    case HWLOC_OBJ_L4CACHE:
    case HWLOC_OBJ_L5CACHE: return add_cache(walk, object, parent);
    case HWLOC_OBJ_BRIDGE: return add_bridge(walk, object, parent);
    default: return add_contents(walk, object, parent);
    }
}

static enum tutti_status add_machine(struct topo *topo, hwloc_obj_t root)
{
    struct walk walk = {.topo = topo};
    struct topo_node node = {.kind = TOPO_MACHINE, .parent = -1, .number = -1};
    topo_set_text(node.name, sizeof node.name, info(root, "HostName"));
    TRY(topo_add_node(topo, &node, NULL));
    TRY(add_contents(&walk, root, 0));
    return topo_validate(topo);
}

/* ---------------------------------------------------------------------------------------- hwloc */

struct source {
    const char *synthetic, *xml; /* at most one; neither: this host */
    int xml_bytes;
};

static enum tutti_status load(hwloc_topology_t hwloc, const struct source *source)
{
    if (source->synthetic != NULL && hwloc_topology_set_synthetic(hwloc, source->synthetic) != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "topology: hwloc does not understand \"%.100s\"",
                         source->synthetic);
    if (source->xml != NULL && hwloc_topology_set_xmlbuffer(hwloc, source->xml, source->xml_bytes))
        return error_set(TUTTI_INVALID_OPTIONS, "topology: hwloc cannot read this as its XML");
    if (hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        hwloc_topology_load(hwloc) == 0)
        return TUTTI_OK;
    if (source->synthetic != NULL || source->xml != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "topology: hwloc finds no machine in this");
    return error_system("topology: hwloc cannot look at this machine");
}

static enum tutti_status discover(const struct source *source, struct topo *topo)
{
    *topo = (struct topo){0};
    hwloc_topology_t hwloc;
    errno = 0;
    if (hwloc_topology_init(&hwloc) != 0) return error_system("topology: hwloc does not start");
    enum tutti_status status = load(hwloc, source);
    if (status == TUTTI_OK) status = add_machine(topo, hwloc_get_root_obj(hwloc));
    if (status != TUTTI_OK) topo_release(topo);
    hwloc_topology_destroy(hwloc);
    return status;
}

enum tutti_status topo_discover(struct topo *topo)
{
    return discover(&(struct source){0}, topo);
}

enum tutti_status topo_discover_synthetic(const char *description, struct topo *topo)
{
    return discover(&(struct source){.synthetic = description}, topo);
}

enum tutti_status topo_discover_xml(const char *text, size_t text_bytes, struct topo *topo)
{
    if (text_bytes > INT_MAX - 1) {
        *topo = (struct topo){0};
        return error_set(TUTTI_UNSUPPORTED, "topology: too much XML");
    }
    return discover(&(struct source){.xml = text, .xml_bytes = (int)text_bytes + 1}, topo);
}
