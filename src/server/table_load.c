/* Copies of tables that come from a file or a network. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "server/table_copy.h"
#include "server/table_record.h"
#include "server/table_state.h"

static enum tutti_status damaged(const char *what)
{
    return error_set(TUTTI_CORRUPT, "a copy of tables is damaged: %s", what);
}

/* A table that a record is for, or NULL. */
static struct table *table_of(const struct tables *tables, const struct table_record *record,
                              enum table_kind kind)
{
    if (record->table >= tables->count) return NULL;
    struct table *const table = tables->list[record->table];
    return table->spec.kind == kind ? table : NULL;
}

/* Whether the body has head bytes and `count` items, at least one. */
static bool has_items(const struct table_record *record, uint64_t head, uint64_t item_bytes)
{
    uint64_t bytes;
    return record->count > 0 && !__builtin_mul_overflow(record->count, item_bytes, &bytes) &&
           !__builtin_add_overflow(bytes, head, &bytes) && bytes == record->body_bytes;
}

/* Before the body is there: whether a table can have it, so that nobody waits for bytes that never
 * come. */
static bool is_possible(const struct tables *tables, const struct table_record *record)
{
    const struct table *table;
    switch (record->kind) {
    case RECORD_TABLE:
        return record->table <= tables->count && record->body_bytes > RECORD_SPEC_BYTES &&
               record->body_bytes <= RECORD_SPEC_BYTES_MAX && record->count == 0;
    case RECORD_ROWS:
        table = table_of(tables, record, TABLE_ROWS);
        return table != NULL && record->count < TABLE_PLACE_NONE &&
               has_items(record, 0, sizeof(int64_t) + table->blocks.row_floats * sizeof(float));
    case RECORD_DENSE:
        table = table_of(tables, record, TABLE_DENSE);
        return table != NULL && record->count <= table->spec.share &&
               has_items(record, RECORD_DENSE_HEAD_BYTES, (1 + table->state_count) * sizeof(float));
    case RECORD_END:
        return record->body_bytes == RECORD_END_BYTES && record->count == 0 && record->table == 0;
    }
    return false;
}

static enum tutti_status parse_header(const struct tables *tables, const unsigned char *at,
                                      struct table_record *record)
{
    if (record_get(at, 4) != RECORD_MAGIC) return damaged("it has no record where one begins");
    const uint64_t kind = record_get(at + 4, 4);
    if (kind < RECORD_TABLE || kind > RECORD_END) return damaged("a record is of no known kind");
    *record = (struct table_record){(enum table_record_kind)kind, (uint32_t)record_get(at + 12, 4),
                                    record_get(at + 16, 8), record_get(at + 24, 8)};
    if (is_possible(tables, record)) return TUTTI_OK;
    return damaged("a record is not of the size that its table needs");
}

/* ------------------------------------------------------------------------------- bodies */

static enum tutti_status load_spec(struct tables *tables, const struct table_record *record,
                                   const unsigned char *body)
{
    struct table_spec spec;
    char name[TABLE_NAME_BYTES_MAX + 1];
    uint64_t steps;
    struct table *table;
    if (!table_record_spec_parse(body, record->body_bytes, &spec, name, &steps))
        return damaged("a record of a table is none");
    if (record->table < tables->count) {
        table = tables->list[record->table];
        if (table_record_spec_differs(&table->spec, &spec))
            return error_set(TUTTI_INVALID_OPTIONS,
                             "a copy is of other tables: table %" PRIu32
                             " is \"%s\" here, with other options than in the copy",
                             record->table, table->name);
        TRY(table_set_rate(table, spec.optimizer.rate));
    } else {
        TRY(tables_add(tables, &spec, &table));
    }
    table->steps = steps;
    table_changes(table);
    return TUTTI_OK;
}

