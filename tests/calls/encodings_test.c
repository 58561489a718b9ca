/* Allreduces that ask for an encoding: all ranks end with the same bits, near the sum; what cannot be
 * encoded is refused by name; ranks that ask for different encodings are told so; and nothing is
 * encoded unasked.
 *
 * ctest: timeout=180
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { COUNT_MAX = 70001 };

static const struct tutti_call_options no_options = TUTTI_CALL_OPTIONS_INIT;

static float value_of(int rank, size_t i)
{
    return (float)((i * 2654435761u + (size_t)rank * 40503u) % 100003) / 100003.0f - 0.5f;
}

/* The sum of an element is that of its ranks, as near as so many roundings of so coarse an encoding
 * leave it. */
static bool is_near(const float *result, size_t count, int size, double step, int divisor)
{
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++) sum += value_of(r, i);
        if (fabs(sum / divisor - (double)result[i]) > size * (size + 1) * step) return false;
    }
    return true;
}

/* Whether all ranks have the same bits. */
static bool is_alike(const float *result, size_t count, int rank, int size, struct tutti_comm *comm)
{
    float *const all = malloc(count * (size_t)size * sizeof *all);
    bool alike = all != NULL && tutti_allgather(result, all, count, TUTTI_FLOAT32, comm) == TUTTI_OK;
    for (int r = 0; alike && r < size; r++)
        alike = memcmp(all + (size_t)r * count, result, count * sizeof *result) == 0;
    free(all);
    (void)rank;
    return alike;
}

static bool is_right(const char *encoding, const char *algorithm, double step, size_t count,
                     bool averages, int rank, int size, struct tutti_comm *comm)
{
    float *const send = malloc(count * sizeof *send), *const recv = malloc(count * sizeof *recv);
    bool right = send != NULL && recv != NULL;
    for (size_t i = 0; right && i < count; i++) send[i] = value_of(rank, i);
    struct tutti_call_options options = no_options;
    options.encoding = encoding;
    options.algorithm = algorithm;
    right = right &&
            tutti_allreduce_with(send, recv, count, TUTTI_FLOAT32, averages ? TUTTI_AVG : TUTTI_SUM,
                                 &options, comm) == TUTTI_OK &&
            is_near(recv, count, size, step, averages ? size : 1) &&
            is_alike(recv, count, rank, size, comm);
    free(send);
    free(recv);
    return right;
}

static int sums(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const size_t counts[] = {1, 100, 5000, COUNT_MAX};
    (void)seed, (void)context;
    for (int c = 0; c < 4; c++) {
        RANKS_EXPECT(is_right("bfloat16/everywhere/required", NULL, 0x1p-8, counts[c], c == 2, rank,
                              size, comm));
        RANKS_EXPECT(is_right("bfloat16/required/everywhere", "ring", 0x1p-8, counts[c], c == 1,
                              rank, size, comm));
        RANKS_EXPECT(is_right("float16/everywhere/required", "chain", 0x1p-11, counts[c], false,
                              rank, size, comm));
        RANKS_EXPECT(
            is_right("int8/everywhere/required", NULL, 0x1p-6, counts[c], false, rank, size, comm));
        RANKS_EXPECT(is_right("mxfp8/everywhere/required", NULL, 0x1p-4, counts[c], c == 3, rank,
                              size, comm));
        /* No link is between hosts, and `allowed` is not taken: as without an encoding. */
        RANKS_EXPECT(is_right("bfloat16", NULL, 0x1p-22, counts[c], false, rank, size, comm));
        RANKS_EXPECT(
            is_right("bfloat16/everywhere", NULL, 0x1p-22, counts[c], false, rank, size, comm));
        RANKS_EXPECT(is_right("none", NULL, 0x1p-22, counts[c], false, rank, size, comm));
    }
    return 0;
}

static void all_ranks_have_the_same_bits(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) assert_int_equal(ranks_run(size, NULL, sums, NULL), 0);
}

/* -------------------------------------------------------------------------------------- by rules */

static bool explains(struct tutti_comm *comm, size_t count, const char *text)
{
    char why[4096];
    return tutti_comm_explain(comm, "allreduce", count, TUTTI_FLOAT32, why, sizeof why) == TUTTI_OK &&
           strstr(why, text) != NULL;
}

static int by_rules(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    float one = 1.0f + 0x1p-20f, sum = 0; /* bfloat16 has no such number */
    RANKS_EXPECT(tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(sum == one * (float)size); /* a rule for larger sizes */
    float *const many = malloc(COUNT_MAX * sizeof *many);
    RANKS_EXPECT(many != NULL);
    for (size_t i = 0; i < COUNT_MAX; i++) many[i] = one;
    RANKS_EXPECT(tutti_allreduce(many, many, COUNT_MAX, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(many[0] == (float)size && many[COUNT_MAX - 1] == (float)size);
    RANKS_EXPECT(is_alike(many, COUNT_MAX, rank, size, comm));
    /* Rules leave alone what cannot be encoded. */
    double other = 1.0 + 0x1p-40;
    RANKS_EXPECT(tutti_allreduce(&other, &other, 1, TUTTI_FLOAT64, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(other == (1.0 + 0x1p-40) * size);
    RANKS_EXPECT(tutti_allreduce(many, many, COUNT_MAX, TUTTI_FLOAT32, TUTTI_MAX, comm) == TUTTI_OK);
    free(many);
    RANKS_EXPECT(
        explains(comm, COUNT_MAX, "bfloat16 on all links, required: contributions are rounded"));
    RANKS_EXPECT(!explains(comm, 1, "bfloat16"));
    struct tutti_comm *derived = NULL;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &derived) == TUTTI_OK);
    RANKS_EXPECT(explains(derived, COUNT_MAX, "bfloat16 on all links"));
    RANKS_EXPECT(tutti_comm_free(derived) == TUTTI_OK);
    options.encodings = "allreduce=int8/everywhere";
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &derived) == TUTTI_OK);
    RANKS_EXPECT(explains(derived, COUNT_MAX,
                          "not encoded (int8 on all links, allowed): all ranks "
                          "are on one host"));
    return tutti_comm_free(derived) == TUTTI_OK ? 0 : 1;
}

static void rules_encode_by_size(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.encodings = "allreduce:64k-=bfloat16/everywhere/required";
    const struct ranks_options options = {.comm_options = &comm_options};
    assert_int_equal(ranks_run(3, &options, by_rules, NULL), 0);
}

static int makes_none(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *derived = NULL;
    (void)rank, (void)size, (void)seed, (void)context;
    options.encodings = "allreduce=bfloat17";
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &derived) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "no encoding of that name") != NULL);
    return 0;
}

