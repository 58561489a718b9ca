/* What a communicator costs: resident memory and time, with 64 ranks as threads of this process.
 *
 * The library's own memory is what the process has grown by, less what the test itself holds.
 *
 * ctest: label=nosan timeout=120 serial
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/call.h"
#include "tests/worlds/ranks.h"

enum { MANY = 64, STACK_BYTES_A_THREAD = 64 << 10 };

static const size_t MIB = 1 << 20;

static size_t private_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    size_t kib = 0;
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssAnon: %zu kB", &kib) == 1) break;
    if (file != NULL) fclose(file);
    return kib * 1024;
}

/* Memory behind the library's shared objects, touched or only reserved. */
static size_t shared_bytes(void)
{
    size_t bytes = 0;
    for (int fd = 3; fd < 1024; fd++) {
        char path[32], name[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(path, name, sizeof name - 1);
        if (length <= 0) continue;
        name[length] = '\0';
        struct stat stat;
        if (strstr(name, "memfd:tutti") != NULL && fstat(fd, &stat) == 0)
            bytes += (size_t)stat.st_blocks * 512;
    }
    return bytes;
}

/* A meeting of the threads that is not the library's. */
struct meeting {
    pthread_barrier_t barrier;
    _Atomic uint64_t slowest_ns;
    struct tutti_id id;
    size_t before, created, used, started; /* bytes */
    unsigned char *buffers;                /* of all ranks, touched before */
    size_t buffer_bytes;                   /* of one rank, half for each direction */
};

static size_t own_bytes(void)
{
    return private_bytes() + shared_bytes();
}

static int join(const struct tutti_id *id, int rank, int size, struct tutti_comm **comm)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = id;
    options.timeout_ns = options.init_timeout_ns = 30000000000u;
    RANKS_EXPECT(tutti_comm_create(&options, comm) == TUTTI_OK);
    return 0;
}

/* Every collective at several sizes. */
static int use_everything(const struct meeting *meeting, struct tutti_comm *comm, int rank, int size)
{
    unsigned char *const send = meeting->buffers + (size_t)rank * meeting->buffer_bytes;
    unsigned char *const recv = send + meeting->buffer_bytes / 2;
    static const size_t block_bytes[] = {64, 4096, 16 << 10, 256 << 10, 1 << 20};
    for (int c = 0; c < COLLECTIVE_COUNT; c++) {
        for (size_t b = 0; b < sizeof block_bytes / sizeof *block_bytes; b++) {
            const enum collective collective = (enum collective)c;
            const size_t blocks_max = collective == COLLECTIVE_ALLREDUCE ||
                                              collective == COLLECTIVE_REDUCE ||
                                              collective == COLLECTIVE_BROADCAST
                                          ? 1
                                          : (size_t)size;
            if (block_bytes[b] * blocks_max > meeting->buffer_bytes / 2) continue;
            const struct test_call call = {collective,  send,      recv,   block_bytes[b] / 4,
                                           TUTTI_INT32, TUTTI_SUM, (int)b, NULL};
            RANKS_EXPECT(test_call(&call, comm) == TUTTI_OK);
        }
    }
    return 0;
}

