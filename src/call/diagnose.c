/* diagnose.c - looking for reasons why a call does not move: deaths, those who left, calls that
 * differ, the deadline. */
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/status.h"
#include "call/communicator.h"
#include "call/crossing.h"
#include "call/diagnose.h"
#include "call/faulted.h"
#include "call/on_device.h"
#include "call/report.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "health/known.h"
#include "health/network.h"
#include "health/remote_rank.h"
#include "os/clock.h"
#include "transport/control.h"

enum {
    COMPARE_NS = 200000000,  /* without progress this long: compare calls */
    REPORT_NS = 1500000000u, /* say who holds it up */
    ANSWER_NS = 1000000000,  /* so long another host may take to say what a rank has called */
    /* So long what a rank sent before it left may take, after the last that came of it: */
    REST_NS = 500000000, /* on a new connection, after one was lost */
    REST_OPEN_S = 5      /* while there is one, whose end has not come */
};

/* --------------------------------------------------------------------------------------- deaths */

/* The first rank of a process that has not left; -1: none. */
static int rank_that_stayed(const struct tutti_comm *comm, int first)
{
    for (int r = first; r < comm->team.size; r++)
        if (known_state(&comm->health, r) != RANK_LEFT &&
            health_share_process(&comm->health, r, first))
            return r;
    return -1;
}

static void fail_dead(struct tutti_comm *comm, const struct tutti_request *request, int rank)
{
    char who[128], trouble[COMM_TROUBLE_MAX];
    health_name_rank(&comm->health, rank, who, sizeof who);
    remote_trouble(&comm->health, rank, trouble);
    call_fail(comm, request, TUTTI_PROC_FAILED, rank, "%s %s%s", who,
              health_has_executed(&comm->health, rank) ? "executed another program" : "died",
              trouble);
}

bool diagnose_corruption(struct tutti_comm *comm, const struct tutti_request *request)
{
    const struct transport *data = comm->team.transports.set.all;
    const int rank = data != NULL ? data->ops->corrupt_rank(data) : -1;
    if (rank < 0) return false;
    char who[128];
    health_name_rank(&comm->health, rank, who, sizeof who);
    call_fail(comm, request, TUTTI_CORRUPT, rank, "what %s sent to rank %d arrived changed, twice",
              who, comm->team.rank);
    return true;
}

/* Whether this rank lacks the means to read what lies there for it. */
static bool look_for_shortage(struct tutti_comm *comm, const struct tutti_request *request)
{
    int peer;
    const struct transport *data = comm->team.transports.set.all;
    const enum tutti_status status =
        data != NULL ? data->ops->shortage(data, clock_now_ns(), &peer) : TUTTI_OK;
    if (status == TUTTI_OK) return false;
    char who[128];
    health_name_rank(&comm->health, peer, who, sizeof who);
    call_fail(comm, request, status, comm->team.rank, "rank %d has no %s left to read what %s sent",
              comm->team.rank, status == TUTTI_NO_DESCRIPTORS ? "descriptor" : "memory", who);
    return true;
}

bool diagnose_deaths(struct tutti_comm *comm, const struct tutti_request *request)
{
    if (diagnose_corruption(comm, request) || look_for_shortage(comm, request)) return true;
    const int dead = remote_find_dead(&comm->health, clock_now_ns());
    if (dead >= 0) {
        fail_dead(comm, request, dead);
        return true;
    }
    if (!health_look_at_processes(&comm->health)) return false;
    for (int at = 0, first; (first = health_next_ended(&comm->health, &at)) >= 0;) {
        const int rank = rank_that_stayed(comm, first);
        if (rank < 0) continue;
        fail_dead(comm, request, rank);
        return true;
    }
    return false;
}

/* The rank that left without this call. A link to all does not tell which rank is behind, nor does
 * a rank of another host tell which rank it waits for. */
static int leaver_waited_for(const struct tutti_comm *comm, const struct call_request *request)
{
    const int peer = operation_waits_for(&request->operation);
    if (peer >= 0 &&
        (team_shares_host(&comm->team, peer) || known_state(&comm->health, peer) == RANK_LEFT))
        return known_state(&comm->health, peer) == RANK_LEFT ? peer : -1;
    for (int i = 0; i < team_local_size(&comm->team); i++) {
        const int rank = team_local_rank(&comm->team, i);
        if (known_state(&comm->health, rank) == RANK_LEFT &&
            board_begun(known_calls(&comm->health, rank, request->slot)) < request->begun)
            return rank;
    }
    return -1;
}

