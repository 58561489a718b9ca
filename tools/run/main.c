/* main.c - starts the ranks of a program: acts on the options, and is the front (see keeper.h), to
 * which the user and the terminal talk.
 *
 * The front passes signals on as orders and, where stdin is a terminal, passes the keyboard on to
 * rank 0: the ranks live in process groups of their own and may not read the terminal themselves.
 * Any other stdin is handed to rank 0 as it is. On another host (--agent) stdin is where the orders
 * come from.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#include "agent.h"
#include "base/option.h"
#include "conductor.h"
#include "descendants.h"
#include "elastic.h"
#include "options.h"
#include "program.h"

enum { BACKGROUND_RECHECK_MS = 500, PORT_FIRST = 20000, PORT_COUNT = 12001, SECRET_BYTES = 32 };

static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/* The work of the process below the front. */
typedef int work_function(const void *work, int orders_fd);

struct work {
    work_function *run;
    const void *work;
    struct run_options
        *options; /* of one host, to be told the stdin of rank 0; NULL: ranks get none of ours */
    const char *token; /* of an agent, or NULL */
};

/* ------------------------------------------------------------------------------------ the front */

struct front {
    pid_t keeper; /* or the conductor */
    int orders_fd;
    int signals_fd;
    int keyboard_fd; /* writing end of rank 0's stdin; -1: not ours, or over */
    bool is_agent;   /* its stdin is orders */
    bool is_cut_off; /* the stdin of orders has ended */
    char keys[4096];
    size_t keys_begin, keys_end;
};

static void give_orders(const struct front *front, const unsigned char *orders, size_t count)
{
    if (front->is_cut_off) return;
    ssize_t sent = write(front->orders_fd, orders, count);
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

/* The keeper ends its ranks when its orders end. */
static void pass_orders(struct front *front)
{
    unsigned char orders[64];
    ssize_t got = read(0, orders, sizeof orders);
    if (got > 0) {
        give_orders(front, orders, (size_t)got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        close(front->orders_fd);
        front->is_cut_off = true;
    }
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
        give_orders(front, &(unsigned char){(unsigned char)info.ssi_signo}, 1);
        if (info.ssi_signo == SIGTSTP && !front->is_agent)
            raise(SIGSTOP); /* and on with SIGCONT, which is an order of its own */
    }
    return ended;
}

static int front_run(struct front *front, const char *token)
{
    int status = 0;
    for (bool ended = false; !ended;) {
        struct pollfd polls[2] = {{.fd = front->signals_fd, .events = POLLIN}, {.fd = -1}};
        int timeout_ms = -1;
        if (front->is_agent && !front->is_cut_off)
            polls[1] = (struct pollfd){.fd = 0, .events = POLLIN};
        else if (front->keyboard_fd >= 0 && front->keys_begin < front->keys_end)
            polls[1] = (struct pollfd){.fd = front->keyboard_fd, .events = POLLOUT};
        else if (front->keyboard_fd >= 0 && tcgetpgrp(0) == getpgrp())
            polls[1] = (struct pollfd){.fd = 0, .events = POLLIN};
        else if (front->keyboard_fd >= 0)
            timeout_ms = BACKGROUND_RECHECK_MS; /* nothing tells us that we come to the foreground */
        if (poll(polls, 2, timeout_ms) < 0) continue;
        if (polls[1].revents != 0 && front->is_agent)
            pass_orders(front);
        else if (polls[1].revents != 0)
            pass_keys(front);
        if (polls[0].revents != 0) ended = take_signals(front, &status);
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "tutti-run: our own process %d was killed by signal %d; ending the ranks\n",
            (int)front->keeper, WTERMSIG(status));
    descendants_kill();
    if (front->is_agent && !front->is_cut_off) agent_report(token, REPORT_DONE, RUN_FAILED);
    return RUN_FAILED;
}

/* Signals that are ignored stay ignored (nohup). The other signals are blocked and read from a
 * descriptor. */
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

static int start(const struct work *work)
{
    struct front front = {.keyboard_fd = -1, .is_agent = work->token != NULL};
    int orders[2], keyboard[2] = {0, -1};
    bool has_keyboard = work->options != NULL && !front.is_agent && isatty(0);
    front.signals_fd = take_over_signals();
    if (front.signals_fd < 0 || descendants_adopt() != 0 ||
        pipe2(orders, O_CLOEXEC | O_NONBLOCK) != 0 ||
        (has_keyboard && pipe2(keyboard, O_CLOEXEC) != 0))
        goto failed;
    if (work->options != NULL && !front.is_agent) work->options->stdin_fd = keyboard[0];
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
        exit(work->run(work->work, orders[0]));
    }
    setpgid(front.keeper, front.keeper);
    close(orders[0]);
    if (front.keyboard_fd >= 0) close(keyboard[0]);
    return front_run(&front, work->token);

failed:
    fprintf(stderr, "tutti-run: cannot start: %s\n", strerror(errno));
    return RUN_FAILED;
}

