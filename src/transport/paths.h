/* paths.h - the tables of paths of the library's transports, by name: for tools, models and tests that have no transport open. */
#ifndef TUTTI_TRANSPORT_PATHS_H
#define TUTTI_TRANSPORT_PATHS_H

#include "path/path.h"

/* "local" and "tcp"; NULL: there is none of that name. */
const struct path_table *transport_paths(const char *name);
/* Their names, ended by NULL. */
const char *const *transport_path_names(void);

#endif
