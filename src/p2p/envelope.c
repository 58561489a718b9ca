#include "p2p/envelope.h"

#include <string.h>

#include "base/dtype.h"

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
    if (envelope->bytes % tutti_dtype_size((enum tutti_dtype)envelope->dtype) != 0)
        return "its last element is cut off";
    switch (envelope->kind) {
    case ENVELOPE_EAGER:
        return bytes - sizeof *envelope <= envelope->bytes ? NULL
                                                           : "it has more payload than it says";
    case ENVELOPE_ANNOUNCEMENT:
        if (bytes != sizeof *read) return "its announcement is malformed";
        if (envelope->bytes == 0) return "it announces nothing";
        memcpy(&read->id, (const char *)data + sizeof *envelope, sizeof *read - sizeof *envelope);
        return NULL;
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
