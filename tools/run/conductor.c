#include "conductor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "descendants.h"
#include "orders.h"
#include "os/clock.h"
#include "output.h"

#define SECOND_NS UINT64_C(1000000000)
#define CLOSE_NS (2 * SECOND_NS) /* from closing a connection to killing the remote shell */
#define END_NS \
    (8 * SECOND_NS) /* in which a host obeys an order to end: SIGTERM, SIGKILL, and the way */
#define NEVER UINT64_MAX

enum {
    WORDS_MAX = 64,
    POLL_ORDERS = 0,
    POLL_CHILDREN,
    POLL_SINKS,
    POLL_AGENTS = POLL_SINKS + 2,
    POLLS_EACH = 3
};

struct conductor;

struct agent {
    struct conductor *conductor;
    const struct host *host;
    pid_t pid; /* of the remote shell */
    bool running;
    int status;   /* as from waitpid, once it has ended */
    int input_fd; /* its stdin; -1: closed */
    unsigned char *message;
    size_t message_bytes, sent_bytes;
    struct orders orders; /* behind the message */
    struct stream *streams[2];
    bool is_ready, is_done; /* as reported */
    bool is_over;           /* the remote shell has ended, and all it wrote was read */
    bool is_killed;
    uint64_t deadline_ns; /* to be ready; once the connection is closed, to have ended */
};

struct conductor {
    const struct conductor_options *options;
    int orders_fd;
    int children_fd;
    struct outlet outlet;
    struct agent *agents;
    int agent_count;
    int over_count;
    struct pollfd *polls;
    struct rlimit files_before;
    uint64_t timeout_at_ns;
    uint64_t end_at_ns; /* whoever is still there then is left */
    int exit_code;
    bool failed; /* exit_code is decided */
    bool is_terminating;
    int ending_order_count;
    bool front_has_gone, gives_up;
};

/* --------------------------------------------------------------------------------------- orders */

static void close_input(struct agent *agent)
{
    if (agent->input_fd >= 0) close(agent->input_fd);
    agent->input_fd = -1;
}

/* Sends the rest of the message, then orders, as much as the pipe takes. */
static void send_input(struct agent *agent)
{
    while (agent->input_fd >= 0 && agent->sent_bytes < agent->message_bytes) {
        ssize_t sent = write(agent->input_fd, agent->message + agent->sent_bytes,
                             agent->message_bytes - agent->sent_bytes);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) close_input(agent); /* why, we shall learn by its end */
        if (sent > 0) agent->sent_bytes += (size_t)sent;
    }
    while (agent->input_fd >= 0 && agent->orders.count > 0) {
        ssize_t sent = write(agent->input_fd, agent->orders.line, (size_t)agent->orders.count);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) close_input(agent);
        if (sent <= 0) return;
        orders_remove(&agent->orders, (int)sent);
    }
}

static void give_order(struct agent *agent, int order)
{
    if (agent->is_over || agent->is_done) return;
    orders_add(&agent->orders, (unsigned char)order);
    send_input(agent);
}

static void order_all(struct conductor *conductor, int order)
{
    for (int i = 0; i < conductor->agent_count; ++i) give_order(&conductor->agents[i], order);
}

/* An agent whose stdin has ended ends its ranks. One that does not answer has perhaps not been
 * reached at all. */
static void close_connection(struct agent *agent, uint64_t now)
{
    if (agent->input_fd < 0 || agent->is_over) return;
    close_input(agent);
    agent->deadline_ns = now + CLOSE_NS;
    if (!agent->is_ready) kill(-agent->pid, SIGTERM);
}

static void end_by(struct conductor *conductor, uint64_t deadline_ns)
{
    if (deadline_ns < conductor->end_at_ns) conductor->end_at_ns = deadline_ns;
}

/* Only the first one counts. */
static void decide(struct conductor *conductor, int exit_code)
{
    if (!conductor->failed) conductor->exit_code = exit_code;
    conductor->failed = true;
}

/* A rank has failed, or a host is lost: the other ranks have time to end. */
static void begin_grace(struct conductor *conductor, int exit_code, uint64_t now)
{
    decide(conductor, exit_code);
    order_all(conductor, ORDER_GRACE);
    end_by(conductor, now + conductor->options->common.options.grace_ns + END_NS);
}

