/* forms.c - what the forms of a call cost beside the plain one, in one run: rank program, see
 * bench/forms.
 *
 *   8 bytes      blocking, started and waited for, prepared: allreduce float32, back to back; best of the repeats
 *   a list       1,000 tensors of mixed sizes, 25 MB in all, against one buffer of as many elements
 *   urgent       an 8-byte allreduce of high priority while a started one of 64 MiB is under way
 *
 * Repeats of what is compared take turns, so that a slow moment of the machine hits all alike. Rank
 * 0 prints.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rank_program.h"

enum {
    SMALL_REPEATS = 40,
    SMALL_CALLS = 20000,
    LIST_REPEATS = 15,
    TENSORS = 1000,
    LIST_BYTES = 25000000,
    URGENT_ROUNDS = 30,
    URGENT_CALLS = 20,
    BIG_COUNT = 16 << 20
};

static void *memory_of(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) check(TUTTI_NO_MEMORY, "memory");
    memset(memory, 0, bytes);
    return memory;
}

/* -------------------------------------------------------------------------------------- 8 bytes */

static void call_blocking(float *send, float *recv, struct tutti_prepared *prepared)
{
    (void)prepared;
    check(tutti_allreduce(send, recv, 2, TUTTI_FLOAT32, TUTTI_SUM, comm), "allreduce");
}

static void call_started(float *send, float *recv, struct tutti_prepared *prepared)
{
    (void)prepared;
    struct tutti_request *request;
    check(tutti_allreduce_start(send, recv, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm, &request),
          "allreduce_start");
    check(tutti_wait(&request), "wait");
}

static void call_prepared(float *send, float *recv, struct tutti_prepared *prepared)
{
    (void)send, (void)recv;
    struct tutti_request *request;
    check(tutti_start(prepared, &request), "start");
    check(tutti_wait(&request), "wait");
}

static void measure_small(void)
{
    typedef void call(float *send, float *recv, struct tutti_prepared *prepared);
    static call *const calls[3] = {call_blocking, call_started, call_prepared};
    static const char *const names[3] = {"blocking", "started + wait", "prepared start + wait"};
    double best[3] = {1e30, 1e30, 1e30};
    float send[2] = {1, 2}, recv[2];
    struct tutti_prepared *prepared;
    check(tutti_allreduce_prepare(send, recv, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm, &prepared),
          "prepare");
    for (int repeat = 0; repeat < SMALL_REPEATS; repeat++)
        for (int form = 0; form < 3; form++) {
            check(tutti_barrier(comm), "barrier");
            const double begin = now_us();
            for (int i = 0; i < SMALL_CALLS; i++) calls[form](send, recv, prepared);
            const double each = (now_us() - begin) / SMALL_CALLS;
            if (each < best[form]) best[form] = each;
        }
    check(tutti_prepared_free(prepared), "prepared_free");
    for (int form = 0; form < 3 && rank == 0; form++)
        printf("8 B %-28s %8.3f us %8.2f of blocking\n", names[form], best[form],
               best[form] / best[0]);
}

/* --------------------------------------------------------------------------------------- a list */

/* Mixed sizes: mostly small (biases, norms), some large (matrices), as in a network. */
static void cut(struct tutti_tensor *tensors, char *memory)
{
    size_t weights[TENSORS], total = 0, done = 0;
    uint32_t random = 12345;
    for (int t = 0; t < TENSORS; t++) {
        random = random * 1664525u + 1013904223u;
        weights[t] = random >> 28 == 0   ? 400000
                     : random >> 30 == 1 ? 20000
                                         : 100 + (random >> 8) % 2000;
        total += weights[t];
    }
    const size_t count = LIST_BYTES / 4;
    for (int t = 0; t < TENSORS; t++) {
        const size_t end = t == TENSORS - 1 ? count : done + count * weights[t] / total;
        /* Each has its own place, 64 bytes apart at least. */
        tensors[t] =
            (struct tutti_tensor){memory + done * 4 + (size_t)t * 128 / 64 * 64, end - done};
        done = end;
    }
}

static void measure_list(void)
{
    const size_t count = LIST_BYTES / 4;
    char *const pieces = memory_of(LIST_BYTES + TENSORS * 192);
    float *const whole = memory_of(LIST_BYTES);
    struct tutti_tensor tensors[TENSORS];
    cut(tensors, pieces);
    const struct tutti_list list = {tensors, TENSORS};
    double times[2][LIST_REPEATS], best[2] = {1e30, 1e30};
    for (int repeat = -2; repeat < LIST_REPEATS; repeat++)
        for (int form = 0; form < 2; form++) {
            check(tutti_barrier(comm), "barrier");
            const double begin = now_us();
            if (form == 0)
                check(tutti_allreduce(whole, whole, count, TUTTI_FLOAT32, TUTTI_SUM, comm),
                      "allreduce");
            else
                check(tutti_allreduce_list(&list, &list, TUTTI_FLOAT32, TUTTI_SUM, comm),
                      "allreduce_list");
            const double time = now_us() - begin;
            if (repeat < 0) continue;
            times[form][repeat] = time;
            if (time < best[form]) best[form] = time;
        }
    if (rank == 0) {
        printf("25 MB in one buffer                 %8.0f us (median %.0f)\n", best[0],
               median(times[0], LIST_REPEATS));
        printf("25 MB in %d tensors               %8.0f us (median %.0f) %8.2f of one buffer\n",
               TENSORS, best[1], median(times[1], LIST_REPEATS), best[1] / best[0]);
    }
    free(pieces);
    free(whole);
}

/* --------------------------------------------------------------------------------------- urgent */

static void measure_urgent(void)
{
    float *const big = memory_of((size_t)BIG_COUNT * 4);
    static double times[URGENT_ROUNDS * URGENT_CALLS];
    int count = 0;
    struct tutti_call_options urgent = TUTTI_CALL_OPTIONS_INIT;
    urgent.priority = 100;
    float x[2] = {1, 2};
    for (int round = 0; round < URGENT_ROUNDS; round++) {
        struct tutti_request *request;
        check(tutti_barrier(comm), "barrier");
        check(tutti_allreduce_start(big, big, BIG_COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm,
                                    &request),
              "allreduce_start");
        for (int i = 0; i < URGENT_CALLS; i++) {
            const double begin = now_us();
            check(tutti_allreduce_with(x, x, 2, TUTTI_FLOAT32, TUTTI_SUM, &urgent, comm), "urgent");
            const double time = now_us() - begin;
            /* Only while the large one is under way; the first call also waits for the other rank
             * to come. */
            const enum tutti_status status = tutti_test(&request);
            if (status == TUTTI_OK) break;
            if (status != TUTTI_IN_PROGRESS) check(status, "test");
            if (i > 0) times[count++] = time;
        }
        if (request != NULL) check(tutti_wait(&request), "wait");
    }
    if (rank == 0 && count > 0) {
        const double middle = median(times, count);
        printf("8 B urgent during 64 MiB            %8.1f us median, %.1f us p95, %.1f us worst of "
               "%d\n",
               middle, times[count * 95 / 100], times[count - 1], count);
    }
    free(big);
}

int main(void)
{
    join();
    measure_small();
    measure_list();
    measure_urgent();
    leave();
    return 0;
}
