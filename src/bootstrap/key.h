/* key.h - names of meetings.
 *
 * A key is not a secret: the kernel says which user listens and which one connects, see
 * rendezvous.h.
 */
#ifndef TUTTI_BOOTSTRAP_KEY_H
#define TUTTI_BOOTSTRAP_KEY_H

#include <stddef.h>

#include "tutti/tutti.h"

struct rendezvous_key {
    unsigned char bytes[32];
};

/* A key that was never used before. */
enum tutti_status rendezvous_key_create(struct rendezvous_key *key);
/* The key that follows from another one and a few bytes: the same for all that have both, and
 * another one for every other pair. */
void rendezvous_key_derive(const struct rendezvous_key *from, const void *what, size_t what_bytes,
                           struct rendezvous_key *derived);

#endif
