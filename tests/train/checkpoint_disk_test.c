/* checkpoint_disk_test.c - checkpoints on disks that fill up, fail or are slow, and processes that
 * are killed at any system call that changes files: what was complete stays so, all ranks learn
 * why, and the next checkpoint is written as ever.
 *
 * The calls that change files are wrapped (cmake/tests.cmake). Those for files of the test's folder
 * are counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "tutti/train/checkpoint.h"

enum { NUMBERS = 1000, CALLS_MAX = 256, RANKS = 2 };
enum call { CALL_NONE, CALL_WRITE, CALL_FSYNC, CALL_MKDIR, CALL_RENAME, CALL_UNLINK, CALL_RMDIR };
static const char *const call_names[] = {"none",   "write",  "fsync", "mkdir",
                                         "rename", "unlink", "rmdir"};

static char folder[SCRATCH_BYTES];

/* What goes wrong: the calls of this kind for files of that name, from the n-th on. */
static struct {
    enum call call;
    const char *name;
    int from;
    int error;
    bool writes_half; /* a write that fails writes half of it first, and succeeds with that */
} fault;
static _Atomic int fault_calls;
/* The process is killed in the call of that number; 0: never. */
static int kill_at;
static _Atomic int all_calls;
/* Calls wait for the gate as long as it is closed. */
static _Atomic bool is_gate_closed;
/* What was called. */
static char calls[CALLS_MAX][64];

/* ---------------------------------------------------------------------------------------- calls */

ssize_t __real_write(int fd, const void *from, size_t bytes);
int __real_fsync(int fd);
int __real_mkdir(const char *path, mode_t mode);
int __real_rename(const char *from, const char *to);
int __real_unlinkat(int fd, const char *path, int flags);

/* Whether a call goes on; otherwise errno is set. */
static bool goes_on(enum call call, const char *path)
{
    if (folder[0] == '\0' || strncmp(path, folder, strlen(folder)) != 0) return true;
    const int number = atomic_fetch_add(&all_calls, 1) + 1;
    if (number < CALLS_MAX)
        snprintf(calls[number], sizeof calls[number], "%s %s", call_names[call],
                 path + strlen(folder));
    if (number == kill_at) raise(SIGKILL);
    while (atomic_load(&is_gate_closed)) ranks_nap_ms(1);
    if (fault.call != call || strstr(path, fault.name) == NULL) return true;
    if (atomic_fetch_add(&fault_calls, 1) + 1 < fault.from) return true;
    errno = fault.error;
    return false;
}

static void path_of(int fd, char *path, size_t bytes)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, bytes - 1);
    path[length > 0 ? length : 0] = '\0';
}

static bool goes_on_fd(enum call call, int fd)
{
    char path[256];
    path_of(fd, path, sizeof path);
    return goes_on(call, path);
}

ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_write(int fd, const void *from, size_t bytes)
{
    if (kill_at > 0 && atomic_load(&all_calls) + 1 == kill_at)
        (void)!__real_write(fd, from, bytes / 2);
    if (goes_on_fd(CALL_WRITE, fd)) return __real_write(fd, from, bytes);
    if (!fault.writes_half || atomic_load(&fault_calls) > fault.from) return -1;
    return __real_write(fd, from, bytes / 2);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return goes_on_fd(CALL_FSYNC, fd) ? __real_fsync(fd) : -1;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    return goes_on(CALL_MKDIR, path) ? __real_mkdir(path, mode) : -1;
}

int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    return goes_on(CALL_RENAME, from) ? __real_rename(from, to) : -1;
}

int __wrap_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags)
{
    char own[256];
    path_of(fd, own, sizeof own);
    const size_t length = strlen(own);
    snprintf(own + length, sizeof own - length, "/%s", path);
    return goes_on((flags & AT_REMOVEDIR) != 0 ? CALL_RMDIR : CALL_UNLINK, own)
               ? __real_unlinkat(fd, path, flags)
               : -1;
}

static void nothing_goes_wrong(void)
{
    fault.call = CALL_NONE;
    kill_at = 0;
    atomic_store(&fault_calls, 0);
    atomic_store(&all_calls, 0);
}

/* -------------------------------------------------------------------------------------- folders */

static int make_folder(void **state)
{
    (void)state;
    nothing_goes_wrong();
    scratch_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    nothing_goes_wrong();
    scratch_remove(folder);
    return 0;
}

