/* pipeline.c - how long a step of a pipeline takes beside the simulation, in which messages take no
 * time: rank program, `tutti-run ... build/bench/pipeline [-b BYTES] [-m MICRO_BATCHES] [-f
 * MILLISECONDS] [-n STEPS]`.
 *
 * Passes only sleep, a backward one twice as long as a forward one, as where another device
 * computes; so any number of ranks fits on few CPUs. A step takes longer than simulated by its
 * messages, as far as nothing hides them, and by waking up. Passes through chunks of the
 * interleaved schedule take half the time, so all schedules have the same work. Medians of the
 * steps count.
 */
#include <getopt.h>

#include "rank_program.h"
#include "tutti/train/pipeline.h"

enum { STEPS_MAX = 1000 };

static double forward_ms = 2;

struct stage {
    double forward_us, late_us; /* how much later than wanted passes came back in this step */
};

static void doze(struct stage *stage, double us)
{
    const double end = now_us() + us;
    struct timespec until = {(time_t)(end / 1e6), 0};
    until.tv_nsec = (long)((end - (double)until.tv_sec * 1e6) * 1e3);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) continue;
    stage->late_us += now_us() - end;
}

static enum tutti_status forward(void *context, int chunk, int micro_batch, const void *input,
                                 void *output)
{
    (void)chunk, (void)micro_batch, (void)input, (void)output;
    struct stage *const stage = context;
    doze(stage, stage->forward_us);
    return TUTTI_OK;
}

static enum tutti_status backward(void *context, int chunk, int micro_batch,
                                  const void *output_gradient, void *input_gradient)
{
    (void)chunk, (void)micro_batch, (void)output_gradient, (void)input_gradient;
    struct stage *const stage = context;
    doze(stage, 2 * stage->forward_us);
    return TUTTI_OK;
}

static void measure(const char *name, int micro_batches, int chunks, size_t bytes, int steps)
{
    const struct tutti_schedule_shape shape = {tutti_comm_size(comm), micro_batches, chunks};
    struct stage stage = {1e3 * forward_ms / chunks, 0};
    struct tutti_schedule_times times = TUTTI_SCHEDULE_TIMES_INIT;
    struct tutti_pipeline_options options = TUTTI_PIPELINE_OPTIONS_INIT;
    struct tutti_schedule *schedule;
    struct tutti_pipeline *pipeline;
    static double took[STEPS_MAX];
    double simulated;
    times.forward = stage.forward_us;
    times.backward = 2 * stage.forward_us;
    options.count = bytes;
    options.dtype = TUTTI_UINT8;
    options.forward = forward;
    options.backward = backward;
    options.context = &stage;
    check(tutti_schedule_create(name, &shape, &schedule), name);
    check(tutti_schedule_simulate(schedule, &times, &simulated, NULL), name);
    check(tutti_pipeline_create(schedule, &options, comm, &pipeline), name);
    check(tutti_pipeline_run(pipeline), name); /* memory that is new */
    stage.late_us = 0;
    for (int i = 0; i < steps; i++) {
        check(tutti_barrier(comm), "barrier");
        const double begin = now_us();
        check(tutti_pipeline_run(pipeline), name);
        took[i] = largest_of_ranks(now_us() - begin);
    }
    const double late_us = largest_of_ranks(stage.late_us / steps);
    const double step_us = median(took, steps);
    if (rank == 0)
        printf("%-12s chunks %d  simulated %8.2f ms  took %8.2f ms  ratio %.3f  (sleeps were %.2f "
               "ms late in a step)\n",
               name, chunks, simulated / 1e3, step_us / 1e3, step_us / simulated, late_us / 1e3);
    check(tutti_pipeline_free(pipeline), name);
    tutti_schedule_free(schedule);
}

int main(int argc, char **argv)
{
    size_t bytes = 1 << 20;
    int micro_batches = 8, steps = 20;
    for (int letter; (letter = getopt(argc, argv, "b:m:f:n:")) != -1;) {
        switch (letter) {
        case 'b': bytes = (size_t)number_of(optarg, 1 << 30); break;
        case 'm': micro_batches = (int)number_of(optarg, 4096); break;
        case 'f': forward_ms = (double)number_of(optarg, 10000); break;
        case 'n': steps = (int)number_of(optarg, STEPS_MAX); break;
        default: return 2;
        }
    }
    join();
    if (rank == 0)
        printf("%d stages, %d micro-batches, activations of %zu bytes\n", tutti_comm_size(comm),
               micro_batches, bytes);
    measure("gpipe", micro_batches, 1, bytes, steps);
    measure("1f1b", micro_batches, 1, bytes, steps);
    if (micro_batches % tutti_comm_size(comm) == 0)
        measure("interleaved", micro_batches, 2, bytes, steps);
    leave();
    return 0;
}
