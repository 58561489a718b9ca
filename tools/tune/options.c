#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/collective.h"
#include "base/dtype.h"

static const char help[] =
    "tutti-tune - measures which algorithms are the fastest where the cost model may be wrong\n"
    "\n"
    "  tutti-run -n N tutti-tune [--collectives LIST] [--sizes FROM-TO] [--datatype D] [--mapped]\n"
    "                            [--margin PERCENT] [--time SEC] [-o FILE | --output FILE]\n"
    "  tutti-tune --show FILE\n"
    "  tutti-tune --merge FILE FILE ... [-o FILE | --output FILE]\n"
    "  tutti-tune --export nccl FILE [-o FILE | --output FILE]\n"
    "  tutti-tune -h | --help | -V | --version\n"
    "\n"
    "Run it as all ranks of a job. It measures for each collective and size the algorithms that\n"
    "the model takes to be about as fast as the best. If another algorithm than the model's\n"
    "choice is faster by more than the noise, it becomes an entry of a table, which rank 0\n"
    "writes. It also measures plans in the directory of TUTTI_PLANS; if a plan is the fastest, it\n"
    "prints the rule to use it.\n"
    "Example: tutti-run -n 8 tutti-tune -o table.json\n"
    "\n"
    "  --collectives LIST  such as allreduce,broadcast (all)\n"
    "  --sizes FROM-TO     bytes of a block, powers of two with suffixes k, m, g; measures FROM,\n"
    "                      each size that is four times the last, and TO (8-64m)\n"
    "  --datatype D        the dtype of the elements (float32)\n"
    "  --mapped            in memory from tutti_mem_alloc\n"
    "  --margin PERCENT    measures algorithms predicted to take at most this much longer than\n"
    "                      the best, 0 to 1000, but at least two and at most six (25)\n"
    "  --time SEC          time for each collective and size, 0.001 to 3600 (0.5)\n"
    "  --show              prints a table\n"
    "  --merge             makes one table of several; where tables overlap, the last table wins\n"
    "  --export nccl       writes the entries that NCCL's algorithms can follow as the "
    "configuration\n"
    "                      of its example tuner plugin\n"
    "  -o, --output FILE   writes to FILE instead of standard output\n"
    "\n"
    "Exit status: 0; 1 a file is wrong, or the ranks failed; 2 wrong usage.\n";

__attribute__((format(printf, 1, 2))) static enum exit_code usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-tune: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see tutti-tune --help)\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

/* --------------------------------------------------------------------------------------- values */

static enum exit_code read_collectives(const char *text, struct options *options)
{
    char name[32];
    options->collectives = 0;
    for (const char *part = text;; part++) {
        const size_t length = strcspn(part, ",");
        if (length >= sizeof name) return usage_error("--collectives: what is %s?", part);
        memcpy(name, part, length);
        name[length] = '\0';
        const enum collective collective = collective_from_name(name);
        if (collective == COLLECTIVE_COUNT)
            return usage_error("--collectives: there is no collective '%s'", name);
        options->collectives |= 1u << collective;
        part += length;
        if (*part == '\0') return EXIT_FINE;
    }
}

/* A power of two, at most half of what a table can have; *end is behind it. */
static bool read_bytes(const char *text, const char **end, size_t *bytes)
{
    uint64_t read;
    if (!byte_size_read(text, end, UINT64_C(1) << 46, &read)) return false;
    *bytes = (size_t)read;
    return read != 0 && (read & (read - 1)) == 0;
}

static enum exit_code read_sizes(const char *text, struct options *options)
{
    const char *end = text;
    if (read_bytes(text, &end, &options->first_bytes)) {
        options->last_bytes = options->first_bytes;
        if (*end == '\0') return EXIT_FINE;
        if (*end == '-' && read_bytes(end + 1, &end, &options->last_bytes) && *end == '\0' &&
            options->last_bytes >= options->first_bytes)
            return EXIT_FINE;
    }
    return usage_error("--sizes must be powers of two such as 8-64m, is '%s'", text);
}

static enum exit_code read_dtype(const char *text, struct options *options)
{
    options->dtype = dtype_from_name(text);
    if (dtype_is_valid(options->dtype)) return EXIT_FINE;
    return usage_error("--datatype: there is no dtype '%s'", text);
}

/* A number within bounds; `after` may stand behind it. */
static bool read_number(const char *text, const char *after, double least, double most,
                        double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && (*end == '\0' || strcmp(end, after) == 0) && *number >= least &&
           *number <= most;
}

