/* fork() in the middle of use: the child is refused, frees what it inherited for itself alone, and
 * makes its own; the parent and its peers notice nothing.
 *
 * ctest: label=notsan timeout=120
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "health/lock.h"
#include "os/clock.h"
#include "tests/kit/fault_time.h"
#include "tests/kit/patient.h"
#include "tests/worlds/ranks.h"

/* Runs a function in a child of this process; what it returned, or -1. A child that hangs is
 * ended. */
typedef int child_function(int rank, void *context);
static pid_t start_child(child_function *function, int rank, void *context)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(25);
    _exit(function(rank, context));
}

static int end_child(pid_t pid)
{
    int status;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_child(child_function *function, int rank, void *context)
{
    return end_child(start_child(function, rank, context));
}

static int64_t sum_of(int64_t number, struct tutti_comm *comm)
{
    int64_t sum = 0;
    return tutti_allreduce(&number, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK ? sum : -1;
}

/* Shared memory objects of the library that this process has open. */
static int open_objects(void)
{
    int count = 0;
    for (int fd = 3; fd < 256; fd++) {
        char path[32], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof name - 1) > 0) count += strstr(name, "tutti-") != NULL;
    }
    return count;
}

/* ------------------------------------------------------------------------------------- refusals */

/* The status is INVALID_COMM, and the message tells why. */
static bool is_refused(enum tutti_status status)
{
    return status == TUTTI_INVALID_COMM && strstr(tutti_error_message(), "fork") != NULL;
}

struct inherited {
    struct tutti_comm *comm;
    struct tutti_mesh *mesh;
    struct tutti_request *request;   /* or NULL */
    struct tutti_prepared *prepared; /* or NULL */
    void *memory;
};

static int be_refused(int rank, void *context)
{
    const struct inherited *had = context;
    struct tutti_comm *comm = had->comm, *made = comm;
    struct tutti_mesh *mesh;
    struct tutti_request *request = had->request;
    float data[8] = {0};
    RANKS_EXPECT(is_refused(tutti_barrier(comm)));
    RANKS_EXPECT(is_refused(tutti_allreduce(data, data, 1, TUTTI_FLOAT32, TUTTI_SUM, comm)));
    RANKS_EXPECT(is_refused(tutti_allgather(data, data + 4, 1, TUTTI_FLOAT32, comm)));
    RANKS_EXPECT(is_refused(tutti_broadcast_with(data, data, 1, TUTTI_FLOAT32, 0, NULL, comm)));
    RANKS_EXPECT(is_refused(tutti_send(data, 1, TUTTI_FLOAT32, rank, 0, comm)));
    RANKS_EXPECT(is_refused(tutti_recv(data, 1, TUTTI_FLOAT32, 0, 0, NULL, comm)));
    RANKS_EXPECT(is_refused(tutti_comm_split(comm, 0, 0, NULL, &made)) && made == NULL);
    RANKS_EXPECT(is_refused(tutti_comm_dup(comm, NULL, &made)));
    RANKS_EXPECT(is_refused(tutti_comm_group(comm, &rank, 1, NULL, &made)));
    RANKS_EXPECT(is_refused(tutti_mesh_create(comm, &(struct tutti_axis){"a", 2, NULL}, 1, &mesh)));
    RANKS_EXPECT(is_refused(tutti_comm_abort(comm, "the child")));
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    RANKS_EXPECT(is_refused(tutti_comm_footprint(comm, &footprint)));
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(is_refused(tutti_comm_failure(comm, &failure)));
    if (request != NULL) {
        RANKS_EXPECT(is_refused(tutti_test(&request)));
        RANKS_EXPECT(is_refused(tutti_wait(&request)));
    }
    if (had->prepared != NULL) {
        RANKS_EXPECT(is_refused(tutti_start(had->prepared, &request)));
        RANKS_EXPECT(request == NULL && tutti_prepared_free(had->prepared) == TUTTI_OK);
    }
    struct tutti_prepared *prepared;
    RANKS_EXPECT(is_refused(tutti_barrier_prepare(NULL, comm, &prepared)));
    RANKS_EXPECT(
        is_refused(tutti_alltoall_start(data, data, 1, TUTTI_FLOAT32, NULL, comm, &request)));
    RANKS_EXPECT(request == NULL);
    return 0;
}

