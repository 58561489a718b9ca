/* Conformance: every collective by every algorithm gives the right elements, and touches nothing else.
 *
 * Inputs are small integers whose results are exact in every dtype, or for collectives that only move data
 * any bytes. They repeat with a prime period in the element's index, so that an expected element costs a
 * look into a table. Every element on every rank is checked; so are inputs, and guards around all buffers.
 *
 * ctest: timeout=240
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "call.h"
#include "ranks.h"

enum { PERIOD = 251, GUARD_BYTES = 128, GUARD = 0xa7, POISON = 0x5b };

static const struct tutti_comm_options comm_options = {
    sizeof(struct tutti_comm_options), -1, -1, NULL, NULL, 20000000000u, 0, 0, NULL};

/* ------------------------------------------------------------------------------------------ values */

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t h = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 7) * 0xff51afd7ed558ccdu;
    h ^= h >> 31;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

enum { OLD_DTYPES = 5, OLD_OPS = 5 };

/* What a rank contributes to a reduction at an index of its send buffer. */
static int contribution(tutti_op op, int rank, size_t index)
{
    const uint64_t h = mixed((uint64_t)rank * PERIOD, index % PERIOD);
    if (op != TUTTI_PROD) return (int)(h % 9) - 4;
    /* Products stay within 2^4 for 16 ranks. */
    return (h & 1 ? -1 : 1) * (rank % 4 == 0 && (h & 2) ? 2 : 1);
}

static int64_t reduced(tutti_op op, int size, size_t index)
{
    int64_t result = contribution(op, 0, index);
    for (int rank = 1; rank < size; rank++) {
        const int64_t v = contribution(op, rank, index);
        if (op == TUTTI_PROD)
            result *= v;
        else if (op == TUTTI_MIN)
            result = v < result ? v : result;
        else if (op == TUTTI_MAX)
            result = v > result ? v : result;
        else
            result += v;
    }
    return result;
}

static uint16_t to_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The element value / divisor (0: none) of that dtype. */
static void put_element(void *place, enum tutti_dtype dtype, int64_t value, int divisor)
{
    const int d = divisor == 0 ? 1 : divisor;
    switch (dtype) {
    case TUTTI_FLOAT32: memcpy(place, &(float){(float)value / (float)d}, 4); break;
    case TUTTI_FLOAT64: memcpy(place, &(double){(double)value / d}, 8); break;
    case TUTTI_BFLOAT16: memcpy(place, &(uint16_t){to_bfloat16((float)value / (float)d)}, 2); break;
    case TUTTI_INT32: memcpy(place, &(int32_t){(int32_t)(value / d)}, 4); break;
    case TUTTI_INT64: memcpy(place, &(int64_t){value / d}, 8); break;
    default: break;
    }
}

/* One period of elements, twice, so that any run of up to PERIOD elements is at hand in one piece. */
struct table {
    size_t element_bytes;
    unsigned char bytes[2 * PERIOD * 8];
};

static void tabulate(struct table *table, enum tutti_dtype dtype)
{
    table->element_bytes = tutti_dtype_size(dtype);
}

static void put_row(struct table *table, size_t index, const void *element)
{
    memcpy(table->bytes + index * table->element_bytes, element, table->element_bytes);
    memcpy(table->bytes + (index + PERIOD) * table->element_bytes, element, table->element_bytes);
}

static void tabulate_contribution(struct table *table, enum tutti_dtype dtype, tutti_op op, int rank)
{
    unsigned char element[8];
    tabulate(table, dtype);
    for (size_t i = 0; i < PERIOD; i++) {
        put_element(element, dtype, contribution(op, rank, i), 0);
        put_row(table, i, element);
    }
}

static void tabulate_result(struct table *table, enum tutti_dtype dtype, tutti_op op, int size)
{
    unsigned char element[8];
    tabulate(table, dtype);
    for (size_t i = 0; i < PERIOD; i++) {
        put_element(element, dtype, reduced(op, size, i), op == TUTTI_AVG ? size : 0);
        put_row(table, i, element);
    }
}

/* Any bytes: for what is moved and never computed with. */
static void tabulate_bytes(struct table *table, enum tutti_dtype dtype, int rank)
{
    tabulate(table, dtype);
    for (size_t i = 0; i < PERIOD; i++) {
        const uint64_t h = mixed((uint64_t)rank + 1000, i);
        put_row(table, i, &h);
    }
}

static void fill(void *buffer, const struct table *table, size_t first_index, size_t count)
{
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < PERIOD ? count - done : PERIOD;
        memcpy((char *)buffer + done * table->element_bytes,
               table->bytes + (first_index + done) % PERIOD * table->element_bytes,
               n * table->element_bytes);
        done += n;
    }
}

