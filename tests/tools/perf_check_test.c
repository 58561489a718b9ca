/* perf_check_test.c - what tutti-perf takes for right is right, and it finds whatever is wrong.
 *
 * The ranks live in one process here: a collective is computed from their send buffers, reductions
 * by the scalar kernels in every rotation of the ranks, then spoilt, then checked. The tool's own
 * conversions are compared with what the formats say, code by code.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/op.h"
#include "kernel/kernel.h"
#include "tools/perf/buffer.c"
#include "tools/perf/dtype.c"
#include "tools/perf/encoded.c"
#include "tools/perf/layout.c"
#include "tools/perf/operation.c"
#include "tools/perf/plot.c"
#include "tools/perf/reduction.c"
#include "tools/perf/value.c"

enum { RANKS = 5, ROOT = 3, COUNT = 37 };

struct world {
    const struct perf_operation *operation;
    struct pattern pattern;
    struct buffers buffers[RANKS];
};

/* Everything but the operation; count 0 means COUNT, and no dtype float32. */
struct setting {
    enum tutti_dtype dtype;
    enum reduction reduction;
    bool in_place;
    size_t count;
    enum skew skew;
    enum displs displs;
    int tensors;
    size_t misalign;
    struct perf_encoded encoded;
};

static void world_init(struct world *world, const char *name, const struct setting *s)
{
    world->operation = operation_find(name);
    assert_non_null(world->operation);
    world->pattern =
        (struct pattern){s->dtype, world->operation->reduces, s->reduction, RANKS, 11, s->encoded};
    const struct buffers_options options = {tutti_dtype_size(s->dtype), s->misalign, false, NULL, 1};
    for (int rank = 0; rank < RANKS; rank++) {
        const struct perf_shape shape = {.rank_count = RANKS,
                                         .rank = rank,
                                         .root = ROOT,
                                         .count = s->count ? s->count : COUNT,
                                         .skew = s->skew,
                                         .displs = s->displs,
                                         .tensors = s->tensors,
                                         .in_place = s->in_place};
        assert_int_equal(buffers_init(&world->buffers[rank], world->operation, &shape, &options),
                         TUTTI_OK);
        buffers_fill(&world->buffers[rank], 0, &world->pattern);
    }
}

static void world_release(struct world *world)
{
    for (int rank = 0; rank < RANKS; rank++) buffers_release(&world->buffers[rank]);
}

static size_t wrong_at(const struct world *world, int rank)
{
    char text[200];
    const size_t wrong = buffers_check(&world->buffers[rank], 0, &world->pattern, text, sizeof text);
    assert_int_equal(wrong > 0, text[0] != '\0');
    return wrong;
}

static size_t wrong_in(const struct world *world)
{
    size_t wrong = 0;
    for (int rank = 0; rank < RANKS; rank++) wrong += wrong_at(world, rank);
    return wrong;
}

static unsigned char *recv_of(const struct world *world, int rank)
{
    struct perf_call call;
    buffers_call(&world->buffers[rank], 0, &call);
    return call.recv;
}

static unsigned char *send_of(const struct world *world, int rank)
{
    struct perf_call call;
    buffers_call(&world->buffers[rank], 0, &call);
    return (unsigned char *)(uintptr_t)call.send;
}

/* ------------------------------------------------------------------------ the plain computation */

/* Over the ranks, starting with `first`: another order of the same reduction, rounded at each
 * step. */
