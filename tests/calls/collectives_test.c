/* Conformance: every collective by every algorithm gives the right elements, and touches nothing
 * else.
 *
 * Inputs are those of elements.h, in every dtype, for every operation that the algorithm may do:
 * one that is not commutative shows whether operands keep the order of ranks. Every element on
 * every rank is checked; so are inputs, and guards around all buffers. Buffers begin at any byte.
 *
 * With an argument it is one rank of a job that something else has started, for
 * tests/hosts/cluster_test.sh:
 *
 *     tests_calls_collectives_test rank|choice     every algorithm, or what the library chooses alone
 *
 * ctest: timeout=240 first
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/dtype.h"
#include "base/op.h"
#include "tests/kit/call.h"
#include "tests/kit/elements.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/ranks.h"

enum { GUARD_BYTES = 128, GUARD = 0xa7, POISON = 0x5b };

static const struct tutti_comm_options comm_options = {.size_bytes =
                                                           sizeof(struct tutti_comm_options),
                                                       .rank = -1,
                                                       .size = -1,
                                                       .timeout_ns = 20000000000u};

/* -------------------------------------------------------------------------------------- buffers */

struct buffer {
    unsigned char *memory; /* guard, data, guard */
    size_t data_bytes, shift;
};

/* Shared between the calls of a rank. */
struct arena {
    unsigned char *memory[2];
    size_t bytes;
    bool protects; /* what a call may only read: then the memory is whole pages */
};

static void protect(const struct arena *arena, int which, int rights)
{
    if (arena->protects && mprotect(arena->memory[which], arena->bytes, rights) != 0) abort();
}

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

/* ---------------------------------------------------------------------------------------- cases */

enum form { BLOCKING, STARTED, PREPARED, GROUPED };
static const char *const form_names[] = {"", ", started", ", prepared", ", grouped"};

struct scenario {
    enum collective collective;
    const char *algorithm; /* NULL: the library's choice */
    size_t count;
    enum tutti_dtype dtype;
    enum op kind;
    int root;
    enum form form;
    bool in_place, deterministic;
    size_t shift; /* bytes that buffers are off a cache line */
    /* of this run */
    tutti_op op;
    size_t first_index; /* of the inputs: another run, other inputs */
};

static int complain(const struct scenario *s, int rank, int size, const char *what)
{
    fprintf(stderr,
            "rank %d of %d: %s by %s, count %zu, %s %s, root %d%s%s%s, shifted by %zu: %s (%s)\n",
            rank, size, collective_name(s->collective),
            s->algorithm == NULL ? "choice" : s->algorithm, s->count, tutti_dtype_name(s->dtype),
            op_kind_name(s->kind), s->root, s->in_place ? ", in place" : "", form_names[s->form],
            s->deterministic ? ", deterministic" : "", s->shift, what, tutti_error_message());
    return 1;
}

static void tabulate_input(struct elements *table, const struct scenario *s, int rank, int size)
{
    if (collective_reduces(s->collective))
        elements_contribution(table, s->dtype, s->kind, rank, size);
    else
        elements_bytes(table, s->dtype, rank);
}

/* The block `block` of the output, elements from the right index of the right table. */
static size_t check_block(const struct scenario *s, const void *data, size_t block, int rank,
                          int size)
{
    struct elements table;
    size_t first_index = s->first_index;
    switch (s->collective) {
    case COLLECTIVE_BROADCAST: elements_bytes(&table, s->dtype, s->root); break;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: elements_bytes(&table, s->dtype, (int)block); break;
    case COLLECTIVE_SCATTER:
        elements_bytes(&table, s->dtype, s->root);
        first_index += (size_t)rank * s->count;
        break;
    case COLLECTIVE_ALLTOALL:
        elements_bytes(&table, s->dtype, (int)block);
        first_index += (size_t)rank * s->count;
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        elements_result(&table, s->dtype, s->kind, size);
        first_index += (size_t)rank * s->count;
        break;
    default: elements_result(&table, s->dtype, s->kind, size); break;
    }
    return elements_first_wrong(data, &table, first_index, s->count);
}

