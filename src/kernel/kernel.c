#include "kernel/kernel.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/option.h"
#include "kernel/kernel_level.h"

static const struct {
    const char *name;
    const struct kernel_table *table;
} levels[KERNEL_LEVEL_COUNT] = {
    [KERNEL_SCALAR] = {"scalar", &kernel_table_scalar},
#if defined(__x86_64__)
    [KERNEL_AVX2] = {"avx2", &kernel_table_avx2},
    [KERNEL_AVX512] = {"avx512", &kernel_table_avx512},
#else
    [KERNEL_AVX2] = {"avx2", NULL},
    [KERNEL_AVX512] = {"avx512", NULL},
#endif
#if defined(__aarch64__)
    [KERNEL_NEON] = {"neon", &kernel_table_neon},
#else
    [KERNEL_NEON] = {"neon", NULL},
#endif
};

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows it. avx2 implies that the system saves the
 * registers. */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

bool kernel_level_available(enum kernel_level level)
{
    if (level == KERNEL_SCALAR) return true;
#if defined(__x86_64__)
    __builtin_cpu_init(); /* we may be called from a constructor */
    if (level == KERNEL_AVX2) return __builtin_cpu_supports("avx2") && has_f16c();
    if (level == KERNEL_AVX512)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
#elif defined(__aarch64__)
    if (level == KERNEL_NEON) return true;
#endif
    return false;
}

const char *kernel_level_name(enum kernel_level level)
{
    return (unsigned)level < KERNEL_LEVEL_COUNT ? levels[level].name : "unknown";
}

/* The level that TUTTI_KERNEL names, if this processor has it; otherwise the best level that it
 * has. */
static enum kernel_level level_decide(void)
{
    const char *const wish = option_text(OPTION_KERNEL);
    enum kernel_level best = KERNEL_SCALAR;
    for (unsigned i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        const enum kernel_level level = (enum kernel_level)i;
        if (!kernel_level_available(level)) continue;
        if (wish != NULL && strcmp(wish, levels[level].name) == 0) return level;
        best = level;
    }
    return best;
}

enum kernel_level kernel_level_chosen(void)
{
    /* Relaxed: the number is all there is to see, the tables are constant. */
    static _Atomic int chosen = -1;
    int level = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (level < 0) {
        const int mine = (int)level_decide();
        /* The environment may change between two first calls: one of them wins. */
        if (atomic_compare_exchange_strong_explicit(&chosen, &level, mine, memory_order_relaxed,
                                                    memory_order_relaxed))
            level = mine;
    }
    return (enum kernel_level)level;
}

struct kernel_set kernel_get(enum kernel_level level, enum tutti_dtype dtype, enum op op)
{
    assert((unsigned)level < KERNEL_LEVEL_COUNT);
    assert(levels[level].table != NULL);
    assert((unsigned)dtype < DTYPE_COUNT);
    assert((unsigned)op < OP_COUNT);
    if (op == OP_USER) return (struct kernel_set){kernel_reduce_user, kernel_reduce_user};
    if (op == OP_SCALED_SUM) op = OP_SUM;
    const struct kernel_set set = levels[level].table->sets[dtype][op];
    assert(set.reduce != NULL && set.reduce_stream != NULL);
    return set;
}

void kernel_copy(void *destination, const void *source, size_t bytes)
{
    if (bytes != 0) memcpy(destination, source, bytes);
}

/* As the reduction of one source, which reads by pages. */
void kernel_copy_far(void *destination, const void *source, size_t bytes)
{
    const struct kernel_call call = {.destination = destination,
                                     .sources = &source,
                                     .source_count = 1,
                                     .count = bytes,
                                     .dtype = TUTTI_UINT8};
    kernel_get(kernel_level_chosen(), TUTTI_UINT8, OP_BOR).reduce(&call);
}

void kernel_copy_stream(void *destination, const void *source, size_t bytes)
{
    if (bytes != 0) levels[kernel_level_chosen()].table->copy_stream(destination, source, bytes);
}
