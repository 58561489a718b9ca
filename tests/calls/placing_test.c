/* Large allreduces in mapped memory, whose results may be stored by the rank that reduced them:
 * every element is right and nothing beside it was written, wherever each rank's buffers lie; and
 * after a failure nobody writes here any more.
 *
 * ctest: timeout=180
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;

/* -------------------------------------------------------------------------------------- buffers */

enum { GUARD = 64 /* elements before and behind */, UNTOUCHED = -0x5a5a5a5b /* bytes 0xa5 */ };

struct memory {
    int32_t *all, *data;
    size_t count;
    bool is_mapped;
};

static bool memory_take(struct memory *memory, size_t count, bool is_mapped)
{
    const size_t bytes = (count + 2 * GUARD) * sizeof(int32_t);
    void *all = NULL;
    if (is_mapped && tutti_mem_alloc(bytes, &all) != TUTTI_OK) return false;
    if (!is_mapped) all = malloc(bytes);
    *memory = (struct memory){all, (int32_t *)all + GUARD, count, is_mapped};
    return all != NULL;
}

static void memory_give_back(struct memory *memory)
{
    if (memory->is_mapped)
        tutti_mem_free(memory->all);
    else
        free(memory->all);
}

static void memory_spoil(struct memory *memory)
{
    memset(memory->all, 0xa5, (memory->count + 2 * GUARD) * sizeof *memory->all);
}

/* The values of some ranks, added up: elements `first` and those behind it. The thread sanitizer
 * need not see it: a block is the caller's own. Memory that ranks share is copied or compared in whole. */
enum { BLOCK = 512 };
struct values {
    int first_rank, last_rank, round;
};

__attribute__((no_sanitize("thread"))) static void
put_values(int32_t block[BLOCK], const struct values *values, size_t first)
{
    size_t factor = 0, added = 0;
    for (int r = values->first_rank; r <= values->last_rank; r++) {
        factor += (size_t)r + 1;
        added += (size_t)values->round;
    }
    for (size_t i = 0; i < BLOCK; i++)
        block[i] = (int32_t)(factor * ((first + i) % 100003) + added);
}

static size_t bytes_until(size_t done, size_t count)
{
    return sizeof(int32_t) * (count - done < BLOCK ? count - done : BLOCK);
}

/* Whether data are these values, from that one on. */
static bool are_values(const int32_t *data, size_t count, const struct values *values, size_t first)
{
    int32_t block[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        put_values(block, values, first + done);
        if (memcmp(data + done, block, bytes_until(done, count)) != 0) return false;
    }
    return true;
}

static void memory_fill_input(struct memory *memory, int rank, int round)
{
    const struct values own = {rank, rank, round};
    int32_t block[BLOCK];
    memory_spoil(memory);
    for (size_t done = 0; done < memory->count; done += BLOCK) {
        put_values(block, &own, done);
        memcpy(memory->data + done, block, bytes_until(done, memory->count));
    }
}

/* Of all ranks together, or of one. */
static bool memory_holds(const struct memory *memory, int first_rank, int last_rank, int round)
{
    for (size_t i = 0; i < GUARD; i++)
        if (memory->all[i] != UNTOUCHED || memory->data[memory->count + i] != UNTOUCHED)
            return false;
    return are_values(memory->data, memory->count, &(struct values){first_rank, last_rank, round},
                      0);
}

/* -------------------------------------------------------------------------------------- results */

struct job {
    size_t count;
    const char *algorithm;   /* NULL: chosen */
    unsigned private_inputs; /* a bit a rank */
    unsigned private_outputs;
    unsigned in_place;
    bool started;
    int rounds;
};