static bool is_there(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* -------------------------------------------------------------------------------------- numbers */

struct numbers {
    uint64_t own[NUMBERS];
    struct tutti_checkpoint_tensor tensor;
};

static void describe(struct numbers *numbers, int rank, int size)
{
    numbers->tensor = (struct tutti_checkpoint_tensor){
        "numbers", TUTTI_UINT64, 2, {(size_t)size, NUMBERS}, {(size_t)rank, 0}, {1, NUMBERS}, 0,
        NUMBERS,   numbers->own};
}

static void set_numbers(struct numbers *numbers, uint64_t step)
{
    for (size_t i = 0; i < NUMBERS; i++) numbers->own[i] = step * 1000000 + i;
}

static bool are_numbers(const struct numbers *numbers, uint64_t step)
{
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers->own[i] != step * 1000000 + i) return false;
    return true;
}

/* Saves, and waits. */
static enum tutti_status save(struct tutti_checkpoints *c, struct numbers *numbers, uint64_t step)
{
    set_numbers(numbers, step);
    const enum tutti_status status = tutti_checkpoints_save(c, step, &numbers->tensor, 1);
    return status == TUTTI_OK ? tutti_checkpoints_wait(c) : status;
}

/* The newest one is of that step, and whole. */
static bool is_newest(struct tutti_checkpoints *c, struct numbers *numbers, uint64_t step)
{
    uint64_t newest = 0;
    size_t count;
    set_numbers(numbers, 0);
    return tutti_checkpoints_list(c, &newest, 1, &count) == TUTTI_OK && newest == step &&
           tutti_checkpoints_load(c, step, &numbers->tensor, 1) == TUTTI_OK &&
           are_numbers(numbers, step);
}

/* ------------------------------------------------------------------------------ disks that fail */

struct failure {
    enum call call;
    const char *name;
    int from, error;
    bool writes_half;
    enum tutti_status status;
    const char *words[2]; /* of the message */
    uint64_t newest;
};

static const struct failure none = {.call = CALL_NONE};

/* All ranks call it; where they are threads, one of them is enough. */
static void set_fault(const struct failure *failure, int rank)
{
    if (rank > 0 && ranks_are_threads()) return;
    fault.call = failure->call;
    fault.name = failure->name;
    fault.from = failure->from;
    fault.error = failure->error;
    fault.writes_half = failure->writes_half;
    atomic_store(&fault_calls, 0);
}

/* Good, failed, good again. */
static int fail_and_go_on(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct failure *const failure = context;
    struct tutti_checkpoints *c;
    struct numbers numbers;
    (void)seed;
    describe(&numbers, rank, size);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(save(c, &numbers, 1) == TUTTI_OK);
    RANKS_EXPECT(save(c, &numbers, 2) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    set_fault(failure, rank);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(save(c, &numbers, 3) == failure->status);
    for (int i = 0; i < 2 && failure->status != TUTTI_OK; i++)
        RANKS_EXPECT(strstr(tutti_error_message(), failure->words[i]) != NULL);
    RANKS_EXPECT(strchr(tutti_error_message(), '\n') == NULL);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    set_fault(&none, rank);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(is_newest(c, &numbers, failure->newest));
    RANKS_EXPECT(failure->newest == 3 || !is_there("step-000000000003") ||
                 failure->call == CALL_UNLINK);
    /* Later, at the next call. */
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    set_fault(failure, rank);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    set_numbers(&numbers, 4);
    RANKS_EXPECT(tutti_checkpoints_save(c, 4, &numbers.tensor, 1) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(c, 5, &numbers.tensor, 1) == failure->status);
    if (failure->status == TUTTI_OK)
        RANKS_EXPECT(tutti_checkpoints_wait(c) == TUTTI_OK); /* it still writes */
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    set_fault(&none, rank);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(save(c, &numbers, 6) == TUTTI_OK);
    RANKS_EXPECT(is_newest(c, &numbers, 6));
    RANKS_EXPECT(tutti_checkpoints_close(c) == TUTTI_OK);
    return 0;
}

static void all_ranks_learn_of_a_disk_that_fails(void **state)
{
    const struct failure failures[] = {
        {CALL_WRITE,
         "shard-00001",
         1,
         ENOSPC,
         false,
         TUTTI_NO_SPACE,
         {"rank 1: writing ", "shard-00001: No space left on device"},
         2},
        {CALL_WRITE,
         "shard-00001",
         2,
         ENOSPC,
         true,
         TUTTI_NO_SPACE,
         {"rank 1: writing ", "shard-00001: No space left on device"},
         2},
        {CALL_FSYNC,
         "shard-00000",
         1,
         EIO,
         false,
         TUTTI_SYSTEM,
         {"rank 0: writing ", "shard-00000: Input/output error"},
         2},
        {CALL_MKDIR,
         "step-",
         1,
         EROFS,
         false,
         TUTTI_SYSTEM,
         {"rank 0: making the folder ", "step-000000000003: Read-only file system"},
         2},
        {CALL_WRITE,
         "manifest.new",
         1,
         ENOSPC,
         false,
         TUTTI_NO_SPACE,
         {"rank 0: writing ", "manifest.new: No space left on device"},
         2},
        {CALL_FSYNC,
         "manifest.new",
         1,
         EIO,
         false,
         TUTTI_SYSTEM,
         {"rank 0: writing ", "manifest.new: Input/output error"},
         2},
        {CALL_RENAME,
         "manifest.new",
         1,
         EIO,
         false,
         TUTTI_SYSTEM,
         {"rank 0: writing ", "manifest: Input/output error"},
         2},
        /* Complete all the same; but an old one cannot be removed. */
        {CALL_UNLINK, "/manifest", 1, EACCES, false, TUTTI_OK, {NULL, NULL}, 3}};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct failure failure = failures[i];
        assert_int_equal(ranks_run(RANKS, NULL, fail_and_go_on, &failure), 0);
        remove_folder(state);
        assert_int_equal(make_folder(state), 0);
    }
}

