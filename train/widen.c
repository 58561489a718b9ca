#include "widen.h"

#include <string.h>

#include "kernel/kernel_element.h"

#define X(dtype)                                                                                    \
    static void widen_##dtype(size_t count, const unsigned char *restrict from, float *restrict to) \
    {                                                                                               \
        for (size_t i = 0; i < count; i++, from += SIZE_##dtype) to[i] = load_one_##dtype(from);    \
    }                                                                                               \
    static void narrow_##dtype(size_t count, const float *restrict from,                            \
                               unsigned char *restrict to)                                          \
    {                                                                                               \
        for (size_t i = 0; i < count; i++, to += SIZE_##dtype) store_one_##dtype(to, from[i]);      \
    }
X(bfloat16)
X(float16)
#undef X

void widen(enum tutti_dtype dtype, size_t count, const void *from, float *to)
{
    if (count == 0) return;
    switch (dtype) {
    case TUTTI_BFLOAT16: widen_bfloat16(count, from, to); break;
    case TUTTI_FLOAT16: widen_float16(count, from, to); break;
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
    case TUTTI_INT32:
    case TUTTI_INT64:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: memcpy(to, from, count * sizeof *to); break;
    }
}

void narrow(enum tutti_dtype dtype, size_t count, const float *from, void *to)
{
    if (count == 0) return;
    switch (dtype) {
    case TUTTI_BFLOAT16: narrow_bfloat16(count, from, to); break;
    case TUTTI_FLOAT16: narrow_float16(count, from, to); break;
    case TUTTI_FLOAT32:
    case TUTTI_FLOAT64:
    case TUTTI_INT32:
    case TUTTI_INT64:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: memcpy(to, from, count * sizeof *from); break;
    }
}
