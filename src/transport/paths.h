/* paths.h - the tables of paths of all transports, by name: for tools, models and tests that have
 * no transport open. They are data, so the table of the simulated network card is here, too,
 * although that transport is for tests. The library itself does not need these names. */
#ifndef TUTTI_TRANSPORT_PATHS_H
#define TUTTI_TRANSPORT_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "path/path.h"

/* The facts that binding needs about a transport that leads to all ranks. */
struct transport_path {
    struct path_map map;
    size_t piece_bytes_max;
    unsigned piece_count_max;
    bool has_group; /* of all ranks */
};

/* The facts of the transport of that name, as it is by default for so many ranks. False: there is
 * none of that name. */
bool transport_path_of(const char *name, int rank_count, struct transport_path *path);
/* NULL: there is none of that name. */
const struct path_table *transport_paths(const char *name);
/* "local", "tcp", "card", NULL. */
const char *const *transport_path_names(void);

#endif
