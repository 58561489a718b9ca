/* device_code.h - what code for a device and its twin on the host say differently: kernels.cu is
 * compiled for the device (clang's CUDA, without CUDA's headers), tests/gpu/twins.c for the host.
 * All else of a kernel is one source, and C17.
 *
 *     device   many blocks of GPU_THREADS threads                memory as the device sees it, past its first-level caches
 *     host     many blocks of one thread, each a thread's call   memory as gpu_twin_reach translates it
 *
 * A row of work is for a *warp*: threads that go on together, each with a lane. On the host a warp
 * is one thread, which plays all lanes one after the other.
 *
 * Addresses are numbers: what a kernel was given is not always memory that the host may touch.
 * Everything that a kernel was given is read and written with the functions here. Scopes are the
 * system's, because a kernel talks to peers and CPUs.
 */
#ifndef TUTTI_GPU_DEVICE_CODE_H
#define TUTTI_GPU_DEVICE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 16 bytes: what a thread moves at once. */
struct device_vector {
    uint32_t words[4];
};

/* A loop whose count is a constant becomes straight code: what it indexes stays in registers. */
#define DEVICE_EACH(i, count) DEVICE_UNROLL for (uint32_t i = 0; i < (count); i++)

enum { DEVICE_LANES = 32 }; /* of a warp */

#if defined(__CUDA_ARCH__)

enum { DEVICE_WARP = 32, DEVICE_OWN_LANES = 1 }; /* threads of a warp, and lanes that each plays */

#define DEVICE_UNROLL _Pragma("clang loop unroll(full)")
#define DEVICE_FUNCTION static inline __attribute__((device, always_inline, unused))
/* Before a variable in a function: all threads of the block see the same one. */
#define DEVICE_SHARED static __attribute__((shared))

/* The same number, about which the compiler knows nothing: it does not keep in registers what is
 * made of it. */
DEVICE_FUNCTION uint64_t device_hidden(uint64_t number)
{
    __asm__ volatile("" : "+l"(number));
    return number;
}
DEVICE_FUNCTION uint32_t device_thread(void) /* of the block */
{
    return (uint32_t)__nvvm_read_ptx_sreg_tid_x();
}
DEVICE_FUNCTION uint32_t device_thread_count(void)
{
    return (uint32_t)__nvvm_read_ptx_sreg_ntid_x();
}
DEVICE_FUNCTION uint32_t device_block(void)
{
    return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x();
}
DEVICE_FUNCTION uint32_t device_block_count(void)
{
    return (uint32_t)__nvvm_read_ptx_sreg_nctaid_x();
}
/* The first lane that this thread plays. */
DEVICE_FUNCTION uint32_t device_lane(void)
{
    return device_thread() % DEVICE_WARP;
}
/* Of the block; orders memory among its threads. */
DEVICE_FUNCTION void device_barrier(void)
{
    __asm__ volatile("bar.sync 0;" ::: "memory");
}
/* Of the warp; orders memory among its threads. */
DEVICE_FUNCTION void device_warp_barrier(void)
{
    __asm__ volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
/* Each lane's number becomes the largest in its group of lanes, whose size is a power of two. All
 * threads of the warp call it. */
DEVICE_FUNCTION void device_largest(uint32_t *numbers, uint32_t group)
{
    for (uint32_t distance = group / 2; distance > 0; distance /= 2) {
        uint32_t other;
        __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                         : "=r"(other)
                         : "r"(numbers[0]), "r"(distance)
                         : "memory");
        numbers[0] = other > numbers[0] ? other : numbers[0];
    }
}
/* All that was written before, or seen after a barrier or a load, comes before all that is written
 * after, for every reader. */
