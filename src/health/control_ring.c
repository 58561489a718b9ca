#include "health/control_ring.h"

#include <string.h>

void control_ring_write(struct control_ring *ring, uint64_t *written, int to, const void *bytes,
                        size_t byte_count)
{
    if (byte_count > CONTROL_RING_BYTES_MAX) return;
    const uint64_t number = ++*written;
    struct control_ring_message *message = &ring->messages[number % CONTROL_RING_KEPT];
    uint64_t words[CONTROL_RING_WORDS] = {0};
    memcpy(words, bytes, byte_count);
    atomic_store_explicit(&message->number, 0, memory_order_relaxed);
    /* Each releases, so that whoever sees one of these (acquire) sees the zero too. */
    atomic_store_explicit(&message->to, (uint32_t)to, memory_order_release);
    atomic_store_explicit(&message->bytes, (uint32_t)byte_count, memory_order_release);
    for (size_t i = 0; i < (byte_count + 7) / 8; i++)
        atomic_store_explicit(&message->words[i], words[i], memory_order_release);
    atomic_store_explicit(&message->number, number, memory_order_release);
}

/* False: it was overwritten meanwhile. */
static bool copy(const struct control_ring_message *message, uint64_t number, uint32_t *to,
                 void *bytes, size_t *byte_count)
{
    uint64_t words[CONTROL_RING_WORDS];
    *to = atomic_load_explicit(&message->to, memory_order_acquire);
    const uint32_t count = atomic_load_explicit(&message->bytes, memory_order_acquire);
    *byte_count = count <= CONTROL_RING_BYTES_MAX ? count : 0;
    for (size_t i = 0; i < (*byte_count + 7) / 8; i++)
        words[i] = atomic_load_explicit(&message->words[i], memory_order_acquire);
    memcpy(bytes, words, *byte_count);
    return atomic_load_explicit(&message->number, memory_order_relaxed) == number;
}

/* The oldest message behind `read` that is still there; 0: none. */
static uint64_t next_number(const struct control_ring *ring, uint64_t read)
{
    uint64_t next = 0;
    for (int i = 0; i < CONTROL_RING_KEPT; i++) {
        const uint64_t number =
            atomic_load_explicit(&ring->messages[i].number, memory_order_acquire);
        if (number > read && number % CONTROL_RING_KEPT == (uint64_t)i &&
            (next == 0 || number < next))
            next = number;
    }
    return next;
}

bool control_ring_read(const struct control_ring *ring, uint64_t *read, int self, void *bytes,
                       size_t *byte_count)
{
    for (int tries = 0; tries < 2 * CONTROL_RING_KEPT;
         tries++) { /* who writes on and on is read later */
        const uint64_t number = next_number(ring, *read);
        uint32_t to;
        if (number == 0) return false;
        if (!copy(&ring->messages[number % CONTROL_RING_KEPT], number, &to, bytes, byte_count))
            continue;
        *read = number;
        if ((to == (uint32_t)self || to == (uint32_t)CONTROL_RING_TO_ALL) && *byte_count > 0)
            return true;
    }
    return false;
}
