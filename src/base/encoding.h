/* encoding.h - the one list of encodings: in which other ways the elements of a tensor can lie in
 * a message. include/tutti/encode.h says what each means. */
#ifndef TUTTI_BASE_ENCODING_H
#define TUTTI_BASE_ENCODING_H

#include <stdbool.h>

#include "tutti/encode.h"

/* X(enumerator, name, elements of a unit, bytes of a unit, takes 16-bit floats, the largest error as a
 * share, the largest number); what encodes and decodes it ends in the name. Numbers of encodings are
 * in signatures and files: append. */
#define ENCODING_LIST(X)                                                            \
    X(TUTTI_ENCODING_FLOAT16, float16, 1, 2, false, 0x1p-11, 65504)                 \
    X(TUTTI_ENCODING_BFLOAT16, bfloat16, 1, 2, false, 0x1p-8, 0x1.fep127)           \
    X(TUTTI_ENCODING_FP8_E4M3, fp8_e4m3, 1, 1, true, 0x1p-4, 448)                   \
    X(TUTTI_ENCODING_FP8_E5M2, fp8_e5m2, 1, 1, true, 0x1p-3, 57344)                 \
    X(TUTTI_ENCODING_INT8, int8, 128, 4 + 128, false, 1 / 253.9, 0x1.fffffep127)    \
    X(TUTTI_ENCODING_INT4, int4, 128, 4 + 128 / 2, false, 1 / 13.9, 0x1.fffffep127) \
    X(TUTTI_ENCODING_MXFP8, mxfp8, 32, 1 + 32, true, 1 / 8., 0x1.fffffep127)        \
    X(TUTTI_ENCODING_MXINT8, mxint8, 32, 1 + 32, true, 1 / 128., 0x1.fffffep127)    \
    X(TUTTI_ENCODING_MXFP4, mxfp4, 32, 1 + 32 / 2, true, 1 / 4., 0x1.fffffep127)

enum {
#define X(enumerator, ...) ENCODING_INDEX_##enumerator,
    ENCODING_INDEX_TUTTI_ENCODING_NONE,
    ENCODING_LIST(X)
#undef X
        ENCODING_COUNT /* with TUTTI_ENCODING_NONE */
};

/* Whether it is an encoding at all; TUTTI_ENCODING_NONE is none. */
static inline bool encoding_is_valid(enum tutti_encoding encoding)
{
    return (unsigned)encoding - 1 < ENCODING_COUNT - 1u;
}

/* Whether a valid encoding takes elements of that dtype. */
bool encoding_takes(enum tutti_encoding encoding, enum tutti_dtype dtype);
/* The shape of a valid encoding's unit. */
unsigned encoding_unit_elements(enum tutti_encoding encoding);
unsigned encoding_unit_bytes(enum tutti_encoding encoding);
/* The most that a valid encoding changes an element: a share of the largest magnitude of its unit
 * (of its own, where a unit is one element), if that is not below the normal numbers of the encoding
 * and at most encoding_largest. */
double encoding_error_max(enum tutti_encoding encoding);
/* The largest number that a unit may have, so that all of it stays finite. */
double encoding_largest(enum tutti_encoding encoding);
/* TUTTI_ENCODING_NONE when there is none of that name. */
enum tutti_encoding encoding_from_name(const char *name);

#endif
