/* Calls that ask for an encoding: all ranks end with the same bits, near the sum, or with blocks that
 * were rounded once; what cannot be encoded is refused by name; ranks that ask for different encodings are told so; and nothing is
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
#include "tutti/encode.h"
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

static bool is_over_tcp(void)
{
    const char *const transport = getenv("TUTTI_TRANSPORT");
    return transport != NULL && strcmp(transport, "tcp") == 0;
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
        /* No link is between hosts, and within a host `allowed` is not taken: as without an
         * encoding. Over TCP the model may take it. */
        RANKS_EXPECT(is_right("bfloat16", NULL, is_over_tcp() ? 0x1p-8 : 0x1p-22, counts[c], false,
                              rank, size, comm));
        RANKS_EXPECT(is_right("bfloat16/everywhere", NULL, is_over_tcp() ? 0x1p-8 : 0x1p-22,
                              counts[c], false, rank, size, comm));
        RANKS_EXPECT(is_right("none", NULL, 0x1p-22, counts[c], false, rank, size, comm));
    }
    return 0;
}

static void all_ranks_have_the_same_bits(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) assert_int_equal(ranks_run(size, NULL, sums, NULL), 0);
}

/* ----------------------------------------------------------------------------- other collectives */

enum { SIZE_MAX_OF_TEST = 5 };

/* The block that a rank gives to another (or to all: 0), as it is after one encoding. */
static bool make_rounded(enum tutti_encoding encoding, int rank, size_t block, size_t count,
                         float *at)
{
    static _Thread_local unsigned char encoded[COUNT_MAX * sizeof(float) + 256];
    for (size_t i = 0; i < count; i++) at[i] = value_of(rank, i + block * 7);
    return tutti_encode(encoding, TUTTI_FLOAT32, at, count, encoded) == TUTTI_OK &&
           tutti_decode(encoding, TUTTI_FLOAT32, encoded, count, at) == TUTTI_OK;
}

/* One encoding of one size: which blocks a rank gets, and where. */
struct moved {
    struct tutti_call_options options;
    enum tutti_encoding encoding;
    size_t count;
    float *send, *recv, *expected; /* each has room for one block more than there are ranks */
    int rank, size;
    struct tutti_comm *comm;
};

static bool has_block(const struct moved *moved, const float *at, int owner, size_t block)
{
    return make_rounded(moved->encoding, owner, block, moved->count, moved->expected) &&
           memcmp(at, moved->expected, moved->count * sizeof *at) == 0;
}

static void give_block(const struct moved *moved, float *at, size_t block)
{
    for (size_t i = 0; i < moved->count; i++) at[i] = value_of(moved->rank, i + block * 7);
}

static bool gathers(const struct moved *moved, bool in_place)
{
    const size_t count = moved->count;
    float *const send = in_place ? moved->recv + (size_t)moved->rank * count : moved->send;
    give_block(moved, send, 0);
    bool right = tutti_allgather_with(send, moved->recv, count, TUTTI_FLOAT32, &moved->options,
                                      moved->comm) == TUTTI_OK;
    for (int r = 0; right && r < moved->size; r++)
        right = has_block(moved, moved->recv + (size_t)r * count, r, 0);
    return right;
}

static bool broadcasts(const struct moved *moved, int root, bool in_place)
{
    float *const send = in_place ? moved->recv : moved->send;
    give_block(moved, send, 0);
    return tutti_broadcast_with(send, moved->recv, moved->count, TUTTI_FLOAT32, root,
                                &moved->options, moved->comm) == TUTTI_OK &&
           has_block(moved, moved->recv, root, 0);
}

static bool exchanges(const struct moved *moved, bool in_place)
{
    const size_t count = moved->count;
    float *const send = in_place ? moved->recv : moved->send;
    for (int r = 0; r < moved->size; r++) give_block(moved, send + (size_t)r * count, (size_t)r);
    bool right = tutti_alltoall_with(send, moved->recv, count, TUTTI_FLOAT32, &moved->options,
                                     moved->comm) == TUTTI_OK;
    for (int r = 0; right && r < moved->size; r++)
        right = has_block(moved, moved->recv + (size_t)r * count, r, (size_t)moved->rank);
    return right;
}

