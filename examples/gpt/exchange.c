#include "exchange.h"

static void nothing_for_rows(real *all, size_t rows, size_t width, void *context)
{
    (void)all, (void)rows, (void)width, (void)context;
}

static void nothing_for_values(real *values, size_t count, void *context)
{
    (void)values, (void)count, (void)context;
}

const struct exchange exchange_alone = {.gather_rows = nothing_for_rows,
                                        .sum_rows = nothing_for_rows,
                                        .sum_values = nothing_for_values,
                                        .max_values = nothing_for_values,
                                        .context = NULL};
