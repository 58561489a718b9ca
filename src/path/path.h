/* path.h - which way a byte goes from one rank to another: data, a row per path and a rule per
 * case.
 *
 *     kinds of memory ─┐
 *     transport's rows ├─► table ──► what a step needs ──► paths, best first ──► the first that can be taken, when it runs
 *     caches ──────────┘     │
 *                            └─────► what they move and cost: for models, tools and pages
 *
 * A *path* is how the bytes of one message get from memory of the sender to where the receiver uses
 * them. A transport has a *table* for each kind of peer it leads to (a rank of this host, of
 * another one):
 *
 *   - a *row* per path that its links have: what the path needs, moves and costs, and whether ranks
 *     must agree on it;
 *   - *rules*, in order of preference: for messages of these sizes, of that kind of traffic, read
 *     by so many, the path is worth taking.
 *
 * Sizes from which on a path pays are in such tables alone: each transport's paths.c, and path_rules.h (algorithms are chosen by src/tune). A change
 * of a rule changes what the engine, messages and the tools do, all at once.
 *
 * A path is taken by an offer or by agreement. An *offer* is the sender's or the receiver's own:
 * the other end takes each message as it comes, so two ranks may use different rules. Both ends
 * must compute alike what is *agreed*, or they would wait on different links: the piece size and
 * the number of pieces, and what goes to a group at once. Those values go into the signature of a
 * call (path_agreed), so that ranks that differ are told so.
 *
 * Everything here is a pure function of its arguments, on any thread; nothing allocates or blocks.
 */
#ifndef TUTTI_PATH_PATH_H
#define TUTTI_PATH_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"

/* X(enumerator, name, what it is) */
#define PATH_KIND_LIST(X)                                                                    \
    X(PATH_INLINE, "inline", "in the header of the message")                                 \
    X(PATH_SLOT, "slot", "copied into a place of the link, and read there")                  \
    X(PATH_GROUP_SLOT, "group-slot", "copied once into a place that a group of ranks reads") \
    X(PATH_SHARED_SLOT, "shared-slot",                                                       \
      "copied once into a place of the sender's, sent on any links")                         \
    X(PATH_FORWARD, "forward", "changed and sent on in the place in which it came")          \
    X(PATH_READ, "read", "read by the receiver, or by its card, where it lies")              \
    X(PATH_COPY, "copy",                                                                     \
      "copied by the receiver out of the sender's private memory, by a system call")         \
    X(PATH_WRITE, "write", "stored by the sender in memory that the receiver advertised")    \
    X(PATH_DIRECT, "direct",                                                                 \
      "stored by the receiver's end of the link where it belongs, as it arrives")            \
    X(PATH_STAGE, "stage", "stored in memory first, and sent from there as the links have room")

enum path_kind {
#define X(enumerator, name, text) enumerator,
    PATH_KIND_LIST(X)
#undef X
        PATH_KIND_COUNT
};

static inline unsigned path_bit(unsigned path)
{
    return 1u << path;
}
/* The paths by which a sender copies bytes to a place of the link, for as long as there is room. */
enum { PATH_PLACES = 1 << PATH_INLINE | 1 << PATH_SLOT | 1 << PATH_GROUP_SLOT };
static inline bool path_is_place(enum path_kind path)
{
    return (path_bit(path) & PATH_PLACES) != 0;
}
/* The paths that move bytes from memory to memory as they lie. */
enum { PATH_AS_THEY_LIE = 1 << PATH_READ | 1 << PATH_COPY | 1 << PATH_WRITE | 1 << PATH_DIRECT };
const char *path_kind_name(enum path_kind path);

/* --------------------------------------------------------------------------------- what is sent */

/* The traffic that a message is part of: which other ranks send how much, and what becomes of it at
 * its receiver. A property of the plan. */
enum path_traffic {
    PATH_EXCHANGE = 1,         /* every rank sends as much as it receives, all of it to be stored */
    PATH_FROM_ROOT = 2,        /* one rank sends, each other one stores its part */
    PATH_TO_ROOT = 4,          /* one rank stores what all others send */
    PATH_SPREAD = 8,           /* the same bytes for several ranks, which store them */
    PATH_REDUCED = 16,         /* reduced by a receiver, which keeps the result */
    PATH_REDUCED_FOR_ALL = 32, /* reduced, and the result goes to all */
    PATH_MESSAGE = 64,         /* of send and recv, while nothing comes the other way */
    PATH_MESSAGE_BOTH_WAYS = 128,
    PATH_ANY_COLLECTIVE = 63,
    PATH_ANY_TRAFFIC = 255
};
enum path_traffic path_traffic_of(enum collective collective);

