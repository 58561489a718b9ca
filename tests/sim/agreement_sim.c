#include "tests/sim/agreement_sim.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership/agreement.h"
#include "membership/rank_set.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_seeds.h"
#include "tests/sim/sim_story.h"

#define MILLISECOND UINT64_C(1000000)
#define CALM_NS (300 * MILLISECOND)
#define DEADLINE_NS (2000 * MILLISECOND)
/* After the last change within a part of the net, until all of a quorum there have decided. */
#define BOUND_NS (1000 * MILLISECOND)

enum { ROUNDS_MAX = 4, MEETINGS_MAX = 16, EVENTS_MAX = 300000 };

enum event_kind {
    CALL = SIM_MESSAGE + 1, /* node calls for the meeting `number` */
    TICK,                   /* the meeting `number` of a node is due */
    DEADLINE,               /* of that meeting */
    CRASH,
    ARM, /* node is to crash after `number` messages */
    STALL,
    CUT,     /* hosts by the bits of `number`: those with a 0 from those with a 1 */
    HEAL,    /* that cut */
    LOOK,    /* node looks whether `number` is there */
    MISTAKE, /* node suspects `number` without reason */
    RUMOUR,  /* node is told that `number` is dead, if somebody who knows can tell */
    CALM
};

/* One agreement: among these nodes, by their ranks in it. */
struct meeting {
    uint64_t epoch;
    int round, size;
    uint64_t voters; /* by their ranks */
    int node_of[SIM_NODES_MAX], rank_of[SIM_NODES_MAX];
    uint64_t last_call_ns;
};

/* A node's part in a meeting. */
struct seat {
    struct world *world;
    int node, meeting;
    struct agreement *agreement; /* NULL: has not called */
    uint64_t word;
    enum agreement_state state;
    uint64_t decided_set, decided_word;
    uint64_t tick_ns; /* scheduled; UINT64_MAX: none */
};

struct world {
    struct sim *sim;
    struct sim_story story;
    struct agreement_sim_report *report;
    int node_count, host_count;
    int absent; /* a node that lives and never calls; SIM_NOBODY */
    int host_of[SIM_NODES_MAX];
    unsigned rumour_permille;
    int meeting_count;
    struct meeting meetings[MEETINGS_MAX];
    struct seat seats[SIM_NODES_MAX][MEETINGS_MAX];
    bool is_mourned[SIM_NODES_MAX]; /* its crash was dealt with */
    bool is_doubted[SIM_NODES_MAX]; /* somebody once had or may have had a reason to leave it out */
    bool suspects[SIM_NODES_MAX][SIM_NODES_MAX], buries[SIM_NODES_MAX][SIM_NODES_MAX];
    uint64_t last_change_ns;
};

/* ------------------------------------------------------------------------------------ saying so */

static const char *message_name(const unsigned char *bytes)
{
    static const char *const names[] = {"?",      "PREPARE", "PROMISE", "ACCEPT", "ACCEPTED",
                                        "REFUSE", "DECIDE",  "ASK",     "DEAD"};
    return bytes[2] < sizeof names / sizeof *names ? names[bytes[2]] : "?";
}

static uint64_t number_at(const unsigned char *bytes)
{
    uint64_t number = 0;
    for (int i = 7; i >= 0; i--) number = number << 8 | bytes[i];
    return number;
}

static void tell_message(const struct world *w, const struct sim_event *event)
{
    const unsigned char *const bytes = event->bytes;
    const uint64_t ballot = number_at(bytes + 16), other = number_at(bytes + 24);
    story_tell(&w->story,
               "%d -> %d  meeting %d  %-8s ballot %s%llu of %llu, other %s%llu of %llu  set %llx",
               event->number, event->node, event->tag, message_name(bytes),
               ballot >> 63 ? "by all " : "", (unsigned long long)(ballot << 1 >> 17),
               (unsigned long long)(ballot & 0xffff), other >> 63 ? "by all " : "",
               (unsigned long long)(other << 1 >> 17), (unsigned long long)(other & 0xffff),
               event->byte_count > AGREEMENT_HEAD_BYTES
                   ? (unsigned long long)number_at(bytes + AGREEMENT_HEAD_BYTES)
                   : 0ULL);
}

/* -------------------------------------------------------------------------------------- judging */

static bool is_majority_of(const struct meeting *meeting, uint64_t set)
{
    const int count = __builtin_popcountll(set & meeting->voters);
    const int all = __builtin_popcountll(meeting->voters);
    const uint64_t lowest = meeting->voters & -meeting->voters;
    return 2 * count > all || (2 * count == all && (set & lowest));
}

