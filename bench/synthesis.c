/* synthesis - what plans cost to make, by the size of the machine: `build/bench/synthesis [BOXES
 * ...]`, or a DGX-1 and 1 to 64 boxes.
 *
 *     ratio     that of the trees, to the bound
 *     bound     how long it takes to find the bound alone
 *     laid      trees with their bound, and layout, in time of one processor
 *     all       trees with their bound, layout, proof for separate buffers and in place, text written to a file that is thrown away
 *     memory    the most that was resident
 *
 * A box is a DGX A100: eight GPUs on NVSwitch (300 GB/s each way), each with a card (25 GB/s) on
 * one InfiniBand for all. The plan is an allgather of 4 pieces. Each machine has a process of its
 * own, which ends when it has used its time or memory.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan/text.h"
#include "plan/verify.h"
#include "studio/synth/bound.h"
#include "studio/synth/lay.h"
#include "timing.h"

enum { PIECES = 4, GPUS = 8, BOXES_MAX = 128, TIME_MAX_S = 300, DGX1 = 0 };
static const rlim_t memory_max = (rlim_t)4 << 30;

/* ------------------------------------------------------------------------------------- machines */

static void check(enum tutti_status status)
{
    if (status == TUTTI_OK) return;
    printf(" %s\n", tutti_error_message());
    fflush(stdout);
    _exit(1);
}

static void cable(struct synth_graph *graph, int a, int b, uint32_t capacity)
{
    check(synth_graph_add(graph, a, b, capacity, 0));
    check(synth_graph_add(graph, b, a, capacity, 0));
}

static struct synth_graph dgx1(void)
{
    static const char *const links[GPUS] = {"02112000", "20120100", "11020020", "12200001",
                                            "20000211", "01002012", "00201102", "00011220"};
    struct synth_graph graph = {.rank_count = GPUS, .node_count = GPUS};
    for (int a = 0; a < GPUS; a++)
        for (int b = 0; b < a; b++)
            if (links[a][b] != '0') cable(&graph, a, b, (uint32_t)(links[a][b] - '0'));
    return graph;
}

/* Cards come behind the GPUs, then a switch of each box, then the one between them. */
static struct synth_graph boxes(int count)
{
    const int gpus = count * GPUS, between = 2 * gpus + count;
    struct synth_graph graph = {.rank_count = gpus,
                                .node_count = count > 1 ? between + 1 : gpus + 1};
    for (int g = 0; g < gpus; g++) {
        if (count == 1) {
            cable(&graph, g, gpus, 12);
            continue;
        }
        cable(&graph, g, 2 * gpus + g / GPUS, 12);
        cable(&graph, g, gpus + g, 1);
        cable(&graph, gpus + g, between, 1);
    }
    return graph;
}

/* ------------------------------------------------------------------------------------ measuring */

/* Time of the processor, which other programs do not change much. */
static double used_us(void)
{
    return read_us(CLOCK_PROCESS_CPUTIME_ID);
}

static void prove(const struct plan *plan)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct verify_options options = {.in_place = in_place};
        struct verify_report report;
        if (plan_verify(plan, &options, &report) == VERIFY_PROVEN) continue;
        printf(" not proven: %s\n", report.message);
        fflush(stdout);
        _exit(1);
    }
}

static void write_down(const struct plan *plan)
{
    FILE *file = tmpfile();
    if (file == NULL) check(TUTTI_SYSTEM);
    plan_print(plan, file);
    printf(" %8.1f", (double)ftell(file) / (1 << 20));
    fclose(file);
}

static double make(const struct synth_graph *graph)
{
    const struct forest_options options = {.root = SYNTH_EVERY_RANK};
    struct forest forest;
    struct plan *plan;
    check(forest_make(graph, &options, &forest));
    printf(" %6d %7.3f", forest.tree_count,
           (double)forest.attained.top * (double)forest.bound.bottom /
               ((double)forest.attained.bottom * (double)forest.bound.top));
    fflush(stdout);
    const struct lay lay = {.collective = COLLECTIVE_ALLGATHER, .down = &forest, .pieces = PIECES};
    check(lay_plan(&lay, &plan));
    const double laid_us = used_us();
    prove(plan);
    write_down(plan);
    plan_free(plan);
    forest_release(&forest);
    return laid_us;
}

static void measure(int box_count)
{
    struct synth_graph graph = box_count == DGX1 ? dgx1() : boxes(box_count);
    struct synth_bound bound;
    struct rusage usage;
    printf("%5d %6d", graph.rank_count, graph.edge_count / 2);
    const double begin_us = now_us(); /* the other clock is too coarse for it */
    check(synth_bound_find(&graph, SYNTH_EVERY_RANK, 0, &bound));
    const double bound_us = now_us() - begin_us;
    synth_bound_release(&bound);
    const double found_us = used_us(), laid_us = make(&graph), end_us = used_us();
    getrusage(RUSAGE_SELF, &usage);
    printf(" %9.2f %9.2f %9.2f %9.1f\n", bound_us / 1e3, (laid_us - found_us) / 1e6,
           (end_us - found_us) / 1e6, (double)usage.ru_maxrss / 1024);
    synth_graph_release(&graph);
}

/* ------------------------------------------------------------------------------------------ all */

static void run(int box_count)
{
    const struct rlimit memory = {memory_max, memory_max}, time = {TIME_MAX_S, TIME_MAX_S};
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        setrlimit(RLIMIT_AS, &memory);
        setrlimit(RLIMIT_CPU, &time);
        measure(box_count);
        fflush(stdout);
        _exit(0);
    }
    int state;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(state))
        printf(" ended after %d s of computing (%s)\n", TIME_MAX_S, strsignal(WTERMSIG(state)));
}

int main(int argc, char **argv)
{
    printf("%5s %6s %6s %7s %8s %9s %9s %9s %9s\n", "GPUs", "cables", "trees", "ratio", "text MiB",
           "bound ms", "laid s", "all s", "peak MiB");
    for (int i = 1; i < argc; i++) {
        const int count = atoi(argv[i]);
        if (count < 0 || count > BOXES_MAX) {
            fprintf(stderr, "usage: synthesis [BOXES ...]: 0 (a DGX-1) to %d\n", BOXES_MAX);
            return 2;
        }
        run(count);
    }
    if (argc == 1) run(DGX1);
    for (int count = 1; argc == 1 && count <= 64; count *= 2) run(count);
    return 0;
}
