#include "studio/synth/greedy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "os/clock.h"
#include "studio/synth/late.h"

/* From a rank to a rank through switches only. */
struct path {
    int from, to;
    int first_edge, edge_count; /* in path_edges */
    double wire_ns;             /* of a chunk over the slowest edge */
    double total_ns;            /* and all latencies */
};

struct greedy_flight {
    int chunk, to;
    double arrival_ns;
};

/* All attempts share the first members; each attempt changes the members below the empty line. */
struct search {
    const struct synth_graph *graph;
    const struct plan_shape *shape;
    int rank_count, chunk_count, words;
    uint64_t deadline_ns;
    double *busy_ns; /* of each edge: a chunk over it */
    struct path *paths;
    int path_count, path_room;
    int *path_edges;
    int path_edge_count, path_edge_room;
    double *distance_ns; /* from rank to rank over paths */
    int *goal;           /* of each chunk: the only rank that wants it, or -1 for all */
    int wanted_count;    /* of all chunks: ranks that want it */

    uint64_t chance;
    double slack, now_ns;
    double *free_ns;           /* of each edge */
    int *order;                /* of paths */
    uint64_t *here, *assigned; /* chunks of each rank: arrived, or also on their way */
    double *near_ns;           /* (rank, chunk): from the nearest rank that has it assigned */
    int *copies, *depth;       /* copies of each chunk; depth for (rank, chunk) */
    struct greedy_flight *flights;
    int flight_count, flight_room;
    int left;
};

