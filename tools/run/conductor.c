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
#include "elastic.h"
#include "orders.h"
#include "os/clock.h"
#include "output.h"

#define SECOND_NS UINT64_C(1000000000)
#define CLOSE_NS (2 * SECOND_NS) /* from closing a connection to killing the remote shell */
#define END_NS \
    (8 * SECOND_NS)       /* in which a host obeys an order to end: SIGTERM, SIGKILL, and the way */
#define LOST_NS SECOND_NS /* until a lost host is tried again */
#define NEVER UINT64_MAX

enum {
    WORDS_MAX = 64,
    POLL_ORDERS = 0,
    POLL_CHILDREN,
    POLL_SINKS,
    POLL_AGENTS = POLL_SINKS + 2,
    POLLS_EACH = 3,
    SILENT_SECONDS = 15 /* seconds */
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
    uint64_t deadline_ns; /* to be ready; once the connection is closed, to have ended; if it waits, to start */

    int *ranks; /* that are on the host, ascending; there is room for slot_count */
    int rank_count;
    int node_index; /* among the hosts that have ranks at first, or whose place it takes */
    /* Of an elastic job. */
    bool joins;      /* the ranks have been on a host that is lost */
    bool is_idle;    /* over, and may get ranks */
    bool is_waiting; /* has ranks, and will be started; it is not over */
    int alive_count, member_count, finished_count; /* as reported */
    int restart_count;
    uint64_t idle_until_ns; /* a host that was lost is not tried again before */
    int silent_seconds;     /* of ours, since something came from the host */
    unsigned char address_order[ADDRESS_ORDER_BYTES];
    size_t address_left; /* bytes of it that are not sent */
    bool address_is_due; /* it has to be made of the newest address */
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
    bool has_team, is_over; /* of an elastic job: as in the keeper */
    bool has_address;
    unsigned char address[ADDRESS_BYTES];
    int last_code; /* of a rank that failed */
    uint64_t sign_at_ns;
};

static bool is_elastic(const struct conductor *conductor)
{
    return conductor->options->common.options.elastic_min > 0;
}

/* --------------------------------------------------------------------------------------- orders */

static void close_input(struct agent *agent)
{
    if (agent->input_fd >= 0) close(agent->input_fd);
    agent->input_fd = -1;
}

/* Whether there are bytes of an address to be sent. */
static bool prepare_address(struct agent *agent)
{
    if (agent->address_left > 0) return true;
    if (!agent->address_is_due) return false;
    address_order_write(agent->conductor->address, agent->address_order);
    agent->address_left = ADDRESS_ORDER_BYTES;
    agent->address_is_due = false;
    return true;
}

/* Sends the rest of the message, then an address and orders, as much as the pipe takes. */
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
    while (agent->input_fd >= 0 && prepare_address(agent)) {
        const size_t done = ADDRESS_ORDER_BYTES - agent->address_left;
        ssize_t sent = write(agent->input_fd, agent->address_order + done, agent->address_left);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) close_input(agent);
        if (sent > 0) agent->address_left -= (size_t)sent;
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

/* An agent that waits to be started will not be. */
static void dismiss_waiting(struct conductor *conductor)
{
    for (int i = 0; i < conductor->agent_count; ++i) {
        struct agent *agent = &conductor->agents[i];
        if (!agent->is_waiting) continue;
        agent->is_waiting = false;
        agent->is_over = true;
        agent->deadline_ns = NEVER;
        ++conductor->over_count;
    }
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
    dismiss_waiting(conductor);
    order_all(conductor, ORDER_GRACE);
    end_by(conductor, now + conductor->options->common.options.grace_ns + END_NS);
}

