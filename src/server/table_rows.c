/* Tables of rows: reads, writes, and steps for rows with gradients. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "server/finite.h"
#include "server/table_state.h"

/* So many rows ahead memory is asked for a row's number, and twice as many for its bucket. */
enum { AHEAD = 16, CHUNK = 256 };

static enum tutti_status check_rows(const struct table *table, size_t count, const int64_t *rows)
{
    TRY(table_check_kind(table, TABLE_ROWS));
    for (size_t i = 0; i < count; i++)
        if (rows[i] < 0 || (uint64_t)rows[i] >= table->spec.count)
            return error_set(TUTTI_INVALID_COUNT,
                             "table \"%s\" has no row %" PRId64 ": it has rows 0 to %" PRIu64,
                             table->name, rows[i], table->spec.count - 1);
    return TUTTI_OK;
}

/* Asks for what finding the rows behind rows[at] will need. */
static void fetch_ahead(const struct table *table, size_t at, size_t count, const int64_t *rows)
{
    if (at + 2 * AHEAD < count)
        table_index_fetch_bucket(&table->index, table_index_hash(rows[at + 2 * AHEAD]));
    if (at + AHEAD < count)
        table_index_fetch_row(&table->index, table_index_hash(rows[at + AHEAD]));
}

static void fetch_record(const struct table *table, uint32_t place)
{
    if (place == TABLE_PLACE_NONE) return;
    const char *const record = (const char *)table_blocks_record(&table->blocks, place);
    const size_t bytes = table->blocks.row_floats * sizeof(float);
    for (size_t line = 0; line < bytes && line < 512; line += 64) __builtin_prefetch(record + line);
}

static bool add_row(struct table *table, uint64_t hash, int64_t row, uint32_t *place)
{
    if (!table_index_reserve(&table->index, hash)) return false;
    *place = table->blocks.row_count;
    if (!table_blocks_add(&table->blocks, row)) return false;
    table_index_put(&table->index, hash, *place);
    const struct table_spec *const spec = &table->spec;
    float *const record = table_blocks_record(&table->blocks, *place);
    table_initial_row(&spec->initial, spec->seed, (uint64_t)row, spec->width, record);
    const float state = table_optimizer_initial_state(&spec->optimizer);
    for (size_t i = spec->width; i < table->blocks.row_floats; i++) record[i] = state;
    return true;
}

