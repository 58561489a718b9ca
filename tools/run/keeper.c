#include "keeper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/option.h"
#include "child.h"
#include "descendants.h"
#include "elastic.h"
#include "message.h"
#include "orders.h"
#include "os/clock.h"
#include "output.h"

#define SECOND_NS UINT64_C(1000000000)
#define TERMINATE_NS (2 * SECOND_NS) /* from SIGTERM to SIGKILL */
#define KILL_NS (2 * SECOND_NS)      /* from SIGKILL to giving up */
#define LINGER_NS (SECOND_NS / 5)
#define SIGN_NS SECOND_NS /* between signs of life to the conductor */
#define NEVER UINT64_MAX

enum {
    CPUS_MAX = 8192,
    POLL_ORDERS = 0,
    POLL_CHILDREN,
    POLL_WATCH,
    POLL_SINKS,
    POLL_STREAMS = POLL_SINKS + 2
};

enum phase { RUNNING, GRACE, TERMINATING, KILLING, LINGERING, FLUSHING, DONE };

struct rank {
    pid_t pid;
    bool running;
    bool just_ended;
    int status; /* as from waitpid, once it has ended */
    int restart_count;
    bool is_cut_off;                    /* its last start failed because its host has no network */
    char name[ELASTIC_NAME_BYTES];      /* of its last start, in an elastic job */
    uint64_t started_ns, restart_at_ns; /* 0: not to be started again */
    struct stream *streams[2];          /* stdout and stderr, or NULL */
};

struct keeper {
    const struct run_options *options;
    int orders_fd;
    int children_fd; /* signalfd for SIGCHLD */
    struct outlet outlet;
    struct rank *ranks;
    int running_count;
    int finished_count; /* ranks that have ended well */
    bool is_over;       /* some rank has, on whichever host */
    bool has_team;      /* there is a team, on whichever host */
    int watch_fd;       /* of the elastic job's directory; -1: none */
    struct address_reader address_reader;
    unsigned char address[ADDRESS_BYTES]; /* the newest that is known on both sides */
    int alive_said, members_said;         /* as reported */
    uint64_t sign_at_ns;
    struct pollfd *polls;
    enum phase phase;
    uint64_t phase_deadline_ns;
    uint64_t timeout_at_ns, start_by_ns;
    int exit_code;
    bool failed;        /* exit_code is decided */
    bool has_said_done; /* the last report */
    int last_order;
    int ending_order_count; /* SIGINT, SIGTERM and the like that the user has sent */
    struct rlimit files_before;
    cpu_set_t *cpus;
    int cpu_count;
};

/* The step between fork and exec that went wrong, and its error. */
struct start_error {
    enum start_step { STEP_NONE, STEP_OUTPUT, STEP_PIN, STEP_SETUP, STEP_EXEC } step;
    int error;
};

/* "rank 3", with its host where there are several. */
struct rank_name {
    char text[300];
};

static struct rank_name name_rank(const struct keeper *keeper, int index)
{
    struct rank_name name;
    const char *host = keeper->options->host;
    snprintf(name.text, sizeof name.text, "rank %d%s%.255s%s", keeper->options->ranks[index],
             *host != '\0' ? " (host " : "", host, *host != '\0' ? ")" : "");
    return name;
}

/* "rank 3 (host a, pid 71)" */
static struct rank_name name_process(const struct keeper *keeper, int index)
{
    struct rank_name name;
    const char *host = keeper->options->host;
    snprintf(name.text, sizeof name.text, "rank %d (%s%.255s%spid %d)",
             keeper->options->ranks[index], *host != '\0' ? "host " : "", host,
             *host != '\0' ? ", " : "", (int)keeper->ranks[index].pid);
    return name;
}

static void report(struct keeper *keeper, enum report_kind kind, int code)
{
    char text[100];
    if (*keeper->options->token == '\0') return;
    report_write(keeper->options->token, kind, code, text, sizeof text);
    sink_say(keeper->outlet.sinks[1], text);
}

/* Whether the job is elastic and on several hosts: the conductor knows what we do not. */
static bool has_conductor(const struct keeper *keeper)
{
    return keeper->options->elastic_min > 0 && *keeper->options->token != '\0';
}

