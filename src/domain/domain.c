#include "domain/domain.h"

#include "base/status.h"

enum tutti_status domain_register(struct domain *domain)
{
    if (atomic_load_explicit(&domain->is_registered, memory_order_relaxed)) return TUTTI_OK;
    TRY(progress_register(&domain->client));
    atomic_store_explicit(&domain->is_registered, true, memory_order_relaxed);
    return TUTTI_OK;
}

void domain_unregister(struct domain *domain)
{
    if (domain->is_registered) progress_unregister(&domain->client);
}
