#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "server/serve_state.h"

static void answer(struct serve *serve, int worker, bool has_changed, const char *why)
{
    if (has_changed)
        serve_answer_tick(serve, worker);
    else
        serve_answer_tick_failure(serve, worker, TUTTI_MISMATCH, why);
}

enum tutti_status serve_take_change(struct serve *serve, int worker)
{
    const struct server_request *const request = &serve->workers[worker].request;
    const struct worker_clock_rule rule = {request->number, (int)request->left_count};
    switch (worker_clock_wish(&serve->clock, worker, request->clock, &rule)) {
    case WORKER_CLOCK_NEW: break;
    case WORKER_CLOCK_KNOWN:
        answer(serve, worker, worker_clock_has_changed(&serve->clock, request->clock),
               "other workers asked for different modes");
        break;
    case WORKER_CLOCK_REFUSED:
        return error_set(TUTTI_MISMATCH, "it asks for change %" PRIu64 " of the mode out of turn",
                         request->clock);
    }
    return TUTTI_OK;
}

static void describe(const struct worker_clock_rule *rule, char *text, size_t bytes)
{
    if (rule->quorum > 0)
        snprintf(text, bytes, "a quorum of %d", rule->quorum);
    else if (rule->staleness == WORKER_CLOCK_UNBOUNDED)
        snprintf(text, bytes, "asynchronous");
    else if (rule->staleness == 0)
        snprintf(text, bytes, "synchronous");
    else
        snprintf(text, bytes, "bounded by %" PRIu64 " clocks", rule->staleness);
}

static void answer_all(struct serve *serve, bool has_changed, const char *why)
{
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        if (!serve->workers[i].asks) continue;
        serve->workers[i].asks = false;
        answer(serve, i, has_changed, why);
    }
}

void serve_change_mode(struct serve *serve)
{
    const int *const ranks = serve->config.worker_ranks;
    int differing[2];
    char one[64], other[64], why[200];
    switch (worker_clock_change(&serve->clock, differing)) {
    case WORKER_CLOCK_STAYS: return;
    case WORKER_CLOCK_AGREES:
        describe(&serve->clock.rule, one, sizeof one);
        log_write(LOG_INFO, "rank %d: parameter server: behind step %" PRIu64 " the mode is %s",
                  serve->config.rank, serve->steps, one);
        answer_all(serve, true, NULL);
        return;
    case WORKER_CLOCK_DIFFERS:
        describe(&serve->clock.workers[differing[0]].wish, one, sizeof one);
        describe(&serve->clock.workers[differing[1]].wish, other, sizeof other);
        snprintf(why, sizeof why, "rank %d asks for the mode %s, and rank %d for %s",
                 ranks[differing[0]], one, ranks[differing[1]], other);
        answer_all(serve, false, why);
        return;
    }
}