/* For poll(); -1: for ever. */
static int milliseconds(uint64_t until, uint64_t now)
{
    if (until == NEVER) return -1;
    uint64_t ms = until > now ? (until - now + 999999) / 1000000 : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Only the first one counts. */
static void decide(struct keeper *keeper, int exit_code)
{
    if (keeper->failed) return;
    keeper->failed = true;
    keeper->exit_code = exit_code;
    report(keeper, REPORT_FAILED, exit_code);
}

/* -------------------------------------------------------------------------- the rank's own side */

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

static void set_environment(const struct keeper *keeper, int index, bool joins)
{
    const struct run_options *const options = keeper->options;
    if (options->elastic_min > 0) set_number(option_names.ELASTIC_JOIN, joins);
    if (options->elastic_min > 0) setenv(option_names.ELASTIC_MEMBER, keeper->ranks[index].name, 1);
    set_number(option_names.RANK, options->ranks[index]);
    set_number(option_names.SIZE, options->size);
    setenv(option_names.JOB_ID, options->job_id, 1);
    set_number("RANK", options->ranks[index]);
    set_number("WORLD_SIZE", options->size);
    set_number("LOCAL_RANK", index);
    set_number("LOCAL_WORLD_SIZE", options->spare_count < options->rank_count
                                       ? options->rank_count - options->spare_count
                                       : options->rank_count);
    set_number("GROUP_RANK", options->node_index);
    set_number("GROUP_WORLD_SIZE", options->node_count);
    setenv("MASTER_ADDR", options->master_address, 1);
    set_number("MASTER_PORT", options->master_port);
}

static int open_output(const struct run_options *options, int rank, const char *suffix,
                       bool is_first)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/rank-%d.%s", options->output_folder, rank, suffix) >=
        PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | (is_first ? O_TRUNC : 0) | O_APPEND | O_CLOEXEC, 0666);
}

static int pin_to_core(const struct keeper *keeper, int index)
{
    int wanted = index % keeper->cpu_count;
    int cpu = 0;
    while (!CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus) || wanted-- > 0) ++cpu;
    CPU_ZERO_S(CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus);
    CPU_SET_S(cpu, CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus);
    return sched_setaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus);
}

/* Everything between fork and exec; returns only when something failed. */
static struct start_error become_rank(const struct keeper *keeper, int index, pid_t keeper_pid,
                                      const int streams[2])
{
    const struct run_options *options = keeper->options;
    const bool is_first = keeper->ranks[index].restart_count == 0 && !options->joins;
    const bool is_spare = index >= options->rank_count - options->spare_count;
    /* The keeper may have died before the kernel knew that we want to go with it. */
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != keeper_pid) _exit(RUN_FAILED);
    setpgid(0, 0);

    int outputs[2] = {streams[0], streams[1]};
    int rank = options->ranks[index];
    if (*options->output_folder != '\0') {
        outputs[0] = open_output(options, rank, "out", is_first);
        outputs[1] = open_output(options, rank, "err", is_first);
        if (outputs[0] < 0 || outputs[1] < 0) return (struct start_error){STEP_OUTPUT, errno};
    }
    int input = index == 0 && is_first ? options->stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || dup2(input, 0) < 0 || dup2(outputs[0], 1) < 0 || dup2(outputs[1], 2) < 0)
        return (struct start_error){STEP_SETUP, errno};
    if (options->pin && pin_to_core(keeper, index) != 0)
        return (struct start_error){STEP_PIN, errno};
    set_environment(keeper, index, is_spare || !is_first);
    setrlimit(RLIMIT_NOFILE, &keeper->files_before);
    sigprocmask(SIG_SETMASK, &options->signals_before, NULL);
    execvp(options->program, options->arguments);
    return (struct start_error){STEP_EXEC, errno};
}

/* ------------------------------------------------------------------------------------- starting */

static void read_orders(struct keeper *keeper, uint64_t now);

/* The outcome of the wait for an exec. */
enum start_end {
    START_OVER,  /* it took place, or *error says why not */
    START_ENDED, /* the user, or the conductor, does not want the job any more */
    START_LATE   /* a file system hangs, say */
};

/* A keeper that waits for one rank's exec does not look at the other ranks. So the wait must end,
 * and the keeper hears orders meanwhile. */
