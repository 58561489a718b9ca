/* paths.h - the paths that lead to a rank over network cards, their costs, and the sizes from which
 * each is worth taking. */
#ifndef TUTTI_TRANSPORT_CARD_PATHS_H
#define TUTTI_TRANSPORT_CARD_PATHS_H

#include "path/path.h"

/* For a card that moves the bytes itself. */
const struct path_table *card_paths(void);
/* For a card whose bytes the hosts' cores move, as with libfabric's providers over sockets. Paths
 * and sizes are the same. */
const struct path_table *card_software_paths(void);

#endif