static void allreduce(struct world *world, int first)
{
    const enum reduction reduction = world->pattern.reduction;
    const enum tutti_dtype dtype = world->pattern.dtype;
    const size_t bytes = COUNT * tutti_dtype_size(dtype);
    tutti_op op;
    assert_int_equal(reduction_create(reduction, &op), TUTTI_OK);
    const struct tutti_operation *const operation = op_resolve(op);
    uint64_t total[COUNT];
    memcpy(total, send_of(world, first), bytes);
    for (int k = 1; k < RANKS; k++) {
        const void *const sources[] = {total, send_of(world, (first + k) % RANKS)};
        const struct kernel_call call = {
            .destination = total,
            .sources = sources,
            .source_count = 2,
            .divisor = k == RANKS - 1 && reduction == REDUCTION_AVG ? RANKS : 0,
            .factor = k == RANKS - 1 && reduction == REDUCTION_SCALED ? REDUCTION_FACTOR : 0,
            .count = COUNT,
            .operation = operation,
            .dtype = dtype};
        kernel_get(KERNEL_SCALAR, dtype, operation->kind).reduce(&call);
    }
    tutti_op_free(op);
    for (int rank = 0; rank < RANKS; rank++) memcpy(recv_of(world, rank), total, bytes);
}

/* Copies block `from` of one rank's input to the place of block `to` of another one's output,
 * whatever the layouts: element by element. */
static void move_block(struct world *world, int source, size_t from, int destination, size_t to)
{
    struct buffers *const out = &world->buffers[source], *const in = &world->buffers[destination];
    const size_t size = out->element_bytes;
    size_t places[2][4096], counts[2] = {0, 0};
    const struct perf_layout *const layouts[2] = {&out->layouts[SEND], &in->layouts[RECV]};
    const size_t blocks[2] = {from, to};
    for (int end = 0; end < 2; end++)
        for (size_t p = 0; p < layouts[end]->piece_count; p++)
            for (size_t i = 0; i < layouts[end]->pieces[p].count; i++)
                if (layouts[end]->pieces[p].block == blocks[end])
                    places[end][counts[end]++] = layouts[end]->pieces[p].offset + i;
    assert_int_equal(counts[0], counts[1]);
    for (size_t i = 0; i < counts[0]; i++)
        memcpy(element_at(in, 0, RECV, places[1][i]), element_at(out, 0, SEND, places[0][i]), size);
}

static void alltoall(struct world *world)
{
    for (int to = 0; to < RANKS; to++)
        for (int from = 0; from < RANKS; from++)
            move_block(world, from, (size_t)to, to, (size_t)from);
}

static void gather(struct world *world)
{
    for (int from = 0; from < RANKS; from++) move_block(world, from, 0, ROOT, (size_t)from);
}

static void scatter(struct world *world)
{
    for (int to = 0; to < RANKS; to++) move_block(world, ROOT, (size_t)to, to, 0);
}

/* --------------------------------------------------------------------------------------- dtypes */

static const enum tutti_dtype narrow[] = {TUTTI_BFLOAT16, TUTTI_FLOAT16, TUTTI_FLOAT8_E4M3,
                                          TUTTI_FLOAT8_E5M2};
enum { NARROW = sizeof narrow / sizeof *narrow };

static double decoded(enum tutti_dtype dtype, uint64_t code)
{
    unsigned char element[8];
    word_store(tutti_dtype_size(dtype), code, element);
    return real_load(dtype, element);
}

static uint64_t encoded(enum tutti_dtype dtype, double value)
{
    unsigned char element[8];
    real_store(dtype, value, element);
    return word_load(tutti_dtype_size(dtype), element);
}

static void narrow_floats_are_what_their_formats_say(void **state)
{
    (void)state;
    assert_true(decoded(TUTTI_FLOAT8_E4M3, 0x7e) == 448 && isnan(decoded(TUTTI_FLOAT8_E4M3, 0x7f)));
    assert_true(decoded(TUTTI_FLOAT8_E4M3, 0x01) == 0x1p-9 &&
                decoded(TUTTI_FLOAT8_E4M3, 0x08) == 0x1p-6);
    assert_true(decoded(TUTTI_FLOAT8_E5M2, 0x7b) == 57344 &&
                isinf(decoded(TUTTI_FLOAT8_E5M2, 0x7c)) && isnan(decoded(TUTTI_FLOAT8_E5M2, 0x7d)));
    assert_true(decoded(TUTTI_FLOAT8_E5M2, 0x01) == 0x1p-16);
    assert_true(decoded(TUTTI_FLOAT16, 0x7bff) == 65504 && isinf(decoded(TUTTI_FLOAT16, 0x7c00)));
    assert_true(decoded(TUTTI_FLOAT16, 0x0001) == 0x1p-24 && decoded(TUTTI_FLOAT16, 0x3c00) == 1);
    assert_true(decoded(TUTTI_BFLOAT16, 0x3f80) == 1 && decoded(TUTTI_BFLOAT16, 0xc040) == -3);
}

