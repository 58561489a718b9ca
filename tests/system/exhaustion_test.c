/* Memory, shared memory, or descriptors are at an end on one rank, at every point of a call where
 * it asks for some: the n-th request fails and so do all after it, or only that one, for n = 1, 2,
 * 3, ... until the call needs no more.
 *
 * That rank gets a named error, or does without. The others get one, too, before any deadline of an
 * operation, or notice nothing. What is there can be freed, no descriptor is left, and with the
 * address sanitizer no memory.
 *
 * The library's calls of the functions below come here (cmake/tests.cmake). Not every n is tried,
 * more of them with TUTTI_LONG=1, which also tries ranks of two hosts.
 *
 * ctest: label=notsan label=once timeout=900 waits
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/belongings.h"
#include "tests/kit/cases.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3, COUNT = 20000, DESCRIPTORS_MAX = 40 };
static const uint64_t SECOND = 1000000000u;

/* ---------------------------------------------------------------------------- what is at an end */

enum resource { MEMORY, SPACE, DESCRIPTORS };

static atomic_bool is_short; /* in this process, of what `wanted` says */
static enum resource wanted;
static bool only_once;
static atomic_int requests, first_refused;

static bool is_refused(enum resource resource)
{
    if (!atomic_load(&is_short) || resource != wanted) return false;
    const int number = atomic_fetch_add(&requests, 1) + 1;
    return only_once ? number == atomic_load(&first_refused) : number >= atomic_load(&first_refused);
}

#define REFUSE(resource, error, result) \
    if (is_refused(resource)) {         \
        errno = error;                  \
        return result;                  \
    }

void *__real_malloc(size_t);
void *__wrap_malloc(size_t);
void *__wrap_malloc(size_t bytes)
{
    REFUSE(MEMORY, ENOMEM, NULL)
    return __real_malloc(bytes);
}

void *__real_calloc(size_t, size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_calloc(size_t count, size_t bytes)
{
    REFUSE(MEMORY, ENOMEM, NULL)
    return __real_calloc(count, bytes);
}

void *__real_realloc(void *, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_realloc(void *memory, size_t bytes)
{
    REFUSE(MEMORY, ENOMEM, NULL)
    return __real_realloc(memory, bytes);
}

void *__real_reallocarray(void *, size_t, size_t);
void *__wrap_reallocarray(void *, size_t, size_t);
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes)
{
    REFUSE(MEMORY, ENOMEM, NULL)
    return __real_reallocarray(memory, count, bytes);
}

void *__real_aligned_alloc(size_t, size_t);
void *__wrap_aligned_alloc(size_t, size_t);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    REFUSE(MEMORY, ENOMEM, NULL)
    return __real_aligned_alloc(alignment, bytes);
}

char *__real_strdup(const char *);
char *__wrap_strdup(const char *);
char *__wrap_strdup(const char *text)
{
    REFUSE(MEMORY, ENOMEM, NULL)
    return __real_strdup(text);
}

void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    REFUSE(MEMORY, ENOMEM, MAP_FAILED)
    return __real_mmap(address, bytes, protection, flags, fd, offset);
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *context)
{
    REFUSE(MEMORY, EAGAIN, EAGAIN)
    return __real_pthread_create(thread, attributes, run, context);
}

int __real_fallocate(int, int, off_t, off_t);
int __wrap_fallocate(int, int, off_t, off_t);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    if (mode == 0) REFUSE(SPACE, ENOSPC, -1)
    return __real_fallocate(fd, mode, offset, bytes);
}

/* So that the count-th descriptor from now on is one too many. */
static void limit_descriptors(int count)
{
    struct rlimit limit;
    int end = 0;
    for (int free = 0; free < count; end++) free += fcntl(end, F_GETFD) < 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)end - 1;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void lift_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void begin_shortage(enum resource resource, int n, bool once)
{
    wanted = resource;
    only_once = once;
    atomic_store(&requests, 0);
    atomic_store(&first_refused, n);
    if (resource == DESCRIPTORS) limit_descriptors(n);
    atomic_store(&is_short, true);
}

/* Whether the n-th was asked for. */
static bool end_shortage(int n)
{
    atomic_store(&is_short, false);
    if (wanted != DESCRIPTORS) return atomic_load(&requests) >= n;
    lift_limit();
    return n < DESCRIPTORS_MAX;
}

/* ------------------------------------------------------------------------------------- attempts */

enum stage { CREATE, DUP, SPLIT, CALL, STARTED, SHRINK };
static const char *const stage_names[] = {"create", "dup", "split", "call", "started", "shrink"};
static const char *const resource_names[] = {"memory", "shared memory", "descriptors"};
static const char *const row_names[] = {"memory", "space", "descriptors"}; /* of bench/faults */

