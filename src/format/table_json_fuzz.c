/* Whatever bytes come: table_json_load ends, what it accepts is within bounds and survives writing
 * and reading once more, and what it refuses it refuses with a line and leaves alone. */
#include <stdlib.h>
#include <string.h>

#include "format/table_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *dump(const struct tune_table *table, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    if (file == NULL) abort();
    table_json_dump(table, file);
    if (fclose(file) != 0) abort();
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tune_table read, again;
    tune_table_init(&read);
    tune_table_init(&again);
    if (table_json_load((const char *)data, size, &read) != TUTTI_OK) {
        if (strncmp(tutti_error_message(), "line ", 5) != 0) abort();
        if (read.count != 0 || read.is_loaded) abort();
        return 0;
    }
    for (int i = 0; i < read.count; i++) {
        const struct tune_entry *entry = &read.entries[i];
        if (tune_table_find(&read, &entry->key, entry->bytes_from) != entry) abort();
        if (tune_table_find(&read, &entry->key, entry->bytes_to - 1) != entry) abort();
    }
    size_t text_size, again_size;
    char *text = dump(&read, &text_size);
    if (table_json_load(text, text_size, &again) != TUTTI_OK) abort();
    char *again_text = dump(&again, &again_size);
    if (text_size != again_size || memcmp(text, again_text, text_size) != 0) abort();
    if (tune_table_fingerprint(&read) != tune_table_fingerprint(&again)) abort();
    if (read.is_loaded != again.is_loaded) abort();
    free(text);
    free(again_text);
    tune_table_release(&read);
    tune_table_release(&again);
    return 0;
}
