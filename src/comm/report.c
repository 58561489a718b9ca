/* report.c - whom a call waits for in the end, said while it still waits.
 *
 *     rank 0 ──waits for──► rank 2 ──waits for──► rank 5, which has not called it       LATE
 *        ▲                    │                   or is stopped                         STALLED
 *        └────its finding─────┘
 *
 * A rank sees on its board, and in the answers of the rank of another host that it waits for, who has not called; in /proc, who is
 * stopped; and by whose kernel answers while he does not, who is so on another host. What it finds it publishes: to its host on the
 * board, to others in its answers. So the finding comes back along the way of the waiting, over connections that are there.
 *
 * One line a host, rank and 10 s. It is never an error: that is the deadline's. Who did not run itself for a while knows only what was
 * so before, and has heard nobody since: it listens first.
 */
#include <stdio.h>

#include "base/log.h"
#include "comm/comm.h"
#include "comm/crossing.h"
#include "comm/deaths.h"
#include "comm/failure.h"
#include "comm/known.h"
#include "comm/remote_rank.h"
#include "comm/report.h"
#include "os/clock.h"

enum { LOOK_APART_NS = 100000000, PAUSE_NS = 500000000, LISTEN_NS = 300000000 };

bool comm_has_not_begun(const struct tutti_comm *comm, const struct call_request *request, int rank)
{
    return known_call(comm, rank, request->slot, request->begun) &&
           board_begun(comm_calls_of(comm, rank, request->slot)) < request->begun;
}

/* A rank that has not called it because it is in another call waits, too: it will find out for whom. */
static bool find_absentee(struct tutti_comm *comm, const struct call_request *request,
                          struct board_finding *finding)
{
    struct board_progress theirs;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || !comm_has_not_begun(comm, request, r)) continue;
        *finding = known_standing(comm, r);
        if (finding->is_stopped || !known_to_be_in_call(comm, r) ||
            crossing_is(comm, request, r, &theirs))
            return true;
    }
    return false;
}

/* One that has called it and does not run; a link to all does not tell who is waited for. */
static bool find_stopped(const struct tutti_comm *comm, const struct call_request *request,
                         int peer, struct board_finding *finding)
{
    for (int i = 0; i < comm_local_size(comm); i++) {
        const int rank = comm_local_rank(comm, i);
        if (rank == comm->rank || (peer >= 0 && rank != peer) ||
            !board_is_engaged(comm_calls_of(comm, rank, request->slot)) ||
            !comm_is_stopped(comm, rank))
            continue;
        *finding = known_standing(comm, rank);
        return true;
    }
    return false;
}

static bool find_hearsay(const struct tutti_comm *comm, const struct call_request *request,
                         int peer, struct board_finding *finding)
{
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        const bool was_told = comm_shares_host(comm, r)
                                  ? board_read_finding(comm->health.board, comm->size, r, finding)
                                  : (r == peer || comm_has_not_begun(comm, request, r)) &&
                                        remote_knows_call(comm, r, request->slot, request->begun) &&
                                        remote_hearsay(comm, r, finding);
        if (was_told && finding->rank != comm->rank) return true;
    }
    return false;
}

static bool find(struct tutti_comm *comm, const struct call_request *request, uint64_t now_ns,
                 struct board_finding *finding)
{
    const int peer = operation_waits_for(&request->operation);
    if (find_absentee(comm, request, finding) || find_stopped(comm, request, peer, finding))
        return true;
    if (peer >= 0 && known_to_be_stopped(comm, peer, request->base.started_ns, now_ns)) {
        *finding = (struct board_finding){.rank = peer};
        if (known_call(comm, peer, request->slot, request->begun))
            *finding = known_standing(comm, peer);
        finding->is_stopped = true;
        return true;
    }
    return find_hearsay(comm, request, peer, finding);
}

/* A rank that called something else instead, in the other form. */
static void say_crossing(const struct tutti_comm *comm, const struct call_request *request,
                         const struct board_progress *theirs, const char *who, const char *what,
                         uint64_t sequence)
{
    char instead[128], at[48] = "";
    crossing_describe(request, theirs, instead, sizeof instead);
    if (sequence > 0) snprintf(at, sizeof at, " and is at #%llu", (unsigned long long)sequence);
    log_write(LOG_WARN, "rank %d: LATE: %s has not called %s #%llu%s, %s%s", comm->rank, who, what,
              (unsigned long long)request->base.sequence,
              request->call.what.started ? "" : " as a blocking call", instead, at);
}

static void say(struct tutti_comm *comm, const struct call_request *request,
                const struct board_finding *finding)
{
    char who[128], what[96], at[48] = "";
    struct board_progress theirs;
    comm_name_rank(comm, finding->rank, who, sizeof who);
    board_describe(&request->call.what, what, sizeof what);
    if (finding->sequence >= request->base.sequence)
        snprintf(at, sizeof at, ", and is in it");
    else if (finding->sequence > 0)
        snprintf(at, sizeof at, ", it is at #%llu", (unsigned long long)finding->sequence);
    if (!finding->is_stopped && crossing_is(comm, request, finding->rank, &theirs))
        say_crossing(comm, request, &theirs, who, what, finding->sequence);
    else if (finding->is_stopped)
        log_write(LOG_WARN, "rank %d: STALLED: %s does not run, and %s #%llu waits for it%s",
                  comm->rank, who, what, (unsigned long long)request->base.sequence, at);
    else
        log_write(LOG_WARN, "rank %d: LATE: %s has not called %s #%llu%s", comm->rank, who, what,
                  (unsigned long long)request->base.sequence, at);
}

void comm_end_report(struct tutti_comm *comm, const struct call_request *request)
{
    struct comm_report *report = &comm->health.report;
    if (request != NULL && report->request != request) return;
    report->is_open = false;
    if (board_has_failed(comm->health.board)) return;
    char who[128];
    comm_name_rank(comm, report->rank, who, sizeof who);
    log_write(LOG_WARN, "rank %d: %s goes on, %.1f s after it was waited for", comm->rank, who,
              (double)(clock_now_ns() - report->since_ns) * 1e-9);
}

void comm_report_presence(struct tutti_comm *comm, uint64_t now_ns)
{
    struct comm_report *report = &comm->health.report;
    if (now_ns - report->present_ns > PAUSE_NS) report->listens_until_ns = now_ns + LISTEN_NS;
    report->present_ns = now_ns;
}

void comm_report(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns)
{
    struct comm_report *report = &comm->health.report;
    struct board_finding finding;
    if (now_ns < report->listens_until_ns || now_ns - report->looked_ns < LOOK_APART_NS) return;
    report->looked_ns = now_ns;
    if (!find(comm, request, now_ns, &finding)) return;
    board_set_finding(comm->health.board, comm->rank, request->slot, request->begun, &finding);
    if (report->is_open && (report->rank != finding.rank || report->request != request))
        comm_end_report(comm, NULL);
    if (report->is_open || !board_may_report(comm->health.board, finding.rank, now_ns)) return;
    report->is_open = true;
    report->rank = finding.rank;
    report->request = request;
    report->since_ns = request->base.started_ns;
    say(comm, request, &finding);
}
