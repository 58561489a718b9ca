/* payload.h - a message's payload between memory and its link, which carries the elements as they
 * are, or encoded.
 *
 *     memory     a b c d e f g h i                        elements, whose bytes all sizes count here
 *     pieces     | envelope | a b c d |   | e f g h | i |   whole units, each encoded into its piece
 */
#ifndef TUTTI_P2P_PAYLOAD_H
#define TUTTI_P2P_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "encoding/encoding.h"
#include "engine/wire.h"
#include "p2p/p2p.h"
#include "transport/transport.h"

static inline size_t payload_on_link(const struct kernel_encoding *encoding, enum tutti_dtype dtype,
                                     size_t bytes)
{
    return wire_bytes(encoding, dtype_size(dtype), bytes);
}

/* How the payload of a send is encoded, as its envelope says it. */
static inline uint8_t payload_encoding(const struct p2p_request *send)
{
    return send->encoding == NULL ? 0 : (uint8_t)encoding_named(send->encoding);
}

/* The bytes of memory that a send moves next, if its link takes up to `room` bytes, a unit at
 * least. *on_link: their number of bytes there. */
static inline size_t payload_next(const struct p2p_request *send, size_t room, size_t *on_link)
{
    const struct kernel_encoding *const encoding = send->encoding;
    const size_t left = send->bytes - send->moved_bytes;
    *on_link = payload_on_link(encoding, send->dtype, left);
    if (*on_link <= room) return left;
    if (encoding == NULL) return *on_link = room;
    const size_t units = room / encoding->unit_bytes;
    *on_link = units * encoding->unit_bytes;
    return units * encoding->unit_elements * dtype_size(send->dtype);
}

/* Stores the next bytes of memory of a send at their place on the link. Without bytes there may be
 * no memory either. */
static inline void payload_put(enum kernel_level level, struct p2p_request *send, char *place,
                               size_t bytes)
{
    const char *const from = (const char *)send->buffer + send->moved_bytes;
    if (bytes == 0) return;
    if (send->encoding == NULL)
        memcpy(place, from, bytes);
    else
        encoding_encode(level, send->encoding, from, bytes / dtype_size(send->dtype), place);
    send->moved_bytes += bytes;
}

/* Stores so many bytes of memory, which lie at `data` as they came. */
static inline void payload_get(enum kernel_level level, const struct kernel_encoding *encoding,
                               enum tutti_dtype dtype, const void *data, size_t bytes,
                               void *destination)
{
    if (bytes == 0) return;
    if (encoding == NULL)
        memcpy(destination, data, bytes);
    else
        encoding_decode(level, encoding, data, bytes / dtype_size(dtype), destination);
}

/* Takes a part of an announced payload from its link to its receive: at most `budget` bytes of the
 * link, or a unit. *on_link: the bytes that the caller consumes now; 0: nothing can be taken yet.
 * False: the bytes there are no part of it. */
bool payload_take(enum kernel_level level, struct link_rx *link, const struct link_view *view,
                  size_t budget, struct p2p_request *receive, size_t *on_link);

#endif
