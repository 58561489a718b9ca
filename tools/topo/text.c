#include "text.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/topo/levels.h"
#include "studio/topo/path.h"

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "out of memory");
}

/* ----------------------------------------------------------------------------------------- tree */

enum { LINKED_DEPTH = TOPO_DEPTH_MAX + 2 };

struct tree {
    const struct topo *topo;
    FILE *file;
    int *first, *next, *up;  /* up: of a node, the link to what contains it, or -1 */
    bool more[LINKED_DEPTH]; /* at each depth: siblings follow */
};

static void print_line(const struct tree *tree, int node, int depth)
{
    const struct topo_node *what = &tree->topo->nodes[node];
    char label[TOPO_LABEL_SIZE];
    for (int i = 1; i < depth; i++) fputs(tree->more[i] ? "│  " : "   ", tree->file);
    if (depth > 0) fputs(tree->more[depth] ? "├─ " : "└─ ", tree->file);
    topo_label(what, label);
    fputs(label, tree->file);
    if (what->address[0] != '\0') fprintf(tree->file, "  %s", what->address);
    if (what->bytes_per_second > 0)
        fprintf(tree->file, "  port %.4g GB/s", what->bytes_per_second / 1e9);
    if (tree->up[node] >= 0) {
        topo_link_label(&tree->topo->links[tree->up[node]], label);
        fprintf(tree->file, "  up %s", label);
    }
    fputc('\n', tree->file);
}

static void print_subtree(struct tree *tree, int node, int depth)
{
    print_line(tree, node, depth);
    for (int child = tree->first[node]; child >= 0; child = tree->next[child]) {
        tree->more[depth + 1] = tree->next[child] >= 0;
        print_subtree(tree, child, depth + 1);
    }
}

/* Prints the name by which a reader tells a node from others: the node behind its machine or, above
 * machines, behind its rack. "machine a, nic eth0" */
static void print_whereabouts(const struct topo *topo, int node, FILE *file)
{
    char label[TOPO_LABEL_SIZE];
    int place = topo_within(topo, node, TOPO_MACHINE);
    if (place < 0 || place == node) place = topo_within(topo, node, TOPO_RACK);
    if (place > 0 && place != node) { /* a node that contains everything tells nothing apart */
        topo_label(&topo->nodes[place], label);
        fprintf(file, "%s, ", label);
    }
    topo_label(&topo->nodes[node], label);
    fputs(label, file);
    if (topo->nodes[node].address[0] != '\0') fprintf(file, " %s", topo->nodes[node].address);
}

static void print_links(const struct tree *tree)
{
    const struct topo *topo = tree->topo;
    bool any = false;
    for (int i = 0; i < topo->link_count; i++) {
        const struct topo_link *link = &topo->links[i];
        if (tree->up[link->ends[0]] == i || tree->up[link->ends[1]] == i) continue;
        char label[TOPO_LABEL_SIZE];
        if (!any) fputs("links\n", tree->file);
        any = true;
        fputs("   ", tree->file);
        print_whereabouts(topo, link->ends[0], tree->file);
        fputs(" ══ ", tree->file);
        print_whereabouts(topo, link->ends[1], tree->file);
        topo_link_label(link, label);
        fprintf(tree->file, "  %s\n", label);
    }
}

static void find_ups(struct tree *tree)
{
    const struct topo *topo = tree->topo;
    for (int i = 0; i < topo->node_count; i++) tree->up[i] = -1;
    for (int i = topo->link_count - 1; i >= 0; i--)
        for (int k = 0; k < 2; k++) {
            const int node = topo->links[i].ends[k];
            if (topo->nodes[node].parent == topo->links[i].ends[1 - k]) tree->up[node] = i;
        }
}

enum tutti_status print_tree(const struct topo *topo, FILE *file)
{
    const size_t count = (size_t)topo->node_count;
    struct tree tree = {.topo = topo,
                        .file = file,
                        .first = calloc(count, sizeof *tree.first),
                        .next = calloc(count, sizeof *tree.next),
                        .up = calloc(count, sizeof *tree.up)};
    enum tutti_status status = TUTTI_OK;
    if (!tree.first || !tree.next || !tree.up) {
        status = no_memory();
    } else {
        topo_children(topo, tree.first, tree.next);
        find_ups(&tree);
        print_subtree(&tree, 0, 0);
        print_links(&tree);
    }
    free(tree.first);
    free(tree.next);
    free(tree.up);
    return status;
}

/* --------------------------------------------------------------------------------------- matrix */

enum { HEAD_SIZE = 16 };

