/* codec_avx2.c - the codecs with vectors of 32 bytes; built with -mavx2, -mf16c. */
#if defined(__x86_64__)
#define VECTOR_BYTES 32
#define TABLE codec_table_avx2
#include "encoding/codec_vector.inc"
#else
typedef int codec_avx2_is_empty_here;
#endif