/* The readers of a message. */
enum path_readers {
    PATH_TO_ONE = 1,
    PATH_TO_ONE_ON_A_CHAIN =
        2, /* one rank, which adds to it and passes it on before it needs anything else */
    PATH_TO_SEVERAL = 4, /* over a link each */
    PATH_TO_GROUP = 8,   /* over one link to all of them */
    PATH_ANY_READERS = 15
};

/* The use that the step makes of a message. */
enum path_step {
    PATH_SENDS = 1,  /* sends memory, and nothing else */
    PATH_PASSES = 2, /* computes what it sends, or stores it, too */
    PATH_STORES = 4, /* receives it, and stores it as it comes */
    PATH_ANY_SENDER = PATH_SENDS | PATH_PASSES
};

enum path_cores {
    PATH_OWN_CORES = 1, /* each rank has a core */
    PATH_SHARED_CORES =
        2, /* there are more ranks than cores: a copy that is saved is somebody's time */
    PATH_ANY_CORES = 3
};

/* The number of ranks of the plan that send to several ranks at once. Shared slots and slots of
 * groups are few: they keep moving only if at most two ranks fill them. */
enum path_senders { PATH_FEW_SENDERS = 1, PATH_MANY_SENDERS = 2, PATH_ANY_SENDERS = 3 };

/* A message as binding knows it. */
struct path_case {
    size_t bytes;
    enum path_traffic traffic;
    enum path_readers readers;
    enum path_step step;
    enum path_cores cores;
    enum path_senders senders;
    int rank_count;
    unsigned reader_count; /* of ranks that the step sends this to */
    bool is_encoded; /* on the link its bytes are others than in memory: no path moves them as they lie */
};

/* --------------------------------------------------------------------------------------- tables */

/* Memory at the ends of a path. A row says which kinds of memory its path takes; the transport,
 * when asked, says of which kind an address is. */
enum path_memory {
    PATH_PRIVATE = 1, /* of the heap, the stack: only its process can address it */
    PATH_MAPPED =
        2, /* that the other end can address, too: of tutti_mem_alloc, or of another thread */
    PATH_HOST_MEMORY = 3,
    PATH_OTHER_MEMORY = 4 /* of another kind than the host's (memory/kind.h) */
};

/* When the sender may use its memory again. */
enum path_completion {
    PATH_AT_ONCE,  /* as soon as the message has been sent */
    PATH_CONSUMED, /* when the receiver has consumed it */
};

/* The work of moving a byte: how often each side loads and stores it. */
struct path_work {
    uint8_t sender_loads, sender_stores, receiver_loads, receiver_stores;
    uint8_t kernel_copies; /* by the operating system, on either side */
    uint8_t crossings;     /* of each line from one core's cache to another's */
};

/* The cost of a path, in picoseconds so that costs are whole numbers: for a message, and for each
 * of its bytes once caches are warm. */
struct path_cost {
    uint32_t sender_ps, receiver_ps;
    uint32_t sender_ps_a_byte, receiver_ps_a_byte;
};

struct path_row {
    enum path_kind path;
    unsigned sender_memory, receiver_memory; /* of enum path_memory */
    size_t alignment;                        /* of both ends; 1: any */
    bool is_agreed;                          /* else an offer */
    bool is_ordered;                         /* a later message is not seen earlier */
    bool needs_registration;
    size_t asked_bytes; /* from this size on a sender asks for a place, and waits for the answer; 0: never */
    enum path_completion completion;
    unsigned in_flight; /* messages under way on a link, at most */
    struct path_work work;
    struct path_cost cost;
    const char *measured; /* how the cost was measured, and where */
};

/* A path is worth taking for messages of bytes_min to bytes_max bytes where all conditions hold. */
struct path_rule {
    enum path_kind path;
    size_t bytes_min, bytes_max;
    unsigned traffic, readers, steps, cores, senders; /* of the enums above, or-ed */
    size_t all_bytes_max; /* of the messages of all ranks together; 0: any */
    unsigned readers_max; /* 0: any number */
    const char *why;      /* the reason for these bounds, and what they were measured with */
};

/* Other sizes from which on something pays. */
struct path_sizes {
    size_t piece_bytes_min, piece_bytes_max; /* of what a chunk is cut into: agreed */
    unsigned copied_pieces;                  /* that one system call copies out, PATH_COPY */
    size_t executor_bytes; /* that the executors of all ranks together read and write at once, each with one kernel */
    size_t stream_bytes_min; /* of a block, whose results are stored past the caches */
    size_t eager_bytes_max;  /* of a message of send that goes without asking first */
    size_t message_bytes_a_pass; /* of messages that were asked for, to or from one peer, so that others get their turn */
    size_t mapped_bytes_min; /* of a block, for whose call ranks tell each other whether their memory is mapped: agreed */
    size_t copies_bytes_min; /* of a block, whose cost within a host is that of copies even over a network: agreed */
};

