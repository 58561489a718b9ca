/* Blocking calls choose by whether all ranks' memory is mapped, as far as all have told each other:
 * the ranks choose alike whatever each of them has, whichever calls come between, and however far
 * they are ahead of each other. Ranks that chose differently would fail, because signatures cover
 * the plan.
 *
 * ctest: timeout=180
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "call/all_memory.h"
#include "call/communicator.h"
#include "tests/kit/chance.h"
#include "tests/worlds/ranks.h"

enum { SIZE_MAX_RANKS = 5, LARGE = 4 << 10 /* 16 KiB */, LARGEST = 16 << 10, STEP = 61 };

/* -------------------------------------------------------------------------------------- buffers */

struct memory {
    int32_t *of[2]; /* private, mapped */
};

static bool memory_take(struct memory *memory, size_t count)
{
    void *mapped = NULL;
    memory->of[0] = malloc(count * sizeof(int32_t));
    const bool is_there = tutti_mem_alloc(count * sizeof(int32_t), &mapped) == TUTTI_OK;
    memory->of[1] = mapped;
    return memory->of[0] != NULL && is_there;
}

static void memory_give_back(struct memory *memory)
{
    free(memory->of[0]);
    tutti_mem_free(memory->of[1]);
}

/* ---------------------------------------------------------------------------------------- calls */

enum form { BLOCKING, STARTED, GROUPED };

struct step {
    enum collective collective;
    enum form form;
    int root, number;
    size_t count;
};

static int32_t value_of(int rank, size_t i, int number)
{
    return (int32_t)(i % 1009 * (size_t)(rank + 1) + (size_t)number);
}

static int32_t sum_of(int size, size_t i, int number)
{
    int32_t sum = 0;
    for (int r = 0; r < size; r++) sum += value_of(r, i, number);
    return sum;
}

static enum tutti_status call(const struct step *s, const int32_t *in, int32_t *out,
                              struct tutti_comm *comm)
{
    switch (s->collective) {
    case COLLECTIVE_ALLREDUCE:
        return tutti_allreduce(in, out, s->count, TUTTI_INT32, TUTTI_SUM, comm);
    case COLLECTIVE_REDUCE:
        return tutti_reduce(in, out, s->count, TUTTI_INT32, TUTTI_SUM, s->root, comm);
    case COLLECTIVE_BROADCAST:
        return tutti_broadcast(in, out, s->count, TUTTI_INT32, s->root, comm);
    case COLLECTIVE_GATHER: return tutti_gather(in, out, s->count, TUTTI_INT32, s->root, comm);
    case COLLECTIVE_SCATTER: return tutti_scatter(in, out, s->count, TUTTI_INT32, s->root, comm);
    case COLLECTIVE_ALLGATHER: return tutti_allgather(in, out, s->count, TUTTI_INT32, comm);
    case COLLECTIVE_REDUCE_SCATTER:
        return tutti_reduce_scatter(in, out, s->count, TUTTI_INT32, TUTTI_SUM, comm);
    case COLLECTIVE_ALLTOALL: return tutti_alltoall(in, out, s->count, TUTTI_INT32, comm);
    default: return tutti_barrier(comm);
    }
}

static enum tutti_status start(const struct step *s, const int32_t *in, int32_t *out,
                               struct tutti_comm *comm)
{
    struct tutti_request *request = NULL;
    const enum tutti_status status =
        s->collective == COLLECTIVE_BROADCAST
            ? tutti_broadcast_start(in, out, s->count, TUTTI_INT32, s->root, NULL, comm, &request)
        : s->collective == COLLECTIVE_REDUCE
            ? tutti_reduce_start(in, out, s->count, TUTTI_INT32, TUTTI_SUM, s->root, NULL, comm,
                                 &request)
            : tutti_allreduce_start(in, out, s->count, TUTTI_INT32, TUTTI_SUM, NULL, comm, &request);
    return status == TUTTI_OK ? tutti_wait(&request) : status;
}

static enum tutti_status make(const struct step *s, const int32_t *in, int32_t *out,
                              struct tutti_comm *comm)
{
    if (s->form == STARTED) return start(s, in, out, comm);
    if (s->form == BLOCKING) return call(s, in, out, comm);
    const enum tutti_status begun = tutti_group_begin();
    if (begun != TUTTI_OK) return begun;
    const enum tutti_status status = call(s, in, out, comm), ended = tutti_group_end();
    return status != TUTTI_OK ? status : ended;
}

/* The contents of a place of a rank's output. */
static int32_t expected(const struct step *s, int rank, int size, size_t i)
{
    const size_t block = i / s->count, own = (size_t)rank * s->count;
    switch (s->collective) {
    case COLLECTIVE_BROADCAST: return value_of(s->root, i, s->number);
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return value_of((int)block, i % s->count, s->number);
    case COLLECTIVE_SCATTER: return value_of(s->root, own + i, s->number);
    case COLLECTIVE_ALLTOALL: return value_of((int)block, own + i % s->count, s->number);
    case COLLECTIVE_REDUCE_SCATTER: return sum_of(size, own + i, s->number);
    default: return sum_of(size, i, s->number);
    }
}

