/* report.c - whom a call waits for in the end, said while it still waits.
 *
 *     rank 0 ──waits for──► rank 2 ──waits for──► rank 5, which has not called it,      LATE
 *        ▲                    │                   or waits for its gate,
 *        │                    │                   or is stopped                         STALLED
 *        └────its finding─────┘
 *
 * A rank sees on its board, and in the answers of the rank of another host that it waits for, who
 * has not called; in /proc, who is stopped; and by whose kernel answers while he does not, who is
 * so on another host. What it finds it publishes: to its host on the board, to others in its
 * answers. So the finding comes back along the path of the waiting, over connections that are
 * there.
 *
 * One line a host, rank and 10 s. It is never an error: that is the deadline's. Who did not run
 * itself for a while knows only what was so before, and has heard nobody since: it listens first.
 */
#include <stdio.h>

#include "base/log.h"
#include "call/communicator.h"
#include "call/crossing.h"
#include "call/report.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "health/known.h"
#include "health/remote_rank.h"
#include "os/clock.h"

enum { LOOK_APART_NS = 100000000, PAUSE_NS = 500000000, LISTEN_NS = 300000000 };

bool call_has_not_begun(const struct tutti_comm *comm, const struct call_request *request, int rank)
{
    return known_call(&comm->health, rank, request->slot, request->begun) &&
           board_begun(known_calls(&comm->health, rank, request->slot)) < request->begun;
}

static bool is_at_gate(const struct tutti_comm *comm, const struct call_request *request, int rank)
{
    return board_is_gated(known_calls(&comm->health, rank, request->slot), request->begun);
}

int call_rank_at_gate(const struct tutti_comm *comm, const struct call_request *request, int peer)
{
    if (peer >= 0 && is_at_gate(comm, request, peer)) return peer;
    /* Only the ranks of this host: an answer of a rank elsewhere may be out of date, unless it is
     * asked again, as `peer` is. */
    for (int i = 0; i < team_local_size(&comm->team); i++) {
        const int rank = team_local_rank(&comm->team, i);
        if (rank != comm->team.rank && is_at_gate(comm, request, rank)) return rank;
    }
    return -1;
}

/* A rank that has not made this call because it is in another call waits, too: it will find out for
 * which rank. */
static bool find_absentee(struct tutti_comm *comm, const struct call_request *request,
                          struct board_finding *finding)
{
    struct board_progress theirs;
    for (int r = 0; r < comm->team.size; r++) {
        if (r == comm->team.rank || !call_has_not_begun(comm, request, r)) continue;
        *finding = known_standing(&comm->health, r);
        if (finding->is_stopped || !known_to_be_in_call(&comm->health, r) ||
            crossing_is(comm, request, r, &theirs))
            return true;
    }
    return false;
}

/* Finds a rank that has made the call and does not run. A link to all does not tell which rank is
 * waited for. */
static bool find_stopped(const struct tutti_comm *comm, const struct call_request *request,
                         int peer, struct board_finding *finding)
{
    for (int i = 0; i < team_local_size(&comm->team); i++) {
        const int rank = team_local_rank(&comm->team, i);
        if (rank == comm->team.rank || (peer >= 0 && rank != peer) ||
            !board_is_engaged(known_calls(&comm->health, rank, request->slot)) ||
            !health_is_stopped(&comm->health, rank))
            continue;
        *finding = known_standing(&comm->health, rank);
        return true;
    }
    return false;
}

static bool find_hearsay(const struct tutti_comm *comm, const struct call_request *request,
                         int peer, struct board_finding *finding)
{
    for (int r = 0; r < comm->team.size; r++) {
        if (r == comm->team.rank) continue;
        const bool was_told =
            team_shares_host(&comm->team, r)
                ? board_read_finding(comm->health.board, comm->health.board_size,
                                     team_local_number(&comm->team, r), comm->team.size, finding)
                : (r == peer || call_has_not_begun(comm, request, r)) &&
                      remote_knows_call(&comm->health, r, request->slot, request->begun) &&
                      remote_hearsay(&comm->health, r, finding);
        if (was_told && finding->rank != comm->team.rank) return true;
    }
    return false;
}

bool report_find(struct tutti_comm *comm, const struct call_request *request, uint64_t now_ns,
                 struct board_finding *finding)
{
    const int peer = operation_waits_for(&request->operation);
    if (find_absentee(comm, request, finding) || find_stopped(comm, request, peer, finding))
        return true;
    if (peer >= 0 && known_to_be_stopped(&comm->health, peer, now_ns)) {
        *finding = (struct board_finding){.rank = peer};
        if (known_call(&comm->health, peer, request->slot, request->begun))
            *finding = known_standing(&comm->health, peer);
        finding->is_stopped = true;
        return true;
    }
    const int gated = call_rank_at_gate(comm, request, peer);
    if (gated < 0) return find_hearsay(comm, request, peer, finding);
    *finding = known_standing(&comm->health, gated);
    return true;
}

