/* Ranks of one host in different PID namespaces, as with a container for each rank and the host's
 * network: they find each other and compute the right results, with any memory. All ranks name a
 * killed rank at once, also those that cannot see its process.
 *
 *     arrangement   rank 0      1         2         3          (of four; each box is a namespace)
 *     siblings     [1]         [1]       [1]       [1]         all have pid 1
 *     children      .          [1]       [. 2]      .          two in the test's own
 *     pairs        [1 . . .     |         3]                   0 and 2 in one,
 *                              [1         |         3]         1 and 3 in the other
 *     without /proc [1]        [1]       [1]       [1]         where /proc is the test's, with other pids
 *
 * Needs root, and a kernel that lets namespaces be made.
 *
 * ctest: label=notsan timeout=180
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4, SMALL = 3, LARGE = 1 << 18 };
static const uint64_t SECOND = 1000000000u;

/* Where a rank runs. */
enum home {
    HERE,      /* in the test's namespace */
    FIRST,     /* as the first process of a new one */
    SECOND_OF, /* as a later process of a new one */
    JOINS,     /* in that of the rank two before */
    WITHOUT_PROC
};

struct arrangement {
    const char *name;
    enum home homes[RANKS];
    int victim;
};

/* Of all ranks of a run. */
struct scene {
    struct tutti_id id;
    atomic_bool has_id, is_doomed;
    atomic_int holders[RANKS]; /* of each rank's namespace: its first process, as the test sees it */
    atomic_int is_ready[RANKS]; /* that namespace has a /proc */
    atomic_int done;            /* ranks that have ended by themselves, or are about to */
    _Atomic uint64_t killed_ns, slowest_ns;
};
static struct scene *scene;

/* ----------------------------------------------------------------------------------- namespaces */

static int mount_proc(void)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -1;
    return mount("proc", "/proc", "proc", 0, NULL);
}

static int enter_one(pid_t holder, const char *kind, int flag)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)holder, kind);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const int result = fd >= 0 ? setns(fd, flag) : -1;
    if (fd >= 0) close(fd);
    return result;
}

static bool wait_until(const atomic_int *value)
{
    for (int i = 0; i < 30000 && atomic_load(value) == 0; i++) ranks_nap_ms(1);
    return atomic_load(value) != 0;
}

/* Children of this process are in the rank's namespace from now on. */
static int go_home(enum home home, int rank)
{
    if (home == HERE) return 0;
    if (home != JOINS) return unshare(CLONE_NEWPID | CLONE_NEWNS);
    const atomic_int *holder = &scene->holders[rank - 2];
    if (!wait_until(holder) || !wait_until(&scene->is_ready[rank - 2])) return -1;
    if (enter_one(atomic_load(holder), "pid", CLONE_NEWPID) != 0) return -1;
    return enter_one(atomic_load(holder), "mnt", CLONE_NEWNS);
}

/* The work of a namespace's first process that is no rank: when it ends, so do the namespace and
 * all processes in it. Does not return. */
static void keep_namespace(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) _exit(1);
    for (int i = 0; i < 30000 && atomic_load(&scene->done) < RANKS - 1; i++) ranks_nap_ms(1);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Why no namespaces can be made here; NULL: they can. */
static const char *what_is_missing(void)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(1);
        const pid_t first = fork();
        if (first == 0) _exit(mount_proc() == 0 ? 0 : 2);
        _exit(waitpid(first, &status, 0) == first && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return "no processes";
    if (WEXITSTATUS(status) == 1) return "no PID namespaces can be made here (they need root)";
    return WEXITSTATUS(status) == 2 ? "no /proc can be mounted here" : NULL;
}

/* ---------------------------------------------------------------------------------------- ranks */

