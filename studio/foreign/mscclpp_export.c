/* mscclpp_export.c - from lanes and links to thread blocks, channels and scratch memory.
 *
 *     place     every message in the scratch memory of its receiver, behind that of the plan
 *     connect   a channel for each port of the wiring (plan/wiring.h), with an end on both GPUs: a memory channel within a
 *               host, a port channel between hosts
 *     order     `after` as semaphores, as few as say it
 *     unfold    every step into waits, work and signals
 *     print
 *
 * 1. A channel signals forwards once a message, and backwards once a run; so a run leaves its
 *    counters as it found them.
 * 2. Between two GPUs, the ends of channels come in the same order on both: the runtime joins the
 *    k-th with the k-th.
 * 3. A semaphore is released once and acquired once a run.
 * 4. Only scratch memory is named from another GPU: it begins at the same offset everywhere, also
 *    in place.
 */
#include "studio/foreign/mscclpp_export.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fingerprint.h"
#include "plan/wiring.h"
#include "studio/foreign/mscclpp_program.h"
#include "studio/foreign/refusal.h"

enum { ALIGNMENT = 16, SCRATCH_MAX = 1 << 20, THREADS = 1024, NONE = -1 };

/* One semaphore, from the end of a step to the beginning of another. */
struct edge {
    int semaphore;
    int next_release, next_acquire; /* of the same step, or NONE */
};

struct exporter {
    const struct plan *plan;
    const struct mscclpp_export_options *options;
    FILE *file;
    struct refusal refusal;

    struct wiring wiring;
    uint32_t *scratch_counts;         /* of each rank */
    uint32_t *message_places;         /* of each taker: in its rank's scratch */
    int *source_ends, *receiver_ends; /* of each port: the channel that it is on either GPU */
    uint32_t *first_ends,
        *ends;     /* of each rank, and one more: ports, in the order of their channels */
    bool *is_port; /* beside `ends`: it leads to another host */
    int *numbers;  /* beside `ends`: the number among the channels of its type */
    bool *is_awaited, *is_begun; /* of each port: its receiver has waited; its source has */

    /* of the rank at hand */
    const struct rank_plan *rank_plan;
    struct mscclpp_program program;
    int *remotes; /* of each peer, or NONE */
    int *peers;   /* of each remote buffer */
    int remote_count;
    struct edge *edges;
    int edge_count, edge_room;
    int *releases, *acquires; /* of each step: the first edge, or NONE */
};

/* -------------------------------------------------------------------------- memory and channels */

static bool set_up(struct exporter *exporter)
{
    const struct wiring *w = &exporter->wiring;
    const size_t ranks = (size_t)exporter->plan->shape.rank_count, ports = w->port_count;
    size_t messages = 0;
    for (uint32_t i = 0; i < w->port_count; i++) messages += w->ports[i].receive_count;
    exporter->scratch_counts = calloc(ranks, sizeof(uint32_t));
    exporter->message_places = calloc(messages + 1, sizeof(uint32_t));
    exporter->source_ends = calloc(ports + 1, sizeof(int));
    exporter->receiver_ends = calloc(ports + 1, sizeof(int));
    exporter->first_ends = calloc(ranks + 1, sizeof(uint32_t));
    exporter->ends = calloc(2 * ports + 1, sizeof(uint32_t));
    exporter->is_port = calloc(2 * ports + 1, sizeof(bool));
    exporter->numbers = calloc(2 * ports + 1, sizeof(int));
    exporter->is_awaited = calloc(ports + 1, sizeof(bool));
    exporter->is_begun = calloc(ports + 1, sizeof(bool));
    exporter->remotes = malloc(ranks * sizeof(int));
    exporter->peers = calloc(ranks, sizeof(int));
    if (!exporter->scratch_counts || !exporter->message_places || !exporter->source_ends ||
        !exporter->receiver_ends || !exporter->first_ends || !exporter->ends ||
        !exporter->is_port || !exporter->numbers || !exporter->is_awaited || !exporter->is_begun ||
        !exporter->remotes || !exporter->peers)
        return refuse_out_of_memory(&exporter->refusal);
    for (size_t i = 0; i < ranks; i++) exporter->remotes[i] = NONE;
    return true;
}

