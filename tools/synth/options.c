#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "studio/synth/direct.h"
#include "studio/synth/exact.h"
#include "studio/synth/forest.h"
#include "studio/synth/lay.h"
#include "studio/synth/steps.h"

static const char help[] =
    "tutti-synth - makes a plan for a collective on a machine, as fast as its links allow\n"
    "\n"
    "  tutti-synth COLLECTIVE --topo FILE [-o PLAN | --output PLAN] [--root R] [--time SEC]\n"
    "              [--k K] [--pieces P]\n"
    "              | --chunks C --steps S --rounds R [--direct]\n"
    "              | --front [--chunks C] [--steps S] [--rounds R]\n"
    "              | --greedy [--size BYTES] [--chunks C] [--attempts N] [--seed N]\n"
    "  tutti-synth -h | --help | -V | --version\n"
    "\n"
    "Without further options it packs spanning trees, which are as fast as the links allow if\n"
    "messages are large. COLLECTIVE is allgather, reduce_scatter, allreduce, broadcast or reduce;\n"
    "exact plans and the greedy search also serve gather, scatter and alltoall.\n"
    "Example: tutti-synth allgather --topo share/tutti/topologies/dgx1-v100.json -o mine.plan\n"
    "\n"
    "  --topo FILE        a topology as JSON, or as NCCL's XML\n"
    "  -o, --output PLAN  proves the plan and writes it, as text that tutti-plan reads;\n"
    "                     the plans of a front are PLAN-C-S-R.plan\n"
    "  --root R           of a broadcast, reduce, gather or scatter (0)\n"
    "  --time SEC         gives up after this many seconds, 0.001 to 86400 (300)\n"
    "\n"
    "trees\n"
    "  --k K              trees of each root, 1 to 256 (as many as the bound takes)\n"
    "  --pieces P         cuts the data of a tree into this many parts, 1 to 1024 (16)\n"
    "\n"
    "exact plans, which have at most 64 steps; for few ranks and no switches (needs Z3)\n"
    "  --chunks C         chunks of each rank's input; of its output in a reduce_scatter\n"
    "  --steps S          steps; in a step ranks send data that they have when it begins\n"
    "  --rounds R         rounds of all steps; a link of W units carries W chunks in a round\n"
    "  --direct           an allreduce in which every rank makes the whole sum itself;\n"
    "                     all steps have the same number of rounds\n"
    "  --front            the plans that no other plan beats in steps and rounds for a chunk;\n"
    "                     C, S and R (to 64) are the maxima of the search (4, 4, 2C+S)\n"
    "\n"
    "greedy search, with latencies and for one size; also over switches\n"
    "  --greedy           searches greedily\n"
    "  --size BYTES       of the larger buffer of a rank; suffixes K M G (1M)\n"
    "  --chunks C         as above (4; alltoall 1 and allreduce 4 for each rank)\n"
    "  --attempts N       takes the best of this many attempts, 1 to 1000000 (8)\n"
    "  --seed N           the seed of the random numbers by which attempts differ (1)\n"
    "\n"
    "Exit status: 0; 1 a file is wrong, or the method does not fit; 2 wrong usage; 3 there is\n"
    "provably no such plan; 4 undecided, or the time is over.\n";

/* The bit of a method, in what an option is for. */
#define FOR(method) (1u << (method))

enum { STEPS_MAX = 64 };

enum letter {
    TOPO = 't',
    OUTPUT = 'o',
    K = 'k',
    PIECES = 'p',
    ROOT = 'r',
    TIME = 's',
    CHUNKS = 'C',
    STEPS = 'S',
    ROUNDS = 'R',
    DIRECT = 'd',
    FRONT = 'f',
    GREEDY = 'g',
    SIZE = 'b',
    ATTEMPTS = 'a',
    SEED = 'e',
    HELP = 'h',
    VERSION = 'V'
};

static const struct option long_options[] = {
    {"topo", required_argument, NULL, TOPO},     {"output", required_argument, NULL, OUTPUT},
    {"k", required_argument, NULL, K},           {"pieces", required_argument, NULL, PIECES},
    {"root", required_argument, NULL, ROOT},     {"time", required_argument, NULL, TIME},
    {"chunks", required_argument, NULL, CHUNKS}, {"steps", required_argument, NULL, STEPS},
    {"rounds", required_argument, NULL, ROUNDS}, {"direct", no_argument, NULL, DIRECT},
    {"front", no_argument, NULL, FRONT},         {"greedy", no_argument, NULL, GREEDY},
    {"size", required_argument, NULL, SIZE},     {"attempts", required_argument, NULL, ATTEMPTS},
    {"seed", required_argument, NULL, SEED},     {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},     {NULL, 0, NULL, 0}};

