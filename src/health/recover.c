#include "health/recover.h"

#include "health/absence.h"
#include "health/deaths.h"
#include "health/exclusion.h"
#include "health/known.h"
#include "health/remote_rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/held.h"
#include "base/status.h"
#include "health/recover_state.h"
#include "membership/rank_set.h"
#include "membership/standing.h"
#include "os/clock.h"

enum { ASK_NS = 20000000 }; /* between questions to the same rank */

static_assert((int)CONTROL_RING_BYTES_MAX >= (int)AGREEMENT_MESSAGE_BYTES_MAX,
              "a message is a message");

/* A message to several ranks is written once, to all: a ring holds few messages, and a message that
 * is meant for several may be heard by all. */
static void write_to_ring(struct recovery *recovery, int to, const void *bytes, size_t byte_count)
{
    struct health *health = recovery->health;
    struct control_ring *own =
        &health->control_rings[team_local_number(health->team, health->team->rank)];
    struct sent *same = NULL;
    for (unsigned i = 0; i < recovery->sent_count && same == NULL; i++)
        if (recovery->sent[i].byte_count == byte_count &&
            memcmp(recovery->sent[i].bytes, bytes, byte_count) == 0)
            same = &recovery->sent[i];
    if (same != NULL && same->is_to_all) return;
    control_ring_write(own, &recovery->written, same != NULL ? CONTROL_RING_TO_ALL : to, bytes,
                       byte_count);
    if (same != NULL) {
        same->is_to_all = true;
        return;
    }
    if (recovery->sent_count == CONTROL_RING_KEPT) recovery->sent_count = 0;
    struct sent *next = &recovery->sent[recovery->sent_count++];
    next->is_to_all = false;
    next->byte_count = byte_count;
    memcpy(next->bytes, bytes, byte_count);
}

void recover_send(void *context, int to, const void *bytes, size_t byte_count)
{
    struct recovery *recovery = context;
    struct health *health = recovery->health;
    if (recovery->is_secret && recovery->others[to].is_outsider) return;
    if (team_shares_host(health->team, to)) {
        write_to_ring(recovery, to, bytes, byte_count);
        return;
    }
    silence_tell(&recovery->others[to].silence, clock_now_ns());
    remote_tell_agreement(health, to, bytes, byte_count);
}

enum tutti_status recover_get(struct health *health, struct recovery **recovery)
{
    if (health->recovery == NULL) {
        struct recovery *made =
            calloc(1, sizeof *made + (size_t)health->team->size * sizeof *made->others);
        if (made == NULL) return error_set(TUTTI_NO_MEMORY, "agreeing: out of memory");
        made->health = health;
        health->recovery = made;
    }
    *recovery = health->recovery;
    return TUTTI_OK;
}

bool recover_has_begun(const struct health *health)
{
    const struct recovery *recovery = health->recovery;
    return recovery != NULL && atomic_load_explicit(&recovery->has_begun, memory_order_relaxed);
}

void recover_free(struct health *health)
{
    if (health->recovery == NULL) return;
    agreement_free(health->recovery->current);
    agreement_free(health->recovery->previous);
    absence_free(health->recovery);
    free(health->recovery);
    health->recovery = NULL;
}

size_t recover_bytes(const struct health *health)
{
    const struct recovery *recovery = health->recovery;
    if (recovery == NULL) return 0;
    return held(recovery) + held(recovery->current) + held(recovery->previous) +
           absence_bytes(recovery);
}

/* ------------------------------------------------------------------------------------- messages */

/* A message tells which agreements its sender takes part in: of each number in one
 * only, whatever that is about. A rank that has gone on to a later agreement about something else, and
 * was not heard in this one, may have been in another one of this number, too. So it is taken for that until its
 * vote of this number says otherwise: messages get lost. */
static void note_agreement(struct recovery *recovery, int from, uint64_t epoch)
{
    struct other *const other = &recovery->others[from];
    const uint64_t number = standing_number(epoch);
    const uint32_t about = standing_about(epoch);
    other->vote = vote_keep(other->vote, epoch, recovery->epoch);
    if (number > other->epoch) other->epoch = number;
    if (recovery->current != NULL && about == recovery->about && number > other->alike)
        other->alike = number;
    if (recovery->current != NULL && number >= recovery->epoch && about != recovery->about &&
        other->joined != recovery->epoch)
        other->opposed = recovery->epoch;
    if (number == recovery->epoch && about == recovery->about) {
        other->joined = number;
        other->opposed = 0;
    }
    /* A message of an agreement that this rank's calls have not reached is dropped: its sender says
     * it again when this rank has come so far. */
    const bool is_ahead = number == recovery->epoch + 1 && about == recovery->about;
    if (is_ahead && !other->is_outsider && recovery->ahead_ns == 0) {
        recovery->ahead_ns = clock_now_ns();
        recovery->ahead = from;
    }
}

