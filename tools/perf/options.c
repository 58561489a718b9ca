#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_size.h"
#include "base/option.h"

static const char usage[] =
    "usage: tutti-perf OP [options]\n"
    "       tutti-perf --plot FILE.svg --from RESULTS.csv ...\n"
    "OP: allreduce reduce broadcast gather scatter allgather reduce_scatter alltoall barrier\n"
    "    gatherv scatterv allgatherv reduce_scatterv alltoallv\n"
    "    sendrecv (to the right, from the left), pingpong (ranks 0 and 1)\n"
    "Example: tutti-perf allreduce --ranks 4\n"
    "\n"
    "sizes (bytes of the larger buffer of a rank; suffixes K M G)\n"
    "  -b, --minbytes MIN      first size (8)\n"
    "  -e, --maxbytes MAX      last size (64M)\n"
    "  -f, --stepfactor F      size step as a factor (4)\n"
    "  -i, --stepbytes BYTES   size step as an increment\n"
    "      --sizes 8,64K,1M    these sizes instead\n"
    "      --counts 1,3,7      these counts of elements instead, or besides --sizes\n"
    "calls\n"
    "  -d, --datatype D        float32 float64 bfloat16 int32 int64 float16 float8_e4m3\n"
    "                          float8_e5m2 int8 int16 uint8 uint16 uint32 uint64, a list,\n"
    "                          or all (float32)\n"
    "  -o, --op O              sum prod min max avg; integers: land lor lxor band bor bxor;\n"
    "                          floats: scaled (sum); user (not commutative), user-any; a list,\n"
    "                          or all (sum)\n"
    "  -r, --root R            root rank, or all (0)\n"
    "      --algo A            algorithm by name, or a list (Tutti chooses)\n"
    "      --place P           out (of place), in (place), or both (both; with --format peers\n"
    "                          out, and in for broadcast, as in MPI)\n"
    "      --form F            blocking, started, prepared or grouped (blocking)\n"
    "      --started           --form started\n"
    "      --priority N        priority of the calls, -100 to 100 (0)\n"
    "      --deterministic     ask for results independent of size and offset\n"
    "      --encoding E        ask for an encoding, such as bfloat16/hosts\n"
    "      --stream            make the calls in a stream of a GPU, and wait for the stream\n"
    "buffers\n"
    "      --memory M          host (malloc), mapped (tutti_mem_alloc) or device (a GPU's) (host)\n"
    "      --mapped            --memory mapped\n"
    "      --device N          the GPU of all ranks here (the local rank, modulo the GPUs)\n"
    "      --misalign BYTES    misalign by this many bytes, recv by twice as many; 0 to 63 (0)\n"
    "      --skew S            counts of v forms: none, linear, random, zero-some, one (none)\n"
    "      --displs D          where blocks of v forms lie: null, packed, gaps, reversed (null)\n"
    "      --tensors N         lists of N tensors of mixed sizes, or mixed (contiguous buffers)\n"
    "measurement\n"
    "  -n, --iters N           timed iterations, 1 to 10000000 (as fit into --time, 5 to 2000)\n"
    "  -w, --warmup_iters N    iterations before these, 0 to 10000000 (each buffer once,\n"
    "                          at least 4)\n"
    "  -c, --check N           iterations with every element checked, 0 to 10000000; 0: none (1)\n"
    "      --time SEC          seconds for each size and kind of timing (0.2)\n"
    "      --rotate WHEN       other buffers each iteration: never, auto, always\n"
    "                          (never; auto with --format peers)\n"
    "      --one-clock         ranks share a clock: single calls begin at an agreed time\n"
    "      --timeout SEC       deadline of every call (120)\n"
    "ranks (under a launcher, tutti-perf uses its ranks instead)\n"
    "      --ranks N           start N ranks as processes (one per core, at least 2)\n"
    "  -t, --threads N         N ranks as threads of one process;\n"
    "                          with --ranks: that many threads in each process\n"
    "      --pin               pin rank r to core r, modulo the cores\n"
    "output\n"
    "      --format F          table, json, csv or peers (table); all but peers name the\n"
    "                          algorithm that ran, and the version, host and processors\n"
    "      --label NAME        first column of --format peers (tutti)\n"
    "      --plot FILE.svg     draw bandwidths and times, too\n"
    "      --from              only draw the files named last, which --format csv wrote\n"
    "  -h, --help              show this\n"
    "  -V, --version           show the version\n";

