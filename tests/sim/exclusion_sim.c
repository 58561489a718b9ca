#include "tests/sim/exclusion_sim.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/agreement.h"
#include "membership/rank_set.h"
#include "membership/standing.h"
#include "membership/vote.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_story.h"

#define MILLISECOND UINT64_C(1000000)
#define CALM_NS (200 * MILLISECOND)
#define DEADLINE_NS (1500 * MILLISECOND) /* of an agreement */
#define CUT_OFF_NS (300 * MILLISECOND)   /* without a quorum to hope for */
#define LOOK_NS (5 * MILLISECOND)
#define MEETING_NS (200 * MILLISECOND)

enum {
    RANKS_MAX = 7,
    MEETINGS_MAX = 128,
    NUMBERS_MAX = 64,
    WISHES = 3,
    ROUNDS_MAX = 8,
    EVENTS_MAX = 400000
};

enum event_kind { BEGIN = SIM_MESSAGE + 1, TICK, PASS, LEFT, TOLD, CRASH, ARM, CUT, HEAL, CALM };

/* How one rank sees another one, as health/recover_state.h has it. */
struct other {
    bool is_dead, has_left, has_opposed, is_outsider, is_given_up, is_mistaken;
    uint64_t left_at, joined, opposed, vote;
    bool is_suspected; /* by the current agreement */
};

enum step { IDLE, WHO, MEETING, MET, ENDED };

/* Of ranks that decided the same. */
struct meeting {
    uint64_t epoch, set, arrived;
};

struct rank {
    struct world *world;
    int self;
    enum step step;
    int wish_count, wish; /* the present one */
    uint64_t wishes[WISHES];
    int rounds;
    struct agreement *agreements[NUMBERS_MAX];
    uint64_t epochs[NUMBERS_MAX]; /* of these */
    uint64_t wanted[NUMBERS_MAX]; /* its wish there */
    bool denies[NUMBERS_MAX];     /* it gave up because no list can have a majority there */
    struct vote_history votes;
    uint64_t asked_ns;
    struct standing_self past;
    bool is_accused, is_put_out; /* told so */
    uint64_t begin_ns, quorum_ns, tick_ns;
    uint64_t set; /* of this round */
    int meeting;
    uint64_t team; /* 0: none */
    uint64_t team_epoch;
    struct other others[RANKS_MAX];
};

struct world {
    struct sim *sim;
    struct sim_story story;
    struct exclusion_sim_report *report;
    int size, host_count, host_of[RANKS_MAX];
    bool is_fair;    /* no crashes, cuts, mistakes */
    uint64_t common; /* the wish that all but these ranks have; 0: none */
    struct rank ranks[RANKS_MAX];
    int meeting_count;
    struct meeting meetings[MEETINGS_MAX];
};

static uint64_t bit(int rank)
{
    return UINT64_C(1) << rank;
}

/* ----------------------------------------------------------------------------------------- judge */

static bool is_majority(const struct world *w, uint64_t set)
{
    const int count = __builtin_popcountll(set);
    return 2 * count > w->size || (2 * count == w->size && (set & 1));
}

static void judge_team(struct world *w, const struct rank *rank)
{
    const uint64_t excluded = rank->wishes[rank->wish], number = rank->past.number;
    bool has_living = false;
    for (int r = 0; r < w->size; r++) {
        const struct rank *const other = &w->ranks[r];
        if (!sim_is_up(w->sim, r)) continue;
        has_living |= (excluded & bit(r)) != 0 && other->step != ENDED;
        if (other->team != 0 && (other->team != rank->team || other->team_epoch != rank->team_epoch))
            story_fail(&w->story, "rank %d has the team %llx, rank %d has %llx", rank->self,
                       (unsigned long long)rank->team, r, (unsigned long long)other->team);
        if ((rank->team & bit(r)) && other->team == 0 && other->step != ENDED &&
            (other->epochs[number] == 0 || other->wanted[number] != excluded))
            story_fail(&w->story, "rank %d has a team with rank %d, which wants another one",
                       rank->self, r);
    }
    if ((rank->team & excluded) != 0)
        story_fail(&w->story, "rank %d has a team with a rank that it puts out", rank->self);
    if (has_living && !is_majority(w, rank->team))
        story_fail(&w->story, "rank %d has the team %llx of %d, which is no majority", rank->self,
                   (unsigned long long)rank->team, w->size);
}

