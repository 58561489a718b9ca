#include "tests/sim/growth_sim.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/rank_set.h"
#include "tests/sim/growth_sim_world.h"
#include "tests/sim/sim_seeds.h"

#define CALM_NS (200 * MILLISECOND)
#define DEADLINE_NS (1500 * MILLISECOND)  /* of an agreement */
#define MEETING_NS (400 * MILLISECOND)    /* of a meeting */
#define ADMISSION_NS (100 * MILLISECOND)  /* for joiners */
#define PATIENCE_NS (20000 * MILLISECOND) /* of a joiner */

enum { EVENTS_MAX = 400000, ROUNDS_MAX = 16 /* as in comm/round.h */ };

enum event_kind {
    BEGIN = SIM_MESSAGE + 1, /* node begins */
    TICK,                    /* the vote `number` of a node is due */
    DEADLINE,                /* of that vote */
    ADMIT,                   /* the admitter looks who waits */
    INVITED,                 /* a joiner hears of team `number` */
    MET,                     /* the meeting of team `number` is over for this node */
    MEETING_LATE,            /* its deadline */
    TOLD_OLD,                /* node hears that `number` has left the old team */
    TOLD,                    /* node hears that `number` has left the team `tag` */
    IMPATIENT,               /* a joiner's deadline */
    CRASH,
    ARM, /* node is to crash after `number` messages */
    CUT, /* hosts by the bits of `number` */
    HEAL,
    LOOK,    /* node looks whether `number` is there */
    MISTAKE, /* node suspects `number` without reason */
    CALM
};

/* --------------------------------------------------------------------------------------- ending */

static void mourn(struct world *w, int node);

static void end(struct world *w, int node)
{
    struct process *process = &w->processes[node];
    process->has_ended = true;
    process->is_waiting = false;
    story_tell(&w->story, "node %d ends at step %d", node, (int)process->step);
    w->report->made += process->step == GROWTH_MADE;
    w->report->refused += process->step == GROWTH_REFUSED;
    w->report->left_out += process->step == GROWTH_LEFT_OUT;
    w->report->undecided += process->step == GROWTH_UNDECIDED;
    if (process->step != GROWTH_LEFT_OUT && process->step != GROWTH_UNDECIDED && !process->is_late)
        return;
    sim_crash(w->sim, node); /* such a process ends */
    mourn(w, node);
}

/* --------------------------------------------------------------------------------------- voting */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static int find_vote(struct world *w, bool is_of_team, int number)
{
    for (int i = 0; i < w->vote_count; i++)
        if (w->votes[i].is_of_team == is_of_team && w->votes[i].number == number) return i;
    assert(w->vote_count < VOTES_MAX);
    struct vote *vote = &w->votes[w->vote_count];
    *vote = (struct vote){.is_of_team = is_of_team,
                          .number = number,
                          .epoch = mix((uint64_t)number * 2 + is_of_team + 1)};
    for (int node = 0; node < NODES_MAX; node++) vote->rank_of[node] = -1;
    return w->vote_count++;
}

static void send_message(void *context, int to, const void *bytes, size_t byte_count);
static void review(struct world *w, struct seat *seat);

/* Whether a member has freed the old communicator, and may have decided this agreement before. */
static bool has_moved_on(const struct world *w, int node, int other, int number)
{
    return (w->left_old >> other & 1) != 0 && !sim_is_cut(w->sim, node, other) &&
           w->processes[other].calls > number;
}

static void call(struct world *w, int node, int number, uint64_t word)
{
    struct vote *vote = &w->votes[number];
    struct seat *seat = &w->seats[node][number];
    assert(seat->agreement == NULL);
    *seat = (struct seat){.world = w, .node = node, .vote = number, .tick_ns = UINT64_MAX};
    const struct agreement_options options = {.size = vote->size,
                                              .rank = vote->rank_of[node],
                                              .epoch = vote->epoch,
                                              .word = word,
                                              .voters = &vote->voters,
                                              .retry_ns_min = 2 * MILLISECOND,
                                              .retry_ns_max = 16 * MILLISECOND,
                                              .send = send_message,
                                              .context = seat};
    w->processes[node].vote = number;
    if (agreement_create(&options, &seat->agreement) != TUTTI_OK) abort();
    for (int rank = 0; rank < vote->size; rank++) {
        const int other = vote->node_of[rank];
        const bool has_left = vote->is_of_team && (w->teams[vote->number].left >> other & 1) != 0 &&
                              !sim_is_cut(w->sim, node, other);
        const bool has_moved = !vote->is_of_team && has_moved_on(w, node, other, vote->number);
        if (other == node) continue;
        if (w->buries[node][other] || has_left)
            agreement_declare_dead(seat->agreement, rank);
        else if (w->suspects[node][other] || has_moved)
            agreement_suspect(seat->agreement, rank);
    }
    sim_at(w->sim, sim_now_ns(w->sim) + DEADLINE_NS, DEADLINE, node, number, 0);
    review(w, seat);
}