/* Hosts that are not ready have no rank to end. */
static void terminate(struct conductor *conductor, int exit_code, uint64_t now)
{
    decide(conductor, exit_code);
    if (conductor->is_terminating) return;
    conductor->is_terminating = true;
    for (int i = 0; i < conductor->agent_count; ++i) {
        struct agent *agent = &conductor->agents[i];
        if (agent->is_ready)
            give_order(agent, ORDER_TERMINATE);
        else
            close_connection(agent, now);
    }
    end_by(conductor, now + END_NS);
}

/* -------------------------------------------------------------------------------------- reports */

/* A line_filter. */
static bool take_report(void *context, const char *line, size_t size)
{
    struct agent *agent = context;
    struct conductor *conductor = agent->conductor;
    enum report_kind kind;
    int code;
    if (!report_read(conductor->options->common.options.token, line, size, &kind, &code))
        return false;
    const uint64_t now = clock_now_ns();
    if (!agent->is_ready) agent->deadline_ns = NEVER;
    agent->is_ready = true;
    switch (kind) {
    case REPORT_READY:
        if (conductor->is_terminating) give_order(agent, ORDER_TERMINATE);
        break;
    case REPORT_FAILED:
        if (!conductor->failed) begin_grace(conductor, code, now);
        break;
    case REPORT_DONE:
        if (code != 0 && !conductor->failed) begin_grace(conductor, code, now);
        agent->is_done = true;
        close_connection(agent, now);
        break;
    }
    return true;
}

static void lose(struct agent *agent, uint64_t now)
{
    struct conductor *conductor = agent->conductor;
    char how[80];
    child_describe_end(agent->status, how, sizeof how);
    const char *shell = conductor->options->remote_shell[0], *host = agent->host->name;
    if (!conductor->failed && agent->is_ready)
        outlet_say(&conductor->outlet, "host %s is lost: %s %s", host, shell, how);
    else if (!conductor->failed)
        outlet_say(&conductor->outlet, "host %s could not be reached: %s %s", host, shell, how);
    if (agent->is_ready)
        begin_grace(conductor, RUN_FAILED, now);
    else
        terminate(conductor, RUN_FAILED, now);
}

/* Once the remote shell has ended and everything it wrote was read. */
static void settle(struct agent *agent, uint64_t now)
{
    bool read = true;
    for (int i = 0; i < 2; ++i) {
        if (agent->streams[i] != NULL) read = stream_finish(agent->streams[i]) && read;
    }
    if (!read) return;
    agent->is_over = true;
    ++agent->conductor->over_count;
    close_input(agent);
    agent->deadline_ns = NEVER;
    if (!agent->is_done) lose(agent, now);
}

/* ------------------------------------------------------------------------------------- starting */

/* The other side's shell reads it once more. */
static char *quote(const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,";
    char *quoted = malloc(4 * strlen(text) + 3), *to = quoted;
    if (quoted == NULL || text[strspn(text, plain)] == '\0')
        return quoted == NULL ? NULL : strcpy(quoted, text);
    *to++ = '\'';
    for (; *text != '\0'; ++text) {
        if (*text == '\'') to = stpcpy(to, "'\\'");
        *to++ = *text;
    }
    stpcpy(to, "'");
    return quoted;
}

/* Everything between fork and exec. */
_Noreturn static void become_shell(const struct conductor *conductor, const struct host *host,
                                   pid_t conductor_pid, const int ends[3])
{
    const struct conductor_options *options = conductor->options;
    char *words[WORDS_MAX + 4];
    int count = 0;
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != conductor_pid) _exit(RUN_FAILED);
    setpgid(0, 0); /* signals from the keyboard are for us */
    for (int i = 0; i < 3; ++i) {
        if (dup2(ends[i], i) < 0) _exit(RUN_FAILED);
    }
    while (count < WORDS_MAX && options->remote_shell[count] != NULL) {
        words[count] = options->remote_shell[count];
        ++count;
    }
    words[count++] = host->name;
    words[count++] = quote(options->remote_path);
    words[count++] = (char[]){"--agent"};
    words[count] = NULL;
    setrlimit(RLIMIT_NOFILE, &conductor->files_before);
    sigprocmask(SIG_SETMASK, &options->common.options.signals_before, NULL);
    if (words[count - 2] != NULL) execvp(words[0], words);
    fprintf(stderr, "tutti-run: cannot execute %s: %s\n", words[0], strerror(errno));
    _exit(errno == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_EXEC);
}