/* A rank says that nobody is put out at that number, and another one has decided otherwise there. Once the
 * first one has left the team, or is dead, the other may. */
static void judge_denial(struct world *w, const struct rank *rank, const struct rank *other,
                         uint64_t number)
{
    if (!rank->denies[number] || rank->step == ENDED || !sim_is_up(w->sim, rank->self)) return;
    if (standing_about(other->epochs[number]) != 0 && other->epochs[number] != rank->epochs[number] &&
        agreement_state(other->agreements[number]) == AGREEMENT_DECIDED)
        story_fail(&w->story, "rank %d says that nobody is put out at %llu, and rank %d has",
                   rank->self, (unsigned long long)number, other->self);
}

/* A rank fails as one that is put out, without having been told so. Ranks that have not come to this number
 * may still be for any list. */
static void judge_fear(struct world *w, const struct rank *rank)
{
    const uint64_t number = rank->past.number, own = rank->epochs[number];
    uint64_t unknown = 0;
    bool may_win = !w->is_fair;
    for (int r = 0; r < w->size; r++) {
        unknown |= w->ranks[r].epochs[number] == 0 ? bit(r) : 0;
        if (w->ranks[r].past.number >= number + VOTE_HISTORY) return; /* it says it no more */
    }
    for (int r = 0; r < w->size; r++) {
        const uint64_t epoch = w->ranks[r].epochs[number];
        uint64_t same = unknown;
        for (int other = 0; other < w->size; other++)
            if (w->ranks[other].epochs[number] == epoch) same |= bit(other);
        const bool counts = epoch != own && (epoch == 0 || standing_about(epoch) != 0);
        may_win |= counts && is_majority(w, same);
    }
    if (!may_win)
        story_fail(&w->story, "rank %d takes itself for put out at %llu, where no list can win",
                   rank->self, (unsigned long long)number);
}

static void judge_end(struct world *w)
{
    uint64_t made = 0;
    for (int r = 0; r < w->size; r++) {
        if (!sim_is_up(w->sim, r)) continue;
        if (w->ranks[r].step != ENDED) story_fail(&w->story, "rank %d waits for ever", r);
        if (w->ranks[r].team != 0) made |= bit(r);
    }
    const uint64_t wanted = w->common != 0 ? rank_set_mask(w->size, 0) & ~w->common : 0;
    if (w->is_fair && wanted != 0 && is_majority(w, wanted) && made != wanted)
        story_fail(&w->story, "ranks %llx wanted to put out %llx, and %llx have a team",
                   (unsigned long long)wanted, (unsigned long long)w->common,
                   (unsigned long long)made);
}

/* ------------------------------------------------------------------------------------- agreements */

static void send_message(void *context, int to, const void *bytes, size_t byte_count)
{
    const struct rank *const rank = context;
    rank->world->report->messages++;
    sim_send(rank->world->sim, rank->self, to, 0, bytes, byte_count);
}

static struct agreement *current(const struct rank *rank)
{
    return rank->agreements[rank->past.number];
}

static void plan_tick(struct rank *rank)
{
    struct world *const w = rank->world;
    const uint64_t due_ns = agreement_due_ns(current(rank));
    if (due_ns == UINT64_MAX || due_ns >= rank->tick_ns) return;
    rank->tick_ns = due_ns;
    sim_at(w->sim, due_ns, TICK, rank->self, 0, 0);
}

static bool has_moved_on(const struct rank *rank, const struct other *other)
{
    struct standing_self past = rank->past;
    past.is_accused = rank->is_accused;
    return standing_has_moved_on(&past, other->left_at - 1, other->has_opposed);
}

/* The standing of a rank, as the current agreement has to know it. */
static void inform(struct rank *rank, int r)
{
    struct other *const other = &rank->others[r];
    const bool is_opposed = other->opposed == rank->past.number;
    other->has_opposed |= is_opposed;
    if (other->is_dead || (other->has_left && !has_moved_on(rank, other)))
        agreement_declare_dead(current(rank), r);
    else if (other->has_left || is_opposed || other->is_outsider || other->is_given_up ||
             other->is_mistaken)
        agreement_suspect(current(rank), r);
    else
        agreement_unsuspect(current(rank), r);
}

