#include "health/agree.h"

#include "health/absence.h"
#include "health/exclusion.h"
#include "health/failure.h"
#include "health/lock.h"
#include "health/network.h"
#include "health/remote_rank.h"
#include "process/excluded.h"
#include "process/progress.h"

#include <time.h>

#include "base/status.h"
#include "health/recover_state.h"
#include "membership/rank_set.h"
#include "membership/standing.h"
#include "os/clock.h"

enum {
    NAP_NS = 50000,
    SETTLING_NS = 1000000000,
    STALL_NS = 100000000, /* no more than this counts of the time between two looks */
    PAUSE_NS =
        1000000000, /* nor this at deadlines: all ranks of a host may stand still, and then go on */
    LOOK_NS = 5000000 /* between looks at who is there */
};
/* A rank that reaches too few others for so long is on the side of a partition that does not go
 * on. */
static const uint64_t CUT_OFF_NS = 4000000000u;
/* Evidence takes some seconds, also where deadlines are shorter. */
static const uint64_t GRACE_NS = 10000000000u;

int agree_gone_ahead(struct health *health, uint64_t now_ns)
{
    struct recovery *const recovery = health->recovery;
    if (!domain_try_lock(&health->team->domain)) return -1;
    if (recovery->ahead_ns != 0 && now_ns > recovery->ahead_ns) {
        const uint64_t passed_ns = now_ns - recovery->ahead_ns;
        recovery->behind_ns += passed_ns < STALL_NS ? passed_ns : STALL_NS;
        recovery->ahead_ns = now_ns;
    }
    const int rank = recovery->behind_ns > SETTLING_NS ? recovery->ahead : -1;
    health_unlock(health);
    return rank;
}

int agree_sick_at_meeting(struct health *health, const int *ranks, int count, uint64_t now_ns)
{
    struct recovery *const recovery = health->recovery;
    int rank = -1;
    if (recovery == NULL || !recovery->has_mustered || !domain_try_lock(&health->team->domain))
        return -1;
    if (absence_begin_meeting(recovery, health->team->settings.timeout_ns) == TUTTI_OK)
        rank = absence_find(recovery, ranks, count, now_ns);
    health_unlock(health);
    return rank;
}

struct wish {
    const char *function;
    uint64_t word;
    const uint64_t *voters;              /* NULL: all */
    bool needs_all;                      /* a decision about some ranks is of no use */
    const struct agree_without *without; /* NULL: nobody is excluded */
    const uint64_t *among;               /* ranks that are waited for; NULL: all */
    const uint64_t *patience_ns;         /* of a muster; NULL: it is none */
    bool may_muster;                     /* see agree_without_sick */
    uint64_t more_ns;                    /* than the communicator's timeout, until it is given up */
};

