/* Whatever bytes come: nccl_xml_load ends, what it accepts is valid, what it refuses it refuses
 * with a line, and notes are few and have lines. */
#include <stdlib.h>
#include <string.h>

#include "studio/foreign/nccl_xml.h"

static void count_note(const char *note, void *context)
{
    int *count = context;
    if (++*count > 64 || strncmp(note, "line ", 5) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topo topo;
    int count = 0;
    if (nccl_xml_load((const char *)data, size, &topo, count_note, &count) != TUTTI_OK) {
        if (topo.node_count != 0 || strncmp(tutti_error_message(), "line ", 5) != 0) abort();
        return 0;
    }
    if (topo_validate(&topo) != TUTTI_OK) abort();
    topo_release(&topo);
    return 0;
}
