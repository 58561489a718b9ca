#include "membership/step_leader.h"

#include <stdlib.h>
#include <string.h>

#include "membership/rank_set.h"

struct step_seat {
    bool is_gone, has_resumed;
    uint64_t told; /* the last entry that it was told, or has heard from another leader */
};

struct step_absence {
    bool is_reported, has_left; /* an entry says so, or will */
    bool is_out;                /* of the clock */
};

struct step_kept {
    enum step_entry_kind kind;
    uint64_t number, left_count;
};

static int seat_count(const struct step_leader *leader)
{
    return step_seats(leader->config.share_count, leader->config.copy_count);
}

static size_t seat_words(const struct step_leader *leader)
{
    return rank_set_words(seat_count(leader));
}

static size_t worker_words(const struct step_leader *leader)
{
    return rank_set_words(leader->config.worker_count);
}

static uint64_t capacity(const struct step_leader *leader)
{
    return 2 * (uint64_t)leader->config.worker_count + 2;
}

bool step_leader_init(struct step_leader *leader, const struct step_leader_config *config)
{
    const size_t workers = (size_t)config->worker_count;
    *leader = (struct step_leader){.config = *config,
                                   .role = config->seat == 0 ? STEP_LEADS : STEP_STANDS_BY};
    leader->workers = calloc(workers, sizeof *leader->workers);
    leader->seats = calloc((size_t)seat_count(leader), sizeof *leader->seats);
    leader->absences = calloc(workers, sizeof *leader->absences);
    leader->has = calloc(workers * seat_words(leader), sizeof *leader->has);
    leader->kept = calloc(capacity(leader), sizeof *leader->kept);
    leader->kept_members =
        calloc(capacity(leader) * worker_words(leader), sizeof *leader->kept_members);
    if (leader->workers == NULL || leader->seats == NULL || leader->absences == NULL ||
        leader->has == NULL || leader->kept == NULL || leader->kept_members == NULL)
        return false;
    worker_clock_init(&leader->clock, &config->rule, config->worker_count, leader->workers);
    return true;
}

void step_leader_release(struct step_leader *leader)
{
    free(leader->workers);
    free(leader->seats);
    free(leader->absences);
    free(leader->has);
    free(leader->kept);
    free(leader->kept_members);
    *leader = (struct step_leader){0};
}

/* -------------------------------------------------------------------------------------- entries */

static uint64_t *members_of(const struct step_leader *leader, uint64_t index)
{
    return leader->kept_members + index % capacity(leader) * worker_words(leader);
}

static struct step_entry entry_of(const struct step_leader *leader, uint64_t index)
{
    const struct step_kept *const kept = &leader->kept[index % capacity(leader)];
    return (struct step_entry){
        index, kept->kind, kept->number, kept->left_count, members_of(leader, index), 0};
}

static void keep(struct step_leader *leader, const struct step_entry *entry)
{
    leader->kept[entry->index % capacity(leader)] =
        (struct step_kept){entry->kind, entry->number, entry->left_count};
    if (entry->members != members_of(leader, entry->index))
        memcpy(members_of(leader, entry->index), entry->members,
               worker_words(leader) * sizeof(uint64_t));
}

static uint64_t *has_of(const struct step_leader *leader, int worker)
{
    return leader->has + (size_t)worker * seat_words(leader);
}

static void begin_clocks(struct step_leader *leader, const uint64_t *members)
{
    for (int w = 0; w < leader->config.worker_count; w++)
        if (rank_set_has(members, w))
            memset(has_of(leader, w), 0, seat_words(leader) * sizeof(uint64_t));
}

static void put_out(struct step_leader *leader, int worker, bool has_left)
{
    leader->absences[worker] = (struct step_absence){true, has_left, true};
    worker_clock_remove(&leader->clock, worker);
}

/* ------------------------------------------------------------------------------------- what comes */

bool step_leader_has(struct step_leader *leader, int seat, int worker, uint64_t clock)
{
    const struct worker_clock_worker *const own = &leader->workers[worker];
    if (leader->absences[worker].is_out || clock < own->clock) return true;
    if (clock > own->clock) return false;
    if (own->state != WORKER_WAITS) rank_set_add(has_of(leader, worker), seat);
    return true;
}

void step_leader_report(struct step_leader *leader, int worker, bool has_left)
{
    struct step_absence *const of = &leader->absences[worker];
    if (of->is_reported) return;
    of->is_reported = true;
    of->has_left = has_left;
}

enum worker_clock_end step_leader_wish(struct step_leader *leader, int worker, uint64_t round,
                                       const struct worker_clock_rule *rule)
{
    const bool is_on_its_way =
        leader->round_state != STEP_ROUND_NONE && leader->round.round == round;
    if (is_on_its_way && !leader->absences[worker].is_out) return WORKER_CLOCK_NEW;
    return worker_clock_wish(&leader->clock, worker, round, rule);
}