static void begin_agreement(struct rank *rank, uint64_t word, const uint64_t *among)
{
    struct world *const w = rank->world;
    const uint64_t wish = rank->wishes[rank->wish];
    const uint64_t number = ++rank->past.number;
    assert(number < NUMBERS_MAX);
    rank->epochs[number] =
        standing_epoch(number, wish != 0 ? standing_about_set(&wish, w->size) : 0);
    const struct agreement_options options = {.size = w->size,
                                              .rank = rank->self,
                                              .epoch = rank->epochs[number],
                                              .word = word,
                                              .retry_ns_min = 2 * MILLISECOND,
                                              .retry_ns_max = 16 * MILLISECOND,
                                              .send = send_message,
                                              .context = rank};
    if (agreement_create(&options, &rank->agreements[number]) != TUTTI_OK) abort();
    rank->wanted[number] = wish;
    vote_note_own(&rank->votes, options.epoch);
    rank->asked_ns = 0;
    for (int r = 0; r < w->size; r++) {
        if (r == rank->self) continue;
        rank->others[r].is_outsider = (wish & bit(r)) != 0;
        rank->others[r].is_given_up = among != NULL && !(*among & bit(r));
        inform(rank, r);
    }
    rank->begin_ns = rank->quorum_ns = sim_now_ns(w->sim);
    rank->tick_ns = UINT64_MAX;
    plan_tick(rank);
    sim_at(w->sim, rank->begin_ns + LOOK_NS, PASS, rank->self, (int)number, 0);
}

static void begin_wish(struct rank *rank)
{
    struct world *const w = rank->world;
    const uint64_t wish = rank->wishes[rank->wish];
    story_tell(&w->story, "rank %d begins %llu, without %llx", rank->self,
               (unsigned long long)rank->past.number + 1, (unsigned long long)wish);
    rank->step = WHO;
    rank->rounds = 0;
    for (int r = 0; r < w->size; r++) /* over connections: these come for certain, unless cut off */
        if (wish & bit(r))
            sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 0, 2 * MILLISECOND), TOLD, r,
                   rank->self, 0);
    begin_agreement(rank, UINT64_MAX, NULL);
}

/* ------------------------------------------------------------------------------------- ends */

static void leave(struct rank *rank)
{
    struct world *const w = rank->world;
    rank->step = ENDED;
    for (int r = 0; r < w->size; r++)
        if (r != rank->self)
            sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 0, 20 * MILLISECOND), LEFT, r,
                   rank->self, 0);
    if (rank->past.number > 0) agreement_spread(current(rank));
}

static uint64_t left_at(const struct rank *rank)
{
    const bool is_decided =
        rank->past.number > 0 && agreement_state(current(rank)) == AGREEMENT_DECIDED;
    return rank->past.number + (is_decided || rank->past.number == 0 ? 1 : 0);
}

static void say_vote(struct rank *rank, int to, bool is_question, uint64_t epoch)
{
    unsigned char bytes[VOTE_BYTES];
    vote_write(&(struct vote_message){is_question, epoch}, bytes);
    send_message(rank, to, bytes, sizeof bytes);
}

static void fail(struct rank *rank, const char *why)
{
    for (int r = 0; r < rank->world->size; r++)
        if (r != rank->self) say_vote(rank, r, false, rank->epochs[rank->past.number]);
    story_tell(&rank->world->story, "rank %d fails at %llu: %s", rank->self,
               (unsigned long long)rank->past.number, why);
    if (rank->is_put_out || ++rank->wish == rank->wish_count) {
        rank->wish -= rank->wish == rank->wish_count;
        leave(rank);
    } else {
        begin_wish(rank);
    }
}

static void succeed(struct rank *rank)
{
    struct world *const w = rank->world;
    rank->team = rank->set;
    rank->team_epoch = rank->epochs[rank->past.number];
    w->report->made++;
    story_tell(&w->story, "rank %d has the team %llx", rank->self, (unsigned long long)rank->team);
    judge_team(w, rank);
    for (int r = 0; r < w->size; r++)
        if (rank->wishes[rank->wish] != 0 && !(rank->team & bit(r)))
            sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 0, 2 * MILLISECOND), TOLD, r,
                   rank->self, 1);
    leave(rank);
}

static void arrive(struct rank *rank)
{
    struct world *const w = rank->world;
    const uint64_t epoch = rank->epochs[rank->past.number];
    int i = 0;
    while (i < w->meeting_count && (w->meetings[i].epoch != epoch || w->meetings[i].set != rank->set))
        i++;
    assert(i < MEETINGS_MAX);
    if (i == w->meeting_count)
        w->meetings[w->meeting_count++] = (struct meeting){epoch, rank->set, 0};
    w->meetings[i].arrived |= bit(rank->self);
    rank->meeting = i;
    rank->step = MEETING;
    rank->begin_ns = sim_now_ns(w->sim);
}

