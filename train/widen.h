/* widen.h - numbers of 16 bits as float32, and back: for those who compute with what is stored small.
 *
 * dtype is FLOAT32, BFLOAT16 or FLOAT16. The two arrays do not overlap.
 */
#ifndef TUTTI_TRAIN_WIDEN_H
#define TUTTI_TRAIN_WIDEN_H

#include <stddef.h>

#include "tutti/tutti.h"

/* Exact. */
void widen(enum tutti_dtype dtype, size_t count, const void *from, float *to);
/* To the nearest value, of two the even one; what is too large becomes infinity. */
void narrow(enum tutti_dtype dtype, size_t count, const float *from, void *to);

#endif
