#include "server/table_copy.h"

#include "base/status.h"
#include "server/table_record.h"
#include "server/table_state.h"

void tables_copy_init(struct tables_copy *copy)
{
    *copy = (struct tables_copy){0};
}

bool tables_copy_is_current(const struct tables *tables, const struct tables_copy *copy)
{
    return !copy->in_pass && copy->since == tables->version;
}

/* Bytes of a row, or of an element and its state. */
static size_t item_bytes(const struct table *table)
{
    if (table->spec.kind == TABLE_DENSE) return (1 + table->state_count) * sizeof(float);
    return sizeof(int64_t) + table->blocks.row_floats * sizeof(float);
}

static size_t head_bytes(const struct table *table)
{
    return RECORD_HEADER_BYTES + (table->spec.kind == TABLE_DENSE ? RECORD_DENSE_HEAD_BYTES : 0);
}

size_t tables_copy_capacity_min(const struct tables *tables)
{
    size_t most = RECORD_HEADER_BYTES + RECORD_SPEC_BYTES_MAX;
    for (size_t t = 0; t < tables->count; t++) {
        const size_t bytes = head_bytes(tables->list[t]) + item_bytes(tables->list[t]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* --------------------------------------------------------------------------------- ranges */

static uint64_t range_count(const struct table *table)
{
    return table->spec.kind == TABLE_DENSE ? table->range_count : table->blocks.count;
}

static uint64_t range_version(const struct table *table, uint64_t range)
{
    return table->spec.kind == TABLE_DENSE ? table->versions[range]
                                           : table->blocks.list[range].version;
}

/* Rows or elements of a range. */
static uint64_t range_items(const struct table *table, uint64_t range)
{
    if (table->spec.kind == TABLE_ROWS)
        return table_blocks_rows_of(&table->blocks, (uint32_t)range);
    const uint64_t rest = table->spec.share - range * TABLE_RANGE_ELEMENTS;
    return rest < TABLE_RANGE_ELEMENTS ? rest : TABLE_RANGE_ELEMENTS;
}

/* Whether the copy has taken that range in this pass, or passed it over. */
static bool is_behind(const struct tables_copy *copy, size_t table, uint64_t range)
{
    if (!copy->in_pass || !copy->told || table > copy->table) return false;
    return table < copy->table || range < copy->range;
}

uint64_t tables_copy_pending(const struct tables *tables, const struct tables_copy *copy)
{
    uint64_t bytes = 0;
    for (size_t t = 0; t < tables->count; t++) {
        const struct table *const table = tables->list[t];
        for (uint64_t r = 0; r < range_count(table); r++)
            if (range_version(table, r) > (is_behind(copy, t, r) ? copy->begun : copy->since))
                bytes += head_bytes(table) + range_items(table, r) * item_bytes(table);
    }
    return bytes;
}

/* -------------------------------------------------------------------------------- records */

/* Where records go. */
struct out {
    unsigned char *at;
    size_t left;
};

static void finish(struct out *out, enum table_record_kind kind, size_t table, size_t body_bytes,
                   uint64_t count)
{
    const struct table_record record = {kind, (uint32_t)table, body_bytes, count};
    record_finish(out->at, &record);
    out->at += RECORD_HEADER_BYTES + body_bytes;
    out->left -= RECORD_HEADER_BYTES + body_bytes;
}

/* false, here and below: there is no more room. */
static bool put_spec(struct out *out, const struct table *table, size_t index)
{
    const size_t bytes = table_record_spec_bytes(&table->spec);
    if (out->left < RECORD_HEADER_BYTES + bytes) return false;
    table_record_spec_print(&table->spec, table->steps, out->at + RECORD_HEADER_BYTES);
    finish(out, RECORD_TABLE, index, bytes, 0);
    return true;
}

static void put_rows(struct out *out, const struct table *table, const struct tables_copy *copy,
                     size_t count)
{
    const struct table_block *const block = &table->blocks.list[copy->range];
    const size_t row_floats = table->blocks.row_floats;
    unsigned char *const body = out->at + RECORD_HEADER_BYTES;
    record_swap(body, block->rows + copy->offset, sizeof *block->rows, count);
    record_swap(body + count * sizeof *block->rows, block->records + copy->offset * row_floats,
                sizeof *block->records, count * row_floats);
    finish(out, RECORD_ROWS, copy->table, count * item_bytes(table), count);
}

static void put_elements(struct out *out, const struct table *table, const struct tables_copy *copy,
                         size_t count)
{
    const uint64_t first = copy->range * TABLE_RANGE_ELEMENTS + copy->offset;
    unsigned char *body = out->at + RECORD_HEADER_BYTES;
    record_put(body, RECORD_DENSE_HEAD_BYTES, first);
    body += RECORD_DENSE_HEAD_BYTES;
    record_swap(body, table->values + first, sizeof(float), count);
    for (unsigned s = 0; s < table->state_count; s++) {
        body += count * sizeof(float);
        record_swap(body, table->state[s] + first, sizeof(float), count);
    }
    finish(out, RECORD_DENSE, copy->table, RECORD_DENSE_HEAD_BYTES + count * item_bytes(table),
           count);
}

/* The rest of the range where the copy is. */
static bool put_range(struct out *out, const struct table *table, struct tables_copy *copy)
{
    const uint64_t items = range_items(table, copy->range);
    while (copy->offset < items) {
        const size_t head = head_bytes(table), each = item_bytes(table);
        const size_t fit = out->left < head ? 0 : (out->left - head) / each;
        if (fit == 0) return false;
        const size_t count = items - copy->offset < fit ? (size_t)(items - copy->offset) : fit;
        if (table->spec.kind == TABLE_DENSE)
            put_elements(out, table, copy, count);
        else
            put_rows(out, table, copy, count);
        copy->offset += count;
    }
    return true;
}

static bool put_values(struct out *out, const struct table *table, struct tables_copy *copy)
{
    for (; copy->range < range_count(table); copy->range++, copy->offset = 0)
        if (range_version(table, copy->range) > copy->since && !put_range(out, table, copy))
            return false;
    return true;
}

static bool put_end(struct out *out, const struct tables_copy *copy)
{
    if (out->left < RECORD_HEADER_BYTES + RECORD_END_BYTES) return false;
    record_put(out->at + RECORD_HEADER_BYTES, 8, copy->begun);
    record_put(out->at + RECORD_HEADER_BYTES + 8, 8, copy->table_count);
    finish(out, RECORD_END, 0, RECORD_END_BYTES, 0);
    return true;
}

static void begin_pass(const struct tables *tables, struct tables_copy *copy)
{
    *copy = (struct tables_copy){.since = copy->since,
                                 .begun = tables->version,
                                 .in_pass = true,
                                 .table_count = tables->count};
}

/* true: the pass is written to its end. */
static bool put_pass(struct out *out, const struct tables *tables, struct tables_copy *copy)
{
    for (; !copy->told && copy->table < copy->table_count; copy->table++) {
        const struct table *const table = tables->list[copy->table];
        if (table->version > copy->since && !put_spec(out, table, copy->table)) return false;
    }
    if (!copy->told) copy->table = 0;
    copy->told = true;
    for (; copy->table < copy->table_count; copy->table++, copy->range = copy->offset = 0)
        if (!put_values(out, tables->list[copy->table], copy)) return false;
    return put_end(out, copy);
}

enum tutti_status tables_copy_next(const struct tables *tables, struct tables_copy *copy,
                                   void *bytes, size_t capacity, size_t *size)
{
    struct out out = {bytes, capacity};
    *size = 0;
    if (capacity < tables_copy_capacity_min(tables))
        return error_set(TUTTI_INVALID_COUNT,
                         "a copy of these tables takes %zu bytes at once, not %zu",
                         tables_copy_capacity_min(tables), capacity);
    if (tables_copy_is_current(tables, copy)) return TUTTI_OK;
    if (!copy->in_pass) begin_pass(tables, copy);
    if (put_pass(&out, tables, copy)) {
        copy->since = copy->begun;
        copy->in_pass = false;
    }
    *size = capacity - out.left;
    return TUTTI_OK;
}