static void tear_down(struct exporter *exporter)
{
    wiring_release(&exporter->wiring);
    free(exporter->scratch_counts);
    free(exporter->message_places);
    free(exporter->source_ends);
    free(exporter->receiver_ends);
    free(exporter->first_ends);
    free(exporter->ends);
    free(exporter->is_port);
    free(exporter->numbers);
    free(exporter->is_awaited);
    free(exporter->is_begun);
    free(exporter->remotes);
    free(exporter->peers);
    free(exporter->edges);
}

/* The first of so many more chunks of scratch memory. */
static uint32_t more_scratch(struct exporter *exporter, int rank, uint32_t count)
{
    const uint32_t first = exporter->scratch_counts[rank];
    if (first > SCRATCH_MAX || count > SCRATCH_MAX - first)
        refuse(&exporter->refusal, "rank %d: more than %d scratch chunks", rank, SCRATCH_MAX);
    else
        exporter->scratch_counts[rank] += count;
    return first;
}

static void place_messages(struct exporter *exporter)
{
    const struct wiring *w = &exporter->wiring;
    for (int rank = 0; rank < exporter->plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = exporter->plan->ranks[rank];
        more_scratch(exporter, rank, rank_plan->scratch_count);
        for (uint32_t step = 0; step < rank_plan->step_count; step++) {
            const uint32_t all = w->first_steps[rank] + step;
            for (size_t i = w->first_receives[all]; i < w->first_receives[all + 1]; i++) {
                const struct wiring_receive *receive = &w->receives[i];
                const size_t taker = w->ports[receive->port].first_taker + receive->sequence;
                exporter->message_places[taker] =
                    more_scratch(exporter, rank, rank_plan->steps[step].chunk_count);
            }
        }
    }
}

static bool crosses_hosts(const struct exporter *exporter, uint32_t port)
{
    const int *host_of = exporter->options->host_of;
    return host_of != NULL && host_of[wiring_source(&exporter->wiring, port)] !=
                                  host_of[exporter->wiring.ports[port].receiver];
}

static void connect_ports(struct exporter *exporter)
{
    const struct wiring *w = &exporter->wiring;
    const int ranks = exporter->plan->shape.rank_count;
    uint32_t *first = exporter->first_ends;
    for (uint32_t port = 0; port < w->port_count; port++) {
        first[wiring_source(&exporter->wiring, port) + 1]++;
        first[w->ports[port].receiver + 1]++;
    }
    for (int rank = 0; rank < ranks; rank++) first[rank + 1] += first[rank];
    for (uint32_t port = w->port_count;
         port-- > 0;) { /* from the back, so that `first` ends where it began */
        const int both[2] = {wiring_source(&exporter->wiring, port), w->ports[port].receiver};
        for (int i = 0; i < 2; i++) exporter->ends[--first[both[i] + 1]] = port;
    }
    for (int rank = 0; rank < ranks; rank++) first[rank] = first[rank + 1];
    first[ranks] = 2 * w->port_count;
    for (int rank = 0; rank < ranks; rank++) {
        int counts[MSCCLPP_LINK_COUNT] = {0};
        for (uint32_t i = first[rank]; i < first[rank + 1]; i++) {
            const uint32_t port = exporter->ends[i];
            exporter->is_port[i] = crosses_hosts(exporter, port);
            exporter->numbers[i] = counts[exporter->is_port[i] ? MSCCLPP_PORT : MSCCLPP_MEMORY]++;
            int *end = wiring_source(&exporter->wiring, port) == rank
                           ? &exporter->source_ends[port]
                           : &exporter->receiver_ends[port];
            *end = (int)(i - first[rank]);
        }
    }
}

/* ---------------------------------------------------------------------------------------- order */

static bool add_edge(struct exporter *exporter, uint32_t from, uint32_t to)
{
    if (exporter->edge_count == exporter->edge_room) {
        const int room = 2 * exporter->edge_room + 16;
        struct edge *grown = reallocarray(exporter->edges, (size_t)room, sizeof *grown);
        if (grown == NULL) return refuse_out_of_memory(&exporter->refusal);
        exporter->edges = grown;
        exporter->edge_room = room;
    }
    const int edge = exporter->edge_count++;
    exporter->edges[edge] =
        (struct edge){.semaphore = mscclpp_program_new_semaphore(&exporter->program),
                      .next_release = exporter->releases[from],
                      .next_acquire = exporter->acquires[to]};
    exporter->releases[from] = exporter->acquires[to] = edge;
    return true;
}