/* Between any two neighbours: below the middle down, above it up, and in the middle to the even
 * code. */
static void narrow_floats_round_to_nearest_even(void **state)
{
    (void)state;
    for (int d = 0; d < NARROW; d++) {
        const enum tutti_dtype dtype = narrow[d];
        const uint64_t sign = UINT64_C(1) << (8 * tutti_dtype_size(dtype) - 1);
        for (uint64_t code = 0;
             !isnan(decoded(dtype, code + 1)) && !isinf(decoded(dtype, code + 1)); code++) {
            const double low = decoded(dtype, code), high = decoded(dtype, code + 1);
            const double middle = low + (high - low) / 2, hair = (high - low) / 1024;
            assert_true(low < high);
            if (dtype == TUTTI_BFLOAT16 && high < 0x1p-125) continue; /* subnormal in float32 */
            assert_int_equal(encoded(dtype, low), code);
            assert_int_equal(encoded(dtype, middle - hair), code);
            assert_int_equal(encoded(dtype, middle), code + (code & 1));
            assert_int_equal(encoded(dtype, middle + hair), code + 1);
            assert_int_equal(encoded(dtype, -high), (code + 1) | sign);
        }
    }
}

static void exact_ranges_are_exact(void **state)
{
    (void)state;
    for (int d = 0; d < NARROW; d++) {
        const uint64_t max = number_exact_max(narrow[d]);
        for (uint64_t i = 0; i <= max; i++)
            assert_true(decoded(narrow[d], encoded(narrow[d], (double)i)) == (double)i);
        assert_true(decoded(narrow[d], encoded(narrow[d], (double)(max + 1))) != (double)(max + 1));
        const double power = ldexp(1, number_exponent_max(narrow[d]));
        assert_true(decoded(narrow[d], encoded(narrow[d], power)) == power);
        assert_true(decoded(narrow[d], encoded(narrow[d], 1 / power)) == 1 / power);
    }
}

/* ----------------------------------------------------------------------------------- reductions */

static void right_reductions_pass_in_any_order(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int r = 0; r < REDUCTION_COUNT; r++)
            for (int first = 0; first < RANKS; first++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    const struct setting setting = {.dtype = (enum tutti_dtype)dtype,
                                                    .reduction = (enum reduction)r,
                                                    .in_place = in_place};
                    if (!reduction_supports(setting.reduction, setting.dtype)) continue;
                    struct world world;
                    world_init(&world, "allreduce", &setting);
                    allreduce(&world, first);
                    if (r == REDUCTION_USER && first > 0)
                        assert_true(wrong_in(&world) > 0);
                    else
                        assert_int_equal(wrong_in(&world), 0);
                    world_release(&world);
                }
}

/* A rank's input replaced by another's counts as missing and doubled at once. */
static void a_missing_contribution_is_found(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int r = 0; r < REDUCTION_COUNT; r++) {
            const struct setting setting = {.dtype = (enum tutti_dtype)dtype,
                                            .reduction = (enum reduction)r};
            if (!reduction_supports(setting.reduction, setting.dtype)) continue;
            struct world world;
            world_init(&world, "allreduce", &setting);
            memcpy(send_of(&world, 1), send_of(&world, 4), COUNT * tutti_dtype_size(setting.dtype));
            allreduce(&world, 0);
            assert_true(wrong_at(&world, 0) > 0);
            world_release(&world);
        }
}

