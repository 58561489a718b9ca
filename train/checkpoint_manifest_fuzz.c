/* For any bytes, manifest_parse ends, and a manifest that it accepts prints as the same bytes. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "checkpoint_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool check(const char *text, size_t size)
{
    struct manifest manifest;
    const enum tutti_status status = manifest_parse(text, size, &manifest);
    if (status != TUTTI_OK) {
        if (status != TUTTI_CORRUPT && status != TUTTI_UNSUPPORTED) abort();
        if (manifest.shards != NULL) abort();
        return false;
    }
    char *const again = manifest_print(&manifest);
    if (again == NULL || strlen(again) != size || memcmp(again, text, size) != 0) abort();
    free(again);
    manifest_release(&manifest);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 32);
    if (text == NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    (void)check(text, size);
    /* And with the last line that it ought to have. */
    snprintf(text + size, 32, "end %08x\n", (unsigned)crc32c(0, text, size));
    (void)check(text, size + strlen("end 00000000\n"));
    free(text);
    return 0;
}