/* ------------------------------------------------------------------------------ disks that wait */

static int wait_for_disk(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_checkpoints *c;
    struct numbers numbers;
    (void)context;
    (void)seed;
    describe(&numbers, rank, size);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    atomic_store(&is_gate_closed, true);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    set_numbers(&numbers, 1);
    RANKS_EXPECT(tutti_checkpoints_save(c, 1, &numbers.tensor, 1) == TUTTI_OK);
    set_numbers(&numbers, 99); /* it goes on, and so do collectives on other communicators */
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(!is_there("step-000000000001"));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    atomic_store(&is_gate_closed, false);
    RANKS_EXPECT(is_newest(c, &numbers, 1));
    RANKS_EXPECT(tutti_checkpoints_close(c) == TUTTI_OK);
    return 0;
}

static void training_goes_on_while_a_disk_is_slow(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(RANKS, NULL, wait_for_disk, NULL), 0);
}

/* ---------------------------------------------------------------------------------- one process */

/* A communicator of this process alone. */
static int alone(int (*run)(struct tutti_comm *comm, void *context), void *context)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    options.rank = 0;
    options.size = 1;
    if (tutti_comm_create(&options, &comm) != TUTTI_OK) return 1;
    const int result = run(comm, context);
    tutti_comm_free(comm);
    return result;
}

/* In a process of its own, which may be killed: what waitpid says. */
static int in_process(int (*run)(struct tutti_comm *comm, void *context), void *context)
{
    int state = 0;
    const pid_t child = fork();
    if (child == 0) _exit(alone(run, context));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &state, 0), child);
    return state;
}

enum { SAVES = 3 };
struct progress {
    _Atomic uint64_t complete; /* steps of which the process knows that they are */
    _Atomic int calls;
};

static int save_some(struct tutti_comm *comm, void *context)
{
    struct progress *const progress = context;
    struct tutti_checkpoints *c;
    struct tutti_checkpoints_options options = TUTTI_CHECKPOINTS_OPTIONS_INIT;
    struct numbers numbers;
    options.keep = 1;
    describe(&numbers, 0, 1);
    if (tutti_checkpoints_open(folder, &options, comm, &c) != TUTTI_OK) return 1;
    for (uint64_t step = 1; step <= SAVES; step++) {
        if (save(c, &numbers, step) != TUTTI_OK) return 1;
        atomic_store(&progress->complete, step);
    }
    atomic_store(&progress->calls, atomic_load(&all_calls));
    return tutti_checkpoints_close(c) != TUTTI_OK;
}

static int look(struct tutti_comm *comm, void *context)
{
    const uint64_t complete = atomic_load(&((struct progress *)context)->complete);
    struct tutti_checkpoints *c;
    struct numbers numbers;
    uint64_t newest = 0;
    size_t count;
    describe(&numbers, 0, 1);
    if (tutti_checkpoints_open(folder, NULL, comm, &c) != TUTTI_OK ||
        tutti_checkpoints_list(c, &newest, 1, &count) != TUTTI_OK)
        return 1;
    if (newest < complete || newest > complete + 1) return 2;
    if (newest > 0 && !is_newest(c, &numbers, newest)) return 3;
    if (save(c, &numbers, 10) != TUTTI_OK || !is_newest(c, &numbers, 10)) return 4;
    /* Nothing is left of the one that was not finished. */
    for (uint64_t step = 1; step <= SAVES; step++) {
        char name[32];
        snprintf(name, sizeof name, "step-%012llu", (unsigned long long)step);
        if (is_there(name) != (step == newest) && step > complete) return 5;
    }
    return tutti_checkpoints_close(c) != TUTTI_OK;
}

