/* Replicas are bit-identical: on all ranks, in every run, with every kernel; and in deterministic
 * mode however a tensor is cut.
 *
 * Ranks write hashes of what they got into memory that they share with the test, which compares
 * them.
 *
 * ctest: label=nosan timeout=180
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "kernel/kernel.h"
#include "tests/kit/call.h"
#include "tests/kit/elements.h"
#include "tests/worlds/ranks.h"

enum { RANKS_MAX = 20, HASHES_MAX = 4096 };

struct board_of_hashes {
    struct tutti_id id;
    uint64_t hashes[RANKS_MAX][HASHES_MAX];
    int used[RANKS_MAX];
};

static struct board_of_hashes *hashes; /* shared with the ranks */

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t hash_of(const void *data, size_t bytes)
{
    const unsigned char *b = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ b[i]) * 0x100000001b3u;
    return hash;
}

/* Values of many magnitudes, so that the order of additions shows; products of a few stay finite
 * and above zero. Any mantissa, and one of a few exponents around that of 1. */
static void randomise(void *buffer, enum tutti_dtype dtype, size_t count, uint64_t seed)
{
    static const struct {
        enum tutti_dtype dtype;
        int mantissa_bits, bias;
        uint64_t exponents;
    } formats[] = {{TUTTI_FLOAT32, 23, 127, 8},  {TUTTI_FLOAT64, 52, 1023, 8},
                   {TUTTI_BFLOAT16, 7, 127, 8},  {TUTTI_FLOAT16, 10, 15, 6},
                   {TUTTI_FLOAT8_E4M3, 3, 7, 3}, {TUTTI_FLOAT8_E5M2, 2, 15, 6}};
    const size_t bytes = tutti_dtype_size(dtype);
    int f = 0;
    while (formats[f].dtype != dtype) f++;
    const int mantissa_bits = formats[f].mantissa_bits;
    for (size_t i = 0; i < count; i++) {
        const uint64_t r = next(&seed), s = next(&seed);
        const uint64_t exponent = (uint64_t)formats[f].bias - 4 + s % formats[f].exponents +
                                  (8 - formats[f].exponents) / 2;
        const uint64_t code = (r & ((UINT64_C(1) << mantissa_bits) - 1)) |
                              exponent << mantissa_bits | s >> 63 << (8 * bytes - 1);
        memcpy((char *)buffer + i * bytes, &code, bytes);
    }
}

static void note(int rank, const void *data, size_t bytes)
{
    if (hashes->used[rank] == HASHES_MAX) abort();
    hashes->hashes[rank][hashes->used[rank]++] = hash_of(data, bytes);
}

static void expect_equal_hashes(int size)
{
    assert_true(hashes->used[0] > 0);
    for (int rank = 1; rank < size; rank++) {
        assert_int_equal(hashes->used[rank], hashes->used[0]);
        for (int i = 0; i < hashes->used[0]; i++)
            if (hashes->hashes[rank][i] != hashes->hashes[0][i])
                fail_msg("rank %d has other bits than rank 0 in result %d", rank, i);
    }
}

/* A communicator in which rank 1 computes with scalar kernels. */
static int join_with_mixed_kernels(int rank, int size, struct tutti_comm **comm)
{
    if (rank == 1) setenv("TUTTI_KERNEL", "scalar", 1);
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &hashes->id;
    options.timeout_ns = options.init_timeout_ns = 20000000000u;
    RANKS_EXPECT(tutti_comm_create(&options, comm) == TUTTI_OK);
    RANKS_EXPECT(rank != 1 || kernel_level_chosen() == KERNEL_SCALAR);
    return 0;
}

static int ranks_of_processes(int size, ranks_function *function, void *context)
{
    if (tutti_id_create(&hashes->id) != TUTTI_OK) return -1;
    memset(hashes->used, 0, sizeof hashes->used);
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    return ranks_run(size, &options, function, context);
}

/* ----------------------------------------------------------------------------- across the ranks */