/* Only the counts of a v form can cause this. */
static void fail_short(struct tutti_comm *comm, const struct call_request *request, int peer)
{
    char who[128];
    health_name_rank(&comm->health, peer, who, sizeof who);
    call_fail(comm, &request->base, TUTTI_MISMATCH, peer,
              "rank %d expects more than %s sent: their counts differ", comm->team.rank, who);
}

static uint64_t last_bytes_ns(const struct peer_report *report)
{
    if (report->streams_up > 0) return REST_OPEN_S * UINT64_C(1000000000);
    return report->state == PEER_LOST ? REST_NS : 0;
}

bool diagnose_await_last_words(struct tutti_comm *comm, struct tutti_request *request, int rank)
{
    const struct control *control = comm->team.transports.set.control;
    struct peer_report report;
    uint64_t most_ns = 0, heard_ns = 0;
    for (int r = 0; control != NULL && r < comm->team.size; r++) {
        if (r == comm->team.rank || (rank >= 0 && r != rank)) continue;
        control->ops->report(control, r, &report);
        const uint64_t ns = last_bytes_ns(&report);
        if (most_ns < ns) most_ns = ns;
        if (ns > 0 && heard_ns < report.heard_ns) heard_ns = report.heard_ns;
    }
    if (most_ns == 0) return false;
    const uint64_t now_ns = clock_now_ns();
    if (request->left_ns == 0) request->left_ns = now_ns;
    const uint64_t since_ns = heard_ns > request->left_ns ? heard_ns : request->left_ns;
    return now_ns < since_ns + most_ns;
}

/* Everything that a rank ever sent was visible before it left, except for what a connection still
 * carries: a rank that waits for it after that waits for ever. */
static bool look_for_leavers(struct tutti_comm *comm, struct call_request *request)
{
    const int peer = leaver_waited_for(comm, request);
    if (peer < 0) return false;
    network_read_all(&comm->health);
    if (operation_run(&request->operation) != RUN_BLOCKED) return false;
    if (leaver_waited_for(comm, request) != peer) return false;
    if (diagnose_await_last_words(comm, &request->base, peer)) return false;
    if (request->call->what.varies &&
        board_begun(known_calls(&comm->health, peer, request->slot)) >= request->begun) {
        fail_short(comm, request, peer);
        return true;
    }
    char who[128];
    health_name_rank(&comm->health, peer, who, sizeof who);
    call_fail(comm, &request->base, TUTTI_PROC_FAILED, peer,
              "%s left the communicator without this operation", who);
    return true;
}

/* -------------------------------------------------------------------------------- disagreements */

enum { DIFFERENCE_TEXT_MAX = 160 };

/* Of foreign memory: any number. */
static const char *encoding_of_call(const struct call_description *what)
{
    return tutti_encoding_name((enum tutti_encoding)what->encoding);
}

/* Names the difference if the descriptions show none. In a v form, their count is the count of a
 * rank's own block. */
static const char *plain_difference(const struct call_description *mine,
                                    const struct call_description *theirs)
{
    if (theirs->signature == BOARD_REFUSED)
        return ", and cannot use the plan that its call names: its own error says why";
    if (mine->signature == BOARD_REFUSED) return ", which can use the plan that its call names";
    if (theirs->collective != mine->collective || theirs->varies != mine->varies ||
        theirs->dtype != mine->dtype || theirs->op != mine->op || theirs->root != mine->root ||
        (!mine->varies && theirs->count != mine->count))
        return "";
    return mine->varies && collective_knows_all_counts(mine->collective)
               ? " with other counts, another algorithm (or plan of it) or another `deterministic`"
               : " with another algorithm (or plan of it), an encoding of other links or another "
                 "`deterministic`";
}

/* The same; both encodings, where they are not the same. */
static const char *hidden_difference(const struct call_description *mine,
                                     const struct call_description *theirs,
                                     char text[static DIFFERENCE_TEXT_MAX])
{
    const char *const plain = plain_difference(mine, theirs);
    if (*plain == '\0' || mine->encoding == theirs->encoding || mine->signature == BOARD_REFUSED ||
        theirs->signature == BOARD_REFUSED)
        return plain;
    snprintf(text, DIFFERENCE_TEXT_MAX, " with the encoding %s in the place of %s",
             encoding_of_call(theirs), encoding_of_call(mine));
    return text;
}