/* The kind of the smallest node that contains two others. */
enum nearness {
    NEAR_SELF,
    NEAR_PU,
    NEAR_CORE,
    NEAR_ACCELERATOR,
    NEAR_CACHE, /* and, added to it, the level */
    NEAR_BUS = NEAR_CACHE + TOPO_CACHE_LEVEL_MAX + 1,
    NEAR_NUMA,
    NEAR_PACKAGE,
    NEAR_MACHINE,
    NEAR_SWITCH,
    NEAR_RACK,
    NEAR_CLUSTER,
    NEAR_LINK,
    NEAR_COUNT
};

static const struct {
    const char *code, *meaning;
} nearnesses[NEAR_COUNT] = {[NEAR_SELF] = {"X", "itself"},
                            [NEAR_PU] = {"PU", "the same processing unit"},
                            [NEAR_CORE] = {"CORE", "the same core"},
                            [NEAR_ACCELERATOR] = {"ACC", "the same accelerator"},
                            [NEAR_CACHE + 1] = {"L1", "the same first level cache"},
                            [NEAR_CACHE + 2] = {"L2", "the same second level cache"},
                            [NEAR_CACHE + 3] = {"L3", "the same third level cache"},
                            [NEAR_CACHE + 4] = {"L4", "the same fourth level cache"},
                            [NEAR_CACHE + 5] = {"L5", "the same fifth level cache"},
                            [NEAR_BUS] = {"PCI", "the same switch in a machine"},
                            [NEAR_NUMA] = {"NUMA", "the same numa node"},
                            [NEAR_PACKAGE] = {"PKG", "the same package"},
                            [NEAR_MACHINE] = {"HOST", "the same machine"},
                            [NEAR_SWITCH] = {"SW", "the same network switch"},
                            [NEAR_RACK] = {"RACK", "the same rack"},
                            [NEAR_CLUSTER] = {"FAR", "the same cluster, and nothing less"},
                            [NEAR_LINK] = {"LINK", "a link between the two"}};

struct matrix {
    const struct topo *topo;
    FILE *file;
    int ends[MATRIX_MAX];
    int count;
    char heads[MATRIX_MAX][HEAD_SIZE];
    enum nearness *nearness;
    struct topo_reach *reach; /* of a row, then of all pairs */
    struct topo_reach *pairs;
};

static enum nearness nearness_of_kind(const struct topo *topo, int common)
{
    const struct topo_node *node = &topo->nodes[common];
    switch (node->kind) {
    case TOPO_PU: return NEAR_PU;
    case TOPO_CORE: return NEAR_CORE;
    case TOPO_ACCELERATOR: return NEAR_ACCELERATOR;
    case TOPO_CACHE: return (enum nearness)(NEAR_CACHE + node->cache_level);
    case TOPO_NUMA: return NEAR_NUMA;
    case TOPO_PACKAGE: return NEAR_PACKAGE;
    case TOPO_MACHINE: return NEAR_MACHINE;
    case TOPO_SWITCH: return topo_within(topo, common, TOPO_MACHINE) >= 0 ? NEAR_BUS : NEAR_SWITCH;
    case TOPO_RACK: return NEAR_RACK;
    case TOPO_CLUSTER:
    case TOPO_NIC:
    case TOPO_RANK:
    case TOPO_KIND_COUNT: break;
    }
    return NEAR_CLUSTER;
}

/* If a rank belongs to an accelerator, a link of the accelerator is a link of the rank. */
static int linked_node(const struct topo *topo, int node)
{
    const int parent = topo->nodes[node].parent;
    const bool rides = topo->nodes[node].kind == TOPO_RANK && parent >= 0 &&
                       topo->nodes[parent].kind == TOPO_ACCELERATOR;
    return rides ? parent : node;
}

static bool are_linked(const struct topo *topo, int a, int b)
{
    a = linked_node(topo, a);
    b = linked_node(topo, b);
    for (int i = 0; i < topo->link_count && a != b; i++) {
        const int *ends = topo->links[i].ends;
        if ((ends[0] == a && ends[1] == b) || (ends[0] == b && ends[1] == a)) return true;
    }
    return false;
}

static bool is_kind(const struct topo *topo, int node, enum topo_kind kind)
{
    return topo->nodes[node].kind == kind;
}

static int count_kind(const struct topo *topo, enum topo_kind kind)
{
    int count = 0;
    for (int i = 0; i < topo->node_count; i++) count += is_kind(topo, i, kind);
    return count;
}

