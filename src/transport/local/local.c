/* local.c - links over a segment: headers with inline data, slots, and memory read where it lies.
 *
 * Invariants
 *   1. A header or slot is written only after every reader's tail has passed its last use.
 *   2. Message numbers run on for the life of the segment; both ends count by themselves.
 *   3. What a peer wrote is read once, checked, and only then used.
 *   4. Private memory of another process is copied out by process_vm_readv, where every rank was seen to be
 *      allowed to at start-up; else (and with TUTTI_CMA=0) it goes through slots. So are heaps that cannot be mapped for want of a
 *      descriptor or of address space.
 *   5. A lent slot is written only by its owner while nobody reads it, and by its only reader.
 *   6. Whoever publishes (a message, a tail) looks for sleepers after it; whoever sleeps makes everybody's
 *      stores visible (fence_everybody) between saying so and its last look. So publishing needs no fence. Where the kernel
 *      refuses that to a rank, it counts as asleep for good: everybody then goes on to look at the bell of whom it sends
 *      to, with a fence of its own before that look.
 *   7. With `checks` every message goes in its header or through a slot, and is compared before it is shown (checked.h).
 *   8. Memory of a reader is written by its sender only where it expects just that message, and of another process
 *      only within its heap. Who announces what was not expected is at fault.
 */
#include "transport/local/local.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "base/watched.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/doorbell.h"
#include "os/futex.h"
#include "os/last_word.h"
#include "transport/local/checked.h"
#include "transport/local/nearness.h"
#include "transport/local/segment.h"

enum {
    KIND_SHIFT = 56,
    LENT_OWNER_SHIFT = 8, /* of a MESSAGE_LENT's place: the number of the slot below it */
    FETCH_BYTES_MAX = 128 << 10,
    REPORTS_APART_S = 60, /* of what changed, in the log */
    LOOKS_APART = 500     /* naps of somebody who waits for the others at the start: 25 ms */
};
static const uint64_t BYTES_MASK = (UINT64_C(1) << KIND_SHIFT) - 1;
/* After SHORTAGE_NS a rank will not get the descriptors or memory that it lacks; a rank that has not tried for SHORTAGE_IS_OVER_NS has found
 * another way. */
static const uint64_t SHORTAGE_NS = 1000000000, SHORTAGE_IS_OVER_NS = 500000000;

struct local_tx {
    struct link_tx base;
    struct local *local;
    const uint64_t *signature;
    struct message_header *headers;
    char *data;
    uint64_t sequence;                 /* messages sent */
    uint64_t consumed;                 /* by all readers, as last seen */
    uint64_t data_sequence;            /* payload slots used */
    uint64_t slot_free_at[DATA_SLOTS]; /* `consumed` that frees the slot */
    bool all_same_process, data_reserved;
    int local_peer; /* not of links to all */
    int reader_count;
    int *readers;
    struct tail **tails; /* of the readers */
};

struct local_rx {
    struct link_rx base;
    struct local *local;
    const uint64_t *signature;
    struct message_header *headers;
    const char *data;
    struct tail *tail;
    int slot;
    int local_peer;
    uint64_t sequence; /* messages consumed */
    uint64_t expected; /* what was offered last; foreign memory is not asked what it was */
    size_t expected_bytes;
    void *expected_at;
    struct link_view view;
    bool loaded;         /* view is of message `sequence` */
    struct lent *lent;   /* of a MESSAGE_LENT in view; else NULL */
    uint64_t lent_where; /* as it was read from the header, and checked */
    /* MESSAGE_REMOTE */
    uint64_t remote; /* where the view without data lies, or what follows the fetched one: as its sender says */
    size_t rest_bytes;              /* behind a fetched view */
    char *fetched;                  /* FETCH_BYTES_MAX, allocated when first needed */
    struct checked_message checked; /* what view is of, where messages are compared */
};

/* What this rank lends in a slot. */
struct lending {
    struct lent *lent; /* LENT_SLOTS of them; NULL: not opened */
    char *data;
    unsigned last; /* the one that was lent last */
};

struct local {
    struct transport base;
    struct segment *segment;
    struct segment_header *header;
    struct bell *bell;                 /* of this rank */
    struct last_word_giver *last_word; /* NULL: all processes see each other */
    uint32_t ring_seen;                /* since sleep_begin: another value means that it rang */
    _Atomic int door_fd;               /* what this rank sleeps on instead of the futex; -1: none */
    bool asked_for_door;
    uint32_t sleep_count; /* at the door */
    struct local_peer *peers;
    int *names;            /* that links show, of the ranks by number; NULL: their numbers */
    bool publishers_fence; /* invariant 6, where the kernel refuses a rank its fence */
    bool copies_remote;    /* all ranks can read each other's private memory */
    bool maps_heaps;       /* all ranks can map each other's heaps */
    uint64_t probe;        /* its own address, for peers to try */
    int *order;            /* of the ranks by nearness; NULL: as numbered */
    bool checks;
    _Atomic int corrupt_peer; /* the first one that sent what had changed for good; -1 */
    _Atomic uint64_t mended, change_reported_ns;
    /* Of what this rank cannot read now; relaxed: they are only shown. */
    _Atomic uint32_t shortage; /* enum tutti_status */
    _Atomic int shortage_peer;
    _Atomic uint64_t shortage_since_ns, shortage_seen_ns;
    /* [slot][channel][peer]; the own rank's place is the link to all */
    struct local_tx **tx;
    /* [slot][channel][from_all][peer] */
    struct local_rx **rx;
    struct lending lending[TRANSPORT_SLOT_COUNT];
};

/* --------------------------------------------------------------------------------------------- bells */

static bool has_door(const struct local *local)
{
    return atomic_load_explicit(&local->door_fd, memory_order_relaxed) >= 0;
}

/* False: it is not certain that it rings. */
static bool ring_door(struct local *local, struct bell *bell)
{
    const uint64_t door = atomic_load_explicit(&bell->door, memory_order_relaxed);
    return door == 0 ||
           doorbell_ring(atomic_load_explicit(&local->door_fd, memory_order_relaxed), door);
}

