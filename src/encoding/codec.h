/* codec.h - one encoding at one level: float32 to bytes and back. codec_element.h has the meaning of
 * single numbers, which is the same at all levels.
 *
 *     int8   [scale: float32][ 128 x int8 ]        132 bytes
 *     int4   [scale: float32][ 64 x two int4 ]      68
 *     mxfp8  [scale: E8M0][ 32 x E4M3 ]             33
 *     mxint8 [scale: E8M0][ 32 x int8, in 64ths ]   33
 *     mxfp4  [scale: E8M0][ 16 x two E2M1 ]         17
 */
#ifndef TUTTI_ENCODING_CODEC_H
#define TUTTI_ENCODING_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/encoding.h"
#include "encoding/codec_element.h"
#include "kernel/kernel.h"

struct encoding_codec {
    /* `count` elements of float32, the first of which begins a unit; any alignment, no overlap.
     * encode fills the last unit with zeros. */
    void (*encode)(unsigned char *to, const unsigned char *from, size_t count);
    void (*decode)(unsigned char *to, const unsigned char *from, size_t count);
};

/* The codecs of one level; the file of its name defines them. */
struct codec_table {
    struct encoding_codec codecs[ENCODING_COUNT];
    /* float32 at any alignment: to[i] = from[i] - decoded[i], but from[i] where decoded[i] is a zero
     * (which keeps the sign of -0), and 0 where it is not finite. `to` may be either of the others. */
    void (*subtract)(unsigned char *to, const unsigned char *from, const unsigned char *decoded,
                     size_t count);
};

extern const struct codec_table codec_table_scalar;
#if defined(__x86_64__)
extern const struct codec_table codec_table_avx2, codec_table_avx512;
#elif defined(__aarch64__)
extern const struct codec_table codec_table_neon;
#endif

/* Of an available level. */
const struct codec_table *codec_table_of(enum kernel_level level);

#endif
