#include "process/monitor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/fork.h"
#include "os/local_socket.h"
#include "os/thread.h"

enum {
    NAMES_MAX = 4096,
    NAMES_LOOKED_AT = 4
}; /* the others look by themselves, if a little later */
static const uint64_t REQUEST_NS = 100000000, ANSWER_NS = 1000000000;
/* Without accepting, or polling, when the system has no descriptors or memory for it. */
static const uint64_t WRITE_NS = 2000000000u; /* for a file system to take a file */
static const uint64_t STARVED_PAUSE_NS = 100000000;

/* Why the thread was woken. */
enum { EVENT_LOOK = 1, EVENT_DUMP = 2 };
enum { METRICS_NAME_BYTES = FILE_MARK_SIZE + 16 };

struct options {
    const char *metrics_folder; /* of the environment; NULL: none */
    uint64_t interval_ns;
    int signal; /* 0: none */
};

static pthread_mutex_t life =
    PTHREAD_MUTEX_INITIALIZER; /* who comes or goes has it, and waits for the thread with it */
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* protects what follows; taken after `life` */
static struct monitor_client *clients;
static pthread_t thread;
static bool thread_runs, thread_is_up,
    has_failed; /* failed: it could not start, and that was said */
static int listening_fd = -1;
static char metrics_folder[PATH_MAX];     /* "": none */
static char metrics_mark[FILE_MARK_SIZE]; /* of the file; "": not chosen yet */
static uint64_t metrics_interval_ns;
static struct metrics_counts gone; /* of communicators that are freed */
static int watched_signal;         /* 0: none */

/* These are also written by a signal handler. */
static _Atomic unsigned events;
static _Atomic int wake_fd = -1;
static _Atomic int wakers; /* that may be about to write to it */

/* -------------------------------------------------------------------------------------- options */

static bool read_signal_number(const char *text, int *number)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > SIGRTMAX) return false;
    *number = (int)value;
    return true;
}

/* Reads a signal that programs use among each other. Not accepted: signals that say that this
 * program is broken, and signals that cannot be caught. */
static enum tutti_status read_signal(int *number)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
                 {"USR2", SIGUSR2}, {"URG", SIGURG},   {"WINCH", SIGWINCH}};
    const char *text = option_text(OPTION_TRACE_SIGNAL);
    *number = 0;
    if (text == NULL) return TUTTI_OK;
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
    int value = 0;
    const bool is_number = read_signal_number(text, &value);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_number ? value == known[i].number : strcmp(name, known[i].name) == 0)
            *number = known[i].number;
    if (is_number && value >= SIGRTMIN) *number = value;
    return *number != 0 ? TUTTI_OK : option_refuse(OPTION_TRACE_SIGNAL, text);
}

static enum tutti_status read_options(struct options *options)
{
    const char *folder = option_text(OPTION_METRICS_DIR);
    options->metrics_folder = folder;
    if (folder != NULL && strlen(folder) >= sizeof metrics_folder - METRICS_NAME_BYTES)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: the name is too long",
                         option_names.METRICS_DIR);
    TRY(option_duration(OPTION_METRICS_INTERVAL, &options->interval_ns));
    return read_signal(&options->signal);
}

enum tutti_status monitor_check_options(void)
{
    struct options options;
    return read_options(&options);
}

/* --------------------------------------------------------------------------------------- waking */

static void wake(unsigned event)
{
    const uint64_t one = 1;
    atomic_fetch_or(&events, event);
    atomic_fetch_add(&wakers, 1);
    const int fd = atomic_load(&wake_fd);
    const ssize_t written = fd >= 0 ? write(fd, &one, sizeof one) : 0;
    (void)written; /* where it is full, it wakes */
    atomic_fetch_sub(&wakers, 1);
}

void monitor_look(void)
{
    wake(EVENT_LOOK);
}

static void handle_signal(int number)
{
    (void)number;
    const int error = errno;
    wake(EVENT_DUMP);
    errno = error;
}

