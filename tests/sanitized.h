/* sanitized.h - whether a test runs with the address sanitizer, in which everything takes five times as long. Tests that go through all
 * combinations of something leave two thirds of them to the other builds then: which memory is touched hardly differs between neighbours. */
#ifndef TUTTI_TESTS_SANITIZED_H
#define TUTTI_TESTS_SANITIZED_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
enum { IS_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif
#else
enum { IS_SANITIZED = 0 };
#endif

/* The thread sanitizer: there, a child of fork() can start no threads. */
#if defined(__SANITIZE_THREAD__)
enum { IS_THREAD_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { IS_THREAD_SANITIZED = 1 };
#else
enum { IS_THREAD_SANITIZED = 0 };
#endif
#else
enum { IS_THREAD_SANITIZED = 0 };
#endif

/* Whether a combination is left to the other builds. */
static inline bool is_left_out(unsigned combination)
{
    return IS_SANITIZED && combination % 3 != 0;
}

#endif
