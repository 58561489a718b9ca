#include "health/board.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "base/status.h"

enum failure_state { FAILURE_NONE, FAILURE_CLAIMED, FAILURE_PUBLISHED };

size_t board_bytes(int size, int all)
{
    return sizeof(struct board) + (size_t)size * sizeof(struct board_rank) +
           (size_t)size * TRANSPORT_SLOT_COUNT * BOARD_CALLS * sizeof(struct board_call) +
           (size_t)all * sizeof(struct board_said);
}

static struct board_said *said_of(struct board *board, int size, int of_all)
{
    return (struct board_said *)(void *)board_calls(board, size, size, 0) + of_all;
}

void board_enter(struct board *board, int rank, int pid)
{
    atomic_store_explicit(&board->ranks[rank].pid, pid, memory_order_relaxed);
    atomic_store_explicit(&board->ranks[rank].state, RANK_PRESENT, memory_order_release);
}

void board_leave(struct board *board, int rank)
{
    atomic_store_explicit(&board->ranks[rank].state, RANK_LEFT, memory_order_release);
}

void board_tell_mapped(struct board *board, int rank, uint64_t number, uint32_t collectives)
{
    atomic_store_explicit(&board->ranks[rank].mapped[number % 2],
                          number << COLLECTIVE_COUNT | collectives,
                          memory_order_relaxed); /* seen by whoever is through with the call */
}

uint32_t board_all_mapped(const struct board *board, int size, uint64_t number)
{
    uint32_t all = (UINT32_C(1) << COLLECTIVE_COUNT) - 1;
    if (number == 0) return 0;
    for (int r = 0; r < size; r++) {
        const uint64_t told =
            atomic_load_explicit(&board->ranks[r].mapped[number % 2], memory_order_relaxed);
        if (told >> COLLECTIVE_COUNT != number) return 0;
        all &= (uint32_t)told;
    }
    return all;
}
static_assert(COLLECTIVE_COUNT < 32, "a bit for each");

enum rank_state board_state(const struct board *board, int rank)
{
    return (enum rank_state)atomic_load_explicit(&board->ranks[rank].state, memory_order_acquire);
}

struct call_description board_read_word(uint32_t what)
{
    return (struct call_description){
        .collective = (enum collective)((what & 255) % COLLECTIVE_COUNT),
        .encoding = what >> 12 & 15,
        .dtype = (enum tutti_dtype)(what >> 8 & 15),
        .op = (enum op)(what >> 16 & 255),
        .started = (what >> 24 & 1) != 0,
        .varies = (what >> 25 & 1) != 0,
        .purpose = (enum call_purpose)((what >> 27 & 7) % CALL_PURPOSE_COUNT),
    };
}

bool board_read_call(struct board_call *calls, uint64_t number, struct call_description *description)
{
    struct board_call *call = &calls[number % BOARD_CALLS];
    if (atomic_load_explicit(&call->begun, memory_order_acquire) != number) return false;
    *description = board_read_word(atomic_load_explicit(&call->what, memory_order_acquire));
    description->root = atomic_load_explicit(&call->root, memory_order_acquire);
    description->count = atomic_load_explicit(&call->count, memory_order_acquire);
    description->signature = atomic_load_explicit(&call->signature, memory_order_acquire);
    return atomic_load_explicit(&call->begun, memory_order_relaxed) == number;
}

enum { GATED = 1 << 26 }; /* in the word of a call on the board */

void board_set_gated(struct board_call *calls, uint64_t begun, bool is_gated)
{
    if (!CALLS_ARE_WATCHED) return;
    struct board_call *call = &calls[begun % BOARD_CALLS];
    const uint32_t what = atomic_load_explicit(&call->what, memory_order_relaxed) & ~(uint32_t)GATED;
    atomic_store_explicit(&call->what, is_gated ? what | GATED : what, memory_order_relaxed);
}

bool board_is_gated(struct board_call *calls, uint64_t number)
{
    struct board_call *call = &calls[number % BOARD_CALLS];
    if (atomic_load_explicit(&call->begun, memory_order_acquire) != number) return false;
    const bool is_gated = (atomic_load_explicit(&call->what, memory_order_acquire) & GATED) != 0;
    return is_gated && atomic_load_explicit(&call->ended, memory_order_acquire) != number &&
           atomic_load_explicit(&call->begun, memory_order_relaxed) == number;
}

