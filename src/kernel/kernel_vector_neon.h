/* kernel_vector_neon.h - the operations that kernel_vector.h needs, for the vectors of 16 bytes
 * that every 64-bit Arm has.
 *
 * Stores past the caches are only a hint on Arm, which these processors need less: they notice that
 * whole lines are written and do not read them first. The streaming forms are therefore the
 * ordinary forms.
 */
#ifndef TUTTI_KERNEL_KERNEL_VECTOR_NEON_H
#define TUTTI_KERNEL_KERNEL_VECTOR_NEON_H

#define STREAM(to, vector) ((void)(to))

#define ORDERED(name, vector, instruction, lanes)                    \
    KERNEL_INLINE vector name(vector a, vector b)                    \
    {                                                                \
        vector result;                                               \
        __asm__(instruction " %0." lanes ", %1." lanes ", %2." lanes \
                : "=w"(result)                                       \
                : "w"(a), "w"(b));                                   \
        return result;                                               \
    }
#define COMPARED(name, vector, compared, operator)                                 \
    KERNEL_INLINE vector name(vector a, vector b)                                  \
    {                                                                              \
        const vector_int64 yes = (vector_int64)((compared)a operator(compared) b); \
        return (vector)SELECT(yes, (vector_int64)a, (vector_int64)b);              \
    }
/* The instructions for min and max would give the number, or a quiet NaN, where there is a NaN. */
#define ORDERED_FLOAT(dtype, lanes)                           \
    ORDERED(add_##dtype, vector_##dtype, "fadd", lanes)       \
    ORDERED(multiply_##dtype, vector_##dtype, "fmul", lanes)  \
    ORDERED(divide_by_##dtype, vector_##dtype, "fdiv", lanes) \
    COMPARED(min_##dtype, vector_##dtype, vector_##dtype, <)  \
    COMPARED(max_##dtype, vector_##dtype, vector_##dtype, >)
ORDERED_FLOAT(float32, "4s")
ORDERED_FLOAT(float64, "2d")
#undef ORDERED_FLOAT

#define ORDERED_INTEGER(bits, lanes)                          \
    ORDERED(min_int##bits, vector_int##bits, "smin", lanes)   \
    ORDERED(max_int##bits, vector_int##bits, "smax", lanes)   \
    ORDERED(min_uint##bits, vector_uint##bits, "umin", lanes) \
    ORDERED(max_uint##bits, vector_uint##bits, "umax", lanes)
ORDERED_INTEGER(8, "16b")
ORDERED_INTEGER(16, "8h")
ORDERED_INTEGER(32, "4s")
#undef ORDERED_INTEGER
#undef ORDERED
COMPARED(min_int64, vector_int64, vector_signed64, <)
COMPARED(max_int64, vector_int64, vector_signed64, >)
COMPARED(min_uint64, vector_uint64, vector_uint64, <)
COMPARED(max_uint64, vector_uint64, vector_uint64, >)
#undef COMPARED

KERNEL_INLINE vector_float32 widen_float16(half_int16 a)
{
    vector_float32 result;
    __asm__("fcvtl %0.4s, %1.4h" : "=w"(result) : "w"(a));
    return result;
}
KERNEL_INLINE half_int16 narrow_float16(vector_float32 a)
{
    half_int16 result;
    __asm__("fcvtn %0.4h, %1.4s" : "=w"(result) : "w"(a));
    return result;
}

KERNEL_INLINE vector_int16 join(half_int16 low, half_int16 high)
{
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
KERNEL_INLINE half_int16 low_half(vector_int16 a)
{
    return __builtin_shufflevector(a, a, 0, 1, 2, 3);
}
KERNEL_INLINE half_int16 high_half(vector_int16 a)
{
    return __builtin_shufflevector(a, a, 4, 5, 6, 7);
}
KERNEL_INLINE vector_int16 widen_bytes(half_int8 a)
{
    return __builtin_convertvector(a, vector_int16);
}
KERNEL_INLINE half_int8 narrow_bytes(vector_int16 a)
{
    return __builtin_convertvector(a, half_int8);
}
KERNEL_INLINE bool any_nan(vector_float32 a, vector_float32 b)
{
    const vector_int64 nan = (vector_int64)(a != a) | (vector_int64)(b != b);
    return (nan[0] | nan[1]) != 0;
}

static __attribute__((noinline, unused)) void part_read(void *vector, const unsigned char *from,
                                                        size_t bytes, size_t size)
{
    memset(vector, 0, size);
    memcpy(vector, from, bytes);
}
static __attribute__((noinline, unused)) void part_write(unsigned char *to, const void *vector,
                                                         size_t bytes, size_t size)
{
    (void)size;
    memcpy(to, vector, bytes);
}

static __attribute__((unused)) void copy_plain(void *destination, const void *source, size_t bytes)
{
    memcpy(destination, source, bytes);
}

#endif