/* Hosts that are not ready have no rank to end. */
static void terminate(struct conductor *conductor, int exit_code, uint64_t now)
{
    decide(conductor, exit_code);
    dismiss_waiting(conductor);
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

/* The loop is over for all ranks at once; hosts of spares do not know it. */
static void take_finish(struct conductor *conductor)
{
    int finished = 0;
    for (int i = 0; i < conductor->agent_count; ++i)
        finished += conductor->agents[i].finished_count;
    if (!conductor->is_over) {
        conductor->is_over = true;
        dismiss_waiting(conductor);
        order_all(conductor, ORDER_OVER);
    }
    if (finished >= conductor->options->common.options.size) order_all(conductor, ORDER_TERMINATE);
}

/* Whether the job can go on. */
static void take_counts(struct conductor *conductor, uint64_t now)
{
    int alive = 0, members = 0;
    if (!is_elastic(conductor) || conductor->is_over || conductor->failed) return;
    for (int i = 0; i < conductor->agent_count; ++i) {
        const struct agent *agent = &conductor->agents[i];
        alive += agent->alive_count;
        members += agent->member_count;
    }
    if (members > 0 && !conductor->has_team) {
        conductor->has_team = true;
        order_all(conductor, ORDER_TEAM);
    }
    const bool is_lost = members == 0 && conductor->has_team;
    const int min = conductor->options->common.options.elastic_min;
    if (!is_lost && alive >= min) return;
    if (is_lost)
        outlet_say(&conductor->outlet, "no rank is left that others could join");
    else
        outlet_say(&conductor->outlet, "%d rank%s left, which is fewer than %d", alive,
                   alive == 1 ? " is" : "s are", min);
    begin_grace(conductor, conductor->last_code, now);
}

static void take_address(struct conductor *conductor, const unsigned char address[ADDRESS_BYTES])
{
    if (conductor->has_address && memcmp(conductor->address, address, ADDRESS_BYTES) == 0) return;
    conductor->has_address = true;
    memcpy(conductor->address, address, ADDRESS_BYTES);
    for (int i = 0; i < conductor->agent_count; ++i) {
        struct agent *agent = &conductor->agents[i];
        if (agent->is_over || agent->is_done) continue;
        agent->address_is_due = true;
        send_input(agent);
    }
}

/* A line_filter. */
static bool take_report(void *context, const char *line, size_t size)
{
    struct agent *agent = context;
    struct conductor *conductor = agent->conductor;
    enum report_kind kind;
    int code;
    unsigned char address[ADDRESS_BYTES];
    const char *const token = conductor->options->common.options.token;
    agent->silent_seconds = 0;
    if (is_elastic(conductor) && address_report_read(token, line, size, address)) {
        take_address(conductor, address);
        return true;
    }
    if (!report_read(token, line, size, &kind, &code)) return false;
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
        agent->alive_count = agent->member_count = 0;
        close_connection(agent, now);
        take_counts(conductor, now);
        break;
    case REPORT_DIED: conductor->last_code = code; break;
    case REPORT_ALIVE:
        agent->alive_count = code;
        take_counts(conductor, now);
        break;
    case REPORT_MEMBERS:
        agent->member_count = code;
        take_counts(conductor, now);
        break;
    case REPORT_FINISHED:
        agent->finished_count = code;
        take_finish(conductor);
        break;
    case REPORT_KINDS: break;
    }
    return true;
}

static void wait_to_start(struct agent *agent, uint64_t at_ns)
{
    agent->is_idle = false;
    agent->is_waiting = true;
    agent->joins = true;
    agent->alive_count = agent->rank_count;
    agent->deadline_ns = at_ns;
    if (!agent->is_over) return;
    agent->is_over = false;
    --agent->conductor->over_count;
}

/* Gives ranks of a lost host to a host without ranks, as many as it takes. */
static void hand_over(struct agent *lost, struct agent *to, uint64_t now)
{
    const int room = to->host->slot_count;
    const int count = lost->rank_count < room ? lost->rank_count : room;
    memcpy(to->ranks, lost->ranks, (size_t)count * sizeof *to->ranks);
    lost->rank_count -= count;
    memmove(lost->ranks, lost->ranks + count, (size_t)lost->rank_count * sizeof *lost->ranks);
    to->rank_count = count;
    to->restart_count = lost->restart_count;
    to->node_index = lost->node_index;
    wait_to_start(to, now > to->idle_until_ns ? now : to->idle_until_ns);
    outlet_say(&lost->conductor->outlet, "starting %d rank%s of host %s on host %s", count,
               count == 1 ? "" : "s", lost->host->name, to->host->name);
}

/* The ranks of a host that is lost are started again elsewhere, or there; or never. */
static void recover(struct agent *agent, uint64_t now)
{
    struct conductor *conductor = agent->conductor;
    const int restart_max = conductor->options->common.options.restart_max;
    agent->alive_count = agent->member_count = 0;
    if (conductor->last_code == 0) conductor->last_code = RUN_FAILED;
    if (agent->restart_count++ < restart_max) {
        for (int i = 0; i < conductor->agent_count && agent->rank_count > 0; ++i)
            if (conductor->agents[i].is_idle) hand_over(agent, &conductor->agents[i], now);
        agent->idle_until_ns = now + LOST_NS + elastic_pause_ns(0, agent->restart_count);
        agent->is_idle = agent->rank_count == 0;
        if (!agent->is_idle) wait_to_start(agent, agent->idle_until_ns);
    } else {
        outlet_say(&conductor->outlet, "host %s has been tried again %d times", agent->host->name,
                   restart_max);
    }
    take_counts(conductor, now);
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
    if (is_elastic(conductor) && conductor->has_team && !conductor->failed && !conductor->is_over &&
        conductor->ending_order_count == 0)
        recover(agent, now);
    else if (agent->is_ready)
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
    message.options.rank_count = agent->rank_count;
    message.options.ranks = agent->ranks;
    message.options.joins = agent->joins;
    message.options.node_index = agent->node_index;
    message.options.host = agent->host->name;
    return message_write(&message, &agent->message, &agent->message_bytes);
}