static void call_old(struct world *w, int node, uint64_t word)
{
    const int number = find_vote(w, false, w->processes[node].calls++);
    struct vote *vote = &w->votes[number];
    vote->size = w->member_count;
    vote->voters = rank_set_mask(vote->size, 0);
    for (int i = 0; i < vote->size; i++) vote->node_of[i] = vote->rank_of[i] = i;
    call(w, node, number, word);
}

/* --------------------------------------------------------------------------------------- meeting */

static int find_team(struct world *w, int number, uint64_t survivors, uint64_t joiners)
{
    for (int i = 0; i < w->team_count; i++)
        if (w->teams[i].number == number && w->teams[i].survivors == survivors &&
            w->teams[i].joiners == joiners)
            return i;
    assert(w->team_count < TEAMS_MAX);
    struct team *team = &w->teams[w->team_count];
    *team = (struct team){.number = number, .survivors = survivors, .joiners = joiners};
    team->vote = find_vote(w, true, w->team_count);
    struct vote *vote = &w->votes[team->vote];
    const struct growth_team described = describe(w, team);
    int places[NODES_MAX * 2];
    vote->size = growth_size(&described);
    growth_place(&described, places, &vote->voters);
    judge_places(w, team, places);
    for (int node = 0, number_of = 0; node < w->node_count && !w->story.has_failed; node++) {
        if (!(nodes_of(team) >> node & 1)) continue;
        vote->rank_of[node] = places[number_of++];
        vote->node_of[vote->rank_of[node]] = node;
    }
    return w->team_count++;
}

static void begin_round(struct world *w, int node);

static void step_on(struct world *w, int node, const struct growth_event *event);

/* Gives the meeting up, and the others hear of it, or find it out. */
static void leave_team(struct world *w, int node, int number)
{
    struct team *team = &w->teams[number];
    team->left |= UINT64_C(1) << node;
    for (int other = 0; other < w->node_count; other++)
        if (other != node && (nodes_of(team) >> other & 1))
            sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 0, 20 * MILLISECOND), TOLD,
                   other, node, number);
}

static void fail_meeting(struct world *w, int node)
{
    const struct growth_event event = {.is_decided = false};
    w->report->failed_meetings++;
    story_tell(&w->story, "node %d gives the meeting of team %d up", node, w->processes[node].team);
    leave_team(w, node, w->processes[node].team);
    step_on(w, node, &event);
}

static bool misses_somebody(const struct world *w, int node)
{
    const struct team *team = &w->teams[w->processes[node].team];
    for (int other = 0; other < w->node_count; other++)
        if ((nodes_of(team) >> other & 1) && (w->buries[node][other] || w->suspects[node][other]))
            return true;
    return false;
}

static void arrive(struct world *w, int node, int number)
{
    struct team *team = &w->teams[number];
    struct process *process = &w->processes[node];
    const uint64_t now_ns = sim_now_ns(w->sim);
    process->team = number;
    story_tell(&w->story, "node %d comes to the meeting of team %d", node, number);
    if (!(nodes_of(team) >> node & 1)) {
        story_fail(&w->story, "node %d comes to team %d, which goes without it", node, number);
        return;
    }
    team->arrived |= UINT64_C(1) << node;
    sim_at(w->sim, now_ns + MEETING_NS, MEETING_LATE, node, number, 0);
    if (misses_somebody(w, node) || team->left != 0) {
        fail_meeting(w, node);
        return;
    }
    if (team->arrived != nodes_of(team)) return;
    for (int other = 0; other < w->node_count; other++)
        if (nodes_of(team) >> other & 1)
            sim_at(w->sim, now_ns + sim_between(w->sim, 0, 5 * MILLISECOND), MET, other, number, 0);
}