static void review(struct rank *rank)
{
    struct agreement *const agreement = current(rank);
    if (rank->step != WHO && rank->step != MET) return;
    if (agreement_state(agreement) == AGREEMENT_RUNNING) {
        plan_tick(rank);
        return;
    }
    const bool is_decided = agreement_state(agreement) == AGREEMENT_DECIDED;
    const uint64_t set = is_decided ? *agreement_set(agreement) : 0;
    story_tell(&rank->world->story, "rank %d, step %d of %llu: set %llx", rank->self,
               (int)rank->step, (unsigned long long)rank->past.number, (unsigned long long)set);
    standing_note_end(&rank->past, (set & bit(rank->self)) != 0);
    for (int r = 0; r < rank->world->size; r++)
        judge_denial(rank->world, &rank->world->ranks[r], rank, rank->past.number);
    if (!is_decided) {
        fail(rank, rank->is_put_out ? "it is put out" : "no decision");
    } else if (rank->step == WHO && !(set & bit(rank->self))) {
        rank->world->report->left_out++;
        fail(rank, "the others go on without it");
    } else if (rank->step == WHO) {
        rank->set = set;
        arrive(rank);
    } else if ((rank->set & ~set) == 0 && agreement_word(agreement) == UINT64_MAX) {
        succeed(rank);
    } else if (++rank->rounds == ROUNDS_MAX) {
        fail(rank, "too many rounds");
    } else {
        rank->step = WHO;
        begin_agreement(rank, UINT64_MAX, NULL);
    }
}

/* The meeting is over for this rank when all have come, or when somebody cannot come any more. */
static void look_at_meeting(struct rank *rank)
{
    struct world *const w = rank->world;
    const struct meeting *const meeting = &w->meetings[rank->meeting];
    bool is_lost = sim_now_ns(w->sim) > rank->begin_ns + MEETING_NS;
    for (int r = 0; r < w->size; r++)
        if ((rank->set & bit(r)) && !(meeting->arrived & bit(r)))
            is_lost |=
                rank->others[r].is_dead || rank->others[r].has_left || rank->others[r].is_mistaken;
    if (meeting->arrived != rank->set && !is_lost) return;
    rank->step = MET;
    begin_agreement(rank, meeting->arrived == rank->set ? UINT64_MAX : 0, &rank->set);
}

/* --------------------------------------------------------------------------------------- hearing */

static void note_agreement(struct rank *rank, int from, uint64_t epoch)
{
    struct other *const other = &rank->others[from];
    const uint64_t number = standing_number(epoch), own = rank->past.number;
    other->vote = vote_keep(other->vote, epoch, own);
    if (own == 0) return;
    if (number >= own && standing_about(epoch) != standing_about(rank->epochs[own]) &&
        other->joined != own)
        other->opposed = own;
    if (epoch == rank->epochs[own]) other->joined = own;
}

static void hear_vote(struct rank *rank, int from, const struct vote_message *message)
{
    const uint64_t own = vote_own_at(&rank->votes, standing_number(message->epoch));
    note_agreement(rank, from, message->epoch);
    if (message->is_question && own != 0) say_vote(rank, from, false, own);
}

static void hear(struct rank *rank, int from, const void *bytes, size_t byte_count)
{
    struct other *const other = &rank->others[from];
    uint64_t epoch;
    struct vote_message vote;
    if (vote_read(bytes, byte_count, &vote)) hear_vote(rank, from, &vote);
    if (!agreement_message_epoch(bytes, byte_count, &epoch)) return;
    note_agreement(rank, from, epoch);
    const uint64_t number = standing_number(epoch);
    if (number == 0 || number > rank->past.number || number + 1 < rank->past.number) return;
    if (epoch != rank->epochs[number] || other->is_outsider) return;
    agreement_hear(rank->agreements[number], from, bytes, byte_count, sim_now_ns(rank->world->sim));
    if (number == rank->past.number) review(rank);
}

