/* An executor whose kernels have run when they are started. It fails when a group is asked for that
 * nobody waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/engine/engine_dummy.h"

struct prompt {
    struct kernel_executor base;
    uint64_t collected, groups, asked;
};

static void start(struct kernel_executor *executor, kernel_reduce *kernel,
                  const struct kernel_call *call)
{
    ((struct prompt *)executor)->collected++;
    kernel(call);
}

static uint64_t flush(struct kernel_executor *executor)
{
    struct prompt *prompt = (struct prompt *)executor;
    assert_true(prompt->collected > 0);
    prompt->collected = 0;
    return ++prompt->groups;
}

static bool is_finished(struct kernel_executor *executor, uint64_t group)
{
    struct prompt *prompt = (struct prompt *)executor;
    assert_true(group > 0 && group <= prompt->groups);
    prompt->asked++;
    return true;
}

static const struct kernel_executor_ops ops = {start, flush, is_finished};

static struct kernel_executor *make(uint64_t seed)
{
    (void)seed;
    struct prompt *prompt = calloc(1, sizeof *prompt);
    assert_non_null(prompt);
    prompt->base.ops = &ops;
    return &prompt->base;
}

static void release(struct kernel_executor *executor)
{
    const struct prompt *prompt = (const struct prompt *)executor;
    assert_int_equal(prompt->collected, 0);
    assert_int_equal(prompt->asked, prompt->groups); /* each group was waited for, once */
    free(executor);
}

const struct engine_dummy engine_dummy_prompt = {
    .name = "prompt", .make_executor = make, .free_executor = release};
