/* letters.h - short messages between ranks of one host, besides all operations: they still work when the communicator has failed.
 *
 * In shared memory each rank has a ring that it alone writes; everybody reads all rings and keeps what is meant for it. A letter is
 * lost when LETTERS_KEPT more are written before it is read: for protocols that repeat themselves. Ranks that died or left
 * leave their last letters behind.
 *
 * What others wrote is foreign: whoever reads checks what it says. */
#ifndef TUTTI_COMM_LETTERS_H
#define TUTTI_COMM_LETTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LETTERS_KEPT = 8,
    LETTER_TO_ALL = -1,
    LETTER_WORDS = 62,
    LETTER_BYTES_MAX = 8 * LETTER_WORDS
};

struct letter {
    _Alignas(64) _Atomic uint64_t number; /* from 1; 0: none, or being written */
    _Atomic uint32_t to, bytes;
    _Atomic uint64_t words[LETTER_WORDS];
};

/* All 0 at first. */
struct letter_ring {
    struct letter letters[LETTERS_KEPT];
};

/* By the ring's owner only, one thread at a time; `written` counts its letters. `to`: a rank, or LETTER_TO_ALL. */
void letters_write(struct letter_ring *ring, uint64_t *written, int to, const void *bytes,
                   size_t byte_count);
/* The next letter in a ring that is meant for `self` or all, into `bytes` (LETTER_BYTES_MAX); false when there is none. `read` is the
 * reader's: the number of the last letter that it has seen. */
bool letters_read(const struct letter_ring *ring, uint64_t *read, int self, void *bytes,
                  size_t *byte_count);

#endif
