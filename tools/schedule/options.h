/* options.h - the command line of tutti-schedule. */
#ifndef TUTTI_TOOLS_SCHEDULE_OPTIONS_H
#define TUTTI_TOOLS_SCHEDULE_OPTIONS_H

#include <stdbool.h>

#include "tutti/train/pipeline.h"

enum exit_code { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct options {
    bool done;                         /* help was asked for and given */
    const char *name;                  /* of a schedule, or of a file */
    bool is_file;                      /* the shape is in the file */
    struct tutti_schedule_shape shape; /* of a schedule by name */
    struct tutti_schedule_times times;
    const char *picture; /* a file, "-" for standard output alone, or NULL */
    bool prints_text;    /* the text form, and nothing else */
};

/* Fills *options from the command line. EXIT_USAGE: the mistake has been named on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);

#endif
