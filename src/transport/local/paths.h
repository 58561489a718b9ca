/* paths.h - which ways lead from one rank to another one of its host, and from which sizes on each is worth taking. */
#ifndef TUTTI_TRANSPORT_LOCAL_PATHS_H
#define TUTTI_TRANSPORT_LOCAL_PATHS_H

#include <stdbool.h>

#include "path/path.h"

/* checks: every message is compared with a copy of it. Then it goes through places of links only. */
const struct path_table *local_paths(bool checks);

#endif
