/* topo.h - the machines that ranks stand on, and the links that join them: a tree that says
 * which part contains which, and links across it.
 *
 *     rack 0 ─┬─ switch ════════════════════╗
 *             ├─ machine a ─┬─ nic eth0 ════╣  links: 12.5 GB/s, 1 us, nominal
 *             │             └─ package 0 ── L3 ── core 0 ── rank 0
 *             └─ machine b ─┬─ nic eth0 ════╝
 *                           └─ package 0 ── L3 ── core 0 ── rank 1
 *
 * 1. Nodes and links are two arrays; everything is named by its index in them, so that a topology
 *    can be copied, sent and written down as it is.
 * 2. Node 0 is the root. The parent of every other node has a smaller index than the node.
 * 3. Parts that stand in a machine are connected by standing there (memory, buses); above machines
 *    only links connect.
 * 4. Zero bytes, bytes per second or nanoseconds mean that the value is not known.
 *
 * It does not find paths (path.h), tell groups (levels.h), look at the host (discover.h) or know of
 * files (format/).
 */
#ifndef TUTTI_TOPO_TOPO_H
#define TUTTI_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* X(enumerator without TOPO_, name, where it stands) from the largest to the smallest. */
#define TOPO_KIND_LIST(X)                 \
    X(CLUSTER, "cluster", OUTSIDE)        \
    X(RACK, "rack", OUTSIDE)              \
    X(SWITCH, "switch", ANYWHERE)         \
    X(MACHINE, "machine", OUTSIDE)        \
    X(PACKAGE, "package", INSIDE)         \
    X(NUMA, "numa", INSIDE)               \
    X(CACHE, "cache", INSIDE)             \
    X(CORE, "core", INSIDE)               \
    X(PU, "pu", INSIDE)                   \
    X(NIC, "nic", INSIDE)                 \
    X(ACCELERATOR, "accelerator", INSIDE) \
    X(RANK, "rank", INSIDE)

enum topo_kind {
#define X(enumerator, name, where) TOPO_##enumerator,
    TOPO_KIND_LIST(X)
#undef X
        TOPO_KIND_COUNT
};

/* How a number is known, from the weakest to the strongest. */
enum topo_known { TOPO_ASSUMED, TOPO_NOMINAL, TOPO_MEASURED, TOPO_KNOWN_COUNT };

enum {
    TOPO_NODES_MAX = 1 << 18,
    TOPO_LINKS_MAX = 1 << 20,
    TOPO_DEPTH_MAX = 32,      /* parents above a node */
    TOPO_RANKS_MAX = 1 << 16, /* rank numbers are below */
    TOPO_NAME_SIZE = 64,
    TOPO_ADDRESS_SIZE = 24,
    TOPO_CACHE_LEVEL_MAX = 5,
    TOPO_LABEL_SIZE = 128
};

struct topo_node {
    enum topo_kind kind;
    int parent;      /* -1: the root */
    int number;      /* the rank's; the operating system's of a core or the like; -1: none */
    int cache_level; /* 1 to TOPO_CACHE_LEVEL_MAX for a cache, otherwise 0 */
    uint64_t bytes;  /* of a cache, of a numa node's or an accelerator's memory */
    double bytes_per_second;         /* of a nic: the rate of its port, whatever it is joined to */
    char name[TOPO_NAME_SIZE];       /* the name for people; may be empty, need not be unique */
    char address[TOPO_ADDRESS_SIZE]; /* on the PCI bus: "0000:17:00.0"; or empty */
};

/* Full duplex: each direction has the bandwidth. */
struct topo_link {
    int ends[2]; /* nodes */
    double bytes_per_second;
    double latency_ns; /* one way */
    enum topo_known known;
};

/* All zero is the empty topology. The arrays are the topology's own. */
struct topo {
    struct topo_node *nodes;
    struct topo_link *links;
    int node_count, link_count, node_room, link_room;
};

/* ------------------------------------------------------------------------------------------------ building
 * Nothing here takes a lock or keeps anything: any thread, one at a time per topology. On failure
 * the message says why (tutti_error_message) and the topology is as before. */

/* Adds a node; *index is its. Checks nothing but the bounds (UNSUPPORTED) and memory. index may be
 * NULL. */
enum tutti_status topo_add_node(struct topo *topo, const struct topo_node *node, int *index);
/* The same for a link. */
enum tutti_status topo_add_link(struct topo *topo, const struct topo_link *link);
/* *copy, which is overwritten, gets arrays of its own. */
enum tutti_status topo_copy(const struct topo *topo, struct topo *copy);
/* Leaves the empty topology. */
void topo_release(struct topo *topo);

struct topo_fault {
    bool is_link;
    int index;       /* of a link or a node */
    const char *why; /* static; NULL: all is well */
};

/* Whether everything this header promises holds, for what came from outside: the first fault.
 * NO_MEMORY only. Functions that take a topology expect a valid one, unless they say otherwise. */
enum tutti_status topo_find_fault(const struct topo *topo, struct topo_fault *fault);
/* The same: INVALID_OPTIONS, and the message has the fault. */
enum tutti_status topo_validate(const struct topo *topo);
/* The same nodes and links in the same order. */
bool topo_equal(const struct topo *a, const struct topo *b);

/* Copies as much of text as fits. A question mark replaces each byte that is not printable
 * UTF-8. */
void topo_set_text(char *to, size_t to_size, const char *text);

/* --------------------------------------------------------------------------------------- asking */

const char *topo_kind_name(enum topo_kind kind);
/* TOPO_KIND_COUNT when there is none of that name. */
enum topo_kind topo_kind_from_name(const char *name);
const char *topo_known_name(enum topo_known known);
enum topo_known topo_known_from_name(const char *name); /* or TOPO_KNOWN_COUNT */

/* The node itself or the nearest one of that kind that contains it; -1: there is none. */
int topo_within(const struct topo *topo, int node, enum topo_kind kind);
/* The smallest node that contains both, which may be one of them. */
int topo_common(const struct topo *topo, int a, int b);
int topo_rank_count(const struct topo *topo);
/* -1: there is no such rank. Looks at all nodes. */
int topo_node_of_rank(const struct topo *topo, int rank);

/* Fills first[] and next[], of node_count elements each: a node's first child and next sibling, in
 * ascending order, or -1. */
void topo_children(const struct topo *topo, int *first, int *next);

/* "L3 32 MiB", "core 3", "nic eth0". */
void topo_label(const struct topo_node *node, char label[TOPO_LABEL_SIZE]);
/* "12.5 GB/s, 1.5 us, nominal"; parts that are not known are left out. */
void topo_link_label(const struct topo_link *link, char label[TOPO_LABEL_SIZE]);

#endif