static void killed_at_any_call_the_last_good_one_is_whole(void **state)
{
    struct progress *const progress = ranks_share(sizeof *progress);
    const int pace = getenv("TUTTI_LONG") != NULL ? 1 : 4;
    bool was_killed = true;
    for (int at = 1; was_killed; at += pace) {
        remove_folder(state);
        assert_int_equal(make_folder(state), 0);
        atomic_store(&progress->complete, 0);
        kill_at = at;
        const int ended = in_process(save_some, progress);
        kill_at = 0;
        was_killed = WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL;
        if (!was_killed) assert_int_equal(ended, 0);
        const int seen = in_process(look, progress);
        if (seen != 0) fail_msg("killed at call %d: status %#x", at, seen);
    }
    assert_true(atomic_load(&progress->calls) > 3 * 10);
    munmap(progress, sizeof *progress);
}

/* Nothing counts before it is on the disk. */
static int trace(struct tutti_comm *comm, void *context)
{
    static const char *const expected[] = {"mkdir ",
                                           "mkdir /step-000000000001",
                                           "fsync ",
                                           "write /step-000000000001/shard-00000",
                                           "write /step-000000000001/shard-00000",
                                           "fsync /step-000000000001/shard-00000",
                                           "fsync /step-000000000001",
                                           "write /step-000000000001/manifest.new",
                                           "fsync /step-000000000001/manifest.new",
                                           "rename /step-000000000001/manifest.new",
                                           "fsync /step-000000000001",
                                           "mkdir /step-000000000002"};
    if (save_some(comm, context) != 0) return 1;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        if (strcmp(calls[i + 1], expected[i]) == 0) continue;
        fprintf(stderr, "call %zu is '%s', not '%s'\n", i, calls[i + 1], expected[i]);
        return 1;
    }
    return 0;
}

static void names_and_contents_are_on_the_disk_in_order(void **state)
{
    struct progress *const progress = ranks_share(sizeof *progress);
    (void)state;
    assert_int_equal(in_process(trace, progress), 0);
    munmap(progress, sizeof *progress);
}

/* ----------------------------------------------------------------------------- one of two ranks */

struct killing {
    int rank, at;
};

static int save_until_killed(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    const struct killing *const killing = context;
    struct tutti_checkpoints *c;
    struct numbers numbers;
    (void)seed;
    describe(&numbers, rank, size);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(save(c, &numbers, 1) == TUTTI_OK);
    if (rank == killing->rank) kill_at = atomic_load(&all_calls) + killing->at;
    const enum tutti_status status = save(c, &numbers, 2);
    (void)tutti_checkpoints_close(c);
    return status != TUTTI_PROC_FAILED;
}

static int look_together(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_checkpoints *c;
    struct numbers numbers;
    uint64_t newest = 0;
    size_t count;
    (void)seed;
    (void)context;
    describe(&numbers, rank, size);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_list(c, &newest, 1, &count) == TUTTI_OK);
    RANKS_EXPECT(newest == 1 || newest == 2);
    RANKS_EXPECT(is_newest(c, &numbers, newest));
    RANKS_EXPECT(save(c, &numbers, 3) == TUTTI_OK && is_newest(c, &numbers, 3));
    RANKS_EXPECT(tutti_checkpoints_close(c) == TUTTI_OK);
    return 0;
}

static void the_other_rank_is_told_and_the_last_good_one_is_whole(void **state)
{
    const int pace = getenv("TUTTI_LONG") != NULL ? 1 : 5;
    struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .outcomes = outcomes};
    if (ranks_are_threads()) return; /* which are not killed alone */
    for (int rank = 0; rank < RANKS; rank++)
        for (int at = 1; at <= (rank == 0 ? 10 : 3); at += pace) {
            struct killing killing = {rank, at};
            remove_folder(state);
            assert_int_equal(make_folder(state), 0);
            assert_int_equal(ranks_run(RANKS, &options, save_until_killed, &killing), 1);
            assert_int_equal(outcomes[rank].fate, RANKS_SIGNALLED);
            assert_int_equal(ranks_run(RANKS, NULL, look_together, NULL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_ranks_learn_of_a_disk_that_fails, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(training_goes_on_while_a_disk_is_slow, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(killed_at_any_call_the_last_good_one_is_whole, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(names_and_contents_are_on_the_disk_in_order, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(the_other_rank_is_told_and_the_last_good_one_is_whole,
                                        make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
