/* ofi_absent.c - Tutti was built without libfabric: no card is found (library.h), so none is
 * used. */
#include "base/status.h"
#include "transport/ofi/ofi.h"

enum tutti_status ofi_open(const struct remote_options *options, struct data_order *order,
                           struct transport **transport)
{
    (void)options, (void)order;
    *transport = NULL;
    return error_set(TUTTI_UNSUPPORTED, "a network card: this Tutti was built without libfabric");
}

void ofi_close(struct transport *transport)
{
    (void)transport;
}