/* Ranks of the meeting whose nodes are up. */
static uint64_t living(const struct world *w, const struct meeting *meeting)
{
    uint64_t set = 0;
    for (int rank = 0; rank < meeting->size; rank++)
        if (sim_is_up(w->sim, meeting->node_of[rank])) rank_set_add(&set, rank);
    return set;
}

static void judge_against_others(struct world *w, const struct seat *seat)
{
    const struct meeting *meeting = &w->meetings[seat->meeting];
    bool is_taken = false;
    for (int rank = 0; rank < meeting->size; rank++) {
        const int node = meeting->node_of[rank];
        const struct seat *other = &w->seats[node][seat->meeting];
        if (other->state != AGREEMENT_DECIDED) continue;
        if (other->decided_set == seat->decided_set && other->decided_word == seat->decided_word)
            continue;
        if (sim_is_up(w->sim, node) || is_majority_of(meeting, living(w, meeting)))
            story_fail(&w->story, "meeting %d: node %d decided %llx, node %d %llx", seat->meeting,
                       seat->node, (unsigned long long)seat->decided_set, node,
                       (unsigned long long)other->decided_set);
        is_taken = true;
    }
    w->report->taken += is_taken;
    w->report->by_all += !is_majority_of(meeting, living(w, meeting));
}

static void judge_decision(struct world *w, const struct seat *seat)
{
    const struct meeting *meeting = &w->meetings[seat->meeting];
    uint64_t word = UINT64_MAX;
    for (int rank = 0; rank < meeting->size; rank++) {
        const int node = meeting->node_of[rank];
        const bool is_in = rank_set_has(&seat->decided_set, rank);
        if (is_in && w->seats[node][seat->meeting].agreement == NULL)
            story_fail(&w->story, "meeting %d: node %d is in and has not called", seat->meeting,
                       node);
        if (is_in) word &= w->seats[node][seat->meeting].word;
        if (!is_in && !w->is_doubted[node])
            story_fail(&w->story, "meeting %d: node %d is not in, without reason", seat->meeting,
                       node);
    }
    if (seat->decided_set == 0) story_fail(&w->story, "meeting %d: nobody is in", seat->meeting);
    if (word != seat->decided_word)
        story_fail(&w->story, "meeting %d: node %d has a word that is not the AND of those of %llx",
                   seat->meeting, seat->node, (unsigned long long)seat->decided_set);
    judge_against_others(w, seat);
}

/* Ranks that the node can reach, itself included. */
static uint64_t reached_by(const struct world *w, const struct seat *seat)
{
    const struct meeting *meeting = &w->meetings[seat->meeting];
    uint64_t reached = 0;
    for (int rank = 0; rank < meeting->size; rank++) {
        const int node = meeting->node_of[rank];
        if (sim_is_up(w->sim, node) && !sim_is_cut(w->sim, seat->node, node))
            rank_set_add(&reached, rank);
    }
    return reached;
}

/* Whether they could have decided; that one of them knows of the dead is enough, it tells who
 * leads. */
static bool reaches_quorum(const struct world *w, const struct seat *seat)
{
    const struct meeting *meeting = &w->meetings[seat->meeting];
    const uint64_t reached = reached_by(w, seat);
    uint64_t gone = 0;
    for (int rank = 0; rank < meeting->size; rank++)
        for (int other = 0; other < meeting->size; other++)
            if (rank_set_has(&reached, rank) &&
                w->buries[meeting->node_of[rank]][meeting->node_of[other]])
                rank_set_add(&gone, other);
    return is_majority_of(meeting, reached) || (reached | gone) == rank_set_mask(meeting->size, 0);
}

/* Somebody is there and has not called, and nobody has a reason to go on without it. */
static bool awaits_somebody(const struct world *w, const struct seat *seat)
{
    const struct meeting *meeting = &w->meetings[seat->meeting];
    const uint64_t reached = reached_by(w, seat);
    for (int rank = 0; rank < meeting->size; rank++)
        if (rank_set_has(&reached, rank) &&
            w->seats[meeting->node_of[rank]][seat->meeting].agreement == NULL)
            return true;
    return false;
}