static void sums_stay_exact_with_more_ranks_than_integers(void **state)
{
    (void)state;
    for (int d = 0; d < NARROW; d++) {
        const struct pattern pattern = {.dtype = narrow[d],
                                        .reduces = true,
                                        .reduction = REDUCTION_SUM,
                                        .rank_count = 1000,
                                        .salt = 5};
        const size_t bytes = tutti_dtype_size(narrow[d]);
        unsigned char result[COUNT * ELEMENT_BYTES_MAX], value[ELEMENT_BYTES_MAX];
        bool varies_here = false;
        value_reduced(&pattern, 0, COUNT, result);
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t total = 0;
            for (int rank = 0; rank < pattern.rank_count; rank++) {
                value_inputs(&pattern, rank, i, 1, value);
                total = encoded(narrow[d], decoded(narrow[d], total) + real_load(narrow[d], value));
            }
            assert_int_equal(total, word_load(bytes, result + i * bytes));
            varies_here |= memcmp(result, result + i * bytes, bytes) != 0;
        }
        assert_true(varies_here);
    }
}

static void users_functions_are_associative(void **state)
{
    (void)state;
    for (int bits = 8; bits <= 64; bits *= 2)
        for (uint64_t i = 0; i < 1000; i++) {
            const uint64_t a = hash(1, bits, i), b = hash(2, bits, i), c = hash(3, bits, i);
            assert_int_equal(reduction_compose(bits, reduction_compose(bits, a, b), c),
                             reduction_compose(bits, a, reduction_compose(bits, b, c)));
        }
}

/* ----------------------------------------------------------------------------- blocks and lists */

static const struct setting layouts_to_try[] = {
    {.dtype = TUTTI_INT32, .skew = SKEW_LINEAR, .displs = DISPLS_PACKED},
    {.dtype = TUTTI_FLOAT8_E4M3, .skew = SKEW_RANDOM, .displs = DISPLS_GAPS, .misalign = 3},
    {.dtype = TUTTI_UINT64, .skew = SKEW_ZERO_SOME, .displs = DISPLS_REVERSED, .misalign = 1},
    {.dtype = TUTTI_INT16, .skew = SKEW_ONE, .displs = DISPLS_GAPS},
    {.dtype = TUTTI_FLOAT64, .skew = SKEW_RANDOM, .displs = DISPLS_NULL},
};
static const struct setting lists_to_try[] = {
    {.dtype = TUTTI_INT32, .tensors = 1},
    {.dtype = TUTTI_FLOAT16, .tensors = TENSORS_MIXED, .misalign = 5},
    {.dtype = TUTTI_UINT8, .tensors = 300},
    {.dtype = TUTTI_INT64, .tensors = 4, .count = 1},
};

/* In place the result overwrites inputs that later moves would read, so it is computed out of place
 * first. */
static void moves_are_right(const char *name, void (*move)(struct world *world),
                            const struct setting *settings, size_t setting_count)
{
    for (size_t s = 0; s < setting_count; s++) {
        struct world world;
        world_init(&world, name, &settings[s]);
        assert_true(wrong_in(&world) > 0);
        move(&world);
        assert_int_equal(wrong_in(&world), 0);
        world_release(&world);
    }
}

static void blocks_of_different_counts_pass_wherever_they_lie(void **state)
{
    (void)state;
    const size_t count = sizeof layouts_to_try / sizeof *layouts_to_try;
    moves_are_right("alltoallv", alltoall, layouts_to_try, count);
    moves_are_right("gatherv", gather, layouts_to_try, count);
    moves_are_right("scatterv", scatter, layouts_to_try, count);
}

static void lists_pass_however_they_are_cut(void **state)
{
    (void)state;
    const size_t count = sizeof lists_to_try / sizeof *lists_to_try;
    moves_are_right("alltoall", alltoall, lists_to_try, count);
    moves_are_right("gather", gather, lists_to_try, count);
    moves_are_right("scatter", scatter, lists_to_try, count);
}

