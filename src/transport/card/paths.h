/* paths.h - which ways lead to a rank over simulated network cards, and from which sizes on each is worth taking. */
#ifndef TUTTI_TRANSPORT_CARD_PATHS_H
#define TUTTI_TRANSPORT_CARD_PATHS_H

#include "path/path.h"

const struct path_table *card_paths(void);

#endif
