/* tutti-run.c - starts the ranks of a program on this host: the options, and the front (see
 * tutti-run_keeper.h), which is what the user and the terminal talk to.
 *
 * The front passes signals on as orders and, where stdin is a terminal, passes the keyboard on to rank 0:
 * the ranks live in process groups of their own and may not read the terminal themselves. Any other stdin
 * is handed to rank 0 as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti-run_descendants.h"
#include "tutti-run_keeper.h"
#include "tutti/tutti.h"

enum { RANKS_MAX = 1 << 16, BACKGROUND_RECHECK_MS = 500 };

static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

static const char usage[] =
    "Usage: tutti-run -n N [options] PROGRAM [ARGS...]\n"
    "Starts N ranks of PROGRAM on this host and stays until all of them have ended.\n"
    "\n"
    "  -n, --ranks N        how many\n"
    "      --no-prefix      do not put \"[rank] \" in front of output lines\n"
    "      --output DIR     write each rank's output to DIR/rank-R.out and DIR/rank-R.err\n"
    "      --pin            pin rank r to the r-th core that we may use, round and round\n"
    "      --grace SEC      after the first failure, time for the others to end (default 5)\n"
    "      --timeout SEC    end everything after that time\n"
    "      --master-port P  MASTER_PORT for the ranks (default: a free one)\n"
    "  -h, --help           show this\n"
    "  -V, --version        show the version\n"
    "\n"
    "Exit code: 0, or that of the first rank that failed (128 + signal if it was killed);\n"
    "124 time limit, 125 tutti-run failed, 126 PROGRAM cannot be executed, 127 not found.\n";

/* --------------------------------------------------------------------------------------------- options */

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
    return RUN_FAILED;
}

/* Returns -1 to go on, otherwise the exit code. */
static int parse_options(int argument_count, char **arguments, struct run_options *options)
{
    enum { NO_PREFIX = 256, OUTPUT, PIN, GRACE, TIMEOUT, MASTER_PORT };
    static const struct option list[] = {{"ranks", required_argument, NULL, 'n'},
                                         {"no-prefix", no_argument, NULL, NO_PREFIX},
                                         {"output", required_argument, NULL, OUTPUT},
                                         {"pin", no_argument, NULL, PIN},
                                         {"grace", required_argument, NULL, GRACE},
                                         {"timeout", required_argument, NULL, TIMEOUT},
                                         {"master-port", required_argument, NULL, MASTER_PORT},
                                         {"help", no_argument, NULL, 'h'},
                                         {"version", no_argument, NULL, 'V'},
                                         {NULL, 0, NULL, 0}};
    /* "+": what follows PROGRAM belongs to it. */
    for (int option; (option = getopt_long(argument_count, arguments, "+n:hV", list, NULL)) != -1;) {
        switch (option) {
        case 'n':
            if (!parse_integer(optarg, 1, RANKS_MAX, &options->rank_count))
                return usage_error("-n wants a number of ranks from 1 to 65536, not ", optarg);
            break;
        case NO_PREFIX: options->prefix = false; break;
        case OUTPUT: options->output_folder = optarg; break;
        case PIN: options->pin = true; break;
        case GRACE:
            if (!parse_seconds(optarg, &options->grace_ns))
                return usage_error("--grace wants seconds, not ", optarg);
            break;
        case TIMEOUT:
            if (!parse_seconds(optarg, &options->timeout_ns) || options->timeout_ns == 0)
                return usage_error("--timeout wants seconds above 0, not ", optarg);
            break;
        case MASTER_PORT:
            if (!parse_integer(optarg, 1, 65535, &options->master_port))
                return usage_error("--master-port wants a port from 1 to 65535, not ", optarg);
            break;
        case 'h': return fputs(usage, stdout) >= 0 && fflush(stdout) == 0 ? 0 : RUN_FAILED;
        case 'V':
            printf("tutti-run %d.%d.%d\n", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
                   TUTTI_VERSION_PATCH);
            return fflush(stdout) == 0 ? 0 : RUN_FAILED;
        default: return usage_error("wrong use", ""); /* getopt has said what is wrong */
        }
    }
    if (options->rank_count == 0) return usage_error("how many ranks? -n N is missing", "");
    if (optind == argument_count) return usage_error("which program? PROGRAM is missing", "");
    options->arguments = arguments + optind;
    return -1;
}