static enum tutti_status reduce(const struct job *job, const int32_t *input, int32_t *output,
                                struct tutti_comm *comm)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = job->algorithm;
    if (!job->started)
        return tutti_allreduce_with(input, output, job->count, TUTTI_INT32, TUTTI_SUM, &options,
                                    comm);
    /* Three at once, of a third each. */
    struct tutti_request *requests[3];
    enum tutti_status status = TUTTI_OK;
    int started = 0;
    for (size_t third = job->count / 3; started < 3 && status == TUTTI_OK; started++) {
        const size_t begin = third * (size_t)started,
                     count = started < 2 ? third : job->count - begin;
        status = tutti_allreduce_start(input + begin, output + begin, count, TUTTI_INT32, TUTTI_SUM,
                                       &options, comm, &requests[started]);
    }
    for (int i = 0; i < started; i++) {
        const enum tutti_status one = tutti_wait(&requests[i]);
        if (status == TUTTI_OK) status = one;
    }
    return status;
}

static int sums_are_right(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct job *job = context;
    const bool in_place = job->in_place >> rank & 1;
    struct memory input, output;
    RANKS_EXPECT(memory_take(&input, job->count, !(job->private_inputs >> rank & 1)));
    RANKS_EXPECT(memory_take(&output, job->count, !(job->private_outputs >> rank & 1)));
    for (int round = 0; round < job->rounds; round++) {
        memory_fill_input(in_place ? &output : &input, rank, round);
        if (!in_place) memory_spoil(&output);
        RANKS_EXPECT(reduce(job, in_place ? output.data : input.data, output.data, comm) == TUTTI_OK);
        RANKS_EXPECT(memory_holds(&output, 0, size - 1, round));
        RANKS_EXPECT(in_place || memory_holds(&input, rank, rank, round));
    }
    memory_give_back(&input);
    memory_give_back(&output);
    return 0;
}

static void expect_right(int size, enum ranks_kind kind, struct job job)
{
    const struct ranks_options options = {.kind = kind, .deadline_ms = 60000};
    assert_int_equal(ranks_run(size, &options, sums_are_right, &job), 0);
}

static void run_sizes(enum ranks_kind kind, unsigned in_place)
{
    static const size_t counts[] = {1 << 18, (5 << 18) + 13, 1 << 22};
    if (ranks_repeat(kind)) return;
    for (int size = 2; size <= 4; size++)
        for (int c = 0; c < 3; c++) {
            if (is_left_out((unsigned)(size + c + (in_place != 0)))) continue;
            expect_right(size, kind,
                         (struct job){.count = counts[c],
                                      .algorithm = c == 0 ? NULL : "twoshot",
                                      .in_place = in_place,
                                      .rounds = c == 2 ? 1 : 3});
        }
}

static void mapped_sums_are_right(void **state)
{
    (void)state;
    run_sizes(RANKS_DEFAULT, 0);
    run_sizes(RANKS_THREADS, 0);
}

static void mapped_sums_in_place_are_right(void **state)
{
    (void)state;
    run_sizes(RANKS_DEFAULT, 0xff);
    run_sizes(RANKS_THREADS, 0xff);
}

/* Where one rank's memory cannot be written, results go to all of them by another path. */
static void ranks_may_have_memory_of_different_kinds(void **state)
{
    (void)state;
    static const struct job jobs[] = {
        {.private_outputs = 1}, {.private_outputs = 6, .in_place = 1},
        {.private_inputs = 7},  {.private_inputs = 2, .private_outputs = 4, .in_place = 5},
        {.in_place = 2},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct job job = jobs[i];
        job.count = (3 << 18) + 5;
        job.algorithm = "twoshot";
        job.rounds = 3;
        expect_right(3, RANKS_DEFAULT, job);
        if (i >= 3 && !ranks_repeat(RANKS_THREADS)) expect_right(3, RANKS_THREADS, job);
    }
}

/* One of the other collectives that choose by all ranks' memory. Both have room for the blocks of
 * all. */
