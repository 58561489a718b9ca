/* kernel_neon.c - the kernels with vectors of 16 bytes, which every 64-bit Arm has. */
#if defined(__aarch64__)
#define VECTOR_BYTES 16
#include "kernel/kernel_vector.h"

#define BLOCK_VECTORS 4
#define PAGED_SOURCES_MAX 0
#define ALIGN_BYTES_MIN SIZE_MAX
#define HAS_STREAM 0
#define PARTS 1
#define COPY_STREAM copy_plain
#define TABLE kernel_table_neon
#include "kernel/kernel_body.inc"
#else
typedef int kernel_neon_is_empty_here;
#endif
