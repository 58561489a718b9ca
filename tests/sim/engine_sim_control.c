#include "tests/sim/engine_sim_world.h"

#include <stdlib.h>

#include "membership/rank_set.h"

#define SILENT_NS (50 * PERIOD_NS)
#define CUT_OFF_NS (40 * PERIOD_NS)

enum message_kind { A_BEAT, A_WORD, AN_AGREEMENT };
enum { TAG_COMM = 4 }; /* the communicator that a message is of lies above these bits */

/* ------------------------------------------------------------------------------------- failures */

/* It is on the board of the node's host; all there see it soon. */
void control_find_failure(struct world *w, int node, int number, const struct word *word)
{
    struct comm *comm = &w->comms[number];
    struct word *board = &comm->boards[host_in(comm, node)];
    if (board->culprit >= 0) return;
    *board = *word;
    story_tell(&w->story, "node %d: communicator %d failed, %s of node %d", node, number,
               word->is_minority ? "MINORITY, for lack" : "for the end", word->culprit);
    judge_culprit(w, number, word->culprit);
    for (int rank = 0; rank < comm->size; rank++)
        if (is_near(w, node, comm->node_of[rank]))
            sim_at(w->sim, within(w, 0, MILLISECOND / 10), NOTICE, comm->node_of[rank], number, 0);
}

void control_tell_others(struct world *w, const struct seat *seat)
{
    const struct comm *comm = comm_of(seat);
    struct word word = seat->failure;
    word.reporter = seat->node;
    for (int rank = 0; rank < comm->size; rank++)
        if (!is_near(w, seat->node, comm->node_of[rank]))
            sim_tell(w->sim, seat->node, comm->node_of[rank], A_WORD | seat->comm << TAG_COMM,
                     &word, sizeof word);
}

/* What is said on the other side of a cut that is no more means something else on this one: as in
 * comm/far.c. */
static void take_sides(const struct world *w, int node, const struct comm *comm, struct word *word)
{
    const struct heartbeat *heartbeat = comm->heartbeats[host_in(comm, node)];
    if (!word->is_verdict) return;
    if (word->is_minority && (heartbeat == NULL || !heartbeat_is_minority(heartbeat))) {
        word->is_minority = false;
        word->culprit = word->reporter;
    } else if (!word->is_minority && is_near(w, node, word->culprit) &&
               sim_is_up(w->sim, word->culprit)) {
        word->is_minority = true;
        word->culprit = word->reporter;
    }
}

static void hear_word(struct world *w, int node, int number, const struct word *heard)
{
    struct word word = *heard;
    if (w->current[node] != number) return;
    take_sides(w, node, &w->comms[number], &word);
    control_find_failure(w, node, number, &word);
}

/* Such a process ends. */
static void leave(struct world *w, struct seat *seat, const char *why)
{
    story_tell(&w->story, "node %d ends: %s", seat->node, why);
    sim_crash(w->sim, seat->node);
    faults_mourn(w, seat->node);
}

/* ------------------------------------------------------------------------------------- agreeing */

static void review(struct world *w, struct seat *seat);

static void send_agreement(void *context, int to, const void *bytes, size_t byte_count)
{
    struct seat *const seat = context;
    struct sim *const sim = seat->world->sim;
    if (seat->told_ns[to] == 0) seat->told_ns[to] = sim_now_ns(sim);
    sim_send(sim, seat->node, comm_of(seat)->node_of[to], AN_AGREEMENT | seat->comm << TAG_COMM,
             bytes, byte_count);
}

static bool is_silent(const struct world *w, const struct seat *seat, int rank)
{
    const struct comm *comm = comm_of(seat);
    const int node = seat->node, other = comm->node_of[rank], host = host_in(comm, node);
    if (is_near(w, node, other)) return false;
    if (w->gave_up[node][other]) return true;
    const int first = comm->node_of[comm->firsts[comm->host_of[rank]]];
    if (comm->node_of[comm->firsts[host]] == node && comm->is_condemned[host][comm->host_of[rank]] &&
        (other == first || !w->knows_dead[node][first])) /* as health/heartbeats.c says */
        return true;
    return seat->told_ns[rank] != 0 && sim_now_ns(w->sim) > seat->told_ns[rank] + SILENT_NS;
}

static void look_around(struct world *w, struct seat *seat)
{
    const struct comm *comm = comm_of(seat);
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank == rank_of(seat)) continue;
        if (w->knows_dead[seat->node][comm->node_of[rank]])
            agreement_declare_dead(seat->agreement, rank);
        else if (is_silent(w, seat, rank))
            agreement_suspect(seat->agreement, rank);
        else
            agreement_unsuspect(seat->agreement, rank);
    }
}

