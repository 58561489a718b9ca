/* engine_dummy.h - stand-ins for what programs will run with one day: each is a file of its own and
 * a line of this list, and engine_dummies.h runs all collectives with it.
 *
 * A dummy fails, by cmocka's assertions, when it is not treated as its contract says. */
#ifndef TUTTI_TESTS_ENGINE_ENGINE_DUMMY_H
#define TUTTI_TESTS_ENGINE_ENGINE_DUMMY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/gate.h"
#include "kernel/executor.h"
#include "kernel/format.h"

/* clang-format off */
#define ENGINE_DUMMIES(X) \
    X(prompt)   /* an executor that has finished before it is asked */ \
    X(late)     /* one that finishes late, in an order from a seed */ \
    X(late_gate) /* a gate that opens late, after a number of looks from a seed */ \
    X(far)  /* memory that faults when anything but kernels touches it */ \
    X(half) /* an encoding of half the bytes */ \
    X(units) /* the same in units of several elements */
/* clang-format on */

struct engine_dummy {
    const char *name;
    /* Who runs the kernels of one rank; NULL: nobody but the engine. */
    struct kernel_executor *(*make_executor)(uint64_t seed);
    void (*free_executor)(struct kernel_executor *executor);
    /* What each operation of one rank waits for; NULL: nothing. When it opens it calls `opens`,
     * before it says so. */
    struct operation_gate *(*make_gate)(uint64_t seed, void (*opens)(void *context), void *context);
    /* How its one operation ended; false: nobody has told it. */
    bool (*gate_has_ended)(const struct operation_gate *gate, bool *is_done);
    void (*free_gate)(struct operation_gate *gate);
    /* In which some of the ranks have their buffers, scratch and places; NULL: all are in the
     * host's. */
    const struct memory_kind *memory;
    /* A test that touches such memory itself does it between these. */
    void (*begin_touching)(void);
    void (*end_touching)(void);
    const struct kernel_encoding
        *encoding; /* of elements on links; NULL: as they are. For values of 0 to 32767 */
    const struct kernel_set *kernels; /* that know both; NULL: the CPU's */
};

#define ENGINE_DUMMY_DECLARE(name) extern const struct engine_dummy engine_dummy_##name;
ENGINE_DUMMIES(ENGINE_DUMMY_DECLARE)
#undef ENGINE_DUMMY_DECLARE

#endif