static void meet(struct world *w, int node, int number)
{
    struct process *process = &w->processes[node];
    if (process->step != GROWTH_MEETING || process->team != number) return;
    if (misses_somebody(w, node) || sim_chance(w->sim, w->meeting_fails_permille)) {
        fail_meeting(w, node);
        return;
    }
    process->met |= UINT64_C(1) << number;
    step_on(w, node, &(struct growth_event){.is_decided = true});
}

/* A rank has left without a decision about all, so there is none. */
static void withdraw(struct world *w, int node, int number)
{
    struct process *process = &w->processes[node];
    story_tell(&w->story, "node %d hears that team %d is nowhere", node, number);
    process->outcomes[number] = IS_NOWHERE;
    process->vote = -1;
    agreement_give_up(w->seats[node][w->teams[number].vote].agreement);
    w->seats[node][w->teams[number].vote].state = AGREEMENT_LATE;
    judge_nowhere(w, node, number);
    leave_team(w, node, number);
    step_on(w, node, &(struct growth_event){.is_decided = true});
}

/* A rank of this node's team has gone from it. In the last agreement, what it decided before it left
 * has been heard by then. */
static void be_told(struct world *w, int node, int gone, int number)
{
    struct process *process = &w->processes[node];
    const struct team *team = &w->teams[number];
    if (sim_is_cut(w->sim, node, gone)) { /* connections last longer than most cuts */
        const uint64_t now_ns = sim_now_ns(w->sim);
        if (now_ns < 2 * CALM_NS) sim_at(w->sim, now_ns + MILLISECOND, TOLD, node, gone, number);
        return;
    }
    if (process->team == number && process->step == GROWTH_MEETING) {
        fail_meeting(w, node);
        return;
    }
    struct seat *own = &w->seats[node][team->vote], *its = &w->seats[gone][team->vote];
    if (own->agreement == NULL || own->state != AGREEMENT_RUNNING) return;
    if (its->agreement != NULL) {
        w->direct_to = node;
        agreement_spread(its->agreement);
        w->direct_to = SIM_NOBODY;
    }
    if (own->state == AGREEMENT_RUNNING) withdraw(w, node, number);
}

/* Whoever has the new team frees the old communicator. */
static void leave_old(struct world *w, int node)
{
    const uint64_t at_ns = sim_now_ns(w->sim) + sim_between(w->sim, 0, 100 * MILLISECOND);
    w->left_old |= UINT64_C(1) << node;
    for (int other = 0; other < w->member_count; other++)
        if (other != node) sim_at(w->sim, at_ns, TOLD_OLD, other, node, 0);
}

static void hear_old(struct world *w, int node, int gone)
{
    const uint64_t now_ns = sim_now_ns(w->sim);
    if (sim_is_cut(w->sim, node, gone)) {
        if (now_ns < 3 * DEADLINE_NS)
            sim_at(w->sim, now_ns + 50 * MILLISECOND, TOLD_OLD, node, gone, 0);
        return;
    }
    for (int i = 0; i < w->vote_count; i++) {
        struct seat *own = &w->seats[node][i];
        if (w->votes[i].is_of_team || own->agreement == NULL) continue;
        if (w->seats[gone][i].agreement != NULL) {
            w->direct_to = node;
            agreement_spread(w->seats[gone][i].agreement);
            w->direct_to = SIM_NOBODY;
        }
        if (has_moved_on(w, node, gone, w->votes[i].number))
            agreement_suspect(own->agreement, gone);
        else
            agreement_declare_dead(own->agreement, gone);
        review(w, own);
    }
}

/* --------------------------------------------------------------------------------------- the admission */

static uint64_t waiting_for(const struct world *w, int admitter)
{
    uint64_t waiting = 0;
    for (int node = w->member_count; node < w->node_count; node++)
        if (w->processes[node].is_waiting && sim_is_up(w->sim, node) &&
            !sim_is_cut(w->sim, admitter, node))
            waiting |= UINT64_C(1) << node;
    return waiting;
}

static void look_at_admission(struct world *w, int node)
{
    struct process *process = &w->processes[node];
    const int gaps = w->member_count - __builtin_popcountll(process->survivors);
    const int wanted = w->keeps_ranks ? gaps : w->wanted;
    uint64_t waiting = waiting_for(w, node);
    if (process->step != GROWTH_WORD || process->has_ended) return;
    if (__builtin_popcountll(waiting) < wanted && sim_now_ns(w->sim) < process->admission_ns) {
        sim_at(w->sim, sim_now_ns(w->sim) + MILLISECOND, ADMIT, node, 0, 0);
        return;
    }
    while (__builtin_popcountll(waiting) > wanted) waiting &= waiting - 1;
    const bool is_enough = __builtin_popcountll(waiting) == wanted;
    /* A bit that no node has says that it is refused. */
    call_old(w, node, is_enough ? waiting : UINT64_C(1) << 63);
}