DEVICE_FUNCTION void device_fence(void)
{
    __asm__ volatile("fence.acq_rel.sys;" ::: "memory");
}
DEVICE_FUNCTION void device_sleep(uint32_t ns)
{
    __asm__ volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory");
}
/* Of a clock that runs on, good to a microsecond or so. */
DEVICE_FUNCTION uint64_t device_clock_ns(void)
{
    uint64_t ns;
    __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

#define DEVICE_WORD(bits, letter)                                                                   \
    DEVICE_FUNCTION uint##bits##_t device_load##bits(uint64_t address)                              \
    {                                                                                               \
        uint##bits##_t value;                                                                       \
        __asm__ volatile("ld.relaxed.sys.global.u" #bits " %0, [%1];"                               \
                         : "=" letter(value)                                                        \
                         : "l"(address));                                                           \
        return value;                                                                               \
    }                                                                                               \
    DEVICE_FUNCTION void device_store##bits(uint64_t address, uint##bits##_t value)                 \
    {                                                                                               \
        __asm__ volatile("st.relaxed.sys.global.u" #bits " [%0], %1;" ::"l"(address),               \
                         letter(value));                                                            \
    }                                                                                               \
    DEVICE_FUNCTION uint##bits##_t device_load##bits##_acquire(uint64_t address)                    \
    {                                                                                               \
        uint##bits##_t value;                                                                       \
        __asm__ volatile("ld.acquire.sys.global.u" #bits " %0, [%1];"                               \
                         : "=" letter(value)                                                        \
                         : "l"(address)                                                             \
                         : "memory");                                                               \
        return value;                                                                               \
    }                                                                                               \
    DEVICE_FUNCTION void device_store##bits##_release(uint64_t address, uint##bits##_t value)       \
    {                                                                                               \
        __asm__ volatile("st.release.sys.global.u" #bits " [%0], %1;" ::"l"(address), letter(value) \
                         : "memory");                                                               \
    }                                                                                               \
    /* Returns what was there; acquires and releases. */                                            \
    DEVICE_FUNCTION uint##bits##_t device_add##bits(uint64_t address, uint##bits##_t value)         \
    {                                                                                               \
        uint##bits##_t before;                                                                      \
        __asm__ volatile("atom.acq_rel.sys.global.add.u" #bits " %0, [%1], %2;"                     \
                         : "=" letter(before)                                                       \
                         : "l"(address), letter(value)                                              \
                         : "memory");                                                               \
        return before;                                                                              \
    }
DEVICE_WORD(32, "r")
DEVICE_WORD(64, "l")
#undef DEVICE_WORD

/* Elements: fresh, but in no order with others until a fence. */
DEVICE_FUNCTION struct device_vector device_load_vector(uint64_t address, bool wanted)
{
    struct device_vector v;
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
                     "mov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"
                     "@p ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                     : "=&r"(v.words[0]), "=&r"(v.words[1]), "=&r"(v.words[2]), "=&r"(v.words[3])
                     : "l"(address), "r"((uint32_t)wanted));
    return v;
}
DEVICE_FUNCTION void device_store_vector(uint64_t address, struct device_vector v, bool wanted)
{
    __asm__ volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
                     "@p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n\t}" ::"l"(address),
                     "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3]),
                     "r"((uint32_t)wanted));
}
/* The 16 bytes that begin at a multiple of 16. At least those from `begin` to `end` are looked at,
 * and no other page. */
