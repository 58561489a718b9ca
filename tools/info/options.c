#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

static const char help[] =
    "tutti-info - shows this Tutti, what it finds on this host, and which options are set\n"
    "\n"
    "  tutti-info [--json] [--timeout SEC]\n"
    "  tutti-info -h | --help | -V | --version\n"
    "\n"
    "It needs no launcher. Run it where the ranks of a job would run, for example under\n"
    "tutti-run, because hosts, containers and users may differ.\n"
    "\n"
    "It shows the version and how it was built; the host, its processors, NICs and limits;\n"
    "GPUs, libfabric with its providers, and PMIx; over which transports ranks would\n"
    "exchange data; and each variable TUTTI_... that is set, beside its default. It hides\n"
    "secrets. Last come problems: options that cannot work as they are set, and why.\n"
    "\n"
    "  --json         the same as JSON, for programs; the manual page lists its keys\n"
    "  --timeout SEC  the time for libraries of drivers, and files, to answer, 0.1 to 600 (10)\n"
    "  -h, --help     shows this\n"
    "  -V, --version  shows the version\n"
    "\n"
    "Exit status: 0; 1 an option that is set cannot work; 2 wrong usage.\n";

enum letter { JSON = 'j', TIMEOUT = 't', HELP = 'h', VERSION = 'V' };

static const struct option long_options[] = {{"json", no_argument, NULL, JSON},
                                             {"timeout", required_argument, NULL, TIMEOUT},
                                             {"help", no_argument, NULL, HELP},
                                             {"version", no_argument, NULL, VERSION},
                                             {NULL, 0, NULL, 0}};

static enum exit_code usage_error(const char *what, const char *text)
{
    fprintf(stderr, "tutti-info: %s%s (see tutti-info --help)\n", what, text);
    return EXIT_USAGE;
}

static enum exit_code read_seconds(const char *text, double *seconds)
{
    char *end;
    *seconds = strtod(text, &end);
    if (end != text && *end == '\0' && *seconds >= 0.1 && *seconds <= 600) return EXIT_FINE;
    return usage_error("--timeout must be a number of seconds from 0.1 to 600, is ", text);
}

static enum exit_code read_option(int letter, struct options *options)
{
    switch (letter) {
    case JSON: options->is_json = true; return EXIT_FINE;
    case TIMEOUT: return read_seconds(optarg, &options->seconds);
    case HELP:
        fputs(help, stdout);
        options->is_done = true;
        return EXIT_FINE;
    case VERSION:
        printf("tutti-info %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
               TUTTI_VERSION_PATCH);
        options->is_done = true;
        return EXIT_FINE;
    default: return usage_error("the command line cannot be read", ""); /* getopt said why */
    }
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    enum exit_code code = EXIT_FINE;
    *options = (struct options){.seconds = 10};
    for (int letter; code == EXIT_FINE && !options->is_done &&
                     (letter = getopt_long(argc, argv, "hV", long_options, NULL)) != -1;)
        code = read_option(letter, options);
    if (code == EXIT_FINE && !options->is_done && optind < argc)
        return usage_error("what is ", argv[optind]);
    return code;
}
