/* checked.h - messages of a link with integrity: each lies twice in the segment, and has a checksum.
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
 * So a change needs nobody's help to be mended: the sender may be computing meanwhile, or be gone.
 *
 * Invariants
 *   1. A message is compared before anybody is shown anything of it. A small one is shown as the private copy that was
 *      compared; a large one is read where it lies right after that, out of the cache that comparing brought it to.
 *   2. Only these two ways are taken: in the header, and through a slot. Memory that is read, copied out or stored by
 *      another process, and places that travel, have no second copy, so they are not used.
 *   3. What makes no sense in a header counts as changed. Nothing outside of the link is ever looked at.
 *
 * Not found: what changes after it was compared, and in counters of what was consumed, bells and the board, which have no
 * checksum. A counter that changed keeps somebody waiting until the deadline of his call, or makes a writer overwrite what
 * has not been read, which then does not fit.
 *
 * Memory traffic: of a small message still one line crosses cores; a large one is written twice, and read twice at each
 * end, in cache.
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

/* Of a payload in a slot of that size. */
size_t checked_bytes_max(size_t slot_bytes);
/* Completes the first copy of a header, in which signature and inline data or slot are, with its second copy and that of the
 * payload, which lies in the slot; NULL: it is inline. Only the first copy's sequence is left to be released: as returned. */
uint64_t checked_seal(struct message_header *header, uint64_t number, size_t bytes, char *payload,
                      size_t slot_bytes);
/* Compares message `number`, whose first header that is, of a link with those slots. INTACT, MENDED: *message is valid as long as
 * the message's places are the reader's. */
enum checked_result checked_read(const struct message_header *header, uint64_t number,
                                 const char *slots, size_t slot_bytes,
                                 struct checked_message *message);

#endif
