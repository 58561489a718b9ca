/* division.h - which server has which part of which table: pure, and the same on all ranks.
 *
 *     a dense tensor     servers 0 0 0 0 1 1 1 1 2 2 2       consecutive elements, about as many each;
 *                                1 1 1 1 1                   a small tensor as a whole, in turn
 *     rows               servers 0 1 2 0 1 2 0 1 2 0         in turn, so that neighbours do not crowd
 *
 * With backups, a share of the tables is on two servers: seat v has share v % server_count, and seats from
 * server_count on are on the next server, round and round.
 *
 *     server     0     1     2
 *     seats      0 5   1 3   2 4         of shares 0 2, 1 0, 2 1
 *                6     7     8           spares: no share, until they get one (membership/seat_map.h)
 *
 * Also has what both ends know of a table otherwise, to check what the other end says.
 */
#ifndef TUTTI_SERVER_DIVISION_H
#define TUTTI_SERVER_DIVISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "membership/seat_map.h"

/* Tensors of fewer elements are not divided. */
enum { DIVISION_WHOLE_BELOW = 1024 };
/* The most that queue_bytes can be: more than any machine has, and sums of sizes below it fit. */
#define DIVISION_QUEUE_MAX (UINT64_C(1) << 52)
/* Of each tensor in a message, at most. */
enum { DIVISION_PADDING = 64 };

struct division_table {
    char name[256];
    bool is_rows, allows_nan;
    uint64_t row_count; /* of rows */
    uint64_t width;     /* of a row, or of the tensor */
};

struct server_division {
    int server_count, worker_count;
    int place_count;  /* of the workers: the last ones, which come later */
    int backup_count; /* of each share: 0 or 1 */
    int spare_count;  /* seats of each server */
    size_t table_count;
    const struct division_table *tables;
    uint64_t payload_max; /* bytes of a request's payload, and of its reply's */
};

static inline int division_seats(const struct server_division *division)
{
    return division->server_count * (1 + division->backup_count + division->spare_count);
}
/* Workers that are there at the start. */
static inline int division_first_workers(const struct server_division *division)
{
    return division->worker_count - division->place_count;
}
/* The share that a seat begins with; -1: none. */
static inline int division_first_share(const struct server_division *division, int seat)
{
    return seat_first_share(division->server_count, 1 + division->backup_count, seat);
}
/* The server that a seat is on. */
static inline int division_host(const struct server_division *division, int seat)
{
    return seat_server(division->server_count, seat);
}
/* A server's seat of that number: its own share, the backup, spares. */
static inline int division_seat_of(const struct server_division *division, int server, int number)
{
    const int servers = division->server_count;
    const bool is_backup = division->backup_count > 0 && number == 1;
    return number * servers + (server - is_backup + servers) % servers;
}
/* Whether there is a line between two seats: from those that begin with the clock, and from spares, to all. */
static inline bool division_has_line(const struct server_division *division, int one, int other)
{
    const int servers = division->server_count, spares = servers * (1 + division->backup_count);
    return one != other &&
           (one % servers == 0 || other % servers == 0 || one >= spares || other >= spares);
}

/* The elements of a dense tensor that a server has: `share` from `first` on, perhaps none. */
void division_dense(const struct server_division *division, size_t table, int server,
                    uint64_t *first, uint64_t *share);
/* The queue_bytes that a program which chooses none gets: `least`, and room for all dense tensors of any server in one call. */
uint64_t division_queue_bytes(const struct server_division *division, uint64_t least);
/* The server that has a row. */
static inline int division_of_row(const struct server_division *division, uint64_t row)
{
    return (int)(row % (uint64_t)division->server_count);
}

#endif
