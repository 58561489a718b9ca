/* main.c - measures and checks collectives, for people who know nccl-tests. See man/tutti-perf.1.
 *
 * Every combination of algorithm, dtype, reduction and root gets a sweep over the sizes. All ranks
 * walk the same combinations in the same order; rank 0 prints. */
#include <stdio.h>

#include "device.h"
#include "launch.h"
#include "measure.h"
#include "options.h"
#include "plot.h"
#include "report.h"

struct sweep {
    struct perf_rank *rank;
    struct report report;
    int64_t wrong_here; /* counted here, too: a broken library may not add up right */
    int measured;
};

/* Blocks are rounded down to whole elements; what is not empty has at least one. */
static size_t count_of(const struct sweep *sweep, const struct perf_length *length,
                       enum tutti_dtype dtype)
{
    if (length->is_count) return length->value;
    const size_t blocks = operation_blocks(sweep->rank->options->operation, sweep->rank->rank_count);
    const size_t count = blocks ? length->value / tutti_dtype_size(dtype) / blocks : 0;
    return count || !length->value ? count : 1;
}

static enum tutti_status measure_place(struct sweep *sweep, const struct perf_case *perf_case,
                                       bool in_place, struct measurement *measurement)
{
    struct perf_case placed = *perf_case;
    placed.in_place = in_place;
    TRY(perf_measure(sweep->rank, &placed, measurement));
    sweep->wrong_here += measurement->wrong_here + measurement->wrong;
    sweep->measured += measurement->supported;
    return TUTTI_OK;
}

static enum tutti_status measure_row(struct sweep *sweep, const struct perf_case *perf_case)
{
    const enum perf_place place = sweep->rank->options->place;
    struct measurement out, in;
    if (place & PLACE_OUT) TRY(measure_place(sweep, perf_case, false, &out));
    if (place & PLACE_IN) TRY(measure_place(sweep, perf_case, true, &in));
    if (sweep->rank->rank != 0) return TUTTI_OK;
    report_add(&sweep->report, &(struct report_row){perf_case, place & PLACE_OUT ? &out : NULL,
                                                    place & PLACE_IN ? &in : NULL});
    return TUTTI_OK;
}

static enum tutti_status sweep_lengths(struct sweep *sweep, struct perf_case *perf_case)
{
    const struct perf_options *const options = sweep->rank->options;
    for (int i = 0; i < options->length_count; i++) {
        perf_case->count = count_of(sweep, &options->lengths[i], perf_case->dtype);
        TRY(measure_row(sweep, perf_case));
    }
    return TUTTI_OK;
}

static enum tutti_status sweep_roots(struct sweep *sweep, struct perf_case *perf_case)
{
    const struct perf_options *const options = sweep->rank->options;
    const bool every = options->operation->rooted && options->root == ROOT_ALL;
    const int first = every || options->root == ROOT_ALL ? 0 : options->root;
    const int last = every ? sweep->rank->rank_count - 1 : first;
    for (perf_case->root = first; perf_case->root <= last; perf_case->root++)
        TRY(sweep_lengths(sweep, perf_case));
    return TUTTI_OK;
}

static enum tutti_status sweep_reductions(struct sweep *sweep, struct perf_case *perf_case)
{
    const struct perf_options *const options = sweep->rank->options;
    if (!options->operation->reduces) return sweep_roots(sweep, perf_case);
    for (int r = 0; r < REDUCTION_COUNT; r++) {
        perf_case->reduction = (enum reduction)r;
        if (!(options->reductions >> r & 1) ||
            !reduction_supports(perf_case->reduction, perf_case->dtype))
            continue;
        TRY(sweep_roots(sweep, perf_case));
    }
    return TUTTI_OK;
}

static enum tutti_status sweep_dtypes(struct sweep *sweep, const char *algorithm)
{
    for (int dtype = 0; tutti_dtype_size((enum tutti_dtype)dtype); dtype++) {
        if (!(sweep->rank->options->dtypes >> dtype & 1)) continue;
        struct perf_case perf_case = {
            .dtype = (enum tutti_dtype)dtype, .reduction = REDUCTION_SUM, .algorithm = algorithm};
        TRY(sweep_reductions(sweep, &perf_case));
    }
    return TUTTI_OK;
}

static enum tutti_status sweep_algorithms(struct sweep *sweep)
{
    const struct perf_options *const options = sweep->rank->options;
    if (!options->algorithm_count) return sweep_dtypes(sweep, NULL);
    for (int i = 0; i < options->algorithm_count; i++) {
        const int before = sweep->measured;
        TRY(sweep_dtypes(sweep, options->algorithms[i]));
        if (sweep->measured == before && sweep->rank->rank == 0)
            fprintf(stderr, "tutti-perf: algorithm %s: no %s of %d ranks with it\n",
                    options->algorithms[i], options->operation->name, sweep->rank->rank_count);
    }
    return TUTTI_OK;
}

static int rank_main(struct perf_rank *rank)
{
    const struct perf_options *const options = rank->options;
    if (options->root >= rank->rank_count) { /* only now known under a launcher */
        fprintf(stderr, "tutti-perf: root %d is not one of %d ranks\n", options->root,
                rank->rank_count);
        return EXIT_USAGE;
    }
    if (options->operation->parts == PARTS_IN_TURN && rank->rank_count < 2) {
        fprintf(stderr, "tutti-perf: a %s needs two ranks\n", options->operation->name);
        return EXIT_USAGE;
    }
    struct sweep sweep = {.rank = rank};
    if (rank->rank == 0) report_start(&sweep.report, options, rank->rank_count);
    const enum tutti_status status = sweep_algorithms(&sweep);
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti-perf: rank %d: %s: %s: %s\n", rank->rank, options->operation->name,
                tutti_status_name(status), tutti_error_message());
        perf_rank_abort(rank, "tutti-perf gives up");
    }
    if (rank->rank == 0 && !report_end(&sweep.report, status == TUTTI_OK)) return EXIT_WRONG;
    return status == TUTTI_OK && sweep.measured && !sweep.wrong_here ? EXIT_OK : EXIT_WRONG;
}

static int draw_results(const struct perf_options *options)
{
    struct plot plot = {0};
    bool fine = true;
    for (char **file = options->results; fine && *file; file++) fine = plot_read(&plot, *file);
    fine = fine && plot_write(&plot, options->plot);
    plot_release(&plot);
    return fine ? EXIT_OK : EXIT_WRONG;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    const int result = perf_options_parse(&options, argc, argv);
    int code = result < 0 ? EXIT_OK : result;
    if (result == EXIT_OK && perf_uses_device(&options)) perf_device_name_driver();
    if (result == EXIT_OK)
        code = options.results ? draw_results(&options) : perf_launch(&options, rank_main);
    perf_options_release(&options);
    return code;
}
