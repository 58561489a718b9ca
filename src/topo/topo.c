#include "topo/topo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum place { INSIDE, OUTSIDE, ANYWHERE }; /* of machines */

static const struct {
    const char *name;
    enum place place;
} kinds[TOPO_KIND_COUNT] = {
#define X(enumerator, name, where) {name, where},
    TOPO_KIND_LIST(X)
#undef X
};

static const char *const known_names[TOPO_KNOWN_COUNT] = {"assumed", "nominal", "measured"};

/* ------------------------------------------------------------------------------------- building */

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "topology: out of memory");
}

/* Room for one more element. */
static enum tutti_status make_room(void **array, size_t element_size, int count, int count_max,
                                   int *room, const char *what)
{
    if (count < *room) return TUTTI_OK;
    if (count >= count_max)
        return error_set(TUTTI_UNSUPPORTED, "topology: more than %d %s", count_max, what);
    int wanted = *room < 16 ? 16 : 2 * *room;
    if (wanted > count_max) wanted = count_max;
    void *grown = reallocarray(*array, (size_t)wanted, element_size);
    if (grown == NULL) return no_memory();
    *array = grown;
    *room = wanted;
    return TUTTI_OK;
}

enum tutti_status topo_add_node(struct topo *topo, const struct topo_node *node, int *index)
{
    void *array = topo->nodes;
    TRY(make_room(&array, sizeof *node, topo->node_count, TOPO_NODES_MAX, &topo->node_room, "nodes"));
    topo->nodes = array;
    topo->nodes[topo->node_count] = *node;
    if (index != NULL) *index = topo->node_count;
    topo->node_count++;
    return TUTTI_OK;
}

enum tutti_status topo_add_link(struct topo *topo, const struct topo_link *link)
{
    void *array = topo->links;
    TRY(make_room(&array, sizeof *link, topo->link_count, TOPO_LINKS_MAX, &topo->link_room, "links"));
    topo->links = array;
    topo->links[topo->link_count++] = *link;
    return TUTTI_OK;
}

static enum tutti_status add_all(const struct topo *topo, struct topo *copy)
{
    for (int i = 0; i < topo->node_count; i++) TRY(topo_add_node(copy, &topo->nodes[i], NULL));
    for (int i = 0; i < topo->link_count; i++) TRY(topo_add_link(copy, &topo->links[i]));
    return TUTTI_OK;
}

enum tutti_status topo_copy(const struct topo *topo, struct topo *copy)
{
    *copy = (struct topo){0};
    const enum tutti_status status = add_all(topo, copy);
    if (status != TUTTI_OK) topo_release(copy);
    return status;
}

void topo_release(struct topo *topo)
{
    free(topo->nodes);
    free(topo->links);
    *topo = (struct topo){0};
}

/* ---------------------------------------------------------------------------------------- texts */

/* How many bytes the printable UTF-8 character at text has; 0: there is none. */
static size_t character_size(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) return at[0] >= ' ' && at[0] != 0x7f;
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 1; more <= 3; more++) {
        if ((at[0] & forms[more - 1].mask) != forms[more - 1].lead) continue;
        uint32_t code = at[0] & (unsigned char)~forms[more - 1].mask;
        for (size_t i = 1; i <= more; i++) {
            if ((at[i] & 0xc0) != 0x80) return 0; /* which the end of the text is, too */
            code = code << 6 | (at[i] & 0x3f);
        }
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        const bool control = code < 0xa0;
        return code < forms[more - 1].least || code > 0x10ffff || surrogate || control ? 0
                                                                                       : more + 1;
    }
    return 0;
}

void topo_set_text(char *to, size_t to_size, const char *text)
{
    size_t used = 0;
    while (*text != '\0') {
        const size_t size = character_size(text);
        const size_t taken = size > 0 ? size : 1;
        if (used + taken >= to_size) break;
        if (size > 0)
            memcpy(to + used, text, size);
        else
            to[used] = '?';
        used += taken;
        text += taken;
    }
    to[used] = '\0';
}

/* Ends within its array and is printable. */
static bool is_text(const char *text, size_t array_size)
{
    if (memchr(text, '\0', array_size) == NULL) return false;
    while (*text != '\0') {
        const size_t size = character_size(text);
        if (size == 0) return false;
        text += size;
    }
    return true;
}

/* ----------------------------------------------------------------------------------- validating */

static bool is_amount(double value)
{
    return isfinite(value) && value >= 0 && value <= 1e18;
}

