/* provider.h - the objects of libfabric that a device uses: those of one endpoint, from its fabric
 * down to its completion queue, and what the provider promises and demands. */
#ifndef TUTTI_TRANSPORT_OFI_PROVIDER_H
#define TUTTI_TRANSPORT_OFI_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/ofi/calls.h"
#include "transport/ofi/choice.h"

/* Zeroed before it is opened. */
struct ofi_provider {
    const struct ofi_choice *choice;
    const struct ofi_calls *verbs;
    struct fi_info *info;  /* it was opened with these */
    struct fi_info *facts; /* it is taken to be this: the same, but for tests */
    struct fid_fabric *fabric;
    struct fid_domain *space; /* the domain */
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint;
    int queue_fd; /* to wait at for completions; -1: there is none */
};

/* Opens an endpoint of one of the cards that were chosen for `size` ranks. queue_size: completions
 * that may wait, besides a receive for each place that the provider has. UNSUPPORTED: the provider
 * refuses something, and the error says what; NO_MEMORY, NO_DESCRIPTORS: for want of that
 * (shortage.h). The caller must stop and close it even after a failure. */
enum tutti_status ofi_provider_open(struct ofi_provider *provider, const struct ofi_choice *choice,
                                    unsigned card, int size, size_t queue_size);
/* The number of receives that can be posted at a time. */
unsigned ofi_provider_receives_max(const struct ofi_provider *provider);
/* Whether the provider demands that mode (FI_MR_...). */
bool ofi_provider_needs(const struct ofi_provider *provider, int mode);
/* The text of an error that a call returned, negative. */
const char *ofi_provider_why(const struct ofi_provider *provider, ssize_t result);
/* Sets the error: UNSUPPORTED, NO_MEMORY or NO_DESCRIPTORS. */
enum tutti_status ofi_provider_refused(const struct ofi_provider *provider, const char *what,
                                       ssize_t result);
/* Closes the endpoint: libfabric touches no memory any more. Else returns its error, negative, and
 * the endpoint is as it was: with FI_MR_ENDPOINT, -FI_EBUSY as long as memory is registered. */
int ofi_provider_stop(struct ofi_provider *provider);
/* Closes everything, after a stop that has not failed; before that, all memory that is registered
 * with the provider must be gone. */
void ofi_provider_close(struct ofi_provider *provider);

#endif