static void judge_giving_up(struct world *w, const struct seat *seat)
{
    const bool is_excused = w->absent != SIM_NOBODY && awaits_somebody(w, seat);
    const bool has_majority = is_majority_of(&w->meetings[seat->meeting], reached_by(w, seat));
    if (sim_now_ns(w->sim) < w->last_change_ns + BOUND_NS) return;
    if (reaches_quorum(w, seat) && !is_excused)
        story_fail(&w->story, "meeting %d: node %d reaches a quorum and did not decide",
                   seat->meeting, seat->node);
    if (!reaches_quorum(w, seat) && seat->state != AGREEMENT_MINORITY)
        story_fail(&w->story, "meeting %d: node %d is cut off and does not know", seat->meeting,
                   seat->node);
    if (has_majority && seat->state != AGREEMENT_LATE)
        story_fail(&w->story, "meeting %d: node %d takes one that is late for gone", seat->meeting,
                   seat->node);
}

static void judge_end(struct world *w)
{
    for (int node = 0; node < w->node_count; node++)
        for (int i = 0; i < w->meeting_count; i++) {
            const struct seat *seat = &w->seats[node][i];
            if (seat->agreement == NULL || !sim_is_up(w->sim, node)) continue;
            if (seat->state == AGREEMENT_RUNNING)
                story_fail(&w->story, "meeting %d: node %d waits for ever", i, node);
        }
}

/* ------------------------------------------------------------------------------------- meetings */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static int find_meeting(struct world *w, const struct meeting *meeting)
{
    for (int i = 0; i < w->meeting_count; i++)
        if (w->meetings[i].epoch == meeting->epoch) return i;
    assert(w->meeting_count < MEETINGS_MAX);
    w->meetings[w->meeting_count] = *meeting;
    return w->meeting_count++;
}

/* In some worlds only some of the ranks have a vote, as members have and ranks that join have not. */
static uint64_t choose_voters(const struct world *w, const struct meeting *meeting)
{
    const uint64_t all = rank_set_mask(meeting->size, 0);
    const uint64_t some = mix(meeting->epoch * 7 + 3) & mix(w->story.seed * 11 + 5) & all;
    const bool are_some = mix(w->story.seed * 3 + 1) % 3 == 0;
    return are_some && some != 0 ? some : all;
}

/* Who decided goes on to the next one: with the survivors, or once more with all. */
static void call_next(struct world *w, const struct seat *seat)
{
    const struct meeting *before = &w->meetings[seat->meeting];
    struct meeting next = {.round = before->round + 1};
    if (next.round == ROUNDS_MAX || mix(w->story.seed + 77) % ROUNDS_MAX < (unsigned)next.round)
        return;
    const bool shrinks = mix(w->story.seed * 5 + (uint64_t)next.round) & 1;
    next.epoch = agreement_next_epoch(seat->agreement);
    for (int rank = 0; rank < before->size; rank++) {
        if (shrinks && !rank_set_has(&seat->decided_set, rank)) continue;
        next.rank_of[before->node_of[rank]] = next.size;
        next.node_of[next.size++] = before->node_of[rank];
    }
    next.voters = choose_voters(w, &next);
    const bool is_in = rank_set_has(&seat->decided_set, before->rank_of[seat->node]);
    w->report->excluded += !is_in;
    if (shrinks && !is_in) return;
    const uint64_t pause_ns = sim_between(w->sim, 0, 3 * MILLISECOND);
    sim_at(w->sim, sim_now_ns(w->sim) + pause_ns, CALL, seat->node, find_meeting(w, &next), 0);
}

static void mourn(struct world *w, int node);

static void give_up_everything(struct world *w, int node)
{
    sim_crash(w->sim, node); /* such a process ends */
    mourn(w, node);
}

/* After anything that may have changed it. */
static void review(struct world *w, struct seat *seat)
{
    const enum agreement_state state = agreement_state(seat->agreement);
    if (seat->state == AGREEMENT_DECIDED) {
        if (state != AGREEMENT_DECIDED || *agreement_set(seat->agreement) != seat->decided_set ||
            agreement_word(seat->agreement) != seat->decided_word)
            story_fail(&w->story, "meeting %d: node %d decided twice", seat->meeting, seat->node);
    } else if (state != seat->state) {
        if (seat->state != AGREEMENT_RUNNING)
            story_fail(&w->story, "meeting %d: node %d came back after giving up", seat->meeting,
                       seat->node);
        seat->state = state;
        w->report->decided += state == AGREEMENT_DECIDED;
        w->report->minority += state == AGREEMENT_MINORITY;
        w->report->late += state == AGREEMENT_LATE;
        if (state == AGREEMENT_DECIDED) {
            seat->decided_set = *agreement_set(seat->agreement);
            seat->decided_word = agreement_word(seat->agreement);
            story_tell(&w->story, "node %d decides meeting %d: %llx", seat->node, seat->meeting,
                       (unsigned long long)seat->decided_set);
            judge_decision(w, seat);
            call_next(w, seat);
        } else {
            story_tell(&w->story, "node %d gives up meeting %d: %s", seat->node, seat->meeting,
                       state == AGREEMENT_MINORITY ? "minority" : "late");
            judge_giving_up(w, seat);
            give_up_everything(w, seat->node);
        }
    }
    const uint64_t due_ns = agreement_due_ns(seat->agreement);
    if (due_ns == UINT64_MAX || due_ns >= seat->tick_ns) return;
    seat->tick_ns = due_ns;
    sim_at(w->sim, due_ns, TICK, seat->node, seat->meeting, 0);
}