static const char *fault_of_node(const struct topo *topo, int index)
{
    const struct topo_node *node = &topo->nodes[index];
    if ((unsigned)node->kind >= TOPO_KIND_COUNT) return "no such kind";
    if (index == 0 && node->parent != -1) return "the root has a parent";
    if (index > 0 && (node->parent < 0 || node->parent >= index))
        return "its parent does not come before it";
    if (node->number < -1) return "a negative number";
    if (node->kind == TOPO_RANK && (node->number < 0 || node->number >= TOPO_RANKS_MAX))
        return "a rank's number is from 0 to 65535";
    if (node->kind == TOPO_CACHE ? node->cache_level < 1 || node->cache_level > TOPO_CACHE_LEVEL_MAX
                                 : node->cache_level != 0)
        return "caches have a level from 1 to 5, and nothing else has";
    if (!is_amount(node->bytes_per_second)) return "bytes per second are not from 0 to 1e18";
    if (node->bytes > INT64_MAX) return "more bytes than there can be";
    if (!is_text(node->name, sizeof node->name) || !is_text(node->address, sizeof node->address))
        return "its name or address is no printable text";
    return NULL;
}

/* The findings on the way through the nodes. */
struct survey {
    unsigned char *depths; /* parents above each node */
    unsigned char *inside; /* 1: one of them is a machine */
    unsigned char *taken;  /* 1: this number is a rank's */
};

static const char *fault_of_place(const struct topo *topo, int index, struct survey *survey)
{
    const struct topo_node *node = &topo->nodes[index];
    if (index > 0) {
        const enum topo_kind parent = topo->nodes[node->parent].kind;
        if (survey->depths[node->parent] == TOPO_DEPTH_MAX) return "nested too deeply";
        survey->depths[index] = (unsigned char)(survey->depths[node->parent] + 1);
        survey->inside[index] = survey->inside[node->parent] || parent == TOPO_MACHINE;
        if (parent == TOPO_RANK || parent == TOPO_NIC) return "nothing stands in a rank or a nic";
    }
    const enum place place = kinds[node->kind].place;
    if (place == INSIDE && !survey->inside[index]) return "this kind stands in a machine only";
    if (place == OUTSIDE && survey->inside[index]) return "this kind stands in no machine";
    if (node->kind == TOPO_RANK && survey->taken[node->number]++ != 0)
        return "another rank has this number, too";
    return NULL;
}

static enum tutti_status survey_nodes(const struct topo *topo, struct topo_fault *fault)
{
    const size_t count = (size_t)topo->node_count;
    struct survey survey = {calloc(count, 1), calloc(count, 1), calloc(TOPO_RANKS_MAX, 1)};
    enum tutti_status status = TUTTI_OK;
    if (survey.depths == NULL || survey.inside == NULL || survey.taken == NULL)
        status = no_memory();
    for (int i = 0; i < topo->node_count && status == TUTTI_OK && fault->why == NULL; i++) {
        fault->index = i;
        fault->why = fault_of_node(topo, i);
        if (fault->why == NULL) fault->why = fault_of_place(topo, i, &survey);
    }
    free(survey.depths);
    free(survey.inside);
    free(survey.taken);
    return status;
}

static const char *fault_of_link(const struct topo *topo, const struct topo_link *link)
{
    for (int i = 0; i < 2; i++) {
        if (link->ends[i] < 0 || link->ends[i] >= topo->node_count) return "an end is no node";
        if (topo->nodes[link->ends[i]].kind == TOPO_RANK)
            return "ranks have no links; what they stand in has";
    }
    if (link->ends[0] == link->ends[1]) return "both ends are the same node";
    if (!is_amount(link->bytes_per_second) || !is_amount(link->latency_ns))
        return "bytes per second or nanoseconds are not from 0 to 1e18";
    if ((unsigned)link->known >= TOPO_KNOWN_COUNT)
        return "neither measured nor nominal nor assumed";
    return NULL;
}

enum tutti_status topo_find_fault(const struct topo *topo, struct topo_fault *fault)
{
    *fault = (struct topo_fault){0};
    if (topo->node_count < 1 || topo->node_count > TOPO_NODES_MAX || topo->link_count < 0 ||
        topo->link_count > TOPO_LINKS_MAX) {
        fault->why = "no nodes, or too many nodes or links";
        return TUTTI_OK;
    }
    TRY(survey_nodes(topo, fault));
    fault->is_link = fault->why == NULL;
    for (int i = 0; i < topo->link_count && fault->why == NULL; i++) {
        fault->index = i;
        fault->why = fault_of_link(topo, &topo->links[i]);
    }
    return TUTTI_OK;
}

enum tutti_status topo_validate(const struct topo *topo)
{
    struct topo_fault fault;
    TRY(topo_find_fault(topo, &fault));
    if (fault.why == NULL) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "topology: %s %d: %s", fault.is_link ? "link" : "node",
                     fault.index, fault.why);
}