static bool is_outvoted(const struct rank *rank)
{
    int count = 0, first = -1;
    bool is_opposed = false;
    for (int r = 0; r < rank->world->size; r++) {
        const struct other *const other = &rank->others[r];
        const bool opposes = r != rank->self && other->opposed == rank->past.number;
        is_opposed |= opposes && !other->is_outsider;
        if (opposes || (r != rank->self && other->is_outsider)) continue;
        if (count++ == 0) first = r;
    }
    return is_opposed && !standing_is_majority(count, first == 0, rank->world->size);
}

static uint64_t vote_of_rank(const void *context, int r)
{
    const struct rank *const rank = context;
    const struct other *const other = &rank->others[r];
    const uint64_t own = rank->past.number;
    if (r == rank->self) return standing_about(rank->epochs[own]);
    if (standing_number(other->vote) == own) return standing_about(other->vote);
    return other->has_left && other->left_at < own ? VOTE_NONE : VOTE_UNKNOWN;
}

static bool may_be_put_out(const struct rank *rank)
{
    return rank->is_accused &&
           vote_may_exclude(rank->world->size, standing_about(rank->epochs[rank->past.number]),
                            vote_of_rank, rank);
}

static void ask_votes(struct rank *rank)
{
    const uint64_t now_ns = sim_now_ns(rank->world->sim);
    if (now_ns < rank->asked_ns + 2 * LOOK_NS) return;
    rank->asked_ns = now_ns;
    for (int r = 0; r < rank->world->size; r++)
        if (vote_of_rank(rank, r) == VOTE_UNKNOWN)
            say_vote(rank, r, true, rank->epochs[rank->past.number]);
}

static void look(struct rank *rank, int r)
{
    struct world *const w = rank->world;
    struct other *const other = &rank->others[r];
    const bool is_near = w->host_of[rank->self] == w->host_of[r];
    if (!sim_is_up(w->sim, r) && is_near) other->is_dead = true;
    if (sim_now_ns(w->sim) > CALM_NS || !is_near)
        other->is_mistaken = !sim_is_up(w->sim, r) || sim_is_cut(w->sim, rank->self, r);
    inform(rank, r);
}

/* As health/agree.c's loop. */
static void pass(struct rank *rank, uint64_t number)
{
    struct world *const w = rank->world;
    const uint64_t now_ns = sim_now_ns(w->sim);
    if (rank->past.number != number || rank->step == ENDED || rank->step == IDLE) return;
    for (int r = 0; r < w->size; r++)
        if (r != rank->self) look(rank, r);
    if (rank->step == MEETING) {
        sim_at(w->sim, now_ns + LOOK_NS, PASS, rank->self, (int)number, 0);
        look_at_meeting(rank);
        return;
    }
    agreement_tick(current(rank), now_ns);
    if (agreement_may_decide(current(rank))) rank->quorum_ns = now_ns;
    const bool is_over = agreement_state(current(rank)) != AGREEMENT_RUNNING;
    const bool is_late =
        now_ns > rank->begin_ns + DEADLINE_NS || now_ns > rank->quorum_ns + CUT_OFF_NS;
    const bool is_lost = !is_over && is_outvoted(rank), is_afraid = is_lost && may_be_put_out(rank);
    w->report->outvoted += is_lost && !is_afraid;
    w->report->given_up += !is_over && is_late;
    if (is_afraid && !rank->is_put_out) {
        if (is_late) judge_fear(w, rank);
        w->report->afraid++;
        ask_votes(rank);
    }
    rank->denies[number] |= is_lost && rank->is_accused && !is_afraid;
    for (int r = 0; r < w->size; r++) judge_denial(w, rank, &w->ranks[r], number);
    if (!is_over && (is_late || rank->is_put_out || (is_lost && !is_afraid)))
        agreement_give_up(current(rank));
    sim_at(w->sim, now_ns + LOOK_NS, PASS, rank->self, (int)number, 0);
    review(rank);
}

/* Whatever goes over a connection comes when the cut is over. */
static bool must_wait(struct world *w, const struct sim_event *event)
{
    if (!sim_is_cut(w->sim, event->node, event->number)) return false;
    if (sim_now_ns(w->sim) < 4 * DEADLINE_NS)
        sim_at(w->sim, sim_now_ns(w->sim) + 20 * MILLISECOND, event->kind, event->node,
               event->number, event->tag);
    return true;
}

static void hear_left(struct rank *rank, int gone)
{
    struct other *const other = &rank->others[gone];
    const struct rank *const leaver = &rank->world->ranks[gone];
    other->has_left = true;
    other->left_at = left_at(leaver);
    if (rank->step != WHO && rank->step != MET) return;
    inform(rank, gone);
    review(rank);
}