/* Contributions are rounded, and a sum is near. */
static bool reduces_and_scatters(const struct moved *moved, double step)
{
    const size_t count = moved->count;
    for (int r = 0; r < moved->size; r++)
        give_block(moved, moved->send + (size_t)r * count, (size_t)r);
    if (tutti_reduce_scatter_with(moved->send, moved->recv, count, TUTTI_FLOAT32, TUTTI_AVG,
                                  &moved->options, moved->comm) != TUTTI_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int r = 0; r < moved->size; r++) sum += value_of(r, i + (size_t)moved->rank * 7);
        if (fabs(sum / moved->size - (double)moved->recv[i]) > (moved->size + 1) * step)
            return false;
    }
    return true;
}

static int moves(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const size_t counts[] = {1, 129, 12800};
    static const struct {
        const char *wish;
        enum tutti_encoding encoding;
        double step;
    } cases[] = {{"bfloat16/everywhere/required", TUTTI_ENCODING_BFLOAT16, 0x1p-8},
                 {"int8/everywhere/required", TUTTI_ENCODING_INT8, 0x1p-6},
                 {"mxfp8/everywhere/required", TUTTI_ENCODING_MXFP8, 0x1p-3}};
    (void)seed, (void)context;
    float *const memory = malloc(3 * (SIZE_MAX_OF_TEST + 1) * 12800 * sizeof *memory);
    RANKS_EXPECT(memory != NULL);
    for (int i = 0; i < 9; i++) {
        const size_t count = counts[i % 3], room = (size_t)(size + 1) * count;
        const struct moved moved = {.options = {.size_bytes = sizeof moved.options,
                                                .encoding = cases[i / 3].wish,
                                                .deterministic = 0},
                                    .encoding = cases[i / 3].encoding,
                                    .count = count,
                                    .send = memory,
                                    .recv = memory + room,
                                    .expected = memory + 2 * room,
                                    .rank = rank,
                                    .size = size,
                                    .comm = comm};
        RANKS_EXPECT(gathers(&moved, false) && gathers(&moved, true));
        RANKS_EXPECT(broadcasts(&moved, 0, true) && broadcasts(&moved, size - 1, false));
        RANKS_EXPECT(exchanges(&moved, false) && exchanges(&moved, true));
        RANKS_EXPECT(reduces_and_scatters(&moved, cases[i / 3].step));
        /* Elements that only move are rounded alike whatever else the call depends on. */
        struct moved alike = moved;
        alike.options.deterministic = 1;
        RANKS_EXPECT(gathers(&alike, false) && broadcasts(&alike, 0, true));
    }
    free(memory);
    return 0;
}

static void blocks_are_rounded_once_on_every_rank(void **state)
{
    (void)state;
    for (int size = 2; size <= SIZE_MAX_OF_TEST; size++)
        assert_int_equal(ranks_run(size, NULL, moves, NULL), 0);
}

/* ------------------------------------------------------------------------------------- v forms */

/* Blocks of counts of their own: of rank r, or from rank r to rank s. Some are empty. */
static size_t own_count(int r)
{
    static const size_t counts[SIZE_MAX_OF_TEST] = {129, 0, 1000, 1, 12801};
    return counts[r];
}

static size_t pair_count(int from, int to)
{
    return (size_t)((from * 7 + to * 3) % 5) * 97 + (size_t)(from == to);
}

/* Blocks one after the other, or, spread, in the reverse order with a gap before each. */
static void place_blocks(const size_t *counts, int size, bool spread, size_t *displs)
{
    size_t at = 0;
    for (int i = 0; i < size; i++) {
        const int r = spread ? size - 1 - i : i;
        at += spread ? 3 : 0;
        displs[r] = at;
        at += counts[r];
    }
}

static void give_values(int rank, size_t block, size_t count, float *at)
{
    for (size_t i = 0; i < count; i++) at[i] = value_of(rank, i + block * 7);
}

/* The block that a rank gave as number `block`, once rounded. */
static bool has_rounded(const struct moved *moved, const float *at, int owner, size_t block,
                        size_t count)
{
    return make_rounded(moved->encoding, owner, block, count, moved->expected) &&
           memcmp(at, moved->expected, count * sizeof *at) == 0;
}

