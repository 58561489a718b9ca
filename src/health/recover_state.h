/* recover_state.h - what recover.c (messages, lost ranks) and agree.c (the agreements) have in
 * common. */
#ifndef TUTTI_HEALTH_RECOVER_STATE_H
#define TUTTI_HEALTH_RECOVER_STATE_H

#include <stdatomic.h>

#include "health/control_ring.h"
#include "health/health.h"
#include "membership/agreement.h"
#include "membership/silence.h"

/* MOVED_ON: it left, and may have decided the current agreement before, as a member of a new team has
 * that freed the old communicator. It counts as suspected: what it decided lives on elsewhere, so
 * the others must not go on as if it had died with that. */
enum standing { STANDS, SUSPECTED, MOVED_ON, DECLARED_DEAD };

/* Another rank, as the agreements see it. */
struct other {
    enum standing standing; /* as the agreement knows it */
    bool is_lost;           /* dead or left, as was seen before its final messages were read */
    bool has_left;          /* lost because it left; its final messages are read in the same pass */
    uint64_t epoch;         /* the highest of which it has said something */
    struct silence silence; /* of a rank of another host, since it was told something */
    uint64_t read;          /* of its messages */
};

/* A message of the pass that is under way. */
struct sent {
    bool is_to_all;
    size_t byte_count;
    char bytes[CONTROL_RING_BYTES_MAX];
};

struct recovery {
    struct health *health;
    struct agreement *current, *previous; /* or NULL */
    uint64_t epoch;                       /* of the current one */
    atomic_bool has_begun; /* this rank's first one; else it has only heard what others say */
    uint64_t written;      /* messages */
    struct sent sent[CONTROL_RING_KEPT];
    unsigned sent_count;
    uint64_t looked_ns;
    int awaited;       /* the rank that an agreement waited for when it was given up, or -1 */
    uint64_t ahead_ns; /* since when a rank is at the agreement after the current one; 0: none is */
    int ahead;
    struct other others[]; /* one per rank */
};

/* The communicator's recovery, made when it is first needed. */
enum tutti_status recover_get(struct health *health, struct recovery **recovery);
/* A message of the current agreement to another rank; context: the recovery. */
void recover_send(void *context, int to, const void *bytes, size_t byte_count);
/* Takes in what ranks of this host have written. */
void recover_read_rings(struct recovery *recovery);
/* How the current agreement has to see a rank that is lost: as dead, or as moved on. */
enum standing recover_standing_of_lost(const struct recovery *recovery, int rank);
/* Finds out which ranks are dead or have left; and, when their final messages have been heard,
 * tells the current agreement of it. */
void recover_look(struct recovery *recovery, uint64_t now_ns);
void recover_tell_lost(struct recovery *recovery, uint64_t now_ns);

#endif
