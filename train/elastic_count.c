/* elastic_count.c - the accounts of an elastic loop. */
#include <inttypes.h>
#include <stdio.h>

#include "base/sized.h"
#include "elastic_save.h"
#include "elastic_state.h"
#include "os/clock.h"

static struct tutti_elastic_counters count(const struct tutti_elastic *e)
{
    const struct elastic_progress *const p = &e->progress;
    const uint64_t now_ns = clock_now_ns();
    struct tutti_elastic_counters counters = {.size_bytes = sizeof counters,
                                              .steps = p->step,
                                              .samples = p->samples,
                                              .repeated = p->repeated,
                                              .undone = p->undone,
                                              .failures = p->failures,
                                              .replaced = p->replaced,
                                              .teams = p->teams,
                                              .checkpoints = p->checkpoints,
                                              .elapsed_ns =
                                                  p->elapsed_ns + (now_ns - e->counted_from_ns),
                                              .productive_ns = p->productive_ns,
                                              .checkpoint_ns = p->checkpoint_ns,
                                              .write_ns = p->write_ns,
                                              .outage_ns = p->outage_ns,
                                              .outage_max_ns = p->outage_max_ns,
                                              .received_bytes = e->received_bytes};
    if (e->last_step_counts) counters.productive_ns += now_ns - e->step_began_ns;
    if (e->checkpoints != NULL) counters.interval_ns = elastic_save_interval_ns(e, now_ns);
    return counters;
}

enum tutti_status tutti_elastic_count(const struct tutti_elastic *e,
                                      struct tutti_elastic_counters *counters)
{
    TRY(SIZED_CHECK_RESULT("tutti_elastic_count: counters", tutti_elastic_counters, counters));
    const struct tutti_elastic_counters own = count(e);
    SIZED_WRITE(tutti_elastic_counters, counters, counters->size_bytes, &own);
    return TUTTI_OK;
}

enum tutti_status tutti_elastic_report(const struct tutti_elastic *e, char *text, size_t text_bytes)
{
    const struct tutti_elastic_counters c = count(e);
    const double elapsed_s = (double)c.elapsed_ns / 1e9,
                 productive_s = (double)c.productive_ns / 1e9;
    if (text == NULL || text_bytes == 0)
        return error_set(TUTTI_INVALID_BUFFER, "tutti_elastic_report: there is no room for text");
    snprintf(text, text_bytes,
             "%" PRIu64 " steps, %" PRIu64 " samples in %.1f s; steps done again: %" PRIu64
             ", undone: %" PRIu64 "\n"
             "ranks died: %" PRIu64 ", processes joined: %" PRIu64 ", teams: %" PRIu64
             "; longest outage %.3f s\n"
             "checkpoints: %" PRIu64 ", which held up steps for %.1f s\n"
             "goodput %.1f samples/s, ETTR %.4f\n",
             c.steps, c.samples, elapsed_s, c.repeated, c.undone, c.failures, c.replaced, c.teams,
             (double)c.outage_max_ns / 1e9, c.checkpoints, (double)c.checkpoint_ns / 1e9,
             elapsed_s > 0 ? (double)c.samples / elapsed_s : 0,
             elapsed_s > 0 ? productive_s / elapsed_s : 0);
    return TUTTI_OK;
}
