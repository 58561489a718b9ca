#include "format/table_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "format/table_json.h"
#include "format/trusted_file.h"

enum tutti_status table_file_load(const char *path, struct tune_table *table)
{
    char *text;
    size_t size;
    TRY(trusted_file_read(path, TABLE_JSON_BYTES_MAX, &text, &size));
    const enum tutti_status status = table_json_load(text, size, table);
    free(text);
    return status == TUTTI_OK ? TUTTI_OK : trusted_file_blame(path, status);
}

enum tutti_status table_file_save(const char *path, const struct tune_table *table)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return error_set(TUTTI_NO_MEMORY, "table: out of memory");
    table_json_dump(table, file);
    const enum tutti_status status = fclose(file) == 0
                                         ? trusted_file_write(path, text, size)
                                         : error_set(TUTTI_NO_MEMORY, "table: out of memory");
    free(text);
    return status;
}
