/* An executor like a device's: its kernels run while it is asked whether they have, one at a time,
 * in any order, and sooner or later. So what they read is read as late as may be, and what they
 * store is stored then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/engine/engine_dummy.h"
#include "tests/kit/chance.h"

enum { STARTED_MAX = 4096, GROUPS_MAX = 64, LAZINESS = 3 };

/* A kernel that has not run. */
struct started {
    uint64_t group;
    kernel_reduce *kernel;
    struct kernel_call call; /* its lists are its own */
    struct kernel_formats formats;
};

struct late {
    struct kernel_executor base;
    uint64_t random, last_group;
    uint64_t open[GROUPS_MAX]; /* groups that nobody has seen finished; 0: none */
    struct started started[STARTED_MAX];
    unsigned started_count;
};

static uint64_t draw(struct late *late)
{
    return chance_next(&late->random);
}

static void *copy_list(const void *list, size_t count, size_t item_bytes)
{
    void *copy = malloc(count * item_bytes + 1);
    assert_non_null(copy);
    if (count > 0) memcpy(copy, list, count * item_bytes);
    return copy;
}

static void copy_formats(struct started *started)
{
    const struct kernel_call *call = &started->call;
    if (call->formats == NULL) return;
    started->formats = *call->formats;
    started->formats.sources =
        copy_list(call->formats->sources, call->source_count, sizeof(struct kernel_format));
    started->formats.others =
        copy_list(call->formats->others, call->other_count, sizeof(struct kernel_format));
}

/* Where they lie until it has run: others take its place. */
static void run_kernel(struct started *started)
{
    if (started->call.formats != NULL) started->call.formats = &started->formats;
    started->kernel(&started->call);
    free((void *)(uintptr_t)started->call.sources);
    free((void *)(uintptr_t)started->call.others);
    free((void *)(uintptr_t)started->formats.sources);
    free((void *)(uintptr_t)started->formats.others);
}

static void start(struct kernel_executor *executor, kernel_reduce *kernel,
                  const struct kernel_call *call)
{
    struct late *late = (struct late *)executor;
    assert_true(late->started_count < STARTED_MAX);
    assert_true(call->count > 0 && call->destination != NULL);
    struct started *started = &late->started[late->started_count++];
    *started = (struct started){.group = late->last_group + 1, .kernel = kernel, .call = *call};
    started->call.sources = copy_list(call->sources, call->source_count, sizeof(void *));
    started->call.others = copy_list(call->others, call->other_count, sizeof(void *));
    copy_formats(started);
}

static uint64_t flush(struct kernel_executor *executor)
{
    struct late *late = (struct late *)executor;
    int place = 0;
    while (late->open[place] != 0) assert_true(++place < GROUPS_MAX);
    late->open[place] = ++late->last_group;
    return late->last_group;
}

static void run(struct late *late, unsigned which)
{
    struct started *started = &late->started[which];
    run_kernel(started);
    *started = late->started[--late->started_count];
}

static bool is_finished(struct kernel_executor *executor, uint64_t group)
{
    struct late *late = (struct late *)executor;
    int place = 0;
    while (late->open[place] != group) assert_true(++place < GROUPS_MAX);
    if (late->started_count > 0 && draw(late) % LAZINESS == 0)
        run(late, (unsigned)(draw(late) % late->started_count));
    for (unsigned i = 0; i < late->started_count; i++)
        if (late->started[i].group == group) return false;
    if (draw(late) % LAZINESS != 0) return false; /* it has not heard of it yet */
    late->open[place] = 0;
    return true;
}

static const struct kernel_executor_ops ops = {start, flush, is_finished};

static struct kernel_executor *make(uint64_t seed)
{
    struct late *late = calloc(1, sizeof *late);
    assert_non_null(late);
    late->base.ops = &ops;
    late->random = seed;
    return &late->base;
}

static void release(struct kernel_executor *executor)
{
    const struct late *late = (const struct late *)executor;
    assert_int_equal(late->started_count, 0);
    for (int i = 0; i < GROUPS_MAX; i++) assert_int_equal(late->open[i], 0);
    free(executor);
}

const struct engine_dummy engine_dummy_late = {
    .name = "late", .make_executor = make, .free_executor = release};
