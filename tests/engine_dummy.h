/* engine_dummy.h - stand-ins for what programs will run with one day: each is a file of its own and a line of this list, and
 * engine_dummies.h runs all collectives with it.
 *
 * A dummy fails, by cmocka's assertions, when it is not treated as its contract says. */
#ifndef TUTTI_TESTS_ENGINE_DUMMY_H
#define TUTTI_TESTS_ENGINE_DUMMY_H

#include <stdint.h>

#include "kernel/executor.h"

/* clang-format off */
#define ENGINE_DUMMIES(X) \
    X(prompt)   /* an executor that has finished before it is asked */ \
    X(late)     /* one that finishes late, in an order from a seed */
/* clang-format on */

struct engine_dummy {
    const char *name;
    /* Who runs the kernels of one rank; NULL: nobody but the engine. */
    struct kernel_executor *(*make_executor)(uint64_t seed);
    void (*free_executor)(struct kernel_executor *executor);
};

#define ENGINE_DUMMY_DECLARE(name) extern const struct engine_dummy engine_dummy_##name;
ENGINE_DUMMIES(ENGINE_DUMMY_DECLARE)
#undef ENGINE_DUMMY_DECLARE

#endif