/* The first element that is not as it should be, or count. */
static size_t first_wrong(const void *buffer, const struct table *table, size_t first_index,
                          size_t count)
{
    const size_t bytes = table->element_bytes;
    for (size_t done = 0; done < count;) {
        const size_t n = count - done < PERIOD ? count - done : PERIOD;
        const char *at = (const char *)buffer + done * bytes;
        const unsigned char *expected = table->bytes + (first_index + done) % PERIOD * bytes;
        if (memcmp(at, expected, n * bytes) != 0)
            for (size_t i = 0;; i++)
                if (memcmp(at + i * bytes, expected + i * bytes, bytes) != 0) return done + i;
        done += n;
    }
    return count;
}

/* ----------------------------------------------------------------------------------------- buffers */

struct buffer {
    unsigned char *memory; /* guard, data, guard */
    size_t data_bytes, shift;
};

/* Shared between the calls of a rank. */
struct arena {
    unsigned char *memory[2];
    size_t bytes;
};

static struct buffer take_buffer(struct arena *arena, int which, size_t data_bytes, size_t shift)
{
    struct buffer b = {arena->memory[which], data_bytes, shift};
    if (2 * GUARD_BYTES + shift + data_bytes > arena->bytes) abort();
    memset(b.memory, GUARD, GUARD_BYTES + shift);
    memset(b.memory + GUARD_BYTES + shift, POISON, data_bytes);
    memset(b.memory + GUARD_BYTES + shift + data_bytes, GUARD, GUARD_BYTES);
    return b;
}

static unsigned char *data_of(const struct buffer *b)
{
    return b->memory + GUARD_BYTES + b->shift;
}

static bool guards_hold(const struct buffer *b)
{
    for (size_t i = 0; i < GUARD_BYTES + b->shift; i++)
        if (b->memory[i] != GUARD) return false;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (data_of(b)[b->data_bytes + i] != GUARD) return false;
    return true;
}

/* ------------------------------------------------------------------------------------------- cases */

struct scenario {
    enum collective collective;
    const char *algorithm; /* NULL: the library's choice */
    size_t count;
    enum tutti_dtype dtype;
    tutti_op op;
    int root;
    bool in_place, started, deterministic;
    size_t shift; /* bytes that buffers are off a cache line */
};

static int complain(const struct scenario *s, int rank, int size, const char *what)
{
    fprintf(stderr,
            "rank %d of %d: %s by %s, count %zu, %s %s, root %d%s%s%s, shifted by %zu: %s (%s)\n",
            rank, size, collective_name(s->collective),
            s->algorithm == NULL ? "choice" : s->algorithm, s->count, tutti_dtype_name(s->dtype),
            tutti_op_name(s->op), s->root, s->in_place ? ", in place" : "",
            s->started ? ", started" : "", s->deterministic ? ", deterministic" : "", s->shift,
            what, tutti_error_message());
    return 1;
}

static enum tutti_status run_call(const struct scenario *s, const void *send, void *recv,
                                  struct tutti_comm *comm)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = s->algorithm;
    options.deterministic = s->deterministic;
    const struct test_call call = {
        s->collective, send,  recv,    s->count,
        s->dtype,      s->op, s->root, s->algorithm == NULL && !s->deterministic ? NULL : &options};
    if (!s->started) return test_call(&call, comm);
    struct tutti_request *request;
    const enum tutti_status status = test_call_start(&call, comm, &request);
    return status != TUTTI_OK ? status : tutti_wait(&request);
}

static void tabulate_input(struct table *table, const struct scenario *s, int rank)
{
    if (collective_reduces(s->collective))
        tabulate_contribution(table, s->dtype, s->op, rank);
    else
        tabulate_bytes(table, s->dtype, rank);
}

/* The block `block` of the output, elements from the right index of the right table. */
static size_t check_block(const struct scenario *s, const void *data, size_t block, int rank,
                          int size)
{
    struct table table;
    size_t first_index = 0;
    switch (s->collective) {
    case COLLECTIVE_BROADCAST: tabulate_bytes(&table, s->dtype, s->root); break;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: tabulate_bytes(&table, s->dtype, (int)block); break;
    case COLLECTIVE_SCATTER:
        tabulate_bytes(&table, s->dtype, s->root);
        first_index = (size_t)rank * s->count;
        break;
    case COLLECTIVE_ALLTOALL:
        tabulate_bytes(&table, s->dtype, (int)block);
        first_index = (size_t)rank * s->count;
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        tabulate_result(&table, s->dtype, s->op, size);
        first_index = (size_t)rank * s->count;
        break;
    default: tabulate_result(&table, s->dtype, s->op, size); break;
    }
    return first_wrong(data, &table, first_index, s->count);
}