static void send_message(void *context, int to, const void *bytes, size_t byte_count)
{
    struct seat *const seat = context;
    struct world *const w = seat->world;
    w->report->messages++;
    sim_send(w->sim, seat->node, w->meetings[seat->meeting].node_of[to], seat->meeting, bytes,
             byte_count);
}

static void call(struct world *w, int node, int number)
{
    struct meeting *meeting = &w->meetings[number];
    struct seat *seat = &w->seats[node][number];
    if (seat->agreement != NULL) return;
    *seat = (struct seat){.world = w, .node = node, .meeting = number, .tick_ns = UINT64_MAX};
    seat->word = sim_random(w->sim) | sim_random(w->sim) | sim_random(w->sim);
    const struct agreement_options options = {.size = meeting->size,
                                              .rank = meeting->rank_of[node],
                                              .epoch = meeting->epoch,
                                              .word = seat->word,
                                              .voters = &meeting->voters,
                                              .retry_ns_min = 2 * MILLISECOND,
                                              .retry_ns_max = 16 * MILLISECOND,
                                              .send = send_message,
                                              .context = seat};
    if (agreement_create(&options, &seat->agreement) != TUTTI_OK) abort();
    for (int rank = 0; rank < meeting->size; rank++) {
        const int other = meeting->node_of[rank];
        if (w->buries[node][other])
            agreement_declare_dead(seat->agreement, rank);
        else if (w->suspects[node][other])
            agreement_suspect(seat->agreement, rank);
    }
    story_tell(&w->story, "node %d calls meeting %d as rank %d of %d", node, number, options.rank,
               meeting->size);
    w->last_change_ns = sim_now_ns(w->sim);
    sim_at(w->sim, sim_now_ns(w->sim) + DEADLINE_NS, DEADLINE, node, number, 0);
    review(w, seat);
}

/* All that a node takes part in hears everything: what is of another meeting is to be told by the
 * epoch alone. */
static void hear(struct world *w, const struct sim_event *event)
{
    const int from_rank = w->meetings[event->tag].rank_of[event->number];
    tell_message(w, event);
    for (int i = 0; i < w->meeting_count && sim_is_up(w->sim, event->node); i++) {
        struct seat *seat = &w->seats[event->node][i];
        if (seat->agreement == NULL) continue;
        agreement_hear(seat->agreement, from_rank, event->bytes, event->byte_count,
                       sim_now_ns(w->sim));
        review(w, seat);
    }
}

/* -------------------------------------------------------------------- what nodes know of others */

enum opinion { IS_THERE, IS_SUSPECT, IS_DEAD };

static void hold(struct world *w, int node, int other, enum opinion opinion)
{
    if (w->buries[node][other]) return;
    story_tell(&w->story, "node %d holds %d for %s", node, other,
               opinion == IS_DEAD      ? "dead"
               : opinion == IS_SUSPECT ? "suspect"
                                       : "living");
    w->buries[node][other] = opinion == IS_DEAD;
    w->suspects[node][other] = opinion == IS_SUSPECT;
    if (opinion != IS_THERE) w->is_doubted[other] = true;
    for (int i = 0; i < w->meeting_count; i++) {
        const struct meeting *meeting = &w->meetings[i];
        struct seat *seat = &w->seats[node][i];
        if (seat->agreement == NULL) continue;
        const int rank = meeting->rank_of[other];
        if (rank >= meeting->size || meeting->node_of[rank] != other) continue;
        if (opinion == IS_DEAD) agreement_declare_dead(seat->agreement, rank);
        if (opinion == IS_SUSPECT) agreement_suspect(seat->agreement, rank);
        if (opinion == IS_THERE) agreement_unsuspect(seat->agreement, rank);
        review(w, seat);
    }
}

static void look(struct world *w, int node, int other)
{
    if (!sim_is_up(w->sim, other))
        hold(w, node, other, w->host_of[node] == w->host_of[other] ? IS_DEAD : IS_SUSPECT);
    else if (sim_is_cut(w->sim, node, other))
        hold(w, node, other, IS_SUSPECT);
    else if (w->suspects[node][other])
        hold(w, node, other, IS_THERE);
}

