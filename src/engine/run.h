/* run.h - running a program: an operation moves as far as it can, and never waits.
 *
 *   lane 0   [step]──[step]──[step]          each lane is at one step, at some byte of it
 *   lane 1   [step]──[step]
 *   sending  ▒▒▒▒░░░░  ░░                    per sending link: what is posted but not handed over yet
 *
 * Before that it is *prepared*; it is *open* from the moment when peers may see it:
 *
 *     prepare (memory, buffers, lanes) ──► open (advertises, messages count) ──► run ──► run ──► done
 *        └──────────── nothing of it shows, it may be dropped; perhaps it waits for a gate (gate.h)
 *
 * A step takes pieces: views of its links and ranges of memory in, one kernel call, slots and
 * memory out. A send completes for its lane when it is posted; the rest of it is handed over here
 * as the link has room.
 *
 * A chunk may come in other pieces (cut by the sender's segments, say) than those in which it goes
 * on: messages through slots go in full pieces except the last. Binding relies on that if a chunk
 * has to fit into a link as a whole.
 *
 * If all receivers expect a result, it is stored in their memory together with this rank's own
 * ("placing"): they have nothing left to copy.
 *
 * Running locks nothing, allocates nothing and does not call the kernel; only a transport's take
 * and fetch may, which copy memory that no mapping reaches.
 */
#ifndef TUTTI_ENGINE_RUN_H
#define TUTTI_ENGINE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/bind.h"
#include "engine/buffer.h"
#include "engine/gate.h"
#include "transport/transport.h"

struct flight;
struct kernel_executor;

/* How the result of a lane's step gets to the step's links:
 *
 *                          ┌─────── the links have all that was stored ───────┐
 *                          v                                                  │
 *     the step begins ─► FEEDS ──no room──► STAGED ──earlier messages gone──► OPENED
 *                         │ │
 *                         │ └─its input can go from where it lies──► SENT
 *                         └─all receivers expect the result──► PLACES
 */
enum lane_state {
    LANE_FEEDS,  /* its pieces go to the links as they are computed */
    LANE_STAGED, /* they go to memory; messages will follow from there */
    LANE_OPENED, /* the same; the messages are announced */
    LANE_SENT,   /* its messages are announced from where its source lies: only the copy is left */
    LANE_PLACES  /* its pieces go to the receivers' memory */
};

struct run_lane {
    uint32_t step;
    uint32_t target;  /* steps that only send: targets posted */
    uint32_t stalled; /* looks in a row that found no room, see operation_init */
    uint8_t state;    /* of enum lane_state */
    bool has_asked;   /* where its receivers expect the result */
    bool has_said;    /* where its message may land */
    size_t done;      /* bytes of the step */
    size_t passed;    /* staged: bytes that went to the links directly before */
    size_t filled; /* bytes of the next piece that lie in the links' slots and are not sent yet */
};

/* A message that is posted but not handed over to its link in full. */
struct run_send {
    int buffer; /* enum plan_buffer */
    size_t offset;
    size_t done, ready, total;
    bool active;
    bool by_reference;
    bool shared; /* one copy in shared slots for all links of its step, sent by the first of them */
    uint32_t first_tx; /* shared: in program.step_tx */
    uint32_t tx_count; /* of the first of them; the others have 0 */
    uint32_t stalled;  /* shared: looks in a row that found nothing to borrow */
    bool rounds;       /* what lies in memory is not rounded, and is on its way to the link */
    /* where only kernels move (computing.h): */
    size_t computing; /* bytes that kernels are copying to the link's place; 0: none */
    uint64_t group;   /* the group of those kernels; 0: they have finished */
    bool referenced;  /* something of this operation was posted by reference on this link */
    char *expected;   /* placing: where its receiver does */
};

/* Why a path was passed over for the next one of a step's list. */
enum passed_reason {
    PASSED_OUT_OF_REACH,   /* the receivers cannot get at that memory */
    PASSED_NOT_ADVERTISED, /* not all receivers have said where they want the message */
    PASSED_FULL,           /* no room, for longer than the spin budget or for a moment */
    PASSED_BUSY,           /* an earlier message is still on its way to the link */
    PASSED_REASONS
};

