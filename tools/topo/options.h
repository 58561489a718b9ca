/* options.h - the command line of tutti-topo. */
#ifndef TUTTI_TOOLS_TOPO_OPTIONS_H
#define TUTTI_TOOLS_TOPO_OPTIONS_H

#include <stdbool.h>

enum exit_code { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_LOADED = 3 };

enum topo_format {
    FORMAT_TREE,
    FORMAT_MATRIX,
    FORMAT_SVG,
    FORMAT_JSON,
    FORMAT_RACKS,
    FORMAT_COUNT
};

struct options {
    bool done;        /* help was asked for and given */
    const char *file; /* to read, "-" for standard input; NULL: this machine */
    enum topo_format format;
    bool levels, probe, calibrate, calibration, check_fabric;
    int ranks;                  /* to put on cores; 0: none */
    const char *title, *output; /* or NULL */
};

/* Fills *options from the command line. EXIT_USAGE: what is wrong has been said on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);
/* Says what is wrong with the command line; returns EXIT_USAGE. */
enum exit_code usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
