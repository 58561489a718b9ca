#include "membership/step_leader.h"

#include <stdlib.h>
#include <string.h>

#include "membership/rank_set.h"

struct step_seat {
    bool is_gone, has_filled;
    bool needs_base;
    uint64_t told; /* the last entry that it was told, or has heard from another leader */
};

struct step_absence {
    bool is_reported, has_left; /* an entry says so, or will */
    bool is_out;                /* of the clock */
    bool is_awaited;            /* no entry says yet that it has come, or will not */
};

struct step_kept {
    enum step_entry_kind kind;
    uint64_t number, left_count, round;
};

static int seat_count(const struct step_leader *leader)
{
    return leader->map.seat_count;
}

static size_t worker_words(const struct step_leader *leader)
{
    return rank_set_words(leader->config.worker_count);
}

static uint64_t capacity(const struct step_leader *leader)
{
    return 3 * (uint64_t)leader->config.worker_count + 4 * (uint64_t)seat_count(leader) + 2;
}

bool step_entry_moves(enum step_entry_kind kind, enum seat_state *state)
{
    switch (kind) {
    case STEP_INVITED: *state = SEAT_INVITED; return true;
    case STEP_JOINED: *state = SEAT_JOINED; return true;
    case STEP_FULL: *state = SEAT_FULL; return true;
    case STEP_OUT: *state = SEAT_OUT; return true;
    default: return false;
    }
}

bool step_leader_init(struct step_leader *leader, const struct step_leader_config *config)
{
    const size_t workers = (size_t)config->worker_count;
    const bool has_standby = config->copy_count > 1;
    *leader = (struct step_leader){.config = *config,
                                   .leads = 0,
                                   .followed = config->seat == 0 ? -1 : 0,
                                   .standby = has_standby ? config->share_count : -1,
                                   .lost = -1,
                                   .role = config->seat == 0                     ? STEP_LEADS
                                           : config->seat == config->share_count ? STEP_STANDS_BY
                                                                                 : STEP_LEARNS};
    if (!seat_map_init(&leader->map, config->share_count, config->copy_count, config->spare_count))
        return false;
    const size_t seats = (size_t)seat_count(leader);
    leader->workers = calloc(workers, sizeof *leader->workers);
    leader->seats = calloc(seats, sizeof *leader->seats);
    leader->absences = calloc(workers, sizeof *leader->absences);
    leader->has = calloc(workers * seats, sizeof *leader->has);
    leader->begun = calloc(workers * seats, sizeof *leader->begun);
    leader->linked = calloc(workers * seats, sizeof *leader->linked);
    leader->resumed = calloc(seats * seats, sizeof *leader->resumed);
    leader->kept = calloc(capacity(leader), sizeof *leader->kept);
    leader->kept_members =
        calloc(capacity(leader) * worker_words(leader), sizeof *leader->kept_members);
    if (leader->workers == NULL || leader->seats == NULL || leader->absences == NULL ||
        leader->has == NULL || leader->begun == NULL || leader->linked == NULL ||
        leader->resumed == NULL || leader->kept == NULL || leader->kept_members == NULL)
        return false;
    const int first_count = config->worker_count - config->place_count;
    worker_clock_init(&leader->clock, &config->rule, config->worker_count, first_count,
                      leader->workers);
    for (int w = first_count; w < config->worker_count; w++)
        leader->absences[w].is_out = leader->absences[w].is_awaited = true;
    return true;
}

void step_leader_release(struct step_leader *leader)
{
    seat_map_release(&leader->map);
    free(leader->workers);
    free(leader->seats);
    free(leader->absences);
    free(leader->has);
    free(leader->begun);
    free(leader->linked);
    free(leader->resumed);
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
        index, kept->kind, kept->number, kept->left_count, members_of(leader, index), kept->round};
}

static void keep(struct step_leader *leader, const struct step_entry *entry)
{
    leader->kept[entry->index % capacity(leader)] =
        (struct step_kept){entry->kind, entry->number, entry->left_count, entry->round};
    if (entry->members != members_of(leader, entry->index))
        memcpy(members_of(leader, entry->index), entry->members,
               worker_words(leader) * sizeof(uint64_t));
}

static size_t place_of(const struct step_leader *leader, int worker, int seat)
{
    return (size_t)worker * (size_t)seat_count(leader) + (size_t)seat;
}