/* In place, the list of the smaller buffer is the same memory as its block of the larger one. */
static void lists_in_place_share_their_memory(void **state)
{
    (void)state;
    struct world world;
    const struct setting setting = {.dtype = TUTTI_INT32, .tensors = TENSORS_MIXED, .in_place = true};
    world_init(&world, "gather", &setting);
    const struct buffers *const root = &world.buffers[ROOT];
    const struct perf_layout *const send = &root->layouts[SEND], *const recv = &root->layouts[RECV];
    size_t shared = 0;
    for (size_t i = 0; i < recv->piece_count; i++)
        if (recv->pieces[i].block == ROOT) {
            assert_true(shared < send->extent_count);
            assert_int_equal(send->extents[shared].offset, recv->pieces[i].offset);
            assert_int_equal(send->extents[shared++].count, recv->pieces[i].count);
        }
    assert_int_equal(shared, send->extent_count);
    for (int from = 0; from < RANKS; from++)
        if (from != ROOT) move_block(&world, from, 0, ROOT, (size_t)from);
    assert_int_equal(wrong_in(&world), 0);
    world_release(&world);
}

static void skewed_counts_agree_at_both_ends(void **state)
{
    (void)state;
    const struct perf_operation *const operation = operation_find("alltoallv");
    for (int skew = SKEW_NONE; skew <= SKEW_ONE; skew++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int from = 0; from < RANKS; from++)
                for (int to = 0; to < RANKS; to++) {
                    struct perf_shape shape = {
                        .rank_count = RANKS, .count = COUNT, .in_place = in_place};
                    shape.skew = (enum skew)skew;
                    shape.rank = from;
                    const size_t sent = operation_count_of(operation, &shape, SEND, (size_t)to);
                    const size_t got_back = operation_count_of(operation, &shape, RECV, (size_t)to);
                    shape.rank = to;
                    assert_int_equal(operation_count_of(operation, &shape, RECV, (size_t)from),
                                     sent);
                    if (in_place) assert_int_equal(sent, got_back);
                }
}

/* -------------------------------------------------------------------------------- what is found */

static void every_untouched_output_is_wrong(void **state)
{
    (void)state;
    static const struct setting plain = {.dtype = TUTTI_BFLOAT16}, bytes = {.dtype = TUTTI_UINT8};
    for (int i = 0; i < operation_count; i++) {
        const struct perf_operation *const operation = &operation_list[i];
        if (operation_is_message(operation)) continue;
        struct world world;
        world_init(&world, operation->name, operation->reduces ? &plain : &bytes);
        for (int rank = 0; rank < RANKS; rank++)
            assert_int_equal(wrong_at(&world, rank),
                             operation->block_count[RECV](&world.buffers[rank].shape) * COUNT);
        world_release(&world);
    }
}

static void one_wrong_bit_is_one_wrong_element(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "allreduce", &(struct setting){.dtype = TUTTI_FLOAT32});
    allreduce(&world, 0);
    recv_of(&world, 2)[COUNT * sizeof(float) - 1] ^= 1;
    assert_int_equal(wrong_at(&world, 2), 1);
    assert_int_equal(wrong_in(&world), 1);
    world_release(&world);
}

static void swapped_blocks_are_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "alltoall", &(struct setting){.dtype = TUTTI_BFLOAT16});
    alltoall(&world);
    assert_int_equal(wrong_in(&world), 0);
    const size_t bytes = COUNT * sizeof(uint16_t);
    unsigned char kept[COUNT * sizeof(uint16_t)], *const recv = recv_of(&world, 0);
    memcpy(kept, recv, bytes);
    memcpy(recv, recv + bytes, bytes);
    memcpy(recv + bytes, kept, bytes);
    assert_true(wrong_in(&world) > COUNT);
    world_release(&world);
}

