/* Dense shares: values in one piece of memory, so that they can be held while the table changes, and state in
 * another. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "server/finite.h"
#include "server/table_state.h"

/* Gradients of so many elements are added up on the stack. */
enum { PIECE = 1024, FLOATS_OF_A_LINE = 16 };

/* Elements of the share, rounded up so that state begins a cache line, too. */
static uint64_t stride_of(const struct table *table)
{
    return (table->spec.share + FLOATS_OF_A_LINE - 1) / FLOATS_OF_A_LINE * FLOATS_OF_A_LINE;
}

static uint64_t value_bytes(const struct table *table)
{
    return stride_of(table) * sizeof(float);
}

static uint64_t state_bytes(const struct table *table)
{
    return value_bytes(table) * table->state_count;
}

static uint64_t ranges_of(const struct table *table)
{
    return (table->spec.share + TABLE_RANGE_ELEMENTS - 1) / TABLE_RANGE_ELEMENTS;
}

static void set_initial(struct table *table)
{
    const struct table_spec *const spec = &table->spec;
    for (uint64_t i = 0; i < spec->share; i++)
        table_initial_row(&spec->initial, spec->seed, spec->first + i, 1, &table->values[i]);
    for (unsigned s = 0; s < table->state_count; s++)
        for (uint64_t i = 0; i < spec->share; i++)
            table->state[s][i] = table_optimizer_initial_state(&spec->optimizer);
}

enum tutti_status table_dense_init(struct table *table)
{
    const struct table_spec *const spec = &table->spec;
    if (spec->share == 0) return TUTTI_OK;
    /* Far above all memory, and all products below it fit. */
    if (spec->share > UINT64_C(1) << 56)
        return table_no_memory(table, "a share of so many elements");
    table->range_count = ranges_of(table);
    table->values = table_memory_take(&table->memory, value_bytes(table));
    table->versions =
        table_memory_take(&table->memory, table->range_count * sizeof *table->versions);
    if (table->state_count > 0)
        table->state[0] = table_memory_take(&table->memory, state_bytes(table));
    if (table->values == NULL || table->versions == NULL ||
        (table->state_count > 0 && table->state[0] == NULL)) {
        char what[64];
        snprintf(what, sizeof what, "its share of %" PRIu64 " MiB",
                 ((uint64_t)value_bytes(table) + state_bytes(table)) >> 20);
        table_dense_release(table);
        return table_no_memory(table, what);
    }
    for (unsigned s = 1; s < table->state_count; s++)
        table->state[s] = table->state[0] + s * stride_of(table);
    memset(table->versions, 0, table->range_count * sizeof *table->versions);
    set_initial(table);
    return TUTTI_OK;
}

void table_dense_release(struct table *table)
{
    table_memory_give(&table->memory, table->values, value_bytes(table));
    table_memory_give(&table->memory, table->spare, value_bytes(table));
    table_memory_give(&table->memory, table->state[0], state_bytes(table));
    table_memory_give(&table->memory, table->versions, table->range_count * sizeof *table->versions);
    table->values = table->spare = table->state[0] = NULL;
    table->versions = NULL;
}

/* --------------------------------------------------------------------------------------- holding */

struct table_held {
    struct table *table;
    float *values;
    unsigned count;
};

enum tutti_status table_hold_dense(struct table *table, uint64_t first, uint64_t count,
                                   const float **values, struct table_held **held)
{
    TRY(table_view_dense(table, first, count, values));
    if (table->held == NULL) {
        table->held = malloc(sizeof *table->held);
        if (table->held == NULL) return table_no_memory(table, "who reads it");
        *table->held = (struct table_held){table, table->values, 0};
    }
    table->held->count++;
    *held = table->held;
    return TUTTI_OK;
}

void table_let_go(struct table_held *held)
{
    struct table *const table = held->table;
    if (--held->count > 0) return;
    if (held == table->held)
        table->held = NULL;
    else if (table->spare == NULL)
        table->spare = held->values;
    else
        table_memory_give(&table->memory, held->values, value_bytes(table));
    free(held);
}

enum tutti_status table_dense_own(struct table *table)
{
    if (table->held == NULL) return TUTTI_OK;
    float *const copy =
        table->spare != NULL ? table->spare : table_memory_take(&table->memory, value_bytes(table));
    if (copy == NULL) return table_no_memory(table, "values while others are being read");
    memcpy(copy, table->values, table->spec.share * sizeof *copy);
    table->values = copy;
    table->spare = NULL;
    table->held = NULL;
    return TUTTI_OK;
}

