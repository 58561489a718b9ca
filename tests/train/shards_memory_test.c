/* What shards in mixed precision keep is what the formulas of ZeRO say, to the byte; and what they
 * say of themselves is what they have from the system: from malloc, whose calls are counted here,
 * and from tutti_mem_alloc.
 *
 * ctest: label=nosan
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/patient.h"
#include "tutti/train/shards.h"

enum { LAYERS = 8, AHEAD = 1, RANKS_MAX = 4, STAGES = 4 };

/* ------------------------------------------------------------------------- what the system gave */

static _Atomic size_t private_bytes;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_reallocarray(void *memory, size_t count, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static void *counted(void *memory)
{
    private_bytes += malloc_usable_size(memory);
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return counted(__real_calloc(count, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return counted(__real_aligned_alloc(alignment, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    private_bytes -= malloc_usable_size(memory);
    return counted(__real_realloc(memory, bytes));
}

void *__wrap_reallocarray(void *memory, size_t count, size_t bytes)
{
    private_bytes -= malloc_usable_size(memory);
    return counted(__real_reallocarray(memory, count, bytes));
}

char *__wrap_strdup(const char *text)
{
    return counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    private_bytes -= malloc_usable_size(memory);
    __real_free(memory);
}

/* Of tutti_mem_alloc: whole pages. */
enum { PIECES_MAX = 64 };
static struct piece {
    void *memory;
    size_t bytes;
} pieces[PIECES_MAX];
static size_t shared_bytes;

enum tutti_status __real_tutti_mem_alloc(size_t size_bytes, void **memory);
enum tutti_status __real_tutti_mem_free(void *memory);
enum tutti_status __wrap_tutti_mem_alloc(size_t size_bytes, void **memory);
enum tutti_status __wrap_tutti_mem_free(void *memory);

enum tutti_status __wrap_tutti_mem_alloc(size_t size_bytes, void **memory)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_bytes + page - 1) / page * page;
    const enum tutti_status status = __real_tutti_mem_alloc(size_bytes, memory);
    for (int i = 0; i < PIECES_MAX && status == TUTTI_OK; i++) {
        if (pieces[i].memory != NULL) continue;
        pieces[i] = (struct piece){*memory, bytes};
        shared_bytes += bytes;
        return status;
    }
    return status == TUTTI_OK ? TUTTI_NO_SPACE : status;
}

enum tutti_status __wrap_tutti_mem_free(void *memory)
{
    for (int i = 0; i < PIECES_MAX && memory != NULL; i++) {
        if (pieces[i].memory != memory) continue;
        pieces[i].memory = NULL;
        shared_bytes -= pieces[i].bytes;
    }
    return __real_tutti_mem_free(memory);
}

/* Now, without what the communicator has for its calls: that comes and goes on its own. */
static int measure_now(const struct tutti_comm *comm, int rank, size_t *bytes)
{
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    RANKS_EXPECT(tutti_comm_footprint(comm, &footprint) == TUTTI_OK);
    *bytes = private_bytes + shared_bytes - footprint.private_bytes;
    return 0;
}

/* --------------------------------------------------------------------------------------- shards */

static int do_steps(struct tutti_shards *shards, int rank)
{
    void *memory;
    for (int step = 0; step < 2; step++) {
        for (size_t g = 0; g < LAYERS; g++) {
            RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &memory) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
        }
        for (size_t g = LAYERS; g-- > 0;) {
            RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, g, &memory) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_gradient(shards, g, &memory) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_ready(shards, g) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
        }
        RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
    }
    for (size_t g = 0; g < LAYERS; g++) { /* nothing is under way then */
        RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &memory) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
    }
    return 0;
}

/* Times the parameters, in bytes: what each rank of n keeps. */
static double formula(enum tutti_shards_stage stage, double gradient_bytes, double n)
{
    const double state = 12; /* masters and two moments */
    switch (stage) {
    case TUTTI_SHARDS_NONE: return 2 + gradient_bytes + state;
    case TUTTI_SHARDS_OPTIMIZER: return 2 + gradient_bytes + state / n;
    case TUTTI_SHARDS_GRADIENTS: return 2 + (gradient_bytes + state) / n;
    default: return (2 + gradient_bytes + state) / n;
    }
}

