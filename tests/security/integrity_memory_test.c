/* Bits that flip in memory which the ranks of a host share, between the sender's store and the
 * reader's look: one rank calls, changes what it has just sent where that lies in the segment, and
 * only then lets the others call.
 *
 * ctest: timeout=120 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/call.h"
#include "tests/kit/patient.h"
#include "tests/worlds/ranks.h"
#include "tutti/tutti.h"

enum { CULPRIT = 1, PATTERN_BYTES = 32, BUFFER_BYTES = 1 << 16 };

/* How much of what was sent changes: its first copy, or all that is there. */
enum change { CHANGE_NOTHING, CHANGE_FIRST, CHANGE_ALL };

/* ------------------------------------------------------------------------------- in the segment */

struct changer {
    unsigned char pattern[PATTERN_BYTES];
    enum change change;
    unsigned changed; /* places */
};

static void change_range(struct changer *changer, int fd, off_t begin, off_t end)
{
    unsigned char *const bytes = malloc((size_t)(end - begin));
    if (bytes == NULL || pread(fd, bytes, (size_t)(end - begin), begin) != end - begin) abort();
    const unsigned char *next = bytes, *const last = bytes + (end - begin);
    while (changer->change == CHANGE_ALL || changer->changed == 0) {
        next = memmem(next, (size_t)(last - next), changer->pattern, PATTERN_BYTES);
        if (next == NULL) break;
        const unsigned char other = *next ^ 1;
        if (pwrite(fd, &other, 1, begin + (next - bytes)) != 1) abort();
        changer->changed++;
        next += PATTERN_BYTES;
    }
    free(bytes);
}

static void change_segment(struct changer *changer, int fd)
{
    off_t end, begin = lseek(fd, 0, SEEK_DATA);
    for (; begin >= 0; begin = lseek(fd, end, SEEK_DATA)) {
        end = lseek(fd, begin, SEEK_HOLE);
        change_range(changer, fd, begin, end);
    }
}

/* Flips a bit wherever the pattern lies in memory of communicators. */
static void change_sent(struct changer *changer)
{
    DIR *const folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (changer->change != CHANGE_NOTHING && (entry = readdir(folder)) != NULL) {
        char name[64] = "";
        (void)!readlinkat(dirfd(folder), entry->d_name, name, sizeof name - 1);
        if (strncmp(name, "/memfd:tutti-segment", strlen("/memfd:tutti-segment")) == 0)
            change_segment(changer, atoi(entry->d_name));
    }
    closedir(folder);
}

/* ---------------------------------------------------------------------------------------- calls */

/* One call; a point to point message where `collective` is COLLECTIVE_COUNT. */
struct round {
    enum collective collective;
    enum tutti_dtype dtype;
    size_t count;
    bool started;
    enum change change;
    int value; /* of the culprit's elements, never the same twice; all others are 0 */
};

struct world {
    struct tutti_comm *comm, *beside; /* without integrity, to wait for each other */
    int rank, size;
    unsigned char *send, *recv;
};

static size_t element_bytes(enum tutti_dtype dtype)
{
    return dtype == TUTTI_UINT8 ? 1 : dtype == TUTTI_FLOAT32 ? 4 : 8;
}

static void fill(void *memory, enum tutti_dtype dtype, int value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (dtype) {
        case TUTTI_UINT8: ((uint8_t *)memory)[i] = (uint8_t)value; break;
        case TUTTI_FLOAT32: ((float *)memory)[i] = (float)value; break;
        default: ((int64_t *)memory)[i] = value;
        }
    }
}

static bool has_root(enum collective collective)
{
    return collective == COLLECTIVE_BROADCAST || collective == COLLECTIVE_SCATTER;
}

/* Whether what comes in that block is the culprit's, or reduced from it. */
static bool is_of_culprit(enum collective collective, size_t block)
{
    switch (collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return block == CULPRIT;
    default: return true;
    }
}

static size_t count_wrong(const struct world *world, const struct round *round, size_t blocks)
{
    const size_t bytes = round->count * element_bytes(round->dtype);
    unsigned char *const expected = malloc(bytes);
    size_t wrong = 0;
    for (size_t b = 0; b < blocks; b++) {
        fill(expected, round->dtype, is_of_culprit(round->collective, b) ? round->value : 0,
             round->count);
        for (size_t i = 0; i < bytes; i++) wrong += world->recv[b * bytes + i] != expected[i];
    }
    free(expected);
    return wrong;
}

