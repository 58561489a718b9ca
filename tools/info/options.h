/* options.h - the command line of tutti-info. */
#ifndef TUTTI_TOOLS_INFO_OPTIONS_H
#define TUTTI_TOOLS_INFO_OPTIONS_H

#include <stdbool.h>

enum exit_code { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct options {
    bool is_done; /* help or the version was asked for and given */
    bool is_json;
    double seconds; /* for libraries and files to answer */
};

/* EXIT_USAGE: the mistake has been named on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);

#endif
