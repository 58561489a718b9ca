/* elastic.c - a training loop that goes on when ranks die.
 *
 *     tutti-run -n 3 --elastic 1 elastic [STEPS [STEP:RANK[:FILE]...]]
 *
 * Fits a line through noisy points by gradient descent. STEP:RANK: the process that is this rank at
 * first kills itself in this step. STEP:RANK:FILE: it waits there until the file exists, while you
 * do something to the others.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tutti/train/elastic.h"

enum { SAMPLES = 10000, BATCH = 100 };

static void check(enum tutti_status status)
{
    if (status == TUTTI_OK) return;
    fprintf(stderr, "%s: %s\n", tutti_status_name(status), tutti_error_message());
    exit(1);
}

/* The point of a sample: on y = 3 x - 1, but for noise. */
static void point_of(uint64_t sample, double *x, double *y)
{
    *x = (double)(sample % 101) / 50.0 - 1.0;
    *y = 3.0 * *x - 1.0 + 0.01 * ((double)(sample * 7919 % 199) / 99.0 - 1.0);
}

/* Gradients of the mean squared error of a batch: this rank's samples, as a part of the mean. */
static void compute(const double line[2], const struct tutti_elastic *elastic,
                    const struct tutti_elastic_step *step, double gradients[3])
{
    memset(gradients, 0, 3 * sizeof *gradients);
    for (uint64_t i = 0; i < step->count; i++) {
        double x, y;
        point_of(tutti_elastic_sample(elastic, step->epoch, step->first + i), &x, &y);
        const double error = line[0] * x + line[1] - y;
        gradients[0] += 2 * error * x / (double)step->batch_count;
        gradients[1] += 2 * error / (double)step->batch_count;
        gradients[2] += error * error / (double)step->batch_count; /* the loss */
    }
}

static void fail_if_told(int count, char **faults, uint64_t step, int rank)
{
    for (int i = 0; i < count; i++) {
        char *end;
        const uint64_t number = strtoull(faults[i], &end, 10);
        if (number != step || *end != ':' || strtol(end + 1, &end, 10) != rank) continue;
        if (*end == '\0') raise(SIGKILL);
        while (*end == ':' && access(end + 1, F_OK) != 0)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

int main(int argument_count, char **arguments)
{
    double line[2] = {0, 0}, gradients[3];
    const struct tutti_elastic_array arrays[] = {
        {"line", TUTTI_ELASTIC_REPLICATED, TUTTI_FLOAT64, 2, line}};
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    struct tutti_elastic *elastic;
    const char *const joins = getenv("TUTTI_ELASTIC_JOIN");
    const bool is_first = joins == NULL || strcmp(joins, "1") != 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a rank that is killed has said what it did */
    comm_options.deterministic = 1;   /* the same bits with and without faults */
    options.comm_options = &comm_options;
    options.step_count = argument_count > 1 ? strtoull(arguments[1], NULL, 10) : 200;
    options.batch = BATCH;
    options.sample_count = SAMPLES;
    options.seed = 1;
    check(tutti_elastic_open(arrays, 1, &options, &elastic));
    for (;;) {
        int is_committed;
        check(tutti_elastic_begin(elastic, &step));
        if (step.is_over) break;
        compute(line, elastic, &step, gradients);
        if (is_first) fail_if_told(argument_count - 2, arguments + 2, step.number, step.rank);
        const enum tutti_status status = tutti_allreduce(gradients, gradients, 3, TUTTI_FLOAT64,
                                                         TUTTI_SUM, tutti_elastic_comm(elastic));
        check(tutti_elastic_commit(elastic, status, &is_committed));
        if (!is_committed) continue;
        for (int i = 0; i < 2; i++) line[i] -= 0.1 * gradients[i];
        if (step.rank == 0 && (step.number + 1) % 50 == 0)
            printf("step %llu loss %.17g\n", (unsigned long long)step.number + 1, gradients[2]);
    }
    char report[1000];
    check(tutti_elastic_report(elastic, report, sizeof report));
    if (step.rank == 0) printf("y = %.17g x + %.17g\n%s", line[0], line[1], report);
    return tutti_elastic_close(elastic) == TUTTI_OK ? 0 : 1;
}