static enum tutti_status put_rows(struct table *table, size_t count, const int64_t *rows,
                                  const unsigned char *records, uint32_t *places)
{
    const size_t row_floats = table->blocks.row_floats, row_bytes = row_floats * sizeof(float);
    TRY(table_rows_make(table, count, rows, places));
    const uint64_t version = table_changes(table);
    for (size_t i = 0; i < count; i++) {
        record_swap(table_blocks_record(&table->blocks, places[i]), records + i * row_bytes,
                    sizeof(float), row_floats);
        table_block_of(&table->blocks, places[i])->version = version;
    }
    return TUTTI_OK;
}

static enum tutti_status load_rows(struct tables *tables, const struct table_record *record,
                                   const unsigned char *body)
{
    struct table *const table = tables->list[record->table];
    const size_t count = (size_t)record->count;
    int64_t *const rows = malloc(count * sizeof *rows);
    uint32_t *const places = malloc(count * sizeof *places);
    enum tutti_status status = TUTTI_OK;
    if (rows == NULL || places == NULL) {
        status = table_no_memory(table, "rows of a copy");
        goto free_lists;
    }
    record_swap(rows, body, sizeof *rows, count);
    for (size_t i = 0; i < count && status == TUTTI_OK; i++)
        if (rows[i] < 0 || (uint64_t)rows[i] >= table->spec.count)
            status = damaged("a row is not one of its table");
    if (status == TUTTI_OK)
        status = put_rows(table, count, rows, body + count * sizeof *rows, places);
free_lists:
    free(places);
    free(rows);
    return status;
}

static enum tutti_status load_elements(struct tables *tables, const struct table_record *record,
                                       const unsigned char *body)
{
    struct table *const table = tables->list[record->table];
    const uint64_t first = record_get(body, RECORD_DENSE_HEAD_BYTES), count = record->count;
    if (first > table->spec.share || count > table->spec.share - first)
        return damaged("elements are beyond their share");
    body += RECORD_DENSE_HEAD_BYTES;
    TRY(table_dense_own(table));
    record_swap(table->values + first, body, sizeof(float), count);
    for (unsigned s = 0; s < table->state_count; s++) {
        body += count * sizeof(float);
        record_swap(table->state[s] + first, body, sizeof(float), count);
    }
    table_dense_mark(table, first, count, table_changes(table));
    return TUTTI_OK;
}

static enum tutti_status load_end(const struct tables *tables, const unsigned char *body,
                                  struct tables_loaded *loaded)
{
    if (record_get(body + 8, 8) > tables->count) return damaged("tables are missing at its end");
    loaded->passes++;
    loaded->version = record_get(body, 8);
    return TUTTI_OK;
}

static enum tutti_status load_record(struct tables *tables, const struct table_record *record,
                                     const unsigned char *at, struct tables_loaded *loaded)
{
    const unsigned char *const body = at + RECORD_HEADER_BYTES;
    const size_t checked = RECORD_HEADER_BYTES - RECORD_CHECKED_FROM + (size_t)record->body_bytes;
    if (crc32c(0, at + RECORD_CHECKED_FROM, checked) != record_get(at + 8, 4))
        return damaged("a checksum is wrong");
    switch (record->kind) {
    case RECORD_TABLE: return load_spec(tables, record, body);
    case RECORD_ROWS: return load_rows(tables, record, body);
    case RECORD_DENSE: return load_elements(tables, record, body);
    case RECORD_END: return load_end(tables, body, loaded);
    }
    return damaged("a record is of no known kind");
}

enum tutti_status tables_load(struct tables *tables, const void *bytes, size_t size, size_t *used,
                              struct tables_loaded *loaded)
{
    const unsigned char *const begin = bytes;
    for (*used = 0; size - *used >= RECORD_HEADER_BYTES;) {
        struct table_record record;
        TRY(parse_header(tables, begin + *used, &record));
        if (record.body_bytes > size - *used - RECORD_HEADER_BYTES) break;
        TRY(load_record(tables, &record, begin + *used, loaded));
        *used += RECORD_HEADER_BYTES + (size_t)record.body_bytes;
    }
    return TUTTI_OK;
}
