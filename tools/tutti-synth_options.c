#include "tutti-synth_options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "synth/forest.h"
#include "synth/lay.h"

static const char help[] =
    "tutti-synth - makes a plan for a collective on a machine, as fast as its links allow\n"
    "\n"
    "  tutti-synth COLLECTIVE --topo FILE [-o PLAN | --output PLAN] [--k K] [--pieces P]\n"
    "              [--root R] [--time SEC]\n"
    "  tutti-synth -h | --help | -V | --version\n"
    "\n"
    "COLLECTIVE is allgather, reduce_scatter, allreduce, broadcast or reduce. Prints the bound "
    "that\n"
    "the links of the topology set, the ratio that the plan attains, and the bandwidth that "
    "follows.\n"
    "\n"
    "  --topo FILE        a topology as JSON, or as NCCL's XML\n"
    "  -o, --output PLAN  proves the plan and writes it, as text that tutti-plan reads\n"
    "  --k K              trees of each root, 1 to 256 (as many as the bound takes)\n"
    "  --pieces P         cuts what a tree carries into so many parts, 1 to 1024 (4)\n"
    "  --root R           of a broadcast or reduce (0)\n"
    "  --time SEC         gives up after so many seconds, 0.001 to 86400 (300)\n"
    "\n"
    "Exit status: 0; 1 something is wrong; 2 wrong usage.\n";

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

static enum exit_code check(int argc, char **argv, struct options *options)
{
    if (optind == argc) return usage_error("which COLLECTIVE?");
    if (optind + 1 < argc) return usage_error("what is %s?", argv[optind + 1]);
    options->collective = collective_from_name(argv[optind]);
    switch (options->collective) {
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE: break;
    case COLLECTIVE_COUNT: return usage_error("there is no collective '%s'", argv[optind]);
    default: return usage_error("%s does not go over trees", argv[optind]);
    }
    if (options->topology == NULL) return usage_error("--topo FILE is missing");
    return EXIT_FINE;
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    static const struct option long_options[] = {{"topo", required_argument, NULL, 't'},
                                                 {"output", required_argument, NULL, 'o'},
                                                 {"k", required_argument, NULL, 'k'},
                                                 {"pieces", required_argument, NULL, 'p'},
                                                 {"root", required_argument, NULL, 'r'},
                                                 {"time", required_argument, NULL, 's'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {"version", no_argument, NULL, 'V'},
                                                 {NULL, 0, NULL, 0}};
    *options = (struct options){.pieces = 4, .seconds = 300};
    enum exit_code code = EXIT_FINE;
    for (int letter; code == EXIT_FINE &&
                     (letter = getopt_long(argc, argv, "o:hV", long_options, NULL)) != -1;) {
        switch (letter) {
        case 't': options->topology = optarg; break;
        case 'o': options->output = optarg; break;
        case 'k': code = read_number("--k", optarg, 1, FOREST_K_MAX, &options->k); break;
        case 'p':
            code = read_number("--pieces", optarg, 1, LAY_PIECES_MAX, &options->pieces);
            break;
        case 'r':
            code = read_number("--root", optarg, 0, SYNTH_NODES_MAX - 1, &options->root);
            break;
        case 's': code = read_seconds(optarg, &options->seconds); break;
        case 'h':
            fputs(help, stdout);
            options->done = true;
            return EXIT_FINE;
        case 'V':
            printf("tutti-synth %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                   TUTTI_VERSION_PATCH);
            options->done = true;
            return EXIT_FINE;
        default: code = usage_error("the command line cannot be read"); /* getopt said why */
        }
    }
    return code == EXIT_FINE ? check(argc, argv, options) : code;
}
