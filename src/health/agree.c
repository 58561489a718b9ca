#include "health/agree.h"

#include "health/failure.h"
#include "health/lock.h"
#include "health/network.h"
#include "health/remote_rank.h"

#include <time.h>

#include "base/status.h"
#include "health/recover_state.h"
#include "os/clock.h"

enum {
    NAP_NS = 50000,
    SETTLING_NS = 1000000000,
    LOOK_NS = 5000000 /* between looks at who is there */
};
/* A rank that reaches too few others for so long is on the side of a partition that does not go
 * on. */
static const uint64_t CUT_OFF_NS = 4000000000u;

int agree_gone_ahead(struct health *health, uint64_t now_ns)
{
    const struct recovery *recovery = health->recovery;
    if (!domain_try_lock(&health->team->domain)) return -1;
    const bool is_behind = recovery->ahead_ns != 0 && now_ns > recovery->ahead_ns + SETTLING_NS;
    const int rank = is_behind ? recovery->ahead : -1;
    health_unlock(health);
    return rank;
}

static enum tutti_status begin(struct recovery *recovery, uint64_t word)
{
    struct health *health = recovery->health;
    const struct agreement_options options = {.size = health->team->size,
                                              .rank = health->team->rank,
                                              .epoch = recovery->epoch + 1,
                                              .word = word,
                                              .send = recover_send,
                                              .context = recovery};
    struct agreement *next;
    TRY(agreement_create(&options, &next));
    agreement_free(recovery->previous);
    recovery->previous = recovery->current;
    recovery->current = next;
    recovery->epoch++;
    recovery->looked_ns = 0;
    recovery->ahead_ns = 0;
    for (int r = 0; r < health->team->size; r++) {
        struct other *other = &recovery->others[r];
        other->standing = other->is_lost ? DECLARED_DEAD : STANDS;
        if (other->is_lost)
            agreement_declare_dead(next, r); /* before its final messages are heard */
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
    if (looks)
        recover_tell_lost(recovery, now_ns); /* their final messages have been heard by now */
    if (looks) recovery->looked_ns = now_ns;
    if (now_ns >= agreement_due_ns(recovery->current)) agreement_tick(recovery->current, now_ns);
}

static enum tutti_status fail(const struct recovery *recovery, const char *function,
                              uint64_t timeout_ns)
{
    const struct health *health = recovery->health;
    char who[128], trouble[COMM_TROUBLE_MAX];
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
static enum tutti_status wait_for_decision(struct health *health, struct recovery *recovery)
{
    const uint64_t begin_ns = clock_now_ns();
    uint64_t quorum_ns = begin_ns; /* when there last was one to hope for */
    for (;;) {
        const uint64_t now = clock_now_ns();
        pass(recovery, now);
        if (agreement_state(recovery->current) != AGREEMENT_RUNNING) return TUTTI_OK;
        if (agreement_may_decide(recovery->current)) quorum_ns = now;
        if (now - begin_ns > health->team->settings.timeout_ns || now - quorum_ns > CUT_OFF_NS) {
            recovery->awaited = agreement_awaited(recovery->current);
            agreement_give_up(recovery->current);
            return TUTTI_OK;
        }
        health_unlock(health);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        TRY(health_lock_failed(health, health->team->settings.timeout_ns));
    }
}

/* Blocks until the next agreement is decided; the result is the current one's. */
enum tutti_status agree(struct health *health, const char *function, uint64_t word,
                        struct agreed *result)
{
    struct recovery *recovery = NULL;
    TRY(domain_register(&health->team->domain)); /* answers when this call is over */
    TRY(health_lock_failed(health, health->team->settings.timeout_ns));
    enum tutti_status status = recover_get(health, &recovery);
    if (status == TUTTI_OK) status = begin(recovery, word);
    if (status != TUTTI_OK) {
        health_unlock(health);
        return status;
    }
    TRY(wait_for_decision(health, recovery));
    if (agreement_state(recovery->current) != AGREEMENT_DECIDED)
        status = fail(recovery, function, health->team->settings.timeout_ns);
    else
        remote_note_agreement(health, agreement_set(recovery->current));
    (void)network_progress(health); /* the word of it */
    health_unlock(health);
    *result = (struct agreed){.epoch = recovery->epoch};
    if (status != TUTTI_OK) return status;
    result->word = agreement_word(recovery->current);
    result->set = agreement_set(recovery->current);
    return status;
}

void agree_leave(struct health *health)
{
    struct recovery *recovery = health->recovery;
    if (recovery == NULL ||
        health_lock_failed(health, health->team->settings.timeout_ns) != TUTTI_OK)
        return;
    recovery->sent_count = 0;
    if (recovery->current != NULL) agreement_spread(recovery->current);
    health_unlock(health);
}
