/* sparse.c - what each way of a sparse allreduce costs, and what was estimated: rank program,
 * `sparse [WIDTH]`.
 *
 *     tutti-run -n 4 build/bench/sparse 16
 *
 * Ranks have rows of matrices of 10,000 and 1,000,000 rows of WIDTH float32, at random, and more
 * and more of them. Each line: rows of a rank, rows of the result, the microseconds of each way as
 * the slowest rank sees them (the median of the calls), those estimated, the way that is chosen, and
 * the bytes that this rank sent with OWNER. A last line has draws from Zipf's distribution with
 * exponent 1.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "rank_program.h"
#include "tutti/sparse.h"

enum { CALLS = 15, WAYS = TUTTI_SPARSE_DENSE + 1 };

static uint64_t state;

static uint64_t next(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double chance(void)
{
    return (double)(next() >> 11) * 0x1p-53;
}

/* Each row with the same chance, so that about `wanted` of them are there. */
static size_t choose_any(int64_t *indices, size_t wanted, size_t row_count)
{
    size_t count = 0;
    for (size_t row = 0; row < row_count; row++)
        if (chance() * (double)row_count < (double)wanted) indices[count++] = (int64_t)row;
    return count;
}

/* Row r with the chance that it is among `draws`. */
static size_t choose_zipf(int64_t *indices, size_t draws, size_t row_count)
{
    double whole = 0;
    size_t count = 0;
    for (size_t row = 0; row < row_count; row++) whole += 1.0 / (double)(row + 1);
    for (size_t row = 0; row < row_count; row++) {
        const double share = 1.0 / ((double)(row + 1) * whole);
        if (chance() < 1 - pow(1 - share, (double)draws)) indices[count++] = (int64_t)row;
    }
    return count;
}

static double time_way(const struct tutti_sparse_rows *rows, enum tutti_sparse_way way,
                       struct tutti_sparse_counters *counters, size_t *result_count, char *text,
                       size_t text_bytes)
{
    double times[CALLS];
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    options.way = way;
    for (int c = -2; c < CALLS; c++) {
        struct tutti_sparse *result;
        struct tutti_sparse_rows sum;
        check(tutti_barrier(comm), "barrier");
        const double began = now_us();
        check(tutti_sparse_allreduce(rows, TUTTI_SUM, &options, comm, &result), "sparse_allreduce");
        const double took = largest_of_ranks(now_us() - began);
        if (c >= 0) times[c] = took;
        check(tutti_sparse_view(result, &sum), "view");
        check(tutti_sparse_count(result, counters), "count");
        check(tutti_sparse_explain(result, text, text_bytes), "explain");
        *result_count = sum.count;
        check(tutti_sparse_free(result), "free");
    }
    return median(times, CALLS);
}

static void measure(const struct tutti_sparse_rows *rows)
{
    static const char *const names[WAYS] = {"chosen", "gather", "owner", "dense"};
    double took[WAYS], estimated[WAYS] = {0};
    struct tutti_sparse_counters chosen = {.size_bytes = sizeof chosen}, counters = chosen,
                                 owner = chosen;
    size_t result_count = 0;
    char text[1024];
    took[0] = time_way(rows, TUTTI_SPARSE_CHOSEN, &chosen, &result_count, text, sizeof text);
    for (int way = 1; way < WAYS; way++) {
        const char *const line = strstr(text, way == 1   ? "  gather"
                                              : way == 2 ? "  owner"
                                                         : "  dense");
        if (line != NULL) (void)sscanf(line, " %*s %lf us", &estimated[way]);
    }
    for (int way = 1; way < WAYS; way++)
        took[way] = time_way(rows, (enum tutti_sparse_way)way,
                             way == TUTTI_SPARSE_OWNER ? &owner : &counters, &result_count, text,
                             sizeof text);
    if (rank != 0) return;
    printf("%9zu rows of %8zu: %8zu |", rows->count, rows->row_count, result_count);
    for (int way = 1; way < WAYS; way++)
        printf(" %s %9.1f (%9.1f)", names[way], took[way], estimated[way]);
    printf(" | %s %9.1f | %llu + %llu bytes\n", names[chosen.way], took[0],
           (unsigned long long)owner.sent_index_bytes, (unsigned long long)owner.sent_value_bytes);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const size_t width = argc > 1 ? (size_t)number_of(argv[1], 4096) : 16;
    static const size_t row_counts[] = {10000, 1000000};
    join();
    state = (uint64_t)rank + 1;
    for (size_t m = 0; m < 2; m++) {
        const size_t row_count = row_counts[m], most = m == 0 ? row_count : row_count / 4;
        int64_t *const indices = malloc(row_count * sizeof *indices);
        float *const values = calloc(row_count, width * sizeof *values);
        if (indices == NULL || values == NULL) check(TUTTI_NO_MEMORY, "memory");
        for (size_t i = 0; i < row_count * width; i++) values[i] = (float)(i % 7);
        struct tutti_sparse_rows rows = {row_count, width, TUTTI_FLOAT32, 0, indices, values};
        for (size_t wanted = 10; wanted <= most;
             wanted *= wanted * 10 > most && wanted < most ? 2 : 10) {
            rows.count = choose_any(indices, wanted, row_count);
            measure(&rows);
        }
        if (m == 1) {
            rows.count = choose_zipf(indices, 10000, row_count);
            measure(&rows);
        }
        free(indices);
        free(values);
    }
    leave();
    return 0;
}
