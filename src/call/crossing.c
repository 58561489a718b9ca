#include "call/crossing.h"

#include "health/failure.h"
#include "health/known.h"
#include "health/remote_rank.h"

#include <stdio.h>

#include "os/clock.h"

enum {
    WAIT_NS = 200000000,   /* for a started call, until others are told */
    LOOK_NS = 500000000,   /* in a blocking call, until it is looked for */
    STABLE_NS = 500000000, /* two ranks wait for each other so long before it is their end */
    FRESH_NS =
        250000000, /* what other hosts say counts from then on, and is the same for all who ask */
    ANSWER_NS = 800000000, /* so long they may take to say it */
    OTHERS_NS = 500000000, /* before a rank that is not of the pair speaks for it */
};

static bool is_blocking(const struct call_request *request)
{
    return request->slot == 0;
}

bool crossing_is(struct tutti_comm *comm, const struct call_request *request, int rank,
                 struct board_progress *theirs)
{
    struct board_progress own;
    if (rank == comm->team.rank || !known_progress(&comm->health, comm->team.rank, &own) ||
        !known_progress(&comm->health, rank, theirs))
        return false;
    return is_blocking(request)
               ? board_progress_crosses(&own, theirs)
               : theirs->started < request->number && board_progress_crosses(theirs, &own);
}

int crossing_find(struct tutti_comm *comm, const struct call_request *request)
{
    struct board_progress theirs;
    for (int r = 0; r < comm->team.size; r++)
        if (crossing_is(comm, request, r, &theirs)) return r;
    return -1;
}

/* ------------------------------------------------------------------------------------ saying it */

/* It says "started" itself. */
static void describe_plainly(const struct call_description *what, char *text, size_t text_bytes)
{
    struct call_description plain = *what;
    plain.started = false;
    board_describe(&plain, text, text_bytes);
}

void crossing_describe(const struct call_request *request, const struct board_progress *theirs,
                       char *text, size_t text_bytes)
{
    const bool blocks = is_blocking(request);
    char what[96] = "others";
    if (blocks ? theirs->knows_started : theirs->knows_blocking)
        describe_plainly(blocks ? &theirs->started_what : &theirs->blocking_what, what, sizeof what);
    snprintf(text, text_bytes, blocks ? "it started %s" : "it made %s as a blocking call", what);
}

/* -------------------------------------------------------------------------------- the end of it */

/* Two ranks of which neither can go on. */
struct pair {
    int blocking, started;
    struct board_progress waits; /* of the second */
};

/* Whether a rank is in that blocking call, which another rank has not made, and the other rank
 * waits for a started call that the first has not made. */
static bool wait_for_each_other(uint64_t number, const struct board_progress *blocking,
                                const struct board_progress *started)
{
    return blocking->is_blocked && blocking->blocking == number && started->blocking < number &&
           started->awaited > blocking->started;
}

/* The lowest pair that is known, of ranks in this call and others. */
static bool find_pair(struct tutti_comm *comm, const struct call_request *request, struct pair *pair)
{
    struct board_progress blocking;
    for (pair->started = 0; pair->started < comm->team.size; pair->started++) {
        if (!known_progress(&comm->health, pair->started, &pair->waits) || pair->waits.awaited == 0)
            continue;
        for (pair->blocking = 0; pair->blocking < comm->team.size; pair->blocking++)
            if (pair->blocking != pair->started &&
                known_progress(&comm->health, pair->blocking, &blocking) &&
                wait_for_each_other(request->begun, &blocking, &pair->waits))
                return true;
    }
    return false;
}

static void fail(struct tutti_comm *comm, const struct call_request *request,
                 const struct pair *pair)
{
    char caller[128], starter[128], what[96];
    health_name_rank(&comm->health, pair->blocking, caller, sizeof caller);
    health_name_rank(&comm->health, pair->started, starter, sizeof starter);
    describe_plainly(&pair->waits.started_what, what, sizeof what);
    call_fail(comm, &request->base, TUTTI_MISMATCH, pair->started,
              "%s blocks in it, %s started %s #%llu: blocking calls meet only blocking ones",
              caller, starter, what, (unsigned long long)pair->waits.sequence);
}

