#include "p2p/envelope.h"

#include <string.h>

#include "base/dtype.h"
#include "encoding/encoding.h"
#include "engine/wire.h"

const struct kernel_encoding *envelope_encoding(const struct envelope *envelope)
{
    return envelope->encoding == 0 ? NULL
                                   : encoding_of((enum tutti_encoding)envelope->encoding,
                                                 (enum tutti_dtype)envelope->dtype);
}

static const char *read_eager(const struct envelope *envelope, size_t payload_bytes)
{
    const struct kernel_encoding *const encoding = envelope_encoding(envelope);
    if (payload_bytes >
        wire_bytes(encoding, dtype_size((enum tutti_dtype)envelope->dtype), envelope->bytes))
        return "it has more payload than it says";
    return encoding != NULL && payload_bytes % encoding->unit_bytes != 0 ? "a unit of it is cut off"
                                                                         : NULL;
}

static const char *read_announcement(const void *data, size_t bytes, struct announcement *read)
{
    const size_t envelope_bytes = sizeof read->envelope;
    if (bytes != sizeof *read) return "its announcement is malformed";
    if (read->envelope.bytes == 0) return "it announces nothing";
    memcpy(&read->id, (const char *)data + envelope_bytes, sizeof *read - envelope_bytes);
    return read->envelope.encoding != 0 && read->reference.kind != 0
               ? "it refers to memory that is not encoded"
               : NULL;
}

const char *envelope_read(const void *data, size_t bytes, struct announcement *read)
{
    struct envelope *envelope = &read->envelope;
    if (bytes < sizeof *envelope) return "it is shorter than an envelope";
    memcpy(envelope, data, sizeof *envelope);
    read->id = 0;
    read->reference = (struct link_reference){0};
    if (envelope->zero != 0) return "its envelope is malformed";
    if (!dtype_is_valid((enum tutti_dtype)envelope->dtype)) return "it has no dtype";
    if (envelope->tag < 0) return "its tag is negative";
    if (envelope->bytes > PTRDIFF_MAX / 2) return "it is longer than any memory";
    if (envelope->bytes % dtype_size((enum tutti_dtype)envelope->dtype) != 0)
        return "its last element is cut off";
    if (envelope->encoding != 0 && (!encoding_is_valid((enum tutti_encoding)envelope->encoding) ||
                                    envelope_encoding(envelope) == NULL))
        return "its elements cannot be encoded so";
    switch (envelope->kind) {
    case ENVELOPE_EAGER: return read_eager(envelope, bytes - sizeof *envelope);
    case ENVELOPE_ANNOUNCEMENT: return read_announcement(data, bytes, read);
    default: return "it is of no known kind";
    }
}

const char *answer_read(const void *data, size_t bytes, struct answer *read)
{
    if (bytes != sizeof *read) return "its answer has a wrong length";
    memcpy(read, data, sizeof *read);
    if (read->zero != 0 || read->kind < ANSWER_COME || read->kind > ANSWER_COPIED)
        return "its answer is of no known kind";
    return NULL;
}
