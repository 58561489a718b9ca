/* paths.h - which ways lead to a rank over connections, and from which sizes on each is worth taking. */
#ifndef TUTTI_TRANSPORT_TCP_PATHS_H
#define TUTTI_TRANSPORT_TCP_PATHS_H

#include "path/path.h"

const struct path_table *tcp_paths(void);

#endif