static void hear_rumour(struct world *w, int node, int other)
{
    for (int teller = 0; teller < w->node_count; teller++)
        if (sim_is_up(w->sim, teller) && w->buries[teller][other] &&
            !sim_is_cut(w->sim, node, teller)) {
            hold(w, node, other, IS_DEAD);
            return;
        }
}

static void look_after(struct world *w, int node, int other, uint64_t min_ns, uint64_t max_ns)
{
    if (node == other) return;
    const uint64_t now_ns = sim_now_ns(w->sim);
    sim_at(w->sim, now_ns + sim_between(w->sim, min_ns, max_ns), LOOK, node, other, 0);
}

/* A crash, seen from outside. */
static void mourn(struct world *w, int node)
{
    if (w->is_mourned[node]) return;
    w->is_mourned[node] = w->is_doubted[node] = true;
    w->last_change_ns = sim_now_ns(w->sim);
    story_tell(&w->story, "node %d is down", node);
    for (int other = 0; other < w->node_count; other++) {
        const bool is_near = w->host_of[node] == w->host_of[other];
        look_after(w, other, node, is_near ? 0 : 20 * MILLISECOND,
                   (is_near ? 20 : 60) * MILLISECOND);
        if (!is_near && sim_chance(w->sim, w->rumour_permille))
            sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 0, 80 * MILLISECOND), RUMOUR,
                   other, node, 0);
    }
}

/* --------------------------------------------------------------------------------------- faults */

static bool is_between_sides(const struct world *w, int one, int other, int sides)
{
    return ((sides >> w->host_of[one]) & 1) != ((sides >> w->host_of[other]) & 1);
}

static void change_cut(struct world *w, int sides, bool is_cut)
{
    story_tell(&w->story, "hosts %x are %s the others", (unsigned)sides,
               is_cut ? "cut off from" : "joined to");
    w->last_change_ns = sim_now_ns(w->sim);
    for (int one = 0; one < w->node_count; one++)
        for (int other = 0; other < one; other++) {
            if (!is_between_sides(w, one, other, sides)) continue;
            sim_cut(w->sim, one, other, is_cut);
            w->is_doubted[one] = w->is_doubted[other] = true;
            look_after(w, one, other, (is_cut ? 20 : 1) * MILLISECOND,
                       (is_cut ? 60 : 20) * MILLISECOND);
            look_after(w, other, one, (is_cut ? 20 : 1) * MILLISECOND,
                       (is_cut ? 60 : 20) * MILLISECOND);
        }
}

/* Some pairs of hosts, so that who reaches whom is no matter of sides. */
static void cut_pairs(struct world *w, uint64_t from_ns, uint64_t to_ns)
{
    for (int one = 0; one < w->host_count; one++)
        for (int other = 0; other < one; other++)
            if (sim_chance(w->sim, 250)) {
                sim_at(w->sim, from_ns, CUT, SIM_NOBODY, one, 1 + other);
                sim_at(w->sim, to_ns, HEAL, SIM_NOBODY, one, 1 + other);
            }
}

static void change_pair(struct world *w, int one_host, int other_host, bool is_cut)
{
    story_tell(&w->story, "hosts %d and %d are %s", one_host, other_host, is_cut ? "cut" : "joined");
    w->last_change_ns = sim_now_ns(w->sim);
    for (int one = 0; one < w->node_count; one++)
        for (int other = 0; other < w->node_count; other++) {
            if (w->host_of[one] != one_host || w->host_of[other] != other_host) continue;
            sim_cut(w->sim, one, other, is_cut);
            w->is_doubted[one] = w->is_doubted[other] = true;
            look_after(w, one, other, MILLISECOND, 40 * MILLISECOND);
            look_after(w, other, one, MILLISECOND, 40 * MILLISECOND);
        }
}

static void stall(struct world *w, int node, uint64_t span_ns)
{
    const uint64_t until_ns = sim_now_ns(w->sim) + span_ns;
    story_tell(&w->story, "node %d stalls for %.3f ms", node, (double)span_ns / 1e6);
    sim_stall(w->sim, node, until_ns);
    w->report->stalled++;
    if (sim_chance(w->sim, 500)) return;
    for (int other = 0; other < w->node_count; other++) {
        if (other == node) continue;
        sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 0, span_ns), MISTAKE, other, node,
               0);
        sim_at(w->sim, until_ns + sim_between(w->sim, 0, 20 * MILLISECOND), LOOK, other, node, 0);
    }
}

