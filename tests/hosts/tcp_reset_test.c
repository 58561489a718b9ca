/* Connections that are cut in the middle of large operations are made again, and what was under way
 * goes on: nothing is lost, nothing comes twice.
 *
 * With arguments it is one rank of a job whose connections somebody else cuts,
 * tests/hosts/cluster_test.sh and rails_test.sh:
 *
 *     tests_hosts_tcp_reset_test FILE [MIB]     reduces so much, or 64 MiB, again and again, until the file is there
 *
 * ctest: label=notsan timeout=120 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/connections.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { COUNT = (8 << 20) / 4, OPERATIONS = 6, CUTS_MIN = 3, DESCRIPTORS = 64 };

struct cutter {
    atomic_bool stops;
    atomic_uint cuts;
};

/* Cuts all connections of the process, again and again. */
static void *cut(void *context)
{
    struct cutter *cutter = context;
    for (int pause_ms = 7; !atomic_load(&cutter->stops); pause_ms = pause_ms * 5 % 97 + 40) {
        ranks_nap_ms(pause_ms);
        atomic_fetch_add(&cutter->cuts, connections_cut());
    }
    return NULL;
}

static int reduce_while_connections_are_cut(struct tutti_comm *comm, int rank, int size,
                                            uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct cutter cutter = {false, 0};
    pthread_t thread;
    int32_t *const send = malloc(COUNT * sizeof *send), *const recv = malloc(COUNT * sizeof *recv);
    RANKS_EXPECT(send != NULL && recv != NULL);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(pthread_create(&thread, NULL, cut, &cutter) == 0);
    size_t wrong = 0;
    int32_t enough = 0; /* everybody's connections were cut often enough */
    enum tutti_status status = TUTTI_OK;
    for (int round = 0; status == TUTTI_OK && (round < OPERATIONS || !enough); round++) {
        for (int i = 0; i < COUNT; i++) send[i] = rank * (i % 1000) + round;
        status = tutti_allreduce(send, recv, COUNT, TUTTI_INT32, TUTTI_SUM, comm);
        for (int i = 0; i < COUNT && status == TUTTI_OK; i++)
            wrong += recv[i] != size * (size - 1) / 2 * (i % 1000) + size * round;
        enough = atomic_load(&cutter.cuts) >= CUTS_MIN;
        if (status == TUTTI_OK)
            status = tutti_allreduce(&enough, &enough, 1, TUTTI_INT32, TUTTI_MIN, comm);
    }
    atomic_store(&cutter.stops, true);
    pthread_join(thread, NULL);
    free(send);
    free(recv);
    RANKS_EXPECT(status == TUTTI_OK);
    RANKS_EXPECT(wrong == 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

static void cut_connections_lose_nothing(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 90000};
    for (int size = 2; size <= 3; size++)
        assert_int_equal(ranks_run(size, &options, reduce_while_connections_are_cut, NULL), 0);
}

/* ------------------------------------------------------------------------------------- how long */

enum { RESETS = 10, RESET_COUNT = (1 << 20) / 4 };

/* Of all ranks. */
struct moment {
    _Atomic uint64_t reset_ns, slowest_ns[RESETS];
    atomic_uint resets;
};

/* The peer gets a reset, and this end no more than an error. */
static void *reset_soon(void *context)
{
    struct moment *moment = context;
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    ranks_nap_ms(20);
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        if (connections_is_one(fd) && connect(fd, &nobody, sizeof nobody) == 0)
            atomic_fetch_add(&moment->resets, 1);
    atomic_store(&moment->reset_ns, clock_now_ns());
    return NULL;
}

/* Again and again, until on all ranks one is through that began after the reset; *took_ns: since
 * then, of the first one here. */
static int reduce_until_over(struct tutti_comm *comm, int rank, int size, struct moment *moment,
                             uint64_t *took_ns)
{
    static int32_t data[RESET_COUNT];
    int32_t is_over = 0;
    for (*took_ns = 0; !is_over;) {
        const uint64_t reset_ns = atomic_load(&moment->reset_ns);
        for (int i = 0; i < RESET_COUNT; i++) data[i] = rank + i % 100;
        RANKS_EXPECT(tutti_allreduce(data, data, RESET_COUNT, TUTTI_INT32, TUTTI_SUM, comm) ==
                     TUTTI_OK);
        if (reset_ns != 0 && *took_ns == 0) *took_ns = clock_now_ns() - reset_ns;
        for (int i = 0; i < RESET_COUNT; i++)
            RANKS_EXPECT(data[i] == size * (size - 1) / 2 + size * (i % 100));
        is_over = *took_ns != 0;
        RANKS_EXPECT(tutti_allreduce(&is_over, &is_over, 1, TUTTI_INT32, TUTTI_MIN, comm) ==
                     TUTTI_OK);
    }
    return 0;
}

static int reduce_over_resets(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    struct moment *moment = context;
    (void)seed;
    for (int i = 0; i < RESETS; i++) {
        pthread_t thread;
        uint64_t took_ns;
        if (rank == 0) atomic_store(&moment->reset_ns, 0);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        if (rank == 0) RANKS_EXPECT(pthread_create(&thread, NULL, reset_soon, moment) == 0);
        RANKS_EXPECT(reduce_until_over(comm, rank, size, moment, &took_ns) == 0);
        fault_time_raise(&moment->slowest_ns[i], took_ns);
        if (rank == 0) pthread_join(thread, NULL);
    }
    return 0;
}

static void operations_go_on_soon_after_a_reset(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 90000};
    struct moment *const moment =
        mmap(NULL, sizeof *moment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(moment, MAP_FAILED);
    assert_int_equal(ranks_run(3, &options, reduce_over_resets, moment), 0);
    assert_true(atomic_load(&moment->resets) >= RESETS);
    for (int i = 0; i < RESETS; i++) {
        fault_time_print("reset", moment->slowest_ns[i]);
        assert_true(moment->slowest_ns[i] < UINT64_C(10000000000));
    }
    munmap(moment, sizeof *moment);
}

/* ---------------------------------------------------------------------------- one rank of a job */

/* Counts the elements that are wrong; every rank goes on until rank 0 sees the file. */
static enum tutti_status reduce_until(const char *path, struct tutti_comm *comm, int32_t *send,
                                      int32_t *recv, int count, size_t *wrong)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    int32_t stops = 0;
    enum tutti_status status = TUTTI_OK;
    for (int round = 0; status == TUTTI_OK && stops == 0; round++) {
        for (int i = 0; i < count; i++) send[i] = rank * (i % 1000) + round;
        status = tutti_allreduce(send, recv, (size_t)count, TUTTI_INT32, TUTTI_SUM, comm);
        for (int i = 0; i < count && status == TUTTI_OK; i++)
            *wrong += recv[i] != size * (size - 1) / 2 * (i % 1000) + size * round;
        stops = access(path, F_OK) == 0;
        if (status == TUTTI_OK) status = tutti_broadcast(&stops, &stops, 1, TUTTI_INT32, 0, comm);
        if (status == TUTTI_OK && rank == 0) {
            printf("round %d, %zu wrong\n", round, *wrong);
            fflush(stdout);
        }
    }
    return status;
}

