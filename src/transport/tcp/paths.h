/* paths.h - the paths that lead to a rank over connections, and the sizes from which each is worth
 * taking. */
#ifndef TUTTI_TRANSPORT_TCP_PATHS_H
#define TUTTI_TRANSPORT_TCP_PATHS_H

#include "path/path.h"

const struct path_table *tcp_paths(void);

#endif
