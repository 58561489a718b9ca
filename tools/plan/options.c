#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "path/path.h"
#include "studio/foreign/msccl_export.h"
#include "transport/paths.h"
#include "tutti/tutti.h"

enum { CORES_MAX = 4096 };
#define EXPLAIN_BYTES_MAX ((size_t)1 << 40)

static const char help[] =
    "tutti-plan - lists algorithms; shows, proves, draws and exports the plans of collectives\n"
    "\n"
    "  tutti-plan list [--collective COLLECTIVE] [--markdown]\n"
    "      lists all algorithms\n"
    "  tutti-plan show COLLECTIVE ALGORITHM --ranks N [--root R] [--radix K] [--in-place]\n"
    "  tutti-plan show FILE\n"
    "      prints a plan as text\n"
    "  tutti-plan verify COLLECTIVE ALGORITHM --ranks N|A-B [--root R] [--radix K]\n"
    "  tutti-plan verify --all [--collective COLLECTIVE] [--ranks N|A-B] [--radix K]\n"
    "  tutti-plan verify FILE [--in-place]\n"
    "      proves that plans are correct: for every root, with separate buffers and in place\n"
    "  tutti-plan draw COLLECTIVE ALGORITHM --ranks N [--root R] [--radix K]\n"
    "  tutti-plan draw FILE\n"
    "          [--format svg|html] [--values 2,4,6/1,2,3/4,8,12] [--ports P] [--title TITLE]\n"
    "          [--in-place] [-o FILE | --output FILE]\n"
    "      draws a plan, in rounds in which a lane sends P messages (1; 0: any number), with the\n"
    "      sums if each rank's values are given: as SVG, or as a page that plays it in a browser;\n"
    "      --hosts, also with FILE, shows the hosts\n"
    "  tutti-plan export COLLECTIVE ALGORITHM --ranks N --format msccl|rccl|mscclpp [--root R]\n"
    "          [--radix K]\n"
    "  tutti-plan export FILE --format msccl|rccl|mscclpp\n"
    "          [--in-place] [-o FILE | --output FILE]\n"
    "      writes a plan as a schedule for MSCCL or for RCCL, in XML, or as an execution plan of\n"
    "      MSCCL++, in JSON, which also takes --hosts with FILE: other channels lead to them\n"
    "  tutti-plan paths COLLECTIVE [ALGORITHM] --ranks N --count ELEMENTS [--root R] [--radix K]\n"
    "          [--in-place] [--transport local|tcp|card] [--memory private|mapped]\n"
    "          [--shared-cores] [--why]\n"
    "      prints the paths that the messages of each step can take, best first, when each block\n"
    "      has this many float32 (4 bytes each); a step takes the first path that is free\n"
    "      ALGORITHM: without it, the algorithm that Tutti chooses, whose name comes first\n"
    "      --transport: ranks of one host (local, the default), connections, or simulated NICs\n"
    "      --memory: only paths that are possible with such buffers; mapped: of tutti_mem_alloc,\n"
    "      or ranks are threads; private: all other memory\n"
    "      --shared-cores: there are more ranks than cores\n"
    "      --why: below each step, + the rules that put its paths in the list, - the rules that\n"
    "      would at another size, in other memory or on other cores\n"
    "  tutti-plan paths --all --ranks N [--collective COLLECTIVE]\n"
    "          [--transport local|tcp|card] [--memory private|mapped] [--shared-cores]\n"
    "      prints a table of the paths that messages take, for six sizes of blocks, by the\n"
    "      algorithms that Tutti chooses\n"
    "  tutti-plan explain COLLECTIVE BYTES --ranks N [--root R] [--in-place]\n"
    "          [--memory private|mapped] [--cores N] [--machines N] [--calibration FILE]\n"
    "          [--set NAME=VALUE] [--slow HOST=FACTOR] [--plan FILE] [--csv]\n"
    "      simulates how long each algorithm would take, and which resource is busy for how much\n"
    "      of that time; marks the algorithm that Tutti chooses\n"
    "      BYTES: of a rank's larger buffer, suffixes K M G; float32, and a sum in reductions\n"
    "      --cores: of each host (as calibrated; otherwise one for each rank)\n"
    "      --machines: hosts are containers on so many machines, with the same number on each,\n"
    "      and share these cores\n"
    "      --calibration: numbers that `tutti-topo --calibrate` measured (the shipped numbers)\n"
    "      --set: one of these numbers, such as card_byte_fs=8000000 for NICs of 1 Gbit/s,\n"
    "      divided by 25 for 25 Gbit/s (the shipped numbers have NICs of 10 Gbit/s);\n"
    "      may be given several times\n"
    "      --slow: the cores and the NIC of this host, counted from 0, take this many times\n"
    "      as long (0.001 to 1000); may be given several times\n"
    "      --csv: for programs, with times in nanoseconds\n"
    "  verify, paths and explain also take [--encoding NAME[/hosts|/racks|/everywhere]]\n"
    "      plans whose links between hosts (racks, all ranks) carry encoded elements: verify\n"
    "      proves that all ranks end with the same bits, paths shows the bytes that such links\n"
    "      carry, and explain takes these bytes, and encoding and decoding, into account\n"
    "  show, verify, draw, export and paths also take [--order 0,2,1,3]\n"
    "      the ranks, with near ranks side by side, for algorithms that use this order\n"
    "  and, in place of --ranks, [--hosts 4x2] [--racks 2x2] [--interleaved]\n"
    "  [--interleaved-racks]\n"
    "      for hierarchical algorithms: 4 hosts of 2 ranks (2,1,5: three hosts with that many);\n"
    "      2 racks of 2 hosts; interleaved: ranks dealt to the hosts in turn, not host by host,\n"
    "      and hosts to the racks\n"
    "  tutti-plan -h | --help | -V | --version\n"
    "\n"
    "ALGORITHM is a name, or NAME/RADIX such as tree/3 if the list says that it takes a radix.\n"
    "FILE is a plan as text, or a schedule of MSCCL as XML, which tutti-plan proves first;\n"
    "- is standard input. Example: tutti-plan explain allreduce 4M --ranks 8\n"
    "Exit status: 0; 1 a plan or file is wrong; 2 wrong usage.\n";

