/* Whatever bytes come: topo_json_load ends, what it accepts is valid and survives writing and
 * reading once more, and what it refuses it refuses with a line. */
#include <stdlib.h>
#include <string.h>

#include "studio/topo/topo_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topo topo, again;
    if (topo_json_load((const char *)data, size, &topo) != TUTTI_OK) {
        if (topo.node_count != 0 || strncmp(tutti_error_message(), "line ", 5) != 0) abort();
        return 0;
    }
    if (topo_validate(&topo) != TUTTI_OK) abort();
    char *text = NULL;
    size_t text_size;
    FILE *file = open_memstream(&text, &text_size);
    if (file == NULL || topo_json_dump(&topo, file) != TUTTI_OK || fclose(file) != 0) abort();
    if (topo_json_load(text, text_size, &again) != TUTTI_OK) abort();
    if (!topo_equal(&topo, &again)) abort();
    free(text);
    topo_release(&topo);
    topo_release(&again);
    return 0;
}
