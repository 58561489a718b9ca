/* bells.h - how a rank sleeps, and how the others wake it.
 *
 * Invariant: a rank that publishes something (a message, a tail) looks for sleepers after it. A
 * rank that is about to sleep makes the stores of all ranks visible (fence_everybody) between its
 * announcement and its last look. So publishing needs no fence.
 *
 * If the kernel refuses that fence to a rank, the rank counts as asleep for good. All ranks then go
 * on to look at the bell of each rank that they publish for, with a fence of their own before that
 * look.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_BELLS_H
#define TUTTI_TRANSPORT_LOCAL_BELLS_H

#include "os/futex.h"
#include "transport/local/state.h"

/* Ask after publishing. The common case is one load of a line that is in the caches of all
 * ranks. */
static inline bool bells_somebody_sleeps(struct local *local)
{
    atomic_signal_fence(memory_order_seq_cst);
    return __builtin_expect(
        atomic_load_explicit(&local->header->sleeper_count, memory_order_relaxed) != 0, 0);
}

/* Called if some rank sleeps: wakes those of the given ranks that do. Not inline: a message that
 * finds all ranks awake would save registers for it. */
void bells_ring(struct local *local, const int *ranks, int count);

/* Whether this rank sleeps at a doorbell, not on its futex. */
static inline bool bells_have_door(const struct local *local)
{
    return atomic_load_explicit(&local->door_fd, memory_order_relaxed) >= 0;
}

/* The functions of transport_ops. */
void bells_sleep_begin(struct transport *transport);
void bells_sleep_cancel(struct transport *transport);
void bells_sleep(struct transport *transport, uint64_t timeout_ns);
int bells_descriptor(struct transport *transport);
void bells_wake(struct transport *transport);
void bells_wake_all(struct transport *transport);

#endif