/* The same in the place of a started operation, for the collective with most links. */
static int start_one(const struct meeting *meeting, struct tutti_comm *comm, int rank)
{
    unsigned char *const send = meeting->buffers + (size_t)rank * meeting->buffer_bytes;
    struct tutti_request *request;
    RANKS_EXPECT(tutti_alltoall_start(send, send + meeting->buffer_bytes / 2, 4096, TUTTI_INT32,
                                      NULL, comm, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    return 0;
}

static int create_and_use(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                          void *context)
{
    (void)unused, (void)seed;
    struct meeting *meeting = context;
    /* The stack that calls will need, touched before anything is counted. */
    volatile char stack[STACK_BYTES_A_THREAD];
    for (size_t i = 0; i < sizeof stack; i += 1024) stack[i] = 1;
    pthread_barrier_wait(&meeting->barrier);
    if (rank == 0) meeting->before = own_bytes();
    pthread_barrier_wait(&meeting->barrier);
    const uint64_t begin = clock_now_ns();
    struct tutti_comm *comm;
    if (join(&meeting->id, rank, size, &comm) != 0) return 1;
    const uint64_t took = clock_now_ns() - begin;
    uint64_t slowest = atomic_load(&meeting->slowest_ns);
    while (took > slowest && !atomic_compare_exchange_weak(&meeting->slowest_ns, &slowest, took))
        continue;
    pthread_barrier_wait(&meeting->barrier);
    if (rank == 0) meeting->created = own_bytes();
    pthread_barrier_wait(&meeting->barrier);
    int result = use_everything(meeting, comm, rank, size);
    pthread_barrier_wait(&meeting->barrier);
    if (rank == 0) meeting->used = own_bytes();
    pthread_barrier_wait(&meeting->barrier);
    result |= start_one(meeting, comm, rank);
    pthread_barrier_wait(&meeting->barrier);
    if (rank == 0) meeting->started = own_bytes();
    pthread_barrier_wait(&meeting->barrier);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return result;
}

static void a_communicator_of_64_ranks_is_small_and_quick(void **state)
{
    (void)state;
    struct meeting meeting = {.buffer_bytes = 4 * MIB};
    assert_int_equal(pthread_barrier_init(&meeting.barrier, NULL, MANY), 0);
    assert_int_equal(tutti_id_create(&meeting.id), TUTTI_OK);
    meeting.buffers = mmap(NULL, MANY * meeting.buffer_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_true(meeting.buffers != MAP_FAILED);
    const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 90000, .without_comm = true};
    assert_int_equal(ranks_run(MANY, &options, create_and_use, &meeting), 0);
    munmap(meeting.buffers, MANY * meeting.buffer_bytes);
    pthread_barrier_destroy(&meeting.barrier);

    const double fresh = (double)(meeting.created - meeting.before) / MANY / (double)MIB;
    const double used = (double)(meeting.used - meeting.before) / MANY / (double)MIB;
    const double ms = (double)atomic_load(&meeting.slowest_ns) * 1e-6;
    const double more = (double)(meeting.started - meeting.used) / MANY / (double)MIB;
    print_message("64 ranks: %.3f MiB a rank before use, %.2f MiB after every collective, %.2f MiB "
                  "more for a started "
                  "alltoall; created in %.1f ms\n",
                  fresh, used, more, ms);
    assert_true(meeting.created > meeting.before); /* it measures something */
    assert_true(fresh < 1);
    assert_true(used <= 16);
    assert_true(more <= 16);
    assert_true(ms < 10 * 5 * MANY);
}

/* ------------------------------------------------------------------------------------ processes */

struct timing {
    struct tutti_id id[3];
    _Atomic uint64_t slowest_ns[3];
    _Atomic int arrived;
};

static int create_timed(struct tutti_comm *unused, int rank, int size, uint64_t seed, void *context)
{
    (void)unused, (void)seed;
    struct timing *timing = context;
    atomic_fetch_add(&timing->arrived, 1);
    while (atomic_load(&timing->arrived) < size) nanosleep(&(struct timespec){0, 100000}, NULL);
    for (int i = 0; i < 3; i++) {
        struct tutti_comm *comm;
        const uint64_t begin = clock_now_ns();
        if (join(&timing->id[i], rank, size, &comm) != 0) return 1;
        const uint64_t took = clock_now_ns() - begin;
        uint64_t slowest = atomic_load(&timing->slowest_ns[i]);
        while (took > slowest &&
               !atomic_compare_exchange_weak(&timing->slowest_ns[i], &slowest, took))
            continue;
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    }
    return 0;
}

static void processes_meet_quickly(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    struct timing *timing = ranks_share(sizeof *timing);
    for (int size = 2; size <= 8; size += 6) {
        memset(timing, 0, sizeof *timing);
        for (int i = 0; i < 3; i++) assert_int_equal(tutti_id_create(&timing->id[i]), TUTTI_OK);
        const struct ranks_options options = {
            .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
        assert_int_equal(ranks_run(size, &options, create_timed, timing), 0);
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < 3; i++)
            if (atomic_load(&timing->slowest_ns[i]) < best)
                best = atomic_load(&timing->slowest_ns[i]);
        print_message("%d processes: created in %.2f ms\n", size, (double)best * 1e-6);
        assert_true(best < (uint64_t)size * 5000000 * 10);
    }
    munmap(timing, sizeof *timing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_communicator_of_64_ranks_is_small_and_quick),
        cmocka_unit_test(processes_meet_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
