/* agreement.h - the ranks of a communicator agree, once, whatever fails meanwhile: a pure state
 * machine.
 *
 * Each rank brings a 64-bit word. All ranks that come to a decision come to the same one: a set of
 * ranks, and the bitwise AND of the words of exactly those in it. That carries ULFM's agree (the
 * word) and shrink (the set: its ranks go on, in the order of the old ranks). A rank that failed
 * before it brought its word is not in the set, and all ranks that decide know that.
 *
 * One object is one agreement of one rank. Messages, time and what is known of others go in,
 * messages come out by a callback; it knows no clock and no socket, and allocates nothing after its
 * creation. Messages may be lost, doubled, late, in any order.
 *
 *      rank 0                          others                    Paxos, with its first ballot promised to rank 0 in advance
 *        │ ◄──────────── PROMISE  word │  at once                (later ballots begin with a PREPARE of their leader)
 *        │ waits for all it does not suspect; a quorum at least
 *        │ ACCEPT  set, AND ─────────► │  stores it
 *        │ ◄────────────────  ACCEPTED │
 *        │ a quorum: decided           │
 *        │ DECIDE  set, AND ─────────► │  decided
 *
 * The lowest rank that does not suspect all lower ones leads. When it is suspected, the next one
 * begins a ballot of its own: it asks all what they have accepted (PREPARE, PROMISE), takes over
 * what was accepted last, and only if nothing was, proposes anew. Lamport: The Part-Time Parliament
 * (TOCS 1998), Paxos Made Simple (2001). That safety needs no true suspicions, and liveness only
 * eventually true ones: Chandra, Toueg: Unreliable Failure Detectors for Reliable Distributed
 * Systems (JACM 1996). The demands of MPI on an agreement: Herault, Bouteiller, Bosilca et al.:
 * Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems (SC 2015). A star: 4
 * alpha deep without failures, but the leader handles 4 (size - 1) messages.
 *
 * Two sorts of knowledge about others go in, and they are not mixed up:
 *     suspected   nothing was heard for some time; may be wrong, may be taken back; decides only how long to wait and who leads
 *     dead        for certain, the kernel said so; true, final. Whatever still comes from the dead is not listened to.
 *
 * Why no two living ranks decide differently
 *
 *  1. A ballot is won by a *majority*: more than half of all members, or half of them with rank 0.
 *     Any two of these have a rank in common; so with the rules of Paxos all ballots that are won
 *     have the same value.
 *  2. When those that are not declared dead cannot be a majority any more, a leader begins a ballot
 *     *by all*: it says which ranks it has declared dead, D, and wins with the promises and votes
 *     of all others. D is fixed with the ballot; when more are declared dead, a new one is begun.
 *     Ballots by all are above all ballots by majority. A rank declares D dead itself before it
 *     promises one.
 *  3. Two ballots by all, of p and q, have a rank in common: otherwise p would be among the dead of
 *     q and q among those of p, each dead before the other began. So by Paxos's rules all ballots
 *     by all that are won have the same value.
 *  4. Let M be a majority that voted for v, and b a ballot by all. If they have a rank in common,
 *     its promise tells of v. If not, all of M had died before b began. Only a rank that decided v,
 *     and ranks that heard of it, can know of v. Such a rank outside D either said so instead of
 *     its promise, which ends b; or it heard of v after its promise, but then not from D, whom it
 *     had declared dead by then: the first one to hear so heard it from no other rank. So v was
 *     decided by ranks of D only, and is gone with them.
 *
 * Some ranks may be no *voters*: those that join a team, whose members alone have a say in who goes
 * on. Then a majority is more than half of the voters, or half of them with the lowest; a ballot by
 * all begins when no majority of voters can live, and still needs the vote of every rank that is
 * not declared dead, voter or not. Steps 1 to 4 hold as they stand: majorities have a voter in
 * common; and a rank that has heard of v and lives takes part in every ballot by all, whether or
 * not it is a voter.
 *
 * The set of a decision is a quorum itself: of a majority ballot it has a majority, of a ballot by all
 * all that are not declared dead. So ranks that it leaves out, and that never hear of it, cannot be a
 * majority of their own in the agreements that come next.
 *
 * So decisions differ at most from those of ranks that had died before the ballot began that won,
 * and only after most members died. Sides of a partition: at most one can have a majority, and a
 * side whose others are merely unreachable has no rank to declare dead. A rank that cannot get a
 * quorum waits, until its owner gives up; it never decides otherwise.
 *
 * It does not detect failures, does not encrypt or authenticate, and does not defend against ranks
 * that lie.
 */
