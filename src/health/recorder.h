/* recorder.h - the flight recorder: the last calls of this rank on a communicator, always on.
 *
 *     begin ──► entry: number 0 (being written), what is called, when, number n ──► end: when, how
 *                             └─ waits: for whom, since when; written only by a rank that has waited long
 *
 * A ring with one cache line for each call, written by the thread that holds the domain. Any thread
 * may read it meanwhile.
 *
 * A look at the processor's clock costs 6 to 16 ns, and a small call takes 200. So a call that is
 * short (small, of ranks that have a core each, over shared memory) is timed once: while it waits
 * for its peers' messages, where the look costs nothing. Its end is looked at only when it has
 * waited long; else end and begin are one. All other calls are timed at both ends. Besides, a call
 * costs the line and two additions for the counters, 3 to 5 ns; blocking ones write it, too, when
 * their own messages have left.
 *
 * Invariants
 *  1. Entry n lies at n % the ring's size; a reader that finds the number n before and after the
 *     rest has read one entry, as on the board.
 *  2. A thread that ends or waits in an entry that was overtaken by newer ones writes nothing.
 *  3. Nothing here takes a lock, a system call or a read-modify-write.
 *
 * It keeps no addresses and no data.
 */
#ifndef TUTTI_HEALTH_RECORDER_H
#define TUTTI_HEALTH_RECORDER_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/encoding.h"
#include "base/status.h"
#include "base/watched.h"
#include "health/board.h"
#include "os/clock.h"
#include "path/path.h"

enum { RECORDER_ENTRIES = 512, RECORDER_WAITS_MS_BITS = 40, RECORDER_PATHS_SHIFT = 52 };
static_assert(RECORDER_PATHS_SHIFT + PATH_KIND_COUNT <= 64, "no buffer has 2^52 elements");
static_assert((RECORDER_ENTRIES & (RECORDER_ENTRIES - 1)) == 0, "places are found by a mask");

/* In place of a collective: a message. */
enum { RECORD_SEND = COLLECTIVE_COUNT, RECORD_RECV, RECORD_KINDS };

struct record_entry {
    _Alignas(64) _Atomic uint64_t number; /* 0 while the rest is being written */
    _Atomic uint64_t begin_ticks;         /* 0: not known yet, it has just begun */
    _Atomic uint64_t end_ticks;           /* 0: not over; as the begin: shortly after it */
    _Atomic uint64_t count; /* and, from RECORDER_PATHS_SHIFT on, the paths that its messages took */
    _Atomic uint64_t signature; /* of a call; the tag of a message */
    const char *_Atomic algorithm;
    _Atomic uint64_t
        waits; /* 0: for nobody; else since when, in ms of the ring, the peer + 1, RECORDER_STOPPED */
    _Atomic uint32_t
        what; /* kind, dtype, op (of a message its encoding), slot, started, varies, gated, purpose, status at its end: see recorder_begin */
    _Atomic int32_t root; /* of a message: the peer */
};
static_assert(sizeof(struct record_entry) == 64, "one cache line a call");

/* The number and bytes of one kind of call; both only grow. */
struct record_count {
    _Atomic uint64_t calls, bytes;
};

struct recorder {
    struct record_entry *entries; /* NULL: nothing is recorded */
    _Atomic uint64_t latest; /* of the latest call, which may wait in line and have no entry yet */
    void *memory;
    _Atomic uint64_t done_ticks;  /* when something ended last; 0: never */
    uint64_t base_ticks, base_ns; /* of one moment, at the beginning */
    struct record_count counts[RECORD_KINDS];
};

/* An entry as it is read; times are of clock_now_ns. */
struct record {
    uint64_t number, count, signature;
    unsigned paths;           /* of path_bit, of a call that is over; 0: not known */
    unsigned kind;            /* enum collective, RECORD_SEND or RECORD_RECV */
    unsigned dtype, op, slot; /* op: of a message enum tutti_encoding */
    bool started, varies;
    unsigned purpose; /* enum call_purpose */
    bool is_gated;    /* waits for its gate; if it is over: waited until the end */
    int root;
    const char *algorithm;     /* of this process, for good; or NULL */
    uint64_t begin_ns, end_ns; /* end 0: not over */
    enum tutti_status status;  /* of a call that is over */
    int waits_for;             /* -1: for nobody, as far as was noticed */
    bool is_stopped;           /* that rank does not run, as far as was noticed */
    uint64_t waits_since_ns;
};