/* At a door one ring is enough: whoever finds that it has rung in this sleep has nothing to add. */
__attribute__((noinline, cold)) static void ring_sleeper(struct local *local, struct bell *bell,
                                                         uint32_t asleep)
{
    switch (asleep & ASLEEP_WHERE) {
    case ASLEEP_RUNG: break;
    case ASLEEP_AT_DOOR:
        atomic_thread_fence(memory_order_acquire); /* pairs with sleep_begin, for the number */
        if (!ring_door(local, bell)) break;
        atomic_compare_exchange_strong_explicit(&bell->asleep, &asleep, asleep | ASLEEP_RUNG,
                                                memory_order_release, memory_order_relaxed);
        break;
    default:
        atomic_fetch_add_explicit(&bell->ring, 1, memory_order_release);
        futex_wake(&bell->ring);
    }
}

static void ring(struct local *local, int rank)
{
    struct bell *bell = segment_bell(local->segment, rank);
    /* Between what was published and the look, as the sleeper has one between its word and its last look. */
    if (local->publishers_fence) fence_this_thread();
    const uint32_t asleep = atomic_load_explicit(&bell->asleep, memory_order_relaxed);
    if (__builtin_expect(asleep != AWAKE, 0)) ring_sleeper(local, bell, asleep);
}

/* Invariant 6; the common case is one load of a line that is in everybody's cache. */
static inline bool somebody_sleeps(struct local *local)
{
    atomic_signal_fence(memory_order_seq_cst);
    return __builtin_expect(
        atomic_load_explicit(&local->header->sleeper_count, memory_order_relaxed) != 0, 0);
}

static void local_sleep_begin(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    local->ring_seen = atomic_load_explicit(&local->bell->ring, memory_order_acquire);
    uint32_t asleep = ASLEEP;
    if (has_door(local)) {
        doorbell_hush(local->door_fd);
        asleep = ++local->sleep_count << ASLEEP_COUNT_SHIFT | ASLEEP_AT_DOOR;
    }
    atomic_store_explicit(&local->bell->asleep, asleep, memory_order_release);
    atomic_fetch_add_explicit(&local->header->sleeper_count, 1, memory_order_relaxed);
    fence_everybody();
}

static void local_sleep_cancel(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    atomic_store_explicit(&local->bell->asleep, AWAKE, memory_order_relaxed);
    atomic_fetch_sub_explicit(&local->header->sleeper_count, 1, memory_order_relaxed);
}

static void local_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct local *local = (struct local *)transport;
    if (has_door(local))
        doorbell_wait(local->door_fd, timeout_ns);
    else
        futex_wait(&local->bell->ring, local->ring_seen, timeout_ns);
    local_sleep_cancel(transport);
}

/* Decided once, so that who rings finds this rank asleep where it is. */
static int local_descriptor(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (local->asked_for_door) return local->door_fd;
    local->asked_for_door = true;
    uint64_t number;
    int fd;
    if (doorbell_open(&number, &fd) != TUTTI_OK) {
        log_write(LOG_WARN, "local rank %d: %s; waiting takes processor time without it",
                  transport->rank, tutti_error_message());
        return -1;
    }
    atomic_store_explicit(&local->bell->door, number, memory_order_relaxed);
    atomic_store_explicit(&local->door_fd, fd, memory_order_relaxed);
    return fd;
}

static void local_wake(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (somebody_sleeps(local)) ring(local, transport->rank);
}

static void local_wake_all(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    for (int r = 0; r < transport->size; r++) {
        struct bell *bell = segment_bell(local->segment, r);
        atomic_fetch_add_explicit(&bell->ring, 1, memory_order_seq_cst);
        futex_wake(&bell->ring);
        (void)ring_door(local, bell);
    }
}

/* -------------------------------------------------------------------------------------------- sending */

static void look_at_tails(struct local_tx *tx)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < tx->reader_count; i++) {
        const uint64_t consumed =
            atomic_load_explicit(&tx->tails[i]->consumed, memory_order_acquire);
        if (consumed < least) least = consumed;
    }
    /* A tail beyond what was sent is a peer's mistake; believing it would only harm that peer's reading. */
    tx->consumed = least > tx->sequence ? tx->sequence : least;
}

static inline bool header_is_free(struct local_tx *tx)
{
    if (__builtin_expect(tx->sequence - tx->consumed < HEADER_COUNT, 1)) return true;
    look_at_tails(tx);
    return tx->sequence - tx->consumed < HEADER_COUNT;
}

static inline struct message_header *next_header(struct local_tx *tx)
{
    return &tx->headers[tx->sequence % HEADER_COUNT];
}

static void *local_reserve(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (!header_is_free(tx)) return NULL;
    if (bytes <= INLINE_BYTES) return next_header(tx)->u.data;
    const unsigned slot = tx->data_sequence % DATA_SLOTS;
    if (tx->consumed < tx->slot_free_at[slot]) {
        look_at_tails(tx);
        if (tx->consumed < tx->slot_free_at[slot]) return NULL;
    }
    return tx->data + slot * tx->local->segment->slot_bytes;
}

/* Everything else is in the header. */
static inline void announce(struct local_tx *tx, struct message_header *header, uint64_t sequence)
{
    tx->sequence++;
    atomic_store_explicit(&header->sequence, sequence, memory_order_release); /* pairs with peek */
    if (somebody_sleeps(tx->local))
        for (int i = 0; i < tx->reader_count; i++) ring(tx->local, tx->readers[i]);
}

static inline void publish(struct local_tx *tx, enum message_kind kind, size_t bytes)
{
    struct message_header *header = next_header(tx);
    if (CALLS_ARE_WATCHED) header->signature = *tx->signature;
    header->kind_and_bytes = (uint64_t)kind << KIND_SHIFT | bytes;
    announce(tx, header, tx->sequence + 1);
}

/* The next message is what was written to the reserved slot; its number. */
static inline unsigned use_slot(struct local_tx *tx)
{
    const unsigned slot = tx->data_sequence++ % DATA_SLOTS;
    next_header(tx)->u.slot = slot;
    tx->slot_free_at[slot] = tx->sequence + 1;
    return slot;
}

static void local_commit(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (bytes <= INLINE_BYTES) {
        publish(tx, MESSAGE_INLINE, bytes);
        return;
    }
    use_slot(tx);
    publish(tx, MESSAGE_SLOT, bytes);
}

/* How the readers get at that memory: ADDRESS, HEAP, or REMOTE, which they may not be able to. */
static enum message_kind kind_of(const struct local_tx *tx, const void *address, size_t bytes,
                                 uint64_t *where)
{
    if (!tx->all_same_process && tx->local->maps_heaps && heap_find(address, bytes, where))
        return MESSAGE_HEAP;
    *where = (uint64_t)(uintptr_t)address;
    return tx->all_same_process ? MESSAGE_ADDRESS : MESSAGE_REMOTE;
}