static enum start_end await_exec(struct keeper *keeper, int result_fd, struct start_error *error)
{
    *error = (struct start_error){STEP_NONE, 0};
    for (;;) {
        struct pollfd polls[2] = {{.fd = result_fd, .events = POLLIN},
                                  {.fd = keeper->orders_fd, .events = POLLIN}};
        uint64_t until_ns = keeper->start_by_ns;
        if (keeper->timeout_at_ns < until_ns) until_ns = keeper->timeout_at_ns;
        if (keeper->phase_deadline_ns < until_ns) until_ns = keeper->phase_deadline_ns;
        const uint64_t before_ns = clock_now_ns();
        if (before_ns >= until_ns) return START_LATE;
        (void)poll(polls, 2, milliseconds(until_ns, before_ns));
        if (polls[1].revents != 0) read_orders(keeper, clock_now_ns());
        if (keeper->phase >= TERMINATING || keeper->ending_order_count > 0) return START_ENDED;
        if (polls[0].revents == 0) continue;
        ssize_t got = read(result_fd, error, sizeof *error);
        if (got >= 0 || errno != EINTR) return START_OVER;
    }
}

static void say_late(struct keeper *keeper, int index)
{
    const bool is_out_of_time = clock_now_ns() >= keeper->timeout_at_ns;
    const uint64_t limit_ns =
        is_out_of_time ? keeper->options->timeout_ns : keeper->options->start_timeout_ns;
    outlet_say(&keeper->outlet, "%s: has not started within %g s (a file system hangs?)",
               name_rank(keeper, index).text, (double)limit_ns / 1e9);
    decide(keeper, is_out_of_time ? RUN_TIMED_OUT : RUN_FAILED);
}

/* Returns the exit code. */
static int explain_start(struct keeper *keeper, int index, struct start_error error)
{
    const char *why = strerror(error.error);
    const struct rank_name name = name_rank(keeper, index);
    switch (error.step) {
    case STEP_OUTPUT:
        outlet_say(&keeper->outlet, "%s: cannot open its output files in %s: %s", name.text,
                   keeper->options->output_folder, why);
        return RUN_FAILED;
    case STEP_PIN:
        outlet_say(&keeper->outlet, "%s: cannot pin it to a core: %s", name.text, why);
        return RUN_FAILED;
    case STEP_EXEC:
        outlet_say(&keeper->outlet, "%s: cannot execute %s: %s", name.text,
                   keeper->options->program, why);
        return error.error == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_EXEC;
    case STEP_SETUP:
    case STEP_NONE: break;
    }
    outlet_say(&keeper->outlet, "%s: cannot start it: %s", name.text, why);
    return RUN_FAILED;
}

static bool start_rank(struct keeper *keeper, int index)
{
    struct rank *rank = &keeper->ranks[index];
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}; /* stdout, stderr, the result of exec */
    struct start_error error = {STEP_SETUP, 0};
    bool started = false, is_said = false; /* why not */
    for (int i = *keeper->options->output_folder == '\0' ? 0 : 2; i < 3; ++i) {
        if (pipe2(pipes[i], O_CLOEXEC) != 0) {
            error.error = errno;
            goto close_pipes;
        }
    }
    if (keeper->options->elastic_min > 0 && !elastic_make_name(rank->name)) {
        error.error = errno;
        goto close_pipes;
    }
    pid_t keeper_pid = getpid();
    rank->pid = fork();
    if (rank->pid < 0) {
        error.error = errno;
        goto close_pipes;
    }
    if (rank->pid == 0) {
        error = become_rank(keeper, index, keeper_pid, (int[]){pipes[0][1], pipes[1][1]});
        ssize_t sent = write(pipes[2][1], &error, sizeof error);
        _exit(sent == sizeof error ? 0 : RUN_FAILED);
    }
    rank->running = true;
    rank->started_ns = clock_now_ns();
    ++keeper->running_count;
    setpgid(rank->pid, rank->pid); /* both sides do, or one of them would be late for kill() */
    for (int i = 0; i < 3; ++i) {
        if (pipes[i][1] >= 0) close(pipes[i][1]);
        pipes[i][1] = -1;
    }
    switch (await_exec(keeper, pipes[2][0], &error)) {
    case START_OVER: break;
    case START_ENDED:
        if (keeper->phase != DONE)
            decide(keeper, keeper->ending_order_count > 0 ? RUN_SIGNALLED + keeper->last_order
                                                          : RUN_FAILED);
        is_said = true;
        goto close_pipes;
    case START_LATE:
        say_late(keeper, index);
        is_said = true;
        goto close_pipes;
    }
    if (error.step != STEP_NONE) goto close_pipes;
    started = true;
    for (int i = 0; i < 2 && pipes[i][0] >= 0; ++i) {
        rank->streams[i] =
            stream_create(pipes[i][0], keeper->outlet.sinks[i],
                          keeper->options->prefix ? keeper->options->ranks[index] : -1);
        pipes[i][0] = -1;
        if (rank->streams[i] == NULL) {
            error = (struct start_error){STEP_SETUP, ENOMEM};
            started = false;
        }
    }