/* Looks again and again until it is decided. */
void control_look(struct world *w, struct seat *seat)
{
    const uint64_t now_ns = sim_now_ns(w->sim);
    if (seat->state != AGREEING) return;
    look_around(w, seat);
    if (agreement_may_decide(seat->agreement)) seat->quorum_ns = now_ns;
    if (now_ns > seat->quorum_ns + CUT_OFF_NS) agreement_give_up(seat->agreement);
    sim_at(w->sim, now_ns + PERIOD_NS / 2, LOOK, seat->node, seat->comm, 0);
    review(w, seat);
}

static void begin_agreement(struct world *w, struct seat *seat)
{
    const struct comm *comm = comm_of(seat);
    const struct agreement_options options = {.size = comm->size,
                                              .rank = rank_of(seat),
                                              .epoch = comm->epoch,
                                              .word = UINT64_MAX,
                                              .send = send_agreement,
                                              .context = seat};
    if (agreement_create(&options, &seat->agreement) != TUTTI_OK) abort();
    seat->state = AGREEING;
    seat->quorum_ns = sim_now_ns(w->sim);
    control_look(w, seat);
}

void control_notice(struct world *w, struct seat *seat)
{
    struct comm *comm = comm_of(seat);
    if (seat->state != AT_WORK && seat->state != FINISHED) return;
    seat->failure = comm->boards[host_in(comm, seat->node)];
    w->report->failures++;
    sim_links_stop(&comm->links, rank_of(seat));
    rank_bury_tasks(seat);
    control_tell_others(w, seat);
    if (!sim_is_up(w->sim, seat->node)) return;
    if (!seat->failure.is_minority) {
        begin_agreement(w, seat);
        return;
    }
    w->report->minority++;
    leave(w, seat, "MINORITY");
}

static void go_on(struct world *w, struct seat *seat)
{
    const struct comm *comm = comm_of(seat);
    const uint64_t epoch = agreement_next_epoch(seat->agreement);
    uint64_t nodes = 0;
    int number = 0;
    seat->state = DECIDED;
    seat->set = *agreement_set(seat->agreement);
    judge_decision(w, seat);
    for (int rank = 0; rank < comm->size; rank++)
        if (rank_set_has(&seat->set, rank)) rank_set_add(&nodes, comm->node_of[rank]);
    if (!rank_set_has(&nodes, seat->node)) {
        w->report->excluded++;
        judge_exclusion(w, seat->node);
        leave(w, seat, "left out");
        return;
    }
    while (number < w->comm_count && w->comms[number].epoch != epoch) number++;
    if (number == COMMS_MAX) {
        story_fail(&w->story, "too many communicators");
        return;
    }
    if (number == w->comm_count) world_create_comm(w, epoch, nodes);
    w->report->shrunk++;
    rank_enter(w, seat->node, number);
}

/* After anything that may have changed the agreement. */
static void review(struct world *w, struct seat *seat)
{
    if (seat->state != AGREEING) return;
    const enum agreement_state state = agreement_state(seat->agreement);
    if (state == AGREEMENT_DECIDED) {
        go_on(w, seat);
    } else if (state != AGREEMENT_RUNNING) {
        w->report->minority++;
        judge_giving_up(w, seat);
        leave(w, seat, "no quorum");
    } else {
        const uint64_t due_ns = agreement_due_ns(seat->agreement);
        if (due_ns == UINT64_MAX || due_ns >= seat->tick_ns) return;
        seat->tick_ns = due_ns;
        sim_at(w->sim, due_ns, TICK, seat->node, seat->comm, 0);
    }
}

void control_tick(struct world *w, struct seat *seat)
{
    seat->tick_ns = UINT64_MAX;
    agreement_tick(seat->agreement, sim_now_ns(w->sim));
    review(w, seat);
}

/* ----------------------------------------------------------------------------------- heartbeats */

void control_begin_heartbeat(struct world *w, int node, int number)
{
    struct comm *comm = &w->comms[number];
    const int host = host_in(comm, node);
    const struct heartbeat_options options = {.host = host,
                                              .host_count = comm->host_count,
                                              .rank_counts = comm->counts,
                                              .period_ns = PERIOD_NS,
                                              .now_ns = sim_now_ns(w->sim),
                                              .first_ns = within(w, 0, PERIOD_NS)};
    if (comm->host_count < 2 || comm->node_of[comm->firsts[host]] != node) return;
    if (heartbeat_create(&options, &comm->heartbeats[host]) != TUTTI_OK) abort();
    sim_at(w->sim, within(w, 0, PERIOD_NS / 3), BEAT, node, number, 0);
}

/* The kernel of a host acknowledges also what a process does not read. */
static void look_for_answers(struct world *w, int node, const struct comm *comm,
                             struct heartbeat *heartbeat)
{
    for (int host = 0; host < comm->host_count; host++) {
        const int other = comm->node_of[comm->firsts[host]];
        if (other == node) continue;
        if (w->poked_ns[node][other] > w->answered_ns[node][other] && reaches(w, node, other))
            w->answered_ns[node][other] = sim_now_ns(w->sim);
        if (heartbeat_wants_answer(heartbeat, host) && w->answered_ns[node][other] > 0)
            heartbeat_answered(heartbeat, host, w->answered_ns[node][other]);
    }
}