/* Then all is given back: of this process. */
static int be_refused_and_free(int rank, void *context)
{
    struct inherited *had = context;
    if (be_refused(rank, context) != 0) return 1;
    RANKS_EXPECT(tutti_mesh_free(had->mesh) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(had->comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(had->memory) == TUTTI_OK);
    RANKS_EXPECT(open_objects() == 0);
    return 0;
}

static int fork_in_use(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct inherited had = {.comm = comm};
    const struct tutti_axis axes[] = {{"all", size, NULL}, {"one", 1, NULL}};
    RANKS_EXPECT(tutti_mem_alloc(1 << 16, &had.memory) == TUTTI_OK);
    RANKS_EXPECT(tutti_mesh_create(comm, axes, 2, &had.mesh) == TUTTI_OK);
    RANKS_EXPECT(sum_of(1, comm) == size);
    float *const data = had.memory;
    float prepared = 1;
    RANKS_EXPECT(tutti_allreduce_prepare(&prepared, &prepared, 1, TUTTI_FLOAT32, TUTTI_MAX, NULL,
                                         comm, &had.prepared) == TUTTI_OK);
    for (int turn = 0; turn < 3; turn++) {
        RANKS_EXPECT(run_child(turn == 1 ? be_refused : be_refused_and_free, rank, &had) == 0);
        for (int i = 0; i < 1 << 14; i++) data[i] = (float)(i % 8 + turn);
        RANKS_EXPECT(tutti_allreduce(data, data, 1 << 14, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                     TUTTI_OK);
        for (int i = 0; i < 1 << 14; i++) RANKS_EXPECT(data[i] == (float)(size * (i % 8 + turn)));
        RANKS_EXPECT(sum_of(turn, tutti_mesh_axis(had.mesh, "all")) == turn * size);
        RANKS_EXPECT(tutti_start(had.prepared, &had.request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&had.request) == TUTTI_OK && prepared == 1);
    }
    RANKS_EXPECT(tutti_prepared_free(had.prepared) == TUTTI_OK);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK && failure.status == TUTTI_OK);
    RANKS_EXPECT(tutti_mesh_free(had.mesh) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(had.memory) == TUTTI_OK);
    return 0;
}

static void a_child_is_refused_and_its_parent_goes_on(void **state)
{
    (void)state;
    expect_good(3, RANKS_PROCESSES, fork_in_use, NULL);
}

/* The progress thread is at work, and the other ranks have not come yet. */
static int fork_under_way(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 300000 };
    int32_t *const data = malloc(COUNT * sizeof *data);
    RANKS_EXPECT(data != NULL);
    for (int turn = 0; turn < 5; turn++) {
        struct inherited had = {.comm = comm};
        for (int i = 0; i < COUNT; i++) data[i] = i % 100 + turn;
        if (rank != 0) nanosleep(&(struct timespec){0, turn * 4000000}, NULL);
        RANKS_EXPECT(tutti_mem_alloc(100, &had.memory) == TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce_start(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                           &had.request) == TUTTI_OK);
        RANKS_EXPECT(run_child(be_refused_and_free, rank, &had) == 0);
        RANKS_EXPECT(tutti_wait(&had.request) == TUTTI_OK);
        for (int i = 0; i < COUNT; i++) RANKS_EXPECT(data[i] == size * (i % 100 + turn));
        RANKS_EXPECT(tutti_mem_free(had.memory) == TUTTI_OK);
    }
    free(data);
    return 0;
}

