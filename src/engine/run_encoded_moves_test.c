/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* Programs with encoded links that move blocks, or leave each sum on one rank: what is moved is
 * rounded once, bit for bit, on whichever rank it ends and over whichever links; in place, too, and
 * the rest of an input stays as it was. An owner that keeps its block unrounded is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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

enum { COUNT_MAX = 3001, PATIENCE = 20, LOOKS_MAX = 20000000 };

struct job {
    const struct algorithm *algorithm;
    int size, root;
    size_t count;
    bool varies; /* blocks have counts of their own, up to `count` */
    enum tutti_encoding encoding;
    enum tutti_dtype dtype; /* of 16 bits, values are powers of two */
    const int *places;
    const struct algo_levels *levels; /* or NULL */
    rounding_rule *rounding;          /* or NULL */
    bool in_place;
};

struct rank {
    unsigned char *send, *recv; /* blocks for all ranks each; in place the same memory */
    unsigned char *memory[2];
    size_t send_offset, recv_offset; /* in place: where the block begins that is given, or got */
    struct program *program;
    struct operation operation;
    bool done;
};

static bool is_rooted_at(const struct job *job, int rank)
{
    return collective_is_rooted(job->algorithm->collective) && rank == job->root;
}

static size_t blocks_sent(const struct job *job, int rank)
{
    return collective_blocks_sent(job->algorithm->collective, is_rooted_at(job, rank), job->size);
}

static size_t blocks_received(const struct job *job, int rank)
{
    return collective_blocks_received(job->algorithm->collective, is_rooted_at(job, rank),
                                      job->size);
}

/* ---------------------------------------------------------------------------------------- counts */

static size_t element_bytes(const struct job *job)
{
    return job->dtype == TUTTI_FLOAT32 ? sizeof(float) : 2;
}

/* Elements of the block from one rank to another, where the collective tells them apart. Ranks
 * exchange as many as they get, so that they can do so in place. */
static size_t count_between(const struct job *job, int from, int to)
{
    static const size_t shares[] = {1, 0, 1000000, 129, 64, 999, 3};
    const enum collective collective = job->algorithm->collective;
    if (!job->varies) return job->count;
    const size_t share = shares[(collective == COLLECTIVE_ALLTOALL ? from + to
                                 : collective_scatters(collective) ? to
                                                                   : from) %
                                7];
    return share < job->count ? share : job->count;
}

static size_t sent_count(const struct job *job, int rank, size_t block)
{
    return count_between(job, rank, (int)block);
}

static size_t received_count(const struct job *job, int rank, size_t block)
{
    return count_between(job, (int)block, rank);
}

/* Bytes of the first blocks. */
static size_t sent_bytes(const struct job *job, int rank, size_t blocks)
{
    size_t count = 0;
    for (size_t b = 0; b < blocks; b++) count += sent_count(job, rank, b);
    return count * element_bytes(job);
}

static size_t received_bytes(const struct job *job, int rank, size_t blocks)
{
    size_t count = 0;
    for (size_t b = 0; b < blocks; b++) count += received_count(job, rank, b);
    return count * element_bytes(job);
}

/* --------------------------------------------------------------------------------------- buffers */

