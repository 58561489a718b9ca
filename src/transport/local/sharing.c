#include "transport/local/sharing.h"

#include <stdlib.h>
#include <string.h>

#include "base/option.h"

static_assert(sizeof(struct memory_share) <= SMALL_SLOT_BYTES, "a small slot has it");

enum {
    KNOWN_MAX = 256
}; /* allocations of a rank that a peer has answered for; and of a peer that this rank has mapped */

struct known {
    uint64_t number;
    bool is_mapped; /* else it was refused */
};

struct mapped {
    uint64_t number;
    struct sharing_mapped at;
};

/* The knowledge of this rank and one peer about each other's memory. */
struct sharing_peer {
    unsigned known_count; /* ever: the oldest are overwritten, and asked for again */
    unsigned mapped_count;
    struct known known[KNOWN_MAX];
    struct mapped mapped[KNOWN_MAX];
};

void sharing_init(struct local *local)
{
    pthread_mutex_init(&local->sharing_lock, NULL);
    local->shares =
        !local->checks && option_wish(OPTION_CMA) != 0; /* "0" is the first of its words */
}

void sharing_release(struct local *local)
{
    for (int r = 0; local->sharing != NULL && r < local->base.size; r++) free(local->sharing[r]);
    free(local->sharing);
    pthread_mutex_destroy(&local->sharing_lock);
}

/* The caller has the lock. NULL: nothing is known, or out of memory. */
static struct sharing_peer *peer_of(struct local *local, int peer, bool makes)
{
    if (local->sharing == NULL && makes)
        local->sharing = calloc((size_t)local->base.size, sizeof(struct sharing_peer *));
    if (local->sharing == NULL) return NULL;
    if (local->sharing[peer] == NULL && makes)
        local->sharing[peer] = calloc(1, sizeof(struct sharing_peer));
    return local->sharing[peer];
}

void sharing_add_footprint(const struct local *local, struct transport_footprint *footprint)
{
    if (local->sharing == NULL) return;
    footprint->private_bytes += (size_t)local->base.size * sizeof(struct sharing_peer *);
    for (int r = 0; r < local->base.size; r++)
        if (local->sharing[r] != NULL) footprint->private_bytes += sizeof(struct sharing_peer);
}

/* -------------------------------------------------------------------------------------- senders */

static const struct known *find_known(const struct sharing_peer *peer, uint64_t number)
{
    const unsigned count = peer->known_count < KNOWN_MAX ? peer->known_count : KNOWN_MAX;
    for (unsigned k = 0; k < count; k++)
        if (peer->known[k].number == number) return &peer->known[k];
    return NULL;
}

/* The reader's answer for the allocation that was last shared on that link; it is believed,
 * whichever that was. */
static void look_at_answer(const struct local_tx *tx, struct sharing_peer *peer)
{
    /* Pairs with sharing_answer. */
    const uint64_t answer = atomic_load_explicit(&tx->tails[0]->answer, memory_order_acquire);
    if (answer == 0 || find_known(peer, answer / 2) != NULL) return;
    peer->known[peer->known_count % KNOWN_MAX] =
        (struct known){.number = answer / 2, .is_mapped = (answer & 1) != 0};
    if (++peer->known_count == 2 * KNOWN_MAX) peer->known_count = KNOWN_MAX;
}

static bool may_share(const struct local *local, int peer)
{
    return local->shares && peer != local->base.rank && !local->peers[peer].same_process &&
           local->peers[peer].pid != 0;
}

