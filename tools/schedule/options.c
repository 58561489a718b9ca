#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tutti-schedule - draws, checks and simulates schedules of pipelines\n"
    "\n"
    "  tutti-schedule NAME --stages P --micro M [--chunks V] [--forward T] [--backward T]\n"
    "                 [--draw SVG | --print]\n"
    "  tutti-schedule FILE [--forward T] [--backward T] [--draw SVG | --print]\n"
    "  tutti-schedule -h | --help | -V | --version\n"
    "\n"
    "NAME is gpipe, 1f1b or interleaved; FILE has a schedule as text (- is standard input).\n"
    "tutti-schedule checks that the schedule can run, and shows for each stage its passes, the\n"
    "time in which it is idle, and the activations that it keeps. F3 is the forward pass of\n"
    "micro-batch 3, B3 its backward pass; F3.1 is its forward pass through chunk 1.\n"
    "\n"
    "  --stages P    ranks of the pipeline, 1 to 1024\n"
    "  --micro M     micro-batches of a step, 1 to 65536\n"
    "  --chunks V    parts of the model on each stage (1); more for interleaved alone\n"
    "  --forward T   time of a forward pass through a chunk (1)\n"
    "  --backward T  time of a backward pass (2)\n"
    "  --draw SVG    writes a picture, too; with - only the picture, to standard output\n"
    "  --print       only writes the schedule as text, in the form of FILE\n"
    "\n"
    "Example: tutti-schedule 1f1b --stages 4 --micro 8\n"
    "Exit status: 0; 1 the schedule cannot run, or a file is wrong; 2 wrong usage.\n";

enum letter {
    STAGES = 's',
    MICRO = 'm',
    CHUNKS = 'c',
    FORWARD = 'f',
    BACKWARD = 'b',
    DRAW = 'd',
    PRINT = 'p',
    HELP = 'h',
    VERSION = 'V'
};

static const struct option long_options[] = {{"stages", required_argument, NULL, STAGES},
                                             {"micro", required_argument, NULL, MICRO},
                                             {"chunks", required_argument, NULL, CHUNKS},
                                             {"forward", required_argument, NULL, FORWARD},
                                             {"backward", required_argument, NULL, BACKWARD},
                                             {"draw", required_argument, NULL, DRAW},
                                             {"print", no_argument, NULL, PRINT},
                                             {"help", no_argument, NULL, HELP},
                                             {"version", no_argument, NULL, VERSION},
                                             {NULL, 0, NULL, 0}};

__attribute__((format(printf, 1, 2))) static enum exit_code usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-schedule: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see tutti-schedule --help)\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

static enum exit_code read_number(const char *name, const char *text, int *number)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > INT_MAX)
        return usage_error("%s must be a number above 0, is '%s'", name, text);
    *number = (int)value;
    return EXIT_FINE;
}

static enum exit_code read_time(const char *name, const char *text, double *time)
{
    char *end;
    *time = strtod(text, &end);
    if (end != text && *end == '\0' && *time > 0 && *time <= 1e9) return EXIT_FINE;
    return usage_error("%s must be a time above 0, is '%s'", name, text);
}

static enum exit_code read_option(int letter, struct options *options)
{
    switch (letter) {
    case STAGES: return read_number("--stages", optarg, &options->shape.stage_count);
    case MICRO: return read_number("--micro", optarg, &options->shape.micro_batch_count);
    case CHUNKS: return read_number("--chunks", optarg, &options->shape.chunk_count);
    case FORWARD: return read_time("--forward", optarg, &options->times.forward);
    case BACKWARD: return read_time("--backward", optarg, &options->times.backward);
    case DRAW: options->picture = optarg; return EXIT_FINE;
    case PRINT: options->prints_text = true; return EXIT_FINE;
    default: return usage_error("the command line cannot be read"); /* getopt said why */
    }
}

static bool is_name(const char *word)
{
    return strcmp(word, "gpipe") == 0 || strcmp(word, "1f1b") == 0 ||
           strcmp(word, "interleaved") == 0;
}

static enum exit_code check(int argc, char **argv, struct options *options)
{
    struct tutti_schedule_shape *const shape = &options->shape;
    if (optind == argc) return usage_error("which NAME or FILE?");
    if (optind + 1 < argc) return usage_error("what is %s?", argv[optind + 1]);
    if (options->picture != NULL && options->prints_text)
        return usage_error("--draw or --print, not both");
    options->name = argv[optind];
    options->is_file = !is_name(options->name);
    const bool has_shape =
        shape->stage_count != 0 || shape->micro_batch_count != 0 || shape->chunk_count != 0;
    if (options->is_file && has_shape)
        return usage_error("the file has its own --stages, --micro and --chunks");
    if (!options->is_file && (shape->stage_count == 0 || shape->micro_batch_count == 0))
        return usage_error("%s takes --stages and --micro", options->name);
    if (shape->chunk_count == 0) shape->chunk_count = 1;
    return EXIT_FINE;
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){.times = TUTTI_SCHEDULE_TIMES_INIT};
    enum exit_code code = EXIT_FINE;
    for (int letter;
         code == EXIT_FINE && (letter = getopt_long(argc, argv, "hV", long_options, NULL)) != -1;) {
        if (letter == HELP) {
            fputs(help, stdout);
            options->done = true;
            return EXIT_FINE;
        }
        if (letter == VERSION) {
            printf("tutti-schedule %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                   TUTTI_VERSION_PATCH);
            options->done = true;
            return EXIT_FINE;
        }
        code = read_option(letter, options);
    }
    return code == EXIT_FINE ? check(argc, argv, options) : code;
}
