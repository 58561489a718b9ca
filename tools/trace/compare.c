#include "compare.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "calls.h"
#include "compared.h"
#include "predict.h"
#include "read.h"
#include "table.h"

enum { TOP_MAX = 1000000, TOP_USUAL = 20 };

/* -------------------------------------------------------------------------------------- options */

static bool misused(const char *what, const char *why)
{
    return trace_complain("compare: %s%s (see tutti-trace --help)", what, why);
}

static bool read_top(const char *text, int *top)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > TOP_MAX)
        return misused("--top takes a number from 1 on, and not ", text);
    *top = (int)value;
    return true;
}

bool compare_parse(int argc, char **argv, struct compare_options *options)
{
    static const struct option list[] = {{"calibration", required_argument, NULL, 'c'},
                                         {"csv", no_argument, NULL, 's'},
                                         {"top", required_argument, NULL, 't'},
                                         {0}};
    *options = (struct compare_options){.top = 0};
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, ":", list, NULL)) != -1;) switch (letter) {
        case 'c': options->calibration = optarg; break;
        case 's': options->csv = true; break;
        case 't':
            if (!read_top(optarg, &options->top)) return false;
            break;
        case ':': return misused(argv[optind - 1], " needs a value");
        default: return misused(argv[optind - 1], " is no option, or takes no value");
        }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    return options->path_count > 0 || misused("it takes dumps, or folders of them", "");
}

/* ------------------------------------------------------------------------------- a communicator */

static enum tutti_status compare(const struct compare_options *options,
                                 const struct trace_calls *calls, bool is_first, FILE *file)
{
    struct predictor predictor;
    TRY(predictor_init(&predictor, calls, options->calibration));
    struct compared *rows = calloc(calls->kind_count + 1, sizeof *rows);
    enum tutti_status status = rows != NULL ? compared_find(&predictor, calls, rows)
                                            : error_set(TUTTI_NO_MEMORY, "out of memory");
    const struct comparison comparison = {.found = calls,
                                          .predictor = &predictor,
                                          .rows = rows,
                                          .calibration = options->calibration,
                                          .top = options->top};
    if (status == TUTTI_OK && options->csv) {
        print_comparison_csv(&comparison, is_first, file);
        print_left_out(calls, stderr);
    } else if (status == TUTTI_OK) {
        if (!is_first) fputc('\n', file);
        status = print_comparison(&comparison, file);
    }
    free(rows);
    predictor_release(&predictor);
    return status;
}

/* ------------------------------------------------------------------------------------------ all */

/* Whether dumps of one communicator, which are sorted, fit together. */
static bool fit_together(const struct trace_json *traces, size_t count)
{
    for (size_t t = 1; t < count; t++) {
        if (traces[t].size != traces->size)
            return trace_complain("communicator %s: dumps of different jobs: %d and %d ranks",
                                  traces->communicator, traces->size, traces[t].size);
        if (traces[t].own.rank == traces[t - 1].own.rank)
            return trace_complain("communicator %s: two dumps of rank %d", traces->communicator,
                                  traces[t].own.rank);
    }
    return true;
}

static bool compare_all(const struct compare_options *options, struct traces *traces, FILE *file)
{
    const struct trace_json *all = traces->all;
    trace_json_sort(traces->all, traces->count);
    for (size_t begin = 0, end; begin < traces->count; begin = end) {
        struct trace_calls calls;
        end = begin + trace_json_group(all + begin, traces->count - begin);
        if (!fit_together(all + begin, end - begin)) return false;
        enum tutti_status status = calls_find(all + begin, end - begin, &calls);
        if (status == TUTTI_OK) {
            status = compare(options, &calls, begin == 0, file);
            calls_release(&calls);
        }
        if (status != TUTTI_OK) return trace_complain("compare: %s", tutti_error_message());
    }
    return true;
}

bool compare_dumps(const struct compare_options *wanted, FILE *file)
{
    struct compare_options options = *wanted;
    struct traces traces = {.count = 0};
    bool is_done = true;
    if (options.top == 0) options.top = options.csv ? TOP_MAX : TOP_USUAL;
    for (int i = 0; i < options.path_count && is_done; i++)
        is_done = traces_add(&traces, options.paths[i]);
    is_done = is_done && compare_all(&options, &traces, file);
    traces_release(&traces);
    return is_done;
}
