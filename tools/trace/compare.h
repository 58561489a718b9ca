/* compare.h - the command `tutti-trace compare`: prints measured calls beside the cost
 * model's predictions for them. */
#ifndef TUTTI_TOOLS_TRACE_COMPARE_H
#define TUTTI_TOOLS_TRACE_COMPARE_H

#include <stdbool.h>
#include <stdio.h>

struct compare_options {
    char **paths; /* files and folders */
    int path_count;
    const char *calibration; /* or NULL */
    bool csv;
    int top; /* lines at most; 0: not said */
};

/* argv[0] is the command. False: wrong usage; the reason is on stderr. */
bool compare_parse(int argc, char **argv, struct compare_options *options);
/* False: something cannot be read or does not fit together; the reason is on stderr. */
bool compare_dumps(const struct compare_options *options, FILE *file);

#endif
