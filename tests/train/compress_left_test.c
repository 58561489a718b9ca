/* compress_left_test.c - decoded and residual together are the corrected gradient (gradient plus
 * residual of the step before), bit for bit and for each rank: with every encoding, and with top k.
 * Low rank's residual is the difference of the two, rounded once; it decodes the average alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tutti/encode.h"
#include "tutti/train/compress.h"

enum { RANKS = 3, ROWS = 40, COLUMNS = 33, COUNT = ROWS * COLUMNS, STEPS = 4, SELECTED = 66 };

struct way {
    enum tutti_compress_method method;
    enum tutti_encoding encoding;
};

static void compute(float *gradient, uint64_t step, int rank)
{
    for (size_t e = 0; e < COUNT; e++)
        gradient[e] = ((float)(elements_mixed(100 * step + (uint64_t)rank, e) % 2001) - 1000) *
                      1e-3f * (1 + (float)(e % COLUMNS));
}

static bool copy_residual(struct tutti_compressor *c, float *to)
{
    struct tutti_checkpoint_tensor parts[8];
    size_t count;
    if (tutti_compressor_parts(c, parts, 8, &count) != TUTTI_OK) return false;
    for (size_t i = 0; i < count && i < 8; i++) {
        if (strcmp(parts[i].name, "matrix, residual") != 0) continue;
        memcpy(to, parts[i].data, COUNT * sizeof *to);
        return true;
    }
    return false;
}

/* The part that this rank sent, from its corrected gradient and from what it kept. */
static bool find_sent(const struct way *way, const float *corrected, const float *left, float *sent)
{
    static _Thread_local unsigned char bytes[8 * COUNT];
    size_t selected = 0;
    if (way->method == TUTTI_COMPRESS_ENCODED)
        return tutti_encode(way->encoding, TUTTI_FLOAT32, corrected, COUNT, bytes) == TUTTI_OK &&
               tutti_decode(way->encoding, TUTTI_FLOAT32, bytes, COUNT, sent) == TUTTI_OK;
    for (size_t i = 0; i < COUNT; i++) {
        const bool is_sent = left[i] != corrected[i];
        sent[i] = is_sent ? corrected[i] : 0;
        selected += is_sent;
    }
    return selected == SELECTED;
}

/* All that ranks send, averaged in their order, is what top k makes of the gradient. */
static bool is_average(const float *sent, const float *result, int size, struct tutti_comm *comm)
{
    static _Thread_local float sum[COUNT], theirs[COUNT];
    for (int r = 0; r < size; r++) {
        if (tutti_broadcast(memcpy(theirs, sent, sizeof theirs), theirs, COUNT, TUTTI_FLOAT32, r,
                            comm) != TUTTI_OK)
            return false;
        for (size_t i = 0; i < COUNT; i++) sum[i] = r == 0 ? theirs[i] : sum[i] + theirs[i];
    }
    for (size_t i = 0; i < COUNT; i++)
        if (result[i] != sum[i] / (float)size) return false;
    return true;
}

static int keep(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local float gradient[COUNT], corrected[COUNT], result[COUNT], left[COUNT],
        sent[COUNT];
    const struct way *const way = context;
    const struct tutti_compress_tensor tensor = {"matrix", gradient, ROWS, COLUMNS};
    struct tutti_compressor_options options = TUTTI_COMPRESSOR_OPTIONS_INIT;
    struct tutti_compressor *c;
    (void)seed;
    options.method = way->method;
    options.encoding = way->encoding;
    options.rank = 2;
    options.share = 0.05;
    RANKS_EXPECT(tutti_compressor_create(&tensor, 1, &options, comm, &c) == TUTTI_OK);
    for (uint64_t step = 0; step < STEPS; step++) {
        RANKS_EXPECT(copy_residual(c, corrected));
        compute(gradient, step, rank);
        for (size_t i = 0; i < COUNT; i++) corrected[i] += gradient[i];
        RANKS_EXPECT(tutti_compressor_ready(c, 0) == TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_finish(c, NULL) == TUTTI_OK);
        memcpy(result, gradient, sizeof result);
        RANKS_EXPECT(copy_residual(c, left));
        if (way->method == TUTTI_COMPRESS_LOW_RANK) {
            for (size_t i = 0; i < COUNT; i++) RANKS_EXPECT(left[i] == corrected[i] - result[i]);
            continue;
        }
        RANKS_EXPECT(find_sent(way, corrected, left, sent));
        for (size_t i = 0; i < COUNT; i++) RANKS_EXPECT(sent[i] + left[i] == corrected[i]);
        if (way->method == TUTTI_COMPRESS_TOP_K) RANKS_EXPECT(is_average(sent, result, size, comm));
    }
    return tutti_compressor_free(c) != TUTTI_OK;
}

static void decoded_and_residual_are_the_corrected_gradient(void **state)
{
    (void)state;
    struct way way = {TUTTI_COMPRESS_ENCODED, TUTTI_ENCODING_NONE};
    for (int e = TUTTI_ENCODING_NONE + 1; e <= TUTTI_ENCODING_MXFP4; e++) {
        way.encoding = (enum tutti_encoding)e;
        expect_good(RANKS, RANKS_DEFAULT, keep, &way);
    }
    way = (struct way){TUTTI_COMPRESS_TOP_K, TUTTI_ENCODING_NONE};
    expect_good_both(RANKS, keep, &way);
    way = (struct way){TUTTI_COMPRESS_LOW_RANK, TUTTI_ENCODING_NONE};
    expect_good_both(RANKS, keep, &way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoded_and_residual_are_the_corrected_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