close_pipes:
    for (int i = 0; i < 3; ++i) {
        for (int end = 0; end < 2; ++end) {
            if (pipes[i][end] >= 0) close(pipes[i][end]);
        }
    }
    if (!started && !is_said) decide(keeper, explain_start(keeper, index, error));
    return started;
}

/* --------------------------------------------------------------------------------------- ending */

static void signal_ranks(struct keeper *keeper, int signal_number)
{
    /* The group, as the terminal does; but these two are a private matter of the program. */
    bool whole_group = signal_number != SIGUSR1 && signal_number != SIGUSR2;
    for (int i = 0; i < keeper->options->rank_count; ++i) {
        const struct rank *rank = &keeper->ranks[i];
        if (!rank->running) continue;
        if (whole_group) kill(-rank->pid, signal_number);
        if (!whole_group || getpgid(rank->pid) != rank->pid) /* it may have left its group */
            kill(rank->pid, signal_number);
    }
}

/* "rank 3", "ranks 0-2,5", shortened with "..." where it does not fit; and the host where there are
 * several. */
static void list_running(const struct keeper *keeper, char *text, size_t size)
{
    const struct run_options *options = keeper->options;
    size_t used = (size_t)snprintf(text, size, "%s", keeper->running_count > 1 ? "ranks " : "rank ");
    const size_t begin = used;
    for (int i = 0; i < options->rank_count; ++i) {
        if (!keeper->ranks[i].running) continue;
        int first = options->ranks[i];
        while (i + 1 < options->rank_count && keeper->ranks[i + 1].running &&
               options->ranks[i + 1] == options->ranks[i] + 1)
            ++i;
        int last = options->ranks[i];
        if (used + 40 > size) {
            snprintf(text + used, size - used, ",...");
            return;
        }
        const char *comma = used > begin ? "," : "";
        used += (size_t)(last > first
                             ? snprintf(text + used, size - used, "%s%d-%d", comma, first, last)
                             : snprintf(text + used, size - used, "%s%d", comma, first));
    }
    if (*options->host != '\0' && used < size)
        snprintf(text + used, size - used, " (host %.255s)", options->host);
}

static void announce_signal(struct keeper *keeper, const char *signal_name)
{
    char list[500];
    if (keeper->running_count == 0) return;
    list_running(keeper, list, sizeof list);
    outlet_say(&keeper->outlet, "sending %s to %s", signal_name, list);
}

static void terminate_ranks(struct keeper *keeper, uint64_t now)
{
    announce_signal(keeper, "SIGTERM");
    signal_ranks(keeper, SIGTERM);
    signal_ranks(keeper, SIGCONT); /* a stopped process would not see it */
    keeper->phase = TERMINATING;
    keeper->phase_deadline_ns = now + TERMINATE_NS;
}

static void kill_ranks(struct keeper *keeper, uint64_t now)
{
    announce_signal(keeper, "SIGKILL");
    signal_ranks(keeper, SIGKILL);
    keeper->phase = KILLING;
    keeper->phase_deadline_ns = now + KILL_NS;
}

static void begin_grace(struct keeper *keeper, uint64_t now)
{
    if (keeper->phase != RUNNING) return;
    keeper->phase = GRACE;
    keeper->phase_deadline_ns = now + keeper->options->grace_ns;
}

/* Ranks of an elastic job that run, or will. */
static int count_alive(const struct keeper *keeper)
{
    int count = 0;
    for (int i = 0; i < keeper->options->rank_count; ++i)
        count += keeper->ranks[i].running || keeper->ranks[i].restart_at_ns > 0;
    return count;
}

static int count_members(const struct keeper *keeper)
{
    int count = 0;
    for (int i = 0; i < keeper->options->rank_count; ++i)
        count += keeper->ranks[i].running && elastic_is_member(keeper->ranks[i].name);
    return count;
}

/* Tells the conductor what has changed, and at times that this host is there. A reader that is slow
 * must find room for more important reports. */
static void report_counts(struct keeper *keeper, uint64_t now)
{
    if (!has_conductor(keeper)) return;
    const int alive = count_alive(keeper), members = count_members(keeper);
    if (members != keeper->members_said) report(keeper, REPORT_MEMBERS, members);
    const bool signs = now >= keeper->sign_at_ns && sink_is_empty(keeper->outlet.sinks[1]);
    if (alive != keeper->alive_said || signs) report(keeper, REPORT_ALIVE, alive);
    if (now >= keeper->sign_at_ns) keeper->sign_at_ns = now + SIGN_NS;
    keeper->members_said = members;
    keeper->alive_said = alive;
}

