/* board.h - what the ranks of a communicator tell each other besides data: where each is in its
 * calls, and why the communicator failed.
 *
 * One board in the shared memory of a host. The ranks of the host have places by their local
 * numbers; of ranks of other hosts there is only what the ranks of this one have said of them. Each
 * rank writes its own lines; the failure is written once, by the first rank that finds one:
 *
 *     healthy ──claim (first writer wins)──► being written ──► published, for good
 *
 * Data that others wrote is only shown and compared, never used as a size or an address.
 */
#ifndef TUTTI_HEALTH_BOARD_H
#define TUTTI_HEALTH_BOARD_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/dtype.h"
#include "base/op.h"
#include "base/watched.h"
#include "transport/transport.h"
#include "tutti/tutti.h"

/* The function for which the library makes a collective of its own: messages name that function,
 * which the user has called. */
enum call_purpose {
    CALL_FOR_USER,
    CALL_FOR_SPLIT,
    CALL_FOR_DUP,
    CALL_FOR_MESH,
    CALL_FOR_REGISTER,
    CALL_PURPOSE_COUNT
};
static_assert(CALL_PURPOSE_COUNT <= 8, "three bits");
static_assert(DTYPE_COUNT <= 16, "four bits");

/* A call as others see it. */
struct call_description {
    enum collective collective;
    enum tutti_dtype dtype;
    enum op op;
    int root;
    size_t count;
    bool started;
    bool varies; /* blocks have different counts: a v form */
    enum call_purpose purpose;
    unsigned encoding;  /* enum tutti_encoding of elements on some links; 0 to 15 */
    uint64_t signature; /* of all the above and the algorithm */
};

/* The signature of a call that its rank could not make, see call/refuse.h. */
#define BOARD_REFUSED UINT64_C(0x7265667573656463)

enum rank_state { RANK_ABSENT, RANK_PRESENT, RANK_LEFT };

/* Ranks may be through with a call, and with some more, while others still wait in it: this many
 * are remembered. */
enum { BOARD_CALLS = 64 };

/* One call of one rank in one slot; a cache line that its owner writes. */
struct board_call {
    _Alignas(64) _Atomic uint64_t
        begun;              /* number of the call in its slot; 0 while the rest is being written */
    _Atomic uint64_t ended; /* the same number when it is over */
    _Atomic uint64_t signature, count;
    _Atomic uint32_t
        what; /* collective: a byte; dtype, encoding: 4 bits each; op: a byte; then started, varies, gated: a bit each; purpose */
    _Atomic int32_t root;
};

struct board_rank {
    _Alignas(64) _Atomic uint32_t state; /* enum rank_state */
    _Atomic int32_t pid; /* for ranks with older versions; this one knows it from the meeting */
    /* The last two calls in which this rank told what memory it has (call/all_memory.h): the number
     * of each, followed by a bit for each collective. No rank is two such calls ahead of
     * another. */
    _Atomic uint64_t mapped[2];
    /* The rank that this rank takes to hold up its call: a finding (below), and that rank's
     * sequence number or 0. */
    _Atomic uint64_t finding, finding_sequence;
    _Atomic uint64_t waits;  /* for ranks that came later, see straggler.h */
    _Atomic int32_t thread;  /* the thread of its process that slept last in a call; 0: none has */
    _Atomic int32_t agrees;  /* 1: it is in a call that makes agreements; an older version says 0 */
    _Atomic uint64_t blames; /* the rank that it took for a straggler last, and when */
    /* Its started calls, in a line that no other rank writes: how many it has made, and the call
     * that it waits for (board_progress). */
    _Alignas(64) _Atomic uint64_t started;
    _Atomic uint64_t awaited, awaited_sequence, awaited_count;
    _Atomic uint32_t awaited_what; /* as in a board_call */
    _Atomic int32_t awaited_root;
    _Atomic uint64_t withdrawn; /* the last meeting that it gave up, see withdrawn.h */
    _Atomic uint64_t excluded;  /* others write it: whether they put it out, see exclusion.h */
    _Atomic uint64_t left_at; /* when it leaves: 1 + the last agreement that it may have decided */
};
static_assert(sizeof(struct board_rank) == 128, "nobody writes the line of another's state");

/* For any rank of the communicator: when a rank of this host last said that it holds others up, and
 * that it does so again and again. */
struct board_said {
    _Atomic uint64_t reported_ns, named_ns;
};

struct board {
    _Alignas(64) _Atomic uint32_t failure_state;
    _Atomic uint32_t has_messages;    /* a rank has sent or received: all listen from then on */
    _Atomic uint32_t all_have_joined; /* of several hosts: known here */
    _Atomic uint32_t is_in_minority;  /* the hosts that this one hears could not go on alone */
    _Atomic uint32_t is_verdict;      /* the failure is one of heartbeats (heartbeats.h) */
    int32_t failure_status, failure_culprit, failure_reporter, failure_pid;
    uint64_t failure_sequence;
    char failure_message[256];
    _Alignas(64) struct board_rank
        ranks[]; /* one for each rank of this host; then BOARD_CALLS for each of them and each
                     slot; then a board_said for each rank of the communicator */
};