static bool gathers_varying(const struct moved *moved, bool in_place, bool spread)
{
    size_t counts[SIZE_MAX_OF_TEST], displs[SIZE_MAX_OF_TEST];
    for (int r = 0; r < moved->size; r++) counts[r] = own_count(r);
    place_blocks(counts, moved->size, spread, displs);
    float *const send = in_place ? moved->recv + displs[moved->rank] : moved->send;
    give_values(moved->rank, 0, counts[moved->rank], send);
    bool right = tutti_allgatherv_with(send, moved->recv, counts, spread ? displs : NULL,
                                       TUTTI_FLOAT32, &moved->options, moved->comm) == TUTTI_OK;
    for (int r = 0; right && r < moved->size; r++)
        right = has_rounded(moved, moved->recv + displs[r], r, 0, counts[r]);
    return right;
}

static bool gathers_at_root(const struct moved *moved, int root, bool spread)
{
    size_t counts[SIZE_MAX_OF_TEST], displs[SIZE_MAX_OF_TEST];
    for (int r = 0; r < moved->size; r++) counts[r] = own_count(r);
    place_blocks(counts, moved->size, spread, displs);
    give_values(moved->rank, 0, counts[moved->rank], moved->send);
    bool right = tutti_gatherv_with(moved->send, counts[moved->rank], moved->recv, counts, displs,
                                    TUTTI_FLOAT32, root, &moved->options, moved->comm) == TUTTI_OK;
    for (int r = 0; right && moved->rank == root && r < moved->size; r++)
        right = has_rounded(moved, moved->recv + displs[r], r, 0, counts[r]);
    return right;
}

static bool scatters_varying(const struct moved *moved, int root, bool spread)
{
    size_t counts[SIZE_MAX_OF_TEST], displs[SIZE_MAX_OF_TEST];
    for (int r = 0; r < moved->size; r++) counts[r] = own_count(r);
    place_blocks(counts, moved->size, spread, displs);
    for (int r = 0; moved->rank == root && r < moved->size; r++)
        give_values(root, (size_t)r, counts[r], moved->send + displs[r]);
    return tutti_scatterv_with(moved->send, counts, displs, moved->recv, counts[moved->rank],
                               TUTTI_FLOAT32, root, &moved->options, moved->comm) == TUTTI_OK &&
           has_rounded(moved, moved->recv, root, (size_t)moved->rank, counts[moved->rank]);
}

static bool exchanges_varying(const struct moved *moved, bool spread)
{
    size_t sent[SIZE_MAX_OF_TEST], received[SIZE_MAX_OF_TEST], from[SIZE_MAX_OF_TEST],
        to[SIZE_MAX_OF_TEST];
    for (int r = 0; r < moved->size; r++) {
        sent[r] = pair_count(moved->rank, r);
        received[r] = pair_count(r, moved->rank);
    }
    place_blocks(sent, moved->size, spread, from);
    place_blocks(received, moved->size, spread, to);
    for (int r = 0; r < moved->size; r++)
        give_values(moved->rank, (size_t)r, sent[r], moved->send + from[r]);
    bool right = tutti_alltoallv_with(moved->send, sent, from, moved->recv, received, to,
                                      TUTTI_FLOAT32, &moved->options, moved->comm) == TUTTI_OK;
    for (int r = 0; right && r < moved->size; r++)
        right = has_rounded(moved, moved->recv + to[r], r, (size_t)moved->rank, received[r]);
    return right;
}

static bool sums_varying(const struct moved *moved, double step, bool in_place)
{
    size_t counts[SIZE_MAX_OF_TEST], begins[SIZE_MAX_OF_TEST];
    const int size = moved->size, rank = moved->rank;
    for (int r = 0; r < size; r++) counts[r] = own_count(r);
    place_blocks(counts, size, false, begins);
    for (int r = 0; r < size; r++) give_values(rank, (size_t)r, counts[r], moved->send + begins[r]);
    float *const recv = in_place ? moved->send + begins[rank] : moved->recv;
    if (tutti_reduce_scatterv_with(moved->send, recv, counts, TUTTI_FLOAT32, TUTTI_AVG,
                                   &moved->options, moved->comm) != TUTTI_OK)
        return false;
    for (size_t i = 0; i < counts[rank]; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++) sum += value_of(r, i + (size_t)rank * 7);
        if (fabs(sum / size - (double)recv[i]) > (size + 1) * step) return false;
    }
    return true;
}

