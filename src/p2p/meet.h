/* meet.h - whether a receive takes the message that has met it. */
#ifndef TUTTI_P2P_MEET_H
#define TUTTI_P2P_MEET_H

#include <stdbool.h>
#include <stddef.h>

#include "p2p/p2p.h"

/* The part of a message that decides. */
struct meeting {
    int source, tag;
    enum tutti_dtype dtype;
    size_t bytes;
    const struct kernel_encoding *encoding;
    bool (*agrees)(const struct p2p_request *receive); /* as in struct p2p_options */
};

static inline enum tutti_status meet_status(const struct meeting *message,
                                            const struct p2p_request *receive)
{
    const bool has_dtype = message->dtype == receive->dtype;
    const bool asks = message->encoding != NULL || receive->minds_encoding;
    if (message->encoding != NULL && !has_dtype) return TUTTI_MISMATCH;
    if (asks && message->agrees != NULL && !message->agrees(receive)) return TUTTI_MISMATCH;
    return has_dtype && message->bytes <= receive->bytes ? TUTTI_OK : TUTTI_TRUNCATED;
}

/* Writes down which message a receive has got, and the status that it ends with; true if it takes
 * the message. */
static inline bool meet(const struct meeting *message, struct p2p_request *receive)
{
    receive->source = message->source;
    receive->message_tag = message->tag;
    receive->sent_dtype = message->dtype;
    receive->sent_bytes = message->bytes;
    receive->encoding = message->encoding;
    receive->status = meet_status(message, receive);
    receive->received_bytes = receive->status == TUTTI_OK ? message->bytes : 0;
    return receive->status == TUTTI_OK;
}

#endif
