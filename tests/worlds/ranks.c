#include "tests/worlds/ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/virtual_card/card_remote.h"
#include "tests/worlds/launched_rank.h"
#include "tests/worlds/toy_links.h"

enum {
    DEADLINE_MS_DEFAULT = 60000,
    GRACE_MS = 5000 /* for threads to come back after their communicator was aborted */
};

/* What every rank needs; read only while ranks run. */
struct run {
    int size;
    uint64_t seed;
    bool without_comm;
    struct tutti_comm_options comm_options;
    struct tutti_id id;
    int host_count; /* that the ranks take themselves to be on; 0: they look */
    int port;       /* where those meet */
    ranks_function *function;
    void *context;
};

static uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* A test that cannot go on: says why and ends the program, ranks included. */
static _Noreturn void die(const char *what)
{
    fprintf(stderr, "ranks: %s: %s\n", what, strerror(errno));
    abort();
}

/* Not from malloc: the leak checker of a child, which has left the parent's frames behind, would
 * blame the rank for it. */
void *ranks_share(size_t bytes)
{
    void *const memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    return memory;
}

bool ranks_are_threads(void)
{
    const char *const wish = getenv("TUTTI_TEST_RANKS");
    return wish != NULL && strcmp(wish, "threads") == 0;
}

static const struct remote_kind *remote_kind(void)
{
    const char *const wish = getenv("TUTTI_TEST_REMOTE");
    if (wish == NULL) return NULL;
    return strcmp(wish, "toy") == 0 ? &toy_remote_kind : &card_remote_kind;
}

bool ranks_bypass_tcp(void)
{
    return remote_kind() != NULL;
}

static int host_count(void)
{
    const char *const hosts = getenv("TUTTI_TEST_HOSTS");
    return hosts != NULL ? atoi(hosts) : 0;
}

bool ranks_are_on_hosts(void)
{
    return host_count() > 1;
}

static uint64_t choose_seed(uint64_t wish)
{
    if (wish != 0) return wish;
    const char *const text = getenv("TUTTI_TEST_SEED");
    if (text != NULL) return strtoull(text, NULL, 0);
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) die("getrandom");
    return seed;
}

static struct ranks_outcome join(const struct run *run, int rank, struct tutti_comm **comm)
{
    *comm = NULL;
    if (run->without_comm) return (struct ranks_outcome){RANKS_GOOD, 0};
    struct tutti_comm_options options = run->comm_options;
    options.rank = rank;
    const enum tutti_status status = tutti_comm_create(&options, comm);
    if (status == TUTTI_OK) return (struct ranks_outcome){RANKS_GOOD, 0};
    fprintf(stderr, "rank %d: tutti_comm_create: %s (%s)\n", rank, tutti_status_name(status),
            tutti_error_message());
    return (struct ranks_outcome){RANKS_REFUSED, (int)status};
}

static struct ranks_outcome leave(int rank, struct tutti_comm *comm, struct ranks_outcome outcome)
{
    const enum tutti_status status = tutti_comm_free(comm);
    if (status == TUTTI_OK || outcome.fate != RANKS_GOOD) return outcome;
    fprintf(stderr, "rank %d: tutti_comm_free: %s (%s)\n", rank, tutti_status_name(status),
            tutti_error_message());
    return (struct ranks_outcome){RANKS_REFUSED, (int)status};
}

static struct ranks_outcome judge(int returned)
{
    return (struct ranks_outcome){returned == 0 ? RANKS_GOOD : RANKS_RETURNED, returned};
}

/* ------------------------------------------------------------------------------------ processes */

/* What a child leaves for its parent, in memory that both see. */
struct control_message {
    bool finished; /* the rank came to its end; outcome says how it went */
    struct ranks_outcome outcome;
};

struct child {
    pid_t pid; /* 0: gone */
    int pidfd; /* -1 where the kernel has none */
    bool killed;
};

/* Returns the child's exit status.  It is no _Noreturn function: those need not save the registers
 * in which their callers may keep the only pointer to memory, and the leak checker looks for
 * pointers. */
