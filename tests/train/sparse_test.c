/* sparse_test.c - sums of sparse rows against a dense reference, every way, operation and dtype,
 * with indices in any order and several times; rows to their owners and back; and what is refused,
 * on all ranks alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tests/kit/sanitized.h"
#include "tutti/sparse.h"

enum { ROWS_MAX = 400, WIDTH_MAX = 20, COUNT_MAX = 300, TURNS = 16, RANKS_MAX = 9 };

/* The rows of a rank in a turn. Values are small whole numbers, exact in every dtype. */
struct given {
    struct tutti_sparse_rows rows;
    int64_t indices[COUNT_MAX];
    unsigned char values[COUNT_MAX * WIDTH_MAX * 8];
};

static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_BFLOAT16,
                                          TUTTI_FLOAT16, TUTTI_INT32,   TUTTI_INT64,
                                          TUTTI_INT8,    TUTTI_UINT16};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* Whole numbers of at most 8 bits, as they are in each dtype. */
static void put(void *at, enum tutti_dtype dtype, int value)
{
    const float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    const uint32_t sign = bits >> 31 << 15, mantissa = bits >> 13 & 0x3ff;
    const uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
    switch (dtype) {
    case TUTTI_FLOAT32: memcpy(at, &number, 4); break;
    case TUTTI_FLOAT64: memcpy(at, &(double){value}, 8); break;
    case TUTTI_BFLOAT16: memcpy(at, &(uint16_t){(uint16_t)(bits >> 16)}, 2); break;
    case TUTTI_FLOAT16:
        bits = value == 0 ? 0 : sign | exponent << 10 | mantissa;
        memcpy(at, &(uint16_t){(uint16_t)bits}, 2);
        break;
    case TUTTI_INT32: memcpy(at, &(int32_t){value}, 4); break;
    case TUTTI_INT64: memcpy(at, &(int64_t){value}, 8); break;
    case TUTTI_INT8: memcpy(at, &(int8_t){(int8_t)value}, 1); break;
    default: memcpy(at, &(uint16_t){(uint16_t)value}, 2);
    }
}

/* The turn's shape, the same on all ranks. */
static void shape_of(uint64_t seed, int turn, struct tutti_sparse_rows *rows)
{
    const uint64_t h = elements_mixed(seed, (uint64_t)turn);
    *rows = (struct tutti_sparse_rows){.row_count = 1 + h % ROWS_MAX,
                                       .width = turn % 3 == 0 ? 1 : 1 + h / 1000 % WIDTH_MAX,
                                       .dtype = dtypes[turn % DTYPES]};
}

/* One entry of what a rank gives: which row, and its elements. Pure, so that every rank knows what
 * the others give. */
static int64_t index_of(uint64_t seed, int turn, int rank, size_t i, size_t row_count, size_t count)
{
    const uint64_t h = elements_mixed(seed + (uint64_t)(turn * 16 + rank), i);
    if (turn % 4 == 1) return (int64_t)(i * (row_count / (count + 1))); /* in order, with gaps */
    return (int64_t)(h % row_count % (turn % 2 == 0 ? row_count : row_count / 4 + 1));
}

static int value_of(uint64_t seed, int turn, int rank, size_t i, size_t column)
{
    return (int)(elements_mixed(seed + (uint64_t)(turn * 16 + rank) + 99, i * WIDTH_MAX + column) %
                 3);
}

static size_t count_of(uint64_t seed, int turn, int rank, size_t row_count)
{
    const uint64_t h = elements_mixed(seed + 7, (uint64_t)(turn * 16 + rank));
    size_t count = h % 5 == 0 ? 0 : h / 5 % (COUNT_MAX / (size_t)(1 + turn % 5 * 8));
    if (turn % 4 == 1 && count > row_count / 2) count = row_count / 2;
    return turn == 5 ? 0 : count;
}

static void give(uint64_t seed, int turn, int rank, struct given *given)
{
    shape_of(seed, turn, &given->rows);
    const size_t width = given->rows.width, size = tutti_dtype_size(given->rows.dtype);
    given->rows.count = count_of(seed, turn, rank, given->rows.row_count);
    given->rows.indices = given->rows.count > 0 ? given->indices : NULL;
    given->rows.values = given->rows.count > 0 ? given->values : NULL;
    for (size_t i = 0; i < given->rows.count; i++) {
        given->indices[i] = index_of(seed, turn, rank, i, given->rows.row_count, given->rows.count);
        for (size_t c = 0; c < width; c++)
            put(given->values + (i * width + c) * size, given->rows.dtype,
                value_of(seed, turn, rank, i, c));
    }
}

