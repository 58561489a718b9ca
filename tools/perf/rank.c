#include "rank.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

double perf_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The rank-th of the cores this process may use, round robin. */
static void pin(int rank)
{
    cpu_set_t allowed, chosen;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    int skip = rank % CPU_COUNT(&allowed);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
        CPU_ZERO(&chosen);
        CPU_SET(core, &chosen);
        (void)sched_setaffinity(0, sizeof chosen,
                                &chosen); /* a measurement without it is still one */
        return;
    }
}

static enum tutti_status create_ops(struct perf_rank *rank)
{
    for (int r = 0; r < REDUCTION_COUNT; r++)
        if (rank->options->reductions >> r & 1)
            TRY(reduction_create((enum reduction)r, &rank->ops[r]));
    return TUTTI_OK;
}

enum tutti_status perf_rank_init(struct perf_rank *rank, const struct perf_options *options,
                                 const struct tutti_id *id, int number)
{
    *rank = (struct perf_rank){
        .options = options, .rank = number, .one_clock = id != NULL || options->one_clock};
    TRY(create_ops(rank));
    TRY(perf_device_find(options));
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = (uint64_t)(options->timeout_seconds * 1e9);
    comm_options.init_timeout_ns = comm_options.timeout_ns;
    if (id) {
        comm_options.rank = number;
        comm_options.size = options->ranks;
        comm_options.id = id;
    }
    /* Rank 0 leaves the barrier before a timed operation first, as it does in MPI libraries: else
     * rooted operations on more ranks than cores measure who happens to be released first. */
    comm_options.algorithms = "barrier=tree";
    TRY(tutti_comm_create(&comm_options, &rank->control));
    comm_options.algorithms = NULL;
    rank->rank = tutti_comm_rank(rank->control);
    rank->rank_count = tutti_comm_size(rank->control);
    TRY(perf_device_open(rank)); /* before the communicator to which it matters */

    struct tutti_id second;
    memset(&second, 0, sizeof second);
    if (rank->rank == 0) TRY(tutti_id_create(&second));
    /* as words: every dtype has the bytes of an id as they are */
    TRY(tutti_broadcast(&second, &second, sizeof second / sizeof(int32_t), TUTTI_INT32, 0,
                        rank->control));
    comm_options.rank = rank->rank;
    comm_options.size = rank->rank_count;
    comm_options.id = &second;
    TRY(tutti_comm_create(&comm_options, &rank->comm));
    if (options->pin) pin(rank->rank); /* after creation: threads of the library stay free */
    rank->lead_seconds = 5e-4;
    return TUTTI_OK;
}

void perf_rank_abort(struct perf_rank *rank, const char *reason)
{
    if (rank->comm) tutti_comm_abort(rank->comm, reason);
    if (rank->control) tutti_comm_abort(rank->control, reason);
}

void perf_rank_release(struct perf_rank *rank)
{
    tutti_comm_free(rank->comm);
    tutti_comm_free(rank->control);
    perf_device_close(rank);
    for (int r = 0; r < REDUCTION_COUNT; r++) tutti_op_free(rank->ops[r]);
    *rank = (struct perf_rank){.options = rank->options, .rank = rank->rank};
}

enum tutti_status perf_sync_barrier(struct perf_rank *rank)
{
    return tutti_barrier(rank->control);
}

enum tutti_status perf_sync_start(struct perf_rank *rank, double *start)
{
    TRY(perf_sync_barrier(rank)); /* nothing of the call before is in the way */
    *start = perf_seconds() + rank->lead_seconds;
    TRY(tutti_broadcast(start, start, 1, TUTTI_FLOAT64, 0, rank->control));
    const double wait_seconds = *start - perf_seconds(), far_seconds = 10;
    if (wait_seconds > far_seconds || wait_seconds < -far_seconds) {
        fprintf(stderr, "tutti-perf: --one-clock: ranks %d and 0 do not have the same clock\n",
                rank->rank);
        return TUTTI_INVALID_OPTIONS;
    }
    rank->is_late = wait_seconds < 0;
    const bool is_crowded = rank->rank_count > sysconf(_SC_NPROCESSORS_ONLN);
    while (perf_seconds() < *start)
        if (is_crowded) sched_yield();
    return TUTTI_OK;
}

enum tutti_status perf_sync_started(struct perf_rank *rank, bool *together)
{
    const double lead_max = 0.1;
    double late = rank->is_late;
    TRY(perf_sync_max(rank, &late, 1));
    *together = late == 0 || rank->lead_seconds >= lead_max;
    if (!*together) rank->lead_seconds *= 2;
    return TUTTI_OK;
}

enum tutti_status perf_sync_max(struct perf_rank *rank, double *values, size_t count)
{
    return tutti_allreduce(values, values, count, TUTTI_FLOAT64, TUTTI_MAX, rank->control);
}

enum tutti_status perf_sync_sum(struct perf_rank *rank, int64_t *value)
{
    return tutti_allreduce(value, value, 1, TUTTI_INT64, TUTTI_SUM, rank->control);
}

enum tutti_status perf_sync_from_first(struct perf_rank *rank, int32_t *value)
{
    return tutti_broadcast(value, value, 1, TUTTI_INT32, 0, rank->control);
}