static uint64_t some_time(struct world *w)
{
    return sim_chance(w->sim, 500) ? sim_between(w->sim, 0, 8 * MILLISECOND)
                                   : sim_between(w->sim, 0, CALM_NS / 2);
}

static void plan_crash(struct world *w, int node, uint64_t at_ns)
{
    if (sim_chance(w->sim, 500))
        sim_at(w->sim, at_ns, CRASH, node, 0, 0);
    else
        sim_at(w->sim, at_ns, ARM, node, (int)sim_below(w->sim, 2 * (unsigned)w->node_count + 1), 0);
}

static void plan_crashes(struct world *w)
{
    const unsigned count = sim_below(w->sim, 2 + (unsigned)w->node_count / 2);
    for (unsigned i = 0; i < count; i++)
        plan_crash(w, (int)sim_below(w->sim, (unsigned)w->node_count), some_time(w));
}

/* Of one host most ranks, also the one that leads, die within moments. What they still said reaches
 * the others slowly or not at all, so that these learn from the kernel that they are dead, and from
 * themselves what they did. */
static void plan_massacre(struct world *w)
{
    const int nodes = w->node_count,
              doomed = nodes - 1 - (int)sim_below(w->sim, (unsigned)(nodes + 1) / 2);
    const uint64_t together_ns = sim_between(w->sim, 0, 6 * MILLISECOND);
    const uint64_t pace_ns = sim_below(w->sim, 3) * 20 * MILLISECOND;
    for (int node = 0; node < nodes; node++) {
        const bool is_doomed = node < doomed;
        w->host_of[node] = 0;
        if (is_doomed || sim_chance(w->sim, 200))
            plan_crash(w, node,
                       together_ns + sim_between(w->sim, 0, (is_doomed ? 4 : 80) * MILLISECOND));
        for (int other = 0; other < nodes; other++) {
            if (is_doomed && other >= doomed) sim_spoil(w->sim, node, other, 60 * MILLISECOND, 500);
            if (!is_doomed && other >= doomed) sim_spoil(w->sim, node, other, pace_ns, 0);
        }
    }
}

/* Of one host all but two or three die at once, as soon as they may have decided. The first that is
 * left hears nothing of that, the others hear it while they, slowly, decide by themselves. */
static void plan_last_words(struct world *w)
{
    const int nodes = w->node_count, doomed = nodes - 2 - (int)sim_below(w->sim, 2);
    const uint64_t at_ns = sim_between(w->sim, MILLISECOND, 7 * MILLISECOND);
    for (int node = 0; node < nodes; node++) {
        const bool is_doomed = node < doomed;
        w->host_of[node] = 0;
        if (is_doomed) sim_at(w->sim, at_ns, CRASH, node, 0, 0);
        for (int other = doomed; other < nodes; other++)
            sim_spoil(w->sim, node, other, (is_doomed ? 100 : 40) * MILLISECOND,
                      is_doomed ? (other == doomed ? 1000 : 300) : 0);
    }
}

/* Suspected without reason until some time after it is calm. */
static void plan_mistake(struct world *w, int node, int other, uint64_t at_ns)
{
    sim_at(w->sim, at_ns, MISTAKE, node, other, 0);
    sim_at(w->sim, CALM_NS + at_ns, LOOK, node, other, 0);
}

/* Those that lead die one after the other, each in the middle of what it says; much is lost, some
 * pairs hardly hear each other until it is calm, and they do suspect each other. So several lead,
 * and each of their values is accepted somewhere. */
static void plan_quarrel(struct world *w)
{
    const int nodes = w->node_count;
    for (int node = 0; node < (nodes - 1) / 2; node++)
        sim_at(w->sim, sim_between(w->sim, 0, (uint64_t)(node + 1) * 20 * MILLISECOND), ARM, node,
               (int)sim_below(w->sim, 2 * (unsigned)nodes), 0);
    for (int one = 0; one < nodes; one++)
        for (int other = 0; other < nodes; other++) {
            if (one == other || !sim_chance(w->sim, 200)) continue;
            const uint64_t at_ns = sim_between(w->sim, 0, 30 * MILLISECOND);
            sim_spoil(w->sim, one, other, 2 * MILLISECOND, 900);
            sim_spoil(w->sim, other, one, 2 * MILLISECOND, 900);
            plan_mistake(w, one, other, at_ns);
            plan_mistake(w, other, one, at_ns);
        }
}

/* Three lead, one after the other, and two values live on. The first reaches nobody but the third,
 * the second and the third do not hear each other, and the second dies at about the time when it
 * has decided. */