static enum link_reach local_reach(struct link_tx *link, const void *address, size_t bytes)
{
    const struct local_tx *tx = (const struct local_tx *)link;
    uint64_t where;
    if (kind_of(tx, address, bytes, &where) != MESSAGE_REMOTE) return REACH_READ;
    return tx->local->copies_remote ? REACH_COPY : REACH_NONE;
}

static bool local_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (!header_is_free(tx)) return false;
    uint64_t where;
    const enum message_kind kind = kind_of(tx, address, bytes, &where);
    if (kind == MESSAGE_REMOTE && !tx->local->copies_remote) return false;
    next_header(tx)->u.where = where;
    publish(tx, kind, bytes);
    return true;
}

static bool local_refer(struct link_tx *link, const void *address, size_t bytes,
                        struct link_reference *reference)
{
    const struct local_tx *tx = (const struct local_tx *)link;
    const enum message_kind kind = kind_of(tx, address, bytes, &reference->where);
    reference->kind = (uint64_t)kind + 1;
    return kind != MESSAGE_REMOTE || tx->local->copies_remote;
}

static bool local_consumed(struct link_tx *link)
{
    struct local_tx *tx = (struct local_tx *)link;
    if (tx->consumed != tx->sequence) look_at_tails(tx);
    return tx->consumed == tx->sequence;
}

static bool local_has_room(struct link_tx *link)
{
    return header_is_free((struct local_tx *)link);
}

static void *local_expected_at(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    struct tail *tail = tx->tails[0];
    const struct local_peer *peer = &tx->local->peers[tx->local_peer];
    if (atomic_load_explicit(&tail->expected, memory_order_acquire) != tx->sequence + 1 ||
        atomic_load_explicit(&tail->expected_bytes, memory_order_relaxed) != bytes)
        return NULL;
    const uint64_t where = atomic_load_explicit(&tail->expected_where, memory_order_relaxed);
    if (peer->same_process) return (void *)(uintptr_t)where;
    return peer->window != NULL ? heap_window_at(peer->window, where, bytes) : NULL;
}

static void local_placed(struct link_tx *link, size_t bytes)
{
    publish((struct local_tx *)link, MESSAGE_PLACED, bytes);
}

static const struct link_tx_ops tx_ops = {.reserve = local_reserve,
                                          .commit = local_commit,
                                          .reach = local_reach,
                                          .post = local_post,
                                          .consumed = local_consumed,
                                          .has_room = local_has_room,
                                          .expected_at = local_expected_at,
                                          .placed = local_placed,
                                          .refer = local_refer};

static void checked_commit(struct link_tx *link, size_t bytes)
{
    struct local_tx *tx = (struct local_tx *)link;
    struct message_header *header = next_header(tx);
    const size_t slot_bytes = tx->local->segment->slot_bytes;
    char *const payload = bytes > INLINE_BYTES ? tx->data + use_slot(tx) * slot_bytes : NULL;
    header->signature = *tx->signature;
    announce(tx, header, checked_seal(header, tx->sequence + 1, bytes, payload, slot_bytes));
}

static enum link_reach reach_unsupported(struct link_tx *link, const void *address, size_t bytes)
{
    (void)link, (void)address, (void)bytes;
    return REACH_NONE;
}

static bool post_unsupported(struct link_tx *link, const void *address, size_t bytes)
{
    (void)link, (void)address, (void)bytes;
    return false;
}

static const struct link_tx_ops checked_tx_ops = {.reserve = local_reserve,
                                                  .commit = checked_commit,
                                                  .reach = reach_unsupported,
                                                  .post = post_unsupported,
                                                  .consumed = local_consumed,
                                                  .has_room = local_has_room};

/* -------------------------------------------------------------------------------------------- lending */

static enum tutti_status local_open_lending(struct transport *transport, int slot)
{
    struct local *local = (struct local *)transport;
    struct lending *lending = &local->lending[slot];
    if (lending->lent != NULL) return TUTTI_OK;
    TRY(segment_reserve_lent(local->segment, transport->rank, slot));
    segment_lent(local->segment, transport->rank, slot, &lending->lent, &lending->data);
    return TUTTI_OK;
}

/* The first that is free, so that few are touched where few are needed. */
static void *local_lend(struct transport *transport, int slot, size_t bytes)
{
    struct local *local = (struct local *)transport;
    struct lending *lending = &local->lending[slot];
    if (bytes > local->segment->lent_bytes) return NULL;
    for (unsigned i = 0; i < LENT_SLOTS; i++) {
        if (atomic_load_explicit(&lending->lent[i].readers, memory_order_acquire) != 0) continue;
        lending->last = i;
        return lending->data + i * local->segment->lent_bytes;
    }
    return NULL;
}

static void send_lent(struct local_tx *tx, uint64_t where, size_t bytes)
{
    next_header(tx)->u.where = where;
    publish(tx, MESSAGE_LENT, bytes);
}

static uint32_t readers_of(struct link_tx *const *links, unsigned count)
{
    uint32_t readers = 0;
    for (unsigned i = 0; i < count; i++)
        readers += (uint32_t)((const struct local_tx *)links[i])->reader_count;
    return readers;
}

static void local_share(struct transport *transport, int slot, struct link_tx *const *links,
                        unsigned count, size_t bytes)
{
    struct lending *lending = &((struct local *)transport)->lending[slot];
    const uint64_t where = (uint64_t)transport->rank << LENT_OWNER_SHIFT | lending->last;
    atomic_store_explicit(&lending->lent[lending->last].readers, readers_of(links, count),
                          memory_order_relaxed); /* seen by whoever sees a header */
    for (unsigned i = 0; i < count; i++) send_lent((struct local_tx *)links[i], where, bytes);
}

/* ------------------------------------------------------------------------------------------ receiving */

