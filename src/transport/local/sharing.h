/* sharing.h - memory of another kind than the host's (memory/kind.h), a device's say, that a reader in another process reads where it lies.
 *
 *     sender                                             reader
 *     memory that the reader is not known to have:
 *     the message goes through a slot, and says what
 *     allocation it came from (MESSAGE_SHARES) ────────► asks the kind of its operation to map that
 *     the reader has it ◄──────── answer, in the tail ── it is mapped, or refused
 *     later ones: allocation and offset
 *     (MESSAGE_MAPPED) ────────────────────────────────► shown where it lies, or, to an operation that does not take that kind, to be copied
 *
 * Invariants
 *   1. Nobody sends what its reader has not said to have mapped. A reader that cannot map, or has no device, says nothing, or refuses: all
 *      goes through slots then, and no call fails.
 *   2. An allocation has a number that is not used again (memory_share), so memory that was freed is no memory that was mapped.
 *   3. What a peer shares is foreign: its kind checks it, and what a message names lies within what is mapped.
 *
 * Only on links to one rank, of another process whose pid this one sees, and not where messages are compared or TUTTI_CMA=0. A reader's
 * memory is not stored to in this way.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_SHARING_H
#define TUTTI_TRANSPORT_LOCAL_SHARING_H

#include "transport/local/ends.h"
#include "transport/transport.h"

struct sharing_mapped {
    const struct memory_kind *kind;
    void *address;
    size_t bytes;
};

void sharing_init(struct local *local);
void sharing_release(struct local *local);
void sharing_add_footprint(const struct local *local, struct transport_footprint *footprint);

/* Whether the reader reads that memory where it lies. If not, the next message may say what it is. */
bool sharing_reaches(struct local_tx *tx, const struct memory_kind *kind, const void *address,
                     size_t bytes);
/* Sends such memory; the next header is free. False: its allocation cannot be told. */
bool sharing_post(struct local_tx *tx, const struct memory_kind *kind, const void *address,
                  size_t bytes);
/* For the message in the next header, which has that kind, SLOT or SHARED: with what is to be said of memory. Returns its kind. */
static inline enum message_kind sharing_add(struct local_tx *tx, enum message_kind kind)
{
    if (__builtin_expect(!tx->shares, 1)) return kind;
    struct memory_share *const place =
        (struct memory_share *)(void *)(tx->data - SMALL_SLOTS_BYTES +
                                        segment_small_slot(tx->sequence));
    *place = tx->shared;
    tx->shares = false;
    return (enum message_kind)((unsigned)kind | MESSAGE_SHARES);
}

/* Of the message that is looked at: answers to what it says of memory. */
void sharing_answer(struct local_rx *rx);
/* An allocation of the link's peer, which this rank has mapped. */
bool sharing_find(struct local_rx *rx, uint64_t number, struct sharing_mapped *mapped);

#endif
