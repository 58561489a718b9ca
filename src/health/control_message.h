/* control_message.h - control messages between ranks of different hosts, as they lie on the wire;
 * remote_rank.c tells them, and hear.c hears them. */
#ifndef TUTTI_HEALTH_CONTROL_MESSAGE_H
#define TUTTI_HEALTH_CONTROL_MESSAGE_H

#include <assert.h>

#include "health/network_state.h"

enum control_kind {
    CONTROL_FAILURE = 1,
    CONTROL_LEFT,
    CONTROL_ASK,
    CONTROL_CALL,
    CONTROL_MESSAGES,
    CONTROL_JOINED,
    CONTROL_ALL_JOINED
};
static_assert(CONTROL_KIND_OWN == CONTROL_ALL_JOINED + 1, "the next kind is the transport's");

struct failure_message {
    int32_t status, culprit, reporter, is_verdict;
    uint64_t sequence;
    char message[256];
};

/* A struct straggler_answer. */
struct straggler_message {
    uint64_t age_ns, waits, mean_ns, name_age_ns;
    uint32_t held, calls;
    int32_t rank;
    uint32_t delay; /* an older version says 0: not known */
};

/* A struct board_progress, which fits behind what an older version tells. */
struct progress_message {
    uint64_t blocking, started, awaited, sequence, blocking_count, started_count;
    uint32_t blocking_what, started_what; /* board_word_of */
    int32_t blocking_root, started_root;
    uint8_t is_there, is_blocked, knows_blocking, knows_started;
    uint32_t ignored;
};

enum { CONTROL_AGREES = 2 };

/* The answer to a question about a call: how far its rank is with it. */
struct call_message {
    uint64_t latest; /* the number of the last call that began there in the slot */
    uint64_t signature, count;
    int32_t collective;
    int32_t dtype; /* and, 256 times, enum tutti_encoding: older versions look at the byte alone */
    int32_t op, root;
    uint8_t is_described; /* the number asked for has begun, and is not forgotten */
    uint8_t has_ended, started, varies;
    uint8_t is_in_call; /* 1: whichever; and CONTROL_AGREES: in a call that makes agreements */
    uint8_t has_finding, is_stopped; /* the rank knows of another that holds the call up */
    uint8_t is_gated; /* the call waits for its gate there. An older version says no, or nothing */
    int32_t finding;
    uint32_t purpose; /* enum call_purpose; an older version says 0: the user's */
    uint64_t sequence, finding_sequence; /* of latest calls in all slots: its own, and that rank's */
    struct straggler_message straggler;
    struct progress_message progress;
};

/* A message of kind CONTROL_WITHDRAWN or CONTROL_EXCLUDED, with the word of withdrawn.c or
 * exclusion.c. */
struct word_message {
    uint32_t kind, ignored;
    uint64_t word;
};

struct joined_message {
    uint64_t levels; /* the fingerprint of what its rank takes for hosts and racks */
    uint32_t integrity;
    uint32_t ignored;
};

struct control_message {
    uint32_t kind;
    int32_t slot;
    uint64_t begun; /* the call that is asked for; LEFT: left_at, as on a board. An older version says 0 */
    union {
        struct failure_message failure;
        struct call_message call;
        struct joined_message joined;
    } u;
};

static_assert(sizeof(struct control_message) == CONTROL_MESSAGE_BYTES, "as others know it");

static_assert(sizeof(struct control_message) <= CONTROL_MESSAGE_BYTES_MAX,
              "a control message is one");

/* Tells a control message that may be lost, because it will be asked for or said again. */
bool remote_tell(struct network *network, int rank, const struct control_message *message);

#endif
