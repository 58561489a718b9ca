/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Allreduces whose links are encoded, on all links and between hosts: every rank has the same bits,
 * near the sum or exactly the sum; two ways of rounding that are wrong are found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "base/status.h"
#include "encoding/encoding.h"
#include "engine/program_links.h"
#include "engine/run.h"
#include "tests/worlds/engine_net.h"
#include "tests/worlds/host_map.h"

enum { COUNT_MAX = 10000, GAP = 3, PATIENCE = 20, LOOKS_MAX = 20000000 };

struct job {
    const struct algorithm *algorithm;
    int size;
    size_t count;
    enum tutti_encoding encoding;
    const int *places;
    const struct algo_levels *levels; /* or NULL */
    rounding_rule *rounding;          /* or NULL */
    bool in_place, is_cut, is_exact;
    enum op op;
};

struct rank {
    float *memory; /* of input and output, with gaps */
    struct segment_of_buffer *segments[2];
    struct buffer input, output;
    struct program *program;
    struct operation operation;
    bool done;
};

static float value_of(const struct job *job, int rank, size_t i)
{
    if (job->is_exact) return (float)((i * 7 + (size_t)rank * 3) % 9); /* sums are below 128 */
    uint64_t mixed = (i * 131 + (uint64_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (float)(int64_t)(mixed >> 40) / (float)(1 << 23) - 1;
}

/* -------------------------------------------------------------------------------------- buffers */

enum { CUT = 37, SEGMENTS_MAX = COUNT_MAX / CUT + 1 };

/* Lays a buffer out in memory for 2 * COUNT_MAX elements: in one piece, or in many with gaps. */
static struct buffer lay(const struct job *job, float *memory, struct segment_of_buffer *segments)
{
    if (!job->is_cut) return (struct buffer){.base = (char *)memory};
    struct buffer buffer = {.segments = segments};
    for (size_t begin = 0; begin < job->count; begin += CUT) {
        const size_t end = begin + CUT < job->count ? begin + CUT : job->count;
        segments[buffer.segment_count++] =
            (struct segment_of_buffer){.begin = begin * sizeof(float),
                                       .end = end * sizeof(float),
                                       .address = (char *)(memory + begin + begin / CUT * GAP)};
    }
    return buffer;
}

static float *element(const struct job *job, float *memory, size_t i)
{
    return memory + i + (job->is_cut ? i / CUT * GAP : 0);
}

static float *output_of(const struct job *job, const struct rank *own)
{
    return job->in_place ? own->memory : own->memory + 2 * COUNT_MAX;
}

static void make_buffers(const struct job *job, int rank, struct rank *own)
{
    own->memory = malloc(4 * COUNT_MAX * sizeof *own->memory);
    assert_non_null(own->memory);
    for (size_t i = 0; i < 4 * (size_t)COUNT_MAX; i++) own->memory[i] = -12345;
    for (int b = 0; b < 2; b++) {
        own->segments[b] = calloc(SEGMENTS_MAX, sizeof *own->segments[b]);
        assert_non_null(own->segments[b]);
    }
    own->input = lay(job, own->memory, own->segments[0]);
    own->output = lay(job, output_of(job, own), own->segments[1]);
    for (size_t i = 0; i < job->count; i++) *element(job, own->memory, i) = value_of(job, rank, i);
}

/* -------------------------------------------------------------------------------------- running */

static void bind(const struct job *job, struct engine_net *net, int rank, struct rank *own)
{
    const struct algo_params params = {.collective = COLLECTIVE_ALLREDUCE,
                                       .rank_count = job->size,
                                       .in_place = job->in_place,
                                       .levels = job->levels};
    const struct kernel_set kernels = encoding_kernels(KERNEL_SCALAR, TUTTI_FLOAT32);
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s: %s", job->algorithm->name, message);
    struct bind_options options = {.count = job->count,
                                   .dtype = TUTTI_FLOAT32,
                                   .op = op_builtin(job->op),
                                   .level = KERNEL_SCALAR,
                                   .in_place = job->in_place,
                                   .encoding = encoding_of(job->encoding, TUTTI_FLOAT32),
                                   .places = job->places,
                                   .rounding = job->rounding,
                                   .encoding_kernels = &kernels};
    struct transport *transport = engine_net_transport(net, rank);
    bind_to_transport(&options, transport);
    if (bind_program(plan, &options, &own->program) != TUTTI_OK)
        fail_msg("%s, %d ranks, %zu: %s", job->algorithm->name, job->size, job->count,
                 tutti_error_message());
    plan_rank_free(plan);
    assert_int_equal(program_open_links(own->program, transport, 0), TUTTI_OK);
}

static void run_all(const struct job *job, struct engine_net *net, struct rank *ranks)
{
    int left = job->size;
    for (int looks = 0; left > 0; looks++) {
        struct rank *own = &ranks[engine_net_draw(net) % (uint64_t)job->size];
        if (looks == LOOKS_MAX) fail_msg("%s: stuck", job->algorithm->name);
        if (own->done) continue;
        own->operation.must_not_spin = engine_net_draw(net) % 8 == 0;
        const enum run_result result = operation_run(&own->operation);
        if (result == RUN_FAULT) fail_msg("%s: a message made no sense", job->algorithm->name);
        if (result != RUN_DONE) continue;
        own->done = true;
        left--;
    }
}

/* Of a rounding, relative to the largest sum of a unit. */
static double error_of(enum tutti_encoding encoding)
{
    switch (encoding) {
    case TUTTI_ENCODING_FLOAT16: return 0x1p-10;
    case TUTTI_ENCODING_BFLOAT16: return 0x1p-8;
    case TUTTI_ENCODING_INT8:
    case TUTTI_ENCODING_MXINT8: return 1.0 / 64;
    default: return 0.25;
    }
}

static void expect_near(const struct job *job, size_t i, float result)
{
    double sum = 0;
    for (int r = 0; r < job->size; r++) sum += value_of(job, r, i);
    const double largest = job->size * 1.0;
    const double allowed = job->is_exact ? 0 : largest * (job->size + 1) * error_of(job->encoding);
    if (job->op == OP_AVG) sum /= job->size;
    if (fabs(sum - (double)result) > allowed)
        fail_msg("%s, %d ranks, %zu elements, %s: element %zu is %g, not %g", job->algorithm->name,
                 job->size, job->count, tutti_encoding_name(job->encoding), i, (double)result, sum);
}

/* Whether all ranks have the same bits. */
static bool is_alike(const struct job *job, const struct rank *ranks)
{
    for (int r = 1; r < job->size; r++)
        for (size_t i = 0; i < job->count; i++)
            if (memcmp(element(job, output_of(job, &ranks[r]), i),
                       element(job, output_of(job, &ranks[0]), i), sizeof(float)) != 0)
                return false;
    return true;
}

static void expect_gaps_untouched(const struct job *job, const struct rank *own)
{
    for (size_t i = CUT - 1; job->is_cut && i + 1 < job->count; i += CUT)
        for (size_t gap = 1; gap <= GAP; gap++)
            assert_true(element(job, output_of(job, own), i)[gap] == -12345);
}

/* Returns whether replicas are alike. */
static bool run(const struct job *job, struct engine_mood mood, uint64_t seed)
{
    struct rank ranks[ENGINE_RANKS_MAX] = {0};
    struct engine_net *net = engine_net_create(job->size, mood, seed);
    for (int r = 0; r < job->size; r++) {
        operation_init(&ranks[r].operation, PATIENCE);
        bind(job, net, r, &ranks[r]);
        make_buffers(job, r, &ranks[r]);
        assert_int_equal(operation_prepare(&ranks[r].operation, ranks[r].program,
                                           engine_net_transport(net, r), 0, &ranks[r].input,
                                           &ranks[r].output),
                         TUTTI_OK);
        operation_open(&ranks[r].operation, 1);
    }
    run_all(job, net, ranks);
    const bool alike = is_alike(job, ranks);
    for (int r = 0; r < job->size; r++) {
        for (size_t i = 0; i < job->count; i++)
            expect_near(job, i, *element(job, output_of(job, &ranks[r]), i));
        expect_gaps_untouched(job, &ranks[r]);
        operation_release(&ranks[r].operation);
        program_free(ranks[r].program);
        free(ranks[r].memory);
        for (int b = 0; b < 2; b++) free(ranks[r].segments[b]);
    }
    engine_net_free(net);
    return alike;
}

static void expect_alike(const struct job *job, struct engine_mood mood, uint64_t seed)
{
    if (!run(job, mood, seed))
        fail_msg("%s, %d ranks, %zu elements, %s%s%s, seed %llu: replicas differ",
                 job->algorithm->name, job->size, job->count, tutti_encoding_name(job->encoding),
                 job->in_place ? ", in place" : "", job->is_cut ? ", cut" : "",
                 (unsigned long long)seed);
}

/* ---------------------------------------------------------------------------------------- tests */

static const size_t counts[] = {1, 129, 1000, 3001, 9001};
enum { COUNTS = sizeof counts / sizeof *counts };

static struct engine_mood mood_of(uint64_t seed)
{
    static const enum link_reach reaches[] = {REACH_NONE, REACH_READ, REACH_COPY};
    return (struct engine_mood){.piece_bytes = seed % 2 == 0 ? 8192 : 16384,
                                .pieces = 1 + (unsigned)(seed % 4),
                                .delay = 1 + (unsigned)(seed % 3),
                                .reach = reaches[seed % 3],
                                .expects = seed % 5 == 0,
                                .shares = seed % 7 < 3 ? 0 : 1 + (unsigned)(seed % 3)};
}

static bool has_owners(const struct algorithm *algorithm)
{
    return algorithm->collective == COLLECTIVE_ALLREDUCE && algorithm->has_owners;
}

/* One rank may decode what the next one encodes, but units of several elements are for plans that
 * send to owners. */
static bool takes(const struct algorithm *algorithm, enum tutti_encoding encoding)
{
    return has_owners(algorithm) &&
           (encoding_unit_elements(encoding) == 1 || algorithm->sends_to_owners);
}

static void replicas_are_alike_with_all_links_encoded(void **state)
{
    (void)state;
    static const int places[ENGINE_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint64_t seed = 0;
    for (int a = 0; a < algo_count; a++)
        for (int e = 1; e < ENCODING_COUNT; e++)
            for (int size = 2; size <= ENGINE_RANKS_MAX; size += 1 + (int)(seed % 2)) {
                const struct algorithm *algorithm = &algo_list[a];
                const enum tutti_encoding encoding = (enum tutti_encoding)e;
                seed++;
                if (!takes(algorithm, encoding) || algorithm->needs_levels ||
                    !algo_supports(algorithm, size))
                    continue;
                const struct job job = {.algorithm = algorithm,
                                        .size = size,
                                        .count = counts[seed % COUNTS],
                                        .encoding = encoding,
                                        .places = places,
                                        .in_place = seed % 3 == 0,
                                        .is_cut = seed % 4 == 0,
                                        .op = seed % 5 == 0 ? OP_AVG : OP_SUM};
                expect_alike(&job, mood_of(seed), seed);
            }
}

static const struct host_shape shapes[] = {
    {.hosts = {1, 1}},
    {.hosts = {2, 2}},
    {.hosts = {2, 1, 3}},
    {.hosts = {4, 4}},
    {.hosts = {3, 2, 3}},
    {.hosts = {2, 2, 2, 2}},
    {.hosts = {1, 1, 1, 1}},
    {.hosts = {2, 2, 2, 2}, .racks = {2, 2}},
    {.hosts = {1, 2, 2, 1, 2}, .racks = {2, 3}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Between hosts, or between racks where there are any and `by_rack`. */
static void run_on_hosts(bool is_exact, enum tutti_encoding encoding, uint64_t seed)
{
    for (int a = 0; a < algo_count; a++)
        for (int s = 0; s < SHAPES; s++) {
            struct host_map map;
            seed++;
            host_map_init(&map, &shapes[s], (enum numbering)(seed % NUMBERING_COUNT), (uint32_t)s);
            const bool by_rack = map.levels.level_count > 1 && seed % 2 == 0;
            const struct algorithm *algorithm = &algo_list[a];
            if (!takes(algorithm, encoding) || !algo_supports_levels(algorithm, map.rank_count))
                continue;
            const struct job job = {.algorithm = algorithm,
                                    .size = map.rank_count,
                                    .count = counts[seed % COUNTS],
                                    .encoding = encoding,
                                    .places = by_rack ? map.rack_of : map.host_of,
                                    .levels = &map.levels,
                                    .in_place = seed % 3 == 0,
                                    .is_cut = seed % 4 == 0,
                                    .is_exact = is_exact,
                                    .op = OP_SUM};
            struct engine_mood mood = mood_of(seed);
            mood.host_of = map.host_of;
            expect_alike(&job, mood, seed);
        }
}

static void replicas_are_alike_with_links_between_hosts_encoded(void **state)
{
    (void)state;
    for (int e = 1; e < ENCODING_COUNT; e++)
        run_on_hosts(false, (enum tutti_encoding)e, (uint64_t)e * 1000);
}

static void numbers_that_an_encoding_has_are_summed_exactly(void **state)
{
    (void)state;
    run_on_hosts(true, TUTTI_ENCODING_BFLOAT16, 5000);
    run_on_hosts(true, TUTTI_ENCODING_FLOAT16, 6000);
}

/* --------------------------------------------------------------------------------- planted bugs */

static bool never(const struct rank_plan *rank_plan, uint32_t step, const int *places, bool in_place)
{
    (void)rank_plan, (void)step, (void)places, (void)in_place;
    return false;
}

static bool for_encoded_links(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                              bool in_place)
{
    (void)in_place;
    const struct plan_step *const at = &rank_plan->steps[step];
    bool any = false;
    for (uint32_t i = 0; i < at->target_count; i++)
        any |= rounding_on_link(places, rank_plan->rank, rank_plan->targets[at->first_target + i]);
    return at->final && any;
}

static void an_owner_that_keeps_its_result_unrounded_is_found(void **state)
{
    (void)state;
    static const int places[ENGINE_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int a = 0; a < algo_count; a++) {
        const struct algorithm *algorithm = &algo_list[a];
        if (!has_owners(algorithm) || algorithm->needs_levels || !algo_supports(algorithm, 5))
            continue;
        struct job job = {.algorithm = algorithm,
                          .size = 5,
                          .count = 1000,
                          .encoding = TUTTI_ENCODING_BFLOAT16,
                          .places = places,
                          .op = OP_SUM};
        assert_true(run(&job, mood_of(1), 1));
        job.rounding = never;
        assert_false(run(&job, mood_of(1), 1));
    }
}

static void a_host_of_an_owner_that_keeps_its_result_unrounded_is_found(void **state)
{
    (void)state;
    static const struct host_shape shape = {.hosts = {3, 3}};
    struct host_map map;
    int found = 0;
    host_map_init(&map, &shape, CONTIGUOUS, 1);
    for (int a = 0; a < algo_count; a++) {
        if (!has_owners(&algo_list[a]) || !algo_supports_levels(&algo_list[a], map.rank_count))
            continue;
        const struct job job = {.algorithm = &algo_list[a],
                                .size = map.rank_count,
                                .count = 1000,
                                .encoding = TUTTI_ENCODING_BFLOAT16,
                                .places = map.host_of,
                                .levels = &map.levels,
                                .rounding = for_encoded_links,
                                .op = OP_SUM};
        struct engine_mood mood = mood_of(2);
        mood.host_of = map.host_of;
        found += !run(&job, mood, 2);
    }
    assert_true(found >= 1);
}

/* ------------------------------------------------------------------------------------- refusals */

/* Kernels that finish later would still read the room through which a cut unit goes. */
static void no_executor_gets_units_in_two_segments(void **state)
{
    (void)state;
    static const int places[2] = {0, 1};
    const struct job job = {.algorithm = algo_find(COLLECTIVE_ALLREDUCE, "twoshot"),
                            .size = 2,
                            .count = 1000,
                            .encoding = TUTTI_ENCODING_INT8,
                            .places = places,
                            .is_cut = true,
                            .op = OP_SUM};
    struct rank own = {0};
    struct engine_net *net = engine_net_create(2, mood_of(1), 1);
    operation_init(&own.operation, PATIENCE);
    bind(&job, net, 0, &own);
    own.program->has_executor = true;
    make_buffers(&job, 0, &own);
    assert_int_equal(operation_prepare(&own.operation, own.program, engine_net_transport(net, 0), 0,
                                       &own.input, &own.output),
                     TUTTI_UNSUPPORTED);
    operation_release(&own.operation);
    program_free(own.program);
    free(own.memory);
    for (int b = 0; b < 2; b++) free(own.segments[b]);
    engine_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_alike_with_all_links_encoded),
        cmocka_unit_test(replicas_are_alike_with_links_between_hosts_encoded),
        cmocka_unit_test(numbers_that_an_encoding_has_are_summed_exactly),
        cmocka_unit_test(an_owner_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(a_host_of_an_owner_that_keeps_its_result_unrounded_is_found),
        cmocka_unit_test(no_executor_gets_units_in_two_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