static const enum tutti_dtype floating[] = {TUTTI_FLOAT32, TUTTI_FLOAT64,     TUTTI_BFLOAT16,
                                            TUTTI_FLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};
enum { FLOATING = sizeof floating / sizeof *floating };
static const enum op reductions[] = {OP_SUM, OP_PROD, OP_MIN, OP_MAX, OP_AVG, OP_SCALED_SUM};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };
static const size_t counts[] = {1, 5, 1000, 20011, 70001};

static int all_results(struct tutti_comm *unused, int rank, int size, uint64_t seed, void *context)
{
    (void)unused, (void)context;
    struct tutti_comm *comm;
    if (join_with_mixed_kernels(rank, size, &comm) != 0) return 1;
    const size_t most = 70001 * 8;
    void *const send = malloc(most), *const recv = malloc(most * (size_t)size);
    RANKS_EXPECT(send != NULL && recv != NULL);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *a = &algo_list[i];
        if ((a->collective != COLLECTIVE_ALLREDUCE && a->collective != COLLECTIVE_ALLGATHER &&
             a->collective != COLLECTIVE_BROADCAST) ||
            !algo_supports(a, size))
            continue;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (int r = 0; r < (a->collective == COLLECTIVE_ALLREDUCE ? REDUCTIONS : 1); r++) {
                const enum tutti_dtype dtype = floating[(c + (size_t)r + (size_t)i) % FLOATING];
                const tutti_op op = elements_op(reductions[r]);
                RANKS_EXPECT(op != NULL);
                randomise(send, dtype, counts[c], seed + (uint64_t)(rank * 1000 + i));
                struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
                options.algorithm = a->name;
                const struct test_call call = {a->collective, send, recv,          counts[c],
                                               dtype,         op,   (int)c % size, &options};
                RANKS_EXPECT(test_call(&call, comm) == TUTTI_OK);
                tutti_op_free(op);
                note(rank, recv,
                     counts[c] * tutti_dtype_size(dtype) *
                         test_recv_blocks(a->collective, rank, size, 0));
            }
        }
    }
    free(send);
    free(recv);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void all_ranks_hold_the_same_bits_with_different_kernels(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    for (int size = 2; size <= 8; size += size < 5 ? 1 : 3) {
        assert_int_equal(ranks_of_processes(size, all_results, NULL), 0);
        expect_equal_hashes(size);
    }
}

/* ------------------------------------------------------------------------------ across the runs */

enum { RUNS = 100, RUN_COUNT = 30011 };

static int the_same_again_and_again(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)unused, (void)context;
    struct tutti_comm *comm;
    if (join_with_mixed_kernels(rank, size, &comm) != 0) return 1;
    float *const send = malloc(RUN_COUNT * 4), *const recv = malloc(RUN_COUNT * 4);
    RANKS_EXPECT(send != NULL && recv != NULL);
    randomise(send, TUTTI_FLOAT32, RUN_COUNT, seed + (uint64_t)rank);
    static const char *const names[] = {NULL, "ring", "chain", "halving_doubling"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.algorithm = names[n];
        uint64_t first = 0;
        for (int run = 0; run < RUNS; run++) {
            memset(recv, 0xff, RUN_COUNT * 4);
            RANKS_EXPECT(tutti_allreduce_with(send, recv, RUN_COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                              &options, comm) == TUTTI_OK);
            const uint64_t hash = hash_of(recv, RUN_COUNT * 4);
            if (run == 0) first = hash;
            RANKS_EXPECT(hash == first);
        }
        note(rank, recv, RUN_COUNT * 4);
    }
    free(send);
    free(recv);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

/* A process that wants all of a core. */
static pid_t burner_start(void)
{
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned long i = 0;; i++) continue;
}

