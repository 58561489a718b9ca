/* control_ring.h - short messages between ranks of one host, besides all operations: they still
 * work when the communicator has failed.
 *
 * In shared memory each rank has a ring that it alone writes; every rank reads all rings and keeps
 * the messages that are meant for it. A message is lost when CONTROL_RING_KEPT more are written
 * before it is read: for protocols that repeat themselves. Ranks that died or left leave their last
 * messages behind.
 *
 * Messages of others are foreign: their reader checks what they say. */
#ifndef TUTTI_HEALTH_CONTROL_RING_H
#define TUTTI_HEALTH_CONTROL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONTROL_RING_KEPT = 8,
    CONTROL_RING_TO_ALL = -1,
    CONTROL_RING_WORDS = 62,
    CONTROL_RING_BYTES_MAX = 8 * CONTROL_RING_WORDS
};

struct control_ring_message {
    _Alignas(64) _Atomic uint64_t number; /* from 1; 0: none, or being written */
    _Atomic uint32_t to, bytes;
    _Atomic uint64_t words[CONTROL_RING_WORDS];
};

/* All 0 at first. */
struct control_ring {
    struct control_ring_message messages[CONTROL_RING_KEPT];
};

/* By the ring's owner only, one thread at a time; `written` counts its messages. `to`: a rank, or
 * CONTROL_RING_TO_ALL. */
void control_ring_write(struct control_ring *ring, uint64_t *written, int to, const void *bytes,
                        size_t byte_count);
/* The next message in a ring that is meant for `self` or all, into `bytes`
 * (CONTROL_RING_BYTES_MAX); false when there is none. `read` is the reader's: the number of the
 * last message that it has seen. */
bool control_ring_read(const struct control_ring *ring, uint64_t *read, int self, void *bytes,
                       size_t *byte_count);

#endif
