/* tutti-synth - makes a plan for a collective from a topology, by packing spanning trees. */
#include <errno.h>
#include <inttypes.h>
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
#include "plan/verify.h"
#include "synth/forest.h"
#include "synth/from_topo.h"
#include "synth/lay.h"
#include "tutti-synth_options.h"

/* What is made on the way. */
struct work {
    const struct options *options;
    bool shows; /* somebody watches */
    uint64_t deadline_ns;
    struct topo topo;
    struct synth_graph graph, turned;
    struct from_topo_notes notes;
    struct forest down, up; /* of the graph, of the graph turned around; empty where not needed */
    bool is_up_own;         /* otherwise what goes up takes the trees that go down */
};

static void show(const struct work *work, const char *stage)
{
    if (work->shows) fprintf(stderr, "\r\033[Ktutti-synth: %s", stage);
}

/* --------------------------------------------------------------------------------------------------------- input */

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

static enum tutti_status read_topology(struct work *work)
{
    const char *name = work->options->topology;
    size_t size = 0;
    FILE *file = fopen(name, "rbe");
    char *text = file != NULL ? file_read_all(file, TOPO_JSON_BYTES_MAX, &size) : NULL;
    enum tutti_status status = text != NULL ? read_text(text, size, name, &work->topo)
                                            : error_set(TUTTI_SYSTEM, "%s", strerror(errno));
    free(text);
    if (file != NULL) fclose(file);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- trees */

static enum tutti_status make_trees(struct work *work)
{
    const enum collective collective = work->options->collective;
    const struct forest_options options = {
        .root = collective_is_rooted(collective) ? work->options->root : SYNTH_EVERY_RANK,
        .k = work->options->k,
        .deadline_ns = work->deadline_ns};
    const bool goes_up = collective_reduces(collective);
    const bool goes_down = !goes_up || collective == COLLECTIVE_ALLREDUCE;
    work->is_up_own = goes_up && !(goes_down && synth_graph_is_even(&work->graph));
    show(work, "packing trees");
    if (goes_down) TRY(forest_make(&work->graph, &options, &work->down));
    if (!work->is_up_own) return TUTTI_OK;
    TRY(synth_graph_turn(&work->graph, &work->turned));
    return forest_make(&work->turned, &options, &work->up);
}

static const struct forest *up_of(const struct work *work)
{
    if (!collective_reduces(work->options->collective)) return NULL;
    return work->is_up_own ? &work->up : &work->down;
}

static const struct forest *down_of(const struct work *work)
{
    return work->down.tree_count > 0 ? &work->down : NULL;
}

/* --------------------------------------------------------------------------------------------------------- report */

static void print_half(const char *what, const struct forest *forest)
{
    const bool optimal = synth_ratio_compare(forest->bound, forest->attained) == 0;
    printf("%sbound %" PRId64 "/%" PRId64 ", attained %" PRId64 "/%" PRId64
           "%s, %d trees, k %" PRId64 "\n",
           what, forest->bound.top, forest->bound.bottom, forest->attained.top,
           forest->attained.bottom, optimal ? ", which is the bound" : "", forest->tree_count,
           forest->k);
    if (!optimal)
        printf("%s%.1f%% above the bound%s\n", what,
               100 * (synth_ratio_value(forest->attained) / synth_ratio_value(forest->bound) - 1),
               forest->is_trimmed ? "; as much does not lead into some switch as out of it" : "");
}

static void report(const struct work *work)
{
    const enum collective collective = work->options->collective;
    const struct forest *up = up_of(work), *down = down_of(work);
    printf("%s of %d ranks over %d switches, unit %.6g GB/s\n", collective_name(collective),
           work->graph.rank_count, work->notes.switch_count, work->graph.bytes_per_second * 1e-9);
    if (work->notes.rounded_most > 0)
        printf("capacities are rounded, by %.2g%% at most\n", 100 * work->notes.rounded_most);
    if (work->notes.assumed_count > 0)
        printf("%d joined to machines that do not say how: taken to limit nothing\n",
               work->notes.assumed_count);
    if (up != NULL) print_half(down != NULL ? "reduce_scatter: " : "", up);
    if (down != NULL) print_half(up != NULL ? "allgather:      " : "", down);
    double time = (up != NULL ? synth_ratio_value(up->attained) : 0) +
                  (down != NULL ? synth_ratio_value(down->attained) : 0);
    if (!collective_is_rooted(collective)) time /= work->graph.rank_count;
    printf("algorithm bandwidth %.6g GB/s%s\n", work->graph.bytes_per_second * 1e-9 / time,
           collective == COLLECTIVE_ALLREDUCE
               ? ", of a reduce_scatter and an allgather one after the other"
               : "");
}

/* ----------------------------------------------------------------------------------------------------------- plan */

static enum tutti_status prove(const struct plan *plan)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct verify_options options = {.in_place = in_place};
        struct verify_report proof;
        switch (plan_verify(plan, &options, &proof)) {
        case VERIFY_PROVEN: break;
        case VERIFY_NO_MEMORY: return error_set(TUTTI_NO_MEMORY, "the proof takes more memory");
        default: return error_set(TUTTI_INTERNAL, "the plan is wrong: %s", proof.message);
        }
    }
    return TUTTI_OK;
}

