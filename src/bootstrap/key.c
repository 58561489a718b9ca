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

/* Each byte in turn, one-to-one: what differs once differs until a later byte happens to make up
 * for it, and four lanes with different starts do not all do that at the same byte. */
static uint64_t stir(uint64_t lane, const void *what, size_t what_bytes)
{
    for (size_t i = 0; i < what_bytes; i++) {
        lane = (lane ^ ((const unsigned char *)what)[i]) * 0x9fb21c651e98df25u;
        lane ^= lane >> 32;
    }
    return lane;
}

void rendezvous_key_derive(const struct rendezvous_key *from, const void *what, size_t what_bytes,
                           struct rendezvous_key *derived)
{
    uint64_t lanes[LANES];
    for (int i = 0; i < LANES; i++) {
        lanes[i] = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        lanes[i] = stir(lanes[i], from->bytes, sizeof from->bytes);
        lanes[i] = stir(lanes[i], &what_bytes, sizeof what_bytes);
        lanes[i] = stir(lanes[i], what, what_bytes);
    }
    memcpy(derived->bytes, lanes, sizeof lanes);
}
