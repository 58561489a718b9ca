/* one_call.c - small blocking calls, one after the other, for bench/instructions: rank program,
 * `one_call OPERATION BYTES CALLS LATE_RANK`.
 *
 * All calls but those of the warm-up go through one_call_counted, which is how a tool that counts
 * instructions finds them. The late rank naps before each of them, so that the others' messages are
 * there when it begins; the nap is shorter than the time for which ranks stay awake. Bytes are
 * those of a block. Prints nothing.
 */
#include <string.h>
#include <unistd.h>

#include "rank_program.h"

enum { WARM_UPS = 100, NAP_US = 500, BYTES_MAX = 1 << 20, RANKS_MAX = 64 };

enum operation {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    GATHER,
    SCATTER,
    ALLGATHER,
    REDUCE_SCATTER,
    ALLTOALL,
    BARRIER,
    OPERATION_COUNT
};

static const char *const names[OPERATION_COUNT] = {"allreduce",      "reduce",   "broadcast",
                                                   "gather",         "scatter",  "allgather",
                                                   "reduce_scatter", "alltoall", "barrier"};

static enum tutti_status call(enum operation operation, const float *send, float *recv, size_t count)
{
    const enum tutti_dtype dtype = TUTTI_FLOAT32;
    switch (operation) {
    case ALLREDUCE: return tutti_allreduce(send, recv, count, dtype, TUTTI_SUM, comm);
    case REDUCE: return tutti_reduce(send, recv, count, dtype, TUTTI_SUM, 0, comm);
    case BROADCAST: return tutti_broadcast(send, recv, count, dtype, 0, comm);
    case GATHER: return tutti_gather(send, recv, count, dtype, 0, comm);
    case SCATTER: return tutti_scatter(send, recv, count, dtype, 0, comm);
    case ALLGATHER: return tutti_allgather(send, recv, count, dtype, comm);
    case REDUCE_SCATTER: return tutti_reduce_scatter(send, recv, count, dtype, TUTTI_SUM, comm);
    case ALLTOALL: return tutti_alltoall(send, recv, count, dtype, comm);
    case BARRIER: return tutti_barrier(comm);
    case OPERATION_COUNT: break;
    }
    return TUTTI_INTERNAL;
}

__attribute__((noinline)) void one_call_counted(enum operation operation, const float *send,
                                                float *recv, size_t count);
void one_call_counted(enum operation operation, const float *send, float *recv, size_t count)
{
    check(call(operation, send, recv, count), names[operation]);
}

static enum operation operation_of(const char *name)
{
    for (int i = 0; i < OPERATION_COUNT; i++)
        if (strcmp(names[i], name) == 0) return (enum operation)i;
    fprintf(stderr, "%s: %s is not an operation\n", program_invocation_short_name, name);
    exit(2);
}

static float *memory_of(size_t bytes)
{
    float *memory = calloc(1, bytes);
    if (memory == NULL) check(TUTTI_NO_MEMORY, "memory");
    return memory;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s OPERATION BYTES CALLS LATE_RANK\n",
                program_invocation_short_name);
        return 2;
    }
    const enum operation operation = operation_of(argv[1]);
    const size_t bytes = (size_t)number_of(argv[2], BYTES_MAX);
    const long calls = number_of(argv[3], 1000000);
    const long late = strcmp(argv[4], "0") == 0 ? 0 : number_of(argv[4], RANKS_MAX - 1);
    join();
    float *const send = memory_of(bytes * RANKS_MAX), *const recv = memory_of(bytes * RANKS_MAX);
    const size_t count = bytes / sizeof *send;
    for (long i = -WARM_UPS; i < calls; i++) {
        if (rank == late) usleep(NAP_US);
        if (i < 0)
            check(call(operation, send, recv, count), names[operation]);
        else
            one_call_counted(operation, send, recv, count);
    }
    free(send);
    free(recv);
    leave();
    return 0;
}