/* Where ranks know only their own counts, encodings in units are refused. */
static bool moves_varying(const struct moved *moved, double step, bool has_units)
{
    for (int spread = 0; spread < 2; spread++) {
        if (!gathers_varying(moved, false, spread) || !gathers_varying(moved, true, spread) ||
            !sums_varying(moved, step, spread))
            return false;
        if (has_units) continue;
        for (int root = 0; root < moved->size; root += moved->size - 1)
            if (!gathers_at_root(moved, root, spread) || !scatters_varying(moved, root, spread))
                return false;
        if (!exchanges_varying(moved, spread)) return false;
    }
    return true;
}

static int varying(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const struct {
        const char *wish;
        enum tutti_encoding encoding;
        double step;
    } cases[] = {{"bfloat16/everywhere/required", TUTTI_ENCODING_BFLOAT16, 0x1p-8},
                 {"float16/everywhere/required", TUTTI_ENCODING_FLOAT16, 0x1p-11},
                 {"fp8_e4m3/everywhere/required", TUTTI_ENCODING_FP8_E4M3, 0x1p-4},
                 {"int8/everywhere/required", TUTTI_ENCODING_INT8, 0x1p-6},
                 {"mxfp4/everywhere/required", TUTTI_ENCODING_MXFP4, 0x1p-1}};
    enum { ROOM = 20000 };
    (void)seed, (void)context;
    float *const memory = malloc(3 * ROOM * sizeof *memory);
    RANKS_EXPECT(memory != NULL);
    for (int i = 0; i < 5; i++) {
        const struct moved moved = {
            .options = {.size_bytes = sizeof moved.options, .encoding = cases[i].wish},
            .encoding = cases[i].encoding,
            .send = memory,
            .recv = memory + ROOM,
            .expected = memory + 2 * ROOM,
            .rank = rank,
            .size = size,
            .comm = comm};
        RANKS_EXPECT(moves_varying(&moved, cases[i].step, i >= 3));
    }
    free(memory);
    return 0;
}

static void blocks_of_any_count_are_rounded_once_on_every_rank(void **state)
{
    (void)state;
    for (int size = 2; size <= SIZE_MAX_OF_TEST; size++)
        assert_int_equal(ranks_run(size, NULL, varying, NULL), 0);
}

/* ------------------------------------------------------------------------------------- 16 bits */

/* 16-bit floats go in the encodings of a byte and less. */
static int halves(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    uint16_t ones[300], all[3 * 300], sums[300];
    struct tutti_call_options options = no_options;
    options.encoding = "mxfp8/everywhere/required";
    for (int i = 0; i < 300; i++) ones[i] = 0x3f80; /* 1 in bfloat16 */
    RANKS_EXPECT(tutti_allgather_with(ones, all, 300, TUTTI_BFLOAT16, &options, comm) == TUTTI_OK);
    for (int i = 0; i < size * 300; i++) RANKS_EXPECT(all[i] == 0x3f80);
    RANKS_EXPECT(tutti_allreduce_with(ones, sums, 300, TUTTI_BFLOAT16, TUTTI_AVG, &options, comm) ==
                 TUTTI_OK);
    for (int i = 0; i < 300; i++) RANKS_EXPECT(sums[i] == 0x3f80);
    (void)rank;
    return 0;
}