/* A file has come into the directory: a rank has joined the team, or this is the team's address. */
static void read_watch(struct keeper *keeper)
{
    unsigned char address[ADDRESS_BYTES];
    char text[ADDRESS_REPORT_BYTES];
    elastic_watch_drain(keeper->watch_fd);
    if (!elastic_read_address(address) || memcmp(address, keeper->address, ADDRESS_BYTES) == 0)
        return;
    memcpy(keeper->address, address, ADDRESS_BYTES);
    address_report_write(keeper->options->token, address, text);
    sink_say(keeper->outlet.sinks[1], text);
}

static void take_address(struct keeper *keeper)
{
    unsigned char old[ADDRESS_BYTES];
    const unsigned char *const fresh = keeper->address_reader.bytes;
    if (!has_conductor(keeper)) return;
    memcpy(keeper->address, fresh, ADDRESS_BYTES);
    if (elastic_read_address(old) && memcmp(old, fresh, ADDRESS_BYTES) == 0) return;
    if (!elastic_write_address(fresh))
        outlet_say(&keeper->outlet, "host %s: cannot write into the directory of joining ranks: %s",
                   keeper->options->host, strerror(errno));
}

/* A start that could not succeed counts for nothing: the rank is started again as soon as its host has a network.
 */
static bool waits_for_network(struct keeper *keeper, int index, uint64_t now)
{
    struct rank *const rank = &keeper->ranks[index];
    const bool was_cut_off = rank->is_cut_off;
    rank->is_cut_off = has_conductor(keeper) && !elastic_is_member(rank->name) &&
                       elastic_is_cut_off(keeper->options->master_address);
    if (!rank->is_cut_off) return false;
    rank->restart_at_ns = now + SECOND_NS;
    if (!was_cut_off)
        outlet_say(&keeper->outlet,
                   "%s has not started, as its host has no network; trying again until it has",
                   name_process(keeper, index).text);
    return true;
}

/* Whether the job goes on without the rank that has failed, or with it once more. */
static bool goes_on(struct keeper *keeper, int index, uint64_t now)
{
    struct rank *rank = &keeper->ranks[index];
    const struct run_options *options = keeper->options;
    char how[80];
    if (options->elastic_min == 0 || keeper->phase != RUNNING || keeper->ending_order_count > 0 ||
        !(keeper->has_team || count_members(keeper) > 0))
        return false;
    if (waits_for_network(keeper, index, now)) return true;
    const bool again = rank->restart_count < options->restart_max;
    if (!again && !has_conductor(keeper) && count_alive(keeper) < options->elastic_min)
        return false;
    child_describe_end(rank->status, how, sizeof how);
    const struct rank_name name = name_process(keeper, index);
    if (has_conductor(keeper)) report(keeper, REPORT_DIED, child_exit_code(rank->status));
    if (again) {
        rank->restart_at_ns =
            now + 1 + elastic_pause_ns(now - rank->started_ns, rank->restart_count);
        ++rank->restart_count;
        outlet_say(&keeper->outlet, "%s %s; starting it again, %d of %d times", name.text, how,
                   rank->restart_count, options->restart_max);
    } else {
        outlet_say(&keeper->outlet, "%s %s; it has been started again %d times", name.text, how,
                   rank->restart_count);
    }
    return true;
}

/* The lines of the rank that died come first. */
static void restart_rank(struct keeper *keeper, int index, uint64_t now)
{
    struct rank *rank = &keeper->ranks[index];
    bool is_done = true;
    for (int i = 0; i < 2; ++i) {
        if (rank->streams[i] == NULL) continue;
        stream_end(rank->streams[i]);
        is_done = stream_is_done(rank->streams[i]) && is_done;
    }
    if (!is_done) {
        rank->restart_at_ns = now + LINGER_NS;
        return;
    }
    for (int i = 0; i < 2; ++i) {
        stream_free(rank->streams[i]);
        rank->streams[i] = NULL;
    }
    rank->restart_at_ns = 0;
    if (keeper->options->start_timeout_ns != NEVER)
        keeper->start_by_ns = now + keeper->options->start_timeout_ns;
    if (!start_rank(keeper, index)) begin_grace(keeper, now);
}