static void plan_succession(struct world *w)
{
    const int nodes = w->node_count, messages = 2 * (nodes - 1);
    const uint64_t first_ns = sim_between(w->sim, MILLISECOND, 8 * MILLISECOND),
                   second_ns = first_ns + sim_between(w->sim, 0, 16 * MILLISECOND);
    for (int node = 1; node < nodes; node++) {
        if (node != 2) sim_spoil(w->sim, 0, node, 0, 1000);
        plan_mistake(w, node, 0, node == 2 ? second_ns : first_ns);
    }
    sim_spoil(w->sim, 1, 2, 0, 1000);
    sim_spoil(w->sim, 2, 1, 0, 1000);
    plan_mistake(w, 1, 2, first_ns);
    plan_mistake(w, 2, 1, second_ns);
    sim_at(w->sim, 0, ARM, 1, messages + (int)sim_below(w->sim, 6), 0);
}

static void plan_partitions(struct world *w)
{
    const uint64_t from_ns = some_time(w), to_ns = sim_between(w->sim, from_ns, CALM_NS);
    const int sides = (int)sim_below(w->sim, 1U << (w->host_count < 16 ? w->host_count : 16));
    switch (sim_below(w->sim, 6)) {
    case 0: sim_at(w->sim, from_ns, CUT, SIM_NOBODY, sides, 0); break;
    case 1:
        sim_at(w->sim, from_ns, CUT, SIM_NOBODY, sides, 0);
        sim_at(w->sim, to_ns, HEAL, SIM_NOBODY, sides, 0);
        break;
    case 2: cut_pairs(w, from_ns, to_ns); break;
    default: break;
    }
}

static void plan_disasters(struct world *w)
{
    switch (sim_below(w->sim, w->node_count > 4 ? 7 : 5)) {
    case 0: plan_massacre(w); break;
    case 1: plan_quarrel(w); break;
    case 5: plan_succession(w); break;
    case 6: plan_last_words(w); break;
    default:
        plan_crashes(w);
        plan_partitions(w);
        break;
    }
}

static void plan_lesser_faults(struct world *w)
{
    const unsigned mistakes = sim_chance(w->sim, 300) ? sim_below(w->sim, 6) : 0;
    const unsigned stalls = sim_chance(w->sim, 300) ? sim_below(w->sim, 3) : 0;
    for (unsigned i = 0; i < mistakes; i++) {
        const int node = (int)sim_below(w->sim, (unsigned)w->node_count);
        const int other = (int)sim_below(w->sim, (unsigned)w->node_count);
        const uint64_t at_ns = some_time(w);
        if (node == other) continue;
        sim_at(w->sim, at_ns, MISTAKE, node, other, 0);
        sim_at(w->sim, at_ns + sim_between(w->sim, 0, 60 * MILLISECOND), LOOK, node, other, 0);
    }
    for (unsigned i = 0; i < stalls; i++)
        sim_at(w->sim, some_time(w), STALL, (int)sim_below(w->sim, (unsigned)w->node_count),
               (int)sim_between(w->sim, MILLISECOND, 80 * MILLISECOND), 0);
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
    for (int node = 0; node < w->node_count; node++)
        if (sim_is_up(w->sim, node)) sim_crash_after(w->sim, node, UINT_MAX);
    w->last_change_ns = sim_now_ns(w->sim);
    for (int node = 0; node < w->node_count; node++)
        for (int other = 0; other < w->node_count; other++) sim_spoil(w->sim, node, other, 0, 0);
    story_tell(&w->story, "calm");
}

/* -------------------------------------------------------------------------------------- running */

static void set_up(struct world *w)
{
    struct meeting first = {.epoch = mix(w->story.seed + 1)};
    w->node_count = sim_chance(w->sim, 20) ? SIM_NODES_MAX : 2 + (int)sim_below(w->sim, 8);
    w->host_count = 1 + (int)sim_below(w->sim, (unsigned)(w->node_count < 8 ? w->node_count : 8));
    w->rumour_permille = sim_below(w->sim, 3) * 500;
    first.size = w->node_count;
    for (int node = 0; node < w->node_count; node++) {
        w->host_of[node] = (int)sim_below(w->sim, (unsigned)w->host_count);
        first.node_of[node] = first.rank_of[node] = node;
    }
    first.voters = choose_voters(w, &first);
    find_meeting(w, &first);
    w->report->with_learners += first.voters != rank_set_mask(first.size, 0);
    const uint64_t spread_ns = sim_chance(w->sim, 800) ? MILLISECOND : 60 * MILLISECOND;
    w->absent =
        sim_chance(w->sim, 30) ? (int)sim_below(w->sim, (unsigned)w->node_count) : SIM_NOBODY;
    for (int node = 0; node < w->node_count; node++)
        if (node != w->absent) sim_at(w->sim, sim_between(w->sim, 0, spread_ns), CALL, node, 0, 0);
    set_weather(w);
    plan_disasters(w);
    plan_lesser_faults(w);
    sim_at(w->sim, CALM_NS, CALM, SIM_NOBODY, 0, 0);
}