static void halves_are_encoded_in_less(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, halves, NULL), 0);
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
    options.encodings = "allreduce=int8/everywhere/allowed";
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &derived) == TUTTI_OK);
    RANKS_EXPECT(explains(derived, COUNT_MAX,
                          is_over_tcp() ? "int8 on all links, allowed"
                                        : "not encoded (int8 on all links, allowed): all ranks "
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
    for (int e = 0; e <= TUTTI_ENCODING_MXFP4; e++)
        RANKS_EXPECT(strstr(tutti_error_message(), tutti_encoding_name((enum tutti_encoding)e)) !=
                     NULL);
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
    float x[8] = {0}, all[32];
    double d = 0;
    struct tutti_call_options options = no_options;
    options.encoding = "bfloat16/everywhere/required";
    RANKS_EXPECT(is_refused(tutti_allreduce_with(&d, &d, 1, TUTTI_FLOAT64, TUTTI_SUM, &options, comm),
                            TUTTI_UNSUPPORTED, "only float32"));
    RANKS_EXPECT(is_refused(tutti_allreduce_with(x, x, 8, TUTTI_FLOAT32, TUTTI_MAX, &options, comm),
                            TUTTI_UNSUPPORTED, "only sums and averages"));
    const size_t eights[] = {8, 8};
    options.encoding = "int8/everywhere/required";
    const enum tutti_status v_forms[] = {
        tutti_gatherv_with(x, 8, all, eights, NULL, TUTTI_FLOAT32, 0, &options, comm),
        tutti_scatterv_with(all, eights, NULL, x, 8, TUTTI_FLOAT32, 0, &options, comm)};
    for (int i = 0; i < 2; i++) RANKS_EXPECT(v_forms[i] == TUTTI_UNSUPPORTED);
    RANKS_EXPECT(is_refused(tutti_alltoallv_with(all, eights, NULL, all + 16, eights, NULL,
                                                 TUTTI_FLOAT32, &options, comm),
                            TUTTI_UNSUPPORTED,
                            "tutti_alltoall: options.encoding is \"int8/everywhere/required\": "
                            "ranks do not know each other's counts"));
    options.encoding = "bfloat16/everywhere/required";
    RANKS_EXPECT(is_refused(
        tutti_reduce_scatterv_with(all, x, eights, TUTTI_FLOAT32, TUTTI_MAX, &options, comm),
        TUTTI_UNSUPPORTED, "only sums and averages"));
    RANKS_EXPECT(is_refused(tutti_barrier_with(&options, comm), TUTTI_UNSUPPORTED,
                            "a barrier has no elements"));
    RANKS_EXPECT(is_refused(tutti_allgather_with(&d, all, 1, TUTTI_FLOAT64, &options, comm),
                            TUTTI_UNSUPPORTED, "only float32"));
    RANKS_EXPECT(is_refused(tutti_allgather_with(x, all, 8, TUTTI_BFLOAT16, &options, comm),
                            TUTTI_UNSUPPORTED, "only float32 can be encoded so"));
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

/* A list is encoded as if its tensors lay one after the other: it gets the bits of one buffer. */
static int units_go_over_the_seams(struct tutti_comm *comm, int rank, int size)
{
    enum { TENSORS = 200, ELEMENTS = 19 };
    static _Thread_local float whole[TENSORS * ELEMENTS], sums[TENSORS * ELEMENTS],
        parts[TENSORS][ELEMENTS + 1];
    struct tutti_tensor tensors[TENSORS];
    const struct tutti_list list = {tensors, TENSORS};
    static const char *const encodings[] = {"int8/everywhere/required",
                                            "mxfp4/everywhere/required"};
    for (int e = 0; e < 2; e++) {
        struct tutti_call_options options = no_options;
        options.encoding = encodings[e];
        for (int t = 0; t < TENSORS; t++) {
            tensors[t] = (struct tutti_tensor){parts[t], ELEMENTS};
            for (int i = 0; i < ELEMENTS; i++)
                whole[t * ELEMENTS + i] = parts[t][i] = value_of(rank, (size_t)(t * ELEMENTS + i));
            parts[t][ELEMENTS] = -5;
        }
        RANKS_EXPECT(tutti_allreduce_with(whole, sums, TENSORS * ELEMENTS, TUTTI_FLOAT32, TUTTI_AVG,
                                          &options, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce_list_with(&list, &list, TUTTI_FLOAT32, TUTTI_AVG, &options,
                                               comm) == TUTTI_OK);
        for (int t = 0; t < TENSORS; t++)
            RANKS_EXPECT(memcmp(parts[t], sums + t * ELEMENTS, ELEMENTS * sizeof(float)) == 0 &&
                         parts[t][ELEMENTS] == -5);
    }
    (void)size;
    return 0;
}

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
    return units_go_over_the_seams(comm, rank, size);
}

static void lists_of_tensors_are_encoded_as_one(void **state)
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
    RANKS_EXPECT(strstr(tutti_error_message(), "with the encoding") != NULL &&
                 strstr(tutti_error_message(), "bfloat16") != NULL &&
                 strstr(tutti_error_message(), " float16") != NULL);
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
        cmocka_unit_test(blocks_are_rounded_once_on_every_rank),
        cmocka_unit_test(blocks_of_any_count_are_rounded_once_on_every_rank),
        cmocka_unit_test(halves_are_encoded_in_less),
        cmocka_unit_test(rules_encode_by_size),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(what_cannot_be_encoded_is_refused),
        cmocka_unit_test(lists_of_tensors_are_encoded_as_one),
        cmocka_unit_test(ranks_that_ask_for_different_encodings_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
