#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo.h"
#include "tutti/tutti.h"

static const char help[] =
    "tutti-topo - shows the hardware that ranks run on, and its links\n"
    "\n"
    "  tutti-topo [FILE] [--format FORMAT] [--ranks N] [-o FILE | --output FILE]\n"
    "  tutti-topo [FILE] --levels [--ranks N] [-o FILE | --output FILE]\n"
    "  tutti-run --hosts HOSTS tutti-topo --probe [--format FORMAT] [-o FILE | --output FILE]\n"
    "  tutti-topo --calibrate [FILE] [-o FILE | --output FILE]\n"
    "  tutti-run --hosts HOSTS tutti-topo --calibrate --probe [FILE] [-o FILE]\n"
    "  tutti-topo --calibration [FILE] [-o FILE | --output FILE]\n"
    "  tutti-topo --check-fabric [DIR]\n"
    "  tutti-topo -h | --help | -V | --version\n"
    "\n"
    "FILE is a topology: Tutti's JSON, lines of racks and their hosts, NCCL's XML, or hwloc's "
    "XML;\n"
    "- is standard input. Without FILE it shows this machine.\n"
    "Example: tutti-topo --calibrate\n"
    "\n"
    "  --format FORMAT  tree: which object contains which (the default)\n"
    "                   matrix: every rank, or processing unit, and device against every other\n"
    "                   svg: a picture\n"
    "                   json: in Tutti's format, as for FILE\n"
    "                   racks: each rack with its hosts, as for TUTTI_TOPO_FILE\n"
    "  --levels         the groups of ranks on each level, from the finest\n"
    "  --probe          measures the links between the hosts of a job; run it as all ranks of the\n"
    "                   job. Rank 0 shows latencies, rates and the racks that follow (matrix, the\n"
    "                   default), or a topology\n"
    "  --calibrate      measures the costs of work on this host (a few seconds), shows them, and\n"
    "                   writes them to the file of -o; without -o to TUTTI_CALIBRATION or the\n"
    "                   user's cache directory. Numbers that it does not measure come from FILE,\n"
    "                   or else from the shipped numbers.\n"
    "                   With --probe, as all ranks of a job, also measures messages between\n"
    "                   hosts: each host writes its own file; with -o only the host of rank 0 "
    "writes\n"
    "  --calibration    shows such a file, and says whether it is for this machine\n"
    "  --check-fabric   says what keeps this host from using its RDMA NICs: a line per check,\n"
    "                   with ok, WARN or FAIL and what to do. DIR has copies of the sys, dev and "
    "proc\n"
    "                   of another host\n"
    "  --ranks N        puts rank r of N on core r, modulo the cores, of a topology without ranks\n"
    "  --title TITLE    title of the picture\n"
    "  -o, --output FILE  writes to FILE instead of standard output\n"
    "\n"
    "Exit status: 0; 1 a file is wrong, or a check fails; 2 wrong usage; 3 the machine was busy\n"
    "during the measurement.\n";

static const char *const format_names[FORMAT_COUNT] = {"tree", "matrix", "svg", "json", "racks"};

enum exit_code usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-topo: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see tutti-topo --help)\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

static enum exit_code read_format(const char *name, struct options *options)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(name, format_names[i]) != 0) continue;
        options->format = (enum topo_format)i;
        return EXIT_FINE;
    }
    return usage_error("--format %s is none of tree, matrix, svg, json and racks", name);
}

static enum exit_code read_ranks(const char *text, struct options *options)
{
    long value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && value <= TOPO_RANKS_MAX; c++) value = value * 10 + (*c - '0');
    if (*c != '\0' || c == text || value < 1 || value > TOPO_RANKS_MAX)
        return usage_error("--ranks %s is not a number from 1 to %d", text, TOPO_RANKS_MAX);
    options->ranks = (int)value;
    return EXIT_FINE;
}

/* Costs are no topology. */
static enum exit_code check_calibration(const struct options *options)
{
    const char *const name = options->calibrate ? "--calibrate" : "--calibration";
    if (options->calibrate && options->calibration)
        return usage_error("--calibrate measures, --calibration shows: one of them is needed");
    if (options->calibration && options->probe)
        return usage_error("--calibration shows what is there: it has no --probe");
    if (options->levels || options->ranks > 0 || options->title != NULL ||
        options->format != FORMAT_COUNT)
        return usage_error("%s has no --levels, --ranks, --title or --format", name);
    return EXIT_FINE;
}

static enum exit_code check_alone(const struct options *options)
{
    if (options->levels || options->ranks > 0 || options->title != NULL || options->probe ||
        options->calibrate || options->calibration || options->output != NULL ||
        options->format != FORMAT_COUNT)
        return usage_error("--check-fabric goes with no other option");
    return EXIT_FINE;
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    static const struct option long_options[] = {
        {"format", required_argument, NULL, 'f'}, {"levels", no_argument, NULL, 'l'},
        {"ranks", required_argument, NULL, 'n'},  {"title", required_argument, NULL, 't'},
        {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {"probe", no_argument, NULL, 'p'},
        {"calibrate", no_argument, NULL, 'c'},    {"calibration", no_argument, NULL, 'C'},
        {"check-fabric", no_argument, NULL, 'F'}, {NULL, 0, NULL, 0}};
    *options = (struct options){.format = FORMAT_COUNT};
    enum exit_code code = EXIT_FINE;
    for (int letter; code == EXIT_FINE &&
                     (letter = getopt_long(argc, argv, "o:hV", long_options, NULL)) != -1;) {
        switch (letter) {
        case 'f': code = read_format(optarg, options); break;
        case 'n': code = read_ranks(optarg, options); break;
        case 'l': options->levels = true; break;
        case 'p': options->probe = true; break;
        case 'c': options->calibrate = true; break;
        case 'C': options->calibration = true; break;
        case 'F': options->check_fabric = true; break;
        case 't': options->title = optarg; break;
        case 'o': options->output = optarg; break;
        case 'h':
            fputs(help, stdout);
            options->done = true;
            return EXIT_FINE;
        case 'V':
            printf("tutti-topo %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                   TUTTI_VERSION_PATCH);
            options->done = true;
            return EXIT_FINE;
        default: code = usage_error("the command line cannot be read"); /* getopt said why */
        }
    }
    if (code != EXIT_FINE) return code;
    if (argc - optind > 1) return usage_error("what is %s?", argv[optind + 1]);
    if (optind < argc) options->file = argv[optind];
    if (options->check_fabric) return check_alone(options);
    if (options->levels && options->format != FORMAT_COUNT)
        return usage_error("--levels has no --format");
    if (options->calibrate || options->calibration) return check_calibration(options);
    if (options->probe && (options->file != NULL || options->levels || options->ranks > 0))
        return usage_error("--probe measures: it has no FILE, --levels or --ranks");
    if (options->title != NULL && options->format != FORMAT_SVG)
        return usage_error("--title is for --format svg");
    if (options->format == FORMAT_COUNT)
        options->format = options->probe ? FORMAT_MATRIX : FORMAT_TREE;
    return EXIT_FINE;
}