enum exit_code usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tutti-plan: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see tutti-plan --help)\n", stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

/* A number from 0 to max and what follows it. */
static bool read_number(const char *text, long max, int *number, const char **rest)
{
    char *end;
    if (*text < '0' || *text > '9') return false; /* no signs, no blanks */
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || value > max) return false;
    *number = (int)value;
    *rest = end;
    return true;
}

static bool read_whole_number(const char *text, long max, int *number)
{
    const char *rest;
    return read_number(text, max, number, &rest) && *rest == '\0';
}

/* "8" or "1-33" */
static bool read_ranks(const char *text, struct options *options)
{
    const char *rest;
    if (!read_number(text, PLAN_RANKS_MAX, &options->ranks_min, &rest)) return false;
    options->ranks_max = options->ranks_min;
    if (*rest == '-' && !read_whole_number(rest + 1, PLAN_RANKS_MAX, &options->ranks_max))
        return false;
    return (*rest == '\0' || *rest == '-') && options->ranks_min >= 1 &&
           options->ranks_max >= options->ranks_min;
}

/* "0,2,1,3" */
static enum exit_code read_order(const char *text, struct options *options)
{
    int count = 1;
    for (const char *c = text; *c != '\0'; c++) count += *c == ',';
    free(options->order);
    options->order_count = 0;
    options->order = calloc((size_t)count, sizeof *options->order);
    if (options->order == NULL) return usage_error("--order: out of memory");
    const char *rest = text;
    for (int i = 0; i < count; i++) {
        if (i > 0) rest++; /* the comma */
        if (!read_number(rest, PLAN_RANKS_MAX - 1, &options->order[i], &rest) ||
            *rest != (i + 1 < count ? ',' : '\0'))
            return usage_error("--order %s is no list of ranks with commas", text);
    }
    options->order_count = count;
    return EXIT_FINE;
}

static enum exit_code read_collective(const char *name, enum collective *collective)
{
    *collective = collective_from_name(name);
    if (*collective != COLLECTIVE_COUNT) return EXIT_FINE;
    return usage_error("no collective is called %s", name);
}

