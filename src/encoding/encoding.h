/* encoding.h - elements to fewer bytes and back, and reductions of what is encoded: for programs
 * whose links carry encoded elements.
 *
 *     source  plain    ──────────────┐
 *     source  encoded  ── decode ──► ├─ sum, in float32 ─► rounded to the dtype ─┬─ encode ─► destination  encoded
 *     source  encoded  ── decode ──► ┘    in order            (16 bits: once)    └──────────► destination  plain
 *                                          blocks of 4 KiB, which stay in the first cache
 *
 * tutti/encode.h says what each encoding means, base/encoding.h lists them. Every level has its
 * codecs (codec.h), with the bits of the scalar level.
 *
 * 1. encode(decode(x)) is x for every x that encode produced, with elements of the dtype in between:
 *    a result is rounded to the dtype first and encoded then.
 * 2. The bytes that a kernel stores do not depend on how the elements are divided among calls, as
 *    long as each call begins with a unit.
 */
#ifndef TUTTI_ENCODING_ENCODING_H
#define TUTTI_ENCODING_ENCODING_H

#include <stddef.h>

#include "base/encoding.h"
#include "kernel/kernel.h"

/* How a valid encoding lies on links, for elements of that dtype; constant, and one object for each
 * pair, so that pointers can be compared. NULL: the encoding does not take the dtype. */
const struct kernel_encoding *encoding_of(enum tutti_encoding encoding, enum tutti_dtype dtype);
/* The encoding that encoding_of gave it for. */
enum tutti_encoding encoding_named(const struct kernel_encoding *encoding);

/* `count` elements, the first of which begins a unit, of the dtype that encoding_of was asked for;
 * no overlap, any alignment. encode writes kernel_encoded_bytes bytes: a last unit that is shorter
 * is filled with zeros. */
void encoding_encode(enum kernel_level level, const struct kernel_encoding *encoding,
                     const void *elements, size_t count, void *encoded);
void encoding_decode(enum kernel_level level, const struct kernel_encoding *encoding,
                     const void *encoded, size_t count, void *elements);

/* Encodes, and stores at `residual` elements of the dtype: what the encoding loses (tutti/encode.h).
 * `residual` may be `elements`. */
void encoding_encode_residual(enum kernel_level level, const struct kernel_encoding *encoding,
                              const void *elements, size_t count, void *encoded, void *residual);

/* Kernels that read and store elements of the dtype in the formats of their call, which come from
 * encoding_of for that dtype: sums, averages, scaled sums, and as reductions of one source, copies.
 * A copy from one encoding to the same moves bytes. The dtype is float32, bfloat16 or float16. All
 * memory is the host's. A destination, plain or encoded, may be one of the sources in the same
 * format. Neither kernel stores past the caches. */
struct kernel_set encoding_kernels(enum kernel_level level, enum tutti_dtype dtype);

/* Whether a call with formats passes a message on as it came: a copy from an encoding to the same,
 * to one place. */
bool encoding_moves_bytes(const struct kernel_call *call);

#endif