/* ------------------------------------------------------------------------------------- before the start */

/* 0, or why it cannot be executed. */
static int executable(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) return errno;
    if (S_ISDIR(status.st_mode)) return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* The path of the program in found[PATH_MAX]; 0 or why there is none. */
static int find_program(const char *name, char *found)
{
    if (strchr(name, '/') != NULL)
        return snprintf(found, PATH_MAX, "%s", name) < PATH_MAX ? executable(found) : ENAMETOOLONG;
    const char *folders = getenv("PATH");
    if (folders == NULL) folders = "/bin:/usr/bin";
    int worst = ENOENT;
    for (const char *folder = folders; *name != '\0';) {
        int size = (int)strcspn(folder, ":");
        int length = snprintf(found, PATH_MAX, "%.*s/%s", size > 0 ? size : 1,
                              size > 0 ? folder : ".", name);
        int error = length < PATH_MAX ? executable(found) : ENAMETOOLONG;
        if (error == 0) return 0;
        if (error == EACCES) worst = error;
        if (folder[size] == '\0') break;
        folder += size + 1;
    }
    return worst;
}

/* A port that is free now. 0 if there is none, which the ranks that want it will say better than we. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    int port = 0;
    if (bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

static bool make_job_id(char id[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; ++i) snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* Returns -1 to go on, otherwise the exit code. */
static int prepare(struct run_options *options, char *program)
{
    int error = find_program(options->arguments[0], program);
    if (error != 0) {
        fprintf(stderr, "tutti-run: cannot execute %s: %s\n", options->arguments[0],
                strerror(error));
        return error == ENOENT || error == ENOTDIR ? RUN_NOT_FOUND : RUN_CANNOT_EXEC;
    }
    options->program = program;
    if (options->output_folder != NULL && mkdir(options->output_folder, 0777) != 0 &&
        errno != EEXIST) {
        fprintf(stderr, "tutti-run: cannot make %s: %s\n", options->output_folder, strerror(errno));
        return RUN_FAILED;
    }
    if (options->master_port == 0) options->master_port = free_port();
    if (!make_job_id(options->job_id)) {
        fprintf(stderr, "tutti-run: no random numbers: %s\n", strerror(errno));
        return RUN_FAILED;
    }
    return -1;
}

/* ------------------------------------------------------------------------------------------- the front */

struct front {
    pid_t keeper;
    int orders_fd;
    int signals_fd;
    int keyboard_fd; /* writing end of rank 0's stdin; -1: not ours, or over */
    char keys[4096];
    size_t keys_begin, keys_end;
};

static void give_order(const struct front *front, int signal_number)
{
    unsigned char order = (unsigned char)signal_number;
    ssize_t sent = write(front->orders_fd, &order, 1);
    (void)sent; /* a keeper that has gone is noticed by its SIGCHLD, one that does not read by a full pipe */
}

static void close_keyboard(struct front *front)
{
    close(front->keyboard_fd);
    front->keyboard_fd = -1;
}

static void pass_keys(struct front *front)
{
    if (front->keys_begin == front->keys_end) {
        ssize_t got = read(0, front->keys, sizeof front->keys);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN && errno != EIO))
            close_keyboard(front);
        front->keys_begin = 0;
        front->keys_end = got > 0 ? (size_t)got : 0;
    }
    if (front->keys_begin == front->keys_end) return;
    ssize_t put = write(front->keyboard_fd, front->keys + front->keys_begin,
                        front->keys_end - front->keys_begin);
    if (put > 0)
        front->keys_begin += (size_t)put;
    else if (put < 0 && errno != EINTR && errno != EAGAIN)
        close_keyboard(front); /* rank 0 does not read any more */
}