static enum exit_code read_algorithm(const char *name, struct options *options)
{
    unsigned radix;
    if (algo_parse(options->collective, name, &options->algorithm, &radix)) {
        if (radix > 0) options->radix = radix;
        return EXIT_FINE;
    }
    return usage_error("%s has no algorithm %s; `tutti-plan list --collective %s` shows them",
                       collective_name(options->collective), name,
                       collective_name(options->collective));
}

static enum exit_code read_encoding(const char *text, struct options *options)
{
    const char *const wrong = encoding_wish_parse(text, &options->encoding);
    if (wrong == NULL) return EXIT_FINE;
    return usage_error("--encoding %s: %s", text, wrong);
}

static enum exit_code read_option(int letter, struct options *options)
{
    int number;
    switch (letter) {
    case 'c': return read_collective(optarg, &options->collective);
    case 'n':
        if (read_ranks(optarg, options)) return EXIT_FINE;
        return usage_error("--ranks %s is neither N nor A-B with 1 <= A <= B <= %d", optarg,
                           PLAN_RANKS_MAX);
    case 'r':
        if (read_whole_number(optarg, PLAN_RANKS_MAX - 1, &options->root)) return EXIT_FINE;
        return usage_error("--root %s is not a rank", optarg);
    case 'k':
        if (!read_whole_number(optarg, PLAN_RANKS_MAX, &number) || number < 2)
            return usage_error("--radix %s is not a number from 2 on", optarg);
        options->radix = (unsigned)number;
        return EXIT_FINE;
    case 'p':
        if (!read_whole_number(optarg, PLAN_RANKS_MAX, &number))
            return usage_error("--ports %s is not a number", optarg);
        options->ports = (unsigned)number;
        return EXIT_FINE;
    case 'O': return read_order(optarg, options);
    case 'H': options->host_sizes = optarg; return EXIT_FINE;
    case 'R': options->rack_sizes = optarg; return EXIT_FINE;
    case 'I': options->interleaved = true; return EXIT_FINE;
    case 'J': options->racks_interleaved = true; return EXIT_FINE;
    case 'i': options->in_place = true; return EXIT_FINE;
    case 'a': options->all = true; return EXIT_FINE;
    case 'C':
        if (!read_whole_number(optarg, INT_MAX, &number))
            return usage_error("--count %s is not a number of elements up to %d", optarg, INT_MAX);
        options->count = number;
        return EXIT_FINE;
    case 'T': options->transport = optarg; return EXIT_FINE;
    case 'M':
        if (strcmp(optarg, "private") != 0 && strcmp(optarg, "mapped") != 0)
            return usage_error("--memory %s is neither private nor mapped", optarg);
        options->memory = strcmp(optarg, "mapped") == 0 ? PATH_MAPPED : PATH_PRIVATE;
        return EXIT_FINE;
    case 'S': options->shares_cores = true; return EXIT_FINE;
    case 'W': options->says_why = true; return EXIT_FINE;
    case 'K':
        if (!read_whole_number(optarg, CORES_MAX, &options->cores) || options->cores == 0)
            return usage_error("--cores %s is not a number from 1 to %d", optarg, CORES_MAX);
        return EXIT_FINE;
    case 'N':
        if (!read_whole_number(optarg, CORES_MAX, &options->machines) || options->machines == 0)
            return usage_error("--machines %s is not a number from 1 to %d", optarg, CORES_MAX);
        return EXIT_FINE;
    case 'x': options->csv = true; return EXIT_FINE;
    case 'E': return read_encoding(optarg, options);
    case 'P':
        if (options->plan_count == PLANS_MAX)
            return usage_error("--plan: at most %d of them", PLANS_MAX);
        options->plans[options->plan_count++] = optarg;
        return EXIT_FINE;
    case 'F': options->calibration = optarg; return EXIT_FINE;
    case 's':
        if (options->set_count == SETS_MAX)
            return usage_error("--set: at most %d of them", SETS_MAX);
        options->sets[options->set_count++] = optarg;
        return EXIT_FINE;
    case 'L':
        if (options->slow_count == SETS_MAX)
            return usage_error("--slow: at most %d of them", SETS_MAX);
        options->slows[options->slow_count++] = optarg;
        return EXIT_FINE;
    case 'f': options->format = optarg; return EXIT_FINE;
    case 'm': options->markdown = true; return EXIT_FINE;
    case 'v': options->values = optarg; return EXIT_FINE;
    case 't': options->title = optarg; return EXIT_FINE;
    case 'o': options->output = optarg; return EXIT_FINE;
    default: return usage_error("the command line cannot be read"); /* getopt said why */
    }
}

