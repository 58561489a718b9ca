/* checkpoint_test.c - what ranks save, any other ranks load: the state of the moment at which they
 * saved. Mistakes, and files that are damaged, end in one status on all ranks, which names rank and
 * file. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/shards.h"

enum { TENSORS = 4, ROWS = 37, COLUMNS = 53, DEPTH = 5, LARGE = 40000 };

static char folder[SCRATCH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    scratch_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

/* -------------------------------------------------------------------------------------- tensors */

struct whole {
    const char *name;
    enum tutti_dtype dtype;
    int dims;
    size_t shape[3];
};
static const struct whole wholes[TENSORS] = {{"matrix", TUTTI_FLOAT32, 2, {ROWS, COLUMNS}},
                                             {"cube", TUTTI_FLOAT64, 3, {ROWS, DEPTH, COLUMNS}},
                                             {"row", TUTTI_UINT8, 1, {LARGE}},
                                             {"counter", TUTTI_INT64, 1, {1}}};

static size_t element_bytes(size_t t)
{
    return tutti_dtype_size(wholes[t].dtype);
}

static size_t count_of(size_t t)
{
    size_t count = 1;
    for (int d = 0; d < wholes[t].dims; d++) count *= wholes[t].shape[d];
    return count;
}

/* Of an element at a step, all of its bytes. */
static unsigned char byte_of(size_t t, size_t place, size_t byte, uint64_t step)
{
    return (unsigned char)elements_mixed(t * 1000 + step, place * 8 + byte);
}

enum layout { ALL_HAVE_ALL, BY_ROWS, BY_COLUMNS, AS_ONE_ROW, MIXED, LAYOUTS };

/* A part of this rank, with its memory. */
static struct tutti_checkpoint_tensor part_of(enum layout layout, size_t t, int rank, int size)
{
    const struct whole *const whole = &wholes[t];
    const size_t n = (size_t)size, r = (size_t)rank;
    struct tutti_checkpoint_tensor part = {whole->name, whole->dtype, whole->dims, {0}, {0}, {0}, 0,
                                           0,           NULL};
    for (int d = 0; d < whole->dims; d++) part.shape[d] = part.extent[d] = whole->shape[d];
    const int last = whole->dims - 1;
    const int cut = layout == BY_ROWS ? 0 : layout == BY_COLUMNS || layout == MIXED ? last : -1;
    /* Mixed: pairs of ranks have a slice together, as ZeRO divides it; one more rank has a slice of
     * its own. */
    const size_t slices = layout == MIXED ? (n + 1) / 2 : n, slice = layout == MIXED ? r / 2 : r;
    if (cut >= 0 && whole->shape[cut] >= n) {
        part.first[cut] = whole->shape[cut] * slice / slices;
        part.extent[cut] = whole->shape[cut] * (slice + 1) / slices - part.first[cut];
    }
    size_t elements = 1;
    for (int d = 0; d < whole->dims; d++) elements *= part.extent[d];
    part.count = elements;
    if (layout == AS_ONE_ROW) {
        part.begin = elements * r / n;
        part.count = elements * (r + 1) / n - part.begin;
    }
    if (layout == MIXED && 2 * slice + 1 < n) {
        part.begin = r % 2 == 0 ? 0 : elements / 3;
        part.count = r % 2 == 0 ? elements / 3 : elements - elements / 3;
    }
    part.data = calloc(part.count + 1, element_bytes(t));
    return part;
}

/* Where an element of the part is in the whole tensor. */
static size_t place_of(const struct tutti_checkpoint_tensor *part, size_t index)
{
    size_t place = 0, stride = 1;
    index += part->begin;
    for (int d = part->dims - 1; d >= 0; d--) {
        place += (part->first[d] + index % part->extent[d]) * stride;
        index /= part->extent[d];
        stride *= part->shape[d];
    }
    return place;
}

static void fill(const struct tutti_checkpoint_tensor *part, size_t t, uint64_t step)
{
    unsigned char *at = part->data;
    for (size_t i = 0; i < part->count; i++)
        for (size_t b = 0; b < element_bytes(t); b++)
            *at++ = byte_of(t, place_of(part, i), b, step);
}

static bool is_filled(const struct tutti_checkpoint_tensor *part, size_t t, uint64_t step)
{
    const unsigned char *at = part->data;
    for (size_t i = 0; i < part->count; i++)
        for (size_t b = 0; b < element_bytes(t); b++)
            if (*at++ != byte_of(t, place_of(part, i), b, step)) return false;
    return true;
}