static int run_scenario(const struct scenario *s, struct arena *arena, struct tutti_comm *comm,
                        int rank, int size)
{
    const size_t block_bytes = s->count * tutti_dtype_size(s->dtype);
    const size_t sends = test_send_blocks(s->collective, rank, size, s->root);
    const size_t recvs = test_recv_blocks(s->collective, rank, size, s->root);
    const bool in_place = s->in_place && sends > 0 && recvs > 0;
    const size_t larger = sends > recvs ? sends : recvs;
    struct table input;
    tabulate_input(&input, s, rank);

    struct buffer recv_buffer =
        take_buffer(arena, 0, (in_place ? larger : recvs) * block_bytes, s->shift);
    struct buffer send_buffer =
        take_buffer(arena, 1, in_place ? 0 : sends * block_bytes, in_place ? 0 : s->shift);
    unsigned char *recv = data_of(&recv_buffer), *send = data_of(&send_buffer);
    if (in_place) {
        const size_t offset = test_in_place_block(s->collective, rank) * block_bytes;
        send = recv;
        if (recvs > sends) send += offset;
        if (sends > recvs) recv += offset;
    }
    fill(send, &input, 0, sends * s->count);
    /* Where a buffer is not looked at, an address that must not be touched is as good as any other. */
    const enum tutti_status status =
        run_call(s, sends > 0 ? send : NULL, recvs > 0 ? recv : NULL, comm);
    if (status != TUTTI_OK) return complain(s, rank, size, tutti_status_name(status));

    for (size_t block = 0; block < recvs; block++) {
        const size_t wrong = check_block(s, recv + block * block_bytes, block, rank, size);
        if (wrong == s->count) continue;
        char what[80];
        snprintf(what, sizeof what, "block %zu, element %zu is wrong", block, wrong);
        return complain(s, rank, size, what);
    }
    if (!guards_hold(&recv_buffer)) return complain(s, rank, size, "wrote beside recv");
    if (!guards_hold(&send_buffer)) return complain(s, rank, size, "wrote beside send");
    if (!in_place && first_wrong(send, &input, 0, sends * s->count) != sends * s->count)
        return complain(s, rank, size, "changed its input");
    return 0;
}

/* ------------------------------------------------------------------------------------------ sweeps */

struct sweep {
    const size_t *counts;
    int count_count;
    size_t block_count_max; /* for collectives of many blocks a rank */
    bool all_dtypes_and_ops;
    bool heap; /* buffers from tutti_mem_alloc */
    size_t arena_bytes;
};

static bool arena_init(struct arena *arena, const struct sweep *sweep)
{
    arena->bytes = sweep->arena_bytes;
    for (int i = 0; i < 2; i++) {
        if (sweep->heap) {
            void *memory;
            if (tutti_mem_alloc(arena->bytes, &memory) != TUTTI_OK) return false;
            arena->memory[i] = memory;
        } else {
            arena->memory[i] = aligned_alloc(64, (arena->bytes + 63) / 64 * 64);
        }
        if (arena->memory[i] == NULL) return false;
    }
    return true;
}

static void arena_release(struct arena *arena, const struct sweep *sweep)
{
    for (int i = 0; i < 2; i++) {
        if (sweep->heap)
            tutti_mem_free(arena->memory[i]);
        else
            free(arena->memory[i]);
    }
}

static bool is_blocky(enum collective collective)
{
    return collective != COLLECTIVE_ALLREDUCE && collective != COLLECTIVE_REDUCE &&
           collective != COLLECTIVE_BROADCAST;
}

/* One algorithm at every count, in and out of place; everything else takes turns. */
static int sweep_counts(const struct algorithm *a, enum collective collective,
                        const struct sweep *sweep, struct arena *arena, uint64_t turn,
                        struct tutti_comm *comm, int rank, int size)
{
    for (int c = 0; c < sweep->count_count; c++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            const uint64_t h = mixed(turn, (uint64_t)(c * 2 + in_place));
            struct scenario s = {.collective = collective,
                                 .algorithm = a != NULL ? a->name : NULL,
                                 .count = sweep->counts[c],
                                 .dtype = (enum tutti_dtype)(h % OLD_DTYPES),
                                 .op = (tutti_op)(uintptr_t)(1 + h / 8 % OLD_OPS),
                                 .root = (int)(h / 64 % (uint64_t)size),
                                 .in_place = in_place == 1,
                                 .started = (h >> 40 & 3) == 0};
            if (a == NULL) s.deterministic = (h >> 42 & 1) != 0;
            if (is_blocky(collective) && s.count > sweep->block_count_max)
                s.count = sweep->block_count_max;
            s.shift = (h >> 44 & 1) * tutti_dtype_size(s.dtype) * (1 + (h >> 45 & 3));
            if (run_scenario(&s, arena, comm, rank, size) != 0) return 1;
        }
    }
    return 0;
}