/* ----------------------------------------------------------------------- the reference, as numbers */

struct reference {
    bool is_there[ROWS_MAX + 1];
    int value[(ROWS_MAX + 1) * WIDTH_MAX];
};

static int combined(enum tutti_sparse_way unused, tutti_op op, int left, int right)
{
    (void)unused;
    if (op == TUTTI_MIN) return left < right ? left : right;
    if (op == TUTTI_MAX) return left > right ? left : right;
    if (op == TUTTI_PROD) return left * right;
    return left + right;
}

/* First within each rank, then over ranks: for these operations it is all the same. */
static void refer(uint64_t seed, int turn, int size, tutti_op op, struct reference *reference)
{
    struct tutti_sparse_rows shape;
    shape_of(seed, turn, &shape);
    memset(reference, 0, sizeof *reference);
    for (int r = 0; r < size; r++) {
        const size_t count = count_of(seed, turn, r, shape.row_count);
        for (size_t i = 0; i < count; i++) {
            const size_t row = (size_t)index_of(seed, turn, r, i, shape.row_count, count);
            for (size_t c = 0; c < shape.width; c++) {
                int *const at = &reference->value[row * shape.width + c];
                const int value = value_of(seed, turn, r, i, c);
                *at = reference->is_there[row] ? combined(TUTTI_SPARSE_CHOSEN, op, *at, value)
                                               : value;
            }
            reference->is_there[row] = true;
        }
    }
}

/* Sums stay below what every dtype holds: INT8 and BFLOAT16 have 7 and 8 bits. */
static bool is_exact(const struct reference *reference)
{
    for (size_t i = 0; i < (ROWS_MAX + 1) * WIDTH_MAX; i++)
        if (reference->value[i] > 127) return false;
    return true;
}

static int compare(const struct tutti_sparse *result, const struct reference *reference,
                   const struct tutti_sparse_rows *shape, size_t first, size_t end, int rank)
{
    struct tutti_sparse_rows rows;
    const size_t size = tutti_dtype_size(shape->dtype);
    RANKS_EXPECT(tutti_sparse_view(result, &rows) == TUTTI_OK);
    RANKS_EXPECT(rows.row_count == shape->row_count && rows.width == shape->width);
    RANKS_EXPECT(rows.dtype == shape->dtype && (uintptr_t)rows.values % 64 == 0);
    size_t at = 0;
    for (size_t row = first; row < end; row++) {
        if (!reference->is_there[row]) continue;
        RANKS_EXPECT(at < rows.count && rows.indices[at] == (int64_t)row);
        for (size_t c = 0; c < shape->width; c++) {
            unsigned char wanted[8];
            put(wanted, shape->dtype, reference->value[row * shape->width + c]);
            RANKS_EXPECT(memcmp((const char *)rows.values + (at * shape->width + c) * size, wanted,
                                size) == 0);
        }
        at++;
    }
    RANKS_EXPECT(at == rows.count);
    return 0;
}

/* ------------------------------------------------------------------------------------- allreduce */

static struct given *given_memory(void)
{
    return malloc(sizeof(struct given));
}

static int one_sum(struct tutti_comm *comm, int rank, int size, uint64_t seed, int turn,
                   enum tutti_sparse_way way, tutti_op op, struct given *given,
                   struct reference *reference)
{
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    struct tutti_sparse *result;
    options.way = way;
    give(seed, turn, rank, given);
    refer(seed, turn, size, op, reference);
    if (!is_exact(reference)) return 0;
    RANKS_EXPECT(tutti_sparse_allreduce(&given->rows, op, &options, comm, &result) == TUTTI_OK);
    const int wrong = compare(result, reference, &given->rows, 0, given->rows.row_count, rank);
    struct tutti_sparse_counters counters = {.size_bytes = sizeof counters};
    RANKS_EXPECT(tutti_sparse_count(result, &counters) == TUTTI_OK);
    RANKS_EXPECT(way == TUTTI_SPARSE_CHOSEN ? counters.way != 0 : counters.way == (uint64_t)way);
    RANKS_EXPECT(size > 1 || counters.sent_value_bytes == 0);
    RANKS_EXPECT(tutti_sparse_free(result) == TUTTI_OK);
    return wrong;
}