/* Watches a signal, unless the application handles it itself. */
static void watch_signal(int number)
{
    struct sigaction current;
    if (number == 0 || sigaction(number, NULL, &current) != 0) return;
    const bool has_info = (current.sa_flags & SA_SIGINFO) != 0;
    const bool is_own = !has_info && current.sa_handler == handle_signal;
    if (!is_own && (has_info || current.sa_handler != SIG_DFL)) {
        log_write(LOG_WARN, "%s: the application handles signal %d itself; it keeps it",
                  option_names.TRACE_SIGNAL, number);
        return;
    }
    struct sigaction own = {.sa_handler = handle_signal, .sa_flags = SA_RESTART};
    sigemptyset(&own.sa_mask);
    if (sigaction(number, &own, NULL) == 0) watched_signal = number;
}

static void unwatch_signal(void)
{
    struct sigaction current;
    const int number = watched_signal;
    watched_signal = 0;
    if (number == 0 || sigaction(number, NULL, &current) != 0) return;
    if ((current.sa_flags & SA_SIGINFO) != 0 || current.sa_handler != handle_signal) return;
    signal(number, SIG_DFL);
}

/* -------------------------------------------------------------------------------------- metrics */

/* With the lock held. */
static char *measure(size_t *size)
{
    size_t count = 0;
    for (struct monitor_client *c = clients; c != NULL; c = c->next) count++;
    struct metrics_communicator *communicators = calloc(count + 1, sizeof *communicators);
    struct metrics_counts sum = gone;
    char *text = NULL;
    FILE *file = communicators != NULL ? open_memstream(&text, size) : NULL;
    if (file != NULL) {
        size_t i = 0;
        for (struct monitor_client *c = clients; c != NULL; c = c->next)
            c->measure(c, &sum, &communicators[i++]);
        metrics_print(metrics_mark, &sum, communicators, count, file);
        if (fclose(file) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(communicators);
    return text;
}

/* With the lock held. */
static void write_metrics(void)
{
    char path[sizeof metrics_folder + METRICS_NAME_BYTES];
    size_t size;
    if (metrics_mark[0] == '\0') file_make_mark(metrics_mark);
    char *text = measure(&size);
    if (text == NULL) return;
    snprintf(path, sizeof path, "%s/tutti-%s.prom", metrics_folder, metrics_mark);
    static bool has_complained;
    const enum tutti_status status = file_replace_within(metrics_folder, path, text, size, WRITE_NS);
    if (status != TUTTI_OK && !has_complained)
        log_write(LOG_WARN, "%s: %s", option_names.METRICS_DIR, tutti_error_message());
    has_complained = status != TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- answers */

void monitor_name(pid_t pid, int n, char name[static MONITOR_NAME_SIZE])
{
    snprintf(name, MONITOR_NAME_SIZE, n == 0 ? "%s%d" : "%s%d.%d", MONITOR_NAME_PREFIX, (int)pid, n);
}

static void call_all(void (*call)(struct monitor_client *client))
{
    for (struct monitor_client *c = clients; c != NULL; c = c->next) call(c);
}

static void look_one(struct monitor_client *client)
{
    client->look(client);
}

static void dump_one(struct monitor_client *client)
{
    client->dump(client);
}

/* The n-th client's words; NULL: there are no more, or no memory. */
static char *describe(size_t n, size_t *size)
{
    char *text = NULL;
    pthread_mutex_lock(&lock);
    struct monitor_client *client = clients;
    for (; n > 0 && client != NULL; n--) client = client->next;
    FILE *file = client != NULL ? open_memstream(&text, size) : NULL;
    if (file != NULL) {
        client->describe(client, file);
        if (fclose(file) != 0) {
            free(text);
            text = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return text;
}

/* All parts but the last have the largest size, so a shorter one says that the answer is whole. */
static bool send_answer(int fd, const char *text, size_t size, uint64_t deadline_ns)
{
    static const char end[] = {'\n'}; /* after a text that ends with a part of the largest size */
    size_t sent = 0;
    for (; size - sent >= MONITOR_MESSAGE_BYTES_MAX; sent += MONITOR_MESSAGE_BYTES_MAX)
        if (local_socket_send(fd, text + sent, MONITOR_MESSAGE_BYTES_MAX, NULL, 0, deadline_ns) !=
            TUTTI_OK)
            return false;
    const bool has_more = sent < size;
    return local_socket_send(fd, has_more ? text + sent : end, has_more ? size - sent : sizeof end,
                             NULL, 0, deadline_ns) == TUTTI_OK;
}

/* Clients that come or go meanwhile may be told twice, or not at all. */
static void answer_query(int fd)
{
    const uint64_t deadline_ns = clock_now_ns() + ANSWER_NS;
    size_t size;
    char *text;
    for (size_t n = 0; (text = describe(n, &size)) != NULL; n++) {
        const bool is_sent = send_answer(fd, text, size, deadline_ns);
        pthread_mutex_lock(&lock); /* see is_between_answers */
        free(text);
        pthread_mutex_unlock(&lock);
        if (!is_sent) return;
    }
}

static void answer(int fd)
{
    struct monitor_request request;
    pid_t pid;
    uid_t uid;
    int descriptor_count;
    if (local_socket_peer(fd, &pid, &uid) != TUTTI_OK || (uid != geteuid() && uid != 0)) return;
    if (local_socket_receive(fd, &request, sizeof request, NULL, 0, &descriptor_count,
                             clock_now_ns() + REQUEST_NS) != TUTTI_OK)
        return;
    if (memcmp(request.what, "query\0\0", 8) == 0) answer_query(fd);
    if (memcmp(request.what, "look\0\0\0", 8) != 0) return;
    pthread_mutex_lock(&lock);
    call_all(look_one);
    pthread_mutex_unlock(&lock);
}

void monitor_look_at(pid_t pid)
{
    static const struct monitor_request request = {"look"};
    for (int n = 0; n < NAMES_LOOKED_AT; n++) {
        char name[MONITOR_NAME_SIZE];
        int fd;
        monitor_name(pid, n, name);
        if (local_socket_connect(name, 0, &fd) != TUTTI_OK) return;
        const enum tutti_status status = local_socket_send(fd, &request, sizeof request, NULL, 0, 0);
        close(fd);
        if (status != TUTTI_OK) return;
    }
}

/* --------------------------------------------------------------------------------------- thread */

static int milliseconds_until(uint64_t when_ns)
{
    const uint64_t now = clock_now_ns();
    return when_ns <= now ? 0 : (int)((when_ns - now) / 1000000 + 1);
}

static void see_events(void)
{
    uint64_t count;
    if (read(atomic_load(&wake_fd), &count, sizeof count) < 0) return;
    const unsigned seen = atomic_exchange(&events, 0);
    pthread_mutex_lock(&lock);
    if (seen & EVENT_LOOK) call_all(look_one);
    if (seen & EVENT_DUMP) call_all(dump_one);
    pthread_mutex_unlock(&lock);
}

static bool is_needed(void)
{
    pthread_mutex_lock(&lock);
    thread_is_up = true;
    const bool needed = clients != NULL;
    pthread_mutex_unlock(&lock);
    return needed;
}

static int sooner_ms(int first_ms, int second_ms)
{
    return first_ms < 0 || (second_ms >= 0 && second_ms < first_ms) ? second_ms : first_ms;
}

/* False when the system has no descriptor for an incoming connection. It stays in the queue then,
 * where poll would see it again at once. */
static bool accept_one(void)
{
    const int fd = accept4(listening_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    answer(fd);
    close(fd);
    return true;
}

static void *thread_main(void *unused)
{
    (void)unused;
    /* Neither changes while there is the thread. */
    const int waking_fd = atomic_load(&wake_fd), socket_fd = listening_fd;
    const bool has_metrics = metrics_folder[0] != '\0';
    uint64_t next_ns = clock_now_ns() + metrics_interval_ns;
    uint64_t resume_ns = 0; /* accepts nothing until then; 0: it does */
    while (is_needed()) {
        if (resume_ns != 0 && clock_now_ns() >= resume_ns) resume_ns = 0;
        struct pollfd entries[] = {{waking_fd, POLLIN, 0},
                                   {resume_ns == 0 ? socket_fd : -1, POLLIN, 0}};
        const int timeout_ms = sooner_ms(has_metrics ? milliseconds_until(next_ns) : -1,
                                         resume_ns != 0 ? milliseconds_until(resume_ns) : -1);
        if (poll(entries, 2, timeout_ms) < 0) {
            if (errno != EINTR) nanosleep(&(struct timespec){0, (long)STARVED_PAUSE_NS}, NULL);
            continue;
        }
        if (entries[0].revents != 0) see_events();
        if (entries[1].revents != 0 && !accept_one()) resume_ns = clock_now_ns() + STARVED_PAUSE_NS;
        if (!has_metrics || clock_now_ns() < next_ns) continue;
        pthread_mutex_lock(&lock);
        if (clients != NULL) write_metrics();
        pthread_mutex_unlock(&lock);
        next_ns = clock_now_ns() + metrics_interval_ns;
    }
    return NULL;
}

static void close_all(void)
{
    if (listening_fd >= 0) close(listening_fd);
    listening_fd = -1;
    const int fd = atomic_exchange(&wake_fd, -1);
    /* Nobody takes it up from here on; who has it writes to what still is the same. */
    while (atomic_load(&wakers) > 0) sched_yield();
    if (fd >= 0) close(fd);
}

/* Whether the thread is where it allocates nothing and holds nothing: without the lock, but not on
 * its way to its loop. Who ends it has `life`. */
static bool is_between_answers(void)
{
    return !thread_runs || thread_is_up;
}

/* In a child of fork: the thread is the parent's, and so are the clients. The name stays the
 * parent's alone. */
static void begin_anew(bool is_held)
{
    (void)is_held;
    clients = NULL;
    thread_runs = has_failed = false;
    memset(&gone, 0, sizeof gone);
    metrics_mark[0] = '\0';
    atomic_store(&events, 0);
    atomic_store(&wakers, 0);
    close_all();
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant who_comes_and_goes = {.lock = &life};
    static const struct fork_participant answers = {
        .lock = &lock, .is_quiet = is_between_answers, .child = begin_anew};
    fork_watch(FORK_MONITOR_LIFE, &who_comes_and_goes);
    fork_watch(FORK_MONITOR, &answers);
}

static enum tutti_status listen_somewhere(void)
{
    enum tutti_status status = TUTTI_IN_PROGRESS;
    for (int n = 0; status == TUTTI_IN_PROGRESS && n < NAMES_MAX; n++) {
        char name[MONITOR_NAME_SIZE];
        monitor_name(getpid(), n, name);
        status = local_socket_listen(name, &listening_fd);
    }
    if (status == TUTTI_IN_PROGRESS)
        return error_set(TUTTI_SYSTEM, "the names of the monitor's socket are taken");
    return status;
}

static enum tutti_status start_thread(void)
{
    thread_is_up = false;
    TRY(thread_start(&thread, thread_main, NULL, NULL, "the monitor's thread"));
    thread_runs = true;
    return TUTTI_OK;
}

/* With the lock held. */
static enum tutti_status start(void)
{
    struct options options;
    TRY(read_options(&options));
    metrics_interval_ns = options.interval_ns;
    snprintf(metrics_folder, sizeof metrics_folder, "%s",
             options.metrics_folder != NULL ? options.metrics_folder : "");
    atomic_store(&wake_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (atomic_load(&wake_fd) < 0) return error_system("eventfd");
    enum tutti_status status = listen_somewhere();
    if (status == TUTTI_OK) status = start_thread();
    if (status != TUTTI_OK)
        close_all();
    else
        watch_signal(options.signal);
    return status;
}

void monitor_register(struct monitor_client *client)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    client->next = clients;
    client->is_registered = true;
    clients = client;
    const enum tutti_status status = thread_runs ? TUTTI_OK : start();
    if (status != TUTTI_OK && !has_failed)
        log_write(LOG_WARN, "nobody can ask this process what it does: %s", tutti_error_message());
    has_failed = status != TUTTI_OK;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
}

/* With `life` held, and no clients: nobody comes meanwhile. */
static void stop(void)
{
    unwatch_signal();
    wake(0);
    pthread_join(thread, NULL);
    thread_runs = false;
    close_all();
    if (metrics_folder[0] != '\0') write_metrics();
}

void monitor_unregister(struct monitor_client *client)
{
    if (!client->is_registered) return;
    struct metrics_communicator unused;
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    struct monitor_client **link = &clients;
    while (*link != client) link = &(*link)->next;
    *link = client->next;
    client->is_registered = false;
    client->measure(client, &gone, &unused);
    const bool is_last = clients == NULL && thread_runs;
    pthread_mutex_unlock(&lock);
    if (is_last) stop();
    pthread_mutex_unlock(&life);
}