struct parts {
    struct tutti_checkpoint_tensor tensors[TENSORS];
};

static struct parts make_parts(enum layout layout, int rank, int size, uint64_t step)
{
    struct parts parts;
    for (size_t t = 0; t < TENSORS; t++) {
        parts.tensors[t] = part_of(layout, t, rank, size);
        if (step > 0) fill(&parts.tensors[t], t, step);
    }
    return parts;
}

static void free_parts(struct parts *parts)
{
    for (size_t t = 0; t < TENSORS; t++) free(parts->tensors[t].data);
}

/* ------------------------------------------------------------------------------ any other ranks */

static int save(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const enum layout layout = *(const enum layout *)context;
    struct tutti_checkpoints *checkpoints;
    struct parts parts = make_parts(layout, rank, size, 7);
    (void)seed;
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 7, parts.tensors, TENSORS) == TUTTI_OK);
    for (size_t t = 0; t < TENSORS; t++) fill(&parts.tensors[t], t, 8); /* training goes on */
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    free_parts(&parts);
    return 0;
}

static int load(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const enum layout layout = *(const enum layout *)context;
    struct tutti_checkpoints *checkpoints;
    struct parts parts = make_parts(layout, rank, size, 0);
    uint64_t steps[2];
    size_t count;
    (void)seed;
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_list(checkpoints, steps, 2, &count) == TUTTI_OK);
    RANKS_EXPECT(count == 1 && steps[0] == 7);
    RANKS_EXPECT(tutti_checkpoints_load(checkpoints, 7, parts.tensors, TENSORS) == TUTTI_OK);
    for (size_t t = 0; t < TENSORS; t++) RANKS_EXPECT(is_filled(&parts.tensors[t], t, 7));
    /* One alone, too. */
    memset(parts.tensors[1].data, 0, parts.tensors[1].count * element_bytes(1));
    RANKS_EXPECT(tutti_checkpoints_load(checkpoints, 7, &parts.tensors[1], 1) == TUTTI_OK);
    RANKS_EXPECT(is_filled(&parts.tensors[1], 1, 7));
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    free_parts(&parts);
    return 0;
}

static void any_ranks_load_what_others_saved(void **state)
{
    (void)state;
    const bool is_long = getenv("TUTTI_LONG") != NULL;
    for (enum layout from = 0; from < LAYOUTS; from++) {
        const int savers = is_long || from == ALL_HAVE_ALL || from == MIXED ? 3 : 1 + (int)from;
        scratch_remove(folder);
        scratch_make(folder);
        assert_int_equal(ranks_run(savers, NULL, save, &from), 0);
        for (enum layout to = 0; to < LAYOUTS; to++) {
            if (!is_long && (from + to) % 2 == 1) continue;
            assert_int_equal(ranks_run(1 + (int)(from + to) % 4, NULL, load, &to), 0);
        }
    }
}

/* Elements that several ranks have are written once. */
static int write_once(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_checkpoints *checkpoints;
    struct tutti_checkpoints_counters counters = {.size_bytes = sizeof counters};
    struct parts parts = make_parts(ALL_HAVE_ALL, rank, size, 1);
    (void)context;
    (void)seed;
    uint64_t all = 0, most = 0;
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 1, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_wait(checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_count(checkpoints, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.saved == 1 && counters.written_ns > 0);
    const uint64_t copied = counters.copy_bytes;
    RANKS_EXPECT(tutti_allreduce(&copied, &all, 1, TUTTI_UINT64, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&copied, &most, 1, TUTTI_UINT64, TUTTI_MAX, comm) == TUTTI_OK);
    uint64_t expected = 0;
    for (size_t t = 0; t < TENSORS; t++) expected += count_of(t) * element_bytes(t);
    RANKS_EXPECT(all == expected);
    RANKS_EXPECT(most < expected); /* the cube is cut; the others go around */
    RANKS_EXPECT(counters.bytes > copied && counters.bytes < copied + 4096);
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    free_parts(&parts);
    return 0;
}

static void elements_are_written_once(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, write_once, NULL), 0);
}

/* ------------------------------------------------------------------------------ which ones stay */