static int sums(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const tutti_op ops[] = {TUTTI_SUM, TUTTI_SUM, TUTTI_MAX, TUTTI_MIN};
    struct given *const given = given_memory();
    struct reference *const reference = malloc(sizeof *reference);
    (void)context;
    RANKS_EXPECT(given != NULL && reference != NULL);
    for (int turn = 0; turn < (size > 4 ? TURNS / 2 : TURNS); turn++)
        for (int way = TUTTI_SPARSE_CHOSEN; way <= TUTTI_SPARSE_DENSE; way++) {
            const tutti_op op = way == TUTTI_SPARSE_DENSE ? TUTTI_SUM : ops[turn / 2 % 4];
            if (one_sum(comm, rank, size, seed, turn, (enum tutti_sparse_way)way, op, given,
                        reference) != 0) {
                fprintf(stderr, "turn %d, way %d\n", turn, way);
                return 1;
            }
        }
    free(given);
    free(reference);
    return 0;
}

static void sums_are_those_of_dense_matrices(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += size < 5 ? 1 : 2)
        expect_good(size, size % 2 == 0 ? RANKS_DEFAULT : RANKS_THREADS, sums, NULL);
}

/* ------------------------------------------------------------------------ bits that do not differ
 *
 * With floats whose sums are rounded, the result is that of the ranks' order, whichever way was
 * taken, and 16-bit floats are rounded once. */

enum { BIT_ROWS = 64 };

static float rough(int rank, size_t row)
{
    return (float)(1.0 + (double)elements_mixed((uint64_t)rank, row) / 3e19) *
           ((rank + (int)row) % 3 == 0 ? -1e3f : 1e-2f);
}

static int bits(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    (void)context;
    int64_t indices[BIT_ROWS];
    float values[BIT_ROWS];
    for (size_t i = 0; i < BIT_ROWS; i++) indices[i] = (int64_t)i, values[i] = rough(rank, i);
    const struct tutti_sparse_rows own = {BIT_ROWS, 1, TUTTI_FLOAT32, BIT_ROWS, indices, values};
    for (int way = TUTTI_SPARSE_GATHER; way <= TUTTI_SPARSE_OWNER; way++) {
        struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
        struct tutti_sparse_rows rows;
        struct tutti_sparse *result;
        options.way = (enum tutti_sparse_way)way;
        RANKS_EXPECT(tutti_sparse_allreduce(&own, TUTTI_SUM, &options, comm, &result) == TUTTI_OK);
        RANKS_EXPECT(tutti_sparse_view(result, &rows) == TUTTI_OK && rows.count == BIT_ROWS);
        for (size_t i = 0; i < BIT_ROWS; i++) {
            float sum = rough(0, i);
            for (int r = 1; r < size; r++) sum += rough(r, i);
            RANKS_EXPECT(memcmp(&sum, (const float *)rows.values + i, sizeof sum) == 0);
        }
        RANKS_EXPECT(tutti_sparse_free(result) == TUTTI_OK);
    }
    /* 256 + 1 + 1 in bfloat16: 258 if it is rounded once, 256 if after each sum. */
    uint16_t few[3] = {0x4380, 0x3f80, 0x3f80};
    const int64_t same[3] = {5, 5, 5};
    const struct tutti_sparse_rows brief = {10, 1, TUTTI_BFLOAT16, 3, same, few};
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    struct tutti_sparse_rows rows;
    struct tutti_sparse *result;
    options.way = TUTTI_SPARSE_OWNER;
    RANKS_EXPECT(tutti_sparse_allreduce(&brief, TUTTI_AVG, &options, comm, &result) == TUTTI_OK);
    RANKS_EXPECT(tutti_sparse_view(result, &rows) == TUTTI_OK && rows.count == 1);
    RANKS_EXPECT(rows.indices[0] == 5 && *(const uint16_t *)rows.values == 0x4381);
    return tutti_sparse_free(result) == TUTTI_OK ? 0 : 1;
}

static void bits_are_those_of_the_order_of_ranks(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, bits, NULL);
    expect_good(4, RANKS_THREADS, bits, NULL);
}

/* ------------------------------------------------------------------------- to owners, and back */

