/* card_remote.h - for tests of whole jobs on one machine: simulated network cards as the way to
 * ranks that share no memory with this one (transport/open.h). */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_CARD_REMOTE_H
#define TUTTI_TESTS_VIRTUAL_CARD_CARD_REMOTE_H

#include "tests/virtual_card/device.h"
#include "transport/card/card.h"
#include "transport/open.h"

/* Opens a transport over a simulated card. Takes the wire, also on failure. INVALID_OPTIONS,
 * NO_MEMORY, SYSTEM. */
enum tutti_status virtual_card_open(const struct card_options *options,
                                    const struct virtual_card_options *card, struct card_wire *wire,
                                    struct transport **transport);

/* Nothing is encrypted or has checksums. */
extern const struct remote_kind card_remote_kind;

#endif
