#include "domain/domain.h"

#include "base/status.h"

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
