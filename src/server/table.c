#include "server/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/status.h"
#include "server/table_state.h"

/* ------------------------------------------------------------------------------- tables */

enum tutti_status tables_create(uint64_t bytes_max, struct tables **tables)
{
    *tables = calloc(1, sizeof **tables);
    if (*tables == NULL) return error_set(TUTTI_NO_MEMORY, "there is no memory for tables");
    (*tables)->budget.max = bytes_max > 0 ? bytes_max : UINT64_MAX;
    return TUTTI_OK;
}

static void free_table(struct table *table)
{
    if (table->spec.kind == TABLE_ROWS) {
        table_index_release(&table->index);
        table_blocks_release(&table->blocks);
    } else {
        table_dense_release(table);
    }
    free(table);
}

void tables_free(struct tables *tables)
{
    if (tables == NULL) return;
    for (size_t i = 0; i < tables->count; i++) free_table(tables->list[i]);
    free(tables->list);
    free(tables);
}

static struct table *find(const struct tables *tables, const char *name)
{
    for (size_t i = 0; i < tables->count; i++)
        if (strcmp(tables->list[i]->name, name) == 0) return tables->list[i];
    return NULL;
}

static enum tutti_status check_name(const struct tables *tables, const char *name)
{
    if (name == NULL || name[0] == '\0' ||
        strnlen(name, TABLE_NAME_BYTES_MAX + 1) > TABLE_NAME_BYTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a table's name has 1 to %d bytes",
                         (int)TABLE_NAME_BYTES_MAX);
    char printable[TABLE_NAME_BYTES_MAX + 1];
    strcpy(printable, name);
    printable_make(printable);
    if (strcmp(printable, name) != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "the name of table \"%s\" does not print",
                         printable);
    if (find(tables, name) != NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "there is a table \"%s\" already", name);
    return TUTTI_OK;
}

static enum tutti_status check_initial(const char *name, const struct table_initial *initial)
{
    const bool is_constant = initial->kind == TABLE_INITIAL_CONSTANT;
    if (!is_constant && initial->kind != TABLE_INITIAL_UNIFORM &&
        initial->kind != TABLE_INITIAL_NORMAL)
        return error_set(TUTTI_INVALID_OPTIONS, "table \"%s\": %d is no kind of initial values",
                         name, (int)initial->kind);
    if (is_constant ? isfinite(initial->value) : isfinite(initial->scale) && initial->scale >= 0)
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "table \"%s\": its initial %s is %g", name,
                     is_constant ? "value" : "scale", is_constant ? initial->value : initial->scale);
}

static enum tutti_status check_shape(const struct table_spec *spec)
{
    if (spec->kind != TABLE_DENSE && spec->kind != TABLE_ROWS)
        return error_set(TUTTI_INVALID_OPTIONS, "table \"%s\": %d is no kind of table", spec->name,
                         (int)spec->kind);
    if (spec->count < 1 || spec->count > INT64_MAX)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "table \"%s\": its count is %" PRIu64 ", not 1 to 2^63 - 1", spec->name,
                         spec->count);
    if (spec->kind == TABLE_ROWS && (spec->width < 1 || spec->width > TABLE_WIDTH_MAX))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "table \"%s\": its rows have %zu elements, not 1 to %d", spec->name,
                         spec->width, (int)TABLE_WIDTH_MAX);
    if (spec->kind == TABLE_DENSE &&
        (spec->first > spec->count || spec->share > spec->count - spec->first))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "table \"%s\": a share of %" PRIu64 " elements from %" PRIu64
                         " on is not within its %" PRIu64 " elements",
                         spec->name, spec->share, spec->first, spec->count);
    return TUTTI_OK;
}

static bool lengthen_list(struct tables *tables)
{
    if (tables->count < tables->capacity) return true;
    const size_t capacity = 2 * tables->capacity + 8;
    struct table **const list = reallocarray(tables->list, capacity, sizeof *list);
    if (list == NULL) return false;
    tables->list = list;
    tables->capacity = capacity;
    return true;
}

static enum tutti_status init(struct table *table, struct tables *tables,
                              const struct table_spec *spec)
{
    table->tables = tables;
    table->spec = *spec;
    strcpy(table->name, spec->name);
    table->spec.name = table->name;
    table->memory.budget = &tables->budget;
    table->state_count = table_optimizer_state_count(&spec->optimizer);
    if (spec->kind == TABLE_DENSE) return table_dense_init(table);
    table_blocks_init(&table->blocks, &table->memory, spec->width * (1 + table->state_count));
    table_index_init(&table->index, &table->memory, &table->blocks);
    return TUTTI_OK;
}

enum tutti_status tables_add(struct tables *tables, const struct table_spec *spec,
                             struct table **table)
{
    *table = NULL;
    TRY(check_name(tables, spec->name));
    TRY(check_shape(spec));
    TRY(check_initial(spec->name, &spec->initial));
    TRY(table_optimizer_check(&spec->optimizer));
    struct table *const added = calloc(1, sizeof *added);
    if (added == NULL || !lengthen_list(tables)) {
        free(added);
        return error_set(TUTTI_NO_MEMORY, "there is no memory for table \"%s\"", spec->name);
    }
    const enum tutti_status status = init(added, tables, spec);
    if (status != TUTTI_OK) {
        free(added);
        return status;
    }
    tables->list[tables->count++] = added;
    table_changes(added);
    *table = added;
    return TUTTI_OK;
}

/* "a", "b", .. as far as the text goes. */
static void list_names(const struct tables *tables, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < tables->count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s\"%s\"", i > 0 ? ", " : "",
                                 tables->list[i]->name);
    if (used >= text_bytes) strcpy(text + text_bytes - 4, "...");
}

enum tutti_status tables_find(const struct tables *tables, const char *name, struct table **table)
{
    char names[200], printable[TABLE_NAME_BYTES_MAX + 1];
    *table = find(tables, name);
    if (*table != NULL) return TUTTI_OK;
    list_names(tables, names, sizeof names);
    snprintf(printable, sizeof printable, "%s", name);
    printable_make(printable);
    return error_set(TUTTI_INVALID_OPTIONS, "there is no table \"%s\"; the tables are: %s",
                     printable, tables->count > 0 ? names : "none");
}

size_t tables_count(const struct tables *tables)
{
    return tables->count;
}

struct table *tables_at(const struct tables *tables, size_t index)
{
    return tables->list[index];
}

/* ------------------------------------------------------------------------------ a table */

const struct table_spec *table_spec_of(const struct table *table)
{
    return &table->spec;
}

enum tutti_status table_set_rate(struct table *table, double rate)
{
    struct table_optimizer changed = table->spec.optimizer;
    changed.rate = rate;
    TRY(table_optimizer_check(&changed));
    table->spec.optimizer.rate = rate;
    table_changes(table);
    return TUTTI_OK;
}

struct table_use table_use_of(const struct table *table)
{
    const bool is_dense = table->spec.kind == TABLE_DENSE;
    const uint64_t rows = is_dense ? table->spec.share : table->blocks.row_count;
    const uint64_t width = is_dense ? 1 : table->spec.width;
    return (struct table_use){
        .rows = rows,
        .payload_bytes = rows * width * (1 + table->state_count) * sizeof(float),
        .used_bytes = sizeof *table + table->memory.used,
    };
}