/* Once is enough; again does nothing. NO_MEMORY. A ring costs its memory only as it is used. */
enum tutti_status recorder_init(struct recorder *recorder);
void recorder_release(struct recorder *recorder);

/* ------------------------------------------ writing: one thread at a time, with the domain held */

static inline struct record_entry *recorder_place(const struct recorder *recorder, uint64_t number)
{
    return &recorder->entries[number & (RECORDER_ENTRIES - 1)];
}

static inline void recorder_add(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* The number of the next record, from 1. Callers take turns, so no read-modify-write is needed. */
static inline uint64_t recorder_next(struct recorder *recorder)
{
    const uint64_t number = atomic_load_explicit(&recorder->latest, memory_order_relaxed) + 1;
    /* Pairs with recorder_latest: a thread that sees the number sees a recorder that is ready. */
    atomic_store_explicit(&recorder->latest, number, memory_order_release);
    return number;
}
/* The next record has number 1 again. Returns how many there were. */
uint64_t recorder_restart(struct recorder *recorder);

/* `what` as record_what made it; begin_ticks of clock_ticks, or 0: recorder_end finds it. */
static inline void recorder_begin(struct recorder *recorder, uint64_t number, uint64_t begin_ticks,
                                  uint32_t what, size_t count, int root, uint64_t signature,
                                  const char *algorithm)
{
    struct record_entry *entry = recorder_place(recorder, number);
    atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
    /* Releases, so that a thread that sees one of these (acquire, in recorder_read) sees the zero
     * too. */
    atomic_store_explicit(&entry->begin_ticks, begin_ticks, memory_order_release);
    atomic_store_explicit(&entry->end_ticks, 0, memory_order_release);
    atomic_store_explicit(&entry->count, count, memory_order_release);
    atomic_store_explicit(&entry->signature, signature, memory_order_release);
    atomic_store_explicit(&entry->algorithm, algorithm, memory_order_release);
    atomic_store_explicit(&entry->waits, 0, memory_order_release);
    atomic_store_explicit(&entry->what, what, memory_order_release);
    atomic_store_explicit(&entry->root, root, memory_order_release);
    atomic_store_explicit(&entry->number, number,
                          memory_order_release); /* pairs with recorder_read */
    struct record_count *counted = &recorder->counts[what & 15];
    recorder_add(&counted->calls, 1);
    recorder_add(&counted->bytes, count * dtype_size((enum tutti_dtype)(what >> 4 & 15)));
}

static inline uint32_t record_what(unsigned kind, enum tutti_dtype dtype, unsigned op, int slot,
                                   bool started, bool varies, unsigned purpose)
{
    return kind | (uint32_t)dtype << 4 | op << 8 | (uint32_t)slot << 12 | (uint32_t)started << 17 |
           (uint32_t)varies << 18 | purpose << 20;
}
enum { RECORDER_GATED = 1 << 19 };
#define RECORDER_OP_MASK (UINT32_C(15) << 8)
#define RECORDER_STOPPED (UINT64_C(1) << 63) /* of `waits` */
static_assert(RECORD_KINDS <= 16 && DTYPE_COUNT <= 16 && OP_COUNT <= 16 && ENCODING_COUNT <= 16,
              "four bits each");
static_assert(TRANSPORT_SLOT_COUNT <= 32 && STATUS_COUNT <= 256, "five and eight bits");

/* is_short: the end is where the begin is. An entry that was overtaken by newer ones stays as it
 * is. Number 0 is none. */
static inline void recorder_end(struct recorder *recorder, uint64_t number,
                                enum tutti_status status, bool is_short)
{
    if (!CALLS_ARE_WATCHED) return;
    struct record_entry *entry = recorder_place(recorder, number);
    if (__builtin_expect(
            number == 0 || atomic_load_explicit(&entry->number, memory_order_relaxed) != number, 0))
        return;
    const uint64_t begin = atomic_load_explicit(&entry->begin_ticks, memory_order_relaxed);
    const uint64_t now = is_short && status == TUTTI_OK && begin != 0 ? begin : clock_ticks();
    if (begin == 0) atomic_store_explicit(&entry->begin_ticks, now, memory_order_release);
    if (__builtin_expect(status != TUTTI_OK, 0))
        atomic_store_explicit(&entry->what,
                              atomic_load_explicit(&entry->what, memory_order_relaxed) |
                                  (uint32_t)status << 24,
                              memory_order_relaxed);
    atomic_store_explicit(&entry->end_ticks, now, memory_order_release);
    atomic_store_explicit(&recorder->done_ticks, now,
                          memory_order_release); /* pairs with recorder_done_ns */
}

/* The paths that messages of a call took, when it is over; before recorder_end. */
static inline void recorder_note_paths(struct recorder *recorder, uint64_t number, unsigned paths)
{
    if (!CALLS_ARE_WATCHED) return;
    struct record_entry *entry = recorder_place(recorder, number);
    if (__builtin_expect(
            number == 0 || atomic_load_explicit(&entry->number, memory_order_relaxed) != number, 0))
        return;
    const uint64_t count = atomic_load_explicit(&entry->count, memory_order_relaxed);
    atomic_store_explicit(&entry->count, count | (uint64_t)paths << RECORDER_PATHS_SHIFT,
                          memory_order_relaxed);
}

/* The encoding of a receive, once a message has met it; before recorder_end. */
static inline void recorder_note_encoding(struct recorder *recorder, uint64_t number,
                                          unsigned encoding)
{
    if (!CALLS_ARE_WATCHED) return;
    struct record_entry *entry = recorder_place(recorder, number);
    if (number == 0 || atomic_load_explicit(&entry->number, memory_order_relaxed) != number) return;
    const uint32_t what = atomic_load_explicit(&entry->what, memory_order_relaxed);
    atomic_store_explicit(&entry->what, (what & ~RECORDER_OP_MASK) | encoding << 8,
                          memory_order_relaxed);
}

/* Says that this entry waits for its gate (engine/gate.h), or does not any more. Nothing happens if
 * the entry is not there, or was overtaken. */
void recorder_set_gated(struct recorder *recorder, uint64_t number, bool is_gated);
/* When a wait has become long: says for which peer this entry waits; -1: the peer is not known. */
void recorder_wait(struct recorder *recorder, uint64_t number, int peer, uint64_t since_ns,
                   uint64_t now_ns);
/* After recorder_wait: says whether the peer is known not to run. Nothing happens if this entry
 * waits for another one. */
void recorder_set_stopped(struct recorder *recorder, uint64_t number, int peer, bool is_stopped);

/* -------------------------------------------------------------------------- reading: any thread */

/* Entry `number`; false when it is not there, or not any more. */
bool recorder_read(const struct recorder *recorder, uint64_t number, struct record *record);
/* The oldest entry that may be there, where `last` is the newest. */
static inline uint64_t recorder_first(uint64_t last)
{
    return last < RECORDER_ENTRIES ? 1 : last - RECORDER_ENTRIES + 1;
}
static inline uint64_t recorder_latest(const struct recorder *recorder)
{
    return atomic_load_explicit(&recorder->latest, memory_order_acquire);
}
/* An entry that is not over: the entry of slot 0 if there is one, else the oldest. False: there is
 * none. */
bool recorder_read_open(const struct recorder *recorder, struct record *record);
/* When something ended last, of clock_now_ns; 0: never. */
uint64_t recorder_done_ns(const struct recorder *recorder);
/* "allreduce", ..., "send", "recv" */
const char *record_kind_name(unsigned kind);

#endif