static bool exchanges_right(struct tutti_comm *comm, int rank, int size, int round,
                            struct memory *input, struct memory *output)
{
    enum { GATHER, EXCHANGE, REDUCE, KINDS };
    const int kind = round % KINDS;
    const size_t block = input->count / (size_t)size;
    memory_fill_input(input, rank, round);
    memory_spoil(output);
    const enum tutti_status status =
        kind == GATHER ? tutti_allgather(input->data, output->data, block, TUTTI_INT32, comm)
        : kind == EXCHANGE
            ? tutti_alltoall(input->data, output->data, block, TUTTI_INT32, comm)
            : tutti_reduce_scatter(input->data, output->data, block, TUTTI_INT32, TUTTI_SUM, comm);
    bool is_right = status == TUTTI_OK;
    const size_t own = (size_t)rank * block;
    if (kind == REDUCE)
        return is_right &&
               are_values(output->data, block, &(struct values){0, size - 1, round}, own);
    for (int r = 0; r < size; r++)
        is_right &= are_values(output->data + (size_t)r * block, block,
                               &(struct values){r, r, round}, kind == EXCHANGE ? own : 0);
    return is_right;
}

/* Ranks choose by what all of them had in the call before, also when they are ahead of each other
 * by then: rounds are of mapped memory alone, of private memory on somebody, or of both kinds by
 * chance. */
static int every_round_is_right(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)context;
    enum { ROUNDS = 40, COUNT_MAX = 1 << 18 };
    struct memory memory[2][2]; /* private and mapped; input and output */
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < 2; i++)
            RANKS_EXPECT(memory_take(&memory[kind][i], COUNT_MAX, kind == 1));
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t chance = seed >> (round + 7 * rank) % 61;
        const int variant = round / 4 % 3, kind = variant == 0   ? 1
                                                  : variant == 1 ? round % size != rank
                                                                 : (int)(chance & 1);
        struct memory input = memory[kind][0], output = memory[kind][1];
        input.count = output.count = round % 5 == 4 ? 100 : (size_t)COUNT_MAX >> round % 3;
        memory_fill_input(&input, rank, round);
        memory_spoil(&output);
        RANKS_EXPECT(tutti_allreduce(input.data, output.data, input.count, TUTTI_INT32, TUTTI_SUM,
                                     comm) == TUTTI_OK);
        RANKS_EXPECT(memory_holds(&output, 0, size - 1, round));
        for (int i = 0; i < round / 2 % 3; i++)
            RANKS_EXPECT(exchanges_right(comm, rank, size, round + i, &input, &output));
        int32_t word = rank == round % size ? round : -1;
        for (int i = 0; i < round % 3; i++)
            RANKS_EXPECT(tutti_broadcast(&word, &word, 1, TUTTI_INT32, round % size, comm) ==
                         TUTTI_OK);
        RANKS_EXPECT(round % 3 == 0 || word == round);
    }
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < 2; i++) memory_give_back(&memory[kind][i]);
    return 0;
}

static void memory_may_be_another_in_every_call(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS)
        for (int size = 2; size <= 5; size++) {
            const struct ranks_options options = {.kind = (enum ranks_kind)kind,
                                                  .deadline_ms = 60000};
            assert_int_equal(ranks_run(size, &options, every_round_is_right, NULL), 0);
        }
}

static void started_sums_in_mapped_memory_are_right(void **state)
{
    (void)state;
    for (unsigned in_place = 0; in_place < 16; in_place += 15)
        for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
             kind += RANKS_THREADS)
            expect_right(3, (enum ranks_kind)kind,
                         (struct job){.count = (4 << 18) + 1,
                                      .algorithm = "twoshot",
                                      .in_place = in_place,
                                      .started = true,
                                      .rounds = 3});
}

/* ------------------------------------------------------------------------------------- failures */

/* Whether a call that failed leaves memory alone once it has returned. */
static bool stays_as_it_is(const struct memory *memory)
{
    const size_t bytes = memory->count * sizeof(int32_t);
    void *before = malloc(bytes);
    if (before == NULL) return false;
    memcpy(before, memory->data, bytes);
    for (int look = 0; look < 6; look++) {
        ranks_nap_ms(50);
        if (memcmp(before, memory->data, bytes) != 0) return false;
    }
    free(before);
    return true;
}

/* Takes its time, as long as this rank is to. */
struct slow {
    bool is_slow;
};

