#include "health/absence.h"

#include <stdlib.h>

#include "base/held.h"
#include "base/status.h"
#include "health/deaths.h"
#include "health/known.h"
#include "health/recover_state.h"
#include "health/remote_rank.h"
#include "membership/rank_set.h"

enum {
    GAP_NS = 100000000,    /* no more than this counts of the time between two looks */
    MOMENT_NS = 200000000, /* in which all ranks come, if none is late */
    SAY_NS = 500000000,
    ASK_NS = 100000000,
    CLOSELY_NS =
        100000000,    /* between looks at processes of this host: each costs some system calls */
    LOOK_NS = 5000000 /* between looks at a meeting */
};

struct evidence {
    struct silence asked; /* of a rank of another host */
    uint64_t stopped_ns;  /* of a rank of this host */
};

struct absence {
    bool is_on, is_meeting;
    bool has_given_up; /* in an agreement or meeting before */
    uint64_t number;   /* of the agreement; of a meeting: of that which follows */
    struct muster_time time;
    uint64_t looked_ns, closely_ns, said_ns, asked_ns;
    bool may_close;
    struct evidence *evidence; /* one for each rank, as are these */
    enum muster_verdict *verdicts;
};

static enum tutti_status make(struct recovery *recovery)
{
    const size_t size = (size_t)recovery->health->team->size;
    struct absence *const made = calloc(1, sizeof *made);
    recovery->absence = made;
    if (made != NULL) made->evidence = calloc(size, sizeof *made->evidence);
    if (made != NULL) made->verdicts = calloc(size, sizeof *made->verdicts);
    if (made != NULL && made->evidence != NULL && made->verdicts != NULL) return TUTTI_OK;
    absence_free(recovery);
    return error_set(TUTTI_NO_MEMORY, "a muster: no memory for %zu ranks", size);
}

void absence_free(struct recovery *recovery)
{
    if (recovery->absence == NULL) return;
    free(recovery->absence->evidence);
    free(recovery->absence->verdicts);
    free(recovery->absence);
    recovery->absence = NULL;
}

size_t absence_bytes(const struct recovery *recovery)
{
    const struct absence *const absence = recovery->absence;
    if (absence == NULL) return 0;
    return held(absence) + held(absence->evidence) + held(absence->verdicts);
}

static enum tutti_status begin(struct recovery *recovery, uint64_t number,
                               const struct muster_time *time)
{
    if (recovery->absence == NULL) TRY(make(recovery));
    absence_end(recovery);
    struct absence *const absence = recovery->absence;
    absence->is_on = true;
    absence->number = number;
    absence->time = *time;
    absence->looked_ns = absence->closely_ns = absence->said_ns = absence->asked_ns = 0;
    for (int r = 0; r < recovery->health->team->size; r++) {
        absence->evidence[r] = (struct evidence){0};
        absence->verdicts[r] = r == recovery->health->team->rank ? MUSTER_HERE : MUSTER_OPEN;
    }
    return TUTTI_OK;
}

enum tutti_status absence_begin(struct recovery *recovery, uint64_t patience_ns, uint64_t absent_ns)
{
    const struct muster_time time = {.patience_ns = patience_ns, .absent_ns = absent_ns};
    return begin(recovery, recovery->epoch, &time);
}

enum tutti_status absence_begin_meeting(struct recovery *recovery, uint64_t patience_ns)
{
    const struct muster_time time = {.patience_ns = patience_ns, .absent_ns = UINT64_MAX};
    if (recovery->absence != NULL && recovery->absence->is_meeting) return TUTTI_OK;
    TRY(begin(recovery, recovery->epoch + 1, &time));
    recovery->absence->is_meeting = true;
    return TUTTI_OK;
}

void absence_end(struct recovery *recovery)
{
    struct absence *const absence = recovery->absence;
    if (absence == NULL) return;
    const bool has_waited = absence->time.waited_ns >= absence->time.patience_ns;
    absence->has_given_up |= absence->may_close || (absence->is_meeting && has_waited);
    absence->is_on = absence->is_meeting = absence->may_close = false;
}

bool absence_has_given_up(const struct recovery *recovery)
{
    const struct absence *const absence = recovery->absence;
    return absence != NULL && absence->has_given_up;
}

void absence_forget(struct recovery *recovery)
{
    absence_end(recovery);
    if (recovery->absence != NULL) recovery->absence->has_given_up = false;
}

/* Answers may be lost. */
static void ask(struct recovery *recovery, uint64_t now_ns)
{
    struct absence *const absence = recovery->absence;
    struct health *const health = recovery->health;
    if (now_ns - absence->asked_ns < ASK_NS) return;
    absence->asked_ns = now_ns;
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0;) {
        const struct other *const other = &recovery->others[r];
        if (other->is_lost) continue;
        if (other->epoch < absence->number) remote_ask(health, r, 0, 0);
        silence_tell(&absence->evidence[r].asked, now_ns);
    }
}