static void a_hundred_runs_repeat_the_bits_on_a_busy_machine(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(ranks_of_processes(3, the_same_again_and_again, NULL), 0);
    expect_equal_hashes(3);
    const pid_t burner = burner_start();
    assert_true(burner > 0);
    const int failed = ranks_of_processes(3, the_same_again_and_again, NULL);
    kill(burner, SIGKILL);
    waitpid(burner, NULL, 0);
    assert_int_equal(failed, 0);
    expect_equal_hashes(3);
}

/* --------------------------------------------------------------------------- deterministic mode */

struct cut {
    enum collective collective;
    size_t count;
    bool by_call; /* the call asks for it, not the communicator */
};

/* Bucket sizes that fall on both sides of every threshold that the choice may have. */
static size_t bucket_size(uint64_t *random, size_t left)
{
    static const size_t sizes[] = {1, 7, 100, 1000, 2048, 4099, 9000, 16384, 20011, 66000, 150000};
    const size_t size = sizes[next(random) % (sizeof sizes / sizeof *sizes)];
    return size < left ? size : left;
}

static int cut_differently(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct cut *cut = context;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.deterministic = cut->by_call;
    for (int d = 0; d < FLOATING; d++) {
        const enum tutti_dtype dtype = floating[d];
        const size_t bytes = tutti_dtype_size(dtype), total = cut->count * bytes;
        const tutti_op op = d % 3 == 1 ? TUTTI_AVG : TUTTI_SUM;
        const int root = d % size;
        char *const send = malloc(total), *const whole = calloc(1, total),
                    *const parts = calloc(1, total);
        RANKS_EXPECT(send != NULL && whole != NULL && parts != NULL);
        randomise(send, dtype, cut->count, seed + (uint64_t)rank);
        struct test_call call = {cut->collective, send, whole, cut->count,
                                 dtype,           op,   root,  &options};
        RANKS_EXPECT(test_call(&call, comm) == TUTTI_OK);
        for (int round = 0; round < 2; round++) {
            uint64_t random = seed + (uint64_t)(round * 100 + d);
            for (size_t done = 0; done < cut->count; done += call.count) {
                call.count = bucket_size(&random, cut->count - done);
                call.send = send + done * bytes;
                call.recv = parts + done * bytes;
                RANKS_EXPECT(test_call(&call, comm) == TUTTI_OK);
            }
            for (size_t i = 0; i < total; i++) {
                if (whole[i] == parts[i]) continue;
                fprintf(stderr, "rank %d: %s of %s: element %zu of %zu has other bits in a bucket\n",
                        rank, collective_name(cut->collective), tutti_dtype_name(dtype), i / bytes,
                        cut->count);
                return 1;
            }
        }
        free(send);
        free(whole);
        free(parts);
    }
    return 0;
}

static void expect_uncut_bits(int size, enum ranks_kind kind, struct cut cut)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 20000000000u;
    comm_options.deterministic = !cut.by_call;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 60000, .comm_options = &comm_options};
    assert_int_equal(ranks_run(size, &options, cut_differently, &cut), 0);
}

static void deterministic_bits_do_not_depend_on_buckets(void **state)
{
    (void)state;
    for (int size = 2; size <= 6; size += 2) {
        expect_uncut_bits(size, RANKS_DEFAULT, (struct cut){COLLECTIVE_ALLREDUCE, 200003, false});
        expect_uncut_bits(size, RANKS_THREADS, (struct cut){COLLECTIVE_REDUCE, 200003, true});
    }
    expect_uncut_bits(3, RANKS_THREADS, (struct cut){COLLECTIVE_ALLREDUCE, 300007, true});
    expect_uncut_bits(3, RANKS_THREADS, (struct cut){COLLECTIVE_REDUCE, 300007, false});
}

static void deterministic_bits_do_not_depend_on_buckets_with_many_ranks(void **state)
{
    (void)state;
    expect_uncut_bits(RANKS_MAX, RANKS_THREADS, (struct cut){COLLECTIVE_ALLREDUCE, 300007, false});
    expect_uncut_bits(RANKS_MAX, RANKS_THREADS, (struct cut){COLLECTIVE_REDUCE, 100003, false});
}

