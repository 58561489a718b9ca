/* sharing.h - how a reader in another process reads memory of another kind than the host's
 * (memory/kind.h), such as a device's, where it lies.
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
 *   1. A rank refers only to memory that the reader has said to have mapped. A reader that cannot
 *      map, or has no device, says nothing or refuses; then all messages go through slots, and no
 *      call fails.
 *   2. An allocation has a number that is not used again (memory_share), so freed memory is never
 *      taken for memory that was mapped.
 *   3. Whatever a peer shares is foreign: the kind of memory checks it, and a message may only name
 *      a range within what is mapped.
 *
 * Memory is shared only on links to one rank, whose process is another one and has a pid that this
 * process sees. It is not shared if messages are compared, or with TUTTI_CMA=0. No sender stores
 * into a reader's memory in this way.
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

/* Whether the reader can read that memory where it lies. If not, the next message may say which
 * allocation it is. */
bool sharing_reaches(struct local_tx *tx, const struct memory_kind *kind, const void *address,
                     size_t bytes);
/* Sends such memory; the next header must be free. False: the allocation is not known. */
bool sharing_post(struct local_tx *tx, const struct memory_kind *kind, const void *address,
                  size_t bytes);
/* Adds to the message in the next header, whose kind is SLOT or SHARED, an offer to share memory, if
 * its small slot is free; else a later message takes the offer along. Returns the resulting kind. */
static inline enum message_kind sharing_add(struct local_tx *tx, enum message_kind kind)
{
    if (__builtin_expect(!tx->shares, 1)) return kind;
    if (tx->sequence - tx->consumed >= SMALL_SLOT_COUNT) return kind;
    *(struct memory_share *)(void *)ends_small_slot(tx) = tx->shared;
    tx->shares = false;
    return (enum message_kind)((unsigned)kind | MESSAGE_SHARES);
}

/* Answers the current message's offer to share memory. */
void sharing_answer(struct local_rx *rx);
/* Finds an allocation of the link's peer that this rank has mapped. */
bool sharing_find(struct local_rx *rx, uint64_t number, struct sharing_mapped *mapped);

#endif