static const char *const form_names[] = {"blocking", "started", "prepared", "grouped", NULL};
static const char *const memory_names[] = {"host", "mapped", "device", NULL};
static const char *const skew_names[] = {"none", "linear", "random", "zero-some", "one", NULL};
static const char *const displs_names[] = {"null", "packed", "gaps", "reversed", NULL};

const char *perf_form_name(enum perf_form form)
{
    return form_names[form];
}

const char *perf_skew_name(enum skew skew)
{
    return skew_names[skew];
}

const char *perf_displs_name(enum displs displs)
{
    return displs_names[displs];
}

bool perf_uses_device(const struct perf_options *options)
{
    return options->memory == PERF_MEMORY_DEVICE || options->on_stream;
}

static int complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-perf: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see tutti-perf --help)\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

/* -------------------------------------------------------------------------------------- numbers */

static bool parse_bytes(const char *text, size_t *bytes)
{
    uint64_t read;
    if (!byte_size_read(text, NULL, SIZE_MAX >> 1, &read)) return false;
    *bytes = (size_t)read;
    return true;
}

static bool parse_int(const char *text, int min, int max, int *number)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max) return false;
    *number = (int)value;
    return true;
}

static bool parse_real(const char *text, double min, double max, double *number)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= min && value <= max)) return false;
    *number = value;
    return true;
}

/* ---------------------------------------------------------------------------------------- lists */

/* Calls item for every comma separated part of text; false when one of them does not like it. */
static bool each_item(const char *text, bool (*item)(struct perf_options *options, const char *part),
                      struct perf_options *options)
{
    char *const copy = strdup(text);
    if (!copy) return false;
    bool fine = *text != '\0';
    char *rest = copy;
    for (char *part; fine && (part = strsep(&rest, ","));) fine = *part && item(options, part);
    free(copy);
    return fine;
}

static bool add_length(struct perf_options *options, bool is_count, size_t value)
{
    if (options->length_count == PERF_LENGTHS_MAX) return false;
    options->lengths[options->length_count++] = (struct perf_length){is_count, value};
    return true;
}

static bool add_size(struct perf_options *options, const char *part)
{
    size_t bytes;
    return parse_bytes(part, &bytes) && add_length(options, false, bytes);
}

static bool add_count(struct perf_options *options, const char *part)
{
    size_t count;
    return parse_bytes(part, &count) && add_length(options, true, count);
}

/* Other names of dtypes, which nccl-tests and C programmers use. */
static const struct {
    const char *name;
    enum tutti_dtype dtype;
} dtype_aliases[] = {{"float", TUTTI_FLOAT32}, {"double", TUTTI_FLOAT64}, {"bf16", TUTTI_BFLOAT16},
                     {"half", TUTTI_FLOAT16},  {"fp16", TUTTI_FLOAT16},   {"int", TUTTI_INT32}};

static bool add_dtype(struct perf_options *options, const char *part)
{
    const bool every = !strcmp(part, "all");
    bool known = every;
    for (int d = 0; tutti_dtype_size((enum tutti_dtype)d); d++)
        if (every || !strcmp(part, tutti_dtype_name((enum tutti_dtype)d))) {
            options->dtypes |= 1u << d;
            known = true;
        }
    for (size_t i = 0; i < sizeof dtype_aliases / sizeof *dtype_aliases; i++)
        if (!strcmp(part, dtype_aliases[i].name)) {
            options->dtypes |= 1u << dtype_aliases[i].dtype;
            known = true;
        }
    return known;
}

static bool add_reduction(struct perf_options *options, const char *part)
{
    const bool every = !strcmp(part, "all");
    bool known = every;
    for (int r = 0; r < REDUCTION_COUNT; r++)
        if (every || !strcmp(part, reduction_name((enum reduction)r))) {
            options->reductions |= 1u << r;
            known = true;
        }
    return known;
}

static bool add_algorithm(struct perf_options *options, const char *part)
{
    if (options->algorithm_count == PERF_ALGORITHMS_MAX) return false;
    char *const name = strdup(part);
    if (!name) return false;
    options->algorithms[options->algorithm_count++] = name;
    return true;
}