static void hear_vote(struct recovery *recovery, int from, const struct vote_message *message)
{
    unsigned char bytes[VOTE_BYTES];
    const struct vote_message own = {
        .epoch = vote_own_at(&recovery->votes, standing_number(message->epoch))};
    note_agreement(recovery, from, message->epoch);
    if (!message->is_question || own.epoch == 0) return;
    vote_write(&own, bytes);
    recover_send(recovery, from, bytes, sizeof bytes);
}

static void hear(struct recovery *recovery, int from, const void *bytes, size_t byte_count)
{
    uint64_t epoch;
    struct vote_message vote;
    const struct other *const other = &recovery->others[from];
    if (vote_read(bytes, byte_count, &vote)) hear_vote(recovery, from, &vote);
    if (!agreement_message_epoch(bytes, byte_count, &epoch)) return;
    struct agreement *of = NULL;
    note_agreement(recovery, from, epoch);
    if (epoch == standing_epoch(recovery->epoch, recovery->about) && !other->is_outsider)
        of = recovery->current;
    else if (epoch == standing_epoch(recovery->epoch - 1, recovery->previous_about) &&
             !other->was_outsider)
        of = recovery->previous;
    if (of != NULL) agreement_hear(of, from, bytes, byte_count, clock_now_ns());
}

void recover_hear(struct health *health, int from, const void *bytes, size_t byte_count)
{
    struct recovery *recovery = NULL;
    if (recover_get(health, &recovery) == TUTTI_OK) hear(recovery, from, bytes, byte_count);
}

void recover_read_rings(struct recovery *recovery)
{
    struct health *health = recovery->health;
    char bytes[CONTROL_RING_BYTES_MAX];
    size_t byte_count;
    recovery->sent_count = 0;
    for (int i = 0; i < team_local_size(health->team); i++) {
        const int rank = team_local_rank(health->team, i);
        if (rank == health->team->rank) continue;
        struct control_ring *const ring = &health->control_rings[i];
        uint64_t *const read = &recovery->others[rank].read;
        for (int n = 0; n < CONTROL_RING_KEPT;
             n++) { /* a rank that writes on and on is heard later */
            if (!control_ring_read(ring, read, health->team->rank, bytes, &byte_count)) break;
            hear(recovery, rank, bytes, byte_count);
        }
    }
}

void recover_listen(struct health *health)
{
    /* Before, what others say stays in their rings until this rank takes part. */
    if (recover_has_begun(health)) recover_read_rings(health->recovery);
}

/* --------------------------------------------------------------------------------- who is there */

void recover_look(struct recovery *recovery, uint64_t now_ns)
{
    struct health *health = recovery->health;
    (void)processes_look(&health->processes);
    remote_look_at_all(health, now_ns);
    for (int r = 0; r < health->team->size; r++) {
        const bool has_left = known_state(health, r) == RANK_LEFT;
        const bool has_died = known_to_have_ended(health, r);
        recovery->others[r].has_left |= r != health->team->rank && has_left;
        recovery->others[r].is_lost |= r != health->team->rank && (has_left || has_died);
    }
}

/* Whether a rank of another host has been silent for too long. Heartbeats find that out sooner, as
 * long as they are judged. */
static bool is_silent(struct recovery *recovery, int rank, uint64_t now_ns)
{
    const struct health *health = recovery->health;
    struct silence *silence = &recovery->others[rank].silence;
    if (remote_is_dead(health, rank)) return true;
    if (silence->told_ns == 0) return false; /* as of all ranks of this host */
    return silence_look(silence, remote_heard_ns(health, rank), now_ns) &&
           silence_is_long(silence, remote_answered_ns(health, rank), now_ns);
}

/* Whether a rank that left may have gone on without this one. An older version does not say what it
 * decided, and may have decided all that it spoke of. */
static bool has_moved_on(const struct recovery *recovery, int rank)
{
    const struct other *const other = &recovery->others[rank];
    const uint64_t told = known_left_at(recovery->health, rank);
    struct exclusion exclusion;
    const struct standing_self self = {.number = recovery->epoch,
                                       .missed = recovery->missed,
                                       .is_accused =
                                           exclusion_of_self(recovery->health, &exclusion)};
    return standing_has_moved_on(&self, told != 0 ? told - 1 : other->epoch, other->has_opposed);
}

