/* One rank's library makes another plan under the same name: all ranks are told, and nobody
 * exchanges wrong data.
 *
 * ctest: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "tests/worlds/ranks.h"

enum { RANKS_MAX = 17 };

/* ------------------------------------------------------------------------------ another library */

static algo_generate *usual, *another;
static _Thread_local bool is_other; /* the rank that runs here has another library */

static void generate(const struct algo_params *params, int rank, struct plan_builder *builder)
{
    (is_other ? another : usual)(params, rank, builder);
}

/* The list of algorithms is constant; its memory is not for as long as this takes. */
static int replace_generator(void **state)
{
    (void)state;
    struct algorithm *const ring = (struct algorithm *)algo_find(COLLECTIVE_ALLREDUCE, "ring");
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)&ring->generate / page * page,
                    end = (uintptr_t)(&ring->generate + 1);
    if (mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) != 0) return 1;
    usual = ring->generate;
    another = algo_find(COLLECTIVE_ALLREDUCE, "twoshot")->generate;
    memcpy(&ring->generate, &(algo_generate *){generate}, sizeof ring->generate);
    return 0;
}

/* ------------------------------------------------------------------------------------ the calls */

struct job {
    int other; /* the rank with the other library; -1: nobody */
    bool is_started;
};

static enum tutti_status add(const struct job *job, const float *in, float *out, size_t count,
                             struct tutti_comm *comm)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "ring";
    if (!job->is_started)
        return tutti_allreduce_with(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, &options, comm);
    struct tutti_request *request = NULL;
    const enum tutti_status status =
        tutti_allreduce_start(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, &options, comm, &request);
    return status == TUTTI_OK ? tutti_wait(&request) : status;
}

enum { COUNT = 1000 };

static int reduce(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct job *job = context;
    float in[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++) in[i] = (float)(i + rank);
    is_other = rank == job->other;
    enum tutti_status status = add(job, in, out, COUNT, comm);
    if (job->other < 0) {
        RANKS_EXPECT(status == TUTTI_OK);
        for (int i = 0; i < COUNT; i++)
            RANKS_EXPECT(out[i] == (float)(i * size + size * (size - 1) / 2));
        return 0;
    }
    if (status == TUTTI_OK) status = tutti_barrier(comm); /* through with it before it showed */
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(status == TUTTI_MISMATCH);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT((failure.culprit == job->other) != (failure.reporter == job->other));
    RANKS_EXPECT(strstr(failure.message, "count 1000") != NULL);
    RANKS_EXPECT(strstr(failure.message, "another algorithm (or plan of it)") != NULL);
    return 0;
}

static void run(int size, enum ranks_kind kind)
{
    for (int variant = 0; variant < 4; variant++) {
        struct job job = {.other = variant % 2 == 0 ? -1 : size - 1, .is_started = variant / 2 == 1};
        const struct ranks_options options = {.kind = kind, .deadline_ms = 20000};
        assert_int_equal(ranks_run(size, &options, reduce, &job), 0);
    }
}

static void two_ranks_with_other_plans_are_told(void **state)
{
    (void)state;
    run(2, RANKS_DEFAULT);
    if (!ranks_repeat(RANKS_THREADS)) run(2, RANKS_THREADS);
}

static void one_of_three_ranks_is_told(void **state)
{
    (void)state;
    run(3, RANKS_DEFAULT);
}

/* Where there are too many ranks to make the whole plan, small ones show it. */
static void one_of_many_ranks_is_told(void **state)
{
    (void)state;
    run(RANKS_MAX, RANKS_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_with_other_plans_are_told),
        cmocka_unit_test(one_of_three_ranks_is_told),
        cmocka_unit_test(one_of_many_ranks_is_told),
    };
    return cmocka_run_group_tests(tests, replace_generator, NULL);
}