static bool view_lent(struct local_rx *rx, uint64_t where, size_t bytes)
{
    const struct segment *segment = rx->local->segment;
    const uint64_t owner = where >> LENT_OWNER_SHIFT,
                   number = where & ((UINT64_C(1) << LENT_OWNER_SHIFT) - 1);
    if (owner >= (uint64_t)segment->rank_count || number >= LENT_SLOTS ||
        bytes > segment->lent_bytes)
        return false;
    char *data;
    segment_lent(segment, (int)owner, rx->slot, &rx->lent, &data);
    rx->lent += number;
    data += number * segment->lent_bytes;
    /* One of several readers leaves it as it is. */
    const bool is_only_reader = atomic_load_explicit(&rx->lent->readers, memory_order_acquire) == 1;
    rx->lent_where = where;
    rx->view =
        (struct link_view){.data = data, .bytes = bytes, .place = is_only_reader ? data : NULL};
    return true;
}

/* Memory that this rank can read where it lies; NULL where there is none. */
static const void *readable_at(const struct local_rx *rx, enum message_kind kind, uint64_t where,
                               size_t bytes)
{
    const struct local_peer *peer = &rx->local->peers[rx->local_peer];
    if (kind == MESSAGE_HEAP && peer->same_process) return heap_at(where, bytes);
    if (kind == MESSAGE_HEAP && peer->window != NULL)
        return heap_window_at(peer->window, where, bytes);
    if ((kind == MESSAGE_ADDRESS || kind == MESSAGE_REMOTE) && peer->same_process)
        return (const void *)(uintptr_t)where;
    return NULL;
}

/* Reads the private memory of another process; false when it cannot, now or for ever. */
static bool read_remote(pid_t pid, uint64_t remote, void *destination, size_t bytes)
{
    const struct iovec from = {(void *)(uintptr_t)remote, bytes}, to = {destination, bytes};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

static void note_shortage(struct local *local, int local_peer, enum tutti_status shortage)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns - atomic_load_explicit(&local->shortage_seen_ns, memory_order_relaxed) >
        SHORTAGE_IS_OVER_NS)
        atomic_store_explicit(&local->shortage_since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&local->shortage, shortage, memory_order_relaxed);
    atomic_store_explicit(&local->shortage_peer, local_peer, memory_order_relaxed);
    atomic_store_explicit(&local->shortage_seen_ns, now_ns, memory_order_relaxed);
}

/* Where memory of a peer's heap lies in its process; 0: it cannot be told from here. */
static uint64_t heap_address(const struct local_rx *rx, uint64_t where, size_t bytes)
{
    const struct local *local = rx->local;
    const pid_t pid = local->peers[rx->local_peer].pid;
    uint64_t place, distance, base = 0;
    if (!local->copies_remote || !heap_base_of(where, bytes, &place, &distance)) return 0;
    place += atomic_load_explicit(&segment_bell(local->segment, rx->local_peer)->heap_bases,
                                  memory_order_relaxed);
    const bool is_known = read_remote(pid, place, &base, sizeof base) && base != 0;
    return is_known ? base + distance : 0;
}

/* Of memory that is not readable where it lies. READY: it can be copied from *remote. A heap that holds the range and cannot be
 * opened is one whose process is gone, or this process lacks what that takes. */
static enum link_state reach_unreadable(const struct local_rx *rx, enum message_kind kind,
                                        uint64_t where, size_t bytes, uint64_t *remote)
{
    const struct local_peer *peer = &rx->local->peers[rx->local_peer];
    *remote = 0;
    if (kind != MESSAGE_HEAP || peer->window == NULL ||
        !heap_window_holds(peer->window, where, bytes))
        return LINK_FAULT;
    const enum tutti_status shortage = heap_window_shortage(peer->window);
    if (shortage == TUTTI_OK) return LINK_EMPTY;
    *remote = heap_address(rx, where, bytes);
    if (*remote != 0) return LINK_READY;
    note_shortage(rx->local, rx->local_peer, shortage);
    return LINK_EMPTY;
}

/* Turns a header into a view. */
static enum link_state view_of(struct local_rx *rx, const struct message_header *header)
{
    const uint64_t kind_and_bytes = read_once(&header->kind_and_bytes);
    const uint64_t bytes = kind_and_bytes & BYTES_MASK, where = read_once(&header->u.where);
    const struct local *local = rx->local;
    const enum message_kind kind = (enum message_kind)(kind_and_bytes >> KIND_SHIFT);
    const void *data = NULL;
    switch (kind) {
    case MESSAGE_INLINE:
        if (bytes <= INLINE_BYTES) data = header->u.data;
        break;
    case MESSAGE_SLOT:
        if (where < DATA_SLOTS && bytes <= local->segment->slot_bytes)
            data = rx->data + where * local->segment->slot_bytes;
        break;
    case MESSAGE_ADDRESS:
    case MESSAGE_HEAP:
        data = readable_at(rx, kind, where, bytes);
        if (data != NULL) break;
        rx->view = (struct link_view){.bytes = bytes};
        return reach_unreadable(rx, kind, where, bytes, &rx->remote);
    case MESSAGE_LENT: return view_lent(rx, where, bytes) ? LINK_READY : LINK_FAULT;
    case MESSAGE_KIND_COUNT: break;
    case MESSAGE_REMOTE:
        data = readable_at(rx, kind, where, bytes);
        if (data != NULL) break;
        rx->view = (struct link_view){.bytes = bytes};
        rx->remote = where;
        return local->copies_remote ? LINK_READY : LINK_FAULT;
    case MESSAGE_PLACED:
        if (rx->expected == rx->sequence + 1 && rx->expected_bytes == bytes) data = rx->expected_at;
        break;
    }
    rx->view = (struct link_view){.data = data, .bytes = bytes};
    return data != NULL ? LINK_READY : LINK_FAULT;
}

static enum link_state local_peek(struct link_rx *link, struct link_view *view)
{
    struct local_rx *rx = (struct local_rx *)link;
    if (!rx->loaded) {
        const struct message_header *header = &rx->headers[rx->sequence % HEADER_COUNT];
        const uint64_t sequence = atomic_load_explicit(&header->sequence, memory_order_acquire);
        if (__builtin_expect(sequence != rx->sequence + 1, 1)) return LINK_EMPTY;
        if (CALLS_ARE_WATCHED && header->signature != *rx->signature) return LINK_FAULT;
        const enum link_state state = view_of(rx, header);
        if (state != LINK_READY) return state;
        rx->loaded = true;
    }
    *view = rx->view;
    return LINK_READY;
}

static void finish_message(struct local_rx *rx)
{
    rx->loaded = false;
    rx->sequence++;
    atomic_store_explicit(&rx->tail->consumed, rx->sequence,
                          memory_order_release); /* pairs with look_at_tails */
    if (somebody_sleeps(rx->local)) ring(rx->local, rx->local_peer);
}

