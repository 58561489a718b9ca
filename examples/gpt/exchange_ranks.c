#include "exchange_ranks.h"

/* Returns where this rank's rows begin, and sets counts. */
static real *own_rows(struct exchange_ranks *ranks, real *all, size_t rows, size_t width)
{
    for (size_t r = 0; r < ranks->size; r++)
        ranks->counts[r] = range_share(rows, r, ranks->size).count * width;
    return all + range_share(rows, ranks->index, ranks->size).first * width;
}

/* Everything that slices do goes through these two. */
static void begin(const struct exchange_ranks *ranks)
{
    timeline_begin(ranks->timeline, WAITING_SLICES, 0);
}

static void end(const struct exchange_ranks *ranks, enum tutti_status status, const char *what)
{
    expect(status, what);
    timeline_end(ranks->timeline);
}

/* What the rows are of. */
static void note_rows(const struct exchange_ranks *ranks)
{
    switch (timeline_computes(ranks->timeline)) {
    case DOING_EMBEDDING:
    case DOING_EMBEDDING_BACKWARD: volumes_note(ranks->volumes, VOLUME_EMBEDDING); break;
    case DOING_HEAD:
    case DOING_HEAD_BACKWARD: volumes_note(ranks->volumes, VOLUME_HEAD); break;
    default: volumes_note(ranks->volumes, VOLUME_LAYERS);
    }
}

static void gather_rows(real *all, size_t rows, size_t width, void *context)
{
    struct exchange_ranks *ranks = context;
    if (!ranks->rows_split) return;
    const real *own = own_rows(ranks, all, rows, width);
    begin(ranks);
    end(ranks, tutti_allgatherv(own, all, ranks->counts, NULL, REAL_DTYPE, ranks->comm),
        "gathering rows");
    note_rows(ranks);
}

static void sum_rows(real *all, size_t rows, size_t width, void *context)
{
    struct exchange_ranks *ranks = context;
    real *own = own_rows(ranks, all, rows, width);
    begin(ranks);
    end(ranks,
        ranks->rows_split
            ? tutti_reduce_scatterv(all, own, ranks->counts, REAL_DTYPE, TUTTI_SUM, ranks->comm)
            : tutti_allreduce(all, all, rows * width, REAL_DTYPE, TUTTI_SUM, ranks->comm),
        "adding up rows");
    note_rows(ranks);
}

static void sum_values(real *values, size_t count, void *context)
{
    const struct exchange_ranks *ranks = context;
    begin(ranks);
    end(ranks, tutti_allreduce(values, values, count, REAL_DTYPE, TUTTI_SUM, ranks->comm),
        "adding up values");
    volumes_note(ranks->volumes, VOLUME_LOSS);
}

static void max_values(real *values, size_t count, void *context)
{
    const struct exchange_ranks *ranks = context;
    begin(ranks);
    end(ranks, tutti_allreduce(values, values, count, REAL_DTYPE, TUTTI_MAX, ranks->comm),
        "finding the largest values");
    volumes_note(ranks->volumes, VOLUME_LOSS);
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
