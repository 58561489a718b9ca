/* fork_locks_test.c - a child that is forked while another thread has a lock of the library, or
 * reads a file for it, makes a communicator and uses it.
 *
 * A thread of a fresh process makes a communicator, and stops at a point on its way: where it has
 * just got the n-th lock, or is to read the n-th file. The process forks. The thread goes on when
 * fork() waits for a lock that the thread has, and otherwise only after fork(). All points have
 * their turn, whatever locks there are: those with a place in the program, of which all threads
 * know.
 *
 * The functions below are wrapped (cmake/tests.cmake). Not with sanitizers: the other rank's thread
 * may be within their allocators, which do not bear a fork then.
 *
 * ctest: label=nosan waits
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "format/calibration_file.h"
#include "format/plan_file.h"
#include "format/table_file.h"
#include "os/clock.h"
#include "os/futex.h"
#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"

enum { POINTS_MAX = 64, HELD_MAX = 8, RANKS = 2, TRIES_MAX = 1000, PATIENCE_S = 30 };
enum { GOOD, BAD, NO_SUCH_POINT };
static const uint64_t SECOND = 1000000000;

/* --------------------------------------------------------------------------------------- points */

extern char __executable_start, _end; /* of the program and its data; the linker's */

enum { RUNS, STOPPED, GOES_ON, DONE };
static _Atomic uint32_t state; /* of the thread that is to stop */
static _Atomic int wanted;     /* the point where it stops; 0: nowhere */

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static const void *points[POINTS_MAX]; /* in the order in which threads came there */
static int point_count;

static _Thread_local const void *held[HELD_MAX];
static _Thread_local int held_count;
static const void *stopped_holds[HELD_MAX];
static int stopped_holds_count;

/* In fork(). */
static _Thread_local bool forks;
static int tries;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static bool is_of_program(const void *lock)
{
    return (uintptr_t)lock >= (uintptr_t)&__executable_start &&
           (uintptr_t)lock < (uintptr_t)&_end && lock != &guard;
}

static void change_state(uint32_t from, uint32_t to)
{
    if (atomic_compare_exchange_strong(&state, &from, to)) futex_wake(&state);
}

static void stop(void)
{
    const uint64_t until_ns = clock_now_ns() + 2 * PATIENCE_S * SECOND;
    memcpy(stopped_holds, held, sizeof held);
    stopped_holds_count = held_count;
    change_state(RUNS, STOPPED);
    while (atomic_load(&state) == STOPPED && clock_now_ns() < until_ns)
        futex_wait(&state, STOPPED, SECOND);
}

/* Where a thread is that has just come there. */
static void come_to(const void *point)
{
    const int stops_at = atomic_load(&wanted);
    int p = 0;
    if (stops_at == 0) return;
    __real_pthread_mutex_lock(&guard);
    while (p < point_count && points[p] != point) p++;
    const bool is_new = p == point_count && p < POINTS_MAX;
    if (is_new) points[point_count++] = point;
    __real_pthread_mutex_unlock(&guard);
    if (is_new && p + 1 == stops_at) stop();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    const int error = __real_pthread_mutex_lock(lock);
    if (!is_of_program(lock)) return error;
    if (held_count < HELD_MAX) held[held_count++] = lock;
    come_to(lock);
    return error;
}

static bool stopped_has(const pthread_mutex_t *lock)
{
    for (int i = 0; i < stopped_holds_count; i++)
        if (stopped_holds[i] == lock) return true;
    return false;
}

/* fork() may also wait for a thread that waits for the one that has stopped. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
    const int error = __real_pthread_mutex_trylock(lock);
    if (error != 0 && forks && (stopped_has(lock) || ++tries > TRIES_MAX))
        change_state(STOPPED, GOES_ON);
    if (error == 0 && !forks && is_of_program(lock) && held_count < HELD_MAX)
        held[held_count++] = lock;
    return error;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    for (int i = 0; i < held_count; i++)
        if (held[i] == lock) {
            held[i] = held[--held_count];
            break;
        }
    return __real_pthread_mutex_unlock(lock);
}

#define READS(function, declared, given)          \
    enum tutti_status __real_##function declared; \
    enum tutti_status __wrap_##function declared; \
    enum tutti_status __wrap_##function declared  \
    {                                             \
        static const char point[] = #function;    \
        come_to(point);                           \
        return __real_##function given;           \
    }

READS(table_file_load, (const char *path, struct tune_table *table), (path, table))
READS(calibration_file_load, (const char *path, struct calibration *calibration),
      (path, calibration))
READS(plan_file_load, (const char *path, struct plan_budget *budget, struct plan **plan),
      (path, budget, plan))

static void print_point(int number)
{
    const void *const point = points[number - 1];
    if (number > point_count) return;
    fprintf(stderr, "point %d: %s at %#zx of the program (nm says which)\n", number,
            is_of_program(point) ? "what lies" : "a lock",
            (size_t)((uintptr_t)point - (uintptr_t)&__executable_start));
}

/* -------------------------------------------------------------------------------- communicators */

struct use {
    struct tutti_id id;
    int rank;
    bool has_device;
    bool is_good;
};

