/* card_remote.h - simulated network cards as the way to ranks that share no memory with this one (transport/open.h): for tests of whole
 * jobs, whose processes are on one machine. */
#ifndef TUTTI_TRANSPORT_CARD_CARD_REMOTE_H
#define TUTTI_TRANSPORT_CARD_CARD_REMOTE_H

#include "transport/open.h"

/* Nothing is encrypted or has checksums. */
extern const struct remote_kind card_remote_kind;

#endif