struct operation {
    struct program *program;
    struct transport *transport;
    int slot;
    struct link_tx **tx;
    struct link_rx **rx;
    struct buffer buffers[PLAN_BUFFER_COUNT];
    /* Of 64 bits each: a look at both in one load would have to wait until both stores, and all
     * stores before them, have left the core. */
    uint64_t lanes_left, sends_active;
    bool any_referenced, any_advertised;
    bool shared_slot_is_taken; /* a lane, or a posted message, computes in it */
    bool takes_short_way; /* where steps are small: each of its buffers is in one piece, and not only kernels move */
    uint32_t spin_budget;
    bool must_not_spin; /* no look comes soon: what could wait for room goes through memory */
    bool is_special;    /* its gate, kernels or a senseless message need checks in each run */
    bool is_gated;      /* it waits for its gate, and is opened then */
    struct operation_gate *gate; /* is told that it is over; or NULL */
    uint64_t gated_signature;
    /* As path_bit, for traces: the paths that its messages took so far, and those by which received
     * messages came where they belong. */
    unsigned paths;
    int fault_peer;                                        /* whose message made no sense, or -1 */
    uint32_t passed_over[PATH_KIND_COUNT][PASSED_REASONS]; /* paths, of all runs so far: for traces */
    /* memory of this operation, kept from run to run */
    struct run_lane *lanes;
    struct run_send *sends;
    bool *completed;      /* of each step, where the program has dependencies */
    uint16_t *taken;      /* of each step, as `paths` */
    const void **views;   /* of the links among a step's sources; NULL where a source is memory */
    const void **sources; /* the sources of a kernel */
    void **places;
    struct link_tx **targets; /* of a step */
    char *scratch;
    const struct memory_kind *scratch_kind; /* NULL: the host's */
    uint32_t lane_capacity, send_capacity, step_capacity, source_capacity;
    size_t scratch_capacity;
    /* of programs that move by kernels (computing.h): */
    struct kernel_executor *
        executor; /* of programs whose operations bring one: set after it was prepared, before it runs */
    struct flight *flights; /* of each lane */
    struct kernel_format *source_formats, *place_formats;
    uint32_t flight_capacity, source_format_capacity, place_format_capacity;
    char *unit_room; /* for units that segments cut (cut_unit.h) */
    uint32_t unit_room_capacity;
};

/* spin_budget: looks at full links before a step's result takes the path through memory. */
void operation_init(struct operation *operation, uint32_t spin_budget);
void operation_release(struct operation *operation);
/* Makes memory for that program: from then on, preparing the operation for it allocates nothing. */
enum tutti_status operation_make_room(struct operation *operation, const struct program *program);
/* Makes it ready to run that program on those buffers, whose segments stay the caller's; the
 * program's links in that slot must be open. Touches no link: no other rank can see that it is
 * prepared, and a caller that does not go on just releases it, or prepares it again. NO_MEMORY;
 * UNSUPPORTED: a buffer lies in segments, which may end within a unit of the program's encoding. */
enum tutti_status operation_prepare(struct operation *operation, struct program *program,
                                    struct transport *transport, int slot,
                                    const struct buffer *input, const struct buffer *output);
/* The same for the program and the buffers that it was prepared for last, and has run to its end,
 * without a gate or an executor. */
void operation_prepare_again(struct operation *operation);
/* From here on its messages come and go, and carry the signature. Advertises where results are
 * expected. Once for each time that it is prepared, when the operation before it in that slot is
 * over, and before it runs. */
void operation_open(struct operation *operation, uint64_t signature);

/* The same as soon as the gate opens, for which running looks. The gate lives until it is told that
 * the operation is over. */
void operation_open_at(struct operation *operation, struct operation_gate *gate, uint64_t signature);
/* Whether the operation waits for its gate, and for no rank. */
static inline bool operation_is_gated(const struct operation *operation)
{
    return operation->is_gated;
}

/* For an open or gated operation. A run moves at most one piece for each lane, and one for each
 * message under way, so a caller that runs several operations can take turns. */
enum run_result { RUN_BLOCKED, RUN_MOVED, RUN_DONE, RUN_FAULT };
/* Goes as far as it can. DONE: the buffers belong to the caller again. FAULT: see fault_peer; stays
 * so. */
enum run_result operation_run(struct operation *operation);
/* Whether kernels of an operation still run. A caller that gives one up before it is done leaves
 * its buffers, and the operation itself, alone until none does; and then it cannot go on. */
bool operation_is_computing(struct operation *operation);
/* The caller gives the operation up, and has its buffers back: tells the gate, unless that has been
 * told. */
void operation_give_up(struct operation *operation);
/* The rank that is being waited for: one whose message (or room) is missing, the first that is
 * found; -1 if none. */
int operation_waits_for(const struct operation *operation);

#endif
