/* domain.h - a progress domain: what moves together, and which thread moves it.
 *
 *     free ──domain_try_lock──► one thread moves everything in it ──domain_unlock──► free
 *                                   ▲ wanted > 0: others wait, and a holder that only waits lets go after the piece at hand
 *
 * The lock is one word. Whoever holds it may be any thread of the process: a caller, a thread in a wait, or the progress thread once
 * the domain is registered with it.
 */
#ifndef TUTTI_DOMAIN_DOMAIN_H
#define TUTTI_DOMAIN_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "process/progress.h"

struct domain {
    _Alignas(64) _Atomic uint32_t lock; /* 1: some thread has it */
    _Atomic uint32_t wanted;            /* threads that wait for it */
    _Atomic unsigned awake_doubled;     /* how often the time before a sleep was doubled */
    _Atomic bool has_output;    /* something that is over here still waits for room in a socket */
    bool spins;                 /* a look costs no system call, and each rank here has a core */
    bool looks_rarely;          /* whoever has the domain will not look again soon */
    bool has_paused;            /* the progress thread has, since its last pass */
    _Atomic bool is_registered; /* the progress thread knows it */
    struct progress_client client;
};

/* Whether the lock is this thread's now. Never waits. */
static inline bool domain_try_lock(struct domain *domain)
{
    return atomic_load_explicit(&domain->lock, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&domain->lock, 1, memory_order_acquire) == 0;
}
static inline void domain_unlock(struct domain *domain)
{
    atomic_store_explicit(&domain->lock, 0, memory_order_release); /* pairs with domain_try_lock */
}
/* Whether another thread waits for it. */
static inline bool domain_is_wanted(const struct domain *domain)
{
    return __builtin_expect(atomic_load_explicit(&domain->wanted, memory_order_relaxed) > 0, 0);
}
/* Whether unsent data of finished operations lies in it. Any thread may ask; the holder says. */
static inline bool domain_has_output(const struct domain *domain)
{
    return atomic_load_explicit(&domain->has_output, memory_order_relaxed);
}
static inline void domain_set_output(struct domain *domain, bool has_output)
{
    atomic_store_explicit(&domain->has_output, has_output, memory_order_relaxed);
}

/* Makes sure that the progress thread moves it, by client.progress. Any thread; several may come at once. */
enum tutti_status domain_register(struct domain *domain);
/* The progress thread does not move it any more. */
void domain_unregister(struct domain *domain);

#endif
