#include "tests/sim/sim_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sim_seeds_parse(int argument_count, char **arguments, struct sim_seeds *seeds)
{
    *seeds = (struct sim_seeds){.first = 1, .count = 1};
    for (int i = 1; i < argument_count; i++) {
        const char *const value = i + 1 < argument_count ? arguments[i + 1] : "";
        if (strcmp(arguments[i], "--verbose") == 0) {
            seeds->is_verbose = true;
        } else if (strcmp(arguments[i], "--seed") == 0) {
            seeds->first = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(arguments[i], "--seeds") == 0) {
            seeds->count = strtoull(value, NULL, 10);
            i++;
        } else {
            fprintf(stderr, "usage: [--seed S] [--seeds N] [--verbose]\n");
            return false;
        }
    }
    return true;
}