static int table(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct given *const given = given_memory();
    struct reference *const reference = malloc(sizeof *reference);
    (void)context;
    RANKS_EXPECT(given != NULL && reference != NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        struct tutti_sparse *result;
        size_t first, owned;
        give(seed, turn, rank, given);
        refer(seed, turn, size, TUTTI_SUM, reference);
        const struct tutti_sparse_rows *const rows = &given->rows;
        const size_t row_bytes = rows->width * tutti_dtype_size(rows->dtype);
        RANKS_EXPECT(tutti_sparse_range(rows->row_count, size, rank, &first, &owned) == TUTTI_OK);
        if (is_exact(reference)) {
            RANKS_EXPECT(tutti_sparse_push(rows, TUTTI_SUM, NULL, comm, &result) == TUTTI_OK);
            RANKS_EXPECT(compare(result, reference, rows, first, first + owned, rank) == 0);
            RANKS_EXPECT(tutti_sparse_free(result) == TUTTI_OK);
        }
        unsigned char *const own = malloc(owned * row_bytes + 1);
        unsigned char *const found = malloc(rows->count * row_bytes + 1);
        RANKS_EXPECT(own != NULL && found != NULL);
        for (size_t i = 0; i < owned * row_bytes; i++)
            own[i] = (unsigned char)elements_mixed(seed, first * row_bytes + i);
        const struct tutti_sparse_table shared = {rows->row_count, rows->width, rows->dtype,
                                                  owned > 0 ? own : NULL};
        RANKS_EXPECT(tutti_sparse_pull(&shared, rows->indices, rows->count,
                                       rows->count > 0 ? found : NULL, NULL, comm) == TUTTI_OK);
        for (size_t i = 0; i < rows->count * row_bytes; i++) {
            const size_t row = (size_t)rows->indices[i / row_bytes];
            RANKS_EXPECT(found[i] ==
                         (unsigned char)elements_mixed(seed, row * row_bytes + i % row_bytes));
        }
        free(own);
        free(found);
    }
    free(given);
    free(reference);
    return 0;
}

static void rows_go_to_owners_and_back(void **state)
{
    (void)state;
    for (int size = 1; size <= RANKS_MAX; size += size < 3 ? 1 : 3)
        expect_good(size, size % 2 == 0 ? RANKS_THREADS : RANKS_DEFAULT, table, NULL);
}

/* ------------------------------------------------------------------------------ what is refused
 *
 * One rank is wrong. It says why, the others say which rank it is, and the next call works. */

static int64_t good_indices[2] = {3, 1};
static float good_values[4] = {1, 2, 3, 4};

static int expect_refusal(struct tutti_comm *comm, int rank, int wrong_rank,
                          const struct tutti_sparse_rows *rows, tutti_op op,
                          const struct tutti_sparse_options *options, enum tutti_status own_status,
                          const char *words)
{
    struct tutti_sparse *result = (struct tutti_sparse *)&good_values;
    const enum tutti_status status = tutti_sparse_allreduce(rows, op, options, comm, &result);
    RANKS_EXPECT(result == NULL);
    RANKS_EXPECT(status == (rank == wrong_rank ? own_status : TUTTI_MISMATCH));
    RANKS_EXPECT(strstr(tutti_error_message(), words) != NULL);
    RANKS_EXPECT(rank == wrong_rank || strstr(tutti_error_message(), "rank 1") != NULL);
    RANKS_EXPECT(rank == wrong_rank || strstr(tutti_error_message(), "operation ") != NULL);
    return 0;
}

/* Rows of 4 TiB of which no rank has any need no memory, but for the whole matrix, which is refused
 * on all ranks alike. */
