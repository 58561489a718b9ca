/* far_note.h - notes between ranks of different hosts, as they lie on the wire; far.c tells them, and hear.c hears them. */
#ifndef TUTTI_COMM_FAR_NOTE_H
#define TUTTI_COMM_FAR_NOTE_H

#include <assert.h>

#include "comm/network_state.h"

enum note_kind {
    NOTE_FAILURE = 1,
    NOTE_LEFT,
    NOTE_ASK,
    NOTE_CALL,
    NOTE_MESSAGES,
    NOTE_JOINED,
    NOTE_ALL_JOINED
};
static_assert(PEERS_OWN_KIND == NOTE_ALL_JOINED + 1, "the next kind is the transport's");

struct failure_note {
    int32_t status, culprit, reporter, is_verdict;
    uint64_t sequence;
    char message[256];
};

/* A struct straggler_answer. */
struct straggler_note {
    uint64_t age_ns, waits, mean_ns, name_age_ns;
    uint32_t held, calls;
    int32_t rank;
    uint32_t ignored;
};

/* A struct board_progress, which fits behind what an older version tells. */
struct progress_note {
    uint64_t blocking, started, awaited, sequence, blocking_count, started_count;
    uint32_t blocking_what, started_what; /* board_word_of */
    int32_t blocking_root, started_root;
    uint8_t is_there, is_blocked, knows_blocking, knows_started;
    uint32_t ignored;
};

/* A call that was asked for, as far as its rank is with it. */
struct call_note {
    uint64_t latest; /* the number of the last call that began there in the slot */
    uint64_t signature, count;
    int32_t collective, dtype, op, root;
    uint8_t is_described; /* the number asked for has begun, and is not forgotten */
    uint8_t has_ended, started, varies;
    uint8_t is_in_call;              /* whichever */
    uint8_t has_finding, is_stopped; /* it knows of a rank that holds that up */
    int32_t finding;
    uint64_t sequence, finding_sequence; /* of latest calls in all slots: its own, and that rank's */
    struct straggler_note straggler;
    struct progress_note progress;
};

struct joined_note {
    uint64_t levels; /* the fingerprint of what its rank takes for hosts and racks */
    uint32_t integrity;
    uint32_t ignored;
};

struct note {
    uint32_t kind;
    int32_t slot;
    uint64_t begun; /* the call that is asked for */
    union {
        struct failure_note failure;
        struct call_note call;
        struct joined_note joined;
    } u;
};

static_assert(sizeof(struct note) == FAR_NOTE_BYTES, "as others know it");

static_assert(sizeof(struct note) <= PEERS_MESSAGE_BYTES_MAX, "a note is one");

/* Tells a note that may be lost, because it will be asked for or said again. */
bool far_tell(struct comm_network *network, int rank, const struct note *note);

#endif
