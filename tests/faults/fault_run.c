#include "tests/faults/fault_run.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "tests/faults/fault_rank.h"
#include "tests/kit/elements.h"
#include "tests/worlds/launched_rank.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;

struct fault_record *fault_record_create(void)
{
    void *memory = mmap(NULL, sizeof(struct fault_record), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void fault_record_free(struct fault_record *record)
{
    if (record != NULL) munmap(record, sizeof *record);
}

/* --------------------------------------------------------------------------------------- a rank */

/* Returns, so that nothing is left on the stack that a leak checker would look for. */
static __attribute__((noinline)) void be_rank(const struct fault_schedule *schedule, int rank,
                                              int port, pid_t parent, struct fault_record *record)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return; /* it died before the line above */
    setenv("TUTTI_LOG", "off", 0);   /* failures are what is expected here */
    if (schedule->tcp) setenv("TUTTI_TRANSPORT", "tcp", 1);
    if (schedule->fabric[0] != '\0') setenv("TUTTI_FABRIC", schedule->fabric, 1);
    const struct launched_rank self = {
        .rank = rank, .size = schedule->rank_count, .hosts = schedule->host_count, .port = port};
    if (schedule->host_count > 1) launched_rank_become(&self);
    fault_rank_run(schedule, rank, record);
}

/* ---------------------------------------------------------------------------------- all of them */

struct watch {
    const struct fault_schedule *schedule;
    struct fault_record *record;
    pid_t pids[FAULT_RANKS_MAX];          /* 0: gone */
    uint64_t goes_on_ns[FAULT_RANKS_MAX]; /* it is stopped until then; 0: it is not */
    bool stop_was_seen[FAULT_FAULTS_MAX];
};

static bool start_ranks(struct watch *watch)
{
    const pid_t parent = getpid();
    const int port = 20000 + (int)(elements_mixed((uint64_t)parent, clock_now_ns()) % 10000);
    fflush(NULL); /* or every child prints it again */
    for (int rank = 0; rank < watch->schedule->rank_count; rank++) {
        const pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            return false; /* those that there are get killed */
        }
        if (pid == 0) {
            be_rank(watch->schedule, rank, port, parent, watch->record);
            exit(EXIT_SUCCESS);
        }
        watch->pids[rank] = pid;
    }
    return true;
}

static int rank_of(const struct watch *watch, pid_t pid)
{
    for (int rank = 0; rank < FAULT_RANKS_MAX; rank++)
        if (watch->pids[rank] == pid) return rank;
    return -1;
}

/* A rank has stopped; its schedule says for how long. */
static void plan_to_go_on(struct watch *watch, int rank)
{
    uint64_t pause_ns = 0;
    for (int i = 0; i < watch->schedule->fault_count; i++) {
        const struct fault *fault = &watch->schedule->faults[i];
        if (fault->kind != FAULT_STOP || fault->rank != rank || watch->stop_was_seen[i] ||
            atomic_load(&watch->record->struck_ns[i]) == 0)
            continue;
        watch->stop_was_seen[i] = true;
        pause_ns += (uint64_t)fault->detail * 1000;
    }
    watch->goes_on_ns[rank] = clock_now_ns() + pause_ns;
}

static void note_end(struct watch *watch, int rank, int status, bool was_killed)
{
    struct fault_history *history = &watch->record->ranks[rank];
    watch->pids[rank] = 0;
    watch->goes_on_ns[rank] = 0;
    history->fate = WIFSIGNALED(status) ? FAULT_SIGNALLED : FAULT_EXITED;
    history->value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (was_killed) history->fate = FAULT_HUNG;
}

/* Takes what children tell; returns whether some are left. */
static bool reap(struct watch *watch, bool were_killed)
{
    int status;
    for (;;) {
        const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
        if (pid == 0) return true;
        if (pid < 0) return errno == EINTR;
        const int rank = rank_of(watch, pid);
        if (rank >= 0 && WIFSTOPPED(status))
            plan_to_go_on(watch, rank);
        else if (rank >= 0)
            note_end(watch, rank, status, were_killed);
    }
}

static void let_go_on(struct watch *watch)
{
    for (int rank = 0; rank < FAULT_RANKS_MAX; rank++) {
        if (watch->goes_on_ns[rank] == 0 || clock_now_ns() < watch->goes_on_ns[rank]) continue;
        watch->goes_on_ns[rank] = 0;
        kill(watch->pids[rank], SIGCONT);
    }
}

static int left(const struct watch *watch)
{
    int count = 0;
    for (int rank = 0; rank < FAULT_RANKS_MAX; rank++) count += watch->pids[rank] != 0;
    return count;
}

static void print_stacks(pid_t pid)
{
    char command[160];
    snprintf(command, sizeof command,
             "gdb -p %d -batch -ex 'thread apply all backtrace 12' 2>/dev/null | "
             "grep -E '^(Thread|#)' >&2",
             (int)pid);
    fprintf(stderr, "process %d:\n", (int)pid);
    if (system(command) != 0) fprintf(stderr, "no stacks\n");
}

/* Also the descendants of ranks, which are children by now. */
static void kill_all(struct watch *watch)
{
    for (int rank = 0; rank < FAULT_RANKS_MAX; rank++)
        if (watch->pids[rank] != 0) kill(watch->pids[rank], SIGKILL);
    while (left(watch) > 0 && reap(watch, true)) ranks_nap_ms(1);
}

/* Children of ranks that outlived them: nobody else is left. Each is given a moment, and then
 * counted and killed. */
static int end_orphans(void)
{
    int count = 0;
    char path[64], text[256] = "";
    for (int i = 0; i < 200 && waitpid(-1, NULL, WNOHANG) >= 0; i++) ranks_nap_ms(5);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    for (char *at = text, *end; strtol(at, &end, 10) > 0 && end != at; at = end, count++)
        kill((pid_t)strtol(at, NULL, 10), SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) continue;
    return count;
}

bool fault_run(const struct fault_schedule *schedule, struct fault_record *record)
{
    struct watch watch = {.schedule = schedule, .record = record};
    memset(record, 0, sizeof *record);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (tutti_id_create(&record->id) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return false;
    }
    const uint64_t deadline_ns =
        clock_now_ns() + FAULT_RUN_S * SECOND + fault_schedule_pauses_ns(schedule);
    const bool started = start_ranks(&watch);
    while (started && reap(&watch, false) && left(&watch) > 0 && clock_now_ns() < deadline_ns) {
        let_go_on(&watch);
        ranks_nap_ms(1);
    }
    for (int rank = 0; started && rank < FAULT_RANKS_MAX; rank++)
        if (watch.pids[rank] != 0) print_stacks(watch.pids[rank]);
    kill_all(&watch);
    record->orphans = end_orphans();
    return started;
}