/* True once the keeper has ended. */
static bool take_signals(struct front *front, int *keeper_status)
{
    struct signalfd_siginfo info;
    bool ended = false;
    while (read(front->signals_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            ended = ended || waitpid(front->keeper, keeper_status, WNOHANG) == front->keeper;
            continue;
        }
        give_order(front, (int)info.ssi_signo);
        if (info.ssi_signo == SIGTSTP)
            raise(SIGSTOP); /* and on with SIGCONT, which is an order of its own */
    }
    return ended;
}

static int front_run(struct front *front)
{
    int status = 0;
    for (bool ended = false; !ended;) {
        struct pollfd polls[2] = {{.fd = front->signals_fd, .events = POLLIN}, {.fd = -1}};
        int timeout_ms = -1;
        if (front->keyboard_fd >= 0 && front->keys_begin < front->keys_end)
            polls[1] = (struct pollfd){.fd = front->keyboard_fd, .events = POLLOUT};
        else if (front->keyboard_fd >= 0 && tcgetpgrp(0) == getpgrp())
            polls[1] = (struct pollfd){.fd = 0, .events = POLLIN};
        else if (front->keyboard_fd >= 0)
            timeout_ms = BACKGROUND_RECHECK_MS; /* nothing tells us that we come to the foreground */
        if (poll(polls, 2, timeout_ms) < 0) continue;
        if (polls[1].revents != 0) pass_keys(front);
        if (polls[0].revents != 0) ended = take_signals(front, &status);
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "tutti-run: our own process %d was killed by signal %d; ending the ranks\n",
            (int)front->keeper, WTERMSIG(status));
    descendants_kill();
    return RUN_FAILED;
}

/* What is ignored stays ignored (nohup); the rest is blocked and read from a descriptor. */
static int take_over_signals(void)
{
    sigset_t taken, blocked;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    signal(SIGCHLD,
           SIG_DFL); /* ignored by a careless parent, it would take our children's status away */
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; ++i) {
        struct sigaction before;
        if (sigaction(forwarded[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(&taken, forwarded[i]);
    }
    blocked = taken;
    sigaddset(&blocked, SIGPIPE);
    sigaddset(&blocked, SIGTTIN);
    sigaddset(&blocked, SIGTTOU);
    if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0) return -1;
    return signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int start(struct run_options *options)
{
    struct front front = {.keyboard_fd = -1};
    int orders[2], keyboard[2] = {0, -1};
    front.signals_fd = take_over_signals();
    if (front.signals_fd < 0 || descendants_adopt() != 0 ||
        pipe2(orders, O_CLOEXEC | O_NONBLOCK) != 0 || (isatty(0) && pipe2(keyboard, O_CLOEXEC) != 0))
        goto failed;
    options->stdin_fd = keyboard[0];
    front.orders_fd = orders[1];
    front.keyboard_fd = keyboard[1];
    if (front.keyboard_fd >= 0) fcntl(front.keyboard_fd, F_SETFL, O_NONBLOCK);
    front.keeper = fork();
    if (front.keeper < 0) goto failed;
    if (front.keeper == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        setpgid(0, 0);
        prctl(PR_SET_NAME, "tutti-run-keep");
        close(orders[1]);
        close(front.signals_fd);
        if (front.keyboard_fd >= 0) close(front.keyboard_fd);
        exit(keeper_run(options, orders[0]));
    }
    setpgid(front.keeper, front.keeper);
    close(orders[0]);
    if (front.keyboard_fd >= 0) close(keyboard[0]);
    return front_run(&front);

failed:
    fprintf(stderr, "tutti-run: cannot start: %s\n", strerror(errno));
    return RUN_FAILED;
}

int main(int argument_count, char **arguments)
{
    /* Whatever we open must not land where the ranks expect stdin, stdout and stderr. */
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd >= 0) close(fd);

    char program[PATH_MAX];
    struct run_options options = {.prefix = true, .grace_ns = UINT64_C(5000000000)};
    sigprocmask(SIG_BLOCK, NULL, &options.signals_before);
    int code = parse_options(argument_count, arguments, &options);
    if (code < 0) code = prepare(&options, program);
    return code >= 0 ? code : start(&options);
}
