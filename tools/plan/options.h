/* options.h - the command line of tutti-plan. */
#ifndef TUTTI_TOOLS_PLAN_OPTIONS_H
#define TUTTI_TOOLS_PLAN_OPTIONS_H

#include <stdbool.h>

#include "algo/algo.h"
#include "base/collective.h"
#include "base/encoding_wish.h"
#include "hosts.h"

enum exit_code { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

#define FORMAT_MSCCLPP "mscclpp"
#define FORMAT_SVG "svg"
#define FORMAT_HTML "html"

enum { ALL_ROOTS = -1, SETS_MAX = 32, PLANS_MAX = 8 };

struct options {
    const char *command;
    enum collective collective;        /* COLLECTIVE_COUNT when not said */
    const struct algorithm *algorithm; /* NULL when not said */
    const char *file;                  /* to read, "-" for standard input; or NULL */
    int ranks_min, ranks_max;          /* 0 when not said */
    int root;                          /* or ALL_ROOTS when not said */
    unsigned radix, ports;
    int *order; /* of ranks_min ranks, each once; or NULL */
    int order_count;
    struct hosts hosts;                  /* of ranks_min ranks; rank_count 0 when not said */
    const char *host_sizes, *rack_sizes; /* as they were said, or NULL */
    bool interleaved, racks_interleaved;
    bool in_place, all, markdown;
    const char *values, *title, *output; /* or NULL */
    const char *transport;               /* of paths: "local" when not said */
    long count;                          /* of paths: elements of a block; -1 when not said */
    unsigned memory;                     /* of paths: enum path_memory; 0 when not said */
    bool shares_cores, says_why;         /* of paths */
    size_t bytes;                        /* of explain: of a rank's larger buffer */
    int cores;                           /* of explain: of a host; 0 when not said */
    int machines;               /* of explain: whose cores the hosts share; 0: each has its own */
    const char *calibration;    /* of explain: a file; NULL: numbers as shipped */
    const char *sets[SETS_MAX]; /* of explain: NAME=VALUE */
    int set_count;
    const char *slows[SETS_MAX]; /* of explain: HOST=FACTOR */
    int slow_count;
    const char *format; /* of export: of msccl_profile_find, or FORMAT_MSCCLPP; of draw: FORMAT_SVG or
                                   * FORMAT_HTML; or NULL */
    const char *plans[PLANS_MAX]; /* of explain: files that compete */
    int plan_count;
    bool csv;                      /* of explain */
    struct encoding_wish encoding; /* of verify, paths and explain: on which links; or none */
};

/* Fills *options from the command line. EXIT_FINE: go on, unless the command is NULL (help was
 * asked for and given); EXIT_USAGE: what is wrong has been said on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);
/* Must be called in any case, also after a failure. */
void options_release(struct options *options);
/* Says what is wrong with the command line; returns EXIT_USAGE. */
enum exit_code usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
