#include "gpus.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "gpu/gpu.h"

/* The accelerator at an address on the PCI bus; -1: none. */
static int find_address(const struct topo *topo, const char *address)
{
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_ACCELERATOR && strcmp(topo->nodes[i].address, address) == 0)
            return i;
    return -1;
}

static enum tutti_status add(struct topo *topo, const struct gpu_device *gpu)
{
    char name[sizeof gpu->name + 40];
    int index = find_address(topo, gpu->bus);
    if (index < 0) {
        struct topo_node node = {.kind = TOPO_ACCELERATOR, .parent = 0};
        topo_set_text(node.address, sizeof node.address, gpu->bus);
        TRY(topo_add_node(topo, &node, &index));
    }
    struct topo_node *const node = &topo->nodes[index];
    snprintf(name, sizeof name, "%s, %u multiprocessors", gpu->name, gpu->processor_count);
    topo_set_text(node->name, sizeof node->name, name);
    node->number = gpu->number;
    node->bytes = gpu->memory_bytes;
    return TUTTI_OK;
}

enum tutti_status gpus_add(struct topo *topo)
{
    const struct gpu_driver *driver;
    TRY(gpu_driver(&driver));
    const int count = driver != NULL ? driver->device_count() : 0;
    for (int number = 0; number < count; number++) {
        struct gpu_device gpu;
        TRY(driver->describe(number, &gpu));
        TRY(add(topo, &gpu));
    }
    return TUTTI_OK;
}
