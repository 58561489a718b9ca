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
    bool *const asks_late = &serve->workers[worker].asks_late;
    *asks_late = false;
    const struct worker_clock_rule rule = {request->number, (int)request->left_count};
    switch (step_leader_wish(&serve->leader, worker, request->clock, &rule)) {
    case WORKER_CLOCK_NEW: break;
    case WORKER_CLOCK_KNOWN:
        *asks_late = true;
        answer(serve, worker, worker_clock_has_changed(&serve->leader.clock, request->clock),
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

/* A worker's wish, if that has come here. */
static void describe_wish(const struct serve *serve, uint64_t worker, uint64_t round, char *text,
                          size_t bytes)
{
    const struct serve_worker *const of = &serve->workers[worker];
    if (of->asks && of->asks_round == round)
        describe(&serve->leader.clock.workers[worker].wish, text, bytes);
    else
        snprintf(text, bytes, "another mode");
}

static void describe_difference(const struct serve *serve, const struct step_entry *entry,
                                char *text, size_t bytes)
{
    const int *const ranks = serve->config.worker_ranks;
    char one[64], other[64];
    describe_wish(serve, entry->number, entry->round, one, sizeof one);
    describe_wish(serve, entry->left_count, entry->round, other, sizeof other);
    snprintf(text, bytes, "rank %d asks for the mode %s, and rank %d for %s", ranks[entry->number],
             one, ranks[entry->left_count], other);
}

void serve_end_round(struct serve *serve, const struct step_entry *entry)
{
    const bool has_changed = entry->kind == STEP_CHANGED;
    char text[200];
    if (has_changed) {
        describe(&serve->leader.clock.rule, text, sizeof text);
        log_write(LOG_INFO, "rank %d: parameter server: behind step %" PRIu64 " the mode is %s",
                  serve->config.rank, serve->steps, text);
    } else {
        describe_difference(serve, entry, text, sizeof text);
    }
    for (int i = 0; i < serve->config.division->worker_count; i++) {
        struct serve_worker *const of = &serve->workers[i];
        if (!of->asks || of->asks_round != entry->round) continue;
        answer(serve, i, has_changed, text);
    }
    for (int i = 0; i < serve->config.division->worker_count; i++)
        serve->workers[i].asks &= serve->workers[i].asks_round != entry->round;
}