bool board_has_ended(struct board_call *calls, uint64_t number)
{
    return atomic_load_explicit(&calls[number % BOARD_CALLS].ended, memory_order_acquire) >= number;
}

uint64_t board_begun(struct board_call *calls)
{
    uint64_t most = 0;
    for (int i = 0; i < BOARD_CALLS; i++) {
        const uint64_t begun = atomic_load_explicit(&calls[i].begun, memory_order_acquire);
        if (begun > most) most = begun;
    }
    return most;
}

uint64_t board_sequence(struct board *board, int size, int rank)
{
    uint64_t sum = 0;
    for (int slot = 0; slot < TRANSPORT_SLOT_MESSAGES; slot++)
        sum += board_begun(board_calls(board, size, rank, slot));
    return sum;
}

bool board_is_in_call(struct board *board, int size, int rank)
{
    for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++)
        if (board_is_engaged(board_calls(board, size, rank, slot))) return true;
    return false;
}

void board_set_awaited(struct board *board, int rank, uint64_t number, uint64_t sequence,
                       const struct call_description *what)
{
    struct board_rank *own = &board->ranks[rank];
    atomic_store_explicit(&own->awaited, 0, memory_order_relaxed);
    if (number == 0) return;
    /* Releases, as in board_begin. */
    atomic_store_explicit(&own->awaited_sequence, sequence, memory_order_release);
    atomic_store_explicit(&own->awaited_count, what->count, memory_order_release);
    atomic_store_explicit(&own->awaited_what, board_word_of(what), memory_order_release);
    atomic_store_explicit(&own->awaited_root, what->root, memory_order_release);
    atomic_store_explicit(&own->awaited, number, memory_order_release); /* pairs with read_awaited */
}

/* False: the rank waits for no call, or for another call just now. */
static bool read_awaited(const struct board_rank *of, struct board_progress *progress)
{
    const uint64_t awaited = atomic_load_explicit(&of->awaited, memory_order_acquire);
    if (awaited == 0) return false;
    progress->sequence = atomic_load_explicit(&of->awaited_sequence, memory_order_acquire);
    progress->started_what =
        board_read_word(atomic_load_explicit(&of->awaited_what, memory_order_acquire));
    progress->started_what.count = atomic_load_explicit(&of->awaited_count, memory_order_acquire);
    progress->started_what.root = atomic_load_explicit(&of->awaited_root, memory_order_acquire);
    if (atomic_load_explicit(&of->awaited, memory_order_relaxed) != awaited) return false;
    progress->awaited = awaited;
    return true;
}

/* The started call of that number, counted from 1, if it stands in its slot and is not
 * forgotten. */
static bool read_started(struct board *board, int size, int rank, uint64_t number,
                         struct call_description *what)
{
    enum { SLOTS = TRANSPORT_SLOT_MESSAGES - 1 };
    return number > 0 &&
           board_read_call(board_calls(board, size, rank, 1 + (int)((number - 1) % SLOTS)),
                           (number - 1) / SLOTS + 1, what);
}

bool board_read_progress(struct board *board, int size, int rank, struct board_progress *progress)
{
    struct board_rank *of = &board->ranks[rank];
    struct board_call *blocking = board_calls(board, size, rank, 0);
    *progress =
        (struct board_progress){.started = atomic_load_explicit(&of->started, memory_order_acquire)};
    progress->knows_started =
        read_awaited(of, progress) ||
        read_started(board, size, rank, progress->started, &progress->started_what);
    progress->blocking = board_begun(blocking);
    progress->is_blocked = !board_has_ended(blocking, progress->blocking);
    progress->knows_blocking =
        progress->blocking > 0 &&
        board_read_call(blocking, progress->blocking, &progress->blocking_what);
    return atomic_load_explicit(&of->started, memory_order_acquire) == progress->started;
}

/* A finding in one word, so that it is read whole: the lower half of the call's number (32 bits),
 * slot (6), stopped (1), rank (25). */
enum { FINDING_RANK_BITS = 25, FINDING_SLOT_BITS = 6 };

