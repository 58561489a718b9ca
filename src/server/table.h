/* table.h - the parameters that a server holds: dense tensors and tables of rows, and how gradients
 * change them.
 *
 *     struct tables (one for each server)
 *       "weights"   dense: elements 1000 to 1999 of 4000    ├── values ──┤├── state ──┤
 *       "users"     rows, width 16: only those that gradients or writes have touched
 *
 *                     row 7 ──hash──► place 0    ┌─ block of rows ───────────────────┐
 *                     row 90210 ────► place 1    │ rows: 7 90210 ..                  │
 *                                                │ values and state, row behind row  │
 *                                                └───────────────────────────────────┘
 *
 * A *place* is a row's number in the order of first touch; blocks follow each other in that order.
 * Values, gradients and state are float32. An optimizer keeps `state_count` numbers of state for
 * each element (table_optimizer.h).
 *
 * Invariants
 *   1. A row that nobody has touched has the value that its table's seed and its own number give
 *      (table_initial.h), on every server. So a read makes no row, and a backup needs none that its
 *      server does not have.
 *   2. A change takes place wholly or not at all: indices, numbers and memory are checked before
 *      the first value changes.
 *   3. The same calls in the same order give the same bits, on every machine: no operation is fused,
 *      and no sum is taken in another order than the one stated here.
 *   4. Memory grows block by block and a segment of the index at a time: nothing is ever there
 *      twice but one segment, which is 1/256 of the index, and the list of blocks. Rows never move.
 *   5. Each range (a block of rows; 16384 elements of a dense share) has the version of its last
 *      change, so that a copy takes what it lacks, while work goes on (table_copy.h).
 *
 * Threads.  Functions that take a const struct tables or a const struct table may run in any number
 * of threads at once. Every other function needs that nobody else uses the same struct tables
 * meanwhile: the caller has a lock, or one thread that serves. Nothing here waits, or does anything
 * but compute, allocate and copy; a call takes as long as its elements do.
 *
 * Failures set the thread's error message, which names the table; the caller adds who asked.
 *
 * Knows no network, ranks or clocks. Does not decode gradients of 16 bits, does not delete rows.
 */
#ifndef TUTTI_SERVER_TABLE_H
#define TUTTI_SERVER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table_initial.h"
#include "server/table_optimizer.h"
#include "tutti/tutti.h"

struct tables; /* of one server */
struct table;  /* one of them */

enum { TABLE_NAME_BYTES_MAX = 255, TABLE_WIDTH_MAX = 1 << 20 };

enum table_kind { TABLE_DENSE, TABLE_ROWS };

struct table_spec {
    const char *name; /* 1 to TABLE_NAME_BYTES_MAX bytes; it is copied */
    enum table_kind kind;
    /* Elements of the whole tensor, or rows of the whole table: indices are below it. At least 1, at
     * most INT64_MAX. */
    uint64_t count;
    /* Dense: this server has `share` elements from `first` on, perhaps none. Rows: unused; the
     * caller knows which rows are whose. */
    uint64_t first, share;
    size_t width; /* elements of a row, 1 to TABLE_WIDTH_MAX; unused by dense tensors */
    uint64_t seed;
    struct table_initial initial;
    struct table_optimizer optimizer;
    bool refuses_nan; /* an update with a gradient that is NaN or infinite is refused */
};

/* ------------------------------------------------------------------------------------- tables */

/* Makes an empty set of tables, which may take bytes_max bytes of memory (0: no limit). The
 * caller's, until tables_free. NO_MEMORY. */
enum tutti_status tables_create(uint64_t bytes_max, struct tables **tables);
void tables_free(struct tables *tables); /* and its tables; NULL is allowed */

/* Adds a table. A dense share gets its initial values now. *table is NULL on failure:
 * INVALID_OPTIONS: the spec cannot be used, or there is a table of that name; NO_MEMORY. */
enum tutti_status tables_add(struct tables *tables, const struct table_spec *spec,
                             struct table **table);
/* INVALID_OPTIONS: there is none of that name; the message lists those that there are. */
enum tutti_status tables_find(const struct tables *tables, const char *name, struct table **table);
/* Tables in the order in which they were added. index < tables_count. */
size_t tables_count(const struct tables *tables);
struct table *tables_at(const struct tables *tables, size_t index);