static void wrong_rules_are_refused(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, makes_none, NULL), 0);
}

/* ------------------------------------------------------------------------------------- refusals */

static bool is_refused(enum tutti_status status, enum tutti_status expected, const char *message)
{
    return status == expected && strstr(tutti_error_message(), message) != NULL;
}

static int refusals(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)size, (void)seed, (void)context;
    float x[8] = {0}, all[16];
    double d = 0;
    struct tutti_call_options options = no_options;
    options.encoding = "bfloat16/everywhere/required";
    RANKS_EXPECT(is_refused(tutti_allreduce_with(&d, &d, 1, TUTTI_FLOAT64, TUTTI_SUM, &options, comm),
                            TUTTI_UNSUPPORTED, "only float32"));
    RANKS_EXPECT(is_refused(tutti_allreduce_with(x, x, 8, TUTTI_FLOAT32, TUTTI_MAX, &options, comm),
                            TUTTI_UNSUPPORTED, "only sums and averages"));
    RANKS_EXPECT(is_refused(tutti_allgather_with(x, all, 8, TUTTI_FLOAT32, &options, comm),
                            TUTTI_UNSUPPORTED, "only allreduce"));
    options.algorithm = "doubling";
    RANKS_EXPECT(is_refused(tutti_allreduce_with(x, x, 8, TUTTI_FLOAT32, TUTTI_SUM, &options, comm),
                            TUTTI_INVALID_ALGORITHM, "several ranks complete a result"));
    options.encoding = "int8/everywhere/required";
    options.algorithm = "ring";
    RANKS_EXPECT(is_refused(tutti_allreduce_with(x, x, 8, TUTTI_FLOAT32, TUTTI_SUM, &options, comm),
                            TUTTI_INVALID_ALGORITHM, "several times"));
    options = no_options;
    options.encoding = "bfloat16/everywhere/required";
    options.deterministic = 1;
    RANKS_EXPECT(is_refused(tutti_allreduce_with(x, x, 8, TUTTI_FLOAT32, TUTTI_SUM, &options, comm),
                            TUTTI_UNSUPPORTED, "deterministic"));
    options.deterministic = 0;
    options.encoding = "bfloat16/near";
    RANKS_EXPECT(is_refused(tutti_allreduce_with(x, x, 8, TUTTI_FLOAT32, TUTTI_SUM, &options, comm),
                            TUTTI_INVALID_OPTIONS, "`racks`, `hosts` or `everywhere`"));
    return tutti_allreduce(x, x, 8, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK ? 0 : 1;
}

static void what_cannot_be_encoded_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, refusals, NULL), 0);
}

/* Lists go with encodings of single elements. In units they are refused. */
static int lists(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    float parts[3][64];
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < 64; i++) parts[p][i] = 1.0f + 0x1p-20f;
    struct tutti_tensor tensors[] = {{parts[0], 5}, {parts[1], 64}, {parts[2], 17}};
    const struct tutti_list list = {tensors, 3};
    struct tutti_call_options options = no_options;
    options.encoding = "bfloat16/everywhere/required";
    RANKS_EXPECT(tutti_allreduce_list_with(&list, &list, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                           comm) == TUTTI_OK);
    RANKS_EXPECT(parts[0][4] == (float)size && parts[1][0] == (float)size &&
                 parts[2][16] == (float)size && parts[0][5] != (float)size);
    options.encoding = "int8/everywhere/required";
    RANKS_EXPECT(
        is_refused(tutti_allreduce_list_with(&list, &list, TUTTI_FLOAT32, TUTTI_SUM, &options, comm),
                   TUTTI_UNSUPPORTED, "two tensors of a list"));
    (void)rank;
    return 0;
}

static void lists_of_tensors_are_encoded_by_element(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, lists, NULL), 0);
}

/* Rank 1 asks for another encoding than the others. */
static int differ(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    float x[1000] = {0};
    struct tutti_call_options options = no_options;
    options.algorithm = "ring";
    options.encoding = rank == 1 ? "float16/everywhere/required" : "bfloat16/everywhere/required";
    const enum tutti_status status =
        tutti_allreduce_with(x, x, 1000, TUTTI_FLOAT32, TUTTI_SUM, &options, comm);
    RANKS_EXPECT(status == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "another encoding") != NULL);
    return 0;
}

static void ranks_that_ask_for_different_encodings_are_told(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, differ, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_have_the_same_bits),
        cmocka_unit_test(rules_encode_by_size),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(what_cannot_be_encoded_is_refused),
        cmocka_unit_test(lists_of_tensors_are_encoded_by_element),
        cmocka_unit_test(ranks_that_ask_for_different_encodings_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