struct shortage {
    enum resource resource;
    bool once;
    enum stage stage;
    int victim;
};

/* Of all ranks. */
struct scene {
    struct tutti_id id;
    atomic_int arrived, came_to_nothing;
    atomic_int created, failed; /* of one attempt: ranks */
    atomic_int status;          /* of the victim */
    atomic_bool was_hit;
    _Atomic uint64_t slowest_ns; /* of one attempt: until the last rank had its error */
};
static struct scene *scene;

/* Until all ranks are here; false: one of them has given up. */
static bool meet(int *meetings)
{
    const uint64_t begin_ns = clock_now_ns();
    const int all = ++*meetings * RANKS;
    atomic_fetch_add(&scene->arrived, 1);
    while (atomic_load(&scene->arrived) < all) {
        if (atomic_load(&scene->came_to_nothing) > 0 || clock_now_ns() - begin_ns > 60 * SECOND)
            return false;
        ranks_nap_ms(1);
    }
    return true;
}

static enum tutti_status call_all(struct tutti_comm *comm)
{
    static int32_t data[COUNT], blocks[COUNT];
    enum tutti_status status = tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm);
    if (status == TUTTI_OK) status = tutti_alltoall(data, blocks, COUNT / RANKS, TUTTI_INT32, comm);
    return status != TUTTI_OK ? status : tutti_barrier(comm);
}

static enum tutti_status call_started(struct tutti_comm *comm)
{
    static int32_t data[2][COUNT];
    struct tutti_request *requests_of_two[2] = {NULL};
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && status == TUTTI_OK; i++)
        status = tutti_allreduce_start(data[i], data[i], COUNT, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                       &requests_of_two[i]);
    for (int i = 0; i < 2; i++) {
        if (requests_of_two[i] == NULL) continue;
        const enum tutti_status one = tutti_wait(&requests_of_two[i]);
        if (status == TUTTI_OK) status = one;
    }
    return status;
}

/* What may be short of something. *comm is what create has made, or made before; *derived what
 * others make of it. */
static enum tutti_status do_stage(enum stage stage, const struct tutti_comm_options *options,
                                  struct tutti_comm **comm, struct tutti_comm **derived)
{
    switch (stage) {
    case CREATE: return tutti_comm_create(options, comm);
    case DUP: return tutti_comm_dup(*comm, options, derived);
    case SPLIT: return tutti_comm_split(*comm, 0, 0, options, derived);
    case CALL: return call_all(*comm);
    case STARTED: return call_started(*comm);
    default: return tutti_comm_shrink(*comm, NULL, derived);
    }
}

/* Deadlines of operations are far beyond this; those of start-up are short where that may fail. */
static const uint64_t LIMIT_NS = UINT64_C(30000000000), TIMEOUT_NS = UINT64_C(90000000000),
                      SHORT_NS = UINT64_C(300000000);