enum tutti_status table_dense_check(const struct table *table, uint64_t first, uint64_t count)
{
    const struct table_spec *const spec = &table->spec;
    TRY(table_check_kind(table, TABLE_DENSE));
    if (first >= spec->first && first - spec->first <= spec->share &&
        count <= spec->share - (first - spec->first))
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_COUNT,
                     "table \"%s\": %" PRIu64 " elements from %" PRIu64
                     " on are not within the share of %" PRIu64 " elements from %" PRIu64 " on",
                     table->name, count, first, spec->share, spec->first);
}

void table_dense_mark(struct table *table, uint64_t offset, uint64_t count, uint64_t version)
{
    if (count == 0) return;
    for (uint64_t r = offset / TABLE_RANGE_ELEMENTS;
         r <= (offset + count - 1) / TABLE_RANGE_ELEMENTS; r++)
        table->versions[r] = version;
}

enum tutti_status table_view_dense(const struct table *table, uint64_t first, uint64_t count,
                                   const float **values)
{
    TRY(table_dense_check(table, first, count));
    *values = table->values + (first - table->spec.first);
    return TUTTI_OK;
}

enum tutti_status table_read_dense(const struct table *table, uint64_t first, uint64_t count,
                                   float *out)
{
    const float *values;
    TRY(table_view_dense(table, first, count, &values));
    if (count > 0) memcpy(out, values, count * sizeof *out);
    return TUTTI_OK;
}

enum tutti_status table_write_dense(struct table *table, uint64_t first, uint64_t count,
                                    const float *values)
{
    TRY(table_dense_check(table, first, count));
    if (count == 0) return TUTTI_OK;
    TRY(table_dense_own(table));
    memcpy(table->values + (first - table->spec.first), values, count * sizeof *values);
    table_dense_mark(table, first - table->spec.first, count, table_changes(table));
    return TUTTI_OK;
}

static enum tutti_status check_gradients(const struct table *table, uint64_t first, uint64_t count,
                                         size_t list_count, const float *const *gradients)
{
    if (list_count == 0)
        return error_set(TUTTI_INVALID_COUNT, "table \"%s\": no gradients", table->name);
    if (!table->spec.refuses_nan) return TUTTI_OK;
    for (size_t l = 0; l < list_count; l++) {
        const uint64_t at = finite_end(count, gradients[l]);
        if (at < count)
            return error_set(TUTTI_INVALID_BUFFER,
                             "table \"%s\": the gradient of element %" PRIu64 " is %g", table->name,
                             first + at, gradients[l][at]);
    }
    return TUTTI_OK;
}

/* The gradients of some elements, which may lie in sum[PIECE]. */
static const float *add_up(size_t list_count, const float *const *gradients, uint64_t offset,
                           size_t count, float factor, float *sum)
{
    if (list_count == 1 && factor == 1) return gradients[0] + offset;
    memcpy(sum, gradients[0] + offset, count * sizeof *sum);
    for (size_t l = 1; l < list_count; l++)
        for (size_t i = 0; i < count; i++) sum[i] += gradients[l][offset + i];
    if (factor != 1)
        for (size_t i = 0; i < count; i++) sum[i] *= factor;
    return sum;
}

enum tutti_status table_update_dense(struct table *table, uint64_t step, uint64_t first,
                                     uint64_t count, size_t list_count,
                                     const float *const *gradients, float factor)
{
    TRY(table_dense_check(table, first, count));
    TRY(check_gradients(table, first, count, list_count, gradients));
    TRY(table_dense_own(table));
    const struct table_step taken =
        table_step_of(&table->spec.optimizer, table_number_step(table, step));
    const uint64_t begin = first - table->spec.first;
    for (uint64_t done = 0; done < count; done += PIECE) {
        const size_t here = count - done < PIECE ? (size_t)(count - done) : PIECE;
        float sum[PIECE], *state[TABLE_STATE_MAX] = {NULL};
        for (unsigned s = 0; s < table->state_count; s++) state[s] = table->state[s] + begin + done;
        table_step_take(&taken, here, add_up(list_count, gradients, done, here, factor, sum),
                        table->values + begin + done, state);
    }
    table_dense_mark(table, begin, count, table_changes(table));
    return TUTTI_OK;
}