static enum tutti_status call(const struct world *world, const struct round *round,
                              struct tutti_request **request)
{
    const struct test_call what = {.collective = round->collective,
                                   .send = world->send,
                                   .recv = world->recv,
                                   .count = round->count,
                                   .dtype = round->dtype,
                                   .op = TUTTI_SUM,
                                   .root = has_root(round->collective) ? CULPRIT : 0};
    if (round->collective != COLLECTIVE_COUNT)
        return round->started ? test_call_start(&what, world->comm, request)
                              : test_call_plain(&what, world->comm);
    if (world->rank == CULPRIT)
        return tutti_send(world->send, round->count, round->dtype, 0, 5, world->comm);
    if (world->rank == 0)
        return tutti_recv(world->recv, round->count, round->dtype, CULPRIT, 5, NULL, world->comm);
    return TUTTI_OK;
}

static size_t recv_blocks(const struct world *world, const struct round *round)
{
    if (round->collective == COLLECTIVE_COUNT) return world->rank == 0;
    return test_recv_blocks(round->collective, world->rank, world->size,
                            has_root(round->collective) ? CULPRIT : 0);
}

/* The culprit is through with it, or has sent what it can, before anybody looks. *changed:
 * places. */
static enum tutti_status run(const struct world *world, const struct round *round, unsigned *changed)
{
    struct tutti_request *request = NULL;
    struct changer changer = {.change = round->change};
    fill(changer.pattern, round->dtype, round->value, PATTERN_BYTES / element_bytes(round->dtype));
    fill(world->send, round->dtype, world->rank == CULPRIT ? round->value : 0,
         round->count * (size_t)world->size);
    memset(world->recv, 0xff, BUFFER_BYTES);
    enum tutti_status status = TUTTI_OK;
    if (world->rank == CULPRIT) {
        status = call(world, round, &request);
        change_sent(&changer);
    }
    const enum tutti_status met = tutti_barrier(world->beside);
    if (world->rank != CULPRIT) status = call(world, round, &request);
    if (request != NULL) status = tutti_wait(&request);
    *changed = changer.changed;
    return met != TUTTI_OK ? met : status;
}

/* --------------------------------------------------------------------------------------- rounds */

/* All that a culprit can send before others look; true: the next one. */
static bool next_round(struct round *round)
{
    static const enum tutti_dtype dtypes[] = {TUTTI_UINT8, TUTTI_FLOAT32, TUTTI_INT64};
    static const size_t bytes[] = {96, 6000};
    const int forms = 2, sizes = 2, kinds = 3, calls = COLLECTIVE_COUNT + 1;
    for (int i = round->value; i < forms * sizes * kinds * calls; i++) {
        const int c = i / (forms * sizes * kinds);
        round->value = i + 1;
        round->started = i % forms == 1;
        round->dtype = dtypes[i / forms / sizes % kinds];
        round->count = bytes[i / forms % sizes] / element_bytes(round->dtype);
        round->collective = (enum collective)c;
        const bool is_one_way = has_root(round->collective) || c == COLLECTIVE_GATHER ||
                                c == COLLECTIVE_REDUCE || c == COLLECTIVE_COUNT;
        if (c != COLLECTIVE_BARRIER && (round->started ? c != COLLECTIVE_COUNT : is_one_way))
            return true;
    }
    return false;
}

static enum tutti_status open_world(struct world *world, struct tutti_comm *comm)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.integrity = TUTTI_INTEGRITY_OFF;
    *world = (struct world){.comm = comm,
                            .rank = tutti_comm_rank(comm),
                            .size = tutti_comm_size(comm),
                            .send = malloc(3 * BUFFER_BYTES),
                            .recv = malloc(3 * BUFFER_BYTES)};
    if (world->send == NULL || world->recv == NULL) return TUTTI_NO_MEMORY;
    return tutti_comm_dup(comm, &options, &world->beside);
}

static enum tutti_status close_world(struct world *world)
{
    free(world->send);
    free(world->recv);
    return tutti_comm_free(world->beside);
}