/* A message that is waited for, and one that waits. */
static int fork_between_messages(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)context;
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    struct inherited had = {.comm = comm};
    int32_t number = 0, early = 0;
    RANKS_EXPECT(tutti_mem_alloc(1, &had.memory) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_start(&number, 1, TUTTI_INT32, previous, 1, NULL, NULL, comm,
                                  &had.request) == TUTTI_OK);
    RANKS_EXPECT(tutti_send(&(int32_t){rank + 100}, 1, TUTTI_INT32, next, 2, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(run_child(be_refused_and_free, rank, &had) == 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_send(&(int32_t){rank}, 1, TUTTI_INT32, next, 1, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&had.request) == TUTTI_OK && number == previous);
    RANKS_EXPECT(tutti_recv(&early, 1, TUTTI_INT32, previous, 2, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(early == previous + 100);
    RANKS_EXPECT(tutti_mem_free(had.memory) == TUTTI_OK);
    return 0;
}

static void messages_survive_a_fork(void **state)
{
    (void)state;
    expect_good(2, RANKS_PROCESSES, fork_between_messages, NULL);
}

/* A thread that was moving messages when its process forked left them half changed. Here a read of
 * them ends the child. */
static int free_what_is_half_changed(int rank, void *context)
{
    struct tutti_comm *comm = context;
    void *const unreadable = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RANKS_EXPECT(unreadable != MAP_FAILED);
    comm->messages.p2p = unreadable;
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static int fork_while_messages_move(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)seed, (void)context;
    int32_t value = rank;
    if (rank == 0) RANKS_EXPECT(tutti_send(&value, 1, TUTTI_INT32, 1, 1, comm) == TUTTI_OK);
    if (rank == 1) RANKS_EXPECT(tutti_recv(&value, 1, TUTTI_INT32, 0, 1, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(health_lock(&comm->health, 10000000000u) == TUTTI_OK);
    const int failed = run_child(free_what_is_half_changed, rank, comm);
    health_unlock(&comm->health);
    RANKS_EXPECT(failed == 0 && value == 0);
    RANKS_EXPECT(sum_of(1, comm) == size);
    return 0;
}

static void a_child_leaves_messages_alone_that_were_moving(void **state)
{
    (void)state;
    expect_good(2, RANKS_PROCESSES, fork_while_messages_move, NULL);
}

static void a_started_operation_survives_a_fork(void **state)
{
    (void)state;
    expect_good(2, RANKS_PROCESSES, fork_under_way, NULL);
}

/* A thread in the middle of a blocking call, which holds the communicator; its child has
 * neither. */
static void *wait_in_barrier(void *comm)
{
    return (void *)(uintptr_t)tutti_barrier(comm);
}

static int fork_beside_a_call(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    if (rank == 1) {
        nanosleep(&(struct timespec){0, 300000000}, NULL);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        return 0;
    }
    struct inherited had = {.comm = comm};
    RANKS_EXPECT(tutti_mem_alloc(1, &had.memory) == TUTTI_OK);
    pthread_t thread;
    void *status;
    RANKS_EXPECT(pthread_create(&thread, NULL, wait_in_barrier, comm) == 0);
    for (int turn = 0; turn < 5; turn++) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        const uint64_t begin_ns = clock_now_ns();
        RANKS_EXPECT(run_child(be_refused_and_free, rank, &had) == 0);
        fault_time_print("fork", clock_now_ns() - begin_ns);
    }
    RANKS_EXPECT(pthread_join(thread, &status) == 0 && status == (void *)TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(had.memory) == TUTTI_OK);
    return 0;
}

static void a_blocked_call_of_another_thread_survives_a_fork(void **state)
{
    (void)state;
    expect_good(2, RANKS_PROCESSES, fork_beside_a_call, NULL);
}

/* --------------------------------------------------------------------------------------- memory */

enum { MEMORY_BYTES = 1 << 16 };

static int use_memory(int rank, void *context)
{
    unsigned char *const old = context, *fresh, *more;
    void *memory;
    for (int i = 0; i < MEMORY_BYTES; i++) RANKS_EXPECT(old[i] == 7);
    RANKS_EXPECT(tutti_mem_alloc(MEMORY_BYTES, &memory) == TUTTI_OK);
    fresh = memory;
    for (int i = 0; i < MEMORY_BYTES; i++) RANKS_EXPECT(fresh[i] == 0);
    memset(fresh, 9, MEMORY_BYTES);
    RANKS_EXPECT(tutti_mem_free(old + 1) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_mem_free(old) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(old) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_mem_alloc(MEMORY_BYTES, &memory) == TUTTI_OK);
    more = memory;
    for (int i = 0; i < MEMORY_BYTES; i++) RANKS_EXPECT(more[i] == 0 && fresh[i] == 9);
    memset(more, 11, MEMORY_BYTES);
    RANKS_EXPECT(tutti_mem_free(fresh) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(more) == TUTTI_OK);
    RANKS_EXPECT(open_objects() == 0);
    return 0;
}

/* Its parent is a child itself. */
static int use_memory_of_two(int rank, void *context)
{
    void *memory;
    RANKS_EXPECT(tutti_mem_alloc(MEMORY_BYTES, &memory) == TUTTI_OK);
    memset(memory, 7, MEMORY_BYTES);
    RANKS_EXPECT(open_objects() == 2);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        const bool good = tutti_mem_free(memory) == TUTTI_OK && use_memory(rank, context) == 0;
        _exit(!good);
    }
    RANKS_EXPECT(end_child(pid) == 0);
    for (int i = 0; i < MEMORY_BYTES; i++) RANKS_EXPECT(((unsigned char *)memory)[i] == 7);
    RANKS_EXPECT(tutti_mem_free(memory) == TUTTI_OK);
    return use_memory(rank, context);
}

static void memory_of_parent_and_child_is_apart(void **state)
{
    (void)state;
    void *memory;
    assert_int_equal(tutti_mem_alloc(MEMORY_BYTES, &memory), TUTTI_OK);
    memset(memory, 7, MEMORY_BYTES);
    assert_int_equal(run_child(use_memory, 0, memory), 0);
    assert_int_equal(run_child(use_memory_of_two, 0, memory), 0);
    for (int i = 0; i < MEMORY_BYTES; i++) assert_int_equal(((unsigned char *)memory)[i], 7);
    assert_int_equal(tutti_mem_free(memory), TUTTI_OK);
    assert_int_equal(open_objects(), 0);
}

static void *allocate_and_free(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
        void *memory = NULL;
        if (tutti_mem_alloc(5000, &memory) != TUTTI_OK || tutti_mem_free(memory) != TUTTI_OK)
            return (void *)1;
    }
    return NULL;
}

static int allocate_once(int rank, void *context)
{
    (void)context;
    for (int i = 0; i < 3; i++) {
        void *memory;
        RANKS_EXPECT(tutti_mem_alloc(10000, &memory) == TUTTI_OK);
        memset(memory, i, 10000);
        RANKS_EXPECT(tutti_mem_free(memory) == TUTTI_OK);
    }
    return 0;
}

/* Whatever the other thread is in the middle of, its lock is not left behind. */
static void a_fork_beside_allocating_threads_is_safe(void **state)
{
    (void)state;
    atomic_bool stop = false;
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, allocate_and_free, &stop), 0);
    int bad = 0;
    for (int turn = 0; turn < 40; turn++) bad += run_child(allocate_once, 0, NULL) != 0;
    atomic_store(&stop, true);
    for (int t = 0; t < 2; t++) {
        void *result;
        pthread_join(threads[t], &result);
        assert_null(result);
    }
    assert_int_equal(bad, 0);
}

