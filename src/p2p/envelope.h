/* envelope.h - what lies on the links of point to point, and what of it makes sense.
 *
 *     channel 0, messages   | envelope | payload ...   what does not fit into a piece follows in more of them
 *                           | envelope | id | reference |   announcement
 *     channel 1, payloads   payload ...                of announced messages, in the order of the comes
 *     channel 2, answers    | kind | id |
 *
 * A payload is elements as they lie in memory, or whole units of an encoding, in pieces of whole
 * units. Then no announcement refers to it.
 *
 * Both ends are the same build on the same host or network order, so this has no version: the
 * signature of the slot differs when the format does. An envelope and 24 bytes of payload fit a
 * transport's smallest message.
 */
#ifndef TUTTI_P2P_ENVELOPE_H
#define TUTTI_P2P_ENVELOPE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/format.h"
#include "transport/transport.h"
#include "tutti/tutti.h"

enum { P2P_CHANNEL_MESSAGES, P2P_CHANNEL_PAYLOADS, P2P_CHANNEL_ANSWERS };

#define P2P_SIGNATURE UINT64_C(0x7032702d00000003) /* "p2p-", format */

enum envelope_kind { ENVELOPE_EAGER = 1, ENVELOPE_ANNOUNCEMENT };

struct envelope {
    uint8_t kind;
    uint8_t dtype;
    uint8_t encoding; /* enum tutti_encoding of the payload */
    uint8_t zero;
    int32_t tag;
    uint64_t bytes; /* of memory: of the elements as they are */
};

struct announcement {
    struct envelope envelope;
    uint64_t id;                     /* the sender's, comes back in the answer */
    struct link_reference reference; /* to the payload, or none */
};

/* COPIED only where the announcement had a reference. */
enum answer_kind { ANSWER_COME = 1, ANSWER_DROP, ANSWER_COPIED };

struct answer {
    uint32_t kind;
    uint32_t zero;
    uint64_t id;
};

static_assert(sizeof(struct envelope) == 16 && offsetof(struct envelope, tag) == 4 &&
                  offsetof(struct envelope, bytes) == 8,
              "an envelope has no holes");
static_assert(sizeof(struct announcement) == 40 && offsetof(struct announcement, id) == 16 &&
                  offsetof(struct announcement, reference) == 24,
              "an announcement has no holes");
static_assert(sizeof(struct answer) == 16 && offsetof(struct answer, id) == 8,
              "an answer has no holes");

/* How the payload behind a valid envelope is encoded; NULL: it is not. */
const struct kernel_encoding *envelope_encoding(const struct envelope *envelope);

/* Read the start of a message of that many foreign bytes, once. NULL if it makes sense, else a text
 * that says why not. The bytes behind an eager envelope in the message are payload, whole units of
 * it, and not more than there are in all. */
const char *envelope_read(const void *data, size_t bytes, struct announcement *read);
const char *answer_read(const void *data, size_t bytes, struct answer *read);

#endif
