/* For any bytes, tables_load ends, reads and writes nothing beyond its memory, and takes no more
 * memory than tables may. What it has loaded can be copied again, and that copy loads. Checksums are
 * put right first, or else no input would get behind them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/table_copy.h"
#include "server/table_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TABLES_BYTES = 4 << 20 };

static void put_right(unsigned char *bytes, size_t size)
{
    for (size_t at = 0; size - at >= RECORD_HEADER_BYTES;) {
        const uint64_t body = record_get(bytes + at + 16, 8);
        if (body > size - at - RECORD_HEADER_BYTES) return;
        record_put(bytes + at + 8, 4,
                   crc32c(0, bytes + at + RECORD_CHECKED_FROM,
                          RECORD_HEADER_BYTES - RECORD_CHECKED_FROM + (size_t)body));
        at += RECORD_HEADER_BYTES + (size_t)body;
    }
}

static void copy_again(const struct tables *tables)
{
    const size_t capacity = tables_copy_capacity_min(tables) + 1000;
    unsigned char *const bytes = malloc(capacity);
    struct tables *again;
    struct tables_copy copy;
    struct tables_loaded loaded = {0, 0};
    if (bytes == NULL || tables_create(2 * TABLES_BYTES, &again) != TUTTI_OK) abort();
    tables_copy_init(&copy);
    while (!tables_copy_is_current(tables, &copy)) {
        size_t made, used;
        if (tables_copy_next(tables, &copy, bytes, capacity, &made) != TUTTI_OK || made == 0 ||
            tables_load(again, bytes, made, &used, &loaded) != TUTTI_OK || used != made)
            abort();
    }
    if (tables_count(again) != tables_count(tables)) abort();
    for (size_t t = 0; t < tables_count(tables); t++)
        if (table_use_of(tables_at(again, t)).rows != table_use_of(tables_at(tables, t)).rows)
            abort();
    tables_free(again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *const bytes = malloc(size + 1);
    struct tables *tables;
    struct table *table;
    struct tables_loaded loaded = {0, 0};
    size_t used;
    if (bytes == NULL || tables_create(TABLES_BYTES, &tables) != TUTTI_OK) abort();
    if (size > 0) memcpy(bytes, data, size);
    put_right(bytes, size);
    const struct table_spec spec = {.name = "rows",
                                    .kind = TABLE_ROWS,
                                    .count = 1000,
                                    .width = 2,
                                    .optimizer = {.kind = TABLE_MOMENTUM, .momentum = 0.5}};
    const struct table_spec dense = {.name = "dense",
                                     .kind = TABLE_DENSE,
                                     .count = 20,
                                     .first = 3,
                                     .share = 10,
                                     .optimizer = {.kind = TABLE_SGD}};
    if (size % 2 == 0 && (tables_add(tables, &spec, &table) != TUTTI_OK ||
                          tables_add(tables, &dense, &table) != TUTTI_OK))
        abort();
    const enum tutti_status status = tables_load(tables, bytes, size, &used, &loaded);
    if (used > size || (status == TUTTI_OK && size - used >= RECORD_HEADER_BYTES &&
                        record_get(bytes + used + 16, 8) <= size - used - RECORD_HEADER_BYTES))
        abort();
    copy_again(tables);
    tables_free(tables);
    free(bytes);
    return 0;
}