static void write_head(const struct matrix *matrix, int node, int ordinal, char head[HEAD_SIZE])
{
    static const char *const prefixes[TOPO_KIND_COUNT] = {
        [TOPO_RANK] = "rank",    [TOPO_PU] = "pu",           [TOPO_CORE] = "core",
        [TOPO_MACHINE] = "host", [TOPO_ACCELERATOR] = "acc", [TOPO_NIC] = "nic"};
    const struct topo_node *what = &matrix->topo->nodes[node];
    const bool own = what->number >= 0 &&
                     (what->kind == TOPO_RANK || what->kind == TOPO_PU || what->kind == TOPO_CORE);
    snprintf(head, HEAD_SIZE, "%s%d", prefixes[what->kind], own ? what->number : ordinal);
}

/* By number where there is one, which ranks always have. */
static int compare_ends(const void *a, const void *b, void *context)
{
    const struct topo *topo = context;
    const int left = *(const int *)a, right = *(const int *)b;
    const int x = topo->nodes[left].number, y = topo->nodes[right].number;
    if (is_kind(topo, left, TOPO_RANK) && x != y) return x < y ? -1 : 1;
    return left < right ? -1 : left > right;
}

/* An accelerator that a rank has is shown by the rank. */
static bool is_taken(const struct matrix *matrix, int node)
{
    for (int i = 0; i < matrix->count; i++)
        if (linked_node(matrix->topo, matrix->ends[i]) == node) return true;
    return false;
}

static enum tutti_status add_ends(struct matrix *matrix, enum topo_kind kind)
{
    struct topo *topo = (struct topo *)(uintptr_t)matrix->topo; /* for qsort_r, which reads it */
    const int count = count_kind(topo, kind), begin = matrix->count;
    if (count > MATRIX_MAX - begin)
        return error_set(TUTTI_UNSUPPORTED, "a matrix of more than %d rows says nothing",
                         MATRIX_MAX);
    for (int i = 0; i < topo->node_count; i++)
        if (is_kind(topo, i, kind) && !is_taken(matrix, i)) matrix->ends[matrix->count++] = i;
    qsort_r(matrix->ends + begin, (size_t)(matrix->count - begin), sizeof *matrix->ends,
            compare_ends, topo);
    for (int i = begin; i < matrix->count; i++)
        write_head(matrix, matrix->ends[i], i - begin, matrix->heads[i]);
    return TUTTI_OK;
}

/* Ranks, or what could hold one; and devices. */
static enum tutti_status choose_ends(struct matrix *matrix)
{
    static const enum topo_kind finest[] = {TOPO_RANK, TOPO_PU, TOPO_CORE, TOPO_MACHINE};
    int i = 0;
    while (i < 3 && count_kind(matrix->topo, finest[i]) == 0) i++;
    TRY(add_ends(matrix, finest[i]));
    TRY(add_ends(matrix, TOPO_ACCELERATOR));
    return add_ends(matrix, TOPO_NIC);
}

static enum tutti_status fill_matrix(struct matrix *matrix)
{
    const struct topo *topo = matrix->topo;
    const int count = matrix->count;
    for (int i = 0; i < count; i++) {
        TRY(topo_reach_all(topo, matrix->ends[i], matrix->reach));
        for (int k = 0; k < count; k++) {
            const int a = matrix->ends[i], b = matrix->ends[k];
            matrix->pairs[i * count + k] = matrix->reach[b];
            matrix->nearness[i * count + k] = a == b ? NEAR_SELF
                                              : are_linked(topo, a, b)
                                                  ? NEAR_LINK
                                                  : nearness_of_kind(topo, topo_common(topo, a, b));
        }
    }
    return TUTTI_OK;
}

static void print_heads(const struct matrix *matrix, int width)
{
    fprintf(matrix->file, "%*s", width, "");
    for (int k = 0; k < matrix->count; k++) fprintf(matrix->file, " %*s", width, matrix->heads[k]);
    fputc('\n', matrix->file);
}

static void print_nearness(const struct matrix *matrix, int width)
{
    bool used[NEAR_COUNT] = {false};
    print_heads(matrix, width);
    for (int i = 0; i < matrix->count; i++) {
        fprintf(matrix->file, "%-*s", width, matrix->heads[i]);
        for (int k = 0; k < matrix->count; k++) {
            const enum nearness nearness = matrix->nearness[i * matrix->count + k];
            fprintf(matrix->file, " %*s", width, nearnesses[nearness].code);
            used[nearness] = true;
        }
        fputc('\n', matrix->file);
    }
    fputc('\n', matrix->file);
    for (int i = 0; i < NEAR_COUNT; i++)
        if (used[i]) fprintf(matrix->file, "%-6s %s\n", nearnesses[i].code, nearnesses[i].meaning);
}

