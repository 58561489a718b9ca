/* fault_schedule.h - what a run of the fault runner does: ranks, operations, and faults with the
 * place where each strikes.
 *
 * A schedule follows from its seed alone, and has a text that can be read back, edited and
 * replayed:
 *
 *     seed 17
 *     job ranks 4 hosts 2 tcp 0 integrity 1
 *     operation allreduce started separate mapped float32 sum count 1000 root 0
 *     fault kill rank 2 operation 0 middle delay 500 detail 0
 *
 * With a line `fabric tcp;ofi_rxm` data goes over network cards by that provider of libfabric.
 *
 * Invariants of a schedule that was made or read (fault_schedule_is_valid):
 *  1. At least one rank is left when all faults have struck.
 *  2. What makes a rank disagree strikes before a collective, descriptors run out before a new
 *     communicator.
 *  3. Connections are reset and bits flip only where there are connections, bits only where they
 *     are checked. Over a fabric they are reset only where no data within a host goes over it.
 *  4. Over a fabric there are connections, and nothing is checked.
 *
 * Pure: any thread, no clock, no I/O.
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_SCHEDULE_H
#define TUTTI_TESTS_FAULTS_FAULT_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/op.h"
#include "tutti/tutti.h"

enum { FAULT_RANKS_MAX = 8, FAULT_OPERATIONS_MAX = 24, FAULT_FAULTS_MAX = 6 };
enum { FAULT_TEXT_BYTES = 8192 }; /* for any schedule */
enum { FAULT_FABRIC_BYTES = 32 };

/* Collectives, by their numbers, and what else an operation can be. */
enum fault_call {
    FAULT_CALL_MESSAGE = COLLECTIVE_COUNT, /* each rank sends to one and receives from one */
    FAULT_CALL_DUP,   /* a copy of the communicator, an allreduce on it, its end */
    FAULT_CALL_SPLIT, /* the same with two halves */
    FAULT_CALL_COUNT
};

struct fault_operation {
    int call;              /* enum collective or enum fault_call */
    bool started;          /* up to FAULT_STARTED_MAX of these in a row are under way at once */
    bool in_place, mapped; /* mapped: memory of tutti_mem_alloc */
    enum tutti_dtype dtype;
    enum op op;
    size_t count;
    int root; /* modulo the size of the communicator; of messages: the distance */
};
enum { FAULT_STARTED_MAX = 4 };

/* X(enumerator, name, ends): `ends`: the rank is gone then. */
#define FAULT_KIND_LIST(X)                                                                     \
    X(FAULT_KILL, "kill", true)                                                                \
    X(FAULT_EXIT, "exit", true)          /* the process ends without a word */                 \
    X(FAULT_LEAVE, "leave", true)        /* it frees its communicator while others go on */    \
    X(FAULT_STOP, "stop", false)         /* detail: for so many microseconds */                \
    X(FAULT_LATE, "late", false)         /* the same */                                        \
    X(FAULT_MISMATCH, "mismatch", false) /* detail: enum fault_difference */                   \
    X(FAULT_DESYNC, "desync", false)     /* another collective */                              \
    X(FAULT_ABORT, "abort", false)                                                             \
    X(FAULT_REVOKE, "revoke", false)                                                           \
    X(FAULT_RESET, "reset", false)             /* all its connections */                       \
    X(FAULT_FLIP, "flip", false)               /* one bit that it sends */                     \
    X(FAULT_CORRUPT, "corrupt", false)         /* a bit of all that it sends, for some time */ \
    X(FAULT_FORK, "fork", false)               /* a child uses and frees the communicator */   \
    X(FAULT_DESCRIPTORS, "descriptors", false) /* there are none left */

enum fault_kind {
#define X(enumerator, name, ends) enumerator,
    FAULT_KIND_LIST(X)
#undef X
        FAULT_KIND_COUNT
};

enum fault_difference { FAULT_OTHER_COUNT, FAULT_OTHER_DTYPE, FAULT_OTHER_ROOT };

enum fault_phase {
    FAULT_BEFORE, /* the call */
    FAULT_MIDDLE, /* delay_us after it began */
    FAULT_AFTER,
    FAULT_RECOVERY /* delay_us after this rank began to agree and shrink, the first time after that operation */
};

struct fault {
    enum fault_kind kind;
    int rank; /* of the first communicator */
    int operation;
    enum fault_phase phase;
    int delay_us;
    int detail;
};

struct fault_schedule {
    uint64_t seed;
    int rank_count;
    int host_count; /* that they take themselves to be on, in turns */
    bool tcp;       /* within a host, too */
    bool integrity;
    char fabric[FAULT_FABRIC_BYTES]; /* a provider of libfabric; "": none is named */
    int operation_count, fault_count;
    struct fault_operation operations[FAULT_OPERATIONS_MAX];
    struct fault faults[FAULT_FAULTS_MAX];
};

const char *fault_kind_name(enum fault_kind kind);
bool fault_kind_ends(enum fault_kind kind);
const char *fault_call_name(int call);

/* rank_count 0: the seed decides. fabric: "", or shorter than FAULT_FABRIC_BYTES; then most faults
 * are deaths and lost connections. */
void fault_schedule_init(struct fault_schedule *schedule, uint64_t seed, int rank_count,
                         const char *fabric);
bool fault_schedule_is_valid(const struct fault_schedule *schedule);
/* Into text[FAULT_TEXT_BYTES]. */
void fault_schedule_print(const struct fault_schedule *schedule, char *text);
/* False, with the number of the line in *line, when it is no text of a valid schedule (line 0: as a
 * whole). */
bool fault_schedule_parse(struct fault_schedule *schedule, const char *text, int *line);

/* All the time that faults hold ranks up. */
uint64_t fault_schedule_pauses_ns(const struct fault_schedule *schedule);
/* Its largest buffer has so many blocks of `count` elements. */
int fault_operation_blocks(const struct fault_operation *operation, int size);
/* Whether it ends as a call of tutti_NAME_start does, later. */
bool fault_operation_is_started(const struct fault_operation *operation);

#endif
