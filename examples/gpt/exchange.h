/* exchange.h - the seam between the model and tensor-parallel ranks: all that they tell each other
 * passes here.
 *
 * Attention, the MLP, the embedding and the head are computed in slices. A slice needs all rows of
 * its input and gives one summand of its output; between the slices a rank may have only its share
 * of the rows (part.rows_split):
 *
 *     forward:    my rows ── gather_rows ──► all rows ── slice ──► summands ── sum_rows ──► my rows
 *     backward:   my rows ◄── sum_rows ── summands ◄── slice ── all rows ◄── gather_rows ── my rows
 *
 * Where rows are not split, my rows are all rows: gather_rows then does nothing, and sum_rows is an
 * allreduce. These are the operators f and g of Megatron-LM (Shoeybi et al. 2019), and with rows
 * split those of Korthikanti et al. 2022.
 *
 * Each tensor-parallel rank calls the same functions in the same order.
 */
#ifndef GPT_EXCHANGE_H
#define GPT_EXCHANGE_H

#include "real.h"

struct exchange {
    /* Each rank's rows are in their places; afterwards all rows are, on all ranks. */
    void (*gather_rows)(real *all, size_t rows, size_t width, void *context);
    /* Afterwards the rows of this rank are the sums of all ranks' summands. Other rows may be
     * anything. */
    void (*sum_rows)(real *all, size_t rows, size_t width, void *context);
    /* Afterwards all ranks have the sums, or the maxima, of theirs: a number for each row. */
    void (*sum_values)(real *values, size_t count, void *context);
    void (*max_values)(real *values, size_t count, void *context);
    void *context;
};

/* For a process that has whole matrices: every function does nothing. */
extern const struct exchange exchange_alone;

#endif