static bool is_right(const struct step *s, const int32_t *out, int rank, int size)
{
    if (s->collective == COLLECTIVE_BARRIER) return true;
    const size_t count = s->count * collective_blocks_received(s->collective, rank == s->root, size);
    for (size_t i = 0; i < count; i += STEP)
        if (out[i] != expected(s, rank, size, i)) return false;
    return true;
}

/* --------------------------------------------------------------------------------- random mixes */

static struct step draw(struct chance *all, int size, int number)
{
    struct step step = {.collective = (enum collective)chance_below(all, COLLECTIVE_COUNT),
                        .number = number,
                        .root = chance_below(all, size)};
    const int form = chance_below(all, 6);
    step.count = chance_below(all, 3) == 0 ? 100 : (size_t)LARGE << chance_below(all, 3);
    if (step.collective != COLLECTIVE_BARRIER && form == 0) step.form = GROUPED;
    if (step.collective <= COLLECTIVE_BROADCAST && form == 1) step.form = STARTED;
    return step;
}

/* Makes a step several times. Most often a rank has the same buffers each time, so that some ranks
 * repeat the call before it while others make a new one. */
static int repeats_are_right(struct tutti_comm *comm, struct step step, int calls, bool is_mapped,
                             const struct memory *input, const struct memory *output,
                             struct chance *own)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const size_t sent =
        step.count * collective_blocks_sent(step.collective, rank == step.root, size);
    for (int k = 0; k < calls; k++, step.number++) {
        if (k > 0 && chance_below(own, 10) == 0) is_mapped = !is_mapped;
        int32_t *const in = input->of[is_mapped], *const out = output->of[is_mapped];
        for (size_t i = 0; i < sent; i++) in[i] = value_of(rank, i, step.number);
        if (chance_below(own, 12) == 0) ranks_nap_ms(1); /* the others go ahead */
        RANKS_EXPECT(make(&step, in, out, comm) == TUTTI_OK);
        RANKS_EXPECT(is_right(&step, out, rank, size));
    }
    return 0;
}

static int mixes_are_right(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { STEPS = 240, STEPS_ALIKE = 6, CALLS_MAX = 40 };
    (void)context;
    struct memory input, output;
    struct chance all = {.seed = seed}, own = {.seed = seed * 31 + (uint64_t)rank + 1};
    const size_t count = (size_t)LARGEST * (size_t)size;
    int odd = 0;
    RANKS_EXPECT(memory_take(&input, count) && memory_take(&output, count));
    for (int number = 0; number < STEPS; number++) {
        const struct step step = draw(&all, size, number * CALLS_MAX);
        if (number % STEPS_ALIKE == 0) odd = chance_below(&all, size);
        /* Mapped memory on all; private memory on somebody; each as it comes. */
        const int variant = number / STEPS_ALIKE % 3;
        const bool is_mapped = variant == 0   ? true
                               : variant == 1 ? rank != odd
                                              : chance_below(&own, 2) == 1;
        const int calls = chance_below(&all, 6) == 0 ? chance_below(&all, CALLS_MAX) + 1 : 1;
        RANKS_EXPECT(repeats_are_right(comm, step, calls, is_mapped, &input, &output, &own) == 0);
    }
    memory_give_back(&input);
    memory_give_back(&output);
    return 0;
}

static void ranks_choose_alike_whatever_memory_they_have(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS)
        for (int size = 2; size <= SIZE_MAX_RANKS; size++) {
            const struct ranks_options options = {.kind = (enum ranks_kind)kind,
                                                  .deadline_ms = 60000};
            assert_int_equal(ranks_run(size, &options, mixes_are_right, NULL), 0);
        }
}

/* -------------------------------------------------------------------------------- when it holds */

static bool holds(struct tutti_comm *comm, enum collective collective)
{
    return all_memory_decide(comm, collective);
}

