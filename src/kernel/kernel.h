/* kernel.h - reductions and copies: the only code that touches elements.
 *
 * Every kernel exists as a scalar twin (built without vectorisation) and as SIMD variants that give
 * the same bits; which one a process uses is decided once, from the CPU and
 * TUTTI_KERNEL=scalar|avx2|avx512|neon.
 *
 * Meaning.  result[i] = sources[0][i] op sources[1][i] op ..., left to right. Sums with a divisor
 * above 0 are divided by it (integers truncate towards zero), sums of floats with a factor other
 * than 0 multiplied by it, which is rounded to the type of accumulation first. 8- and 16-bit floats
 * are widened to float32, reduced there in source order, divided or multiplied there and rounded
 * once to nearest even; NaN stays (quiet) NaN; values too large become infinity or, in float8_e4m3,
 * which has none, NaN. Integers wrap. min(a, b) = a < b ? a : b; max(a, b) = a > b ? a : b. Logical
 * operations of two and more sources give 0 or 1; one source alone is copied.
 *
 * Operations of the user's are called piece by piece through the same interface.
 *
 * Any alignment of any pointer to whole elements is allowed (slots and mapped memory are 64-byte
 * aligned). destination, also and each of `others` may be equal to one of the sources, as in an
 * allreduce in place; otherwise nothing overlaps.
 *
 * The kernels of CPUs read and store elements as they are, in memory of the host. A program with
 * other formats (format.h) brings kernels that know them (a kernel_set): these also do all copying,
 * as a reduction of one source.
 */
#ifndef TUTTI_KERNEL_KERNEL_H
#define TUTTI_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/op.h"
#include "kernel/format.h"
#include "tutti/tutti.h"

enum kernel_level { KERNEL_SCALAR, KERNEL_AVX2, KERNEL_AVX512, KERNEL_NEON, KERNEL_LEVEL_COUNT };

struct kernel_call {
    void *destination;
    void *also; /* a second place for the same result, always with ordinary stores; or NULL */
    void *const *others;  /* further places, stored to in the same way as destination; or NULL */
    unsigned other_count; /* any number; it costs one comparison where it is 0 */
    const void *const *sources;
    unsigned source_count;                   /* at least 1: a copy, with a divisor a scaling */
    unsigned divisor;                        /* sums only; 0: none */
    double factor;                           /* sums of floats only, without a divisor; 0: none */
    size_t count;                            /* elements */
    const struct tutti_operation *operation; /* looked at by OP_USER only, and so is dtype */
    enum tutti_dtype dtype;
    const struct kernel_formats *formats; /* NULL: elements as they are, in memory of the host, everywhere */
};

typedef void kernel_reduce(const struct kernel_call *call);

struct kernel_set {
    kernel_reduce *reduce;        /* ordinary stores */
    kernel_reduce *reduce_stream; /* destination and others with non-temporal stores, fenced at the end */
};

/* The kernels of one dtype and op (which must support the dtype) at that level (which must be
 * available). OP_AVG and OP_SCALED_SUM give the kernels of OP_SUM: the caller passes the divisor or
 * the factor. */
struct kernel_set kernel_get(enum kernel_level level, enum tutti_dtype dtype, enum op op);
/* Bytes, any alignment; no overlap. copy_far is for sources that are in no cache; copy_stream uses
 * non-temporal stores and fences. */
void kernel_copy(void *destination, const void *source, size_t bytes);
void kernel_copy_far(void *destination, const void *source, size_t bytes);
void kernel_copy_stream(void *destination, const void *source, size_t bytes);

bool kernel_level_available(enum kernel_level level);
/* The choice of this process. Any thread; the first call decides. */
enum kernel_level kernel_level_chosen(void);
const char *kernel_level_name(enum kernel_level level);

#endif