static void restart_ranks(struct keeper *keeper, uint64_t now)
{
    for (int i = 0; i < keeper->options->rank_count; ++i) {
        const uint64_t at_ns = keeper->ranks[i].restart_at_ns;
        if (at_ns > 0 && keeper->phase != RUNNING) keeper->ranks[i].restart_at_ns = 0;
        if (at_ns > 0 && at_ns <= now && keeper->phase == RUNNING) restart_rank(keeper, i, now);
    }
}

/* The loop of an elastic job is over for all ranks at once; spares do not know it. */
static void rank_finished(struct keeper *keeper, uint64_t now)
{
    if (keeper->options->elastic_min == 0) return;
    ++keeper->finished_count;
    keeper->is_over = true;
    if (has_conductor(keeper)) report(keeper, REPORT_FINISHED, keeper->finished_count);
    begin_grace(keeper, now);
    if (keeper->finished_count >= keeper->options->size && keeper->phase == GRACE)
        keeper->phase_deadline_ns = now;
}

static void rank_failed(struct keeper *keeper, int index, uint64_t now)
{
    const struct rank *rank = &keeper->ranks[index];
    if (goes_on(keeper, index, now)) return;
    if (keeper->is_over && keeper->phase > GRACE) return; /* a spare that was ended */
    decide(keeper, child_exit_code(rank->status));
    if (keeper->phase > GRACE) return; /* as we asked it to */
    bool as_user_asked = WIFSIGNALED(rank->status) && WTERMSIG(rank->status) == keeper->last_order;
    if (!as_user_asked) {
        char how[80], wait[80] = "";
        bool others_run =
            keeper->running_count > 0 || keeper->options->rank_count < keeper->options->size;
        child_describe_end(rank->status, how, sizeof how);
        if (keeper->phase == RUNNING && others_run)
            snprintf(wait, sizeof wait, "; the others have %g s to end",
                     (double)keeper->options->grace_ns / 1e9);
        outlet_say(&keeper->outlet, "%s %s%s", name_process(keeper, index).text, how, wait);
    }
    begin_grace(keeper, now);
}

/* The output of a rank comes before our message about its end. */
static void drain(struct rank *rank)
{
    for (int i = 0; i < 2; ++i) {
        while (rank->streams[i] != NULL && stream_pump(rank->streams[i]))
            ;
    }
}

/* False: no child is left. */
static bool reap(struct keeper *keeper, uint64_t now)
{
    int count = keeper->options->rank_count;
    pid_t pid;
    int status;
    bool rank_ended = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < count; ++i) {
            struct rank *rank = &keeper->ranks[i];
            if (!rank->running || rank->pid != pid) continue;
            rank->running = false;
            rank->just_ended = rank_ended = true;
            rank->status = status;
            --keeper->running_count;
            break;
        }
    }
    bool children_left = pid == 0;
    /* If several ranks are found to have ended, a rank that was killed is the likelier cause: the
     * other ranks could still speak. */
    for (int killed = 1; rank_ended && killed >= 0; --killed) {
        for (int i = 0; i < count; ++i) {
            struct rank *rank = &keeper->ranks[i];
            if (!rank->just_ended || (WIFSIGNALED(rank->status) != 0) != (killed != 0)) continue;
            rank->just_ended = false;
            drain(rank);
            if (rank->status != 0)
                rank_failed(keeper, i, now);
            else
                rank_finished(keeper, now);
        }
    }
    return children_left;
}

/* -------------------------------------------------------------------------------------- running */

static void obey_signal(struct keeper *keeper, int signal_number, uint64_t now)
{
    bool ends = order_ends(signal_number);
    keeper->last_order = signal_number;
    if (ends) ++keeper->ending_order_count;
    if (keeper->phase == FLUSHING && ends) {
        /* Nobody reads our output, and the user has had enough. */
        if (!keeper->failed) keeper->exit_code = RUN_SIGNALLED + signal_number;
        keeper->phase = DONE;
    }
    if (keeper->phase > TERMINATING) return;
    signal_ranks(keeper, signal_number);
    if (!ends) return;
    if (keeper->ending_order_count == 2 && keeper->phase < TERMINATING)
        terminate_ranks(keeper, now);
    else if (keeper->ending_order_count > 2)
        kill_ranks(keeper, now);
}

static void obey(struct keeper *keeper, int order, uint64_t now)
{
    if (order == ORDER_GRACE)
        begin_grace(keeper, now);
    else if (order == ORDER_TERMINATE && keeper->phase < TERMINATING)
        terminate_ranks(keeper, now);
    else if (order == ORDER_TEAM)
        keeper->has_team = true;
    else if (order == ORDER_OVER) {
        keeper->is_over = true;
        begin_grace(keeper, now);
    } else if (order > 0 && order < ORDER_GRACE)
        obey_signal(keeper, order, now);
    else if (address_reader_take(&keeper->address_reader, (unsigned char)order))
        take_address(keeper);
}