static bool is_other_function(const struct call_description *one,
                              const struct call_description *other)
{
    return one->collective != other->collective || one->purpose != other->purpose;
}

static_assert((int)TRANSPORT_UNDER_WAY_MAX < (int)BOARD_CALLS,
              "a rank whose link is full still knows the call of its first message");

static bool compare_with(struct tutti_comm *comm, const struct call_request *request, int peer)
{
    struct call_description theirs;
    const struct call_description *mine = &request->call->what;
    if (peer == comm->team.rank ||
        !board_read_call(known_calls(&comm->health, peer, request->slot), request->begun, &theirs) ||
        theirs.signature == mine->signature)
        return false;
    char who[128], what[96], difference[DIFFERENCE_TEXT_MAX];
    health_name_rank(&comm->health, peer, who, sizeof who);
    board_describe(&theirs, what, sizeof what);
    if (is_other_function(&theirs, mine))
        call_fail(comm, &request->base, TUTTI_DESYNC, peer, "called by rank %d while %s called %s",
                  comm->team.rank, who, what);
    else
        call_fail(comm, &request->base, TUTTI_MISMATCH, peer,
                  "called by rank %d while %s called %s%s", comm->team.rank, who, what,
                  hidden_difference(mine, &theirs, difference));
    return true;
}

/* Compares the calls before, too: a rank that had little to do in one of them was through with it
 * before any rank could say that the peer was in another call, of which something comes now. */
static bool compare_earlier_with(struct tutti_comm *comm, const struct call_request *request,
                                 int peer)
{
    struct call_description mine, theirs;
    char who[128], my_call[96], their_call[96], difference[DIFFERENCE_TEXT_MAX];
    for (uint64_t number = request->begun - 1; number > 0 && number + BOARD_CALLS > request->begun;
         number--) {
        if (!board_read_call(health_own_calls(&comm->health, request->slot), number, &mine) ||
            !board_read_call(known_calls(&comm->health, peer, request->slot), number, &theirs) ||
            theirs.signature == mine.signature)
            continue;
        health_name_rank(&comm->health, peer, who, sizeof who);
        board_describe(&mine, my_call, sizeof my_call);
        board_describe(&theirs, their_call, sizeof their_call);
        call_fail(comm, &request->base,
                  is_other_function(&theirs, &mine) ? TUTTI_DESYNC : TUTTI_MISMATCH, peer,
                  "before it, rank %d called %s while %s called %s%s", comm->team.rank, my_call,
                  who, their_call, hidden_difference(&mine, &theirs, difference));
        return true;
    }
    return false;
}

/* Whether a rank of another host still is to say what it has called. */
static bool is_being_asked(struct tutti_comm *comm, struct call_request *request, int peer)
{
    if (known_call(&comm->health, peer, request->slot, request->begun)) return false;
    const uint64_t now = clock_now_ns();
    if (request->faulted_ns == 0) request->faulted_ns = now;
    remote_ask(&comm->health, peer, request->slot, request->begun);
    return now - request->faulted_ns < ANSWER_NS;
}

bool diagnose_fault(struct tutti_comm *comm, struct call_request *request, int peer)
{
    if (diagnose_corruption(comm, &request->base)) return true;
    if (compare_with(comm, request, peer) || compare_earlier_with(comm, request, peer)) return true;
    if (is_being_asked(comm, request, peer)) return false;
    char who[128];
    health_name_rank(&comm->health, peer, who, sizeof who);
    call_fail(comm, &request->base, TUTTI_MISMATCH, peer,
              "called by rank %d does not fit to what %s sent", comm->team.rank, who);
    return true;
}

/* The first rank that has not called it, as far as is known; -1. */
static int absentee(const struct tutti_comm *comm, const struct call_request *request)
{
    for (int r = 0; r < comm->team.size; r++)
        if (call_has_not_begun(comm, request, r)) return r;
    return -1;
}

/* Whether other hosts still may say who has not called it. */
static bool may_learn_more(struct tutti_comm *comm, const struct call_request *request,
                           uint64_t waited_ns)
{
    if (absentee(comm, request) >= 0 ||
        !remote_ask_all(&comm->health, request->slot, request->begun))
        return false;
    return waited_ns < request->call->timeout_ns + ANSWER_NS;
}

/* A rank that does not answer: the one that the call waits for, or else any that is known to be
 * stopped before the end of this call; -1. */
