/* codec_neon.c - the codecs with vectors of 16 bytes, which every 64-bit Arm has. */
#if defined(__aarch64__)
#define VECTOR_BYTES 16
#define TABLE codec_table_neon
#include "encoding/codec_vector.inc"
#else
typedef int codec_neon_is_empty_here;
#endif