static __attribute__((noinline)) int be_child(const struct run *run, int rank, pid_t parent,
                                              struct control_message *note)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return EXIT_FAILURE; /* it died before the line above */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    const struct launched_rank self = {
        .rank = rank, .size = run->size, .hosts = run->host_count, .port = run->port};
    if (run->host_count > 1 && run->size > 1) launched_rank_become(&self);

    struct tutti_comm *comm;
    note->outcome = join(run, rank, &comm);
    if (note->outcome.fate == RANKS_GOOD) {
        const int returned = run->function(comm, rank, run->size, run->seed, run->context);
        note->outcome = leave(rank, comm, judge(returned));
    }
    note->finished = true;
    return EXIT_SUCCESS;
}

static struct ranks_outcome outcome_of_child(const struct child *child, int status,
                                             const struct control_message *note)
{
    if (WIFSIGNALED(status)) {
        if (child->killed && WTERMSIG(status) == SIGKILL)
            return (struct ranks_outcome){RANKS_STRAGGLED, note->finished};
        return (struct ranks_outcome){RANKS_SIGNALLED, WTERMSIG(status)};
    }
    /* After its end only a sanitizer makes a rank exit with something else than 0. */
    if (!note->finished || WEXITSTATUS(status) != EXIT_SUCCESS)
        return (struct ranks_outcome){RANKS_EXITED, WEXITSTATUS(status)};
    return note->outcome;
}

/* Collects the children that are gone; returns how many are left. */
static int reap(int n, struct child *children, const struct control_message *notes,
                struct ranks_outcome *outcomes)
{
    int left = 0;
    for (int rank = 0; rank < n; rank++) {
        struct child *const child = &children[rank];
        if (child->pid == 0) continue;
        int status;
        const pid_t gone = waitpid(child->pid, &status, WNOHANG);
        if (gone < 0 && errno != EINTR) die("waitpid");
        if (gone != child->pid) {
            left++;
            continue;
        }
        outcomes[rank] = outcome_of_child(child, status, &notes[rank]);
        child->pid = 0;
        if (child->pidfd >= 0) close(child->pidfd);
        child->pidfd = -1;
    }
    return left;
}

/* Sleeps until a child may be gone or the deadline has come. */
static void wait_for_child(int n, const struct child *children, struct pollfd *fds,
                           uint64_t deadline_ms)
{
    const uint64_t now = now_ms();
    int timeout_ms = now >= deadline_ms ? 0 : (int)(deadline_ms - now);
    for (int rank = 0; rank < n; rank++) {
        fds[rank] = (struct pollfd){.fd = children[rank].pidfd, .events = POLLIN};
        if (children[rank].pid != 0 && children[rank].pidfd < 0 && timeout_ms > 10) timeout_ms = 10;
    }
    if (poll(fds, (nfds_t)n, timeout_ms) < 0 && errno != EINTR) die("poll");
}

static void run_processes(int n, const struct run *run, unsigned deadline_ms,
                          struct ranks_outcome *outcomes)
{
    const uint64_t deadline = now_ms() + deadline_ms;
    struct control_message *const notes = ranks_share((size_t)n * sizeof *notes);
    struct child *const children = ranks_share((size_t)n * sizeof *children);
    struct pollfd *const fds = ranks_share((size_t)n * sizeof *fds);

    const pid_t parent = getpid();
    fflush(NULL); /* or every child prints it again */
    for (int rank = 0; rank < n; rank++) {
        const pid_t pid = fork();
        if (pid < 0) die("fork"); /* the others die with us */
        if (pid == 0) exit(be_child(run, rank, parent, &notes[rank]));
        children[rank] = (struct child){pid, (int)syscall(SYS_pidfd_open, pid, 0), false};
    }
    while (reap(n, children, notes, outcomes) > 0) {
        wait_for_child(n, children, fds, now_ms() < deadline ? deadline : deadline + GRACE_MS);
        if (now_ms() < deadline) continue;
        for (int rank = 0; rank < n; rank++) {
            if (children[rank].pid == 0 || children[rank].killed) continue;
            children[rank].killed = true;
            kill(children[rank].pid, SIGKILL);
        }
    }
    munmap(fds, (size_t)n * sizeof *fds);
    munmap(children, (size_t)n * sizeof *children);
    munmap(notes, (size_t)n * sizeof *notes);
}

