/* kernel_level.h - all that one level (scalar, avx2, avx512, neon) offers; the file of its name
 * defines each level. */
#ifndef TUTTI_KERNEL_KERNEL_LEVEL_H
#define TUTTI_KERNEL_KERNEL_LEVEL_H

#include "base/dtype.h"
#include "kernel/kernel.h"

struct kernel_table {
    struct kernel_set sets[DTYPE_COUNT][OP_BUILTIN_COUNT]; /* empty where the dtype has no such op */
    void (*copy_stream)(void *destination, const void *source, size_t bytes);
};

extern const struct kernel_table kernel_table_scalar;
#if defined(__x86_64__)
extern const struct kernel_table kernel_table_avx2;
extern const struct kernel_table kernel_table_avx512;
#elif defined(__aarch64__)
extern const struct kernel_table kernel_table_neon;
#endif

/* Operations of the user's, at every level and for every dtype. */
kernel_reduce kernel_reduce_user;

#endif