static void invite(struct world *w, int admitter, int number)
{
    const struct team *team = &w->teams[number];
    for (int node = w->member_count; node < w->node_count; node++)
        if ((team->joiners >> node & 1) && sim_says(w->sim, admitter))
            sim_at(w->sim, sim_now_ns(w->sim) + sim_delay_ns(w->sim, admitter, node), INVITED, node,
                   number, admitter);
}

static void be_invited(struct world *w, int node, int number, int admitter)
{
    struct process *process = &w->processes[node];
    if (!process->is_waiting || sim_is_cut(w->sim, node, admitter)) return;
    process->is_waiting = false;
    process->step = GROWTH_MEETING;
    arrive(w, node, number);
}

/* ---------------------------------------------------------------------------------------- steps */

static void begin_round(struct world *w, int node)
{
    struct process *process = &w->processes[node];
    process->team = -1;
    if (!is_member(w, node)) {
        process->is_waiting = true;
        return;
    }
    process->who = process->calls;
    call_old(w, node, UINT64_MAX);
}

static void begin_word(struct world *w, int node)
{
    struct process *process = &w->processes[node];
    const bool is_admitter = __builtin_ctzll(process->survivors) == node;
    if (!is_admitter) {
        call_old(w, node, UINT64_MAX);
        return;
    }
    process->admission_ns = sim_now_ns(w->sim) + ADMISSION_NS;
    if (process->admission_ns < CALM_NS + ADMISSION_NS)
        process->admission_ns = CALM_NS + ADMISSION_NS;
    sim_at(w->sim, sim_now_ns(w->sim), ADMIT, node, 0, 0);
}

static void step_on(struct world *w, int node, const struct growth_event *event)
{
    struct process *process = &w->processes[node];
    const enum growth_step before = process->step;
    process->step = growth_next(before, event);
    story_tell(&w->story, "node %d goes from step %d to %d", node, (int)before, (int)process->step);
    switch (process->step) {
    case GROWTH_SURVIVORS:
        w->report->again++;
        if (++process->rounds == ROUNDS_MAX) {
            process->step = GROWTH_REFUSED;
            process->is_late = true;
            end(w, node);
            return;
        }
        begin_round(w, node);
        return;
    case GROWTH_WORD: begin_word(w, node); return;
    case GROWTH_MEETING: {
        const int team = find_team(w, process->who, process->survivors, process->joiners);
        if (w->story.has_failed) return;
        if (__builtin_ctzll(process->survivors) == node) invite(w, node, team);
        arrive(w, node, team);
        return;
    }
    case GROWTH_TEAM: call(w, node, w->teams[process->team].vote, UINT64_MAX); return;
    case GROWTH_MADE:
        w->report->replaced += w->keeps_ranks;
        judge_made(w, node);
        if (is_member(w, node)) leave_old(w, node);
        break;
    case GROWTH_UNDECIDED: judge_undecided(w, node); break;
    default: break;
    }
    end(w, node);
}

/* Gives a decision, or its lack, to the step that waits for it. */
static void take_decision(struct world *w, struct seat *seat)
{
    struct process *process = &w->processes[seat->node];
    const struct vote *vote = &w->votes[seat->vote];
    struct growth_event event = {.is_decided = seat->state == AGREEMENT_DECIDED};
    if (process->vote != seat->vote || process->has_ended) return;
    const uint64_t set = event.is_decided ? *agreement_set(seat->agreement) : 0;
    if (!event.is_decided && process->step != GROWTH_TEAM) process->is_late = true;
    if (process->step == GROWTH_SURVIVORS && event.is_decided) {
        process->survivors = set;
        event.has_self = rank_set_has(&set, seat->node);
    } else if (process->step == GROWTH_WORD && event.is_decided) {
        process->joiners = agreement_word(seat->agreement);
        event.has_all = (process->survivors & ~set) == 0;
        event.is_useless = process->joiners >> 63;
    } else if (process->step == GROWTH_TEAM && event.is_decided) {
        const struct team *team = &w->teams[vote->number];
        const struct growth_team described = describe(w, team);
        event.has_all = growth_is_made(&described, &set);
        process->outcomes[vote->number] = event.has_all ? IS_MADE : IS_NOWHERE;
        if (!event.has_all) {
            judge_nowhere(w, seat->node, vote->number);
            leave_team(w, seat->node, vote->number);
        }
    }
    step_on(w, seat->node, &event);
}

