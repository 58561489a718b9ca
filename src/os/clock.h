/* clock.h - monotonic time, a cheaper clock for what is only recorded, and the pause of a spin
 * loop. */
#ifndef TUTTI_OS_CLOCK_H
#define TUTTI_OS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The timeout for poll(): the time until the deadline, rounded up, but no longer than a second. */
static inline int clock_poll_ms(uint64_t deadline_ns)
{
    const uint64_t now = clock_now_ns();
    if (deadline_ns <= now) return 0;
    const uint64_t left = (deadline_ns - now) / 1000000 + 1;
    return left > 1000 ? 1000 : (int)left;
}

/* The processor's own clock: cheaper than a call of clock_gettime by half, in units that are not
 * known. Two pairs of this and clock_now_ns, taken apart, make nanoseconds of what lies between
 * them. All CPUs of a host count alike, as far as the kernel could make them. */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return clock_now_ns();
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
