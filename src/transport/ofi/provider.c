#include "transport/ofi/provider.h"

#include <string.h>

#include "base/status.h"
#include "os/close_on_exec.h"
#include "transport/ofi/regions.h"
#include "transport/ofi/shortage.h"

enum { RECEIVES_MAX = 8192 };

bool ofi_provider_needs(const struct ofi_provider *provider, int mode)
{
    return (provider->facts->domain_attr->mr_mode & mode) != 0;
}

unsigned ofi_provider_receives_max(const struct ofi_provider *provider)
{
    const size_t receives = provider->facts->rx_attr->size;
    return receives > 0 && receives < RECEIVES_MAX ? (unsigned)receives : RECEIVES_MAX;
}

const char *ofi_provider_why(const struct ofi_provider *provider, ssize_t result)
{
    return provider->choice->library->strerror((int)-result);
}

enum tutti_status ofi_provider_refused(const struct ofi_provider *provider, const char *what,
                                       ssize_t result)
{
    return ofi_refuse((int)-result, "provider %s of libfabric: %s: %s", provider->choice->provider,
                      what, ofi_provider_why(provider, result));
}

/* Provider sockets, which only Tutti's looks drive, does not look at its sockets to make its
 * descriptor readable. */
static bool can_be_waited_for(const struct ofi_provider *provider)
{
    return strcmp(provider->info->fabric_attr->prov_name, "sockets") != 0;
}

/* Opens a queue that can be waited for, if the provider has such queues. */
static enum tutti_status open_queue(struct ofi_provider *provider, size_t queue_size)
{
    struct fi_cq_attr attributes = {.size = queue_size + ofi_provider_receives_max(provider),
                                    .format = FI_CQ_FORMAT_MSG,
                                    .wait_obj = FI_WAIT_FD};
    int result = can_be_waited_for(provider)
                     ? fi_cq_open(provider->space, &attributes, &provider->queue, NULL)
                     : -FI_ENOSYS;
    if (result == 0 && fi_control(&provider->queue->fid, FI_GETWAIT, &provider->queue_fd) != 0)
        provider->queue_fd = -1;
    if (result == 0) return TUTTI_OK;
    /* Without the means to wait, ranks would only sleep for moments. */
    if (ofi_is_shortage(ofi_status_of(-result)))
        return ofi_provider_refused(provider, "no completion queue", result);
    attributes.wait_obj = FI_WAIT_NONE;
    result = fi_cq_open(provider->space, &attributes, &provider->queue, NULL);
    return result == 0 ? TUTTI_OK : ofi_provider_refused(provider, "no completion queue", result);
}

static enum tutti_status open_endpoint(struct ofi_provider *provider, int size, size_t queue_size)
{
    struct fi_av_attr addresses = {.type = FI_AV_UNSPEC, .count = (size_t)size};
    const struct fi_fabric_attr *const name = provider->info->fabric_attr;
    int result = provider->choice->library->fabric((struct fi_fabric_attr *)(uintptr_t)name,
                                                   &provider->fabric, NULL);
    if (result != 0) return ofi_provider_refused(provider, "no fabric", result);
    result = fi_domain(provider->fabric, provider->info, &provider->space, NULL);
    if (result != 0) return ofi_provider_refused(provider, "no domain", result);
    result = fi_av_open(provider->space, &addresses, &provider->addresses, NULL);
    if (result != 0) return ofi_provider_refused(provider, "no table of addresses", result);
    TRY(open_queue(provider, queue_size));
    result = fi_endpoint(provider->space, provider->info, &provider->endpoint, NULL);
    if (result != 0) return ofi_provider_refused(provider, "no endpoint", result);
    result = fi_ep_bind(provider->endpoint, &provider->addresses->fid, 0);
    if (result == 0)
        result = fi_ep_bind(provider->endpoint, &provider->queue->fid, FI_TRANSMIT | FI_RECV);
    if (result == 0) result = fi_enable(provider->endpoint);
    return result == 0 ? TUTTI_OK
                       : ofi_provider_refused(provider, "the endpoint does not work", result);
}

enum tutti_status ofi_provider_open(struct ofi_provider *provider, const struct ofi_choice *choice,
                                    unsigned card, int size, size_t queue_size)
{
    const struct fi_info *const info = choice->cards[card].info;
    *provider = (struct ofi_provider){.choice = choice,
                                      .verbs = ofi_calls(),
                                      .info = choice->library->dupinfo(info),
                                      .facts = choice->library->dupinfo(info),
                                      .queue_fd = -1};
    if (provider->info == NULL || provider->facts == NULL)
        return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    provider->verbs->describe(provider->facts);
    /* Any thread may end a registration that outlasts its use. */
    if (ofi_regions_stay(provider->facts)) provider->info->domain_attr->threading = FI_THREAD_SAFE;
    struct close_on_exec since;
    close_on_exec_begin(&since);
    const enum tutti_status status = open_endpoint(provider, size, queue_size);
    close_on_exec_end(&since, provider->queue_fd);
    return status;
}

static void close_object(struct fid *object)
{
    if (object != NULL) (void)fi_close(object);
}

#define CLOSE(object) close_object((object) != NULL ? &(object)->fid : NULL)

int ofi_provider_stop(struct ofi_provider *provider)
{
    const int result =
        provider->endpoint != NULL ? provider->verbs->close_endpoint(provider->endpoint) : 0;
    if (result == 0) provider->endpoint = NULL;
    return result;
}

void ofi_provider_close(struct ofi_provider *provider)
{
    CLOSE(provider->queue);
    CLOSE(provider->addresses);
    CLOSE(provider->space);
    CLOSE(provider->fabric);
    if (provider->info != NULL) provider->choice->library->freeinfo(provider->info);
    if (provider->facts != NULL) provider->choice->library->freeinfo(provider->facts);
    *provider = (struct ofi_provider){0};
}
