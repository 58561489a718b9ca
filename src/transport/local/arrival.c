#include "transport/local/arrival.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/option.h"
#include "base/status.h"
#include "memory/heap.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/futex.h"
#include "os/last_word.h"
#include "transport/local/nearness.h"
#include "transport/local/peer_memory.h"

enum { LOOKS_APART = 500 }; /* naps of a rank that waits for the others at the start: 25 ms */

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
            return error_set(TUTTI_PROC_FAILED, "rank %d died during start-up",
                             local_name_of(local, r));
    return TUTTI_OK;
}

static enum tutti_status look(const struct local *local, const struct host_patience *patience)
{
    TRY(look_at_hidden(local));
    return patience->look != NULL ? patience->look(patience->look_context) : TUTTI_OK;
}

/* The first rank that has not mapped the segment, by the name that others have for it; -1: none. */
static int first_missing(const struct local *local)
{
    for (int r = 0; r < local->base.size; r++)
        if (atomic_load_explicit(&segment_bell(local->segment, r)->probe_address,
                                 memory_order_relaxed) == 0)
            return local_name_of(local, r);
    return -1;
}

static enum tutti_status fail_late(const struct local *local)
{
    const int missing = first_missing(local);
    if (missing < 0)
        return error_set(TUTTI_INIT_TIMEOUT,
                         "after the start-up deadline a rank of this host is not ready");
    return error_set(TUTTI_INIT_TIMEOUT,
                     "rank %d answered at start-up but did not join the segment", missing);
}

/* A rank that waits no longer does not count any more, so that the others do not go on without it.
 * False: all have come, and may have gone on. */
static bool take_back(const struct local *local, uint32_t all)
{
    _Atomic uint32_t *const count = &local->header->ready_count;
    uint32_t seen = atomic_load_explicit(count, memory_order_acquire);
    do
        if (seen >= all) return false;
    while (!atomic_compare_exchange_weak_explicit(count, &seen, seen - 1, memory_order_acq_rel,
                                                  memory_order_acquire));
    return true;
}

/* Waits until all ranks have come to the same point `times` times: all succeed, or none. */
static enum tutti_status wait_for_all(struct local *local, uint32_t times,
                                      const struct host_patience *patience)
{
    const uint32_t all = (uint32_t)local->base.size * times;
    atomic_fetch_add_explicit(&local->header->ready_count, 1, memory_order_acq_rel);
    for (int i = 1; !have_all_come(local, all); i++) {
        if (i < 200)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 50000}, NULL);
        if (clock_now_ns() > patience->deadline_ns && take_back(local, all))
            return fail_late(local);
        if (i % LOOKS_APART != 0) continue;
        const enum tutti_status status = look(local, patience);
        /* The rank that came last may have gone since: then no rank is missing. */
        if (status != TUTTI_OK && take_back(local, all)) return status;
    }
    return TUTTI_OK;
}

static bool reads(const struct local *local, int rank)
{
    const struct host_peer *peer = &local->peers[rank];
    if (peer->same_process) return true;
    const uint64_t address = atomic_load_explicit(
        &segment_bell(local->segment, rank)->probe_address, memory_order_relaxed);
    uint64_t word = 0;
    return peer->pid != 0 && peer_memory_read(peer->pid, address, &word, sizeof word) &&
           word == address;
}

static bool maps(const struct local *local, int rank)
{
    const struct host_peer *peer = &local->peers[rank];
    return peer->same_process ||
           (peer->window != NULL && heap_is_reachable(heap_window_location(peer->window)));
}

/* Whether the kernel allows it depends on users and security modules, of which there are few kinds
 * among the ranks. So each rank tries it with the ranks 1, 2, 4, ... further on, and all must
 * succeed. No rank reaches a process that it cannot see. */
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

static void tell_limit(struct segment_header *header)
{
    const uint32_t own = (uint32_t)cpu_limit();
    uint32_t told = atomic_load_explicit(&header->cpu_limit, memory_order_relaxed);
    if (own == 0) atomic_fetch_add_explicit(&header->unlimited_count, 1, memory_order_relaxed);
    while (told < own &&
           !atomic_compare_exchange_weak_explicit(&header->cpu_limit, &told, own,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

enum tutti_status arrival_meet(struct local *local, const struct host_patience *patience)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        for (int cpu = 0; cpu < 1024 && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &cpus))
                atomic_fetch_or_explicit(&local->header->cpus[cpu / 64], UINT64_C(1) << cpu % 64,
                                         memory_order_relaxed);
    tell_limit(local->header);
    struct cpu_binding place;
    cpu_binding_of_thread(&place);
    atomic_store_explicit(&local->bell->place, nearness_word(&place), memory_order_relaxed);
    if (!fence_register()) {
        atomic_fetch_add_explicit(&local->header->unfenced_count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&local->header->sleeper_count, 1, memory_order_relaxed);
    }
    local->probe = (uint64_t)(uintptr_t)&local->probe;
    atomic_store_explicit(&local->bell->probe_address, local->probe, memory_order_relaxed);
    atomic_store_explicit(&local->bell->heap_bases, heap_bases(), memory_order_relaxed);
    if (first_hidden(local) >= 0) TRY(last_word_give(&local->bell->last_word, &local->last_word));
    TRY(wait_for_all(local, 1, patience));
    local->publishers_fence =
        atomic_load_explicit(&local->header->unfenced_count, memory_order_relaxed) != 0;
    if (!wants_remote_copies() || !can_with_neighbours(local, reads))
        atomic_fetch_add_explicit(&local->header->unreadable_count, 1, memory_order_relaxed);
    if (!can_with_neighbours(local, maps))
        atomic_fetch_add_explicit(&local->header->unmappable_count, 1, memory_order_relaxed);
    return TUTTI_OK;
}

enum tutti_status arrival_end(struct local *local, const struct host_patience *patience)
{
    TRY(wait_for_all(local, 2, patience));
    local->copies_remote =
        atomic_load_explicit(&local->header->unreadable_count, memory_order_relaxed) == 0;
    local->maps_heaps =
        atomic_load_explicit(&local->header->unmappable_count, memory_order_relaxed) == 0;
    return TUTTI_OK;
}

void arrival_find_order(struct local *local, uint64_t *places)
{
    for (int r = 0; r < local->base.size; r++)
        places[r] =
            atomic_load_explicit(&segment_bell(local->segment, r)->place, memory_order_relaxed);
    if (nearness_order(places, local->base.size, local->order)) return;
    free(local->order);
    local->order = NULL;
}