static bool same_node(const struct topo_node *a, const struct topo_node *b)
{
    return a->kind == b->kind && a->parent == b->parent && a->number == b->number &&
           a->cache_level == b->cache_level && a->bytes == b->bytes &&
           a->bytes_per_second == b->bytes_per_second && strcmp(a->name, b->name) == 0 &&
           strcmp(a->address, b->address) == 0;
}

static bool same_link(const struct topo_link *a, const struct topo_link *b)
{
    return a->ends[0] == b->ends[0] && a->ends[1] == b->ends[1] &&
           a->bytes_per_second == b->bytes_per_second && a->latency_ns == b->latency_ns &&
           a->known == b->known;
}

bool topo_equal(const struct topo *a, const struct topo *b)
{
    if (a->node_count != b->node_count || a->link_count != b->link_count) return false;
    for (int i = 0; i < a->node_count; i++)
        if (!same_node(&a->nodes[i], &b->nodes[i])) return false;
    for (int i = 0; i < a->link_count; i++)
        if (!same_link(&a->links[i], &b->links[i])) return false;
    return true;
}

/* --------------------------------------------------------------------------------------- asking */

const char *topo_kind_name(enum topo_kind kind)
{
    return kinds[kind].name;
}

enum topo_kind topo_kind_from_name(const char *name)
{
    int kind = 0;
    while (kind < TOPO_KIND_COUNT && strcmp(kinds[kind].name, name) != 0) kind++;
    return (enum topo_kind)kind;
}

const char *topo_known_name(enum topo_known known)
{
    return known_names[known];
}

enum topo_known topo_known_from_name(const char *name)
{
    int known = 0;
    while (known < TOPO_KNOWN_COUNT && strcmp(known_names[known], name) != 0) known++;
    return (enum topo_known)known;
}

int topo_within(const struct topo *topo, int node, enum topo_kind kind)
{
    while (node >= 0 && topo->nodes[node].kind != kind) node = topo->nodes[node].parent;
    return node;
}

int topo_common(const struct topo *topo, int a, int b)
{
    while (a != b) { /* of two nodes, the one with the larger index contains not the other */
        if (a > b)
            a = topo->nodes[a].parent;
        else
            b = topo->nodes[b].parent;
    }
    return a;
}

int topo_rank_count(const struct topo *topo)
{
    int count = 0;
    for (int i = 0; i < topo->node_count; i++) count += topo->nodes[i].kind == TOPO_RANK;
    return count;
}

int topo_node_of_rank(const struct topo *topo, int rank)
{
    for (int i = 0; i < topo->node_count; i++)
        if (topo->nodes[i].kind == TOPO_RANK && topo->nodes[i].number == rank) return i;
    return -1;
}

void topo_children(const struct topo *topo, int *first, int *next)
{
    for (int i = 0; i < topo->node_count; i++) first[i] = next[i] = -1;
    for (int i = topo->node_count - 1; i > 0; i--) {
        const int parent = topo->nodes[i].parent;
        next[i] = first[parent];
        first[parent] = i;
    }
}

/* --------------------------------------------------------------------------------------- labels */

/* "32 MiB" */
static void write_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, value < 10 && unit > 0 ? "%.3g %s" : "%.0f %s", value, units[unit]);
}

void topo_label(const struct topo_node *node, char label[TOPO_LABEL_SIZE])
{
    char number[16] = "", bytes[24] = "";
    const char *kind = topo_kind_name(node->kind);
    if (node->number >= 0) snprintf(number, sizeof number, " %d", node->number);
    if (node->bytes > 0) {
        bytes[0] = ' ';
        write_bytes(node->bytes, bytes + 1, sizeof bytes - 1);
    }
    const char *blank = node->name[0] != '\0' ? " " : "";
    if (node->kind == TOPO_CACHE)
        snprintf(label, TOPO_LABEL_SIZE, "L%d%s%s%s", node->cache_level, bytes, blank, node->name);
    else
        snprintf(label, TOPO_LABEL_SIZE, "%s%s%s%s%s", kind, number, blank, node->name, bytes);
}

void topo_link_label(const struct topo_link *link, char label[TOPO_LABEL_SIZE])
{
    char bandwidth[32] = "", latency[32] = "";
    if (link->bytes_per_second >= 1e9)
        snprintf(bandwidth, sizeof bandwidth, "%.4g GB/s, ", link->bytes_per_second / 1e9);
    else if (link->bytes_per_second > 0)
        snprintf(bandwidth, sizeof bandwidth, "%.4g MB/s, ", link->bytes_per_second / 1e6);
    if (link->latency_ns >= 1000)
        snprintf(latency, sizeof latency, "%.4g us, ", link->latency_ns / 1000);
    else if (link->latency_ns > 0)
        snprintf(latency, sizeof latency, "%.4g ns, ", link->latency_ns);
    snprintf(label, TOPO_LABEL_SIZE, "%s%s%s", bandwidth, latency, topo_known_name(link->known));
}
