/* bind.h - a plan bound to count, dtype, op and links: a program.
 *
 * Binding decides everything that does not depend on addresses, once per shape; running decides
 * nothing that binding could. Addresses come with each run as the bases of input, output and
 * scratch.
 *
 * Each step that sends gets a list of paths, best first (path.h). Which of them a message takes is
 * known only when the step runs: that depends on whether receivers reach its memory, have
 * advertised theirs, and whether there is room. Running only steps down the list.
 */
#ifndef TUTTI_ENGINE_BIND_H
#define TUTTI_ENGINE_BIND_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/wire.h"
#include "kernel/kernel.h"
#include "path/path.h"
#include "plan/plan.h"
#include "plan/rounding.h"
#include "transport/transport.h"

enum { PROGRAM_NONE = -1 };

struct program_source {
    int rx;     /* index into the program's receiving links, or PROGRAM_NONE: memory */
    int buffer; /* enum plan_buffer */
    size_t offset;
};

/* The properties of a step. */
enum step_flag {
    /* One source in memory, nothing but sending. */
    STEP_ONLY_SENDS = 1u << 0,
    /* The destination is scratch of the binder's, used only when the next rank does not keep up. */
    STEP_STAGES = 1u << 1,
    /* Stores past the caches. */
    STEP_STREAMS = 1u << 2,
    /* The first source is in memory, and by its size in no cache. */
    STEP_READS_FAR = 1u << 3,
    /* Sends so little that it is copied into its links, or waits for room in them. */
    STEP_SENDS_AT_ONCE = 1u << 4,
    /* Copies unchanging input and sends it: it can go at once from where it is. */
    STEP_SENDS_INPUT = 1u << 5,
    /* In one piece, copied into its links and out of them: see small.h. Known when links are
     * open. */
    STEP_IS_SMALL = 1u << 6,
    /* PATH_SHARED_SLOT is one of its paths. */
    STEP_SHARES = 1u << 7,
    /* One of the program's `expects`: PATH_WRITE, at the end where it is stored. */
    STEP_EXPECTS = 1u << 8,
    /* PATH_WRITE is one of its paths: stores where the receivers expect it, if all do. */
    STEP_PLACES = 1u << 9,
    /* PATH_DIRECT: stores what comes on a link as it is; it can come right there. */
    STEP_PLACES_DIRECTLY = 1u << 10,
    /* Fetches referenced data to where kernels read it, not to its destination. */
    STEP_FETCHES = 1u << 11,
    /* One of its links is encoded, or it rounds: kernels that know the encoding do all of it. */
    STEP_ENCODES = 1u << 12,
    /* Its result is rounded before it is stored or sent: see plan/rounding.h. */
    STEP_ROUNDS = 1u << 13,
};

struct program_step {
    size_t bytes;
    uint32_t first_source, source_count;
    uint32_t first_tx, tx_count; /* in program.step_tx */
    uint32_t first_after, after_count;
    uint16_t flags; /* of enum step_flag */
    uint8_t paths;  /* in program.lists: of what it sends to all its links at once */
    uint8_t place; /* of enum path_kind: the place of its links that it takes if no other path is taken */
    int destination_buffer; /* or PROGRAM_NONE */
    size_t destination_offset;
    double factor;
    unsigned divisor;
};
static_assert(sizeof(struct program_step) <= 64, "a line of the cache");

/* Whether it has one of these flags. */
static inline bool step_has(const struct program_step *step, unsigned flags)
{
    return (step->flags & flags) != 0;
}
static inline void step_set(struct program_step *step, enum step_flag flag, bool has)
{
    step->flags = (uint16_t)(has ? step->flags | flag : step->flags & ~(unsigned)flag);
}

struct program_lane {
    uint32_t first_step, end_step;
};

struct program_link {
    int peer;  /* of multicast links that this rank sends on: PROGRAM_NONE */
    int group; /* of multicast links: the transport's; else PROGRAM_NONE */
    int channel;
    size_t bytes_max;                       /* largest message */
    const struct kernel_encoding *encoding; /* of elements on it; NULL: as they are in memory */
};

/* A message that this rank expects in its output from the start of the operation on: its sender may
 * store it there, see plan/placement.h. */
struct program_expect {
    int rx;
    size_t offset, bytes;
};

