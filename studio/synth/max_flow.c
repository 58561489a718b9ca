#include "studio/synth/max_flow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void max_flow_release(struct max_flow *flow)
{
    free(flow->head);
    free(flow->next);
    free(flow->to);
    free(flow->capacity);
    free(flow->spare);
    free(flow->level);
    free(flow->cursor);
    free(flow->line);
    *flow = (struct max_flow){0};
}

enum tutti_status max_flow_init(struct max_flow *flow, int node_count)
{
    const size_t nodes = (size_t)node_count;
    max_flow_release(flow);
    flow->head = malloc(nodes * sizeof *flow->head);
    flow->level = malloc(nodes * sizeof *flow->level);
    flow->cursor = malloc(nodes * sizeof *flow->cursor);
    flow->line = malloc(nodes * sizeof *flow->line);
    if (flow->head == NULL || flow->level == NULL || flow->cursor == NULL || flow->line == NULL) {
        max_flow_release(flow);
        return error_set(TUTTI_NO_MEMORY, "a flow network of %d nodes", node_count);
    }
    flow->node_count = node_count;
    for (int i = 0; i < node_count; i++) flow->head[i] = -1;
    return TUTTI_OK;
}

static bool grow(void *array, size_t element_bytes, int count)
{
    void **const place = array;
    void *const larger = realloc(*place, (size_t)count * element_bytes);
    if (larger != NULL) *place = larger;
    return larger != NULL;
}

static enum tutti_status make_room(struct max_flow *flow)
{
    if (flow->arc_count + 2 <= flow->arc_room) return TUTTI_OK;
    const int room = flow->arc_room > 0 ? 2 * flow->arc_room : 64;
    if (!grow(&flow->next, sizeof *flow->next, room) || !grow(&flow->to, sizeof *flow->to, room) ||
        !grow(&flow->capacity, sizeof *flow->capacity, room) ||
        !grow(&flow->spare, sizeof *flow->spare, room))
        return error_set(TUTTI_NO_MEMORY, "a flow network of %d arcs", room);
    flow->arc_room = room;
    return TUTTI_OK;
}

static void put(struct max_flow *flow, int from, int to, int64_t capacity)
{
    const int arc = flow->arc_count++;
    flow->to[arc] = to;
    flow->capacity[arc] = capacity;
    flow->next[arc] = flow->head[from];
    flow->head[from] = arc;
}

enum tutti_status max_flow_add(struct max_flow *flow, int from, int to, int64_t capacity)
{
    assert(from >= 0 && from < flow->node_count);
    assert(to >= 0 && to < flow->node_count);
    assert(capacity >= 0 && capacity <= MAX_FLOW_UNBOUNDED);
    TRY(make_room(flow));
    put(flow, from, to, capacity);
    put(flow, to, from, 0);
    return TUTTI_OK;
}

/* Numbers all nodes by their distance from the source, or -1. */
static bool find_levels(struct max_flow *flow, int source, int sink)
{
    int begin = 0, end = 0;
    for (int i = 0; i < flow->node_count; i++) flow->level[i] = -1;
    flow->level[source] = 0;
    flow->line[end++] = source;
    while (begin < end) {
        const int node = flow->line[begin++];
        for (int arc = flow->head[node]; arc >= 0; arc = flow->next[arc]) {
            const int to = flow->to[arc];
            if (flow->spare[arc] == 0 || flow->level[to] >= 0) continue;
            flow->level[to] = flow->level[node] + 1;
            flow->line[end++] = to;
            if (to == sink) return true;
        }
    }
    return false;
}

/* As deep as there are nodes, of which a graph has few thousand. */
static int64_t push(struct max_flow *flow, int node, int sink, int64_t amount)
{
    if (node == sink) return amount;
    int64_t pushed = 0;
    for (int *arc = &flow->cursor[node]; *arc >= 0; *arc = flow->next[*arc]) {
        const int to = flow->to[*arc];
        if (flow->spare[*arc] == 0 || flow->level[to] != flow->level[node] + 1) continue;
        const int64_t left = amount - pushed;
        const int64_t through =
            push(flow, to, sink, flow->spare[*arc] < left ? flow->spare[*arc] : left);
        flow->spare[*arc] -= through;
        flow->spare[*arc ^ 1] += through;
        pushed += through;
        if (pushed == amount) return pushed; /* and the arc may have more */
    }
    return pushed;
}

int64_t max_flow_run(struct max_flow *flow, int source, int sink, int64_t limit)
{
    int64_t total = 0;
    assert(source != sink);
    if (flow->arc_count > 0)
        memcpy(flow->spare, flow->capacity, (size_t)flow->arc_count * sizeof *flow->spare);
    while (total < limit && find_levels(flow, source, sink)) {
        memcpy(flow->cursor, flow->head, (size_t)flow->node_count * sizeof *flow->cursor);
        total += push(flow, source, sink, limit - total);
    }
    return total;
}

bool max_flow_is_before_cut(const struct max_flow *flow, int node)
{
    return flow->level[node] >= 0;
}