/* Of element i of the block that a rank gives to another, or to all (0). */
static float number_of(const struct job *job, int rank, size_t block, size_t i)
{
    uint64_t mixed = ((i * 131 + block) * 31 + (uint64_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    const float number = (float)(int64_t)(mixed >> 40) / (float)(1 << 23) - 1;
    return job->dtype == TUTTI_FLOAT32 ? number
                                       : ldexpf(number < 0 ? -1.25f : 1.375f, (int)(mixed % 5));
}

static void fill_block(const struct job *job, int rank, size_t block, size_t count,
                       unsigned char *at)
{
    float numbers[COUNT_MAX];
    for (size_t i = 0; i < count; i++) numbers[i] = number_of(job, rank, block, i);
    if (job->dtype == TUTTI_FLOAT32)
        memcpy(at, numbers, count * sizeof *numbers);
    else
        assert_int_equal(tutti_encode(job->dtype == TUTTI_BFLOAT16 ? TUTTI_ENCODING_BFLOAT16
                                                                   : TUTTI_ENCODING_FLOAT16,
                                      TUTTI_FLOAT32, numbers, count, at),
                         TUTTI_OK);
}

/* The values of such a block after one encoding. */
static void fill_rounded(const struct job *job, int rank, size_t block, size_t count,
                         unsigned char *at)
{
    unsigned char encoded[COUNT_MAX * 4 + 256];
    fill_block(job, rank, block, count, at);
    assert_int_equal(tutti_encode(job->encoding, job->dtype, at, count, encoded), TUTTI_OK);
    assert_int_equal(tutti_decode(job->encoding, job->dtype, encoded, count, at), TUTTI_OK);
}

static void make_buffers(const struct job *job, int rank, struct rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const size_t bytes = ((size_t)job->size + 1) * job->count * element_bytes(job) + 64;
    for (int b = 0; b < 2; b++) {
        own->memory[b] = malloc(bytes);
        assert_non_null(own->memory[b]);
        memset(own->memory[b], 0x5a, bytes);
    }
    own->send = own->memory[0];
    own->recv = own->memory[1];
    if (job->in_place && blocks_sent(job, rank) > 0 && blocks_received(job, rank) > 0) {
        own->recv = own->send;
        if (collective_gathers(collective))
            own->send_offset = received_bytes(job, rank, (size_t)rank);
        if (collective_scatters(collective)) own->recv_offset = sent_bytes(job, rank, (size_t)rank);
    }
    for (size_t b = 0; b < blocks_sent(job, rank); b++)
        fill_block(job, rank, b, sent_count(job, rank, b),
                   own->send + own->send_offset + sent_bytes(job, rank, b));
}

/* Tells the program's counts to `options`, as a call of a v form does. */
static void vary(const struct job *job, int rank, size_t sent[ENGINE_RANKS_MAX],
                 size_t received[ENGINE_RANKS_MAX], struct bind_options *options)
{
    const size_t sends = blocks_sent(job, rank), receives = blocks_received(job, rank);
    if (!job->varies) return;
    for (size_t b = 0; b < sends; b++) sent[b] = sent_count(job, rank, b);
    for (size_t b = 0; b < receives; b++) received[b] = received_count(job, rank, b);
    if (sends > 1) options->input_counts = sent;
    if (receives > 1) options->output_counts = received;
    const bool is_scattered = collective_scatters(job->algorithm->collective);
    options->count = is_scattered ? received_count(job, rank, 0) : sent_count(job, rank, 0);
}

static void bind(const struct job *job, struct engine_net *net, int rank, struct rank *own)
{
    const bool in_place = own->send == own->recv;
    const struct algo_params params = {.collective = job->algorithm->collective,
                                       .rank_count = job->size,
                                       .root = job->root,
                                       .in_place = in_place,
                                       .encodes = true,
                                       .levels = job->levels};
    const struct kernel_set kernels = encoding_kernels(KERNEL_SCALAR, job->dtype);
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s: %s", job->algorithm->name, message);
    struct bind_options options = {.count = job->count,
                                   .dtype = job->dtype,
                                   .op = op_builtin(OP_SUM),
                                   .level = KERNEL_SCALAR,
                                   .in_place = in_place,
                                   .encoding = encoding_of(job->encoding, job->dtype),
                                   .places = job->places,
                                   .rounding = job->rounding,
                                   .encoding_kernels = &kernels};
    size_t sent[ENGINE_RANKS_MAX], received[ENGINE_RANKS_MAX];
    vary(job, rank, sent, received, &options);
    struct transport *transport = engine_net_transport(net, rank);
    bind_to_transport(&options, transport);
    if (bind_program(plan, &options, &own->program) != TUTTI_OK)
        fail_msg("%s of %s, %d ranks, %zu: %s", job->algorithm->name,
                 collective_name(job->algorithm->collective), job->size, job->count,
                 tutti_error_message());
    plan_rank_free(plan);
    assert_int_equal(program_open_links(own->program, transport, 0), TUTTI_OK);
}

static void run_all(const struct job *job, struct engine_net *net, struct rank *ranks)
{
    int left = job->size;
    for (int looks = 0; left > 0; looks++) {
        struct rank *own = &ranks[engine_net_draw(net) % (uint64_t)job->size];
        if (looks == LOOKS_MAX)
            fail_msg("%s of %s, %d ranks, root %d, %zu elements, %s%s: stuck", job->algorithm->name,
                     collective_name(job->algorithm->collective), job->size, job->root, job->count,
                     tutti_encoding_name(job->encoding), job->in_place ? ", in place" : "");
        if (own->done) continue;
        own->operation.must_not_spin = engine_net_draw(net) % 8 == 0;
        const enum run_result result = operation_run(&own->operation);
        if (result == RUN_FAULT) fail_msg("%s: a message made no sense", job->algorithm->name);
        if (result != RUN_DONE) continue;
        own->done = true;
        left--;
    }
}

/* ------------------------------------------------------------------------------------- expected */

/* The rank and the number there of the block that ends as output block b of a rank. */
static void find_owner(const struct job *job, int rank, size_t b, int *owner, size_t *block)
{
    *owner = job->root;
    *block = 0;
    switch (job->algorithm->collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: *owner = (int)b; break;
    case COLLECTIVE_SCATTER: *block = (size_t)rank; break;
    case COLLECTIVE_ALLTOALL: *owner = (int)b, *block = (size_t)rank; break;
    default: break;
    }
}

static bool is_moved_right(const struct job *job, const struct rank *own, int rank)
{
    unsigned char expected[COUNT_MAX * sizeof(float)];
    for (size_t b = 0; b < blocks_received(job, rank); b++) {
        int owner;
        size_t block;
        const size_t count = received_count(job, rank, b);
        find_owner(job, rank, b, &owner, &block);
        fill_rounded(job, owner, block, count, expected);
        if (memcmp(own->recv + own->recv_offset + received_bytes(job, rank, b), expected,
                   count * element_bytes(job)) != 0)
            return false;
    }
    return true;
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

static bool is_sum_right(const struct job *job, const struct rank *own, int rank)
{
    const bool is_scattered = job->algorithm->collective == COLLECTIVE_REDUCE_SCATTER;
    const size_t block = is_scattered ? (size_t)rank : 0;
    const size_t count = blocks_received(job, rank) > 0 ? received_count(job, rank, 0) : 0;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        float found;
        for (int r = 0; r < job->size; r++) sum += number_of(job, r, block, i);
        memcpy(&found, own->recv + own->recv_offset + i * sizeof found, sizeof found);
        if (fabs(sum - (double)found) > job->size * (job->size + 1) * error_of(job->encoding))
            return false;
    }
    return true;
}

/* A rank's blocks for others are as it gave them, unless results lie there; the same of all that is
 * no rank's. */
static bool is_left_alone(const struct job *job, const struct rank *own, int rank)
{
    unsigned char given[COUNT_MAX * sizeof(float)];
    for (size_t b = 0; own->send != own->recv && b < blocks_sent(job, rank); b++) {
        const size_t count = sent_count(job, rank, b);
        fill_block(job, rank, b, count, given);
        if (memcmp(own->send + sent_bytes(job, rank, b), given, count * element_bytes(job)) != 0)
            return false;
    }
    const size_t sends = sent_bytes(job, rank, blocks_sent(job, rank)),
                 receives = received_bytes(job, rank, blocks_received(job, rank));
    const size_t end = own->send == own->recv && sends > receives ? sends : receives;
    for (size_t i = 0; i < 64; i++)
        if (own->recv[end + i] != 0x5a) return false;
    return true;
}

/* Returns whether every rank has what it should have. */
static bool run(const struct job *job, struct engine_mood mood, uint64_t seed)
{
    struct rank ranks[ENGINE_RANKS_MAX] = {0};
    struct engine_net *net = engine_net_create(job->size, mood, seed);
    for (int r = 0; r < job->size; r++) {
        operation_init(&ranks[r].operation, PATIENCE);
        make_buffers(job, r, &ranks[r]);
        bind(job, net, r, &ranks[r]);
        const struct buffer input = {.base = (char *)ranks[r].send + ranks[r].send_offset},
                            output = {.base = (char *)ranks[r].recv + ranks[r].recv_offset};
        assert_int_equal(operation_prepare(&ranks[r].operation, ranks[r].program,
                                           engine_net_transport(net, r), 0, &input, &output),
                         TUTTI_OK);
        operation_open(&ranks[r].operation, 1);
    }
    run_all(job, net, ranks);
    bool right = true;
    for (int r = 0; r < job->size; r++) {
        right &= collective_reduces(job->algorithm->collective) ? is_sum_right(job, &ranks[r], r)
                                                                : is_moved_right(job, &ranks[r], r);
        right &= is_left_alone(job, &ranks[r], r);
        operation_release(&ranks[r].operation);
        program_free(ranks[r].program);
        free(ranks[r].memory[0]);
        free(ranks[r].memory[1]);
    }
    engine_net_free(net);
    return right;
}

static void expect_right(const struct job *job, struct engine_mood mood, uint64_t seed)
{
    if (!run(job, mood, seed))
        fail_msg("%s of %s, %d ranks, root %d, %zu elements, %s%s, seed %llu: wrong",
                 job->algorithm->name, collective_name(job->algorithm->collective), job->size,
                 job->root, job->count, tutti_encoding_name(job->encoding),
                 job->in_place ? ", in place" : "", (unsigned long long)seed);
}

/* ---------------------------------------------------------------------------------------- tests */

static const size_t counts[] = {1, 129, 1024, COUNT_MAX};
enum { COUNTS = sizeof counts / sizeof *counts };

static struct engine_mood mood_of(uint64_t seed)
{
    static const enum link_reach reaches[] = {REACH_NONE, REACH_READ, REACH_COPY};
    return (struct engine_mood){.piece_bytes = seed % 2 == 0 ? 8192 : 16384,
                                .pieces = 1 + (unsigned)(seed % 4),
                                .delay = 1 + (unsigned)(seed % 3),
                                .reach = reaches[seed % 3],
                                .fetch_bytes = 20480, /* whole units of all encodings */
                                .expects = seed % 5 == 0,
                                .shares = seed % 7 < 3 ? 0 : 1 + (unsigned)(seed % 3)};
}

/* As choose.c does it. */
static bool takes(const struct algorithm *algorithm, enum tutti_encoding encoding, size_t count,
                  bool varies)
{
    const unsigned unit = encoding_unit_elements(encoding);
    if (algorithm->collective == COLLECTIVE_ALLREDUCE || algorithm->collective == COLLECTIVE_BARRIER)
        return false;
    if (varies) {
        if (algorithm->collective == COLLECTIVE_BROADCAST ||
            algorithm->collective == COLLECTIVE_REDUCE)
            return false;
        if (!collective_knows_all_counts(algorithm->collective) &&
            (!algorithm->is_direct || unit > 1))
            return false;
    }
    return unit == 1 ||
           ((!collective_reduces(algorithm->collective) || algorithm->sends_to_owners) &&
            ((count % unit == 0 && !varies) || algorithm->keeps_units));
}

static int root_of(const struct algorithm *algorithm, int size, uint64_t seed)
{
    return collective_is_rooted(algorithm->collective) ? (int)(seed % (uint64_t)size) : 0;
}

static void run_with_all_links_encoded(bool varies)
{
    static const int places[ENGINE_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT16};
    uint64_t seed = 0;
    int runs = 0;
    for (int a = 0; a < algo_count; a++)
        for (int e = 1; e < ENCODING_COUNT; e++)
            for (int size = 2; size <= ENGINE_RANKS_MAX; size += 1 + (int)(seed % 2)) {
                const struct algorithm *algorithm = &algo_list[a];
                const enum tutti_encoding encoding = (enum tutti_encoding)e;
                const enum tutti_dtype dtype = dtypes[++seed % 3];
                const struct job job = {.algorithm = algorithm,
                                        .size = size,
                                        .root = root_of(algorithm, size, seed),
                                        .count = counts[seed % COUNTS],
                                        .varies = varies,
                                        .encoding = encoding,
                                        .dtype = encoding_takes(encoding, dtype) &&
                                                         !collective_reduces(algorithm->collective)
                                                     ? dtype
                                                     : TUTTI_FLOAT32,
                                        .places = places,
                                        .in_place = seed % 2 == 0};
                if (!takes(algorithm, encoding, job.count, varies) ||
                    !algo_supports(algorithm, size))
                    continue;
                expect_right(&job, mood_of(seed), seed);
                runs++;
            }
    assert_true(runs > 100);
}

static void blocks_are_alike_with_all_links_encoded(void **state)
{
    (void)state;
    run_with_all_links_encoded(false);
}

static void blocks_of_different_counts_are_alike_with_all_links_encoded(void **state)
{
    (void)state;
    run_with_all_links_encoded(true);
}

static const struct host_shape shapes[] = {
    {.hosts = {1, 1}},
    {.hosts = {2, 2}},
    {.hosts = {2, 1, 3}},
    {.hosts = {4, 4}},
    {.hosts = {3, 2, 3}},
    {.hosts = {2, 2, 2, 2}, .racks = {2, 2}},
    {.hosts = {1, 2, 2, 1, 2}, .racks = {2, 3}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void run_with_links_between_hosts_encoded(bool varies)
{
    uint64_t seed = 1000;
    for (int e = 1; e < ENCODING_COUNT; e++)
        for (int a = 0; a < algo_count; a++)
            for (int s = 0; s < SHAPES; s++) {
                struct host_map map;
                seed++;
                host_map_init(&map, &shapes[s], (enum numbering)(seed % NUMBERING_COUNT),
                              (uint32_t)s);
                const bool by_rack = map.levels.level_count > 1 && seed % 2 == 0;
                const struct algorithm *algorithm = &algo_list[a];
                const struct job job = {.algorithm = algorithm,
                                        .size = map.rank_count,
                                        .root = root_of(algorithm, map.rank_count, seed),
                                        .count = counts[seed / 2 % COUNTS],
                                        .varies = varies,
                                        .encoding = (enum tutti_encoding)e,
                                        .dtype = TUTTI_FLOAT32,
                                        .places = by_rack ? map.rack_of : map.host_of,
                                        .levels = &map.levels,
                                        .in_place = seed % 3 == 0};
                struct engine_mood mood = mood_of(seed);
                mood.host_of = map.host_of;
                if (takes(algorithm, job.encoding, job.count, varies) &&
                    algo_supports_levels(algorithm, map.rank_count))
                    expect_right(&job, mood, seed);
            }
}

static void blocks_are_alike_with_links_between_hosts_encoded(void **state)
{
    (void)state;
    run_with_links_between_hosts_encoded(false);
}

static void blocks_of_different_counts_are_alike_with_links_between_hosts_encoded(void **state)
{
    (void)state;
    run_with_links_between_hosts_encoded(true);
}

/* --------------------------------------------------------------------------------- planted bugs */

static bool never(const struct rank_plan *rank_plan, uint32_t step, const int *places, bool in_place)
{
    (void)rank_plan, (void)step, (void)places, (void)in_place;
    return false;
}

static void an_owner_that_keeps_its_block_unrounded_is_found(void **state)
{
    (void)state;
    static const int places[ENGINE_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    int tried = 0;
    for (int a = 0; a < algo_count; a++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const struct algorithm *algorithm = &algo_list[a];
            struct job job = {.algorithm = algorithm,
                              .size = 5,
                              .count = 1000,
                              .encoding = TUTTI_ENCODING_BFLOAT16,
                              .dtype = TUTTI_FLOAT32,
                              .places = places,
                              .in_place = in_place != 0};
            if (!takes(algorithm, job.encoding, job.count, false) ||
                collective_reduces(algorithm->collective) || !algo_supports(algorithm, job.size))
                continue;
            assert_true(run(&job, mood_of(1), 1));
            job.rounding = never;
            assert_false(run(&job, mood_of(1), 1));
            tried++;
        }
    assert_true(tried >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_alike_with_all_links_encoded),
        cmocka_unit_test(blocks_are_alike_with_links_between_hosts_encoded),
        cmocka_unit_test(blocks_of_different_counts_are_alike_with_all_links_encoded),
        cmocka_unit_test(blocks_of_different_counts_are_alike_with_links_between_hosts_encoded),
        cmocka_unit_test(an_owner_that_keeps_its_block_unrounded_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