/* "4M" */
static bool read_bytes(const char *text, size_t *bytes)
{
    uint64_t read;
    if (!byte_size_read(text, NULL, EXPLAIN_BYTES_MAX, &read)) return false;
    *bytes = (size_t)read;
    return true;
}

static enum exit_code read_question(int count, char **words, struct options *options)
{
    if (count == 0) return usage_error("explain what?");
    const enum exit_code code = read_collective(words[0], &options->collective);
    if (code != EXIT_FINE) return code;
    if (count > 2) return usage_error("explain takes COLLECTIVE BYTES, and no word more");
    if (count == 2 && !read_bytes(words[1], &options->bytes))
        return usage_error("%s is not a whole number of bytes, with K, M or G (1024 each) behind "
                           "it or not, up to 1024G",
                           words[1]);
    if (count == 1 && options->collective != COLLECTIVE_BARRIER)
        return usage_error("of how many bytes?");
    return EXIT_FINE;
}

/* The arguments after the command: COLLECTIVE ALGORITHM, or FILE; for explain COLLECTIVE BYTES; for
 * paths COLLECTIVE alone, by the algorithm that is chosen. */
static enum exit_code read_subject(int count, char **words, struct options *options)
{
    if (strcmp(options->command, "explain") == 0) return read_question(count, words, options);
    if (count > 2) return usage_error("what is %s?", words[2]);
    if (count == 1 && strcmp(options->command, "paths") == 0)
        return read_collective(words[0], &options->collective);
    if (count == 1) options->file = words[0];
    if (count != 2) return EXIT_FINE;
    const enum exit_code code = read_collective(words[0], &options->collective);
    return code != EXIT_FINE ? code : read_algorithm(words[1], options);
}

static enum exit_code check_order(const struct options *options)
{
    const char *why;
    if (options->order == NULL) return EXIT_FINE;
    if (options->ranks_min != options->order_count || options->ranks_max != options->order_count)
        return usage_error("--order is one of %d ranks, and so must be --ranks",
                           options->order_count);
    if (algo_check_order(options->order, options->order_count, &why) == TUTTI_OK) return EXIT_FINE;
    return usage_error("--order: %s", why);
}

/* Hosts say how many ranks there are. */
static enum exit_code read_hosts(struct options *options)
{
    const char *why;
    if (options->host_sizes == NULL) {
        if (options->rack_sizes == NULL && !options->interleaved && !options->racks_interleaved)
            return EXIT_FINE;
        return usage_error("%s without --hosts", options->interleaved ? "--interleaved"
                                                 : options->racks_interleaved
                                                     ? "--interleaved-racks"
                                                     : "--racks");
    }
    if (!hosts_parse(&options->hosts, options->host_sizes, options->rack_sizes,
                     (struct hosts_dealing){options->interleaved, options->racks_interleaved}, &why))
        return usage_error("%s", why);
    const int count = options->hosts.rank_count;
    if (options->ranks_min > 0 && (options->ranks_min != count || options->ranks_max != count))
        return usage_error("the hosts have %d ranks, and so must --ranks", count);
    options->ranks_min = options->ranks_max = count;
    return EXIT_FINE;
}

/* Whether there are plans of the algorithm for that number of ranks; verify makes its own hosts. */
static bool is_supported(const struct options *options, bool verify)
{
    if (verify || options->hosts.rank_count > 0)
        return algo_supports_levels(options->algorithm, options->ranks_min);
    return algo_supports(options->algorithm, options->ranks_min);
}

static enum exit_code check_paths(const struct options *options)
{
    if (transport_paths(options->transport) == NULL)
        return usage_error("--transport %s is none of local, tcp and card", options->transport);
    if (options->ranks_min == 0 || options->ranks_min != options->ranks_max)
        return usage_error("paths takes one number of ranks (--ranks)");
    if (options->all) {
        if (options->count >= 0 || options->says_why)
            return usage_error("a table (--all) has sizes of its own, and no reasons");
        if (options->encoding.encoding != TUTTI_ENCODING_NONE)
            return usage_error("a table (--all) has no encodings");
        if (options->root > 0) return usage_error("a table (--all) has rank 0 for its root");
        return EXIT_FINE;
    }
    if (options->count < 0) return usage_error("how many elements? (--count)");
    if (options->algorithm == NULL && (options->hosts.rank_count > 0 || options->radix > 0))
        return usage_error("which algorithm? It is chosen here for ranks of one host alone");
    return EXIT_FINE;
}