void board_set_finding(struct board *board, int rank, int slot, uint64_t begun,
                       const struct board_finding *finding)
{
    const uint64_t who =
        (uint64_t)finding->rank | (finding->is_stopped ? (uint64_t)1 << FINDING_RANK_BITS : 0);
    struct board_rank *own = &board->ranks[rank];
    atomic_store_explicit(&own->finding_sequence, finding->sequence, memory_order_relaxed);
    atomic_store_explicit(&own->finding,
                          begun << 32 | (uint64_t)slot << (FINDING_RANK_BITS + 1) | who,
                          memory_order_release); /* pairs below */
}

bool board_read_finding(struct board *board, int size, int rank, int all,
                        struct board_finding *finding)
{
    const struct board_rank *of = &board->ranks[rank];
    const uint64_t word = atomic_load_explicit(&of->finding, memory_order_acquire);
    const int slot = (int)(word >> (FINDING_RANK_BITS + 1) & ((1 << FINDING_SLOT_BITS) - 1));
    if (word == 0 || slot >= TRANSPORT_SLOT_COUNT) return false;
    const struct board_call *call =
        &board_calls(board, size, rank, slot)[(word >> 32) % BOARD_CALLS];
    const uint64_t begun = atomic_load_explicit(&call->begun, memory_order_acquire);
    if ((uint32_t)begun != word >> 32 ||
        atomic_load_explicit(&call->ended, memory_order_acquire) == begun)
        return false;
    *finding = (struct board_finding){
        .rank = (int)(word & ((1u << FINDING_RANK_BITS) - 1)),
        .is_stopped = (word >> FINDING_RANK_BITS & 1) != 0,
        .sequence = atomic_load_explicit(&of->finding_sequence, memory_order_relaxed)};
    return finding->rank < all;
}

static bool may_say(_Atomic uint64_t *said_ns, uint64_t now_ns)
{
    static const uint64_t apart_ns = 10000000000u;
    uint64_t last_ns = atomic_load_explicit(said_ns, memory_order_relaxed);
    return (last_ns == 0 || now_ns > last_ns + apart_ns) && /* another rank's now may be later */
           atomic_compare_exchange_strong_explicit(said_ns, &last_ns, now_ns, memory_order_relaxed,
                                                   memory_order_relaxed);
}

bool board_claim_report(struct board *board, int size, int of_all, uint64_t now_ns)
{
    return may_say(&said_of(board, size, of_all)->reported_ns, now_ns);
}

bool board_claim_naming(struct board *board, int size, int of_all, uint64_t now_ns)
{
    return may_say(&said_of(board, size, of_all)->named_ns, now_ns);
}

uint64_t board_waits(const struct board *board, int rank)
{
    return atomic_load_explicit(&board->ranks[rank].waits, memory_order_relaxed);
}

void board_add_wait(struct board *board, int rank)
{
    atomic_store_explicit(&board->ranks[rank].waits, board_waits(board, rank) + 1,
                          memory_order_relaxed);
}

void board_set_thread(struct board *board, int rank, int thread)
{
    atomic_store_explicit(&board->ranks[rank].thread, thread, memory_order_relaxed);
}

int board_thread(const struct board *board, int rank)
{
    const int thread = atomic_load_explicit(&board->ranks[rank].thread, memory_order_relaxed);
    return thread > 0 ? thread : 0; /* it is foreign */
}

/* 0: nobody; else the rank + 1, in BLAME_RANK_BITS bits, above the time in ms. */
enum { BLAME_RANK_BITS = 20, BLAME_TIME_BITS = 64 - BLAME_RANK_BITS };

void board_set_blame(struct board *board, int rank, int of_all, uint64_t now_ns)
{
    const uint64_t word = (uint64_t)(of_all + 1) << BLAME_TIME_BITS | now_ns / 1000000;
    atomic_store_explicit(&board->ranks[rank].blames, word, memory_order_relaxed);
}

int board_blame(const struct board *board, int rank, uint64_t *then_ns)
{
    const uint64_t word = atomic_load_explicit(&board->ranks[rank].blames, memory_order_relaxed);
    *then_ns = (word & ((UINT64_C(1) << BLAME_TIME_BITS) - 1)) * 1000000;
    return (int)(word >> BLAME_TIME_BITS) - 1;
}

