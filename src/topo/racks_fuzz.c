/* Fuzzes the text form of racks: a topology that is read is valid, and writing and reading it gives
 * the same topology. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "topo/racks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topo topo, again;
    char *text = NULL;
    size_t text_size = 0;
    if (topo_racks_load((const char *)data, size, &topo) != TUTTI_OK) {
        if (topo.node_count != 0) abort();
        return 0;
    }
    if (topo_validate(&topo) != TUTTI_OK) abort();
    FILE *file = open_memstream(&text, &text_size);
    if (file == NULL) abort();
    const bool is_written = topo_racks_dump(&topo, file) == TUTTI_OK;
    fclose(file);
    if (is_written) {
        if (topo_racks_load(text, text_size, &again) != TUTTI_OK) abort();
        if (again.node_count > topo.node_count) abort(); /* racks without hosts are gone */
        topo_release(&again);
    }
    free(text);
    topo_release(&topo);
    return 0;
}
