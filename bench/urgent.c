/* urgent.c - what a small urgent call costs while a large started one is under way, and what it
 * costs alone: rank program, `tutti-run ... build/bench/urgent [BYTES [ROUNDS]]`.
 *
 *   idle     8-byte allreduce with nothing else under way, as many calls as below, back to back
 *   urgent   the same with priority 100 during a started allreduce of BYTES (64 MiB), of usual priority
 *
 * The two take turns, ROUNDS times (10). Calls count only while the large one is under way on this
 * rank; the first of a round also waits for the others to come and does not count. Rank 0 prints
 * the medians of the rank whose median is the largest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rank_program.h"

enum { CALLS_MAX = 4000, CALLS_A_ROUND = 200, BYTES_DEFAULT = 64 << 20, ROUNDS_DEFAULT = 10 };

struct times {
    double us[CALLS_MAX];
    int count;
};

/* A value that part of the calls stay below; sorts. 0 where nothing was measured. */
static double quantile(struct times *times, double part)
{
    if (times->count == 0) return 0;
    qsort(times->us, (size_t)times->count, sizeof *times->us, ascending);
    return times->us[(int)(part * (times->count - 1))];
}

static void add(struct times *times, double us)
{
    if (times->count < CALLS_MAX) times->us[times->count++] = us;
}

static void call(const struct tutti_call_options *options, struct times *times)
{
    float pair[2] = {1, 2};
    const double begin = now_us();
    check(tutti_allreduce_with(pair, pair, 2, TUTTI_FLOAT32, TUTTI_SUM, options, comm), "8 bytes");
    if (times != NULL) add(times, now_us() - begin);
}

/* Every rank makes all calls of a round, and counts those that ended before the large one. */
static double measure_round(float *large, size_t count, struct times *idle, struct times *urgent)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.priority = 100;
    struct tutti_request *request;
    check(tutti_barrier(comm), "barrier");
    for (int i = 0; i < CALLS_A_ROUND; i++) call(&options, i == 0 ? NULL : idle);
    check(tutti_barrier(comm), "barrier");
    const double begin = now_us();
    check(tutti_allreduce_start(large, large, count, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm, &request),
          "start");
    for (int i = 0; i < CALLS_A_ROUND; i++) {
        struct times one = {.count = 0};
        call(&options, &one);
        if (request == NULL) continue;
        const enum tutti_status status = tutti_test(&request);
        if (status == TUTTI_OK) continue;
        if (status != TUTTI_IN_PROGRESS) check(status, "test");
        if (i > 0) add(urgent, one.us[0]);
    }
    if (request != NULL) check(tutti_wait(&request), "wait");
    return now_us() - begin;
}

int main(int argc, char **argv)
{
    static struct times idle, urgent;
    const size_t bytes = argc > 1 ? (size_t)number_of(argv[1], 1L << 40) : BYTES_DEFAULT;
    const long rounds = argc > 2 ? number_of(argv[2], 1000000) : ROUNDS_DEFAULT;
    float *const large = calloc(bytes / sizeof *large + 1, sizeof *large);
    if (large == NULL) check(TUTTI_NO_MEMORY, "memory");
    join();
    double large_us = 0;
    for (long round = 0; round < rounds; round++)
        large_us += measure_round(large, bytes / sizeof *large, &idle, &urgent) / (double)rounds;
    const double idle_us = largest_of_ranks(quantile(&idle, 0.5));
    const double urgent_us = largest_of_ranks(quantile(&urgent, 0.5));
    const double urgent_p95_us = largest_of_ranks(quantile(&urgent, 0.95));
    if (rank == 0) {
        printf("8 B idle %.1f us\n", idle_us);
        if (urgent.count == 0)
            printf("8 B during %zu bytes: no call ended before these\n", bytes);
        else
            printf("8 B urgent during %zu bytes %.1f us, p95 %.1f us, %.2f of idle; %d calls, a "
                   "round took %.0f us\n",
                   bytes, urgent_us, urgent_p95_us, urgent_us / idle_us, urgent.count, large_us);
    }
    leave();
    free(large);
    return 0;
}
