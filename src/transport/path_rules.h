/* path_rules.h - the rules that the tables of paths of several transports have in common: for their
 * paths.c alone. */
#ifndef TUTTI_TRANSPORT_PATH_RULES_H
#define TUTTI_TRANSPORT_PATH_RULES_H

#include "path/path.h"

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
#define ANY_SIZE SIZE_MAX
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* For any readers, cores and senders. */
#define RULE(to, least, most, of, in, because)                                    \
    {                                                                             \
        .path = (to), .bytes_min = (least), .bytes_max = (most), .traffic = (of), \
        .readers = PATH_ANY_READERS, .steps = (in), .cores = PATH_ANY_CORES,      \
        .senders = PATH_ANY_SENDERS, .why = (because)                             \
    }

/* clang-format off */

/* Over a network, bytes that a receiver stores may arrive where they belong, whatever path their
 * sender takes. */
#define RULES_OF_RECEIVERS \
    RULE(PATH_WRITE, KIB(64), ANY_SIZE, PATH_REDUCED | PATH_REDUCED_FOR_ALL, PATH_STORES, \
         "the receiver's end of the connection, or the sender's card, stores it where it was advertised; " \
         "below, a copy out of a cache costs as much as saying so"), \
    RULE(PATH_DIRECT, KIB(128), ANY_SIZE, PATH_ANY_TRAFFIC, PATH_STORES, \
         "the same, where it is said late; below, what comes stays in a cache until it is stored")

#define RULE_TO_STAGE \
    RULE(PATH_STAGE, 0, ANY_SIZE, PATH_ANY_TRAFFIC, PATH_PASSES, \
         "ranks in a ring, each with a full link before and behind it, would wait for each other")

/* clang-format on */

#endif