static const struct {
    enum letter letter;
    unsigned methods;
    const char *purpose;
} purposes[] = {
    {K, FOR(METHOD_TREES), "trees"},
    {PIECES, FOR(METHOD_TREES), "trees"},
    {CHUNKS, ~FOR(METHOD_TREES), "exact plans and --greedy"},
    {STEPS, FOR(METHOD_EXACT) | FOR(METHOD_DIRECT) | FOR(METHOD_FRONT), "exact plans"},
    {ROUNDS, FOR(METHOD_EXACT) | FOR(METHOD_DIRECT) | FOR(METHOD_FRONT), "exact plans"},
    {SIZE, FOR(METHOD_GREEDY), "--greedy"},
    {ATTEMPTS, FOR(METHOD_GREEDY), "--greedy"},
    {SEED, FOR(METHOD_GREEDY), "--greedy"},
};

static const char *const method_names[] = {[METHOD_TREES] = "trees",
                                           [METHOD_EXACT] = "an exact plan",
                                           [METHOD_DIRECT] = "--direct",
                                           [METHOD_FRONT] = "--front",
                                           [METHOD_GREEDY] = "--greedy"};

/* The command line as it is read: which options it has. */
struct given {
    bool has[UCHAR_MAX + 1]; /* by letter */
};

__attribute__((format(printf, 1, 2))) static enum exit_code usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-synth: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see tutti-synth --help)\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

static enum exit_code read_number(const char *name, const char *text, long least, long most,
                                  int *number)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most)
        return usage_error("%s must be a number from %ld to %ld, is '%s'", name, least, most, text);
    *number = (int)value;
    return EXIT_FINE;
}

static enum exit_code read_seconds(const char *text, double *seconds)
{
    char *end;
    *seconds = strtod(text, &end);
    if (end != text && *end == '\0' && *seconds >= 0.001 && *seconds <= 86400) return EXIT_FINE;
    return usage_error("--time must be a number from 0.001 to 86400, is '%s'", text);
}

/* "4M" */
static enum exit_code read_size(const char *text, double *size_bytes)
{
    uint64_t bytes;
    if (!byte_size_read(text, NULL, UINT64_C(1) << 40, &bytes) || bytes == 0)
        return usage_error("--size must be bytes from 1 to 1024G, is '%s'", text);
    *size_bytes = (double)bytes;
    return EXIT_FINE;
}

static enum exit_code read_option(int letter, struct options *options)
{
    switch (letter) {
    case TOPO: options->topology = optarg; return EXIT_FINE;
    case OUTPUT: options->output = optarg; return EXIT_FINE;
    case K: return read_number("--k", optarg, 1, FOREST_K_MAX, &options->k);
    case PIECES: return read_number("--pieces", optarg, 1, LAY_PIECES_MAX, &options->pieces);
    case ROOT: return read_number("--root", optarg, 0, SYNTH_NODES_MAX - 1, &options->root);
    case TIME: return read_seconds(optarg, &options->seconds);
    case CHUNKS: return read_number("--chunks", optarg, 1, SYNTH_CHUNKS_MAX, &options->chunks);
    case STEPS: return read_number("--steps", optarg, 1, STEPS_MAX, &options->steps);
    case ROUNDS: return read_number("--rounds", optarg, 1, SYNTH_ROUNDS_MAX, &options->rounds);
    case SIZE: return read_size(optarg, &options->size_bytes);
    case ATTEMPTS: return read_number("--attempts", optarg, 1, 1000000, &options->attempts);
    case SEED: return read_number("--seed", optarg, 0, INT_MAX, &options->seed);
    case DIRECT:
    case FRONT:
    case GREEDY: return EXIT_FINE;                                  /* choose_method */
    default: return usage_error("the command line cannot be read"); /* getopt said why */
    }
}

/* ---------------------------------------------------------------------------------------- sense */

static const char *name_of(enum letter letter)
{
    const struct option *option = long_options;
    while (option->val != (int)letter) option++;
    return option->name;
}

static enum exit_code choose_method(const struct given *given, enum method *method)
{
    if (given->has[DIRECT] + given->has[FRONT] + given->has[GREEDY] > 1)
        return usage_error("--direct, --front and --greedy are methods: one of them");
    *method = METHOD_TREES;
    if (given->has[CHUNKS] || given->has[STEPS] || given->has[ROUNDS]) *method = METHOD_EXACT;
    if (given->has[DIRECT]) *method = METHOD_DIRECT;
    if (given->has[FRONT]) *method = METHOD_FRONT;
    if (given->has[GREEDY]) *method = METHOD_GREEDY;
    return EXIT_FINE;
}

static enum exit_code check_purposes(const struct given *given, enum method method)
{
    for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++)
        if (given->has[purposes[i].letter] && (purposes[i].methods & FOR(method)) == 0)
            return usage_error("--%s is for %s, not for %s", name_of(purposes[i].letter),
                               purposes[i].purpose, method_names[method]);
    return EXIT_FINE;
}