static void put_out(struct step_leader *leader, int worker, bool has_left)
{
    leader->absences[worker] =
        (struct step_absence){.is_reported = true, .has_left = has_left, .is_out = true};
    worker_clock_remove(&leader->clock, worker);
}

/* A seat may have said already that it is gone again. */
static void let_in(struct step_leader *leader, int worker)
{
    leader->absences[worker].is_out = leader->absences[worker].is_awaited = false;
}

/* ------------------------------------------------------------------------------------- what comes */

bool step_leader_has(struct step_leader *leader, int seat, int worker, uint64_t clock)
{
    uint64_t *const has = &leader->has[place_of(leader, worker, seat)];
    /* A spare that learns may hear of a step behind those that took part in it. */
    if (!leader->absences[worker].is_out && clock > leader->workers[worker].clock &&
        leader->role != STEP_LEARNS)
        return false;
    if (clock >= *has) *has = clock + 1;
    return true;
}

void step_leader_begun(struct step_leader *leader, int seat, int worker, uint64_t clock)
{
    leader->begun[place_of(leader, worker, seat)] = clock + 1;
}

void step_leader_linked(struct step_leader *leader, int seat, int worker)
{
    leader->linked[place_of(leader, worker, seat)] = true;
}

void step_leader_filled(struct step_leader *leader, int seat)
{
    leader->seats[seat].has_filled = true;
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

bool step_leader_is_early(const struct step_leader *leader, uint64_t round)
{
    return leader->role == STEP_LEARNS && round > leader->clock.changes;
}

static bool is_left(const struct step_leader *leader, int seat)
{
    return !leader->seats[seat].is_gone && seat_map_hears(&leader->map, seat);
}

static bool is_other(const struct step_leader *leader, int seat)
{
    return seat != leader->config.seat && is_left(leader, seat);
}

static bool has_resumed(const struct step_leader *leader, int seat)
{
    return leader->resumed[(size_t)seat * (size_t)seat_count(leader) + (size_t)leader->lost];
}

/* Of a standby whose leader is gone, or the other way round. Spares that are invited get a base, and need
 * not say anything. */
static void lead_if_all_resumed(struct step_leader *leader)
{
    if (leader->role != STEP_WAITS) return;
    for (int s = 0; s < seat_count(leader); s++)
        if (is_other(leader, s) && seat_map_counts(&leader->map, s) && !has_resumed(leader, s))
            return;
    leader->role = STEP_LEADS;
    if (leader->proposed < leader->agreed) leader->proposed = leader->agreed;
}

/* This seat stood by, and leads from now on. */
static void take_over(struct step_leader *leader)
{
    leader->leads = leader->config.seat;
    for (int s = 0; s < seat_count(leader); s++)
        leader->seats[s].needs_base = leader->map.seats[s].state == SEAT_INVITED;
}

/* A share whose copy is whole is there, even if the list does not say so yet; but a clock without the end
 * of the list is none. */
static bool has_all_shares(const struct step_leader *leader)
{
    for (int share = 0; share < leader->config.share_count; share++) {
        bool has_any = false;
        for (int s = 0; s < seat_count(leader); s++)
            has_any |= leader->map.seats[s].share == share && is_left(leader, s) &&
                       (leader->map.seats[s].state == SEAT_FULL ||
                        (share != 0 && leader->seats[s].has_filled));
        if (!has_any) return false;
    }
    return true;
}

bool step_leader_puts_out(const struct step_leader *leader)
{
    return leader->role == STEP_LEADS ||
           (leader->role == STEP_WAITS && leader->lost != leader->followed);
}

bool step_leader_gone(struct step_leader *leader, int seat)
{
    if (!leader->seats[seat].is_gone && (seat == leader->leads || seat == leader->standby)) {
        leader->lost = seat;
        if (leader->role == STEP_STANDS_BY) take_over(leader);
        if (leader->role != STEP_LEARNS) leader->role = STEP_WAITS;
        leader->standby = -1;
    }
    leader->seats[seat].is_gone = true;
    lead_if_all_resumed(leader);
    return has_all_shares(leader);
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
    const bool learns = leader->role == STEP_LEARNS;
    if (entry->round < leader->clock.changes) return true;
    if (entry->round > leader->clock.changes || (leader->role != STEP_STANDS_BY && !learns) ||
        leader->round_state != STEP_ROUND_NONE)
        return false;
    worker_clock_follow_change(&leader->clock, entry->kind == STEP_CHANGED ? &rule : NULL);
    leader->round = *entry;
    leader->round_state = learns ? STEP_ROUND_AGREED : STEP_ROUND_HEARD;
    return true;
}

/* A spare that is FULL stands by from that entry on, and confirms it. */
static bool move_seat(struct step_leader *leader, const struct step_entry *entry,
                      enum seat_state state)
{
    const int seat = (int)entry->number;
    if (!seat_map_move(&leader->map, seat, state, (int)entry->left_count)) return false;
    if (entry->kind != STEP_FULL || entry->left_count != 0) return true;
    leader->standby = seat;
    if (seat != leader->config.seat) return true;
    leader->role = STEP_STANDS_BY;
    leader->confirmed = entry->index - 1;
    return true;
}

bool step_leader_hear(struct step_leader *leader, const struct step_entry *entry)
{
    enum seat_state state;
    if (entry->kind == STEP_CHANGED || entry->kind == STEP_KEPT) return hear_round(leader, entry);
    if (entry->index <= leader->agreed) return true;
    if (entry->index != leader->agreed + 1 ||
        (leader->role != STEP_STANDS_BY && leader->role != STEP_LEARNS))
        return false;
    if (step_entry_moves(entry->kind, &state) && !move_seat(leader, entry, state)) return false;
    if (entry->kind == STEP_CAME &&
        !worker_clock_follow_join(&leader->clock, (int)entry->number, entry->left_count))
        return false;
    keep(leader, entry);
    leader->agreed = entry->index;
    if (entry->kind == STEP_DECIDED)
        worker_clock_follow(&leader->clock, entry->members);
    else if (entry->kind == STEP_LOST || entry->kind == STEP_LEFT)
        put_out(leader, (int)entry->number, entry->kind == STEP_LEFT);
    else if (entry->kind == STEP_CAME)
        let_in(leader, (int)entry->number);
    return true;
}

enum step_resume step_leader_resume(struct step_leader *leader, int seat, int lost, uint64_t index)
{
    leader->resumed[(size_t)seat * (size_t)seat_count(leader) + (size_t)lost] = true;
    if (seat_map_counts(&leader->map, seat)) {
        if (index > leader->agreed) return STEP_CANNOT;
        if (leader->agreed - index >= capacity(leader))
            return leader->map.seats[seat].state == SEAT_FULL ? STEP_CANNOT : STEP_PUT_OUT;
        /* The end of a standby changes nothing of what seats have heard. */
        if (lost == leader->followed) leader->seats[seat].told = index;
    }
    lead_if_all_resumed(leader);
    return STEP_RESUMED;
}

/* ----------------------------------------------------------------------------------------- the base */

enum { BASE_HEAD = 6, BASE_OUT = 1, BASE_LEFT = 2, BASE_AWAITED = 4, BASE_WORKER_BITS = 3 };
enum { BASE_SEAT_BITS = 8 };

size_t step_base_words(int worker_count, int seat_count)
{
    return BASE_HEAD + (size_t)worker_count + (size_t)seat_count;
}

void step_leader_base(const struct step_leader *leader, uint64_t *words)
{
    const struct worker_clock *const clock = &leader->clock;
    const uint64_t head[BASE_HEAD] = {leader->agreed,        clock->steps,
                                      clock->changes,        clock->agreed,
                                      clock->rule.staleness, (uint64_t)clock->rule.quorum};
    memcpy(words, head, sizeof head);
    words += BASE_HEAD;
    for (int w = 0; w < leader->config.worker_count; w++) {
        const struct step_absence *const of = &leader->absences[w];
        *words++ = leader->workers[w].clock << BASE_WORKER_BITS | (of->is_out ? BASE_OUT : 0) |
                   (of->is_out && of->has_left ? BASE_LEFT : 0) |
                   (of->is_awaited ? BASE_AWAITED : 0);
    }
    for (int s = 0; s < seat_count(leader); s++) {
        const struct seat *const of = &leader->map.seats[s];
        *words++ = (uint64_t)(of->share + 1) << BASE_SEAT_BITS | of->state;
    }
}

bool step_base_read(const uint64_t *words, int worker_count, struct step_base *base,
                    struct worker_clock_worker *workers, struct seat_map *map)
{
    if (words[5] > (uint64_t)worker_count) return false;
    *base = (struct step_base){words[0], words[1], words[2], words[3], {words[4], (int)words[5]}};
    words += BASE_HEAD;
    for (int w = 0; w < worker_count; w++)
        workers[w] = (struct worker_clock_worker){.state = words[w] & BASE_AWAITED ? WORKER_AWAITED
                                                           : words[w] & BASE_OUT   ? WORKER_GONE
                                                                                   : WORKER_WORKS,
                                                  .clock = words[w] >> BASE_WORKER_BITS};
    words += worker_count;
    for (int s = 0; s < map->seat_count; s++) {
        const uint64_t state = words[s] & 0xff, share = words[s] >> BASE_SEAT_BITS;
        const bool is_spare = state == SEAT_SPARE;
        if (state > SEAT_OUT || share > (uint64_t)map->server_count ||
            (share == 0 && !is_spare && state != SEAT_OUT))
            return false;
        map->seats[s] = (struct seat){(int)share - 1, (enum seat_state)state};
    }
    return true;
}

bool step_leader_learn(struct step_leader *leader, int leads, const uint64_t *words)
{
    struct step_base base;
    const int workers = leader->config.worker_count;
    if (leader->role != STEP_LEARNS ||
        !step_base_read(words, workers, &base, leader->workers, &leader->map))
        return false;
    leader->leads = leader->followed = leads;
    leader->standby = -1;
    leader->clock.rule = base.rule;
    leader->clock.steps = base.steps;
    leader->clock.changes = base.changes;
    leader->clock.agreed = base.agreed;
    leader->clock.left_count = 0;
    for (int w = 0; w < workers; w++) {
        const enum worker_state state = leader->workers[w].state;
        leader->clock.left_count += state == WORKER_WORKS;
        if (state == WORKER_GONE)
            leader->absences[w] =
                (struct step_absence){.is_reported = true,
                                      .has_left = (words[BASE_HEAD + w] & BASE_LEFT) != 0,
                                      .is_out = true};
        else if (state == WORKER_WORKS)
            let_in(leader, w);
    }
    leader->proposed = leader->agreed = leader->carried = leader->confirmed = base.index;
    leader->round_state = STEP_ROUND_NONE;
    return true;
}

/* -------------------------------------------------------------------------------- what is to be done */

static bool have_all(const struct step_leader *leader, int worker)
{
    for (int s = 0; s < seat_count(leader); s++)
        if (is_left(leader, s) && seat_map_counts(&leader->map, s) &&
            leader->has[place_of(leader, worker, s)] <= leader->workers[worker].clock)
            return false;
    return true;
}

static void propose(struct step_leader *leader, const struct step_entry *entry)
{
    keep(leader, entry);
    leader->proposed = entry->index;
    if (leader->standby < 0) leader->agreed = entry->index;
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

/* ------------------------------------------------------------------------------------------ seats */

static bool propose_seat(struct step_leader *leader, enum step_entry_kind kind, int seat, int share)
{
    const struct step_entry entry = {.index = leader->agreed + 1,
                                     .kind = kind,
                                     .number = (uint64_t)seat,
                                     .left_count = (uint64_t)share,
                                     .members = members_of(leader, leader->agreed + 1)};
    enum seat_state state;
    if (!step_entry_moves(kind, &state) || !move_seat(leader, &entry, state)) return false;
    memset(members_of(leader, entry.index), 0, worker_words(leader) * sizeof(uint64_t));
    if (kind == STEP_INVITED) {
        leader->seats[seat].told = entry.index;
        leader->seats[seat].needs_base = true;
    }
    propose(leader, &entry);
    return true;
}

/* Whether all workers push to it, from clocks that are in no step yet, and it has all updates that the clock
 * takes to be everywhere. */
static bool have_all_begun(const struct step_leader *leader, int seat)
{
    for (int w = 0; w < leader->config.worker_count; w++) {
        const struct worker_clock_worker *const worker = &leader->workers[w];
        const uint64_t begun = leader->begun[place_of(leader, w, seat)];
        if (leader->absences[w].is_out) continue;
        if (begun == 0 || begun - 1 > worker->clock) return false;
        if (worker->state == WORKER_WAITS && leader->has[place_of(leader, w, seat)] <= worker->clock)
            return false;
    }
    return true;
}

/* The next change of a seat, if one is due. */
static bool make_seat_entry(struct step_leader *leader, int seat)
{
    const struct seat *const of = &leader->map.seats[seat];
    const bool is_gone = leader->seats[seat].is_gone;
    if (is_gone && of->state == SEAT_SPARE) leader->map.seats[seat].state = SEAT_OUT;
    if (of->state == SEAT_SPARE || of->state == SEAT_OUT) return false;
    if (is_gone) return propose_seat(leader, STEP_OUT, seat, of->share);
    if (of->state == SEAT_INVITED && !leader->seats[seat].needs_base && have_all_begun(leader, seat))
        return propose_seat(leader, STEP_JOINED, seat, of->share);
    if (of->state == SEAT_JOINED && leader->seats[seat].has_filled)
        return propose_seat(leader, STEP_FULL, seat, of->share);
    return false;
}

/* Gives a share that has one seat alone another one. */
static bool invite(struct step_leader *leader, int share)
{
    int count = 0;
    for (int s = 0; s < seat_count(leader); s++)
        count += is_left(leader, s) && leader->map.seats[s].share == share;
    const int spare = count == 1 ? seat_map_choose(&leader->map, share) : -1;
    return spare >= 0 && propose_seat(leader, STEP_INVITED, spare, share);
}

static bool make_entry_of_seats(struct step_leader *leader)
{
    if (leader->config.spare_count == 0) return false;
    for (int s = 0; s < seat_count(leader); s++)
        if (make_seat_entry(leader, s)) return true;
    for (int share = 0; share < leader->config.share_count && leader->clock.left_count > 0; share++)
        if (invite(leader, share)) return true;
    return false;
}

/* ---------------------------------------------------------------------------------------- entries */

/* A worker that is gone: nobody waits for it. */
static bool make_entry_of_absence(struct step_leader *leader)
{
    for (int w = 0; w < leader->config.worker_count; w++) {
        const struct step_absence *const of = &leader->absences[w];
        if (!of->is_reported || (of->is_out && !of->is_awaited)) continue;
        put_out(leader, w, of->has_left);
        const struct step_entry entry = {.index = leader->agreed + 1,
                                         .kind = of->has_left ? STEP_LEFT : STEP_LOST,
                                         .number = (uint64_t)w,
                                         .left_count = (uint64_t)leader->clock.left_count,
                                         .members = members_of(leader, leader->agreed + 1)};
        memset(members_of(leader, entry.index), 0, worker_words(leader) * sizeof(uint64_t));
        propose(leader, &entry);
        return true;
    }
    return false;
}

/* Whether each seat that hears the list has a line to the worker. */
static bool is_linked(const struct step_leader *leader, int worker)
{
    for (int s = 0; s < seat_count(leader); s++)
        if (is_left(leader, s) && !leader->linked[place_of(leader, worker, s)]) return false;
    return true;
}

/* A worker that comes. */
static bool make_entry_of_newcomer(struct step_leader *leader)
{
    for (int w = 0; w < leader->config.worker_count; w++) {
        const struct step_absence *const of = &leader->absences[w];
        if (!of->is_awaited || of->is_reported || !is_linked(leader, w)) continue;
        worker_clock_join(&leader->clock, w);
        let_in(leader, w);
        const struct step_entry entry = {.index = leader->agreed + 1,
                                         .kind = STEP_CAME,
                                         .number = (uint64_t)w,
                                         .left_count = leader->workers[w].clock,
                                         .members = members_of(leader, leader->agreed + 1),
                                         .round = leader->clock.changes};
        memset(members_of(leader, entry.index), 0, worker_words(leader) * sizeof(uint64_t));
        propose(leader, &entry);
        return true;
    }
    return false;
}

/* Makes the next entry, if there is one. Workers come before the ends of clocks are counted, so that no stream of
 * steps keeps them out. A round of wishes ends before a step, in which a quorum may need fewer then. */
static bool make_entry(struct step_leader *leader)
{
    struct step_entry entry = {.index = leader->agreed + 1,
                               .kind = STEP_DECIDED,
                               .members = members_of(leader, leader->agreed + 1)};
    if (make_entry_of_absence(leader) || make_entry_of_seats(leader) ||
        make_entry_of_newcomer(leader))
        return true;
    for (int w = 0; w < leader->config.worker_count; w++)
        if (leader->workers[w].state != WORKER_WAITS && have_all(leader, w))
            (void)worker_clock_end(&leader->clock, w, leader->workers[w].clock);
    if (make_round(leader)) return true;
    if (!worker_clock_decide(&leader->clock, members_of(leader, entry.index))) return false;
    entry.number = leader->clock.steps;
    entry.left_count = (uint64_t)leader->clock.left_count;
    propose(leader, &entry);
    return true;
}

static struct step_action tell(struct step_leader *leader, int seat)
{
    return (struct step_action){STEP_TELL, seat, entry_of(leader, ++leader->seats[seat].told)};
}

/* The spare that learns; -1: there is none. */
static int learner_of(const struct step_leader *leader)
{
    for (int s = 0; s < seat_count(leader); s++)
        if (is_other(leader, s) && leader->map.seats[s].share == 0 && s != leader->standby &&
            leader->map.seats[s].state != SEAT_FULL)
            return s;
    return -1;
}

/* Behind a leader that died, seats hear nothing before they have said what they have heard. */
static bool may_tell(const struct step_leader *leader, int seat)
{
    return is_other(leader, seat) && (leader->role != STEP_WAITS ||
                                      leader->lost != leader->followed || has_resumed(leader, seat));
}

static struct step_action carry_out_round(struct step_leader *leader)
{
    leader->round_state = STEP_ROUND_NONE;
    return (struct step_action){STEP_CARRY_OUT, leader->config.seat, leader->round};
}

/* Of seats that are neither this one nor the standby. */
static struct step_action tell_others(struct step_leader *leader, int learner)
{
    for (int s = 0; s < seat_count(leader); s++) {
        const uint64_t until = s == learner ? leader->carried : leader->agreed;
        if (s == leader->standby || !may_tell(leader, s)) continue;
        if (!leader->seats[s].needs_base) {
            if (leader->seats[s].told < until) return tell(leader, s);
        } else if (leader->role == STEP_LEADS && leader->proposed == leader->agreed) {
            leader->seats[s].needs_base = false;
            leader->seats[s].told = leader->agreed;
            return (struct step_action){.kind = STEP_GIVE_BASE, .seat = s};
        }
    }
    return (struct step_action){0};
}

static struct step_action end_round_of_leader(struct step_leader *leader, int learner)
{
    const bool is_taught =
        learner < 0 || leader->seats[learner].needs_base || leader->round_was_taught;
    leader->round_was_taught = !is_taught;
    return is_taught ? carry_out_round(leader)
                     : (struct step_action){STEP_TELL, learner, leader->round};
}

static struct step_action next_of_leader(struct step_leader *leader)
{
    const int standby = leader->standby, learner = learner_of(leader);
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
    const struct step_action told = tell_others(leader, learner);
    if (told.kind != STEP_NOTHING) return told;
    if (leader->carried < leader->agreed)
        return (struct step_action){STEP_CARRY_OUT, leader->config.seat,
                                    entry_of(leader, ++leader->carried)};
    if (leader->round_state == STEP_ROUND_AGREED) return end_round_of_leader(leader, learner);
    return (struct step_action){0};
}

struct step_action step_leader_next(struct step_leader *leader)
{
    if (leader->role == STEP_LEADS || leader->role == STEP_WAITS) {
        struct step_action action = next_of_leader(leader);
        while (action.kind == STEP_NOTHING && leader->role == STEP_LEADS &&
               leader->proposed == leader->agreed && leader->round_state == STEP_ROUND_NONE &&
               make_entry(leader))
            action = next_of_leader(leader);
        return action;
    }
    if (leader->role == STEP_STANDS_BY && leader->confirmed < leader->agreed)
        return (struct step_action){STEP_CONFIRM, leader->leads,
                                    entry_of(leader, ++leader->confirmed)};
    if (leader->carried < leader->agreed)
        return (struct step_action){STEP_CARRY_OUT, leader->config.seat,
                                    entry_of(leader, ++leader->carried)};
    if (leader->round_state == STEP_ROUND_HEARD) {
        leader->round_state = STEP_ROUND_AGREED;
        return (struct step_action){STEP_CONFIRM, leader->leads, leader->round};
    }
    if (leader->round_state == STEP_ROUND_AGREED) return carry_out_round(leader);
    return (struct step_action){0};
}

bool step_leader_is_there(const struct step_leader *leader, int seat)
{
    return !leader->seats[seat].is_gone;
}