static enum exit_code read_margin(const char *text, struct options *options)
{
    if (!read_number(text, "%", 0, 1000, &options->margin))
        return usage_error("--margin must be a number from 0 to 1000, is '%s'", text);
    options->margin /= 100;
    return EXIT_FINE;
}

static enum exit_code read_seconds(const char *text, struct options *options)
{
    if (read_number(text, "", 0.001, 3600, &options->seconds)) return EXIT_FINE;
    return usage_error("--time must be a number from 0.001 to 3600, is '%s'", text);
}

/* ------------------------------------------------------------------------------- the whole line */

static enum exit_code choose_action(enum action action, struct options *options)
{
    if (options->action != ACTION_TUNE)
        return usage_error("--show, --merge, --export: only one of them");
    options->action = action;
    return EXIT_FINE;
}

static enum exit_code check(bool has_measurement, const struct options *options)
{
    static const struct {
        const char *name;
        int least, most;
    } files[] = {[ACTION_TUNE] = {"measuring", 0, 0},
                 [ACTION_SHOW] = {"--show", 1, 1},
                 [ACTION_MERGE] = {"--merge", 2, 1 << 16},
                 [ACTION_EXPORT] = {"--export", 1, 1}};
    const enum action action = options->action;
    if (options->file_count < files[action].least)
        return usage_error("%s needs %d more FILE", files[action].name,
                           files[action].least - options->file_count);
    if (options->file_count > files[action].most)
        return usage_error("what is %s?", options->files[files[action].most]);
    if (action != ACTION_TUNE && has_measurement)
        return usage_error("%s measures nothing: only -o may stand beside it", files[action].name);
    if (action == ACTION_SHOW && options->output != NULL) return usage_error("--show has no -o");
    if (options->first_bytes < dtype_size(options->dtype))
        return usage_error("--sizes: a block has at least one element of %zu bytes",
                           dtype_size(options->dtype));
    return EXIT_FINE;
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    static const struct option long_options[] = {{"collectives", required_argument, NULL, 'c'},
                                                 {"sizes", required_argument, NULL, 's'},
                                                 {"datatype", required_argument, NULL, 'd'},
                                                 {"mapped", no_argument, NULL, 'm'},
                                                 {"margin", required_argument, NULL, 'M'},
                                                 {"time", required_argument, NULL, 't'},
                                                 {"show", no_argument, NULL, 'S'},
                                                 {"merge", no_argument, NULL, 'j'},
                                                 {"export", required_argument, NULL, 'e'},
                                                 {"output", required_argument, NULL, 'o'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {"version", no_argument, NULL, 'V'},
                                                 {NULL, 0, NULL, 0}};
    *options = (struct options){.collectives = (1u << COLLECTIVE_COUNT) - 1,
                                .first_bytes = 8,
                                .last_bytes = (size_t)64 << 20,
                                .dtype = TUTTI_FLOAT32,
                                .margin = 0.25,
                                .seconds = 0.5};
    enum exit_code code = EXIT_FINE;
    bool has_measurement = false;
    for (int letter; code == EXIT_FINE &&
                     (letter = getopt_long(argc, argv, "o:hV", long_options, NULL)) != -1;) {
        if (strchr("csdmMt", letter) != NULL) has_measurement = true;
        switch (letter) {
        case 'c': code = read_collectives(optarg, options); break;
        case 's': code = read_sizes(optarg, options); break;
        case 'd': code = read_dtype(optarg, options); break;
        case 'm': options->mapped = true; break;
        case 'M': code = read_margin(optarg, options); break;
        case 't': code = read_seconds(optarg, options); break;
        case 'S': code = choose_action(ACTION_SHOW, options); break;
        case 'j': code = choose_action(ACTION_MERGE, options); break;
        case 'e':
            code = strcmp(optarg, "nccl") == 0
                       ? choose_action(ACTION_EXPORT, options)
                       : usage_error("--export must be nccl, is '%s'", optarg);
            break;
        case 'o': options->output = optarg; break;
        case 'h':
            fputs(help, stdout);
            options->done = true;
            return EXIT_FINE;
        case 'V':
            printf("tutti-tune %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                   TUTTI_VERSION_PATCH);
            options->done = true;
            return EXIT_FINE;
        default: code = usage_error("the command line cannot be read"); /* getopt said why */
        }
    }
    if (code != EXIT_FINE) return code;
    options->files = argv + optind;
    options->file_count = argc - optind;
    return check(has_measurement, options);
}