/* splitmix64 */
static uint64_t next_chance(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void put_bit(uint64_t *set, int bit)
{
    set[bit / 64] |= (uint64_t)1 << bit % 64;
}

static size_t cell(const struct search *s, int rank, int chunk)
{
    return (size_t)rank * (size_t)s->chunk_count + (size_t)chunk;
}

static uint64_t *set_of(const struct search *s, uint64_t *sets, int rank)
{
    return sets + (size_t)rank * (size_t)s->words;
}

static enum tutti_status grow(void **items, int *room, int count, size_t bytes)
{
    if (count < *room) return TUTTI_OK;
    const int wanted = *room > 0 ? 2 * *room : 64;
    void *const grown = wanted < 1 << 28 ? realloc(*items, (size_t)wanted * bytes) : NULL;
    if (grown == NULL) return error_set(TUTTI_NO_MEMORY, "a schedule with %d entries", wanted);
    *items = grown;
    *room = wanted;
    return TUTTI_OK;
}

/* The shortest path back from `to`, edge by edge; `through` has the edge by which each node was
 * reached. */
static enum tutti_status add_path(struct search *s, int from, int to, const int *through)
{
    TRY(grow((void **)&s->paths, &s->path_room, s->path_count, sizeof *s->paths));
    struct path path = {.from = from, .to = to, .first_edge = s->path_edge_count};
    double latency_ns = 0;
    for (int node = to; node != from; path.edge_count++) {
        const int edge = through[node];
        TRY(grow((void **)&s->path_edges, &s->path_edge_room, s->path_edge_count,
                 sizeof *s->path_edges));
        s->path_edges[s->path_edge_count++] = edge;
        if (s->busy_ns[edge] > path.wire_ns) path.wire_ns = s->busy_ns[edge];
        latency_ns += s->graph->edges[edge].latency_ns;
        node = s->graph->edges[edge].from;
    }
    path.total_ns = path.wire_ns + latency_ns;
    s->paths[s->path_count++] = path;
    return TUTTI_OK;
}

static enum tutti_status late(const struct search *s)
{
    return error_set(TUTTI_TIMEOUT, "the time is over, and %d chunks are still to be sent", s->left);
}

/* By fewest edges: levels from the rank on, which only switches continue. */
static enum tutti_status find_paths_from(struct search *s, int from, int *through, int *queue)
{
    const struct synth_graph *const graph = s->graph;
    for (int i = 0; i < graph->node_count; i++) through[i] = -1;
    int head = 0, tail = 0;
    queue[tail++] = from;
    while (head < tail) {
        const int node = queue[head++];
        if (node != from && node < graph->rank_count) continue;
        if (synth_is_late(s->deadline_ns)) return late(s);
        for (int i = 0; i < graph->edge_count; i++) {
            const int to = graph->edges[i].to;
            if (graph->edges[i].from != node || to == from || through[to] >= 0) continue;
            through[to] = i;
            queue[tail++] = to;
            if (to < graph->rank_count) TRY(add_path(s, from, to, through));
        }
    }
    return TUTTI_OK;
}

static enum tutti_status find_paths(struct search *s)
{
    const size_t nodes = (size_t)s->graph->node_count;
    int *const through = malloc(2 * nodes * sizeof *through);
    if (through == NULL) return error_set(TUTTI_NO_MEMORY, "paths between %zu nodes", nodes);
    enum tutti_status status = TUTTI_OK;
    for (int from = 0; from < s->rank_count && status == TUTTI_OK; from++)
        status = find_paths_from(s, from, through, through + nodes);
    free(through);
    return status;
}

static enum tutti_status find_distances(struct search *s)
{
    const size_t n = (size_t)s->rank_count;
    double *const d = s->distance_ns;
    for (size_t i = 0; i < n * n; i++) d[i] = i % (n + 1) == 0 ? 0 : INFINITY;
    for (int i = 0; i < s->path_count; i++)
        d[(size_t)s->paths[i].from * n + (size_t)s->paths[i].to] = s->paths[i].total_ns;
    for (size_t k = 0; k < n; k++) {
        if (synth_is_late(s->deadline_ns)) return late(s);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                if (d[i * n + k] + d[k * n + j] < d[i * n + j])
                    d[i * n + j] = d[i * n + k] + d[k * n + j];
    }
    for (int chunk = 0; chunk < s->chunk_count; chunk++)
        for (size_t to = 0; to < n; to++)
            if (synth_chunk_wanted(s->shape, chunk, (int)to) &&
                isinf(d[(size_t)synth_chunk_source(s->shape, chunk) * n + to]))
                return error_set(TUTTI_INVALID_OPTIONS, "rank %zu is out of rank %d's reach", to,
                                 synth_chunk_source(s->shape, chunk));
    return TUTTI_OK;
}

static double distance(const struct search *s, int from, int to)
{
    return s->distance_ns[(size_t)from * (size_t)s->rank_count + (size_t)to];
}

/* Notes that the rank has the chunk, or will have it. */
static void assign(struct search *s, int rank, int chunk, int depth)
{
    put_bit(set_of(s, s->assigned, rank), chunk);
    s->copies[chunk]++;
    s->depth[cell(s, rank, chunk)] = depth;
    for (int to = 0; to < s->rank_count; to++) {
        double *const near_ns = &s->near_ns[cell(s, to, chunk)];
        const double ns = distance(s, rank, to);
        if (ns < *near_ns) *near_ns = ns;
    }
    if (synth_chunk_wanted(s->shape, chunk, rank)) s->left--;
}

static enum tutti_status begin(struct search *s)
{
    const size_t ranks = (size_t)s->rank_count, chunks = (size_t)s->chunk_count;
    s->now_ns = 0;
    s->flight_count = 0;
    memset(s->free_ns, 0, (size_t)s->graph->edge_count * sizeof *s->free_ns);
    memset(s->here, 0, ranks * (size_t)s->words * sizeof *s->here);
    memset(s->assigned, 0, ranks * (size_t)s->words * sizeof *s->assigned);
    memset(s->copies, 0, chunks * sizeof *s->copies);
    for (size_t i = 0; i < ranks * chunks; i++) s->near_ns[i] = INFINITY;
    s->left = s->wanted_count;
    for (int chunk = 0; chunk < s->chunk_count; chunk++) {
        const int source = synth_chunk_source(s->shape, chunk);
        put_bit(set_of(s, s->here, source), chunk);
        assign(s, source, chunk, 0);
        if (synth_is_late(s->deadline_ns)) return late(s);
    }
    for (int i = s->path_count - 1; i > 0; i--) { /* another order each time */
        const int other = (int)(next_chance(&s->chance) % (uint64_t)(i + 1));
        const int kept = s->order[i];
        s->order[i] = s->order[other];
        s->order[other] = kept;
    }
    return TUTTI_OK;
}

/* How much the chunk's coming this way helps the receiver: not at all where this is negative. */
static double use_of(const struct search *s, const struct path *path, int chunk)
{
    const int goal = s->goal[chunk];
    if (goal >= 0) {
        const double left_ns = distance(s, path->from, goal), after_ns = distance(s, path->to, goal);
        return after_ns < left_ns && path->total_ns + after_ns <= s->slack * left_ns ? left_ns : -1;
    }
    const double near_ns = s->near_ns[cell(s, path->to, chunk)];
    return path->total_ns <= s->slack * near_ns ? near_ns : -1;
}

/* -1: none. */
static int choose_chunk(struct search *s, const struct path *path)
{
    const uint64_t *const here = set_of(s, s->here, path->from);
    const uint64_t *const assigned = set_of(s, s->assigned, path->to);
    int chosen = -1, equals = 0;
    double best = -1;
    for (int word = 0; word < s->words; word++)
        for (uint64_t bits = here[word] & ~assigned[word]; bits != 0; bits &= bits - 1) {
            const int chunk = word * 64 + __builtin_ctzll(bits);
            const double use = use_of(s, path, chunk);
            if (use < 0 || use < best * (1 - 1e-9)) continue;
            const bool equal = chosen >= 0 && use <= best * (1 + 1e-9);
            if (equal && s->copies[chunk] > s->copies[chosen]) continue;
            equals = equal && s->copies[chunk] == s->copies[chosen] ? equals + 1 : 1;
            if (next_chance(&s->chance) % (uint64_t)equals != 0) continue;
            chosen = chunk;
            best = use;
        }
    return chosen;
}

static bool is_free(const struct search *s, const struct path *path)
{
    for (int i = 0; i < path->edge_count; i++)
        if (s->free_ns[s->path_edges[path->first_edge + i]] > s->now_ns) return false;
    return true;
}

static enum tutti_status start(struct search *s, const struct path *path, int chunk,
                               struct synth_steps *steps)
{
    TRY(grow((void **)&s->flights, &s->flight_room, s->flight_count, sizeof *s->flights));
    for (int i = 0; i < path->edge_count; i++) {
        const int edge = s->path_edges[path->first_edge + i];
        s->free_ns[edge] = s->now_ns + s->busy_ns[edge];
    }
    const int depth = s->depth[cell(s, path->from, chunk)];
    s->flights[s->flight_count++] =
        (struct greedy_flight){chunk, path->to, s->now_ns + path->total_ns};
    assign(s, path->to, chunk, depth + 1);
    if (s->goal[chunk] >= 0) /* it is there no more */
        set_of(s, s->here, path->from)[chunk / 64] &= ~((uint64_t)1 << chunk % 64);
    if (depth + 1 > steps->step_count) steps->step_count = depth + 1;
    return synth_steps_add(steps, depth, chunk, path->from, path->to);
}

static void land(struct search *s)
{
    int kept = 0;
    for (int i = 0; i < s->flight_count; i++) {
        const struct greedy_flight *const flight = &s->flights[i];
        if (flight->arrival_ns <= s->now_ns)
            put_bit(set_of(s, s->here, flight->to), flight->chunk);
        else
            s->flights[kept++] = *flight;
    }
    s->flight_count = kept;
}

/* Advances to the time at which something changes next. Changes a hair later count as changes at
 * that time. */
static bool advance(struct search *s)
{
    double next_ns = INFINITY;
    for (int i = 0; i < s->flight_count; i++)
        if (s->flights[i].arrival_ns < next_ns) next_ns = s->flights[i].arrival_ns;
    for (int i = 0; i < s->graph->edge_count; i++)
        if (s->free_ns[i] > s->now_ns && s->free_ns[i] < next_ns) next_ns = s->free_ns[i];
    if (isinf(next_ns)) return false;
    s->now_ns = next_ns * (1 + 1e-12);
    land(s);
    return true;
}

static enum tutti_status attempt(struct search *s, struct synth_steps *steps, double *duration_ns)
{
    TRY(begin(s));
    while (s->left > 0) {
        if (synth_is_late(s->deadline_ns)) return late(s);
        for (int i = 0; i < s->path_count; i++) {
            const struct path *const path = &s->paths[s->order[i]];
            if (!is_free(s, path)) continue;
            if (synth_is_late(s->deadline_ns)) return late(s);
            const int chunk = choose_chunk(s, path);
            if (chunk >= 0) TRY(start(s, path, chunk, steps));
        }
        if (s->left > 0 && !advance(s))
            return error_set(TUTTI_INTERNAL, "a greedy schedule stands still");
    }
    *duration_ns = s->now_ns;
    for (int i = 0; i < s->flight_count; i++)
        if (s->flights[i].arrival_ns > *duration_ns) *duration_ns = s->flights[i].arrival_ns;
    return TUTTI_OK;
}

/* A round each: what the steps are for here is their order. */
static enum tutti_status attempt_once(struct search *s, struct synth_steps *steps,
                                      double *duration_ns)
{
    TRY(synth_steps_init(steps, s->shape, 0));
    TRY(attempt(s, steps, duration_ns));
    int *const rounds = realloc(steps->rounds, ((size_t)steps->step_count + 1) * sizeof *rounds);
    if (rounds == NULL)
        return error_set(TUTTI_NO_MEMORY, "a schedule of %d steps", steps->step_count);
    for (int i = 0; i <= steps->step_count; i++) rounds[i] = 1;
    steps->rounds = rounds;
    return TUTTI_OK;
}

static enum tutti_status try_all(struct search *s, const struct greedy_options *options,
                                 struct synth_steps *best, double *duration_ns)
{
    static const double slacks[] = {1.0 + 1e-9, 2, 4, 1e9};
    *duration_ns = INFINITY;
    for (int i = 0; i < options->attempt_count; i++) {
        struct synth_steps steps;
        double ns = INFINITY;
        s->chance = options->seed + (uint64_t)i * 0x2545f4914f6cdd1du;
        s->slack = slacks[i % 4];
        const enum tutti_status status = attempt_once(s, &steps, &ns);
        if (status == TUTTI_OK && ns < *duration_ns) {
            synth_steps_release(best);
            *best = steps;
            *duration_ns = ns;
            continue;
        }
        synth_steps_release(&steps);
        if (status == TUTTI_TIMEOUT && !isinf(*duration_ns)) return TUTTI_OK;
        TRY(status);
    }
    return TUTTI_OK;
}

static enum tutti_status search_init(struct search *s, double chunk_bytes)
{
    const size_t ranks = (size_t)s->rank_count, chunks = (size_t)s->chunk_count;
    const size_t edges = (size_t)s->graph->edge_count, words = (size_t)s->words;
    const double unit = s->graph->bytes_per_second > 0 ? s->graph->bytes_per_second : 1e9;
    s->busy_ns = calloc(edges + 1, sizeof *s->busy_ns);
    s->free_ns = calloc(edges + 1, sizeof *s->free_ns);
    s->distance_ns = calloc(ranks * ranks, sizeof *s->distance_ns);
    s->goal = calloc(chunks, sizeof *s->goal);
    s->here = calloc(ranks * words, sizeof *s->here);
    s->assigned = calloc(ranks * words, sizeof *s->assigned);
    s->near_ns = calloc(ranks * chunks, sizeof *s->near_ns);
    s->copies = calloc(chunks, sizeof *s->copies);
    s->depth = calloc(ranks * chunks, sizeof *s->depth);
    if (s->busy_ns == NULL || s->free_ns == NULL || s->distance_ns == NULL || s->goal == NULL ||
        s->here == NULL || s->assigned == NULL || s->near_ns == NULL || s->copies == NULL ||
        s->depth == NULL)
        return error_set(TUTTI_NO_MEMORY, "a schedule of %zu chunks and %zu ranks", chunks, ranks);
    for (size_t i = 0; i < edges; i++)
        s->busy_ns[i] = chunk_bytes / (s->graph->edges[i].capacity * unit) * 1e9;
    for (int chunk = 0; chunk < s->chunk_count; chunk++) {
        int wanting = 0;
        for (int rank = 0; rank < s->rank_count; rank++)
            if (synth_chunk_wanted(s->shape, chunk, rank)) {
                wanting++;
                s->goal[chunk] = rank;
            }
        if (wanting > 1) s->goal[chunk] = -1;
        s->left = s->wanted_count += wanting;
        if (synth_is_late(s->deadline_ns)) return late(s);
    }
    TRY(find_paths(s));
    TRY(find_distances(s));
    s->order = calloc((size_t)s->path_count + 1, sizeof *s->order);
    if (s->order == NULL) return error_set(TUTTI_NO_MEMORY, "%d paths", s->path_count);
    for (int i = 0; i < s->path_count; i++) s->order[i] = i;
    return TUTTI_OK;
}

static void search_release(struct search *s)
{
    free(s->busy_ns);
    free(s->free_ns);
    free(s->distance_ns);
    free(s->goal);
    free(s->here);
    free(s->assigned);
    free(s->near_ns);
    free(s->copies);
    free(s->depth);
    free(s->paths);
    free(s->path_edges);
    free(s->order);
    free(s->flights);
}

static enum tutti_status schedule_copies(const struct synth_graph *graph,
                                         const struct plan_shape *shape,
                                         const struct greedy_options *options, uint64_t deadline_ns,
                                         struct synth_steps *steps, double *duration_ns)
{
    enum { CELLS_MAX = 1 << 27 };
    const int chunk_count = synth_chunk_count(shape);
    if ((int64_t)chunk_count * shape->rank_count > CELLS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%d chunks on %d ranks are too many", chunk_count,
                         shape->rank_count);
    struct search s = {.graph = graph,
                       .shape = shape,
                       .rank_count = shape->rank_count,
                       .chunk_count = chunk_count,
                       .words = (chunk_count + 63) / 64,
                       .deadline_ns = deadline_ns};
    enum tutti_status status = search_init(&s, options->block_bytes / shape->parts);
    if (status == TUTTI_OK) status = try_all(&s, options, steps, duration_ns);
    search_release(&s);
    return status;
}

/* Over the reversed edges, and then turned round. */
static enum tutti_status schedule_reversed(const struct synth_graph *graph,
                                           const struct plan_shape *shape,
                                           const struct greedy_options *options,
                                           uint64_t deadline_ns, struct synth_steps *steps,
                                           double *duration_ns)
{
    struct synth_graph reversed;
    struct synth_steps backwards = {0};
    struct plan_shape copied = *shape;
    switch (shape->collective) {
    case COLLECTIVE_REDUCE: copied.collective = COLLECTIVE_BROADCAST; break;
    case COLLECTIVE_SCATTER: copied.collective = COLLECTIVE_GATHER; break;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: copied.collective = COLLECTIVE_ALLGATHER; break;
    }
    TRY(synth_graph_reverse(graph, &reversed));
    enum tutti_status status =
        schedule_copies(&reversed, &copied, options, deadline_ns, &backwards, duration_ns);
    if (status == TUTTI_OK) status = synth_steps_reverse(&backwards, steps);
    synth_steps_release(&backwards);
    synth_graph_release(&reversed);
    return status;
}

static enum tutti_status schedule_allreduce(const struct synth_graph *graph,
                                            const struct plan_shape *shape,
                                            const struct greedy_options *options,
                                            uint64_t deadline_ns, struct synth_steps *steps,
                                            double *duration_ns)
{
    if (shape->parts % (uint32_t)shape->rank_count != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "an allreduce of %d ranks in %u chunks",
                         shape->rank_count, shape->parts);
    struct plan_shape half = {COLLECTIVE_REDUCE_SCATTER, shape->rank_count, 0,
                              shape->parts / (uint32_t)shape->rank_count};
    struct greedy_options smaller = *options;
    smaller.block_bytes /= shape->rank_count;
    struct synth_steps reduced = {0}, gathered = {0};
    double gathering_ns = 0;
    enum tutti_status status =
        schedule_reversed(graph, &half, &smaller, deadline_ns, &reduced, duration_ns);
    half.collective = COLLECTIVE_ALLGATHER;
    if (status == TUTTI_OK)
        status = schedule_copies(graph, &half, &smaller, deadline_ns, &gathered, &gathering_ns);
    if (status == TUTTI_OK) status = synth_steps_join(&reduced, &gathered, steps);
    *duration_ns += gathering_ns;
    synth_steps_release(&reduced);
    synth_steps_release(&gathered);
    return status;
}

enum tutti_status greedy_schedule(const struct synth_graph *graph, const struct plan_shape *shape,
                                  const struct greedy_options *options, struct synth_steps *steps,
                                  double *duration_ns)
{
    *steps = (struct synth_steps){0};
    *duration_ns = 0;
    TRY(synth_shape_check(shape));
    if (shape->rank_count != graph->rank_count || shape->rank_count < 2)
        return error_set(TUTTI_INVALID_OPTIONS, "a schedule of %d ranks for a graph of %d",
                         shape->rank_count, graph->rank_count);
    if (options->attempt_count < 1 || !(options->block_bytes > 0) || isinf(options->block_bytes))
        return error_set(TUTTI_INVALID_OPTIONS, "%d attempts for blocks of %g bytes",
                         options->attempt_count, options->block_bytes);
    const uint64_t now = clock_now_ns();
    const uint64_t deadline_ns =
        options->timeout_ns < UINT64_MAX - now ? now + options->timeout_ns : UINT64_MAX;
    if (shape->collective == COLLECTIVE_ALLREDUCE)
        return schedule_allreduce(graph, shape, options, deadline_ns, steps, duration_ns);
    if (collective_reduces(shape->collective) || shape->collective == COLLECTIVE_SCATTER)
        return schedule_reversed(graph, shape, options, deadline_ns, steps, duration_ns);
    return schedule_copies(graph, shape, options, deadline_ns, steps, duration_ns);
}