bool sharing_reaches(struct local_tx *tx, const struct memory_kind *kind, const void *address,
                     size_t bytes)
{
    struct memory_share share;
    bool is_mapped = false, is_refused = true;
    tx->shares = false;
    if (!may_share(tx->local, tx->local_peer) || tx->bytes_max <= INLINE_BYTES ||
        kind->share == NULL || !kind->share(kind, address, bytes, &share))
        return false;
    pthread_mutex_lock(&tx->local->sharing_lock);
    struct sharing_peer *const peer = peer_of(tx->local, tx->local_peer, true);
    if (peer != NULL) {
        look_at_answer(tx, peer);
        const struct known *const known = find_known(peer, share.number);
        is_mapped = known != NULL && known->is_mapped;
        is_refused = known != NULL && !known->is_mapped;
    }
    pthread_mutex_unlock(&tx->local->sharing_lock);
    if (!is_mapped && !is_refused) {
        tx->shared = share;
        tx->shares = true;
    }
    return is_mapped;
}

bool sharing_post(struct local_tx *tx, const struct memory_kind *kind, const void *address,
                  size_t bytes)
{
    struct memory_share share;
    if (!kind->share(kind, address, bytes, &share)) return false;
    ends_next_header(tx)->u.mapped.number = share.number;
    ends_next_header(tx)->u.mapped.offset = share.offset;
    ends_publish(tx, MESSAGE_MAPPED, bytes);
    return true;
}

/* -------------------------------------------------------------------------------------- readers */

static struct mapped *find_mapped(struct sharing_peer *peer, uint64_t number)
{
    for (unsigned m = 0; m < peer->mapped_count; m++)
        if (peer->mapped[m].number == number) return &peer->mapped[m];
    return NULL;
}

/* With the lock. */
static enum memory_mapping map(struct sharing_peer *peer, const struct memory_kind *kind,
                               const struct memory_share *share)
{
    if (find_mapped(peer, share->number) != NULL) return MEMORY_MAPPED;
    if (peer->mapped_count == KNOWN_MAX) return MEMORY_REFUSED;
    struct mapped *const next = &peer->mapped[peer->mapped_count];
    *next = (struct mapped){.number = share->number, .at.kind = kind};
    const enum memory_mapping mapping = kind->map(kind, share, &next->at.address, &next->at.bytes);
    if (mapping == MEMORY_MAPPED) peer->mapped_count++;
    return mapping;
}

void sharing_answer(struct local_rx *rx)
{
    struct local *const local = rx->local;
    const struct memory_kind *const kind = ends_take(local, rx->slot);
    const volatile unsigned char *const theirs = (const volatile unsigned char *)rx->data -
                                                 SMALL_SLOTS_BYTES +
                                                 segment_small_slot(rx->sequence);
    struct memory_share share;
    if (kind == NULL || kind->map == NULL || !may_share(local, rx->local_peer)) return;
    for (size_t b = 0; b < sizeof share; b++) ((unsigned char *)&share)[b] = theirs[b];
    if (share.number == 0 || share.number >= MEMORY_SHARE_NUMBERS) return;
    share.pid =
        (int32_t)local->peers[rx->local_peer].pid; /* of no other process, whatever it says */
    enum memory_mapping mapping = MEMORY_REFUSED;
    pthread_mutex_lock(&local->sharing_lock);
    struct sharing_peer *const peer = peer_of(local, rx->local_peer, true);
    if (peer != NULL) mapping = map(peer, kind, &share);
    pthread_mutex_unlock(&local->sharing_lock);
    if (mapping == MEMORY_NOT_YET) return;
    atomic_store_explicit(&rx->tail->answer, share.number * 2 + (mapping == MEMORY_MAPPED),
                          memory_order_release); /* pairs with look_at_answer */
}

bool sharing_find(struct local_rx *rx, uint64_t number, struct sharing_mapped *mapped)
{
    pthread_mutex_lock(&rx->local->sharing_lock);
    struct sharing_peer *const peer = peer_of(rx->local, rx->local_peer, false);
    const struct mapped *const found = peer != NULL ? find_mapped(peer, number) : NULL;
    if (found != NULL) *mapped = found->at;
    pthread_mutex_unlock(&rx->local->sharing_lock);
    return found != NULL;
}