static bool has_steps(struct tutti_checkpoints *checkpoints, size_t wanted, uint64_t newest)
{
    uint64_t steps[8];
    size_t count;
    if (tutti_checkpoints_list(checkpoints, steps, 8, &count) != TUTTI_OK) return false;
    return count == wanted && (count == 0 || steps[0] == newest);
}

static int keep(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_checkpoints *checkpoints, *other;
    struct tutti_checkpoints_options options = TUTTI_CHECKPOINTS_OPTIONS_INIT;
    struct parts parts = make_parts(BY_ROWS, rank, size, 1);
    (void)context;
    (void)seed;
    options.keep = 2;
    RANKS_EXPECT(tutti_checkpoints_open(folder, &options, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(has_steps(checkpoints, 0, 0));
    for (uint64_t step = 10; step <= 30; step += 10)
        RANKS_EXPECT(tutti_checkpoints_save(checkpoints, step, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(has_steps(checkpoints, 2, 30));
    /* A step has one checkpoint. An older step than others may have one, and the others stay. */
    RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 30, parts.tensors, TENSORS) ==
                 TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "has a checkpoint of step 30 already") != NULL);
    RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 25, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(has_steps(checkpoints, 3, 30));
    /* One run at a time writes. */
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &other) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(other, 40, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_wait(other) == TUTTI_SYSTEM);
    RANKS_EXPECT(strstr(tutti_error_message(), "another run writes checkpoints there") != NULL);
    RANKS_EXPECT(has_steps(other, 3, 30)); /* that was told already */
    RANKS_EXPECT(tutti_checkpoints_load(other, 25, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_close(other) == TUTTI_OK);
    /* It can learn that before it trains. */
    options.lock = 1;
    RANKS_EXPECT(tutti_checkpoints_open(folder, &options, comm, &other) == TUTTI_SYSTEM);
    RANKS_EXPECT(strstr(tutti_error_message(), "another run writes checkpoints there") != NULL);
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_open(folder, &options, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 40, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    free_parts(&parts);
    return 0;
}

static void newest_ones_stay(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, keep, NULL), 0);
}

/* ------------------------------------------------------------------------------------- mistakes */

/* All ranks get this status, with these words, from a call of which only rank 1's tensors were
 * changed. */
#define EXPECT_ALL(call, status, words)                               \
    do {                                                              \
        RANKS_EXPECT((call) == (status));                             \
        RANKS_EXPECT(strstr(tutti_error_message(), (words)) != NULL); \
    } while (0)

/* Between the ends of a group, where exchanges would only start. */
static int refuse_in_group(struct tutti_checkpoints *c, struct tutti_comm *comm, int rank,
                           const struct parts *parts)
{
    struct tutti_checkpoints *another;
    uint64_t steps[1];
    size_t count;
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    EXPECT_ALL(tutti_checkpoints_open(folder, NULL, comm, &another), TUTTI_INVALID_REQUEST,
               "tutti_checkpoints_open: must not be called between tutti_group_begin");
    EXPECT_ALL(tutti_checkpoints_save(c, 1, parts->tensors, TENSORS), TUTTI_INVALID_REQUEST,
               "tutti_checkpoints_save: must not be called between");
    EXPECT_ALL(tutti_checkpoints_load(c, 1, parts->tensors, TENSORS), TUTTI_INVALID_REQUEST,
               "tutti_checkpoints_load: must not be called between");
    EXPECT_ALL(tutti_checkpoints_list(c, steps, 1, &count), TUTTI_INVALID_REQUEST,
               "tutti_checkpoints_list: must not be called between");
    RANKS_EXPECT(another == NULL && count == 0 && tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_list(c, steps, 1, &count) == TUTTI_OK && count == 0);
    return 0;
}

