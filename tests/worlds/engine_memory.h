/* engine_memory.h - memory of a kind, for tests of the engine: the host's, or that of a stand-in
 * (engine_dummy.h), which is touched between engine_memory_begin and engine_memory_end alone.
 * Assertions are cmocka's. */
#ifndef TUTTI_TESTS_WORLDS_ENGINE_MEMORY_H
#define TUTTI_TESTS_WORLDS_ENGINE_MEMORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/engine/engine_dummy.h"

/* The host's ends after so many bytes, so that a sanitizer sees who goes on. */
static inline void *engine_memory_take(const struct memory_kind *kind, size_t bytes)
{
    void *memory = NULL;
    if (kind != NULL)
        memory = kind->allocate(kind, bytes + 1);
    else if (posix_memalign(&memory, 64, bytes + (bytes == 0)) != 0)
        fail_msg("no memory");
    assert_non_null(memory);
    return memory;
}

static inline void engine_memory_give(const struct memory_kind *kind, void *memory, size_t bytes)
{
    if (kind == NULL)
        free(memory);
    else if (memory != NULL)
        kind->release(kind, memory, bytes + 1);
}

static inline void engine_memory_begin(const struct engine_dummy *dummy)
{
    if (dummy != NULL && dummy->begin_touching != NULL) dummy->begin_touching();
}

static inline void engine_memory_end(const struct engine_dummy *dummy)
{
    if (dummy != NULL && dummy->end_touching != NULL) dummy->end_touching();
}

#endif
