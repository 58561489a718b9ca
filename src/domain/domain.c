#include "domain/domain.h"

#include <sched.h>

#include "base/status.h"
#include "os/futex.h"

_Thread_local char domain_thread __attribute__((tls_model("initial-exec")));

enum {
    AWAKE_NS = 200000, /* waking an idle core usually costs a fifth of it */
    AWAKE_DOUBLINGS_MAX = 3,
    SHORT_SLEEP_NS = 1000000
};

void domain_init(struct domain *domain, enum progress_result (*pass)(struct progress_client *client))
{
    domain->client.progress = pass;
    domain->may_spin = true;
}

/* Returns when no thread is favoured any more. */
static void end_favour(struct domain *domain)
{
    uintptr_t favoured = atomic_load_explicit(&domain->favoured, memory_order_relaxed);
    if (favoured > FAVOURED_NOBODY &&
        atomic_compare_exchange_strong_explicit(&domain->favoured, &favoured, FAVOUR_ENDS,
                                                memory_order_relaxed, memory_order_relaxed)) {
        fence_everybody();
        atomic_store_explicit(&domain->favoured, FAVOURED_NOBODY, memory_order_release);
    }
    while (atomic_load_explicit(&domain->favoured, memory_order_acquire) == FAVOUR_ENDS)
        sched_yield(); /* for the fence of another thread */
}

static bool is_settled(const struct domain *domain)
{
    const uintptr_t favoured = atomic_load_explicit(&domain->favoured, memory_order_acquire);
    return favoured == FAVOURED_NOBODY_YET || favoured == FAVOURED_NOBODY;
}

bool domain_try_lock_plainly(struct domain *domain)
{
    if (!is_settled(domain)) end_favour(domain);
    if (atomic_load_explicit(&domain->is_inside, memory_order_acquire) ||
        atomic_load_explicit(&domain->lock, memory_order_relaxed) != 0 ||
        atomic_exchange_explicit(&domain->lock, 1, memory_order_acquire) != 0)
        return false;
    if (!is_settled(domain)) { /* since the first look */
        atomic_store_explicit(&domain->lock, 0, memory_order_release);
        end_favour(domain);
        return domain_try_lock_plainly(domain);
    }
    if (atomic_load_explicit(&domain->favoured, memory_order_relaxed) == FAVOURED_NOBODY_YET)
        atomic_store_explicit(&domain->favoured,
                              fence_register() ? domain_this_thread() : FAVOURED_NOBODY,
                              memory_order_release);
    return true;
}

uint64_t domain_awake_ns(const struct domain *domain)
{
    return (uint64_t)AWAKE_NS << atomic_load_explicit(&domain->awake_doublings,
                                                      memory_order_relaxed);
}

void domain_learn_sleep(struct domain *domain, uint64_t slept_ns)
{
    unsigned doublings = atomic_load_explicit(&domain->awake_doublings, memory_order_relaxed);
    if (slept_ns > SHORT_SLEEP_NS)
        doublings = 0;
    else if (doublings < AWAKE_DOUBLINGS_MAX)
        doublings++;
    atomic_store_explicit(&domain->awake_doublings, doublings, memory_order_relaxed);
}

enum tutti_status domain_register(struct domain *domain)
{
    if (atomic_load_explicit(&domain->is_registered, memory_order_relaxed)) return TUTTI_OK;
    TRY(progress_register(&domain->client));
    atomic_store_explicit(&domain->is_registered, true, memory_order_relaxed);
    return TUTTI_OK;
}

void domain_unregister(struct domain *domain)
{
    if (atomic_load_explicit(&domain->is_registered, memory_order_relaxed))
        progress_unregister(&domain->client);
}