static void send_heartbeats(struct world *w, int node, int number, struct heartbeat *heartbeat)
{
    const struct comm *comm = &w->comms[number];
    unsigned char bytes[HEARTBEAT_BYTES_MAX];
    int host;
    bool is_poke;
    while (heartbeat_next(heartbeat, &host, &is_poke)) {
        const int other = comm->node_of[comm->firsts[host]];
        const size_t byte_count = heartbeat_write(heartbeat, 0, bytes);
        w->poked_ns[node][other] = sim_now_ns(w->sim);
        sim_send(w->sim, node, other, A_BEAT | number << TAG_COMM, bytes, byte_count);
    }
}

static void take_verdict(struct world *w, int node, int number)
{
    struct comm *comm = &w->comms[number];
    const int host = host_in(comm, node);
    struct heartbeat_verdict verdict;
    int condemned;
    while (heartbeat_condemned(comm->heartbeats[host], &condemned))
        comm->is_condemned[host][condemned] = true;
    if (comm->is_judged[host] || !heartbeat_judge(comm->heartbeats[host], &verdict)) return;
    comm->is_judged[host] = true;
    w->report->verdicts++;
    const struct word word = {.is_minority = verdict.is_minority,
                              .is_verdict = true,
                              .culprit = comm->node_of[comm->firsts[verdict.culprit]],
                              .reporter = node};
    if (comm->boards[host].culprit < 0 && verdict.is_minority)
        judge_minority(w, &w->seats[node][number]);
    control_find_failure(w, node, number, &word);
}

void control_beat(struct world *w, int node, int number)
{
    struct comm *comm = &w->comms[number];
    struct heartbeat *heartbeat = comm->heartbeats[host_in(comm, node)];
    int host;
    enum heartbeat_state before, now;
    if (w->current[node] != number) return;
    if (heartbeat_progress(heartbeat, sim_now_ns(w->sim))) {
        send_heartbeats(w, node, number, heartbeat);
        look_for_answers(w, node, comm, heartbeat);
    }
    while (heartbeat_change(heartbeat, &host, &before, &now))
        w->report->taken_back += before == HEARTBEAT_SUSPECTED;
    take_verdict(w, node, number);
    sim_at(w->sim, within(w, PERIOD_NS / 4, PERIOD_NS / 2), BEAT, node, number, 0);
}

/* -------------------------------------------------------------------------------------- hearing */

void control_hear(struct world *w, const struct sim_event *event)
{
    const int node = event->node, number = event->tag >> TAG_COMM;
    struct comm *comm = &w->comms[number];
    struct seat *seat = &w->seats[node][number];
    const int from = comm->rank_of[event->number], host = host_in(comm, node);
    seat->told_ns[from] = 0;
    w->seats[event->number][number].told_ns[comm->rank_of[node]] =
        0; /* that it came is said below */
    switch ((enum message_kind)(event->tag & ((1 << TAG_COMM) - 1))) {
    case A_BEAT:
        if (comm->heartbeats[host] != NULL && w->current[node] == number)
            heartbeat_hear(comm->heartbeats[host], event->bytes, event->byte_count,
                           sim_now_ns(w->sim));
        break;
    case A_WORD: hear_word(w, node, number, (const struct word *)(const void *)event->bytes); break;
    case AN_AGREEMENT:
        if (seat->agreement == NULL) break;
        agreement_hear(seat->agreement, from, event->bytes, event->byte_count, sim_now_ns(w->sim));
        review(w, seat);
        break;
    }
}

/* A kernel says so: that of the same host, or one that refuses connections to a process that
 * ended. */
void control_learn(struct world *w, int node, int other)
{
    const int number = w->current[node];
    struct seat *seat = &w->seats[node][number];
    const bool can_know = is_near(w, node, other) ||
                          (!w->has_vanished[w->host_of[other]] && !sim_is_cut(w->sim, node, other));
    if (sim_is_up(w->sim, other) || !can_know || w->knows_dead[node][other]) return;
    w->knows_dead[node][other] = true;
    if (!is_member(&w->comms[number], other)) return;
    const struct word word = loss_of(other, node);
    control_find_failure(w, node, number, &word);
    if (seat->state != AGREEING) return;
    agreement_declare_dead(seat->agreement, w->comms[number].rank_of[other]);
    review(w, seat);
}

/* What connections say that are made again and again, in vain. */
void control_lose(struct world *w, int node, int other)
{
    const int number = w->current[node];
    const uint64_t apart_ns = w->apart_ns[node][other];
    if (apart_ns == 0 || sim_now_ns(w->sim) < apart_ns + LOST_NS) return;
    w->gave_up[node][other] = true;
    if (!is_member(&w->comms[number], other)) return;
    const struct word word = loss_of(other, node);
    control_find_failure(w, node, number, &word);
}
