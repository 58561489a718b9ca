/* large_counts_test.c - counts beyond 2^31 elements, and buffers beyond 2^32 bytes, on two ranks.
 *
 * A wrapped count or offset shows in the last elements, which are no multiple of anything, and in
 * those around 2^31 and 2^32. Needs 16 GiB of memory.
 *
 * ctest: label=long label=nosan timeout=900 serial
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

enum { RANKS = 2 };
static const size_t gibibyte = (size_t)1 << 30;
static const size_t many = ((size_t)1 << 31) + 3;

static size_t available_bytes(void)
{
    FILE *const stream = fopen("/proc/meminfo", "re");
    char line[128];
    size_t kibibytes = 0;
    while (stream != NULL && kibibytes == 0 && fgets(line, sizeof line, stream) != NULL)
        (void)sscanf(line, "MemAvailable: %zu", &kibibytes);
    if (stream != NULL) fclose(stream);
    return kibibytes << 10;
}

static void *take(size_t bytes)
{
    void *const memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A period that divides no power of two; values whose sums over two ranks fit into int8. */
enum { PERIOD = 61 };

static int8_t value(int rank, size_t index)
{
    return (int8_t)((int)(index % PERIOD) - 30 + rank);
}

static void fill(int8_t *data, int rank, size_t count)
{
    for (size_t i = 0; i < count && i < PERIOD; i++) data[i] = value(rank, i);
    for (size_t done = PERIOD; done < count; done *= 2) /* a whole number of periods each time */
        memcpy(data + done, data, done < count - done ? done : count - done);
}

/* Every element is that of one rank, or the sum of both (rank -1); returns the first that is not,
 * or count. */
static size_t first_wrong(const int8_t *data, int rank, size_t count)
{
    int8_t expected[2 * PERIOD];
    for (size_t i = 0; i < PERIOD; i++)
        expected[i] = rank >= 0 ? value(rank, i) : (int8_t)(value(0, i) + value(1, i));
    for (size_t done = 0; done < count; done += PERIOD) {
        const size_t n = count - done < PERIOD ? count - done : PERIOD;
        if (memcmp(data + done, expected, n) == 0) continue;
        for (size_t i = 0;; i++)
            if (data[done + i] != expected[i]) return done + i;
    }
    return count;
}

static int allreduce_in_place(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    int8_t *const data = take(many);
    RANKS_EXPECT(data != NULL);
    fill(data, rank, many);
    RANKS_EXPECT(tutti_allreduce(data, data, many, TUTTI_INT8, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(first_wrong(data, -1, many) == many);
    munmap(data, many);
    return 0;
}

static int broadcast_in_place(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    int8_t *const data = take(many);
    RANKS_EXPECT(data != NULL);
    if (rank == 1) fill(data, rank, many);
    RANKS_EXPECT(tutti_broadcast(data, data, many, TUTTI_INT8, 1, comm) == TUTTI_OK);
    RANKS_EXPECT(first_wrong(data, 1, many) == many);
    munmap(data, many);
    return 0;
}

/* Blocks of 2^31 + 3 bytes: the output is larger than 2^32. */
static int allgather_in_place(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)seed, (void)context;
    int8_t *const data = take(many * (size_t)size), *const own = data + (size_t)rank * many;
    RANKS_EXPECT(data != NULL);
    fill(own, rank, many);
    RANKS_EXPECT(tutti_allgather(own, data, many, TUTTI_INT8, comm) == TUTTI_OK);
    for (int r = 0; r < size; r++)
        RANKS_EXPECT(first_wrong(data + (size_t)r * many, r, many) == many);
    munmap(data, many * (size_t)size);
    return 0;
}

/* One rank has next to nothing, the other more than 2^31 elements behind a gap. */
static int allgatherv_in_place(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)seed, (void)context;
    const size_t counts[RANKS] = {5, many}, displs[RANKS] = {0, many / 2};
    const size_t bytes = displs[1] + many;
    RANKS_EXPECT(size == RANKS);
    int8_t *const data = take(bytes), *const own = data + displs[rank];
    RANKS_EXPECT(data != NULL);
    fill(own, rank, counts[rank]);
    RANKS_EXPECT(tutti_allgatherv(own, data, counts, displs, TUTTI_INT8, comm) == TUTTI_OK);
    for (int r = 0; r < size; r++)
        RANKS_EXPECT(first_wrong(data + displs[r], r, counts[r]) == counts[r]);
    munmap(data, bytes);
    return 0;
}

static int message(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_message received = {.size_bytes = sizeof received};
    int8_t *const data = take(many);
    RANKS_EXPECT(data != NULL);
    if (rank == 0) {
        fill(data, rank, many);
        RANKS_EXPECT(tutti_send(data, many, TUTTI_INT8, 1, 3, comm) == TUTTI_OK);
    } else {
        RANKS_EXPECT(tutti_recv(data, many, TUTTI_INT8, 0, 3, &received, comm) == TUTTI_OK);
        RANKS_EXPECT(received.count == many && received.tag == 3 && received.source == 0);
        RANKS_EXPECT(first_wrong(data, 0, many) == many);
    }
    munmap(data, many);
    return 0;
}

static void with_memory(size_t gibibytes, ranks_function *function)
{
    if (available_bytes() < gibibytes * gibibyte) {
        print_message("needs %zu GiB of free memory, %zu MiB are there\n", gibibytes,
                      available_bytes() >> 20);
        skip();
    }
    static const struct ranks_options options = {.deadline_ms = 180000};
    assert_int_equal(ranks_run(RANKS, &options, function, NULL), 0);
}

static void allreduce_counts_beyond_31_bits(void **state)
{
    (void)state;
    with_memory(16, allreduce_in_place);
}

static void broadcast_counts_beyond_31_bits(void **state)
{
    (void)state;
    with_memory(16, broadcast_in_place);
}

static void allgather_fills_more_than_32_bits(void **state)
{
    (void)state;
    with_memory(16, allgather_in_place);
}

static void allgatherv_places_blocks_beyond_31_bits(void **state)
{
    (void)state;
    with_memory(16, allgatherv_in_place);
}

static void messages_are_longer_than_31_bits(void **state)
{
    (void)state;
    with_memory(16, message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_counts_beyond_31_bits),
        cmocka_unit_test(broadcast_counts_beyond_31_bits),
        cmocka_unit_test(allgather_fills_more_than_32_bits),
        cmocka_unit_test(allgatherv_places_blocks_beyond_31_bits),
        cmocka_unit_test(messages_are_longer_than_31_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