static void be_told(struct rank *rank, bool is_decided)
{
    if (rank->team != 0 || rank->step == ENDED) return;
    rank->is_accused = true;
    if (!is_decided || rank->is_put_out) return;
    rank->is_put_out = true;
    rank->world->report->put_out++;
    if (rank->step == IDLE) leave(rank);
}

/* --------------------------------------------------------------------------------------- set up */

static uint64_t some_wish(struct world *w, int self)
{
    uint64_t wish = 0;
    if (sim_chance(w->sim, 250)) return 0;
    for (int tries = 0; tries < 8; tries++) {
        wish = bit((int)sim_below(w->sim, (unsigned)w->size));
        if (sim_chance(w->sim, 200)) wish |= bit((int)sim_below(w->sim, (unsigned)w->size));
        const uint64_t left = rank_set_mask(w->size, 0) & ~wish;
        if (!(wish & bit(self)) && is_majority(w, left)) return wish;
    }
    return 0;
}

static void make_wishes(struct world *w)
{
    const int sick = (int)sim_below(w->sim, (unsigned)w->size);
    const bool has_common =
        sim_chance(w->sim, 600) && is_majority(w, rank_set_mask(w->size, 0) & ~bit(sick));
    const bool all_agree = sim_chance(w->sim, 600);
    if (has_common && all_agree) w->common = bit(sick);
    for (int r = 0; r < w->size; r++) {
        struct rank *const rank = &w->ranks[r];
        rank->wish_count = 1 + (int)sim_below(w->sim, WISHES);
        for (int i = 0; i < rank->wish_count; i++) rank->wishes[i] = some_wish(w, r);
        const bool shares = has_common && r != sick && (all_agree || sim_chance(w->sim, 700));
        if (shares) rank->wishes[0] = bit(sick);
    }
}

static uint64_t some_time(struct world *w)
{
    return sim_chance(w->sim, 700) ? sim_between(w->sim, 0, 30 * MILLISECOND)
                                   : sim_between(w->sim, 0, CALM_NS);
}

static void plan_faults(struct world *w)
{
    w->is_fair = sim_chance(w->sim, 300);
    if (w->is_fair) return;
    for (unsigned i = 0; i < sim_below(w->sim, 3); i++) {
        const bool is_within = sim_chance(w->sim, 500);
        sim_at(w->sim, is_within ? 0 : some_time(w), is_within ? ARM : CRASH,
               (int)sim_below(w->sim, (unsigned)w->size), (int)sim_below(w->sim, 40), 0);
    }
    for (unsigned i = 0; i < sim_below(w->sim, 3); i++) {
        const int self = (int)sim_below(w->sim, (unsigned)w->size);
        w->ranks[self].others[sim_below(w->sim, (unsigned)w->size)].is_mistaken = true;
    }
    if (w->host_count > 1 && sim_chance(w->sim, 400)) {
        const int sides = 1 + (int)sim_below(w->sim, (1u << w->host_count) - 2);
        const uint64_t from_ns = some_time(w);
        sim_at(w->sim, from_ns, CUT, SIM_NOBODY, sides, 0);
        if (sim_chance(w->sim, 700))
            sim_at(w->sim, from_ns + sim_between(w->sim, 0, 2 * CALM_NS), HEAL, SIM_NOBODY, sides,
                   0);
    }
}

static void set_up(struct world *w)
{
    static const unsigned lost_permille[] = {0, 0, 10, 100, 300};
    const struct sim_weather weather = {.lost_permille = lost_permille[sim_below(w->sim, 5)],
                                        .doubled_permille = sim_chance(w->sim, 300) ? 100 : 0,
                                        .late_permille = sim_chance(w->sim, 500) ? 100 : 0,
                                        .delay_ns_min = 20000,
                                        .delay_ns_max =
                                            sim_chance(w->sim, 500) ? 60000 : 2 * MILLISECOND,
                                        .late_ns_max = 20 * MILLISECOND};
    w->size = 2 + (int)sim_below(w->sim, RANKS_MAX - 1);
    w->host_count = 1 + (int)sim_below(w->sim, 4);
    sim_set_weather(w->sim, &weather);
    const bool is_at_once = sim_chance(w->sim, 500);
    for (int r = 0; r < w->size; r++) {
        w->ranks[r].world = w;
        w->ranks[r].self = r;
        w->host_of[r] = (int)sim_below(w->sim, (unsigned)w->host_count);
        sim_at(w->sim, sim_between(w->sim, 0, (is_at_once ? 1 : 100) * MILLISECOND), BEGIN, r, 0, 0);
    }
    make_wishes(w);
    plan_faults(w);
    sim_at(w->sim, CALM_NS, CALM, SIM_NOBODY, 0, 0);
}