static void writing_to_the_input_is_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "alltoall", &(struct setting){.dtype = TUTTI_INT64});
    alltoall(&world);
    send_of(&world, 1)[0] ^= 1;
    assert_int_equal(wrong_in(&world), 1);
    world_release(&world);
}

static void writing_to_the_input_beside_an_output_in_place_is_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "scatter", &(struct setting){.dtype = TUTTI_INT32, .in_place = true});
    const size_t bytes = COUNT * sizeof(int32_t);
    assert_ptr_equal(recv_of(&world, ROOT), send_of(&world, ROOT) + ROOT * bytes);
    value_inputs(&world.pattern, ROOT, (size_t)ROOT * COUNT, COUNT, recv_of(&world, ROOT));
    assert_int_equal(wrong_at(&world, ROOT), 0);
    recv_of(&world, ROOT)[-1] ^= 1;
    recv_of(&world, ROOT)[bytes] ^= 1;
    assert_int_equal(wrong_at(&world, ROOT), 2);
    world_release(&world);
}

static void writing_past_either_end_is_found(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct world world;
        const struct setting setting = {
            .dtype = TUTTI_FLOAT64, .reduction = REDUCTION_MAX, .in_place = in_place, .misalign = 1};
        world_init(&world, "allreduce", &setting);
        allreduce(&world, 0);
        assert_int_equal(wrong_in(&world), 0);
        recv_of(&world, 3)[COUNT * sizeof(double)] = 0;
        assert_int_equal(wrong_at(&world, 3), 1);
        recv_of(&world, 3)[-1] = 0;
        assert_int_equal(wrong_at(&world, 3), 2);
        world_release(&world);
    }
}

static void writing_into_gaps_is_found(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.dtype = TUTTI_INT32, .skew = SKEW_RANDOM, .displs = DISPLS_GAPS},
        {.dtype = TUTTI_INT32, .skew = SKEW_LINEAR, .displs = DISPLS_REVERSED},
        {.dtype = TUTTI_INT32, .tensors = 7}};
    for (int s = 0; s < 3; s++) {
        struct world world;
        world_init(&world, settings[s].tensors ? "alltoall" : "alltoallv", &settings[s]);
        alltoall(&world);
        assert_int_equal(wrong_in(&world), 0);
        const struct perf_layout *const layout = &world.buffers[1].layouts[RECV];
        size_t end = 0, spoilt = 0; /* every place that no block or tensor covers */
        for (size_t place = 0; place < layout->span; place++) {
            bool covered = false;
            for (size_t i = 0; i < layout->piece_count; i++) {
                const struct layout_piece *const piece = &layout->pieces[i];
                covered |= place >= piece->offset && place - piece->offset < piece->count;
                if (piece->offset + piece->count > end) end = piece->offset + piece->count;
            }
            if (covered) continue;
            element_at(&world.buffers[1], 0, RECV, place)[3] ^= 1;
            spoilt++;
        }
        assert_true(spoilt > 0);
        assert_int_equal(wrong_at(&world, 1), spoilt);
        world_release(&world);
    }
}

static void stale_results_are_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "allreduce", &(struct setting){.dtype = TUTTI_FLOAT32});
    allreduce(&world, 0);
    world.pattern.salt++;
    for (int rank = 0; rank < RANKS; rank++) {
        value_inputs(&world.pattern, rank, 0, COUNT, send_of(&world, rank));
        assert_true(wrong_at(&world, rank) > COUNT / 2);
    }
    world_release(&world);
}

/* ---------------------------------------------------------------------------------------- plots */

static char *temporary(const char *text)
{
    static char name[64];
    strcpy(name, "/tmp/tutti-perf-test-XXXXXX");
    const int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    return name;
}