static void make_mistake(struct world *w, int node, int other)
{
    w->report->suspected_wrongly += sim_is_up(w->sim, other);
    hold(w, node, other, IS_SUSPECT);
}

static void change_net(struct world *w, const struct sim_event *event)
{
    w->report->partitioned += event->kind == CUT;
    if (event->tag == 0)
        change_cut(w, event->number, event->kind == CUT);
    else
        change_pair(w, event->number, event->tag - 1, event->kind == CUT);
}

static void happen(struct world *w, const struct sim_event *event)
{
    struct seat *const seat = event->kind == TICK || event->kind == DEADLINE
                                  ? &w->seats[event->node][event->number]
                                  : NULL;
    switch (event->kind) {
    case SIM_MESSAGE: hear(w, event); break;
    case CALL: call(w, event->node, event->number); break;
    case TICK:
        seat->tick_ns = UINT64_MAX;
        agreement_tick(seat->agreement, sim_now_ns(w->sim));
        review(w, seat);
        break;
    case DEADLINE:
        agreement_give_up(seat->agreement);
        review(w, seat);
        break;
    case CRASH:
        w->report->crashed++;
        sim_crash(w->sim, event->node);
        break;
    case ARM: sim_crash_after(w->sim, event->node, (unsigned)event->number); break;
    case STALL: stall(w, event->node, (uint64_t)event->number); break;
    case CUT:
    case HEAL: change_net(w, event); break;
    case LOOK: look(w, event->node, event->number); break;
    case MISTAKE: make_mistake(w, event->node, event->number); break;
    case RUMOUR: hear_rumour(w, event->node, event->number); break;
    case CALM: calm_down(w); break;
    default: abort();
    }
}

static void run(struct world *w)
{
    struct sim_event event;
    unsigned count = 0;
    while (!w->story.has_failed && sim_next(w->sim, &event)) {
        happen(w, &event);
        const int node = event.node;
        if (node != SIM_NOBODY && !sim_is_up(w->sim, node) && !w->is_mourned[node]) {
            w->report->crashed_within += event.kind != CRASH;
            mourn(w, node);
        }
        if (++count == EVENTS_MAX) story_fail(&w->story, "it never ends");
    }
    w->report->events += count;
}

void agreement_sim_run(uint64_t seed, bool is_verbose, struct agreement_sim_report *report)
{
    struct world *w = calloc(1, sizeof *w);
    assert(w != NULL);
    w->sim = sim_create(seed);
    w->report = report;
    w->story = (struct sim_story){.sim = w->sim, .seed = seed, .is_verbose = is_verbose};
    set_up(w);
    run(w);
    if (!w->story.has_failed) judge_end(w);
    report->has_failed = w->story.has_failed;
    memcpy(report->message, w->story.message, sizeof report->message);
    report->fingerprint = sim_fingerprint(w->sim);
    for (int node = 0; node < SIM_NODES_MAX; node++)
        for (int i = 0; i < MEETINGS_MAX; i++) agreement_free(w->seats[node][i].agreement);
    sim_free(w->sim);
    free(w);
}

int agreement_sim_main(int argument_count, char **arguments)
{
    struct sim_seeds seeds;
    struct agreement_sim_report report = {0};
    if (!sim_seeds_parse(argument_count, arguments, &seeds)) return 2;
    for (uint64_t i = 0; i < seeds.count && !report.has_failed; i++)
        agreement_sim_run(seeds.first + i, seeds.is_verbose, &report);
    if (report.has_failed) return printf("%s\n", report.message), 1;
    printf("%llu schedules from seed %llu held: %u events, %u messages; decided %u, minority %u, "
           "late %u;\n"
           "crashed %u, within a broadcast or call %u, stalled %u, wrongly suspected %u, cuts %u;\n"
           "decided with no majority alive %u, decisions taken along by the dead %u, living left "
           "out %u\n",
           (unsigned long long)seeds.count, (unsigned long long)seeds.first, report.events,
           report.messages, report.decided, report.minority, report.late, report.crashed,
           report.crashed_within, report.stalled, report.suspected_wrongly, report.partitioned,
           report.by_all, report.taken, report.excluded);
    return 0;
}