static int refuse(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_checkpoints *c;
    struct parts good = make_parts(BY_ROWS, rank, size, 1), bad = good;
    struct tutti_checkpoint_tensor *const changed = &bad.tensors[0];
    struct tutti_checkpoints_options options = TUTTI_CHECKPOINTS_OPTIONS_INIT;
    char path[96];
    (void)context;
    (void)seed;
    options.keep = rank == 1 ? 0 : 1;
    EXPECT_ALL(tutti_checkpoints_open(folder, &options, comm, &c), TUTTI_INVALID_OPTIONS,
               "options.keep must be 1 to 1000000, is 0 on rank 1");
    options.keep = 1 + rank;
    EXPECT_ALL(tutti_checkpoints_open(folder, &options, comm, &c), TUTTI_MISMATCH,
               "tutti_checkpoints_open: options.keep is 1 on rank 0, and 2 on rank 1");
    RANKS_EXPECT(c == NULL);
    snprintf(path, sizeof path, "%s/a/b", folder);
    EXPECT_ALL(tutti_checkpoints_open(path, NULL, comm, &c), TUTTI_SYSTEM,
               "rank 0: making the folder");
    EXPECT_ALL(tutti_checkpoints_open("/proc/self/stat", NULL, comm, &c), TUTTI_SYSTEM,
               "rank 0: opening the folder /proc/self/stat: Not a directory");
    snprintf(path, sizeof path, "%s/new", folder);
    EXPECT_ALL(tutti_checkpoints_open(rank == 1 ? "/proc/self/gone" : path, NULL, comm, &c),
               TUTTI_SYSTEM, "rank 1: opening the folder /proc/self/gone: No such file");
    RANKS_EXPECT(tutti_checkpoints_open(path, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(refuse_in_group(c, comm, rank, &good) == 0);

#define REFUSED(change, status, words)                                                 \
    do {                                                                               \
        bad = good;                                                                    \
        if (rank == 1) change;                                                         \
        EXPECT_ALL(tutti_checkpoints_save(c, 1, bad.tensors, TENSORS), status, words); \
    } while (0)
    REFUSED(changed->name = NULL, TUTTI_INVALID_OPTIONS, "rank 1: the name of tensor 0 is NULL");
    REFUSED(changed->name = "", TUTTI_INVALID_OPTIONS, "the name of tensor 0 is empty");
    REFUSED(changed->name = "a\nb", TUTTI_INVALID_OPTIONS, "has a control character");
    REFUSED(changed->dtype = (enum tutti_dtype)99, TUTTI_INVALID_DTYPE, "has no dtype, but 99");
    REFUSED(changed->dims = 9, TUTTI_INVALID_OPTIONS, "has 9 dimensions, not 1 to 8");
    REFUSED(changed->data = NULL, TUTTI_INVALID_BUFFER,
            "rank 1: the data of tensor 'matrix' is NULL");
    REFUSED(
        changed->extent[1]++, TUTTI_INVALID_OPTIONS,
        "rank 1: in dimension 1 of tensor 'matrix' the box begins at 0 and has an extent of 54, "
        "which makes no part of 53");
    REFUSED(changed->shape[0] = SIZE_MAX, TUTTI_INVALID_OPTIONS,
            "rank 1: tensor 'matrix' has too many elements");
    REFUSED(changed->count++, TUTTI_INVALID_OPTIONS, "are more than its box of");
    REFUSED(changed->count--, TUTTI_INVALID_OPTIONS,
            "no rank has the elements [36, 52] of tensor 'matrix'");
    REFUSED(changed->shape[0]++, TUTTI_MISMATCH,
            "tensor 'matrix' is float32 [37 x 53] on rank 0, and float32 [38 x 53] on rank 1");
    REFUSED(changed->dtype = TUTTI_INT32, TUTTI_MISMATCH, "and int32 [37 x 53] on rank 1");
    EXPECT_ALL(tutti_checkpoints_save(c, 1 + (uint64_t)rank, good.tensors, TENSORS), TUTTI_MISMATCH,
               "tutti_checkpoints_save: step is 1 on rank 0, and 2 on rank 1");
    EXPECT_ALL(tutti_checkpoints_save(c, UINT64_MAX, good.tensors, TENSORS), TUTTI_INVALID_OPTIONS,
               "step 18446744073709551615 of rank 0 is above");
    EXPECT_ALL(tutti_checkpoints_save(c, 1, rank == 1 ? NULL : good.tensors, TENSORS),
               TUTTI_INVALID_BUFFER, "rank 1: the tensors are NULL");
    EXPECT_ALL(tutti_checkpoints_save(c, 1, good.tensors, rank == 1 ? SIZE_MAX : TENSORS),
               TUTTI_INVALID_OPTIONS, "rank 1: there are 18446744073709551615 tensors");
    EXPECT_ALL(tutti_checkpoints_load(c, 1, good.tensors, TENSORS), TUTTI_SYSTEM,
               "step-000000000001/manifest: No such file");
    RANKS_EXPECT(tutti_checkpoints_save(c, 1, good.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_wait(c) == TUTTI_OK);
    bad = good;
    if (rank == 1) changed->name = "matrix of another model";
    EXPECT_ALL(tutti_checkpoints_load(c, 1, bad.tensors, TENSORS), TUTTI_MISMATCH,
               "step-000000000001: there is no tensor 'matrix of another model'");
    bad = good;
    if (rank == 1) changed->dtype = TUTTI_INT32;
    EXPECT_ALL(tutti_checkpoints_load(c, 1, bad.tensors, TENSORS), TUTTI_MISMATCH,
               "tensor 'matrix' is float32 [37 x 53] there, and int32 [37 x 53] here");
    RANKS_EXPECT(tutti_checkpoints_load(c, 1, good.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_close(c) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_close(NULL) == TUTTI_OK);
    free_parts(&good);
    return 0;
}

static void mistakes_are_named_on_all_ranks(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, refuse, NULL), 0);
}

/* -------------------------------------------------------------------------------- damaged files */

static void change_file(const char *name, off_t at, unsigned char with)
{
    char path[256];
    unsigned char byte = 0;
    snprintf(path, sizeof path, "%s/step-000000000005/%s", folder, name);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pread(fd, &byte, 1, at) != 1) abort();
    byte ^= with;
    if (pwrite(fd, &byte, 1, at) != 1) abort();
    close(fd);
}

/* What is no file, and would never end. */
static void put_pipe(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/step-000000000005/%s", folder, name);
    if (mkfifo(path, 0600) != 0) abort();
}

static void move_file(const char *from, const char *to)
{
    char path[256], target[256];
    snprintf(path, sizeof path, "%s/%s", folder, from);
    snprintf(target, sizeof target, "%s/%s", folder, to);
    if (rename(path, target) != 0) abort();
}

static int damage(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_checkpoints *c;
    struct parts parts = make_parts(BY_ROWS, rank, size, 5);
    (void)context;
    (void)seed;
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(c, 5, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(c, 6, parts.tensors, TENSORS) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_wait(c) == TUTTI_OK);
#define DAMAGED(change, back, status, words)                                             \
    do {                                                                                 \
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);                                   \
        if (rank == 0) change;                                                           \
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);                                   \
        EXPECT_ALL(tutti_checkpoints_load(c, 5, parts.tensors, TENSORS), status, words); \
        RANKS_EXPECT(strstr(tutti_error_message(), "rank ") != NULL);                    \
        if (rank == 0) back;                                                             \
    } while (0)
    DAMAGED(change_file("manifest", 30, 1), change_file("manifest", 30, 1), TUTTI_CORRUPT,
            "step-000000000005/manifest: it is damaged, or cut off");
    DAMAGED(change_file("manifest", 0, 1), change_file("manifest", 0, 1), TUTTI_CORRUPT,
            "manifest: this is no manifest of a checkpoint");
    DAMAGED(change_file("manifest", 17, 3), change_file("manifest", 17, 3), TUTTI_UNSUPPORTED,
            "manifest: a later version of Tutti wrote it: form 2, this one reads 1");
    DAMAGED(change_file("shard-00002", 0, 1), change_file("shard-00002", 0, 1), TUTTI_CORRUPT,
            "shard-00002: this is no file of a checkpoint");
    DAMAGED(change_file("shard-00002", 8, 3), change_file("shard-00002", 8, 3), TUTTI_UNSUPPORTED,
            "shard-00002: a later version of Tutti wrote it");
    DAMAGED(change_file("shard-00001", 100, 1), change_file("shard-00001", 100, 1), TUTTI_CORRUPT,
            "shard-00001: its table is damaged");
    DAMAGED(change_file("shard-00001", 4096, 1), change_file("shard-00001", 4096, 1), TUTTI_CORRUPT,
            "shard-00001: its data is damaged");
    DAMAGED(move_file("step-000000000005/shard-00001", "gone"),
            move_file("gone", "step-000000000005/shard-00001"), TUTTI_SYSTEM,
            "shard-00001: No such file");
    /* A good file, but of another checkpoint. */
    DAMAGED((move_file("step-000000000005/shard-00001", "own"),
             move_file("step-000000000006/shard-00001", "step-000000000005/shard-00001")),
            (move_file("step-000000000005/shard-00001", "step-000000000006/shard-00001"),
             move_file("own", "step-000000000005/shard-00001")),
            TUTTI_CORRUPT, "shard-00001: it is of another checkpoint than its manifest");
    DAMAGED((move_file("step-000000000005/manifest", "own"),
             move_file("step-000000000006/manifest", "step-000000000005/manifest")),
            (move_file("step-000000000005/manifest", "step-000000000006/manifest"),
             move_file("own", "step-000000000005/manifest")),
            TUTTI_CORRUPT, "manifest: it is of step 6");
    DAMAGED((move_file("step-000000000005/shard-00001", "own"), put_pipe("shard-00001")),
            move_file("own", "step-000000000005/shard-00001"), TUTTI_SYSTEM, "shard-00001: ");
    DAMAGED((move_file("step-000000000005/manifest", "own"), put_pipe("manifest")),
            move_file("own", "step-000000000005/manifest"), TUTTI_CORRUPT,
            "manifest: this is no manifest of a checkpoint");
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    memset(parts.tensors[0].data, 0, parts.tensors[0].count * element_bytes(0));
    RANKS_EXPECT(tutti_checkpoints_load(c, 5, parts.tensors, TENSORS) == TUTTI_OK);
    for (size_t t = 0; t < TENSORS; t++) RANKS_EXPECT(is_filled(&parts.tensors[t], t, 5));
    RANKS_EXPECT(tutti_checkpoints_close(c) == TUTTI_OK);
    free_parts(&parts);
    return 0;
}