static int wide_rows(struct tutti_comm *comm, int rank)
{
    const struct tutti_sparse_rows none = {10, (size_t)1 << 40, TUTTI_FLOAT32, 0, NULL, NULL};
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    struct tutti_sparse_rows rows;
    struct tutti_sparse *result;
    for (int way = TUTTI_SPARSE_CHOSEN; way <= TUTTI_SPARSE_OWNER; way++) {
        options.way = (enum tutti_sparse_way)way;
        RANKS_EXPECT(tutti_sparse_allreduce(&none, TUTTI_SUM, &options, comm, &result) == TUTTI_OK);
        RANKS_EXPECT(tutti_sparse_view(result, &rows) == TUTTI_OK && rows.count == 0);
        RANKS_EXPECT(rows.width == none.width && tutti_sparse_free(result) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_sparse_push(&none, TUTTI_SUM, NULL, comm, &result) == TUTTI_OK);
    RANKS_EXPECT(tutti_sparse_free(result) == TUTTI_OK);
    const struct tutti_sparse_table table = {0, none.width, TUTTI_FLOAT32, NULL};
    RANKS_EXPECT(tutti_sparse_pull(&table, NULL, 0, NULL, NULL, comm) == TUTTI_OK);
    /* More than addresses reach, so that no system can give it. */
    const struct tutti_sparse_rows wider = {
        (size_t)1 << 10, none.width, TUTTI_FLOAT32, 0, NULL, NULL};
    if (IS_SANITIZED || IS_THREAD_SANITIZED) return 0; /* which end a process that asks for it */
    options.way = TUTTI_SPARSE_DENSE;
    RANKS_EXPECT(tutti_sparse_allreduce(&wider, TUTTI_SUM, &options, comm, &result) ==
                 TUTTI_NO_MEMORY);
    RANKS_EXPECT(result == NULL && strstr(tutti_error_message(), "the whole matrix, 1024 rows of "
                                                                 "4398046511104 bytes") != NULL);
    return 0;
}

static int refusals(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct tutti_sparse_rows good = {10, 2, TUTTI_FLOAT32, 2, good_indices, good_values};
    const bool is_wrong = rank == 1;
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    (void)seed;
    (void)context;
#define REFUSED(field, value, status, words)                                                     \
    do {                                                                                         \
        struct tutti_sparse_rows rows = good;                                                    \
        if (is_wrong) rows.field = (value);                                                      \
        RANKS_EXPECT(expect_refusal(comm, rank, 1, &rows, TUTTI_SUM, NULL, status, words) == 0); \
    } while (0)
    int64_t high[2] = {3, 10}, low[2] = {3, -1};
    REFUSED(indices, high, TUTTI_INVALID_COUNT, "indices[1] is 10, which is not a row of 10");
    REFUSED(indices, low, TUTTI_INVALID_COUNT, "indices[1] is -1, which is not a row of 10");
    REFUSED(indices, NULL, TUTTI_INVALID_BUFFER, "indices is NULL, but there are 2 rows");
    REFUSED(values, NULL, TUTTI_INVALID_BUFFER, "values is NULL, but there are 2 rows");
    REFUSED(width, 0, TUTTI_INVALID_COUNT, "width 0");
    REFUSED(width, SIZE_MAX / 2, TUTTI_INVALID_COUNT, "cannot be in memory");
    REFUSED(row_count, SIZE_MAX, TUTTI_INVALID_COUNT, "more than indices reach");
    REFUSED(dtype, (enum tutti_dtype)99, TUTTI_INVALID_DTYPE, "99 is not a dtype");
    /* All get MISMATCH where nothing is wrong with any rank alone. */
    REFUSED(row_count, 12, TUTTI_MISMATCH, "rank 0 has the row_count 10, rank 1 has 12");
    REFUSED(dtype, TUTTI_INT32, TUTTI_MISMATCH, "rank 0 has the dtype float32, rank 1 has int32");
    REFUSED(width, 1, TUTTI_MISMATCH, "rank 0 has the width 2, rank 1 has 1");
#undef REFUSED
    RANKS_EXPECT(expect_refusal(comm, rank, 1, &good, is_wrong ? TUTTI_MAX : TUTTI_SUM, NULL,
                                TUTTI_MISMATCH, "rank 0 has the operation sum, rank 1 has max") == 0);
    RANKS_EXPECT(expect_refusal(comm, rank, 1, &good, is_wrong ? TUTTI_BAND : TUTTI_SUM, NULL,
                                TUTTI_INVALID_OP, "there is no band of float32") == 0);
    options.way = is_wrong ? TUTTI_SPARSE_OWNER : TUTTI_SPARSE_GATHER;
    RANKS_EXPECT(expect_refusal(comm, rank, 1, &good, TUTTI_SUM, &options, TUTTI_MISMATCH,
                                "rank 0 has the way gather, rank 1 has owner") == 0);
    options.way = is_wrong ? (enum tutti_sparse_way)9 : TUTTI_SPARSE_GATHER;
    RANKS_EXPECT(expect_refusal(comm, rank, 1, &good, TUTTI_SUM, &options, TUTTI_INVALID_OPTIONS,
                                "way is 9") == 0);
    /* Ranks that call different functions, or pull what one of them cannot give. */
    struct tutti_sparse_rows same = good;
    struct tutti_sparse *result;
    if (is_wrong) {
        RANKS_EXPECT(tutti_sparse_push(&same, TUTTI_SUM, NULL, comm, &result) == TUTTI_MISMATCH);
    } else {
        RANKS_EXPECT(tutti_sparse_allreduce(&same, TUTTI_SUM, NULL, comm, &result) == TUTTI_MISMATCH);
    }
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1 called tutti_sparse_push") != NULL);
    float out[4];
    const struct tutti_sparse_table no_rows = {10, 2, TUTTI_FLOAT32, is_wrong ? NULL : good_values};
    RANKS_EXPECT(tutti_sparse_pull(&no_rows, good_indices, 2, out, NULL, comm) ==
                 (is_wrong ? TUTTI_INVALID_BUFFER : TUTTI_MISMATCH));
    RANKS_EXPECT(tutti_sparse_pull(&no_rows, good_indices, 2, NULL, NULL, comm) ==
                 TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(strstr(tutti_error_message(), "out is NULL, but there are 2") != NULL);
    RANKS_EXPECT(tutti_sparse_allreduce(&good, TUTTI_SUM, NULL, comm, is_wrong ? NULL : &result) ==
                 (is_wrong ? TUTTI_INVALID_BUFFER : TUTTI_MISMATCH));
    /* Between the ends of a group, where exchanges would only start. */
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_sparse_allreduce(&good, TUTTI_SUM, NULL, comm, &result) ==
                 TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(result == NULL && tutti_group_end() == TUTTI_OK);
    /* Rows so wide that their bytes and those of tables are more than a number. */
    same.dtype = TUTTI_UINT64;
    same.width = SIZE_MAX / 8;
    same.count = 0;
    RANKS_EXPECT(tutti_sparse_allreduce(&same, TUTTI_SUM, NULL, comm, &result) ==
                 TUTTI_INVALID_COUNT);
    RANKS_EXPECT(wide_rows(comm, rank) == 0);
    /* The communicator is as good as before. */
    RANKS_EXPECT(tutti_sparse_allreduce(&good, TUTTI_SUM, NULL, comm, &result) == TUTTI_OK);
    struct tutti_sparse_rows rows;
    RANKS_EXPECT(tutti_sparse_view(result, &rows) == TUTTI_OK && rows.count == 2);
    RANKS_EXPECT(rows.indices[0] == 1 && ((const float *)rows.values)[0] == 3.f * (float)size);
    return tutti_sparse_free(result) == TUTTI_OK ? 0 : 1;
}

static void wrong_arguments_of_one_rank_end_the_call_on_all(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, refusals, NULL);
}

/* ------------------------------------------------------------------------------------ failures */

static int late(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct tutti_sparse_rows good = {10, 2, TUTTI_FLOAT32, 2, good_indices, good_values};
    struct tutti_sparse_options options = TUTTI_SPARSE_OPTIONS_INIT;
    struct tutti_sparse *result;
    (void)size;
    (void)seed;
    (void)context;
    options.timeout_ns = 200000000;
    if (rank == 1) ranks_nap_ms(600);
    const enum tutti_status status =
        tutti_sparse_allreduce(&good, TUTTI_SUM, &options, comm, &result);
    RANKS_EXPECT(status == TUTTI_TIMEOUT && result == NULL);
    RANKS_EXPECT(rank == 1 ||
                 strstr(tutti_error_message(), "(part of tutti_sparse_allreduce)") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1") != NULL);
    RANKS_EXPECT(tutti_sparse_allreduce(&good, TUTTI_SUM, NULL, comm, &result) == TUTTI_TIMEOUT);
    return 0;
}

static void a_late_rank_is_named_at_the_deadline(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, late, NULL);
}

static void results_and_ranges_check_their_arguments(void **state)
{
    (void)state;
    struct tutti_sparse_rows rows;
    size_t first, count;
    char text[10];
    assert_int_equal(tutti_sparse_view(NULL, &rows), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_sparse_explain(NULL, text, sizeof text), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_sparse_count(NULL, NULL), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_sparse_free(NULL), TUTTI_OK);
    assert_int_equal(tutti_sparse_range(10, 3, 3, &first, &count), TUTTI_INVALID_RANK);
    assert_int_equal(tutti_sparse_range(10, 0, 0, &first, &count), TUTTI_INVALID_RANK);
    struct tutti_sparse *result;
    assert_int_equal(tutti_sparse_allreduce(NULL, TUTTI_SUM, NULL, NULL, &result),
                     TUTTI_INVALID_COMM);
    assert_null(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_dense_matrices),
        cmocka_unit_test(bits_are_those_of_the_order_of_ranks),
        cmocka_unit_test(rows_go_to_owners_and_back),
        cmocka_unit_test(wrong_arguments_of_one_rank_end_the_call_on_all),
        cmocka_unit_test(a_late_rank_is_named_at_the_deadline),
        cmocka_unit_test(results_and_ranges_check_their_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
