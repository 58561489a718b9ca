/* sanitized.h - in which build a test runs, and which combinations it leaves out there.
 *
 * A test that goes through all combinations of something goes through all of them in the release,
 * which gcc builds without sanitizers. In the other builds it leaves out two thirds and more, and
 * so it does where it runs over something else than usual: what they look for is memory that must
 * not be touched, threads that do not wait for each other, and what another compiler makes of the
 * code, and none of that differs much between neighbours. With TUTTI_LONG, only sanitizers leave
 * anything out. */
#ifndef TUTTI_TESTS_KIT_SANITIZED_H
#define TUTTI_TESTS_KIT_SANITIZED_H

#include <stdbool.h>
#include <stdlib.h>

/* The address sanitizer: everything takes five times as long. */
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

/* The thread sanitizer: ten times as long; and a child of fork() can start no threads. */
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

/* Whether this build leaves most combinations to the release. */
#if defined(__clang__)
enum { IS_SPARSE = 1 };
#else
enum { IS_SPARSE = IS_SANITIZED || IS_THREAD_SANITIZED };
#endif

/* Of so many combinations this run goes through one. TUTTI_TEST_SPARSE asks for few: over another transport, say (over.sh). */
static inline unsigned sparse_stride(void)
{
    enum { FEW = 3, FEWER = 7, FEWEST = 9 }; /* a sweep of all algorithms has nine sizes */
    if (getenv("TUTTI_LONG") != NULL) return IS_SANITIZED || IS_THREAD_SANITIZED ? FEW : 1;
    if (IS_THREAD_SANITIZED) return FEWEST;
    if (getenv("TUTTI_TEST_SPARSE") != NULL || IS_SANITIZED) return FEWER;
    return IS_SPARSE ? FEW : 1;
}

static inline bool is_sparse(void)
{
    return sparse_stride() > 1;
}

/* Whether a combination is one of the others. Where it is the sum of all indices, each value of
 * each index comes up. */
static inline bool is_left_out(unsigned combination)
{
    return combination % sparse_stride() != 0;
}

/* How many of so many random cases are drawn. */
static inline int some_of(int case_count)
{
    const int stride = (int)sparse_stride();
    return (case_count + stride - 1) / stride;
}

#endif