static bool write_message(struct agent *agent)
{
    const struct conductor *conductor = agent->conductor;
    struct message message = conductor->options->common;
    message.options.rank_count = agent->host->rank_count;
    message.options.ranks = agent->host->ranks;
    message.options.node_index = (int)(agent - conductor->agents);
    message.options.host = agent->host->name;
    return message_write(&message, &agent->message, &agent->message_bytes);
}

static bool start_agent(struct agent *agent)
{
    struct conductor *conductor = agent->conductor;
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    errno = E2BIG;
    if (!write_message(agent)) return false;
    for (int i = 0; i < 3; ++i) {
        if (pipe2(pipes[i], O_CLOEXEC) != 0) goto close_pipes;
    }
    pid_t conductor_pid = getpid();
    agent->pid = fork();
    if (agent->pid < 0) goto close_pipes;
    if (agent->pid == 0)
        become_shell(conductor, agent->host, conductor_pid,
                     (int[]){pipes[0][0], pipes[1][1], pipes[2][1]});
    setpgid(agent->pid, agent->pid); /* both sides do, or one of them would be late for kill() */
    agent->running = true;
    agent->deadline_ns = clock_now_ns() + conductor->options->start_timeout_ns;
    agent->input_fd = pipes[0][1];
    fcntl(agent->input_fd, F_SETFL, O_NONBLOCK);
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    for (int i = 0; i < 2; ++i)
        agent->streams[i] = stream_create(pipes[i + 1][0], conductor->outlet.sinks[i], -1);
    if (agent->streams[1] != NULL) stream_set_filter(agent->streams[1], take_report, agent);
    errno = ENOMEM;
    return agent->streams[0] != NULL && agent->streams[1] != NULL;

close_pipes:
    for (int i = 0; i < 6; ++i) {
        if (pipes[i / 2][i % 2] >= 0) close(pipes[i / 2][i % 2]);
    }
    return false;
}

static void start_agents(struct conductor *conductor)
{
    for (int i = 0; i < conductor->agent_count; ++i) {
        struct agent *agent = &conductor->agents[i];
        if (start_agent(agent)) continue;
        outlet_say(&conductor->outlet, "host %s: cannot start: %s", agent->host->name,
                   strerror(errno));
        terminate(conductor, RUN_FAILED, clock_now_ns());
        for (int j = i; j < conductor->agent_count; ++j) {
            if (conductor->agents[j].running) continue;
            conductor->agents[j].is_over = true;
            ++conductor->over_count;
        }
        return;
    }
}

/* -------------------------------------------------------------------------------------- running */

static void obey(struct conductor *conductor, int order, uint64_t now)
{
    bool all_ready = true;
    for (int i = 0; i < conductor->agent_count; ++i)
        all_ready = all_ready && (conductor->agents[i].is_ready || conductor->agents[i].is_over);
    order_all(conductor, order);
    if (!order_ends(order)) return;
    ++conductor->ending_order_count;
    if (!all_ready)
        terminate(conductor, RUN_SIGNALLED + order, now);
    else if (conductor->ending_order_count >= 2)
        end_by(conductor, now + END_NS);
    if (conductor->over_count == conductor->agent_count && !outlet_is_empty(&conductor->outlet)) {
        /* Nobody reads our output, and the user has had enough. */
        decide(conductor, RUN_SIGNALLED + order);
        conductor->gives_up = true;
    }
}

static void read_orders(struct conductor *conductor, uint64_t now)
{
    unsigned char orders[64];
    ssize_t got = read(conductor->orders_fd, orders, sizeof orders);
    if (got == 0) conductor->front_has_gone = true;
    for (ssize_t i = 0; i < got; ++i) obey(conductor, orders[i], now);
}

static void read_children(struct conductor *conductor)
{
    struct signalfd_siginfo info[8];
    pid_t pid;
    int status;
    while (read(conductor->children_fd, info, sizeof info) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < conductor->agent_count; ++i) {
            struct agent *agent = &conductor->agents[i];
            if (!agent->running || agent->pid != pid) continue;
            agent->running = false;
            agent->status = status;
        }
    }
}