/* The owner, who may wait for a place, need not be the sender of the message. */
static void give_back(struct local_rx *rx)
{
    const uint32_t readers = atomic_fetch_sub_explicit(
        &rx->lent->readers, 1, memory_order_release); /* pairs with local_lend */
    rx->lent = NULL;
    if (readers == 1 && somebody_sleeps(rx->local))
        ring(rx->local, (int)(rx->lent_where >> LENT_OWNER_SHIFT));
}

static void local_consume(struct link_rx *link, size_t bytes)
{
    struct local_rx *rx = (struct local_rx *)link;
    rx->view.bytes -= bytes;
    if (rx->view.data == NULL) rx->remote += bytes;
    if (rx->view.bytes > 0) {
        if (rx->view.data != NULL) rx->view.data = (const char *)rx->view.data + bytes;
        rx->view.place = NULL;
        return;
    }
    if (rx->rest_bytes > 0) {
        rx->view = (struct link_view){.bytes = rx->rest_bytes};
        rx->rest_bytes = 0;
        return;
    }
    if (rx->lent != NULL) give_back(rx);
    finish_message(rx);
}

static void local_hand_on(struct link_rx *link, struct link_tx *const *targets, unsigned count)
{
    struct local_rx *rx = (struct local_rx *)link;
    const uint32_t readers = readers_of(targets, count);
    if (readers > 1) /* this rank's turn is one of theirs */
        atomic_fetch_add_explicit(&rx->lent->readers, readers - 1, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        send_lent((struct local_tx *)targets[i], rx->lent_where, rx->view.bytes);
    rx->lent = NULL;
    finish_message(rx);
}

static bool local_take(struct link_rx *link, void *destination, size_t bytes)
{
    struct local_rx *rx = (struct local_rx *)link;
    return read_remote(rx->local->peers[rx->local_peer].pid, rx->remote, destination, bytes);
}

static bool local_fetch(struct link_rx *link)
{
    struct local_rx *rx = (struct local_rx *)link;
    const size_t bytes = rx->view.bytes < FETCH_BYTES_MAX ? rx->view.bytes : FETCH_BYTES_MAX;
    if (rx->fetched == NULL && (rx->fetched = aligned_alloc(CACHE_LINE, FETCH_BYTES_MAX)) == NULL) {
        note_shortage(rx->local, rx->local_peer, TUTTI_NO_MEMORY);
        return false;
    }
    if (!local_take(link, rx->fetched, bytes)) return false;
    rx->remote += bytes;
    rx->rest_bytes = rx->view.bytes - bytes;
    rx->view = (struct link_view){.data = rx->fetched, .bytes = bytes};
    return true;
}

static enum link_state local_copy(struct link_rx *link, const struct link_reference *reference,
                                  size_t offset, void *destination, size_t bytes)
{
    const struct local_rx *rx = (const struct local_rx *)link;
    const enum message_kind kind = (enum message_kind)(reference->kind - 1);
    const uint64_t where = reference->where + offset;
    const void *data = readable_at(rx, kind, where, bytes);
    if (data != NULL) {
        memcpy(destination, data, bytes);
        return LINK_READY;
    }
    uint64_t remote = where;
    if (kind != MESSAGE_REMOTE) {
        const enum link_state state = reach_unreadable(rx, kind, where, bytes, &remote);
        if (state != LINK_READY) return state;
    }
    if (!rx->local->copies_remote) return LINK_FAULT;
    const pid_t pid = rx->local->peers[rx->local_peer].pid;
    return read_remote(pid, remote, destination, bytes) ? LINK_READY : LINK_EMPTY;
}

static void local_expect(struct link_rx *link, void *destination, size_t bytes)
{
    struct local_rx *rx = (struct local_rx *)link;
    uint64_t where = (uint64_t)(uintptr_t)destination;
    if (!rx->local->peers[rx->local_peer].same_process &&
        (!rx->local->maps_heaps || !heap_find(destination, bytes, &where)))
        return;
    rx->expected = rx->sequence + 1;
    rx->expected_bytes = bytes;
    rx->expected_at = destination;
    atomic_store_explicit(&rx->tail->expected_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&rx->tail->expected_where, where, memory_order_relaxed);
    atomic_store_explicit(&rx->tail->expected, rx->expected,
                          memory_order_release); /* pairs with expected_at */
}

static const struct link_rx_ops rx_ops = {.peek = local_peek,
                                          .take = local_take,
                                          .fetch = local_fetch,
                                          .consume = local_consume,
                                          .hand_on = local_hand_on,
                                          .expect = local_expect,
                                          .copy = local_copy};

static int name_of(const struct local *local, int local_peer)
{
    return local->names != NULL && local_peer != TRANSPORT_ALL ? local->names[local_peer]
                                                               : local_peer;
}

static void report_change(struct local *local, int local_peer)
{
    const uint64_t now_ns = clock_now_ns(),
                   mended = atomic_fetch_add_explicit(&local->mended, 1, memory_order_relaxed),
                   reported_ns =
                       atomic_load_explicit(&local->change_reported_ns, memory_order_relaxed);
    if (reported_ns != 0 && now_ns - reported_ns < REPORTS_APART_S * UINT64_C(1000000000)) return;
    atomic_store_explicit(&local->change_reported_ns, now_ns, memory_order_relaxed);
    log_write(
        LOG_WARN,
        "peer %d: what it sent had changed in shared memory; its second copy is taken, as were "
        "%llu before it",
        name_of(local, local_peer), (unsigned long long)mended);
}

/* Relaxed: the number is all there is to see. */
static void give_up(struct local *local, int local_peer)
{
    int none = -1;
    if (atomic_compare_exchange_strong_explicit(&local->corrupt_peer, &none, local_peer,
                                                memory_order_relaxed, memory_order_relaxed))
        log_write(LOG_WARN, "peer %d: both copies of what it sent had changed in shared memory",
                  name_of(local, local_peer));
}

static enum link_state load_checked(struct local_rx *rx)
{
    struct local *local = rx->local;
    if (atomic_load_explicit(&local->corrupt_peer, memory_order_relaxed) == rx->local_peer)
        return LINK_FAULT;
    switch (checked_read(&rx->headers[rx->sequence % HEADER_COUNT], rx->sequence + 1, rx->data,
                         local->segment->slot_bytes, &rx->checked)) {
    case CHECKED_ABSENT: return LINK_EMPTY;
    case CHECKED_INTACT: break;
    case CHECKED_MENDED: report_change(local, rx->local_peer); break;
    case CHECKED_CHANGED: give_up(local, rx->local_peer); return LINK_FAULT;
    }
    if (CALLS_ARE_WATCHED && rx->checked.signature != *rx->signature) return LINK_FAULT;
    rx->view = (struct link_view){.data = rx->checked.data, .bytes = rx->checked.bytes};
    rx->loaded = true;
    return LINK_READY;
}

static enum link_state checked_peek(struct link_rx *link, struct link_view *view)
{
    struct local_rx *rx = (struct local_rx *)link;
    const enum link_state state = rx->loaded ? LINK_READY : load_checked(rx);
    if (state == LINK_READY) *view = rx->view;
    return state;
}

static const struct link_rx_ops checked_rx_ops = {.peek = checked_peek, .consume = local_consume};

/* -------------------------------------------------------------------------------------------- opening */

static enum tutti_status check_channel(int channel)
{
    if (channel < TRANSPORT_CHANNEL_COUNT) return TUTTI_OK;
    return error_set(TUTTI_UNSUPPORTED, "the plan uses channel %d, this transport has %d", channel,
                     TRANSPORT_CHANNEL_COUNT);
}

static void tx_free(struct local_tx *tx)
{
    if (tx == NULL) return;
    free(tx->readers);
    free(tx->tails);
    free(tx);
}

static void rx_free(struct local_rx *rx)
{
    if (rx != NULL) free(rx->fetched);
    free(rx);
}

static enum tutti_status tx_create(struct local *local, int slot, int channel, int peer,
                                   struct local_tx **created)
{
    const int rank = local->base.rank, size = local->base.size;
    const bool to_all = peer == TRANSPORT_ALL;
    struct local_tx *tx = calloc(1, sizeof *tx);
    if (tx == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    tx->readers = calloc((size_t)size, sizeof *tx->readers);
    tx->tails = calloc((size_t)size, sizeof(struct tail *));
    enum tutti_status status = TUTTI_OK;
    if (tx->readers == NULL || tx->tails == NULL)
        status = error_set(TUTTI_NO_MEMORY, "out of memory");
    if (status == TUTTI_OK)
        status = segment_link(local->segment, rank, slot, channel, to_all ? rank : peer,
                              &tx->headers, &tx->data);
    tx->all_same_process = true;
    for (int r = 0; r < size && status == TUTTI_OK; r++) {
        if (r == rank || (!to_all && r != peer)) continue;
        status = segment_tail(local->segment, r, slot, channel, rank, to_all,
                              &tx->tails[tx->reader_count]);
        tx->readers[tx->reader_count++] = r;
        tx->all_same_process &= local->peers[r].same_process;
    }
    if (status != TUTTI_OK) {
        tx_free(tx);
        return status;
    }
    tx->base = (struct link_tx){local->checks ? &checked_tx_ops : &tx_ops, name_of(local, peer)};
    tx->local = local;
    tx->local_peer = peer;
    tx->signature = &local->base.signatures[slot];
    *created = tx;
    return TUTTI_OK;
}

static enum tutti_status local_open_tx(struct transport *transport, int slot, int channel, int peer,
                                       size_t bytes, struct link_tx **link)
{
    struct local *local = (struct local *)transport;
    TRY(check_channel(channel));
    const int place = peer == TRANSPORT_ALL ? transport->rank : peer;
    struct local_tx **entry =
        &local->tx[(slot * TRANSPORT_CHANNEL_COUNT + channel) * transport->size + place];
    if (*entry == NULL) TRY(tx_create(local, slot, channel, peer, entry));
    if (bytes > INLINE_BYTES && !(*entry)->data_reserved) {
        TRY(segment_reserve_data(local->segment, (*entry)->data));
        (*entry)->data_reserved = true;
    }
    *link = &(*entry)->base;
    return TUTTI_OK;
}

static enum tutti_status local_open_rx(struct transport *transport, int slot, int channel, int peer,
                                       bool from_all, struct link_rx **link)
{
    struct local *local = (struct local *)transport;
    TRY(check_channel(channel));
    const int index =
        ((slot * TRANSPORT_CHANNEL_COUNT + channel) * 2 + from_all) * transport->size + peer;
    struct local_rx *rx = local->rx[index];
    if (rx == NULL) {
        rx = calloc(1, sizeof *rx);
        if (rx == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
        char *data;
        enum tutti_status status =
            segment_link(local->segment, peer, slot, channel, from_all ? peer : transport->rank,
                         &rx->headers, &data);
        if (status == TUTTI_OK)
            status = segment_tail(local->segment, transport->rank, slot, channel, peer, from_all,
                                  &rx->tail);
        if (status != TUTTI_OK) {
            free(rx);
            return status;
        }
        rx->base = (struct link_rx){local->checks ? &checked_rx_ops : &rx_ops, name_of(local, peer)};
        rx->local = local;
        rx->local_peer = peer;
        rx->signature = &transport->signatures[slot];
        rx->slot = slot;
        rx->data = data;
        local->rx[index] = rx;
    }
    *link = &rx->base;
    return TUTTI_OK;
}

void local_limits(int size, bool checks, size_t *piece_bytes_max, unsigned *piece_count_max)
{
    const size_t slot_bytes = segment_slot_bytes(size);
    *piece_bytes_max = checks ? checked_bytes_max(slot_bytes) : slot_bytes;
    *piece_count_max = DATA_SLOTS;
}

static void limits(struct transport *transport, size_t *piece_bytes_max, unsigned *piece_count_max)
{
    local_limits(transport->size, ((struct local *)transport)->checks, piece_bytes_max,
                 piece_count_max);
}

static const struct transport_ops ops = {.limits = limits,
                                         .open_tx = local_open_tx,
                                         .open_rx = local_open_rx,
                                         .open_lending = local_open_lending,
                                         .lend = local_lend,
                                         .share = local_share,
                                         .sleep_begin = local_sleep_begin,
                                         .sleep_cancel = local_sleep_cancel,
                                         .sleep = local_sleep,
                                         .descriptor = local_descriptor,
                                         .wake = local_wake,
                                         .wake_all = local_wake_all};

/* A place that travels has no second copy. */
static const struct transport_ops checked_ops = {.limits = limits,
                                                 .open_tx = local_open_tx,
                                                 .open_rx = local_open_rx,
                                                 .sleep_begin = local_sleep_begin,
                                                 .sleep_cancel = local_sleep_cancel,
                                                 .sleep = local_sleep,
                                                 .descriptor = local_descriptor,
                                                 .wake = local_wake,
                                                 .wake_all = local_wake_all};

static bool have_all_come(const struct local *local, uint32_t all)
{
    return atomic_load_explicit(&local->header->ready_count, memory_order_acquire) >= all;
}

static bool is_visible(const struct local *local, int rank)
{
    return local->peers[rank].same_process || local->peers[rank].pid != 0;
}

/* The first rank that cannot be seen from here; -1. */
static int first_hidden(const struct local *local)
{
    for (int r = 0; r < local->base.size; r++)
        if (!is_visible(local, r)) return r;
    return -1;
}

bool local_has_ended(const struct transport *transport, int rank)
{
    const struct local *local = (const struct local *)transport;
    return last_word_is_spoken(&segment_bell(local->segment, rank)->last_word);
}

static enum tutti_status look_at_hidden(const struct local *local)
{
    for (int r = 0; r < local->base.size; r++)
        if (!is_visible(local, r) && local_has_ended(&local->base, r))
            return error_set(TUTTI_PROC_FAILED, "rank %d died during start-up", name_of(local, r));
    return TUTTI_OK;
}

static enum tutti_status look(const struct local *local, const struct local_options *options)
{
    TRY(look_at_hidden(local));
    return options->look != NULL ? options->look(options->look_context) : TUTTI_OK;
}

/* Waits until everybody has come to the same point `times` times. */
static enum tutti_status wait_for_all(struct local *local, uint32_t times,
                                      const struct local_options *options)
{
    const uint32_t all = (uint32_t)local->base.size * times;
    atomic_fetch_add_explicit(&local->header->ready_count, 1, memory_order_acq_rel);
    for (int i = 1; !have_all_come(local, all); i++) {
        if (i < 200)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 50000}, NULL);
        if (clock_now_ns() > options->deadline_ns)
            return error_set(TUTTI_INIT_TIMEOUT,
                             "a rank answered at start-up but did not join the segment");
        if (i % LOOKS_APART != 0) continue;
        const enum tutti_status status = look(local, options);
        /* Whoever came last may have gone since: then nobody is missing. */
        if (status != TUTTI_OK && !have_all_come(local, all)) return status;
    }
    return TUTTI_OK;
}

static bool reads(const struct local *local, int rank)
{
    const struct local_peer *peer = &local->peers[rank];
    if (peer->same_process) return true;
    const uint64_t address = atomic_load_explicit(
        &segment_bell(local->segment, rank)->probe_address, memory_order_relaxed);
    uint64_t word = 0;
    return peer->pid != 0 && read_remote(peer->pid, address, &word, sizeof word) && word == address;
}

static bool maps(const struct local *local, int rank)
{
    const struct local_peer *peer = &local->peers[rank];
    return peer->same_process ||
           (peer->window != NULL && heap_is_reachable(heap_window_location(peer->window)));
}

/* Users and security modules, of which there are few kinds among the ranks, decide whether the kernel allows it: each rank tries it with
 * the ranks 1, 2, 4, ... further on, and all must succeed. No rank reaches a process that it cannot see. */
static bool can_with_neighbours(const struct local *local,
                                bool (*can)(const struct local *local, int rank))
{
    if (first_hidden(local) >= 0) return false;
    for (int distance = 1; distance < local->base.size; distance *= 2)
        if (!can(local, (local->base.rank + distance) % local->base.size)) return false;
    return true;
}

static bool wants_remote_copies(void)
{
    return option_wish(OPTION_CMA) != 0; /* "0" is the first of its words */
}

/* Everybody adds its CPUs and itself, tries to read the others' memory, and waits for the rest. */
static enum tutti_status arrive(struct local *local, const struct local_options *options)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        for (int cpu = 0; cpu < 1024 && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &cpus))
                atomic_fetch_or_explicit(&local->header->cpus[cpu / 64], UINT64_C(1) << cpu % 64,
                                         memory_order_relaxed);
    struct cpu_place place;
    cpu_place_of_thread(&place);
    atomic_store_explicit(&local->bell->place, nearness_word(&place), memory_order_relaxed);
    if (!fence_register()) {
        atomic_fetch_add_explicit(&local->header->unfenced_count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&local->header->sleeper_count, 1, memory_order_relaxed);
    }
    local->probe = (uint64_t)(uintptr_t)&local->probe;
    atomic_store_explicit(&local->bell->probe_address, local->probe, memory_order_relaxed);
    atomic_store_explicit(&local->bell->heap_bases, heap_bases(), memory_order_relaxed);
    if (first_hidden(local) >= 0) TRY(last_word_give(&local->bell->last_word, &local->last_word));
    TRY(wait_for_all(local, 1, options));
    local->publishers_fence =
        atomic_load_explicit(&local->header->unfenced_count, memory_order_relaxed) != 0;
    if (!wants_remote_copies() || !can_with_neighbours(local, reads))
        atomic_fetch_add_explicit(&local->header->unreadable_count, 1, memory_order_relaxed);
    if (!can_with_neighbours(local, maps))
        atomic_fetch_add_explicit(&local->header->unmappable_count, 1, memory_order_relaxed);
    TRY(wait_for_all(local, 2, options));
    local->copies_remote =
        atomic_load_explicit(&local->header->unreadable_count, memory_order_relaxed) == 0;
    local->maps_heaps =
        atomic_load_explicit(&local->header->unmappable_count, memory_order_relaxed) == 0;
    return TUTTI_OK;
}