/* ------------------------------------------------------------------------------- among children */

struct children {
    struct tutti_id id;
    int size;
    struct tutti_comm *parents; /* inherited */
};

static int meet_other_children(int rank, void *context)
{
    enum { COUNT = 50000 };
    const struct children *children = context;
    struct tutti_comm_options options = patient;
    options.rank = rank;
    options.size = children->size;
    options.id = &children->id;
    struct tutti_comm *comm, *copy;
    void *memory;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(is_refused(tutti_barrier(children->parents)));
    RANKS_EXPECT(tutti_comm_free(children->parents) == TUTTI_OK); /* while the own one lives */
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_alloc(COUNT * sizeof(int32_t), &memory) == TUTTI_OK);
    int32_t *const data = memory;
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < COUNT; i++) data[i] = i % 10 + turn;
        struct tutti_request *request; /* the child has a progress thread of its own */
        RANKS_EXPECT(tutti_allreduce_start(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, NULL, copy,
                                           &request) == TUTTI_OK);
        RANKS_EXPECT(sum_of(rank, comm) == children->size * (children->size - 1) / 2);
        const volatile int32_t *const last = &data[COUNT - 1];
        for (int i = 0; i < 5000 && *last != children->size * (9 + turn); i++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        RANKS_EXPECT(*last == children->size * (9 + turn)); /* nobody waited or tested for it */
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        for (int i = 0; i < COUNT; i++) RANKS_EXPECT(data[i] == children->size * (i % 10 + turn));
    }
    RANKS_EXPECT(tutti_mem_free(memory) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(open_objects() == 0);
    return 0;
}