/* Reads output that has come, or output for which there is room again. Output that a host wrote
 * before its end may take any time to come. */
static void read_agent(struct agent *agent, const struct pollfd polls[2], bool room, uint64_t now)
{
    for (int i = 0; i < 2; ++i) {
        struct stream *stream = agent->streams[i];
        if (stream == NULL || !(room || polls[i].revents != 0)) continue;
        stream_pump(stream);
        if (agent->is_done && !agent->is_killed) agent->deadline_ns = now + CLOSE_NS;
    }
}

static bool waits_for_reader(const struct agent *agent)
{
    for (int i = 0; i < 2; ++i) {
        const struct stream *stream = agent->streams[i];
        if (stream != NULL && stream_wants(stream) < 0 && !stream_is_done(stream)) return true;
    }
    return false;
}

static void check_agent(struct agent *agent, uint64_t now)
{
    struct conductor *conductor = agent->conductor;
    if (agent->is_over || now < agent->deadline_ns) return;
    agent->deadline_ns = NEVER;
    if (agent->input_fd >= 0) {
        if (!conductor->failed)
            outlet_say(&conductor->outlet,
                       "host %s could not be reached: its ranks do not run after %g s",
                       agent->host->name, (double)conductor->options->start_timeout_ns / 1e9);
        terminate(conductor, RUN_FAILED, now);
        close_connection(agent, now);
    } else if (agent->is_done && waits_for_reader(agent)) {
        agent->deadline_ns = now + CLOSE_NS;
    } else if (agent->running && !agent->is_killed) {
        agent->is_killed = true;
        kill(-agent->pid, SIGKILL);
        kill(agent->pid, SIGKILL); /* it may have left its group */
    }
}

static void check_deadlines(struct conductor *conductor, uint64_t now)
{
    for (int i = 0; i < conductor->agent_count; ++i) check_agent(&conductor->agents[i], now);
    if (now >= conductor->timeout_at_ns) {
        conductor->timeout_at_ns = NEVER;
        if (!conductor->failed)
            outlet_say(&conductor->outlet, "the time limit of %g s has passed",
                       (double)conductor->options->common.options.timeout_ns / 1e9);
        conductor->gives_up = conductor->over_count == conductor->agent_count;
        terminate(conductor, RUN_TIMED_OUT, now);
    }
    if (now < conductor->end_at_ns) return;
    conductor->end_at_ns = NEVER;
    for (int i = 0; i < conductor->agent_count; ++i) {
        struct agent *agent = &conductor->agents[i];
        if (agent->is_over || agent->input_fd < 0) continue;
        outlet_say(&conductor->outlet, "host %s does not end: closing the connection to it",
                   agent->host->name);
        close_connection(agent, now);
    }
}

