/* domain.h - a progress domain: what moves together, and which thread moves it.
 *
 *     free ──domain_try_lock──► one thread moves everything in it ──domain_unlock──► free
 *                                   ▲
 *                  domain_is_wanted: other threads wait. The progress thread, and a thread that
 *                  waits for a started call, unlock after the current piece then; a thread in a
 *                  blocking call keeps the domain until the call ends.
 *
 * The lock is one word. Its holder may be any thread of the process: a caller, a thread in a wait,
 * or the progress thread once the domain is registered with it. Members are for this header and
 * domain.c.
 */
#ifndef TUTTI_DOMAIN_DOMAIN_H
#define TUTTI_DOMAIN_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/progress.h"

struct domain {
    _Alignas(64) _Atomic uint32_t lock; /* 1: some thread has it */
    _Atomic uint32_t wanted;            /* threads that wait for it */
    _Atomic unsigned awake_doublings;   /* how often the time awake before a sleep is doubled */
    _Atomic bool has_output;
    bool may_spin, is_last_look;
    bool was_idle; /* nothing moved in the progress thread's last pass */
    _Atomic bool is_registered;
    struct progress_client client;
};

/* Zeroed before. pass: the progress thread's pass over it, see process/progress.h. */
void domain_init(struct domain *domain,
                 enum progress_result (*pass)(struct progress_client *client));
/* The domain that has this client. */
static inline struct domain *domain_of(struct progress_client *client)
{
    return (struct domain *)(void *)((char *)client - offsetof(struct domain, client));
}

/* ------------------------------------------------------------------------------------- the lock */

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
/* Whether any thread has the lock. */
static inline bool domain_is_locked(const struct domain *domain)
{
    return atomic_load_explicit(&domain->lock, memory_order_relaxed) != 0;
}
/* Whether another thread waits for the lock. domain_want: this thread begins to wait;
 * domain_want_no_more: it does not any more. */
static inline bool domain_is_wanted(const struct domain *domain)
{
    return __builtin_expect(atomic_load_explicit(&domain->wanted, memory_order_relaxed) > 0, 0);
}
static inline void domain_want(struct domain *domain)
{
    atomic_fetch_add_explicit(&domain->wanted, 1, memory_order_relaxed);
}
static inline void domain_want_no_more(struct domain *domain)
{
    atomic_fetch_sub_explicit(&domain->wanted, 1, memory_order_relaxed);
}

/* ---------------------------------------------------------------------------------- what it has */

/* Whether data of finished operations in it is still unsent. Any thread may ask; the holder of the
 * lock sets it. */
static inline bool domain_has_output(const struct domain *domain)
{
    return atomic_load_explicit(&domain->has_output, memory_order_relaxed);
}
static inline void domain_set_output(struct domain *domain, bool has_output)
{
    atomic_store_explicit(&domain->has_output, has_output, memory_order_relaxed);
}

/* ------------------------------------------------------------------------- how it is waited for */

/* Whether a wait may spin: a look costs no system call, and each rank here has a core. true at
 * first; set while the communicator is made. */
static inline bool domain_may_spin(const struct domain *domain)
{
    return domain->may_spin;
}
static inline void domain_set_spinning(struct domain *domain, bool may_spin)
{
    domain->may_spin = may_spin;
}
/* Whether this pass is the holder's last before it sleeps, or does something else for long: then
 * nothing may be left for the next pass. */
static inline bool domain_is_last_look(const struct domain *domain)
{
    return domain->is_last_look;
}
static inline void domain_set_last_look(struct domain *domain, bool is_last_look)
{
    domain->is_last_look = is_last_look;
}
/* The progress thread pauses after a pass in which nothing moved: its next pass is a last look. */
static inline void domain_begin_pass(struct domain *domain)
{
    domain->is_last_look = domain->was_idle;
}
static inline void domain_end_pass(struct domain *domain, bool moved)
{
    domain->is_last_look = false;
    domain->was_idle = !moved;
}
/* The time for which a thread stays awake without progress before it sleeps. */
uint64_t domain_awake_ns(const struct domain *domain);
/* A sleep took so long, waking included. A sleep pays if it is long: after a short sleep the time
 * awake doubles, up to 8 times. Otherwise, where waking takes longer than the others stay awake, as
 * on a busy host of virtual CPUs, ranks would put each other to sleep for every message. */
void domain_learn_sleep(struct domain *domain, uint64_t slept_ns);

/* -------------------------------------------------------------------------- the progress thread */

/* Makes sure that the progress thread moves it. Any thread; several may come at once. NO_MEMORY,
 * SYSTEM. */
enum tutti_status domain_register(struct domain *domain);
/* The progress thread does not move it any more. */
void domain_unregister(struct domain *domain);

#endif