static int measure(struct tutti_comm *comm, int rank, int size, enum tutti_shards_stage stage,
                   int wide_gradients)
{
    const size_t n = (size_t)size, count = 16 * n * TUTTI_SHARDS_BLOCK;
    const size_t gradient_bytes = wide_gradients ? 4 : 2;
    struct tutti_shard_group groups[LAYERS];
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
    struct tutti_shards *shards;
    for (int i = 0; i < LAYERS; i++) groups[i] = (struct tutti_shard_group){count, 0};
    options.stage = stage;
    options.dtype = TUTTI_BFLOAT16;
    options.ahead = AHEAD;
    options.wide_gradients = wide_gradients;
    options.loss_scale = 1;

    size_t before, after;
    if (measure_now(comm, rank, &before) != 0) return 1;
    RANKS_EXPECT(tutti_shards_create(groups, LAYERS, &options, comm, &shards) == TUTTI_OK);
    if (do_steps(shards, rank) != 0) return 1;
    if (measure_now(comm, rank, &after) != 0) return 1;
    const size_t measured = after - before;
    RANKS_EXPECT(tutti_shards_count(shards, &counters) == TUTTI_OK);

    const double psi = (double)(LAYERS * count);
    RANKS_EXPECT((double)(counters.parameter_bytes + counters.gradient_bytes + counters.state_bytes) ==
                 psi * formula(stage, (double)gradient_bytes, (double)n));
    const size_t shares = stage == TUTTI_SHARDS_NONE ? 1 : n;
    RANKS_EXPECT(counters.master_bytes == LAYERS * count * 4 / shares);
    RANKS_EXPECT(counters.master_bytes * 3 == counters.state_bytes);
    RANKS_EXPECT(counters.gather_bytes ==
                 (stage == TUTTI_SHARDS_PARAMETERS && size > 1 ? (1 + AHEAD) * count * 2 : 0));
    RANKS_EXPECT(counters.bucket_bytes <= (1 + AHEAD) * count * gradient_bytes);
    RANKS_EXPECT((counters.bucket_bytes > 0) == (stage >= TUTTI_SHARDS_GRADIENTS));
    RANKS_EXPECT(counters.buffer_bytes == counters.gather_bytes + counters.bucket_bytes);

    const size_t told = counters.parameter_bytes + counters.gradient_bytes + counters.state_bytes +
                        counters.buffer_bytes + counters.table_bytes;
    const size_t unexplained = measured > told ? measured - told : told - measured;
    if (getenv("SHOW") != NULL || unexplained * 20 >= measured)
        fprintf(stderr, "stage %d, %d ranks: told %zu bytes, measured %zu\n", (int)stage, size,
                told, measured);
    RANKS_EXPECT(unexplained * 20 < measured);
    return tutti_shards_free(shards) != TUTTI_OK;
}

/* Once before, so that the communicator has what it needs for these calls. */
static int measure_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct tutti_shard_group warm[LAYERS] = {{4096, 0}, {4096, 0}, {4096, 0}, {4096, 0},
                                                   {4096, 0}, {4096, 0}, {4096, 0}, {4096, 0}};
    for (int stage = 0; stage < STAGES; stage++) {
        struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
        struct tutti_shards *shards;
        options.stage = (enum tutti_shards_stage)stage;
        RANKS_EXPECT(tutti_shards_create(warm, LAYERS, &options, comm, &shards) == TUTTI_OK);
        if (do_steps(shards, rank) != 0) return 1;
        RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);
        for (int wide = 0; wide < 2; wide++)
            if (measure(comm, rank, size, (enum tutti_shards_stage)stage, wide) != 0) return 1;
    }
    return 0;
}

static void counters_are_the_formulas_and_what_the_system_gave(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip(); /* they share what is measured */
    for (int size = 1; size <= RANKS_MAX; size += 1 + (size == 2))
        expect_good(size, RANKS_PROCESSES, measure_all, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_the_formulas_and_what_the_system_gave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