static int be_rank(const char *path, int mib)
{
    const int count = mib << 18;
    struct tutti_comm *comm;
    int32_t *const send = malloc((size_t)count * sizeof *send);
    int32_t *const recv = malloc((size_t)count * sizeof *recv);
    size_t wrong = 0;
    enum tutti_status status = send != NULL && recv != NULL ? TUTTI_OK : TUTTI_NO_MEMORY;
    if (status == TUTTI_OK) status = tutti_comm_create(NULL, &comm);
    if (status == TUTTI_OK) {
        const int rank = tutti_comm_rank(comm);
        status = reduce_until(path, comm, send, recv, count, &wrong);
        if (status == TUTTI_OK) status = tutti_barrier(comm);
        if (status == TUTTI_OK) status = tutti_comm_free(comm);
        if (status == TUTTI_OK && wrong == 0) printf("rank %d: all right\n", rank);
    }
    if (status != TUTTI_OK) fprintf(stderr, "%s\n", tutti_error_message());
    if (wrong > 0) fprintf(stderr, "%zu elements are wrong\n", wrong);
    free(send);
    free(recv);
    return status != TUTTI_OK || wrong > 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2) return be_rank(arguments[1], 64);
    if (argument_count == 3) return be_rank(arguments[1], atoi(arguments[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_connections_lose_nothing),
        cmocka_unit_test(operations_go_on_soon_after_a_reset),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    setenv("TUTTI_TRANSPORT", "tcp", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