static void read_orders(struct keeper *keeper, uint64_t now)
{
    unsigned char orders[64];
    ssize_t got = read(keeper->orders_fd, orders, sizeof orders);
    if (got == 0)
        keeper->phase = DONE; /* the front has gone, and with it everybody who wants to hear of us */
    for (ssize_t i = 0; i < got; ++i) obey(keeper, orders[i], now);
}

static void read_children(struct keeper *keeper, uint64_t now)
{
    struct signalfd_siginfo info[8];
    while (read(keeper->children_fd, info, sizeof info) > 0)
        ;
    bool children_left = reap(keeper, now);
    if (keeper->running_count == 0 && keeper->phase < LINGERING &&
        (keeper->phase != RUNNING || count_alive(keeper) == 0)) {
        keeper->phase = LINGERING;
        keeper->phase_deadline_ns = now + LINGER_NS;
    }
    if (!children_left && keeper->phase == LINGERING) keeper->phase_deadline_ns = now;
}

static void check_deadlines(struct keeper *keeper, uint64_t now)
{
    if (now >= keeper->timeout_at_ns) {
        keeper->timeout_at_ns = NEVER;
        decide(keeper, RUN_TIMED_OUT);
        if (keeper->phase < TERMINATING) {
            outlet_say(&keeper->outlet, "the time limit of %g s has passed",
                       (double)keeper->options->timeout_ns / 1e9);
            terminate_ranks(keeper, now);
        } else if (keeper->phase == FLUSHING) {
            keeper->phase = DONE;
        }
    }
    restart_ranks(keeper, now);
    report_counts(keeper, now);
    if (now < keeper->phase_deadline_ns) return;
    switch (keeper->phase) {
    case GRACE: terminate_ranks(keeper, now); break;
    case TERMINATING: kill_ranks(keeper, now); break;
    case LINGERING:
        if (descendants_kill() != 0)
            outlet_say(&keeper->outlet, "some processes that the ranks started could not be ended");
        keeper->phase = FLUSHING;
        keeper->phase_deadline_ns = NEVER;
        break;
    case KILLING: /* a process that waits inside the kernel cannot be killed */
        keeper->phase = LINGERING;
        keeper->phase_deadline_ns = now;
        break;
    case RUNNING:
    case FLUSHING:
    case DONE: break;
    }
}

static void flush_streams(struct keeper *keeper)
{
    bool done = true;
    for (int i = 0; i < 2 * keeper->options->rank_count; ++i) {
        struct stream *stream = keeper->ranks[i / 2].streams[i % 2];
        if (stream != NULL) done = stream_finish(stream) && done;
    }
    if (!done || !outlet_is_empty(&keeper->outlet)) return;
    if (!keeper->has_said_done)
        report(keeper, REPORT_DONE, keeper->exit_code); /* behind all else */
    keeper->has_said_done = true;
    if (outlet_is_empty(&keeper->outlet)) keeper->phase = DONE;
}

static int poll_timeout_ms(const struct keeper *keeper, uint64_t now)
{
    uint64_t until = keeper->phase_deadline_ns;
    if (keeper->timeout_at_ns < until) until = keeper->timeout_at_ns;
    if (has_conductor(keeper) && keeper->sign_at_ns < until) until = keeper->sign_at_ns;
    for (int i = 0; i < keeper->options->rank_count; ++i) {
        const uint64_t at_ns = keeper->ranks[i].restart_at_ns;
        if (at_ns > 0 && at_ns < until) until = at_ns;
    }
    return milliseconds(until, now);
}