/* The buffers of one rank in one scenario. */
struct stage {
    struct buffer send_buffer, recv_buffer;
    unsigned char *send, *recv;
    size_t send_blocks, recv_blocks;
    bool in_place; /* here */
    struct elements input;
};

static void set_stage(struct stage *stage, const struct scenario *s, struct arena *arena, int rank,
                      int size)
{
    const size_t block_bytes = s->count * tutti_dtype_size(s->dtype);
    stage->send_blocks = test_send_blocks(s->collective, rank, size, s->root);
    stage->recv_blocks = test_recv_blocks(s->collective, rank, size, s->root);
    stage->in_place = s->in_place && stage->send_blocks > 0 && stage->recv_blocks > 0;
    for (int i = 0; i < 2; i++) protect(arena, i, PROT_READ | PROT_WRITE);
    const size_t larger =
        stage->send_blocks > stage->recv_blocks ? stage->send_blocks : stage->recv_blocks;
    stage->recv_buffer = take_buffer(
        arena, 0, (stage->in_place ? larger : stage->recv_blocks) * block_bytes, s->shift);
    stage->send_buffer =
        take_buffer(arena, 1, stage->in_place ? 0 : stage->send_blocks * block_bytes,
                    stage->in_place ? 0 : s->shift);
    stage->recv = data_of(&stage->recv_buffer);
    stage->send = data_of(&stage->send_buffer);
    if (stage->in_place) {
        const size_t offset = test_in_place_block(s->collective, rank) * block_bytes;
        stage->send = stage->recv;
        if (stage->recv_blocks > stage->send_blocks) stage->send += offset;
        if (stage->send_blocks > stage->recv_blocks) stage->recv += offset;
    }
    elements_fill(stage->send, &stage->input, s->first_index, stage->send_blocks * s->count);
    const bool has_all =
        (s->collective == COLLECTIVE_BROADCAST || s->collective == COLLECTIVE_SCATTER) &&
        rank == s->root;
    if (!stage->in_place || has_all) protect(arena, stage->in_place ? 0 : 1, PROT_READ);
}

static int check_stage(const struct stage *stage, const struct scenario *s, int rank, int size)
{
    const size_t block_bytes = s->count * tutti_dtype_size(s->dtype);
    const size_t sent = stage->send_blocks * s->count;
    for (size_t block = 0; block < stage->recv_blocks; block++) {
        const size_t wrong = check_block(s, stage->recv + block * block_bytes, block, rank, size);
        if (wrong == s->count) continue;
        char what[80];
        snprintf(what, sizeof what, "block %zu, element %zu is wrong", block, wrong);
        return complain(s, rank, size, what);
    }
    if (!guards_hold(&stage->recv_buffer)) return complain(s, rank, size, "wrote beside recv");
    if (!guards_hold(&stage->send_buffer)) return complain(s, rank, size, "wrote beside send");
    if (!stage->in_place &&
        elements_first_wrong(stage->send, &stage->input, s->first_index, sent) != sent)
        return complain(s, rank, size, "changed its input");
    return 0;
}

static enum tutti_status call_once(const struct test_call *call, enum form form,
                                   struct tutti_comm *comm)
{
    struct tutti_request *request;
    if (form == GROUPED) {
        const enum tutti_status begun = tutti_group_begin();
        const enum tutti_status called = begun == TUTTI_OK ? test_call(call, comm) : begun;
        const enum tutti_status ended = tutti_group_end();
        return called != TUTTI_OK ? called : ended;
    }
    if (form != STARTED) return test_call(call, comm);
    const enum tutti_status status = test_call_start(call, comm, &request);
    return status != TUTTI_OK ? status : tutti_wait(&request);
}

/* The same buffers three times, with other contents each time; where a call is not in place, with
 * the same send buffer that the last one must have left as it was. */