/* -------------------------------------------------------------------------------------- threads */

struct crew {
    const struct run *run;
    pthread_mutex_t lock; /* protects everything below, and comm and done of the members */
    pthread_cond_t changed;
    int left;
};

struct member {
    struct crew *crew;
    int rank;
    pthread_t thread;
    struct tutti_comm *comm; /* while the function runs; may be aborted then */
    bool done;
    struct ranks_outcome outcome;
};

static void *be_thread(void *argument)
{
    struct member *const member = argument;
    struct crew *const crew = member->crew;
    const struct run *const run = crew->run;

    struct tutti_comm *comm;
    struct ranks_outcome outcome = join(run, member->rank, &comm);
    if (outcome.fate == RANKS_GOOD) {
        pthread_mutex_lock(&crew->lock);
        member->comm = comm;
        pthread_mutex_unlock(&crew->lock);
        const int returned = run->function(comm, member->rank, run->size, run->seed, run->context);
        pthread_mutex_lock(&crew->lock);
        member->comm = NULL;
        pthread_mutex_unlock(&crew->lock);
        outcome = leave(member->rank, comm, judge(returned));
    }
    pthread_mutex_lock(&crew->lock);
    member->outcome = outcome;
    member->done = true;
    crew->left--;
    pthread_cond_signal(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* With the lock held: waits until all are done or time is up; returns how many are left. */
static int wait_for_crew(struct crew *crew, uint64_t deadline)
{
    const struct timespec until = {(time_t)(deadline / 1000), (long)(deadline % 1000) * 1000000};
    while (crew->left > 0)
        if (pthread_cond_timedwait(&crew->changed, &crew->lock, &until) == ETIMEDOUT) break;
    return crew->left;
}

static void start_crew(int n, struct crew *crew, struct member *members)
{
    pthread_condattr_t monotonic;
    if (pthread_mutex_init(&crew->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0 ||
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&crew->changed, &monotonic) != 0)
        die("pthread_cond_init");
    pthread_condattr_destroy(&monotonic);
    for (int rank = 0; rank < n; rank++) {
        members[rank].crew = crew;
        members[rank].rank = rank;
        errno = pthread_create(&members[rank].thread, NULL, be_thread, &members[rank]);
        if (errno != 0) die("pthread_create");
    }
}

/* With the lock held: breaks up what still runs after the deadline. */
static void abort_crew(int n, struct crew *crew, struct member *members, bool *straggled)
{
    for (int rank = 0; rank < n; rank++) {
        if (members[rank].done) continue;
        straggled[rank] = true;
        if (members[rank].comm == NULL) continue;
        const enum tutti_status status =
            tutti_comm_abort(members[rank].comm, "the test's deadline");
        if (status != TUTTI_OK)
            fprintf(stderr, "rank %d: tutti_comm_abort: %s\n", rank, tutti_status_name(status));
    }
    if (wait_for_crew(crew, now_ms() + GRACE_MS) == 0) return;
    for (int rank = 0; rank < n; rank++)
        if (!members[rank].done)
            fprintf(stderr, "rank %d: does not come back from its abort\n", rank);
    abort();
}

static void run_threads(int n, const struct run *run, unsigned deadline_ms,
                        struct ranks_outcome *outcomes)
{
    const uint64_t deadline = now_ms() + deadline_ms;
    struct crew crew = {.run = run, .left = n};
    struct member *const members = calloc((size_t)n, sizeof *members);
    bool *const straggled = calloc((size_t)n, sizeof *straggled);
    if (members == NULL || straggled == NULL) die("memory");

    const char *const before = getenv("CMOCKA_TEST_ABORT");
    char *const saved = before == NULL ? NULL : strdup(before);
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    start_crew(n, &crew, members);

    pthread_mutex_lock(&crew.lock);
    if (wait_for_crew(&crew, deadline) > 0) abort_crew(n, &crew, members, straggled);
    pthread_mutex_unlock(&crew.lock);
    for (int rank = 0; rank < n; rank++) {
        pthread_join(members[rank].thread, NULL);
        outcomes[rank] = members[rank].outcome;
        if (straggled[rank]) outcomes[rank] = (struct ranks_outcome){RANKS_STRAGGLED, 0};
    }

    if (saved == NULL)
        unsetenv("CMOCKA_TEST_ABORT");
    else
        setenv("CMOCKA_TEST_ABORT", saved, 1);
    free(saved);
    pthread_cond_destroy(&crew.changed);
    pthread_mutex_destroy(&crew.lock);
    free(straggled);
    free(members);
}

/* ----------------------------------------------------------------------------------------- both */

static void print_fate(int rank, struct ranks_outcome outcome)
{
    switch (outcome.fate) {
    case RANKS_GOOD: return;
    case RANKS_REFUSED:
        fprintf(stderr, "rank %d: no communicator: status %d\n", rank, outcome.value);
        return;
    case RANKS_RETURNED: fprintf(stderr, "rank %d: returned %d\n", rank, outcome.value); return;
    case RANKS_EXITED: fprintf(stderr, "rank %d: exited with %d\n", rank, outcome.value); return;
    case RANKS_SIGNALLED:
        fprintf(stderr, "rank %d: died of signal %d (%s)\n", rank, outcome.value,
                strsignal(outcome.value));
        return;
    case RANKS_STRAGGLED:
        fprintf(stderr, "rank %d: still there at the deadline%s\n", rank,
                outcome.value != 0 ? ", in its exit" : "");
        return;
    }
}

int ranks_run(int n, const struct ranks_options *options, ranks_function *function, void *context)
{
    static const struct ranks_options none;
    if (options == NULL) options = &none;
    const unsigned deadline_ms =
        options->deadline_ms != 0 ? options->deadline_ms : DEADLINE_MS_DEFAULT;

    struct run run = {.size = n,
                      .seed = choose_seed(options->seed),
                      .without_comm = options->without_comm,
                      .comm_options = TUTTI_COMM_OPTIONS_INIT,
                      .function = function,
                      .context = context};
    transports_replace_remote(remote_kind());
    run.host_count = host_count();
    run.port = 20000 + (int)(choose_seed(0) % 10000);
    if (options->comm_options != NULL) run.comm_options = *options->comm_options;
    run.comm_options.size = n;
    run.comm_options.id = &run.id;
    /* Ranks that never arrive are a straggler's fate too: let the others tell which before they are
     * killed. */
    if (run.comm_options.init_timeout_ns == 0)
        run.comm_options.init_timeout_ns = (uint64_t)deadline_ms * 1000000 / 4 * 3;
    if (!run.without_comm && tutti_id_create(&run.id) != TUTTI_OK) {
        fprintf(stderr, "ranks: tutti_id_create: %s\n", tutti_error_message());
        abort();
    }
    struct ranks_outcome *const outcomes = ranks_share((size_t)n * sizeof *outcomes);

    const bool threads =
        options->kind == RANKS_THREADS || (options->kind == RANKS_DEFAULT && ranks_are_threads());
    fprintf(stderr, "%d %s, TUTTI_TEST_SEED=%" PRIu64 "\n", n, threads ? "threads" : "processes",
            run.seed);
    if (threads)
        run_threads(n, &run, deadline_ms, outcomes);
    else
        run_processes(n, &run, deadline_ms, outcomes);

    int failed = 0;
    for (int rank = 0; rank < n; rank++) {
        print_fate(rank, outcomes[rank]);
        failed += outcomes[rank].fate != RANKS_GOOD;
        if (options->outcomes != NULL) options->outcomes[rank] = outcomes[rank];
    }
    munmap(outcomes, (size_t)n * sizeof *outcomes);
    return failed;
}
