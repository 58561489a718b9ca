#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/loaded.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/file.h"
#include "plan/text.h"
#include "studio/foreign/nccl_xml.h"
#include "studio/synth/bound.h"
#include "studio/topo/topo_json.h"
#include "watch.h"

static void print_note(const char *note, void *file_name)
{
    fprintf(stderr, "tutti-synth: %s: %s\n", (const char *)file_name, note);
}

static enum tutti_status read_text(const char *text, size_t size, const char *name,
                                   struct topo *topo)
{
    switch (text[strspn(text, " \t\r\n")]) {
    case '{': return topo_json_load(text, size, topo);
    case '<': return nccl_xml_load(text, size, topo, print_note, (void *)(uintptr_t)name);
    default:
        return error_set(TUTTI_INVALID_OPTIONS,
                         "neither JSON nor XML of NCCL (a file of racks says nothing of links)");
    }
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

/* Refuses an output that would overwrite the topology, and a root that is not one of its ranks. */
static enum tutti_status check(const struct options *options, const struct job *job)
{
    struct stat topology, output;
    if (options->output != NULL && stat(options->topology, &topology) == 0 &&
        stat(options->output, &output) == 0 && topology.st_dev == output.st_dev &&
        topology.st_ino == output.st_ino)
        return error_set(TUTTI_INVALID_OPTIONS, "the plan would overwrite it");
    if (collective_is_rooted(options->collective) && options->root >= job->graph.rank_count)
        return error_set(TUTTI_INVALID_ROOT, "there is no root %d of %d ranks", options->root,
                         job->graph.rank_count);
    return TUTTI_OK;
}

/* Before work that may take minutes. */
static void note_ranks(int rank_count)
{
    if (rank_count > LOADED_RANKS_MAX)
        fprintf(stderr,
                "tutti-synth: jobs take plans of at most %d ranks, and this one will be for %d\n",
                LOADED_RANKS_MAX, rank_count);
}

static enum tutti_status begin(const struct options *options, struct job *job)
{
    struct topo topo = {0};
    enum tutti_status status = read_topology(options->topology, &topo);
    if (status == TUTTI_OK) status = synth_graph_from_topo(&topo, &job->graph, &job->notes);
    topo_release(&topo);
    if (status == TUTTI_OK) status = check(options, job);
    if (status == TUTTI_OK && options->output != NULL) note_ranks(job->graph.rank_count);
    return status;
}

static void watch_over(const struct job *job)
{
    watch_start(job_left_ns(job) + WATCH_GRACE_S * UINT64_C(1000000000));
}

enum tutti_status job_open(const struct options *options, struct job *job)
{
    char message[ERROR_TEXT_MAX];
    const uint64_t time_ns = (uint64_t)(options->seconds * 1e9);
    *job = (struct job){.options = options,
                        .shows = isatty(STDERR_FILENO) == 1,
                        .deadline_ns = clock_now_ns() + time_ns};
    watch_over(job);
    const enum tutti_status status = begin(options, job);
    if (status == TUTTI_OK) return TUTTI_OK;
    error_copy(message, sizeof message);
    return error_set(status, "%.200s: %s", options->topology, message);
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
    printf("%s of %d ranks", collective_name(job->options->collective), job->graph.rank_count);
    if (job->notes.switch_count > 0) printf(" and %d switches or cards", job->notes.switch_count);
    printf(", unit %.6g GB/s\n", job->graph.bytes_per_second * 1e-9);
    if (job->notes.rounded_most > 0)
        printf("capacities are rounded, by %.2g%% at most\n", 100 * job->notes.rounded_most);
    if (job->notes.assumed_count > 0)
        printf("no link joins %d part%s to the rest of their machine, which is taken to limit "
               "nothing\n",
               job->notes.assumed_count, job->notes.assumed_count > 1 ? "s" : "");
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

static bool is_replaceable(const char *name)
{
    struct stat file;
    return stat(name, &file) != 0 || S_ISREG(file.st_mode);
}

/* A device or a pipe. */
static enum tutti_status write_into(const char *name, const char *text, size_t size)
{
    FILE *file = fopen(name, "we");
    if (file == NULL) return error_system("writing %.200s", name);
    const bool written = fwrite(text, 1, size, file) == size;
    if (fclose(file) == 0 && written) return TUTTI_OK;
    return error_system("writing %.200s", name);
}

/* A replacement that has begun is done to its end. */
static enum tutti_status write_whole(const struct job *job, const char *name, const char *text,
                                     size_t size)
{
    if (!is_replaceable(name)) return write_into(name, text, size);
    watch_stop();
    const enum tutti_status status = file_replace(name, text, size);
    watch_over(job);
    return status;
}

static void note_steps(const struct plan *plan)
{
    uint64_t steps = 0;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        steps += plan->ranks[rank]->step_count;
    if (steps > LOADED_STEPS_MAX)
        fprintf(stderr,
                "tutti-synth: jobs take plans of at most %d steps, and this one has %" PRIu64 "\n",
                LOADED_STEPS_MAX, steps);
}

enum tutti_status job_write(const struct job *job, const char *name, const struct plan *plan)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&text, &size);
    if (file == NULL) return error_set(TUTTI_NO_MEMORY, "the text of the plan");
    job_show(job, "writing the plan");
    plan_print(plan, file);
    const bool is_whole = !ferror(file);
    enum tutti_status status = TUTTI_OK;
    if (fclose(file) != 0 || !is_whole)
        status = error_set(TUTTI_NO_MEMORY, "the text of the plan");
    else
        status = write_whole(job, name, text, size);
    free(text);
    job_show(job, NULL);
    if (status == TUTTI_OK) note_steps(plan);
    return status;
}