static bool is_other(const struct step_leader *leader, int seat)
{
    return seat != leader->config.seat && !leader->seats[seat].is_gone;
}

static int standby_of(const struct step_leader *leader)
{
    const int standby = leader->config.share_count;
    return leader->config.seat == 0 && leader->config.copy_count > 1 &&
                   !leader->seats[standby].is_gone
               ? standby
               : -1;
}

/* Of a standby whose leader is gone, or the other way round. */
static void lead_if_all_resumed(struct step_leader *leader)
{
    if (leader->role != STEP_WAITS) return;
    for (int s = 0; s < seat_count(leader); s++)
        if (is_other(leader, s) && !leader->seats[s].has_resumed) return;
    leader->role = STEP_LEADS;
    if (leader->proposed < leader->agreed) leader->proposed = leader->agreed;
}

bool step_leader_gone(struct step_leader *leader, int seat)
{
    leader->seats[seat].is_gone = true;
    if (step_seat_has_clock(seat, leader->config.share_count)) leader->role = STEP_WAITS;
    lead_if_all_resumed(leader);
    for (int share = 0; share < leader->config.share_count; share++) {
        bool has_any = false;
        for (int s = share; s < seat_count(leader); s += leader->config.share_count)
            has_any |= !leader->seats[s].is_gone;
        if (!has_any) return false;
    }
    return true;
}

void step_leader_confirm(struct step_leader *leader, uint64_t index, uint64_t round)
{
    if (index > 0 && index == leader->proposed) leader->agreed = index;
    if (index == 0 && leader->round_state == STEP_ROUND_TOLD && round == leader->round.round)
        leader->round_state = STEP_ROUND_AGREED;
}

static bool hear_round(struct step_leader *leader, const struct step_entry *entry)
{
    const struct worker_clock_rule rule = {entry->number, (int)entry->left_count};
    if (entry->round < leader->clock.changes) return true;
    if (entry->round > leader->clock.changes || leader->role != STEP_STANDS_BY ||
        leader->round_state != STEP_ROUND_NONE)
        return false;
    worker_clock_follow_change(&leader->clock, entry->kind == STEP_CHANGED ? &rule : NULL);
    leader->round = *entry;
    leader->round_state = STEP_ROUND_HEARD;
    return true;
}

bool step_leader_hear(struct step_leader *leader, const struct step_entry *entry)
{
    if (entry->kind == STEP_CHANGED || entry->kind == STEP_KEPT) return hear_round(leader, entry);
    if (entry->index <= leader->agreed) return true;
    if (entry->index != leader->agreed + 1 || leader->role != STEP_STANDS_BY) return false;
    keep(leader, entry);
    leader->agreed = entry->index;
    if (entry->kind == STEP_DECIDED) {
        worker_clock_follow(&leader->clock, entry->members);
        begin_clocks(leader, entry->members);
    } else {
        put_out(leader, (int)entry->number, entry->kind == STEP_LEFT);
    }
    return true;
}

bool step_leader_resume(struct step_leader *leader, int seat, uint64_t index)
{
    if (index > leader->agreed || leader->agreed - index >= capacity(leader)) return false;
    leader->seats[seat].has_resumed = true;
    if (leader->config.seat != 0) leader->seats[seat].told = index;
    lead_if_all_resumed(leader);
    return true;
}

/* -------------------------------------------------------------------------------- what is to be done */

static bool have_all(const struct step_leader *leader, int worker)
{
    const uint64_t *const has = has_of(leader, worker);
    for (int s = 0; s < seat_count(leader); s++)
        if (!leader->seats[s].is_gone && !rank_set_has(has, s)) return false;
    return true;
}

static void propose(struct step_leader *leader, const struct step_entry *entry)
{
    keep(leader, entry);
    leader->proposed = entry->index;
    if (standby_of(leader) < 0) leader->agreed = entry->index;
}

/* Ends a round of wishes, if it is to end. */
static bool make_round(struct step_leader *leader)
{
    int differing[2];
    const uint64_t round = leader->clock.changes;
    const enum worker_clock_change change = worker_clock_change(&leader->clock, differing);
    if (change == WORKER_CLOCK_STAYS) return false;
    leader->round_state = STEP_ROUND_PROPOSED;
    leader->round = change == WORKER_CLOCK_AGREES
                        ? (struct step_entry){.kind = STEP_CHANGED,
                                              .number = leader->clock.rule.staleness,
                                              .left_count = (uint64_t)leader->clock.rule.quorum,
                                              .round = round}
                        : (struct step_entry){.kind = STEP_KEPT,
                                              .number = (uint64_t)differing[0],
                                              .left_count = (uint64_t)differing[1],
                                              .round = round};
    return true;
}

