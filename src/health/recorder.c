#include "health/recorder.h"

#include <stdlib.h>

#include "base/collective.h"
#include "base/status.h"

enum tutti_status recorder_init(struct recorder *recorder)
{
    if (recorder->entries != NULL) return TUTTI_OK;
    /* Zeroed pages of the system: untouched until they are used, as aligned_alloc and memset would
     * not leave them. */
    recorder->memory = calloc(RECORDER_ENTRIES + 1, sizeof *recorder->entries);
    if (recorder->memory == NULL) return error_set(TUTTI_NO_MEMORY, "a recorder: out of memory");
    const uintptr_t aligned = ((uintptr_t)recorder->memory + 63) / 64 * 64;
    recorder->entries = (struct record_entry *)aligned;
    recorder->base_ticks = clock_ticks();
    recorder->base_ns = clock_now_ns();
    return TUTTI_OK;
}

void recorder_release(struct recorder *recorder)
{
    free(recorder->memory);
    recorder->memory = NULL;
    recorder->entries = NULL;
}

void recorder_set_gated(struct recorder *recorder, uint64_t number, bool is_gated)
{
    if (!CALLS_ARE_WATCHED) return;
    struct record_entry *entry = recorder_place(recorder, number);
    if (number == 0 || atomic_load_explicit(&entry->number, memory_order_relaxed) != number) return;
    /* One bit alone: in a communicator of one rank another thread may begin the next call in this
     * place. */
    if (is_gated)
        atomic_fetch_or_explicit(&entry->what, RECORDER_GATED, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&entry->what, ~(uint32_t)RECORDER_GATED, memory_order_relaxed);
}

void recorder_wait(struct recorder *recorder, uint64_t number, int peer, uint64_t since_ns,
                   uint64_t now_ns)
{
    struct record_entry *entry = recorder_place(recorder, number);
    if (number == 0 || atomic_load_explicit(&entry->number, memory_order_relaxed) != number) return;
    const uint64_t before = atomic_load_explicit(&entry->waits, memory_order_relaxed);
    const uint64_t whom = (uint64_t)(peer + 1);
    if ((before & ~RECORDER_STOPPED) >> RECORDER_WAITS_MS_BITS == whom) return;
    if (before != 0) since_ns = now_ns; /* it waited for another rank before */
    const uint64_t since_ms =
        since_ns > recorder->base_ns ? (since_ns - recorder->base_ns) / 1000000 : 0;
    const uint64_t mask = ((uint64_t)1 << RECORDER_WAITS_MS_BITS) - 1;
    atomic_store_explicit(&entry->waits, whom << RECORDER_WAITS_MS_BITS | (since_ms & mask),
                          memory_order_relaxed);
}

void recorder_set_stopped(struct recorder *recorder, uint64_t number, int peer, bool is_stopped)
{
    struct record_entry *entry = recorder_place(recorder, number);
    if (number == 0 || atomic_load_explicit(&entry->number, memory_order_relaxed) != number) return;
    const uint64_t waits =
        atomic_load_explicit(&entry->waits, memory_order_relaxed) & ~RECORDER_STOPPED;
    if (peer < 0 || waits >> RECORDER_WAITS_MS_BITS != (uint64_t)peer + 1) return;
    atomic_store_explicit(&entry->waits, waits | (is_stopped ? RECORDER_STOPPED : 0),
                          memory_order_relaxed);
}

/* Converts a moment of clock_ticks to clock_now_ns, by two pairs of readings of both clocks. */
static uint64_t nanoseconds(const struct recorder *recorder, uint64_t ticks)
{
    const uint64_t now_ticks = clock_ticks(), now_ns = clock_now_ns();
    if (now_ticks <= recorder->base_ticks || ticks <= recorder->base_ticks)
        return recorder->base_ns;
    const double rate =
        (double)(now_ns - recorder->base_ns) / (double)(now_ticks - recorder->base_ticks);
    const uint64_t ns =
        recorder->base_ns + (uint64_t)((double)(ticks - recorder->base_ticks) * rate);
    return ns < now_ns ? ns : now_ns;
}

bool recorder_read(const struct recorder *recorder, uint64_t number, struct record *record)
{
    if (recorder->entries == NULL || number == 0) return false;
    struct record_entry *entry = recorder_place(recorder, number);
    if (atomic_load_explicit(&entry->number, memory_order_acquire) != number) return false;
    const uint64_t begin = atomic_load_explicit(&entry->begin_ticks, memory_order_acquire);
    const uint64_t end = atomic_load_explicit(&entry->end_ticks, memory_order_acquire);
    const uint64_t waits = atomic_load_explicit(&entry->waits, memory_order_acquire);
    const uint64_t whom = (waits & ~RECORDER_STOPPED) >> RECORDER_WAITS_MS_BITS;
    const uint32_t what = atomic_load_explicit(&entry->what, memory_order_acquire);
    const uint64_t count = atomic_load_explicit(&entry->count, memory_order_acquire);
    *record =
        (struct record){.number = number,
                        .count = count & ((UINT64_C(1) << RECORDER_PATHS_SHIFT) - 1),
                        .paths = (unsigned)(count >> RECORDER_PATHS_SHIFT),
                        .signature = atomic_load_explicit(&entry->signature, memory_order_acquire),
                        .kind = what & 15,
                        .dtype = what >> 4 & 15,
                        .op = what >> 8 & 15,
                        .slot = what >> 12 & 31,
                        .started = (what >> 17 & 1) != 0,
                        .varies = (what >> 18 & 1) != 0,
                        .purpose = what >> 20 & 7,
                        .is_gated = (what & RECORDER_GATED) != 0,
                        .root = atomic_load_explicit(&entry->root, memory_order_acquire),
                        .algorithm = atomic_load_explicit(&entry->algorithm, memory_order_acquire),
                        .status = (enum tutti_status)(what >> 24),
                        .waits_for = (int)whom - 1,
                        .is_stopped = (waits & RECORDER_STOPPED) != 0};
    if (atomic_load_explicit(&entry->number, memory_order_relaxed) != number) return false;
    record->begin_ns = begin == 0 ? clock_now_ns() : nanoseconds(recorder, begin);
    if (end != 0) record->end_ns = end == begin ? record->begin_ns : nanoseconds(recorder, end);
    if (record->waits_for >= 0)
        record->waits_since_ns =
            recorder->base_ns + (waits & (((uint64_t)1 << RECORDER_WAITS_MS_BITS) - 1)) * 1000000;
    return true;
}

uint64_t recorder_done_ns(const struct recorder *recorder)
{
    const uint64_t ticks = atomic_load_explicit(&recorder->done_ticks, memory_order_acquire);
    return ticks == 0 ? 0 : nanoseconds(recorder, ticks);
}

const char *record_kind_name(unsigned kind)
{
    if (kind == RECORD_SEND) return "send";
    if (kind == RECORD_RECV) return "recv";
    return kind < COLLECTIVE_COUNT ? collective_name((enum collective)kind) : "unknown";
}

uint64_t recorder_restart(struct recorder *recorder)
{
    return atomic_exchange_explicit(&recorder->latest, 0, memory_order_relaxed);
}

bool recorder_read_open(const struct recorder *recorder, struct record *record)
{
    const uint64_t last = recorder_latest(recorder);
    bool found = false;
    for (uint64_t number = recorder_first(last); number <= last; number++) {
        struct record entry;
        if (!recorder_read(recorder, number, &entry) || entry.end_ns != 0) continue;
        if (found && entry.slot != 0) continue;
        *record = entry;
        found = true;
        if (entry.slot == 0) break;
    }
    return found;
}