/* The part that counts of the time between two looks, the first of which may not have been yet. */
static uint64_t gap_ns(uint64_t before_ns, uint64_t now_ns)
{
    const uint64_t passed_ns = before_ns != 0 ? now_ns - before_ns : 0;
    return passed_ns < GAP_NS ? passed_ns : GAP_NS;
}

static void look_closely(struct recovery *recovery, uint64_t now_ns)
{
    struct absence *const absence = recovery->absence;
    struct health *const health = recovery->health;
    const uint64_t passed_ns = gap_ns(absence->closely_ns, now_ns);
    if (now_ns - absence->closely_ns < CLOSELY_NS) return;
    absence->closely_ns = now_ns;
    for (int i = 0; i < team_local_size(health->team); i++) {
        const int rank = team_local_rank(health->team, i);
        uint64_t *const stopped_ns = &absence->evidence[rank].stopped_ns;
        *stopped_ns = health_is_stopped(health, rank) ? *stopped_ns + passed_ns : 0;
    }
}

/* A rank that the agreement goes on without anyway, because it is put out, or was missing before, is as good as lost. */
static struct muster_sign sign_of(struct recovery *recovery, int rank, uint64_t now_ns)
{
    struct health *const health = recovery->health;
    const struct other *const other = &recovery->others[rank];
    struct evidence *const evidence = &recovery->absence->evidence[rank];
    const bool is_lost = other->is_lost || remote_is_dead(health, rank);
    const bool is_out = other->is_outsider || other->is_given_up;
    if (is_lost || is_out) return (struct muster_sign){.is_lost = true};
    if (evidence->asked.told_ns != 0)
        (void)silence_look(&evidence->asked, remote_heard_ns(health, rank), now_ns);
    return (struct muster_sign){.has_come = other->epoch >= recovery->absence->number,
                                .is_in_call = known_to_be_in_call(health, rank) ||
                                              known_to_agree(health, rank),
                                .stopped_ns = evidence->stopped_ns,
                                .silent_ns = evidence->asked.silent_ns};
}

bool absence_look(struct recovery *recovery, uint64_t now_ns)
{
    struct absence *const absence = recovery->absence;
    const struct team *const team = recovery->health->team;
    if (absence == NULL || !absence->is_on) return false;
    absence->time.waited_ns += gap_ns(absence->looked_ns, now_ns);
    absence->looked_ns = now_ns;
    const bool is_long = absence->time.waited_ns >= MOMENT_NS;
    if (is_long) {
        ask(recovery, now_ns);
        look_closely(recovery, now_ns);
    }
    for (int r = 0; r < team->size; r++) {
        if (r == team->rank) continue;
        const struct muster_sign sign = sign_of(recovery, r, now_ns);
        absence->verdicts[r] = muster_judge(&sign, &absence->time);
    }
    absence->may_close = muster_may_close(absence->verdicts, team->size);
    if (!is_long || now_ns - absence->said_ns < SAY_NS) return false;
    absence->said_ns = now_ns;
    return true;
}

int absence_find(struct recovery *recovery, const int *ranks, int count, uint64_t now_ns)
{
    struct absence *const absence = recovery->absence;
    if (absence == NULL || !absence->is_meeting) return -1;
    if (now_ns - absence->looked_ns >= LOOK_NS) (void)absence_look(recovery, now_ns);
    for (int i = 0; i < count; i++) {
        if (!muster_is_sick(absence->verdicts[ranks[i]])) continue;
        absence->has_given_up = true;
        return ranks[i];
    }
    return -1;
}

bool absence_is_given_up(const struct recovery *recovery, int rank)
{
    const struct absence *const absence = recovery->absence;
    return absence != NULL && absence->may_close && muster_is_sick(absence->verdicts[rank]);
}

enum muster_opinion absence_opinion(const struct recovery *recovery, const uint64_t *set)
{
    return muster_opinion(recovery->absence->verdicts, set, recovery->health->team->size);
}

bool absence_has_come(const struct recovery *recovery, const uint64_t *set)
{
    for (int r = 0; r < recovery->health->team->size; r++)
        if (!rank_set_has(set, r) && recovery->absence->verdicts[r] == MUSTER_HERE) return true;
    return false;
}

bool absence_has_stalled(const struct recovery *recovery, const uint64_t *set)
{
    for (int r = 0; r < recovery->health->team->size; r++)
        if (!rank_set_has(set, r) && (recovery->absence->verdicts[r] == MUSTER_STOPPED ||
                                      recovery->absence->verdicts[r] == MUSTER_SILENT))
            return true;
    return false;
}
