/* domain.h - a progress domain: what moves together, and which thread moves it.
 *
 *     free ──domain_try_lock──► one thread moves everything in it ──domain_unlock──► free
 *                                   ▲
 *                  domain_is_wanted: other threads wait. The progress thread, and a thread that
 *                  waits for a started call, unlock after the current piece then; a thread in a
 *                  blocking call keeps the domain until the call ends.
 *
 * Its holder may be any thread of the process: a caller, a thread in a wait, or the progress thread
 * once the domain is registered with it. Members are for this header and domain.c.
 *
 * The lock is one word, and to take it costs an exchange, which waits until all stores of this
 * thread have left its core: in a small call that is as long as a message takes. Most communicators
 * are used by one thread. So the first thread that takes the lock is *favoured*: from then on it
 * takes the lock with a store.
 *
 *     nobody yet ──the first holder──► that thread ──another thread comes──► ends ──a fence on all threads──► nobody, for good
 *
 * Invariants
 *  1. While a thread is favoured, no other thread holds the lock: an exchange that succeeds looks at
 *     `favoured` after it, and gives the lock back.
 *  2. A favoured thread stores `is_inside` before it looks at `favoured`. The other one stores
 *     `favoured` before the fence, and looks at `is_inside` after it. So one of them sees the other.
 *  3. Without that fence (os/futex.h) no thread is ever favoured.
 */
#ifndef TUTTI_DOMAIN_DOMAIN_H
#define TUTTI_DOMAIN_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/progress.h"

struct domain {
    _Alignas(64) _Atomic uint32_t lock; /* 1: some thread has it, and not by favour */
    _Atomic bool is_inside;     /* the favoured thread has the lock, or looks whether it may */
    bool is_held_by_favour;     /* the holder's */
    _Atomic uintptr_t favoured; /* enum domain_favour, or domain_this_thread of that thread */
    _Atomic uint32_t wanted;    /* threads that wait for it */
    _Atomic unsigned awake_doublings; /* how often the time awake before a sleep is doubled */
    _Atomic bool has_output;
    bool may_spin, is_last_look;
    bool was_idle; /* nothing moved in the progress thread's last pass */
    _Atomic bool is_registered;
    struct progress_client client;
};

enum domain_favour { FAVOURED_NOBODY_YET, FAVOUR_ENDS, FAVOURED_NOBODY };

/* Zeroed before. pass: the progress thread's pass over it, see process/progress.h. */
void domain_init(struct domain *domain,
                 enum progress_result (*pass)(struct progress_client *client));
/* The domain that has this client. */
static inline struct domain *domain_of(struct progress_client *client)
{
    return (struct domain *)(void *)((char *)client - offsetof(struct domain, client));
}

/* ------------------------------------------------------------------------------------- the lock */

/* Of the thread that asks, and of no other one that runs. */
extern _Thread_local char domain_thread __attribute__((tls_model("initial-exec")));
static inline uintptr_t domain_this_thread(void)
{
    return (uintptr_t)&domain_thread;
}
/* The rest of domain_try_lock, for a thread that is not favoured. */
bool domain_try_lock_plainly(struct domain *domain);

/* Whether the lock is this thread's now. Waits for no holder, only once in the life of a domain for
 * a fence on all threads. */
static inline bool domain_try_lock(struct domain *domain)
{
    const uintptr_t self = domain_this_thread();
    if (atomic_load_explicit(&domain->favoured, memory_order_relaxed) != self)
        return domain_try_lock_plainly(domain);
    if (atomic_load_explicit(&domain->is_inside, memory_order_acquire) ||
        atomic_load_explicit(&domain->lock, memory_order_relaxed) != 0)
        return false; /* its own, from before it was favoured; or one that is given back, see 1 */
    atomic_store_explicit(&domain->is_inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the other thread's fence does the rest */
    if (__builtin_expect(atomic_load_explicit(&domain->favoured, memory_order_relaxed) != self, 0)) {
        atomic_store_explicit(&domain->is_inside, false, memory_order_release);
        return domain_try_lock_plainly(domain);
    }
    domain->is_held_by_favour = true;
    return true;
}
static inline void domain_unlock(struct domain *domain)
{
    if (domain->is_held_by_favour) {
        domain->is_held_by_favour = false;
        atomic_store_explicit(&domain->is_inside, false, memory_order_release);
    } else {
        atomic_store_explicit(&domain->lock, 0, memory_order_release);
    } /* both pair with domain_try_lock */
}
/* Whether any thread has the lock. */
static inline bool domain_is_locked(const struct domain *domain)
{
    return atomic_load_explicit(&domain->lock, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&domain->is_inside, memory_order_relaxed);
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
