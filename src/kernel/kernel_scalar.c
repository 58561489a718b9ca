/* kernel_scalar.c - the twin that defines what the others must give: "vectors" of one element, built without
 * vectorisation, for every processor. Its streaming forms are the ordinary ones. */
#include "kernel/kernel_element.h"

#define SCALAR_VECTOR(dtype)                                                                     \
    typedef accumulator_##dtype vector_##dtype;                                                  \
    enum { LANES_##dtype = 1 };                                                                  \
    KERNEL_INLINE vector_##dtype load_##dtype(const unsigned char *from)                         \
    {                                                                                            \
        return load_one_##dtype(from);                                                           \
    }                                                                                            \
    KERNEL_INLINE void store_##dtype(unsigned char *to, vector_##dtype a)                        \
    {                                                                                            \
        store_one_##dtype(to, a);                                                                \
    }                                                                                            \
    KERNEL_INLINE void stream_##dtype(unsigned char *to, vector_##dtype a)                       \
    {                                                                                            \
        store_one_##dtype(to, a);                                                                \
    }                                                                                            \
    KERNEL_INLINE vector_##dtype combine_##dtype(enum op op, vector_##dtype a, vector_##dtype b) \
    {                                                                                            \
        return combine_one_##dtype(op, a, b);                                                    \
    }                                                                                            \
    KERNEL_INLINE vector_##dtype divide_##dtype(vector_##dtype a, unsigned divisor)              \
    {                                                                                            \
        return divide_one_##dtype(a, divisor);                                                   \
    }
SCALAR_VECTOR(float32)
SCALAR_VECTOR(float64)
SCALAR_VECTOR(bfloat16)
SCALAR_VECTOR(int32)
SCALAR_VECTOR(int64)

static void copy_plain(void *destination, const void *source, size_t bytes)
{
    memcpy(destination, source, bytes);
}

#define BLOCK_VECTORS 4
#define ALIGN_BYTES_MIN SIZE_MAX
#define HAS_STREAM 0
#define COPY_STREAM copy_plain
#define TABLE kernel_table_scalar
#include "kernel/kernel_body.inc"