static int have_children(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    struct children children = *(const struct children *)context;
    children.parents = comm;
    struct tutti_request *request;
    int32_t number = 1;
    RANKS_EXPECT(tutti_allreduce_start(&number, &number, 1, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                       &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    const pid_t pid = start_child(meet_other_children, rank, &children);
    for (int turn = 0; turn < 200; turn++) RANKS_EXPECT(sum_of(turn, comm) == turn * size);
    RANKS_EXPECT(end_child(pid) == 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

static void children_have_communicators_of_their_own(void **state)
{
    (void)state;
    struct children children = {.size = 3};
    assert_int_equal(tutti_id_create(&children.id), TUTTI_OK);
    expect_good(3, RANKS_PROCESSES, have_children, &children);
}

/* Ranks are threads: a child of their process inherits all their communicators. */
struct crew {
    pthread_barrier_t barrier;
    struct tutti_comm *comms[3];
};

static int free_all(int rank, void *context)
{
    struct crew *crew = context;
    for (int r = 0; r < 3; r++) {
        RANKS_EXPECT(is_refused(tutti_barrier(crew->comms[r])));
        RANKS_EXPECT(tutti_comm_free(crew->comms[r]) == TUTTI_OK);
    }
    RANKS_EXPECT(open_objects() == 0);
    return 0;
}

static int fork_from_a_thread(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)seed;
    struct crew *crew = context;
    crew->comms[rank] = comm;
    RANKS_EXPECT(sum_of(rank, comm) == size * (size - 1) / 2);
    pthread_barrier_wait(&crew->barrier);
    const int result = rank == 1 ? run_child(free_all, rank, crew) : 0;
    RANKS_EXPECT(sum_of(rank, comm) == size * (size - 1) / 2);
    return result;
}

static void a_process_of_several_ranks_can_fork(void **state)
{
    (void)state;
    struct crew crew;
    assert_int_equal(pthread_barrier_init(&crew.barrier, NULL, 3), 0);
    expect_good(3, RANKS_THREADS, fork_from_a_thread, &crew);
    pthread_barrier_destroy(&crew.barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_refused_and_its_parent_goes_on),
        cmocka_unit_test(a_started_operation_survives_a_fork),
        cmocka_unit_test(messages_survive_a_fork),
        cmocka_unit_test(a_child_leaves_messages_alone_that_were_moving),
        cmocka_unit_test(a_blocked_call_of_another_thread_survives_a_fork),
        cmocka_unit_test(memory_of_parent_and_child_is_apart),
        cmocka_unit_test(a_fork_beside_allocating_threads_is_safe),
        cmocka_unit_test(children_have_communicators_of_their_own),
        cmocka_unit_test(a_process_of_several_ranks_can_fork),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