static enum exit_code check_explain(const struct options *options)
{
    if (options->order != NULL || options->radix > 0 || strcmp(options->transport, "local") != 0)
        return usage_error("explain takes neither --order nor --radix nor --transport");
    return EXIT_FINE;
}

/* Links between hosts need hosts; verify makes its own for algorithms. */
static enum exit_code check_encoding(const struct options *options)
{
    const bool verify = strcmp(options->command, "verify") == 0;
    const struct encoding_wish *const wish = &options->encoding;
    if (wish->encoding == TUTTI_ENCODING_NONE) return EXIT_FINE;
    if (!verify && strcmp(options->command, "paths") != 0 && strcmp(options->command, "explain") != 0)
        return usage_error("--encoding is for verify, paths and explain");
    if (!encoding_takes(wish->encoding, TUTTI_FLOAT32))
        return usage_error("--encoding: float32 has no such encoding");
    if (options->collective == COLLECTIVE_BARRIER)
        return usage_error("--encoding: a barrier has no elements");
    if (wish->links == ENCODED_EVERYWHERE || (verify && options->file == NULL)) return EXIT_FINE;
    if (options->hosts.rank_count == 0)
        return usage_error("--encoding: which ranks are on one host? (--hosts, or /everywhere)");
    if (wish->links == ENCODED_RACKS && options->hosts.rack_of == NULL)
        return usage_error("--encoding: which hosts are in one rack? (--racks)");
    return EXIT_FINE;
}

static enum exit_code check_subject(const struct options *options)
{
    const enum exit_code encoding = check_encoding(options);
    if (encoding != EXIT_FINE) return encoding;
    const bool list = strcmp(options->command, "list") == 0;
    const bool verify = strcmp(options->command, "verify") == 0;
    const bool paths = strcmp(options->command, "paths") == 0;
    const bool explains = strcmp(options->command, "explain") == 0;
    const bool exports = strcmp(options->command, "export") == 0;
    const bool draws = strcmp(options->command, "draw") == 0;
    if (!list && !verify && !paths && !explains && !exports &&
        strcmp(options->command, "show") != 0 && !draws)
        return usage_error("no command is called %s", options->command);
    if (exports && options->format == NULL) return usage_error("in which format? (--format)");
    if (options->format != NULL && !exports && !draws)
        return usage_error("--format is for draw and export");
    if (draws && options->format != NULL && strcmp(options->format, FORMAT_SVG) != 0 &&
        strcmp(options->format, FORMAT_HTML) != 0)
        return usage_error("--format %s is neither svg nor html", options->format);
    if (exports && strcmp(options->format, FORMAT_MSCCLPP) != 0 &&
        msccl_profile_find(options->format) == NULL)
        return usage_error("--format %s is none of msccl, rccl and mscclpp", options->format);
    if (list || options->all) {
        if (options->file != NULL || options->algorithm != NULL ||
            (options->all && !verify && !paths))
            return usage_error("%s takes no further words here", options->command);
        if (paths) return check_paths(options);
        if (list && options->hosts.rank_count > 0) return usage_error("list takes no hosts");
        return check_order(options);
    }
    if (options->file != NULL) {
        const bool takes_hosts =
            draws || (verify && options->encoding.encoding != TUTTI_ENCODING_NONE) ||
            (options->format != NULL && strcmp(options->format, FORMAT_MSCCLPP) == 0);
        if ((options->ranks_min > 0 && !(takes_hosts && options->host_sizes != NULL)) ||
            options->root != ALL_ROOTS || options->radix > 0 || options->order != NULL)
            return usage_error("the ranks of a plan in a file are as they are");
        return EXIT_FINE;
    }
    if (paths || explains ? options->collective == COLLECTIVE_COUNT : options->algorithm == NULL)
        return usage_error("%s what?", options->command);
    if (paths) {
        const enum exit_code code = check_paths(options);
        if (code != EXIT_FINE) return code;
    }
    if (explains) {
        const enum exit_code code = check_explain(options);
        if (code != EXIT_FINE) return code;
    }
    if (options->algorithm != NULL && options->algorithm->needs_levels &&
        options->hosts.rank_count == 0 && !verify)
        return usage_error("%s %s needs to know hosts (--hosts)",
                           collective_name(options->collective), options->algorithm->name);
    if (options->ranks_min == 0) return usage_error("how many ranks? (--ranks)");
    if (!verify && options->ranks_min != options->ranks_max)
        return usage_error("%s takes one number of ranks", options->command);
    if (options->root != ALL_ROOTS && options->root >= options->ranks_min)
        return usage_error("root %d is not one of %d ranks", options->root, options->ranks_min);
    if (options->root > 0 && !collective_is_rooted(options->collective))
        return usage_error("%s has no root", collective_name(options->collective));
    if (options->algorithm != NULL && options->ranks_min == options->ranks_max &&
        !is_supported(options, verify))
        return usage_error("%s %s cannot do %d ranks", collective_name(options->collective),
                           options->algorithm->name, options->ranks_min);
    return check_order(options);
}

