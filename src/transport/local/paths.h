/* paths.h - the paths that lead from one rank to another on its host, and the sizes from which each
 * is worth taking. */
#ifndef TUTTI_TRANSPORT_LOCAL_PATHS_H
#define TUTTI_TRANSPORT_LOCAL_PATHS_H

#include <stdbool.h>

#include "path/path.h"

/* checks: every message is compared with a copy of it; then messages only go through places of
 * links. */
const struct path_table *local_paths(bool checks);

#endif