enum standing recover_standing_of_lost(const struct recovery *recovery, int rank)
{
    return recovery->others[rank].has_left && has_moved_on(recovery, rank) ? MOVED_ON
                                                                           : DECLARED_DEAD;
}

/* Not if its vote has said otherwise since the last look. */
static bool is_opposed(const struct recovery *recovery, const struct other *other)
{
    return other->standing == OPPOSED && other->opposed == recovery->epoch;
}

int recover_outvoted_by(const struct recovery *recovery)
{
    const int size = recovery->health->team->size;
    int opposed = -1, count = 0, first = -1;
    for (int r = 0; r < size; r++) {
        const struct other *const other = &recovery->others[r];
        if (is_opposed(recovery, other) && opposed < 0 && !other->is_outsider) opposed = r;
        if (is_opposed(recovery, other) || other->is_outsider) continue;
        if (count++ == 0) first = r;
    }
    return standing_is_majority(count, first == 0, size) ? -1 : opposed;
}

/* For vote_may_exclude. */
static uint64_t vote_of_rank(const void *context, int rank)
{
    const struct recovery *const recovery = context;
    const struct other *const other = &recovery->others[rank];
    const uint64_t told = other->has_left ? known_left_at(recovery->health, rank) : 0;
    if (rank == recovery->health->team->rank) return recovery->about;
    if (standing_number(other->vote) == recovery->epoch) return standing_about(other->vote);
    return told != 0 && told < recovery->epoch ? VOTE_NONE : VOTE_UNKNOWN;
}

bool recover_lacks_votes(const struct recovery *recovery)
{
    for (int r = 0; r < recovery->health->team->size; r++) {
        const struct other *const other = &recovery->others[r];
        if (is_opposed(recovery, other) && !other->is_lost && !other->is_outsider &&
            vote_of_rank(recovery, r) == VOTE_UNKNOWN)
            return true;
    }
    return false;
}

bool recover_may_be_put_out(const struct recovery *recovery)
{
    return vote_may_exclude(recovery->health->team->size, recovery->about, vote_of_rank, recovery);
}

/* To all other ranks, or to those whose votes are not known. */
static void send_vote(struct recovery *recovery, bool is_question)
{
    const struct vote_message own = {is_question, standing_epoch(recovery->epoch, recovery->about)};
    unsigned char bytes[VOTE_BYTES];
    vote_write(&own, bytes);
    for (int r = 0; r < recovery->health->team->size; r++)
        if (r != recovery->health->team->rank && !recovery->others[r].is_lost &&
            (!is_question || vote_of_rank(recovery, r) == VOTE_UNKNOWN))
            recover_send(recovery, r, bytes, sizeof bytes);
}

void recover_ask_votes(struct recovery *recovery, uint64_t now_ns)
{
    if (now_ns < recovery->asked_ns + ASK_NS) return;
    recovery->asked_ns = now_ns;
    send_vote(recovery, true);
}

void recover_say_vote(struct recovery *recovery)
{
    send_vote(recovery, false);
}

void recover_tell_lost(struct recovery *recovery, uint64_t now_ns)
{
    for (int r = 0; r < recovery->health->team->size; r++) {
        struct other *other = &recovery->others[r];
        enum standing standing = STANDS;
        if (other->standing == DECLARED_DEAD)
            continue;
        else if (other->is_lost)
            standing = recover_standing_of_lost(recovery, r);
        else if (other->opposed == recovery->epoch)
            standing = OPPOSED;
        else if (other->is_outsider || other->is_given_up)
            continue; /* suspected from the beginning */
        else if (absence_is_given_up(recovery, r) || is_silent(recovery, r, now_ns))
            standing = SUSPECTED;
        if (standing == other->standing) continue;
        other->standing = standing;
        other->has_opposed |= standing == OPPOSED;
        if (standing == DECLARED_DEAD)
            agreement_declare_dead(recovery->current, r);
        else if (standing != STANDS)
            agreement_suspect(recovery->current, r);
        else
            agreement_unsuspect(recovery->current, r);
    }
}

static bool is_left_out(const struct agreement *agreement, int rank)
{
    return agreement != NULL && agreement_state(agreement) == AGREEMENT_DECIDED &&
           !rank_set_has(agreement_set(agreement), rank);
}

bool recover_has_lost(const struct health *health)
{
    const struct recovery *recovery = health->recovery;
    for (int r = 0; recovery != NULL && r < health->team->size; r++)
        if (recovery->others[r].is_lost || is_left_out(recovery->current, r)) return true;
    return false;
}