enum exit_code options_parse(int argc, char **argv, struct options *options)
{
    static const struct option long_options[] = {{"collective", required_argument, NULL, 'c'},
                                                 {"ranks", required_argument, NULL, 'n'},
                                                 {"root", required_argument, NULL, 'r'},
                                                 {"radix", required_argument, NULL, 'k'},
                                                 {"ports", required_argument, NULL, 'p'},
                                                 {"order", required_argument, NULL, 'O'},
                                                 {"hosts", required_argument, NULL, 'H'},
                                                 {"racks", required_argument, NULL, 'R'},
                                                 {"interleaved", no_argument, NULL, 'I'},
                                                 {"interleaved-racks", no_argument, NULL, 'J'},
                                                 {"in-place", no_argument, NULL, 'i'},
                                                 {"all", no_argument, NULL, 'a'},
                                                 {"markdown", no_argument, NULL, 'm'},
                                                 {"values", required_argument, NULL, 'v'},
                                                 {"title", required_argument, NULL, 't'},
                                                 {"output", required_argument, NULL, 'o'},
                                                 {"count", required_argument, NULL, 'C'},
                                                 {"transport", required_argument, NULL, 'T'},
                                                 {"memory", required_argument, NULL, 'M'},
                                                 {"shared-cores", no_argument, NULL, 'S'},
                                                 {"why", no_argument, NULL, 'W'},
                                                 {"cores", required_argument, NULL, 'K'},
                                                 {"machines", required_argument, NULL, 'N'},
                                                 {"calibration", required_argument, NULL, 'F'},
                                                 {"set", required_argument, NULL, 's'},
                                                 {"slow", required_argument, NULL, 'L'},
                                                 {"plan", required_argument, NULL, 'P'},
                                                 {"csv", no_argument, NULL, 'x'},
                                                 {"encoding", required_argument, NULL, 'E'},
                                                 {"format", required_argument, NULL, 'f'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {"version", no_argument, NULL, 'V'},
                                                 {NULL, 0, NULL, 0}};
    *options = (struct options){.collective = COLLECTIVE_COUNT,
                                .root = ALL_ROOTS,
                                .ports = 1,
                                .transport = "local",
                                .count = -1};
    for (int letter; (letter = getopt_long(argc, argv, "o:hV", long_options, NULL)) != -1;) {
        if (letter == 'h' || letter == 'V') {
            if (letter == 'h')
                fputs(help, stdout);
            else
                printf("tutti-plan %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                       TUTTI_VERSION_PATCH);
            options->command = NULL;
            return EXIT_FINE;
        }
        const enum exit_code code = read_option(letter, options);
        if (code != EXIT_FINE) return code;
    }
    if (optind == argc) return usage_error("no command");
    options->command = argv[optind++];
    enum exit_code code = read_subject(argc - optind, argv + optind, options);
    if (code == EXIT_FINE) code = read_hosts(options);
    return code != EXIT_FINE ? code : check_subject(options);
}

void options_release(struct options *options)
{
    free(options->order);
    options->order = NULL;
    hosts_release(&options->hosts);
}