/* The sizes that hold for every transport. A transport whose messages each cost the kernel's time
 * gives the least size of a piece itself. */
#define PATH_SIZES PATH_SIZES_FROM((size_t)16 << 10)
#define PATH_SIZES_FROM(least)                                                                    \
    {                                                                                             \
        .piece_bytes_min = (least),                                                               \
        .piece_bytes_max = (size_t)64                                                             \
                           << 10, /* a piece and its slots stay in the second-level cache */      \
            .copied_pieces = 8,                                                                   \
        .executor_bytes = (size_t)512                                                             \
                          << 20, /* eight ranks with 2 GiB on one H200 took 25 times as long */   \
            .stream_bytes_min = (size_t)2 << 20, /* a result does not stay in a cache anyway */   \
            .eager_bytes_max =                                                                    \
                ((size_t)16 << 10) - 1, /* a copy at the receiver costs less than asking first */ \
            .message_bytes_a_pass = (size_t)1 << 20,                                              \
        .mapped_bytes_min = (size_t)8 << 10, /* another algorithm does better in mapped memory */ \
            .copies_bytes_min = (size_t)64 << 10,                                                 \
    }

/* Looks in vain at links without room, in spin budgets of the operation, before a step takes its
 * next path. */
struct path_budgets {
    unsigned for_slot, for_shared_slot;
};

struct path_table {
    const char *name; /* of the transport */
    bool is_memory; /* that both ends address: a receiver finds a message by loading the line that announces it */
    unsigned lacks; /* paths, as path_bit, that these links do not have although there are rows for them: as if there were no rules */
    const struct path_row *rows;
    unsigned row_count;
    const struct path_rule *rules; /* in order of preference */
    unsigned rule_count;
    struct path_sizes sizes;
    struct path_budgets budgets;
    size_t answer_bytes; /* of its sender's own data that an answer may have to wait behind, where there are no others than in one queue */
};

/* The row of a path; NULL: these links do not have it. */
const struct path_row *path_row_of(const struct path_table *table, enum path_kind path);

/* ------------------------------------------------------------------------------------- choosing */

/* Paths, best first, each once. */
struct path_list {
    uint8_t paths[PATH_KIND_COUNT]; /* of enum path_kind */
    uint8_t count;
    uint16_t bits; /* of path_bit */
};

/* The paths that a message is worth sending by (for a step that stores: may come by). For a step
 * that sends, the last path is one for which it can always wait: a place of the link, or PATH_STAGE
 * behind that. */
struct path_list path_choose(const struct path_table *table, const struct path_case *message);
bool path_applies(const struct path_rule *rule, const struct path_case *message);
void path_add(struct path_list *list, enum path_kind path);
static inline bool path_has(const struct path_list *list, enum path_kind path)
{
    return (list->bits & path_bit(path)) != 0;
}
/* "read, copy, slot" */
void path_describe(const struct path_list *list, char *text, size_t text_bytes);
/* Why a table makes no sense (a rule for a path without a row, bounds the wrong way round, a
 * message that no path is left for); NULL: it does. */
const char *path_check(const struct path_table *table);

/* Into pieces of which size a message is cut, so that the largest one of a program is at most so
 * many of them. A link may take less. */
size_t path_piece_bytes(const struct path_sizes *sizes, size_t largest_bytes, unsigned piece_count);

/* From which size on a path is ever worth taking; SIZE_MAX: never. */
size_t path_least_bytes(const struct path_table *table, enum path_kind path);
/* The largest message that goes inline; 0: none does. */
size_t path_inline_bytes(const struct path_table *table);
/* The paths that both lists have, in the order of the first. */
struct path_list path_common(const struct path_list *list, const struct path_list *other);

/* The table of paths for each peer. */
enum { PATH_TABLES_MAX = 4 };
struct path_map {
    const struct path_table *tables[PATH_TABLES_MAX];
    const uint8_t *by_rank; /* an index into `tables` for each rank; NULL: tables[0] for all */
};
static inline const struct path_table *path_table_to(const struct path_map *map, int rank)
{
    return map->tables[map->by_rank != NULL ? map->by_rank[rank] : 0];
}
/* A hash of all values that are agreed. */
uint64_t path_agreed(const struct path_map *map);

#endif