/* After everybody has arrived: what they say of their places is constant then. */
static void find_order(struct local *local, uint64_t *places)
{
    for (int r = 0; r < local->base.size; r++)
        places[r] =
            atomic_load_explicit(&segment_bell(local->segment, r)->place, memory_order_relaxed);
    if (nearness_order(places, local->base.size, local->order)) return;
    free(local->order);
    local->order = NULL;
}

enum tutti_status local_segment_create(int size, size_t board_bytes, int *fd)
{
    return segment_create(size, board_bytes, fd);
}

enum tutti_status local_open(const struct local_options *options, struct transport **transport)
{
    *transport = NULL;
    const size_t size = (size_t)options->size,
                 channels = TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT;
    struct local *local = calloc(1, sizeof *local);
    struct segment *segment = NULL;
    enum tutti_status status =
        segment_attach(options->segment_fd, options->size, options->board_bytes, &segment);
    if (status == TUTTI_OK && local == NULL) status = error_set(TUTTI_NO_MEMORY, "out of memory");
    if (status != TUTTI_OK) {
        segment_detach(segment);
        free(local);
        return status;
    }
    local->base = (struct transport){
        .ops = options->checks ? &checked_ops : &ops, .rank = options->rank, .size = options->size};
    local->checks = options->checks;
    local->corrupt_peer = -1;
    local->base.signatures = local->base.own_signatures;
    local->door_fd = -1;
    local->segment = segment;
    local->header = segment_header(segment);
    local->bell = segment_bell(segment, options->rank);
    local->peers = calloc(size, sizeof *local->peers);
    local->tx = calloc(channels * size, sizeof(struct local_tx *));
    local->rx = calloc(channels * size * 2, sizeof(struct local_rx *));
    local->order = calloc(size, sizeof *local->order);
    if (options->names != NULL) local->names = calloc(size, sizeof *local->names);
    uint64_t *const places = calloc(size, sizeof *places);
    if (local->peers == NULL || local->tx == NULL || local->rx == NULL || local->order == NULL ||
        places == NULL || (options->names != NULL && local->names == NULL))
        status = error_set(TUTTI_NO_MEMORY, "out of memory");
    if (status == TUTTI_OK) memcpy(local->peers, options->peers, size * sizeof *local->peers);
    if (status == TUTTI_OK && options->names != NULL)
        memcpy(local->names, options->names, size * sizeof *local->names);
    if (status == TUTTI_OK) status = arrive(local, options);
    if (status == TUTTI_OK) find_order(local, places);
    free(places);
    if (status != TUTTI_OK) {
        local_close(&local->base);
        return status;
    }
    *transport = &local->base;
    return TUTTI_OK;
}