static int reduce(struct tutti_comm *comm, int rank, int64_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) data[i] = rank + (int64_t)(i % 5);
    RANKS_EXPECT(tutti_allreduce(data, data, count, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
    for (size_t i = 0; i < count; i++)
        RANKS_EXPECT(data[i] == RANKS * (RANKS - 1) / 2 + RANKS * (int64_t)(i % 5));
    return 0;
}

static int send_around(struct tutti_comm *comm, int rank, int64_t *data, int64_t *other)
{
    struct tutti_request *request = NULL;
    const int previous = (rank + RANKS - 1) % RANKS;
    for (int i = 0; i < LARGE; i++) data[i] = rank;
    RANKS_EXPECT(tutti_recv_start(other, LARGE, TUTTI_INT64, previous, 7, NULL, NULL, comm,
                                  &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_send(data, LARGE, TUTTI_INT64, (rank + 1) % RANKS, 7, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    for (int i = 0; i < LARGE; i++) RANKS_EXPECT(other[i] == previous);
    return 0;
}

static int use(struct tutti_comm *comm, int rank, int64_t *data, int64_t *other)
{
    for (int i = 0; i < 3; i++) {
        if (reduce(comm, rank, data, SMALL) != 0 || reduce(comm, rank, data, LARGE) != 0) return 1;
        if (send_around(comm, rank, data, other) != 0) return 1;
    }
    return 0;
}

static int use_all_memory(struct tutti_comm *comm, int rank)
{
    static int64_t data[LARGE], other[LARGE];
    void *mapped, *mapped_other;
    RANKS_EXPECT(tutti_mem_alloc(sizeof data, &mapped) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_alloc(sizeof data, &mapped_other) == TUTTI_OK);
    if (use(comm, rank, data, other) != 0) return 1;
    if (use(comm, rank, mapped, mapped_other) != 0) return 1;
    RANKS_EXPECT(tutti_mem_free(mapped) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(mapped_other) == TUTTI_OK);
    return 0;
}

/* Where two are in one namespace, they are on their own then. */
static int use_halves(struct tutti_comm *comm, int rank)
{
    struct tutti_comm *half;
    int64_t sum = rank;
    RANKS_EXPECT(tutti_comm_split(comm, rank % 2, rank, NULL, &half) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&sum, &sum, 1, TUTTI_INT64, TUTTI_SUM, half) == TUTTI_OK);
    RANKS_EXPECT(sum == (rank % 2 == 0 ? 2 : 4));
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);
    return 0;
}

static bool shares_namespace(const struct arrangement *arrangement, int a, int b)
{
    const enum home *homes = arrangement->homes;
    const int first = a < b ? a : b, last = a < b ? b : a;
    return a == b || (homes[a] == HERE && homes[b] == HERE) ||
           (homes[last] == JOINS && last - first == 2);
}

/* The victim's pid, as far as it means something here. */
static int expect_named(struct tutti_comm *comm, const struct arrangement *arrangement, int rank)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    const bool sees_it = shares_namespace(arrangement, rank, arrangement->victim);
    char name[64];
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_PROC_FAILED && failure.culprit == arrangement->victim);
    RANKS_EXPECT((failure.pid > 0) == sees_it);
    snprintf(name, sizeof name, "rank %d (host ", arrangement->victim);
    RANKS_EXPECT(strstr(failure.message, name) != NULL);
    const bool finder_sees = shares_namespace(arrangement, failure.reporter, arrangement->victim);
    RANKS_EXPECT((strstr(failure.message, "of another PID namespace") == NULL) == finder_sees);
    return 0;
}

static int survive(struct tutti_comm *comm, const struct arrangement *arrangement, int rank)
{
    struct tutti_comm *smaller;
    int64_t one = 1;
    enum tutti_status status;
    do status = tutti_allreduce(&one, &one, 1, TUTTI_INT64, TUTTI_SUM, comm);
    while (status == TUTTI_OK);
    const uint64_t known_ns = clock_now_ns(), killed_ns = atomic_load(&scene->killed_ns);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED && killed_ns > 0);
    fault_time_raise(&scene->slowest_ns, known_ns - killed_ns);
    if (expect_named(comm, arrangement, rank) != 0) return 1;
    one = 1;
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT64, TUTTI_SUM, smaller) == TUTTI_OK);
    RANKS_EXPECT(one == RANKS - 1);
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static int be_rank(const struct arrangement *arrangement, int rank)
{
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    if (rank == 0) {
        RANKS_EXPECT(tutti_id_create(&scene->id) == TUTTI_OK);
        atomic_store(&scene->has_id, true);
    }
    for (int i = 0; i < 30000 && !atomic_load(&scene->has_id); i++) ranks_nap_ms(1);
    options.rank = rank;
    options.size = RANKS;
    options.id = &scene->id;
    options.timeout_ns = options.init_timeout_ns = 60 * SECOND;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    if (use_all_memory(comm, rank) != 0 || use_halves(comm, rank) != 0) return 1;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == arrangement->victim) {
        atomic_store(&scene->is_doomed, true);
        for (;;) pause();
    }
    if (survive(comm, arrangement, rank) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

/* ---------------------------------------------------------------------------------------- a run */

/* In the rank's namespace, as its first process or not; does not return. */
static void begin(const struct arrangement *arrangement, int rank, int life)
{
    const enum home home = arrangement->homes[rank];
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(life, &byte, 1) != 1) _exit(1); /* whom the test knows by now, or who has lost it */
    if ((home == FIRST || home == SECOND_OF) && mount_proc() != 0) _exit(1);
    atomic_store(&scene->is_ready[rank], 1);
    const pid_t child = home == SECOND_OF ? fork() : 0;
    if (child != 0) keep_namespace(child);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int result = be_rank(arrangement, rank);
    if (home != JOINS) atomic_fetch_add(&scene->done, 1);
    fflush(NULL);
    _exit(result);
}