/* Block b of a whole reduce_scatter, and the same elements reduced slice by slice. */
static int slice_reduce_scatter(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)context;
    enum { COUNT = 30011 };
    float *const send = malloc(sizeof(float) * COUNT * (size_t)size), *const whole = malloc(
                                                                          sizeof(float) * COUNT);
    float *const slice = malloc(sizeof(float) * COUNT * (size_t)size), *const part = malloc(
                                                                           sizeof(float) * COUNT);
    RANKS_EXPECT(send != NULL && whole != NULL && slice != NULL && part != NULL);
    randomise(send, TUTTI_FLOAT32, COUNT * (size_t)size, seed + (uint64_t)rank);
    RANKS_EXPECT(tutti_reduce_scatter(send, whole, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                 TUTTI_OK);
    uint64_t random = seed;
    for (size_t done = 0, n; done < COUNT; done += n) {
        n = bucket_size(&random, COUNT - done);
        for (int block = 0; block < size; block++)
            memcpy(slice + (size_t)block * n, send + (size_t)block * COUNT + done,
                   n * sizeof(float));
        RANKS_EXPECT(tutti_reduce_scatter(slice, part, n, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                     TUTTI_OK);
        RANKS_EXPECT(memcmp(part, whole + done, n * sizeof(float)) == 0);
    }
    free(send);
    free(whole);
    free(slice);
    free(part);
    return 0;
}

static void deterministic_reduce_scatter_does_not_depend_on_slices(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 20000000000u;
    comm_options.deterministic = 1;
    const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 60000, .comm_options = &comm_options};
    assert_int_equal(ranks_run(3, &options, slice_reduce_scatter, NULL), 0);
    assert_int_equal(ranks_run(RANKS_MAX, &options, slice_reduce_scatter, NULL), 0);
}

/* An algorithm that says it is deterministic has one tree for all elements, so one element alone
 * has the bits that it has within many. */
static int one_element_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)context;
    enum { COUNT = 20011 };
    float *const send = malloc(sizeof(float) * COUNT), *const recv = malloc(sizeof(float) * COUNT);
    RANKS_EXPECT(send != NULL && recv != NULL);
    randomise(send, TUTTI_FLOAT32, COUNT, seed + (uint64_t)rank);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *a = &algo_list[i];
        if (a->collective != COLLECTIVE_ALLREDUCE || !a->deterministic || !algo_supports(a, size))
            continue;
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.algorithm = a->name;
        options.deterministic = 1;
        RANKS_EXPECT(tutti_allreduce_with(send, recv, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                          comm) == TUTTI_OK);
        for (size_t e = 0; e < COUNT; e += 1999) {
            float alone;
            RANKS_EXPECT(tutti_allreduce_with(send + e, &alone, 1, TUTTI_FLOAT32, TUTTI_SUM,
                                              &options, comm) == TUTTI_OK);
            if (memcmp(&alone, recv + e, sizeof alone) == 0) continue;
            fprintf(stderr, "rank %d of %d: %s: element %zu has other bits alone\n", rank, size,
                    a->name, e);
            return 1;
        }
    }
    free(send);
    free(recv);
    return 0;
}

static void deterministic_algorithms_have_one_tree_for_all_elements(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_THREADS, .deadline_ms = 60000};
    for (int size = 2; size <= 9; size++)
        assert_int_equal(ranks_run(size, &options, one_element_alone, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_hold_the_same_bits_with_different_kernels),
        cmocka_unit_test(a_hundred_runs_repeat_the_bits_on_a_busy_machine),
        cmocka_unit_test(deterministic_bits_do_not_depend_on_buckets),
        cmocka_unit_test(deterministic_bits_do_not_depend_on_buckets_with_many_ranks),
        cmocka_unit_test(deterministic_reduce_scatter_does_not_depend_on_slices),
        cmocka_unit_test(deterministic_algorithms_have_one_tree_for_all_elements),
    };
    hashes = ranks_share(sizeof *hashes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
