#include "options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "tutti/tutti.h"

static const char usage[] =
    "Usage: tutti-run -n N [options] PROGRAM [ARGS...]\n"
    "       tutti-run --hosts FILE [-n N] [options] PROGRAM [ARGS...]\n"
    "Starts N ranks of PROGRAM and waits until all of them have ended.\n"
    "Example: tutti-run -n 4 ./train --steps 1000\n"
    "\n"
    "  -n, --ranks N        number of ranks, 1 to 1024 on a host, 1 to 65536 on several\n"
    "                       hosts (default there: all slots)\n"
    "  -np N, --np N        the same, as for mpirun\n"
    "      --no-prefix      print output lines without \"[rank] \" in front\n"
    "      --output DIR     write each rank's output to DIR/rank-R.out and DIR/rank-R.err\n"
    "      --pin            pin the r-th rank of a host to the r-th CPU that tutti-run may\n"
    "                       use, modulo their number\n"
    "      --elastic MIN    go on when ranks of an elastic loop die: start them again, as\n"
    "                       processes that join, and end the job only if fewer than MIN\n"
    "                       ranks are left; the ranks of a host that is lost are started\n"
    "                       on hosts that have none, or on it once it is back\n"
    "      --spares K       start K more processes, which join when a rank has died\n"
    "      --restarts R     start each rank again at most R times (default 10)\n"
    "      --grace SEC      time for the other ranks to end after the first failure (default 5)\n"
    "      --timeout SEC    end all ranks after that time\n"
    "      --master-addr A  MASTER_ADDR for the ranks (default: 127.0.0.1, or the first host)\n"
    "      --master-port P  MASTER_PORT for the ranks (default: a free port, or on several\n"
    "                       hosts a random port from 20000 to 32000)\n"
    "      --encrypt        encrypt data on the network: set TUTTI_ENCRYPTION=on for the ranks\n"
    "  -x NAME[=VALUE]      set a variable for the ranks, also on other hosts\n"
    "  -h, --help           show this\n"
    "  -V, --version        show the version\n"
    "\n"
    "On several hosts:\n"
    "      --hosts FILE     lines of HOST [slots=K]; # begins a comment\n"
    "  -H, --host LIST      the same list: HOST[:K],HOST[:K]...\n"
    "      --map-by ORDER   slot: fill one host after the other (default);\n"
    "                       node: take the hosts in turn\n"
    "      --rsh COMMAND    command that starts a program on a host (default:\n"
    "                       ssh -o BatchMode=yes)\n"
    "      --remote-path P  path of tutti-run on the hosts (default: its path here)\n"
    "      --start-timeout SEC   time for a host to start its ranks (default 60)\n"
    "\n"
    "Exit code: 0, or the code of the first rank that failed (128 + signal if it was killed);\n"
    "2 wrong usage, 124 the time limit passed, 125 tutti-run failed or could not reach a host,\n"
    "126 PROGRAM cannot be executed, 127 PROGRAM was not found.\n";
static_assert(HOST_RANKS_MAX == 1024 && RANKS_MAX == 65536, "as the usage says");

static bool parse_integer(const char *text, long min, long max, int *number)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max) return false;
    *number = (int)value;
    return true;
}

static bool parse_seconds(const char *text, uint64_t *ns)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0 || value > 1e9) return false;
    *ns = (uint64_t)(value * 1e9);
    return true;
}

static int usage_error(const char *what, const char *text)
{
    fprintf(stderr, "tutti-run: %s%s\nTry 'tutti-run --help'.\n", what, text);
    return RUN_WRONG_USE;
}

static int out_of_memory(void)
{
    fprintf(stderr, "tutti-run: %s\n", strerror(ENOMEM));
    return RUN_FAILED;
}

static int read_hosts_file(const char *path, struct hosts *hosts)
{
    char error[HOSTS_ERROR_BYTES] = "";
    char *text = malloc(HOSTS_FILE_BYTES_MAX + 1);
    FILE *file = text != NULL ? fopen(path, "re") : NULL;
    size_t size = file != NULL ? fread(text, 1, HOSTS_FILE_BYTES_MAX + 1, file) : 0;
    bool is_fine = file != NULL && !ferror(file);
    if (!is_fine)
        snprintf(error, sizeof error, "%s", strerror(errno));
    else
        is_fine = hosts_read(hosts, text, size, error);
    if (file != NULL) fclose(file);
    free(text);
    if (is_fine) return -1;
    fprintf(stderr, "tutti-run: --hosts %s: %s\n", path, error);
    return RUN_FAILED;
}