/* After anything that may have changed it. */
static void review(struct world *w, struct seat *seat)
{
    const enum agreement_state state = agreement_state(seat->agreement);
    if (state != seat->state) {
        seat->state = state;
        take_decision(w, seat);
    }
    const uint64_t due_ns = agreement_due_ns(seat->agreement);
    if (due_ns == UINT64_MAX || due_ns >= seat->tick_ns) return;
    seat->tick_ns = due_ns;
    sim_at(w->sim, due_ns, TICK, seat->node, seat->vote, 0);
}

static void hear_bytes(struct world *w, int node, int number, int from, const void *bytes,
                       size_t byte_count)
{
    struct seat *seat = &w->seats[node][number];
    const struct vote *vote = &w->votes[number];
    if (seat->agreement == NULL || vote->rank_of[from] < 0) return;
    agreement_hear(seat->agreement, vote->rank_of[from], bytes, byte_count, sim_now_ns(w->sim));
    review(w, seat);
}

static void send_message(void *context, int to, const void *bytes, size_t byte_count)
{
    struct seat *const seat = context;
    struct world *const w = seat->world;
    const int node = w->votes[seat->vote].node_of[to];
    w->report->messages++;
    if (w->direct_to == SIM_NOBODY)
        sim_send(w->sim, seat->node, node, seat->vote, bytes, byte_count);
    else if (w->direct_to == node)
        hear_bytes(w, node, seat->vote, seat->node, bytes, byte_count);
}

/* -------------------------------------------------------------------- what nodes know of others */

static void hold(struct world *w, int node, int other, bool is_suspect, bool is_dead)
{
    struct process *process = &w->processes[node];
    if (w->buries[node][other]) return;
    w->buries[node][other] = is_dead;
    w->suspects[node][other] = is_suspect;
    for (int i = 0; i < w->vote_count; i++) {
        struct seat *seat = &w->seats[node][i];
        const int rank = w->votes[i].rank_of[other];
        if (seat->agreement == NULL || rank < 0) continue;
        if (is_dead)
            agreement_declare_dead(seat->agreement, rank);
        else if (is_suspect)
            agreement_suspect(seat->agreement, rank);
        else
            agreement_unsuspect(seat->agreement, rank);
        review(w, seat);
    }
    if (process->step == GROWTH_MEETING && process->team >= 0 && !process->has_ended &&
        misses_somebody(w, node))
        fail_meeting(w, node);
}

static void look(struct world *w, int node, int other)
{
    const bool is_near = w->host_of[node] == w->host_of[other];
    if (!sim_is_up(w->sim, other))
        hold(w, node, other, !is_near, is_near);
    else if (sim_is_cut(w->sim, node, other))
        hold(w, node, other, true, false);
    else if (w->suspects[node][other] && !(w->left_old >> other & 1))
        hold(w, node, other, false, false);
}

static void look_after(struct world *w, int node, int other, uint64_t min_ns, uint64_t max_ns)
{
    if (node == other) return;
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, min_ns, max_ns), LOOK, node, other, 0);
}

/* A crash, seen from outside. */
static void mourn(struct world *w, int node)
{
    if (w->is_mourned[node]) return;
    w->is_mourned[node] = true;
    w->last_change_ns = sim_now_ns(w->sim);
    story_tell(&w->story, "node %d is down", node);
    for (int other = 0; other < w->node_count; other++) {
        const bool is_near = w->host_of[node] == w->host_of[other];
        look_after(w, other, node, is_near ? 0 : 20 * MILLISECOND,
                   (is_near ? 20 : 60) * MILLISECOND);
    }
}

/* --------------------------------------------------------------------------------------- faults */

