#include "tutti-synth_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "format/nccl_xml.h"
#include "format/topo_json.h"
#include "os/clock.h"
#include "os/file.h"
#include "plan/text.h"
#include "synth/bound.h"

static void print_note(const char *note, void *file_name)
{
    fprintf(stderr, "tutti-synth: %s: %s\n", (const char *)file_name, note);
}

static enum tutti_status read_text(const char *text, size_t size, const char *name,
                                   struct topo *topo)
{
    if (text[strspn(text, " \t\r\n")] != '<') return topo_json_load(text, size, topo);
    return nccl_xml_load(text, size, topo, print_note, (void *)(uintptr_t)name);
}

static enum tutti_status read_topology(const char *name, struct topo *topo)
{
    size_t size = 0;
    FILE *file = fopen(name, "rbe");
    char *text = file != NULL ? file_read_all(file, TOPO_JSON_BYTES_MAX, &size) : NULL;
    enum tutti_status status = text != NULL ? read_text(text, size, name, topo)
                                            : error_set(TUTTI_SYSTEM, "%s", strerror(errno));
    free(text);
    if (file != NULL) fclose(file);
    return status;
}

enum tutti_status job_open(const struct options *options, struct job *job)
{
    struct topo topo = {0};
    *job = (struct job){.options = options,
                        .shows = isatty(STDERR_FILENO) == 1,
                        .deadline_ns = clock_now_ns() + (uint64_t)(options->seconds * 1e9)};
    enum tutti_status status = read_topology(options->topology, &topo);
    if (status == TUTTI_OK) status = synth_graph_from_topo(&topo, &job->graph, &job->notes);
    topo_release(&topo);
    return status;
}

void job_close(struct job *job)
{
    synth_graph_release(&job->graph);
}

uint64_t job_left_ns(const struct job *job)
{
    const uint64_t now = clock_now_ns();
    return now < job->deadline_ns ? job->deadline_ns - now : 0;
}

void job_show(const struct job *job, const char *stage)
{
    if (!job->shows) return;
    fputs("\r\033[K", stderr);
    if (stage != NULL) fprintf(stderr, "tutti-synth: %s", stage);
}

void job_print_graph(const struct job *job)
{
    printf("%s of %d ranks over %d switches, unit %.6g GB/s\n",
           collective_name(job->options->collective), job->graph.rank_count,
           job->notes.switch_count, job->graph.bytes_per_second * 1e-9);
    if (job->notes.rounded_most > 0)
        printf("capacities are rounded, by %.2g%% at most\n", 100 * job->notes.rounded_most);
    if (job->notes.assumed_count > 0)
        printf("%d joined to machines that do not say how: taken to limit nothing\n",
               job->notes.assumed_count);
}

enum tutti_status job_bound(const struct job *job, enum collective collective, bool *known,
                            struct synth_ratio *bound)
{
    const bool goes_up = collective_reduces(collective);
    const int root = collective_is_rooted(collective) ? job->options->root : SYNTH_EVERY_RANK;
    struct synth_graph reversed = {0};
    struct synth_bound found;
    switch (collective) {
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE: *known = true; break;
    default: *known = false; return TUTTI_OK;
    }
    if (goes_up) TRY(synth_graph_reverse(&job->graph, &reversed));
    const enum tutti_status status =
        synth_bound_find(goes_up ? &reversed : &job->graph, root, job->deadline_ns, &found);
    if (status == TUTTI_OK) {
        *bound = found.ratio;
        synth_bound_release(&found);
    }
    synth_graph_release(&reversed);
    return status;
}

enum tutti_status job_write(const struct job *job, const char *name, const struct plan *plan)
{
    if (job_left_ns(job) == 0)
        return error_set(TUTTI_TIMEOUT, "the time is over before the plan is proven");
    FILE *file = fopen(name, "we");
    if (file == NULL) return error_set(TUTTI_SYSTEM, "%.200s: %s", name, strerror(errno));
    plan_print(plan, file);
    const bool written = fflush(file) == 0 && !ferror(file);
    if (fclose(file) == 0 && written) return TUTTI_OK;
    return error_set(TUTTI_SYSTEM, "%.200s: %s", name, strerror(errno));
}
