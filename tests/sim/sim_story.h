/* sim_story.h - what is told of one simulated schedule: line by line to people who ask for it, and
 * the first thing that must not be. One thread. Nothing fails. */
#ifndef TUTTI_TESTS_SIM_SIM_STORY_H
#define TUTTI_TESTS_SIM_SIM_STORY_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"

struct sim_story {
    const struct sim *sim; /* whose time stands before each line */
    uint64_t seed;
    bool is_verbose, has_failed;
    char message[256]; /* after a failure: the seed, when, and what */
};

/* A line on standard output, if the story is verbose. */
__attribute__((format(printf, 2, 3))) void story_tell(const struct sim_story *story,
                                                      const char *format, ...);
/* Only the first one counts. */
__attribute__((format(printf, 2, 3))) void story_fail(struct sim_story *story, const char *format,
                                                      ...);

#endif
