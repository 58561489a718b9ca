/* A rank's process ends without a word, in the way that programs do: by exit(), which is what
 * returning from main comes to, by _exit(), or by abort(), as after an exception that nobody
 * catches; or it executes another program, and its pid lives on. The others hear of it in the call
 * that they are in; a rank that frees its communicator first has left.
 *
 * ctest: label=notsan waits
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4, VICTIM = 2, COUNT = 1 << 18 };
static const uint64_t LIMIT_NS = UINT64_C(10000000000); /* ten times what is promised */

enum path { BY_EXIT, BY_EXIT_AT_ONCE, BY_ABORT, BY_EXEC, BY_FREE };

struct scene {
    struct tutti_id id;
    _Atomic uint64_t ended_ns, slowest_ns;
    _Atomic pid_t executing; /* the process that is another program */
    atomic_int met, heard;
};
static struct scene *scene;

/* With something started that nobody will wait for. */
static int end_process(struct tutti_comm *comm, int rank, enum path path)
{
    static int32_t data[COUNT];
    struct tutti_request *request;
    if (path != BY_FREE)
        RANKS_EXPECT(tutti_broadcast_start(data, data, COUNT, TUTTI_INT32, rank, NULL, comm,
                                           &request) == TUTTI_OK);
    ranks_nap_ms(200);
    atomic_store(&scene->ended_ns, clock_now_ns());
    switch (path) {
    case BY_EXIT: exit(0);
    case BY_EXIT_AT_ONCE: _exit(0);
    case BY_ABORT: abort();
    case BY_EXEC:
        atomic_store(&scene->executing, getpid());
        execl("/bin/sleep", "sleep", "30", (char *)NULL);
        return -1;
    default: return tutti_comm_free(comm);
    }
}

/* The last one that has heard ends the program that a rank became. It would end by itself after 30
 * s. */
static void end_program(void)
{
    const pid_t pid = atomic_load(&scene->executing);
    if (atomic_fetch_add(&scene->heard, 1) == RANKS - 2 && pid > 0) kill(pid, SIGKILL);
}

static int one_ends(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)seed;
    static int32_t data[COUNT];
    const enum path path = *(const enum path *)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    struct tutti_comm *comm;
    options.timeout_ns = options.init_timeout_ns = 4 * LIMIT_NS;
    if (!ranks_are_on_hosts()) {
        options.rank = rank;
        options.size = size;
        options.id = &scene->id;
    }
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_meet(&scene->met, size);
    if (rank == VICTIM) return end_process(comm, rank, path);
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK)
        status = tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm);
    fault_time_raise(&scene->slowest_ns, clock_now_ns() - atomic_load(&scene->ended_ns));
    end_program();
    tutti_comm_failure(comm, &failure);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED && failure.culprit == VICTIM);
    RANKS_EXPECT(path != BY_FREE || strstr(failure.message, "left") != NULL);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

/* How the ranks that are left hear of it. */
static void expect_to_hear(enum path path, bool on_hosts)
{
    if (ranks_are_threads()) skip();
    struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true, .outcomes = outcomes};
    if (on_hosts) setenv("TUTTI_TEST_HOSTS", "2", 1);
    memset(scene, 0, sizeof *scene);
    assert_int_equal(tutti_id_create(&scene->id), TUTTI_OK);
    ranks_run(RANKS, &options, one_ends, &path);
    if (on_hosts) unsetenv("TUTTI_TEST_HOSTS");
    for (int r = 0; r < RANKS; r++)
        if (r != VICTIM) assert_int_equal(outcomes[r].fate, RANKS_GOOD);
    const uint64_t slowest_ns = atomic_load(&scene->slowest_ns);
    fault_time_print(path == BY_FREE   ? on_hosts ? "left_far" : "left"
                     : path == BY_EXEC ? on_hosts ? "exec_far" : "exec"
                     : on_hosts        ? "exit_far"
                                       : "exit",
                     slowest_ns);
    assert_true(slowest_ns < LIMIT_NS);
}

static void who_exits_is_named(void **state)
{
    (void)state;
    for (enum path path = BY_EXIT; path <= BY_ABORT; path++) expect_to_hear(path, false);
}

static void who_exits_on_another_host_is_named(void **state)
{
    (void)state;
    for (enum path path = BY_EXIT; path <= BY_ABORT; path++) expect_to_hear(path, true);
}

static void who_executes_another_program_is_named(void **state)
{
    (void)state;
    expect_to_hear(BY_EXEC, false);
    expect_to_hear(BY_EXEC, true);
}

static void who_frees_its_communicator_has_left(void **state)
{
    (void)state;
    expect_to_hear(BY_FREE, false);
    expect_to_hear(BY_FREE, true);
}

/* ----------------------------------------------------------------------- what exit() takes away */

/* Of a communicator that is freed after OpenSSL has cleaned up, what OpenSSL made stays: nothing
 * could free it any more. The address sanitizer's leak checker asks for this. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libssl.so\nleak:libcrypto.so\n";
}

static struct tutti_comm *left_behind;
static enum { NOTHING, LINGER, FREE } last_act;

/* Runs after all handlers that were registered with atexit(), OpenSSL's too. */
__attribute__((destructor)) static void act(void)
{
    if (last_act == LINGER) ranks_nap_ms(100);
    if (last_act == FREE) (void)tutti_comm_free(left_behind);
}

/* exit() takes OpenSSL down while the progress thread has much to send. */
static int exits_in_the_middle(struct tutti_comm *none, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)none, (void)seed;
    static int32_t data[COUNT];
    const bool frees = *(const bool *)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_request *request;
    options.timeout_ns = options.init_timeout_ns = 4 * LIMIT_NS;
    options.encryption = TUTTI_ENCRYPTION_ON;
    RANKS_EXPECT(tutti_comm_create(&options, &left_behind) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(left_behind) == TUTTI_OK);
    for (int i = 0; i < 16; i++)
        RANKS_EXPECT(tutti_allreduce_start(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, NULL,
                                           left_behind, &request) == TUTTI_OK);
    ranks_meet(&scene->met, size); /* no start is refused because the other rank has gone */
    ranks_nap_ms(5 + rank);
    last_act = frees ? FREE : LINGER;
    exit(0);
}

static void who_exits_in_the_middle_ends_in_peace(void **state)
{
    (void)state;
    enum { ROUNDS = 6 };
    if (ranks_are_threads()) skip();
    struct ranks_outcome outcomes[2];
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true, .outcomes = outcomes};
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    for (int round = 0; round < ROUNDS; round++) {
        bool frees = round % 2 == 1;
        memset(scene, 0, sizeof *scene);
        ranks_run(2, &options, exits_in_the_middle, &frees);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(outcomes[r].fate, RANKS_EXITED);
            assert_int_equal(outcomes[r].value, 0);
        }
    }
    unsetenv("TUTTI_TEST_HOSTS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_exits_is_named),
        cmocka_unit_test(who_exits_on_another_host_is_named),
        cmocka_unit_test(who_executes_another_program_is_named),
        cmocka_unit_test(who_frees_its_communicator_has_left),
        cmocka_unit_test(who_exits_in_the_middle_ends_in_peace),
    };
    setenv("TUTTI_SECRET", "a secret of these tests alone", 1);
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    scene = ranks_share(sizeof *scene);
    return CASES_RUN_AT_ONCE(tests, 3);
}