static int what_holds_follows_what_all_told(struct tutti_comm *comm, int rank, int size,
                                            uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const size_t count = LARGE;
    struct memory input, output;
    if (!comm->team.transports.maps_heaps || all_memory_is_reached(comm))
        return 0; /* nobody tells anything */
    RANKS_EXPECT(memory_take(&input, count * (size_t)size) &&
                 memory_take(&output, count * (size_t)size));
    memset(input.of[0], 0, count * sizeof(int32_t));
    memset(input.of[1], 0, count * sizeof(int32_t));
    const struct step reduce = {.collective = COLLECTIVE_REDUCE, .root = size - 1, .count = count},
                      gather = {.collective = COLLECTIVE_GATHER, .count = count},
                      sum = {.collective = COLLECTIVE_ALLREDUCE, .count = count},
                      barrier = {.collective = COLLECTIVE_BARRIER};
    const int mapped = 1, odd = rank == 1 ? 0 : 1; /* rank 1 has private memory */
    RANKS_EXPECT(!holds(comm, COLLECTIVE_REDUCE));

    /* It counts when all have told it. A collective that was not called is taken to be like the
     * last one. */
    RANKS_EXPECT(make(&reduce, input.of[mapped], output.of[mapped], comm) == TUTTI_OK);
    RANKS_EXPECT(!holds(comm, COLLECTIVE_REDUCE));
    RANKS_EXPECT(make(&barrier, NULL, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(holds(comm, COLLECTIVE_REDUCE) && holds(comm, COLLECTIVE_ALLREDUCE));

    /* Each collective by itself. */
    RANKS_EXPECT(make(&gather, input.of[odd], output.of[odd], comm) == TUTTI_OK);
    RANKS_EXPECT(holds(comm, COLLECTIVE_GATHER));
    RANKS_EXPECT(make(&sum, input.of[mapped], output.of[mapped], comm) == TUTTI_OK);
    RANKS_EXPECT(holds(comm, COLLECTIVE_REDUCE) && holds(comm, COLLECTIVE_ALLREDUCE));
    RANKS_EXPECT(!holds(comm, COLLECTIVE_GATHER));

    /* A rank that has no buffer speaks against nothing; started calls say nothing. */
    int32_t *const no_output = rank == reduce.root ? output.of[mapped] : NULL;
    RANKS_EXPECT(make(&reduce, input.of[mapped], no_output, comm) == TUTTI_OK);
    const struct step started = {.collective = COLLECTIVE_REDUCE, .form = STARTED, .count = count};
    RANKS_EXPECT(make(&started, input.of[0], output.of[0], comm) == TUTTI_OK);
    RANKS_EXPECT(make(&barrier, NULL, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(holds(comm, COLLECTIVE_REDUCE));

    /* Private memory of one rank is enough to end it. */
    RANKS_EXPECT(make(&reduce, input.of[odd], output.of[odd], comm) == TUTTI_OK);
    RANKS_EXPECT(holds(comm, COLLECTIVE_REDUCE));
    RANKS_EXPECT(make(&barrier, NULL, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(!holds(comm, COLLECTIVE_REDUCE) && holds(comm, COLLECTIVE_ALLREDUCE));
    memory_give_back(&input);
    memory_give_back(&output);
    return 0;
}

static void calls_choose_by_what_all_told(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        const struct ranks_options options = {.kind = (enum ranks_kind)kind};
        assert_int_equal(ranks_run(3, &options, what_holds_follows_what_all_told, NULL), 0);
    }
}

/* -------------------------------------------------------------------------------------- threads */

/* They reach all of each other's memory, so calls of any form count on it, and from the first one
 * on. */
static int any_memory_counts_as_mapped(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                       void *context)
{
    const bool is_reached = *(const bool *)context;
    const struct choices *const choices = &comm->health.choices;
    struct memory input, output;
    struct choice_note note;
    (void)rank, (void)size, (void)seed;
    RANKS_EXPECT(all_memory_is_reached(comm) == is_reached);
    RANKS_EXPECT(memory_take(&input, LARGE) && memory_take(&output, LARGE));
    memset(input.of[0], 0, LARGE * sizeof(int32_t));
    for (int form = BLOCKING; form <= GROUPED; form++) {
        /* Forms share choices, hence the counts. */
        const struct step step = {
            .collective = COLLECTIVE_ALLREDUCE, .form = form, .count = LARGE - (size_t)form};
        RANKS_EXPECT(make(&step, input.of[0], output.of[0], comm) == TUTTI_OK);
        RANKS_EXPECT(choices_read(choices, choices_latest(choices), &note));
        RANKS_EXPECT(note.count == step.count && note.is_mapped == is_reached);
    }
    memory_give_back(&input);
    memory_give_back(&output);
    return 0;
}

static void threads_choose_as_for_mapped_memory(void **state)
{
    (void)state;
    bool is_reached = true;
    const struct ranks_options options = {.kind = RANKS_THREADS};
    assert_int_equal(ranks_run(3, &options, any_memory_counts_as_mapped, &is_reached), 0);
    is_reached = false; /* comparing messages takes copies */
    setenv("TUTTI_INTEGRITY", "on", 1);
    const int failed = ranks_run(3, &options, any_memory_counts_as_mapped, &is_reached);
    unsetenv("TUTTI_INTEGRITY");
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_choose_alike_whatever_memory_they_have),
        cmocka_unit_test(calls_choose_by_what_all_told),
        cmocka_unit_test(threads_choose_as_for_mapped_memory),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