/* Whether it goes on without ranks that do not run, although it is no muster itself. */
static bool goes_on(const struct recovery *recovery, const struct wish *wish)
{
    return wish->needs_all || (wish->may_muster && recovery->has_mustered);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static uint64_t limit_ns(const struct health *health, const struct wish *wish)
{
    const uint64_t limit_ns = sum(health->team->settings.timeout_ns, wish->more_ns);
    return goes_on(health->recovery, wish) ? sum(limit_ns, GRACE_NS) : limit_ns;
}

static enum tutti_status begin(struct recovery *recovery, const struct wish *wish)
{
    struct health *health = recovery->health;
    const uint32_t about = wish->without != NULL ? wish->without->about : 0;
    const struct agreement_options options = {.size = health->team->size,
                                              .rank = health->team->rank,
                                              .epoch = standing_epoch(recovery->epoch + 1, about),
                                              .word = wish->word,
                                              .voters = wish->voters,
                                              .send = recover_send,
                                              .context = recovery};
    struct agreement *next;
    TRY(agreement_create(&options, &next));
    agreement_free(recovery->previous);
    recovery->previous = recovery->current;
    recovery->previous_about = recovery->about;
    recovery->current = next;
    recovery->about = about;
    recovery->is_secret = wish->without != NULL && wish->without->is_secret;
    recovery->epoch++;
    vote_note_own(&recovery->votes, options.epoch);
    recovery->asked_ns = 0;
    atomic_store_explicit(&recovery->has_begun, true, memory_order_relaxed);
    progress_notify(); /* from now on there is something to listen for */
    recovery->looked_ns = 0;
    recovery->ahead_ns = recovery->behind_ns = 0;
    for (int r = 0; r < health->team->size; r++) {
        struct other *other = &recovery->others[r];
        other->was_outsider = other->is_outsider;
        other->is_outsider = wish->without != NULL && rank_set_has(wish->without->ranks, r);
        other->is_given_up = (wish->among != NULL && !rank_set_has(wish->among, r)) ||
                             (other->left_out != 0 && other->epoch <= other->left_out);
        other->alike = 0;
        other->standing = other->is_outsider || other->is_given_up ? SUSPECTED : STANDS;
        if (other->is_lost) other->standing = recover_standing_of_lost(recovery, r);
        if (r == health->team->rank) continue;
        if (other->standing == DECLARED_DEAD)
            agreement_declare_dead(next, r); /* before its final messages are heard */
        else if (other->standing != STANDS)
            agreement_suspect(next, r);
    }
    return TUTTI_OK;
}

/* One look at everything; domain held. */
static void pass(struct recovery *recovery, uint64_t now_ns)
{
    struct health *health = recovery->health;
    const bool looks = now_ns - recovery->looked_ns >= LOOK_NS;
    if (looks) recover_look(recovery, now_ns);
    (void)network_progress(health);
    recover_read_rings(recovery);
    if (looks && absence_look(recovery, now_ns)) recover_say_vote(recovery);
    if (looks)
        recover_tell_lost(recovery, now_ns); /* their final messages have been heard by now */
    if (looks) recovery->looked_ns = now_ns;
    if (now_ns >= agreement_due_ns(recovery->current)) agreement_tick(recovery->current, now_ns);
}

/* The first rank that has left without a decision, and what it sent before has been heard; -1: none
 * has. */
static int first_left(const struct recovery *recovery)
{
    for (int r = 0; r < recovery->health->team->size; r++)
        if (recovery->others[r].has_left && recovery->others[r].standing != MOVED_ON) return r;
    return -1;
}

/* Whether so many ranks are two agreements ahead that the others, this rank among them, cannot decide this one: they have
 * decided it and the next one without this rank, and answer no more. A rank that is ahead with too few others may have given
 * both up by itself, so it proves nothing. Where others are a majority, one of them answers, or they come, too. */
static bool is_left_behind(const struct recovery *recovery, const struct wish *wish)
{
    int voters = 0, count = 0;
    bool has_first = false, is_any_ahead = false;
    for (int r = 0; r < recovery->health->team->size; r++) {
        const struct other *const other = &recovery->others[r];
        const bool is_self = r == recovery->health->team->rank;
        const bool is_ahead = !is_self && other->alike >= recovery->epoch + 2;
        if (wish->voters != NULL && !rank_set_has(wish->voters, r)) continue;
        is_any_ahead |= is_ahead;
        if (!is_ahead && !other->is_lost && !other->is_outsider) {
            has_first |= voters == 0;
            count++;
        }
        voters++;
    }
    return is_any_ahead && !standing_is_majority(count, has_first, voters);
}

/* Whether this agreement cannot be decided: so many ranks take part in other ones, or the others have gone on. */
static bool is_hopeless(const struct recovery *recovery, const struct wish *wish)
{
    return is_left_behind(recovery, wish) ||
           (wish->voters == NULL && recover_outvoted_by(recovery) >= 0);
}

/* Whether the others have a wish to put this rank out that may have a majority, or have gone on with one: they may have
 * decided so, and it is not told yet. */
static bool may_be_put_out(const struct recovery *recovery, const struct wish *wish)
{
    struct exclusion exclusion;
    if (!exclusion_of_self(recovery->health, &exclusion)) return false;
    return wish->voters != NULL || is_left_behind(recovery, wish) ||
           recover_may_be_put_out(recovery);
}

/* EXCLUDED: the others have put this rank out, or may have when its own wish has come to nothing. */
static enum tutti_status check_excluded(const struct recovery *recovery, const struct wish *wish)
{
    const bool is_over = agreement_state(recovery->current) != AGREEMENT_RUNNING;
    return health_check_excluded(recovery->health, wish->function,
                                 is_over && may_be_put_out(recovery, wish));
}

/* Whether it makes no sense to wait on. A rank that the others may have put out waits to be told so, or
 * until it knows that none of their wishes can come true. Ranks that seem to have called something else are asked what. */
static bool is_pointless(struct recovery *recovery, const struct wish *wish, uint64_t now_ns)
{
    if (wish->needs_all && first_left(recovery) >= 0) return true;
    if (check_excluded(recovery, wish) != TUTTI_OK) return true;
    if (!is_hopeless(recovery, wish)) return false;
    if (!may_be_put_out(recovery, wish) && !recover_lacks_votes(recovery)) return true;
    recover_ask_votes(recovery, now_ns);
    return false;
}

static enum tutti_status fail_outvoted(const struct recovery *recovery, const struct wish *wish)
{
    char who[128];
    health_name_rank(recovery->health, recover_outvoted_by(recovery), who, sizeof who);
    return error_set(TUTTI_DESYNC,
                     "tutti_%s: %s called something else, or with other ranks to exclude, and with "
                     "so many such ranks rank %d has no majority",
                     wish->function, who, recovery->health->team->rank);
}

static enum tutti_status fail(const struct recovery *recovery, const struct wish *wish,
                              uint64_t timeout_ns)
{
    const struct health *health = recovery->health;
    const char *const function = wish->function;
    char who[128], trouble[COMM_TROUBLE_MAX];
    TRY(check_excluded(recovery, wish));
    if (is_left_behind(recovery, wish))
        return error_set(TUTTI_MINORITY, "tutti_%s: the others went on without rank %d", function,
                         health->team->rank);
    if (is_hopeless(recovery, wish)) return fail_outvoted(recovery, wish);
    if (wish->needs_all && first_left(recovery) >= 0) {
        health_name_rank(health, first_left(recovery), who, sizeof who);
        return error_set(TUTTI_PROC_FAILED, "tutti_%s: %s left before all had met", function, who);
    }
    if (agreement_state(recovery->current) == AGREEMENT_MINORITY)
        return error_set(TUTTI_MINORITY,
                         "tutti_%s: rank %d reaches too few others to go on without the rest",
                         function, health->team->rank);
    const int awaited = recovery->awaited;
    if (awaited < 0)
        return error_set(TUTTI_TIMEOUT, "tutti_%s: no agreement; deadline of %.3g s", function,
                         (double)timeout_ns * 1e-9);
    health_name_rank(health, awaited, who, sizeof who);
    remote_trouble(health, awaited, trouble);
    return error_set(TUTTI_TIMEOUT, "tutti_%s: rank %d still waits for %s; deadline of %.3g s%s",
                     function, health->team->rank, who, (double)timeout_ns * 1e-9, trouble);
}

/* Waits until the agreement is decided or given up. The domain is held before and after, but not
 * all the time: other threads have calls to make. On failure it is not held. */
static enum tutti_status wait_for_decision(struct health *health, struct recovery *recovery,
                                           const struct wish *wish)
{
    uint64_t looked_ns = clock_now_ns(), waited_ns = 0;
    uint64_t hopeless_ns = 0; /* since there last was a quorum to hope for */
    for (;;) {
        const uint64_t now = clock_now_ns();
        const uint64_t passed_ns = now - looked_ns < PAUSE_NS ? now - looked_ns : PAUSE_NS;
        looked_ns = now;
        waited_ns += passed_ns;
        hopeless_ns += passed_ns;
        pass(recovery, now);
        if (agreement_state(recovery->current) != AGREEMENT_RUNNING) return TUTTI_OK;
        if (agreement_may_decide(recovery->current)) hopeless_ns = 0;
        if (is_pointless(recovery, wish, now)) {
            agreement_give_up(recovery->current);
            return TUTTI_OK;
        }
        if (waited_ns > limit_ns(health, wish) || hopeless_ns > CUT_OFF_NS) {
            recovery->awaited = agreement_awaited(recovery->current);
            agreement_give_up(recovery->current);
            return TUTTI_OK;
        }
        health_unlock(health);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        TRY(health_lock_failed(health, health->team->settings.timeout_ns));
    }
}

/* The agreement is over for this rank without a decision. Only the thread that agrees looks at that. */
static void note_missed(struct recovery *recovery)
{
    if (recovery->missed == 0) recovery->missed = recovery->epoch;
}

/* Ranks that decided something without this one may have gone on. A rank that is left out is waited for again when it has
 * come as far as the others. */
static void note_end(struct recovery *recovery)
{
    for (int r = 0; r < recovery->health->team->size; r++)
        if (agreement_state(recovery->current) == AGREEMENT_DECIDED &&
            !rank_set_has(agreement_set(recovery->current), r))
            recovery->others[r].left_out = recovery->epoch;
    const struct agreement *const current = recovery->current;
    struct standing_self self = {.number = recovery->epoch, .missed = recovery->missed};
    standing_note_end(&self, agreement_state(current) == AGREEMENT_DECIDED &&
                                 rank_set_has(agreement_set(current), recovery->health->team->rank));
    recovery->missed = self.missed;
}

static enum tutti_status begin_muster(struct recovery *recovery, const struct wish *wish)
{
    const uint64_t timeout_ns = recovery->health->team->settings.timeout_ns;
    absence_end(recovery); /* of what was before */
    const uint64_t patience_ns = absence_has_given_up(recovery) ? 0 : timeout_ns;
    if (wish->patience_ns != NULL) {
        recovery->has_mustered = true;
        return absence_begin(recovery, *wish->patience_ns, timeout_ns);
    }
    if (goes_on(recovery, wish)) /* without memory for it, it waits */
        (void)absence_begin(recovery, patience_ns, UINT64_MAX);
    return TUTTI_OK;
}

/* Blocks until the next agreement is decided; the result is the current one's. */
static enum tutti_status agree_with(struct health *health, const struct wish *wish,
                                    struct agreed *result)
{
    struct recovery *recovery = NULL;
    TRY(domain_register(&health->team->domain)); /* answers when this call is over */
    TRY(health_lock_failed(health, health->team->settings.timeout_ns));
    enum tutti_status status = recover_get(health, &recovery);
    if (status == TUTTI_OK) status = begin(recovery, wish);
    if (status == TUTTI_OK) status = begin_muster(recovery, wish);
    if (status != TUTTI_OK) {
        health_unlock(health);
        return status;
    }
    status = wait_for_decision(health, recovery, wish);
    if (status != TUTTI_OK) { /* the domain is not held: the others may decide without this rank */
        note_missed(recovery);
        return status;
    }
    note_end(recovery);
    if (agreement_state(recovery->current) != AGREEMENT_DECIDED) {
        recover_say_vote(recovery);
        status = fail(recovery, wish, limit_ns(health, wish));
    } else {
        remote_note_agreement(health, agreement_set(recovery->current));
    }
    (void)network_progress(health); /* the word of it */
    health_unlock(health);
    *result = (struct agreed){.epoch = recovery->epoch};
    if (status != TUTTI_OK) return status;
    result->word = agreement_word(recovery->current);
    result->set = agreement_set(recovery->current);
    return status;
}

enum tutti_status agree(struct health *health, const char *function, uint64_t word,
                        struct agreed *result)
{
    return agree_with(health, &(struct wish){.function = function, .word = word}, result);
}

enum tutti_status agree_later(struct health *health, const char *function, uint64_t word,
                              uint64_t more_ns, struct agreed *result)
{
    return agree_with(
        health,
        &(struct wish){.function = function, .word = word, .may_muster = true, .more_ns = more_ns},
        result);
}

enum tutti_status agree_on_all(struct health *health, const char *function, const uint64_t *voters,
                               struct agreed *result)
{
    return agree_with(
        health,
        &(struct wish){.function = function, .word = UINT64_MAX, .voters = voters, .needs_all = true},
        result);
}

enum tutti_status agree_among(struct health *health, const char *function, uint64_t word,
                              const uint64_t *among, const struct agree_without *without,
                              struct agreed *result)
{
    return agree_with(health,
                      &(struct wish){.function = function,
                                     .word = word,
                                     .without = without,
                                     .among = among,
                                     .may_muster = true},
                      result);
}

enum tutti_status agree_without_sick(struct health *health, const char *function, uint64_t word,
                                     uint64_t patience_ns, struct agreed *result)
{
    const uint64_t timeout_ns = health->team->settings.timeout_ns;
    const bool has_end = timeout_ns < UINT64_MAX / 4;
    return agree_with(health,
                      &(struct wish){.function = function,
                                     .word = word,
                                     .patience_ns = &patience_ns,
                                     .more_ns = (has_end ? timeout_ns : 0) + patience_ns + GRACE_NS},
                      result);
}

/* Waits until this rank has an opinion, or for GRACE_NS; or for a moment, where a missing rank has come after all. A missing
 * rank has no opinion. */
static enum tutti_status wait_for_evidence(struct health *health, const uint64_t *set,
                                           enum muster_opinion *opinion, bool *has_stalled)
{
    struct recovery *const recovery = health->recovery;
    const uint64_t begin_ns = clock_now_ns();
    for (;; nanosleep(&(struct timespec){0, NAP_NS}, NULL)) {
        TRY(health_lock_failed(health, health->team->settings.timeout_ns));
        const uint64_t now_ns = clock_now_ns();
        pass(recovery, now_ns);
        *opinion = absence_opinion(recovery, set);
        *has_stalled = absence_has_stalled(recovery, set);
        const uint64_t limit_ns = absence_has_come(recovery, set) ? SETTLING_NS : GRACE_NS;
        health_unlock(health);
        if (*opinion != MUSTER_UNSURE || now_ns - begin_ns > limit_ns ||
            !rank_set_has(set, health->team->rank))
            return TUTTI_OK;
    }
}

enum tutti_status agree_on_missing(struct health *health, const char *function, const uint64_t *set,
                                   enum muster_opinion *opinion, bool *has_stalled)
{
    struct wish wish = {
        .function = function, .among = set, .may_muster = true, .more_ns = 2 * GRACE_NS};
    struct agreed agreed;
    TRY(wait_for_evidence(health, set, opinion, has_stalled));
    wish.word = muster_word(set, health->team->rank, *opinion);
    TRY(agree_with(health, &wish, &agreed));
    *opinion = muster_outcome(set, health->team->size, agreed.word);
    return TUTTI_OK;
}

/* So that a muster does not take this rank for absent, which waits here. */
static void set_agrees(struct health *health, int agrees)
{
    atomic_store_explicit(&health->board->ranks[health->board_number].agrees, agrees,
                          memory_order_relaxed);
}

enum tutti_status agree_enter(struct health *health, const char *function)
{
    struct recovery *recovery = NULL;
    const char *other = NULL;
    TRY(health_lock_failed(health, health->team->settings.timeout_ns));
    const enum tutti_status status = recover_get(health, &recovery);
    health_unlock(health);
    if (status != TUTTI_OK) return status;
    if (atomic_compare_exchange_strong(&recovery->within, &other, function)) {
        absence_forget(recovery);
        set_agrees(health, 1);
        return TUTTI_OK;
    }
    return error_set(TUTTI_DESYNC,
                     "tutti_%s: another thread of rank %d is in tutti_%s on this communicator; one "
                     "thread at a time can make such calls",
                     function, health->team->rank, other);
}

void agree_exit(struct health *health)
{
    struct recovery *const recovery = health->recovery;
    set_agrees(health, 0);
    atomic_store(&recovery->within, NULL);
}

/* 1 + the number of the last agreement that this rank may have decided. */
static uint64_t left_at(const struct recovery *recovery)
{
    const bool is_decided =
        recovery->current != NULL && agreement_state(recovery->current) == AGREEMENT_DECIDED;
    return recovery->epoch + (is_decided || recovery->epoch == 0 ? 1 : 0);
}

void agree_leave(struct health *health)
{
    struct recovery *recovery = health->recovery;
    struct exclusion exclusion;
    uint64_t last = 1;
    if (exclusion_of_self(health, &exclusion) && exclusion.is_decided) excluded_note();
    if (recovery != NULL) {
        if (health_lock_failed(health, health->team->settings.timeout_ns) != TUTTI_OK) return;
        recovery->sent_count = 0;
        if (recovery->current != NULL) agreement_spread(recovery->current);
        last = left_at(recovery);
        health_unlock(health);
    }
    atomic_store_explicit(&health->board->ranks[health->board_number].left_at, last,
                          memory_order_relaxed); /* published by board_leave */
}