static void plots_read_what_csv_says(void **state)
{
    (void)state;
    struct plot plot = {0};
    char *const file = temporary("op,dtype,size,ignored,time_us,busbw\n"
                                 "allreduce,float32,8,x,1.5,0.25\n"
                                 "allreduce,float32,16,,2,1\n"
                                 "allreduce,<&>,0,,2,1\n" /* no size: not drawn */
                                 "allreduce,<&>,16,,2,0\n");
    assert_true(plot_read(&plot, file));
    assert_int_equal(plot.point_count, 3);
    assert_string_equal(plot.points[0].fields[PLOT_DTYPE], "float32");
    assert_true(plot.points[0].time_us == 1.5 && plot.points[1].busbw == 1);
    assert_true(plot_write(&plot, file));
    char svg[20000];
    FILE *const stream = fopen(file, "r");
    const size_t length = fread(svg, 1, sizeof svg - 1, stream);
    fclose(stream);
    svg[length] = '\0';
    assert_non_null(strstr(svg, "&lt;&amp;&gt;"));
    assert_non_null(strstr(svg, ">allreduce<"));
    assert_non_null(strstr(svg, "</svg>"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    plot_release(&plot);
    unlink(file);
}

static void plots_refuse_what_is_no_result(void **state)
{
    (void)state;
    static const char *const files[] = {
        "",
        "op,size\nallreduce,8\n",
        "size,time_us,busbw\n8,1\n",
        "size,time_us,busbw\n8,1,2,3\n",
        "size,time_us,busbw\n8,inf,2\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct plot plot = {0};
        char *const file = temporary(files[i]);
        assert_false(plot_read(&plot, file));
        plot_release(&plot);
        unlink(file);
    }
}

/* ------------------------------------------------------------------------------------- encodings */

/* Encodes and decodes COUNT elements where they lie. */
static void pass_through(enum tutti_encoding encoding, void *elements)
{
    unsigned char encoded_bytes[4 * COUNT + 256];
    assert_int_equal(tutti_encode(encoding, TUTTI_FLOAT32, elements, COUNT, encoded_bytes),
                     TUTTI_OK);
    assert_int_equal(tutti_decode(encoding, TUTTI_FLOAT32, encoded_bytes, COUNT, elements),
                     TUTTI_OK);
}

/* Contributions are rounded, and so is the sum; with `lost` the contribution of a rank is not
 * there. */
static void add_encoded(struct world *world, enum tutti_encoding encoding, bool averages, bool lost)
{
    float sums[COUNT] = {0};
    for (int rank = 0; rank < RANKS - lost; rank++) {
        float own[COUNT];
        memcpy(own, send_of(world, rank), sizeof own);
        pass_through(encoding, own);
        for (int i = 0; i < COUNT; i++) sums[i] += own[i];
    }
    for (int i = 0; i < COUNT && averages; i++) sums[i] /= RANKS;
    pass_through(encoding, sums);
    for (int rank = 0; rank < RANKS; rank++) memcpy(recv_of(world, rank), sums, sizeof sums);
}

static void encoded_sums_may_be_as_wrong_as_roundings_make_them(void **state)
{
    (void)state;
    for (int e = 1; e < ENCODING_COUNT; e++)
        for (int averages = 0; averages < 2; averages++) {
            const enum tutti_encoding encoding = (enum tutti_encoding)e;
            const struct setting setting = {.dtype = TUTTI_FLOAT32,
                                            .reduction = averages ? REDUCTION_AVG : REDUCTION_SUM,
                                            .encoded = {encoding, 2}};
            struct world world;
            world_init(&world, "allreduce", &setting);
            add_encoded(&world, encoding, averages, false);
            assert_int_equal(wrong_in(&world), 0);
            add_encoded(&world, encoding, averages, true);
            /* The bound of the coarsest is as large as what a rank contributes. */
            if (encoding_error_max(encoding) < 0.01) assert_true(wrong_in(&world) > COUNT);
            memcpy(recv_of(&world, 2), &(float){1e30f}, sizeof(float));
            assert_true(wrong_in(&world) > 0);
            world_release(&world);
        }
}

static void encoded_copies_are_near_and_inputs_stay(void **state)
{
    (void)state;
    for (int e = 1; e < ENCODING_COUNT; e++) {
        const enum tutti_encoding encoding = (enum tutti_encoding)e;
        const struct setting setting = {.dtype = TUTTI_FLOAT32, .encoded = {encoding, 1}};
        struct world world;
        world_init(&world, "alltoall", &setting);
        alltoall(&world);
        for (int rank = 0; rank < RANKS; rank++)
            for (int block = 0; block < RANKS; block++)
                pass_through(encoding,
                             recv_of(&world, rank) + (size_t)block * COUNT * sizeof(float));
        assert_int_equal(wrong_in(&world), 0);
        send_of(&world, 1)[0] ^= 1;
        assert_int_equal(wrong_in(&world), 1);
        world_release(&world);
    }
}

static void explanations_are_read(void **state)
{
    (void)state;
    struct perf_encoded found;
    perf_encoded_read(
        "allreduce of 5 float32 on 8 ranks: ring, because\n  bfloat16 on links between "
        "hosts, required: contributions are rounded up to 8 times on their way\n",
        9, &found);
    assert_true(found.encoding == TUTTI_ENCODING_BFLOAT16 && found.roundings == 8);
    perf_encoded_read(
        "broadcast of ...\n  int8 on all links, allowed: contributions are rounded once on "
        "their way to a result\n   1.00 us  tree\n",
        9, &found);
    assert_true(found.encoding == TUTTI_ENCODING_INT8 && found.roundings == 1);
    perf_encoded_read("allreduce of ...\n  int8 on all links, required\n", 900, &found);
    assert_true(found.encoding == TUTTI_ENCODING_INT8 && found.roundings == 900);
    perf_encoded_read("allreduce of ...\n  not encoded (int8 on all links, allowed): all ranks\n",
                      9, &found);
    assert_true(found.encoding == TUTTI_ENCODING_NONE);
    perf_encoded_read("allreduce of ...\n       10.00 us  ring\n", 9, &found);
    assert_true(found.encoding == TUTTI_ENCODING_NONE);
    perf_encoded_read("allreduce of 5 float32 on 1 ranks: none, because\n", 1, &found);
    assert_true(found.encoding == TUTTI_ENCODING_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_floats_are_what_their_formats_say),
        cmocka_unit_test(narrow_floats_round_to_nearest_even),
        cmocka_unit_test(exact_ranges_are_exact),
        cmocka_unit_test(right_reductions_pass_in_any_order),
        cmocka_unit_test(a_missing_contribution_is_found),
        cmocka_unit_test(sums_stay_exact_with_more_ranks_than_integers),
        cmocka_unit_test(users_functions_are_associative),
        cmocka_unit_test(blocks_of_different_counts_pass_wherever_they_lie),
        cmocka_unit_test(lists_pass_however_they_are_cut),
        cmocka_unit_test(lists_in_place_share_their_memory),
        cmocka_unit_test(skewed_counts_agree_at_both_ends),
        cmocka_unit_test(every_untouched_output_is_wrong),
        cmocka_unit_test(one_wrong_bit_is_one_wrong_element),
        cmocka_unit_test(swapped_blocks_are_found),
        cmocka_unit_test(writing_to_the_input_is_found),
        cmocka_unit_test(writing_to_the_input_beside_an_output_in_place_is_found),
        cmocka_unit_test(writing_past_either_end_is_found),
        cmocka_unit_test(writing_into_gaps_is_found),
        cmocka_unit_test(stale_results_are_found),
        cmocka_unit_test(encoded_sums_may_be_as_wrong_as_roundings_make_them),
        cmocka_unit_test(encoded_copies_are_near_and_inputs_stay),
        cmocka_unit_test(explanations_are_read),
        cmocka_unit_test(plots_read_what_csv_says),
        cmocka_unit_test(plots_refuse_what_is_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
