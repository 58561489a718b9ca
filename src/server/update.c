#include "server/update.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct update_entry {
    struct update_entry *next;
    size_t table, count, width;
    bool is_set, is_rows;
    struct block *block;
    int64_t *rows;
    float *values;
    uint64_t bytes;
};

void update_init(struct update *update)
{
    *update = (struct update){NULL, &update->first, 0};
}

void update_entry_free(struct update_entry *entry)
{
    block_give(entry->block);
    free(entry);
}

void update_clear(struct update *update)
{
    for (struct update_entry *entry = update->first; entry != NULL;) {
        struct update_entry *const next = entry->next;
        update_entry_free(entry);
        entry = next;
    }
    update_init(update);
}

void update_move(struct update *from, struct update *to)
{
    *to = *from;
    if (to->first == NULL) to->end = &to->first;
    update_init(from);
}

static size_t elements_of(const struct update_entry *entry)
{
    return entry->is_rows ? entry->count * entry->width : entry->width;
}

struct update_entry *update_entry_create(size_t table, bool is_set, bool is_rows, size_t count,
                                         size_t width, struct block *block)
{
    const size_t elements = is_rows ? count * width : width;
    const size_t row_bytes = is_rows ? count * sizeof(int64_t) : 0;
    struct update_entry *const entry = malloc(sizeof *entry);
    if (entry == NULL) return NULL;
    int64_t *const rows = block_memory(block);
    *entry = (struct update_entry){.table = table,
                                   .count = count,
                                   .width = width,
                                   .is_set = is_set,
                                   .is_rows = is_rows,
                                   .block = block,
                                   .rows = rows,
                                   .values = (float *)((char *)rows + row_bytes),
                                   .bytes = sizeof *entry + row_bytes + elements * sizeof(float)};
    return entry;
}

int64_t *update_entry_rows(struct update_entry *entry)
{
    return entry->rows;
}

float *update_entry_values(struct update_entry *entry)
{
    return entry->values;
}

/* The gradient of the same dense tensor that is there already. */
static struct update_entry *dense_before(const struct update *update,
                                         const struct update_entry *entry)
{
    if (entry->is_rows || entry->is_set) return NULL;
    for (struct update_entry *before = update->first; before != NULL; before = before->next)
        if (before->table == entry->table && !before->is_set) return before;
    return NULL;
}

uint64_t update_growth(const struct update *update, const struct update_entry *entry)
{
    return dense_before(update, entry) == NULL ? entry->bytes : 0;
}

void update_add(struct update *update, struct update_entry *entry)
{
    struct update_entry *const before = dense_before(update, entry);
    if (before != NULL) {
        for (size_t i = 0; i < entry->width; i++) before->values[i] += entry->values[i];
        update_entry_free(entry);
        return;
    }
    entry->next = NULL;
    *update->end = entry;
    update->end = &entry->next;
    update->bytes += entry->bytes;
}

/* ------------------------------------------------------------------------------------- a step */

static enum tutti_status set_entry(struct table *table, uint64_t first,
                                   const struct update_entry *entry)
{
    if (entry->is_rows) return table_write_rows(table, entry->count, entry->rows, entry->values);
    return table_write_dense(table, first, entry->width, entry->values);
}

static enum tutti_status set_all(struct tables *tables, const uint64_t *firsts,
                                 struct update *const *updates, size_t count)
{
    for (size_t u = 0; u < count; u++)
        for (const struct update_entry *entry = updates[u]->first; entry != NULL;
             entry = entry->next)
            if (entry->is_set && elements_of(entry) > 0)
                TRY(set_entry(tables_at(tables, entry->table), firsts[entry->table], entry));
    return TUTTI_OK;
}

/* Gradients of all tables, table by table, each in the order of workers. */
struct gathered {
    size_t *counts; /* of each table */
    const struct update_entry **entries;
    struct table_gradients *lists;
    const float **dense;
};

static void gathered_free(struct gathered *gathered)
{
    free(gathered->counts);
    free(gathered->entries);
    free(gathered->lists);
    free(gathered->dense);
}

static size_t count_gradients(struct update *const *updates, size_t count, size_t *counts)
{
    size_t all = 0;
    for (size_t u = 0; u < count; u++)
        for (const struct update_entry *entry = updates[u]->first; entry != NULL;
             entry = entry->next)
            if (!entry->is_set) counts[entry->table]++, all++;
    return all;
}

static void put_in_order(struct update *const *updates, size_t count, const size_t *counts,
                         size_t table_count, size_t *places, const struct update_entry **entries)
{
    size_t place = 0;
    for (size_t t = 0; t < table_count; t++) places[t] = place, place += counts[t];
    for (size_t u = 0; u < count; u++)
        for (const struct update_entry *entry = updates[u]->first; entry != NULL;
             entry = entry->next)
            if (!entry->is_set) entries[places[entry->table]++] = entry;
}

static enum tutti_status gather(size_t table_count, struct update *const *updates, size_t count,
                                struct gathered *gathered)
{
    *gathered = (struct gathered){.counts = calloc(2 * table_count, sizeof(size_t))};
    if (gathered->counts == NULL) return error_set(TUTTI_NO_MEMORY, "no memory for a step");
    const size_t all = count_gradients(updates, count, gathered->counts);
    gathered->entries = calloc(all + 1, sizeof(struct update_entry *));
    gathered->lists = calloc(all + 1, sizeof(struct table_gradients));
    gathered->dense = calloc(all + 1, sizeof(float *));
    if (gathered->entries == NULL || gathered->lists == NULL || gathered->dense == NULL)
        return error_set(TUTTI_NO_MEMORY, "no memory for a step with %zu gradients", all);
    put_in_order(updates, count, gathered->counts, table_count, gathered->counts + table_count,
                 gathered->entries);
    for (size_t i = 0; i < all; i++) {
        const struct update_entry *const entry = gathered->entries[i];
        gathered->lists[i] = (struct table_gradients){entry->count, entry->rows, entry->values};
        gathered->dense[i] = entry->values;
    }
    return TUTTI_OK;
}

static enum tutti_status apply_to(struct table *table, uint64_t first,
                                  const struct gathered *gathered, size_t from, size_t count,
                                  float factor)
{
    const struct update_entry *const one = gathered->entries[from];
    const uint64_t step = table_begin_step(table);
    if (one->is_rows) return table_update_rows(table, step, count, gathered->lists + from, factor);
    if (one->width == 0) return TUTTI_OK;
    return table_update_dense(table, step, first, one->width, count, gathered->dense + from, factor);
}

enum tutti_status update_apply(struct tables *tables, const uint64_t *firsts,
                               struct update *const *updates, size_t count, float factor)
{
    const size_t table_count = tables_count(tables);
    TRY(set_all(tables, firsts, updates, count));
    struct gathered gathered;
    enum tutti_status status = gather(table_count, updates, count, &gathered);
    size_t from = 0;
    for (size_t t = 0; t < table_count && status == TUTTI_OK; t++) {
        const size_t entries = gathered.counts[t];
        if (entries > 0)
            status = apply_to(tables_at(tables, t), firsts[t], &gathered, from, entries, factor);
        from += entries;
    }
    gathered_free(&gathered);
    return status;
}