DEVICE_FUNCTION struct device_vector device_load_part(uint64_t address, uint32_t begin, uint32_t end)
{
    return device_load_vector(address, begin < end);
}
#define DEVICE_STORE_PIECE(bits, letter)                                                  \
    DEVICE_FUNCTION void device_store_piece##bits(uint64_t address, uint##bits##_t value) \
    {                                                                                     \
        __asm__ volatile("st.global.u" #bits " [%0], %1;" ::"l"(address), letter(value)); \
    }
DEVICE_STORE_PIECE(16, "h")
DEVICE_STORE_PIECE(32, "r")
DEVICE_STORE_PIECE(64, "l")
#undef DEVICE_STORE_PIECE
DEVICE_FUNCTION void device_store_piece8(uint64_t address, uint8_t value)
{
    __asm__ volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"((uint32_t)value));
}

/* The device's own conversions of IEEE's binary16: to nearest even, with denormals. */
DEVICE_FUNCTION float device_float16_widen(uint16_t code)
{
    float a;
    __asm__("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(code));
    return a;
}
DEVICE_FUNCTION uint16_t device_float16_narrow(float a)
{
    uint16_t code;
    __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(a));
    return code;
}

#else

#include <string.h>

/* Tests run kernels on the host, and define these (tests/gpu/twins.c): the library does not.
 *
 * The address at which the host reaches memory that a kernel was given: at its address, unless a
 * stand-in hides memory and sets another function before it runs the first twin. That one is called
 * in all threads of twins. */
extern void *(*gpu_twin_reach)(uint64_t address, size_t bytes);
/* The things that differ from thread to thread, and time. */
extern _Thread_local uint32_t gpu_twin_block, gpu_twin_block_count;
void gpu_twin_sleep(uint32_t ns);
uint64_t gpu_twin_clock_ns(void);

enum { DEVICE_WARP = 1, DEVICE_OWN_LANES = DEVICE_LANES };

#define DEVICE_UNROLL
#define DEVICE_FUNCTION static inline __attribute__((unused))
#define DEVICE_SHARED /* a block is one thread */

DEVICE_FUNCTION uint64_t device_hidden(uint64_t number)
{
    return number;
}
DEVICE_FUNCTION uint32_t device_thread(void)
{
    return 0;
}
DEVICE_FUNCTION uint32_t device_thread_count(void)
{
    return 1;
}
DEVICE_FUNCTION uint32_t device_block(void)
{
    return gpu_twin_block;
}
DEVICE_FUNCTION uint32_t device_block_count(void)
{
    return gpu_twin_block_count;
}
DEVICE_FUNCTION uint32_t device_lane(void)
{
    return 0;
}
DEVICE_FUNCTION void device_barrier(void)
{
}
DEVICE_FUNCTION void device_warp_barrier(void)
{
}
DEVICE_FUNCTION void device_largest(uint32_t *numbers, uint32_t group)
{
    for (uint32_t first = 0; first < DEVICE_LANES; first += group) {
        uint32_t largest = 0;
        for (uint32_t l = first; l < first + group; l++)
            largest = numbers[l] > largest ? numbers[l] : largest;
        for (uint32_t l = first; l < first + group; l++) numbers[l] = largest;
    }
}
/* The twins' loads and stores with order have that order by themselves, because the thread
 * sanitizer knows no fences. */
DEVICE_FUNCTION void device_fence(void)
{
#if !defined(__SANITIZE_THREAD__)
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}
DEVICE_FUNCTION void device_sleep(uint32_t ns)
{
    gpu_twin_sleep(ns);
}
DEVICE_FUNCTION uint64_t device_clock_ns(void)
{
    return gpu_twin_clock_ns();
}

#define DEVICE_WORD(bits)                                                                     \
    DEVICE_FUNCTION uint##bits##_t device_load##bits(uint64_t address)                        \
    {                                                                                         \
        const uint##bits##_t *const from =                                                    \
            (const uint##bits##_t *)gpu_twin_reach(address, bits / 8);                        \
        return __atomic_load_n(from, __ATOMIC_RELAXED);                                       \
    }                                                                                         \
    DEVICE_FUNCTION void device_store##bits(uint64_t address, uint##bits##_t value)           \
    {                                                                                         \
        uint##bits##_t *const to = (uint##bits##_t *)gpu_twin_reach(address, bits / 8);       \
        __atomic_store_n(to, value, __ATOMIC_RELAXED);                                        \
    }                                                                                         \
    DEVICE_FUNCTION uint##bits##_t device_load##bits##_acquire(uint64_t address)              \
    {                                                                                         \
        const uint##bits##_t *const from =                                                    \
            (const uint##bits##_t *)gpu_twin_reach(address, bits / 8);                        \
        return __atomic_load_n(from, __ATOMIC_ACQUIRE);                                       \
    }                                                                                         \
    DEVICE_FUNCTION void device_store##bits##_release(uint64_t address, uint##bits##_t value) \
    {                                                                                         \
        uint##bits##_t *const to = (uint##bits##_t *)gpu_twin_reach(address, bits / 8);       \
        __atomic_store_n(to, value, __ATOMIC_RELEASE);                                        \
    }                                                                                         \
    DEVICE_FUNCTION uint##bits##_t device_add##bits(uint64_t address, uint##bits##_t value)   \
    {                                                                                         \
        uint##bits##_t *const to = (uint##bits##_t *)gpu_twin_reach(address, bits / 8);       \
        return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);                               \
    }
DEVICE_WORD(32)
DEVICE_WORD(64)
#undef DEVICE_WORD

DEVICE_FUNCTION struct device_vector device_load_vector(uint64_t address, bool wanted)
{
    struct device_vector v = {{0}};
    if (wanted) memcpy(&v, gpu_twin_reach(address, sizeof(v)), sizeof(v));
    return v;
}
DEVICE_FUNCTION void device_store_vector(uint64_t address, struct device_vector v, bool wanted)
{
    if (wanted) memcpy(gpu_twin_reach(address, sizeof(v)), &v, sizeof(v));
}
/* Exactly those bytes: others may belong to no allocation. */
DEVICE_FUNCTION struct device_vector device_load_part(uint64_t address, uint32_t begin, uint32_t end)
{
    struct device_vector v = {{0}};
    if (begin < end)
        memcpy((unsigned char *)&v + begin, gpu_twin_reach(address + begin, end - begin),
               end - begin);
    return v;
}
#define DEVICE_STORE_PIECE(bits)                                                          \
    DEVICE_FUNCTION void device_store_piece##bits(uint64_t address, uint##bits##_t value) \
    {                                                                                     \
        memcpy(gpu_twin_reach(address, sizeof(value)), &value, sizeof(value));            \
    }
DEVICE_STORE_PIECE(8)
DEVICE_STORE_PIECE(16)
DEVICE_STORE_PIECE(32)
DEVICE_STORE_PIECE(64)
#undef DEVICE_STORE_PIECE

#endif
#endif