static void poll_once(struct keeper *keeper)
{
    int count = keeper->options->rank_count;
    struct pollfd *polls = keeper->polls;
    polls[POLL_ORDERS] = (struct pollfd){.fd = keeper->orders_fd, .events = POLLIN};
    polls[POLL_CHILDREN] = (struct pollfd){.fd = keeper->children_fd, .events = POLLIN};
    polls[POLL_WATCH] = (struct pollfd){.fd = keeper->watch_fd, .events = POLLIN};
    outlet_poll(&keeper->outlet, polls + POLL_SINKS);
    for (int i = 0; i < 2 * count; ++i) {
        const struct stream *stream = keeper->ranks[i / 2].streams[i % 2];
        int fd = stream != NULL ? stream_wants(stream) : -1;
        polls[POLL_STREAMS + i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    if (poll(polls, POLL_STREAMS + 2 * (nfds_t)count, poll_timeout_ms(keeper, clock_now_ns())) < 0)
        return; /* EINTR or ENOMEM: try again */

    uint64_t now = clock_now_ns();
    const bool room = outlet_flush(&keeper->outlet, polls + POLL_SINKS);
    for (int i = 0; i < 2 * count; ++i) {
        struct stream *stream = keeper->ranks[i / 2].streams[i % 2];
        if (stream != NULL && (room || polls[POLL_STREAMS + i].revents != 0)) stream_pump(stream);
    }
    if (polls[POLL_CHILDREN].revents != 0) read_children(keeper, now);
    if (polls[POLL_WATCH].revents != 0) read_watch(keeper);
    if (polls[POLL_ORDERS].revents != 0) read_orders(keeper, now);
    if (keeper->phase != DONE) check_deadlines(keeper, now);
}

/* ---------------------------------------------------------------------------------------- whole */

static bool prepare(struct keeper *keeper)
{
    size_t count = (size_t)keeper->options->rank_count;
    keeper->ranks = calloc(count, sizeof *keeper->ranks);
    keeper->polls = calloc(POLL_STREAMS + 2 * count, sizeof *keeper->polls);
    keeper->cpus = CPU_ALLOC(CPUS_MAX);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    keeper->children_fd = signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
    if (keeper->ranks == NULL || keeper->polls == NULL || keeper->cpus == NULL ||
        keeper->children_fd < 0 || descendants_adopt() != 0)
        return false;
    if (has_conductor(keeper) && (keeper->watch_fd = elastic_watch()) < 0) return false;
    if (keeper->options->pin) {
        CPU_ZERO_S(CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus);
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus) != 0) return false;
        keeper->cpu_count = CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS_MAX), keeper->cpus);
    }
    /* Two pipes per rank. The limit that the user has set is restored in the ranks. */
    if (getrlimit(RLIMIT_NOFILE, &keeper->files_before) != 0) return false;
    struct rlimit files = {keeper->files_before.rlim_max, keeper->files_before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &files);
    return true;
}

static void release(struct keeper *keeper)
{
    for (int i = 0; keeper->ranks != NULL && i < 2 * keeper->options->rank_count; ++i)
        stream_free(keeper->ranks[i / 2].streams[i % 2]);
    outlet_close(&keeper->outlet);
    free(keeper->ranks);
    free(keeper->polls);
    CPU_FREE(keeper->cpus);
    if (keeper->children_fd >= 0) close(keeper->children_fd);
    if (keeper->watch_fd >= 0) close(keeper->watch_fd);
    close(keeper->orders_fd);
}

int keeper_run(const struct run_options *options, int orders_fd)
{
    struct keeper keeper = {.options = options,
                            .orders_fd = orders_fd,
                            .children_fd = -1,
                            .watch_fd = -1,
                            .phase_deadline_ns = NEVER,
                            .timeout_at_ns = NEVER};
    if (!outlet_open(&keeper.outlet, options->colours) || !prepare(&keeper)) {
        fprintf(stderr, "tutti-run: cannot start: %s\n", strerror(errno));
        release(&keeper);
        return RUN_FAILED;
    }
    keeper.start_by_ns =
        options->start_timeout_ns == NEVER ? NEVER : clock_now_ns() + options->start_timeout_ns;
    if (options->timeout_ns > 0) keeper.timeout_at_ns = clock_now_ns() + options->timeout_ns;
    int started = 0;
    while (started < options->rank_count && start_rank(&keeper, started)) ++started;
    close(options->stdin_fd); /* rank 0 has it: we must not hold its end back */
    if (started == options->rank_count) report(&keeper, REPORT_READY, 0);
    if (started < options->rank_count && keeper.phase != DONE) {
        signal_ranks(&keeper, SIGKILL);
        keeper.phase = KILLING;
        keeper.phase_deadline_ns = clock_now_ns() + KILL_NS;
    }
    if (keeper.running_count == 0 && keeper.phase != DONE) keeper.phase = LINGERING;
    if (keeper.phase == LINGERING) keeper.phase_deadline_ns = clock_now_ns();

    keeper.alive_said = options->rank_count;
    while (keeper.phase != DONE) {
        poll_once(&keeper);
        if (keeper.phase == FLUSHING) flush_streams(&keeper);
    }
    signal_ranks(&keeper, SIGKILL);
    descendants_kill();
    release(&keeper);
    return keeper.exit_code;
}