static int attempt(const struct shortage *shortage, int rank, int n, bool is_patient)
{
    struct tutti_comm *comm = NULL, *derived = NULL;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = RANKS;
    options.id = &scene->id;
    options.timeout_ns = options.init_timeout_ns = TIMEOUT_NS;
    const bool is_victim = rank == shortage->victim;
    if (shortage->stage != CREATE) RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    if (shortage->stage == SHRINK && rank == 0) RANKS_EXPECT(tutti_comm_revoke(comm) == TUTTI_OK);
    if (shortage->stage <= SPLIT && !is_patient) options.init_timeout_ns = SHORT_NS;
    const bool is_derived = shortage->stage == DUP || shortage->stage == SPLIT;
    if (is_derived) options.id = NULL;
    if (is_derived) options.rank = options.size = -1;

    const uint64_t begin_ns = clock_now_ns();
    if (is_victim) begin_shortage(shortage->resource, n, shortage->once);
    const enum tutti_status status = do_stage(shortage->stage, &options, &comm, &derived);
    if (status != TUTTI_OK) fault_time_raise(&scene->slowest_ns, clock_now_ns() - begin_ns);
    if (is_victim) {
        atomic_store(&scene->was_hit, end_shortage(n));
        atomic_store(&scene->status, (int)status);
    }
    RANKS_EXPECT(status != TUTTI_INTERNAL && status != TUTTI_TIMEOUT);
    RANKS_EXPECT(status == TUTTI_OK || tutti_error_message()[0] != '\0');
    if (status != TUTTI_OK) atomic_fetch_add(&scene->failed, 1);
    if (status == TUTTI_OK && (derived != NULL || shortage->stage == CREATE)) {
        const enum tutti_status used = tutti_barrier(derived != NULL ? derived : comm);
        RANKS_EXPECT(used != TUTTI_INTERNAL && used != TUTTI_TIMEOUT);
        /* Who could not shrink has left, and is left out. */
        const bool all_have = shortage->stage == SHRINK || atomic_load(&scene->failed) == 0;
        RANKS_EXPECT((used == TUTTI_OK) == all_have);
    }
    RANKS_EXPECT(tutti_comm_free(derived) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(clock_now_ns() - begin_ns < LIMIT_NS);
    return 0;
}

/* All ranks try the same. */
static int try_all(const struct shortage *shortage, int rank)
{
    const int rarer = getenv("TUTTI_LONG") != NULL ? 8 : 1;
    int meetings = 0, tries = 0, errors = 0;
    bool is_hit = true, is_patient = false;
    for (int n = 1; is_hit; n += 1 + n / rarer) {
        const int descriptors = belongings_descriptors();
        atomic_store(&scene->failed, 0);
        atomic_store(&scene->slowest_ns, 0);
        if (rank == 0) RANKS_EXPECT(tutti_id_create(&scene->id) == TUTTI_OK);
        RANKS_EXPECT(meet(&meetings));
        const int result = attempt(shortage, rank, n, is_patient);
        if (result != 0) fprintf(stderr, "rank %d: at request %d\n", rank, n);
        if (result != 0) return result;
        RANKS_EXPECT(meet(&meetings));
        RANKS_EXPECT(belongings_descriptors() == descriptors);
        /* What nothing was refused to may have come too late: once more, with patience. */
        is_patient = !atomic_load(&scene->was_hit) && !is_patient;
        is_hit = atomic_load(&scene->was_hit) || is_patient;
        errors += atomic_load(&scene->status) != TUTTI_OK;
        tries++;
        if (rank == shortage->victim && shortage->stage > CREATE && atomic_load(&scene->failed) > 0)
            fault_time_print(row_names[shortage->resource], atomic_load(&scene->slowest_ns));
        RANKS_EXPECT(is_hit || atomic_load(&scene->failed) == 0);
        RANKS_EXPECT(meet(&meetings));
    }
    if (rank == shortage->victim)
        fprintf(stderr, "%s of rank %d, short of %s%s: tried %d times, %d errors\n",
                stage_names[shortage->stage], rank, resource_names[shortage->resource],
                shortage->once ? " once" : "", tries, errors);
    return 0;
}

static int run_short(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)size, (void)seed;
    const int result = try_all(context, rank);
    if (result != 0) atomic_fetch_add(&scene->came_to_nothing, 1);
    return result;
}

static void expect_named(enum resource resource, enum stage stage)
{
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 170000, .without_comm = true};
    for (int victim = 0; victim < 2; victim++) {
        for (int once = 0; once < (resource == DESCRIPTORS ? 1 : 2); once++) {
            struct shortage shortage = {resource, once, stage, victim};
            memset(scene, 0, sizeof *scene);
            assert_int_equal(ranks_run(RANKS, &options, run_short, &shortage), 0);
        }
    }
}

/* On hosts: as ranks of two. */
static void run_stages(enum resource resource, bool on_hosts)
{
    if (ranks_are_threads()) skip(); /* one process would be short of it on all ranks */
    if (on_hosts && getenv("TUTTI_LONG") == NULL) skip();
    if (on_hosts) setenv("TUTTI_TEST_HOSTS", "2", 1);
    for (enum stage stage = CREATE; stage <= SHRINK; stage++) expect_named(resource, stage);
    unsetenv("TUTTI_TEST_HOSTS");
}

static void without_memory_calls_fail_by_name(void **state)
{
    (void)state;
    run_stages(MEMORY, false);
}

static void without_shared_memory_calls_fail_by_name(void **state)
{
    (void)state;
    run_stages(SPACE, false);
}

static void without_descriptors_calls_fail_by_name(void **state)
{
    (void)state;
    run_stages(DESCRIPTORS, false);
}

static void without_memory_calls_between_hosts_fail_by_name(void **state)
{
    (void)state;
    run_stages(MEMORY, true);
}

static void without_descriptors_calls_between_hosts_fail_by_name(void **state)
{
    (void)state;
    run_stages(DESCRIPTORS, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_calls_fail_by_name),
        cmocka_unit_test(without_shared_memory_calls_fail_by_name),
        cmocka_unit_test(without_descriptors_calls_fail_by_name),
        cmocka_unit_test(without_memory_calls_between_hosts_fail_by_name),
        cmocka_unit_test(without_descriptors_calls_between_hosts_fail_by_name),
    };
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    setenv("TUTTI_SECRET", "a secret of this test alone", 1);
    lift_limit();
    scene = ranks_share(sizeof *scene);
    return CASES_RUN_AT_ONCE(tests, 4);
}
