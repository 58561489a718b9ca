/* kernel_scalar.c - the twin that defines what the others must give: "vectors" of one element,
 * built without vectorisation, for every processor. Its streaming forms are the ordinary ones. */
#include "kernel/kernel_element.h"

#define SCALAR_MEMORY(dtype, bytes)                              \
    typedef struct {                                             \
        unsigned char memory[bytes];                             \
    } raw_##dtype;                                               \
    KERNEL_INLINE vector_##dtype unpack_##dtype(raw_##dtype raw) \
    {                                                            \
        return load_##dtype(raw.memory);                         \
    }                                                            \
    KERNEL_INLINE raw_##dtype pack_##dtype(vector_##dtype a)     \
    {                                                            \
        raw_##dtype raw;                                         \
        store_##dtype(raw.memory, a);                            \
        return raw;                                              \
    }
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
    SCALAR_MEMORY(dtype, SIZE_##dtype)                                                           \
    KERNEL_INLINE vector_##dtype combine_##dtype(enum op op, vector_##dtype a, vector_##dtype b) \
    {                                                                                            \
        return combine_one_##dtype(op, a, b);                                                    \
    }
#define SCALAR_FLOAT(dtype)                                                                    \
    SCALAR_VECTOR(dtype)                                                                       \
    KERNEL_INLINE vector_##dtype divide_##dtype(vector_##dtype a, accumulator_##dtype divisor) \
    {                                                                                          \
        return divide_one_##dtype(a, divisor);                                                 \
    }                                                                                          \
    KERNEL_INLINE vector_##dtype scale_##dtype(vector_##dtype a, accumulator_##dtype factor)   \
    {                                                                                          \
        return scale_one_##dtype(a, factor);                                                   \
    }
SCALAR_FLOAT(float32)
SCALAR_FLOAT(float64)
SCALAR_FLOAT(bfloat16)
SCALAR_FLOAT(float16)
SCALAR_FLOAT(float8_e4m3)
SCALAR_FLOAT(float8_e5m2)
SCALAR_VECTOR(int8)
SCALAR_VECTOR(int16)
SCALAR_VECTOR(int32)
SCALAR_VECTOR(int64)
SCALAR_VECTOR(uint8)
SCALAR_VECTOR(uint16)
SCALAR_VECTOR(uint32)
SCALAR_VECTOR(uint64)

/* Bits have no elements: eight bytes at a time. */
typedef uint64_t vector_bits;
enum { LANES_bits = 8 };
KERNEL_INLINE vector_bits load_bits(const unsigned char *from)
{
    return load_one_uint64(from);
}
KERNEL_INLINE void store_bits(unsigned char *to, vector_bits a)
{
    store_one_uint64(to, a);
}
SCALAR_MEMORY(bits, 8)
KERNEL_INLINE vector_bits combine_bits(enum op op, vector_bits a, vector_bits b)
{
    return combine_one_uint64(op, a, b);
}

static void copy_plain(void *destination, const void *source, size_t bytes)
{
    memcpy(destination, source, bytes);
}

#define BLOCK_VECTORS 4
#define PAGED_SOURCES_MAX 0
#define ALIGN_BYTES_MIN SIZE_MAX
#define HAS_STREAM 0
#define STREAM(to, vector) ((void)(to))
#define PARTS 0
#define COPY_STREAM copy_plain
#define TABLE kernel_table_scalar
#include "kernel/kernel_body.inc"