static int run_prepared(struct scenario *s, struct stage *stage, struct arena *arena,
                        const struct test_call *call, struct tutti_comm *comm, int rank, int size)
{
    struct tutti_prepared *prepared;
    enum tutti_status status = test_call_prepare(call, comm, &prepared);
    if (status != TUTTI_OK) return complain(s, rank, size, tutti_status_name(status));
    int result = 0;
    for (int run = 0; run < 3 && result == 0; run++) {
        struct tutti_request *request;
        if (run > 0) {
            s->first_index += 17;
            set_stage(stage, s, arena, rank, size);
        }
        status = tutti_start(prepared, &request);
        if (status == TUTTI_OK) status = tutti_wait(&request);
        result = status == TUTTI_OK ? check_stage(stage, s, rank, size)
                                    : complain(s, rank, size, tutti_status_name(status));
    }
    if (tutti_prepared_free(prepared) != TUTTI_OK)
        return complain(s, rank, size, "cannot free what was prepared");
    return result;
}

static int run_scenario(const struct scenario *given, struct arena *arena, struct tutti_comm *comm,
                        int rank, int size)
{
    struct scenario s = *given;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = s.algorithm;
    options.deterministic = s.deterministic;
    s.op = elements_op(s.kind);
    RANKS_EXPECT(s.op != NULL);
    struct stage stage;
    tabulate_input(&stage.input, &s, rank, size);
    set_stage(&stage, &s, arena, rank, size);
    /* Where a buffer is not looked at, an address that must not be touched is as good as any
     * other. */
    const struct test_call call = {s.collective,
                                   stage.send_blocks > 0 ? stage.send : NULL,
                                   stage.recv_blocks > 0 ? stage.recv : NULL,
                                   s.count,
                                   s.dtype,
                                   s.op,
                                   s.root,
                                   s.algorithm == NULL && !s.deterministic ? NULL : &options};
    int result;
    if (s.form == PREPARED) {
        result = run_prepared(&s, &stage, arena, &call, comm, rank, size);
    } else {
        const enum tutti_status status = call_once(&call, s.form, comm);
        result = status == TUTTI_OK ? check_stage(&stage, &s, rank, size)
                                    : complain(&s, rank, size, tutti_status_name(status));
    }
    tutti_op_free(s.op);
    return result;
}

/* --------------------------------------------------------------------------------------- sweeps */

struct sweep {
    const size_t *counts;
    int count_count;
    size_t block_count_max; /* for collectives of many blocks a rank */
    bool dtypes_and_ops;    /* all pairs of them with 4 ranks, and some with others */
    bool heap;              /* buffers from tutti_mem_alloc */
    size_t arena_bytes;
    bool choice;   /* no algorithm by its name */
    bool protects; /* what a call may only read, by the kernel */
    unsigned turn; /* counts the numbers of ranks: where algorithms are left out, others with each */
};

