#include "bootstrap/key.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include "base/status.h"

enum { LANES = sizeof(struct rendezvous_key) / sizeof(uint64_t) };

enum tutti_status rendezvous_key_create(struct rendezvous_key *key)
{
    if (getrandom(key->bytes, sizeof key->bytes, 0) != (ssize_t)sizeof key->bytes)
        return error_system("getrandom");
    return TUTTI_OK;
}

/* One-to-one, so that a lane which differs once differs until a later byte happens to make up for it; four lanes
 * with random starts do not all do that at the same byte. */
static uint64_t stir(uint64_t lane, unsigned char byte)
{
    lane = (lane ^ byte) * 0x9fb21c651e98df25u;
    return lane ^ lane >> 32;
}

void rendezvous_key_derive(const struct rendezvous_key *from, const void *what, size_t what_bytes,
                           struct rendezvous_key *derived)
{
    uint64_t lanes[LANES];
    memcpy(lanes, from->bytes, sizeof lanes);
    for (int i = 0; i < LANES; i++) {
        lanes[i] += (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        for (size_t b = 0; b < what_bytes; b++)
            lanes[i] = stir(lanes[i], ((const unsigned char *)what)[b]);
        for (size_t b = 0; b < sizeof what_bytes; b++) /* a longer text is another one */
            lanes[i] = stir(lanes[i], (unsigned char)(what_bytes >> 8 * b));
    }
    memcpy(derived->bytes, lanes, sizeof lanes);
}