static int run_keeper(const void *work, int orders_fd)
{
    return keeper_run(work, orders_fd);
}

static int run_conductor(const void *work, int orders_fd)
{
    return conductor_run(work, orders_fd);
}

/* --------------------------------------------------------------------------------- on this host */

static bool coloured(int fd)
{
    const char *terminal = getenv("TERM");
    return isatty(fd) && getenv("NO_COLOR") == NULL && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

/* A port that is free now. 0 if there is none, which the ranks that want it will say better than
 * we. */
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

static bool make_random(unsigned char *bytes, size_t size)
{
    if (getrandom(bytes, size, 0) == (ssize_t)size) return true;
    fprintf(stderr, "tutti-run: no random numbers: %s\n", strerror(errno));
    return false;
}

/* Two digits for each byte. */
static bool make_digits(char *digits, size_t bytes_count)
{
    unsigned char bytes[SECRET_BYTES];
    if (bytes_count > sizeof bytes || !make_random(bytes, bytes_count)) return false;
    for (size_t i = 0; i < bytes_count; ++i) snprintf(digits + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* For the ranks, one that nobody can guess, unless the user has said which: in the environment,
 * which all that starts a rank in its turn (a shell, a wrapper) hands on, where a descriptor is
 * often closed. False after it was said why not. */
static bool make_secret(void)
{
    char secret[2 * SECRET_BYTES + 1];
    if (option_text(OPTION_SECRET) != NULL || option_text(OPTION_SECRET_FILE) != NULL) return true;
    const bool is_made =
        make_digits(secret, SECRET_BYTES) && setenv(option_names.SECRET, secret, 1) == 0;
    explicit_bzero(secret, sizeof secret);
    return is_made;
}

static int run_here(struct command_line *line)
{
    static char program[PATH_MAX];
    static int ranks[HOST_RANKS_MAX];
    struct run_options *run = &line->run;
    int code = program_find(run->arguments[0], "", program);
    if (code < 0 && *run->output_folder != '\0') code = program_make_folder(run->output_folder, "");
    if (code >= 0) return code;
    if (!make_secret()) return RUN_FAILED;
    char store[ELASTIC_STORE_BYTES] = "";
    if (run->elastic_min > 0 && !elastic_make_store(store)) return RUN_FAILED;
    for (int i = 0; i < line->rank_count + run->spare_count; ++i) ranks[i] = i;
    run->program = program;
    run->size = line->rank_count;
    run->rank_count = line->rank_count + run->spare_count;
    run->start_timeout_ns = line->start_timeout_ns;
    run->ranks = ranks;
    run->node_count = 1;
    if (run->master_address == NULL) run->master_address = "127.0.0.1";
    if (run->master_port == 0) run->master_port = free_port();
    code = start(&(struct work){run_keeper, run, run, NULL});
    elastic_remove_store(store);
    return code;
}

/* ----------------------------------------------------------------------------- on several hosts */

static bool is_exported(const char *variable, char *const *names)
{
    size_t length = strcspn(variable, "=");
    if (strncmp(variable, OPTION_PREFIX, strlen(OPTION_PREFIX)) == 0 ||
        strncmp(variable, "OMP_", 4) == 0 || strncmp(variable, "PATH=", 5) == 0 ||
        strncmp(variable, "LD_LIBRARY_PATH=", 16) == 0)
        return true;
    for (; *names != NULL; ++names)
        if (strlen(*names) == length && strncmp(variable, *names, length) == 0) return true;
    return false;
}

/* NULL: no memory. */
static char **exported_environment(char *const *names)
{
    size_t count = 0, used = 0;
    while (environ[count] != NULL) ++count;
    char **exported = calloc(count + 1, sizeof *exported);
    for (size_t i = 0; exported != NULL && i < count; ++i) {
        const char *equals = strchr(environ[i], '=');
        if (equals != NULL && equals != environ[i] && is_exported(environ[i], names))
            exported[used++] = environ[i];
    }
    return exported;
}

/* One block, of the list and the words behind it. NULL: no memory. */
static char **split_words(const char *text)
{
    const size_t count_max = strlen(text) / 2 + 1;
    char **words = malloc((count_max + 1) * sizeof *words + strlen(text) + 1);
    if (words == NULL) return NULL;
    char *rest = strcpy((char *)(words + count_max + 1), text);
    size_t count = 0;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) words[count++] = word;
    words[count] = NULL;
    return words;
}

/* As the user's shell calls it, where that is the same folder: a home may lie elsewhere on another
 * host. */
static const char *working_folder(char folder[PATH_MAX])
{
    struct stat called, real;
    const char *name = getenv("PWD");
    if (name != NULL && name[0] == '/' && stat(name, &called) == 0 && stat(".", &real) == 0 &&
        called.st_dev == real.st_dev && called.st_ino == real.st_ino)
        return name;
    return getcwd(folder, PATH_MAX);
}

static bool own_path(char path[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (size > 0) path[size] = '\0';
    return size > 0;
}

/* A port and a secret. False after it was said why not. */
static bool make_secrets(struct run_options *run, char token[TOKEN_BYTES + 1])
{
    unsigned char number[2];
    if (!make_random(number, sizeof number) || !make_secret() ||
        !make_digits(token, TOKEN_BYTES / 2))
        return false;
    if (run->master_port == 0)
        run->master_port = PORT_FIRST + (number[0] << 8 | number[1]) % PORT_COUNT;
    return true;
}

static int run_on_hosts(struct command_line *line)
{
    static char token[TOKEN_BYTES + 1], folder[PATH_MAX], path[PATH_MAX];
    char error[HOSTS_ERROR_BYTES];
    struct run_options *run = &line->run;
    if (line->rank_count == 0) line->rank_count = line->hosts.slot_count - run->spare_count;
    if (!hosts_place(&line->hosts, line->rank_count + run->spare_count, line->map, error)) {
        fprintf(stderr, "tutti-run: %s\n", error);
        return RUN_WRONG_USE;
    }
    if (run->elastic_min == 0)
        hosts_drop_idle(&line->hosts); /* otherwise they may come to have some */
    if (!make_secrets(run, token)) return RUN_FAILED;
    run->size = line->rank_count;
    run->node_count = hosts_used(line->hosts.list, line->hosts.count, line->rank_count);
    run->token = token;
    if (run->master_address == NULL) run->master_address = host_address(&line->hosts.list[0]);
    const struct conductor_options options = {
        .common = {.options = *run,
                   .folder = working_folder(folder),
                   .environment = exported_environment(line->exported)},
        .hosts = &line->hosts,
        .remote_shell = split_words(line->remote_shell),
        .remote_path = line->remote_path != NULL ? line->remote_path
                       : own_path(path)          ? path
                                                 : NULL,
        .start_timeout_ns = line->start_timeout_ns};
    int code = RUN_FAILED;
    if (options.common.folder == NULL || options.common.environment == NULL ||
        options.remote_shell == NULL || options.remote_path == NULL)
        fprintf(stderr, "tutti-run: cannot start: %s\n", strerror(errno));
    else
        code = start(&(struct work){run_conductor, &options, NULL, NULL});
    free(options.common.environment);
    free(options.remote_shell);
    return code;
}

/* ----------------------------------------------------------------------------- for another host */

static int run_agent(const sigset_t *signals_before)
{
    static struct agent_task task;
    int code = agent_prepare(&task);
    if (code >= 0) return code;
    struct run_options *options = &task.message.options;
    options->signals_before = *signals_before;
    options->start_timeout_ns = UINT64_MAX; /* the conductor has the user's */
    char store[ELASTIC_STORE_BYTES] = "";
    if (options->elastic_min > 0 && !elastic_make_store(store)) return RUN_FAILED;
    code = start(&(struct work){run_keeper, options, options, options->token});
    elastic_remove_store(store);
    return code;
}

int main(int argument_count, char **arguments)
{
    /* Whatever we open must not land where the ranks expect stdin, stdout and stderr. */
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd >= 0) close(fd);

    char job_id[33];
    struct command_line line = {.run = {.prefix = true,
                                        .grace_ns = UINT64_C(5000000000),
                                        .restart_max = 10,
                                        .colours = {coloured(1), coloured(2)},
                                        .host = "",
                                        .token = "",
                                        .output_folder = "",
                                        .job_id = job_id},
                                .remote_shell = "ssh -o BatchMode=yes",
                                .start_timeout_ns = UINT64_C(60000000000)};
    sigprocmask(SIG_BLOCK, NULL, &line.run.signals_before);
    int code = command_line_read(argument_count, arguments, &line);
    if (code < 0 && line.is_agent)
        code = run_agent(&line.run.signals_before);
    else if (code < 0 && !make_digits(job_id, 16))
        code = RUN_FAILED;
    else if (code < 0)
        code = line.hosts.count > 0 ? run_on_hosts(&line) : run_here(&line);
    command_line_release(&line);
    return code;
}