void board_announce_verdict(struct board *board)
{
    if (!board_has_failed(board))
        atomic_store_explicit(&board->is_verdict, 1, memory_order_relaxed);
}

void board_set_minority(struct board *board, bool is_in_minority)
{
    if (board_is_in_minority(board) != is_in_minority)
        atomic_store_explicit(&board->is_in_minority, is_in_minority, memory_order_relaxed);
}

bool board_is_engaged(struct board_call *calls)
{
    for (int i = 0; i < BOARD_CALLS; i++)
        if (atomic_load_explicit(&calls[i].begun, memory_order_acquire) !=
            atomic_load_explicit(&calls[i].ended, memory_order_acquire))
            return true;
    return false;
}

const char *call_purpose_name(enum call_purpose purpose)
{
    switch (purpose) {
    case CALL_FOR_SPLIT: return "comm_split";
    case CALL_FOR_DUP: return "comm_dup";
    case CALL_FOR_MESH: return "mesh_create";
    case CALL_FOR_REGISTER: return "plan_register";
    case CALL_FOR_USER:
    case CALL_PURPOSE_COUNT: break;
    }
    return NULL;
}

void board_describe(const struct call_description *description, char *text, size_t text_bytes)
{
    const char *const made_for = call_purpose_name(description->purpose);
    if (made_for != NULL) {
        snprintf(text, text_bytes, "%s()", made_for);
        return;
    }
    const enum collective collective = description->collective;
    int used = snprintf(text, text_bytes, "%s%s%s(", collective_name(collective),
                        description->varies ? "v" : "", description->started ? "_start" : "");
    const size_t at = (size_t)used < text_bytes ? (size_t)used : text_bytes;
    if (collective == COLLECTIVE_BARRIER) {
        snprintf(text + at, text_bytes - at, ")");
        return;
    }
    used +=
        snprintf(text + at, text_bytes - at, "count %zu, %s%s%s", description->count,
                 tutti_dtype_name(description->dtype), collective_reduces(collective) ? ", " : "",
                 collective_reduces(collective) ? op_kind_name(description->op) : "");
    const size_t end = (size_t)used < text_bytes ? (size_t)used : text_bytes;
    if (collective_is_rooted(collective))
        snprintf(text + end, text_bytes - end, ", root %d)", description->root);
    else
        snprintf(text + end, text_bytes - end, ")");
}

bool board_fail(struct board *board, const struct board_failure *failure)
{
    uint32_t expected = FAILURE_NONE;
    if (!atomic_compare_exchange_strong_explicit(&board->failure_state, &expected, FAILURE_CLAIMED,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    board->failure_status = failure->status;
    board->failure_culprit = failure->culprit;
    board->failure_reporter = failure->reporter;
    board->failure_pid = failure->culprit_pid;
    board->failure_sequence = failure->sequence;
    snprintf(board->failure_message, sizeof board->failure_message, "%s", failure->message);
    atomic_store_explicit(&board->failure_state, FAILURE_PUBLISHED,
                          memory_order_release); /* pairs below */
    return true;
}

enum tutti_status board_failure(struct board *board, struct tutti_failure *failure)
{
    uint32_t state;
    int looks = 0;
    while ((state = atomic_load_explicit(&board->failure_state, memory_order_acquire)) ==
               FAILURE_CLAIMED &&
           looks++ < 1000)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    *failure = (struct tutti_failure){.size_bytes = sizeof *failure, .culprit = -1, .reporter = -1};
    if (state == FAILURE_NONE) return TUTTI_OK;
    if (state == FAILURE_CLAIMED) { /* its writer died in the middle */
        failure->status = TUTTI_PROC_FAILED;
        snprintf(failure->message, sizeof failure->message,
                 "a rank died while it reported a failure");
        return failure->status;
    }
    const int32_t status = board->failure_status;
    failure->status = status > TUTTI_IN_PROGRESS && status < STATUS_COUNT ? (enum tutti_status)status
                                                                          : TUTTI_INTERNAL;
    failure->culprit = board->failure_culprit;
    failure->reporter = board->failure_reporter;
    failure->pid = board->failure_pid;
    failure->sequence = board->failure_sequence;
    memcpy(failure->message, board->failure_message, sizeof failure->message);
    failure->message[sizeof failure->message - 1] = '\0';
    return failure->status;
}