static int read_hosts_list(const char *list, struct hosts *hosts)
{
    char error[HOSTS_ERROR_BYTES];
    if (hosts_read_list(hosts, list, error)) return -1;
    fprintf(stderr, "tutti-run: --host %s: %s\n", list, error);
    return RUN_WRONG_USE;
}

static int too_many_ranks(int count)
{
    fprintf(stderr,
            "tutti-run: -n %d: one host has at most %d ranks; --hosts FILE names more hosts\n"
            "Try 'tutti-run --help'.\n",
            count, HOST_RANKS_MAX);
    return RUN_WRONG_USE;
}

/* NAME or NAME=VALUE; the last place of line->exported stays NULL. */
static int export_variable(char *text, struct command_line *line)
{
    size_t length = strcspn(text, "="), count = 0;
    bool is_name = length > 0 && !isdigit((unsigned char)text[0]);
    for (size_t i = 0; i < length; ++i)
        is_name = is_name && (isalnum((unsigned char)text[i]) || text[i] == '_');
    if (!is_name) return usage_error("-x wants NAME or NAME=VALUE, not ", text);
    char *name = strndup(text, length);
    while (line->exported[count] != NULL) ++count;
    if (name == NULL || (text[length] == '=' && setenv(name, text + length + 1, 1) != 0))
        return out_of_memory();
    line->exported[count] = name;
    return getenv(name) != NULL ? -1 : usage_error("-x: this variable is not set: ", name);
}

static int print(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? 0 : RUN_FAILED;
}

enum {
    NO_PREFIX = 256,
    OUTPUT,
    PIN,
    ENCRYPT,
    ELASTIC,
    SPARES,
    RESTARTS,
    GRACE,
    TIMEOUT,
    MASTER_ADDRESS,
    MASTER_PORT,
    HOSTS,
    MAP_BY,
    REMOTE_SHELL,
    REMOTE_PATH,
    START_TIMEOUT,
    AGENT
};

/* Takes the options that only matter if there are hosts. */
static int take_host_option(int option, struct command_line *line)
{
    switch (option) {
    case 'H': return read_hosts_list(optarg, &line->hosts);
    case HOSTS: return read_hosts_file(optarg, &line->hosts);
    case MAP_BY:
        line->map = strcmp(optarg, "node") == 0 ? MAP_BY_NODE : MAP_BY_SLOT;
        if (line->map == MAP_BY_SLOT && strcmp(optarg, "slot") != 0)
            return usage_error("--map-by wants slot or node, not ", optarg);
        break;
    case REMOTE_SHELL:
        line->remote_shell = optarg;
        if (optarg[strspn(optarg, " ")] == '\0') return usage_error("--rsh wants a command", "");
        break;
    case REMOTE_PATH: line->remote_path = optarg; break;
    case START_TIMEOUT:
        if (!parse_seconds(optarg, &line->start_timeout_ns) || line->start_timeout_ns == 0)
            return usage_error("--start-timeout wants seconds above 0, not ", optarg);
        break;
    case AGENT: line->is_agent = true; break;
    default: return usage_error("wrong use", ""); /* getopt has said what is wrong */
    }
    return -1;
}

/* -np N, as mpirun has it: getopt takes the p for the number. */
static void take_mpirun_count(int argument_count, char **arguments)
{
    const char *const option = arguments[optind - 1];
    if (optarg == option + 2 && strcmp(option, "-np") == 0 && optind < argument_count)
        optarg = arguments[optind++];
}