/* Makes the next entry, if there is one: workers that are gone first, as nobody waits for them. A round
 * of wishes ends before a step, in which a quorum may need fewer then. */
static bool make_entry(struct step_leader *leader)
{
    struct step_entry entry = {.index = leader->agreed + 1,
                               .members = members_of(leader, leader->agreed + 1)};
    for (int w = 0; w < leader->config.worker_count; w++) {
        const struct step_absence *const of = &leader->absences[w];
        if (!of->is_reported || of->is_out) continue;
        put_out(leader, w, of->has_left);
        entry.kind = of->has_left ? STEP_LEFT : STEP_LOST;
        entry.number = (uint64_t)w;
        entry.left_count = (uint64_t)leader->clock.left_count;
        memset(members_of(leader, entry.index), 0, worker_words(leader) * sizeof(uint64_t));
        propose(leader, &entry);
        return true;
    }
    for (int w = 0; w < leader->config.worker_count; w++)
        if (leader->workers[w].state != WORKER_WAITS && have_all(leader, w))
            (void)worker_clock_end(&leader->clock, w, leader->workers[w].clock);
    if (make_round(leader)) return true;
    if (!worker_clock_decide(&leader->clock, members_of(leader, entry.index))) return false;
    begin_clocks(leader, entry.members);
    entry.kind = STEP_DECIDED;
    entry.number = leader->clock.steps;
    entry.left_count = (uint64_t)leader->clock.left_count;
    propose(leader, &entry);
    return true;
}

static struct step_action tell(struct step_leader *leader, int seat)
{
    return (struct step_action){STEP_TELL, seat, entry_of(leader, ++leader->seats[seat].told)};
}

/* Behind a leader that died, seats hear nothing before they have said what they have heard. */
static bool may_tell(const struct step_leader *leader, int seat)
{
    return is_other(leader, seat) && (leader->config.seat == 0 || leader->seats[seat].has_resumed);
}

static struct step_action carry_out_round(struct step_leader *leader)
{
    leader->round_state = STEP_ROUND_NONE;
    return (struct step_action){STEP_CARRY_OUT, leader->config.seat, leader->round};
}

static struct step_action next_of_leader(struct step_leader *leader)
{
    const int standby = standby_of(leader);
    if (standby < 0 && leader->role == STEP_LEADS) {
        leader->agreed = leader->proposed;
        if (leader->round_state != STEP_ROUND_NONE) leader->round_state = STEP_ROUND_AGREED;
    }
    if (standby >= 0 && leader->seats[standby].told < leader->proposed)
        return tell(leader, standby);
    if (standby >= 0 && leader->round_state == STEP_ROUND_PROPOSED) {
        leader->round_state = STEP_ROUND_TOLD;
        return (struct step_action){STEP_TELL, standby, leader->round};
    }
    for (int s = 0; s < seat_count(leader); s++)
        if (s != standby && may_tell(leader, s) && leader->seats[s].told < leader->agreed)
            return tell(leader, s);
    if (leader->carried < leader->agreed)
        return (struct step_action){STEP_CARRY_OUT, leader->config.seat,
                                    entry_of(leader, ++leader->carried)};
    if (leader->round_state == STEP_ROUND_AGREED) return carry_out_round(leader);
    return (struct step_action){0};
}

struct step_action step_leader_next(struct step_leader *leader)
{
    if (leader->role != STEP_STANDS_BY) {
        struct step_action action = next_of_leader(leader);
        while (action.kind == STEP_NOTHING && leader->role == STEP_LEADS &&
               leader->proposed == leader->agreed && leader->round_state == STEP_ROUND_NONE &&
               make_entry(leader))
            action = next_of_leader(leader);
        return action;
    }
    if (leader->confirmed < leader->agreed)
        return (struct step_action){STEP_CONFIRM, 0, entry_of(leader, ++leader->confirmed)};
    if (leader->carried < leader->agreed)
        return (struct step_action){STEP_CARRY_OUT, leader->config.seat,
                                    entry_of(leader, ++leader->carried)};
    if (leader->round_state == STEP_ROUND_HEARD) {
        leader->round_state = STEP_ROUND_AGREED;
        return (struct step_action){STEP_CONFIRM, 0, leader->round};
    }
    if (leader->round_state == STEP_ROUND_AGREED) return carry_out_round(leader);
    return (struct step_action){0};
}

bool step_leader_is_there(const struct step_leader *leader, int seat)
{
    return !leader->seats[seat].is_gone;
}