const struct table_spec *table_spec_of(const struct table *table); /* with the rate that holds now */
/* The optimizer's rate from now on. INVALID_OPTIONS: it is negative or not finite. */
enum tutti_status table_set_rate(struct table *table, double rate);

struct table_use {
    uint64_t rows;          /* that are there; of a dense share its elements */
    uint64_t payload_bytes; /* of their values and state */
    uint64_t used_bytes;    /* all that is allocated for the table */
};
struct table_use table_use_of(const struct table *table);

/* --------------------------------------------------------------------------------- rows */

/* out[i] becomes row rows[i], `width` elements each; rows may come several times. The row of a
 * table that has not been touched has its initial value, and takes no memory. INVALID_OPTIONS: the
 * table is dense. INVALID_COUNT: a row is below 0 or not below the count; nothing is written. */
enum tutti_status table_read_rows(const struct table *table, size_t count, const int64_t *rows,
                                  float *out);
/* Sets rows; of a row that comes several times, the last holds. The optimizer's state stays.
 * INVALID_OPTIONS, INVALID_COUNT as above; NO_MEMORY. */
enum tutti_status table_write_rows(struct table *table, size_t count, const int64_t *rows,
                                   const float *values);

/* A list of gradients of rows, as one worker sends it. */
struct table_gradients {
    size_t count;
    const int64_t *rows; /* [count]; in any order, and several times */
    const float *values; /* [count][width] */
};
/* One step of the optimizer for every row of the lists. Gradients of the same row are summed first,
 * from left to right: in the order of the lists, and within a list in its order; the sum is
 * multiplied by `factor` (1 leaves its bits). Rows that no list has do not change, nor does their
 * state: momentum, moments and weight decay act only on rows with gradients. `step` is 0 for a step
 * of its own, or from table_begin_step. INVALID_OPTIONS, INVALID_COUNT as above; INVALID_BUFFER: a
 * gradient is NaN or infinite, where the table refuses that; NO_MEMORY. */
enum tutti_status table_update_rows(struct table *table, uint64_t step, size_t list_count,
                                    const struct table_gradients *lists, float factor);

/* Numbers of rows that are there, in the order of first touch, from place `first` on: at most
 * `count`, and returns how many. 0: there are no more, or the table is dense. */
size_t table_list_rows(const struct table *table, uint64_t first, size_t count, int64_t *rows);

/* -------------------------------------------------------------------------------- dense */

/* Elements of the whole tensor, from `first` on, all of this server's share. INVALID_OPTIONS: the
 * table is one of rows. INVALID_COUNT: the share does not have them all; nothing is written. */
enum tutti_status table_read_dense(const struct table *table, uint64_t first, uint64_t count,
                                   float *out);
/* The same without a copy; valid until the next change of the table. */
enum tutti_status table_view_dense(const struct table *table, uint64_t first, uint64_t count,
                                   const float **values);
/* The same until table_let_go, which must come before the table is freed. A change meanwhile goes to a copy of the
 * values, which the table has from then on. NO_MEMORY, here and for that change. */
struct table_held;
enum tutti_status table_hold_dense(struct table *table, uint64_t first, uint64_t count,
                                   const float **values, struct table_held **held);
void table_let_go(struct table_held *held);
enum tutti_status table_write_dense(struct table *table, uint64_t first, uint64_t count,
                                    const float *values);
/* One step of the optimizer for these elements: gradients[0][i] + gradients[1][i] + .., from left to
 * right, is the gradient of element first + i, and is multiplied by `factor` (1 leaves its bits).
 * list_count is at least 1. Otherwise as table_update_rows. */
enum tutti_status table_update_dense(struct table *table, uint64_t step, uint64_t first,
                                     uint64_t count, size_t list_count,
                                     const float *const *gradients, float factor);

/* ------------------------------------------------------------------------------- steps */

/* Counts a step of the table's optimizer, and returns its number, from 1: for gradients of one step
 * that come in several calls. A step of its own (step 0) counts itself. */
uint64_t table_begin_step(struct table *table);
uint64_t table_steps(const struct table *table); /* that were counted so far */

#endif
