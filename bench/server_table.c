/* server_table.c - what the tables of a parameter server cost: `server_table [ROWS [WIDTH]]`.
 *
 *     build/bench/server_table 10000000 16
 *
 * For each optimizer: all rows are touched once, in pushes of BATCH gradients and in any order; then
 * pushes and pulls of BATCH rows come that are drawn from Zipf's distribution with exponent 1 (low
 * ranks often, and the rows of these ranks lie anywhere). Each line: million rows in a second of
 * processor time, of the first touch, of updates, and of reads; the bytes that were allocated, and
 * the memory of the process, as a share of the payload, which is the values and state of rows; the
 * milliseconds of a copy of all, and of a copy that catches up after one push, and its size.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/table.h"
#include "server/table_copy.h"
#include "timing.h"

enum { BATCH = 16384, PUSHES = 300, COPY_BYTES = 4 << 20 };

static uint64_t state = 1;
static int64_t rows[PUSHES][BATCH];
static unsigned char bytes[COPY_BYTES];

static uint64_t next(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A permutation of the rows, for an odd number that shares no factor with the count. */
static int64_t scattered(uint64_t rank, uint64_t count)
{
    return (int64_t)((unsigned __int128)rank * UINT64_C(2654435769) % count);
}

static void draw_zipf(uint64_t count)
{
    for (int p = 0; p < PUSHES; p++)
        for (int i = 0; i < BATCH; i++) {
            const double share = (double)(next() >> 11) * 0x1p-53;
            const uint64_t rank = (uint64_t)pow((double)count, share) - 1; /* of exponent 1 */
            rows[p][i] = scattered(rank < count ? rank : count - 1, count);
        }
}

static void check(enum tutti_status status)
{
    if (status == TUTTI_OK) return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_error_message());
    exit(1);
}

static double process_bytes(void)
{
    long pages = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file != NULL) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double touch_all(struct table *table, uint64_t count, const float *gradients)
{
    static int64_t batch[BATCH];
    const double begin = read_us(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t first = 0; first < count; first += BATCH) {
        const size_t here = count - first < BATCH ? (size_t)(count - first) : BATCH;
        for (size_t i = 0; i < here; i++) batch[i] = scattered(first + i, count);
        const struct table_gradients list = {here, batch, gradients};
        check(table_update_rows(table, 0, 1, &list, 1));
    }
    return (double)count / (read_us(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static double update(struct table *table, const float *gradients)
{
    const double begin = read_us(CLOCK_THREAD_CPUTIME_ID);
    for (int p = 0; p < PUSHES; p++) {
        const struct table_gradients list = {BATCH, rows[p], gradients};
        check(table_update_rows(table, 0, 1, &list, 1));
    }
    return (double)PUSHES * BATCH / (read_us(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static double read_rows(const struct table *table, float *out)
{
    const double begin = read_us(CLOCK_THREAD_CPUTIME_ID);
    for (int p = 0; p < PUSHES; p++) check(table_read_rows(table, BATCH, rows[p], out));
    return (double)PUSHES * BATCH / (read_us(CLOCK_THREAD_CPUTIME_ID) - begin);
}

/* Milliseconds until the copy is current, and *copied bytes. */
static double copy_all(const struct tables *tables, struct tables_copy *copy, uint64_t *copied)
{
    const double begin = read_us(CLOCK_THREAD_CPUTIME_ID);
    for (*copied = 0; !tables_copy_is_current(tables, copy);) {
        size_t size;
        check(tables_copy_next(tables, copy, bytes, sizeof bytes, &size));
        *copied += size;
    }
    return (read_us(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e-3;
}

static void measure(const char *name, const struct table_optimizer *optimizer, uint64_t count,
                    size_t width)
{
    const struct table_spec spec = {.name = name,
                                    .kind = TABLE_ROWS,
                                    .count = count,
                                    .width = width,
                                    .initial = {TABLE_INITIAL_UNIFORM, 0, 0.01f},
                                    .optimizer = *optimizer,
                                    .refuses_nan = true};
    struct tables *tables;
    struct table *table;
    struct tables_copy copy;
    uint64_t copied, caught_up;
    float *const gradients = calloc(BATCH, width * sizeof *gradients);
    if (gradients == NULL) exit(1);
    for (size_t i = 0; i < BATCH * width; i++) gradients[i] = (float)(next() >> 40) * 0x1p-24f;
    check(tables_create(0, &tables));
    check(tables_add(tables, &spec, &table));
    const double before = process_bytes();
    const double touched = touch_all(table, count, gradients);
    const double share = process_bytes() - before;
    const double updated = update(table, gradients), read = read_rows(table, gradients);
    const struct table_use use = table_use_of(table);
    tables_copy_init(&copy);
    const double copy_ms = copy_all(tables, &copy, &copied);
    const struct table_gradients list = {BATCH, rows[0], gradients};
    check(table_update_rows(table, 0, 1, &list, 1));
    const double catch_up_ms = copy_all(tables, &copy, &caught_up);
    printf("%-8s %9.2f %9.2f %9.2f %10.3f %8.3f %9.0f %9.2f %9.1f\n", name, touched, updated, read,
           (double)use.used_bytes / (double)use.payload_bytes, share / (double)use.payload_bytes,
           copy_ms, catch_up_ms, (double)caught_up * 0x1p-20);
    tables_free(tables);
    free(gradients);
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    const size_t width = argc > 2 ? strtoull(argv[2], NULL, 10) : 16;
    if (count < 1 || count > UINT32_MAX / 2 || width < 1 || width > 4096) {
        fprintf(stderr, "server_table: ROWS is 1 to 2^31, WIDTH 1 to 4096\n");
        return 2;
    }
    const struct table_optimizer sgd = {.kind = TABLE_SGD, .rate = 0.01};
    const struct table_optimizer adagrad = {.kind = TABLE_ADAGRAD, .rate = 0.01, .epsilon = 1e-10};
    const struct table_optimizer adam = {
        .kind = TABLE_ADAM, .rate = 0.01, .first_beta = 0.9, .second_beta = 0.999, .epsilon = 1e-8};
    draw_zipf(count);
    printf("         Mrows/s: touch   update      read  allocated  process   copy ms  again ms     "
           "  MiB\n");
    measure("sgd", &sgd, count, width);
    measure("adagrad", &adagrad, count, width);
    measure("adam", &adam, count, width);
    return 0;
}
