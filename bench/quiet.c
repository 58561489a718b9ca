/* quiet.c - what a started operation that cannot finish costs the ranks that compute meanwhile:
 * rank program, see bench/README.md.
 *
 *   alone       every rank computes a fixed amount, and nothing is started
 *   in wait     all but one rank start an allreduce and then compute; that one computes first and starts after it.
 *               So the operation cannot finish while anybody computes, and whatever looks after it
 *               only looks.
 *
 *               ├──────── time ────────┤
 *   rank 0  ─start─[████ computes █████]─wait─
 *   rank 1  ─start─[████ computes █████]─wait─
 *   rank 2  ───────[████ computes █████]─start─wait─      late: another one in each repeat
 *
 * Time is from the first rank's beginning to the last one's end of computing, so it also counts
 * what one rank takes away from another that shares its core. Computing stays in registers: what a
 * started operation does to caches and memory is not what is asked here. Both take turns; rank 0
 * prints the loss of the best repeat and of the median, and besides ("threads") the processor time
 * that other threads of a rank took meanwhile, which tells Tutti's part from what a busy machine
 * does to the times.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rank_program.h"
#include "work.h"

enum { REPEATS = 40, WARM_UP = 3, WORK_US = 20000 };
static const size_t sizes_bytes[] = {8, 64 << 10, 1 << 20};
static const double loss_percent_max = 3;

static int rank_count;

/* Processor time of this process but for this thread. */
static double other_threads_us(void)
{
    return read_us(CLOCK_PROCESS_CPUTIME_ID) - read_us(CLOCK_THREAD_CPUTIME_ID);
}

struct exchange {
    float *send, *recv;
    size_t count;
};

static struct tutti_request *start(const struct exchange *exchange)
{
    struct tutti_request *request;
    check(tutti_allreduce_start(exchange->send, exchange->recv, exchange->count, TUTTI_FLOAT32,
                                TUTTI_SUM, NULL, comm, &request),
          "allreduce_start");
    return request;
}

/* One rank's computing: on the clock that ranks of one host share, and what its other threads took
 * meanwhile. */
struct turn {
    double begin_us, end_us, threads_us;
};

/* Over all ranks: from the first one's beginning to the last one's end, and the most that threads
 * took. */
struct cost {
    double span_us, threads_us;
};

static struct cost cost_of_all(const struct turn *turn)
{
    const double mine[3] = {-turn->begin_us, turn->end_us, turn->threads_us};
    double most[3];
    check(tutti_allreduce(mine, most, 3, TUTTI_FLOAT64, TUTTI_MAX, comm), "allreduce");
    return (struct cost){most[1] + most[0], most[2]};
}

/* Who is done sleeps until all are: waiting in a call would take turns on a shared core with who
 * still computes. */
static struct turn compute_and_sleep(uint64_t steps)
{
    const double threads_us = other_threads_us();
    struct turn turn = {.begin_us = now_us()};
    work(steps);
    turn.end_us = now_us();
    turn.threads_us = other_threads_us() - threads_us;
    nanosleep(&(struct timespec){.tv_nsec = WORK_US * 1000}, NULL);
    return turn;
}

static struct cost time_alone(uint64_t steps)
{
    check(tutti_barrier(comm), "barrier");
    const struct turn turn = compute_and_sleep(steps);
    return cost_of_all(&turn);
}

static struct cost time_in_wait(const struct exchange *exchange, int late, uint64_t steps)
{
    struct tutti_request *request = NULL;
    if (rank != late) request = start(exchange);
    check(tutti_barrier(comm), "barrier"); /* what starting costs is not what is asked */
    const struct turn turn = compute_and_sleep(steps);
    check(tutti_barrier(comm), "barrier"); /* late means after everybody's work */
    if (rank == late) request = start(exchange);
    check(tutti_wait(&request), "wait");
    return cost_of_all(&turn);
}

static double loss_percent(double with, double without)
{
    return (with / without - 1) * 100;
}

/* Sorted columns of all repeats. */
struct series {
    double span_us[REPEATS], threads_us[REPEATS];
};

static void sort(struct series *series)
{
    qsort(series->span_us, REPEATS, sizeof *series->span_us, ascending);
    qsort(series->threads_us, REPEATS, sizeof *series->threads_us, ascending);
}

static void print(size_t bytes, const struct series *alone, const struct series *in_wait)
{
    const int middle = REPEATS / 2;
    const double best = loss_percent(in_wait->span_us[0], alone->span_us[0]);
    printf("%8zu B  alone %8.0f us  in wait %8.0f us  loss: best %5.1f %%  median %5.1f %%  "
           "threads %5.0f us%s\n",
           bytes, alone->span_us[0], in_wait->span_us[0], best,
           loss_percent(in_wait->span_us[middle], alone->span_us[middle]),
           in_wait->threads_us[middle], best < loss_percent_max ? "" : "  (too much)");
}

static void measure(size_t bytes, uint64_t steps)
{
    static struct series alone, in_wait;
    const struct exchange exchange = {calloc(1, bytes), calloc(1, bytes), bytes / sizeof(float)};
    if (exchange.send == NULL || exchange.recv == NULL) check(TUTTI_NO_MEMORY, "memory");
    for (int repeat = -WARM_UP; repeat < REPEATS; repeat++) {
        const struct cost without = time_alone(steps);
        const struct cost with = time_in_wait(&exchange, (repeat + WARM_UP) % rank_count, steps);
        if (repeat < 0) continue;
        alone.span_us[repeat] = without.span_us;
        alone.threads_us[repeat] = without.threads_us;
        in_wait.span_us[repeat] = with.span_us;
        in_wait.threads_us[repeat] = with.threads_us;
    }
    sort(&alone);
    sort(&in_wait);
    if (rank == 0) print(bytes, &alone, &in_wait);
    free(exchange.send);
    free(exchange.recv);
}

/* Ranks share cores where the launcher pins more of them than there are. */
static void print_heading(void)
{
    cpu_set_t cpus;
    const bool pinned = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
    printf("%d ranks on %ld cores%s; computing while a started allreduce waits for a rank\n",
           rank_count, sysconf(_SC_NPROCESSORS_ONLN),
           pinned ? ", pinned" : ", NOT pinned: moving costs more than what is measured");
}

int main(void)
{
    join();
    rank_count = tutti_comm_size(comm);
    if (rank_count < 2) {
        fprintf(stderr, "quiet: needs two ranks: tutti-run --pin -n 2 quiet\n");
        return 2;
    }
    if (rank == 0) print_heading();
    const uint64_t steps = (uint64_t)(WORK_US * agree(rank == 0 ? work_steps_a_us() : 0));
    for (size_t i = 0; i < sizeof sizes_bytes / sizeof *sizes_bytes; i++)
        measure(sizes_bytes[i], steps);
    leave();
    return 0;
}
