/* table_state.h - what a table consists of: for the files of this directory alone. */
#ifndef TUTTI_SERVER_TABLE_STATE_H
#define TUTTI_SERVER_TABLE_STATE_H

#include "server/table.h"
#include "server/table_blocks.h"
#include "server/table_index.h"
#include "server/table_memory.h"

/* Elements of a dense share that have a version in common. */
enum { TABLE_RANGE_ELEMENTS = 16384 };

struct table {
    struct tables *tables; /* that it is one of */
    struct table_spec spec;
    char name[TABLE_NAME_BYTES_MAX + 1];
    struct table_memory memory;
    unsigned state_count;
    uint64_t steps;
    uint64_t version; /* of its last change, whatever changed */
    /* Rows. A record has the width's values, then the first number of state of each element, then
     * the second, .. */
    struct table_blocks blocks;
    struct table_index index;
    /* A dense share: values; state, one piece of memory, as in a record. */
    float *values;
    struct table_held *held; /* of these values; NULL: nobody holds them */
    float *spare;            /* memory for a copy of them; NULL: there is none yet */
    float *state[TABLE_STATE_MAX];
    uint64_t *versions; /* of its ranges */
    size_t range_count;
};

struct tables {
    struct table_budget budget;
    uint64_t version; /* of the last change of any table; 0: there was none */
    struct table **list;
    size_t count, capacity;
};

/* Counts a change of the table, and returns the version that goes to what it changes. */
static inline uint64_t table_changes(struct table *table)
{
    return table->version = ++table->tables->version;
}

/* INVALID_OPTIONS: the table is of another kind. */
enum tutti_status table_check_kind(const struct table *table, enum table_kind wanted);
/* NO_MEMORY, with a message that says for what. */
enum tutti_status table_no_memory(const struct table *table, const char *what);
/* The number of the step that the caller asks for: a new one if it gives 0. */
uint64_t table_number_step(struct table *table, uint64_t step);

/* Memory and initial values of a dense share. On failure there is nothing to release. */
enum tutti_status table_dense_init(struct table *table);
void table_dense_release(struct table *table);
/* INVALID_COUNT: the share does not have all these elements. */
enum tutti_status table_dense_check(const struct table *table, uint64_t first, uint64_t count);
/* Must come before a change of values: those who hold them keep them as they are. NO_MEMORY. */
enum tutti_status table_dense_own(struct table *table);
/* Marks elements of the share, counted from its first one, as changed. */
void table_dense_mark(struct table *table, uint64_t offset, uint64_t count, uint64_t version);

/* places[i] becomes the place of rows[i], which comes into being if need be, with its initial
 * values. Rows were checked. NO_MEMORY: some rows may have come into being. */
enum tutti_status table_rows_make(struct table *table, size_t count, const int64_t *rows,
                                  uint32_t *places);

#endif
