/* A rank has no descriptors or no address space left once communicators are made, and peers send
 * from memory that it has never mapped. The rank reads that memory by another path, or all ranks
 * get an error that says what the rank lacks: never a deadline, and never an error that names
 * another rank. Ranks that use little memory need little address space.
 *
 * ctest: label=notsan timeout=120 waits
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3, COUNT = 1 << 20, VICTIM = 1 };
static const uint64_t SECOND = 1000000000u;

enum resource { DESCRIPTORS, ADDRESSES };

/* So that nothing can be opened any more: as `ulimit -n 8` does, and by numbers that are all
 * taken. */
static int starve_of_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
    limit.rlim_cur = 8;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    return 0;
}

/* Of this process; 0: not told. */
static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%zu", &pages) != 1) pages = 0;
    if (file != NULL) fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int limit_addresses(size_t more)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0) return -1;
    limit.rlim_cur = address_space() + more;
    return setrlimit(RLIMIT_AS, &limit);
}

static int starve(enum resource resource)
{
    /* Enough for what a program itself needs, and less than a window. */
    return resource == DESCRIPTORS ? starve_of_descriptors() : limit_addresses(8 << 20);
}

/* With sanitizers there is no limit that means anything. */
static bool addresses_count(void)
{
    return address_space() > 0 && address_space() < (size_t)64 << 30;
}

static enum tutti_status call_all(struct tutti_comm *comm, int rank, int32_t *data)
{
    for (int i = 0; i < COUNT; i++) data[i] = rank + i % 7;
    enum tutti_status status = tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, comm);
    for (int i = 0; i < COUNT && status == TUTTI_OK; i++)
        if (data[i] != RANKS * (RANKS - 1) / 2 + RANKS * (i % 7)) return TUTTI_INTERNAL;
    if (status == TUTTI_OK) status = tutti_broadcast(data, data, COUNT, TUTTI_INT32, 0, comm);
    return status != TUTTI_OK ? status : tutti_barrier(comm);
}

/* From everybody to the next one. */
static enum tutti_status send_around(struct tutti_comm *comm, int rank, size_t count, int32_t *data,
                                     int32_t *from_previous)
{
    struct tutti_request *request = NULL;
    const int previous = (rank + RANKS - 1) % RANKS;
    for (size_t i = 0; i < count; i++) data[i] = rank;
    enum tutti_status status = tutti_recv_start(from_previous, count, TUTTI_INT32, previous, 7,
                                                NULL, NULL, comm, &request);
    if (status == TUTTI_OK)
        status = tutti_send(data, count, TUTTI_INT32, (rank + 1) % RANKS, 7, comm);
    if (request != NULL) {
        const enum tutti_status received = tutti_wait(&request);
        if (status == TUTTI_OK) status = received;
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++)
        if (from_previous[i] != previous) return TUTTI_INTERNAL;
    return status != TUTTI_OK ? status : tutti_barrier(comm);
}

struct hunger {
    enum resource resource;
    bool sends, is_fatal;
};

static int be_hungry(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    const struct hunger *hunger = context;
    void *data, *other;
    RANKS_EXPECT(tutti_mem_alloc(COUNT * sizeof(int32_t), &data) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_alloc(COUNT * sizeof(int32_t), &other) == TUTTI_OK);
    RANKS_EXPECT(send_around(comm, rank, 1, data, other) ==
                 TUTTI_OK); /* starts what threads it takes */
    if (rank == VICTIM) RANKS_EXPECT(starve(hunger->resource) == 0);
    const uint64_t begin_ns = clock_now_ns();
    const enum tutti_status status =
        hunger->sends ? send_around(comm, rank, COUNT, data, other) : call_all(comm, rank, data);
    const uint64_t took_ns = clock_now_ns() - begin_ns;
    if (hunger->is_fatal) {
        struct tutti_failure failure = {.size_bytes = sizeof failure};
        const enum tutti_status named =
            hunger->resource == DESCRIPTORS ? TUTTI_NO_DESCRIPTORS : TUTTI_NO_MEMORY;
        RANKS_EXPECT(status == named);
        RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
        RANKS_EXPECT(failure.culprit == VICTIM);
        if (rank != VICTIM)
            fprintf(stderr, "known after %.2f s: %s\n", (double)took_ns * 1e-9, failure.message);
    } else {
        RANKS_EXPECT(status == TUTTI_OK);
    }
    RANKS_EXPECT(took_ns < 20 * SECOND);
    RANKS_EXPECT(tutti_mem_free(data) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(other) == TUTTI_OK);
    return 0;
}

static void expect(struct hunger hunger)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 60 * SECOND;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 90000, .comm_options = &comm_options};
    if (ranks_are_threads() || (hunger.resource == ADDRESSES && !addresses_count())) skip();
    /* Then nothing is copied out of another process. */
    if (hunger.is_fatal) setenv("TUTTI_CMA", "0", 1);
    const int failed = ranks_run(RANKS, &options, be_hungry, &hunger);
    unsetenv("TUTTI_CMA");
    assert_int_equal(failed, 0);
}

static void without_descriptors_mapped_memory_is_copied(void **state)
{
    (void)state;
    expect((struct hunger){DESCRIPTORS, false, false});
}

static void without_descriptors_mapped_memory_that_is_sent_is_copied(void **state)
{
    (void)state;
    expect((struct hunger){DESCRIPTORS, true, false});
}

static void without_descriptors_and_copies_that_is_said(void **state)
{
    (void)state;
    expect((struct hunger){DESCRIPTORS, false, true});
    expect((struct hunger){DESCRIPTORS, true, true});
}

static void without_address_space_mapped_memory_is_copied(void **state)
{
    (void)state;
    expect((struct hunger){ADDRESSES, false, false});
    expect((struct hunger){ADDRESSES, true, false});
}

static void without_address_space_and_copies_that_is_said(void **state)
{
    (void)state;
    expect((struct hunger){ADDRESSES, false, true});
}

/* ----------------------------------------------------------------------------- little is enough */

static struct tutti_id *id;

static int use_little(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)size, (void)seed, (void)context;
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    void *data;
    options.rank = rank;
    options.size = RANKS;
    options.id = id;
    RANKS_EXPECT(limit_addresses((size_t)2 << 30) == 0);
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_alloc(COUNT * sizeof(int32_t), &data) == TUTTI_OK);
    RANKS_EXPECT(call_all(comm, rank, data) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(data) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void address_space_goes_to_what_is_used(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    if (ranks_are_threads() || !addresses_count()) skip();
    assert_int_equal(tutti_id_create(id), TUTTI_OK);
    assert_int_equal(ranks_run(RANKS, &options, use_little, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_descriptors_mapped_memory_is_copied),
        cmocka_unit_test(without_descriptors_mapped_memory_that_is_sent_is_copied),
        cmocka_unit_test(without_descriptors_and_copies_that_is_said),
        cmocka_unit_test(without_address_space_mapped_memory_is_copied),
        cmocka_unit_test(without_address_space_and_copies_that_is_said),
        cmocka_unit_test(address_space_goes_to_what_is_used),
    };
    id = ranks_share(sizeof *id);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