static bool add_up(struct tutti_comm *comm)
{
    int64_t number = tutti_comm_rank(comm) + 1, sum = 0;
    return tutti_allreduce(&number, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK && sum == 3;
}

static bool add_up_on_device(struct tutti_comm *comm)
{
    const char *reason;
    int64_t number = tutti_comm_rank(comm) + 1;
    if (!device_driver_open(&reason)) return false;
    device_driver_use(0);
    void *const memory = device_driver_allocate(sizeof number);
    device_driver_put(memory, &number, sizeof number);
    const bool is_good =
        tutti_allreduce(memory, memory, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK;
    device_driver_get(&number, memory, sizeof number);
    device_driver_free(memory);
    return is_good && number == 3;
}

static void *be_rank(void *context)
{
    struct use *const use = context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    options.id = &use->id;
    options.rank = use->rank;
    options.size = RANKS;
    const enum tutti_status status = tutti_comm_create(&options, &comm);
    if (status != TUTTI_OK) fprintf(stderr, "rank %d: %s\n", use->rank, tutti_error_message());
    if (status != TUTTI_OK) return NULL;
    use->is_good = add_up(comm) && (!use->has_device || add_up_on_device(comm));
    use->is_good &= tutti_comm_free(comm) == TUTTI_OK;
    return NULL;
}

/* Ranks are threads of this process. */
static bool use_library(bool has_device)
{
    struct use uses[RANKS];
    pthread_t threads[RANKS];
    struct tutti_id id;
    bool is_good = tutti_id_create(&id) == TUTTI_OK;
    for (int r = 0; r < RANKS; r++) {
        uses[r] = (struct use){id, r, has_device, false};
        if (pthread_create(&threads[r], NULL, be_rank, &uses[r]) != 0) abort();
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        is_good = is_good && uses[r].is_good;
    }
    return is_good;
}

static void *stop_on_the_way(void *has_device)
{
    const bool is_good = use_library(has_device != NULL);
    change_state(RUNS, DONE);
    return is_good ? has_device : &wanted;
}

/* In a process that has not used the library yet. */
static int fork_at(int point, bool has_device)
{
    pthread_t thread;
    void *const context = has_device ? &has_device : NULL, *result;
    int fate = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(3 * PATIENCE_S);
    atomic_store(&wanted, point);
    if (pthread_create(&thread, NULL, stop_on_the_way, context) != 0) return BAD;
    while (atomic_load(&state) == RUNS) futex_wait(&state, RUNS, SECOND);
    const bool has_come = atomic_load(&state) == STOPPED;
    forks = true;
    const pid_t child = has_come ? fork() : -1;
    forks = false;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(PATIENCE_S);
        atomic_store(&wanted, 0);
        _exit(use_library(false) ? GOOD : BAD);
    }
    change_state(STOPPED, GOES_ON);
    if (child > 0 && waitpid(child, &fate, 0) != child) fate = -1;
    pthread_join(thread, &result);
    if (has_come && fate == 0 && result == context) return GOOD;
    if (!has_come && result == context) return NO_SUCH_POINT;
    print_point(point);
    fprintf(stderr, "child: wait status %#x; parent: %s\n", (unsigned)fate,
            result == context ? "good" : "bad");
    return BAD;
}

static int fork_at_all_points(bool has_device)
{
    for (int point = 1; point <= POINTS_MAX; point++) {
        int fate = -1;
        fflush(NULL);
        const pid_t process = fork();
        if (process == 0) _exit(fork_at(point, has_device));
        assert_int_equal(waitpid(process, &fate, 0), process);
        assert_true(WIFEXITED(fate));
        if (WEXITSTATUS(fate) == NO_SUCH_POINT) return point - 1;
        if (fate != 0) fail_msg("a fork at point %d did not go well", point);
    }
    fail_msg("there are more than %d points", POINTS_MAX);
    return 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static char folder[SCRATCH_BYTES];

static const char *path_of(const char *name)
{
    static char path[SCRATCH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* All that a process keeps is there to be read. */
static int write_files(void **unused)
{
    struct tune_table table;
    struct calibration calibration;
    (void)unused;
    scratch_make(folder);
    FILE *const plan = fopen(path_of("broken.plan"), "w");
    if (plan == NULL || fputs("this is no plan\n", plan) < 0 || fclose(plan) != 0) return 1;
    tune_table_init(&table);
    calibration_init(&calibration, NULL, NULL);
    setenv("TUTTI_PLANS", folder, 1);
    setenv("TUTTI_TABLE", path_of("table.json"), 1);
    if (table_file_save(path_of("table.json"), &table) != TUTTI_OK) return 1;
    setenv("TUTTI_CALIBRATION", path_of("calibration.json"), 1);
    if (calibration_file_save(path_of("calibration.json"), &calibration) != TUTTI_OK) return 1;
    tune_table_release(&table);
    setenv("TUTTI_LOG", "off", 1);
    return 0;
}

static int remove_files(void **unused)
{
    (void)unused;
    scratch_remove(folder);
    unsetenv("TUTTI_TRANSPORT");
    unsetenv("TUTTI_CUDA_DRIVER");
    return 0;
}

/* Locks of port, progress, monitor, watch, segments, heap, knowledge, rankings, stored plans and
 * their folder, shares of devices; three files. */
static void a_child_that_is_forked_at_any_lock_makes_a_communicator(void **unused)
{
    (void)unused;
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    const int points_passed = fork_at_all_points(false);
    printf("%d points\n", points_passed);
    assert_true(points_passed >= 12);
}

static void so_does_one_whose_parent_uses_devices(void **unused)
{
    (void)unused;
    setenv("TUTTI_CUDA_DRIVER", cuda_standin_file(), 1);
    setenv("TUTTI_STANDIN_DEVICES", "1", 1);
    const int points_passed = fork_at_all_points(true);
    printf("%d points\n", points_passed);
    assert_true(points_passed >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_child_that_is_forked_at_any_lock_makes_a_communicator,
                                        write_files, remove_files),
        cmocka_unit_test_setup_teardown(so_does_one_whose_parent_uses_devices, write_files,
                                        remove_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
