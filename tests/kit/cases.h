/* cases.h - runs the cases of a test program several at a time, each in a process of its own: for
 * programs whose cases wait for deadlines, pauses and silence, and need little of the processor.
 *
 *     return CASES_RUN_AT_ONCE(tests, 4);      in place of cmocka_run_group_tests(tests, NULL, NULL)
 *
 * 1. A case runs in a fresh run of the program, from the start of main on. So what main() makes
 *    before (shared memory, say) is each case's own, and cases share nothing.
 * 2. Nothing that a case may wait for becomes shorter. A case that counts what the whole machine
 *    does, or that looks whether something took no longer than a moment, must not be run so.
 * 3. The output of a case comes in one piece, when it has ended.
 * 4. No case outlives the program.
 *
 * With TUTTI_TEST_FILTER the cases that it selects run in this process, one after the other. */
#ifndef TUTTI_TESTS_KIT_CASES_H
#define TUTTI_TESTS_KIT_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Runs `count` cases, at most `most` at a time, and returns how many of them failed. Call it last
 * in main(), before any thread has started. */
int cases_run_at_once(const struct CMUnitTest *cases, size_t count, size_t most);

/* A case of a function, after another one that sets the way on which it runs (tests/worlds/ways.h). */
#define CASE_OF(function, way)                             \
    {                                                      \
#function ", " #way, (function), (way), NULL, NULL \
    }

/* The same with a name of its own, and a pointer, which the function gets as its *state. */
#define CASE_WITH(name, function, way, of_case)    \
    {                                              \
        (name), (function), (way), NULL, (of_case) \
    }

#define CASES_RUN_AT_ONCE(cases, most) \
    cases_run_at_once((cases), sizeof(cases) / sizeof *(cases), (most))

#endif