#ifndef TUTTI_MEMBERSHIP_AGREEMENT_H
#define TUTTI_MEMBERSHIP_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    AGREEMENT_SIZE_MAX = 65536,
    /* A set of more than 3584 ranks travels in several messages. */
    AGREEMENT_SLICE_WORDS = 56,
    AGREEMENT_HEAD_BYTES = 48,
    AGREEMENT_MESSAGE_BYTES_MAX = AGREEMENT_HEAD_BYTES + 8 * AGREEMENT_SLICE_WORDS,
    AGREEMENT_RETRY_NS_MIN = 5000000, /* defaults */
    AGREEMENT_RETRY_NS_MAX = 320000000
};

enum agreement_state {
    AGREEMENT_RUNNING,
    AGREEMENT_DECIDED,
    AGREEMENT_MINORITY, /* given up: the ranks neither suspected nor dead were no quorum */
    AGREEMENT_LATE      /* given up: they were, but somebody did not come */
};

struct agreement;

/* Hands a message to whatever carries it, best effort. It must not call into the agreement. `bytes`
 * are its only for the call. */
typedef void agreement_send(void *context, int to, const void *bytes, size_t byte_count);

struct agreement_options {
    int size, rank; /* of the communicator, at most AGREEMENT_SIZE_MAX */
    /* The same on all ranks, of no other agreement whose messages may still be under way to them:
     * counted, by owners that declare again at once who was dead before; else
     * agreement_next_epoch. */
    uint64_t epoch;
    uint64_t word; /* this rank's */
    /* The ranks whose votes make a majority, at least one, the same on all ranks; copied. NULL: all
     * ranks. */
    const uint64_t *voters;
    uint64_t retry_ns_min,
        retry_ns_max; /* between repetitions, from the first on; 0: the defaults */
    agreement_send *send;
    void *context;
};

/* Nothing is sent before the first tick or message. NO_MEMORY. One thread at a time may use it;
 * nothing here blocks. */
enum tutti_status agreement_create(const struct agreement_options *options,
                                   struct agreement **agreement);
/* An agreement that has decided answers ranks that have not. So it is to be kept as long as any of
 * them may ask, at least until the next agreement of the same ranks has decided, or all others are
 * known to have decided. */
void agreement_free(struct agreement *agreement);

/* Takes a message from that rank. Foreign bytes: a message that makes no sense, is of another
 * epoch, or comes from a dead rank is dropped. May send. */
void agreement_hear(struct agreement *agreement, int from, const void *bytes, size_t byte_count,
                    uint64_t now_ns);
/* Time goes by. To be called when agreement_due_ns says so; more often does no harm. May send. */
void agreement_tick(struct agreement *agreement, uint64_t now_ns);
/* When it wants the next tick: 0: at once; UINT64_MAX: never. */
uint64_t agreement_due_ns(const struct agreement *agreement);

/* About another rank. Only notes it; the next tick, due at once, draws conclusions. */
void agreement_suspect(struct agreement *agreement, int rank);
void agreement_unsuspect(struct agreement *agreement, int rank);
/* Dead for certain. A rank that is only out of reach must never be declared dead: safety depends on
 * that. */
void agreement_declare_dead(struct agreement *agreement, int rank);

/* Whether the ranks that are neither suspected nor dead could be a quorum. */
bool agreement_may_decide(const struct agreement *agreement);
/* Tells the decision, if there is one, to all others once more: for an owner that will not answer
 * them any more. Sends. */
void agreement_spread(const struct agreement *agreement);
/* The owner's time is up. An agreement that runs ends as MINORITY or LATE, and takes no part any
 * more; to others it is as if dead. */
void agreement_give_up(struct agreement *agreement);

enum agreement_state agreement_state(const struct agreement *agreement);
/* The result of an agreement that has decided. The set has one bit per rank (rank_set.h), and is
 * not empty; the calling rank may be missing from it. */
const uint64_t *agreement_set(const struct agreement *agreement);
uint64_t agreement_word(const struct agreement *agreement);
/* An epoch for the next agreement, of the same ranks or of the ranks in the set. It is the same on
 * all ranks with the same decision, and differs from the epoch of ranks that died with a decision
 * of their own. */
uint64_t agreement_next_epoch(const struct agreement *agreement);
/* The rank that a running agreement waits for, to be named at a deadline: a rank that has not come,
 * or that leads; -1: none in particular. */
int agreement_awaited(const struct agreement *agreement);

/* To find the agreement that a message is of. False: it is none. */
bool agreement_message_epoch(const void *bytes, size_t byte_count, uint64_t *epoch);

#endif