static void print_names(const struct matrix *matrix)
{
    for (int i = 0; i < matrix->count; i++) {
        const struct topo_node *node = &matrix->topo->nodes[matrix->ends[i]];
        if (node->kind != TOPO_NIC && node->kind != TOPO_ACCELERATOR && node->kind != TOPO_MACHINE)
            continue;
        fprintf(matrix->file, "%-6s ", matrix->heads[i]);
        print_whereabouts(matrix->topo, matrix->ends[i], matrix->file);
        fputc('\n', matrix->file);
    }
}

static void print_bandwidths(const struct matrix *matrix, int width)
{
    fputs("\nGB/s of the narrowest link on the way (-: no way; ?: nobody said)\n\n", matrix->file);
    print_heads(matrix, width);
    for (int i = 0; i < matrix->count; i++) {
        fprintf(matrix->file, "%-*s", width, matrix->heads[i]);
        for (int k = 0; k < matrix->count; k++) {
            const struct topo_reach *reach = &matrix->pairs[i * matrix->count + k];
            char cell[24] = "?";
            if (i == k)
                strcpy(cell, "X");
            else if (reach->hops < 0)
                strcpy(cell, "-");
            else if (reach->bytes_per_second > 0)
                snprintf(cell, sizeof cell, "%.4g", reach->bytes_per_second / 1e9);
            fprintf(matrix->file, " %*s", width, cell);
        }
        fputc('\n', matrix->file);
    }
}

static void print_both(const struct matrix *matrix)
{
    int width = 5;
    bool known = false;
    for (int i = 0; i < matrix->count; i++)
        if ((int)strlen(matrix->heads[i]) > width) width = (int)strlen(matrix->heads[i]);
    for (int i = 0; i < matrix->count * matrix->count; i++)
        known |= matrix->pairs[i].bytes_per_second > 0;
    print_nearness(matrix, width);
    print_names(matrix);
    if (known) print_bandwidths(matrix, width);
}

static enum tutti_status fill_and_print(struct matrix *matrix)
{
    TRY(choose_ends(matrix));
    const size_t cells = (size_t)matrix->count * (size_t)matrix->count;
    matrix->nearness = calloc(cells, sizeof *matrix->nearness);
    matrix->pairs = calloc(cells, sizeof *matrix->pairs);
    matrix->reach = calloc((size_t)matrix->topo->node_count, sizeof *matrix->reach);
    if (!matrix->nearness || !matrix->pairs || !matrix->reach) return no_memory();
    TRY(fill_matrix(matrix));
    print_both(matrix);
    return TUTTI_OK;
}

enum tutti_status print_matrix(const struct topo *topo, FILE *file)
{
    struct matrix *matrix = calloc(1, sizeof *matrix);
    if (matrix == NULL) return no_memory();
    matrix->topo = topo;
    matrix->file = file;
    const enum tutti_status status = fill_and_print(matrix);
    free(matrix->nearness);
    free(matrix->pairs);
    free(matrix->reach);
    free(matrix);
    return status;
}

/* --------------------------------------------------------------------------------------- levels */

/* "0-3 8" */
static void print_group(const struct topo_level *level, int group, int rank_count, FILE *file)
{
    const char *separator = "";
    for (int rank = 0; rank < rank_count; rank++) {
        if (level->group_of_rank[rank] != group) continue;
        int last = rank;
        while (last + 1 < rank_count && level->group_of_rank[last + 1] == group) last++;
        if (last > rank)
            fprintf(file, "%s%d-%d", separator, rank, last);
        else
            fprintf(file, "%s%d", separator, rank);
        separator = " ";
        rank = last;
    }
}

enum tutti_status print_levels(const struct topo *topo, FILE *file)
{
    struct topo_levels levels;
    TRY(topo_levels_init(&levels, topo));
    for (int i = 0; i < levels.count; i++) {
        const struct topo_level *level = &levels.levels[i];
        fprintf(file, "%s: %d groups\n", level->name, level->group_count);
        for (int group = 0; group < level->group_count; group++) {
            fprintf(file, "   %d: ", group);
            print_group(level, group, levels.rank_count, file);
            fputc('\n', file);
        }
    }
    fprintf(file, levels.rank_count > 1 ? "all: 0-%d\n" : "all: %d\n", levels.rank_count - 1);
    topo_levels_release(&levels);
    return TUTTI_OK;
}
