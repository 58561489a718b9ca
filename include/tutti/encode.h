/* encode.h - elements in fewer bytes: the encodings, and functions that encode and decode memory.
 *
 *     size_t bytes;
 *     tutti_encoded_size(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, count, &bytes);
 *     tutti_encode(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, gradients, count, small);   // 4 bytes to 1.03
 *     tutti_decode(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, small, count, gradients);
 *
 * An encoding turns *units* of elements into units of bytes. All units have the same number of
 * bytes, the last unit, too, which may have fewer elements; its other elements count as 0. Scales
 * and numbers are little-endian. Of two elements in one byte the first is in the lower four bits.
 *
 *     name      unit         bytes of a unit                          share of float32   takes
 *     float16   1 element    IEEE 754 binary16                        1/2                float32
 *     bfloat16  1 element    the upper half of a float32              1/2                float32
 *     fp8_e4m3  1 element    OCP OFP8 E4M3                            1/4                float32, bfloat16, float16
 *     fp8_e5m2  1 element    OCP OFP8 E5M2                            1/4                float32, bfloat16, float16
 *     int8      128          float32 scale, 128 integers -127...127   0.2578             float32
 *     int4      128          float32 scale, 128 integers -7...7       0.1328             float32
 *     mxfp8     32           E8M0 scale, 32 numbers in E4M3           0.2578             float32, bfloat16, float16
 *     mxint8    32           E8M0 scale, 32 integers -127...127       0.2578             float32, bfloat16, float16
 *     mxfp4     32           E8M0 scale, 32 numbers in E2M1           0.1328             float32, bfloat16, float16
 *
 * No other dtype can be encoded. int8 and int4 take float32 alone, because a scale times an integer
 * is no 16-bit float: a second encoding would change it. The encodings of 16 bits take only what is
 * larger.
 *
 * Stability.  Decoded elements encode to the bytes that they came from, if tutti_encode made these
 * bytes. So a number that went through an encoding once does not change any more.
 *
 * Rounding is to nearest, ties to even, with the sign of zero kept except in int8, int4 and mxint8,
 * which have one zero.
 *   - float16, bfloat16, fp8_e4m3, fp8_e5m2: as Tutti stores these dtypes. Subnormal numbers are
 *     numbers like all others. NaN stays a quiet NaN, infinity stays infinity, and a number beyond
 *     the largest becomes infinity; in fp8_e4m3, which has no infinity, both become NaN.
 *   - int8, int4: the scale is the largest magnitude of the unit, divided by 127 or by 7, and at
 *     least 2^-126. An element x becomes the integer next to x / scale, so no element saturates. x
 *     changes by at most half a scale, plus one rounding of float32.
 *   - mxfp8, mxint8, mxfp4: OCP Microscaling Formats 1.0, section 6.3. The scale is a power of two:
 *     the largest in the largest magnitude of the unit, divided by the largest in E4M3 (2^8), in
 *     E2M1 (2^2), or by 1, and at least 2^-127. An integer of mxint8 counts 64ths. An element beyond
 *     the largest number saturates: only numbers above 448, 127/64 and 6 times the scale do, and
 *     lose at most an eighth, a 128th and a quarter.
 *   - All units with a scale: if an element is NaN or infinite, then the whole unit decodes to NaN
 *     (scale NaN, all elements 0). No loss of a number is hidden. A unit of zeros has the least
 *     scale and decodes to zeros.
 * Sources: IEEE 754-2019; "OCP 8-bit Floating Point Specification (OFP8)", 1.0, 2023; "OCP
 * Microscaling Formats (MX) Specification", 1.0, 2023.
 *
 * The functions compute on the calling thread's CPU, in memory that this process can read and
 * write. They give the same bytes on all processors; only NaN may have another sign or payload on
 * another architecture. They assume the default floating-point environment.
 */
#ifndef TUTTI_ENCODE_H
#define TUTTI_ENCODE_H

#include <stddef.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ encodings */

