#include "launch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Shared by all ranks started here. Rank 0 names the communicator: the parent of the processes
 * stays without any state of the library. */
enum meeting_state { MEETING_OPEN, MEETING_NAMED, MEETING_FAILED };
struct meeting {
    _Atomic int state; /* released after id was written, acquired before it is read */
    struct tutti_id id;
};

/* A rank that runs in this process. */
struct local_rank {
    const struct perf_options *options;
    perf_rank_main *rank_main;
    struct meeting *meeting; /* NULL under a launcher */
    int number;              /* -1 under a launcher */
    int exit_code;
    pthread_t thread;
};

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "tutti-perf: %s: %s\n", what, why);
    return EXIT_WRONG;
}

/* ---------------------------------------------------------------------------------------- ranks */

static bool meet(struct local_rank *local)
{
    struct meeting *const meeting = local->meeting;
    if (local->number == 0) {
        const enum tutti_status status = tutti_id_create(&meeting->id);
        if (status != TUTTI_OK) complain("tutti_id_create", tutti_error_message());
        atomic_store_explicit(&meeting->state, status == TUTTI_OK ? MEETING_NAMED : MEETING_FAILED,
                              memory_order_release);
        return status == TUTTI_OK;
    }
    const double deadline = perf_seconds() + local->options->timeout_seconds;
    for (;;) {
        const int state = atomic_load_explicit(&meeting->state, memory_order_acquire);
        if (state != MEETING_OPEN) return state == MEETING_NAMED;
        if (perf_seconds() > deadline)
            return complain("start", "rank 0 did not come up in time"), false;
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    }
}

static int run_rank(struct local_rank *local)
{
    if (local->meeting && !meet(local)) return EXIT_WRONG;
    struct perf_rank rank;
    const enum tutti_status status = perf_rank_init(
        &rank, local->options, local->meeting ? &local->meeting->id : NULL, local->number);
    int code = EXIT_WRONG;
    if (status == TUTTI_OK) {
        code = local->rank_main(&rank);
    } else {
        char name[32] = "this rank"; /* the launcher knows its number, and nobody has asked yet */
        if (rank.rank >= 0) snprintf(name, sizeof name, "rank %d", rank.rank);
        fprintf(stderr, "tutti-perf: %s cannot join: %s: %s\n", name, tutti_status_name(status),
                tutti_error_message());
        perf_rank_abort(&rank, "a rank could not join");
    }
    perf_rank_release(&rank);
    return code;
}

static void *run_thread(void *context)
{
    struct local_rank *const local = context;
    local->exit_code = run_rank(local);
    return NULL;
}

/* Ranks first .. first + threads_per_process - 1, the first of them in the calling thread. */
static int run_process(const struct perf_options *options, perf_rank_main *rank_main,
                       struct meeting *meeting, int first)
{
    const int count = options->threads_per_process;
    struct local_rank *const ranks = calloc((size_t)count, sizeof *ranks);
    if (!ranks) return complain("start", strerror(errno));
    int started = 1;
    for (int i = 0; i < count; i++)
        ranks[i] =
            (struct local_rank){options, rank_main, meeting, first + i, EXIT_OK, pthread_self()};
    for (; started < count; started++) {
        const int error = pthread_create(&ranks[started].thread, NULL, run_thread, &ranks[started]);
        if (!error) continue;
        /* The ranks that run wait for one that will not come: there is nothing to save. */
        _exit(complain("pthread_create", strerror(error)));
    }
    int code = run_rank(&ranks[0]);
    for (int i = 1; i < started; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (ranks[i].exit_code > code) code = ranks[i].exit_code;
    }
    free(ranks);
    return code;
}

/* ------------------------------------------------------------------------------------ processes */

static void kill_all(const pid_t *children, int count)
{
    for (int i = 0; i < count; i++)
        if (children[i] > 0) kill(children[i], SIGKILL);
}

static int process_of(const pid_t *children, int count, pid_t pid)
{
    for (int i = 0; i < count; i++)
        if (children[i] == pid) return i;
    return -1;
}

/* Says how a process ended when that is not by itself clear, and returns its exit code. */
static int exit_code_of(const struct perf_options *options, int process, pid_t pid, int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    fprintf(stderr, "tutti-perf: rank %d (pid %d) ended by signal %d (%s)\n",
            process * options->threads_per_process, (int)pid, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    return EXIT_WRONG;
}

static int wait_for_all(const struct perf_options *options, pid_t *children, int count)
{
    static const double grace_seconds = 5; /* for survivors to say what they saw */
    double kill_at = 0;                    /* 0: nothing has failed */
    bool killed = false;
    int code = EXIT_OK;
    for (int left = count; left;) {
        int status;
        const pid_t pid = waitpid(-1, &status, code == EXIT_OK ? 0 : WNOHANG);
        if (pid < 0 && errno != EINTR) return complain("waitpid", strerror(errno));
        const int process = pid > 0 ? process_of(children, count, pid) : -1;
        if (process >= 0) {
            children[process] = 0;
            left--;
            const int ended = killed && WIFSIGNALED(status)
                                  ? EXIT_WRONG
                                  : exit_code_of(options, process, pid, status);
            if (ended > code) code = ended;
            if (code != EXIT_OK && kill_at <= 0) kill_at = perf_seconds() + grace_seconds;
        } else if (code != EXIT_OK) {
            nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
        }
        if (kill_at > 0 && !killed && left && perf_seconds() > kill_at) {
            fprintf(stderr, "tutti-perf: a rank failed, %d processes still run: ending them\n",
                    left);
            kill_all(children, count);
            killed = true;
        }
    }
    return code;
}

static int start_processes(const struct perf_options *options, perf_rank_main *rank_main,
                           struct meeting *meeting)
{
    const int count = options->ranks / options->threads_per_process;
    pid_t *const children = calloc((size_t)count, sizeof *children);
    if (!children) return complain("start", strerror(errno));
    const pid_t parent = getpid();
    int code;
    fflush(NULL);
    for (int i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] < 0) {
            code = complain("fork", strerror(errno));
            kill_all(children, i);
            (void)wait_for_all(options, children, i);
            free(children);
            return code;
        }
        if (children[i]) continue;
        free(children);
        /* the parent may have gone before this took effect */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) _exit(EXIT_WRONG);
        exit(run_process(options, rank_main, meeting, i * options->threads_per_process));
    }
    code = wait_for_all(options, children, count);
    free(children);
    return code;
}

int perf_launch(const struct perf_options *options, perf_rank_main *rank_main)
{
    if (options->launched) {
        struct local_rank here = {.options = options, .rank_main = rank_main, .number = -1};
        return run_rank(&here);
    }
    struct meeting *const meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (meeting == MAP_FAILED) return complain("mmap", strerror(errno));
    const int code = options->ranks == options->threads_per_process
                         ? run_process(options, rank_main, meeting, 0)
                         : start_processes(options, rank_main, meeting);
    munmap(meeting, sizeof *meeting);
    return code;
}