static bool arena_init(struct arena *arena, const struct sweep *sweep)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    arena->protects = sweep->protects;
    arena->bytes =
        sweep->protects ? (sweep->arena_bytes + page - 1) / page * page : sweep->arena_bytes;
    for (int i = 0; i < 2; i++) {
        if (sweep->protects) {
            arena->memory[i] = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (arena->memory[i] == MAP_FAILED) return false;
        } else if (sweep->heap) {
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
        if (sweep->protects)
            munmap(arena->memory[i], arena->bytes);
        else if (sweep->heap)
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

/* An operation that the algorithm (NULL: choice) may do on that dtype; the hash decides. */
static enum op pick_op(const struct algorithm *a, enum tutti_dtype dtype, uint64_t h)
{
    for (;; h = elements_mixed(h, 1)) {
        const enum op kind = (enum op)(h % OP_COUNT);
        if (elements_supported(kind, dtype) &&
            (kind != OP_USER || a == NULL || !a->needs_commutative))
            return kind;
    }
}

static enum form pick_form(uint64_t h)
{
    return h % 8 < 5 ? BLOCKING : (enum form)(h % 8 - 4);
}

/* One algorithm at every count, in and out of place; everything else takes turns. */
static int sweep_counts(const struct algorithm *a, enum collective collective,
                        const struct sweep *sweep, struct arena *arena, uint64_t turn,
                        struct tutti_comm *comm, int rank, int size)
{
    for (int c = 0; c < sweep->count_count; c++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            const uint64_t h = elements_mixed(turn, (uint64_t)(c * 2 + in_place));
            struct scenario s = {.collective = collective,
                                 .algorithm = a != NULL ? a->name : NULL,
                                 .count = sweep->counts[c],
                                 .dtype = (enum tutti_dtype)(h % DTYPE_COUNT),
                                 .root = (int)(h / 64 % (uint64_t)size),
                                 .in_place = in_place == 1,
                                 .form = pick_form(h >> 40)};
            s.kind = pick_op(a, s.dtype, h >> 20);
            if (a == NULL) s.deterministic = (h >> 43 & 1) != 0;
            if (is_blocky(collective) && s.count > sweep->block_count_max)
                s.count = sweep->block_count_max;
            s.shift = (h >> 44 & 1) * (h >> 45 & 63);
            if (run_scenario(&s, arena, comm, rank, size) != 0) return 1;
        }
    }
    return 0;
}

/* Every dtype with every operation; sparse: about every sixth of these pairs. */
static int sweep_dtypes_and_ops(const struct algorithm *a, bool sparse, struct arena *arena,
                                uint64_t turn, struct tutti_comm *comm, int rank, int size)
{
    for (int d = 0; d < DTYPE_COUNT; d++) {
        for (int o = 0; o < (collective_reduces(a->collective) ? OP_COUNT : 1); o++) {
            const uint64_t h = elements_mixed(turn, (uint64_t)(1000 + d * OP_COUNT + o));
            const struct scenario s = {.collective = a->collective,
                                       .algorithm = a->name,
                                       .count = (h & 1) ? 333 : 17,
                                       .dtype = (enum tutti_dtype)d,
                                       .kind = (enum op)o,
                                       .root = (int)(h / 64 % (uint64_t)size),
                                       .in_place = (h & 2) != 0,
                                       .form = pick_form(h >> 2),
                                       .shift = h >> 8 & 15};
            if (!elements_supported(s.kind, s.dtype) || (o == OP_USER && a->needs_commutative))
                continue;
            if (sparse && (h >> 32) % 6 != 0) continue;
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
        if (sweep->choice || !algo_supports(a, size)) continue;
        if (is_left_out((unsigned)i + sweep->turn)) continue;
        const uint64_t turn = elements_mixed(seed, (uint64_t)i);
        result = sweep_counts(a, a->collective, sweep, &arena, turn, comm, rank, size);
        if (result == 0 && sweep->dtypes_and_ops)
            result = sweep_dtypes_and_ops(a, IS_SPARSE || size != 4, &arena, turn, comm, rank, size);
    }
    for (int c = 0; c < COLLECTIVE_COUNT && result == 0; c++) {
        if (is_left_out((unsigned)c + sweep->turn)) continue;
        result = sweep_counts(NULL, (enum collective)c, sweep, &arena,
                              elements_mixed(seed, (uint64_t)(500 + c)), comm, rank, size);
    }
    arena_release(&arena, sweep);
    return result;
}

static void sweep_ranks(enum ranks_kind kind, const int *sizes, int size_count,
                        const struct sweep *sweep)
{
    for (int i = 0; i < size_count; i++) {
        struct sweep own = *sweep;
        own.turn = (unsigned)i;
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

/* ---------------------------------------------------------------------------------------- tests */

static const size_t counts[] = {0, 1, 3, 17, 1000, 4099, 65536 + 5};
enum { COUNT_COUNT = sizeof counts / sizeof *counts };

static void every_algorithm_is_right_among_threads(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const struct sweep sweep = {.counts = counts,
                                .count_count = COUNT_COUNT,
                                .block_count_max = 16389,
                                .dtypes_and_ops = true};
    sweep_ranks(RANKS_THREADS, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

static void every_algorithm_is_right_among_16_threads(void **state)
{
    (void)state;
    static const int sizes[] = {16};
    const struct sweep sweep = {
        .counts = counts, .count_count = COUNT_COUNT, .block_count_max = 4099};
    sweep_ranks(RANKS_THREADS, sizes, 1, &sweep);
}

static void every_algorithm_is_right_among_processes(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    static const int sizes[] = {1, 2, 3, 5, 8};
    const struct sweep sweep = {.counts = counts,
                                .count_count = COUNT_COUNT,
                                .block_count_max = 16389,
                                .dtypes_and_ops = true};
    sweep_ranks(RANKS_PROCESSES, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

static void every_algorithm_is_right_on_registered_memory(void **state)
{
    (void)state;
    static const int sizes[] = {2, 4, 7};
    const struct sweep sweep = {
        .counts = counts, .count_count = COUNT_COUNT, .block_count_max = 16389, .heap = true};
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

static const size_t large_counts[] = {300007, 1 << 20};
enum { LARGE_COUNTS = IS_SPARSE ? 1 : 2 };

static void every_algorithm_streams_large_counts(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 4};
    struct sweep sweep = {
        .counts = large_counts, .count_count = LARGE_COUNTS, .block_count_max = 131071};
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
    sweep.heap = true;
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
    sweep.heap = false;
    if (!ranks_are_threads())
        sweep_ranks(RANKS_THREADS, sizes, sizeof sizes / sizeof *sizes, &sweep);
}

/* Inputs, and at the root of a broadcast or a scatter in place all of it: whoever stored the same
 * bytes there again would end with SIGSEGV, and would elsewhere take them from the caches of those
 * who read them. */
static void every_algorithm_only_reads_what_it_sends(void **state)
{
    (void)state;
    static const size_t few_counts[] = {17, 4099, 65536 + 5}, many[] = {300007};
    static const int sizes[] = {3, 2, 4};
    struct sweep sweep = {.counts = few_counts,
                          .count_count = sizeof few_counts / sizeof *few_counts,
                          .block_count_max = 16389,
                          .protects = true};
    if (IS_SPARSE) { /* the kernel notices, sanitizers add nothing */
        sweep.count_count = 2;
        sweep_ranks(RANKS_DEFAULT, sizes, 1, &sweep);
        return;
    }
    sweep_ranks(RANKS_DEFAULT, sizes, sizeof sizes / sizeof *sizes, &sweep);
    sweep.counts = many;
    sweep.count_count = 1;
    sweep_ranks(RANKS_DEFAULT, sizes, 2, &sweep);
}

/* ---------------------------------------------------------------------------- one rank of a job */

static int be_rank(bool choice)
{
    static const size_t few_counts[] = {0, 1, 1000, 20011};
    enum { BLOCK_COUNT_MAX = 4099, SEED = 7 };
    struct tutti_comm *comm;
    if (tutti_comm_create(NULL, &comm) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return 1;
    }
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    struct sweep sweep = {few_counts, sizeof few_counts / sizeof *few_counts, BLOCK_COUNT_MAX,
                          .choice = choice};
    sweep.arena_bytes =
        ((size_t)BLOCK_COUNT_MAX * (size_t)size + few_counts[3]) * 8 + 4 * GUARD_BYTES;
    int result = sweep_all(comm, rank, size, SEED, &sweep);
    if (tutti_comm_free(comm) != TUTTI_OK) result = 1;
    if (result == 0) printf("rank %d of %d: all right\n", rank, size);
    return result;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2) return be_rank(strcmp(arguments[1], "choice") == 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right_among_threads),
        cmocka_unit_test(every_algorithm_is_right_among_16_threads),
        cmocka_unit_test(every_algorithm_is_right_among_processes),
        cmocka_unit_test(every_algorithm_is_right_on_registered_memory),
        cmocka_unit_test(every_algorithm_streams_large_counts),
        cmocka_unit_test(every_algorithm_only_reads_what_it_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