static int sweep_dtypes_and_ops(const struct algorithm *a, struct arena *arena, uint64_t turn,
                                struct tutti_comm *comm, int rank, int size)
{
    for (int d = 0; d < OLD_DTYPES; d++) {
        for (int o = 0; o < (collective_reduces(a->collective) ? OLD_OPS : 1); o++) {
            const uint64_t h = mixed(turn, (uint64_t)(1000 + d * OLD_OPS + o));
            const struct scenario s = {.collective = a->collective,
                                       .algorithm = a->name,
                                       .count = (h & 1) ? 1000 : 17,
                                       .dtype = (enum tutti_dtype)d,
                                       .op = (tutti_op)(uintptr_t)(1 + o),
                                       .root = (int)(h / 64 % (uint64_t)size),
                                       .in_place = (h & 2) != 0,
                                       .started = (h & 28) == 0};
            if (run_scenario(&s, arena, comm, rank, size) != 0) return 1;
        }
    }
    return 0;
}

static int sweep_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct sweep *sweep = context;
    struct arena arena = {0};
    RANKS_EXPECT(arena_init(&arena, sweep));
    int result = 0;
    for (int i = 0; i < algo_count && result == 0; i++) {
        const struct algorithm *a = &algo_list[i];
        if (!algo_supports(a, size)) continue;
        const uint64_t turn = mixed(seed, (uint64_t)i);
        result = sweep_counts(a, a->collective, sweep, &arena, turn, comm, rank, size);
        if (result == 0 && sweep->all_dtypes_and_ops)
            result = sweep_dtypes_and_ops(a, &arena, turn, comm, rank, size);
    }
    for (int c = 0; c < COLLECTIVE_COUNT && result == 0; c++)
        result = sweep_counts(NULL, (enum collective)c, sweep, &arena,
                              mixed(seed, (uint64_t)(500 + c)), comm, rank, size);
    arena_release(&arena, sweep);
    return result;
}

static void sweep_ranks(enum ranks_kind kind, const int *sizes, int size_count,
                        const struct sweep *sweep)
{
    for (int i = 0; i < size_count; i++) {
        struct sweep own = *sweep;
        size_t count_max = 0;
        for (int c = 0; c < own.count_count; c++)
            if (own.counts[c] > count_max) count_max = own.counts[c];
        if (own.block_count_max > count_max) own.block_count_max = count_max;
        const size_t blocky = own.block_count_max * (size_t)sizes[i];
        own.arena_bytes = (blocky > count_max ? blocky : count_max) * 8 + 4 * GUARD_BYTES;
        if (own.arena_bytes < (size_t)1000 * 8 * (size_t)sizes[i] + 4 * GUARD_BYTES)
            own.arena_bytes = (size_t)1000 * 8 * (size_t)sizes[i] + 4 * GUARD_BYTES;
        const struct ranks_options options = {
            .kind = kind, .deadline_ms = 120000, .comm_options = &comm_options};
        assert_int_equal(ranks_run(sizes[i], &options, sweep_all, &own), 0);
    }
}

/* ------------------------------------------------------------------------------------------- tests */

static const size_t counts[] = {0, 1, 3, 17, 1000, 4099, 65536 + 5};
enum { COUNT_COUNT = sizeof counts / sizeof *counts };

static void every_algorithm_is_right_among_threads(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const struct sweep sweep = {counts, COUNT_COUNT, 16389, true, false, 0};
    sweep_ranks(RANKS_THREADS, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

static void every_algorithm_is_right_among_16_threads(void **state)
{
    (void)state;
    static const int sizes[] = {16};
    const struct sweep sweep = {counts, COUNT_COUNT, 4099, false, false, 0};
    sweep_ranks(RANKS_THREADS, sizes, 1, &sweep);
}

static void every_algorithm_is_right_among_processes(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    static const int sizes[] = {1, 2, 3, 5, 8};
    const struct sweep sweep = {counts, COUNT_COUNT, 16389, true, false, 0};
    sweep_ranks(RANKS_PROCESSES, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

static void every_algorithm_is_right_on_registered_memory(void **state)
{
    (void)state;
    static const int sizes[] = {2, 4, 7};
    const struct sweep sweep = {counts, COUNT_COUNT, 16389, false, true, 0};
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

static const size_t large_counts[] = {300007, 1 << 20};

static void every_algorithm_streams_large_counts(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4};
    struct sweep sweep = {large_counts, 2, 131071, false, false, 0};
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
    sweep.heap = true;
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
    sweep.heap = false;
    sweep_ranks(RANKS_THREADS, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right_among_threads),
        cmocka_unit_test(every_algorithm_is_right_among_16_threads),
        cmocka_unit_test(every_algorithm_is_right_among_processes),
        cmocka_unit_test(every_algorithm_is_right_on_registered_memory),
        cmocka_unit_test(every_algorithm_streams_large_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