static int poll_timeout_ms(const struct conductor *conductor, uint64_t now)
{
    uint64_t until = conductor->end_at_ns;
    if (conductor->timeout_at_ns < until) until = conductor->timeout_at_ns;
    for (int i = 0; i < conductor->agent_count; ++i) {
        const struct agent *agent = &conductor->agents[i];
        if (!agent->is_over && agent->deadline_ns < until) until = agent->deadline_ns;
    }
    if (until == NEVER) return -1;
    uint64_t ms = until > now ? (until - now + 999999) / 1000000 : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void poll_agent(const struct agent *agent, struct pollfd polls[POLLS_EACH])
{
    bool has_input = agent->sent_bytes < agent->message_bytes || agent->orders.count > 0;
    polls[0] = (struct pollfd){.fd = has_input ? agent->input_fd : -1, .events = POLLOUT};
    for (int i = 0; i < 2; ++i) {
        const struct stream *stream = agent->streams[i];
        int fd = stream != NULL ? stream_wants(stream) : -1;
        polls[i + 1] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}

static void poll_once(struct conductor *conductor)
{
    struct pollfd *polls = conductor->polls;
    const int count = conductor->agent_count;
    polls[POLL_ORDERS] = (struct pollfd){.fd = conductor->orders_fd, .events = POLLIN};
    polls[POLL_CHILDREN] = (struct pollfd){.fd = conductor->children_fd, .events = POLLIN};
    outlet_poll(&conductor->outlet, polls + POLL_SINKS);
    for (int i = 0; i < count; ++i)
        poll_agent(&conductor->agents[i], polls + POLL_AGENTS + POLLS_EACH * i);
    if (poll(polls, POLL_AGENTS + POLLS_EACH * (nfds_t)count,
             poll_timeout_ms(conductor, clock_now_ns())) < 0)
        return; /* EINTR or ENOMEM: try again */

    const uint64_t now = clock_now_ns();
    const bool room = outlet_flush(&conductor->outlet, polls + POLL_SINKS);
    for (int i = 0; i < count; ++i) {
        struct agent *agent = &conductor->agents[i];
        const struct pollfd *its = polls + POLL_AGENTS + POLLS_EACH * i;
        if (its[0].revents != 0) send_input(agent);
        read_agent(agent, its + 1, room, now);
    }
    if (polls[POLL_CHILDREN].revents != 0) read_children(conductor);
    for (int i = 0; i < count; ++i) {
        struct agent *agent = &conductor->agents[i];
        if (!agent->running && !agent->is_over) settle(agent, now);
    }
    if (polls[POLL_ORDERS].revents != 0) read_orders(conductor, now);
    check_deadlines(conductor, now);
}

/* ---------------------------------------------------------------------------------------- whole */

static bool prepare(struct conductor *conductor)
{
    const size_t count = (size_t)conductor->options->hosts->count;
    conductor->agents = calloc(count, sizeof *conductor->agents);
    conductor->polls = calloc(POLL_AGENTS + POLLS_EACH * count, sizeof *conductor->polls);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    conductor->children_fd = signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
    if (conductor->agents == NULL || conductor->polls == NULL || conductor->children_fd < 0 ||
        descendants_adopt() != 0)
        return false;
    conductor->agent_count = (int)count;
    for (size_t i = 0; i < count; ++i)
        conductor->agents[i] = (struct agent){.conductor = conductor,
                                              .host = &conductor->options->hosts->list[i],
                                              .input_fd = -1,
                                              .deadline_ns = NEVER};
    /* Three pipes per host. The limit that the user has set is restored in the remote shells. */
    if (getrlimit(RLIMIT_NOFILE, &conductor->files_before) != 0) return false;
    struct rlimit files = {conductor->files_before.rlim_max, conductor->files_before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &files);
    return true;
}

/* Closes whatever is still open and lets the remote shells tell the other side. Kills the shells
 * that do not end. */
static void part(struct conductor *conductor)
{
    const uint64_t deadline_ns = clock_now_ns() + CLOSE_NS;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    bool running = true;
    for (int i = 0; i < conductor->agent_count; ++i) {
        struct agent *agent = &conductor->agents[i];
        close_input(agent);
        for (int j = 0; j < 2; ++j) stream_free(agent->streams[j]); /* they must not wait for us */
        free(agent->message);
    }
    while (running && clock_now_ns() < deadline_ns) {
        read_children(conductor);
        running = false;
        for (int i = 0; i < conductor->agent_count; ++i)
            running = running || conductor->agents[i].running;
        if (running) sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = 20000000});
    }
    descendants_kill();
}

static void release(struct conductor *conductor)
{
    outlet_close(&conductor->outlet);
    free(conductor->agents);
    free(conductor->polls);
    if (conductor->children_fd >= 0) close(conductor->children_fd);
    close(conductor->orders_fd);
}

int conductor_run(const struct conductor_options *options, int orders_fd)
{
    struct conductor conductor = {.options = options,
                                  .orders_fd = orders_fd,
                                  .children_fd = -1,
                                  .timeout_at_ns = NEVER,
                                  .end_at_ns = NEVER};
    if (!outlet_open(&conductor.outlet, options->common.options.colours) || !prepare(&conductor)) {
        fprintf(stderr, "tutti-run: cannot start: %s\n", strerror(errno));
        release(&conductor);
        return RUN_FAILED;
    }
    if (options->common.options.timeout_ns > 0)
        conductor.timeout_at_ns = clock_now_ns() + options->common.options.timeout_ns;
    start_agents(&conductor);
    while (!conductor.front_has_gone && !conductor.gives_up &&
           (conductor.over_count < conductor.agent_count || !outlet_is_empty(&conductor.outlet)))
        poll_once(&conductor);
    part(&conductor);
    release(&conductor);
    return conductor.exit_code;
}