static void add_slowly(const void *left, const void *right, void *result, size_t count,
                       enum tutti_dtype dtype, void *context)
{
    (void)dtype;
    const struct slow *slow = context;
    int32_t *sums = result;
    for (size_t i = 0; i < count; i++)
        sums[i] = ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
    if (slow->is_slow) ranks_nap_ms(50);
}

/* Rank 0 gives up while the last rank is in the middle of storing results in its memory. Inputs are
 * private, so that it has nothing else to wait for. */
static int one_gives_up(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 3 << 18 };
    struct slow slow = {.is_slow = rank == size - 1};
    struct tutti_op_options op_options = TUTTI_OP_OPTIONS_INIT;
    op_options.combine = add_slowly;
    op_options.context = &slow;
    op_options.commutative = 1;
    tutti_op add;
    RANKS_EXPECT(tutti_op_create(&op_options, &add) == TUTTI_OK);
    struct memory input, output;
    RANKS_EXPECT(memory_take(&input, COUNT, false) && memory_take(&output, COUNT, true));
    memory_fill_input(&input, rank, 0);
    memory_spoil(&output);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "twoshot";
    options.timeout_ns = rank == 0 ? SECOND * 4 / 10 : 20 * SECOND;
    RANKS_EXPECT(tutti_allreduce_with(input.data, output.data, COUNT, TUTTI_INT32, add, &options,
                                      comm) == TUTTI_TIMEOUT);
    RANKS_EXPECT(stays_as_it_is(&output));
    RANKS_EXPECT(tutti_op_free(add) == TUTTI_OK);
    memory_give_back(&input);
    memory_give_back(&output);
    return 0;
}

static void nobody_writes_to_a_rank_that_gave_up(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        const struct ranks_options options = {.kind = (enum ranks_kind)kind, .deadline_ms = 30000};
        assert_int_equal(ranks_run(3, &options, one_gives_up, NULL), 0);
    }
}

static void *kill_soon(void *unused)
{
    (void)unused;
    ranks_nap_ms(100);
    kill(getpid(), SIGKILL);
    return NULL;
}

static _Atomic int *met; /* see ranks_meet */

static int one_is_killed(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    enum { COUNT = 1 << 21 };
    const bool in_place = context != NULL;
    struct memory input, output;
    RANKS_EXPECT(memory_take(&input, COUNT, true) && memory_take(&output, COUNT, true));
    memory_fill_input(&input, rank, 0);
    memory_fill_input(&output, rank, 0);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_meet(met, size);
    pthread_t thread;
    if (rank == size - 1) RANKS_EXPECT(pthread_create(&thread, NULL, kill_soon, NULL) == 0);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "twoshot";
    options.timeout_ns = 20 * SECOND;
    enum tutti_status status;
    do
        status = tutti_allreduce_with(in_place ? output.data : input.data, output.data, COUNT,
                                      TUTTI_INT32, TUTTI_SUM, &options, comm);
    while (status == TUTTI_OK);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(stays_as_it_is(&output));
    RANKS_EXPECT(in_place || memory_holds(&input, rank, rank, 0));
    memory_give_back(&input);
    memory_give_back(&output);
    return 0;
}

static void nobody_writes_to_survivors_of_a_death(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    for (int in_place = 0; in_place < 2; in_place++) {
        struct ranks_outcome outcomes[4];
        const struct ranks_options options = {
            .kind = RANKS_PROCESSES, .deadline_ms = 30000, .outcomes = outcomes};
        met = ranks_share(sizeof *met);
        assert_int_equal(ranks_run(4, &options, one_is_killed, in_place ? outcomes : NULL), 1);
        assert_int_equal(outcomes[3].fate, RANKS_SIGNALLED);
    }
}

int main(void)
{
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_sums_are_right),
        cmocka_unit_test(mapped_sums_in_place_are_right),
        cmocka_unit_test(ranks_may_have_memory_of_different_kinds),
        cmocka_unit_test(memory_may_be_another_in_every_call),
        cmocka_unit_test(started_sums_in_mapped_memory_are_right),
        cmocka_unit_test(nobody_writes_to_a_rank_that_gave_up),
        cmocka_unit_test(nobody_writes_to_survivors_of_a_death),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
