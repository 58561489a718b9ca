/* apart.h - cases of a test that each run in a process of their own, by which the test program
 * executes itself again: what a process has once, such as a driver, is fresh in each, threads may
 * be started under every sanitizer, and a case may be to die.
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const struct apart_case cases[] = {{"reads_far", reads_far, "cannot reach"},
 *         {"reads_near", reads_near, NULL}}; return apart_main(argc, argv, cases, sizeof cases /
 *         sizeof *cases);
 *     }
 */
#ifndef TUTTI_TESTS_WORLDS_APART_H
#define TUTTI_TESTS_WORLDS_APART_H

#include <stddef.h>

struct apart_case {
    const char *name;
    /* Uses assert(). The argument is that of apart_run; NULL for cases that are tests
     * themselves. */
    void (*run)(const char *argument);
    /* What the case writes to stderr when it dies, as it is to do; NULL: it returns. apart_is_part:
     * it is no test, apart_run starts it. */
    const char *dies_with;
};
extern const char apart_is_part[];

/* Runs all cases as tests of cmocka, but with the thread sanitizer those that are to die only where
 * TUTTI_LONG is set; or, if this process was started for one, that one. Returns
 * main's status. */
int apart_main(int argc, char **argv, const struct apart_case *cases, size_t case_count);

/* Runs a case in another process, for a minute at most. Returns its wait status; `output` gets what
 * it wrote to stderr. */
int apart_run(const char *name, const char *argument, char *output, size_t output_bytes);

#endif
