/* widen.h - converts numbers of 16 bits to float32, and back: for code that computes with numbers
 * stored in 16 bits.
 *
 * dtype is FLOAT32, BFLOAT16 or FLOAT16. The two arrays do not overlap.
 */
#ifndef TUTTI_TRAIN_WIDEN_H
#define TUTTI_TRAIN_WIDEN_H

#include <stddef.h>

#include "tutti/tutti.h"

/* Exact. */
void widen(enum tutti_dtype dtype, size_t count, const void *from, float *to);
/* To the nearest value, or of two equally near ones the even one; numbers that are too large become
 * infinity. */
void narrow(enum tutti_dtype dtype, size_t count, const float *from, void *to);

#endif
