/* division.h - which server has which part of which table: pure, and the same on all ranks.
 *
 *     a dense tensor     servers 0 0 0 0 1 1 1 1 2 2 2       consecutive elements, about as many each;
 *                                1 1 1 1 1                   a small tensor as a whole, in turn
 *     rows               servers 0 1 2 0 1 2 0 1 2 0         in turn, so that neighbours do not crowd
 *
 * Also has what both ends know of a table otherwise, to check what the other end says.
 */
#ifndef TUTTI_SERVER_DIVISION_H
#define TUTTI_SERVER_DIVISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tensors of fewer elements are not divided. */
enum { DIVISION_WHOLE_BELOW = 1024 };

struct division_table {
    char name[256];
    bool is_rows, allows_nan;
    uint64_t row_count; /* of rows */
    uint64_t width;     /* of a row, or of the tensor */
};

struct server_division {
    int server_count, worker_count;
    size_t table_count;
    const struct division_table *tables;
    uint64_t payload_max; /* bytes of a request's payload, and of its reply's */
};

/* The elements of a dense tensor that a server has: `share` from `first` on, perhaps none. */
void division_dense(const struct server_division *division, size_t table, int server,
                    uint64_t *first, uint64_t *share);
/* The server that has a row. */
static inline int division_of_row(const struct server_division *division, uint64_t row)
{
    return (int)(row % (uint64_t)division->server_count);
}

#endif