/* The remains of an earlier start. */
static void prepare_start(struct agent *agent)
{
    const struct conductor *conductor = agent->conductor;
    for (int i = 0; i < 2; ++i) stream_free(agent->streams[i]);
    free(agent->message);
    agent->message = NULL;
    agent->message_bytes = agent->sent_bytes = agent->address_left = 0;
    agent->streams[0] = agent->streams[1] = NULL;
    agent->orders.count = 0;
    agent->is_ready = agent->is_done = agent->is_killed = agent->is_waiting = false;
    agent->silent_seconds = 0;
    agent->address_is_due = conductor->has_address;
    if (conductor->has_team) orders_add(&agent->orders, ORDER_TEAM);
}

static bool start_agent(struct agent *agent)
{
    struct conductor *conductor = agent->conductor;
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    errno = E2BIG;
    prepare_start(agent);
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
        if (agent->is_over || start_agent(agent)) continue;
        outlet_say(&conductor->outlet, "host %s: cannot start: %s", agent->host->name,
                   strerror(errno));
        terminate(conductor, RUN_FAILED, clock_now_ns());
        for (int j = i; j < conductor->agent_count; ++j) {
            if (conductor->agents[j].running || conductor->agents[j].is_over) continue;
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
    if (order_ends(order)) dismiss_waiting(conductor);
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

static void start_again(struct agent *agent, uint64_t now)
{
    if (start_agent(agent)) return;
    outlet_say(&agent->conductor->outlet, "host %s: cannot start: %s", agent->host->name,
               strerror(errno));
    if (!agent->running) recover(agent, now); /* else by its end */
    close_connection(agent, now);
}

/* A host that gives no sign of life is left. This process counts the seconds in which it has
 * looked for signs, as it may have stood still itself. */
static void check_silence(struct agent *agent)
{
    struct conductor *conductor = agent->conductor;
    if (agent->is_over || !agent->is_ready || agent->input_fd < 0 || waits_for_reader(agent))
        return;
    if (++agent->silent_seconds < SILENT_SECONDS) return;
    outlet_say(&conductor->outlet, "host %s gives no sign of life for %d s", agent->host->name,
               SILENT_SECONDS);
    close_input(agent);
    agent->is_killed = true;
    kill(-agent->pid, SIGKILL);
    kill(agent->pid, SIGKILL);
}

static void check_agent(struct agent *agent, uint64_t now)
{
    struct conductor *conductor = agent->conductor;
    if (agent->is_over || now < agent->deadline_ns) return;
    agent->deadline_ns = NEVER;
    if (agent->is_waiting) {
        start_again(agent, now);
    } else if (agent->input_fd >= 0 && agent->joins) {
        close_connection(agent, now);
    } else if (agent->input_fd >= 0) {
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
    if (is_elastic(conductor) && now >= conductor->sign_at_ns) {
        for (int i = 0; i < conductor->agent_count; ++i) check_silence(&conductor->agents[i]);
        conductor->sign_at_ns = now + SECOND_NS;
    }
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
    if (is_elastic(conductor) && conductor->sign_at_ns < until) until = conductor->sign_at_ns;
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
    bool has_input = agent->sent_bytes < agent->message_bytes || agent->orders.count > 0 ||
                     agent->address_left > 0 || agent->address_is_due;
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
        if (!agent->running && !agent->is_over && !agent->is_waiting) settle(agent, now);
    }
    if (polls[POLL_ORDERS].revents != 0) read_orders(conductor, now);
    check_deadlines(conductor, now);
}

/* ---------------------------------------------------------------------------------------- whole */

static int node_index_of(const struct conductor *conductor, const struct host *host)
{
    const struct host *const list = conductor->options->hosts->list;
    const int size = conductor->options->common.options.size;
    return hosts_used(list, (int)(host - list) + 1, size) - 1;
}

static bool prepare_agent(struct conductor *conductor, struct agent *agent, const struct host *host)
{
    const bool is_idle = host->rank_count == 0;
    *agent = (struct agent){.conductor = conductor,
                            .host = host,
                            .input_fd = -1,
                            .is_idle = is_idle,
                            .is_over = is_idle,
                            .ranks = calloc((size_t)host->slot_count, sizeof *agent->ranks),
                            .rank_count = host->rank_count,
                            .node_index = node_index_of(conductor, host),
                            .alive_count = host->rank_count,
                            .deadline_ns = NEVER};
    conductor->over_count += is_idle;
    if (agent->ranks == NULL) return false;
    memcpy(agent->ranks, host->ranks, (size_t)host->rank_count * sizeof *agent->ranks);
    return true;
}

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
        if (!prepare_agent(conductor, &conductor->agents[i], &conductor->options->hosts->list[i]))
            return false;
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
    for (int i = 0; i < conductor->agent_count; ++i) free(conductor->agents[i].ranks);
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