/* A rank that called something else instead, in the other form. */
static void say_crossing(const struct tutti_comm *comm, const struct call_request *request,
                         const struct board_progress *theirs, const char *who, const char *what,
                         uint64_t sequence)
{
    char instead[128], at[48] = "";
    crossing_describe(request, theirs, instead, sizeof instead);
    if (sequence > 0) snprintf(at, sizeof at, " and is at #%llu", (unsigned long long)sequence);
    log_write(LOG_WARN, "rank %d: LATE: %s has not called %s #%llu%s, %s%s", comm->team.rank, who,
              what, (unsigned long long)request->base.sequence,
              request->call->what.started ? "" : " as a blocking call", instead, at);
}

static void say(struct tutti_comm *comm, const struct call_request *request,
                const struct board_finding *finding)
{
    char who[128], what[96], at[48] = "";
    struct board_progress theirs;
    health_name_rank(&comm->health, finding->rank, who, sizeof who);
    board_describe(&request->call->what, what, sizeof what);
    if (finding->sequence >= request->base.sequence)
        snprintf(at, sizeof at, ", and is in it");
    else if (finding->sequence > 0)
        snprintf(at, sizeof at, ", it is at #%llu", (unsigned long long)finding->sequence);
    if (!finding->is_stopped && crossing_is(comm, request, finding->rank, &theirs))
        say_crossing(comm, request, &theirs, who, what, finding->sequence);
    else if (finding->is_stopped)
        log_write(LOG_WARN, "rank %d: STALLED: %s does not run, and %s #%llu waits for it%s",
                  comm->team.rank, who, what, (unsigned long long)request->base.sequence, at);
    else if (is_at_gate(comm, request, finding->rank))
        log_write(
            LOG_WARN,
            "rank %d: LATE: %s has called %s #%llu, and waits for its gate (earlier work of its "
            "stream or GPU)",
            comm->team.rank, who, what, (unsigned long long)request->base.sequence);
    else if (finding->sequence >= request->base.sequence) /* as ranks of another host say */
        log_write(LOG_WARN, "rank %d: LATE: %s has called %s #%llu, and does not go on",
                  comm->team.rank, who, what, (unsigned long long)request->base.sequence);
    else
        log_write(LOG_WARN, "rank %d: LATE: %s has not called %s #%llu%s", comm->team.rank, who,
                  what, (unsigned long long)request->base.sequence, at);
}

void report_call_end(struct tutti_comm *comm, const struct call_request *request)
{
    struct report_call *report = &comm->calls.report;
    if (request != NULL && report->request != request) return;
    report->is_open = false;
    if (board_has_failed(comm->health.board)) return;
    char who[128];
    health_name_rank(&comm->health, report->rank, who, sizeof who);
    log_write(LOG_WARN, "rank %d: %s goes on, %.1f s after it was waited for", comm->team.rank, who,
              (double)(clock_now_ns() - report->since_ns) * 1e-9);
}

void report_presence(struct tutti_comm *comm, uint64_t now_ns)
{
    struct report_call *report = &comm->calls.report;
    if (now_ns - report->present_ns > PAUSE_NS) report->listens_until_ns = now_ns + LISTEN_NS;
    report->present_ns = now_ns;
}

void report_call(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns)
{
    struct report_call *report = &comm->calls.report;
    struct board_finding finding;
    if (now_ns < report->listens_until_ns || now_ns - report->looked_ns < LOOK_APART_NS) return;
    report->looked_ns = now_ns;
    const bool is_found = report_find(comm, request, now_ns, &finding);
    const int whom = is_found ? finding.rank : operation_waits_for(&request->operation);
    recorder_set_stopped(&comm->health.recorder, request->base.sequence, whom,
                         is_found && finding.is_stopped);
    if (!is_found) return;
    board_set_finding(comm->health.board, comm->health.board_number, request->slot, request->begun,
                      &finding);
    if (report->is_open && (report->rank != finding.rank || report->request != request))
        report_call_end(comm, NULL);
    if (report->is_open ||
        !board_claim_report(comm->health.board, comm->health.board_size, finding.rank, now_ns))
        return;
    report->is_open = true;
    report->rank = finding.rank;
    report->request = request;
    report->since_ns = request->base.started_ns;
    say(comm, request, &finding);
}