/* The lane itself is in order, and so is what comes after a step that waited. */
static bool order_lane(struct exporter *exporter, uint32_t lane)
{
    const struct rank_plan *rank_plan = exporter->rank_plan;
    const struct plan_lane *of = &rank_plan->lanes[lane];
    int64_t known[PLAN_LANES_MAX], wanted[PLAN_LANES_MAX];
    for (uint32_t i = 0; i < rank_plan->lane_count; i++) known[i] = wanted[i] = NONE;
    for (uint32_t step = of->first_step; step < of->first_step + of->step_count; step++) {
        const struct plan_step *at = &rank_plan->steps[step];
        for (uint32_t i = 0; i < at->after_count; i++) {
            const uint32_t other = rank_plan->afters[at->first_after + i];
            int64_t *latest = &wanted[rank_plan->steps[other].lane];
            if (other > *latest) *latest = other;
        }
        for (uint32_t i = 0; i < rank_plan->lane_count; i++) {
            if (i == lane || wanted[i] <= known[i]) continue;
            known[i] = wanted[i];
            if (!add_edge(exporter, (uint32_t)wanted[i], step)) return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------ unfolding */

/* Room for what a step of this rank waits for, tells others and reads. */
struct lists {
    int *numbers;
    bool *announces;
    struct mscclpp_target *targets;
    struct plan_location *places;
};

static void lists_release(struct lists *lists)
{
    free(lists->numbers);
    free(lists->announces);
    free(lists->targets);
    free(lists->places);
}

static size_t send_count(const struct exporter *exporter, uint32_t all)
{
    const struct wiring *w = &exporter->wiring;
    size_t count = 0;
    for (size_t i = w->first_sends[all]; i < w->first_sends[all + 1]; i++)
        count += w->links[w->sends[i].link].port_count;
    return count;
}

static bool lists_init(struct exporter *exporter, struct lists *lists)
{
    const struct rank_plan *rank_plan = exporter->rank_plan;
    size_t most = (size_t)exporter->edge_count + 1;
    for (uint32_t step = 0; step < rank_plan->step_count; step++) {
        const uint32_t all = exporter->wiring.first_steps[rank_plan->rank] + step;
        const size_t count = rank_plan->steps[step].source_count + send_count(exporter, all);
        if (count > most) most = count;
    }
    lists->numbers = calloc(most, sizeof *lists->numbers);
    lists->announces = calloc(most, sizeof *lists->announces);
    lists->targets = calloc(most, sizeof *lists->targets);
    lists->places = calloc(most, sizeof *lists->places);
    return (lists->numbers && lists->announces && lists->targets && lists->places) ||
           refuse_out_of_memory(&exporter->refusal);
}

static void wait_for(struct exporter *exporter, uint32_t step, const struct lists *lists)
{
    const struct wiring *w = &exporter->wiring;
    const uint32_t all = w->first_steps[exporter->rank_plan->rank] + step;
    int count = 0;
    for (int i = exporter->acquires[step]; i != NONE; i = exporter->edges[i].next_acquire)
        lists->numbers[count++] = exporter->edges[i].semaphore;
    mscclpp_program_acquire(&exporter->program, lists->numbers, count);
    count = 0;
    for (size_t i = w->first_receives[all]; i < w->first_receives[all + 1]; i++) {
        const uint32_t port = w->receives[i].port;
        lists->announces[count] = !exporter->is_awaited[port];
        lists->numbers[count++] = exporter->receiver_ends[port];
        exporter->is_awaited[port] = true;
    }
    for (size_t i = w->first_sends[all]; i < w->first_sends[all + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            if (exporter->is_begun[port]) continue;
            exporter->is_begun[port] = true;
            lists->announces[count] = false;
            lists->numbers[count++] = exporter->source_ends[port];
        }
    }
    mscclpp_program_wait(&exporter->program, lists->numbers, lists->announces, count);
}

static int remote_of(struct exporter *exporter, int peer)
{
    if (exporter->remotes[peer] == NONE) {
        exporter->remotes[peer] = exporter->remote_count;
        exporter->peers[exporter->remote_count++] = peer;
    }
    return exporter->remotes[peer];
}

/* Finds the targets of the step's messages over channels of that type, and returns their number. */
static int find_targets(struct exporter *exporter, uint32_t step, enum mscclpp_link over,
                        struct mscclpp_target *targets)
{
    const struct wiring *w = &exporter->wiring;
    const uint32_t all = w->first_steps[exporter->rank_plan->rank] + step;
    int count = 0;
    for (size_t i = w->first_sends[all]; i < w->first_sends[all + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            const struct wiring_port *at = &w->ports[port];
            if (crosses_hosts(exporter, port) != (over == MSCCLPP_PORT)) continue;
            targets[count++] = (struct mscclpp_target){
                .remote = remote_of(exporter, at->receiver),
                .first = exporter->message_places[at->first_taker + w->sends[i].sequence],
                .channel = exporter->source_ends[port]};
        }
    }
    return count;
}

/* Finishes the step's messages. The messages over memory have been put; the messages to other hosts
 * are sent when all that the step stores is there. */
static void finish_messages(struct exporter *exporter, uint32_t step, struct plan_location source,
                            int put_count, const struct lists *lists)
{
    struct mscclpp_program *program = &exporter->program;
    for (int i = 0; i < put_count; i++) lists->numbers[i] = lists->targets[i].channel;
    mscclpp_program_signal(program, lists->numbers, put_count);
    const int count = find_targets(exporter, step, MSCCLPP_PORT, lists->targets);
    mscclpp_program_send(program, source, lists->targets, count,
                         exporter->rank_plan->steps[step].chunk_count);
}

/* Finds the places of the step's operands, in order. */
static void find_places(const struct exporter *exporter, uint32_t step, struct plan_location *places)
{
    const struct wiring *w = &exporter->wiring;
    const struct rank_plan *rank_plan = exporter->rank_plan;
    const struct plan_step *of = &rank_plan->steps[step];
    const struct wiring_receive *receive =
        &w->receives[w->first_receives[w->first_steps[rank_plan->rank] + step]];
    for (uint32_t i = 0; i < of->source_count; i++) {
        const struct plan_source *source = &rank_plan->sources[of->first_source + i];
        places[i] = source->location;
        if (!source->is_link) continue;
        const size_t taker = w->ports[receive->port].first_taker + receive->sequence;
        places[i] = (struct plan_location){PLAN_SCRATCH, exporter->message_places[taker]};
        receive++;
    }
}

/* The place for the sum of a step that stores none. It is the place of a message that the step
 * takes, which is no longer needed then; else new scratch memory. */
static struct plan_location place_for_sum(struct exporter *exporter, const struct plan_step *of,
                                          const struct plan_location *places)
{
    const struct rank_plan *rank_plan = exporter->rank_plan;
    for (uint32_t i = of->source_count; i-- > 0;)
        if (rank_plan->sources[of->first_source + i].is_link) return places[i];
    return (struct plan_location){PLAN_SCRATCH,
                                  more_scratch(exporter, rank_plan->rank, of->chunk_count)};
}

/* Sums several operands. An operation reads a limited number of them, so the sum so far may wait in
 * scratch memory. */
static void unfold_sum(struct exporter *exporter, uint32_t step, const struct lists *lists)
{
    const struct plan_step *of = &exporter->rank_plan->steps[step];
    struct plan_location *places = lists->places;
    uint32_t left = of->source_count;
    const int target_count = find_targets(exporter, step, MSCCLPP_MEMORY, lists->targets);
    const int fused = target_count < MSCCLPP_TARGETS_MAX ? target_count : MSCCLPP_TARGETS_MAX;
    const struct plan_location sum =
        of->has_destination ? of->destination : place_for_sum(exporter, of, places);
    if (left > MSCCLPP_PLACES_MAX) {
        const struct plan_location so_far = {
            PLAN_SCRATCH, more_scratch(exporter, exporter->rank_plan->rank, of->chunk_count)};
        while (left > MSCCLPP_PLACES_MAX) {
            mscclpp_program_reduce(&exporter->program, places, MSCCLPP_PLACES_MAX, so_far, NULL, 0,
                                   of->chunk_count);
            places += MSCCLPP_PLACES_MAX - 1;
            left -= MSCCLPP_PLACES_MAX - 1;
            places[0] = so_far;
        }
    }
    mscclpp_program_reduce(&exporter->program, places, (int)left, sum, lists->targets, fused,
                           of->chunk_count);
    mscclpp_program_put(&exporter->program, sum, &lists->targets[fused], target_count - fused,
                        of->chunk_count);
    finish_messages(exporter, step, sum, target_count, lists);
}

/* One operand. The next operation may rely on both the message and the place that the step stores
 * to. */
static void unfold_copy(struct exporter *exporter, uint32_t step, const struct lists *lists)
{
    const struct plan_step *of = &exporter->rank_plan->steps[step];
    const int target_count = find_targets(exporter, step, MSCCLPP_MEMORY, lists->targets);
    mscclpp_program_put(&exporter->program, lists->places[0], lists->targets, target_count,
                        of->chunk_count);
    if (of->has_destination)
        mscclpp_program_copy(&exporter->program, lists->places[0], of->destination, of->chunk_count);
    finish_messages(exporter, step, lists->places[0], target_count, lists);
}

static void unfold(struct exporter *exporter, uint32_t step, const struct lists *lists)
{
    int count = 0;
    wait_for(exporter, step, lists);
    find_places(exporter, step, lists->places);
    if (exporter->rank_plan->steps[step].source_count > 1)
        unfold_sum(exporter, step, lists);
    else
        unfold_copy(exporter, step, lists);
    for (int i = exporter->releases[step]; i != NONE; i = exporter->edges[i].next_release)
        lists->numbers[count++] = exporter->edges[i].semaphore;
    mscclpp_program_release_all(&exporter->program, lists->numbers, count);
}

/* ------------------------------------------------------------------------------------- printing */

static const char letters[PLAN_BUFFER_COUNT] = {'i', 'o', 's'};

/* For between quotation marks. */
static void print_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ')
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
}

static void print_numbers(FILE *file, const char *name, const int *numbers, int count)
{
    fprintf(file, "\"%s\": [", name);
    for (int i = 0; i < count; i++) fprintf(file, "%s%d", i > 0 ? ", " : "", numbers[i]);
    fputc(']', file);
}

static void print_places(FILE *file, const struct mscclpp_operation *operation)
{
    fputs(", \"src_buff\": [", file);
    for (int i = 0; i < operation->source_count; i++)
        fprintf(file, "%s{\"type\": \"%c\", \"index\": %u, \"size\": %u}", i > 0 ? ", " : "",
                letters[operation->sources[i].buffer], operation->sources[i].first,
                operation->chunk_count);
    fputs("], \"dst_buff\": [", file);
    if (operation->stores)
        fprintf(file, "{\"type\": \"%c\", \"index\": %u, \"size\": %u}",
                letters[operation->destination.buffer], operation->destination.first,
                operation->chunk_count);
    for (int i = 0; i < operation->target_count; i++)
        fprintf(file, "%s{\"buffer_id\": %d, \"index\": %u, \"size\": %u}",
                i > 0 || operation->stores ? ", " : "", operation->targets[i].remote,
                operation->targets[i].first, operation->chunk_count);
    fputc(']', file);
}

static void print_operation(FILE *file, const struct mscclpp_operation *operation)
{
    const enum mscclpp_type type = operation->type;
    fprintf(file, "            {\"name\": \"%s\"", mscclpp_type_names[type]);
    if (operation->source_count > 0) print_places(file, operation);
    if (operation->id_count > 0) {
        const bool of_semaphores = type == MSCCLPP_ACQUIRE || type == MSCCLPP_RELEASE;
        fputs(", ", file);
        print_numbers(file, of_semaphores ? "semaphore_ids" : "channel_ids", operation->ids,
                      operation->id_count);
    }
    if (operation->target_count > 0 || type == MSCCLPP_SIGNAL || type == MSCCLPP_WAIT)
        fprintf(file, ", \"channel_type\": \"%s\"", mscclpp_link_names[operation->link]);
    if (type == MSCCLPP_REDUCE || type == MSCCLPP_REDUCE_PUT)
        fputs(", \"reduce_op\": \"sum\"", file);
    fputc('}', file);
}

/* One member for each type of which there are some, as `{"TYPE_NAME": "memory", "NUMBERS_NAME": [0,
 * 1]}`. */
static void print_by_link(FILE *file, const char *type_name, const char *numbers_name,
                          int numbers[MSCCLPP_LINK_COUNT][MSCCLPP_CHANNELS_MAX],
                          const int counts[MSCCLPP_LINK_COUNT])
{
    const char *separator = "";
    for (int link = 0; link < MSCCLPP_LINK_COUNT; link++) {
        if (counts[link] == 0) continue;
        fprintf(file, "%s{\"%s\": \"%s\", ", separator, type_name, mscclpp_link_names[link]);
        print_numbers(file, numbers_name, numbers[link], counts[link]);
        fputc('}', file);
        separator = ", ";
    }
}

static void print_block(const struct exporter *exporter, int index)
{
    FILE *file = exporter->file;
    const uint32_t first = exporter->first_ends[exporter->rank_plan->rank];
    struct mscclpp_block block = exporter->program.blocks[index];
    struct mscclpp_operation operation;
    fprintf(file, "        {\n          \"id\": %d,\n          \"ops\": [", index);
    for (int k = 0; mscclpp_program_operation(&exporter->program, &block, k, &operation); k++) {
        fputs(k > 0 ? ",\n" : "\n", file);
        print_operation(file, &operation);
    }
    for (int link = 0; link < MSCCLPP_LINK_COUNT; link++)
        for (int i = 0; i < block.channel_count[link]; i++)
            block.channels[link][i] = exporter->numbers[first + (uint32_t)block.channels[link][i]];
    fputs("\n          ],\n          \"channels\": [", file);
    print_by_link(file, "channel_type", "channel_ids", block.channels, block.channel_count);
    fputs("],\n          \"remote_buffer_refs\": [", file);
    print_by_link(file, "access_channel_type", "remote_buffer_ids", block.remotes,
                  block.remote_count);
    fputs("]\n        }", file);
}

static void print_channels(const struct exporter *exporter)
{
    FILE *file = exporter->file;
    const int rank = exporter->rank_plan->rank;
    int types = 0;
    fputs("      \"channels\": [", file);
    for (int link = 0; link < MSCCLPP_LINK_COUNT; link++) {
        int count = 0;
        for (uint32_t i = exporter->first_ends[rank]; i < exporter->first_ends[rank + 1]; i++) {
            const uint32_t port = exporter->ends[i];
            const int source = wiring_source(&exporter->wiring, port);
            if (exporter->is_port[i] != (link == MSCCLPP_PORT)) continue;
            if (count == 0)
                fprintf(file, "%s{\"channel_type\": \"%s\", \"connected_to\": [",
                        types++ > 0 ? ", " : "", mscclpp_link_names[link]);
            fprintf(file, "%s%d", count++ > 0 ? ", " : "",
                    source == rank ? exporter->wiring.ports[port].receiver : source);
        }
        if (count > 0) fputs("]}", file);
    }
    fputs("],\n", file);
}

/* How this rank reaches the memory of that one. */
static enum mscclpp_link link_to(const struct exporter *exporter, int peer)
{
    const int *host_of = exporter->options->host_of;
    const bool is_near = host_of == NULL || host_of[peer] == host_of[exporter->rank_plan->rank];
    return is_near ? MSCCLPP_MEMORY : MSCCLPP_PORT;
}

static void print_rank(const struct exporter *exporter)
{
    FILE *file = exporter->file;
    const struct plan_shape *shape = &exporter->plan->shape;
    const int rank = exporter->rank_plan->rank;
    fprintf(file,
            "    {\n      \"id\": %d,\n      \"input_chunks\": %u,\n      \"output_chunks\": %u,\n"
            "      \"scratch_chunks\": %u,\n      \"threadblocks\": [\n",
            rank, plan_chunk_count(shape, rank, PLAN_INPUT),
            plan_chunk_count(shape, rank, PLAN_OUTPUT), exporter->scratch_counts[rank]);
    for (int i = 0; i < exporter->program.block_count; i++) {
        if (i > 0) fputs(",\n", file);
        print_block(exporter, i);
    }
    if (exporter->program.block_count == 0) /* a kernel has at least one */
        fputs("        {\"id\": 0, \"ops\": [{\"name\": \"nop\"}], \"channels\": [], "
              "\"remote_buffer_refs\": []}",
              file);
    fputs("\n      ],\n", file);
    print_channels(exporter);
    fputs("      \"remote_buffers\": [", file);
    for (int i = 0; i < exporter->remote_count; i++)
        fprintf(file,
                "%s\n        {\"rank\": %d, \"type\": \"s\", \"access_channel_types\": [\"%s\"]}",
                i > 0 ? "," : "", exporter->peers[i],
                mscclpp_link_names[link_to(exporter, exporter->peers[i])]);
    fputs(exporter->remote_count > 0 ? "\n      ],\n" : "],\n", file);
    fputs("      \"semaphores\": [", file);
    for (int i = 0; i < exporter->program.semaphore_count; i++)
        fprintf(file, "%s{\"init_value\": 0}", i > 0 ? ", " : "");
    fputs("]\n    }", file);
}

static void print_head(const struct exporter *exporter)
{
    static const char *const names[COLLECTIVE_COUNT] = {[COLLECTIVE_ALLREDUCE] = "allreduce",
                                                        [COLLECTIVE_ALLGATHER] = "allgather",
                                                        [COLLECTIVE_REDUCE_SCATTER] =
                                                            "reducescatter",
                                                        [COLLECTIVE_ALLTOALL] = "alltoall"};
    FILE *file = exporter->file;
    fputs("{\n  \"name\": \"", file);
    print_text(file, exporter->options->name);
    fprintf(file, "%s %016" PRIx64 "\"", exporter->options->in_place ? ", in place" : "",
            plan_fingerprint(exporter->plan));
    fprintf(file,
            ",\n  \"collective\": \"%s\",\n  \"protocol\": \"Simple\",\n  \"inplace\": %s,\n"
            "  \"reuse_resources\": false,\n  \"gpus\": [\n",
            names[exporter->plan->shape.collective], exporter->options->in_place ? "true" : "false");
}

/* Offsets have 32 bits, so the largest buffer has less than 4 GiB. The size is the input's, or the
 * output's in an allgather. */
static uint64_t message_bytes_max(const struct exporter *exporter)
{
    const struct plan_shape *shape = &exporter->plan->shape;
    const uint32_t in = plan_chunk_count(shape, 0, PLAN_INPUT),
                   out = plan_chunk_count(shape, 0, PLAN_OUTPUT);
    uint32_t most = in > out ? in : out;
    for (int rank = 0; rank < shape->rank_count; rank++)
        if (exporter->scratch_counts[rank] > most) most = exporter->scratch_counts[rank];
    const uint64_t chunk_bytes = UINT32_MAX / most / ALIGNMENT * ALIGNMENT;
    return chunk_bytes * (shape->collective == COLLECTIVE_ALLGATHER ? out : in);
}

static void print_foot(const struct exporter *exporter)
{
    fprintf(exporter->file,
            "\n  ],\n  \"num_threads_per_block\": %d,\n  \"use_double_scratch_buffer\": false,\n"
            "  \"buffer_alignment\": %d,\n  \"min_message_size\": 0,\n"
            "  \"max_message_size\": %" PRIu64 "\n}\n",
            THREADS, ALIGNMENT, message_bytes_max(exporter));
}

/* ------------------------------------------------------------------------------------------ all */

static bool unfold_rank(struct exporter *exporter)
{
    const struct rank_plan *rank_plan = exporter->rank_plan;
    struct lists lists = {0};
    bool fine = true;
    exporter->releases = malloc(((size_t)rank_plan->step_count + 1) * sizeof(int));
    exporter->acquires = malloc(((size_t)rank_plan->step_count + 1) * sizeof(int));
    if (exporter->releases == NULL || exporter->acquires == NULL)
        fine = refuse_out_of_memory(&exporter->refusal);
    for (uint32_t i = 0; fine && i < rank_plan->step_count; i++)
        exporter->releases[i] = exporter->acquires[i] = NONE;
    for (uint32_t lane = 0; fine && lane < rank_plan->lane_count; lane++)
        fine = order_lane(exporter, lane);
    fine = fine && lists_init(exporter, &lists);
    for (uint32_t lane = 0; fine && lane < rank_plan->lane_count; lane++) {
        const struct plan_lane *of = &rank_plan->lanes[lane];
        mscclpp_program_next_lane(&exporter->program);
        for (uint32_t i = 0; i < of->step_count; i++) unfold(exporter, of->first_step + i, &lists);
    }
    lists_release(&lists);
    free(exporter->releases);
    free(exporter->acquires);
    exporter->releases = exporter->acquires = NULL;
    if (exporter->refusal.status == TUTTI_OK) exporter->refusal.status = exporter->program.status;
    return exporter->refusal.status == TUTTI_OK;
}

static bool export_rank(struct exporter *exporter, int rank)
{
    exporter->rank_plan = exporter->plan->ranks[rank];
    exporter->edge_count = 0;
    mscclpp_program_init(&exporter->program, &exporter->plan->shape, rank,
                         exporter->options->in_place, exporter->refusal.message,
                         exporter->refusal.message_bytes);
    exporter->program.is_port = &exporter->is_port[exporter->first_ends[rank]];
    const bool unfolded = unfold_rank(exporter);
    if (unfolded) {
        if (rank > 0) fputs(",\n", exporter->file);
        print_rank(exporter);
    }
    mscclpp_program_release(&exporter->program);
    for (int i = 0; i < exporter->remote_count; i++) exporter->remotes[exporter->peers[i]] = NONE;
    exporter->remote_count = 0;
    return unfolded;
}

static bool export_all(struct exporter *exporter)
{
    struct verify_report report;
    const enum verify_verdict verdict =
        wiring_init(&exporter->wiring, exporter->plan, NULL, &report);
    if (verdict == VERIFY_NO_MEMORY) return refuse_out_of_memory(&exporter->refusal);
    if (verdict != VERIFY_PROVEN) return refuse(&exporter->refusal, "%s", report.message);
    if (!set_up(exporter)) return false;
    place_messages(exporter);
    if (exporter->refusal.status != TUTTI_OK) return false;
    connect_ports(exporter);
    print_head(exporter);
    for (int rank = 0; rank < exporter->plan->shape.rank_count; rank++)
        if (!export_rank(exporter, rank)) return false;
    print_foot(exporter);
    return true;
}

static bool has_collective(struct exporter *exporter)
{
    const enum collective collective = exporter->plan->shape.collective;
    if (collective == COLLECTIVE_BARRIER)
        return refuse(&exporter->refusal,
                      "barrier: its messages carry no chunks, and MSCCL++ has no plan without");
    if (collective_is_rooted(collective))
        return refuse(&exporter->refusal, "%s: MSCCL++ has no collective with a root",
                      collective_name(collective));
    return true;
}

enum tutti_status mscclpp_export(const struct plan *plan,
                                 const struct mscclpp_export_options *options, FILE *file,
                                 char *message, size_t message_bytes)
{
    struct exporter exporter = {
        .plan = plan, .options = options, .refusal = {message, message_bytes, TUTTI_OK}};
    char *text = NULL;
    size_t text_bytes = 0;
    if (!has_collective(&exporter)) return exporter.refusal.status;
    exporter.file = open_memstream(&text, &text_bytes); /* refused plans leave the file as it was */
    if (exporter.file == NULL) {
        refuse_out_of_memory(&exporter.refusal);
        return exporter.refusal.status;
    }
    export_all(&exporter);
    tear_down(&exporter);
    if (fclose(exporter.file) != 0) refuse_out_of_memory(&exporter.refusal);
    if (exporter.refusal.status == TUTTI_OK) fwrite(text, 1, text_bytes, file);
    free(text);
    return exporter.refusal.status;
}
