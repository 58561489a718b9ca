/* kernel_avx2.c - the kernels with vectors of 32 bytes; built with -mavx2, -mf16c. */
#if defined(__x86_64__)
#define VECTOR_BYTES 32
#include "kernel/kernel_vector.h"

#define BLOCK_VECTORS 4
#define PAGED_SOURCES_MAX 2
#define ALIGN_BYTES_MIN 1024
#define HAS_STREAM 1
#define PARTS 1
#define COPY_STREAM copy_past_caches
#define TABLE kernel_table_avx2
#include "kernel/kernel_body.inc"
#else
typedef int kernel_avx2_is_empty_here;
#endif