/* *context: whether what changes is to show. */
static int call_over_changes(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)size, (void)seed;
    const bool shows = *(const bool *)context;
    struct round round = {.change = CHANGE_FIRST};
    struct world world;
    RANKS_EXPECT(open_world(&world, comm) == TUTTI_OK);
    while (next_round(&round)) {
        unsigned changed;
        RANKS_EXPECT(run(&world, &round, &changed) == TUTTI_OK);
        int64_t wrong = (int64_t)count_wrong(&world, &round, recv_blocks(&world, &round));
        RANKS_EXPECT(rank != CULPRIT || changed == 1);
        RANKS_EXPECT(tutti_allreduce(&wrong, &wrong, 1, TUTTI_INT64, TUTTI_SUM, world.beside) ==
                     TUTTI_OK);
        if ((wrong > 0) != shows)
            fprintf(stderr, "%s, dtype %d, %zu elements, %s: %lld bytes are wrong\n",
                    round.collective < COLLECTIVE_COUNT ? collective_name(round.collective) : "send",
                    (int)round.dtype, round.count, round.started ? "started" : "blocking",
                    (long long)wrong);
        RANKS_EXPECT((wrong > 0) == shows);
    }
    RANKS_EXPECT(close_world(&world) == TUTTI_OK);
    return 0;
}

/* *context: the round, in which both copies change. */
static int call_until_corrupt(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed;
    struct world world;
    unsigned changed;
    RANKS_EXPECT(open_world(&world, comm) == TUTTI_OK);
    enum tutti_status status = run(&world, context, &changed);
    RANKS_EXPECT(rank != CULPRIT || changed >= 2);
    if (status == TUTTI_OK) status = tutti_barrier(comm); /* who had nothing to wait for */
    RANKS_EXPECT(status == TUTTI_CORRUPT);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_CORRUPT && failure.culprit == CULPRIT);
    RANKS_EXPECT(strstr(failure.message, "rank 1 ") != NULL &&
                 strstr(failure.message, "changed") != NULL);
    RANKS_EXPECT(close_world(&world) == TUTTI_OK);
    return 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static int run_with(int size, enum ranks_kind kind, enum tutti_integrity integrity,
                    ranks_function *function, void *context)
{
    struct tutti_comm_options comm_options = patient;
    comm_options.integrity = integrity;
    const struct ranks_options options = {.kind = kind, .comm_options = &comm_options};
    return ranks_run(size, &options, function, context);
}

static void a_flipped_bit_is_mended_in_all_calls(void **state)
{
    (void)state;
    bool shows = false;
    for (int size = 2; size <= 3; size++) {
        assert_int_equal(
            run_with(size, RANKS_PROCESSES, TUTTI_INTEGRITY_ON, call_over_changes, &shows), 0);
        assert_int_equal(
            run_with(size, RANKS_THREADS, TUTTI_INTEGRITY_ON, call_over_changes, &shows), 0);
    }
}

static void it_goes_through_where_nobody_looks(void **state)
{
    (void)state;
    bool shows = true;
    assert_int_equal(
        run_with(2, RANKS_PROCESSES, TUTTI_INTEGRITY_NETWORK, call_over_changes, &shows), 0);
}

static void two_changed_copies_are_corruption_on_all_ranks(void **state)
{
    (void)state;
    struct round rounds[] = {
        {COLLECTIVE_ALLREDUCE, TUTTI_FLOAT32, 5000, true, CHANGE_ALL, 77},
        {COLLECTIVE_ALLTOALL, TUTTI_INT64, 4, true, CHANGE_ALL, 77},
        {COLLECTIVE_BROADCAST, TUTTI_UINT8, 32, false, CHANGE_ALL, 77},
        {COLLECTIVE_COUNT, TUTTI_UINT8, 3000, false, CHANGE_ALL, 77},
    };
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++)
        for (int size = 2; size <= 4; size += 2)
            assert_int_equal(
                run_with(size, RANKS_PROCESSES, TUTTI_INTEGRITY_ON, call_until_corrupt, &rounds[i]),
                0);
}

int main(void)
{
    setenv("TUTTI_LOG", "off", 1);
    /* In which every rank sends something in every call. */
    setenv("TUTTI_ALGORITHMS",
           "allreduce=twoshot;reduce=direct;broadcast=direct;gather=direct;scatter=direct;"
           "allgather=direct;reduce_scatter=direct;alltoall=direct;barrier=mesh",
           1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_is_mended_in_all_calls),
        cmocka_unit_test(it_goes_through_where_nobody_looks),
        cmocka_unit_test(two_changed_copies_are_corruption_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