/* Whether other hosts have yet to say how far their ranks are. */
static bool may_learn_more(struct tutti_comm *comm, const struct call_request *request,
                           uint64_t now_ns)
{
    bool knows_all = true;
    for (int at = 0, r; (r = team_next_remote(&comm->team, &at)) >= 0;) {
        if (remote_progress_heard_ns(&comm->health, r) >= request->crossed_ns + FRESH_NS) continue;
        knows_all = false;
        remote_ask(&comm->health, r, request->slot, request->begun);
    }
    return !knows_all && now_ns - request->crossed_ns < ANSWER_NS;
}

bool crossing_look(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns)
{
    struct pair pair;
    if (!is_blocking(request) || now_ns - request->base.started_ns < LOOK_NS) return false;
    if (!find_pair(comm, request, &pair)) {
        request->crossed_ns = 0;
        return false;
    }
    if (request->crossed_ns == 0) request->crossed_ns = now_ns;
    /* Two hosts of which one knows less than the other would name different pairs if both spoke at
     * once. */
    const uint64_t wait_ns = STABLE_NS + (pair.blocking == comm->team.rank ? 0 : OTHERS_NS);
    if (may_learn_more(comm, request, now_ns) || now_ns - request->crossed_ns < wait_ns)
        return false;
    fail(comm, request, &pair);
    return true;
}

bool crossing_fail_late(struct tutti_comm *comm, const struct call_request *request)
{
    struct board_progress theirs;
    char who[128], what[128];
    const int rank = crossing_find(comm, request);
    if (rank < 0 || !crossing_is(comm, request, rank, &theirs)) return false;
    health_name_rank(&comm->health, rank, who, sizeof who);
    crossing_describe(request, &theirs, what, sizeof what);
    call_fail(comm, &request->base, TUTTI_MISMATCH, rank, "%s has not %s, %s", who,
              is_blocking(request) ? "called it as a blocking call" : "started it", what);
    return true;
}

/* -------------------------------------------------------------------------------------- waiting */

/* Without what another thread, which has the domain, may be writing: call_begin. */
static struct call_description described_at_start(const struct call_request *request)
{
    const struct call_description *const what = &request->call->what;
    return (struct call_description){.collective = what->collective,
                                     .dtype = what->dtype,
                                     .op = what->op,
                                     .root = what->root,
                                     .count = what->count,
                                     .started = what->started,
                                     .varies = what->varies,
                                     .purpose = what->purpose};
}

void crossing_wait(struct tutti_comm *comm, const struct tutti_request *waited,
                   struct crossing_wait *wait)
{
    if (waited->is_message || wait->is_told) return;
    const struct call_request *const request = request_call_const(waited);
    if (request->number == 0) return;
    const uint64_t now_ns = clock_now_ns();
    if (wait->since_ns == 0) wait->since_ns = now_ns;
    if (now_ns - wait->since_ns < WAIT_NS) return;
    const struct call_description what = described_at_start(request);
    board_set_awaited(comm->health.board, comm->health.board_number, request->number,
                      request->base.sequence, &what);
    wait->is_told = true;
}

void crossing_end_wait(struct tutti_comm *comm, const struct crossing_wait *wait)
{
    static const struct call_description nothing;
    if (wait->is_told)
        board_set_awaited(comm->health.board, comm->health.board_number, 0, 0, &nothing);
}

void crossing_wait_in_stream(struct tutti_comm *comm, struct call_request *request, uint64_t now_ns)
{
    struct board_progress own;
    if (request->call->extra == NULL || !request->call->extra->on_stream || is_blocking(request) ||
        request->crossed_ns != 0 || now_ns - request->base.started_ns < WAIT_NS ||
        !known_progress(&comm->health, comm->team.rank, &own) || own.awaited != 0)
        return;
    board_set_awaited(comm->health.board, comm->health.board_number, request->number,
                      request->base.sequence, &request->call->what);
    request->crossed_ns = now_ns;
}

void crossing_end_in_stream(struct tutti_comm *comm, const struct call_request *request)
{
    static const struct call_description nothing;
    if (!is_blocking(request) && request->crossed_ns != 0)
        board_set_awaited(comm->health.board, comm->health.board_number, 0, 0, &nothing);
}