enum tutti_status table_rows_make(struct table *table, size_t count, const int64_t *rows,
                                  uint32_t *places)
{
    for (size_t i = 0; i < count; i++) {
        fetch_ahead(table, i, count, rows);
        const uint64_t hash = table_index_hash(rows[i]);
        places[i] = table_index_find(&table->index, hash, rows[i]);
        if (places[i] == TABLE_PLACE_NONE && !add_row(table, hash, rows[i], &places[i]))
            return table_no_memory(table, "one more row");
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------ reads and writes */

static void read_chunk(const struct table *table, size_t count, const int64_t *rows, float *out)
{
    const struct table_spec *const spec = &table->spec;
    uint32_t places[CHUNK];
    for (size_t i = 0; i < count; i++) {
        fetch_ahead(table, i, count, rows);
        places[i] = table_index_find(&table->index, table_index_hash(rows[i]), rows[i]);
        fetch_record(table, places[i]);
    }
    for (size_t i = 0; i < count; i++, out += spec->width)
        if (places[i] == TABLE_PLACE_NONE)
            table_initial_row(&spec->initial, spec->seed, (uint64_t)rows[i], spec->width, out);
        else
            memcpy(out, table_blocks_record(&table->blocks, places[i]), spec->width * sizeof *out);
}

enum tutti_status table_read_rows(const struct table *table, size_t count, const int64_t *rows,
                                  float *out)
{
    TRY(check_rows(table, count, rows));
    for (size_t first = 0; first < count; first += CHUNK)
        read_chunk(table, count - first < CHUNK ? count - first : CHUNK, rows + first,
                   out + first * table->spec.width);
    return TUTTI_OK;
}

enum tutti_status table_write_rows(struct table *table, size_t count, const int64_t *rows,
                                   const float *values)
{
    TRY(check_rows(table, count, rows));
    if (count == 0) return TUTTI_OK;
    uint32_t *const places = malloc(count * sizeof *places);
    if (places == NULL) return table_no_memory(table, "a list of rows");
    const enum tutti_status status = table_rows_make(table, count, rows, places);
    const size_t width = table->spec.width;
    if (status == TUTTI_OK) {
        const uint64_t version = table_changes(table);
        for (size_t i = 0; i < count; i++) {
            memcpy(table_blocks_record(&table->blocks, places[i]), values + i * width,
                   width * sizeof *values);
            table_block_of(&table->blocks, places[i])->version = version;
        }
    }
    free(places);
    return status;
}

size_t table_list_rows(const struct table *table, uint64_t first, size_t count, int64_t *rows)
{
    const uint64_t there = table->spec.kind == TABLE_ROWS ? table->blocks.row_count : 0;
    if (first >= there) return 0;
    if (count > there - first) count = there - first;
    for (size_t i = 0; i < count; i++)
        rows[i] = *table_blocks_row(&table->blocks, (uint32_t)(first + i));
    return count;
}

/* ------------------------------------------------------------------------------- steps */

#define NONE UINT32_MAX

/* The gradients of an update, and which of them are of the same row: a group each, in the order in
 * which rows first come.
 *
 *     gradients   0: row 7   1: row 4   2: row 7   3: row 9   4: row 7
 *     groups      0: 0 -> 2 -> 4    1: 1    2: 3
 */
struct gathered {
    size_t count;
    const float **values; /* [count] */
    uint32_t *places;     /* [count] */
    uint32_t *next;       /* [count] in the same group, or NONE */
    size_t group_count;
    uint32_t *heads, *tails; /* [group_count], of count */
    uint32_t *groups;        /* by place: open addressing */
    size_t mask;             /* of groups */
    float *sum;              /* [width] */
    void *memory;            /* of all these */
};

static void *part(char **at, size_t bytes)
{
    void *const here = *at;
    *at += (bytes + 7) / 8 * 8;
    return here;
}

static enum tutti_status gathered_init(struct gathered *g, const struct table *table, size_t count)
{
    *g = (struct gathered){.count = count, .mask = 15};
    if (count >= NONE / 4)
        return error_set(TUTTI_INVALID_COUNT, "table \"%s\": %zu gradients of rows at once",
                         table->name, count);
    while (g->mask + 1 < 2 * count) g->mask = 2 * g->mask + 1;
    const size_t number = sizeof(uint32_t), width = table->spec.width;
    const size_t bytes = count * (sizeof *g->values + 4 * number) + 4 * 8 + (g->mask + 1) * number +
                         width * sizeof(float);
    char *at = g->memory = malloc(bytes);
    if (at == NULL) return table_no_memory(table, "the gradients of an update");
    g->values = part(&at, count * sizeof *g->values);
    g->places = part(&at, count * number);
    g->next = part(&at, count * number);
    g->heads = part(&at, count * number);
    g->tails = part(&at, count * number);
    g->groups = part(&at, (g->mask + 1) * number);
    g->sum = part(&at, width * sizeof(float));
    memset(g->groups, 0xff, (g->mask + 1) * number);
    return TUTTI_OK;
}

/* The gradient of that index joins the group of its row. */
static void join_group(struct gathered *g, uint32_t index)
{
    const uint32_t place = g->places[index];
    size_t at = place * UINT32_C(0x9e3779b1) & g->mask;
    while (g->groups[at] != NONE && g->places[g->heads[g->groups[at]]] != place)
        at = (at + 1) & g->mask;
    const uint32_t group = g->groups[at];
    g->next[index] = NONE;
    if (group == NONE) {
        g->groups[at] = (uint32_t)g->group_count;
        g->heads[g->group_count] = g->tails[g->group_count] = index;
        g->group_count++;
    } else {
        g->next[g->tails[group]] = index;
        g->tails[group] = index;
    }
}

static enum tutti_status gather(struct gathered *g, struct table *table, size_t list_count,
                                const struct table_gradients *lists)
{
    size_t done = 0;
    for (size_t l = 0; l < list_count; l++) {
        TRY(table_rows_make(table, lists[l].count, lists[l].rows, g->places + done));
        for (size_t i = 0; i < lists[l].count; i++)
            g->values[done + i] = lists[l].values + i * table->spec.width;
        done += lists[l].count;
    }
    for (size_t i = 0; i < g->count; i++) join_group(g, (uint32_t)i);
    return TUTTI_OK;
}

/* The gradient of a group, which may lie in g->sum. */
static const float *add_up(const struct gathered *g, size_t width, uint32_t group, float factor)
{
    const uint32_t head = g->heads[group];
    if (g->next[head] == NONE && factor == 1) return g->values[head];
    float *const sum = g->sum;
    memcpy(sum, g->values[head], width * sizeof *sum);
    for (uint32_t i = g->next[head]; i != NONE; i = g->next[i]) {
        const float *const more = g->values[i];
        for (size_t c = 0; c < width; c++) sum[c] += more[c];
    }
    if (factor != 1)
        for (size_t c = 0; c < width; c++) sum[c] *= factor;
    return sum;
}

static void take_steps(struct table *table, const struct gathered *g, const struct table_step *step,
                       float factor)
{
    const size_t width = table->spec.width;
    const uint64_t version = table_changes(table);
    for (size_t i = 0; i < g->group_count; i++) {
        if (i + AHEAD < g->group_count) fetch_record(table, g->places[g->heads[i + AHEAD]]);
        const uint32_t place = g->places[g->heads[i]];
        float *const record = table_blocks_record(&table->blocks, place);
        float *state[TABLE_STATE_MAX] = {NULL};
        for (unsigned s = 0; s < table->state_count; s++) state[s] = record + (s + 1) * width;
        table_step_take(step, width, add_up(g, width, (uint32_t)i, factor), record, state);
        table_block_of(&table->blocks, place)->version = version;
    }
}

static enum tutti_status check_list(const struct table *table, const struct table_gradients *list)
{
    const size_t width = table->spec.width;
    TRY(check_rows(table, list->count, list->rows));
    if (!table->spec.refuses_nan) return TUTTI_OK;
    const size_t numbers = list->count * width, at = finite_end(numbers, list->values);
    if (at == numbers) return TUTTI_OK;
    return error_set(TUTTI_INVALID_BUFFER,
                     "table \"%s\": the gradient of row %" PRId64 " is %g at column %zu",
                     table->name, list->rows[at / width], list->values[at], at % width);
}

enum tutti_status table_update_rows(struct table *table, uint64_t step, size_t list_count,
                                    const struct table_gradients *lists, float factor)
{
    struct gathered g;
    size_t count = 0;
    TRY(table_check_kind(table, TABLE_ROWS));
    for (size_t l = 0; l < list_count; l++) {
        TRY(check_list(table, &lists[l]));
        if (__builtin_add_overflow(count, lists[l].count, &count)) count = SIZE_MAX;
    }
    TRY(gathered_init(&g, table, count));
    const enum tutti_status status = gather(&g, table, list_count, lists);
    if (status == TUTTI_OK) {
        const struct table_step taken =
            table_step_of(&table->spec.optimizer, table_number_step(table, step));
        take_steps(table, &g, &taken, factor);
    }
    free(g.memory);
    return status;
}
