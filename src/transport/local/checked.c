#include "transport/local/checked.h"

#include <string.h>

#include "base/crc32c.h"

/* kind_and_bytes has three parts here: kind, bytes, checksum. */
enum { KIND_SHIFT = 56, BYTES_SHIFT = 32, BYTES_BITS = KIND_SHIFT - BYTES_SHIFT };

/* The value of `sequence` for a message: a multiple of the golden ratio, so that two uses of a
 * header differ in many bits. */
static uint64_t mark_of(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

size_t checked_bytes_max(size_t slot_bytes)
{
    return slot_bytes / 2;
}

static uint64_t word_of(enum message_kind kind, size_t bytes)
{
    return (uint64_t)kind << KIND_SHIFT | (uint64_t)bytes << BYTES_SHIFT;
}

/* `small` has the bytes of a message without payload, and otherwise the number of its slot. */
static uint32_t checksum_of(uint64_t number, uint64_t signature, uint64_t word, const void *small,
                            size_t bytes, const void *payload)
{
    const uint64_t head[] = {number, signature, word >> BYTES_SHIFT};
    const uint32_t so_far = crc32c(0, head, sizeof head);
    if (payload == NULL) return crc32c(so_far, small, bytes);
    return crc32c(crc32c(so_far, small, sizeof(uint64_t)), payload, bytes);
}

uint64_t checked_seal(struct message_header *header, uint64_t number, size_t bytes, char *payload,
                      size_t slot_bytes)
{
    assert(bytes <= (payload != NULL ? checked_bytes_max(slot_bytes) : INLINE_BYTES));
    static_assert(BYTES_BITS >= 24, "room for the bytes of any slot");
    const uint64_t word = word_of(payload != NULL ? MESSAGE_SLOT : MESSAGE_INLINE, bytes);
    header->kind_and_bytes =
        word | checksum_of(number, header->signature, word, header->u.data, bytes, payload);
    if (payload != NULL) memcpy(payload + checked_bytes_max(slot_bytes), payload, bytes);
    struct message_header *const second = header + HEADER_COUNT;
    second->signature = header->signature;
    second->kind_and_bytes = header->kind_and_bytes;
    second->u = header->u;
    const uint64_t mark = mark_of(number);
    atomic_store_explicit(&second->sequence, mark, memory_order_release); /* pairs with has_come */
    return mark;
}

/* Compares one copy; `slots` begins with that copy of the first slot. */
static bool fits(const struct message_header *header, uint64_t number, const char *slots,
                 size_t slot_bytes, struct checked_message *message)
{
    const uint64_t word = read_once(&header->kind_and_bytes);
    const size_t bytes = word >> BYTES_SHIFT & ((UINT64_C(1) << BYTES_BITS) - 1);
    const enum message_kind kind = (enum message_kind)(word >> KIND_SHIFT);
    uint64_t slot;
    message->bytes = bytes;
    message->signature = header->signature;
    memcpy(message->small, header->u.data, sizeof message->small);
    memcpy(&slot, message->small, sizeof slot);
    const char *payload = NULL;
    if (kind == MESSAGE_SLOT && slot < DATA_SLOTS && bytes <= checked_bytes_max(slot_bytes))
        payload = slots + slot * slot_bytes;
    else if (kind != MESSAGE_INLINE || bytes > INLINE_BYTES)
        return false;
    message->data = payload != NULL ? (const void *)payload : message->small;
    return (uint32_t)word ==
           checksum_of(number, message->signature, word, message->small, bytes, payload);
}

static uint64_t mark_in(const struct message_header *header)
{
    return atomic_load_explicit(&header->sequence,
                                memory_order_acquire); /* pairs with checked_seal */
}

/* A header has the mark of this message, or still that of its last use. If it has neither, the
 * second copy decides. */
static bool has_come(const struct message_header *header, uint64_t number)
{
    const uint64_t mark = mark_of(number), found = mark_in(header);
    if (found == mark) return true;
    const uint64_t last = number > HEADER_COUNT ? mark_of(number - HEADER_COUNT) : 0;
    return found != last && mark_in(header + HEADER_COUNT) == mark;
}

enum checked_result checked_read(const struct message_header *header, uint64_t number,
                                 const char *slots, size_t slot_bytes,
                                 struct checked_message *message)
{
    if (!has_come(header, number)) return CHECKED_ABSENT;
    if (fits(header, number, slots, slot_bytes, message)) return CHECKED_INTACT;
    return fits(header + HEADER_COUNT, number, slots + checked_bytes_max(slot_bytes), slot_bytes,
                message)
               ? CHECKED_MENDED
               : CHECKED_CHANGED;
}
