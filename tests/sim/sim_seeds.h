/* sim_seeds.h - the arguments of programs that go through simulated schedules. */
#ifndef TUTTI_TESTS_SIM_SIM_SEEDS_H
#define TUTTI_TESTS_SIM_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_seeds {
    uint64_t first, count;
    bool is_verbose;
};

/* [--seeds N] [--seed S] [--verbose]; false, after saying so: it is something else. */
bool sim_seeds_parse(int argument_count, char **arguments, struct sim_seeds *seeds);

#endif