static int silent_rank(const struct tutti_comm *comm, const struct call_request *request, int peer,
                       uint64_t now_ns)
{
    char text[KNOWN_SILENCE_MAX];
    if (peer >= 0 && known_silence(&comm->health, peer, now_ns, text)) return peer;
    for (int r = 0; r < comm->team.size; r++)
        if (r != comm->team.rank &&
            !board_has_ended(known_calls(&comm->health, r, request->slot), request->begun) &&
            known_to_be_stopped(&comm->health, r, now_ns))
            return r;
    return -1;
}

/* The board tells that a rank of this host has not called it, even if that rank does not run. What
 * a rank of another host has called since its last answer is not known. */
static bool fail_silent(struct tutti_comm *comm, const struct call_request *request, int rank,
                        uint64_t now_ns)
{
    char who[128], why[KNOWN_SILENCE_MAX], trouble[COMM_TROUBLE_MAX];
    if (rank < 0 || !known_silence(&comm->health, rank, now_ns, why)) return false;
    const bool is_absent =
        team_shares_host(&comm->team, rank) && call_has_not_begun(comm, request, rank);
    health_name_rank(&comm->health, rank, who, sizeof who);
    remote_trouble(&comm->health, rank, trouble);
    recorder_set_stopped(&comm->health.recorder, request->base.sequence, rank,
                         known_to_be_stopped(&comm->health, rank, now_ns));
    call_fail(comm, &request->base, TUTTI_TIMEOUT, rank, "%s %s%s; deadline of %.3g s%s", who,
              is_absent ? "has not called it, and " : "", why,
              (double)request->call->timeout_ns * 1e-9, trouble);
    return true;
}

/* A rank that is in a call, this one or another, may wait for a third rank there: that rank is to blame. */
static bool fail_chain(struct tutti_comm *comm, const struct call_request *request, int between,
                       uint64_t now_ns)
{
    char who[128], waiting[128];
    struct board_finding finding;
    if (between < 0 || !known_to_be_in_call(&comm->health, between) ||
        !report_find(comm, request, now_ns, &finding) || finding.rank == between ||
        finding.rank == comm->team.rank)
        return false;
    health_name_rank(&comm->health, finding.rank, who, sizeof who);
    health_name_rank(&comm->health, between, waiting, sizeof waiting);
    call_fail(comm, &request->base, TUTTI_TIMEOUT, finding.rank,
              "%s %s, and %s waits for it in %s call; deadline of %.3g s", who,
              finding.is_stopped ? "does not run" : "is late", waiting,
              call_has_not_begun(comm, request, between) ? "another" : "this",
              (double)request->call->timeout_ns * 1e-9);
    return true;
}

static void fail_late(struct tutti_comm *comm, struct call_request *request)
{
    const double seconds = (double)request->call->timeout_ns * 1e-9;
    const uint64_t now_ns = clock_now_ns();
    char who[128], trouble[COMM_TROUBLE_MAX];
    const int r = absentee(comm, request);
    if (fail_silent(comm, request, r, now_ns) || fail_chain(comm, request, r, now_ns)) return;
    if (r >= 0) {
        health_name_rank(&comm->health, r, who, sizeof who);
        remote_trouble(&comm->health, r, trouble);
        call_fail(comm, &request->base, TUTTI_TIMEOUT, r,
                  "%s has not called it; deadline of %.3g s%s", who, seconds, trouble);
        return;
    }
    const int peer = operation_waits_for(&request->operation);
    const int gated = call_rank_at_gate(comm, request, peer);
    if (gated >= 0) {
        health_name_rank(&comm->health, gated, who, sizeof who);
        call_fail(comm, &request->base, TUTTI_TIMEOUT, gated,
                  "%s has called it, and waits for its gate (earlier work of its stream or GPU); "
                  "deadline of %.3g s",
                  who, seconds);
        return;
    }
    if (fail_silent(comm, request, silent_rank(comm, request, peer, now_ns), now_ns) ||
        fail_chain(comm, request, peer, now_ns))
        return;
    if (peer >= 0)
        health_name_rank(&comm->health, peer, who, sizeof who);
    else
        snprintf(who, sizeof who, "its peers");
    remote_trouble(&comm->health, peer, trouble);
    call_fail(comm, &request->base, TUTTI_TIMEOUT, peer,
              "rank %d still waits for %s; deadline of %.3g s%s", comm->team.rank, who, seconds,
              trouble);
}

