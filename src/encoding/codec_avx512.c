/* codec_avx512.c - the codecs with vectors of 64 bytes; built with -mavx512f, bw, vl, dq. */
#if defined(__x86_64__)
#define VECTOR_BYTES 64
#define TABLE codec_table_avx512
#include "encoding/codec_vector.inc"
#else
typedef int codec_avx512_is_empty_here;
#endif