static enum tutti_status write_plan(const char *name, const struct plan *plan)
{
    FILE *file = fopen(name, "we");
    if (file == NULL) return error_set(TUTTI_SYSTEM, "%.200s: %s", name, strerror(errno));
    plan_print(plan, file);
    const bool written = fflush(file) == 0 && !ferror(file);
    if (fclose(file) == 0 && written) return TUTTI_OK;
    return error_set(TUTTI_SYSTEM, "%.200s: %s", name, strerror(errno));
}

static enum tutti_status make_plan(struct work *work)
{
    const struct lay lay = {.collective = work->options->collective,
                            .down = down_of(work),
                            .up = up_of(work),
                            .pieces = work->options->pieces};
    struct plan *plan;
    show(work, "laying out the plan");
    TRY(lay_plan(&lay, &plan));
    show(work, "proving the plan");
    enum tutti_status status = prove(plan);
    if (status == TUTTI_OK && clock_now_ns() >= work->deadline_ns)
        status = error_set(TUTTI_TIMEOUT, "the time is over before the plan is proven");
    if (status == TUTTI_OK) status = write_plan(work->options->output, plan);
    plan_free(plan);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ all */

static enum tutti_status run(struct work *work)
{
    TRY(read_topology(work));
    TRY(synth_graph_from_topo(&work->topo, &work->graph, &work->notes));
    TRY(make_trees(work));
    if (work->options->output != NULL) TRY(make_plan(work));
    if (work->shows) fputs("\r\033[K", stderr);
    report(work);
    if (fflush(stdout) != 0) return error_set(TUTTI_SYSTEM, "standard output: %s", strerror(errno));
    return TUTTI_OK;
}

int main(int argc, char **argv)
{
    struct options options;
    const enum exit_code code = options_parse(argc, argv, &options);
    if (code != EXIT_FINE || options.done) return (int)code;
    struct work work = {.options = &options,
                        .shows = isatty(STDERR_FILENO) == 1,
                        .deadline_ns = clock_now_ns() + (uint64_t)(options.seconds * 1e9)};
    const enum tutti_status status = run(&work);
    if (status != TUTTI_OK)
        fprintf(stderr, "%stutti-synth: %s: %s\n", work.shows ? "\r\033[K" : "", options.topology,
                tutti_error_message());
    forest_release(&work.down);
    forest_release(&work.up);
    synth_graph_release(&work.graph);
    synth_graph_release(&work.turned);
    topo_release(&work.topo);
    return (int)(status == TUTTI_OK ? EXIT_FINE : EXIT_WRONG);
}