static void change_cut(struct world *w, int sides, bool is_cut)
{
    story_tell(&w->story, "hosts %x are %s the others", (unsigned)sides,
               is_cut ? "cut off from" : "joined to");
    w->report->partitioned += is_cut;
    for (int one = 0; one < w->size; one++)
        for (int other = 0; other < one; other++)
            if (((sides >> w->host_of[one]) & 1) != ((sides >> w->host_of[other]) & 1))
                sim_cut(w->sim, one, other, is_cut);
}

static void calm_down(struct world *w)
{
    const struct sim_weather weather = {.delay_ns_min = 20000, .delay_ns_max = 200000};
    sim_set_weather(w->sim, &weather);
    for (int r = 0; r < w->size; r++)
        if (sim_is_up(w->sim, r)) sim_crash_after(w->sim, r, UINT_MAX);
    story_tell(&w->story, "calm");
}

static void happen(struct world *w, const struct sim_event *event)
{
    const int node = event->node;
    struct rank *const rank = node == SIM_NOBODY ? NULL : &w->ranks[node];
    switch (event->kind) {
    case SIM_MESSAGE: hear(rank, event->number, event->bytes, event->byte_count); break;
    case BEGIN:
        if (rank->step == IDLE) begin_wish(rank);
        break;
    case TICK:
        rank->tick_ns = UINT64_MAX;
        if (rank->step != WHO && rank->step != MET) break;
        agreement_tick(current(rank), sim_now_ns(w->sim));
        review(rank);
        break;
    case PASS: pass(rank, (uint64_t)event->number); break;
    case LEFT:
        if (!must_wait(w, event)) hear_left(rank, event->number);
        break;
    case TOLD:
        if (!must_wait(w, event)) be_told(rank, event->tag == 1);
        break;
    case CRASH:
        story_tell(&w->story, "rank %d crashes", node);
        w->report->crashed++;
        sim_crash(w->sim, node);
        break;
    case ARM: sim_crash_after(w->sim, node, (unsigned)event->number); break;
    case CUT:
    case HEAL: change_cut(w, event->number, event->kind == CUT); break;
    case CALM: calm_down(w); break;
    default: abort();
    }
}

void exclusion_sim_run(uint64_t seed, bool is_verbose, struct exclusion_sim_report *report)
{
    struct sim_event event;
    unsigned count = 0;
    struct world *const w = calloc(1, sizeof *w);
    assert(w != NULL);
    w->sim = sim_create(seed);
    w->report = report;
    w->story = (struct sim_story){.sim = w->sim, .seed = seed, .is_verbose = is_verbose};
    set_up(w);
    while (!w->story.has_failed && sim_next(w->sim, &event)) {
        happen(w, &event);
        if (++count == EVENTS_MAX) story_fail(&w->story, "it never ends");
    }
    if (!w->story.has_failed) judge_end(w);
    report->events += count;
    report->has_failed = w->story.has_failed;
    memcpy(report->message, w->story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w->sim);
    for (int r = 0; r < RANKS_MAX; r++)
        for (int i = 0; i < NUMBERS_MAX; i++) agreement_free(w->ranks[r].agreements[i]);
    sim_free(w->sim);
    free(w);
}

int exclusion_sim_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    struct exclusion_sim_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count && !report.has_failed; i++)
        exclusion_sim_run(seeds.first + i, seeds.is_verbose, &report);
    if (report.has_failed) return printf("%s\n", report.message), 1;
    printf(
        "%llu schedules from seed %llu held: %u events, %u messages; have a team %u, put out %u, "
        "left out %u, outvoted %u, afraid %u, gave up %u, crashed %u, cuts %u\n",
        (unsigned long long)seeds.count, (unsigned long long)seeds.first, report.events,
        report.messages, report.made, report.put_out, report.left_out, report.outvoted,
        report.afraid, report.given_up, report.crashed, report.partitioned);
    return 0;
}