/* A peer that is through with this call will send no more of it: then it had less to send than this
 * rank waits for. Over TCP what it sent may still lie on its side, where it does not run. */
static bool look_for_shortfalls(struct tutti_comm *comm, struct call_request *request,
                                bool over_network)
{
    const int peer = operation_waits_for(&request->operation);
    if (!request->call->what.varies || peer < 0 ||
        !board_has_ended(known_calls(&comm->health, peer, request->slot), request->begun) ||
        (over_network && health_is_stopped(&comm->health, peer)))
        return false;
    if (operation_run(&request->operation) != RUN_BLOCKED ||
        operation_waits_for(&request->operation) != peer)
        return false;
    fail_short(comm, request, peer);
    return true;
}

/* The rank that a call waits for. A link to all does not tell; any rank that has not begun the call
 * is among them. */
static int whom_it_waits_for(const struct tutti_comm *comm, const struct call_request *request)
{
    const int peer = operation_waits_for(&request->operation);
    return peer >= 0 ? peer : absentee(comm, request);
}

static void fail_device_late(struct tutti_comm *comm, struct call_request *request)
{
    char who[128], why[ERROR_TEXT_MAX];
    const enum tutti_status status = on_device_late(request->call);
    error_copy(why, sizeof why);
    health_name_rank(&comm->health, comm->team.rank, who, sizeof who);
    call_fail(comm, &request->base, status, comm->team.rank, "%s has called it, but %.200s", who,
              why);
}

/* A call waits for its gate, and not for other ranks: only that one of them is gone ends it; or its
 * deadline, if it waits for the device alone; or that its own rank frees the communicator, which
 * has to come to an end. */
static void diagnose_gated(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns)
{
    report_presence(comm, now_ns);
    if (comm->team.size > 1 &&
        (diagnose_deaths(comm, &request->base) || look_for_leavers(comm, request)))
        return;
    if (!request_is_gated(request)) return; /* looking has found it open */
    if (call_waits_for_device(request->call) &&
        now_ns - request->base.started_ns >= request->call->timeout_ns) {
        fail_device_late(comm, request);
        return;
    }
    const uint64_t finish_ns = atomic_load_explicit(&comm->gated.finish_ns, memory_order_relaxed);
    if (finish_ns == 0 || now_ns < finish_ns || now_ns - finish_ns < request->call->timeout_ns)
        return;
    call_fail(comm, &request->base, TUTTI_TIMEOUT, comm->team.rank,
              "rank %d frees the communicator, and it waits for its gate (earlier work of its "
              "stream or GPU); deadline of %.3g s",
              comm->team.rank, (double)request->call->timeout_ns * 1e-9);
}

void diagnose_call(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns)
{
    if (faulted_look(comm, request)) return;
    if (request_is_gated(request)) {
        diagnose_gated(comm, request, now_ns);
        return;
    }
    recorder_wait(&comm->health.recorder, request->base.sequence, whom_it_waits_for(comm, request),
                  request->base.started_ns, now_ns);
    report_presence(comm, now_ns);
    if (diagnose_deaths(comm, &request->base) || look_for_leavers(comm, request)) return;
    const uint64_t waited_ns = now_ns - request->base.started_ns;
    const int peer = operation_waits_for(&request->operation);
    if (waited_ns >= COMPARE_NS && peer >= 0)
        remote_ask(&comm->health, peer, request->slot, request->begun);
    if (waited_ns >= COMPARE_NS || waited_ns >= request->call->timeout_ns)
        for (int r = 0; r < comm->team.size; r++)
            if (compare_with(comm, request, r)) return;
    /* Over TCP what a peer sent may still be on its way when its call is over. */
    const bool over_network = health_has_network(&comm->health);
    const uint64_t late_ns = over_network ? request->call->timeout_ns : COMPARE_NS;
    if (waited_ns >= late_ns && look_for_shortfalls(comm, request, over_network)) return;
    crossing_wait_in_stream(comm, request, now_ns);
    if (crossing_look(comm, request, now_ns)) return;
    if (waited_ns >= request->call->timeout_ns) {
        if (!may_learn_more(comm, request, waited_ns) && !crossing_fail_late(comm, request))
            fail_late(comm, request);
    } else if (waited_ns >= REPORT_NS) {
        report_call(comm, request, now_ns);
    }
}