static void change_cut(struct world *w, int sides, bool is_cut)
{
    story_tell(&w->story, "hosts %x are %s the others", (unsigned)sides,
               is_cut ? "cut off from" : "joined to");
    w->report->partitioned += is_cut;
    w->last_change_ns = sim_now_ns(w->sim);
    for (int one = 0; one < w->node_count; one++)
        for (int other = 0; other < w->node_count; other++) {
            if (((sides >> w->host_of[one]) & 1) == ((sides >> w->host_of[other]) & 1)) continue;
            if (other < one) sim_cut(w->sim, one, other, is_cut);
            look_after(w, one, other, (is_cut ? 20 : 1) * MILLISECOND, 60 * MILLISECOND);
        }
}

static uint64_t some_time(struct world *w)
{
    return sim_chance(w->sim, 700) ? sim_between(w->sim, 0, 30 * MILLISECOND)
                                   : sim_between(w->sim, 0, CALM_NS);
}

static void plan_faults(struct world *w)
{
    const unsigned crashes = sim_chance(w->sim, 600) ? 1 + sim_below(w->sim, 3) : 0;
    const unsigned mistakes = sim_chance(w->sim, 200) ? 1 + sim_below(w->sim, 3) : 0;
    for (unsigned i = 0; i < crashes; i++) {
        const int node = (int)sim_below(w->sim, (unsigned)w->node_count);
        const bool is_within = sim_chance(w->sim, 500);
        sim_at(w->sim, is_within ? 0 : some_time(w), is_within ? ARM : CRASH, node,
               (int)sim_below(w->sim, 60), 0);
    }
    for (unsigned i = 0; i < mistakes; i++) {
        const int node = (int)sim_below(w->sim, (unsigned)w->node_count);
        const int other = (int)sim_below(w->sim, (unsigned)w->node_count);
        const uint64_t at_ns = some_time(w);
        if (node == other) continue;
        sim_at(w->sim, at_ns, MISTAKE, node, other, 0);
        sim_at(w->sim, at_ns + sim_between(w->sim, 0, 60 * MILLISECOND), LOOK, node, other, 0);
    }
    if (w->host_count > 1 && sim_chance(w->sim, 400)) {
        const int sides = 1 + (int)sim_below(w->sim, (1u << w->host_count) - 2);
        const uint64_t from_ns = some_time(w);
        const unsigned length = sim_below(w->sim, 10);
        w->is_cut_for_long = length >= 4;
        sim_at(w->sim, from_ns, CUT, SIM_NOBODY, sides, 0);
        if (length < 7) /* or else for good */
            sim_at(w->sim,
                   w->is_cut_for_long ? sim_between(w->sim, DEADLINE_NS, 2 * DEADLINE_NS)
                                      : sim_between(w->sim, from_ns, CALM_NS),
                   HEAL, SIM_NOBODY, sides, 0);
    }
}

static void set_weather(struct world *w)
{
    static const unsigned lost_permille[] = {0, 0, 10, 100, 300};
    const struct sim_weather weather = {
        .lost_permille = lost_permille[sim_below(w->sim, 5)],
        .doubled_permille = sim_chance(w->sim, 300) ? 100 : 0,
        .late_permille = sim_chance(w->sim, 500) ? 100 : 0,
        .delay_ns_min = 20000,
        .delay_ns_max = sim_chance(w->sim, 500) ? 60000 : 2 * MILLISECOND,
        .late_ns_max = sim_chance(w->sim, 500) ? 5 * MILLISECOND : 80 * MILLISECOND,
    };
    sim_set_weather(w->sim, &weather);
}

static void calm_down(struct world *w)
{
    const struct sim_weather weather = {.delay_ns_min = 20000, .delay_ns_max = 200000};
    sim_set_weather(w->sim, &weather);
    w->meeting_fails_permille = 0;
    for (int node = 0; node < w->node_count; node++)
        if (sim_is_up(w->sim, node)) sim_crash_after(w->sim, node, UINT_MAX);
    w->last_change_ns = sim_now_ns(w->sim);
    story_tell(&w->story, "calm");
}

/* -------------------------------------------------------------------------------------- running */

