/* belongings.h - what this process has, so that a test can say that nothing of it is left behind.
 *
 * Of all threads of the process together: nobody else may open or start anything meanwhile. Never
 * fails; -1: the system does not tell. */
#ifndef TUTTI_TESTS_KIT_BELONGINGS_H
#define TUTTI_TESTS_KIT_BELONGINGS_H

struct belongings {
    int descriptors, mappings, threads; /* mappings: of the library's shared memory */
};

struct belongings belongings_now(void);
/* As soon as they are what they were before, or after five seconds: threads that have ended may
 * still be on their way out. */
struct belongings belongings_in_the_end(const struct belongings *before);

int belongings_descriptors(void);
int belongings_mappings(void);
/* Names of ours in /dev/shm, whoever made them. */
int belongings_shared_names(void);

#endif