struct program {
    struct program_step *steps;
    struct program_lane *lanes;
    struct program_source *sources;
    uint32_t *afters;
    int *step_tx;            /* indexes into tx_links */
    uint8_t *step_tx_paths;  /* in `lists`: of what a step sends to that link alone */
    struct path_list *lists; /* of paths, each once; the first is empty */
    uint32_t list_count;
    size_t segment_bytes_min; /* so that a message by reference is worth it for each segment of its memory */
    unsigned references_max;        /* that one chunk is cut into at most */
    const struct path_table *paths; /* for sizes and budgets that are not a peer's */
    struct program_link *tx_links, *rx_links;
    struct program_expect *expects;
    uint32_t expect_count;
    uint32_t step_count, lane_count, source_count, after_count, step_tx_count, tx_count, rx_count;
    uint32_t source_count_max; /* of a step */
    size_t scratch_bytes;
    bool shares; /* a step does */
    size_t element_bytes;
    size_t piece_bytes;
    struct kernel_set kernels;
    struct kernel_set format_kernels; /* of calls with formats */
    bool has_executor; /* its operations bring one that runs them, see kernel/executor.h; else they are calls */
    size_t executor_bytes; /* that it reads and writes at once, in all buffers together, about */
    const struct kernel_encoding
        *encoding; /* of its encoded links, and of steps that round; NULL: there are none */
    const struct memory_kind *kinds[PLAN_BUFFER_COUNT]; /* that its buffers lie in; NULL: the host's */
    bool has_formats; /* all kernels are told the formats of what they read and store, not only those of STEP_ENCODES */
    bool has_computing;    /* any step does program_computes */
    bool moves_by_kernels; /* only kernels touch what is sent, in all steps: there is an executor, or all have formats. See computing.h */
    const struct tutti_operation *op;
    enum tutti_dtype dtype;
    /* Links per slot, opened when the program first runs there; NULL before. */
    struct link_tx **tx[TRANSPORT_SLOT_COUNT];
    struct link_rx **rx[TRANSPORT_SLOT_COUNT];
    uint64_t signature;
    const char *algorithm; /* the maker of the plan, for people */
    unsigned users;        /* operations that run it */
    bool is_orphan;        /* the last of them frees it */
};

struct bind_options {
    size_t count; /* elements in a block */
    /* Blocks of different counts, see layout.h: of this rank's input and output blocks, or NULL. */
    const size_t *input_counts, *output_counts;
    enum tutti_dtype dtype;
    const struct tutti_operation *op;
    enum kernel_level level;
    bool has_executor;     /* operations bring one; else kernels run in the calling thread */
    const char *algorithm; /* the maker of the plan, for people; lives as long as the program */
    bool in_place;         /* input and output are the same memory, as plan.h says */
    bool shares_cores;     /* there are more ranks than cores */
    unsigned memory;       /* that input and output may be, of enum path_memory; 0: any */
    /* The encoding on links; NULL: as in memory. All ranks must agree on it, and on the links that
     * it is for. */
    const struct kernel_encoding *encoding;
    const int *places; /* of each rank: the links between ranks at different places are encoded (plan/rounding.h); NULL: all links are */
    rounding_rule *rounding; /* NULL: rounding_of_step; for tests, which must find out */
    /* The kinds of memory in which its buffers lie, and from which its scratch is taken; NULL: the
     * host's. Each rank decides this for itself. */
    const struct memory_kind *kinds[PLAN_BUFFER_COUNT];
    const struct kernel_set *
        kernels; /* that know the encoding and all kinds of memory, for all steps; NULL: the CPU's, for memory of the host */
    const struct kernel_set *
        encoding_kernels; /* without `kernels`: for steps with the encoding, in memory of the host */
    /* The paths of the transport, see bind_to_transport. */
    const struct path_map *paths;
    size_t piece_bytes_max;
    unsigned piece_count_max;
    const struct transport_group *groups;
    int group_count;
    struct path_case *
        cases; /* for tools: filled in for each step that sends, as tables see its message to the first link; or NULL */
};

/* Fills in the limits of a transport's links, their paths, and the groups to which they lead. */
void bind_to_transport(struct bind_options *options, struct transport *transport);
/* A pure function of its arguments. The plan is only read; the op and the tables of paths must live
 * as long as the program. Failures: NO_MEMORY; UNSUPPORTED, also when a block passes through this
 * rank whose count it does not know, when a unit of the encoding is larger than a piece or would lie
 * in two chunks, and when no kernels know the encoding or a kind of memory. */
enum tutti_status bind_program(const struct rank_plan *plan, const struct bind_options *options,
                               struct program **program);
void program_free(struct program *program);

/* The bytes on link t of the program's tx_links, or rx_links, of so many bytes of memory. */
static inline size_t program_tx_bytes(const struct program *program, uint32_t t, size_t bytes)
{
    if (__builtin_expect(program->encoding == NULL, 1)) return bytes;
    return wire_bytes(program->tx_links[t].encoding, program->element_bytes, bytes);
}
static inline size_t program_rx_bytes(const struct program *program, uint32_t r, size_t bytes)
{
    if (__builtin_expect(program->encoding == NULL, 1)) return bytes;
    return wire_bytes(program->rx_links[r].encoding, program->element_bytes, bytes);
}
/* Whether a step goes by kernels that may finish later, or that are told formats. */
static inline bool program_computes(const struct program *program, const struct program_step *step)
{
    return program->moves_by_kernels || step_has(step, STEP_ENCODES);
}

#endif
