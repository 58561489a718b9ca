/* overlap.c - how much of an operation hides behind computing: rank program, `tutti-run ...
 * build/bench/overlap [-o OPERATION] [-b BYTES] [-e BYTES] [-n REPEATS]`.
 *
 *   total      ─start─wait─
 *   computing  ─[█████████]─                     1.25 times as long as the operation took in a first round
 *   both       ─start─[█████████]─wait─
 *
 *   overlap = 1 - exposed / total,  exposed = both - computing
 *
 * 1: computing takes as long as if there were no operation. 0: nothing is gained over a blocking
 * call; below: it is worse than one. Times are those of the slowest rank; the three take turns, and
 * medians of the repeats count. Computing stays in registers. Bytes are those of this rank's
 * buffer. `sockets` is the limit for two hosts: bare sockets move as many bytes as an allreduce and
 * reduce nothing. Networks cost their hosts time, emulated ones more: what that takes from
 * computing, no library can hide.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rank_program.h"
#include "sockets.h"
#include "work.h"

enum { REPEATS_MAX = 1000, REPEATS_DEFAULT = 15 };

static int rank_count;

struct buffers {
    float *send, *recv;
    size_t count; /* of each */
};

enum operation { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, ALLTOALL, BROADCAST, SOCKETS, OPERATIONS };
static const char *const names[OPERATIONS] = {"allreduce", "reduce_scatter", "allgather",
                                              "alltoall",  "broadcast",      "sockets"};
static struct sockets bare;

/* NULL: of sockets. */
static struct tutti_request *start(enum operation operation, const struct buffers *b)
{
    struct tutti_request *request = NULL;
    enum tutti_status status = TUTTI_OK;
    const size_t block = b->count / (size_t)rank_count;
    switch (operation) {
    case SOCKETS: sockets_start(&bare); break;
    case REDUCE_SCATTER:
        status = tutti_reduce_scatter_start(b->send, b->recv, block, TUTTI_FLOAT32, TUTTI_SUM, NULL,
                                            comm, &request);
        break;
    case ALLGATHER:
        status = tutti_allgather_start(b->send, b->recv, block, TUTTI_FLOAT32, NULL, comm, &request);
        break;
    case ALLTOALL:
        status = tutti_alltoall_start(b->send, b->recv, block, TUTTI_FLOAT32, NULL, comm, &request);
        break;
    case BROADCAST:
        status = tutti_broadcast_start(b->send, b->recv, b->count, TUTTI_FLOAT32, 0, NULL, comm,
                                       &request);
        break;
    default:
        status = tutti_allreduce_start(b->send, b->recv, b->count, TUTTI_FLOAT32, TUTTI_SUM, NULL,
                                       comm, &request);
    }
    check(status, names[operation]);
    return request;
}

static void finish(enum operation operation, struct tutti_request **request)
{
    if (operation == SOCKETS)
        sockets_finish(&bare);
    else
        check(tutti_wait(request), names[operation]);
}

/* One turn: with the operation, with computing, or with both; of the slowest rank. */
static double turn_us(enum operation operation, const struct buffers *b, bool operates,
                      uint64_t steps)
{
    struct tutti_request *request = NULL;
    check(tutti_barrier(comm), "barrier");
    const double begin = now_us();
    if (operates) request = start(operation, b);
    work(steps);
    if (operates) finish(operation, &request);
    return largest_of_ranks(now_us() - begin);
}

static void measure(enum operation operation, size_t bytes, int repeats, double steps)
{
    static double total[REPEATS_MAX], computing[REPEATS_MAX], both[REPEATS_MAX];
    struct buffers b = {malloc(bytes), malloc(bytes), bytes / sizeof(float)};
    if (b.send == NULL || b.recv == NULL) check(TUTTI_NO_MEMORY, "memory");
    memset(b.send, 1, bytes); /* touched, as gradients are */
    memset(b.recv, 1, bytes);
    bare.send = (char *)b.send;
    bare.recv = (char *)b.recv;
    bare.bytes = bytes;
    double first = 0;
    for (int i = 0; i < STARTED_WARM_UPS; i++) first = turn_us(operation, &b, true, 0);
    const uint64_t work_steps = (uint64_t)(1.25 * first * steps);
    for (int i = 0; i < repeats; i++) {
        total[i] = turn_us(operation, &b, true, 0);
        computing[i] = turn_us(operation, &b, false, work_steps);
        both[i] = turn_us(operation, &b, true, work_steps);
    }
    const double t = median(total, repeats), c = median(computing, repeats),
                 w = median(both, repeats);
    if (rank == 0)
        printf("%-14s %10zu %12.1f %12.1f %12.1f %8.2f\n", names[operation], bytes, t, c, w,
               1 - (w - c) / t);
    fflush(stdout);
    free(b.send);
    free(b.recv);
}

/* -------------------------------------------------------------------------------------- options */

static const char usage[] =
    "usage: tutti-run ... overlap [-o OPERATION] [-b BYTES] [-e BYTES] [-n REPEATS]\n"
    "  prints how much of a started operation hides behind computing\n"
    "  -o OPERATION   allreduce, reduce_scatter, allgather, alltoall, broadcast, sockets (default: "
    "all; the last for two ranks)\n"
    "  -b, -e BYTES   the smallest and the largest buffer, factor 4 (default: 16384 and 26214400)\n"
    "  -n REPEATS     (default 15)\n";

static enum operation operation_of(const char *name)
{
    for (int o = 0; o < OPERATIONS; o++)
        if (strcmp(name, names[o]) == 0) return (enum operation)o;
    fprintf(stderr, "overlap: there is no operation %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    size_t smallest = 16 << 10, largest = 25 << 20;
    int repeats = REPEATS_DEFAULT, first = 0, last = OPERATIONS - 1;
    for (int option; (option = getopt(argc, argv, "o:b:e:n:h")) != -1;) {
        switch (option) {
        case 'o': first = last = (int)operation_of(optarg); break;
        case 'b': smallest = (size_t)number_of(optarg, 1L << 32); break;
        case 'e': largest = (size_t)number_of(optarg, 1L << 32); break;
        case 'n': repeats = (int)number_of(optarg, REPEATS_MAX); break;
        case 'h': fputs(usage, stdout); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    join();
    rank_count = tutti_comm_size(comm);
    if (rank_count != 2 && first == SOCKETS) fputs("overlap: sockets are for two ranks\n", stderr);
    if (rank_count != 2 && last == SOCKETS) last--;
    if (last == SOCKETS) bare.fd = sockets_connect();
    const double steps = agree(rank == 0 ? work_steps_a_us() : 0);
    if (rank == 0)
        printf("%-14s %10s %12s %12s %12s %8s\n", "operation", "bytes", "total us", "computing us",
               "both us", "overlap");
    for (int o = first; o <= last; o++)
        for (size_t bytes = smallest; bytes <= largest; bytes *= 4)
            measure((enum operation)o, bytes, repeats, steps);
    leave();
    return 0;
}