void local_close(struct transport *transport)
{
    struct local *local = (struct local *)transport;
    if (local == NULL) return;
    const size_t links =
        (size_t)TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT * (size_t)transport->size;
    for (size_t i = 0; local->tx != NULL && i < links; i++) tx_free(local->tx[i]);
    for (size_t i = 0; local->rx != NULL && i < links * 2; i++) rx_free(local->rx[i]);
    free(local->tx);
    free(local->rx);
    free(local->peers);
    free(local->order);
    free(local->names);
    if (has_door(local)) close(local->door_fd);
    last_word_take_back(local->last_word);
    segment_detach(local->segment);
    free(local);
}

void *local_board(struct transport *transport)
{
    return segment_board(((struct local *)transport)->segment);
}

void local_footprint(const struct transport *transport, struct local_footprint *footprint)
{
    const struct local *local = (const struct local *)transport;
    const struct segment *segment = local->segment;
    const size_t size = (size_t)transport->size,
                 channels = (size_t)TRANSPORT_SLOT_COUNT * TRANSPORT_CHANNEL_COUNT;
    *footprint = (struct local_footprint){
        .private_bytes = sizeof *local + size * sizeof *local->peers +
                         channels * size * (sizeof *local->tx + 2 * sizeof *local->rx) +
                         (local->order != NULL ? size * sizeof *local->order : 0) +
                         (local->names != NULL ? size * sizeof *local->names : 0),
        .descriptor_count = has_door(local),
        .shared_bytes = segment->regions_offset / size};
    for (size_t i = 0; i < channels * size; i++) {
        const struct local_tx *tx = local->tx[i];
        if (tx == NULL) continue;
        footprint->link_count++;
        footprint->private_bytes +=
            sizeof *tx + size * (sizeof *tx->readers + sizeof(struct tail *));
        footprint->shared_bytes += segment_link_bytes(segment, tx->data_reserved);
    }
    for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++)
        if (local->lending[slot].lent != NULL) footprint->shared_bytes += segment->lending_bytes;
    for (size_t channel = 0; channel < channels; channel++) {
        bool reads = false;
        for (size_t i = channel * 2 * size; i < (channel + 1) * 2 * size; i++) {
            const struct local_rx *rx = local->rx[i];
            if (rx == NULL) continue;
            reads = true;
            footprint->link_count++;
            footprint->private_bytes += sizeof *rx + (rx->fetched != NULL ? FETCH_BYTES_MAX : 0);
        }
        if (reads) footprint->shared_bytes += segment->tails_bytes;
    }
}

