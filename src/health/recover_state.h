/* recover_state.h - what recover.c (messages, lost ranks) and agree.c (the agreements) have in
 * common. */
#ifndef TUTTI_HEALTH_RECOVER_STATE_H
#define TUTTI_HEALTH_RECOVER_STATE_H

#include <stdatomic.h>

#include "health/control_ring.h"
#include "health/health.h"
#include "membership/agreement.h"
#include "membership/silence.h"
#include "membership/vote.h"

/* OPPOSED: it takes part in the agreement of that number about something else, and has no vote in this
 * one. It counts as suspected.
 * MOVED_ON: it left, and may have decided the current agreement before, or an earlier one which this
 * rank did not decide, as a member of a new team has that freed the old communicator. It counts as
 * suspected: what it decided lives on elsewhere, so the others must not go on as if it had died with
 * that. A rank that left without such a decision is as if dead: it knows none, and takes part in
 * none. So ranks say when they leave which agreement they decided last. */
enum standing { STANDS, SUSPECTED, OPPOSED, MOVED_ON, DECLARED_DEAD };

/* Another rank, as the agreements see it. */
struct other {
    enum standing standing; /* as the agreement knows it */
    bool is_lost;           /* dead or left, as was seen before its final messages were read */
    bool has_left;          /* lost because it left; its final messages are read in the same pass */
    bool is_outsider;       /* the current agreement excludes it, and does not hear it */
    bool was_outsider;      /* the same of the previous one */
    bool is_given_up;       /* the current agreement follows one that went on without it */
    bool has_opposed;       /* it was OPPOSED once */
    uint64_t left_out;      /* the last agreement that was decided without it; 0: none */
    uint64_t alike;         /* the highest number at which it was in an agreement about the same */
    uint64_t epoch;         /* the highest number of which it has said something */
    uint64_t joined;  /* the highest number at which it was in this rank's agreement; 0: at none */
    uint64_t opposed; /* the number of this rank's last agreement that it was not in; 0: of none */
    uint64_t vote;    /* one of its votes is kept, see membership/vote.h */
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
    uint64_t epoch;                       /* number of the current one */
    uint32_t about, previous_about; /* what they are about, see health/agree.h; 0: who is left */
    bool is_secret;                 /* outsiders hear nothing of the current one */
    uint64_t missed; /* the first agreement without this rank, see membership/standing.h; 0: none */
    const char *_Atomic within; /* the call that makes agreements now; NULL: none */
    atomic_bool has_begun;      /* this rank's first one; else it has only heard what others say */
    uint64_t written;           /* messages */
    struct sent sent[CONTROL_RING_KEPT];
    unsigned sent_count;
    struct vote_history votes; /* this rank's own */
    uint64_t asked_ns;         /* when it last asked the others for theirs */
    uint64_t looked_ns;
    int awaited; /* the rank that an agreement waited for when it was given up, or -1 */
    /* When it was last seen that a rank is at the agreement after the current one (0: none is), and
     * for how long. */
    uint64_t ahead_ns, behind_ns;
    int ahead;
    struct absence *absence; /* of musters (health/absence.h); NULL: there was none */
    bool has_mustered;       /* so other agreements go on without ranks that do not run, too */
    struct other others[];   /* one per rank */
};

/* The communicator's recovery, made when it is first needed. */
enum tutti_status recover_get(struct health *health, struct recovery **recovery);
/* A message of the current agreement to another rank; context: the recovery. */
void recover_send(void *context, int to, const void *bytes, size_t byte_count);
/* Takes in what ranks of this host have written. */
void recover_read_rings(struct recovery *recovery);
/* How the current agreement has to see a rank that is lost: as dead, or as moved on. */
enum standing recover_standing_of_lost(const struct recovery *recovery, int rank);
/* The first rank that takes part in another agreement than the current one and is not excluded by this
 * one, if so many ranks do that the others are no majority; -1: they may be. */
int recover_outvoted_by(const struct recovery *recovery);
/* Whether an agreement of the present number other than the current one, which puts ranks out, may have
 * a majority, as far as is known; and asks ranks whose votes are not known, now and then. */
bool recover_may_be_put_out(const struct recovery *recovery);
/* Whether a rank is only taken for one that called something else, since nothing else was heard of it. */
bool recover_lacks_votes(const struct recovery *recovery);
void recover_ask_votes(struct recovery *recovery, uint64_t now_ns);
/* Tells the others this rank's vote at the present number, before it may leave. */
void recover_say_vote(struct recovery *recovery);
/* Finds out which ranks are dead or have left; and, when their final messages have been heard,
 * tells the current agreement of it. */
void recover_look(struct recovery *recovery, uint64_t now_ns);
void recover_tell_lost(struct recovery *recovery, uint64_t now_ns);

#endif
