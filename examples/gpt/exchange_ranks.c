#include "exchange_ranks.h"

/* Returns where this rank's rows begin, and sets counts. */
static real *own_rows(struct exchange_ranks *ranks, real *all, size_t rows, size_t width)
{
    for (size_t r = 0; r < ranks->size; r++)
        ranks->counts[r] = range_share(rows, r, ranks->size).count * width;
    return all + range_share(rows, ranks->index, ranks->size).first * width;
}

static void gather_rows(real *all, size_t rows, size_t width, void *context)
{
    struct exchange_ranks *ranks = context;
    if (!ranks->rows_split) return;
    const real *own = own_rows(ranks, all, rows, width);
    expect(tutti_allgatherv(own, all, ranks->counts, NULL, REAL_DTYPE, ranks->comm),
           "gathering rows");
}

static void sum_rows(real *all, size_t rows, size_t width, void *context)
{
    struct exchange_ranks *ranks = context;
    if (!ranks->rows_split) {
        expect(tutti_allreduce(all, all, rows * width, REAL_DTYPE, TUTTI_SUM, ranks->comm),
               "adding up rows");
        return;
    }
    real *own = own_rows(ranks, all, rows, width);
    expect(tutti_reduce_scatterv(all, own, ranks->counts, REAL_DTYPE, TUTTI_SUM, ranks->comm),
           "adding up rows");
}

static void sum_values(real *values, size_t count, void *context)
{
    const struct exchange_ranks *ranks = context;
    expect(tutti_allreduce(values, values, count, REAL_DTYPE, TUTTI_SUM, ranks->comm),
           "adding up values");
}

static void max_values(real *values, size_t count, void *context)
{
    const struct exchange_ranks *ranks = context;
    expect(tutti_allreduce(values, values, count, REAL_DTYPE, TUTTI_MAX, ranks->comm),
           "finding the largest values");
}

void exchange_ranks_init(struct exchange_ranks *ranks, const struct axis *slices, bool rows_split)
{
    *ranks = (struct exchange_ranks){.comm = slices->comm,
                                     .index = slices->index,
                                     .size = slices->size,
                                     .rows_split = rows_split,
                                     .counts = allocate(slices->size, sizeof(size_t))};
    ranks->exchange = (struct exchange){gather_rows, sum_rows, sum_values, max_values, ranks};
    if (slices->size == 1) ranks->exchange = exchange_alone;
}

void exchange_ranks_release(struct exchange_ranks *ranks)
{
    free(ranks->counts);
}
