/* paths.h - which ways lead to a rank over network cards, what each costs, and from which sizes on it is worth taking. */
#ifndef TUTTI_TRANSPORT_CARD_PATHS_H
#define TUTTI_TRANSPORT_CARD_PATHS_H

#include "path/path.h"

/* A card moves the bytes. */
const struct path_table *card_paths(void);
/* The hosts' cores move them, as with libfabric's providers over sockets. Ways and sizes are the same. */
const struct path_table *card_software_paths(void);

#endif