/* size: how many ranks this host has. all: how many there are on all hosts. A plain `rank` below is
 * a rank of this host, by its local number. */
size_t board_bytes(int size, int all);
void board_enter(struct board *board, int rank, int pid);
void board_leave(struct board *board, int rank);
enum rank_state board_state(const struct board *board, int rank);
/* Says that a rank's memory is mapped in these collectives, a bit for each, as of the call of that
 * number. */
void board_tell_mapped(struct board *board, int rank, uint64_t number, uint32_t collectives);
/* The collectives in which the memory of all ranks was mapped, as of the call of that number, which
 * all have begun. For number 0 there is none. */
uint32_t board_all_mapped(const struct board *board, int size, uint64_t number);
/* The latest calls of a rank in a slot: BOARD_CALLS of them, call k at k % BOARD_CALLS. */
static inline struct board_call *board_calls(struct board *board, int size, int rank, int slot)
{
    struct board_call *calls = (struct board_call *)(void *)(board->ranks + size);
    return calls + ((size_t)rank * TRANSPORT_SLOT_COUNT + (size_t)slot) * BOARD_CALLS;
}

/* The part of a description that fits into one word. */
static inline uint32_t board_word_of(const struct call_description *description)
{
    return (uint32_t)description->collective | (uint32_t)description->dtype << 8 |
           (uint32_t)(description->encoding & 15) << 12 | (uint32_t)description->op << 16 |
           (uint32_t)description->started << 24 | (uint32_t)description->varies << 25 |
           (uint32_t)description->purpose << 27;
}

/* The description in such a word, which may be foreign. Count, root and signature are 0. */
struct call_description board_read_word(uint32_t what);

/* This rank's own lines. A reader that sees one number before and after the rest has read one
 * call. */
static inline void board_begin(struct board_call *calls, const struct call_description *description,
                               uint64_t begun)
{
    if (!CALLS_ARE_WATCHED) return;
    struct board_call *call = &calls[begun % BOARD_CALLS];
    atomic_store_explicit(&call->begun, 0, memory_order_relaxed);
    /* Releases, so that a rank that sees one of these (acquire, in board_read_call) sees the zero
     * too. */
    atomic_store_explicit(&call->signature, description->signature, memory_order_release);
    atomic_store_explicit(&call->count, description->count, memory_order_release);
    atomic_store_explicit(&call->what, board_word_of(description), memory_order_release);
    atomic_store_explicit(&call->root, description->root, memory_order_release);
    atomic_store_explicit(&call->begun, begun, memory_order_release); /* pairs with board_read_call */
}
static inline void board_end(struct board_call *calls, uint64_t begun)
{
    if (!CALLS_ARE_WATCHED) return;
    atomic_store_explicit(&calls[begun % BOARD_CALLS].ended, begun, memory_order_release);
}
/* Says that a call which has begun waits for its gate (engine/gate.h), or does not any more. */
void board_set_gated(struct board_call *calls, uint64_t begun, bool is_gated);
/* Whether a rank's call of that number has begun, is not over, and waits for its gate. */
bool board_is_gated(struct board_call *calls, uint64_t number);
/* A rank's call of that number; false when it has not begun, or is forgotten. */
bool board_read_call(struct board_call *calls, uint64_t number,
                     struct call_description *description);
/* Whether a call of that number is over. */
bool board_has_ended(struct board_call *calls, uint64_t number);
/* Whether a call of that number has begun, from the one place where its number stands. Also true
 * for a call that is just beginning. */
static inline bool board_may_have_begun(struct board_call *calls, uint64_t number)
{
    const uint64_t begun =
        atomic_load_explicit(&calls[number % BOARD_CALLS].begun, memory_order_relaxed);
    return begun == 0 ? number > BOARD_CALLS : begun >= number;
}
/* The number of calls that began. */
uint64_t board_begun(struct board_call *calls);
/* Whether any of these calls is not over. */
bool board_is_engaged(struct board_call *calls);
/* Whether a rank has a call in any slot that is not over. */
bool board_is_in_call(struct board *board, int size, int rank);
/* The number of calls that a rank began in all slots but the slot of messages: the sequence number
 * of its latest call, if no call waits in line. */
uint64_t board_sequence(struct board *board, int size, int rank);

/* The numbers of calls that a rank has made, in both forms. Blocking calls have slot 0; started,
 * prepared and grouped calls have the other slots in turn. All ranks make all calls in the same
 * order. So if each of two ranks has made more calls of one form than the other rank has, whenever
 * each was read, they have not made the same calls: see crossing.h. */