/* Returns -1 to go on, otherwise the exit code. */
static int take_option(int option, struct command_line *line)
{
    struct run_options *run = &line->run;
    switch (option) {
    case 'n':
        if (!parse_integer(optarg, 1, RANKS_MAX, &line->rank_count))
            return usage_error("-n wants a number of ranks from 1 to 65536, not ", optarg);
        break;
    case 'x': return export_variable(optarg, line);
    case NO_PREFIX: run->prefix = false; break;
    case OUTPUT: run->output_folder = optarg; break;
    case PIN: run->pin = true; break;
    case ENCRYPT:
        if (setenv(option_names.ENCRYPTION, "on", 1) != 0) return out_of_memory();
        break;
    case ELASTIC:
        if (!parse_integer(optarg, 1, RANKS_MAX, &run->elastic_min))
            return usage_error("--elastic wants a number of ranks from 1 to 65536, not ", optarg);
        break;
    case SPARES:
        if (!parse_integer(optarg, 0, HOST_RANKS_MAX, &run->spare_count))
            return usage_error("--spares wants a number from 0 to 1024, not ", optarg);
        break;
    case RESTARTS:
        if (!parse_integer(optarg, 0, RESTARTS_MAX, &run->restart_max))
            return usage_error("--restarts wants a number from 0 to 1000000, not ", optarg);
        break;
    case GRACE:
        if (!parse_seconds(optarg, &run->grace_ns))
            return usage_error("--grace wants seconds, not ", optarg);
        break;
    case TIMEOUT:
        if (!parse_seconds(optarg, &run->timeout_ns) || run->timeout_ns == 0)
            return usage_error("--timeout wants seconds above 0, not ", optarg);
        break;
    case MASTER_ADDRESS: run->master_address = optarg; break;
    case MASTER_PORT:
        if (!parse_integer(optarg, 1, 65535, &run->master_port))
            return usage_error("--master-port wants a port from 1 to 65535, not ", optarg);
        break;
    case 'h': return print(usage);
    case 'V':
        printf("tutti-run %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
               TUTTI_VERSION_PATCH);
        return fflush(stdout) == 0 ? 0 : RUN_FAILED;
    default: return take_host_option(option, line);
    }
    return -1;
}

static int check_elastic(const struct command_line *line)
{
    const struct run_options *run = &line->run;
    if (run->elastic_min == 0 && run->spare_count > 0)
        return usage_error("--spares needs --elastic MIN", "");
    const int slots = line->hosts.slot_count;
    const int ranks = line->rank_count > 0 ? line->rank_count : slots - run->spare_count;
    if (run->elastic_min > 0 && run->elastic_min > ranks)
        return usage_error("--elastic MIN is more than the ranks", "");
    return -1;
}

int command_line_read(int argument_count, char **arguments, struct command_line *line)
{
    static const struct option list[] = {{"ranks", required_argument, NULL, 'n'},
                                         {"np", required_argument, NULL, 'n'},
                                         {"no-prefix", no_argument, NULL, NO_PREFIX},
                                         {"output", required_argument, NULL, OUTPUT},
                                         {"pin", no_argument, NULL, PIN},
                                         {"encrypt", no_argument, NULL, ENCRYPT},
                                         {"elastic", required_argument, NULL, ELASTIC},
                                         {"spares", required_argument, NULL, SPARES},
                                         {"restarts", required_argument, NULL, RESTARTS},
                                         {"grace", required_argument, NULL, GRACE},
                                         {"timeout", required_argument, NULL, TIMEOUT},
                                         {"master-addr", required_argument, NULL, MASTER_ADDRESS},
                                         {"master-port", required_argument, NULL, MASTER_PORT},
                                         {"hosts", required_argument, NULL, HOSTS},
                                         {"host", required_argument, NULL, 'H'},
                                         {"map-by", required_argument, NULL, MAP_BY},
                                         {"rsh", required_argument, NULL, REMOTE_SHELL},
                                         {"remote-path", required_argument, NULL, REMOTE_PATH},
                                         {"start-timeout", required_argument, NULL, START_TIMEOUT},
                                         {"agent", no_argument, NULL, AGENT},
                                         {"help", no_argument, NULL, 'h'},
                                         {"version", no_argument, NULL, 'V'},
                                         {NULL, 0, NULL, 0}};
    line->exported = calloc((size_t)argument_count + 1, sizeof *line->exported);
    if (line->exported == NULL) return out_of_memory();
    /* "+": what follows PROGRAM belongs to it. */
    for (int option;
         (option = getopt_long(argument_count, arguments, "+n:H:x:hV", list, NULL)) != -1;) {
        if (option == 'n') take_mpirun_count(argument_count, arguments);
        int code = take_option(option, line);
        if (code >= 0) return code;
    }
    if (line->is_agent) return -1;
    if (line->rank_count == 0 && line->hosts.count == 0)
        return usage_error("how many ranks? -n N is missing", "");
    if (line->hosts.count == 0 && line->rank_count + line->run.spare_count > HOST_RANKS_MAX)
        return too_many_ranks(line->rank_count + line->run.spare_count);
    const int code = check_elastic(line);
    if (code >= 0) return code;
    if (optind == argument_count) return usage_error("which program? PROGRAM is missing", "");
    line->run.arguments = arguments + optind;
    return -1;
}

void command_line_release(struct command_line *line)
{
    for (int i = 0; line->exported != NULL && line->exported[i] != NULL; ++i)
        free(line->exported[i]);
    free(line->exported);
    hosts_release(&line->hosts);
}