static void damaged_files_are_named_on_all_ranks(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, damage, NULL), 0);
}

/* --------------------------------------------------------------------------------------- shards */

/* What the shards of a rank have, at every stage; and only between steps. */
static int look_at_shards(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { COUNT = 5000 };
    const struct tutti_shard_group groups[] = {{COUNT, 0}, {0, 0}};
    static float values[COUNT];
    (void)size;
    (void)seed;
    (void)context;
    for (int stage = TUTTI_SHARDS_NONE; stage <= TUTTI_SHARDS_PARAMETERS; stage++) {
        struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
        struct tutti_shard_view views[TUTTI_SHARDS_VIEWS];
        struct tutti_shards *shards;
        struct tutti_shard own;
        void *memory;
        size_t count;
        options.stage = (enum tutti_shards_stage)stage;
        RANKS_EXPECT(tutti_shards_create(groups, 2, &options, comm, &shards) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_set(shards, 0, values) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_own(shards, 0, &own) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_views(shards, 0, views, &count) == TUTTI_OK && count == 3);
        const bool is_whole = stage != TUTTI_SHARDS_PARAMETERS;
        RANKS_EXPECT(strcmp(views[0].name, "parameters") == 0);
        RANKS_EXPECT(views[0].first == (is_whole ? 0 : own.first));
        RANKS_EXPECT(views[0].count == (is_whole ? COUNT : own.count));
        RANKS_EXPECT((char *)views[0].data + (is_whole ? own.first * sizeof(float) : 0) ==
                     own.parameters);
        RANKS_EXPECT(views[1].data == own.first_moments && views[2].data == own.second_moments);
        for (size_t v = 1; v < 3; v++)
            RANKS_EXPECT(views[v].first == own.first && views[v].count == own.count &&
                         views[v].dtype == TUTTI_FLOAT32);
        RANKS_EXPECT(tutti_shards_views(shards, 1, views, &count) == TUTTI_OK && count == 0);
        RANKS_EXPECT(tutti_shards_views(shards, 2, views, &count) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, 0, &memory) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_views(shards, 0, views, &count) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(strstr(tutti_error_message(), "group 0 is acquired") != NULL);
        RANKS_EXPECT(tutti_shards_gradient(shards, 0, &memory) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_ready(shards, 0) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_release(shards, 0) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_views(shards, 0, views, &count) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(tutti_shards_gradient(shards, 1, &memory) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_ready(shards, 1) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_views(shards, 0, views, &count) == TUTTI_OK && count == 3);
        RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);
    }
    return 0;
}

static void shards_show_what_a_rank_has(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, look_at_shards, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_ranks_load_what_others_saved, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(elements_are_written_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(newest_ones_stay, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(mistakes_are_named_on_all_ranks, make_folder, remove_folder),
        cmocka_unit_test(shards_show_what_a_rank_has),
        cmocka_unit_test_setup_teardown(damaged_files_are_named_on_all_ranks, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