/* From outside: the first process of a namespace has nobody else who could. All of its namespace
 * dies with it. */
static int kill_when_doomed(pid_t pid)
{
    int status;
    while (!atomic_load(&scene->is_doomed)) {
        if (waitpid(pid, &status, WNOHANG) != 0) return 1;
        ranks_nap_ms(1);
    }
    ranks_nap_ms(100); /* the others sleep in their call by then */
    atomic_store(&scene->killed_ns, clock_now_ns());
    kill(pid, SIGKILL);
    return waitpid(pid, &status, 0) == pid ? 0 : 1;
}

/* In a process of its own, whose later children are in the rank's namespace: nothing else should
 * start any there. */
static int keep_rank(const struct arrangement *arrangement, int rank)
{
    int life[2], status = 0;
    RANKS_EXPECT(pipe2(life, O_CLOEXEC) == 0);
    RANKS_EXPECT(go_home(arrangement->homes[rank], rank) == 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) begin(arrangement, rank, life[0]);
    RANKS_EXPECT(pid > 0);
    RANKS_EXPECT(write(life[1], "", 1) == 1);
    atomic_store(&scene->holders[rank], (int)pid);
    if (rank == arrangement->victim) return kill_when_doomed(pid);
    RANKS_EXPECT(waitpid(pid, &status, 0) == pid);
    /* Only now: the namespace that it has joined may end, and nothing in it would survive that. */
    if (arrangement->homes[rank] == JOINS) atomic_fetch_add(&scene->done, 1);
    RANKS_EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run_rank(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)size, (void)seed;
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int result = keep_rank(context, rank);
        fflush(NULL);
        _exit(result);
    }
    RANKS_EXPECT(waitpid(pid, &status, 0) == pid);
    RANKS_EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_arrangement(struct arrangement arrangement)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 50000, .without_comm = true};
    memset(scene, 0, sizeof *scene);
    assert_int_equal(ranks_run(RANKS, &options, run_rank, &arrangement), 0);
    const uint64_t slowest_ns = atomic_load(&scene->slowest_ns);
    fprintf(stderr, "%s: rank %d was missed after %.3f s\n", arrangement.name, arrangement.victim,
            (double)slowest_ns * 1e-9);
    assert_true(slowest_ns < 10 * SECOND); /* no deadline is that near */
}

static void ranks_of_sibling_namespaces_work_and_miss_each_other(void **state)
{
    (void)state;
    expect_arrangement((struct arrangement){"siblings", {FIRST, FIRST, FIRST, FIRST}, 2});
    expect_arrangement((struct arrangement){"siblings", {FIRST, FIRST, FIRST, FIRST}, 0});
}

static void ranks_of_parent_and_child_namespaces_work_and_miss_each_other(void **state)
{
    (void)state;
    expect_arrangement((struct arrangement){"children", {HERE, FIRST, SECOND_OF, HERE}, 2});
    expect_arrangement((struct arrangement){"children", {HERE, FIRST, SECOND_OF, HERE}, 3});
}

static void ranks_of_shared_namespaces_work_and_miss_each_other(void **state)
{
    (void)state;
    expect_arrangement((struct arrangement){"pairs", {SECOND_OF, SECOND_OF, JOINS, JOINS}, 3});
}

static void ranks_whose_proc_is_of_another_namespace_work_and_miss_each_other(void **state)
{
    (void)state;
    expect_arrangement((struct arrangement){
        "without /proc", {WITHOUT_PROC, WITHOUT_PROC, WITHOUT_PROC, WITHOUT_PROC}, 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_sibling_namespaces_work_and_miss_each_other),
        cmocka_unit_test(ranks_of_parent_and_child_namespaces_work_and_miss_each_other),
        cmocka_unit_test(ranks_of_shared_namespaces_work_and_miss_each_other),
        cmocka_unit_test(ranks_whose_proc_is_of_another_namespace_work_and_miss_each_other),
    };
    const char *const missing = what_is_missing();
    if (missing != NULL) {
        printf("%s: skipped\n", missing);
        return 77;
    }
    scene = ranks_share(sizeof *scene);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