struct board_progress {
    uint64_t blocking; /* blocking calls so far */
    uint64_t started;  /* started calls so far, also those in line */
    uint64_t awaited; /* number of the started call that a thread has waited for a while; 0: none */
    uint64_t sequence; /* of the awaited call, among all calls */
    bool is_blocked;   /* in its last blocking call */
    bool knows_blocking,
        knows_started; /* what the last blocking call is; the awaited or last started call */
    struct call_description blocking_what, started_what;
};
/* A rank sets for itself how many started calls it has made, and which of them it waits for, 0:
 * none. Each by one thread at a time, any thread. */
static inline void board_set_started(struct board *board, int rank, uint64_t number)
{
    /* Pairs with board_read_progress: a rank that sees it sees the blocking calls before it. */
    atomic_store_explicit(&board->ranks[rank].started, number, memory_order_release);
}
void board_set_awaited(struct board *board, int rank, uint64_t number, uint64_t sequence,
                       const struct call_description *what);
/* False: the rank is moving on just now. */
bool board_read_progress(struct board *board, int size, int rank, struct board_progress *progress);
/* Whether the first rank has made more blocking calls than the second, and fewer started calls. */
static inline bool board_progress_crosses(const struct board_progress *blocking,
                                          const struct board_progress *started)
{
    return blocking->blocking > started->blocking && blocking->started < started->started;
}

/* A finding: that a rank of the communicator holds up a call, and whether it is stopped; or that it
 * has not come yet. */
struct board_finding {
    int rank;
    bool is_stopped;
    uint64_t sequence; /* of that rank's latest call, or 0: not known */
};
/* Notes what a rank has found out about its call of that number in a slot. */
void board_set_finding(struct board *board, int rank, int slot, uint64_t begun,
                       const struct board_finding *finding);
/* Reads what a rank has found out about a call that it is still in; false: nothing. finding->rank
 * is a rank of the communicator. */
bool board_read_finding(struct board *board, int size, int rank, int all,
                        struct board_finding *finding);
/* Whether no rank of this host has reported that rank of the communicator in the last 10 s: then
 * the caller does. */
bool board_claim_report(struct board *board, int size, int of_all, uint64_t now_ns);
/* Whether no rank of this host has named that rank a straggler in the last 10 s: then the caller
 * does. */
bool board_claim_naming(struct board *board, int size, int of_all, uint64_t now_ns);
/* The number of times that a rank has waited for a rank that came later. A rank adds one only for
 * itself. */
uint64_t board_waits(const struct board *board, int rank);
void board_add_wait(struct board *board, int rank);
/* The thread that makes a rank's calls, as far as it has slept in them; 0: not known. A rank sets
 * its own. */
void board_set_thread(struct board *board, int rank, int thread);
int board_thread(const struct board *board, int rank);
/* The rank of the communicator that a rank took for a straggler last, and when, in ms of the clock;
 * -1: nobody. A rank sets its own. */
void board_set_blame(struct board *board, int rank, int of_all, uint64_t now_ns);
int board_blame(const struct board *board, int rank, uint64_t *then_ns);
/* The failure that comes next is a verdict; there is none yet. */
void board_announce_verdict(struct board *board);
static inline bool board_is_verdict(const struct board *board)
{
    return atomic_load_explicit(&board->is_verdict, memory_order_relaxed) != 0;
}
void board_set_minority(struct board *board, bool is_in_minority);
static inline bool board_is_in_minority(const struct board *board)
{
    return atomic_load_explicit(&board->is_in_minority, memory_order_relaxed) != 0;
}
/* The function of tutti.h without its prefix; NULL: the user's own. */
const char *call_purpose_name(enum call_purpose purpose);
/* "allreduce(count 7, float32, sum)", "comm_dup()" */
void board_describe(const struct call_description *description, char *text, size_t text_bytes);

static inline bool board_has_failed(const struct board *board)
{
    return CALLS_ARE_WATCHED &&
           __builtin_expect(atomic_load_explicit(&board->failure_state, memory_order_relaxed) != 0,
                            0);
}
static inline void board_begin_messages(struct board *board)
{
    atomic_store_explicit(&board->has_messages, 1, memory_order_relaxed);
}
static inline bool board_has_messages(const struct board *board)
{
    return __builtin_expect(atomic_load_explicit(&board->has_messages, memory_order_relaxed) != 0,
                            0);
}
struct board_failure {
    enum tutti_status status;
    int culprit, reporter; /* of all ranks; culprit -1: nobody */
    int culprit_pid;       /* or 0 */
    uint64_t sequence;
    const char *message;
};
/* Publishes a failure if it is the first; returns whether it was. */
bool board_fail(struct board *board, const struct board_failure *failure);
/* The failure, waiting a moment for it to be published; TUTTI_OK when there is none. */
enum tutti_status board_failure(struct board *board, struct tutti_failure *failure);

#endif
