/* A gate that opens late: a seed draws how many looks find it closed. It fails when somebody asks
 * it after it has opened or after its operation is over, and when somebody tells it twice that the
 * operation is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/engine/engine_dummy.h"

enum { LOOKS_MAX = 60 };

struct late_gate {
    struct operation_gate base;
    void (*opens)(void *context);
    void *context;
    uint64_t looks_left;
    bool is_open, has_ended, is_done;
};

static bool is_open(struct operation_gate *gate)
{
    struct late_gate *late = (struct late_gate *)gate;
    assert_false(late->is_open || late->has_ended);
    if (late->looks_left-- > 0) return false;
    late->is_open = true;
    late->opens(late->context);
    return true;
}

static void end(struct operation_gate *gate, bool is_done)
{
    struct late_gate *late = (struct late_gate *)gate;
    assert_false(late->has_ended);
    assert_true(late->is_open || !is_done);
    late->has_ended = true;
    late->is_done = is_done;
}

static const struct operation_gate_ops ops = {is_open, end};

static struct operation_gate *make(uint64_t seed, void (*opens)(void *context), void *context)
{
    struct late_gate *late = calloc(1, sizeof *late);
    assert_non_null(late);
    *late = (struct late_gate){.base = {&ops}, .opens = opens, .context = context};
    late->looks_left = seed % 3 == 0 ? 0 : seed / 3 % LOOKS_MAX;
    return &late->base;
}

static bool has_ended(const struct operation_gate *gate, bool *is_done)
{
    const struct late_gate *late = (const struct late_gate *)gate;
    *is_done = late->is_done;
    return late->has_ended;
}

static void release(struct operation_gate *gate)
{
    assert_true(((const struct late_gate *)gate)->has_ended);
    free(gate);
}

const struct engine_dummy engine_dummy_late_gate = {
    .name = "late gate", .make_gate = make, .gate_has_ended = has_ended, .free_gate = release};