static void set_up(struct world *w)
{
    w->member_count = 1 + (int)sim_below(w->sim, 5);
    w->wanted = 1 + (int)sim_below(w->sim, 4);
    w->node_count = w->member_count + w->wanted + (int)sim_below(w->sim, 2);
    w->host_count = 1 + (int)sim_below(w->sim, 4);
    w->keeps_ranks = sim_chance(w->sim, 300);
    w->meeting_fails_permille = sim_chance(w->sim, 200) ? 100 : 0;
    w->direct_to = SIM_NOBODY;
    const bool is_at_once = sim_chance(w->sim, 500);
    for (int node = 0; node < w->node_count; node++) {
        const bool is_early = is_member(w, node) || is_at_once;
        const uint64_t begin_ns = sim_between(w->sim, 0, (is_early ? 1 : 50) * MILLISECOND);
        w->host_of[node] = (int)sim_below(w->sim, (unsigned)w->host_count);
        w->processes[node].team = -1;
        sim_at(w->sim, begin_ns, BEGIN, node, 0, 0);
        if (!is_member(w, node)) sim_at(w->sim, PATIENCE_NS, IMPATIENT, node, 0, 0);
    }
    set_weather(w);
    plan_faults(w);
    sim_at(w->sim, CALM_NS, CALM, SIM_NOBODY, 0, 0);
}

static void happen(struct world *w, const struct sim_event *event)
{
    const int node = event->node, number = event->number;
    struct process *const process = node == SIM_NOBODY ? NULL : &w->processes[node];
    struct seat *const seat =
        event->kind == TICK || event->kind == DEADLINE ? &w->seats[node][number] : NULL;
    switch (event->kind) {
    case SIM_MESSAGE:
        hear_bytes(w, node, event->tag, number, event->bytes, event->byte_count);
        break;
    case BEGIN: begin_round(w, node); break;
    case TICK:
        seat->tick_ns = UINT64_MAX;
        agreement_tick(seat->agreement, sim_now_ns(w->sim));
        review(w, seat);
        break;
    case DEADLINE:
        agreement_give_up(seat->agreement);
        review(w, seat);
        break;
    case ADMIT: look_at_admission(w, node); break;
    case INVITED: be_invited(w, node, number, event->tag); break;
    case MET: meet(w, node, number); break;
    case MEETING_LATE:
        if (process->step == GROWTH_MEETING && process->team == number) fail_meeting(w, node);
        break;
    case TOLD_OLD: hear_old(w, node, number); break;
    case TOLD: be_told(w, node, number, event->tag); break;
    case IMPATIENT:
        if (!process->is_waiting) break;
        process->step = GROWTH_REFUSED;
        end(w, node);
        break;
    case CRASH:
        w->report->crashed++;
        sim_crash(w->sim, node);
        break;
    case ARM: sim_crash_after(w->sim, node, (unsigned)number); break;
    case CUT:
    case HEAL: change_cut(w, number, event->kind == CUT); break;
    case LOOK: look(w, node, number); break;
    case MISTAKE: hold(w, node, number, true, false); break;
    case CALM: calm_down(w); break;
    default: abort();
    }
}

void growth_sim_run(uint64_t seed, bool is_verbose, struct growth_sim_report *report)
{
    struct sim_event event;
    unsigned count = 0;
    struct world *w = calloc(1, sizeof *w);
    assert(w != NULL);
    w->sim = sim_create(seed);
    w->report = report;
    w->story = (struct sim_story){.sim = w->sim, .seed = seed, .is_verbose = is_verbose};
    set_up(w);
    while (!w->story.has_failed && sim_next(w->sim, &event)) {
        happen(w, &event);
        for (int node = 0; node < w->node_count; node++)
            if (!sim_is_up(w->sim, node)) mourn(w, node);
        if (++count == EVENTS_MAX) story_fail(&w->story, "it never ends");
    }
    if (!w->story.has_failed) growth_judge_end(w);
    report->events += count;
    report->has_failed = w->story.has_failed;
    memcpy(report->message, w->story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w->sim);
    for (int node = 0; node < NODES_MAX; node++)
        for (int i = 0; i < VOTES_MAX; i++) agreement_free(w->seats[node][i].agreement);
    sim_free(w->sim);
    free(w);
}

int growth_sim_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    struct growth_sim_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count && !report.has_failed; i++)
        growth_sim_run(seeds.first + i, seeds.is_verbose, &report);
    if (report.has_failed) return printf("%s\n", report.message), 1;
    printf("%llu schedules from seed %llu held: %u events, %u messages; have the new team %u, "
           "refused %u, left out %u, undecided %u;\n"
           "rounds once more %u, meetings given up %u, crashed %u, cuts %u, replaced %u\n",
           (unsigned long long)seeds.count, (unsigned long long)seeds.first, report.events,
           report.messages, report.made, report.refused, report.left_out, report.undecided,
           report.again, report.failed_meetings, report.crashed, report.partitioned,
           report.replaced);
    return 0;
}