static enum exit_code check_collective(const char *name, const struct given *given,
                                       struct options *options)
{
    options->collective = collective_from_name(name);
    const enum collective collective = options->collective;
    if (collective == COLLECTIVE_COUNT) return usage_error("there is no collective '%s'", name);
    if (collective == COLLECTIVE_BARRIER) return usage_error("a barrier has no data to plan for");
    const bool goes_over_trees = collective != COLLECTIVE_GATHER &&
                                 collective != COLLECTIVE_SCATTER &&
                                 collective != COLLECTIVE_ALLTOALL;
    if (options->method == METHOD_TREES && !goes_over_trees)
        return usage_error("%s does not go over trees: try --greedy or --chunks", name);
    if (options->method == METHOD_DIRECT && collective != COLLECTIVE_ALLREDUCE)
        return usage_error("--direct is for an allreduce, not for %s", name);
    if (options->method == METHOD_FRONT && collective == COLLECTIVE_ALLREDUCE)
        return usage_error("--front is not for allreduce: see the fronts of its halves, "
                           "reduce_scatter and allgather");
    if (given->has[ROOT] && !collective_is_rooted(collective))
        return usage_error("%s has no --root", name);
    return EXIT_FINE;
}

static enum exit_code check_exact(const struct given *given, struct options *options)
{
    if (!given->has[CHUNKS] || !given->has[STEPS] || !given->has[ROUNDS])
        return usage_error("%s takes all of --chunks, --steps and --rounds",
                           method_names[options->method]);
    if (options->rounds < options->steps)
        return usage_error("a step has a round or more: --rounds %d is below --steps %d",
                           options->rounds, options->steps);
    if (options->method != METHOD_DIRECT) return EXIT_FINE;
    if (options->rounds % options->steps != 0)
        return usage_error(
            "with --direct all steps have as many rounds: --rounds %d is no multiple "
            "of --steps %d",
            options->rounds, options->steps);
    if (options->chunks > DIRECT_CHUNKS_MAX || options->steps > DIRECT_STEPS_MAX)
        return usage_error("--direct takes at most %d chunks and %d steps", DIRECT_CHUNKS_MAX,
                           DIRECT_STEPS_MAX);
    return EXIT_FINE;
}

static enum exit_code check_front(const struct given *given, struct options *options)
{
    enum { CHUNKS_USUAL = 4, STEPS_USUAL = 4 };
    if (!given->has[CHUNKS]) options->chunks = CHUNKS_USUAL;
    if (!given->has[STEPS]) options->steps = STEPS_USUAL;
    if (options->chunks > EXACT_FRONT_MAX || options->steps > EXACT_FRONT_MAX ||
        options->rounds > EXACT_FRONT_MAX)
        return usage_error("--front looks at up to %d chunks, steps and rounds", EXACT_FRONT_MAX);
    if (!given->has[ROUNDS]) options->rounds = 2 * options->chunks + options->steps;
    if (options->rounds > EXACT_FRONT_MAX) options->rounds = EXACT_FRONT_MAX;
    return EXIT_FINE;
}

static enum exit_code check(int argc, char **argv, const struct given *given,
                            struct options *options)
{
    if (optind == argc) return usage_error("which COLLECTIVE?");
    if (optind + 1 < argc) return usage_error("what is %s?", argv[optind + 1]);
    enum exit_code code = choose_method(given, &options->method);
    if (code == EXIT_FINE) code = check_collective(argv[optind], given, options);
    if (code == EXIT_FINE) code = check_purposes(given, options->method);
    if (code != EXIT_FINE) return code;
    if (options->topology == NULL) return usage_error("--topo FILE is missing");
    switch (options->method) {
    case METHOD_EXACT:
    case METHOD_DIRECT: return check_exact(given, options);
    case METHOD_FRONT: return check_front(given, options);
    default: return EXIT_FINE;
    }
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    struct given given = {{false}};
    *options = (struct options){
        .pieces = 16, .seconds = 300, .attempts = 8, .seed = 1, .size_bytes = 1 << 20};
    enum exit_code code = EXIT_FINE;
    for (int letter; code == EXIT_FINE &&
                     (letter = getopt_long(argc, argv, "o:hV", long_options, NULL)) != -1;) {
        if (letter == HELP) {
            fputs(help, stdout);
            options->done = true;
            return EXIT_FINE;
        }
        if (letter == VERSION) {
            printf("tutti-synth %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                   TUTTI_VERSION_PATCH);
            options->done = true;
            return EXIT_FINE;
        }
        code = read_option(letter, options);
        given.has[letter & UCHAR_MAX] = true;
    }
    return code == EXIT_FINE ? check(argc, argv, &given, options) : code;
}