int local_core_count(struct transport *transport)
{
    int count = 0;
    for (int i = 0; i < 16; i++)
        count += __builtin_popcountll(atomic_load_explicit(
            &((struct local *)transport)->header->cpus[i], memory_order_relaxed));
    return count > 0 ? count : 1;
}

bool local_publishers_fence(const struct transport *transport)
{
    return ((const struct local *)transport)->publishers_fence;
}

bool local_maps_heaps(const struct transport *transport)
{
    const struct local *local = (const struct local *)transport;
    return local->maps_heaps && !local->checks;
}

enum tutti_status local_shortage(const struct transport *transport, uint64_t now_ns, int *peer)
{
    const struct local *local = (const struct local *)transport;
    const uint64_t seen_ns = atomic_load_explicit(&local->shortage_seen_ns, memory_order_relaxed),
                   since_ns = atomic_load_explicit(&local->shortage_since_ns, memory_order_relaxed);
    if (seen_ns == 0 || (int64_t)(now_ns - seen_ns) > (int64_t)SHORTAGE_IS_OVER_NS ||
        (int64_t)(seen_ns - since_ns) < (int64_t)SHORTAGE_NS)
        return TUTTI_OK;
    *peer = name_of(local, atomic_load_explicit(&local->shortage_peer, memory_order_relaxed));
    return (enum tutti_status)atomic_load_explicit(&local->shortage, memory_order_relaxed);
}

int local_corrupt_peer(const struct transport *transport)
{
    const struct local *local = (const struct local *)transport;
    const int peer = atomic_load_explicit(&local->corrupt_peer, memory_order_relaxed);
    return peer >= 0 ? name_of(local, peer) : -1;
}

uint64_t local_mended(const struct transport *transport)
{
    const struct local *local = (const struct local *)transport;
    return atomic_load_explicit(&local->mended, memory_order_relaxed);
}

const int *local_order(const struct transport *transport)
{
    return ((const struct local *)transport)->order;
}