static bool parse_word(const char *text, const char *const *words, int *index)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i])) {
            *index = i;
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------------------------------- sizes */

struct sweep {
    size_t min, max, step;
    double factor;
};

static int add_sweep(struct perf_options *options, const struct sweep *sweep)
{
    if (sweep->min > sweep->max) return complain("-b is larger than -e");
    for (double size = (double)sweep->min; size <= (double)sweep->max;) {
        if (!add_length(options, false, (size_t)size))
            return complain("more than %d sizes", PERF_LENGTHS_MAX);
        const double next = sweep->step ? size + (double)sweep->step : size * sweep->factor;
        size = next > size ? next : size + 1; /* 0 times a factor goes on at 1 */
    }
    return EXIT_OK;
}

/* --------------------------------------------------------------------------------- command line */

enum {
    LONG_SIZES = 256,
    LONG_COUNTS,
    LONG_ALGO,
    LONG_PLACE,
    LONG_MEMORY,
    LONG_MAPPED,
    LONG_DEVICE,
    LONG_STREAM,
    LONG_FORM,
    LONG_STARTED,
    LONG_PRIORITY,
    LONG_MISALIGN,
    LONG_SKEW,
    LONG_DISPLS,
    LONG_TENSORS,
    LONG_DETERMINISTIC,
    LONG_ENCODING,
    LONG_ONE_CLOCK,
    LONG_TIME,
    LONG_ROTATE,
    LONG_TIMEOUT,
    LONG_RANKS,
    LONG_PIN,
    LONG_FORMAT,
    LONG_LABEL,
    LONG_PLOT,
    LONG_FROM
};

static const struct option long_options[] = {
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"sizes", required_argument, NULL, LONG_SIZES},
    {"counts", required_argument, NULL, LONG_COUNTS},
    {"datatype", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"root", required_argument, NULL, 'r'},
    {"algo", required_argument, NULL, LONG_ALGO},
    {"place", required_argument, NULL, LONG_PLACE},
    {"memory", required_argument, NULL, LONG_MEMORY},
    {"mapped", no_argument, NULL, LONG_MAPPED},
    {"device", required_argument, NULL, LONG_DEVICE},
    {"stream", no_argument, NULL, LONG_STREAM},
    {"form", required_argument, NULL, LONG_FORM},
    {"started", no_argument, NULL, LONG_STARTED},
    {"priority", required_argument, NULL, LONG_PRIORITY},
    {"misalign", required_argument, NULL, LONG_MISALIGN},
    {"skew", required_argument, NULL, LONG_SKEW},
    {"displs", required_argument, NULL, LONG_DISPLS},
    {"tensors", required_argument, NULL, LONG_TENSORS},
    {"deterministic", no_argument, NULL, LONG_DETERMINISTIC},
    {"encoding", required_argument, NULL, LONG_ENCODING},
    {"iters", required_argument, NULL, 'n'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"check", required_argument, NULL, 'c'},
    {"time", required_argument, NULL, LONG_TIME},
    {"rotate", required_argument, NULL, LONG_ROTATE},
    {"one-clock", no_argument, NULL, LONG_ONE_CLOCK},
    {"timeout", required_argument, NULL, LONG_TIMEOUT},
    {"ranks", required_argument, NULL, LONG_RANKS},
    {"threads", required_argument, NULL, 't'},
    {"pin", no_argument, NULL, LONG_PIN},
    {"format", required_argument, NULL, LONG_FORMAT},
    {"label", required_argument, NULL, LONG_LABEL},
    {"plot", required_argument, NULL, LONG_PLOT},
    {"from", no_argument, NULL, LONG_FROM},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

/* The options that have no place in struct perf_options. They are resolved once everything has been
 * read. */
struct given {
    struct sweep sweep;
    bool max, factor;
    int threads;            /* 0: not given */
    int rotate;             /* -1: not given */
    int place;              /* index into the words; -1: not given */
    int form, skew, displs; /* the same */
    int misalign;
    bool from;
    char rule[96]; /* of the value that was refused: "must be ..."; "": none that fits into a line */
};

/* These say the rule where they refuse. */
static bool take_int(struct given *given, const char *text, int min, int max, int *number)
{
    if (parse_int(text, min, max, number)) return true;
    snprintf(given->rule, sizeof given->rule, "a whole number from %d to %d", min, max);
    return false;
}

static bool take_real(struct given *given, const char *text, double min, double max, double *number)
{
    if (parse_real(text, min, max, number)) return true;
    snprintf(given->rule, sizeof given->rule, "a number from %g to %g", min, max);
    return false;
}

static bool take_bytes(struct given *given, const char *text, size_t min, size_t *bytes)
{
    if (parse_bytes(text, bytes) && *bytes >= min) return true;
    snprintf(given->rule, sizeof given->rule, "a number of bytes such as 4096, 64k or 1m");
    return false;
}

static bool take_word(struct given *given, const char *text, const char *const *words, int *index)
{
    if (parse_word(text, words, index)) return true;
    size_t used = (size_t)snprintf(given->rule, sizeof given->rule, "one of %s", words[0]);
    for (int i = 1; words[i] && used < sizeof given->rule; i++)
        used += (size_t)snprintf(given->rule + used, sizeof given->rule - used, ", %s", words[i]);
    return false;
}

static bool take_root(struct given *given, const char *text, int *root)
{
    *root = ROOT_ALL;
    if (!strcmp(text, "all") || parse_int(text, ROOT_ALL, PERF_RANKS_MAX - 1, root)) return true;
    snprintf(given->rule, sizeof given->rule, "a rank from 0 to %d, or all", PERF_RANKS_MAX - 1);
    return false;
}

static bool take_tensors(struct given *given, const char *text, int *tensors)
{
    *tensors = TENSORS_MIXED;
    if (!strcmp(text, "mixed") || parse_int(text, 1, PERF_TENSORS_MAX, tensors)) return true;
    snprintf(given->rule, sizeof given->rule, "a whole number from 1 to %d, or mixed",
             PERF_TENSORS_MAX);
    return false;
}

static bool take_option(struct perf_options *options, struct given *given, int letter,
                        const char *text)
{
    static const char *const formats[] = {"table", "json", "csv", "peers", NULL};
    static const char *const rotations[] = {"never", "auto", "always", NULL};
    static const char *const places[] = {"out", "in", "both", NULL};
    enum { ITERATIONS_MAX = 10 * 1000 * 1000 };
    int index;
    switch (letter) {
    case 'b': return take_bytes(given, text, 0, &given->sweep.min);
    case 'e': given->max = true; return take_bytes(given, text, 0, &given->sweep.max);
    case 'f':
        given->factor = true;
        return take_real(given, text, 1.0001, 1e9, &given->sweep.factor);
    case 'i': return take_bytes(given, text, 1, &given->sweep.step);
    case LONG_SIZES: return each_item(text, add_size, options);
    case LONG_COUNTS: return each_item(text, add_count, options);
    case 'd': return each_item(text, add_dtype, options);
    case 'o': return each_item(text, add_reduction, options);
    case 'r': return take_root(given, text, &options->root);
    case LONG_ALGO: return each_item(text, add_algorithm, options);
    case LONG_PLACE: return take_word(given, text, places, &given->place);
    case LONG_MEMORY:
        if (!take_word(given, text, memory_names, &index)) return false;
        options->memory = (enum perf_memory)index;
        return true;
    case LONG_MAPPED: options->memory = PERF_MEMORY_MAPPED; return true;
    case LONG_DEVICE: return take_int(given, text, 0, PERF_DEVICES_MAX, &options->device);
    case LONG_STREAM: options->on_stream = true; return true;
    case LONG_FORM: return take_word(given, text, form_names, &given->form);
    case LONG_STARTED: given->form = FORM_STARTED; return true;
    case LONG_PRIORITY: return take_int(given, text, -100, 100, &options->priority);
    case LONG_MISALIGN: return take_int(given, text, 0, PERF_MISALIGN_MAX, &given->misalign);
    case LONG_SKEW: return take_word(given, text, skew_names, &given->skew);
    case LONG_DISPLS: return take_word(given, text, displs_names, &given->displs);
    case LONG_TENSORS: return take_tensors(given, text, &options->tensors);
    case LONG_PLOT: options->plot = text; return *text;
    case LONG_FROM: given->from = true; return true;
    case LONG_ENCODING: options->encoding = text; return true;
    case LONG_DETERMINISTIC: options->deterministic = true; return true;
    case 'n': return take_int(given, text, 1, ITERATIONS_MAX, &options->iterations);
    case 'w': return take_int(given, text, 0, ITERATIONS_MAX, &options->warmup);
    case 'c': return take_int(given, text, 0, ITERATIONS_MAX, &options->check_iterations);
    case LONG_TIME: return take_real(given, text, 0, 3600, &options->time_seconds);
    case LONG_ROTATE: return take_word(given, text, rotations, &given->rotate);
    case LONG_ONE_CLOCK: options->one_clock = true; return true;
    case LONG_TIMEOUT: return take_real(given, text, 0.001, 1e6, &options->timeout_seconds);
    case LONG_RANKS: return take_int(given, text, 1, PERF_RANKS_MAX, &options->ranks);
    case 't': return take_int(given, text, 1, PERF_RANKS_MAX, &given->threads);
    case LONG_PIN: options->pin = true; return true;
    case LONG_LABEL: options->label = text; return *text && !strpbrk(text, " \t\n");
    case LONG_FORMAT:
        if (!take_word(given, text, formats, &index)) return false;
        options->format = (enum perf_format)index;
        return true;
    }
    return false;
}

static const char *name_of(int letter)
{
    for (const struct option *o = long_options; o->name; o++)
        if (o->val == letter) return o->name;
    return "?";
}

static int default_ranks(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 2 ? 2 : cores > PERF_RANKS_MAX ? PERF_RANKS_MAX : (int)cores;
}

/* Half of RANK and WORLD_SIZE is somebody's mistake, which joining then names. A scheduler's only
 * task is also the shell in which one says how many ranks there are to be. */
static bool is_launched(bool starts_ranks)
{
    int size;
    if (getenv("RANK") || getenv(option_names.RANK)) return true;
    return tutti_launcher(NULL, &size) && (size > 1 || !starts_ranks);
}

static int resolve_ranks(struct perf_options *options, int threads)
{
    options->launched = is_launched(options->ranks || threads);
    if (options->launched && (options->ranks || threads)) {
        const char *const launcher = tutti_launcher(NULL, NULL);
        return complain("--ranks and --threads are for use without a launcher, but %s",
                        launcher ? launcher : "RANK or TUTTI_RANK");
    }
    if (options->launched) return EXIT_OK;
    if (!options->ranks) options->ranks = threads ? threads : default_ranks();
    options->threads_per_process = threads ? threads : 1;
    if (options->ranks % options->threads_per_process)
        return complain("%d ranks cannot be spread evenly over processes of %d threads",
                        options->ranks, threads);
    if (options->root >= options->ranks)
        return complain("root %d is not one of %d ranks", options->root, options->ranks);
    return EXIT_OK;
}

static void resolve_place(struct perf_options *options, const struct given *given)
{
    const bool broadcast = !strcmp(options->operation->name, "broadcast");
    if (!operation_has_place(options->operation))
        options->place = PLACE_OUT;
    else if (given->place >= 0)
        options->place = (enum perf_place)(given->place + 1);
    else if (options->format == FORMAT_PEERS) /* a peer's broadcast has one buffer, also at the root */
        options->place = broadcast ? PLACE_IN : PLACE_OUT;
    else
        options->place = PLACE_BOTH;
}

static int resolve_lengths(struct perf_options *options, struct given *given)
{
    if (!operation_blocks(options->operation, 1)) {
        options->dtypes = 1u << TUTTI_FLOAT32;
        options->length_count = 0;
        (void)add_length(options, true, 0);
        return EXIT_OK;
    }
    if (options->length_count) return EXIT_OK;
    if (!given->max && given->sweep.min > given->sweep.max) given->sweep.max = given->sweep.min;
    return add_sweep(options, &given->sweep);
}

static bool anything_to_reduce(const struct perf_options *options)
{
    for (int d = 0; tutti_dtype_size((enum tutti_dtype)d); d++)
        for (int r = 0; r < REDUCTION_COUNT; r++)
            if (options->dtypes >> d & 1 && options->reductions >> r & 1 &&
                reduction_supports((enum reduction)r, (enum tutti_dtype)d))
                return true;
    return false;
}

/* The CPU runs operations made from functions: "all" leaves them out. */
static bool are_for_device(struct perf_options *options)
{
    const unsigned users = 1u << REDUCTION_USER | 1u << REDUCTION_USER_ANY;
    if (options->reductions == (1u << REDUCTION_COUNT) - 1) options->reductions &= ~users;
    return !(options->reductions & users);
}

static int check_device(struct perf_options *options)
{
    const struct perf_operation *const operation = options->operation;
    if (!perf_uses_device(options) && options->device != DEVICE_BY_RANK)
        return complain("--device is for --memory device and --stream");
    if (options->on_stream && operation_is_message(operation))
        return complain("%s is not supported with --stream: messages are in no stream's order",
                        operation->name);
    if (options->memory == PERF_MEMORY_DEVICE && operation->reduces && !are_for_device(options))
        return complain(
            "--op user and user-any are not supported with --memory device: the CPU runs "
            "operations made from functions");
    return EXIT_OK;
}

/* An option that would have no effect is a mistake. */
static int check_fit(const struct perf_options *options, const struct given *given)
{
    const struct perf_operation *const operation = options->operation;
    if ((given->skew >= 0 || given->displs >= 0) && !operation_has_counts(operation))
        return complain("--skew and --displs are for v forms, not for %s", operation->name);
    if (options->tensors != TENSORS_NONE && !operation_has_list(operation))
        return complain("%s takes no lists of tensors", operation->name);
    if (operation_is_message(operation) && (options->algorithm_count || options->deterministic))
        return complain("--algo and --deterministic are not for %s", operation->name);
    if (operation->reduces && !anything_to_reduce(options))
        return complain("none of these operations is for any of these dtypes");
    return EXIT_OK;
}

static int resolve(struct perf_options *options, struct given *given)
{
    if (given->factor && given->sweep.step) return complain("-f and -i exclude each other");
    if (!options->dtypes) options->dtypes = 1u << TUTTI_FLOAT32;
    if (!options->reductions) options->reductions = 1u << REDUCTION_SUM;
    int fits = check_device(options);
    if (fits == EXIT_OK) fits = check_fit(options, given);
    if (fits != EXIT_OK) return fits;
    if (given->form >= 0) options->form = (enum perf_form)given->form;
    if (given->skew >= 0) options->skew = (enum skew)given->skew;
    if (given->displs >= 0) options->displs = (enum displs)given->displs;
    options->misalign = (size_t)given->misalign;
    resolve_place(options, given);
    const enum perf_rotate rotate = options->format == FORMAT_PEERS ? ROTATE_AUTO : ROTATE_NEVER;
    options->rotate = given->rotate < 0 ? rotate : (enum perf_rotate)given->rotate;
    const int result = resolve_lengths(options, given);
    return result != EXIT_OK ? result : resolve_ranks(options, given->threads);
}

/* Takes the arguments that follow the options. */
static int take_names(struct perf_options *options, struct given *given, char **names)
{
    if (given->from) {
        options->results = names;
        if (!options->plot || !*names) return complain("--from goes with --plot and with files");
        return EXIT_OK;
    }
    if (!names[0] || names[1]) return complain("exactly one operation is expected");
    options->operation = operation_find(names[0]);
    if (!options->operation) return complain("no operation is called '%s'", names[0]);
    return resolve(options, given);
}

int perf_options_parse(struct perf_options *options, int argc, char **argv)
{
    struct given given = {.sweep = {8, (size_t)64 << 20, 0, 4},
                          .rotate = -1,
                          .place = -1,
                          .form = -1,
                          .skew = -1,
                          .displs = -1};
    *options = (struct perf_options){.warmup = -1,
                                     .check_iterations = 1,
                                     .time_seconds = 0.2,
                                     .timeout_seconds = 120,
                                     .label = "tutti",
                                     .device = DEVICE_BY_RANK};
    opterr = 0;
    for (int letter;
         (letter = getopt_long(argc, argv, ":b:e:f:i:d:o:r:n:w:c:t:hV", long_options, NULL)) != -1;) {
        if (letter == 'h') return fputs(usage, stdout), -1;
        if (letter == 'V')
            return printf("tutti-perf %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                          TUTTI_VERSION_PATCH),
                   -1;
        if (letter == '?') return complain("unknown option %s", argv[optind - 1]);
        if (letter == ':') return complain("option %s needs a value", argv[optind - 1]);
        if (!take_option(options, &given, letter, optarg))
            return *given.rule
                       ? complain("--%s must be %s, is '%s'", name_of(letter), given.rule, optarg)
                       : complain("--%s cannot be '%s'", name_of(letter), optarg);
    }
    return take_names(options, &given, argv + optind);
}

void perf_options_release(struct perf_options *options)
{
    for (int i = 0; i < options->algorithm_count; i++) free(options->algorithms[i]);
    options->algorithm_count = 0;
}
