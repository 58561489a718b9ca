#include "studio/synth/standing.h"

#include <stdlib.h>

#include "base/status.h"

struct islands {
    const struct topo *topo;
    const int *stand_in;
    int *next; /* of each node: another one of its island, or itself */
    /* For each node that is its own `next`: */
    int *top;      /* the island's part nearest to the machine, or -1 */
    bool *matters; /* it has ranks, or links that leave the machine */
    int *count;    /* of each machine: islands that matter */
};

bool standing_is_container(enum topo_kind kind)
{
    return kind == TOPO_MACHINE || kind == TOPO_PACKAGE || kind == TOPO_NUMA ||
           kind == TOPO_CACHE || kind == TOPO_CORE || kind == TOPO_PU;
}

static int island_of(const struct islands *islands, int node)
{
    int *next = islands->next;
    for (; next[node] != node; node = next[node]) next[node] = next[next[node]];
    return node;
}

/* The ends of a link, or what stands for them; false: it does not stay in one machine. */
static bool is_inside(const struct islands *islands, const struct topo_link *link, int ends[2])
{
    const int machine = topo_within(islands->topo, link->ends[0], TOPO_MACHINE);
    if (machine < 0 || machine != topo_within(islands->topo, link->ends[1], TOPO_MACHINE))
        return false;
    for (int k = 0; k < 2; k++) ends[k] = islands->stand_in[link->ends[k]];
    return true;
}

static int depth_of(const struct topo *topo, int node)
{
    int depth = 0;
    while ((node = topo->nodes[node].parent) >= 0) depth++;
    return depth;
}

/* Accelerators pass nothing on, so they come last. */
static int class_of(enum topo_kind kind)
{
    if (standing_is_container(kind)) return 0;
    return kind == TOPO_SWITCH || kind == TOPO_NIC ? 1 : 2;
}

static bool is_nearer(const struct topo *topo, int a, int b)
{
    const int depths[2] = {depth_of(topo, a), depth_of(topo, b)};
    if (depths[0] != depths[1]) return depths[0] < depths[1];
    return class_of(topo->nodes[a].kind) < class_of(topo->nodes[b].kind);
}

static void find_islands(struct islands *islands)
{
    const struct topo *topo = islands->topo;
    int ends[2];
    for (int i = 0; i < topo->node_count; i++) {
        islands->next[i] = i;
        islands->top[i] = -1;
    }
    for (int i = 0; i < topo->link_count; i++)
        if (is_inside(islands, &topo->links[i], ends))
            islands->next[island_of(islands, ends[0])] = island_of(islands, ends[1]);
    for (int i = 0; i < topo->node_count; i++) {
        if (islands->stand_in[i] != i || topo_within(topo, i, TOPO_MACHINE) < 0) continue;
        int *top = &islands->top[island_of(islands, i)];
        if (*top < 0 || is_nearer(topo, i, *top)) *top = i;
    }
}

static void let_matter(struct islands *islands, int node)
{
    const int machine = topo_within(islands->topo, node, TOPO_MACHINE);
    bool *matters = &islands->matters[island_of(islands, islands->stand_in[node])];
    if (machine < 0 || *matters) return;
    *matters = true;
    islands->count[machine]++;
}

static void count_islands(struct islands *islands)
{
    const struct topo *topo = islands->topo;
    int ends[2];
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_RANK) let_matter(islands, i);
    for (int i = 0; i < topo->link_count; i++)
        for (int k = 0; k < 2 && !is_inside(islands, &topo->links[i], ends); k++)
            let_matter(islands, topo->links[i].ends[k]);
}

/* Whether the island may be joined by that part of it. */
static bool may_join(const struct islands *islands, int node)
{
    const struct topo_node *nodes = islands->topo->nodes;
    const int top = islands->top[island_of(islands, node)];
    if (top < 0 || islands->stand_in[node] != node || nodes[top].kind == TOPO_MACHINE) return false;
    if (islands->count[topo_within(islands->topo, node, TOPO_MACHINE)] < 2) return false;
    return node == top ||
           (standing_is_container(nodes[node].kind) && !is_nearer(islands->topo, top, node));
}

static void choose(const struct islands *islands, bool *is_joined)
{
    const struct topo *topo = islands->topo;
    int ends[2];
    for (int i = 0; i < topo->node_count; i++) is_joined[i] = may_join(islands, i);
    for (int i = 0; i < topo->link_count; i++)
        if (is_inside(islands, &topo->links[i], ends) && ends[0] != ends[1] &&
            may_join(islands, ends[0]) && may_join(islands, ends[1]))
            is_joined[ends[0] > ends[1] ? ends[0] : ends[1]] = false;
}

enum tutti_status standing_find(const struct topo *topo, const int *stand_in, bool *is_joined)
{
    const size_t nodes = (size_t)topo->node_count;
    int *arrays = calloc(3 * nodes + 1, sizeof *arrays);
    bool *matters = calloc(nodes + 1, sizeof *matters);
    enum tutti_status status = TUTTI_OK;
    if (arrays == NULL || matters == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "a topology of %zu nodes", nodes);
    } else {
        struct islands islands = {topo,           stand_in, arrays,
                                  arrays + nodes, matters,  arrays + 2 * nodes};
        find_islands(&islands);
        count_islands(&islands);
        choose(&islands, is_joined);
    }
    free(arrays);
    free(matters);
    return status;
}
