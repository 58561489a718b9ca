/* checked.h - the messages of a link with integrity: each lies twice in the segment, and has a
 * checksum.
 *
 *     headers   first copies: HEADER_COUNT of them │ second copies: as many
 *     a slot    first copy of a payload            │ second copy
 *
 *   sender                                             reader
 *   stores the message where all links do              first copy fits to its checksum ──► shows it
 *   seals it: checksum of number, signature, length,        └─ no: second copy fits ─────► shows that one: mended
 *     bytes; copies all that to its second place                      └─ no ─────────────► changed for good
 *   announces it
 *
 * So the reader mends a change alone: the sender may be computing meanwhile, or be gone.
 *
 * Invariants
 *   1. A message is compared before any part of it is shown. A small message is shown as the
 *      private copy that was compared. A large one is read where it lies right after that, out of
 *      the cache to which comparing brought it.
 *   2. Messages go only in the header or through a slot. Memory that another process reads, copies
 *      out or stores to, and places that travel, have no second copy, so they are not used.
 *   3. A header that makes no sense counts as changed. Nothing outside of the link is ever looked
 *      at.
 *
 * Changes that are not found: those after the comparison, and those of the counters of consumed
 * messages, of bells and of the board, which have no checksum. A changed counter keeps a rank
 * waiting until the deadline of its call, or makes a writer overwrite a message that has not been
 * read, whose checksum then does not fit.
 *
 * Memory traffic: a small message is still one line that crosses cores; a large one is written
 * twice, and read twice at each end, in cache.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_CHECKED_H
#define TUTTI_TRANSPORT_LOCAL_CHECKED_H

#include "transport/local/segment.h"

/* A message as its reader has compared it. */
struct checked_message {
    const void *data; /* in `small`, or in a slot */
    size_t bytes;
    uint64_t signature;
    _Alignas(8) unsigned char small[INLINE_BYTES];
};

enum checked_result { CHECKED_ABSENT, CHECKED_INTACT, CHECKED_MENDED, CHECKED_CHANGED };

/* The most bytes of a payload in a slot of that size. */
size_t checked_bytes_max(size_t slot_bytes);
/* Completes the first copy of a header, which already has the signature and the inline data or the
 * slot, and makes the second copies of the header and of the payload, which lies in the slot; NULL:
 * it is inline. The caller then only releases the returned value as the first copy's sequence. */
uint64_t checked_seal(struct message_header *header, uint64_t number, size_t bytes, char *payload,
                      size_t slot_bytes);
/* Compares message `number` of a link with those slots; `header` is the message's first one.
 * INTACT, MENDED: *message is valid as long as the message's places are the reader's. */
enum checked_result checked_read(const struct message_header *header, uint64_t number,
                                 const char *slots, size_t slot_bytes,
                                 struct checked_message *message);

#endif
