/* library_absent.c - takes the place of library.c and offers.c if Tutti is built without
 * rdma/fabric.h. */
#include "base/status.h"
#include "transport/ofi/library.h"
#include "transport/ofi/offers.h"

enum tutti_status ofi_library_load(const struct ofi_library **library)
{
    *library = NULL;
    return error_set(TUTTI_UNSUPPORTED, "this Tutti was built without libfabric (Debian: "
                                        "libfabric-dev brings the headers)");
}

enum tutti_status ofi_offers_find(const struct ofi_library *library, const char *sys,
                                  bool with_rest, struct ofi_offers **offers)
{
    (void)library, (void)sys, (void)with_rest;
    *offers = NULL;
    return ofi_library_load(&library);
}

void ofi_offers_free(struct ofi_offers *offers)
{
    (void)offers;
}

const struct ofi_offer *ofi_offers_list(const struct ofi_offers *offers, int *count)
{
    (void)offers;
    *count = 0;
    return NULL;
}

uint32_t ofi_offers_version(const struct ofi_offers *offers, int place)
{
    (void)offers, (void)place;
    return 0;
}

struct fi_info *ofi_offers_take(const struct ofi_offers *offers, int place)
{
    (void)offers, (void)place;
    return NULL;
}

void ofi_offers_try(const struct ofi_offers *offers, int place, char why[static OFI_REASON_MAX])
{
    (void)offers, (void)place;
    why[0] = '\0';
}
