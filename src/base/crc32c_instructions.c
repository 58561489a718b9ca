/* crc32c_instructions.c - CRC-32C by what processors have for it: SSE4.2 with PCLMULQDQ, ARMv8 with
 * its CRC extension.
 *
 * On x86 an instruction takes 8 bytes and three cycles, but a new one can begin each cycle: so
 * three blocks side by side are checked at once. Their checksums become one as if the first had
 * been checked with 16 zeros for each of its bytes behind it and the second with 8 of them: a
 * multiplication by a constant power of x, see V. Gopal and others, "Fast CRC Computation for iSCSI
 * Polynomial Using CRC32 Instruction", Intel 2011. On Arm one after the other is as fast as memory
 * is.
 */
#include "base/crc32c.h"

#include <string.h>

static inline uint64_t word_at(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define WITH_INSTRUCTIONS __attribute__((target("sse4.2,pclmul")))

bool crc32c_has_instructions(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

/* x^(8 n - 33) modulo the polynomial, with the highest power in the lowest bit, for n bytes of one
 * block and of two. (The product of two such numbers has one power of x too few for a word of 64
 * bits, and what makes a checksum of that multiplies by x^32.) */
struct block {
    size_t bytes;
    uint32_t by_one, by_two;
};
static const struct block large = {1024, 0x170076fa, 0xa51b6135},
                          small = {128, 0x0d3b6092, 0xb9e02b86};

WITH_INSTRUCTIONS static inline uint64_t shift(uint64_t crc, uint32_t power)
{
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
                                                 _mm_cvtsi64_si128((long long)power), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

WITH_INSTRUCTIONS static inline uint64_t three_blocks(uint64_t crc, const unsigned char *next,
                                                      const struct block *block)
{
    uint64_t second = 0, third = 0;
    for (const unsigned char *end = next + block->bytes; next < end; next += sizeof(uint64_t)) {
        crc = _mm_crc32_u64(crc, word_at(next));
        second = _mm_crc32_u64(second, word_at(next + block->bytes));
        third = _mm_crc32_u64(third, word_at(next + 2 * block->bytes));
    }
    return shift(crc, block->by_two) ^ shift(second, block->by_one) ^ third;
}

WITH_INSTRUCTIONS uint32_t crc32c_by_instructions(uint32_t so_far, const void *data, size_t bytes)
{
    const unsigned char *next = data;
    uint64_t crc = (uint32_t)~so_far;
    for (; bytes >= 3 * large.bytes; bytes -= 3 * large.bytes, next += 3 * large.bytes)
        crc = three_blocks(crc, next, &large);
    for (; bytes >= 3 * small.bytes; bytes -= 3 * small.bytes, next += 3 * small.bytes)
        crc = three_blocks(crc, next, &small);
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), next += sizeof(uint64_t))
        crc = _mm_crc32_u64(crc, word_at(next));
    uint32_t rest = (uint32_t)crc;
    for (; bytes > 0; bytes--) rest = _mm_crc32_u8(rest, *next++);
    return ~rest;
}

#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <stdatomic.h>
#include <sys/auxv.h>

enum { HAS_CRC = 1 << 7 }; /* HWCAP_CRC32 of asm/hwcap.h */

bool crc32c_has_instructions(void)
{
    /* Relaxed: the number is all there is to see. */
    static _Atomic int known = -1;
    int has = atomic_load_explicit(&known, memory_order_relaxed);
    if (has < 0) {
        has = (getauxval(AT_HWCAP) & HAS_CRC) != 0;
        atomic_store_explicit(&known, has, memory_order_relaxed);
    }
    return has != 0;
}

/* In words of the assembler, which compilers agree on; how they call the intrinsics depends on what
 * they are told to compile for. */
static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t add_byte(uint32_t crc, uint32_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
    return crc;
}

uint32_t crc32c_by_instructions(uint32_t so_far, const void *data, size_t bytes)
{
    const unsigned char *next = data;
    uint32_t crc = ~so_far;
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), next += sizeof(uint64_t))
        crc = add_word(crc, word_at(next));
    for (; bytes > 0; bytes--) crc = add_byte(crc, *next++);
    return ~crc;
}

#else

bool crc32c_has_instructions(void)
{
    return false;
}

uint32_t crc32c_by_instructions(uint32_t so_far, const void *data, size_t bytes)
{
    return crc32c_by_tables(so_far, data, bytes);
}

#endif