/* How elements lie in a message, or in memory that tutti_encode wrote. */
enum tutti_encoding {
    TUTTI_ENCODING_NONE = 0, /* elements as they are */
    TUTTI_ENCODING_FLOAT16,
    TUTTI_ENCODING_BFLOAT16,
    TUTTI_ENCODING_FP8_E4M3,
    TUTTI_ENCODING_FP8_E5M2,
    TUTTI_ENCODING_INT8,
    TUTTI_ENCODING_INT4,
    TUTTI_ENCODING_MXFP8,
    TUTTI_ENCODING_MXINT8,
    TUTTI_ENCODING_MXFP4
};

/* The name of an encoding ("mxfp8"; "none" for TUTTI_ENCODING_NONE), or "unknown"; never NULL. Any
 * thread; does not block. */
TUTTI_API const char *tutti_encoding_name(enum tutti_encoding encoding);

/* The encoding of a name, as tutti_encoding_name gives it. Any thread; does not block. If there is
 * none of that name, then *encoding is TUTTI_ENCODING_NONE and the result INVALID_OPTIONS; the
 * message lists all names. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_encoding_find(const char *name,
                                                               enum tutti_encoding *encoding);

/* ------------------------------------------------------------------------ encoding and decoding */

/* The number of bytes that `count` elements of the dtype have when encoded: whole units. 0 elements
 * have 0 bytes. Any thread; does not block. Returns INVALID_OPTIONS if `encoding` is no encoding
 * (TUTTI_ENCODING_NONE is none), INVALID_DTYPE if `dtype` is no dtype, UNSUPPORTED if the encoding
 * does not take it, INVALID_COUNT if the elements or their bytes do not fit into size_t, and
 * INVALID_BUFFER if `bytes` is NULL. *bytes changes on success alone. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_encoded_size(enum tutti_encoding encoding,
                                                              enum tutti_dtype dtype, size_t count,
                                                              size_t *bytes);

/* Encodes `count` elements at `elements` to `encoded`, which has room for tutti_encoded_size bytes
 * and overlaps no element. Both may have any alignment. The function keeps neither pointer. Any
 * thread; does not block, but takes the time of a pass over the memory. Fails like
 * tutti_encoded_size, and with INVALID_BUFFER if a pointer is NULL with a count above 0, or the two
 * overlap; nothing was written then. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_encode(enum tutti_encoding encoding,
                                                        enum tutti_dtype dtype, const void *elements,
                                                        size_t count, void *encoded);

/* Decodes what tutti_encode made of `count` elements: tutti_encoded_size bytes at `encoded`, which no
 * element overlaps, to `elements`, which has room for the elements. Both may have any alignment. The
 * function keeps neither pointer. Any thread; does not block, but takes the time of a pass over the
 * memory. Any bytes can be decoded; bytes that tutti_encode did not write may encode to other bytes
 * again. Fails like tutti_encode; nothing was written then. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_decode(enum tutti_encoding encoding,
                                                        enum tutti_dtype dtype, const void *encoded,
                                                        size_t count, void *elements);

/* Encodes like tutti_encode, and stores what the encoding loses: residual[i] = elements[i] -
 * decoded[i]. `encoded` has room for tutti_encoded_size bytes, and `residual` for `count` elements of
 * the dtype. The residual may be `elements` itself; otherwise no two of the three overlap. The
 * function keeps no pointer. Any thread; does not block, but takes the time of a pass over the
 * memory. Fails like tutti_encode; nothing was written then.
 *
 * decoded[i] + residual[i], added in float32, is elements[i], bit for bit, with two exceptions:
 *   - Where decoded[i] is not finite, the residual is 0. So what is fed back from step to step never
 *     becomes NaN because of one step.
 *   - int8, int4 and mxint8 decode -0 to +0, so there the sum is +0.
 * The subtraction is exact because decoded[i] is 0, or between half of elements[i] and twice that
 * (Sterbenz, Floating-Point Computation, 1974). */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_encode_residual(enum tutti_encoding encoding,
                                                                 enum tutti_dtype dtype,
                                                                 const void *elements, size_t count,
                                                                 void *encoded, void *residual);

#ifdef __cplusplus
}
#endif

#endif
